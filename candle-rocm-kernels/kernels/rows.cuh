// Softmax and normalisation of the rows of a contiguous matrix; one workgroup makes one row.
//
// WIDTH elements move at a time: 16 bytes where rows and weights are aligned and divide into that,
// otherwise one.
#pragma once
#include "block_reduce.cuh"

// Calls f(i, vector of the WIDTH elements from i on) for this thread's share of a row.
template <int WIDTH, class T, class F>
__device__ __forceinline__ void for_row(const T *row, uint32_t columns, uint32_t thread, uint32_t threads, F f) {
    using V = vec<T, WIDTH>;
    for (uint32_t i = thread * WIDTH; i < columns; i += threads * WIDTH) f(i, load_vec<V>(row + i));
}

template <int WIDTH, class T>
__device__ __forceinline__ void softmax_row(const T *__restrict__ src, T *__restrict__ dst, uint32_t columns, uint32_t thread, uint32_t threads) {
    using C = compute_t<T>;
    using V = vec<T, WIDTH>;
    __shared__ WaveValues<C> lds;
    C largest = -(C)INFINITY;
    for_row<WIDTH>(src, columns, thread, threads, [&](uint32_t, V x) {
#pragma unroll
        for (int k = 0; k < WIDTH; k++) largest = math::fmax(largest, widen(x[k]));
    });
    largest = block_all_reduce(largest, thread, threads, [](C a, C b) { return math::fmax(a, b); }, lds);
    // f32 and f64 rows keep the exponentials in dst; smaller types would round them, and compute twice.
    constexpr bool KEEP = is_same<T, C>::value;
    C sum = 0;
    for_row<WIDTH>(src, columns, thread, threads, [&](uint32_t i, V x) {
        V kept;
#pragma unroll
        for (int k = 0; k < WIDTH; k++) {
            C e = math::exp(widen(x[k]) - largest);
            sum += e;
            if constexpr (KEEP) kept[k] = e;
        }
        if constexpr (KEEP) store_vec(dst + i, kept);
    });
    sum = block_all_reduce(sum, thread, threads, Sum(), lds);
    C scale = (C)1 / sum;
    for_row<WIDTH>(KEEP ? dst : src, columns, thread, threads, [&](uint32_t i, V x) {
        V y;
#pragma unroll
        for (int k = 0; k < WIDTH; k++) {
            C e = KEEP ? (C)widen(x[k]) : math::exp(widen(x[k]) - largest);
            y[k] = narrow<T>(e * scale);
        }
        store_vec(dst + i, y);
    });
}

// x / sqrt(mean(x^2) + eps) * alpha
template <int WIDTH, class T>
__device__ __forceinline__ void rmsnorm_row(const T *__restrict__ src, T *__restrict__ dst, const T *__restrict__ alpha, uint32_t columns, float eps) {
    using C = compute_t<T>;
    using V = vec<T, WIDTH>;
    __shared__ WaveValues<C> lds;
    C sum = 0;
    for_row<WIDTH>(src, columns, threadIdx.x, blockDim.x, [&](uint32_t, V x) {
#pragma unroll
        for (int k = 0; k < WIDTH; k++) sum = math::fma(widen(x[k]), widen(x[k]), sum);
    });
    sum = block_all_reduce(sum, threadIdx.x, blockDim.x, Sum(), lds);
    C scale = math::rsqrt(sum / (C)columns + (C)eps);
    for_row<WIDTH>(src, columns, threadIdx.x, blockDim.x, [&](uint32_t i, V x) {
        V a = load_vec<V>(alpha + i), y;
#pragma unroll
        for (int k = 0; k < WIDTH; k++) y[k] = narrow<T>((C)widen(x[k]) * scale * (C)widen(a[k]));
        store_vec(dst + i, y);
    });
}

// (x - mean) / sqrt(variance + eps) * alpha + beta. The variance is taken around the mean in a
// second pass (the row is in cache by then): E[x^2] - mean^2 cancels when the mean is large.
template <int WIDTH, class T>
__device__ __forceinline__ void layernorm_row(const T *__restrict__ src, T *__restrict__ dst, const T *__restrict__ alpha, const T *__restrict__ beta, uint32_t columns, float eps) {
    using C = compute_t<T>;
    using V = vec<T, WIDTH>;
    __shared__ WaveValues<C> lds;
    C sum = 0;
    for_row<WIDTH>(src, columns, threadIdx.x, blockDim.x, [&](uint32_t, V x) {
#pragma unroll
        for (int k = 0; k < WIDTH; k++) sum += widen(x[k]);
    });
    C mean = block_all_reduce(sum, threadIdx.x, blockDim.x, Sum(), lds) / (C)columns;
    C squares = 0;
    for_row<WIDTH>(src, columns, threadIdx.x, blockDim.x, [&](uint32_t, V x) {
#pragma unroll
        for (int k = 0; k < WIDTH; k++) {
            C centred = widen(x[k]) - mean;
            squares = math::fma(centred, centred, squares);
        }
    });
    squares = block_all_reduce(squares, threadIdx.x, blockDim.x, Sum(), lds);
    C scale = math::rsqrt(squares / (C)columns + (C)eps);
    for_row<WIDTH>(src, columns, threadIdx.x, blockDim.x, [&](uint32_t i, V x) {
        V a = load_vec<V>(alpha + i), b = load_vec<V>(beta + i), y;
#pragma unroll
        for (int k = 0; k < WIDTH; k++)
            y[k] = narrow<T>(math::fma((widen(x[k]) - mean) * scale, (C)widen(a[k]), (C)widen(b[k])));
        store_vec(dst + i, y);
    });
}

// Whether a row of so many elements can be moved 16 bytes at a time.
template <class T, class... P> __device__ __forceinline__ bool can_widen(uint32_t columns, const P *...pointers) {
    return columns % VEC16<T> == 0 && (... && is_aligned(pointers, 16));
}

// Candle launches 32 threads along y.
template <class T> __device__ __forceinline__ void softmax(const T *src, T *dst, int32_t columns) {
    size_t start = (size_t)blockIdx.x * columns;
    uint32_t thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    if (can_widen<T>(columns, src, dst)) softmax_row<VEC16<T>>(src + start, dst + start, columns, thread, threads);
    else softmax_row<1>(src + start, dst + start, columns, thread, threads);
}

template <class T>
__device__ __forceinline__ void rmsnorm(const T *src, T *dst, const T *alpha, int32_t columns, float eps) {
    size_t start = (size_t)blockIdx.x * columns;
    if (can_widen<T>(columns, src, dst, alpha)) rmsnorm_row<VEC16<T>>(src + start, dst + start, alpha, columns, eps);
    else rmsnorm_row<1>(src + start, dst + start, alpha, columns, eps);
}

template <class T>
__device__ __forceinline__ void layernorm(const T *src, T *dst, const T *alpha, const T *beta, int32_t columns, float eps) {
    size_t start = (size_t)blockIdx.x * columns;
    if (can_widen<T>(columns, src, dst, alpha, beta)) layernorm_row<VEC16<T>>(src + start, dst + start, alpha, beta, columns, eps);
    else layernorm_row<1>(src + start, dst + start, alpha, beta, columns, eps);
}
