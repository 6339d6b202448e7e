// Arithmetic and comparison of two tensors of one type.
#include "elementwise/elementwise.cuh"
#include "portable/report.cuh"

// How these are launched: launch_heuristics.rs says what the words mean.
#define LAUNCHES(X, EVERY) EVERY(Mapped, 4, 2)

// Of which of these a comparison is true, or untrue: a NaN is none of the first three to anything.
enum Outcome : uint32_t { LESS = 1, EQUAL = 2, GREATER = 4, NOT = 8 };

// These stand once for several that hosts launch, told apart by an argument behind those that hosts pass. X(hosts'
// name, name here, arguments that hosts pass, argument): outcomes.
#define TOLD_APART(X)     \
    X(eq, compare, 6, 2)  \
    X(ne, compare, 6, 10) \
    X(lt, compare, 6, 1)  \
    X(le, compare, 6, 3)  \
    X(gt, compare, 6, 4)  \
    X(ge, compare, 6, 6)

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

struct Compare {
    bool less, equal, greater, is_not;
    __device__ __forceinline__ explicit Compare(uint32_t outcomes)
        : less(outcomes & LESS), equal(outcomes & EQUAL), greater(outcomes & GREATER), is_not(outcomes & NOT) {}
    // Without branches.
    template <class T> __device__ __forceinline__ uint8_t operator()(T lhs, T rhs) const {
        compute_t<T> x = upcast(lhs), y = upcast(rhs);
        return (((x < y) & less) | ((x == y) & equal) | ((x > y) & greater)) ^ is_not;
    }
};

#define BINARY(KERNEL, OP, NAME, T)                                                                                  \
    ENTRY KERNEL##_##NAME(size_t numel, size_t num_dims, const size_t *__restrict__ info, const T *__restrict__ lhs, \
                          const T *__restrict__ rhs, T *__restrict__ out) {                                          \
        map(numel, num_dims, info, OP(), out, lhs, rhs);                                                             \
    }
#define COMPARISONS(NAME, T)                                                                                        \
    ENTRY compare_##NAME(size_t numel, size_t num_dims, const size_t *__restrict__ info, const T *__restrict__ lhs, \
                         const T *__restrict__ rhs, uint8_t *__restrict__ out, uint32_t outcomes) {                 \
        map(numel, num_dims, info, Compare(outcomes), out, lhs, rhs);                                               \
    }
#define ALL_BINARY(NAME, T)            \
    BINARY(badd, Add, NAME, T)         \
    BINARY(bsub, Subtract, NAME, T)    \
    BINARY(bmul, Multiply, NAME, T)    \
    BINARY(bdiv, Divide<T>, NAME, T)   \
    BINARY(bminimum, Minimum, NAME, T) \
    BINARY(bmaximum, Maximum, NAME, T) \
    COMPARISONS(NAME, T)
FOR_ALL(ALL_BINARY)
