// What PTX instructions compute. candle-rocm rewrites inline PTX to calls of these before it compiles; the functions
// have the instructions' names, dots turned to underscores.
#pragma once
#include "candle_rocm/atomics.h"
#include "candle_rocm/matrix.h"

namespace candle_rocm {
// Stands for a statement of PTX that is not known: an error in the kernels that use it, as to NVIDIA's assembler.
template <int statement> __host__ __device__ void unknown_ptx() __attribute__((error("PTX that is not known")));

namespace ptx {

typedef _Float16 f16;
typedef _Float16 f16x2 __attribute__((ext_vector_type(2)));
struct bf16 {
    uint16_t word;
};
struct bf16x2 {
    uint16_t low, high;
};
__device__ __forceinline__ float wide(bf16 x) { return bits<float>((uint32_t)x.word << 16); }
__device__ __forceinline__ bf16 narrow(float x) {
    uint32_t word = bits<uint32_t>(x);
    return {x != x ? (uint16_t)0x7fff : (uint16_t)((word + 0x7fffu + ((word >> 16) & 1u)) >> 16)};
}

// --------------------------------------------------------------- registers

// What a variable of the source brings into a register, and takes from one.
template <class R, class T> __device__ __forceinline__ R in(T value) { return (R)value; }
template <class R, class T> __device__ __forceinline__ R in(T *value) { return (R)(uintptr_t)value; }
template <class T, class R> __device__ __forceinline__ void out(T &variable, R value) { variable = (T)value; }

// A register's value as an instruction's type reads it: its bits, the lower ones where it is wider.
template <int BYTES> struct Word;
template <> struct Word<1> {
    typedef uint8_t type;
};
template <> struct Word<2> {
    typedef uint16_t type;
};
template <> struct Word<4> {
    typedef uint32_t type;
};
template <> struct Word<8> {
    typedef uint64_t type;
};
template <class T, class R> __device__ __forceinline__ T as(R value) {
    typedef typename Word<sizeof(R)>::type From;
    typedef typename Word<sizeof(T)>::type To;
    return bits<T>((To)bits<From>(value));
}
template <class T> struct is_signed {
    static constexpr bool value = false;
};
template <> struct is_signed<int8_t> {
    static constexpr bool value = true;
};
template <> struct is_signed<int16_t> {
    static constexpr bool value = true;
};
template <> struct is_signed<int32_t> {
    static constexpr bool value = true;
};
// A result in a register: its bits, extended as the type says where the register is wider.
template <class R, class T> __device__ __forceinline__ void put(R &reg, T value) {
    typedef typename Word<sizeof(R)>::type To;
    if constexpr (is_signed<T>::value) reg = bits<R>((To)(int64_t)value);
    else reg = bits<R>((To)bits<typename Word<sizeof(T)>::type>(value));
}
template <> __device__ __forceinline__ void put<bool, bool>(bool &reg, bool value) { reg = value; }

// -------------------------------------------------------------- arithmetic

#define PTX_1(NAME, EXPRESSION) \
    template <class T> __device__ __forceinline__ T NAME(T a) { return EXPRESSION; }
#define PTX_2(NAME, EXPRESSION) \
    template <class T> __device__ __forceinline__ T NAME(T a, T b) { return EXPRESSION; }
#define PTX_3(NAME, EXPRESSION) \
    template <class T> __device__ __forceinline__ T NAME(T a, T b, T c) { return EXPRESSION; }
PTX_2(add, a + b)
PTX_2(sub, a - b)
PTX_2(mul, a *b)
PTX_2(mul_lo, a *b)
PTX_2(div, a / b)
PTX_2(rem, a % b)
PTX_3(mad_lo, a *b + c)
PTX_3(mad, a *b + c)
PTX_1(neg, -a)
PTX_1(not_, ~a)
template <> __device__ __forceinline__ bool not_(bool a) { return !a; }
PTX_1(cnot, a == 0 ? 1 : 0)
PTX_2(and_, a &b)
PTX_2(or_, a | b)
PTX_2(xor_, a ^ b)
PTX_2(min, a < b ? a : b)
PTX_2(max, a > b ? a : b)
PTX_1(abs, a < 0 ? -a : a)
PTX_1(popc, (T)__builtin_popcountll((typename Word<sizeof(T)>::type)a))
template <class T> __device__ __forceinline__ uint32_t count_leading(T a) {
    return a == 0 ? sizeof(T) * 8 : (uint32_t)__builtin_clzll((uint64_t)a) - (64 - sizeof(T) * 8);
}
template <class T> __device__ __forceinline__ uint32_t clz(T a) {
    return count_leading((typename Word<sizeof(T)>::type)a);
}
template <class T> __device__ __forceinline__ T brev(T a) {
    return (T)(__builtin_bitreverse64((uint64_t)a) >> (64 - sizeof(T) * 8));
}
template <class T> __device__ __forceinline__ T mul_hi(T a, T b) {
    if constexpr (sizeof(T) == 8)
        return is_signed<T>::value || (T)-1 < (T)0 ? (T)__mul64hi((long long)a, (long long)b)
                                                   : (T)__umul64hi((unsigned long long)a, (unsigned long long)b);
    else return (T)(((T)-1 < (T)0 ? (int64_t)a * (int64_t)b : (int64_t)((uint64_t)a * (uint64_t)b)) >> (sizeof(T) * 8));
}
PTX_3(mad_hi, mul_hi(a, b) + c)
template <class T> struct Double;
template <> struct Double<int16_t> {
    typedef int32_t type;
};
template <> struct Double<uint16_t> {
    typedef uint32_t type;
};
template <> struct Double<int32_t> {
    typedef int64_t type;
};
template <> struct Double<uint32_t> {
    typedef uint64_t type;
};
template <class T> __device__ __forceinline__ typename Double<T>::type mul_wide(T a, T b) {
    return (typename Double<T>::type)a * (typename Double<T>::type)b;
}
template <class T> __device__ __forceinline__ typename Double<T>::type mad_wide(T a, T b, typename Double<T>::type c) {
    return mul_wide(a, b) + c;
}
// Shifts by the width and more leave nothing, or the sign.
template <class T> __device__ __forceinline__ T shl(T a, uint32_t by) {
    return by >= sizeof(T) * 8 ? (T)0 : (T)(a << by);
}
template <class T> __device__ __forceinline__ T shr(T a, uint32_t by) {
    if (by >= sizeof(T) * 8) return (T)-1 < (T)0 ? (T)(a >> (sizeof(T) * 8 - 1)) : (T)0;
    return (T)(a >> by);
}
template <class T> __device__ __forceinline__ T sad(T a, T b, T c) { return (a > b ? a - b : b - a) + c; }
template <class T> __device__ __forceinline__ T mul24_lo(T a, T b) {
    return (T)-1 < (T)0 ? (T)__mul24((int)a, (int)b) : (T)__umul24((unsigned int)a, (unsigned int)b);
}

// NaN where both are, else the number; `NaN` in the name: where one is.
template <> __device__ __forceinline__ float min(float a, float b) { return __builtin_fminf(a, b); }
template <> __device__ __forceinline__ float max(float a, float b) { return __builtin_fmaxf(a, b); }
template <> __device__ __forceinline__ double min(double a, double b) { return __builtin_fmin(a, b); }
template <> __device__ __forceinline__ double max(double a, double b) { return __builtin_fmax(a, b); }
template <> __device__ __forceinline__ f16 min(f16 a, f16 b) { return (f16)__builtin_fminf((float)a, (float)b); }
template <> __device__ __forceinline__ f16 max(f16 a, f16 b) { return (f16)__builtin_fmaxf((float)a, (float)b); }
PTX_2(min_NaN, a != a ? a : b != b ? b : min(a, b))
PTX_2(max_NaN, a != a ? a : b != b ? b : max(a, b))
template <> __device__ __forceinline__ float abs(float a) { return __builtin_fabsf(a); }
template <> __device__ __forceinline__ double abs(double a) { return __builtin_fabs(a); }
template <> __device__ __forceinline__ f16 abs(f16 a) { return bits<f16>((uint16_t)(bits<uint16_t>(a) & 0x7fff)); }
template <class T> __device__ __forceinline__ T fma(T a, T b, T c);
template <> __device__ __forceinline__ float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
template <> __device__ __forceinline__ double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
template <> __device__ __forceinline__ f16 fma(f16 a, f16 b, f16 c) { return __builtin_fmaf16(a, b, c); }
__device__ __forceinline__ float unit(float a) { return a >= 0 ? (a > 1 ? 1.0f : a) : 0.0f; }
template <class T> __device__ __forceinline__ T add_sat(T a, T b) { return (T)unit((float)(a + b)); }
template <class T> __device__ __forceinline__ T mul_sat(T a, T b) { return (T)unit((float)(a * b)); }
template <class T> __device__ __forceinline__ T fma_sat(T a, T b, T c) { return (T)unit((float)fma(a, b, c)); }
template <class T> __device__ __forceinline__ T fma_relu(T a, T b, T c) {
    T r = fma(a, b, c);
    return r > (T)0 || r != r ? r : (T)0;
}
template <> __device__ __forceinline__ int32_t add_sat(int32_t a, int32_t b) {
    return __builtin_elementwise_add_sat(a, b);
}
template <class T> __device__ __forceinline__ T sub_sat(T a, T b);
template <> __device__ __forceinline__ int32_t sub_sat(int32_t a, int32_t b) {
    return __builtin_elementwise_sub_sat(a, b);
}
template <> __device__ __forceinline__ float sub_sat(float a, float b) { return unit(a - b); }

// bf16 by way of f32, and pairs by their parts.
#define PTX_BF16_1(NAME) \
    template <> __device__ __forceinline__ bf16 NAME(bf16 a) { return narrow(NAME(wide(a))); }
#define PTX_BF16_2(NAME) \
    template <> __device__ __forceinline__ bf16 NAME(bf16 a, bf16 b) { return narrow(NAME(wide(a), wide(b))); }
#define PTX_BF16_3(NAME)                                                       \
    template <> __device__ __forceinline__ bf16 NAME(bf16 a, bf16 b, bf16 c) { \
        return narrow(NAME(wide(a), wide(b), wide(c)));                        \
    }
#define PTX_PAIRS_1(NAME)                                                                                          \
    template <> __device__ __forceinline__ f16x2 NAME(f16x2 a) { return f16x2{NAME<f16>(a[0]), NAME<f16>(a[1])}; } \
    template <> __device__ __forceinline__ bf16x2 NAME(bf16x2 a) {                                                 \
        return {NAME(bf16{a.low}).word, NAME(bf16{a.high}).word};                                                  \
    }
#define PTX_PAIRS_2(NAME)                                                                    \
    template <> __device__ __forceinline__ f16x2 NAME(f16x2 a, f16x2 b) {                    \
        return f16x2{NAME<f16>(a[0], b[0]), NAME<f16>(a[1], b[1])};                          \
    }                                                                                        \
    template <> __device__ __forceinline__ bf16x2 NAME(bf16x2 a, bf16x2 b) {                 \
        return {NAME(bf16{a.low}, bf16{b.low}).word, NAME(bf16{a.high}, bf16{b.high}).word}; \
    }
#define PTX_PAIRS_3(NAME)                                                              \
    template <> __device__ __forceinline__ f16x2 NAME(f16x2 a, f16x2 b, f16x2 c) {     \
        return f16x2{NAME<f16>(a[0], b[0], c[0]), NAME<f16>(a[1], b[1], c[1])};        \
    }                                                                                  \
    template <> __device__ __forceinline__ bf16x2 NAME(bf16x2 a, bf16x2 b, bf16x2 c) { \
        return {NAME(bf16{a.low}, bf16{b.low}, bf16{c.low}).word,                      \
                NAME(bf16{a.high}, bf16{b.high}, bf16{c.high}).word};                  \
    }

// Approximations: at least as near as NVIDIA's.
template <class T> __device__ __forceinline__ T ex2(T a);
template <> __device__ __forceinline__ float ex2(float a) { return __builtin_exp2f(a); }
template <> __device__ __forceinline__ f16 ex2(f16 a) { return (f16)__builtin_exp2f((float)a); }
template <class T> __device__ __forceinline__ T tanh(T a);
template <> __device__ __forceinline__ float tanh(float a) { return ::tanhf(a); }
template <> __device__ __forceinline__ f16 tanh(f16 a) { return (f16)::tanhf((float)a); }
__device__ __forceinline__ float lg2(float a) { return __builtin_log2f(a); }
__device__ __forceinline__ float sin(float a) { return ::sinf(a); }
__device__ __forceinline__ float cos(float a) { return ::cosf(a); }
template <class T> __device__ __forceinline__ T rcp(T a) { return (T)1 / a; }
__device__ __forceinline__ float sqrt(float a) { return __builtin_sqrtf(a); }
__device__ __forceinline__ double sqrt(double a) { return __builtin_sqrt(a); }
__device__ __forceinline__ float rsqrt(float a) { return ::rsqrtf(a); }
__device__ __forceinline__ double rsqrt(double a) { return ::rsqrt(a); }
template <class T> __device__ __forceinline__ T copysign(T sign, T size);
template <> __device__ __forceinline__ float copysign(float sign, float size) {
    return __builtin_copysignf(size, sign);
}
template <> __device__ __forceinline__ double copysign(double sign, double size) {
    return __builtin_copysign(size, sign);
}

PTX_BF16_1(neg)
PTX_BF16_1(abs)
PTX_BF16_1(ex2)
PTX_BF16_1(tanh)
PTX_BF16_2(add)
PTX_BF16_2(sub)
PTX_BF16_2(mul)
PTX_BF16_2(min)
PTX_BF16_2(max)
PTX_BF16_2(min_NaN)
PTX_BF16_2(max_NaN)
PTX_BF16_3(fma)
PTX_BF16_3(fma_relu)
PTX_PAIRS_1(neg)
PTX_PAIRS_1(abs)
PTX_PAIRS_1(ex2)
PTX_PAIRS_1(tanh)
PTX_PAIRS_2(add)
PTX_PAIRS_2(sub)
PTX_PAIRS_2(mul)
PTX_PAIRS_2(min)
PTX_PAIRS_2(max)
PTX_PAIRS_2(min_NaN)
PTX_PAIRS_2(max_NaN)
PTX_PAIRS_3(fma)
PTX_PAIRS_3(fma_relu)
#undef PTX_1
#undef PTX_2
#undef PTX_3
#undef PTX_BF16_1
#undef PTX_BF16_2
#undef PTX_BF16_3
#undef PTX_PAIRS_1
#undef PTX_PAIRS_2
#undef PTX_PAIRS_3

// -------------------------------------------------------------- comparisons

#define PTX_COMPARE(NAME, EXPRESSION) \
    template <class T> __device__ __forceinline__ bool set_##NAME(T a, T b) { return EXPRESSION; }
PTX_COMPARE(eq, a == b)
PTX_COMPARE(ne, a != b && a == a && b == b)
PTX_COMPARE(lt, a < b)
PTX_COMPARE(le, a <= b)
PTX_COMPARE(gt, a > b)
PTX_COMPARE(ge, a >= b)
// Of unsigned integers by name; of floating-point numbers these hold of NaN, too.
PTX_COMPARE(lo, a < b)
PTX_COMPARE(ls, a <= b)
PTX_COMPARE(hi, a > b)
PTX_COMPARE(hs, a >= b)
PTX_COMPARE(equ, !(a < b || a > b))
PTX_COMPARE(neu, a != b)
PTX_COMPARE(ltu, !(a >= b))
PTX_COMPARE(leu, !(a > b))
PTX_COMPARE(gtu, !(a <= b))
PTX_COMPARE(geu, !(a < b))
PTX_COMPARE(num, a == a && b == b)
PTX_COMPARE(nan, a != a || b != b)
#undef PTX_COMPARE
template <class T> __device__ __forceinline__ T selp(T a, T b, bool choice) { return choice ? a : b; }

// ---------------------------------------------------------------------- bits

// Any function of three bits: bit 4 a + 2 b + c of the table.
__device__ __forceinline__ uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
    uint32_t result = 0;
#pragma unroll
    for (int row = 0; row < 8; row++)
        if (table >> row & 1) result |= (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
    return result;
}
__device__ __forceinline__ uint32_t prmt(uint32_t a, uint32_t b, uint32_t selector) {
    return permute_bytes(a, b, selector);
}
template <class T> __device__ __forceinline__ T bfe(T a, uint32_t from, uint32_t count) {
    constexpr uint32_t BITS = sizeof(T) * 8;
    typedef typename Word<sizeof(T)>::type U;
    from &= 0xff, count &= 0xff;
    if (count == 0) return 0;
    uint32_t last = from + count - 1 < BITS - 1 ? from + count - 1 : BITS - 1;
    bool negative = (T)-1 < (T)0 && ((U)a >> last & 1);
    U word = from >= BITS ? (U)0 : (U)((U)a >> from);
    uint32_t have = from >= BITS ? 0 : (BITS - from < count ? BITS - from : count);
    U mask = have >= BITS ? (U)-1 : (U)(((U)1 << have) - 1);
    return (T)((word & mask) | (negative ? (U)~mask : (U)0));
}
template <class T> __device__ __forceinline__ T bfi(T a, T b, uint32_t to, uint32_t count) {
    constexpr uint32_t BITS = sizeof(T) * 8;
    to &= 0xff, count &= 0xff;
    T mask = count >= BITS ? (T)-1 : (T)(((T)1 << count) - 1);
    mask = to >= BITS ? (T)0 : (T)(mask << to);
    return (T)((b & ~mask) | (to >= BITS ? (T)0 : (T)((a << to) & mask)));
}
template <class T> __device__ __forceinline__ uint32_t bfind(T a) {
    typedef typename Word<sizeof(T)>::type U;
    U word = (T)-1 < (T)0 && a < 0 ? (U)~a : (U)a;
    return word == 0 ? ~0u : (uint32_t)(sizeof(T) * 8 - 1) - count_leading(word);
}
__device__ __forceinline__ uint32_t shf_l_wrap(uint32_t a, uint32_t b, uint32_t by) {
    return __funnelshift_l(a, b, by);
}
__device__ __forceinline__ uint32_t shf_r_wrap(uint32_t a, uint32_t b, uint32_t by) {
    return __funnelshift_r(a, b, by);
}
__device__ __forceinline__ uint32_t shf_l_clamp(uint32_t a, uint32_t b, uint32_t by) {
    return __funnelshift_lc(a, b, by);
}
__device__ __forceinline__ uint32_t shf_r_clamp(uint32_t a, uint32_t b, uint32_t by) {
    return __funnelshift_rc(a, b, by);
}
// Bytes of four bits' place in dp4a: both types say how they are read.
template <class A, class B> __device__ __forceinline__ uint32_t dp4a(uint32_t a, uint32_t b, uint32_t c) {
    if constexpr (is_signed<A>::value && is_signed<B>::value) return (uint32_t)__dp4a((int)a, (int)b, (int)c);
    else if constexpr (is_signed<A>::value) return (uint32_t)dot4<int8_t, uint8_t>(a, b, (int)c);
    else if constexpr (is_signed<B>::value) return (uint32_t)dot4<uint8_t, int8_t>(a, b, (int)c);
    else return __dp4a(a, b, c);
}

// -------------------------------------------------------------- conversions

enum class Round { NEAREST, ZERO, BELOW, ABOVE };
template <class T> struct is_float {
    static constexpr bool value = false;
};
template <> struct is_float<float> {
    static constexpr bool value = true;
};
template <> struct is_float<double> {
    static constexpr bool value = true;
};
template <> struct is_float<f16> {
    static constexpr bool value = true;
};
template <> struct is_float<bf16> {
    static constexpr bool value = true;
};
template <class T> __device__ __forceinline__ T widened(T a) { return a; }
__device__ __forceinline__ float widened(f16 a) { return (float)a; }
__device__ __forceinline__ float widened(bf16 a) { return wide(a); }
template <class T> __device__ __forceinline__ T whole(T a, Round round) {
    if constexpr (sizeof(T) == 8)
        return round == Round::NEAREST ? __builtin_rint(a)
               : round == Round::ZERO  ? __builtin_trunc(a)
               : round == Round::BELOW ? __builtin_floor(a)
                                       : __builtin_ceil(a);
    else
        return round == Round::NEAREST ? __builtin_rintf(a)
               : round == Round::ZERO  ? __builtin_truncf(a)
               : round == Round::BELOW ? __builtin_floorf(a)
                                       : __builtin_ceilf(a);
}
// The nearest f16 or bf16, or the one that the direction asks for: cut off towards zero, and up from there.
template <class D> __device__ __forceinline__ D directed(float a, Round round) {
    D near;
    if constexpr (same<D, f16>::value) near = (f16)a;
    else near = narrow(a);
    if (round == Round::NEAREST || a != a) return near;
    float back = widened(near);
    bool below = round == Round::BELOW || (round == Round::ZERO && a > 0);
    if (below ? back <= a : back >= a) return near;
    uint16_t word = bits<uint16_t>(near);
    if ((word & 0x7fff) == 0) return bits<D>((uint16_t)(below ? 0x8001 : 1));
    return bits<D>((uint16_t)((word >> 15 == 0) == below ? word - 1 : word + 1));
}
template <class D, class S> __device__ __forceinline__ D cvt(S a, Round round, bool integral, bool saturated) {
    if constexpr (is_float<S>::value && !is_float<D>::value) {
        auto x = widened(a);
        return saturate<D>(whole(x, round));
    } else if constexpr (!is_float<S>::value && !is_float<D>::value) {
        if (!saturated) return (D)a;
        constexpr bool SIGNED = (D)-1 < (D)0;
        constexpr int BITS = (int)sizeof(D) * 8;
        // Fewer bits or another sign: held to what D has.
        __int128 x = a, high = ((__int128)1 << (SIGNED ? BITS - 1 : BITS)) - 1, low = SIGNED ? -high - 1 : 0;
        return (D)(x < low ? low : x > high ? high : x);
    } else if constexpr (is_float<S>::value) {
        auto x = widened(a);
        if (integral) x = whole(x, round);
        if (saturated) x = x >= 0 ? (x > 1 ? (decltype(x))1 : x) : (decltype(x))0;
        if constexpr (same<D, double>::value) return (double)x;
        else if constexpr (same<D, float>::value) {
            if constexpr (sizeof(x) == 8)
                return round == Round::NEAREST ? (float)x
                       : round == Round::ZERO  ? __double2float_rz(x)
                       : round == Round::BELOW ? __double2float_rd(x)
                                               : __double2float_ru(x);
            else return x;
        } else return directed<D>((float)x, integral ? Round::NEAREST : round);
    } else {
        if constexpr (same<D, double>::value) return (double)a;
        else if constexpr (same<D, float>::value) {
            if (sizeof(S) <= 4 && round != Round::NEAREST)
                return round == Round::ZERO    ? __double2float_rz((double)a)
                       : round == Round::BELOW ? __double2float_rd((double)a)
                                               : __double2float_ru((double)a);
            return (float)a;
        } else return directed<D>((float)a, round);
    }
}
// Two numbers to a pair, the first to its upper half.
template <class D> __device__ __forceinline__ uint32_t cvt_pair(float high, float low, Round round, bool relu) {
    if (relu) high = high > 0 || high != high ? high : 0.0f, low = low > 0 || low != low ? low : 0.0f;
    return (uint32_t)bits<uint16_t>(directed<D>(high, round)) << 16 | bits<uint16_t>(directed<D>(low, round));
}
// f32 with 10 bits of mantissa: nearest, ties away from zero.
__device__ __forceinline__ uint32_t cvt_tf32(float a) { return (bits<uint32_t>(a) + 0x1000u) & 0xffffe000u; }

// -------------------------------------------------------------------- memory

template <class T> __device__ __forceinline__ T *global(uint64_t address) { return (T *)address; }
template <class T> __device__ __forceinline__ Lds<T> *shared(uint64_t address) {
    return lds_pointer<T>((uint32_t)address);
}
// So many numbers, aligned as one: clang's vectors, which lie in any memory.
template <class T, int N> using Many = T __attribute__((ext_vector_type(N)));
template <int BYTES> struct alignas(BYTES) Block {
    uint32_t word[BYTES / 4];
};
// cp.async, done at once: `have` bytes, and zeros to the end.
template <int BYTES> __device__ __forceinline__ void copy(uint32_t to, uint64_t from, uint32_t have = BYTES) {
    Block<BYTES> block = {};
    if (have >= BYTES) block = *(const Block<BYTES> *)from;
    else
        for (uint32_t i = 0; i < have; i++) ((uint8_t *)&block)[i] = ((const uint8_t *)from)[i];
    for (int i = 0; i < BYTES / 4; i++) lds_pointer<uint32_t>(to)[i] = block.word[i];
}

// --------------------------------------------------------------------- warps

// The lane that a shuffle reads, and whether it is one of the segment that `c` describes.
enum class Shuffle { UP, DOWN, BFLY, IDX };
__device__ __forceinline__ uint32_t shfl(Shuffle mode, uint32_t a, uint32_t b, uint32_t c, bool &within) {
    uint32_t own = lane(), segments = c >> 8 & 31, bound = c & 31;
    b &= 31;
    uint32_t least = own & segments, most = (own & segments) | (bound & ~segments), from;
    if (mode == Shuffle::UP) from = own - b, within = (int)from >= (int)most;
    else if (mode == Shuffle::DOWN) from = own + b, within = from <= most;
    else if (mode == Shuffle::BFLY) from = own ^ b, within = from <= most;
    else from = least | (b & ~segments), within = from <= most;
    return read_lane(a, within ? from : own);
}

} // namespace ptx
} // namespace candle_rocm
