// Integer intrinsics, conversions with a rounding direction, four bytes at once, cached loads and stores.
#pragma once
#include "candle_rocm/sync.h"

// ------------------------------------------------------------------ min, max

// Beside clang's, which take one type: CUDA has them for a signed and an unsigned one, too.
#define CANDLE_ROCM_MIN_MAX(A, B, R)                                         \
    CANDLE_ROCM_DEVICE R min(A a, B b) { return (R)a < (R)b ? (R)a : (R)b; } \
    CANDLE_ROCM_DEVICE R max(A a, B b) { return (R)a > (R)b ? (R)a : (R)b; }
CANDLE_ROCM_MIN_MAX(unsigned int, unsigned int, unsigned int)
CANDLE_ROCM_MIN_MAX(int, unsigned int, unsigned int)
CANDLE_ROCM_MIN_MAX(unsigned int, int, unsigned int)
CANDLE_ROCM_MIN_MAX(long, long, long)
CANDLE_ROCM_MIN_MAX(unsigned long, unsigned long, unsigned long)
CANDLE_ROCM_MIN_MAX(long, unsigned long, unsigned long)
CANDLE_ROCM_MIN_MAX(unsigned long, long, unsigned long)
CANDLE_ROCM_MIN_MAX(long long, long long, long long)
CANDLE_ROCM_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
CANDLE_ROCM_MIN_MAX(long long, unsigned long long, unsigned long long)
CANDLE_ROCM_MIN_MAX(unsigned long long, long long, unsigned long long)
#undef CANDLE_ROCM_MIN_MAX
CANDLE_ROCM_DEVICE double min(float a, double b) { return __builtin_fmin((double)a, b); }
CANDLE_ROCM_DEVICE double min(double a, float b) { return __builtin_fmin(a, (double)b); }
CANDLE_ROCM_DEVICE double max(float a, double b) { return __builtin_fmax((double)a, b); }
CANDLE_ROCM_DEVICE double max(double a, float b) { return __builtin_fmax(a, (double)b); }
CANDLE_ROCM_DEVICE unsigned int umin(unsigned int a, unsigned int b) { return a < b ? a : b; }
CANDLE_ROCM_DEVICE unsigned int umax(unsigned int a, unsigned int b) { return a > b ? a : b; }

// ----------------------------------------------------------------- same bits

#define CANDLE_ROCM_SAME_BITS(NAME, TO, FROM) \
    CANDLE_ROCM_BOTH TO NAME(FROM value) { return candle_rocm::bits<TO>(value); }
CANDLE_ROCM_SAME_BITS(__float_as_int, int, float)
CANDLE_ROCM_SAME_BITS(__int_as_float, float, int)
CANDLE_ROCM_SAME_BITS(__float_as_uint, unsigned int, float)
CANDLE_ROCM_SAME_BITS(__uint_as_float, float, unsigned int)
CANDLE_ROCM_SAME_BITS(__double_as_longlong, long long, double)
CANDLE_ROCM_SAME_BITS(__longlong_as_double, double, long long)
#undef CANDLE_ROCM_SAME_BITS
CANDLE_ROCM_DEVICE int __double2loint(double value) { return (int)candle_rocm::bits<long long>(value); }
CANDLE_ROCM_DEVICE int __double2hiint(double value) { return (int)(candle_rocm::bits<long long>(value) >> 32); }
CANDLE_ROCM_DEVICE double __hiloint2double(int high, int low) {
    return candle_rocm::bits<double>(((unsigned long long)(unsigned int)high << 32) | (unsigned int)low);
}

// --------------------------------------------------------------- conversions

namespace candle_rocm {
// To an integer: what does not fit becomes the nearest that does, NaN 0, as NVIDIA's instruction does.
template <class To, class From> __host__ __device__ __forceinline__ To saturate(From value) {
    constexpr bool SIGNED = (To)-1 < (To)0;
    constexpr int BITS = (int)sizeof(To) * 8;
    constexpr To HIGHEST = SIGNED ? (To)(((uint64_t)1 << (BITS - 1)) - 1) : (To)-1;
    constexpr To LOWEST = SIGNED ? (To)((uint64_t)1 << (BITS - 1)) : (To)0;
    // One past the highest is a power of two, exact, as is the lowest.
    constexpr From LIMIT = (From)((uint64_t)1 << (BITS - 1)) * (From)(SIGNED ? 1 : 2);
    if (value != value) return 0;
    if (value >= LIMIT) return HIGHEST;
    if (value < (From)LOWEST) return LOWEST;
    return (To)value;
}
} // namespace candle_rocm

#define CANDLE_ROCM_TO_INTEGER(FROM_NAME, FROM, S, TO_NAME, TO)                                           \
    CANDLE_ROCM_DEVICE TO __##FROM_NAME##2##TO_NAME##_rn(FROM x) {                                        \
        return candle_rocm::saturate<TO>(__builtin_rint##S(x));                                           \
    }                                                                                                     \
    CANDLE_ROCM_DEVICE TO __##FROM_NAME##2##TO_NAME##_rz(FROM x) { return candle_rocm::saturate<TO>(x); } \
    CANDLE_ROCM_DEVICE TO __##FROM_NAME##2##TO_NAME##_ru(FROM x) {                                        \
        return candle_rocm::saturate<TO>(__builtin_ceil##S(x));                                           \
    }                                                                                                     \
    CANDLE_ROCM_DEVICE TO __##FROM_NAME##2##TO_NAME##_rd(FROM x) {                                        \
        return candle_rocm::saturate<TO>(__builtin_floor##S(x));                                          \
    }
CANDLE_ROCM_TO_INTEGER(float, float, f, int, int)
CANDLE_ROCM_TO_INTEGER(float, float, f, uint, unsigned int)
CANDLE_ROCM_TO_INTEGER(float, float, f, ll, long long)
CANDLE_ROCM_TO_INTEGER(float, float, f, ull, unsigned long long)
CANDLE_ROCM_TO_INTEGER(double, double, , int, int)
CANDLE_ROCM_TO_INTEGER(double, double, , uint, unsigned int)
CANDLE_ROCM_TO_INTEGER(double, double, , ll, long long)
CANDLE_ROCM_TO_INTEGER(double, double, , ull, unsigned long long)
#undef CANDLE_ROCM_TO_INTEGER

// The nearest; the other directions step from it where it lies on the wrong side.
namespace candle_rocm {
__device__ __forceinline__ float next(float x, bool up) {
    if (x == 0) return bits<float>(up ? 1u : 0x80000001u);
    int word = bits<int>(x);
    return bits<float>(((x > 0) == up) ? word + 1 : word - 1);
}
} // namespace candle_rocm
CANDLE_ROCM_DEVICE float __double2float_rn(double x) { return (float)x; }
CANDLE_ROCM_DEVICE float __double2float_rd(double x) {
    float near = (float)x;
    return (double)near > x ? candle_rocm::next(near, false) : near;
}
CANDLE_ROCM_DEVICE float __double2float_ru(double x) {
    float near = (float)x;
    return (double)near < x ? candle_rocm::next(near, true) : near;
}
CANDLE_ROCM_DEVICE float __double2float_rz(double x) { return x < 0 ? __double2float_ru(x) : __double2float_rd(x); }
#define CANDLE_ROCM_FROM_INTEGER(NAME, FROM)                                  \
    CANDLE_ROCM_DEVICE float __##NAME##2float_rn(FROM x) { return (float)x; } \
    CANDLE_ROCM_DEVICE double __##NAME##2double_rn(FROM x) { return (double)x; }
CANDLE_ROCM_FROM_INTEGER(int, int)
CANDLE_ROCM_FROM_INTEGER(uint, unsigned int)
CANDLE_ROCM_FROM_INTEGER(ll, long long)
CANDLE_ROCM_FROM_INTEGER(ull, unsigned long long)
#undef CANDLE_ROCM_FROM_INTEGER
CANDLE_ROCM_DEVICE float __int2float_rz(int x) { return __double2float_rz((double)x); }
CANDLE_ROCM_DEVICE float __int2float_ru(int x) { return __double2float_ru((double)x); }
CANDLE_ROCM_DEVICE float __int2float_rd(int x) { return __double2float_rd((double)x); }
CANDLE_ROCM_DEVICE float __uint2float_rz(unsigned int x) { return __double2float_rz((double)x); }
CANDLE_ROCM_DEVICE float __uint2float_ru(unsigned int x) { return __double2float_ru((double)x); }
CANDLE_ROCM_DEVICE float __uint2float_rd(unsigned int x) { return __double2float_rd((double)x); }

// ------------------------------------------------------------------ integers

CANDLE_ROCM_DEVICE int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned int)x); }
CANDLE_ROCM_DEVICE int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
CANDLE_ROCM_DEVICE int __ffs(int x) { return __builtin_ffs(x); }
CANDLE_ROCM_DEVICE int __ffsll(long long x) { return __builtin_ffsll(x); }
CANDLE_ROCM_DEVICE int __popc(unsigned int x) { return __builtin_popcount(x); }
CANDLE_ROCM_DEVICE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
CANDLE_ROCM_DEVICE unsigned int __brev(unsigned int x) { return __builtin_bitreverse32(x); }
CANDLE_ROCM_DEVICE unsigned long long __brevll(unsigned long long x) { return __builtin_bitreverse64(x); }
// The n-th set bit from `base` on (n > 0) or back from it (n < 0); -1 where there is none.
CANDLE_ROCM_DEVICE unsigned int __fns(unsigned int mask, unsigned int base, int n) {
    int step = n < 0 ? -1 : 1, left = n == 0 ? 1 : n * step;
    for (int at = (int)base; at >= 0 && at < 32; at += step) {
        bool set = mask >> at & 1;
        if (n == 0) return set ? (unsigned int)at : ~0u;
        if (set && --left == 0) return (unsigned int)at;
    }
    return ~0u;
}
CANDLE_ROCM_DEVICE int __mulhi(int a, int b) { return (int)(((long long)a * b) >> 32); }
CANDLE_ROCM_DEVICE unsigned int __umulhi(unsigned int a, unsigned int b) {
    return (unsigned int)(((unsigned long long)a * b) >> 32);
}
CANDLE_ROCM_DEVICE long long __mul64hi(long long a, long long b) { return (long long)(((__int128)a * b) >> 64); }
CANDLE_ROCM_DEVICE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
CANDLE_ROCM_DEVICE int __mul24(int a, int b) {
    return (int)((unsigned int)((int)((unsigned int)a << 8) >> 8) * (unsigned int)((int)((unsigned int)b << 8) >> 8));
}
CANDLE_ROCM_DEVICE unsigned int __umul24(unsigned int a, unsigned int b) { return (a & 0xffffffu) * (b & 0xffffffu); }
CANDLE_ROCM_DEVICE unsigned int __usad(unsigned int a, unsigned int b, unsigned int c) {
    return (a > b ? a - b : b - a) + c;
}
CANDLE_ROCM_DEVICE unsigned int __sad(int a, int b, unsigned int c) {
    return (a > b ? (unsigned int)a - (unsigned int)b : (unsigned int)b - (unsigned int)a) + c;
}
// Averages, rounded down and up.
CANDLE_ROCM_DEVICE int __hadd(int a, int b) { return (int)(((long long)a + b) >> 1); }
CANDLE_ROCM_DEVICE int __rhadd(int a, int b) { return (int)(((long long)a + b + 1) >> 1); }
CANDLE_ROCM_DEVICE unsigned int __uhadd(unsigned int a, unsigned int b) { return (a & b) + ((a ^ b) >> 1); }
CANDLE_ROCM_DEVICE unsigned int __urhadd(unsigned int a, unsigned int b) { return (a | b) - ((a ^ b) >> 1); }

// A word out of the 64 bits high:low. Shifts are taken modulo 32, or no further than 32 (c).
CANDLE_ROCM_DEVICE unsigned int __funnelshift_l(unsigned int low, unsigned int high, unsigned int shift) {
    return (unsigned int)(((((unsigned long long)high << 32) | low) << (shift & 31)) >> 32);
}
CANDLE_ROCM_DEVICE unsigned int __funnelshift_r(unsigned int low, unsigned int high, unsigned int shift) {
    return (unsigned int)((((unsigned long long)high << 32) | low) >> (shift & 31));
}
CANDLE_ROCM_DEVICE unsigned int __funnelshift_lc(unsigned int low, unsigned int high, unsigned int shift) {
    return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
CANDLE_ROCM_DEVICE unsigned int __funnelshift_rc(unsigned int low, unsigned int high, unsigned int shift) {
    return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}
namespace candle_rocm {
// Four bytes, each chosen by three bits of the selector out of y:x; the fourth bit spreads its sign, as in PTX's prmt.
__device__ __forceinline__ unsigned int permute_bytes(unsigned int x, unsigned int y, unsigned int selector) {
    unsigned long long both = ((unsigned long long)y << 32) | x;
    unsigned int result = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        unsigned int choice = selector >> (4 * i);
        unsigned int byte = (unsigned int)(both >> (8 * (choice & 7))) & 0xff;
        if (choice & 8) byte = byte & 0x80 ? 0xff : 0;
        result |= byte << (8 * i);
    }
    return result;
}
} // namespace candle_rocm
// The same without signs: the fourth bits of the selector do not count.
CANDLE_ROCM_DEVICE unsigned int __byte_perm(unsigned int x, unsigned int y, unsigned int selector) {
    return candle_rocm::permute_bytes(x, y, selector & 0x7777);
}

// ------------------------------------------------------------- dot products

namespace candle_rocm {
template <class A, class B, class C> __device__ __forceinline__ C dot4(unsigned int a, unsigned int b, C c) {
#pragma unroll
    for (int i = 0; i < 32; i += 8) c += (C)(A)(a >> i) * (C)(B)(b >> i);
    return c;
}
__device__ __forceinline__ int dot4_signed(int a, int b, int c) {
#if __has_builtin(__builtin_amdgcn_sudot4) && (defined(__GFX11__) || defined(__GFX12__))
    return __builtin_amdgcn_sudot4(true, a, true, b, c, false);
#elif defined(__gfx906__) || defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__) || \
    defined(__gfx950__) || (defined(__GFX10__) && !defined(__gfx1010__) && !defined(__gfx1013__))
    return __builtin_amdgcn_sdot4(a, b, c, false);
#else
    return dot4<int8_t, int8_t>((unsigned int)a, (unsigned int)b, c);
#endif
}
} // namespace candle_rocm
CANDLE_ROCM_DEVICE int __dp4a(int a, int b, int c) { return candle_rocm::dot4_signed(a, b, c); }
CANDLE_ROCM_DEVICE unsigned int __dp4a(unsigned int a, unsigned int b, unsigned int c) {
    return candle_rocm::dot4<uint8_t, uint8_t>(a, b, c);
}
CANDLE_ROCM_DEVICE int __dp4a(char4 a, char4 b, int c) {
    return __dp4a(candle_rocm::bits<int>(a), candle_rocm::bits<int>(b), c);
}
CANDLE_ROCM_DEVICE unsigned int __dp4a(uchar4 a, uchar4 b, unsigned int c) {
    return __dp4a(candle_rocm::bits<unsigned int>(a), candle_rocm::bits<unsigned int>(b), c);
}
// Two shorts of `a` with two bytes of `b`: its lower or its upper ones.
CANDLE_ROCM_DEVICE int __dp2a_lo(int a, int b, int c) {
    return (short)a * (int8_t)b + (a >> 16) * (int8_t)(b >> 8) + c;
}
CANDLE_ROCM_DEVICE int __dp2a_hi(int a, int b, int c) { return __dp2a_lo(a, b >> 16, c); }
CANDLE_ROCM_DEVICE unsigned int __dp2a_lo(unsigned int a, unsigned int b, unsigned int c) {
    return (a & 0xffff) * (b & 0xff) + (a >> 16) * (b >> 8 & 0xff) + c;
}
CANDLE_ROCM_DEVICE unsigned int __dp2a_hi(unsigned int a, unsigned int b, unsigned int c) {
    return __dp2a_lo(a, b >> 16, c);
}

// ------------------------------------------------ four bytes, two shorts at once

namespace candle_rocm {
template <class T> __device__ __forceinline__ T clamp(int value) {
    constexpr int LOW = (T)-1 < (T)0 ? -(1 << (sizeof(T) * 8 - 1)) : 0;
    constexpr int HIGH = LOW + (1 << (sizeof(T) * 8)) - 1;
    return (T)(value < LOW ? LOW : value > HIGH ? HIGH : value);
}
template <class T, class F> __device__ __forceinline__ unsigned int each_part(unsigned int a, unsigned int b, F f) {
    constexpr int BITS = (int)sizeof(T) * 8;
    constexpr unsigned int MASK = (1u << BITS) - 1;
    unsigned int result = 0;
#pragma unroll
    for (int i = 0; i < 32; i += BITS) result |= ((unsigned int)f((int)(T)(a >> i), (int)(T)(b >> i)) & MASK) << i;
    return result;
}
} // namespace candle_rocm

#define CANDLE_ROCM_PARTS(NAME, SUFFIX, T, EXPRESSION)                                          \
    CANDLE_ROCM_DEVICE unsigned int __v##NAME##SUFFIX(unsigned int a, unsigned int b) {         \
        return candle_rocm::each_part<T>(a, b, [](int a, int b) -> int { return EXPRESSION; }); \
    }
#define CANDLE_ROCM_PARTS_OF(N, S, U)                                                                              \
    CANDLE_ROCM_PARTS(add, N, S, a + b)                                                                            \
    CANDLE_ROCM_PARTS(sub, N, S, a - b)                                                                            \
    CANDLE_ROCM_PARTS(addss, N, S, candle_rocm::clamp<S>(a + b))                                                   \
    CANDLE_ROCM_PARTS(subss, N, S, candle_rocm::clamp<S>(a - b))                                                   \
    CANDLE_ROCM_PARTS(addus, N, U, candle_rocm::clamp<U>(a + b))                                                   \
    CANDLE_ROCM_PARTS(subus, N, U, candle_rocm::clamp<U>(a - b))                                                   \
    CANDLE_ROCM_PARTS(maxs, N, S, a > b ? a : b)                                                                   \
    CANDLE_ROCM_PARTS(maxu, N, U, a > b ? a : b)                                                                   \
    CANDLE_ROCM_PARTS(mins, N, S, a < b ? a : b)                                                                   \
    CANDLE_ROCM_PARTS(minu, N, U, a < b ? a : b)                                                                   \
    CANDLE_ROCM_PARTS(absdiffs, N, S, a > b ? a - b : b - a)                                                       \
    CANDLE_ROCM_PARTS(absdiffu, N, U, a > b ? a - b : b - a)                                                       \
    CANDLE_ROCM_PARTS(avgu, N, U, (a + b + 1) >> 1)                                                                \
    CANDLE_ROCM_PARTS(haddu, N, U, (a + b) >> 1)                                                                   \
    CANDLE_ROCM_PARTS(cmpeq, N, U, a == b ? -1 : 0)                                                                \
    CANDLE_ROCM_PARTS(cmpne, N, U, a != b ? -1 : 0)                                                                \
    CANDLE_ROCM_PARTS(cmpgts, N, S, a > b ? -1 : 0)                                                                \
    CANDLE_ROCM_PARTS(cmpges, N, S, a >= b ? -1 : 0)                                                               \
    CANDLE_ROCM_PARTS(cmplts, N, S, a < b ? -1 : 0)                                                                \
    CANDLE_ROCM_PARTS(cmples, N, S, a <= b ? -1 : 0)                                                               \
    CANDLE_ROCM_PARTS(cmpgtu, N, U, a > b ? -1 : 0)                                                                \
    CANDLE_ROCM_PARTS(cmpgeu, N, U, a >= b ? -1 : 0)                                                               \
    CANDLE_ROCM_PARTS(cmpltu, N, U, a < b ? -1 : 0)                                                                \
    CANDLE_ROCM_PARTS(cmpleu, N, U, a <= b ? -1 : 0)                                                               \
    CANDLE_ROCM_PARTS(seteq, N, U, a == b)                                                                         \
    CANDLE_ROCM_PARTS(setne, N, U, a != b)                                                                         \
    CANDLE_ROCM_DEVICE unsigned int __vneg##N(unsigned int a) { return __vsub##N(0u, a); }                         \
    CANDLE_ROCM_DEVICE unsigned int __vnegss##N(unsigned int a) { return __vsubss##N(0u, a); }                     \
    CANDLE_ROCM_DEVICE unsigned int __vabs##N(unsigned int a) {                                                    \
        return candle_rocm::each_part<S>(a, 0u, [](int a, int) -> int { return a < 0 ? -a : a; });                 \
    }                                                                                                              \
    CANDLE_ROCM_DEVICE unsigned int __vabsss##N(unsigned int a) {                                                  \
        return candle_rocm::each_part<S>(a, 0u,                                                                    \
                                         [](int a, int) -> int { return candle_rocm::clamp<S>(a < 0 ? -a : a); }); \
    }
CANDLE_ROCM_PARTS_OF(2, int16_t, uint16_t)
CANDLE_ROCM_PARTS_OF(4, int8_t, uint8_t)
#undef CANDLE_ROCM_PARTS_OF
#undef CANDLE_ROCM_PARTS
CANDLE_ROCM_DEVICE unsigned int __vsadu4(unsigned int a, unsigned int b) {
    return candle_rocm::dot4<uint8_t, uint8_t>(__vabsdiffu4(a, b), 0x01010101u, 0u);
}

// ------------------------------------------------------------- floating point

// What clang's own headers have not. `__tanf`, `__expf` and others are theirs.
CANDLE_ROCM_DEVICE float __exp2f(float x) { return __builtin_exp2f(x); }
CANDLE_ROCM_DEVICE float __tanhf(float x) { return ::tanhf(x); }
CANDLE_ROCM_DEVICE float __frcp_approx(float x) { return __builtin_amdgcn_rcpf(x); }

// CUDA promises that these are never fused with what stands beside them. clang's of the same names are.
#define CANDLE_ROCM_UNFUSED(NAME, T, OPERATOR) \
    CANDLE_ROCM_DEVICE T candle_rocm_##NAME(T a, T b) { _Pragma("clang fp contract(off)") return a OPERATOR b; }
CANDLE_ROCM_UNFUSED(fadd_rn, float, +)
CANDLE_ROCM_UNFUSED(fsub_rn, float, -)
CANDLE_ROCM_UNFUSED(fmul_rn, float, *)
CANDLE_ROCM_UNFUSED(dadd_rn, double, +)
CANDLE_ROCM_UNFUSED(dsub_rn, double, -)
CANDLE_ROCM_UNFUSED(dmul_rn, double, *)
#undef CANDLE_ROCM_UNFUSED
#define __fadd_rn candle_rocm_fadd_rn
#define __fsub_rn candle_rocm_fsub_rn
#define __fmul_rn candle_rocm_fmul_rn
#define __dadd_rn candle_rocm_dadd_rn
#define __dsub_rn candle_rocm_dsub_rn
#define __dmul_rn candle_rocm_dmul_rn

// ---------------------------------------------------------- loads and stores

// Loads and stores with a hint for NVIDIA's caches, which AMD's do not need.
#define CANDLE_ROCM_LOAD(NAME) \
    template <class T> __device__ __forceinline__ T NAME(const T *from) { return *from; }
#define CANDLE_ROCM_STORE(NAME) \
    template <class T> __device__ __forceinline__ void NAME(T *to, T value) { *to = value; }
CANDLE_ROCM_LOAD(__ldg)
CANDLE_ROCM_LOAD(__ldca)
CANDLE_ROCM_LOAD(__ldcg)
CANDLE_ROCM_LOAD(__ldcs)
CANDLE_ROCM_LOAD(__ldlu)
CANDLE_ROCM_STORE(__stwb)
CANDLE_ROCM_STORE(__stcg)
CANDLE_ROCM_STORE(__stcs)
CANDLE_ROCM_STORE(__stwt)
#undef CANDLE_ROCM_LOAD
#undef CANDLE_ROCM_STORE
// These go past the caches that others' writes do not reach.
template <class T> __device__ __forceinline__ T __ldcv(const T *from) { return *(const volatile T *)from; }

// ------------------------------------------------------------- address spaces

namespace candle_rocm {
template <class T> using Lds = __attribute__((address_space(3))) T;
// The 32 bits that shared memory's own instructions know an address by.
__device__ __forceinline__ uint32_t lds_address(const void *generic) {
    return (uint32_t)(uintptr_t)(Lds<const char> *)generic;
}
template <class T> __device__ __forceinline__ Lds<T> *lds_pointer(uint32_t address) { return (Lds<T> *)address; }
} // namespace candle_rocm
CANDLE_ROCM_DEVICE size_t __cvta_generic_to_shared(const void *pointer) { return candle_rocm::lds_address(pointer); }
CANDLE_ROCM_DEVICE void *__cvta_shared_to_generic(size_t address) {
    return (void *)candle_rocm::lds_pointer<char>((uint32_t)address);
}
CANDLE_ROCM_DEVICE size_t __cvta_generic_to_global(const void *pointer) { return (size_t)pointer; }
CANDLE_ROCM_DEVICE void *__cvta_global_to_generic(size_t address) { return (void *)address; }
// Of no address space by name: on the host's side of a file, pointers without one are of another type.
typedef const __attribute__((address_space(0))) void *candle_rocm_generic;
CANDLE_ROCM_DEVICE unsigned int __isShared(const void *pointer) {
    return __builtin_amdgcn_is_shared((candle_rocm_generic)pointer);
}
CANDLE_ROCM_DEVICE unsigned int __isLocal(const void *pointer) {
    return __builtin_amdgcn_is_private((candle_rocm_generic)pointer);
}
CANDLE_ROCM_DEVICE unsigned int __isGlobal(const void *pointer) { return !__isShared(pointer) && !__isLocal(pointer); }
