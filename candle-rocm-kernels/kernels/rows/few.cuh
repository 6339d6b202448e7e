// Some elements of a row that a lane handles together, and a loop over those of a matrix.
#pragma once
#include "portable/portable.cuh"

// V elements as they are in memory: nothing waits for them until they are widened. There are all or, not aligned, some.
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

// Calls f(row, column, count) for the vectors of V columns of a matrix. Grid: any in x.
template <int V, class F> __device__ __forceinline__ void each_few(uint32_t rows, uint32_t columns, F f) {
    uint32_t vectors = ceil_div(columns, (uint32_t)V);
    uint64_t total = (uint64_t)rows * vectors;
    bool narrow = total >> 32 == 0;
    for (uint64_t i = global_thread(); i < total; i += global_threads()) {
        uint32_t row = (uint32_t)divide(i, vectors, narrow), column = (uint32_t)(i - (uint64_t)row * vectors) * V;
        f(row, column, min_of(columns - column, (uint32_t)V));
    }
}
