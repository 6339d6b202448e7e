// Schemes of products on matrix units (matmul_tile.cuh) whose groups the kernel finds, and whose operands have scales.
#pragma once
#include "matmul/grouped_problem.cuh"
#include "matmul/matmul_tile.cuh"

// The operands' matrices, and what there is of k and of C's columns, by the grouping.
template <class S> __device__ __forceinline__ bool grouped_part(const GroupedProblem &p, TilePart &part) {
    part = tile_part<S>(p.product);
    if (p.grouping == GROUPING_COLUMNS) {
        static_assert(GROUP_COLUMNS % S::N == 0, "a tile has one group");
        int32_t group = p.groups[part.column / GROUP_COLUMNS];
        uint32_t last = (uint32_t)group >> GROUP_BITS;
        part.a = group < 0 ? 0 : group & ((1 << GROUP_BITS) - 1), part.b = 0;
        if (group < 0 || part.column % GROUP_COLUMNS > last) part.end = part.begin;
    } else if (p.grouping == GROUPING_USED) {
        part.columns = min_of((uint32_t)max_of(p.groups[part.z], 0), part.columns);
        return part.column < part.columns;
    } else if (p.grouping == GROUPING_K) {
        part.begin = p.groups[part.z], part.end = p.groups[part.z + 1];
        part.a = part.b = 0;
    }
    return true;
}

template <class T, class S> struct Grouped {
    using Problem = GroupedProblem;
    using Results = GroupedResults;
    template <class Tile> using Scales = typename Plain<T, S>::template Scales<Tile, GroupedProblem>;
    static __device__ __forceinline__ bool part_of(const GroupedProblem &p, TilePart &part) {
        return grouped_part<S>(p, part);
    }
};

// Each 128 of k are summed by themselves, and added to the result times both operands' factors, in f32. ROWS_SHARE
// where all of a tile's rows have one, as those of weights.
template <class T, class S, bool ROWS_SHARE> struct ScaledBy : Grouped<T, S> {
    template <class Tile> struct Scales {
        using Unit = MatrixUnit<T>;
        using Sums = typename Unit::Sums;
        // Whether all factors are read a slice before they are needed, for which wavefronts of 64 have registers: a
        // barrier follows then, and the next block's may take their place.
        static constexpr bool AHEAD = ROWS_SHARE && S::WAVE == 64;
        static constexpr int ROWS = S::M + S::N, BUFFER = ROWS * (int)sizeof(float), BUFFERS = AHEAD ? 1 : 2;
        static constexpr int LDS_BYTES = BUFFERS * BUFFER;
        static_assert(!AHEAD || S::SLICES > 1, "a slice before the last");
        static constexpr int COUNT = ceil_div(ROWS, S::THREADS);
        static_assert(S::SLICE_BYTES * S::SLICES == SCALE_DEPTH * sizeof(T), "a panel has one factor");

        // A thread's factors: of row threadIdx.x + i * THREADS of A's, then B's.
        const GroupedProblem &problem;
        const GLOBAL_MEMORY char *from[COUNT];
        uint32_t block;       // of k
        uint32_t held[COUNT]; // as they are in memory, lest anything waits for them
        Sums totals[Tile::BLOCKS_M][Tile::BLOCKS_N] = {};
        Sums of_columns[Tile::BLOCKS_N];

        __device__ __forceinline__ Scales(const GroupedProblem &p, const TilePart &part)
            : problem(p), block(part.begin / SCALE_DEPTH) {
            const GemmProblem &g = p.product.gemm;
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                uint32_t index = row(i);
                from[i] = index < S::M
                              ? first(p.scales_a, part.a, min_of(part.row + index, g.m - 1))
                              : first(p.scales_b, part.b, min_of(part.column + index - S::M, part.columns - 1));
            }
        }
        static __device__ __forceinline__ const GLOBAL_MEMORY char *first(const OperandScales &s, uint32_t matrix,
                                                                          uint32_t row) {
            return (const GLOBAL_MEMORY char *)s.values + (matrix * s.stride + (row >> s.row_shift) * s.row_step) * 4;
        }
        static __device__ __forceinline__ uint32_t row(int i) { return threadIdx.x + i * S::THREADS; }
        static __device__ __forceinline__ bool mine(int i) { return ROWS % S::THREADS == 0 || row(i) < ROWS; }
        // Whether a thread's factors are packed.
        __device__ __forceinline__ bool packed(int i) const {
            auto &p = seldom(problem);
            bool of_a = p.scales_a.format == SCALES_E8M0, of_b = p.scales_b.format == SCALES_E8M0;
            return row(i) < S::M ? of_a : of_b;
        }
        // Reads the next block's.
        __device__ __forceinline__ void load() {
            auto &p = seldom(problem);
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
                if (mine(i)) lds_store(lds + buffer % BUFFERS * BUFFER + row(i) * 4, factor * Unit::SCALE);
            }
        }
        // Those of k, wherever it lies in its block.
        __device__ __forceinline__ void stage_any(LdsBytes lds, uint32_t k) {
            block = k / SCALE_DEPTH;
            load();
            stage(lds, 0);
        }
        // Reads the columns' factors, with the rows' in them where those share one.
        __device__ __forceinline__ void prepare(const Tile &tile, LdsBytes lds, uint32_t buffer) {
            LdsBytes rows = lds + buffer % BUFFERS * BUFFER + tile.row * 4;
            LdsBytes columns = lds + buffer % BUFFERS * BUFFER + (S::M + tile.column) * 4;
            const uint32_t lane = lane_id();
#pragma unroll
            for (int j = 0; j < Tile::BLOCKS_N; j++) {
                of_columns[j] = read(columns, [&](int e) INLINED { return j * Unit::COLUMNS + Unit::column(lane, e); });
                if (ROWS_SHARE) of_columns[j] *= lds_load<float>(rows);
            }
        }
        // Adds a block's sums to those of all of k, after prepare().
        __device__ __forceinline__ void promote(Tile &tile, LdsBytes lds, uint32_t buffer) {
            LdsBytes rows = lds + buffer % BUFFERS * BUFFER + tile.row * 4;
            const uint32_t lane = lane_id();
#pragma unroll
            for (int i = 0; i < Tile::BLOCKS_M; i++) {
                Sums of_rows = {};
                if (!ROWS_SHARE)
                    of_rows = read(rows, [&](int e) INLINED { return i * Unit::ROWS + Unit::row(lane, e); });
#pragma unroll
                for (int j = 0; j < Tile::BLOCKS_N; j++) {
                    Sums factors = ROWS_SHARE ? of_columns[j] : of_rows * of_columns[j];
                    totals[i][j] = __builtin_elementwise_fma(tile.sums[i][j], factors, totals[i][j]);
                    tile.sums[i][j] = Sums{};
                }
            }
        }
        __device__ __forceinline__ void finish(Tile &tile) const {
#pragma unroll
            for (int i = 0; i < Tile::BLOCKS_M; i++)
#pragma unroll
                for (int j = 0; j < Tile::BLOCKS_N; j++) tile.sums[i][j] = totals[i][j];
        }

    private:
        // The factors of a lane's sums, whose places at `from` are given.
        template <class F> static __device__ __forceinline__ Sums read(const LDS_MEMORY char *from, F place) {
            auto factor = [&](int e) INLINED {
                return lds_load<float>(from + place(e) * 4);
            };
            if constexpr (Unit::SUMS == 1) return factor(0);
            else {
                Sums factors;
#pragma unroll
                for (int e = 0; e < Unit::SUMS; e++) factors[e] = factor(e);
                return factors;
            }
        }
    };
};
template <class T, class S> struct Scaled : ScaledBy<T, S, false> {};
template <class T, class S> struct ScaledByBlocks : ScaledBy<T, S, true> {
    static_assert(S::M <= SCALE_DEPTH, "a block's rows are a tile's or more");
};
