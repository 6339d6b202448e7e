// Arithmetic and comparison of two tensors of one type.
#include "elementwise/elementwise.cuh"
#include "portable/report.cuh"

// How these are launched: launch_heuristics.rs says what the words mean.
#define LAUNCHES(X, EVERY) EVERY(AnyGrid, 4, Sizes, 0)

// Arithmetic in the compute type, rounded once. Integers wrap, as Rust's do in release builds.
#define ARITHMETIC(OP, EXPRESSION)                                                       \
    struct OP {                                                                          \
        template <class T> __device__ __forceinline__ T operator()(T lhs, T rhs) const { \
            using C = compute_t<T>;                                                      \
            C x = upcast(lhs), y = upcast(rhs);                                          \
            return round_to<T>((C)(EXPRESSION));                                         \
        }                                                                                \
    };
ARITHMETIC(Add, x + y)
ARITHMETIC(Subtract, x - y)
ARITHMETIC(Multiply, x *y)
// As Candle's CPU backend: where a comparison with a NaN is false, the left operand stays.
ARITHMETIC(Minimum, x > y ? y : x)
ARITHMETIC(Maximum, x < y ? y : x)

ARITHMETIC(FloatQuotient, x / y)
// The CPU panics where an integer is divided by zero; the hardware would return an arbitrary number.
struct IntegerQuotient : Partial {
    template <class T> static __device__ __forceinline__ bool refuses(T, T rhs) { return rhs == 0; }
    template <class T, class> static __device__ __forceinline__ void refuse(size_t place) {
        constexpr Operation OPERATION("div");
        ::refuse<T>(OPERATION, zero_divisor, 0, 0, place);
    }
    template <class T> __device__ __forceinline__ T operator()(T lhs, T rhs) const {
        if constexpr ((T)-1 < (T)0) {
            if (rhs == (T)-1) return (T)(0 - lhs);
        }
        return (T)(lhs / rhs);
    }
};
template <class T> using Divide = typename conditional<is_float<T>::value, FloatQuotient, IntegerQuotient>::type;

#define COMPARISON(OP, EXPRESSION)                                                             \
    struct OP {                                                                                \
        template <class T> __device__ __forceinline__ uint8_t operator()(T lhs, T rhs) const { \
            compute_t<T> x = upcast(lhs), y = upcast(rhs);                                     \
            return EXPRESSION ? 1 : 0;                                                         \
        }                                                                                      \
    };
COMPARISON(Equal, x == y)
COMPARISON(NotEqual, x != y)
COMPARISON(Less, x < y)
COMPARISON(LessEqual, x <= y)
COMPARISON(Greater, x > y)
COMPARISON(GreaterEqual, x >= y)

#define BINARY(KERNEL, OP, NAME, T, OUT)                                                                             \
    ENTRY KERNEL##_##NAME(size_t numel, size_t num_dims, const size_t *__restrict__ info, const T *__restrict__ lhs, \
                          const T *__restrict__ rhs, OUT *__restrict__ out) {                                        \
        map(numel, num_dims, info, OP(), out, lhs, rhs);                                                             \
    }
#define ALL_BINARY(NAME, T)                 \
    BINARY(badd, Add, NAME, T, T)           \
    BINARY(bsub, Subtract, NAME, T, T)      \
    BINARY(bmul, Multiply, NAME, T, T)      \
    BINARY(bdiv, Divide<T>, NAME, T, T)     \
    BINARY(bminimum, Minimum, NAME, T, T)   \
    BINARY(bmaximum, Maximum, NAME, T, T)   \
    BINARY(eq, Equal, NAME, T, uint8_t)     \
    BINARY(ne, NotEqual, NAME, T, uint8_t)  \
    BINARY(lt, Less, NAME, T, uint8_t)      \
    BINARY(le, LessEqual, NAME, T, uint8_t) \
    BINARY(gt, Greater, NAME, T, uint8_t)   \
    BINARY(ge, GreaterEqual, NAME, T, uint8_t)
FOR_ALL(ALL_BINARY)
