// Candle's element types and the conversions between them, with the results of Rust's `as`.
#pragma once
#include "portable/dtypes.cuh"
#include "portable/portable.cuh"

// 8-bit float, 4 bits of exponent and 3 of mantissa, no infinities ("E4M3FN"): largest 448, NaN
// 0x7f. Conversions are those of the float8 crate: nearest even, saturating to 448.
struct f8e4m3_t {
    uint8_t bits;
    f8e4m3_t() = default;
    __device__ __forceinline__ explicit f8e4m3_t(float value) {
        uint32_t u = bit_cast<uint32_t>(value);
        uint32_t sign = (u >> 24) & 0x80u, abs = u & 0x7fffffffu, out;
        if (abs > 0x7f800000u) {
            out = 0x7fu;
        } else if (abs > 0x43e80000u) { // above 464, the midpoint of 448 and the missing 480
            out = 0x7eu;
        } else if (abs < 0x3c800000u) { // below 2^-6 the spacing is 2^-9, that of f32 at 2^14
            out = bit_cast<uint32_t>(bit_cast<float>(abs) + 16384.0f) - bit_cast<uint32_t>(16384.0f);
        } else {
            out = ((abs + 0x7ffffu + ((abs >> 20) & 1u)) >> 20) - ((127u - 7u) << 3);
        }
        bits = (uint8_t)(sign | out);
    }
    __device__ __forceinline__ explicit operator float() const {
        uint32_t sign = (uint32_t)(bits & 0x80u) << 24, abs = bits & 0x7fu;
        // The fields moved into place have an exponent 120 too small; scaling also normalises.
        float magnitude = bit_cast<float>(abs << 20) * 0x1p120f;
        uint32_t u = abs == 0x7fu ? 0x7fc00000u : bit_cast<uint32_t>(magnitude);
        return bit_cast<float>(u | sign);
    }
};
template <> struct compute<f8e4m3_t> {
    using type = float;
};

template <class T> struct is_float {
    static constexpr bool value = false;
};
template <> struct is_float<float> {
    static constexpr bool value = true;
};
template <> struct is_float<double> {
    static constexpr bool value = true;
};
template <> struct is_float<half_t> {
    static constexpr bool value = true;
};
template <> struct is_float<bf16_t> {
    static constexpr bool value = true;
};
template <> struct is_float<f8e4m3_t> {
    static constexpr bool value = true;
};

// f64 to f32 rounded to odd: towards zero, then the last bit set if anything was cut off. A second
// rounding to at most 22 bits then gives what one rounding of the f64 would.
__device__ __forceinline__ float round_to_odd(double value) {
    float nearest = (float)value;
    double back = (double)nearest;
    uint32_t bits = bit_cast<uint32_t>(nearest);
    if (back == value || value != value) return nearest;
    bits -= math::abs(back) > math::abs(value) ? 1u : 0u;
    return bit_cast<float>(bits | 1u);
}

// Float to integer: towards zero, saturating, NaN to 0. F is float or double.
template <class To, class F> __device__ __forceinline__ To saturate(F value) {
    constexpr bool SIGNED = (To)-1 < (To)0;
    constexpr int BITS = (int)sizeof(To) * 8;
    constexpr To HIGHEST = SIGNED ? (To)(((uint64_t)1 << (BITS - 1)) - 1) : (To)-1;
    constexpr To LOWEST = SIGNED ? (To)((uint64_t)1 << (BITS - 1)) : (To)0;
    // One past the highest is a power of two, exact in F, as is the lowest.
    constexpr F LIMIT = (F)((uint64_t)1 << (BITS - 1)) * (F)(SIGNED ? 1 : 2);
    if (value != value) return 0;
    if (value >= LIMIT) return HIGHEST;
    if (value < (F)LOWEST) return LOWEST;
    return (To)value;
}

// The conversion of Candle's `to_dtype`: small floats pass through f32, integers to small floats too.
template <class To, class From> __device__ __forceinline__ To convert(From value) {
    using Wide = compute_t<To>;
    if constexpr (is_same<To, From>::value) {
        return value;
    } else if constexpr (is_float<From>::value && !is_float<To>::value) {
        return saturate<To>(upcast(value));
    } else if constexpr (is_same<From, double>::value && is_same<Wide, float>::value && !is_same<To, float>::value) {
        return round_to<To>(round_to_odd(value));
    } else if constexpr (is_float<From>::value) {
        return round_to<To>((Wide)upcast(value));
    } else {
        return round_to<To>((Wide)value);
    }
}
