// GEMM traits of products on matrix units (main_loop/tile.cuh) whose groups the kernel finds, and whose operands have
// scales.
#pragma once
#include "matmul/grouped/problem.cuh"
#include "matmul/main_loop/tile.cuh"

// The operands' matrices, and what there is of k and of C's columns, by the grouping.
template <class S> __device__ __forceinline__ bool grouped_coordinates(const GroupedProblem &p,
                                                                       TileCoordinates &coords) {
    coords = tile_coordinates<S>(p.product);
    if (p.grouping == GROUPING_COLUMNS) {
        static_assert(GROUP_COLUMNS % S::N == 0, "a tile has one group");
        int32_t group = p.groups[coords.column / GROUP_COLUMNS];
        uint32_t last = (uint32_t)group >> GROUP_BITS;
        coords.a = group < 0 ? 0 : group & ((1 << GROUP_BITS) - 1), coords.b = 0;
        if (group < 0 || coords.column % GROUP_COLUMNS > last) coords.end = coords.begin;
    } else if (p.grouping == GROUPING_USED) {
        coords.columns = min_of((uint32_t)max_of(p.groups[coords.z], 0), coords.columns);
        return coords.column < coords.columns;
    } else if (p.grouping == GROUPING_K) {
        coords.begin = p.groups[coords.z], coords.end = p.groups[coords.z + 1];
        coords.a = coords.b = 0;
    }
    return true;
}

template <class T, class S> struct Grouped {
    using Problem = GroupedProblem;
    using Epilogue = GroupedEpilogue;
    template <class Tile> using Scales = typename Plain<T, S>::template Scales<Tile, GroupedProblem>;
    static __device__ __forceinline__ bool coordinates_of(const GroupedProblem &p, TileCoordinates &coords) {
        return grouped_coordinates<S>(p, coords);
    }
    static __device__ __forceinline__ typename Product<T>::C *bare(const GroupedProblem &p, uint32_t z, float &factor) {
        static_assert(is_same<typename Product<T>::C, bf16_t>::value, "the results that are written whole");
        factor = 1;
        bool is_bare = !p.product.residual && p.result == RESULT_BF16;
        return is_bare ? (bf16_t *)p.product.gemm.c + z * p.product.gemm.stride_c : nullptr;
    }
};

// A row's factor of the first k.
__device__ __forceinline__ const GLOBAL_MEMORY char *first_scale(const OperandScales &s, uint32_t matrix,
                                                                 uint32_t row) {
    return (const GLOBAL_MEMORY char *)s.values + (matrix * s.stride + (row >> s.row_shift) * s.row_step) * 4;
}

// A wavefront's sums of all of k, where a tile's sums are of some of it.
template <class Tile, class Sums> struct Totals {
    Sums totals[Tile::BLOCKS_M][Tile::BLOCKS_N] = {};

    // Adds block (i, j) of the tile's, times factors.
    __device__ __forceinline__ void add(const Tile &tile, int i, int j, Sums factors) {
        totals[i][j] = __builtin_elementwise_fma(tile.sums[i][j], factors, totals[i][j]);
    }
    // They are the tile's.
    __device__ __forceinline__ void finish(Tile &tile) const {
#pragma unroll
        for (int i = 0; i < Tile::BLOCKS_M; i++)
#pragma unroll
            for (int j = 0; j < Tile::BLOCKS_N; j++) tile.sums[i][j] = totals[i][j];
    }
};

// Each 128 of k are summed by themselves, and added to the result times both operands' factors, in f32. ROWS_SHARE
// where all of a tile's rows have one, as those of weights.
template <class T, class S, bool ROWS_SHARE> struct ScaledBy : Grouped<T, S> {
    template <class Tile> struct Scales : Totals<Tile, typename MmaAtom<T>::Sums> {
        using Atom = MmaAtom<T>;
        using Sums = typename Atom::Sums;
        // Whether all factors are read a stage before they are needed, for which wavefronts of 64 have registers: a
        // barrier follows then, and the next block's may take their place.
        static constexpr bool PREFETCH = ROWS_SHARE && S::WAVE == 64;
        static constexpr int ROWS = S::M + S::N, BUFFER = ROWS * (int)sizeof(float), BUFFERS = PREFETCH ? 1 : 2;
        static constexpr int LDS_BYTES = BUFFERS * BUFFER;
        static_assert(!PREFETCH || S::STAGES_OF_K_BLOCK > 1, "a stage before the last");
        static constexpr int COUNT = ceil_div(ROWS, S::THREADS);
        static_assert(S::STAGE_BYTES * S::STAGES_OF_K_BLOCK == SCALE_DEPTH * sizeof(T), "a K-block has one factor");

        // A thread's factors: of row threadIdx.x + i * THREADS of A's, then B's.
        const GroupedProblem &problem;
        const GLOBAL_MEMORY char *from[COUNT];
        uint32_t block;       // of k
        uint32_t held[COUNT]; // as they are in memory, lest anything waits for them
        Sums of_columns[Tile::BLOCKS_N];

        __device__ __forceinline__ Scales(const GroupedProblem &p, const TileCoordinates &coords, const Tile &)
            : problem(p), block(coords.begin / SCALE_DEPTH) {
            const GemmProblem &g = p.product.gemm;
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                uint32_t index = row(i);
                from[i] = index < S::M ? first_scale(p.scales_a, coords.a, min_of(coords.row + index, g.m - 1))
                                       : first_scale(p.scales_b, coords.b,
                                                     min_of(coords.column + index - S::M, coords.columns - 1));
            }
        }
        static __device__ __forceinline__ uint32_t row(int i) { return threadIdx.x + i * S::THREADS; }
        static __device__ __forceinline__ bool mine(int i) { return ROWS % S::THREADS == 0 || row(i) < ROWS; }
        // Whether a thread's factors are packed.
        __device__ __forceinline__ bool packed(int i) const {
            auto &p = cold_path(problem);
            bool of_a = p.scales_a.format == SCALES_E8M0, of_b = p.scales_b.format == SCALES_E8M0;
            return row(i) < S::M ? of_a : of_b;
        }
        // Reads the next block's.
        __device__ __forceinline__ void load() {
            auto &p = cold_path(problem);
            int64_t k_step_a = p.scales_a.k_step, k_step_b = p.scales_b.k_step;
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                int64_t step = (row(i) < S::M ? k_step_a : k_step_b) * 4;
                if (mine(i))
                    held[i] = *(const GLOBAL_MEMORY uint32_t *)(from[i] + (packed(i) ? block / 4 : block) * step);
            }
            block++;
        }
        // Writes what was read last.
        __device__ __forceinline__ void stage(LdsBytes lds, uint32_t buffer) const {
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                uint32_t exponent = held[i] >> (block - 1) % 4 * 8 & 0xff;
                float factor = packed(i) ? scale_of_exponent(exponent) : bit_cast<float>(held[i]);
                if (mine(i)) lds_store(lds + buffer % BUFFERS * BUFFER + row(i) * 4, factor * Atom::SCALE);
            }
        }
        // Those of k, wherever it lies in its block.
        __device__ __forceinline__ void stage_any(LdsBytes lds, uint32_t k) {
            block = k / SCALE_DEPTH;
            load();
            stage(lds, 0);
        }
        // Reads the columns' factors, with the rows' in them where those share one. Some blocks' of columns, as below.
        __device__ __forceinline__ void prepare(const Tile &tile, LdsBytes lds, uint32_t buffer, int first = 0,
                                                int end = Tile::BLOCKS_N) {
            LdsBytes rows = lds + buffer % BUFFERS * BUFFER + tile.row * 4;
            LdsBytes columns = lds + buffer % BUFFERS * BUFFER + (S::M + tile.column) * 4;
            const uint32_t lane = lane_id();
#pragma unroll
            for (int j = first; j < end; j++) {
                of_columns[j] = read(columns, [&](int e) INLINED { return j * Atom::COLUMNS + Atom::column(lane, e); });
                if (ROWS_SHARE) of_columns[j] *= lds_load<float>(rows);
            }
        }
        // Adds a block's sums to those of all of k, after prepare().
        __device__ __forceinline__ void promote(Tile &tile, LdsBytes lds, uint32_t buffer, int first = 0,
                                                int end = Tile::BLOCKS_N) {
            LdsBytes rows = lds + buffer % BUFFERS * BUFFER + tile.row * 4;
            const uint32_t lane = lane_id();
#pragma unroll
            for (int i = 0; i < Tile::BLOCKS_M; i++) {
                Sums of_rows = {};
                if (!ROWS_SHARE)
                    of_rows = read(rows, [&](int e) INLINED { return i * Atom::ROWS + Atom::row(lane, e); });
#pragma unroll
                for (int j = first; j < end; j++) {
                    Sums factors = ROWS_SHARE ? of_columns[j] : of_rows * of_columns[j];
                    this->add(tile, i, j, factors);
                    tile.sums[i][j] = Sums{};
                }
            }
        }

    private:
        // The factors of a lane's sums, whose places at `from` are given.
        template <class F> static __device__ __forceinline__ Sums read(const LDS_MEMORY char *from, F place) {
            auto factor = [&](int e) INLINED {
                return lds_load<float>(from + place(e) * 4);
            };
            if constexpr (Atom::SUMS == 1) return factor(0);
            else {
                Sums factors;
#pragma unroll
                for (int e = 0; e < Atom::SUMS; e++) factors[e] = factor(e);
                return factors;
            }
        }
    };
};
template <class T, class S> struct Scaled : ScaledBy<T, S, false> {};
template <class T, class S> struct ScaledByBlocks : ScaledBy<T, S, true> {
    static_assert(S::M / S::WAVES_M <= SCALE_DEPTH, "a block's rows are a wavefront's or more");
};

// Scales where all of a tile's rows have one factor, read by lanes that read those of their own columns: nothing of
// them is in LDS, which the lines fill (main_loop/pipelined.cuh). For atoms whose sums of a lane are of one column.
template <class T, class S> struct ScaledByLanes : Grouped<T, S> {
    static_assert(S::M / S::WAVES_M <= SCALE_DEPTH, "a block's rows are a wavefront's or more");
    template <class Tile> struct Scales : Totals<Tile, typename MmaAtom<T>::Sums> {
        using Atom = MmaAtom<T>;
        using Sums = typename Atom::Sums;
        // Vector instructions by which a column of blocks is scaled, and by which factors become this block's.
        static constexpr int LDS_BYTES = 0, VECTOR = Tile::BLOCKS_M * Atom::SUMS / 2;
        static constexpr int PREPARE = 7 * (1 + Tile::BLOCKS_N);

        const GLOBAL_MEMORY char *of_rows, *of_columns;
        uint32_t offset[Tile::BLOCKS_N]; // of this lane's columns from the tile's first
        int64_t steps[2];                // of A's and B's, between blocks or fours of them
        uint32_t packed_quads;           // which of them are packed
        uint32_t block;                  // of k
        // The next block's, as they are in memory, lest anything waits for them; and this one's.
        uint32_t held_rows, held[Tile::BLOCKS_N];
        float factors[Tile::BLOCKS_N] = {};

        __device__ __forceinline__ Scales(const GroupedProblem &p, const TileCoordinates &coords, const Tile &tile)
            : steps{p.scales_a.k_step * 4, p.scales_b.k_step * 4},
              packed_quads((p.scales_a.format == SCALES_E8M0) + 2 * (p.scales_b.format == SCALES_E8M0)),
              block(coords.begin / SCALE_DEPTH) {
            const OperandScales &columns = p.scales_b;
            of_rows = first_scale(p.scales_a, coords.a, coords.row);
            of_columns = first_scale(columns, coords.b, coords.column);
#pragma unroll
            for (int j = 0; j < Tile::BLOCKS_N; j++) {
                uint32_t column = coords.column + tile.column + j * Atom::COLUMNS + Atom::column(lane_id(), 0);
                uint32_t own = min_of(column, coords.columns - 1) >> columns.row_shift;
                offset[j] = (own - (coords.column >> columns.row_shift)) * (uint32_t)columns.row_step * 4;
            }
        }
        // Reads the next block's.
        __device__ __forceinline__ void load() {
            auto at = [&](int operand, const GLOBAL_MEMORY char *from) INLINED {
                uint32_t line = packed_quads >> operand & 1 ? block / 4 : block;
                return from + line * steps[operand];
            };
            // What all lanes share would be waited for here, on its way to a scalar register.
            uint32_t none = 0;
            opt_barrier_value(none);
            held_rows = *(const GLOBAL_MEMORY uint32_t *)(at(0, of_rows) + none);
            const GLOBAL_MEMORY char *columns = at(1, of_columns);
#pragma unroll
            for (int j = 0; j < Tile::BLOCKS_N; j++) held[j] = *(const GLOBAL_MEMORY uint32_t *)(columns + offset[j]);
            block++;
        }
        // What was read last is this block's. Without branches, so that it may stand among products.
        __device__ __forceinline__ void prepare(const Tile &, LdsBytes, uint32_t) {
            auto factor = [&](int operand, uint32_t held) INLINED {
                uint32_t packed = 0 - (packed_quads >> operand & 1), exponent = held >> (block - 1) % 4 * 8 & 0xff;
                uint32_t of_exponent = bit_cast<uint32_t>(scale_of_exponent(exponent));
                return Atom::SCALE * bit_cast<float>((of_exponent & packed) | (held & ~packed));
            };
            float of_row = factor(0, held_rows);
#pragma unroll
            for (int j = 0; j < Tile::BLOCKS_N; j++) factors[j] = of_row * factor(1, held[j]);
        }
        __device__ __forceinline__ void stage_any(LdsBytes, uint32_t k) {
            block = k / SCALE_DEPTH;
            load();
        }
        // Sums are the next block's: the first of its products have nothing to be added to.
        __device__ __forceinline__ void begin(Tile &tile) const {
#pragma unroll
            for (int i = 0; i < Tile::BLOCKS_M; i++)
#pragma unroll
                for (int j = 0; j < Tile::BLOCKS_N; j++) tile.sums[i][j] = Sums{};
        }
        // Adds those of some columns of blocks to the sums of all of k.
        __device__ __forceinline__ void promote(const Tile &tile, LdsBytes, uint32_t, int first = 0,
                                                int end = Tile::BLOCKS_N) {
#pragma unroll
            for (int j = first; j < end; j++)
#pragma unroll
                for (int i = 0; i < Tile::BLOCKS_M; i++) this->add(tile, i, j, Sums(factors[j]));
        }
    };
};

// Factors that a tile's rows share, by lanes where the tile reads whole lines.
template <class T, class S>
struct ScaledByShape : conditional<S::WHOLE_CACHE_LINES, ScaledByLanes<T, S>, ScaledByBlocks<T, S>>::type {};
