// The one header every kernel file includes: what CUDA's and HIP's own headers would give, in the few forms that our
// kernels use, over compiler builtins and ROCm's device libraries (ocml), so that a bare clang compiles it (-nogpuinc
// -nogpulib).
//
// The build passes -ffp-contract=off: `a * b + c` rounds twice, as Candle's CPU backend does. Where one rounding is
// wanted (dot products, norms, GEMM), say so with `math::fma`.
//
// A wavefront has 64 lanes on CDNA and 32 on RDNA: write wave code over `wave_size()` or over an explicit width of at
// most 32, never over "a warp".
#pragma once

typedef __INT8_TYPE__ int8_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __INT16_TYPE__ int16_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __INT32_TYPE__ int32_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __SIZE_TYPE__ size_t;
typedef __UINTPTR_TYPE__ uintptr_t;

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ inline __attribute__((always_inline))
// A kernel that the host launches by its name.
#define ENTRY extern "C" __global__ void

// Values as 32-bit words.
namespace words {
// Calls f(32-bit word) for each of those that hold the value.
template <class T, class F> __device__ __forceinline__ void each(T &value, F f) {
    uint32_t words[(sizeof(T) + 3) / 4] = {};
    __builtin_memcpy(words, &value, sizeof(T));
#pragma unroll
    for (uint32_t &word : words) f(word);
    __builtin_memcpy(&value, words, sizeof(T));
}
} // namespace words

namespace wave {
// Applies a 32-bit lane move to a value of 1 to 16 bytes.
template <class T, class Move> __device__ __forceinline__ T move(T value, Move move_word) {
    words::each(value, [&](uint32_t &word) { word = (uint32_t)move_word((int32_t)word); });
    return value;
}
} // namespace wave

// Functions of f32 and f64 by two builtins.
#define PORTABLE_BUILTIN(NAME, F32, F64)                              \
    __device__ __forceinline__ float NAME(float x) { return F32(x); } \
    __device__ __forceinline__ double NAME(double x) { return F64(x); }

#if defined(__HIP__)
#include "portable/amd.cuh"
#elif defined(__CUDA__)
#include "portable/nvidia.cuh"
#else
#error "compile as HIP (-x hip) or CUDA (-x cuda)"
#endif

namespace math {
PORTABLE_BUILTIN(ceil, __builtin_ceilf, __builtin_ceil)
PORTABLE_BUILTIN(floor, __builtin_floorf, __builtin_floor)
PORTABLE_BUILTIN(trunc, __builtin_truncf, __builtin_trunc)
PORTABLE_BUILTIN(abs, __builtin_fabsf, __builtin_fabs)
// a * b + c with one rounding.
__device__ __forceinline__ float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
__device__ __forceinline__ double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
__device__ __forceinline__ float copysign(float x, float sign) { return __builtin_copysignf(x, sign); }
__device__ __forceinline__ double copysign(double x, double sign) { return __builtin_copysign(x, sign); }
// The smaller or larger; a NaN gives way to the number.
__device__ __forceinline__ float fmin(float a, float b) { return __builtin_fminf(a, b); }
__device__ __forceinline__ double fmin(double a, double b) { return __builtin_fmin(a, b); }
__device__ __forceinline__ float fmax(float a, float b) { return __builtin_fmaxf(a, b); }
__device__ __forceinline__ double fmax(double a, double b) { return __builtin_fmax(a, b); }
} // namespace math
#undef PORTABLE_BUILTIN

// High half of a 32 x 32 bit product.
__device__ __forceinline__ uint32_t umulhi(uint32_t a, uint32_t b) { return (uint32_t)(((uint64_t)a * b) >> 32); }

// a / b, in 32 bits where the caller knows that both fit: a 64-bit division takes some hundred
// instructions.
__device__ __forceinline__ size_t divide(size_t a, size_t b, bool fits_32) {
    return fits_32 ? (uint32_t)a / (uint32_t)b : a / b;
}

// After a lambda's parameters: large ones would become functions, and what they capture would go to memory.
#define INLINED __attribute__((always_inline))

#define INFINITY (__builtin_inff())
#define NAN (__builtin_nanf(""))

// ---------------------------------------------------------------- templates

template <class T, class U> struct is_same {
    static constexpr bool value = false;
};
template <class T> struct is_same<T, T> {
    static constexpr bool value = true;
};
template <bool B, class T, class F> struct conditional {
    using type = T;
};
template <class T, class F> struct conditional<false, T, F> {
    using type = F;
};

// The unsigned integer of so many bytes.
template <int SIZE> struct bits_of;
template <> struct bits_of<1> {
    using type = uint8_t;
};
template <> struct bits_of<2> {
    using type = uint16_t;
};
template <> struct bits_of<4> {
    using type = uint32_t;
};
template <> struct bits_of<8> {
    using type = uint64_t;
};

// A value that is known when the code is compiled, as an argument.
template <auto VALUE> struct Constant {
    static constexpr auto value = VALUE;
    __device__ constexpr operator decltype(VALUE)() const { return VALUE; }
};

template <class T> __host__ __device__ constexpr __forceinline__ T min_of(T a, T b) { return b < a ? b : a; }
template <class T> __host__ __device__ constexpr __forceinline__ T max_of(T a, T b) { return a < b ? b : a; }
// ceil(a / b)
template <class T> __host__ __device__ constexpr T ceil_div(T a, T b) { return (a + b - 1) / b; }

// The exponent of a power of two.
__device__ __forceinline__ uint32_t log2_of(uint32_t power) { return (uint32_t)__builtin_ctz(power); }
// The smallest power of two that is not below x, at most 1024.
__device__ __forceinline__ uint32_t power_of_two_from(size_t x) {
    return x <= 1 ? 1u : x >= 1024 ? 1024u : 2u << (31 - __builtin_clz((uint32_t)x - 1));
}

template <class To, class From> __device__ __forceinline__ To bit_cast(From from) {
    static_assert(sizeof(To) == sizeof(From), "bit_cast keeps the size");
    return __builtin_bit_cast(To, from);
}

// ------------------------------------------------------------------- floats

// half_t is binary16 with the hardware's own conversions (round to nearest even).

// bfloat16, stored as its bits. Arithmetic is done in f32 and rounded once.
struct bf16_t {
    uint16_t bits;
    bf16_t() = default;
    __device__ __forceinline__ explicit bf16_t(float value) { bits = bf16_bits(value); }
    __device__ __forceinline__ explicit operator float() const { return bit_cast<float>((uint32_t)bits << 16); }
    static __device__ __forceinline__ bf16_t from_bits(uint16_t bits) {
        bf16_t r;
        r.bits = bits;
        return r;
    }
};

// The type in which arithmetic on T is done: f32 for the 8- and 16-bit floats, T itself otherwise.
template <class T> struct compute {
    using type = T;
};
template <> struct compute<half_t> {
    using type = float;
};
template <> struct compute<bf16_t> {
    using type = float;
};
template <class T> using compute_t = typename compute<T>::type;

// T to its compute type and back.
template <class T> __device__ __forceinline__ compute_t<T> upcast(T value) { return (compute_t<T>)value; }
template <class T> __device__ __forceinline__ T round_to(compute_t<T> value) { return (T)value; }

// --------------------------------------------------------- vectors of memory

// N elements moved by one load or store; N * sizeof(T) at most 16.
template <class T, int N> struct alignas(sizeof(T) * N) vec {
    T v[N];
    __device__ __forceinline__ T &operator[](int i) { return v[i]; }
    __device__ __forceinline__ const T &operator[](int i) const { return v[i]; }
};

// Elements of T in 16 bytes.
template <class T> constexpr int VEC16 = 16 / (int)sizeof(T);

// A vector of values, each rounded as by round_to(); those of bf16 by twos.
template <class T, int N> __device__ __forceinline__ vec<T, N> round_all_to(const compute_t<T> (&values)[N]) {
    vec<T, N> out;
    if constexpr (is_same<T, bf16_t>::value && N % 2 == 0) {
        vec<uint32_t, N / 2> pairs;
#pragma unroll
        for (int i = 0; i < N / 2; i++) pairs[i] = bf16_bits(values[2 * i], values[2 * i + 1]);
        out = bit_cast<vec<T, N>>(pairs);
    } else {
#pragma unroll
        for (int i = 0; i < N; i++) out[i] = round_to<T>(values[i]);
    }
    return out;
}

template <class V, class T> __device__ __forceinline__ V load_vec(const T *from) {
    return *reinterpret_cast<const V *>(from);
}
template <class V, class T> __device__ __forceinline__ void store_vec(T *to, V value) {
    *reinterpret_cast<V *>(to) = value;
}
__device__ __forceinline__ bool is_aligned(const void *pointer, uintptr_t bytes) {
    return ((uintptr_t)pointer & (bytes - 1)) == 0;
}

// -------------------------------------------------------------- grid indices

// This thread's index among all threads of a 1-D grid, and their number: 64-bit, so that
// `for (size_t i = global_thread(); i < n; i += global_threads())` never wraps.
__device__ __forceinline__ size_t global_thread() { return (size_t)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ size_t global_threads() { return (size_t)gridDim.x * blockDim.x; }

// ------------------------------------------------------------ wave reductions

struct Sum {
    template <class T> __device__ __forceinline__ T operator()(T a, T b) const { return a + b; }
};

// Combines `value` over each group of `width` consecutive lanes (a power of two, at most
// wave_size()); every lane gets the result. `op` is commutative; the order of combination depends
// on `width` alone, so results do not vary between runs.
template <class T, class Op>
__device__ __forceinline__ T wave_all_reduce(T value, uint32_t width, uint32_t active, Op op) {
    // Constant masks become DPP or ds_swizzle, hence the explicit steps.
    if (width > 1) value = op(value, shfl_xor(value, 1, active));
    if (width > 2) value = op(value, shfl_xor(value, 2, active));
    if (width > 4) value = op(value, shfl_xor(value, 4, active));
    if (width > 8) value = op(value, shfl_xor(value, 8, active));
    if (width > 16) value = op(value, shfl_xor(value, 16, active));
    if (width > 32) value = op(value, shfl_xor(value, 32, active));
    return value;
}
template <class T, class Op>
__device__ __forceinline__ T wave_all_reduce(T value, uint32_t width, Op op) {
    return wave_all_reduce(value, width, width, op);
}
// A reduction in which all lanes of the wavefront take part costs less.
template <class T, class Op>
__device__ __forceinline__ T whole_wave_all_reduce(T value, uint32_t width, Op op) {
    return wave_all_reduce(value, width, wave_size(), op);
}
