// Functions of one tensor, element by element. Small floats are computed in f32 and rounded once.
#include "portable/activations.cuh"
#include "portable/sizes.cuh"
#include "elementwise/elementwise.cuh"
#include "elementwise/power.cuh"

// How these are launched: launch_heuristics.rs says what the words mean.
#define LAUNCHES(X, EVERY) EVERY(Mapped, 4, 2)

// These stand once for each size of element.
#define MOVES(X) X(ucopy)

// x is the element in its compute type C: float or double.
#define FUNCTION(OP, EXPRESSION)                                                    \
    struct OP {                                                                     \
        template <class T> __device__ __forceinline__ T operator()(T value) const { \
            using C = compute_t<T>;                                                 \
            C x = upcast(value);                                                    \
            return round_to<T>((C)(EXPRESSION));                                    \
        }                                                                           \
    };
FUNCTION(Exp, math::exp(x))
FUNCTION(Log : Long, math::log(x))
FUNCTION(Sin : Long, math::sin(x))
FUNCTION(Cos : Long, math::cos(x))
FUNCTION(Tanh : Long, math::tanh(x))
FUNCTION(Erf : Long, math::erf(x))
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
FUNCTION(GeluErf : Long, GeluErfFunction::of<T>(x))

// Long functions of f64 have the largest code there is: vectors where tensors are contiguous, else single elements.
template <class F, class T>
__device__ __forceinline__ void map_function(size_t numel, size_t num_dims, const size_t *__restrict__ info, F f,
                                             T *__restrict__ out, const T *__restrict__ in) {
    if constexpr (stands_once<F>() && sizeof(T) == 8) {
        if (info == nullptr) map_contiguous(numel, f, out, in);
        else map_singly(indices<1>(), numel, num_dims, info, f, out, in);
    } else {
        map(numel, num_dims, info, f, out, in);
    }
}

#define UNARY(KERNEL, OP, NAME, T)                                                                                  \
    ENTRY KERNEL##_##NAME(size_t numel, size_t num_dims, const size_t *__restrict__ info, const T *__restrict__ in, \
                          T *__restrict__ out) {                                                                    \
        map_function(numel, num_dims, info, OP(), out, in);                                                         \
    }
// With a parameter of the element's type before the pointers. APPLY maps a function of x and that parameter's value p.
#define UNARY_1(KERNEL, NAME, T, APPLY)                                                                     \
    ENTRY KERNEL##_##NAME(size_t numel, size_t num_dims, const size_t *__restrict__ info, T parameter,      \
                          const T *__restrict__ in, T *__restrict__ out) {                                  \
        APPLY(upcast(parameter), [=](auto f) INLINED { map_function(numel, num_dims, info, f, out, in); }); \
    }

template <class T> struct Elu : Long {
    compute_t<T> p;
    __device__ __forceinline__ T operator()(T value) const {
        using C = compute_t<T>;
        C x = upcast(value);
        // The sign bit decides, so that -0 goes through exp, as on the CPU.
        return round_to<T>(math::copysign((C)1, x) > (C)0 ? x : (math::exp(x) - (C)1) * p);
    }
};
template <class T, class Map> __device__ __forceinline__ void elu(compute_t<T> p, Map map) { map(Elu<T>{{}, p}); }

template <class T> struct LibraryPower : Long {
    T p;
    __device__ __forceinline__ T operator()(T x) const { return math::pow(x, p); }
};
template <class T, class Map> __device__ __forceinline__ void power(compute_t<T> p, Map map) {
    if constexpr (is_same<T, compute_t<T>>::value) {
        map(LibraryPower<T>{{}, p});
    } else {
        // Exponents that need more care have code of their own.
        Exponent exponent(p);
        if (exponent.is_plain()) map(Power<T, true>(exponent));
        else map(Power<T, false>(exponent));
    }
}

#define ALL_UNARY(NAME, T)             \
    UNARY(uexp, Exp, NAME, T)          \
    UNARY(ulog, Log, NAME, T)          \
    UNARY(usin, Sin, NAME, T)          \
    UNARY(ucos, Cos, NAME, T)          \
    UNARY(utanh, Tanh, NAME, T)        \
    UNARY(uerf, Erf, NAME, T)          \
    UNARY(uceil, Ceil, NAME, T)        \
    UNARY(ufloor, Floor, NAME, T)      \
    UNARY(uround, Round, NAME, T)      \
    UNARY(uabs, Abs, NAME, T)          \
    UNARY(uneg, Neg, NAME, T)          \
    UNARY(urecip, Recip, NAME, T)      \
    UNARY(usqr, Sqr, NAME, T)          \
    UNARY(usqrt, Sqrt, NAME, T)        \
    UNARY(usign, Sign, NAME, T)        \
    UNARY(urelu, Relu, NAME, T)        \
    UNARY(usilu, Silu, NAME, T)        \
    UNARY(usigmoid, Sigmoid, NAME, T)  \
    UNARY(ugelu, Gelu, NAME, T)        \
    UNARY(ugelu_erf, GeluErf, NAME, T) \
    UNARY_1(uelu, NAME, T, elu<T>)     \
    UNARY_1(upowf, NAME, T, power<T>)
FOR_FLOATS(ALL_UNARY)

// Copies of a strided tensor into a contiguous one.
struct Copy {
    template <class T> __device__ __forceinline__ T operator()(T value) const { return value; }
};
#define COPY(NAME, T)                                                                                            \
    ENTRY ucopy_##NAME(size_t numel, size_t num_dims, const size_t *__restrict__ info, const T *__restrict__ in, \
                       T *__restrict__ out) {                                                                    \
        map(numel, num_dims, info, Copy(), out, in);                                                             \
    }
FOR_SIZES(COPY)
