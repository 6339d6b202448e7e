// Random numbers for Candle's rand and randn, in place of cuRAND.
//
// The words are Philox's (philox.cuh): number i of a sequence depends on (seed, kind, i) alone, whatever the grid.
//
// The normal numbers use no function that differs between architectures: only +, *, fma, / and sqrt,
// which IEEE 754 rounds one way. candle-rocm-runtime/tests/random.rs computes the same bits.
#include "random/philox.cuh"

// ------------------------------------------------------------------ uniform

// (0, 1], as cuRAND gives: multiples of 2^-24 and 2^-53, each exact and equally likely.
__device__ __forceinline__ float unit(uint32_t word) { return (float)((word >> 8) + 1) * 0x1p-24f; }
__device__ __forceinline__ double unit(uint32_t low, uint32_t high) {
    uint64_t word = (uint64_t)high << 32 | low;
    return (double)((word >> 11) + 1) * 0x1p-53;
}

// ------------------------------------------------------------------- normal

// Box and Muller: radius sqrt(-2 ln u), angle a turn's fraction. ln by the series of atanh, sine and
// cosine of at most an eighth of a turn by their Taylor series; each is cut where its next term is below
// an eighth of the last bit.
template <class F> struct Series;
template <> struct Series<float> {
    static constexpr int LOG = 6, SIN = 5, COS = 6;
};
template <> struct Series<double> {
    static constexpr int LOG = 12, SIN = 9, COS = 10;
};

// 1 + s^2/3 + s^4/5 + ..., so that ln((1+s)/(1-s)) = 2 s times it.
template <class F> __device__ __forceinline__ F atanh_series(F square) {
    F sum = (F)1 / (F)(2 * Series<F>::LOG - 1);
#pragma unroll
    for (int i = Series<F>::LOG - 2; i >= 0; i--) sum = math::fma(sum, square, (F)1 / (F)(2 * i + 1));
    return sum;
}

// -2 ln(u) of a positive u. `exponent` and `mantissa` are those of u with the mantissa in sqrt(1/2) .. sqrt(2).
template <class F> __device__ __forceinline__ F minus_two_ln(int32_t exponent, F mantissa) {
    F s = (mantissa - (F)1) / (mantissa + (F)1);
    F ln_mantissa = (F)2 * s * atanh_series(s * s);
    return (F)-2 * math::fma((F)exponent, (F)0.693147180559945309417, ln_mantissa);
}
__device__ __forceinline__ float minus_two_ln(float u) {
    uint32_t shifted = bit_cast<uint32_t>(u) - 0x3f3504f3u; // sqrt(1/2)
    int32_t exponent = (int32_t)shifted >> 23;
    return minus_two_ln<float>(exponent, bit_cast<float>((shifted & 0x7fffffu) + 0x3f3504f3u));
}
__device__ __forceinline__ double minus_two_ln(double u) {
    uint64_t shifted = bit_cast<uint64_t>(u) - 0x3fe6a09e667f3bcdull;
    int32_t exponent = (int32_t)((int64_t)shifted >> 52);
    return minus_two_ln<double>(exponent, bit_cast<double>((shifted & 0xfffffffffffffull) + 0x3fe6a09e667f3bcdull));
}

template <class F> struct Pair {
    F a;
    F b;
};

// Cosine and sine of `fraction`, a fraction of a turn in units of 2^-32 or 2^-64.
template <class F, class Fraction, class Signed> __device__ __forceinline__ Pair<F> cos_sin(Fraction fraction) {
    // The nearest quarter, and what remains: -1/2 to 1/2 of a quarter, exactly.
    constexpr int BITS = sizeof(Fraction) * 8 - 2;
    uint32_t quarter = (uint32_t)((fraction + ((Fraction)1 << (BITS - 1))) >> BITS);
    Signed rest = (Signed)(fraction - ((Fraction)quarter << BITS));
    F x = (F)rest * (F)(1.57079632679489661923 / (double)((Fraction)1 << BITS));
    F square = x * x;
    F sine = 0, cosine = 0;
    // x - x^3/3! + ... and 1 - x^2/2! + ..., by Horner's rule with the ratios of successive terms.
#pragma unroll
    for (int i = Series<F>::SIN - 1; i >= 1; i--)
        sine = math::fma(sine, square, square) * ((F)-1 / (F)(2 * i * (2 * i + 1)));
    sine = math::fma(sine, x, x);
#pragma unroll
    for (int i = Series<F>::COS - 1; i >= 1; i--)
        cosine = math::fma(cosine, square, square) * ((F)-1 / (F)(2 * i * (2 * i - 1)));
    cosine = cosine + (F)1;
    F c = quarter & 1 ? sine : cosine, s = quarter & 1 ? cosine : sine;
    return {(quarter + 1) & 2 ? -c : c, quarter & 2 ? -s : s};
}

template <class F> __device__ __forceinline__ Pair<F> box_muller(F u, Pair<F> direction) {
    F radius = math::sqrt(minus_two_ln(u));
    return {radius * direction.a, radius * direction.b};
}

// ------------------------------------------------------------------ kernels

// What a block of words becomes.
struct UniformF32 {
    typedef float type;
    static constexpr int NUMBERS = 4;
    static constexpr Kind KIND = Kind::UniformF32;
    static __device__ __forceinline__ void make(const Words4 &words, float *out) {
#pragma unroll
        for (int i = 0; i < 4; i++) out[i] = unit(words.w[i]);
    }
};
struct UniformF64 {
    typedef double type;
    static constexpr int NUMBERS = 2;
    static constexpr Kind KIND = Kind::UniformF64;
    static __device__ __forceinline__ void make(const Words4 &words, double *out) {
        out[0] = unit(words.w[0], words.w[1]);
        out[1] = unit(words.w[2], words.w[3]);
    }
};
struct NormalF32 {
    typedef float type;
    static constexpr int NUMBERS = 4;
    static constexpr Kind KIND = Kind::NormalF32;
    static __device__ __forceinline__ void make(const Words4 &words, float *out) {
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
            Pair<float> pair = box_muller(unit(words.w[i]), cos_sin<float, uint32_t, int32_t>(words.w[i + 1]));
            out[i] = pair.a;
            out[i + 1] = pair.b;
        }
    }
};
struct NormalF64 {
    typedef double type;
    static constexpr int NUMBERS = 2;
    static constexpr Kind KIND = Kind::NormalF64;
    static __device__ __forceinline__ void make(const Words4 &words, double *out) {
        uint64_t fraction = (uint64_t)words.w[3] << 32 | words.w[2];
        Pair<double> pair = box_muller(unit(words.w[0], words.w[1]), cos_sin<double, uint64_t, int64_t>(fraction));
        out[0] = pair.a;
        out[1] = pair.b;
    }
};

// Numbers `offset` to `offset + n` of the sequence; one block of words a thread and step.
template <class D, class Transform>
__device__ __forceinline__ void fill(typename D::type *out, uint64_t n, uint64_t seed, uint64_t offset,
                                     Transform transform) {
    uint64_t first = offset / D::NUMBERS, skip = offset % D::NUMBERS;
    uint64_t blocks = (skip + n + D::NUMBERS - 1) / D::NUMBERS;
    for (uint64_t block = global_thread(); block < blocks; block += global_threads()) {
        typename D::type numbers[D::NUMBERS];
        D::make(philox(seed, D::KIND, first + block), numbers);
#pragma unroll
        for (int i = 0; i < D::NUMBERS; i++) {
            // Wraps for the numbers before the first one wanted.
            uint64_t at = block * D::NUMBERS + i - skip;
            if (at < n) out[at] = transform(numbers[i]);
        }
    }
}

constexpr int RANDOM_THREADS = 256;

#define UNIFORM(TYPE, T, D)                                                                                      \
    ENTRY __launch_bounds__(RANDOM_THREADS) uniform_##TYPE(T *out, uint64_t n, uint64_t seed, uint64_t offset) { \
        fill<D>(out, n, seed, offset, [](T x) { return x; });                                                    \
    }
#define NORMAL(TYPE, T, D)                                                                       \
    ENTRY __launch_bounds__(RANDOM_THREADS)                                                      \
        normal_##TYPE(T *out, uint64_t n, uint64_t seed, uint64_t offset, T mean, T deviation) { \
        fill<D>(out, n, seed, offset, [=](T x) { return math::fma(x, deviation, mean); });       \
    }

UNIFORM(f32, float, UniformF32)
UNIFORM(f64, double, UniformF64)
NORMAL(f32, float, NormalF32)
NORMAL(f64, double, NormalF64)
