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

// N vectors of a thread, `step` vectors apart, all loaded before the first is used.
template <class T, int WIDTH, int N> struct Strip {
    vec<T, WIDTH> v[N];
    __device__ __forceinline__ Strip(const T *__restrict__ from, uint32_t step) {
#pragma unroll
        for (int n = 0; n < N; n++) v[n] = read_global<vec<T, WIDTH>>(from + (size_t)n * step * WIDTH);
    }
};

// The N vectors of `out` that begin at `first` and lie `step` vectors apart.
template <int WIDTH, int N, class F, class Out, class... In>
__device__ __forceinline__ void map_strip(size_t first, uint32_t step, F f, Out *__restrict__ out, const In *__restrict__... in) {
    [&](const Strip<In, WIDTH, N> &...loaded) INLINED {
#pragma unroll
        for (int n = 0; n < N; n++) {
            vec<Out, WIDTH> result;
#pragma unroll
            for (int k = 0; k < WIDTH; k++) result[k] = f(loaded.v[n][k]...);
            store_vec(out + (first + (size_t)n * step) * WIDTH, result);
        }
    }(Strip<In, WIDTH, N>(in + first * WIDTH, step)...);
}

// out[i] = f(in[i]...), contiguous: 16 bytes of the widest type at a time, then the rest.
template <class F, class Out, class... In>
__device__ __forceinline__ void map_contiguous(size_t numel, F f, Out *__restrict__ out, const In *__restrict__... in) {
    constexpr int WIDTH = 16 / largest_size<Out, In...>::value, STRIP = 2;
    uint32_t threads = gridDim.x * blockDim.x, thread = blockIdx.x * blockDim.x + threadIdx.x;
    size_t done = 0;
    // Where there is a thread for every element, one each takes less time than many in few.
    if (numel > threads && all_aligned<WIDTH>(out, in...)) {
        size_t vectors = numel / WIDTH, v = thread;
        // Strips leave an uneven rest, which only many of them outweigh.
        if (vectors >= (size_t)2 * STRIP * threads)
            for (; v + (size_t)(STRIP - 1) * threads < vectors; v += (size_t)STRIP * threads) map_strip<WIDTH, STRIP>(v, threads, f, out, in...);
        for (; v < vectors; v += threads) map_strip<WIDTH, 1>(v, 1, f, out, in...);
        done = vectors * WIDTH;
    }
    for (size_t i = done + thread; i < numel; i += threads) out[i] = f(in[i]...);
}

// Whether groups of WIDTH elements along the last dimension are neighbours in memory, or one and the same element, in
// each of N inputs. `unit` says which are neighbours.
template <int WIDTH, int N>
__device__ __forceinline__ bool has_vectors(size_t num_dims, const size_t *info, bool (&unit)[N]) {
    size_t last = num_dims - 1;
    if (num_dims == 0 || info[last] % WIDTH != 0) return false;
#pragma unroll
    for (int k = 0; k < N; k++) {
        const size_t *strides = info + (k + 1) * num_dims;
        if (strides[last] > 1) return false;
        unit[k] = strides[last] == 1;
        for (size_t d = 0; unit[k] && d < last; d++)
            if (info[d] != 1 && strides[d] % WIDTH != 0) return false;
    }
    return true;
}

// WIDTH neighbours, or one element as often.
template <int WIDTH, class T> __device__ __forceinline__ vec<T, WIDTH> read_or_repeat(const T *from, bool unit) {
    if (unit) return read_global<vec<T, WIDTH>>(from);
    T value = *from;
    vec<T, WIDTH> all;
#pragma unroll
    for (int k = 0; k < WIDTH; k++) all[k] = value;
    return all;
}

// The numbers 0 to N - 1 as template arguments.
template <class T, T...> struct sequence {};
template <int N> using indices = __make_integer_seq<sequence, int, N>;

// out[i] = f(in[offset of i]...). Index is uint32_t where numel allows it.
template <class Index, int... K, class F, class Out, class... In>
__device__ __forceinline__ void map_strided(sequence<int, K...>, size_t numel, size_t num_dims, const size_t *__restrict__ info, F f, Out *__restrict__ out, const In *__restrict__... in) {
    constexpr int WIDTH = 16 / largest_size<Out, In...>::value, N = sizeof...(In);
    size_t offset[N];
    bool unit[N];
    if (all_aligned<WIDTH>(out, in...) && has_vectors<WIDTH>(num_dims, info, unit)) {
        for (size_t v = global_thread(); v < numel / WIDTH; v += global_threads()) {
            strided_offsets<N, Index>((Index)(v * WIDTH), num_dims, info, offset);
            vec<Out, WIDTH> result;
            [&](const vec<In, WIDTH> &...x) INLINED {
#pragma unroll
                for (int k = 0; k < WIDTH; k++) result[k] = f(x[k]...);
            }(read_or_repeat<WIDTH>(in + offset[K], unit[K])...);
            store_vec(out + v * WIDTH, result);
        }
    } else {
        for (size_t i = global_thread(); i < numel; i += global_threads()) {
            strided_offsets<N, Index>((Index)i, num_dims, info, offset);
            out[i] = f(in[offset[K]]...);
        }
    }
}

// out[i] = f(in[i]...) for any layout.
template <class F, class Out, class... In>
__device__ __forceinline__ void map(size_t numel, size_t num_dims, const size_t *__restrict__ info, F f, Out *__restrict__ out, const In *__restrict__... in) {
    indices<sizeof...(In)> each;
    if (info == nullptr) map_contiguous(numel, f, out, in...);
    else if (numel <= 0xffffffffu) map_strided<uint32_t>(each, numel, num_dims, info, f, out, in...);
    else map_strided<size_t>(each, numel, num_dims, info, f, out, in...);
}
