// Convolutions as products: a workgroup makes a tile of rows and columns of the result, with operands that are gathered
// into registers and go from there to LDS.
//
//   for each K-block of k:
//     load     the next K-block, image and matrix -> registers
//     table    what the elements of some that follow add to places -> LDS   (of one in several)
//     multiply this K-block, LDS -> registers -> sums
//     stage    the next K-block, registers -> LDS   (the buffer that is not being read)
//   store      sums -> LDS -> result
//
// Where few tiles are to be made, a workgroup's wavefronts are K groups (slice-K): each makes the whole tile's sums of
// every K_GROUPS-th K-block, and the first adds the others' to its own.
//
// LDS: two buffers of a K-block of both operands for each K group, two tables, and where each row of the result begins,
// or what rows of the image add to a place.
#pragma once
#include "convolution/along_k.cuh"
#include "convolution/epilogue.cuh"
#include "convolution/vector_atom.cuh"
#include "matmul/main_loop/tile.cuh"

// Adds what stages of both operands make to a wavefront's sums.
template <class T, class StageA, class StageB, class Tile>
__device__ __forceinline__ void multiply_stage(Tile &tile, LdsBytes stage_a, LdsBytes stage_b) {
    using Atom = MmaAtom<T>;
    constexpr int STEPS = StageA::CHUNKS / Atom::STEP_CHUNKS, STEPS_UNROLLED = Atom::UNROLLED ? STEPS : 1;
    uint32_t lane = lane_id();
    Operand<T, StageA, Tile::BLOCKS_M, Atom::ROWS> of_a(tile.row + Atom::a_row(lane), Atom::a_chunk(lane));
    Operand<T, StageB, Tile::BLOCKS_N, Atom::COLUMNS> of_b(tile.column + Atom::b_column(lane), Atom::b_chunk(lane));
#pragma unroll STEPS_UNROLLED
    for (int step = 0; step < STEPS; step++)
#pragma unroll
        for (int load = 0; load < Atom::LOADS; load++) {
            of_a.load(stage_a, step, load);
            of_b.load(stage_b, step, load);
            tile.multiply(of_a.fragment, of_b.fragment);
            // Reading ahead, the compiler would run out of registers.
            if (WAVEFRONT == 32) tile.opt_barrier_ordered();
        }
}

template <class T, class S, Gather GATHER> struct ConvolutionLoop {
    using Atom = MmaAtom<T>;
    using Sum = typename Product<T>::Sum;
    static constexpr bool ALONG_K = GATHER == Gather::ALONG_K;
    // Of weights alone, which nothing activates, with rows together.
    static constexpr bool IS_GRADIENT = false;
    using Image = typename conditional<ALONG_K, ImageAlongK<T, S::M, S>, ImageBlock<T, S::M, S, GATHER>>::type;
    using Matrix = typename conditional<ALONG_K, MatrixAlongK<T, S::N, S>, MatrixBlock<T, S::N, S, GATHER>>::type;
    using Table = typename Image::Table;
    static constexpr int DEPTH = Image::DEPTH, BUFFER = Image::Stage::BYTES + Matrix::Stage::BYTES;
    static constexpr int K_GROUPS = S::K_GROUPS, OF_K_GROUP = 2 * BUFFER, TABLES = K_GROUPS * OF_K_GROUP,
                         OPERANDS = TABLES;
    using Tile = WaveTile<T, S, OPERANDS>;
    static constexpr int ROWS_AT = TABLES + 2 * Table::BYTES,
                         LDS_BYTES = ROWS_AT + (Image::ROWS_BYTES > S::M * 4 ? Image::ROWS_BYTES : S::M * 4);
    static_assert(Tile::LDS_BYTES == OPERANDS && LDS_BYTES <= LDS_MOST, "results fit where operands were");
    // Rounds of a table, in each of which every K group has a K-block.
    static constexpr uint32_t OF_TABLE = Table::ENTRIES / (K_GROUPS * DEPTH);
    static_assert(!Tile::UNEVEN && Table::ENTRIES <= S::THREADS && (K_GROUPS > 1 ? OF_TABLE == 1 : OF_TABLE >= 2),
                  "a thread for each element of a table");

    const ConvolutionProblem &p;
    const Phase &phase;
    LdsBytes lds;
    Image &image;
    Matrix &matrix;
    Tile &tile;

    __device__ __forceinline__ LdsBytes table(uint32_t number) const {
        return lds + TABLES + number % 2 * Table::BYTES;
    }
    __device__ __forceinline__ LdsBytes buffer(uint32_t round) const {
        return lds + S::k_group() * OF_K_GROUP + round % 2 * BUFFER;
    }

    __device__ __forceinline__ void load(uint32_t round) {
        LdsBytes of = table(round / OF_TABLE);
        uint32_t first = (round % OF_TABLE * K_GROUPS + S::k_group()) * DEPTH;
        image.load(p, of, first);
        matrix.load(of, first);
    }
    __device__ __forceinline__ void stage(uint32_t round) {
        image.stage(buffer(round));
        matrix.stage(buffer(round) + Image::Stage::BYTES);
    }
    __device__ __forceinline__ void multiply(uint32_t round) {
        LdsBytes stage_a = buffer(round);
        multiply_stage<T, typename Image::Stage, typename Matrix::Stage>(tile, stage_a, stage_a + Image::Stage::BYTES);
    }
    __device__ __forceinline__ void multiply_all(uint32_t begin, uint32_t end) {
        uint32_t rounds = ceil_div(end - begin, (uint32_t)(K_GROUPS * DEPTH));
        if (rounds == 0) return;
        // The next table, when nobody reads the one before this any more. Of several K groups a table lasts one round,
        // whose loads are of the table before.
        auto write_next = [&](uint32_t round) INLINED {
            if (round % OF_TABLE != 0) return;
            uint32_t next = round / OF_TABLE + 1;
            Table::write(table(next), p, phase, begin + next * Table::ENTRIES, end);
        };
        Table::write(table(0), p, phase, begin, end);
        lds_barrier();
        load(0);
        if constexpr (K_GROUPS > 1) write_next(0);
        stage(0);
        lds_barrier();
#pragma unroll 1
        for (uint32_t round = 0; round < rounds; round++) {
            bool more = round + 1 < rounds;
            if (more) {
                load(round + 1);
                write_next(K_GROUPS > 1 ? round + 1 : round);
                opt_barrier_schedule();
            }
            multiply(round);
            opt_barrier_schedule();
            if (more) stage(round + 1);
            lds_barrier();
        }
        if constexpr (K_GROUPS > 1) add_k_groups();
    }
    // The first K group gets all sums, as lanes have them.
    __device__ __forceinline__ void add_k_groups() {
        constexpr int OF_LANE = Tile::BLOCKS_M * Tile::BLOCKS_N * Atom::SUMS;
        static_assert(K_GROUPS <= 2 && is_same<Sum, float>::value && OF_LANE % 4 == 0 &&
                          sizeof(tile.sums) == OF_LANE * sizeof(float) && S::THREADS * OF_LANE * 4 <= OPERANDS,
                      "two K groups' sums of f32, which fit where operands were");
        auto &own = (float(&)[OF_LANE])tile.sums;
        using Four = WordVector<4>::type;
        LdsBytes mine = lds + S::thread() * sizeof(Four);
        if (S::k_group() > 0) {
#pragma unroll
            for (int i = 0; i < OF_LANE; i += 4)
                lds_store(mine + i * S::THREADS * 4,
                          bit_cast<Four>(vec<float, 4>{own[i], own[i + 1], own[i + 2], own[i + 3]}));
        }
        lds_barrier();
        if (S::k_group() == 0) {
#pragma unroll
            for (int i = 0; i < OF_LANE; i += 4) {
                auto others = bit_cast<vec<float, 4>>(lds_load<Four>(mine + i * S::THREADS * 4));
#pragma unroll
                for (int j = 0; j < 4; j++) own[i + j] += others[j];
            }
        }
        lds_barrier();
    }
};

// A wavefront's sums on their way to the result: strips of blocks go through its own LDS, with a row's columns together
// (COLUMNS) or a column's rows.
template <class T, class Tile, bool COLUMNS> struct ConvolutionStrips {
    using Atom = typename Tile::Atom;
    using Sum = typename Tile::Sum;
    static constexpr int V = VEC16<T>, PAD = 16 / (int)sizeof(Sum);
    // Blocks of a strip, along what is together.
    static constexpr int OF_LINE = COLUMNS ? Atom::COLUMNS : Atom::ROWS, LINES = COLUMNS ? Atom::ROWS : Atom::COLUMNS;
    static constexpr int BLOCKS = COLUMNS ? Tile::BLOCKS_N : Tile::BLOCKS_M;
    static constexpr int blocks_of_strip(int bytes) {
        int blocks = 1;
        while (BLOCKS % (2 * blocks) == 0 && (2 * blocks * OF_LINE + PAD) * LINES * (int)sizeof(Sum) <= bytes)
            blocks *= 2;
        return blocks;
    }
    template <int BYTES> struct Within {
        static constexpr int STRIP = blocks_of_strip(BYTES), LENGTH = STRIP * OF_LINE, PITCH = LENGTH + PAD;
        static_assert(PITCH * LINES * (int)sizeof(Sum) <= BYTES, "a wavefront's place");
        static constexpr int OF_OTHER = COLUMNS ? Tile::BLOCKS_M : Tile::BLOCKS_N, STRIPS = BLOCKS / STRIP * OF_OTHER;

        // Strip `number` of the wavefront's: f(row, column, sums, whether a vector of them) of the tile for each
        // element or vector of it.
        template <class F>
        static __device__ __forceinline__ void each(const Tile &tile, LDS_MEMORY Sum *strip, int number, bool vectors,
                                                    F f) {
#pragma unroll
            for (int n = 0; n < STRIPS; n++)
                if (n == number) write(tile, strip, n / (BLOCKS / STRIP), n % (BLOCKS / STRIP) * STRIP);
            wave_fence();
            uint32_t line0 = number / (BLOCKS / STRIP) * LINES, along0 = number % (BLOCKS / STRIP) * LENGTH;
            uint32_t width = vectors ? V : 1, per_line = vectors ? LENGTH / V : LENGTH;
#pragma unroll 1
            for (uint32_t i = lane_id(); i < per_line * LINES; i += WAVEFRONT) {
                uint32_t line = vectors ? i / (LENGTH / V) : i / LENGTH;
                uint32_t along = (i - line * per_line) * width;
                uint32_t row = COLUMNS ? line0 + line : along0 + along,
                         column = COLUMNS ? along0 + along : line0 + line;
                f(tile.row + row, tile.column + column, strip + line * PITCH + along);
            }
            wave_fence();
        }

    private:
        static __device__ __forceinline__ void write(const Tile &tile, LDS_MEMORY Sum *strip, int other, int first) {
            uint32_t lane = lane_id();
#pragma unroll
            for (int b = 0; b < STRIP; b++) {
                auto block = COLUMNS ? tile.sums[other][first + b] : tile.sums[first + b][other];
#pragma unroll
                for (int e = 0; e < Atom::SUMS; e++) {
                    Sum sum;
                    if constexpr (Atom::SUMS == 1) sum = block;
                    else sum = block[e];
                    uint32_t row = Atom::row(lane, e), column = Atom::column(lane, e);
                    uint32_t line = COLUMNS ? row : column, along = COLUMNS ? column : row;
                    strip[line * PITCH + b * OF_LINE + along] = sum;
                }
            }
        }
    };
};

// Writes a tile's sums that are the result's: finished, or raw as one split of k.
template <class T, class S, class Loop>
__device__ __forceinline__ void store_convolution(const Loop &loop, uint32_t first_row, uint32_t first_column,
                                                  uint32_t z, uint32_t split) {
    using Tile = typename Loop::Tile;
    using Sum = typename Tile::Sum;
    constexpr int OF_WAVE = Loop::OPERANDS / (S::WAVES_M * S::WAVES_N) / 16 * 16;
    const ConvolutionProblem &p = loop.p;
    const Phase &phase = loop.phase;
    auto *places = (LDS_MEMORY uint32_t *)(loop.lds + Loop::ROWS_AT);
    for (uint32_t i = threadIdx.x; i < S::M; i += S::THREADS)
        if (first_row + i < phase.rows) places[i] = result_offset<uint32_t>(p, phase.row(p, first_row + i));
    lds_barrier();
    if constexpr (S::K_GROUPS > 1)
        if (S::k_group() > 0) return;
    auto *strip = (LDS_MEMORY Sum *)(loop.lds + loop.tile.wave * OF_WAVE);
    using Rows = typename ConvolutionStrips<T, Tile, false>::template Within<OF_WAVE>;
    using Columns = typename ConvolutionStrips<T, Tile, true>::template Within<OF_WAVE>;
    uint32_t rows = phase.rows - first_row, columns = p.columns - first_column;
    if (p.splits > 1) {
        Sum *partial = (Sum *)p.partial + (((uint64_t)split * p.groups.value + z) * p.columns + first_column) * p.rows;
#pragma unroll 1
        for (int number = 0; number < Rows::STRIPS; number++)
            Rows::each(loop.tile, strip, number, false,
                       [&](uint32_t row, uint32_t column, LDS_MEMORY Sum *sums) INLINED {
                           if (row < rows && column < columns)
                               partial[(uint64_t)column * p.rows + first_row + row] = *sums;
                       });
        return;
    }
    ConvolutionEpilogue<T, !Loop::IS_GRADIENT> epilogue(p, phase);
    bool vectors = p.store >= STORE_VECTORS_OF_ROWS;
    auto put = [&](auto by_columns, uint32_t row, uint32_t column, LDS_MEMORY Sum *sums) INLINED {
        if (row >= rows || column >= columns) return;
        int64_t at = places[row] + (int64_t)(first_column + column) * p.result_column;
        if (vectors) epilogue.template store_all<by_columns.value>(at, first_column + column, sums);
        else epilogue.store(at, first_column + column, *sums);
    };
    if (Loop::IS_GRADIENT || p.store % 2 == 0) {
#pragma unroll 1
        for (int number = 0; number < Rows::STRIPS; number++)
            Rows::each(loop.tile, strip, number, vectors,
                       [&](uint32_t row, uint32_t column, LDS_MEMORY Sum *sums)
                           INLINED { put(Constant<false>(), row, column, sums); });
    } else if constexpr (!Loop::IS_GRADIENT) {
#pragma unroll 1
        for (int number = 0; number < Columns::STRIPS; number++)
            Columns::each(loop.tile, strip, number, vectors,
                          [&](uint32_t row, uint32_t column, LDS_MEMORY Sum *sums)
                              INLINED { put(Constant<true>(), row, column, sums); });
    }
}

// Grid: x tiles, y splits of k, z groups of each phase. Workgroup: S::THREADS of each K group.
template <class T, class S, Gather GATHER> __device__ __forceinline__ void convolution_tile(
    const ConvolutionProblem &p) {
    using Loop = ConvolutionLoop<T, S, GATHER>;
    __shared__ char lds_array[Loop::LDS_BYTES] __attribute__((aligned(128)));
    TileIndex index = tile_index(p.order, blockIdx.x);
    uint32_t first_row = index.m * S::M, first_column = index.n * S::N, split = p.splits > 1 ? blockIdx.y : 0;
    Phase phase(p, blockIdx.z);
    if (first_row >= phase.rows) return;
    typename Loop::Image image(p, phase, first_row, (LdsBytes)lds_array + Loop::ROWS_AT);
    typename Loop::Matrix matrix(p, phase, first_column);
    typename Loop::Tile tile;
    if constexpr (S::K_GROUPS > 1) {
        tile.wave = uniform(S::thread() / S::WAVE);
        tile.row = tile.wave % S::WAVES_M * Loop::Tile::M;
        tile.column = tile.wave / S::WAVES_M * Loop::Tile::N;
    }
    Loop loop = {p, phase, (LdsBytes)lds_array, image, matrix, tile};
    uint32_t begin = min_of(split * p.k_per_split, phase.depth);
    uint32_t end = p.splits > 1 ? min_of(begin + p.k_per_split, phase.depth) : phase.depth;
    loop.multiply_all(begin, end);
    store_convolution<T, S>(loop, first_row, first_column, blockIdx.z, split);
}
