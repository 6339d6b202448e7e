// Some elements of a row that a lane handles together, and a loop over those of a matrix.
#pragma once
#include "portable/portable.cuh"

// V elements as they are in memory, by 16 bytes. There are all or, not aligned, some.
template <class T, int V> struct Held {
    static constexpr int W = min_of(VEC16<T>, V), COUNT = V / W;
    static_assert(V % W == 0 && W * sizeof(T) % 4 == 0, "whole words");
    // Of words: vectors of smaller elements would be loaded in parts on NVIDIA's GPUs.
    typedef uint32_t Words __attribute__((ext_vector_type(W * sizeof(T) / 4)));
    Words words[COUNT] = {};

    // All of them, aligned.
    __device__ __forceinline__ void load(const T *from) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) words[i] = *(const Words *)(from + i * W);
    }
    // `count` are there, the others 0; by vectors where those are aligned, all or none.
    __device__ __forceinline__ void load(const T *from, uint32_t count, bool aligned) {
        if (aligned) {
            if (count == V) load(from);
        } else {
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                vec<T, W> some = {};
#pragma unroll
                for (int j = 0; j < W; j++)
                    if (i * W + j < (int)count) some[j] = from[i * W + j];
                words[i] = bit_cast<Words>(some);
            }
        }
    }
    __device__ __forceinline__ void store(T *to, uint32_t count, bool aligned) const {
        if (aligned) {
#pragma unroll
            for (int i = 0; i < COUNT; i++)
                if (count == V) *(Words *)(to + i * W) = words[i];
        } else {
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                vec<T, W> some = bit_cast<vec<T, W>>(words[i]);
#pragma unroll
                for (int j = 0; j < W; j++)
                    if (i * W + j < (int)count) to[i * W + j] = some[j];
            }
        }
    }
};

// V elements of a lane in f32.
template <class T, int V> struct FloatVector {
    using Held = ::Held<T, V>;
    float x[V] = {};

    FloatVector() = default;
    __device__ __forceinline__ FloatVector(const Held &held) {
#pragma unroll
        for (int i = 0; i < Held::COUNT; i++) {
            vec<T, Held::W> elements = bit_cast<vec<T, Held::W>>(held.words[i]);
#pragma unroll
            for (int j = 0; j < Held::W; j++) x[i * Held::W + j] = upcast(elements[j]);
        }
    }
    __device__ __forceinline__ Held rounded() const {
        Held held;
#pragma unroll
        for (int i = 0; i < Held::COUNT; i++) {
            vec<T, Held::W> elements;
#pragma unroll
            for (int j = 0; j < Held::W; j++) elements[j] = round_to<T>(x[i * Held::W + j]);
            held.words[i] = bit_cast<typename Held::Words>(elements);
        }
        return held;
    }
};

// Calls f(row, column, count) for the vectors of V columns of a matrix. Grid: any in x.
template <int V, class F> __device__ __forceinline__ void for_vectors(uint32_t rows, uint32_t columns, F f) {
    uint32_t vectors = ceil_div(columns, (uint32_t)V);
    uint64_t total = (uint64_t)rows * vectors;
    bool fits_32 = total >> 32 == 0;
    for (uint64_t i = global_thread(); i < total; i += global_threads()) {
        uint32_t row = (uint32_t)divide(i, vectors, fits_32), column = (uint32_t)(i - (uint64_t)row * vectors) * V;
        f(row, column, min_of(columns - column, (uint32_t)V));
    }
}
