// Softmax and normalisations that reduce by a tree in LDS: the textbook form, to compare with the kernels that ship,
// which reduce within wavefronts by lane exchanges. All else is as there: a row is read once, in vectors of 16 bytes,
// and held in registers; sums are f32.
//
// A workgroup of 256 for each row; columns a multiple of 16 bytes, at most MOST vectors a thread.
#include "portable/block_reduce.cuh"

constexpr uint32_t THREADS = 256;
constexpr int MOST = 8;

// Half of the threads add the other half's values to their own, until one is left: a barrier a step.
template <class Op> __device__ __forceinline__ float tree_all_reduce(float value, Op op, float *lds) {
    uint32_t thread = threadIdx.x;
    lds[thread] = value;
    __syncthreads();
    for (uint32_t half = THREADS / 2; half > 0; half /= 2) {
        if (thread < half) lds[thread] = op(lds[thread], lds[thread + half]);
        __syncthreads();
    }
    value = lds[0];
    // Before someone uses the LDS again.
    __syncthreads();
    return value;
}

struct TreeSum {
    __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
};
struct TreeMaximum {
    __device__ __forceinline__ float operator()(float a, float b) const { return math::fmax(a, b); }
};

// A thread's vectors of the workgroup's row; `outside` where there are none.
template <class T> struct TreeRow {
    using V = vec<T, VEC16<T>>;
    V x[MOST];
    uint32_t vectors;

    __device__ __forceinline__ TreeRow(const T *row, uint32_t columns, float outside) : vectors(columns / VEC16<T>) {
#pragma unroll
        for (int n = 0; n < MOST; n++) {
#pragma unroll
            for (int k = 0; k < VEC16<T>; k++) x[n][k] = round_to<T>(outside);
            uint32_t v = threadIdx.x + n * THREADS;
            if (v < vectors) x[n] = load_vec<V>(row + (size_t)v * VEC16<T>);
        }
    }
    template <class F> __device__ __forceinline__ void each(F f) const {
#pragma unroll
        for (int n = 0; n < MOST; n++)
            if (threadIdx.x + n * THREADS < vectors)
#pragma unroll
                for (int k = 0; k < VEC16<T>; k++) f(upcast(x[n][k]));
    }
    // f(vector, its first element's place in the row) for each vector of results.
    template <class F> __device__ __forceinline__ void store(T *row, F f) const {
#pragma unroll
        for (int n = 0; n < MOST; n++) {
            uint32_t v = threadIdx.x + n * THREADS;
            if (v < vectors) store_vec(row + (size_t)v * VEC16<T>, f(x[n], v * VEC16<T>));
        }
    }
};

constexpr float LOG2_E = 1.44269504088896340736f;

// As the kernels that ship: small floats are rounded so much more coarsely that the hardware's own exponential will do.
template <class T> __device__ __forceinline__ float row_exp(float x) {
    if constexpr (sizeof(T) == 2) return math::fast_exp2(x * LOG2_E);
    else return math::exp(x);
}

template <class T> __device__ __forceinline__ void softmax(const T *src, T *dst, uint32_t columns) {
    __shared__ float lds[THREADS];
    size_t at = (size_t)blockIdx.x * columns;
    TreeRow<T> row(src + at, columns, -INFINITY);
    float largest = -INFINITY, sum = 0;
    row.each([&](float x) { largest = math::fmax(largest, x); });
    largest = tree_all_reduce(largest, TreeMaximum(), lds);
    row.each([&](float x) { sum += row_exp<T>(x - largest); });
    float scale = math::fast_recip(tree_all_reduce(sum, TreeSum(), lds));
    row.store(dst + at, [&](auto x, uint32_t) {
#pragma unroll
        for (int k = 0; k < VEC16<T>; k++) x[k] = round_to<T>(row_exp<T>(upcast(x[k]) - largest) * scale);
        return x;
    });
}

template <class T> __device__ __forceinline__ void rmsnorm(const T *src, T *dst, const T *alpha, uint32_t columns,
                                                           float eps) {
    __shared__ float lds[THREADS];
    size_t at = (size_t)blockIdx.x * columns;
    TreeRow<T> row(src + at, columns, 0);
    float sum = 0;
    row.each([&](float x) { sum = math::fma(x, x, sum); });
    float scale = math::fast_rsqrt(tree_all_reduce(sum, TreeSum(), lds) / (float)columns + eps);
    row.store(dst + at, [&](auto x, uint32_t i) {
        auto a = load_vec<decltype(x)>(alpha + i);
#pragma unroll
        for (int k = 0; k < VEC16<T>; k++) x[k] = round_to<T>(upcast(x[k]) * scale * upcast(a[k]));
        return x;
    });
}

template <class T>
__device__ __forceinline__ void layernorm(const T *src, T *dst, const T *alpha, const T *beta, uint32_t columns,
                                          float eps) {
    __shared__ float lds[THREADS];
    size_t at = (size_t)blockIdx.x * columns;
    TreeRow<T> row(src + at, columns, 0);
    float sum = 0, squares = 0;
    row.each([&](float x) { sum += x; });
    float mean = tree_all_reduce(sum, TreeSum(), lds) / (float)columns;
    row.each([&](float x) { squares = math::fma(x - mean, x - mean, squares); });
    float scale = math::fast_rsqrt(tree_all_reduce(squares, TreeSum(), lds) / (float)columns + eps);
    row.store(dst + at, [&](auto x, uint32_t i) {
        auto a = load_vec<decltype(x)>(alpha + i), b = load_vec<decltype(x)>(beta + i);
#pragma unroll
        for (int k = 0; k < VEC16<T>; k++)
            x[k] = round_to<T>((upcast(x[k]) - mean) * scale * upcast(a[k]) + upcast(b[k]));
        return x;
    });
}

// Parameters as those of the kernels that ship.
#define ROWS(NAME, T)                                                                                       \
    ENTRY __launch_bounds__(THREADS)                                                                        \
        softmax_tree_##NAME(const T *__restrict__ src, T *__restrict__ dst, int32_t columns) {              \
        softmax(src, dst, columns);                                                                         \
    }                                                                                                       \
    ENTRY __launch_bounds__(THREADS)                                                                        \
        rmsnorm_tree_##NAME(const T *__restrict__ src, T *__restrict__ dst, const T *__restrict__ alpha,    \
                            int32_t columns, int32_t block_size, float eps) {                               \
        rmsnorm(src, dst, alpha, columns, eps);                                                             \
    }                                                                                                       \
    ENTRY __launch_bounds__(THREADS)                                                                        \
        layernorm_tree_##NAME(const T *__restrict__ src, T *__restrict__ dst, const T *__restrict__ alpha,  \
                              const T *__restrict__ beta, int32_t columns, int32_t block_size, float eps) { \
        layernorm(src, dst, alpha, beta, columns, eps);                                                     \
    }
ROWS(f16, half_t)
ROWS(f32, float)
