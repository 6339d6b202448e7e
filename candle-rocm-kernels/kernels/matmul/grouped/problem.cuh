// What the kernels of grouped products, and of those whose operands have scales, are told beside the product.
#pragma once
#include "matmul/epilogue/epilogue.cuh"
#include "portable/cold_path.cuh"

// Which of an operand's elements share a factor: those of a number of rows that is a power of two ("rows" are A's rows
// or B's columns), and of 128 k that follow one another. Distances in factors; in packed ones, which lie by four along
// k, in fours.
struct OperandScales {
    const void *values;
    int64_t stride; // between matrices
    int64_t row_step;
    int64_t k_step;
    uint32_t row_shift; // the rows' number's logarithm
    uint32_t format;
};
enum ScaleFormat {
    SCALES_F32,
    SCALES_E8M0, // exponents alone, bias 127, 255 is NaN; the first of four lowest
};

// A scale of 8 bits.
__device__ __forceinline__ float scale_of_exponent(uint32_t exponent) {
    // 2^-127 is denormal.
    return bit_cast<float>(exponent == 0 ? 0x00400000u : exponent == 255 ? 0x7fc00000u : exponent << 23);
}

// Elements of k that share a scale.
static constexpr uint32_t SCALE_DEPTH = 128;

enum Grouping {
    // Each matrix of the batch by itself.
    GROUPING_BATCH,
    // C's columns are one matrix, each 128 of them of one group, by whose A they are multiplied. Of column / 128 groups
    // has that group, and GROUP_BITS further up how many of the columns are in use, less one; or it is negative, and
    // nothing is added. Columns that are not in use may get their product or nothing.
    GROUPING_COLUMNS,
    // Of each matrix of the batch groups[z] columns are in use. The others are not written.
    GROUPING_USED,
    // Matrix z of C is the sum over k from groups[z] to groups[z + 1], multiples of 128.
    GROUPING_K,
};
static constexpr uint32_t GROUP_COLUMNS = 128, GROUP_BITS = 20;

// C's element types.
enum ResultType { RESULT_F32, RESULT_F16, RESULT_BF16 };

// Of the product's epilogue there is the residual alone, alpha is 1 and beta 0.
struct GroupedProblem {
    MatmulProblem product;
    OperandScales scales_a;
    OperandScales scales_b;
    const int32_t *groups;
    uint32_t grouping;
    uint32_t result;
    // Of skinny products: 2^log2_slice_k warps of a workgroup share rows and divide k.
    uint32_t log2_slice_k;
    uint32_t reserved;
};
__device__ __forceinline__ const MatmulProblem &product_of(const GroupedProblem &p) { return p.product; }

// Results of a type that is known when the kernel runs: sum + residual, rounded once.
struct GroupedEpilogue {
    using Sum = float;
    char *c;
    const char *residual;
    int64_t ldc, ld_residual;
    uint32_t type;
    bool has_vectors;

    static __device__ __forceinline__ int bytes(uint32_t type) { return type == RESULT_F32 ? 4 : 2; }

    __device__ __forceinline__ GroupedEpilogue(const GroupedProblem &problem, uint32_t z) {
        auto &all = cold_path(problem);
        auto &p = all.product;
        type = all.result;
        c = (char *)p.gemm.c + z * p.gemm.stride_c * bytes(type);
        residual = p.residual ? (const char *)p.residual + z * p.stride_residual * bytes(type) : nullptr;
        ldc = p.gemm.ldc, ld_residual = p.ld_residual;
        has_vectors = type == RESULT_F32 ? vectors<float>() : vectors<half_t>();
    }

    __device__ __forceinline__ void store(uint32_t row, uint32_t column, Sum sum) const { put<1>(row, column, &sum); }
    template <int N> __device__ __forceinline__ void store(uint32_t row, uint32_t column, LDS_MEMORY Sum *sums) const {
        Sum x[N];
#pragma unroll
        for (int i = 0; i < N; i++) x[i] = sums[i];
        put<N>(row, column, x);
    }

private:
    template <class C> __device__ __forceinline__ bool vectors() const {
        return vectors_at((const C *)c, ldc) && vectors_at((const C *)residual, ld_residual);
    }
    template <int N> __device__ __forceinline__ void put(uint32_t row, uint32_t column, const Sum *x) const {
        if (type == RESULT_F32) put_as<float, N>(row, column, x);
        else if (type == RESULT_F16) put_as<half_t, N>(row, column, x);
        else put_as<bf16_t, N>(row, column, x);
    }
    template <class C, int N> __device__ __forceinline__ void put_as(uint32_t row, uint32_t column,
                                                                     const Sum *x) const {
        constexpr int V = min_of(N, VEC16<C>);
        C *to = (C *)c + (int64_t)column * ldc + row;
        const C *more = (const C *)residual + (int64_t)column * ld_residual + row;
#pragma unroll
        for (int first = 0; first < N; first += V) {
            Sum some[V];
#pragma unroll
            for (int i = 0; i < V; i++) some[i] = x[first + i];
            if (residual) {
                vec<C, V> old = read<V>(more + first);
#pragma unroll
                for (int i = 0; i < V; i++) some[i] += upcast(old[i]);
            }
            vec<C, V> out = round_all_to<C>(some);
            if constexpr (V == 1) store_at(to + first, out);
            else store_vector(to + first, out);
        }
    }
    template <int V, class C> static __device__ __forceinline__ vec<C, V> read(const C *from) {
        if constexpr (V == 1) return load_at<vec<C, 1>>(from, 0);
        else return load_vector<vec<C, V>>(from);
    }
};
