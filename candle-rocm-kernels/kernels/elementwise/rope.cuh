// Rotary position embedding: pairs (x0, x1) rotated by an angle given as cos and sin.
//
// A thread rotates a vector of pairs where vectors divide rows and all pointers are aligned, or one pair. cos and sin
// have d / 2 values a position, for each batch element anew where stride_b (the elements of one batch element of src)
// is not 0.
#pragma once
#include "portable/convert.cuh"

// How many pairs a thread rotates at once.
template <int WIDTH> struct RopeWidth {
    static constexpr int value = WIDTH;
};

template <int WIDTH, class T>
__device__ __forceinline__ void rotate(vec<T, WIDTH> &x0, vec<T, WIDTH> &x1, const vec<T, WIDTH> &cosine,
                                       const vec<T, WIDTH> &sine) {
    using C = compute_t<T>;
#pragma unroll
    for (int k = 0; k < WIDTH; k++) {
        C a = upcast(x0[k]), b = upcast(x1[k]), c = upcast(cosine[k]), s = upcast(sine[k]);
        x0[k] = round_to<T>(a * c - b * s);
        x1[k] = round_to<T>(a * s + b * c);
    }
}

// Pairs from element i0 on, and `half` further.
template <int WIDTH, class T>
__device__ __forceinline__ void rotate_halves(const T *__restrict__ src, const T *__restrict__ cos,
                                              const T *__restrict__ sin, T *__restrict__ dst, size_t i0, uint32_t half,
                                              uint32_t cs) {
    using V = vec<T, WIDTH>;
    auto x0 = read_global<V>(src + i0), x1 = read_global<V>(src + i0 + half);
    auto cosine = read_global<V>(cos + cs), sine = read_global<V>(sin + cs);
    rotate<WIDTH, T>(x0, x1, cosine, sine);
    store_vec(dst + i0, x0);
    store_vec(dst + i0 + half, x1);
}

// Calls make(integral constant WIDTH): that of vectors of `bytes` where they divide `length` and pointers, or 1.
template <int WIDTH, class F, class T>
__device__ __forceinline__ void by_vectors(uint32_t length, const T *src, const T *cos, const T *sin, const T *dst,
                                           F make) {
    constexpr uint32_t BYTES = WIDTH * sizeof(T);
    bool fits = length % WIDTH == 0 && is_aligned(src, 16) && is_aligned(dst, 16) && is_aligned(cos, BYTES) &&
                is_aligned(sin, BYTES);
    if (fits) make(RopeWidth<WIDTH>());
    else make(RopeWidth<1>());
}

// Pairs are neighbours: (bh, t, d) with pair i at 2i and 2i + 1.
template <class T>
__device__ __forceinline__ void rope_i(const T *__restrict__ src, const T *__restrict__ cos, const T *__restrict__ sin,
                                       T *__restrict__ dst, uint32_t bh, uint32_t td, uint32_t stride_b) {
    uint32_t half_td = td / 2, pairs = bh * half_td;
    by_vectors<VEC16<T> / 2>(half_td, src, cos, sin, dst, [&](auto width) INLINED {
        constexpr int WIDTH = decltype(width)::value;
        using V = vec<T, WIDTH>;
        for (size_t i = global_thread() * WIDTH; i < pairs; i += global_threads() * WIDTH) {
            uint32_t pair = (uint32_t)i, cs = pair % half_td;
            if (stride_b > 0) cs += pair / (stride_b / 2) * half_td;
            V x0, x1;
            // A pair alone may begin at any element.
            if constexpr (WIDTH == 1) {
                x0[0] = src[i * 2];
                x1[0] = src[i * 2 + 1];
            } else {
                auto x = read_global<vec<T, 2 * WIDTH>>(src + i * 2);
#pragma unroll
                for (int k = 0; k < WIDTH; k++) {
                    x0[k] = x[2 * k];
                    x1[k] = x[2 * k + 1];
                }
            }
            rotate<WIDTH, T>(x0, x1, read_global<V>(cos + cs), read_global<V>(sin + cs));
            if constexpr (WIDTH == 1) {
                dst[i * 2] = x0[0];
                dst[i * 2 + 1] = x1[0];
            } else {
                vec<T, 2 * WIDTH> x;
#pragma unroll
                for (int k = 0; k < WIDTH; k++) {
                    x[2 * k] = x0[k];
                    x[2 * k + 1] = x1[k];
                }
                store_vec(dst + i * 2, x);
            }
        }
    });
}

// Pairs lie d / 2 apart: (bh, t, d).
template <class T>
__device__ __forceinline__ void rope(const T *__restrict__ src, const T *__restrict__ cos, const T *__restrict__ sin,
                                     T *__restrict__ dst, uint32_t bh, uint32_t td, uint32_t d, uint32_t stride_b) {
    uint32_t half = d / 2, half_td = td / 2, pairs = bh * half_td;
    by_vectors<VEC16<T>>(d % 2 == 0 ? half : 1, src, cos, sin, dst, [&](auto width) INLINED {
        constexpr int WIDTH = decltype(width)::value;
        for (size_t i = global_thread() * WIDTH; i < pairs; i += global_threads() * WIDTH) {
            uint32_t pair = (uint32_t)i, row = pair / half, at = pair - row * half;
            uint32_t cs = pair % half_td;
            if (stride_b > 0) cs += pair / (stride_b / 2) * half_td;
            rotate_halves<WIDTH>(src, cos, sin, dst, (size_t)row * d + at, half, cs);
        }
    });
}

// Pairs lie d / 2 apart, with heads inside positions: (b, t, h, d).
template <class T>
__device__ __forceinline__ void rope_thd(const T *__restrict__ src, const T *__restrict__ cos,
                                         const T *__restrict__ sin, T *__restrict__ dst, uint32_t b, uint32_t t,
                                         uint32_t h, uint32_t d, uint32_t stride_b) {
    uint32_t half = d / 2, pairs = b * t * h * half;
    by_vectors<VEC16<T>>(d % 2 == 0 ? half : 1, src, cos, sin, dst, [&](auto width) INLINED {
        constexpr int WIDTH = decltype(width)::value;
        for (size_t i = global_thread() * WIDTH; i < pairs; i += global_threads() * WIDTH) {
            uint32_t pair = (uint32_t)i, row = pair / half, at = pair - row * half;
            uint32_t position = row / h, batch = position / t;
            uint32_t cs = (position - batch * t) * half + at;
            if (stride_b > 0) cs += batch * t * half;
            rotate_halves<WIDTH>(src, cos, sin, dst, (size_t)row * d + at, half, cs);
        }
    });
}
