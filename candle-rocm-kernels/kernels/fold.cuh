// Sums and extrema over some dimensions of a strided tensor.
//
// `info` holds the dimensions, the reduced ones last, then the strides. Output element o combines
// the elements [o * reduced, (o + 1) * reduced) of that order. One workgroup makes one output.
#pragma once
#include "block_reduce.cuh"

// The elements that make one output: `reduced` of them, from `base` on.
struct Reduced {
    size_t base;       // offset of the first
    size_t stride;     // between neighbours, where `uniform`
    bool uniform;      // whether one stride covers all
    size_t split;      // the first reduced dimension
    const size_t *dims;
    const size_t *strides;
    size_t num_dims;

    __device__ __forceinline__ Reduced(size_t output, size_t reduced, size_t num_dims, const size_t *info)
        : base(0), stride(1), uniform(true), split(num_dims), dims(info), strides(info + num_dims), num_dims(num_dims) {
        if (reduced == 0) return;
        for (size_t product = 1; product < reduced;) product *= dims[--split];
        for (size_t d = split; d-- > 0;) {
            size_t rest = output <= 0xffffffffu ? (uint32_t)output / (uint32_t)dims[d] : output / dims[d];
            base += (output - rest * dims[d]) * strides[d];
            output = rest;
        }
        bool first = true;
        size_t expected = 0;
        for (size_t d = num_dims; d-- > split;) {
            if (dims[d] == 1) continue;
            if (first) expected = stride = strides[d];
            uniform = uniform && strides[d] == expected;
            expected = strides[d] * dims[d];
            first = false;
        }
    }

    // The offset of element i.
    __device__ __forceinline__ size_t offset(size_t i) const {
        if (uniform) return base + i * stride;
        size_t at = base;
        for (size_t d = num_dims; d-- > split;) {
            size_t rest = i <= 0xffffffffu ? (uint32_t)i / (uint32_t)dims[d] : i / dims[d];
            at += (i - rest * dims[d]) * strides[d];
            i = rest;
        }
        return at;
    }
};

// Calls f(i, element) for this thread's share of the elements, in ascending order of i.
template <class T, class F>
__device__ __forceinline__ void for_each_reduced(const T *__restrict__ src, const Reduced &slice, size_t reduced, F f) {
    size_t done = 0;
    const T *row = src + slice.base;
    if (slice.uniform && slice.stride == 1 && is_aligned(row, 16)) {
        using V = vec<T, VEC16<T>>;
        size_t groups = reduced / VEC16<T>;
        for (size_t g = threadIdx.x; g < groups; g += blockDim.x) {
            V loaded = load_vec<V>(row + g * VEC16<T>);
#pragma unroll
            for (int k = 0; k < VEC16<T>; k++) f(g * VEC16<T> + k, loaded[k]);
        }
        done = groups * VEC16<T>;
    }
    for (size_t i = done + threadIdx.x; i < reduced; i += blockDim.x) f(i, src[slice.offset(i)]);
}

template <class T>
__device__ __forceinline__ void fast_sum(size_t reduced, size_t num_dims, const size_t *__restrict__ info, const T *__restrict__ src, T *__restrict__ dst) {
    using C = compute_t<T>;
    __shared__ WaveValues<C> lds;
    Reduced slice(blockIdx.x, reduced, num_dims, info);
    C sum = 0;
    for_each_reduced(src, slice, reduced, [&](size_t, T value) { sum += widen(value); });
    sum = block_all_reduce(sum, threadIdx.x, blockDim.x, Sum(), lds);
    if (threadIdx.x == 0) dst[blockIdx.x] = narrow<T>(sum);
}

// The same for at most 32 elements an output: a thread makes one output.
template <class T>
__device__ __forceinline__ void fast_sum_small(size_t outputs, size_t reduced, size_t num_dims, const size_t *__restrict__ info, const T *__restrict__ src, T *__restrict__ dst) {
    for (size_t o = global_thread(); o < outputs; o += global_threads()) {
        Reduced slice(o, reduced, num_dims, info);
        compute_t<T> sum = 0;
        for (size_t i = 0; i < reduced; i++) sum += widen(src[slice.offset(i)]);
        dst[o] = narrow<T>(sum);
    }
}

// An extremum and where it was first seen.
template <class C> struct Place {
    C value;
    uint32_t index;
};

// The orders in which an extremum is sought, and what every value beats or equals.
struct Largest {
    template <class C> static __device__ __forceinline__ bool beats(C a, C b) { return a > b; }
    template <class T> static __device__ __forceinline__ compute_t<T> start() {
        if constexpr (is_float<T>::value) return -(compute_t<T>)INFINITY;
        else return (T)-1 < (T)0 ? (T)((uint64_t)1 << (8 * sizeof(T) - 1)) : (T)0;
    }
};
struct Smallest {
    template <class C> static __device__ __forceinline__ bool beats(C a, C b) { return a < b; }
    template <class T> static __device__ __forceinline__ compute_t<T> start() {
        if constexpr (is_float<T>::value) return (compute_t<T>)INFINITY;
        else return (T)-1 < (T)0 ? (T)(((uint64_t)1 << (8 * sizeof(T) - 1)) - 1) : (T)-1;
    }
};

// The first of the equal extrema. As on the CPU, which compares with the best so far, a NaN loses
// against all numbers, unless it comes first: then nothing beats it.
template <class Order, class T>
__device__ __forceinline__ Place<compute_t<T>> extremum(size_t reduced, size_t num_dims, const size_t *__restrict__ info, const T *__restrict__ src) {
    using C = compute_t<T>;
    __shared__ WaveValues<Place<C>> lds;
    Reduced slice(blockIdx.x, reduced, num_dims, info);
    Place<C> best = {Order::template start<T>(), ~0u};
    for_each_reduced(src, slice, reduced, [&](size_t i, T element) {
        C value = widen(element);
        bool better = Order::beats(value, best.value) || (best.index == ~0u && value == best.value);
        best.value = better ? value : best.value;
        best.index = better ? (uint32_t)i : best.index;
    });
    best = block_all_reduce(
        best, threadIdx.x, blockDim.x,
        [](Place<C> a, Place<C> b) {
            bool second = Order::beats(b.value, a.value) || (b.value == a.value && b.index < a.index);
            return second ? b : a;
        },
        lds);
    C first = widen(src[slice.base]);
    return first != first ? Place<C>{first, 0} : best;
}

template <class Order, class T>
__device__ __forceinline__ void fast_extremum(size_t reduced, size_t num_dims, const size_t *__restrict__ info, const T *__restrict__ src, T *__restrict__ dst) {
    auto best = extremum<Order>(reduced, num_dims, info, src);
    if (threadIdx.x == 0) dst[blockIdx.x] = narrow<T>(best.value);
}

template <class Order, class T>
__device__ __forceinline__ void fast_arg_extremum(size_t reduced, size_t num_dims, const size_t *__restrict__ info, const T *__restrict__ src, uint32_t *__restrict__ dst) {
    auto best = extremum<Order>(reduced, num_dims, info, src);
    if (threadIdx.x == 0) dst[blockIdx.x] = best.index;
}
