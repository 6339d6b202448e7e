// CUDA's complex numbers: pairs of floats and of doubles, and their arithmetic.
#pragma once
#include "cuda_runtime.h"

// A pair's type T of elements S; its name in CUDA's functions is TYPE, and F ends those of floats.
#define CANDLE_ROCM_COMPLEX(TYPE, T, S, F, MAKE)                                                                   \
    typedef T TYPE;                                                                                                \
    CANDLE_ROCM_BOTH TYPE make_##TYPE(S real, S imaginary) { return MAKE(real, imaginary); }                       \
    CANDLE_ROCM_BOTH S cuCreal##F(TYPE x) { return x.x; }                                                          \
    CANDLE_ROCM_BOTH S cuCimag##F(TYPE x) { return x.y; }                                                          \
    CANDLE_ROCM_BOTH TYPE cuConj##F(TYPE x) { return MAKE(x.x, -x.y); }                                            \
    CANDLE_ROCM_BOTH TYPE cuCadd##F(TYPE a, TYPE b) { return MAKE(a.x + b.x, a.y + b.y); }                         \
    CANDLE_ROCM_BOTH TYPE cuCsub##F(TYPE a, TYPE b) { return MAKE(a.x - b.x, a.y - b.y); }                         \
    CANDLE_ROCM_BOTH TYPE cuCmul##F(TYPE a, TYPE b) { return MAKE(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); } \
    /* Scaled by the divisor's size, so that its square does not overflow. */                                      \
    CANDLE_ROCM_BOTH TYPE cuCdiv##F(TYPE a, TYPE b) {                                                              \
        S scale = (S)1 / ((S)__builtin_fabs(b.x) + (S)__builtin_fabs(b.y));                                        \
        S ar = a.x * scale, ai = a.y * scale, br = b.x * scale, bi = b.y * scale;                                  \
        S inverse = (S)1 / (br * br + bi * bi);                                                                    \
        return MAKE((ar * br + ai * bi) * inverse, (ai * br - ar * bi) * inverse);                                 \
    }                                                                                                              \
    CANDLE_ROCM_BOTH S cuCabs##F(TYPE x) { return hypot##F(x.x, x.y); }                                            \
    /* a * b + c */                                                                                                \
    CANDLE_ROCM_BOTH TYPE cuCfma##F(TYPE a, TYPE b, TYPE c) {                                                      \
        return MAKE(fma##F(a.x, b.x, fma##F(-a.y, b.y, c.x)), fma##F(a.x, b.y, fma##F(a.y, b.x, c.y)));            \
    }
CANDLE_ROCM_COMPLEX(cuFloatComplex, float2, float, f, make_float2)
CANDLE_ROCM_COMPLEX(cuDoubleComplex, double2, double, , make_double2)
#undef CANDLE_ROCM_COMPLEX

typedef cuFloatComplex cuComplex;
CANDLE_ROCM_BOTH cuComplex make_cuComplex(float real, float imaginary) { return make_float2(real, imaginary); }
CANDLE_ROCM_BOTH cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex x) { return make_double2(x.x, x.y); }
CANDLE_ROCM_BOTH cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex x) {
    return make_float2((float)x.x, (float)x.y);
}
