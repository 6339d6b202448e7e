// Reductions over ranks, in their order: every rank gets the same bits.
#pragma once
#include "communication/messages.cuh"

// The type in which elements are combined: f32 for 16-bit floats, 32 bits for small integers.
template <class T> struct combined {
    using type = compute_t<T>;
};
template <> struct combined<int8_t> {
    using type = int32_t;
};
template <> struct combined<uint8_t> {
    using type = uint32_t;
};
template <class T> using combined_t = typename combined<T>::type;

template <class C, int N> __device__ __forceinline__ void combine(uint32_t op, C (&into)[N], const C (&values)[N]) {
    // NaN gives way to a number.
    auto least = [](C a, C b) {
        return a != a || b < a ? b : a;
    };
    auto most = [](C a, C b) {
        return a != a || b > a ? b : a;
    };
    auto each = [&](auto f) INLINED {
#pragma unroll
        for (int i = 0; i < N; i++) into[i] = f(into[i], values[i]);
    };
    switch (op) {
    case PROD: each([](C a, C b) INLINED { return a * b; }); break;
    case MAX: each(most); break;
    case MIN: each(least); break;
    default: each([](C a, C b) INLINED { return a + b; });
    }
}

// Combines a rank's elements with those of the ranks before it.
template <class T, int N>
__device__ __forceinline__ void take(uint32_t op, bool is_first, combined_t<T> (&all)[N], const vec<T, N> &values) {
    combined_t<T> next[N];
#pragma unroll
    for (int i = 0; i < N; i++) next[i] = (combined_t<T>)values[i];
    if (!is_first) {
        combine<combined_t<T>, N>(op, all, next);
    } else {
#pragma unroll
        for (int i = 0; i < N; i++) all[i] = next[i];
    }
}

// Elements of all ranks, rounded.
template <class T, int N>
__device__ __forceinline__ vec<T, N> reduced(uint32_t op, uint32_t world, const combined_t<T> (&all)[N]) {
    vec<T, N> results;
#pragma unroll
    for (int i = 0; i < N; i++) results[i] = (T)(op == AVG ? all[i] / (combined_t<T>)world : all[i]);
    return results;
}

// Slots that a work-item reads at once.
constexpr uint32_t SENDERS_AT_ONCE = 2;

// Reduces N elements from `first` on.
template <class T, int N>
__device__ __forceinline__ void reduce_elements(const CommunicationProblem &p, uint32_t message, T *to,
                                                uint64_t first) {
    combined_t<T> all[N];
    for (uint32_t begin = 0; begin < p.world; begin += SENDERS_AT_ONCE) {
        // All are on their way before the first is used: other GPUs' memory takes long to answer.
        vec<T, N> values[SENDERS_AT_ONCE];
#pragma unroll
        for (uint32_t s = 0; s < SENDERS_AT_ONCE; s++) {
            uint32_t sender = min_of(begin + s, p.world - 1);
            values[s] = load_vec<vec<T, N>>((const T *)(slot_of(p, sender, message) + p.offset) + first);
        }
#pragma unroll
        for (uint32_t s = 0; s < SENDERS_AT_ONCE; s++) {
            if (begin + s >= p.world) break;
            take<T, N>(p.op, begin + s == 0, all, values[s]);
        }
    }
    // The result may lie anywhere: elements are stored one by one where it does not lie well.
    vec<T, N> results = reduced<T, N>(p.op, p.world, all);
    if (is_aligned(to, sizeof(results))) {
        store_vec(to + first, results);
    } else {
#pragma unroll
        for (int i = 0; i < N; i++) to[first + i] = results[i];
    }
}

// Reduces what the ranks' slots hold into memory.
template <class T> __device__ __forceinline__ void reduce_slots(const CommunicationProblem &p) {
    constexpr int N = VEC16<T>;
    uint32_t message = last_message(p);
    if (!wait_for(p, message)) return;
    T *to = (T *)p.to;
    uint64_t count = p.bytes / sizeof(T), whole = count / N;
    for (uint64_t i = global_thread(); i < whole; i += global_threads()) reduce_elements<T, N>(p, message, to, i * N);
    for (uint64_t i = whole * N + global_thread(); i < count; i += global_threads())
        reduce_elements<T, 1>(p, message, to, i);
}
