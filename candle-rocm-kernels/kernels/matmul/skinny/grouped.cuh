// Grouped products (grouped/problem.cuh) of few columns, or of groups that have few of theirs in use, as in decoding:
// each group's matrix is read once for each COLUMNS of its columns.
#pragma once
#include "matmul/skinny/fp8.cuh"
#include "matmul/skinny/product.cuh"
#include "matmul/grouped/problem.cuh"

// Sums of each 128 of k times their factors. ROWS_SHARE where all of a warp's rows have one, as those of weights.
template <bool ROWS_SHARE> struct ScaledBlocks {
    static constexpr bool NORMS = false, SCALES = true;
    static constexpr int BLOCK = SCALE_DEPTH;
    // What a unit's operands are multiplied with: of A's and of B's.
    static constexpr float SCALE = MmaAtom<f8e4m3_t>::SCALE * MmaAtom<f8e4m3_t>::SCALE;

    // Of the matrices, and of B's from its first column on.
    OperandScales a, b;

    __device__ __forceinline__ void begin(const GroupedProblem &p, uint32_t matrix_a, uint32_t matrix_b,
                                          uint32_t column) {
        a = p.scales_a, b = p.scales_b;
        a.values = (const float *)a.values + matrix_a * a.stride;
        b.values = (const float *)b.values + matrix_b * b.stride;
        first_column = column;
    }

    // Before the product's loop.
    template <class Atom, class TileOperands>
    __device__ __forceinline__ void find_factors(const TileOperands &at, uint32_t lane) {
        static_assert(Atom::B_VECTORS <= MOST_COLUMNS, "a lane's");
        if (ROWS_SHARE) of_row = offset(a, min_of(at.first + at.warp_row, at.m - 1));
#pragma unroll
        for (int j = 0; j < Atom::B_VECTORS; j++)
            of_column[j] = offset(b, first_column + min_of(Atom::column(lane, j), at.n - 1));
    }

    // As they are in memory, lest anything waits for them.
    template <class Atom> struct Factors {
        uint32_t block;
        uint32_t row;
        uint32_t columns[Atom::B_VECTORS];
    };
    // Those of the block of the split's element k.
    template <class Atom, class TileOperands>
    __device__ __forceinline__ Factors<Atom> load(const TileOperands &at, uint32_t lane, uint32_t k) const {
        Factors<Atom> factors;
        factors.block = min_of(at.first_k + k, at.length - 1) / BLOCK;
        if (ROWS_SHARE) factors.row = word(a, of_row, factors.block);
#pragma unroll
        for (int j = 0; j < Atom::B_VECTORS; j++) factors.columns[j] = word(b, of_column[j], factors.block);
        return factors;
    }
    // Adds a lane's sums of a block. `row_of` gives a tile's row at a place.
    template <class Atom, class TileOperands, int TILES, class F>
    __device__ __forceinline__ void promote(const TileOperands &at, uint32_t lane, typename Atom::Sums (&to)[TILES],
                                            const typename Atom::Sums (&sums)[TILES], const Factors<Atom> &factors,
                                            F row_of) const {
        float of_columns[Atom::B_VECTORS], of_rows = SCALE;
        if (ROWS_SHARE) of_rows *= factor(a, factors.row, factors.block);
#pragma unroll
        for (int j = 0; j < Atom::B_VECTORS; j++)
            of_columns[j] = factor(b, factors.columns[j], factors.block) * of_rows;
#pragma unroll
        for (int i = 0; i < TILES; i++)
            Atom::promote(to[i], sums[i], lane, of_columns, [&](uint32_t place) INLINED {
                if (ROWS_SHARE) return 1.0f;
                uint32_t row = min_of(at.first + at.warp_row + row_of(i, place), at.m - 1);
                return factor(a, word(a, offset(a, row), factors.block), factors.block);
            });
    }

private:
    static constexpr int MOST_COLUMNS = 4;
    uint32_t first_column;
    // From the matrices' first factors. The host checks that all are within 2^32.
    uint32_t of_row, of_column[MOST_COLUMNS];

    static __device__ __forceinline__ uint32_t offset(const OperandScales &s, uint32_t row) {
        return (row >> s.row_shift) * (uint32_t)s.row_step;
    }
    static __device__ __forceinline__ uint32_t word(const OperandScales &s, uint32_t row, uint32_t block) {
        uint32_t along = s.format == SCALES_E8M0 ? block / 4 : block;
        return ((const GLOBAL_MEMORY uint32_t *)s.values)[row + along * (uint32_t)s.k_step];
    }
    static __device__ __forceinline__ float factor(const OperandScales &s, uint32_t word, uint32_t block) {
        float of_exponent = scale_of_exponent(word >> block % 4 * 8 & 0xff);
        return s.format == SCALES_E8M0 ? of_exponent : bit_cast<float>(word);
    }
};

// Results from a column of a matrix on: finished, or raw as one split of k.
struct GroupedStore {
    GroupedEpilogue epilogue;
    GLOBAL_MEMORY float *partial;
    uint32_t rows, column;

    __device__ __forceinline__ GroupedStore(const GroupedProblem &problem, uint32_t z, uint32_t column)
        : epilogue(problem, z), partial(split_sums<float>(problem.product, z)), rows(problem.product.gemm.m),
          column(column) {}
    __device__ __forceinline__ void store(uint32_t row, uint32_t at, float sum) const {
        epilogue.store(row, column + at, sum);
    }
    // The splits' sums are added up by another launch.
    __device__ __forceinline__ bool is_whole(uint32_t row, uint32_t at, float sum) const {
        partial[(uint64_t)(column + at) * rows + row] = sum;
        return false;
    }
};

// Grid: x rows, y splits of k, z matrices of the batch, or blocks of columns. Of `problem.log2_slice_k` warps share
// rows.
template <class T, int COLUMNS, class Input>
__device__ __forceinline__ void skinny_grouped(const GroupedProblem &problem) {
    using Skinny = SkinnyProduct<T, COLUMNS, false, Input>;
    const MatmulProblem &p = problem.product;
    const GemmProblem &g = p.gemm;
    // Which matrices, which columns of theirs, and how many of those are products: of a block of columns, which are
    // all written, the others are 0.
    uint32_t of_a = blockIdx.z, of_b = blockIdx.z, first = 0, count = g.n, in_use = g.n;
    if (problem.grouping == GROUPING_COLUMNS) {
        int32_t group = problem.groups[blockIdx.z];
        first = blockIdx.z * GROUP_COLUMNS, count = min_of(g.n - first, GROUP_COLUMNS);
        of_a = group < 0 ? 0 : group & ((1 << GROUP_BITS) - 1), of_b = 0;
        in_use = group < 0 ? 0 : ((uint32_t)group >> GROUP_BITS) + 1;
    } else if (problem.grouping == GROUPING_USED) {
        count = in_use = min_of((uint32_t)max_of(problem.groups[blockIdx.z], 0), g.n);
    }
    const T *a = (const T *)g.a + of_a * g.stride_a, *b = (const T *)g.b + of_b * g.stride_b;
#pragma unroll 1
    for (uint32_t done = 0; done < count; done += COLUMNS) {
        uint32_t column = first + done;
        if (done > 0) __syncthreads();
        Skinny skinny;
        if constexpr (Input::SCALES) skinny.input.begin(problem, of_a, of_b, column);
        // C's matrix is B's.
        skinny.compute(p, a, b + column * g.ldb, count - done, done < in_use, B_ALONG_K, problem.log2_slice_k,
                       [&]() INLINED { return GroupedStore(problem, of_b, column); });
    }
}
