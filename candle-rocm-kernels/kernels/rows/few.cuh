// Some elements of a row that a lane handles together, and loops over a matrix' of them with several on their way.
#pragma once
#include "portable/portable.cuh"
#include "portable/streams.cuh"

// V elements as they are in memory: nothing waits for them until they are widened.
template <class T, int V> struct Held {
    static constexpr int W = min_of(V, VEC16<T>);
    vec<T, W> words[V / W] = {};

    // All of them, aligned.
    __device__ __forceinline__ void load(const T *from) {
#pragma unroll
        for (int i = 0; i < V / W; i++) words[i] = load_vec<vec<T, W>>(from + i * W);
    }
    // `count` are there, the others 0; by vectors where those are aligned, all or none.
    __device__ __forceinline__ void load(const T *from, uint32_t count, bool aligned) {
        if (aligned) {
            if (count == V) load(from);
        } else {
#pragma unroll
            for (int i = 0; i < V; i++)
                if (i < (int)count) words[i / W][i % W] = from[i];
        }
    }
};

// The same in f32.
template <class T, int V> struct Few {
    using Held = ::Held<T, V>;
    float x[V] = {};

    Few() = default;
    __device__ __forceinline__ Few(const Held &held) {
#pragma unroll
        for (int i = 0; i < V; i++) x[i] = widen(held.words[i / Held::W][i % Held::W]);
    }
    // As Held's load.
    __device__ __forceinline__ void store(T *to, uint32_t count, bool aligned) const {
        vec<T, Held::W> values[V / Held::W];
#pragma unroll
        for (int i = 0; i < V; i++) values[i / Held::W][i % Held::W] = narrow<T>(x[i]);
        if (aligned) {
#pragma unroll
            for (int i = 0; i < V / Held::W; i++)
                if (count == V) store_vec(to + i * Held::W, values[i]);
        } else {
#pragma unroll
            for (int i = 0; i < V; i++)
                if (i < (int)count) to[i] = values[i / Held::W][i % Held::W];
        }
    }
};

// Calls use(index, load(index)) for each index from `first` on by steps, AHEAD loads before their first use.
template <int AHEAD, class Load, class Use>
__device__ __forceinline__ void each_ahead(uint64_t first, uint64_t total, uint64_t step, Load load, Use use) {
    for (; first < total; first += AHEAD * step) {
        decltype(load(first)) held[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (first + i * step < total) held[i] = load(first + i * step);
        in_order();
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (first + i * step < total) use(first + i * step, held[i]);
    }
}

// Vectors of V columns of a matrix. Calls use(row, column, count, load(row, column, count)) for each. Grid: any in x.
template <int V, int AHEAD, class Load, class Use>
__device__ __forceinline__ void each_few(uint32_t rows, uint32_t columns, Load load, Use use) {
    uint32_t vectors = ceil_div(columns, (uint32_t)V);
    uint64_t total = (uint64_t)rows * vectors;
    bool narrow = total >> 32 == 0;
    auto at = [&](uint64_t i, auto f) INLINED {
        uint32_t row = (uint32_t)divide(i, vectors, narrow), column = (uint32_t)(i - (uint64_t)row * vectors) * V;
        return f(row, column, min_of(columns - column, (uint32_t)V));
    };
    each_ahead<AHEAD>(
        global_thread(), total, global_threads(), [&](uint64_t i) INLINED { return at(i, load); },
        [&](uint64_t i, auto &held) INLINED {
            at(i, [&](uint32_t row, uint32_t column, uint32_t count) INLINED { use(row, column, count, held); });
        });
}
