// Sums and extrema over some dimensions of a strided tensor.
//
// `info` holds the dimensions, the reduced ones last, then the strides. Output element o combines the elements
// [o * reduced, (o + 1) * reduced) of that order. Candle asks for a workgroup for each output; here teams of threads take
// outputs until none are left, so that any grid will do whose workgroups are a power of two of threads. An output has
// fewer than 2^32 elements: its place among them is a u32.
#pragma once
#include "block_reduce.cuh"

// Dimensions [first, end) of a tensor, as one where one stride leads through all of their elements.
struct Span {
    uint32_t first, end;
    size_t stride; // between neighbours, where `uniform`
    size_t last;   // the stride of the last dimension of more than one element
    bool uniform;

    __device__ __forceinline__ Span(uint32_t first, uint32_t end, const size_t *dims, const size_t *strides)
        : first(first), end(end), stride(1), last(0), uniform(true) {
        size_t expected = 0;
        bool found = false;
        for (uint32_t d = end; d-- > first;) {
            if (dims[d] == 1) continue;
            // Not told from its stride, which is 0 where the tensor is broadcast.
            if (!found) expected = stride = last = strides[d];
            found = true;
            uniform = uniform && strides[d] == expected;
            expected = strides[d] * dims[d];
        }
    }

    // The offset of element i.
    __device__ __forceinline__ size_t offset(size_t i, const size_t *dims, const size_t *strides) const {
        if (uniform) return i * stride;
        size_t at = 0;
        for (uint32_t d = end; d-- > first;) {
            size_t rest = i <= 0xffffffffu ? (uint32_t)i / (uint32_t)dims[d] : i / dims[d];
            at += (i - rest * dims[d]) * strides[d];
            i = rest;
        }
        return at;
    }
};

// The first of the reduced dimensions: those from it on have `reduced` elements.
__device__ __forceinline__ uint32_t first_reduced(size_t reduced, uint32_t num_dims, const size_t *dims) {
    uint32_t split = num_dims;
    for (size_t product = 1; product < reduced;) product *= dims[--split];
    return split;
}

// How the elements of an output are combined: a Fold has
//   State, with State start();
//   add(State &, T element, uint32_t index), in ascending order of the index;
//   State both(State, State), commutative;
//   Out finish(State, T first).
template <class Fold, class T, class Out>
__device__ __forceinline__ void fold_rows(size_t outputs, uint32_t reduced, const size_t *dims, const size_t *strides, const Span &kept, const Span &inner, const T *__restrict__ src, Out *__restrict__ dst, WaveValues<typename Fold::State> &lds) {
    using State = typename Fold::State;
    constexpr int WIDTH = VEC16<T>, STRIP = 4;
    using V = vec<T, WIDTH>;
    uint32_t threads = blockDim.x, thread = threadIdx.x;
    bool adjacent = inner.uniform && inner.stride == 1;
    // A team for each output: of no fewer threads than have four vectors each, and else of as many as there are for it.
    uint32_t parts = adjacent ? (reduced + WIDTH - 1) / WIDTH : reduced;
    uint32_t fewest = min_of(power_of_two_from((parts + 3) / 4), threads), most = power_of_two_from(parts);
    uint32_t asked = power_of_two_from(min_of((outputs + gridDim.x - 1) / gridDim.x, (size_t)threads));
    // Exchanges need whole wavefronts.
    uint32_t size = threads < wave_size() ? 1 : max_of(threads >> log2_of(asked), fewest);
    // Where a wavefront is enough for an output, no barrier keeps the others from leaving.
    if (most <= wave_size()) size = min_of(size, most);
    uint32_t teams = min_of(threads >> log2_of(size), asked);
    uint32_t lane = thread & (size - 1), team = thread >> log2_of(size), width = min_of(size, wave_size());
    if (thread >= max_of(size * teams, wave_size())) return;
    for (size_t block = (size_t)blockIdx.x * teams; block < outputs; block += (size_t)gridDim.x * teams) {
        // The last teams may be left over. They make the last output once more.
        size_t o = min_of(block + (team & (teams - 1)), outputs - 1);
        const T *row = src + kept.offset(o, dims, strides);
        State state = Fold::start();
        uint32_t done = 0;
        if (adjacent && is_aligned(row, 16)) {
            uint32_t vectors = reduced / WIDTH, v = lane;
            for (; v + (STRIP - 1) * size < vectors; v += STRIP * size) {
                V x[STRIP];
#pragma unroll
                for (int s = 0; s < STRIP; s++) x[s] = read_global<V>(row + (size_t)(v + s * size) * WIDTH);
#pragma unroll
                for (int s = 0; s < STRIP; s++)
#pragma unroll
                    for (int k = 0; k < WIDTH; k++) Fold::add(state, x[s][k], (v + s * size) * WIDTH + k);
            }
            for (; v < vectors; v += size) {
                V x = read_global<V>(row + (size_t)v * WIDTH);
#pragma unroll
                for (int k = 0; k < WIDTH; k++) Fold::add(state, x[k], v * WIDTH + k);
            }
            done = vectors * WIDTH;
        }
        for (uint32_t i = done + lane; i < reduced; i += size) Fold::add(state, row[inner.offset(i, dims, strides)], i);
        auto both = [](State a, State b) INLINED { return Fold::both(a, b); };
        state = whole_wave_all_reduce(state, width, both);
        if (size > width) {
            uint32_t waves = size >> log2_of(width), first = team * waves;
            if ((lane & (width - 1)) == 0) lds.of_wave[first + (lane >> log2_of(width))] = state;
            __syncthreads();
            state = whole_wave_all_reduce(lds.of_wave[first + (lane & (waves - 1))], waves, both);
            __syncthreads();
        }
        if (lane == 0) dst[o] = Fold::finish(state, reduced == 0 ? T() : row[0]);
    }
}

// Where neighbouring outputs, not neighbouring elements of one output, are neighbours in memory: 32 threads side by side
// take an output each, and the workgroup's groups of 32 share the elements out.
constexpr uint32_t COLUMNS = 32, FOLD_THREADS = 256;
template <class Fold, class T, class Out>
__device__ __forceinline__ void fold_columns(size_t outputs, uint32_t reduced, const size_t *dims, const size_t *strides, const Span &kept, const Span &inner, const T *__restrict__ src, Out *__restrict__ dst, typename Fold::State (&lds)[FOLD_THREADS]) {
    using State = typename Fold::State;
    constexpr int STRIP = 4;
    uint32_t groups = blockDim.x / COLUMNS, group = threadIdx.x / COLUMNS, column = threadIdx.x % COLUMNS;
    for (size_t block = (size_t)blockIdx.x * COLUMNS; block < outputs; block += (size_t)gridDim.x * COLUMNS) {
        size_t o = min_of(block + column, outputs - 1);
        const T *base = src + kept.offset(o, dims, strides);
        State state = Fold::start();
        uint32_t i = group;
        if (inner.uniform) {
            for (; i + (STRIP - 1) * groups < reduced; i += STRIP * groups) {
                T x[STRIP];
#pragma unroll
                for (int s = 0; s < STRIP; s++) x[s] = read_global<T>(base + (i + s * groups) * inner.stride);
#pragma unroll
                for (int s = 0; s < STRIP; s++) Fold::add(state, x[s], i + s * groups);
            }
        }
        for (; i < reduced; i += groups) Fold::add(state, base[inner.offset(i, dims, strides)], i);
        lds[threadIdx.x] = state;
        __syncthreads();
        for (uint32_t half = groups / 2; half > 0; half /= 2) {
            if (group < half) lds[threadIdx.x] = Fold::both(lds[threadIdx.x], lds[threadIdx.x + half * COLUMNS]);
            __syncthreads();
        }
        if (group == 0 && block + column < outputs) dst[o] = Fold::finish(lds[column], base[0]);
        __syncthreads();
    }
}

template <class Fold, class T, class Out>
__device__ __forceinline__ void fold(size_t numel, size_t reduced, size_t num_dims, const size_t *__restrict__ info, const T *__restrict__ src, Out *__restrict__ dst) {
    using State = typename Fold::State;
    // fold_columns has a value a thread; fold_rows one a wavefront.
    __shared__ union Lds {
        State of_thread[FOLD_THREADS];
        WaveValues<State> of_wave;
    } lds;
    const size_t *dims = info, *strides = info + num_dims;
    bool narrow32 = numel <= 0xffffffffu;
    size_t outputs = reduced == 0 ? gridDim.x : narrow32 ? (uint32_t)numel / (uint32_t)reduced : numel / reduced;
    uint32_t split = first_reduced(reduced, num_dims, dims);
    Span kept(0, split, dims, strides), inner(split, num_dims, dims, strides);
    bool columns = kept.last == 1 && !(inner.uniform && inner.stride == 1) && outputs >= COLUMNS && reduced > 1 && blockDim.x >= 2 * COLUMNS &&
                   blockDim.x <= FOLD_THREADS && 2 * outputs >= (size_t)3 * gridDim.x; // fewer would leave many workgroups idle
    if (columns) fold_columns<Fold>(outputs, reduced, dims, strides, kept, inner, src, dst, lds.of_thread);
    else fold_rows<Fold>(outputs, reduced, dims, strides, kept, inner, src, dst, lds.of_wave);
}

// One thread makes one output of at most 32 elements.
template <class T>
__device__ __forceinline__ void fast_sum_small(size_t outputs, size_t reduced, size_t num_dims, const size_t *__restrict__ info, const T *__restrict__ src, T *__restrict__ dst) {
    const size_t *dims = info, *strides = info + num_dims;
    uint32_t split = first_reduced(reduced, num_dims, dims);
    Span kept(0, split, dims, strides), inner(split, num_dims, dims, strides);
    constexpr uint32_t WIDTH = VEC16<T>;
    for (size_t o = global_thread(); o < outputs; o += global_threads()) {
        const T *row = src + kept.offset(o, dims, strides);
        compute_t<T> sum = 0;
        size_t i = 0;
        if (inner.uniform && inner.stride == 1 && is_aligned(row, 16)) {
            for (; i + WIDTH <= reduced; i += WIDTH) {
                auto x = read_global<vec<T, WIDTH>>(row + i);
#pragma unroll
                for (int k = 0; k < (int)WIDTH; k++) sum += widen(x[k]);
            }
        }
        for (; i < reduced; i++) sum += widen(row[inner.offset(i, dims, strides)]);
        dst[o] = narrow<T>(sum);
    }
}

// -------------------------------------------------------------------- folds

template <class T> struct Summing {
    using State = compute_t<T>;
    static __device__ __forceinline__ State start() { return 0; }
    static __device__ __forceinline__ void add(State &state, T value, uint32_t) { state += widen(value); }
    static __device__ __forceinline__ State both(State a, State b) { return a + b; }
    static __device__ __forceinline__ T finish(State state, T) { return narrow<T>(state); }
};

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

// The first of the equal extrema; ARG for its place, else its value. As on the CPU, which compares with the best so far,
// a NaN loses against all numbers, unless it comes first: then nothing beats it.
template <class Order, bool ARG, class T> struct Extremum {
    using C = compute_t<T>;
    using State = Place<C>;
    static __device__ __forceinline__ State start() { return {Order::template start<T>(), ~0u}; }
    static __device__ __forceinline__ void add(State &best, T element, uint32_t i) {
        C value = widen(element);
        bool better = Order::beats(value, best.value);
        best.value = better ? value : best.value;
        best.index = better ? i : best.index;
    }
    static __device__ __forceinline__ State both(State a, State b) {
        bool second = Order::beats(b.value, a.value) || (b.value == a.value && b.index < a.index);
        return second ? b : a;
    }
    static __device__ __forceinline__ auto finish(State best, T element) {
        C first = widen(element);
        bool is_nan = first != first;
        // If none beats the start, then all numbers equal it, and the first element is one or a NaN.
        if constexpr (ARG) return is_nan || best.index == ~0u ? 0u : best.index;
        else return narrow<T>(is_nan ? first : best.value);
    }
};
