// What every matrix-product kernel is told, and the element types' place in it.
//
// Column-major, as BLAS: C = alpha * op(A) * op(B) + beta * C with op(A) m x k, op(B) k x n.
#pragma once
#include "portable.cuh"

// Laid out as `Arguments` in candle-rocm-runtime/src/gemm/launch.rs. All distances are in elements.
struct GemmProblem {
    const void *a;
    const void *b;
    void *c;
    // Between columns of A as stored (rows of op(A) where A is transposed); likewise B.
    int64_t lda;
    int64_t ldb;
    // Between rows and between columns of C. Tiles need row_c = 1.
    int64_t row_c;
    int64_t ldc;
    // Between matrices of the batch, which is the grid's z.
    int64_t stride_a;
    int64_t stride_b;
    int64_t stride_c;
    double alpha;
    double beta;
    uint32_t m;
    uint32_t n;
    uint32_t k;
    uint32_t reserved;
};

// Whether an operand is used as stored (N) or transposed (T).
enum class Op { N, T };

template <class T> struct Matrices {
    const T *a;
    const T *b;
    T *c;
};

// This workgroup's product of the batch.
template <class T> __device__ __forceinline__ Matrices<T> select_batch(const GemmProblem &p) {
    int64_t z = blockIdx.z;
    return {(const T *)p.a + z * p.stride_a, (const T *)p.b + z * p.stride_b, (T *)p.c + z * p.stride_c};
}

// alpha * sum + beta * old, computed in the compute type and rounded once. `old` is not read where
// beta is 0, so that a NaN there does not spread.
template <class T> struct Epilogue {
    compute_t<T> alpha;
    compute_t<T> beta;

    __device__ __forceinline__ explicit Epilogue(const GemmProblem &p)
        : alpha((compute_t<T>)p.alpha), beta((compute_t<T>)p.beta) {}

    __device__ __forceinline__ T combine(compute_t<T> sum, T old) const {
        return narrow<T>(math::fma(beta, widen(old), alpha * sum));
    }
    __device__ __forceinline__ void store(T *to, compute_t<T> sum) const {
        *to = beta == 0 ? narrow<T>(alpha * sum) : combine(sum, *to);
    }
    // N elements that lie together and are aligned for it.
    template <int N> __device__ __forceinline__ void store(T *to, const compute_t<T> *sums) const {
        vec<T, N> out;
        if (beta == 0) {
#pragma unroll
            for (int i = 0; i < N; i++) out[i] = narrow<T>(alpha * sums[i]);
        } else {
            out = load_vec<vec<T, N>>(to);
#pragma unroll
            for (int i = 0; i < N; i++) out[i] = combine(sums[i], out[i]);
        }
        store_vec(to, out);
    }
};
