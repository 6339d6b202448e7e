// Rotary position embedding: pairs (x0, x1) rotated by an angle given as cos and sin.
//
// A thread rotates one pair. cos and sin have d / 2 values a position, for each batch element anew
// where stride_b (the elements of one batch element of src) is not 0.
#pragma once
#include "portable/convert.cuh"

template <class T>
__device__ __forceinline__ void rotate(const T *__restrict__ src, T *__restrict__ dst, size_t i0, size_t i1, T cosine,
                                       T sine) {
    using C = compute_t<T>;
    C x0 = upcast(src[i0]), x1 = upcast(src[i1]), c = upcast(cosine), s = upcast(sine);
    dst[i0] = round_to<T>(x0 * c - x1 * s);
    dst[i1] = round_to<T>(x0 * s + x1 * c);
}

// Pairs are neighbours: (bh, t, d) with pair i at 2i and 2i + 1.
template <class T>
__device__ __forceinline__ void rope_i(const T *__restrict__ src, const T *__restrict__ cos, const T *__restrict__ sin,
                                       T *__restrict__ dst, uint32_t bh, uint32_t td, uint32_t stride_b) {
    uint32_t half_td = td / 2, pairs = bh * half_td;
    for (size_t i = global_thread(); i < pairs; i += global_threads()) {
        uint32_t pair = (uint32_t)i, cs = pair % half_td;
        if (stride_b > 0) cs += pair / (stride_b / 2) * half_td;
        rotate(src, dst, (size_t)pair * 2, (size_t)pair * 2 + 1, cos[cs], sin[cs]);
    }
}

// Pairs lie d / 2 apart: (bh, t, d).
template <class T>
__device__ __forceinline__ void rope(const T *__restrict__ src, const T *__restrict__ cos, const T *__restrict__ sin,
                                     T *__restrict__ dst, uint32_t bh, uint32_t td, uint32_t d, uint32_t stride_b) {
    uint32_t half = d / 2, half_td = td / 2, pairs = bh * half_td;
    for (size_t i = global_thread(); i < pairs; i += global_threads()) {
        uint32_t pair = (uint32_t)i, row = pair / half, at = pair - row * half;
        uint32_t cs = pair % half_td;
        if (stride_b > 0) cs += pair / (stride_b / 2) * half_td;
        size_t i0 = (size_t)row * d + at;
        rotate(src, dst, i0, i0 + half, cos[cs], sin[cs]);
    }
}

// Pairs lie d / 2 apart, with heads inside positions: (b, t, h, d).
template <class T>
__device__ __forceinline__ void rope_thd(const T *__restrict__ src, const T *__restrict__ cos,
                                         const T *__restrict__ sin, T *__restrict__ dst, uint32_t b, uint32_t t,
                                         uint32_t h, uint32_t d, uint32_t stride_b) {
    uint32_t half = d / 2, pairs = b * t * h * half;
    for (size_t i = global_thread(); i < pairs; i += global_threads()) {
        uint32_t pair = (uint32_t)i, row = pair / half, at = pair - row * half;
        uint32_t position = row / h, batch = position / t;
        uint32_t cs = (position - batch * t) * half + at;
        if (stride_b > 0) cs += batch * t * half;
        size_t i0 = (size_t)row * d + at;
        rotate(src, dst, i0, i0 + half, cos[cs], sin[cs]);
    }
}
