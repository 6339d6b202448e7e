// 8-bit floats: e4m3 (largest 448, no infinities) and e5m2, with CUDA's two ways of treating what does not fit.
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

namespace candle_rocm {
// Rounded once, to nearest, ties to even; `value` is exact or rounded to odd.
CANDLE_ROCM_BOTH unsigned char float_to_fp8(float value, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {
    const int MANTISSA = kind == __NV_E4M3 ? 3 : 2, BIAS = kind == __NV_E4M3 ? 7 : 15;
    // The largest number's bits; those of what is beyond it where nothing saturates: NaN, infinity.
    const unsigned int LARGEST = kind == __NV_E4M3 ? 0x7e : 0x7b, BEYOND = kind == __NV_E4M3 ? 0x7f : 0x7c;
    unsigned int word = bits<unsigned int>(value), sign = (word >> 24) & 0x80u, size = word & 0x7fffffffu, result;
    if (size > 0x7f800000u) return 0x7f;
    int cut = 23 - MANTISSA;
    if (size < (unsigned int)(127 - BIAS + 1) << 23) {
        // Subnormal numbers: their spacing is that of f32 at a power of two, which is added and taken away again.
        float base = bits<float>((unsigned int)(127 - BIAS + 1 + cut) << 23);
        result = bits<unsigned int>(bits<float>(size) + base) - bits<unsigned int>(base);
    } else {
        result =
            ((size + ((1u << (cut - 1)) - 1) + ((size >> cut) & 1u)) >> cut) - ((unsigned int)(127 - BIAS) << MANTISSA);
    }
    if (result > LARGEST) result = saturation == __NV_SATFINITE ? LARGEST : BEYOND;
    return (unsigned char)(sign | result);
}
// Every 8-bit float is an f16.
CANDLE_ROCM_BOTH unsigned short fp8_to_half(unsigned char word, __nv_fp8_interpretation_t kind) {
    if (kind == __NV_E5M2) return (word & 0x7f) > 0x7c ? 0x7fff : (unsigned short)(word << 8);
    if ((word & 0x7f) == 0x7f) return 0x7fff;
    // The fields moved into place have an exponent 8 too small; scaling also normalises.
    float size = (float)bits<_Float16>((unsigned short)((word & 0x7f) << 7)) * 256.0f;
    return (unsigned short)(bits<unsigned short>((_Float16)size) | (word & 0x80) << 8);
}
} // namespace candle_rocm

CANDLE_ROCM_BOTH __nv_fp8_storage_t __nv_cvt_float_to_fp8(const float x, const __nv_saturation_t saturation,
                                                          const __nv_fp8_interpretation_t kind) {
    return candle_rocm::float_to_fp8(x, saturation, kind);
}
CANDLE_ROCM_BOTH __nv_fp8_storage_t __nv_cvt_double_to_fp8(const double x, const __nv_saturation_t saturation,
                                                           const __nv_fp8_interpretation_t kind) {
    return candle_rocm::float_to_fp8(candle_rocm::round_to_odd(x), saturation, kind);
}
CANDLE_ROCM_BOTH __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(const __half_raw x, const __nv_saturation_t saturation,
                                                            const __nv_fp8_interpretation_t kind) {
    return candle_rocm::float_to_fp8(candle_rocm::half_to_float(x.x), saturation, kind);
}
CANDLE_ROCM_BOTH __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(const __nv_bfloat16_raw x,
                                                                const __nv_saturation_t saturation,
                                                                const __nv_fp8_interpretation_t kind) {
    return candle_rocm::float_to_fp8(candle_rocm::bfloat_to_float(x.x), saturation, kind);
}
CANDLE_ROCM_BOTH __half_raw __nv_cvt_fp8_to_halfraw(const __nv_fp8_storage_t x, const __nv_fp8_interpretation_t kind) {
    return __half_raw{candle_rocm::fp8_to_half(x, kind)};
}
CANDLE_ROCM_BOTH __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(const float2 x, const __nv_saturation_t saturation,
                                                               const __nv_fp8_interpretation_t kind) {
    return (__nv_fp8x2_storage_t)(candle_rocm::float_to_fp8(x.x, saturation, kind) |
                                  candle_rocm::float_to_fp8(x.y, saturation, kind) << 8);
}
CANDLE_ROCM_BOTH __nv_fp8x2_storage_t __nv_cvt_halfraw2_to_fp8x2(const __half2_raw x,
                                                                 const __nv_saturation_t saturation,
                                                                 const __nv_fp8_interpretation_t kind) {
    return __nv_cvt_float2_to_fp8x2(make_float2(candle_rocm::half_to_float(x.x), candle_rocm::half_to_float(x.y)),
                                    saturation, kind);
}
CANDLE_ROCM_BOTH __nv_fp8x2_storage_t __nv_cvt_bfloat16raw2_to_fp8x2(const __nv_bfloat162_raw x,
                                                                     const __nv_saturation_t saturation,
                                                                     const __nv_fp8_interpretation_t kind) {
    return __nv_cvt_float2_to_fp8x2(make_float2(candle_rocm::bfloat_to_float(x.x), candle_rocm::bfloat_to_float(x.y)),
                                    saturation, kind);
}
CANDLE_ROCM_BOTH __half2_raw __nv_cvt_fp8x2_to_halfraw2(const __nv_fp8x2_storage_t x,
                                                        const __nv_fp8_interpretation_t kind) {
    return __half2_raw{candle_rocm::fp8_to_half((unsigned char)x, kind),
                       candle_rocm::fp8_to_half((unsigned char)(x >> 8), kind)};
}

#define CANDLE_ROCM_FP8(NAME, KIND)                                                                                    \
    struct alignas(1) __nv_fp8_##NAME {                                                                                \
        __nv_fp8_storage_t __x;                                                                                        \
        __nv_fp8_##NAME() = default;                                                                                   \
        template <class T> explicit __host__ __device__ __nv_fp8_##NAME(const T value)                                 \
            : __x(candle_rocm::float_to_fp8(candle_rocm::odd_float(value), __NV_SATFINITE, KIND)) {}                   \
        explicit __host__ __device__ operator __half() const { return __nv_cvt_fp8_to_halfraw(__x, KIND); }            \
        explicit __host__ __device__ operator float() const {                                                          \
            return candle_rocm::half_to_float(candle_rocm::fp8_to_half(__x, KIND));                                    \
        }                                                                                                              \
        explicit __host__ __device__ operator double() const { return (double)(float)*this; }                          \
        explicit __host__ __device__ operator __nv_bfloat16() const { return __nv_bfloat16((float)*this); }            \
        explicit __host__ __device__ operator bool() const { return (__x & 0x7f) != 0; }                               \
        template <class T, class = typename candle_rocm::integer<T>::type> explicit __host__ __device__ operator T()   \
            const {                                                                                                    \
            return candle_rocm::saturate<T>((float)*this);                                                             \
        }                                                                                                              \
    };                                                                                                                 \
    struct alignas(2) __nv_fp8x2_##NAME {                                                                              \
        __nv_fp8x2_storage_t __x;                                                                                      \
        __nv_fp8x2_##NAME() = default;                                                                                 \
        explicit __host__ __device__ __nv_fp8x2_##NAME(const float2 value)                                             \
            : __x(__nv_cvt_float2_to_fp8x2(value, __NV_SATFINITE, KIND)) {}                                            \
        explicit __host__ __device__ __nv_fp8x2_##NAME(const __half2 value)                                            \
            : __x(__nv_cvt_halfraw2_to_fp8x2(value, __NV_SATFINITE, KIND)) {}                                          \
        explicit __host__ __device__ __nv_fp8x2_##NAME(const __nv_bfloat162 value)                                     \
            : __x(__nv_cvt_bfloat16raw2_to_fp8x2(value, __NV_SATFINITE, KIND)) {}                                      \
        explicit __host__ __device__ operator __half2() const { return __nv_cvt_fp8x2_to_halfraw2(__x, KIND); }        \
        explicit __host__ __device__ operator float2() const { return __half22float2((__half2) * this); }              \
    };                                                                                                                 \
    struct alignas(4) __nv_fp8x4_##NAME {                                                                              \
        __nv_fp8x4_storage_t __x;                                                                                      \
        __nv_fp8x4_##NAME() = default;                                                                                 \
        explicit __host__ __device__ __nv_fp8x4_##NAME(const float4 value)                                             \
            : __x(__nv_cvt_float2_to_fp8x2(make_float2(value.x, value.y), __NV_SATFINITE, KIND) |                      \
                  (unsigned int)__nv_cvt_float2_to_fp8x2(make_float2(value.z, value.w), __NV_SATFINITE, KIND) << 16) { \
        }                                                                                                              \
        explicit __host__ __device__ operator float4() const {                                                         \
            float2 low = __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t)__x, KIND)));         \
            float2 high =                                                                                              \
                __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t)(__x >> 16), KIND)));          \
            return make_float4(low.x, low.y, high.x, high.y);                                                          \
        }                                                                                                              \
    };

namespace candle_rocm {
// Integer types, to which 8-bit floats convert.
template <class T> struct integer {};
#define CANDLE_ROCM_IS_INTEGER(T)   \
    template <> struct integer<T> { \
        typedef T type;             \
    };
CANDLE_ROCM_IS_INTEGER(signed char)
CANDLE_ROCM_IS_INTEGER(unsigned char)
CANDLE_ROCM_IS_INTEGER(char)
CANDLE_ROCM_IS_INTEGER(short)
CANDLE_ROCM_IS_INTEGER(unsigned short)
CANDLE_ROCM_IS_INTEGER(int)
CANDLE_ROCM_IS_INTEGER(unsigned int)
CANDLE_ROCM_IS_INTEGER(long)
CANDLE_ROCM_IS_INTEGER(unsigned long)
CANDLE_ROCM_IS_INTEGER(long long)
CANDLE_ROCM_IS_INTEGER(unsigned long long)
#undef CANDLE_ROCM_IS_INTEGER
// Any number as an f32 that rounds to 8 bits as the number would.
template <class T> CANDLE_ROCM_BOTH float odd_float(T value) { return integer_to_odd(value); }
CANDLE_ROCM_BOTH float odd_float(float value) { return value; }
CANDLE_ROCM_BOTH float odd_float(double value) { return round_to_odd(value); }
CANDLE_ROCM_BOTH float odd_float(__half value) { return (float)value; }
CANDLE_ROCM_BOTH float odd_float(__nv_bfloat16 value) { return (float)value; }
} // namespace candle_rocm

CANDLE_ROCM_FP8(e4m3, __NV_E4M3)
CANDLE_ROCM_FP8(e5m2, __NV_E5M2)
#undef CANDLE_ROCM_FP8
