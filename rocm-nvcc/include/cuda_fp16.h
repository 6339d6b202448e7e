// __half and __half2: conversions here, arithmetic in candle_rocm/small_floats.inc.
#pragma once
#include "cuda_runtime.h"
#include "candle_rocm/small_float_type.h"

CANDLE_ROCM_SMALL_TYPE(__half, __half_raw, __half2, __half2_raw, float_to_half, half_to_float)
typedef __half half;
typedef __half2 half2;
typedef __half nv_half;
typedef __half2 nv_half2;
typedef __half __nv_half;
typedef __half2 __nv_half2;

namespace candle_rocm {
// Rounded towards zero, down or up: the nearest, and a step back where it went the wrong way.
enum class Toward { ZERO, BELOW, ABOVE };
CANDLE_ROCM_BOTH __half directed_half(double value, Toward direction) {
    __half near(value);
    double back = (double)(float)near;
    bool less = direction == Toward::BELOW || (direction == Toward::ZERO && value > 0);
    bool wrong = direction == Toward::ZERO ? __builtin_fabs(back) > __builtin_fabs(value)
                 : less                    ? back > value
                                           : back < value;
    if (!wrong || value != value) return near;
    // A zero that should not be one is the smallest number on the other side.
    if ((near.__x & 0x7fff) == 0) return __half::from_bits(less ? 0x8001 : 0x0001);
    return __half::from_bits(((near.__x & 0x8000) == 0) == less ? near.__x - 1 : near.__x + 1);
}
} // namespace candle_rocm

CANDLE_ROCM_BOTH float __half2float(const __half a) { return (float)a; }
CANDLE_ROCM_BOTH __half __float2half(const float a) { return __half(a); }
CANDLE_ROCM_BOTH __half __double2half(const double a) { return __half(a); }
CANDLE_ROCM_BOTH __half __float2half_rn(const float a) { return __half(a); }
CANDLE_ROCM_BOTH __half __float2half_rz(const float a) {
    return candle_rocm::directed_half(a, candle_rocm::Toward::ZERO);
}
CANDLE_ROCM_BOTH __half __float2half_rd(const float a) {
    return candle_rocm::directed_half(a, candle_rocm::Toward::BELOW);
}
CANDLE_ROCM_BOTH __half __float2half_ru(const float a) {
    return candle_rocm::directed_half(a, candle_rocm::Toward::ABOVE);
}
CANDLE_ROCM_BOTH __half2 __float2half2_rn(const float a) { return __half2(__half(a), __half(a)); }
CANDLE_ROCM_BOTH __half2 __floats2half2_rn(const float a, const float b) { return __half2(__half(a), __half(b)); }
CANDLE_ROCM_BOTH __half2 __float22half2_rn(const float2 a) { return __half2(__half(a.x), __half(a.y)); }
CANDLE_ROCM_BOTH float2 __half22float2(const __half2 a) { return make_float2((float)a.x, (float)a.y); }
CANDLE_ROCM_BOTH __half2 make_half2(const __half x, const __half y) { return __half2(x, y); }
CANDLE_ROCM_BOTH __half2 __half2half2(const __half a) { return __half2(a, a); }
CANDLE_ROCM_BOTH __half2 __halves2half2(const __half a, const __half b) { return __half2(a, b); }
CANDLE_ROCM_BOTH unsigned short __half_as_ushort(const __half a) { return a.__x; }
CANDLE_ROCM_BOTH short __half_as_short(const __half a) { return (short)a.__x; }
CANDLE_ROCM_BOTH __half __ushort_as_half(const unsigned short a) { return __half::from_bits(a); }
CANDLE_ROCM_BOTH __half __short_as_half(const short a) { return __half::from_bits((unsigned short)a); }

#define CANDLE_ROCM_HALF_INTEGER(NAME, T)                                                                \
    CANDLE_ROCM_BOTH __half __##NAME##2half_rn(const T a) { return __half(a); }                          \
    CANDLE_ROCM_BOTH T __half2##NAME##_rz(const __half a) { return candle_rocm::saturate<T>((float)a); } \
    CANDLE_ROCM_DEVICE T __half2##NAME##_rn(const __half a) {                                            \
        return candle_rocm::saturate<T>(__builtin_rintf((float)a));                                      \
    }                                                                                                    \
    CANDLE_ROCM_DEVICE T __half2##NAME##_ru(const __half a) {                                            \
        return candle_rocm::saturate<T>(__builtin_ceilf((float)a));                                      \
    }                                                                                                    \
    CANDLE_ROCM_DEVICE T __half2##NAME##_rd(const __half a) {                                            \
        return candle_rocm::saturate<T>(__builtin_floorf((float)a));                                     \
    }
CANDLE_ROCM_HALF_INTEGER(short, short)
CANDLE_ROCM_HALF_INTEGER(ushort, unsigned short)
CANDLE_ROCM_HALF_INTEGER(int, int)
CANDLE_ROCM_HALF_INTEGER(uint, unsigned int)
CANDLE_ROCM_HALF_INTEGER(ll, long long)
CANDLE_ROCM_HALF_INTEGER(ull, unsigned long long)
#undef CANDLE_ROCM_HALF_INTEGER
CANDLE_ROCM_BOTH signed char __half2char_rz(const __half a) { return candle_rocm::saturate<signed char>((float)a); }
CANDLE_ROCM_BOTH unsigned char __half2uchar_rz(const __half a) {
    return candle_rocm::saturate<unsigned char>((float)a);
}

#define SMALL __half
#define PAIR __half2
#define WIDE _Float16
#define TO_WIDE(a) candle_rocm::bits<_Float16>((a).__x)
#define FROM_WIDE(w) __half::from_bits(candle_rocm::bits<unsigned short>((_Float16)(w)))
#define WIDE_FMA(a, b, c) __builtin_fmaf16(a, b, c)
#define TO_FLOAT(a) ((float)(a))
#define FROM_FLOAT(f) __half((float)(f))
#define QUIET_NAN 0x7fff
#define INFINITE 0x7c00
#define SMALL_NAME(prefix) prefix##half
#define PAIR_NAME(prefix) prefix##half2
#include "candle_rocm/small_floats.inc"
#undef SMALL
#undef PAIR
#undef WIDE
#undef TO_WIDE
#undef FROM_WIDE
#undef WIDE_FMA
#undef TO_FLOAT
#undef FROM_FLOAT
#undef QUIET_NAN
#undef INFINITE
#undef SMALL_NAME
#undef PAIR_NAME

#define CUDART_INF_FP16 __ushort_as_half((unsigned short)0x7C00U)
#define CUDART_NAN_FP16 __ushort_as_half((unsigned short)0x7FFFU)
#define CUDART_MIN_DENORM_FP16 __ushort_as_half((unsigned short)0x0001U)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half((unsigned short)0x7BFFU)
#define CUDART_NEG_ZERO_FP16 __ushort_as_half((unsigned short)0x8000U)
#define CUDART_ZERO_FP16 __ushort_as_half((unsigned short)0x0000U)
#define CUDART_ONE_FP16 __ushort_as_half((unsigned short)0x3C00U)
