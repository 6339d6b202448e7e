// Functions of one tensor, element by element. Small floats are computed in f32 and rounded once.
#include "activations.cuh"
#include "elementwise.cuh"
#include "power.cuh"

// x is the element in its compute type C: float or double.
#define FUNCTION(OP, EXPRESSION)                                                                   \
    struct OP {                                                                                    \
        template <class T> __device__ __forceinline__ T operator()(T value) const {                \
            using C = compute_t<T>;                                                                \
            C x = widen(value);                                                                    \
            return narrow<T>((C)(EXPRESSION));                                                     \
        }                                                                                          \
    };
FUNCTION(Exp, math::exp(x))
FUNCTION(Log, math::log(x))
FUNCTION(Sin, math::sin(x))
FUNCTION(Cos, math::cos(x))
FUNCTION(Tanh, math::tanh(x))
FUNCTION(Erf, math::erf(x))
FUNCTION(Ceil, math::ceil(x))
FUNCTION(Floor, math::floor(x))
FUNCTION(Round, math::round(x))
FUNCTION(Abs, math::abs(x))
FUNCTION(Neg, -x)
FUNCTION(Recip, (C)1 / x)
FUNCTION(Sqr, x *x)
FUNCTION(Sqrt, math::sqrt(x))
FUNCTION(Sign, (C)(x > (C)0 ? 1 : 0) - (C)(x < (C)0 ? 1 : 0))
FUNCTION(Relu, ReluFunction::of<T>(x))
FUNCTION(Silu, SiluFunction::of<T>(x))
FUNCTION(Sigmoid, logistic<T>(x))
FUNCTION(Gelu, GeluFunction::of<T>(x))
FUNCTION(GeluErf, GeluErfFunction::of<T>(x))

#define UNARY(KERNEL, OP, NAME, T)                                                                 \
    extern "C" __global__ void KERNEL##_##NAME(size_t numel, size_t num_dims,                      \
                                               const size_t *__restrict__ info,                    \
                                               const T *__restrict__ in, T *__restrict__ out) {    \
        map(numel, num_dims, info, OP(), out, in);                                                 \
    }
// With a parameter of the element's type before the pointers.
#define UNARY_1(KERNEL, NAME, T, EXPRESSION)                                                       \
    extern "C" __global__ void KERNEL##_##NAME(size_t numel, size_t num_dims,                      \
                                               const size_t *__restrict__ info, T parameter,       \
                                               const T *__restrict__ in, T *__restrict__ out) {    \
        using C = compute_t<T>;                                                                    \
        C p = widen(parameter);                                                                    \
        map(numel, num_dims, info,                                                                 \
            [=](T value) {                                                                         \
                C x = widen(value);                                                                \
                return narrow<T>((C)(EXPRESSION));                                                 \
            },                                                                                     \
            out, in);                                                                              \
    }
// The sign bit decides, so that -0 goes through exp, as on the CPU.
#define ELU(NAME, T) UNARY_1(uelu, NAME, T, math::copysign((C)1, x) > (C)0 ? x : (math::exp(x) - (C)1) * p)
// Exponents that need more care have code of their own.
template <class T>
__device__ __forceinline__ void power(size_t numel, size_t num_dims, const size_t *__restrict__ info, T p, const T *__restrict__ in, T *__restrict__ out) {
    Exponent exponent(widen(p));
    if (exponent.is_plain()) map(numel, num_dims, info, Power<T, true>{exponent}, out, in);
    else map(numel, num_dims, info, Power<T, false>{exponent}, out, in);
}
#define POWF_SMALL(NAME, T)                                                                        \
    extern "C" __global__ void upowf_##NAME(size_t numel, size_t num_dims,                         \
                                            const size_t *__restrict__ info, T parameter,          \
                                            const T *__restrict__ in, T *__restrict__ out) {       \
        power(numel, num_dims, info, parameter, in, out);                                          \
    }
#define POWF(NAME, T) UNARY_1(upowf, NAME, T, math::pow(x, p))

#define ALL_UNARY(NAME, T)                                                                         \
    UNARY(uexp, Exp, NAME, T)                                                                      \
    UNARY(ulog, Log, NAME, T)                                                                      \
    UNARY(usin, Sin, NAME, T)                                                                      \
    UNARY(ucos, Cos, NAME, T)                                                                      \
    UNARY(utanh, Tanh, NAME, T)                                                                    \
    UNARY(uerf, Erf, NAME, T)                                                                      \
    UNARY(uceil, Ceil, NAME, T)                                                                    \
    UNARY(ufloor, Floor, NAME, T)                                                                  \
    UNARY(uround, Round, NAME, T)                                                                  \
    UNARY(uabs, Abs, NAME, T)                                                                      \
    UNARY(uneg, Neg, NAME, T)                                                                      \
    UNARY(urecip, Recip, NAME, T)                                                                  \
    UNARY(usqr, Sqr, NAME, T)                                                                      \
    UNARY(usqrt, Sqrt, NAME, T)                                                                    \
    UNARY(usign, Sign, NAME, T)                                                                    \
    UNARY(urelu, Relu, NAME, T)                                                                    \
    UNARY(usilu, Silu, NAME, T)                                                                    \
    UNARY(usigmoid, Sigmoid, NAME, T)                                                              \
    UNARY(ugelu, Gelu, NAME, T)                                                                    \
    UNARY(ugelu_erf, GeluErf, NAME, T)                                                             \
    ELU(NAME, T)
FOR_FLOATS(ALL_UNARY)
POWF(f32, float)
POWF(f64, double)
POWF_SMALL(f16, half_t)
POWF_SMALL(bf16, bf16_t)
POWF_SMALL(f8e4m3, f8e4m3_t)

// Copies of a strided tensor into a contiguous one move bits, whatever their type.
struct Copy {
    template <class T> __device__ __forceinline__ T operator()(T value) const { return value; }
};
#define COPY(NAME, T) UNARY(ucopy, Copy, NAME, T)
FOR_ALL(COPY)
