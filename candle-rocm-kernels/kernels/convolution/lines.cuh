// Gradients of weights whose elements of k, places of outputs, lie together along x, as those of the image do: both
// operands are read in vectors along lines, and each vector of the image serves a line of TAPS taps.
//
//   load      the next K-block, image and matrix -> registers
//   multiply  this K-block, LDS -> registers -> sums
//   stage     the next K-block, registers -> LDS, when all have multiplied: a row for each tap, by byte permutes
//
// k is counted in whole chunks of 8 places: a line's last one ends with places that are 0 in both operands. So
// p.x.taps, and p.depth, count chunks' places, while phase.x.taps counts those of outputs.
//
// Rows of the result are taps along x, then the other taps, then channels: TAPS rows are one line of the image.
#pragma once
#include "convolution/tile.cuh"

// Eight neighbours of 16 bits on their way, which are read UNIT at a time.
template <int UNIT> struct LineVector : SixteenBytes<UNIT == 1> {
    static constexpr int READS = (int)LINE_CHUNK / UNIT;
    using SixteenBytes<UNIT == 1>::part;

    // Those of the first `count`, which are whole units; the others are 0.
    __device__ __forceinline__ void read(const GatheredMemory &memory, uint32_t offset, uint32_t count) {
#pragma unroll
        for (int i = 0; i < READS; i++) {
            uint32_t at = i * UNIT, from = at < count ? offset + at * 2 : GatheredMemory::NOWHERE;
            if constexpr (UNIT == 8) SixteenBytes<false>::read(memory, from);
            else if constexpr (UNIT == 2) part[i] = memory.read_32(from);
            else part[i] = memory.read_16(from);
        }
    }
};

// A thread's vectors of an operand of so many lines: those of its chunk, of some lines.
template <int LINES, class S> struct LineVectors {
    static constexpr int TOTAL = LINES * S::VECTORS, COUNT = ceil_div(TOTAL, S::THREADS);
    static constexpr int STEP = S::THREADS / S::VECTORS;
    static __device__ __forceinline__ uint32_t chunk() { return threadIdx.x % S::VECTORS; }
    static __device__ __forceinline__ uint32_t line(int i) { return threadIdx.x / S::VECTORS + i * STEP; }
    static __device__ __forceinline__ bool mine(int i) { return TOTAL % S::THREADS == 0 || line(i) < LINES; }
};

// Rows that are gathered from the image.
template <class T, class S, int TAPS, int UNIT> struct ImageLines {
    using Stage = typename S::template Stage<T, S::M>;
    using Mine = LineVectors<S::M / TAPS, S>;
    static constexpr int COUNT = Mine::COUNT;
    static_assert(S::M % TAPS == 0 && (TAPS == 1 || TAPS == 3), "taps of a line");

    GatheredMemory memory;
    uint32_t offset[COUNT];
    int32_t z[COUNT], y[COUNT];
    LineVector<UNIT> held[COUNT];
    uint16_t before[COUNT], after[COUNT];
    uint32_t count;

    __device__ __forceinline__ ImageLines(const ConvolutionProblem &p, const Phase &phase, uint32_t first_row)
        : memory((const T *)p.image + phase.image) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            uint32_t number = first_row + Mine::line(i) * TAPS;
            bool is_there = number < phase.rows;
            Place row = phase.row(p, is_there ? number : 0);
            Coordinates at = row_coordinates(p, phase, row);
            if (TAPS == 3) at.x = 0;
            offset[i] = (row.outer * (uint32_t)p.image_row + image_offset<uint32_t>(p, at)) * 2;
            z[i] = at.z, y[i] = is_there ? at.y : OUTSIDE;
        }
    }
    __device__ __forceinline__ void load(const ConvolutionProblem &p, const ChunkOfK &k) {
        Coordinates by = {(int32_t)k.z * p.z.k_step, (int32_t)k.y * p.y.k_step, (int32_t)k.x};
        uint32_t of_k = (k.outer * (uint32_t)p.image_k + image_offset<uint32_t>(p, by)) * 2;
        count = k.count;
        bool is_first = k.x == 0, is_last = k.x + LINE_CHUNK >= (uint32_t)p.x.size;
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            bool is_inside =
                (uint32_t)(z[i] + by.z) < (uint32_t)p.z.size && (uint32_t)(y[i] + by.y) < (uint32_t)p.y.size;
            uint32_t from = offset[i] + of_k, there = is_inside && Mine::mine(i) ? count : 0;
            held[i].read(memory, from, there);
            if constexpr (TAPS == 3) {
                before[i] = memory.read_16(there == 0 || is_first ? GatheredMemory::NOWHERE : from - 2);
                after[i] = memory.read_16(there == 0 || is_last ? GatheredMemory::NOWHERE : from + 16);
            }
        }
    }
    __device__ __forceinline__ void stage(LdsBytes to) const {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            if (!Mine::mine(i)) continue;
            auto words = held[i].words();
            if constexpr (TAPS == 1) {
                Stage::store(to + Stage::lds_offset(Mine::line(i), Mine::chunk()), words);
                continue;
            }
            WordVector<4>::type earlier, later;
#pragma unroll
            for (int w = 0; w < 4; w++) {
                uint32_t left = w == 0 ? (uint32_t)before[i] << 16 : words[w - 1],
                         right = w == 3 ? after[i] : words[w + 1];
                earlier[w] = permute_bytes(left, words[w], byte_selector(2, 3, 4, 5));
                later[w] = permute_bytes(words[w], right, byte_selector(2, 3, 4, 5));
                // What is behind the last place of outputs meets none.
                if (UNIT < 8 && (uint32_t)(2 * w) >= count) earlier[w] = 0;
                if (UNIT == 1 && (uint32_t)(2 * w + 1) == count) earlier[w] &= 0xffff;
            }
            uint32_t row = Mine::line(i) * TAPS;
            Stage::store(to + Stage::lds_offset(row, Mine::chunk()), earlier);
            Stage::store(to + Stage::lds_offset(row + 1, Mine::chunk()), words);
            Stage::store(to + Stage::lds_offset(row + 2, Mine::chunk()), later);
        }
    }
};

// Columns of the matrix.
template <class T, class S, int UNIT> struct MatrixLines {
    using Stage = typename S::template Stage<T, S::N>;
    using Mine = LineVectors<S::N, S>;
    static constexpr int COUNT = Mine::COUNT;

    GatheredMemory memory;
    uint32_t offset, step, left;
    LineVector<UNIT> held[COUNT];

    __device__ __forceinline__ MatrixLines(const ConvolutionProblem &p, const Phase &phase, uint32_t first_column)
        : memory((const T *)p.matrix + phase.matrix), step((uint32_t)p.matrix_column * 2),
          left(p.columns - first_column) {
        offset = (first_column + Mine::line(0)) * step;
    }
    __device__ __forceinline__ void load(const ConvolutionProblem &p, const ChunkOfK &k) {
        uint32_t of_k = matrix_offset<uint32_t>(p, Place{k.outer, k.z, k.y, k.x}) * 2;
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            held[i].read(memory, offset + i * Mine::STEP * step + of_k,
                         Mine::line(i) < left && Mine::mine(i) ? k.count : 0);
    }
    __device__ __forceinline__ void stage(LdsBytes to) const {
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            if (Mine::mine(i)) Stage::store(to + Stage::lds_offset(Mine::line(i), Mine::chunk()), held[i].words());
    }
};

template <class T, class S, int TAPS, int UNIT> struct LineVectorsLoop {
    static_assert(sizeof(T) == 2, "taps are made by halves of words");
    using Image = ImageLines<T, S, TAPS, UNIT>;
    using Matrix = MatrixLines<T, S, UNIT>;
    using Tile = WaveTile<T, S, Image::Stage::BYTES + Matrix::Stage::BYTES>;
    static constexpr bool IS_GRADIENT = true;
    static constexpr int OPERANDS = Tile::LDS_BYTES, ROWS_AT = OPERANDS, LDS_BYTES = ROWS_AT + S::M * 4;
    static_assert(LDS_BYTES <= LDS_MOST, "what a workgroup may have");

    const ConvolutionProblem &p;
    const Phase &phase;
    LdsBytes lds;
    Image &image;
    Matrix &matrix;
    Tile &tile;

    __device__ __forceinline__ void load(uint32_t first, uint32_t end) {
        ChunkOfK k(p, phase, first + LineVectors<S::N, S>::chunk(), end);
        image.load(p, k);
        matrix.load(p, k);
    }
    __device__ __forceinline__ void multiply() {
        multiply_stage<T, typename Image::Stage, typename Matrix::Stage>(tile, lds, lds + Image::Stage::BYTES);
    }
    // From chunk `begin` to `end`.
    __device__ __forceinline__ void multiply_all(uint32_t begin, uint32_t end) {
        load(begin, end);
#pragma unroll 1
        for (uint32_t first = begin; first < end; first += S::VECTORS) {
            image.stage(lds);
            matrix.stage(lds + Image::Stage::BYTES);
            lds_barrier();
            // Behind the last, zeros.
            load(first + S::VECTORS, end);
            opt_barrier_schedule();
            multiply();
            opt_barrier_schedule();
            lds_barrier();
        }
    }
};

// Grid: x tiles, y splits of k, z groups. Workgroup: S::THREADS.
template <class T, class S, int TAPS, int UNIT> __device__ __forceinline__ void convolution_lines(
    const ConvolutionProblem &p) {
    using Loop = LineVectorsLoop<T, S, TAPS, UNIT>;
    __shared__ char lds_array[Loop::LDS_BYTES] __attribute__((aligned(128)));
    TileIndex index = tile_index(p.order, blockIdx.x);
    uint32_t first_row = index.m * S::M, first_column = index.n * S::N, split = p.splits > 1 ? blockIdx.y : 0;
    Phase phase(p, blockIdx.z);
    typename Loop::Image image(p, phase, first_row);
    typename Loop::Matrix matrix(p, phase, first_column);
    typename Loop::Tile tile;
    Loop loop = {p, phase, (LdsBytes)lds_array, image, matrix, tile};
    uint32_t begin = min_of(split * p.k_per_split, p.depth);
    uint32_t end = p.splits > 1 ? min_of(begin + p.k_per_split, p.depth) : p.depth;
    loop.multiply_all(begin / LINE_CHUNK, end / LINE_CHUNK);
    store_convolution<T, S>(loop, first_row, first_column, blockIdx.z, split);
}
