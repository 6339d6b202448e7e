// Convolutions whose channels are neighbours in memory, of the image (NHWC) and of the matrix: k is counted by channels
// and then by taps, and both operands are read by 16 bytes, each of which is channels of one tap.
//
//   for each K-block of k:
//     find      its tap, if it is another: what rows add to it, and which are inside
//     load      the next K-block, image and matrix -> registers -> LDS, or straight to LDS some K-blocks ahead
//     multiply  this K-block, LDS -> registers -> sums
//   store       sums -> LDS -> result
//
// A thread has the same chunk of all K-blocks, of some rows and columns: from one K-block to the next its offsets grow
// by as much, until the tap has no more channels.
//
// LDS: K-blocks of both operands, and where rows begin (RowTable) or each row of the result.
#pragma once
#include "convolution/tile.cuh"

// A thread's vectors of both operands, of lines that Rows and Columns say: COUNT of them, line(i), STEP apart, and
// chunk() of the K-block, the same of both.
template <class T, class S, class Rows, class Columns> struct ChannelVectors {
    static constexpr int V = VEC16<T>, SIZE = (int)sizeof(T), DEPTH = S::STAGE_BYTES / SIZE;
    using Table = RowTable<T, S::M>;
    static_assert(Rows::COUNT <= 32 && Columns::COUNT <= 32, "a bit for each line");

    const ConvolutionProblem &p;
    const Phase &phase;
    LdsBytes table;
    // Elements of k: the vector's first, the first that is not there, and channels of the tap, before the vector.
    uint32_t number, end, channel = ~0u;
    // Offsets in bytes at the tap, and lines that are there.
    uint32_t rows[Rows::COUNT], column, column_step, of_tap, rows_inside = 0, columns_inside = 0;

    // Writes the table, which the others see behind a barrier.
    __device__ __forceinline__ ChannelVectors(const ConvolutionProblem &p, const Phase &phase, uint32_t first_row,
                                              uint32_t first_column, uint32_t begin, uint32_t end, LdsBytes table)
        : p(p), phase(phase), table(table), number(begin + Rows::chunk() * V), end(end), of_tap(0) {
        Table::write(table, p, phase, first_row, S::THREADS);
        uint32_t of_column = (uint32_t)p.matrix_column * SIZE;
        column = (first_column + Columns::line(0)) * of_column, column_step = Columns::STEP * of_column;
#pragma unroll
        for (int i = 0; i < Rows::COUNT; i++) rows[i] = 0;
#pragma unroll
        for (int i = 0; i < Columns::COUNT; i++)
            columns_inside |= (uint32_t)(first_column + Columns::line(i) < p.columns) << i;
    }
    // Finds the vector's tap, if it is another than before.
    __device__ __forceinline__ void find() {
        if (channel < p.k_outers.value) return;
        Place k = phase.k(p, number < end ? number : 0);
        Coordinates by = k_coordinates(p, k);
        uint32_t in_image = image_offset<uint32_t>(p, by) * SIZE;
        of_tap = matrix_offset<uint32_t>(p, Place{0, k.z, k.y, k.x}) * SIZE;
        channel = k.outer;
        rows_inside = 0;
#pragma unroll
        for (int i = 0; i < Rows::COUNT; i++) {
            auto [offset, is_inside] = Table::find(table, p, Rows::line(i), by);
            rows[i] = offset + in_image;
            rows_inside |= (uint32_t)is_inside << i;
        }
    }
    __device__ __forceinline__ void advance() { number += DEPTH, channel += DEPTH; }

    // The lines of which the vector is there, and what it adds to their offsets.
    struct Vector {
        uint32_t rows_there, columns_there, of_rows, of_columns;
    };
    __device__ __forceinline__ Vector vector() const {
        bool is_there = number < end;
        uint32_t of_channel = channel * SIZE;
        return {is_there ? rows_inside : 0, is_there ? columns_inside : 0, of_channel, column + of_tap + of_channel};
    }
};

// Through registers, one K-block ahead.
template <class T, class S> struct StagedChannels {
    template <int LINES> struct Mine {
        using Of = Chunks<T, LINES, S, false>;
        static constexpr int COUNT = Of::COUNT, STEP = Of::ROW_STEP;
        static __device__ __forceinline__ uint32_t line(int i) { return Of::row(i); }
        static __device__ __forceinline__ uint32_t chunk() { return Of::chunk(0); }
    };
    using Rows = Mine<S::M>;
    using Columns = Mine<S::N>;
    using Vectors = ChannelVectors<T, S, Rows, Columns>;
    using StageA = typename S::template Stage<T, S::M>;
    using StageB = typename S::template Stage<T, S::N>;
    // Two buffers.
    static constexpr int BUFFER = StageA::BYTES + StageB::BYTES, OPERANDS = 2 * BUFFER, ROWS_AT = OPERANDS,
                         LDS_BYTES = ROWS_AT + Vectors::Table::BYTES;
    static constexpr bool IS_GRADIENT = false;
    using Tile = WaveTile<T, S, OPERANDS>;
    static_assert(Tile::LDS_BYTES == OPERANDS && LDS_BYTES <= LDS_MOST, "results fit where operands were");

    const ConvolutionProblem &p;
    const Phase &phase;
    LdsBytes lds;
    Vectors &vectors;
    Tile &tile;
    SixteenBytes<false> held_a[Rows::COUNT] = {}, held_b[Columns::COUNT] = {};

    __device__ __forceinline__ void load() {
        const GatheredMemory image((const T *)p.image + phase.image), matrix((const T *)p.matrix + phase.matrix);
        vectors.find();
        auto of = vectors.vector();
#pragma unroll
        for (int i = 0; i < Rows::COUNT; i++)
            held_a[i].read(image, of.rows_there >> i & 1 ? vectors.rows[i] + of.of_rows : GatheredMemory::NOWHERE);
#pragma unroll
        for (int i = 0; i < Columns::COUNT; i++)
            held_b[i].read(matrix, of.columns_there >> i & 1 ? of.of_columns + i * vectors.column_step
                                                             : GatheredMemory::NOWHERE);
        vectors.advance();
    }
    __device__ __forceinline__ LdsBytes buffer(uint32_t round) const { return lds + round % 2 * BUFFER; }
    __device__ __forceinline__ void stage(uint32_t round) const {
        LdsBytes to = buffer(round);
        uint32_t chunk = Rows::chunk();
#pragma unroll
        for (int i = 0; i < Rows::COUNT; i++)
            StageA::store(to + StageA::lds_offset(Rows::line(i), chunk * StageA::OF_VECTOR), held_a[i].words());
#pragma unroll
        for (int i = 0; i < Columns::COUNT; i++)
            StageB::store(to + StageA::BYTES + StageB::lds_offset(Columns::line(i), chunk * StageB::OF_VECTOR),
                          held_b[i].words());
    }
    // So many K-blocks, at least one.
    __device__ __forceinline__ void multiply_all(uint32_t k_blocks) {
        load();
        stage(0);
        lds_barrier();
#pragma unroll 1
        for (uint32_t round = 0; round < k_blocks; round++) {
            bool more = round + 1 < k_blocks;
            if (more) {
                load();
                opt_barrier_schedule();
            }
            multiply_stage<T, StageA, StageB>(tile, buffer(round), buffer(round) + StageA::BYTES);
            opt_barrier_schedule();
            if (more) stage(round + 1);
            lds_barrier();
        }
    }
};

#if defined(LDS_COPIES)
#include "matmul/main_loop/direct.cuh"

// Straight to LDS, which a launch asks for.
template <class T, class S> struct DirectChannels {
    using Rows = DirectVectors<SwizzledLines<S::M, S::STAGE_BYTES>, S>;
    using Columns = DirectVectors<SwizzledLines<S::N, S::STAGE_BYTES>, S>;
    using Vectors = ChannelVectors<T, S, Rows, Columns>;
    using Stages = DirectStages<T, S, typename Rows::Lines, typename Columns::Lines, true, true>;
    static constexpr int OPERANDS = Stages::LDS_BYTES, ROWS_AT = OPERANDS, LDS_BYTES = ROWS_AT + Vectors::Table::BYTES;
    static constexpr bool IS_GRADIENT = false;
    using Tile = typename Stages::Tile;
    using Atom = MmaAtom<T>;

    const ConvolutionProblem &p;
    const Phase &phase;
    LdsBytes lds;
    Vectors &vectors;
    Tile &tile;

    // Asks for share `share` of `shares` of the next K-block, if there is one.
    __device__ __forceinline__ void copy(LdsBytes stage, bool is_one, int share, int shares) {
        if (!is_one) return;
        if (share == 0) vectors.find();
        auto of = vectors.vector();
        const char *image = (const char *)((const T *)p.image + phase.image),
                   *matrix = (const char *)((const T *)p.matrix + phase.matrix);
#pragma unroll
        for (int i = 0; i < Rows::COUNT; i++)
            if (i >= share * Rows::COUNT / shares && i < (share + 1) * Rows::COUNT / shares)
                copy_or_clear(stage + Rows::lds_offset(i), image + (vectors.rows[i] + of.of_rows),
                              of.rows_there >> i & 1);
#pragma unroll
        for (int i = 0; i < Columns::COUNT; i++)
            if (i >= share * Columns::COUNT / shares && i < (share + 1) * Columns::COUNT / shares)
                copy_or_clear(stage + Stages::OF_A + Columns::lds_offset(i),
                              matrix + (of.of_columns + i * vectors.column_step), of.columns_there >> i & 1);
        if (share + 1 == shares) vectors.advance();
    }
    // So many K-blocks, at least one.
    __device__ __forceinline__ void multiply_all(uint32_t k_blocks) {
        typename Stages::OperandA of_a(tile.row, Atom::a_row(lane_id()), Atom::a_chunk(lane_id()));
        typename Stages::OperandB of_b(tile.column, Atom::b_column(lane_id()), Atom::b_chunk(lane_id()));
        typename Stages::FragmentsA fragments_a;
        typename Stages::FragmentsB fragments_b;
        Stages stages = {tile, of_a, of_b, fragments_a, fragments_b};
        stages.multiply_stages(lds, k_blocks, [&](LdsBytes stage, bool is_one, int share, int shares) INLINED {
            copy(stage, is_one, share, shares);
        });
    }
};
#endif

// Grid: x tiles, y splits of k, z groups of each phase. Workgroup: S::THREADS.
template <class T, class S, class Loop>
__device__ __forceinline__ void convolution_channels(const ConvolutionProblem &p, LdsBytes lds) {
    TileIndex index = tile_index(p.order, blockIdx.x);
    uint32_t first_row = index.m * S::M, first_column = index.n * S::N, split = p.splits > 1 ? blockIdx.y : 0;
    Phase phase(p, blockIdx.z);
    if (first_row >= phase.rows) return;
    uint32_t begin = min_of(split * p.k_per_split, phase.depth);
    uint32_t end = p.splits > 1 ? min_of(begin + p.k_per_split, phase.depth) : phase.depth;
    typename Loop::Vectors vectors(p, phase, first_row, first_column, begin, end, lds + Loop::ROWS_AT);
    typename Loop::Tile tile;
    Loop loop = {p, phase, lds, vectors, tile};
    lds_barrier();
    if (begin < end) loop.multiply_all(ceil_div(end - begin, (uint32_t)Loop::Vectors::DEPTH));
    store_convolution<T, S>(loop, first_row, first_column, blockIdx.z, split);
}
