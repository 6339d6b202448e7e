// nvcuda::wmma: matrices in fragments that a warp shares. Element e of a fragment, counted along its rows, is number
// e / 32 of lane e % 32.
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"

namespace nvcuda {
namespace wmma {
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32 {};
} // namespace precision

// Elements of less than a byte: names alone, as products of them are not known.
namespace experimental {
namespace precision {
struct u4 {};
struct s4 {};
struct b1 {};
} // namespace precision
enum bmmaBitOp { bmmaBitOpXOR = 1, bmmaBitOpAND = 2 };
enum bmmaAccumulateOp { bmmaAccumulateOpPOPC = 1 };
} // namespace experimental

namespace details {
template <class Use, int M, int N, int K> struct Shape {
    static constexpr int ROWS = M, COLUMNS = N;
};
template <int M, int N, int K> struct Shape<matrix_a, M, N, K> {
    static constexpr int ROWS = M, COLUMNS = K;
};
template <int M, int N, int K> struct Shape<matrix_b, M, N, K> {
    static constexpr int ROWS = K, COLUMNS = N;
};
template <class T> struct Stored {
    typedef T type;
};
template <> struct Stored<precision::tf32> {
    typedef float type;
};
__device__ __forceinline__ float product(float sum, float a, float b) { return __builtin_fmaf(a, b, sum); }
__device__ __forceinline__ float wide(__half x) { return (float)x; }
__device__ __forceinline__ float wide(__nv_bfloat16 x) { return (float)x; }
__device__ __forceinline__ float wide(float x) { return x; }
__device__ __forceinline__ int wide(signed char x) { return x; }
__device__ __forceinline__ int wide(unsigned char x) { return x; }
__device__ __forceinline__ int wide(char x) { return x; }
__device__ __forceinline__ int wide(int x) { return x; }
__device__ __forceinline__ int product(int sum, int a, int b) { return sum + a * b; }
} // namespace details

template <class Use, int M, int N, int K, class T, class Layout = void> class fragment {
public:
    typedef details::Shape<Use, M, N, K> Shape;
    typedef typename details::Stored<T>::type element_type;
    static constexpr int num_elements = Shape::ROWS * Shape::COLUMNS / 32;
    element_type x[num_elements];
};

// Without elements, so that what touches them does not compile.
template <class Use, int M, int N, int K, class Layout>
class fragment<Use, M, N, K, experimental::precision::u4, Layout> {};
template <class Use, int M, int N, int K, class Layout>
class fragment<Use, M, N, K, experimental::precision::s4, Layout> {};
template <class Use, int M, int N, int K, class Layout>
class fragment<Use, M, N, K, experimental::precision::b1, Layout> {};
template <class D, class A, class B, class C>
__device__ void bmma_sync(D &d, const A &a, const B &b, const C &c,
                          experimental::bmmaBitOp operation = experimental::bmmaBitOpXOR,
                          experimental::bmmaAccumulateOp sum = experimental::bmmaAccumulateOpPOPC)
    __attribute__((error("products of bits (bmma_sync) are not known")));

template <class Use, int M, int N, int K, class T, class Layout, class V>
__device__ __forceinline__ void fill_fragment(fragment<Use, M, N, K, T, Layout> &a, const V &value) {
    for (int i = 0; i < a.num_elements; i++) a.x[i] = (typename details::Stored<T>::type)value;
}

namespace details {
template <class F> __device__ __forceinline__ unsigned int place(int i, unsigned int stride, bool by_rows) {
    unsigned int e = (unsigned int)i * 32 + candle_rocm::lane();
    unsigned int row = e / F::Shape::COLUMNS, column = e % F::Shape::COLUMNS;
    return by_rows ? row * stride + column : column * stride + row;
}
} // namespace details

template <class Use, int M, int N, int K, class T, class Layout, class S>
__device__ __forceinline__ void load_matrix_sync(fragment<Use, M, N, K, T, Layout> &a, const S *from,
                                                 unsigned int stride) {
    typedef fragment<Use, M, N, K, T, Layout> F;
    for (int i = 0; i < a.num_elements; i++)
        a.x[i] = from[details::place<F>(i, stride, candle_rocm::same<Layout, row_major>::value)];
}
template <int M, int N, int K, class T, class S>
__device__ __forceinline__ void load_matrix_sync(fragment<accumulator, M, N, K, T> &a, const S *from,
                                                 unsigned int stride, layout_t layout) {
    typedef fragment<accumulator, M, N, K, T> F;
    for (int i = 0; i < a.num_elements; i++) a.x[i] = from[details::place<F>(i, stride, layout == mem_row_major)];
}
template <int M, int N, int K, class T, class S>
__device__ __forceinline__ void store_matrix_sync(S *to, const fragment<accumulator, M, N, K, T> &a,
                                                  unsigned int stride, layout_t layout) {
    typedef fragment<accumulator, M, N, K, T> F;
    for (int i = 0; i < a.num_elements; i++) to[details::place<F>(i, stride, layout == mem_row_major)] = a.x[i];
    // Others of the warp may read it next.
    __syncwarp();
}

template <int M, int N, int K, class T, class LA, class LB, class D, class C>
__device__ __forceinline__ void mma_sync(fragment<accumulator, M, N, K, D> &d,
                                         const fragment<matrix_a, M, N, K, T, LA> &a,
                                         const fragment<matrix_b, M, N, K, T, LB> &b,
                                         const fragment<accumulator, M, N, K, C> &c, bool = false) {
    constexpr int COUNT = M * N / 32;
    typedef decltype(details::wide(c.x[0])) Sum;
    Sum sums[COUNT];
    for (int i = 0; i < COUNT; i++) sums[i] = details::wide(c.x[i]);
    unsigned int own = candle_rocm::lane();
    // Lanes hold one column of C, and the same of B; their rows of A are those of their elements.
#pragma unroll
    for (int k = 0; k < K; k++) {
        if constexpr (N <= 32) {
            unsigned int column = own % N;
            Sum right = details::wide(__shfl_sync(0xffffffffu, b.x[k * N / 32], (int)((k * N + column) % 32)));
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                unsigned int row = ((unsigned int)i * 32 + own) / N, e = row * K + (unsigned int)k;
                Sum left;
                // Rows of this element in the warp: 32 / N from 32 i / N on.
                constexpr int SPAN = (32 / N) * K;
                if constexpr (SPAN <= 32)
                    left = details::wide(__shfl_sync(0xffffffffu, a.x[((i * 32 / N) * K + k) / 32], (int)(e % 32)));
                else {
                    auto first = __shfl_sync(0xffffffffu, a.x[(i * 32 / N) * K / 32], (int)(e % 32));
#pragma unroll
                    for (int n = 1; n < SPAN / 32; n++) {
                        auto other = __shfl_sync(0xffffffffu, a.x[(i * 32 / N) * K / 32 + n], (int)(e % 32));
                        if (e / 32 == (unsigned int)((i * 32 / N) * K / 32 + n)) first = other;
                    }
                    left = details::wide(first);
                }
                sums[i] = details::product(sums[i], left, right);
            }
        }
    }
    for (int i = 0; i < COUNT; i++) d.x[i] = (typename details::Stored<D>::type)sums[i];
}

__device__ __forceinline__ float __float_to_tf32(float x) {
    // Nearest, ties away from zero, to 10 bits of mantissa.
    return candle_rocm::bits<float>((candle_rocm::bits<unsigned int>(x) + 0x1000u) & 0xffffe000u);
}
} // namespace wmma
} // namespace nvcuda
