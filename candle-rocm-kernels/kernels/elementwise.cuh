// Kernels that compute each output element from the elements at the same place of N inputs.
//
// Candle passes `numel`, `num_dims` and `info`: null when every input is contiguous, else on the
// device the dimensions followed by each input's strides (in elements), `num_dims` values each.
// The grid has one thread per element; all loops are grid-stride, so that fewer threads do too.
#pragma once
#include "convert.cuh"

// a / b, in 32 bits where the caller knows that both fit: a 64-bit division takes some hundred
// instructions.
__device__ __forceinline__ size_t divide(size_t a, size_t b, bool narrow) {
    return narrow ? (uint32_t)a / (uint32_t)b : a / b;
}

// Turns the linear index of an element into its offset in each of N inputs. Index is uint32_t where
// numel allows it.
template <int N, class Index>
__device__ __forceinline__ void strided_offsets(Index linear, size_t num_dims, const size_t *info, size_t (&offset)[N]) {
#pragma unroll
    for (int k = 0; k < N; k++) offset[k] = 0;
#pragma nounroll
    for (size_t d = num_dims; d-- > 1;) {
        Index size = (Index)info[d];
        Index rest = linear / size;
        Index at = linear - rest * size;
#pragma unroll
        for (int k = 0; k < N; k++) offset[k] += (size_t)at * info[(k + 1) * num_dims + d];
        linear = rest;
    }
    if (num_dims != 0) {
#pragma unroll
        for (int k = 0; k < N; k++) offset[k] += (size_t)linear * info[(k + 1) * num_dims];
    }
}

// The offset in a single strided tensor.
__device__ __forceinline__ size_t strided_offset(size_t linear, size_t num_dims, const size_t *info) {
    size_t offset[1];
    if (linear <= 0xffffffffu) strided_offsets<1, uint32_t>((uint32_t)linear, num_dims, info, offset);
    else strided_offsets<1, size_t>(linear, num_dims, info, offset);
    return offset[0];
}

template <class... T> struct largest_size;
template <class T> struct largest_size<T> { static constexpr int value = sizeof(T); };
template <class T, class... Rest> struct largest_size<T, Rest...> {
    static constexpr int value =
        (int)sizeof(T) > largest_size<Rest...>::value ? (int)sizeof(T) : largest_size<Rest...>::value;
};

// The same over any number of inputs: all_aligned(bytes per element group, pointers...).
template <int WIDTH, class... T> __device__ __forceinline__ bool all_aligned(const T *...pointers) {
    return (... && is_aligned(pointers, sizeof(T) * WIDTH));
}

// out[i] = f(in[i]...), contiguous: 16 bytes of the widest type at a time, then the rest.
template <class F, class Out, class... In>
__device__ __forceinline__ void map_contiguous(size_t numel, F f, Out *__restrict__ out, const In *__restrict__... in) {
    constexpr int WIDTH = 16 / largest_size<Out, In...>::value;
    size_t done = 0;
    if (all_aligned<WIDTH>(out, in...)) {
        size_t groups = numel / WIDTH;
        for (size_t g = global_thread(); g < groups; g += global_threads()) {
            vec<Out, WIDTH> result;
            [&](const vec<In, WIDTH> &...loaded) {
#pragma unroll
                for (int k = 0; k < WIDTH; k++) result[k] = f(loaded[k]...);
            }(load_vec<vec<In, WIDTH>>(in + g * WIDTH)...);
            store_vec(out + g * WIDTH, result);
        }
        done = groups * WIDTH;
    }
    for (size_t i = done + global_thread(); i < numel; i += global_threads()) out[i] = f(in[i]...);
}

template <class Index, class F, class Out, class In>
__device__ __forceinline__ void map_strided(size_t numel, size_t num_dims, const size_t *__restrict__ info, F f, Out *__restrict__ out, const In *__restrict__ in) {
    for (size_t i = global_thread(); i < numel; i += global_threads()) {
        size_t at[1];
        strided_offsets<1, Index>((Index)i, num_dims, info, at);
        out[i] = f(in[at[0]]);
    }
}

template <class Index, class F, class Out, class A, class B>
__device__ __forceinline__ void map_strided(size_t numel, size_t num_dims, const size_t *__restrict__ info, F f, Out *__restrict__ out, const A *__restrict__ a, const B *__restrict__ b) {
    for (size_t i = global_thread(); i < numel; i += global_threads()) {
        size_t at[2];
        strided_offsets<2, Index>((Index)i, num_dims, info, at);
        out[i] = f(a[at[0]], b[at[1]]);
    }
}

template <class Index, class F, class Out, class A, class B, class C>
__device__ __forceinline__ void map_strided(size_t numel, size_t num_dims, const size_t *__restrict__ info, F f, Out *__restrict__ out, const A *__restrict__ a, const B *__restrict__ b, const C *__restrict__ c) {
    for (size_t i = global_thread(); i < numel; i += global_threads()) {
        size_t at[3];
        strided_offsets<3, Index>((Index)i, num_dims, info, at);
        out[i] = f(a[at[0]], b[at[1]], c[at[2]]);
    }
}

// out[i] = f(in[i]...) for any layout.
template <class F, class Out, class... In>
__device__ __forceinline__ void map(size_t numel, size_t num_dims, const size_t *__restrict__ info, F f, Out *__restrict__ out, const In *__restrict__... in) {
    if (info == nullptr) map_contiguous(numel, f, out, in...);
    else if (numel <= 0xffffffffu) map_strided<uint32_t>(numel, num_dims, info, f, out, in...);
    else map_strided<size_t>(numel, num_dims, info, f, out, in...);
}
