// Sums and extrema over some dimensions of a strided tensor.
//
// `info` holds the dimensions, the reduced ones last, then the strides. Output element o combines the elements [o *
// reduced, (o + 1) * reduced) of that order. Candle asks for a workgroup for each output; here groups of threads take
// outputs until none are left, so that any grid will do whose workgroups are a power of two of threads. An output has
// fewer than 2^32 elements: its place among them is a u32.
#pragma once
#include "portable/block_reduce.cuh"

// a / b, where mostly both have 32 bits; else slowly, but in few instructions and registers.
__device__ __forceinline__ size_t quotient(size_t a, size_t b) {
    if (__builtin_expect(((a | b) >> 32) == 0, 1)) return (uint32_t)a / (uint32_t)b;
    size_t result = 0, rest = 0;
#pragma nounroll
    for (int bit = 63; bit >= 0; bit--) {
        // No dimension has 2^63 elements: this does not overflow.
        rest = rest << 1 | (a >> bit & 1);
        bool fits = rest >= b;
        rest -= fits ? b : 0;
        result |= (size_t)fits << bit;
    }
    return result;
}

// Some neighbouring dimensions of a tensor, as one where one stride leads through all of their elements.
struct Span {
    uint32_t first, end;
    size_t elements = 1;
    size_t stride = 1; // between neighbours, where `uniform`
    size_t last = 0;   // the stride of the last dimension of more than one element
    uint32_t odd = 0;  // the low bits of that dimension's size and of the others' strides
    bool uniform = true;

    // Of the dimensions before `end`, none yet.
    __device__ __forceinline__ explicit Span(uint32_t end) : first(end), end(end) {}

    // Takes in the dimension before its first.
    __device__ __forceinline__ void grow(const size_t *dims, const size_t *strides) {
        // Both at once.
        size_t size = read_global<size_t>(dims + --first), step = read_global<size_t>(strides + first);
        if (size == 1) return;
        // The last dimension is not told by its stride, which is 0 where the tensor is broadcast.
        if (elements == 1) stride = last = step;
        else uniform = uniform && step == expected;
        odd |= (uint32_t)(elements == 1 ? size : step);
        expected = step * size;
        elements *= size;
    }

    // The offset of element i.
    __device__ __forceinline__ size_t offset(size_t i, const size_t *dims, const size_t *strides) const {
        if (__builtin_expect(uniform, 1)) return i * stride;
        size_t at = 0;
#pragma nounroll
        for (uint32_t d = end; --d > first;) {
            size_t rest = quotient(i, dims[d]);
            at += (i - rest * dims[d]) * strides[d];
            i = rest;
        }
        return at + i * strides[first];
    }

private:
    size_t expected = 0;
};

// The dimensions of a tensor: the last ones, which have `reduced` elements together, and those before them.
struct Split {
    Span inner, kept;

    __device__ __forceinline__ Split(size_t reduced, uint32_t num_dims, const size_t *dims, const size_t *strides)
        : inner(num_dims), kept(num_dims) {
#pragma nounroll
        while (inner.elements < reduced) inner.grow(dims, strides);
        kept = Span(inner.first);
#pragma nounroll
        while (kept.first > 0) kept.grow(dims, strides);
    }

    // Whether the elements of an output are neighbours in memory.
    __device__ __forceinline__ bool adjacent() const { return inner.uniform && inner.stride == 1; }
    // Whether neighbouring outputs are, and these are not.
    __device__ __forceinline__ bool side_by_side() const { return kept.last == 1 && !adjacent(); }
    // Whether so many neighbouring outputs, a power of two, are neighbours in memory, and their elements a vector.
    template <uint32_t NEIGHBOURS, class T> __device__ __forceinline__ bool neighbours(const T *src) const {
        uint32_t odd = kept.odd | (uint32_t)inner.stride;
        return NEIGHBOURS > 1 && inner.uniform && odd % NEIGHBOURS == 0 && is_aligned(src, NEIGHBOURS * sizeof(T));
    }
};

// Combines the values of lanes whose numbers differ in the bits of `steps` alone. The whole wavefront takes part.
template <class T, class Op> __device__ __forceinline__ T exchange(T value, uint32_t steps, Op op) {
    if (steps & 1) value = op(value, shfl_xor(value, 1, wave_size()));
    if (steps & 2) value = op(value, shfl_xor(value, 2, wave_size()));
    if (steps & 4) value = op(value, shfl_xor(value, 4, wave_size()));
    if (steps & 8) value = op(value, shfl_xor(value, 8, wave_size()));
    if (steps & 16) value = op(value, shfl_xor(value, 16, wave_size()));
    if (wave_size() > 32 && (steps & 32)) value = op(value, shfl_xor(value, 32, wave_size()));
    return value;
}

// How the threads of a workgroup are shared out, in exponents of 2: groups, each of which makes as many neighbouring
// outputs as it has columns; a thread takes elements of one of them.
struct RowGroups {
    uint32_t size, row_groups, columns;
};

// The exponent of the smallest power of two that is not below x.
__device__ __forceinline__ uint32_t exponent_from(uint32_t x) { return x <= 1 ? 0 : 32 - __builtin_clz(x - 1); }

// Where the elements of an output are neighbours in memory, or nothing is: a group for each output.
__device__ __forceinline__ RowGroups groups_for_rows(uint32_t vectors, uint32_t asked, uint32_t threads) {
    uint32_t wave = log2_of(wave_size());
    // Exchanges need whole wavefronts.
    if (threads < wave) return {0, min_of(threads, asked), 0};
    // Of no fewer threads than have four vectors each, and else of as many as there are for it.
    uint32_t most = exponent_from(vectors), size = min_of(threads, max_of(threads - asked + 2, most) - 2);
    // Where a wavefront is enough for an output, no barrier keeps the others from leaving.
    if (most <= wave) size = min_of(size, most);
    return {size, min_of(threads - size, asked), 0};
}

// Values of a workgroup's wavefronts that LDS has room for, as an exponent of 2.
constexpr uint32_t FOLD_VALUES = 8;

// Where neighbouring outputs are neighbours in memory: the workgroup takes 32. While threads have more than eight
// elements each, fewer make more workgroups: as many as DRAM gives at once, `sector`, until these fill a large GPU;
// still fewer, so that most is read in vain and comes from a cache, while there is not one for each of its units.
__device__ __forceinline__ RowGroups groups_for_columns(size_t outputs, uint32_t reduced, uint32_t asked,
                                                        uint32_t threads, uint32_t sector) {
    uint32_t room = FOLD_VALUES + log2_of(wave_size()) - threads, columns = 5, length = exponent_from(reduced);
#pragma nounroll
    while (columns > 0 && outputs >> columns < (columns > sector ? 2048 : 128) && columns + length > 3 + threads)
        columns--;
    return {threads, 0, min_of(min_of(max_of(columns, asked), 5u), room)};
}

// How the elements of an output are combined: a Fold has
//   State, with State start();
//   add(State &, T element, uint32_t index), in ascending order of the index;
//   State both(State, State), commutative;
//   Out finish(State, T first).
//
// The phases of an output: a thread combines its elements, by whole vectors (fold_vectors), by one stride
// (fold_strided) or by their places (fold_stretch), global -> registers; its group's states are combined within
// wavefronts, then through LDS (fold_group); group 0 of the group stores.

// A thread's place in its group: its number, the column whose elements it takes, its number among those that take
// elements of that column, and the group's number in the workgroup.
struct Seat {
    uint32_t lane, column, group, row_group;

    __device__ __forceinline__ Seat(uint32_t thread, const RowGroups &shared)
        : lane(thread & ((1u << shared.size) - 1)), column(lane & ((1u << shared.columns) - 1)),
          group(lane >> shared.columns), row_group(thread >> shared.size & ((1u << shared.row_groups) - 1)) {}
};

// Elements [first, first + elements) of an output.
struct Stretch {
    uint32_t first, elements;
};

// The number of `vectors` that are a group's: one in 1 << `groups`, from the group's own number on.
__device__ __forceinline__ uint32_t own_shares(uint32_t vectors, uint32_t group, uint32_t groups) {
    return vectors > group ? ((vectors - 1 - group) >> groups) + 1 : 0;
}

// Combines a group's share of the elements that are neighbours in memory, in vectors of 16 bytes; `at` is the first
// element of the stretch, a multiple of 16 bytes.
template <class Fold, class T>
__device__ __forceinline__ void fold_vectors(typename Fold::State &state, const T *at, Stretch stretch, uint32_t group,
                                             uint32_t log_groups) {
    // Vectors that a thread reads at once; fewer where registers go on unpacking bytes and small integers.
    constexpr uint32_t WIDTH = VEC16<T>, STRIP = sizeof(T) + sizeof(compute_t<T>) < 6 ? 2 : 4;
    const uint32_t groups = 1u << log_groups;
    at += (size_t)group * WIDTH;
    uint32_t i = stretch.first + group * WIDTH;
    uint32_t left = own_shares(stretch.elements / WIDTH, group, log_groups);
    // Whole strips have a loop of their own: predicates of a last strip's vectors would spill on NVIDIA's GPUs.
#pragma nounroll
    for (; left >= STRIP; left -= STRIP) {
        vec<uint32_t, 4> x[STRIP];
#pragma unroll
        for (uint32_t s = 0; s < STRIP; s++, at += groups * WIDTH) x[s] = read_global<vec<uint32_t, 4>>(at);
#pragma unroll
        for (uint32_t s = 0; s < STRIP; s++, i += groups * WIDTH) {
            auto elements = bit_cast<vec<T, WIDTH>>(x[s]);
#pragma unroll
            for (uint32_t k = 0; k < WIDTH; k++) Fold::add(state, elements[k], i + k);
        }
    }
#pragma nounroll
    for (; left > 0; left--, at += groups * WIDTH, i += groups * WIDTH) {
        auto elements = bit_cast<vec<T, WIDTH>>(read_global<vec<uint32_t, 4>>(at));
#pragma unroll
        for (uint32_t k = 0; k < WIDTH; k++) Fold::add(state, elements[k], i + k);
    }
}

// Combines a group's share of elements that one stride leads through, one by one; `at` is the first of the stretch.
// `zero` is 0, which the compiler does not know.
template <class Fold, class T>
__device__ __forceinline__ void fold_strided(typename Fold::State &state, const T *at, size_t stride, Stretch stretch,
                                             uint32_t group, uint32_t log_groups, uint32_t zero) {
    constexpr uint32_t STRIP = sizeof(typename Fold::State) + sizeof(T) < 6 ? 4 : 8;
    const uint32_t groups = 1u << log_groups;
    size_t step = groups * stride;
    uint32_t i = stretch.first + group;
    at += group * stride;
#pragma nounroll
    for (uint32_t left = own_shares(stretch.elements, group, log_groups); left > 0; left -= min_of(left, STRIP)) {
        // Multiples of the step are not worth keeping: they take more registers than there are.
        opt_barrier_words(step, zero);
        T x[STRIP];
#pragma unroll
        for (uint32_t s = 0; s < STRIP; s++, at += step)
            if (s < left) x[s] = read_global<T>(at);
#pragma unroll
        for (uint32_t s = 0; s < STRIP; s++, i += groups)
            if (s < left) Fold::add(state, x[s], i);
    }
}

// What a thread's group makes of its share of a stretch of the output whose first element is row[0].
template <class Fold, class T>
__device__ __forceinline__ typename Fold::State fold_stretch(const T *row, const Span &inner, Stretch stretch,
                                                             uint32_t group, uint32_t log_groups, uint32_t zero,
                                                             const size_t *dims, const size_t *strides) {
    constexpr uint32_t WIDTH = VEC16<T>;
    typename Fold::State state = Fold::start();
    if (!inner.uniform) {
        uint32_t groups = 1u << log_groups, end = stretch.first + stretch.elements;
#pragma nounroll
        for (uint32_t i = stretch.first + group; i < end; i += groups)
            Fold::add(state, row[inner.offset(i, dims, strides)], i);
        return state;
    }
    const T *at = row + stretch.first * inner.stride;
    if (inner.stride == 1 && is_aligned(at, 16)) {
        fold_vectors<Fold>(state, at, stretch, group, log_groups);
        uint32_t done = stretch.elements & ~(WIDTH - 1);
        at += done;
        stretch = {stretch.first + done, stretch.elements - done};
    }
    fold_strided<Fold>(state, at, inner.stride, stretch, group, log_groups, zero);
    return state;
}

// The folds of neighbouring outputs, whose elements a thread reads as one word. Four of 8 bits, each with its place,
// would not fit the registers of a workgroup of 1,024.
template <class T> constexpr uint32_t NEIGHBOURS = sizeof(T) == 2 ? 2 : 1;
template <class Fold, uint32_t COUNT> struct Neighbours {
    struct State {
        typename Fold::State of[COUNT];
    };
    static __device__ __forceinline__ State start() {
        State state;
#pragma unroll
        for (auto &one : state.of) one = Fold::start();
        return state;
    }
    template <class V> static __device__ __forceinline__ void add(State &state, V elements, uint32_t i) {
#pragma unroll
        for (uint32_t k = 0; k < COUNT; k++) Fold::add(state.of[k], elements[k], i);
    }
    static __device__ __forceinline__ State both(const State &a, const State &b) {
        State state;
#pragma unroll
        for (uint32_t k = 0; k < COUNT; k++) state.of[k] = Fold::both(a.of[k], b.of[k]);
        return state;
    }
    template <class V> static __device__ __forceinline__ auto finish(const State &state, V first) {
        vec<decltype(Fold::finish(state.of[0], first[0])), COUNT> results;
#pragma unroll
        for (uint32_t k = 0; k < COUNT; k++) results[k] = Fold::finish(state.of[k], first[k]);
        return results;
    }
};

// Values of a workgroup's wavefronts, for `fold_group`.
template <class State> struct FoldValues {
    State of_wave[1 << FOLD_VALUES];
};

// What a group comes to in each column, from its threads' states; in the threads of group 0. `again`: the workgroup
// will call this once more.
template <class Fold, class State>
__device__ __forceinline__ State fold_group(State state, const RowGroups &shared, const Seat &seat, bool again,
                                            FoldValues<State> &lds) {
    uint32_t wave = log2_of(wave_size());
    auto both = [](State a, State b) INLINED {
        return Fold::both(a, b);
    };
    state = exchange(state, (1u << min_of(shared.size, wave)) - (1u << shared.columns), both);
    if (shared.size <= wave) return state;
    uint32_t waves = 1u << (shared.size - wave), of_wave = 1u << (wave - shared.columns),
             w = seat.group & (of_wave - 1);
    State *values = lds.of_wave + (seat.row_group << (shared.size - wave + shared.columns)) + seat.column;
    if (w == 0) values[seat.lane >> wave << shared.columns] = state;
    __syncthreads();
    w &= waves - 1;
    state = values[w << shared.columns];
    // The group's first wavefront has the result.
    uint32_t end = seat.lane >> wave == 0 ? waves : 0;
#pragma nounroll
    while ((w += of_wave) < end) state = both(state, values[w << shared.columns]);
    state = exchange(state, (min_of(of_wave, waves) - 1) << shared.columns, both);
    if (again) __syncthreads();
    return state;
}

// The outputs of a launch: each of OUTPUTS neighbours, by their vectors of elements and of results.
template <class Fold, uint32_t OUTPUTS, class T, class Out>
__device__ __forceinline__ void fold_outputs(const Split &split, size_t outputs, uint32_t reduced, uint32_t num_dims,
                                             RowGroups shared, const size_t *dims, const size_t *strides,
                                             const T *__restrict__ src, Out *__restrict__ dst) {
    __shared__ FoldValues<typename Fold::State> lds;
    uint32_t thread = threadIdx.x, wave = log2_of(wave_size());
    const Span &kept = split.kept;
    if (thread >> max_of(shared.size + shared.row_groups, wave)) return;
    uint32_t together = 1u << (shared.row_groups + shared.columns);
    for (size_t block = (size_t)blockIdx.x * together; block < outputs; block += (size_t)gridDim.x * together) {
        // What follows from these is not worth keeping from output to output: it takes more registers than there are.
        uint32_t zero = num_dims >> 31;
        opt_barrier_words(shared, zero);
        shared = {uniform(shared.size), uniform(shared.row_groups), uniform(shared.columns)};
        opt_barrier_words(reduced, zero);
        reduced = uniform(reduced);
        Seat seat(thread, shared);
        // The last groups and columns may be left over. They make the last output once more.
        size_t o = min_of(block + (seat.row_group << shared.columns) + seat.column, outputs - 1);
        const T *row = src + kept.offset(o * OUTPUTS, dims, strides) / OUTPUTS;
        typename Fold::State state;
        if constexpr (OUTPUTS > 1) {
            state = Fold::start();
            fold_strided<Fold>(state, row, split.inner.stride / OUTPUTS, Stretch{0, reduced}, seat.group,
                               shared.size - shared.columns, zero);
        } else {
            state = fold_stretch<Fold>(row, split.inner, Stretch{0, reduced}, seat.group, shared.size - shared.columns,
                                       zero, dims, strides);
        }
        T front = reduced == 0 ? T() : row[0];
        state = fold_group<Fold>(state, shared, seat, outputs - block > (size_t)gridDim.x * together, lds);
        if (seat.group == 0) dst[o] = Fold::finish(state, front);
    }
}

template <class Fold, class T, class Out>
__device__ __forceinline__ void fold(size_t numel, size_t of_each, size_t num_dims, const size_t *__restrict__ info,
                                     const T *__restrict__ src, Out *__restrict__ dst) {
    constexpr uint32_t WIDTH = VEC16<T>;
    const size_t *dims = info, *strides = info + num_dims;
    uint32_t reduced = (uint32_t)of_each, wave = log2_of(wave_size());
    Split split(reduced, num_dims, dims, strides);
    size_t outputs = reduced == 0 ? gridDim.x : split.kept.elements;
    // Outputs of a workgroup, and its threads, as exponents of 2.
    uint32_t asked = 0, threads = log2_of(blockDim.x);
#pragma nounroll
    while (asked < threads && (size_t)gridDim.x << asked < outputs) asked++;
    uint32_t vectors = split.adjacent() ? (reduced + WIDTH - 1) / WIDTH : reduced;
    RowGroups shared = groups_for_rows(vectors, asked, threads);
    if (split.side_by_side() && reduced > 1 && threads >= wave) {
        constexpr uint32_t OUTPUTS = NEIGHBOURS<T>;
        using V = vec<T, OUTPUTS>;
        using Results = vec<Out, OUTPUTS>;
        if (split.neighbours<OUTPUTS>(src) && is_aligned(dst, sizeof(Results))) {
            outputs /= OUTPUTS;
            shared = groups_for_columns(outputs, reduced, asked, threads, 3);
            fold_outputs<Neighbours<Fold, OUTPUTS>, OUTPUTS>(split, outputs, reduced, num_dims, shared, dims, strides,
                                                             (const V *)src, (Results *)dst);
            return;
        }
        shared = groups_for_columns(outputs, reduced, asked, threads, log2_of(32 / sizeof(T)));
    }
    fold_outputs<Fold, 1>(split, outputs, reduced, num_dims, shared, dims, strides, src, dst);
}

// One thread makes one output of at most 32 elements.
template <class T>
__device__ __forceinline__ void fast_sum_small(size_t outputs, size_t reduced, size_t num_dims,
                                               const size_t *__restrict__ info, const T *__restrict__ src,
                                               T *__restrict__ dst) {
    const size_t *dims = info, *strides = info + num_dims;
    Split split(reduced, num_dims, dims, strides);
    const Span &kept = split.kept, &inner = split.inner;
    constexpr uint32_t WIDTH = VEC16<T>;
    for (size_t o = global_thread(); o < outputs; o += global_threads()) {
        const T *row = src + kept.offset(o, dims, strides);
        compute_t<T> sum = 0;
        size_t i = 0;
        if (inner.uniform && inner.stride == 1 && is_aligned(row, 16)) {
            for (; i + WIDTH <= reduced; i += WIDTH) {
                auto x = read_global<vec<T, WIDTH>>(row + i);
#pragma unroll
                for (int k = 0; k < (int)WIDTH; k++) sum += upcast(x[k]);
            }
        }
        if (__builtin_expect(inner.uniform, 1)) {
            // Some are on their way before the first is added; the order stays.
            constexpr uint32_t STRIP = 8;
            const T *at = row + i * inner.stride;
#pragma nounroll
            for (uint32_t left = (uint32_t)(reduced - i); left > 0; left -= min_of(left, STRIP)) {
                T x[STRIP];
#pragma unroll
                for (uint32_t s = 0; s < STRIP; s++, at += inner.stride)
                    if (s < left) x[s] = read_global<T>(at);
#pragma unroll
                for (uint32_t s = 0; s < STRIP; s++)
                    if (s < left) sum += upcast(x[s]);
            }
        } else {
            for (; i < reduced; i++) sum += upcast(row[inner.offset(i, dims, strides)]);
        }
        dst[o] = round_to<T>(sum);
    }
}

// -------------------------------------------------------------------- folds

template <class T> struct Summing {
    using State = compute_t<T>;
    static __device__ __forceinline__ State start() { return 0; }
    static __device__ __forceinline__ void add(State &state, T value, uint32_t) { state += upcast(value); }
    static __device__ __forceinline__ State both(State a, State b) { return a + b; }
    static __device__ __forceinline__ T finish(State state, T) { return round_to<T>(state); }
};

// An extremum and where it was first seen.
template <class C> struct ValueAndIndex {
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

// The first of the equal extrema; ARG for its place, else its value. As on the CPU, which compares with the best so
// far, a NaN loses against all numbers, unless it comes first: then nothing beats it.
template <class Order, bool ARG, class T> struct Extremum {
    using C = compute_t<T>;
    using State = ValueAndIndex<C>;
    static __device__ __forceinline__ State start() { return {Order::template start<T>(), ~0u}; }
    static __device__ __forceinline__ void add(State &best, T element, uint32_t i) {
        C value = upcast(element);
        bool better = Order::beats(value, best.value);
        best.value = better ? value : best.value;
        best.index = better ? i : best.index;
    }
    static __device__ __forceinline__ State both(State a, State b) {
        bool second = Order::beats(b.value, a.value) || (b.value == a.value && b.index < a.index);
        return second ? b : a;
    }
    static __device__ __forceinline__ auto finish(State best, T element) {
        C first = upcast(element);
        bool is_nan = first != first;
        // If none beats the start, then all numbers equal it, and the first element is one or a NaN.
        if constexpr (ARG) return is_nan || best.index == ~0u ? 0u : best.index;
        else return round_to<T>(is_nan ? first : best.value);
    }
};
