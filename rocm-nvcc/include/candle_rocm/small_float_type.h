// What the 16-bit float types and their pairs are: bits, conversions to and from every number.
#pragma once
#include "candle_rocm/atomics.h"
#include "candle_rocm/intrinsics.h"

namespace candle_rocm {
// f64 to f32 rounded to odd: towards zero, then the last bit set if anything was cut off. A second rounding to at
// most 22 bits then gives what one rounding would.
__host__ __device__ __forceinline__ float round_to_odd(double value) {
    float nearest = (float)value;
    double back = (double)nearest;
    uint32_t word = bits<uint32_t>(nearest);
    if (back == value || value != value) return nearest;
    word -= __builtin_fabs(back) > __builtin_fabs(value) ? 1u : 0u;
    return bits<float>(word | 1u);
}
// Of an integer: what is cut off of more than 53 bits is kept as one that says so.
template <class T> __host__ __device__ __forceinline__ float integer_to_odd(T value) {
    bool negative = value < (T)0;
    uint64_t size = negative ? 0 - (uint64_t)value : (uint64_t)value;
    if (size >> 53) size = (size >> 11 | ((size & 0x7ff) != 0)) << 11;
    float odd = round_to_odd((double)size);
    return negative ? -odd : odd;
}

__host__ __device__ __forceinline__ float half_to_float(unsigned short word) { return (float)bits<_Float16>(word); }
__host__ __device__ __forceinline__ unsigned short float_to_half(float value) {
    return bits<unsigned short>((_Float16)value);
}
__host__ __device__ __forceinline__ float bfloat_to_float(unsigned short word) {
    return bits<float>((uint32_t)word << 16);
}
// Nearest, ties to even; NaN becomes CUDA's.
__host__ __device__ __forceinline__ unsigned short float_to_bfloat(float value) {
    uint32_t word = bits<uint32_t>(value);
    return value != value ? 0x7fff : (unsigned short)((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
}
} // namespace candle_rocm

// clang-format off
#define CANDLE_ROCM_SMALL_INTEGER(NAME, FROM, T)                                                                   \
    __host__ __device__ NAME(const T value) : __x(candle_rocm::FROM(candle_rocm::integer_to_odd(value))) {}        \
    __host__ __device__ NAME &operator=(const T value) { return *this = NAME(value); }                             \
    __host__ __device__ operator T() const { return candle_rocm::saturate<T>((float)*this); }
#define CANDLE_ROCM_SMALL_TYPE(NAME, RAW, PAIR, PAIR_RAW, FROM, TO)                                                \
    struct alignas(2) RAW { unsigned short x; };                                                                   \
    struct alignas(4) PAIR_RAW { unsigned short x, y; };                                                           \
    struct alignas(2) NAME {                                                                                       \
        unsigned short __x;                                                                                        \
        NAME() = default;                                                                                          \
        __host__ __device__ constexpr NAME(const RAW raw) : __x(raw.x) {}                                          \
        __host__ __device__ NAME(const float value) : __x(candle_rocm::FROM(value)) {}                             \
        __host__ __device__ NAME(const double value) : __x(candle_rocm::FROM(candle_rocm::round_to_odd(value))) {} \
        static __host__ __device__ constexpr NAME from_bits(int word) { return NAME(RAW{(unsigned short)word}); }  \
        __host__ __device__ constexpr operator RAW() const { return RAW{__x}; }                                    \
        __host__ __device__ operator float() const { return candle_rocm::TO(__x); }                                \
        __host__ __device__ constexpr operator bool() const { return (__x & 0x7fff) != 0; }                        \
        __host__ __device__ NAME &operator=(const RAW raw) { __x = raw.x; return *this; }                          \
        __host__ __device__ NAME &operator=(const float value) { return *this = NAME(value); }                     \
        __host__ __device__ NAME &operator=(const double value) { return *this = NAME(value); }                    \
        CANDLE_ROCM_SMALL_INTEGER(NAME, FROM, short)                                                               \
        CANDLE_ROCM_SMALL_INTEGER(NAME, FROM, unsigned short)                                                      \
        CANDLE_ROCM_SMALL_INTEGER(NAME, FROM, int)                                                                 \
        CANDLE_ROCM_SMALL_INTEGER(NAME, FROM, unsigned int)                                                        \
        CANDLE_ROCM_SMALL_INTEGER(NAME, FROM, long)                                                                \
        CANDLE_ROCM_SMALL_INTEGER(NAME, FROM, unsigned long)                                                       \
        CANDLE_ROCM_SMALL_INTEGER(NAME, FROM, long long)                                                           \
        CANDLE_ROCM_SMALL_INTEGER(NAME, FROM, unsigned long long)                                                  \
        __host__ __device__ operator signed char() const {                                                         \
            return candle_rocm::saturate<signed char>((float)*this);                                               \
        }                                                                                                          \
        __host__ __device__ operator unsigned char() const {                                                       \
            return candle_rocm::saturate<unsigned char>((float)*this);                                             \
        }                                                                                                          \
        __host__ __device__ operator char() const { return candle_rocm::saturate<char>((float)*this); }            \
    };                                                                                                             \
    struct alignas(4) PAIR {                                                                                       \
        NAME x, y;                                                                                                 \
        PAIR() = default;                                                                                          \
        __host__ __device__ constexpr PAIR(const NAME &x, const NAME &y) : x(x), y(y) {}                           \
        __host__ __device__ constexpr PAIR(const PAIR_RAW raw) : x(RAW{raw.x}), y(RAW{raw.y}) {}                   \
        __host__ __device__ constexpr operator PAIR_RAW() const { return PAIR_RAW{x.__x, y.__x}; }                 \
    };
// clang-format on
