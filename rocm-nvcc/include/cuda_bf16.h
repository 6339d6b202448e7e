// __nv_bfloat16 and __nv_bfloat162: conversions here, arithmetic in candle_rocm/small_floats.inc.
#pragma once
#include "cuda_runtime.h"
#include "candle_rocm/small_float_type.h"

CANDLE_ROCM_SMALL_TYPE(__nv_bfloat16, __nv_bfloat16_raw, __nv_bfloat162, __nv_bfloat162_raw, float_to_bfloat,
                       bfloat_to_float)
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

CANDLE_ROCM_BOTH float __bfloat162float(const __nv_bfloat16 a) { return (float)a; }
CANDLE_ROCM_BOTH __nv_bfloat16 __float2bfloat16(const float a) { return __nv_bfloat16(a); }
CANDLE_ROCM_BOTH __nv_bfloat16 __double2bfloat16(const double a) { return __nv_bfloat16(a); }
CANDLE_ROCM_BOTH __nv_bfloat16 __float2bfloat16_rn(const float a) { return __nv_bfloat16(a); }
CANDLE_ROCM_BOTH __nv_bfloat16 __float2bfloat16_rz(const float a) {
    return a != a ? __nv_bfloat16(a) : __nv_bfloat16::from_bits((int)(candle_rocm::bits<unsigned int>(a) >> 16));
}
// One step away from zero where anything was cut off on that side.
CANDLE_ROCM_BOTH __nv_bfloat16 __float2bfloat16_rd(const float a) {
    __nv_bfloat16 cut = __float2bfloat16_rz(a);
    return (float)cut > a ? __nv_bfloat16::from_bits(cut.__x + 1) : cut;
}
CANDLE_ROCM_BOTH __nv_bfloat16 __float2bfloat16_ru(const float a) {
    __nv_bfloat16 cut = __float2bfloat16_rz(a);
    return (float)cut < a ? __nv_bfloat16::from_bits(cut.__x + 1) : cut;
}
CANDLE_ROCM_BOTH __nv_bfloat162 __float2bfloat162_rn(const float a) { return __nv_bfloat162(a, a); }
CANDLE_ROCM_BOTH __nv_bfloat162 __floats2bfloat162_rn(const float a, const float b) { return __nv_bfloat162(a, b); }
CANDLE_ROCM_BOTH __nv_bfloat162 __float22bfloat162_rn(const float2 a) { return __nv_bfloat162(a.x, a.y); }
CANDLE_ROCM_BOTH float2 __bfloat1622float2(const __nv_bfloat162 a) { return make_float2((float)a.x, (float)a.y); }
CANDLE_ROCM_BOTH __nv_bfloat162 make_bfloat162(const __nv_bfloat16 x, const __nv_bfloat16 y) {
    return __nv_bfloat162(x, y);
}
CANDLE_ROCM_BOTH __nv_bfloat162 __bfloat162bfloat162(const __nv_bfloat16 a) { return __nv_bfloat162(a, a); }
CANDLE_ROCM_BOTH __nv_bfloat162 __halves2bfloat162(const __nv_bfloat16 a, const __nv_bfloat16 b) {
    return __nv_bfloat162(a, b);
}
CANDLE_ROCM_BOTH unsigned short __bfloat16_as_ushort(const __nv_bfloat16 a) { return a.__x; }
CANDLE_ROCM_BOTH short __bfloat16_as_short(const __nv_bfloat16 a) { return (short)a.__x; }
CANDLE_ROCM_BOTH __nv_bfloat16 __ushort_as_bfloat16(const unsigned short a) { return __nv_bfloat16::from_bits(a); }
CANDLE_ROCM_BOTH __nv_bfloat16 __short_as_bfloat16(const short a) {
    return __nv_bfloat16::from_bits((unsigned short)a);
}

#define CANDLE_ROCM_BFLOAT_INTEGER(NAME, T)                                                                         \
    CANDLE_ROCM_BOTH __nv_bfloat16 __##NAME##2bfloat16_rn(const T a) { return __nv_bfloat16(a); }                   \
    CANDLE_ROCM_BOTH T __bfloat162##NAME##_rz(const __nv_bfloat16 a) { return candle_rocm::saturate<T>((float)a); } \
    CANDLE_ROCM_DEVICE T __bfloat162##NAME##_rn(const __nv_bfloat16 a) {                                            \
        return candle_rocm::saturate<T>(__builtin_rintf((float)a));                                                 \
    }                                                                                                               \
    CANDLE_ROCM_DEVICE T __bfloat162##NAME##_ru(const __nv_bfloat16 a) {                                            \
        return candle_rocm::saturate<T>(__builtin_ceilf((float)a));                                                 \
    }                                                                                                               \
    CANDLE_ROCM_DEVICE T __bfloat162##NAME##_rd(const __nv_bfloat16 a) {                                            \
        return candle_rocm::saturate<T>(__builtin_floorf((float)a));                                                \
    }
CANDLE_ROCM_BFLOAT_INTEGER(short, short)
CANDLE_ROCM_BFLOAT_INTEGER(ushort, unsigned short)
CANDLE_ROCM_BFLOAT_INTEGER(int, int)
CANDLE_ROCM_BFLOAT_INTEGER(uint, unsigned int)
CANDLE_ROCM_BFLOAT_INTEGER(ll, long long)
CANDLE_ROCM_BFLOAT_INTEGER(ull, unsigned long long)
#undef CANDLE_ROCM_BFLOAT_INTEGER

#define SMALL __nv_bfloat16
#define PAIR __nv_bfloat162
#define WIDE float
#define TO_WIDE(a) ((float)(a))
#define FROM_WIDE(w) __nv_bfloat16((float)(w))
#define WIDE_FMA(a, b, c) __builtin_fmaf(a, b, c)
#define TO_FLOAT(a) ((float)(a))
#define FROM_FLOAT(f) __nv_bfloat16((float)(f))
#define QUIET_NAN 0x7fff
#define INFINITE 0x7f80
#define SMALL_NAME(prefix) prefix##bfloat16
#define PAIR_NAME(prefix) prefix##bfloat162
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

#define CUDART_INF_BF16 __ushort_as_bfloat16((unsigned short)0x7F80U)
#define CUDART_NAN_BF16 __ushort_as_bfloat16((unsigned short)0x7FFFU)
#define CUDART_MIN_DENORM_BF16 __ushort_as_bfloat16((unsigned short)0x0001U)
#define CUDART_MAX_NORMAL_BF16 __ushort_as_bfloat16((unsigned short)0x7F7FU)
#define CUDART_NEG_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x8000U)
#define CUDART_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x0000U)
#define CUDART_ONE_BF16 __ushort_as_bfloat16((unsigned short)0x3F80U)
