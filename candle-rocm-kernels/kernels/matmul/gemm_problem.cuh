// What every matrix-product kernel is told, and the element types' place in it.
//
// Column-major, as BLAS: C = alpha * op(A) * op(B) + beta * C with op(A) m x k, op(B) k x n.
#pragma once
#include "portable/portable.cuh"

// All distances are in elements. The build makes `candle_rocm_kernels::arguments` of this struct and of those that
// follow it in other headers; the host's are held to it.
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
    // Not 0 where A's and B's elements have 16 bits, and C's are f32 (kernels of module `matmul` alone).
    uint32_t wide_c;
};

// Several elements moved by one load or store, without the alignment of their size: on amdhsa global
// memory is accessed in unaligned mode, so that no leading dimension and no offset is a special case.
// They are named global memory because behind a merge of branches the compiler forgets it, and falls
// back to flat instructions, which look at LDS too.
template <int BYTES> struct Words;
template <> struct Words<2> {
    typedef uint16_t type;
};
template <> struct Words<4> {
    typedef uint32_t type __attribute__((aligned(2)));
};
template <> struct Words<8> {
    typedef uint32_t type __attribute__((ext_vector_type(2), aligned(2)));
};
template <> struct Words<16> {
    typedef uint32_t type __attribute__((ext_vector_type(4), aligned(2)));
};
// Elements of 32 bits and more lie at whole words, which is what NVIDIA's GPUs load and store at once.
template <int BYTES> struct WholeWords {
    typedef uint32_t type __attribute__((ext_vector_type(BYTES / 4), aligned(4)));
};
#if defined(__HIP__)
template <class V, class T> using WordsOf = Words<sizeof(V)>;
#else
template <class V, class T>
using WordsOf = typename conditional<sizeof(T) < 4, Words<sizeof(V)>, WholeWords<sizeof(V)>>::type;
#endif
#define GLOBAL_MEMORY __attribute__((address_space(1)))

// A V at `base`, plus a byte offset and a constant number of elements. Where `base` is the same in all
// lanes the hardware does both additions.
template <class V, class T>
__device__ __forceinline__ V load_at(const T *base, uint32_t offset, int elements = 0) {
    typedef typename WordsOf<V, T>::type Raw;
    const GLOBAL_MEMORY char *from = (const GLOBAL_MEMORY char *)base + offset + elements * (int)sizeof(T);
    return bit_cast<V>(*(const GLOBAL_MEMORY Raw *)from);
}
template <int N, class T> __device__ __forceinline__ void store_at(T *to, const vec<T, N> &value) {
    typedef typename WordsOf<vec<T, N>, T>::type Raw;
    *(GLOBAL_MEMORY Raw *)to = bit_cast<Raw>(value);
}

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

// alpha * sum + beta * C, in the type of the sums. C is not read where beta is 0, so that a NaN there does not spread.
template <class Sum> struct Scaling {
    Sum alpha, beta;

    __device__ __forceinline__ explicit Scaling(const GemmProblem &p) : alpha(scalar(p.alpha)), beta(scalar(p.beta)) {}

    static __device__ __forceinline__ Sum scalar(double value) {
        // By i64, as an i32 given as unsigned wraps.
        if constexpr (is_same<Sum, int32_t>::value) return (int32_t)(int64_t)value;
        else return (Sum)value;
    }

    // Of N sums, whose elements lie together at `c`.
    template <int N, class C, class Sums> __device__ __forceinline__ void operator()(Sum (&x)[N], const Sums &sums,
                                                                                     const C *c) const {
#pragma unroll
        for (int i = 0; i < N; i++) x[i] = alpha * sums[i];
        if (beta == 0) return;
        vec<C, N> old = load_at<vec<C, N>>(c, 0);
#pragma unroll
        for (int i = 0; i < N; i++) {
            if constexpr (is_same<Sum, int32_t>::value) x[i] += beta * upcast(old[i]);
            else x[i] = math::fma(beta, upcast(old[i]), x[i]);
        }
    }
    // And writes them there, rounded once.
    template <int N, class C> __device__ __forceinline__ void store(C *c, const Sum *sums) const {
        Sum x[N];
        (*this)(x, sums, c);
        store_at(c, round_all_to<C>(x));
    }
};
