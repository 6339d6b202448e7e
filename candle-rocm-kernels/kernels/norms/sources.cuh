// Where the rows of fused operators come from: logits with a mask, a sum with a residual, two tensors.
#pragma once
#include "rows/rows.cuh"

namespace norms {

struct NoMask {};

// The logits x * scale + mask, in the compute type. What a mask of type M does: T is added, of u8 a zero hides the
// element, whatever it is.
template <class T, class M> struct Logits {
    using Element = compute_t<T>;
    template <int WIDTH> using Vector = vec<Element, WIDTH>;
    const T *row;
    const M *mask;
    Element scale;

    template <int WIDTH> __device__ __forceinline__ Vector<WIDTH> read(size_t i) const {
        vec<T, WIDTH> x = read_global<vec<T, WIDTH>>(row + i);
        Vector<WIDTH> logits;
        if constexpr (is_same<M, NoMask>::value) {
#pragma unroll
            for (int k = 0; k < WIDTH; k++) logits[k] = (Element)upcast(x[k]) * scale;
        } else {
            vec<M, WIDTH> m = read_global<vec<M, WIDTH>>(mask + i);
#pragma unroll
            for (int k = 0; k < WIDTH; k++) {
                if constexpr (is_same<M, uint8_t>::value)
                    logits[k] = m[k] != 0 ? (Element)upcast(x[k]) * scale : -(Element)INFINITY;
                else logits[k] = (Element)upcast(x[k]) * scale + (Element)upcast(m[k]);
            }
        }
        return logits;
    }
    template <int WIDTH> static __device__ __forceinline__ Vector<WIDTH> all(Element value) {
        return Plain<Element>::template all<WIDTH>(value);
    }
    __device__ __forceinline__ Logits from(size_t i) const {
        if constexpr (is_same<M, NoMask>::value) return {row + i, mask, scale};
        else return {row + i, mask + i, scale};
    }
};

// Where the mask of each row is: rows are numbered in three dimensions, of which the last two have these sizes, and the
// mask has a stride (in elements, 0 where it is repeated) in each.
struct MaskRows {
    uint32_t middle, inner;
    size_t strides[3];

    __device__ __forceinline__ size_t offset(size_t row) const {
        uint32_t outer = (uint32_t)row / inner, i = (uint32_t)row - outer * inner;
        uint32_t o = outer / middle, m = outer - o * middle;
        return o * strides[0] + m * strides[1] + i * strides[2];
    }
    __device__ __forceinline__ bool divide_by(uint32_t width) const {
        return (strides[0] | strides[1] | strides[2]) % width == 0;
    }
};

// x + residual, rounded to T, which is kept.
template <class T> struct SumOf {
    using Element = T;
    template <int WIDTH> using Vector = vec<T, WIDTH>;
    const T *x, *residual;
    T *sum;

    template <int WIDTH> __device__ __forceinline__ Vector<WIDTH> read(size_t i) const {
        Vector<WIDTH> a = read_global<Vector<WIDTH>>(x + i), b = read_global<Vector<WIDTH>>(residual + i);
#pragma unroll
        for (int k = 0; k < WIDTH; k++) a[k] = round_to<T>(upcast(a[k]) + upcast(b[k]));
        return a;
    }
    template <int WIDTH> static __device__ __forceinline__ Vector<WIDTH> all(T value) {
        return Plain<T>::template all<WIDTH>(value);
    }
    template <class V> __device__ __forceinline__ void write_back(uint32_t i, V value) const {
        store_vec(sum + i, value);
    }
    __device__ __forceinline__ SumOf from(size_t i) const { return {x + i, residual + i, sum + i}; }
};

// Two rows at a time.
template <class T> struct Two {
    using Element = T;
    template <int WIDTH> struct Vector {
        vec<T, WIDTH> a, b;
    };
    const T *a, *b;

    template <int WIDTH> __device__ __forceinline__ Vector<WIDTH> read(size_t i) const {
        return {read_global<vec<T, WIDTH>>(a + i), read_global<vec<T, WIDTH>>(b + i)};
    }
    template <int WIDTH> static __device__ __forceinline__ Vector<WIDTH> all(T value) {
        return {Plain<T>::template all<WIDTH>(value), Plain<T>::template all<WIDTH>(value)};
    }
    __device__ __forceinline__ Two from(size_t i) const { return {a + i, b + i}; }
};

} // namespace norms
