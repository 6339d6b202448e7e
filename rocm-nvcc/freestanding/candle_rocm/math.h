// C's mathematics, and what CUDA has besides, for device code: each function for f32 with an `f` behind its name, for
// f64, and for f32 by overloading, in the global namespace and in std.
#pragma once

#define CANDLE_ROCM_MATH static __device__ inline __attribute__((always_inline, nothrow))

// A function of ocml's, under its own name and C's.
#define CANDLE_ROCM_UNARY(NAME, OCML)                                          \
    extern "C" __device__ float __ocml_##OCML##_f32(float);                    \
    extern "C" __device__ double __ocml_##OCML##_f64(double);                  \
    CANDLE_ROCM_MATH float NAME##f(float x) { return __ocml_##OCML##_f32(x); } \
    CANDLE_ROCM_MATH double NAME(double x) { return __ocml_##OCML##_f64(x); }
#define CANDLE_ROCM_BINARY(NAME, OCML)                                                     \
    extern "C" __device__ float __ocml_##OCML##_f32(float, float);                         \
    extern "C" __device__ double __ocml_##OCML##_f64(double, double);                      \
    CANDLE_ROCM_MATH float NAME##f(float x, float y) { return __ocml_##OCML##_f32(x, y); } \
    CANDLE_ROCM_MATH double NAME(double x, double y) { return __ocml_##OCML##_f64(x, y); }
// One that the compiler has instructions for.
#define CANDLE_ROCM_BUILTIN(NAME)                                              \
    CANDLE_ROCM_MATH float NAME##f(float x) { return __builtin_##NAME##f(x); } \
    CANDLE_ROCM_MATH double NAME(double x) { return __builtin_##NAME(x); }
#define CANDLE_ROCM_BUILTIN_BINARY(NAME)                                                   \
    CANDLE_ROCM_MATH float NAME##f(float x, float y) { return __builtin_##NAME##f(x, y); } \
    CANDLE_ROCM_MATH double NAME(double x, double y) { return __builtin_##NAME(x, y); }

CANDLE_ROCM_UNARY(acos, acos)
CANDLE_ROCM_UNARY(acosh, acosh)
CANDLE_ROCM_UNARY(asin, asin)
CANDLE_ROCM_UNARY(asinh, asinh)
CANDLE_ROCM_UNARY(atan, atan)
CANDLE_ROCM_UNARY(atanh, atanh)
CANDLE_ROCM_UNARY(cbrt, cbrt)
CANDLE_ROCM_UNARY(cosh, cosh)
CANDLE_ROCM_UNARY(cospi, cospi)
CANDLE_ROCM_UNARY(cyl_bessel_i0, i0)
CANDLE_ROCM_UNARY(cyl_bessel_i1, i1)
CANDLE_ROCM_UNARY(erf, erf)
CANDLE_ROCM_UNARY(erfc, erfc)
CANDLE_ROCM_UNARY(erfcinv, erfcinv)
CANDLE_ROCM_UNARY(erfcx, erfcx)
CANDLE_ROCM_UNARY(erfinv, erfinv)
CANDLE_ROCM_UNARY(exp10, exp10)
CANDLE_ROCM_UNARY(expm1, expm1)
CANDLE_ROCM_UNARY(j0, j0)
CANDLE_ROCM_UNARY(j1, j1)
CANDLE_ROCM_UNARY(lgamma, lgamma)
CANDLE_ROCM_UNARY(log1p, log1p)
CANDLE_ROCM_UNARY(logb, logb)
CANDLE_ROCM_UNARY(normcdf, ncdf)
CANDLE_ROCM_UNARY(normcdfinv, ncdfinv)
CANDLE_ROCM_UNARY(rcbrt, rcbrt)
CANDLE_ROCM_UNARY(rsqrt, rsqrt)
CANDLE_ROCM_UNARY(sinh, sinh)
CANDLE_ROCM_UNARY(sinpi, sinpi)
CANDLE_ROCM_UNARY(tan, tan)
CANDLE_ROCM_UNARY(tanh, tanh)
CANDLE_ROCM_UNARY(tgamma, tgamma)
CANDLE_ROCM_UNARY(y0, y0)
CANDLE_ROCM_UNARY(y1, y1)
CANDLE_ROCM_BINARY(atan2, atan2)
CANDLE_ROCM_BINARY(fdim, fdim)
CANDLE_ROCM_BINARY(fmod, fmod)
CANDLE_ROCM_BINARY(hypot, hypot)
CANDLE_ROCM_BINARY(nextafter, nextafter)
CANDLE_ROCM_BINARY(pow, pow)
CANDLE_ROCM_BINARY(remainder, remainder)
CANDLE_ROCM_BINARY(rhypot, rhypot)
CANDLE_ROCM_BUILTIN(ceil)
CANDLE_ROCM_BUILTIN(fabs)
CANDLE_ROCM_BUILTIN(floor)
CANDLE_ROCM_BUILTIN(nearbyint)
CANDLE_ROCM_BUILTIN(rint)
CANDLE_ROCM_BUILTIN(round)
CANDLE_ROCM_BUILTIN(sqrt)
CANDLE_ROCM_BUILTIN(trunc)
CANDLE_ROCM_BUILTIN_BINARY(copysign)
CANDLE_ROCM_BUILTIN_BINARY(fmax)
CANDLE_ROCM_BUILTIN_BINARY(fmin)

extern "C" {
__device__ float __ocml_cos_f32(float);
__device__ float __ocml_sin_f32(float);
__device__ float __ocml_log_f32(float);
__device__ float __ocml_log2_f32(float);
__device__ float __ocml_native_cos_f32(float);
__device__ float __ocml_native_sin_f32(float);
__device__ float __ocml_pown_f32(float, int);
__device__ double __ocml_cos_f64(double);
__device__ double __ocml_sin_f64(double);
__device__ double __ocml_exp_f64(double);
__device__ double __ocml_exp2_f64(double);
__device__ double __ocml_log_f64(double);
__device__ double __ocml_log2_f64(double);
__device__ double __ocml_log10_f64(double);
__device__ double __ocml_pown_f64(double, int);
__device__ float __ocml_len3_f32(float, float, float);
__device__ float __ocml_len4_f32(float, float, float, float);
__device__ float __ocml_rlen3_f32(float, float, float);
__device__ float __ocml_rlen4_f32(float, float, float, float);
__device__ double __ocml_len3_f64(double, double, double);
__device__ double __ocml_len4_f64(double, double, double, double);
__device__ double __ocml_rlen3_f64(double, double, double);
__device__ double __ocml_rlen4_f64(double, double, double, double);
}

// Fast and less precise, under CUDA's names for that.
CANDLE_ROCM_MATH float __cosf(float x) { return __ocml_native_cos_f32(x); }
CANDLE_ROCM_MATH float __sinf(float x) { return __ocml_native_sin_f32(x); }
CANDLE_ROCM_MATH float __tanf(float x) { return __sinf(x) / __cosf(x); }
CANDLE_ROCM_MATH float __expf(float x) { return __builtin_amdgcn_exp2f(x * 1.44269504f); }
CANDLE_ROCM_MATH float __exp10f(float x) { return __builtin_amdgcn_exp2f(x * 3.32192809f); }
CANDLE_ROCM_MATH float __log2f(float x) { return __builtin_amdgcn_logf(x); }
CANDLE_ROCM_MATH float __logf(float x) { return __builtin_amdgcn_logf(x) * 0.693147181f; }
CANDLE_ROCM_MATH float __log10f(float x) { return __builtin_amdgcn_logf(x) * 0.301029996f; }
CANDLE_ROCM_MATH float __powf(float x, float y) { return __builtin_amdgcn_exp2f(y * __builtin_amdgcn_logf(x)); }
CANDLE_ROCM_MATH float __fdividef(float x, float y) { return x / y; }
CANDLE_ROCM_MATH float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
CANDLE_ROCM_MATH void __sincosf(float x, float *sine, float *cosine) {
    *sine = __sinf(x);
    *cosine = __cosf(x);
}

#ifdef __CLANG_GPU_APPROX_TRANSCENDENTALS__
#define CANDLE_ROCM_FAST_OR(FAST, PRECISE) FAST
#else
#define CANDLE_ROCM_FAST_OR(FAST, PRECISE) PRECISE
#endif
CANDLE_ROCM_MATH float cosf(float x) { return CANDLE_ROCM_FAST_OR(__cosf, __ocml_cos_f32)(x); }
CANDLE_ROCM_MATH float sinf(float x) { return CANDLE_ROCM_FAST_OR(__sinf, __ocml_sin_f32)(x); }
CANDLE_ROCM_MATH float logf(float x) { return CANDLE_ROCM_FAST_OR(__logf, __ocml_log_f32)(x); }
CANDLE_ROCM_MATH float log2f(float x) { return CANDLE_ROCM_FAST_OR(__log2f, __ocml_log2_f32)(x); }
#undef CANDLE_ROCM_FAST_OR
CANDLE_ROCM_MATH float expf(float x) { return __builtin_expf(x); }
CANDLE_ROCM_MATH float exp2f(float x) { return __builtin_exp2f(x); }
CANDLE_ROCM_MATH float log10f(float x) { return __builtin_log10f(x); }
CANDLE_ROCM_MATH double cos(double x) { return __ocml_cos_f64(x); }
CANDLE_ROCM_MATH double sin(double x) { return __ocml_sin_f64(x); }
CANDLE_ROCM_MATH double exp(double x) { return __ocml_exp_f64(x); }
CANDLE_ROCM_MATH double exp2(double x) { return __ocml_exp2_f64(x); }
CANDLE_ROCM_MATH double log(double x) { return __ocml_log_f64(x); }
CANDLE_ROCM_MATH double log2(double x) { return __ocml_log2_f64(x); }
CANDLE_ROCM_MATH double log10(double x) { return __ocml_log10_f64(x); }

#define CANDLE_ROCM_WITH_INTEGERS(T, F, BITS, SUFFIX)                                                       \
    extern "C" __device__ T __ocml_frexp_f##BITS(T, __attribute__((opencl_private)) int *);                 \
    extern "C" __device__ T __ocml_modf_f##BITS(T, __attribute__((opencl_private)) T *);                    \
    extern "C" __device__ T __ocml_remquo_f##BITS(T, T, __attribute__((opencl_private)) int *);             \
    extern "C" __device__ int __ocml_ilogb_f##BITS(T);                                                      \
    CANDLE_ROCM_MATH T F(fma)(T x, T y, T z) { return __builtin_fma##SUFFIX(x, y, z); }                     \
    CANDLE_ROCM_MATH T F(frexp)(T x, int *exponent) {                                                       \
        int place;                                                                                          \
        T part = __ocml_frexp_f##BITS(x, (__attribute__((opencl_private)) int *)&place);                    \
        *exponent = place;                                                                                  \
        return part;                                                                                        \
    }                                                                                                       \
    CANDLE_ROCM_MATH T F(modf)(T x, T * whole) {                                                            \
        T place;                                                                                            \
        T part = __ocml_modf_f##BITS(x, (__attribute__((opencl_private)) T *)&place);                       \
        *whole = place;                                                                                     \
        return part;                                                                                        \
    }                                                                                                       \
    CANDLE_ROCM_MATH T F(remquo)(T x, T y, int *quotient) {                                                 \
        int place;                                                                                          \
        T part = __ocml_remquo_f##BITS(x, y, (__attribute__((opencl_private)) int *)&place);                \
        *quotient = place;                                                                                  \
        return part;                                                                                        \
    }                                                                                                       \
    CANDLE_ROCM_MATH void F(sincos)(T x, T * sine, T * cosine) {                                            \
        *sine = F(sin)(x);                                                                                  \
        *cosine = F(cos)(x);                                                                                \
    }                                                                                                       \
    CANDLE_ROCM_MATH void F(sincospi)(T x, T * sine, T * cosine) {                                          \
        *sine = F(sinpi)(x);                                                                                \
        *cosine = F(cospi)(x);                                                                              \
    }                                                                                                       \
    CANDLE_ROCM_MATH int F(ilogb)(T x) { return __ocml_ilogb_f##BITS(x); }                                  \
    CANDLE_ROCM_MATH T F(ldexp)(T x, int exponent) { return __builtin_amdgcn_ldexp##SUFFIX(x, exponent); }  \
    CANDLE_ROCM_MATH T F(scalbn)(T x, int exponent) { return __builtin_amdgcn_ldexp##SUFFIX(x, exponent); } \
    CANDLE_ROCM_MATH T F(powi)(T x, int exponent) { return __ocml_pown_f##BITS(x, exponent); }              \
    CANDLE_ROCM_MATH long F(lrint)(T x) { return (long)__builtin_rint##SUFFIX(x); }                         \
    CANDLE_ROCM_MATH long F(lround)(T x) { return (long)__builtin_round##SUFFIX(x); }                       \
    CANDLE_ROCM_MATH long long F(llrint)(T x) { return (long long)__builtin_rint##SUFFIX(x); }              \
    CANDLE_ROCM_MATH long long F(llround)(T x) { return (long long)__builtin_round##SUFFIX(x); }            \
    CANDLE_ROCM_MATH T F(norm3d)(T x, T y, T z) { return __ocml_len3_f##BITS(x, y, z); }                    \
    CANDLE_ROCM_MATH T F(norm4d)(T x, T y, T z, T w) { return __ocml_len4_f##BITS(x, y, z, w); }            \
    CANDLE_ROCM_MATH T F(rnorm3d)(T x, T y, T z) { return __ocml_rlen3_f##BITS(x, y, z); }                  \
    CANDLE_ROCM_MATH T F(rnorm4d)(T x, T y, T z, T w) { return __ocml_rlen4_f##BITS(x, y, z, w); }          \
    CANDLE_ROCM_MATH T F(nan)(const char *) { return __builtin_nan##SUFFIX(""); }
#define CANDLE_ROCM_F32(NAME) NAME##f
#define CANDLE_ROCM_F64(NAME) NAME
CANDLE_ROCM_WITH_INTEGERS(float, CANDLE_ROCM_F32, 32, f)
CANDLE_ROCM_WITH_INTEGERS(double, CANDLE_ROCM_F64, 64, )

// Rounded to the nearest, which is how all is rounded.
CANDLE_ROCM_MATH float __fadd_rn(float x, float y) { return x + y; }
CANDLE_ROCM_MATH float __fsub_rn(float x, float y) { return x - y; }
CANDLE_ROCM_MATH float __fmul_rn(float x, float y) { return x * y; }
CANDLE_ROCM_MATH float __fdiv_rn(float x, float y) { return x / y; }
CANDLE_ROCM_MATH float __frcp_rn(float x) { return 1.0f / x; }
CANDLE_ROCM_MATH float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
CANDLE_ROCM_MATH float __frsqrt_rn(float x) { return __builtin_amdgcn_rsqf(x); }
CANDLE_ROCM_MATH float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
CANDLE_ROCM_MATH double __dadd_rn(double x, double y) { return x + y; }
CANDLE_ROCM_MATH double __dsub_rn(double x, double y) { return x - y; }
CANDLE_ROCM_MATH double __dmul_rn(double x, double y) { return x * y; }
CANDLE_ROCM_MATH double __ddiv_rn(double x, double y) { return x / y; }
CANDLE_ROCM_MATH double __drcp_rn(double x) { return 1.0 / x; }
CANDLE_ROCM_MATH double __dsqrt_rn(double x) { return __builtin_sqrt(x); }
CANDLE_ROCM_MATH double __fma_rn(double x, double y, double z) { return __builtin_fma(x, y, z); }
CANDLE_ROCM_MATH float fdividef(float x, float y) { return x / y; }

// The other types' are in `candle_rocm/intrinsics.h`.
CANDLE_ROCM_MATH int min(int x, int y) { return x < y ? x : y; }
CANDLE_ROCM_MATH int max(int x, int y) { return x > y ? x : y; }
CANDLE_ROCM_MATH float min(float x, float y) { return __builtin_fminf(x, y); }
CANDLE_ROCM_MATH float max(float x, float y) { return __builtin_fmaxf(x, y); }
CANDLE_ROCM_MATH double min(double x, double y) { return __builtin_fmin(x, y); }
CANDLE_ROCM_MATH double max(double x, double y) { return __builtin_fmax(x, y); }
CANDLE_ROCM_MATH int abs(int x) { return __builtin_abs(x); }
CANDLE_ROCM_MATH long labs(long x) { return __builtin_labs(x); }
CANDLE_ROCM_MATH long long llabs(long long x) { return __builtin_llabs(x); }
CANDLE_ROCM_MATH long abs(long x) { return __builtin_labs(x); }
CANDLE_ROCM_MATH long long abs(long long x) { return __builtin_llabs(x); }
CANDLE_ROCM_MATH float abs(float x) { return __builtin_fabsf(x); }
CANDLE_ROCM_MATH double abs(double x) { return __builtin_fabs(x); }

namespace candle_rocm {
// What mathematics makes of a type: f32 stays, integers become f64.
template <class T> struct Real {};
template <> struct Real<float> {
    typedef float type;
};
template <> struct Real<double> {
    typedef double type;
};
#define CANDLE_ROCM_INTEGER(T)   \
    template <> struct Real<T> { \
        typedef double type;     \
        typedef double integer;  \
    };
CANDLE_ROCM_INTEGER(bool)
CANDLE_ROCM_INTEGER(char)
CANDLE_ROCM_INTEGER(signed char)
CANDLE_ROCM_INTEGER(unsigned char)
CANDLE_ROCM_INTEGER(short)
CANDLE_ROCM_INTEGER(unsigned short)
CANDLE_ROCM_INTEGER(int)
CANDLE_ROCM_INTEGER(unsigned int)
CANDLE_ROCM_INTEGER(long)
CANDLE_ROCM_INTEGER(unsigned long)
CANDLE_ROCM_INTEGER(long long)
CANDLE_ROCM_INTEGER(unsigned long long)
#undef CANDLE_ROCM_INTEGER
// Of two: f32 where both are.
template <class A, class B> struct Reals {
    typedef decltype(typename Real<A>::type() + typename Real<B>::type()) type;
};
} // namespace candle_rocm

// f32 and integers by the same name, as C++ has them; std has all of them.
#define CANDLE_ROCM_OVERLOAD(NAME)                                                                                   \
    CANDLE_ROCM_MATH float NAME(float x) { return NAME##f(x); }                                                      \
    template <class T> CANDLE_ROCM_MATH typename candle_rocm::Real<T>::integer NAME(T x) { return NAME((double)x); } \
    namespace std {                                                                                                  \
    using ::NAME;                                                                                                    \
    using ::NAME##f;                                                                                                 \
    }
#define CANDLE_ROCM_OVERLOAD_BINARY(NAME)                                     \
    CANDLE_ROCM_MATH float NAME(float x, float y) { return NAME##f(x, y); }   \
    template <class A, class B>                                               \
    CANDLE_ROCM_MATH typename candle_rocm::Reals<A, B>::type NAME(A x, B y) { \
        typedef typename candle_rocm::Reals<A, B>::type T;                    \
        return NAME((T)x, (T)y);                                              \
    }                                                                         \
    namespace std {                                                           \
    using ::NAME;                                                             \
    using ::NAME##f;                                                          \
    }
CANDLE_ROCM_OVERLOAD(acos)
CANDLE_ROCM_OVERLOAD(acosh)
CANDLE_ROCM_OVERLOAD(asin)
CANDLE_ROCM_OVERLOAD(asinh)
CANDLE_ROCM_OVERLOAD(atan)
CANDLE_ROCM_OVERLOAD(atanh)
CANDLE_ROCM_OVERLOAD(cbrt)
CANDLE_ROCM_OVERLOAD(ceil)
CANDLE_ROCM_OVERLOAD(cos)
CANDLE_ROCM_OVERLOAD(cosh)
CANDLE_ROCM_OVERLOAD(erf)
CANDLE_ROCM_OVERLOAD(erfc)
CANDLE_ROCM_OVERLOAD(exp)
CANDLE_ROCM_OVERLOAD(exp2)
CANDLE_ROCM_OVERLOAD(expm1)
CANDLE_ROCM_OVERLOAD(fabs)
CANDLE_ROCM_OVERLOAD(floor)
CANDLE_ROCM_OVERLOAD(lgamma)
CANDLE_ROCM_OVERLOAD(log)
CANDLE_ROCM_OVERLOAD(log10)
CANDLE_ROCM_OVERLOAD(log1p)
CANDLE_ROCM_OVERLOAD(log2)
CANDLE_ROCM_OVERLOAD(logb)
CANDLE_ROCM_OVERLOAD(nearbyint)
CANDLE_ROCM_OVERLOAD(rint)
CANDLE_ROCM_OVERLOAD(round)
CANDLE_ROCM_OVERLOAD(rsqrt)
CANDLE_ROCM_OVERLOAD(sin)
CANDLE_ROCM_OVERLOAD(sinh)
CANDLE_ROCM_OVERLOAD(sqrt)
CANDLE_ROCM_OVERLOAD(tan)
CANDLE_ROCM_OVERLOAD(tanh)
CANDLE_ROCM_OVERLOAD(tgamma)
CANDLE_ROCM_OVERLOAD(trunc)
CANDLE_ROCM_OVERLOAD_BINARY(atan2)
CANDLE_ROCM_OVERLOAD_BINARY(copysign)
CANDLE_ROCM_OVERLOAD_BINARY(fdim)
CANDLE_ROCM_OVERLOAD_BINARY(fmax)
CANDLE_ROCM_OVERLOAD_BINARY(fmin)
CANDLE_ROCM_OVERLOAD_BINARY(fmod)
CANDLE_ROCM_OVERLOAD_BINARY(hypot)
CANDLE_ROCM_OVERLOAD_BINARY(nextafter)
CANDLE_ROCM_OVERLOAD_BINARY(pow)
CANDLE_ROCM_OVERLOAD_BINARY(remainder)

CANDLE_ROCM_MATH float pow(float x, int exponent) { return powif(x, exponent); }
CANDLE_ROCM_MATH double pow(double x, int exponent) { return powi(x, exponent); }
CANDLE_ROCM_MATH float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
CANDLE_ROCM_MATH float frexp(float x, int *exponent) { return frexpf(x, exponent); }
CANDLE_ROCM_MATH float ldexp(float x, int exponent) { return ldexpf(x, exponent); }
CANDLE_ROCM_MATH float modf(float x, float *whole) { return modff(x, whole); }
CANDLE_ROCM_MATH int ilogb(float x) { return ilogbf(x); }
CANDLE_ROCM_MATH long lrint(float x) { return lrintf(x); }
CANDLE_ROCM_MATH long lround(float x) { return lroundf(x); }
CANDLE_ROCM_MATH bool isnan(float x) { return __builtin_isnan(x); }
CANDLE_ROCM_MATH bool isnan(double x) { return __builtin_isnan(x); }
CANDLE_ROCM_MATH bool isinf(float x) { return __builtin_isinf(x); }
CANDLE_ROCM_MATH bool isinf(double x) { return __builtin_isinf(x); }
CANDLE_ROCM_MATH bool isfinite(float x) { return __builtin_isfinite(x); }
CANDLE_ROCM_MATH bool isfinite(double x) { return __builtin_isfinite(x); }
CANDLE_ROCM_MATH bool signbit(float x) { return __builtin_signbitf(x); }
CANDLE_ROCM_MATH bool signbit(double x) { return __builtin_signbit(x); }
namespace std {
using ::abs;
using ::fma;
using ::fmaf;
using ::frexp;
using ::ilogb;
using ::isfinite;
using ::isinf;
using ::isnan;
using ::ldexp;
using ::lrint;
using ::lround;
using ::modf;
using ::pow;
using ::signbit;
} // namespace std

#undef CANDLE_ROCM_UNARY
#undef CANDLE_ROCM_BINARY
#undef CANDLE_ROCM_BUILTIN
#undef CANDLE_ROCM_BUILTIN_BINARY
#undef CANDLE_ROCM_WITH_INTEGERS
#undef CANDLE_ROCM_F32
#undef CANDLE_ROCM_F64
#undef CANDLE_ROCM_OVERLOAD
#undef CANDLE_ROCM_OVERLOAD_BINARY

#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_E 2.7182818284590452354
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_LOG2E 1.44269504088896340736
#define M_LOG10E 0.43429448190325182765
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#define INFINITY (__builtin_inff())
#define HUGE_VALF (__builtin_huge_valf())
#define HUGE_VAL (__builtin_huge_val())
#define NAN (__builtin_nanf(""))
