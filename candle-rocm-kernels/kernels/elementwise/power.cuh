// x to the power p in the 8- and 16-bit floats, by exponential and logarithm in f32: twice as precise as the result,
// with IEEE 754's special cases.
#pragma once
#include "elementwise/elementwise.cuh"

// log2 of a number that is not negative, within some 2^-22 of it, and of 2^-22 near 1, as the hardware has it.
template <class T> __device__ __forceinline__ float hardware_log2(float a) {
    // Of the small floats only bf16 has numbers that are subnormal in f32.
    if constexpr (!is_same<T, bf16_t>::value) return math::fast_log2(a);
    bool subnormal = a < 0x1p-126f;
    return math::fast_log2(subnormal ? a * 0x1p64f : a) - (subnormal ? 64.0f : 0.0f);
}

// The same within some 2^-22 of the result everywhere, so that it may be multiplied by a large number.
template <class T> __device__ __forceinline__ float precise_log2(float a) {
    bool subnormal = is_same<T, bf16_t>::value && a < 0x1p-126f;
    // a = m 2^e, with m from the root of 1/2 to that of 2.
    constexpr uint32_t ROOT = 0x3f3504f3;
    uint32_t bits = bit_cast<uint32_t>(subnormal ? a * 0x1p64f : a) - ROOT;
    float e = (float)((int32_t)bits >> 23) - (subnormal ? 64.0f : 0.0f);
    float m = bit_cast<float>((bits & 0x7fffff) + ROOT);
    // ln(m) = 2 artanh((m - 1) / (m + 1)) by its series, which converges fast: the quotient is 0.172 at most.
    float s = (m - 1.0f) * math::fast_recip(m + 1.0f), q = s * s;
    float series = math::fma(math::fma(math::fma(q, 1.0f / 7, 1.0f / 5), q, 1.0f / 3), q, 1.0f);
    float log = math::fma(s * 2.88539008177792681472f, series, e);
    return a == 0 ? -INFINITY : a < INFINITY ? log : a;
}

template <class T> __device__ __forceinline__ float exp2_for(float y) {
    if constexpr (!is_same<T, bf16_t>::value) return math::fast_exp2(y);
    // The hardware's exponential gives no subnormal numbers.
    bool small = y < -64.0f;
    return math::fast_exp2(small ? y + 64.0f : y) * (small ? 0x1p-64f : 1.0f);
}

// Of p alone, which all elements have in common.
struct Exponent {
    float p;
    bool is_integer, is_odd;

    __device__ __forceinline__ explicit Exponent(float p) : p(p) {
        is_integer = math::trunc(p) == p;
        is_odd = is_integer && math::trunc(p * 0.5f) != p * 0.5f;
    }
    // Whether what the hardware's logarithm is off by near 1 stays small, and no element is special for p's sake.
    __device__ __forceinline__ bool is_plain() const { return p != 0 && math::abs(p) <= 64; }
};

template <class T, bool PLAIN> struct Power : conditional<PLAIN, Long, ColdPath>::type {
    Exponent exponent;

    __device__ __forceinline__ explicit Power(Exponent exponent) : exponent(exponent) {}

    __device__ __forceinline__ T operator()(T value) const {
        float x = upcast(value), a = math::abs(x), p = exponent.p;
        float power = exp2_for<T>(p * (PLAIN ? hardware_log2<T>(a) : precise_log2<T>(a)));
        if constexpr (PLAIN) {
            // The commonest, rounded once.
            if (p == 2.0f) power = x * x;
        } else {
            if (p == 0 || x == 1 || (a == 1 && math::abs(p) == INFINITY)) power = 1.0f;
        }
        if (!exponent.is_integer && x < 0 && a < INFINITY) power = NAN;
        return round_to<T>(exponent.is_odd ? math::copysign(power, x) : power);
    }
};
