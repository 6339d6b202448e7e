// Operands whose elements of k are neighbours in memory, as the places of an image are in a gradient of weights: lanes
// have consecutive elements of k of a row, and a thread one of each of some rows.
//
//   thread          k                     rows
//   0 .. DEPTH - 1  0 .. DEPTH - 1        0, ROW_STEP, 2 * ROW_STEP, ...
//   DEPTH ..        0 .. DEPTH - 1        1, ROW_STEP + 1, ...
//
// What rows add to a place stands in LDS, where all lanes of a row read the same.
#pragma once
#include "convolution/operands.cuh"

// A thread's elements of an operand of ROWS rows.
template <class T, int ROWS, class S> struct ElementsAlongK {
    using Stage = typename S::template Stage<T, ROWS>;
    static constexpr int DEPTH = S::STAGE_BYTES / (int)sizeof(T), ROW_STEP = S::THREADS / DEPTH;
    static constexpr int COUNT = ROWS / ROW_STEP;
    static_assert(S::THREADS % DEPTH == 0 && ROWS % ROW_STEP == 0, "all threads have as many");
    // An element on its way.
    using Bits = typename conditional<sizeof(T) == 2, uint16_t,
                                      typename conditional<sizeof(T) == 4, uint32_t, WordVector<2>::type>::type>::type;
    Bits held[COUNT];

    static __device__ __forceinline__ uint32_t k() { return threadIdx.x % DEPTH; }
    static __device__ __forceinline__ uint32_t row(int i) { return threadIdx.x / DEPTH + i * ROW_STEP; }

    __device__ __forceinline__ void read(int i, const GatheredMemory &memory, uint32_t offset) {
        if constexpr (sizeof(T) == 2) held[i] = memory.read_16(offset);
        else if constexpr (sizeof(T) == 4) held[i] = memory.read_32(offset);
        else held[i] = memory.read_64(offset);
    }
    __device__ __forceinline__ void stage(LdsBytes to) const {
        uint32_t bytes = k() * (uint32_t)sizeof(T), chunk = bytes / Stage::CHUNK, rest = bytes % Stage::CHUNK;
#pragma unroll
        for (int i = 0; i < COUNT; i++) lds_store(to + Stage::lds_offset(row(i), chunk) + rest, held[i]);
    }
};

// Rows that are gathered from the image.
template <class T, int ROWS, class S> struct ImageAlongK {
    using Elements = ElementsAlongK<T, ROWS, S>;
    using Stage = typename Elements::Stage;
    using Table = KTable<T>;
    static constexpr int DEPTH = Elements::DEPTH;
    using Rows = RowTable<T, ROWS>;
    static constexpr int ROWS_BYTES = Rows::BYTES;

    GatheredMemory memory;
    LdsBytes rows;
    Elements elements;

    __device__ __forceinline__ ImageAlongK(const ConvolutionProblem &p, const Phase &phase, uint32_t first_row,
                                           LdsBytes rows)
        : memory((const T *)p.image + phase.image), rows(rows) {
        Rows::write(rows, p, phase, first_row, S::THREADS);
    }
    __device__ __forceinline__ void load(const ConvolutionProblem &p, LdsBytes table, uint32_t k_block) {
        uint32_t k = k_block + Elements::k(), offset = Table::image(table, k).offset;
        Coordinates by = Table::compared(table, k);
#pragma unroll
        for (int i = 0; i < Elements::COUNT; i++) {
            auto [from, is_inside] = Rows::find(rows, p, Elements::row(i), by);
            elements.read(i, memory, is_inside ? from + offset : GatheredMemory::NOWHERE);
        }
    }
    __device__ __forceinline__ void stage(LdsBytes to) const { elements.stage(to); }
};

// Columns of the matrix.
template <class T, int COLUMNS, class S> struct MatrixAlongK {
    using Elements = ElementsAlongK<T, COLUMNS, S>;
    using Stage = typename Elements::Stage;
    using Table = KTable<T>;

    GatheredMemory memory;
    uint32_t offset, step, left;
    Elements elements;

    __device__ __forceinline__ MatrixAlongK(const ConvolutionProblem &p, const Phase &phase, uint32_t first_column)
        : memory((const T *)p.matrix + phase.matrix), step((uint32_t)p.matrix_column * (uint32_t)sizeof(T)),
          left(p.columns - first_column) {
        offset = (first_column + Elements::row(0)) * step;
    }
    __device__ __forceinline__ void load(LdsBytes table, uint32_t k_block) {
        auto k = Table::matrix(table, k_block + Elements::k());
#pragma unroll
        for (int i = 0; i < Elements::COUNT; i++) {
            uint32_t from = offset + i * Elements::ROW_STEP * step + k.offset;
            elements.read(i, memory, Elements::row(i) < left ? from | k.outside : GatheredMemory::NOWHERE);
        }
    }
    __device__ __forceinline__ void stage(LdsBytes to) const { elements.stage(to); }
};
