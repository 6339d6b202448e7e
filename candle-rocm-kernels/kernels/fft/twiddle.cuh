// Points of the unit circle by fractions of the circle, exact before they are rounded.
#pragma once
#include "portable/portable.cuh"

template <class T> struct Complex {
    T re, im;

    __device__ __forceinline__ Complex operator*(Complex other) const {
        return {math::fma(re, other.re, -(im * other.im)), math::fma(re, other.im, im * other.re)};
    }
    __device__ __forceinline__ Complex operator+(Complex other) const { return {re + other.re, im + other.im}; }
    __device__ __forceinline__ Complex operator-(Complex other) const { return {re - other.re, im - other.im}; }
    __device__ __forceinline__ Complex conjugate() const { return {re, -im}; }
    __device__ __forceinline__ Complex swapped_if(bool swapped) const { return {swapped ? im : re, swapped ? re : im}; }
};

// Terms of the series of sine and cosine up to an eighth of the circle.
template <class T> constexpr int TWIDDLE_TERMS = sizeof(T) == 4 ? 6 : 9;

// 1 - x/(f(f+1)) * (1 - x/((f+2)(f+3)) * ...): the series of cosine for f = 1, of sine over its argument for f = 2.
template <class T> __device__ __forceinline__ T twiddle_series(T x, int f) {
    T sum = 1;
#pragma unroll
    for (int i = TWIDDLE_TERMS<T> - 1; i > 0; i--) {
        int a = f + 2 * (i - 1);
        sum = math::fma(-x * ((T)1 / (T)(a * (a + 1))), sum, (T)1);
    }
    return sum;
}

// e^(-2 pi i * number / count), of a number below `count`, which is at most 2^28.
template <class T> __device__ __forceinline__ Complex<T> twiddle(uint32_t number, uint32_t count) {
    uint32_t octant = 8 * number / count, rest = 8 * number - octant * count;
    // Odd octants count from their end.
    if (octant & 1) rest = count - rest;
    T angle = (T)rest / (T)count * (T)0.78539816339744830962, square = angle * angle;
    T cosine = twiddle_series(square, 1), sine = angle * twiddle_series(square, 2);
    bool swapped = ((octant + 1) & 2) != 0;
    T re = swapped ? sine : cosine, im = swapped ? cosine : sine;
    return {octant >= 2 && octant < 6 ? -re : re, octant < 4 ? -im : im};
}
