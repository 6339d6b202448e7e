// Floats to FP8 (e4m3) with factors: what products of FP8 read.
//
// A factor is largest / 448, the largest magnitude of those that share it taken as 1e-4 at least; or the next power of
// two that is not below. Elements are divided by it, by multiplication with its inverse, rounded to nearest even. Where
// one is NaN or infinite, the factor is NaN and all that share it are 0. So no byte is NaN or -0, and products need not
// look.
#pragma once
#include "portable/activations.cuh"
#include "portable/block_reduce.cuh"
#include "portable/largest.cuh"
#include "rows/few.cuh"

static constexpr float FP8_LARGEST = 448.0f, FP8_LEAST_LARGEST = 1e-4f;
// Elements of a row, or rows and columns of a block, that share a factor.
static constexpr uint32_t FP8_GROUP = 128;
// Elements that a thread handles together, and how many such of f32 and of others are on their way.
static constexpr int FP8_V = 8;
template <class T> constexpr int FP8_AHEAD = sizeof(T) == 4 ? 2 : 4;

// Where factors go: in floats, or packed, where each four of a row along k are a word of exponents. Distances in floats
// or words; matrices are the grid's z.
struct Fp8Scales {
    void *values;
    int64_t matrix_step;
    int64_t row_step;
    int64_t k_step;
    // Whether factors are powers of two, and packed.
    uint32_t powers;
    uint32_t packed;

    __device__ __forceinline__ int64_t place(uint32_t row) const { return blockIdx.z * matrix_step + row * row_step; }
    __device__ __forceinline__ void put(uint32_t row, uint32_t k, float scale) const {
        if (packed) {
            uint32_t bits = bit_cast<uint32_t>(scale);
            // A power of two has no mantissa; of a NaN the exponent is 255.
            uint8_t *to = (uint8_t *)values + (place(row) + k / 4 * k_step) * 4 + k % 4;
            *to = (uint8_t)(bits >> 23);
        } else {
            ((float *)values)[place(row) + k * k_step] = scale;
        }
    }
};

// A factor and its inverse. `largest` is not below 0, or NaN.
struct Fp8Scale {
    float scale, inverse;

    __device__ __forceinline__ Fp8Scale(float largest, bool powers) {
        bool is_number = largest < INFINITY;
        largest = math::fmax(largest, FP8_LEAST_LARGEST);
        scale = largest / FP8_LARGEST, inverse = FP8_LARGEST / largest;
        if (powers) {
            // Up to the next power of two.
            uint32_t exponent = (bit_cast<uint32_t>(scale) + 0x7fffffu) >> 23;
            scale = bit_cast<float>(exponent << 23), inverse = bit_cast<float>((254 - exponent) << 23);
        }
        if (!is_number) scale = NAN, inverse = 0;
    }
};

// The larger, or NaN if one is: of magnitudes, whose bits have their order, and NaN's above them all.
struct Larger {
    __device__ __forceinline__ uint32_t operator()(uint32_t a, uint32_t b) const { return max_of(a, b); }
};
__device__ __forceinline__ uint32_t magnitude(float x) { return bit_cast<uint32_t>(x) & 0x7fffffffu; }

typedef uint32_t Fp8Words __attribute__((ext_vector_type(2)));

// Of four bytes, the signs of those that are not 0.
__device__ __forceinline__ uint32_t without_negative_zeros(uint32_t four) {
    uint32_t magnitudes = four & 0x7f7f7f7fu;
    return magnitudes | (four & (magnitudes + 0x7f7f7f7fu) & 0x80808080u);
}

// Four numbers of at most 448 as bytes, -0 as 0.
__device__ __forceinline__ uint32_t fp8_four(float a, float b, float c, float d) {
    uint32_t four;
#if defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__)
    // Their e4m3 has another bias: half of a number has the same bits.
    four = __builtin_amdgcn_cvt_pk_fp8_f32(a * 0.5f, b * 0.5f, 0, false);
    four = __builtin_amdgcn_cvt_pk_fp8_f32(c * 0.5f, d * 0.5f, four, true);
#elif defined(__gfx950__) || defined(__GFX12__)
    four = __builtin_amdgcn_cvt_pk_fp8_f32(a, b, 0, false);
    four = __builtin_amdgcn_cvt_pk_fp8_f32(c, d, four, true);
#elif defined(__CUDA__) && !defined(__HIP__) && __CUDA_ARCH__ >= 890
    uint16_t low, high;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(b), "f"(a));
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(d), "f"(c));
    four = low | (uint32_t)high << 16;
#else
    four = (uint32_t)f8e4m3_t(a).bits | (uint32_t)f8e4m3_t(b).bits << 8 | (uint32_t)f8e4m3_t(c).bits << 16 |
           (uint32_t)f8e4m3_t(d).bits << 24;
#endif
    return without_negative_zeros(four);
}

// Elements that a thread handles, in f32.
template <class T> struct Fp8Few : Few<T, FP8_V> {
    using Few<T, FP8_V>::Few;
    using Few<T, FP8_V>::x;

    __device__ __forceinline__ uint32_t largest() const {
        uint32_t most = 0;
#pragma unroll
        for (int i = 0; i < FP8_V; i++) most = max_of(most, magnitude(x[i]));
        return most;
    }
    // What is NaN or infinite becomes 0 with all that share its factor.
    __device__ __forceinline__ Fp8Words bytes(float inverse) const {
        float y[FP8_V];
#pragma unroll
        for (int i = 0; i < FP8_V; i++) y[i] = inverse == 0 ? 0.0f : x[i] * inverse;
        return Fp8Words{fp8_four(y[0], y[1], y[2], y[3]), fp8_four(y[4], y[5], y[6], y[7])};
    }
    __device__ __forceinline__ void write(uint8_t *to, float inverse, uint32_t count, bool aligned) const {
        Fp8Words words = bytes(inverse);
        if (aligned) {
            if (count == FP8_V) *(Fp8Words *)to = words;
        } else {
#pragma unroll
            for (int i = 0; i < FP8_V; i++)
                if (i < (int)count) to[i] = (uint8_t)(words[i / 4] >> i % 4 * 8);
        }
    }
};

// A matrix of rows, and its bytes, whose rows follow one another; matrices, the grid's z, do so as well.
template <class T> struct Fp8Matrix {
    const T *x;
    uint8_t *y;
    int64_t ld; // of x
    uint32_t rows, columns;

    __device__ __forceinline__ Fp8Matrix(const T *x, uint8_t *y, int64_t ld, uint32_t rows, uint32_t columns)
        : x(x + blockIdx.z * rows * ld), y(y + (uint64_t)blockIdx.z * rows * columns), ld(ld), rows(rows),
          columns(columns) {}
    __device__ __forceinline__ bool aligned() const {
        return is_aligned(x, 16) && is_aligned(y, 8) && columns % FP8_V == 0 && ld * sizeof(T) % 16 == 0;
    }
    __device__ __forceinline__ const T *from(uint32_t row, uint32_t column) const { return x + row * ld + column; }
    __device__ __forceinline__ uint8_t *to(uint32_t row, uint32_t column) const {
        return y + (uint64_t)row * columns + column;
    }
    // Of FP8_V elements from `column` on.
    __device__ __forceinline__ uint32_t count(uint32_t column) const {
        return column < columns ? min_of(columns - column, (uint32_t)FP8_V) : 0;
    }
};

// Each 128 of a row by themselves: 16 lanes, FP8_V of a lane. `source` gives what is cast, `m` has room for it. Grid:
// any in x.
template <class Source, class T>
__device__ __forceinline__ void fp8_groups(const Source &source, const Fp8Matrix<T> &m, const Fp8Scales &scales) {
    constexpr uint32_t LANES = FP8_GROUP / FP8_V;
    uint32_t groups = ceil_div(m.columns, FP8_GROUP), within = threadIdx.x % LANES * FP8_V;
    uint64_t total = (uint64_t)m.rows * groups;
    bool narrow = total >> 32 == 0, aligned = m.aligned();
    // All lanes of a wavefront go on as long as one has a group.
    uint64_t wave = global_thread() / wave_size() * wave_size() / LANES, lane = global_thread() / LANES - wave;
    struct Place {
        uint32_t row, group, column, count;
    };
    auto place = [&](uint64_t first) INLINED {
        uint64_t index = first + lane < total ? first + lane : 0;
        uint32_t row = (uint32_t)divide(index, groups, narrow), group = (uint32_t)(index - (uint64_t)row * groups);
        uint32_t column = group * FP8_GROUP + within;
        return Place{row, group, column, first + lane < total ? m.count(column) : 0};
    };
    each_ahead<FP8_AHEAD<T>>(
        wave, total, global_threads() / LANES,
        [&](uint64_t first) INLINED {
            Place p = place(first);
            return source.load(m, p.row, p.column, p.count, aligned);
        },
        [&](uint64_t first, const auto &held) INLINED {
            Place p = place(first);
            Fp8Few<T> few = source.few(held);
            uint32_t largest = wave_all_reduce(few.largest(), LANES, Larger());
            Fp8Scale scale(bit_cast<float>(largest), scales.powers);
            if (p.count > 0) few.write(m.to(p.row, p.column), scale.inverse, p.count, aligned);
            if (first + lane < total && within == 0) scales.put(p.row, p.group, scale.scale);
        });
}

template <class T> using Fp8Held = Held<T, FP8_V>;
// Where there are none (`count` is 0), nothing is read.
struct Fp8AsItIs {
    template <class T>
    __device__ __forceinline__ Fp8Held<T> load(const Fp8Matrix<T> &m, uint32_t row, uint32_t column, uint32_t count,
                                               bool aligned) const {
        Fp8Held<T> held;
        held.load(m.from(row, column), count, aligned);
        return held;
    }
    template <class T> __device__ __forceinline__ Fp8Few<T> few(const Fp8Held<T> &held) const { return held; }
};

// Row source[row] / share of x, or zeros where that is negative: a token's row for each of its experts.
struct Fp8Gathered : Fp8AsItIs {
    const int32_t *source;
    uint32_t share;
    __device__ __forceinline__ Fp8Gathered(const int32_t *source, uint32_t share) : source(source), share(share) {}
    template <class T>
    __device__ __forceinline__ Fp8Held<T> load(const Fp8Matrix<T> &m, uint32_t row, uint32_t column, uint32_t count,
                                               bool aligned) const {
        int32_t from = source[row];
        return Fp8AsItIs::load(m, from < 0 ? 0 : (uint32_t)from / share, column, from < 0 ? 0 : count, aligned);
    }
};

// silu(gate) * up, rounded to T as an operator of its own would; gates are a row's first half.
struct Fp8Gated {
    template <class T> struct Two {
        Fp8Held<T> gate, up;
    };
    template <class T>
    __device__ __forceinline__ Two<T> load(const Fp8Matrix<T> &m, uint32_t row, uint32_t column, uint32_t count,
                                           bool aligned) const {
        Two<T> two;
        two.gate.load(m.from(row, column), count, aligned);
        two.up.load(m.from(row, m.columns + column), count, aligned);
        return two;
    }
    template <class T> __device__ __forceinline__ Fp8Few<T> few(const Two<T> &two) const {
        Fp8Few<T> gate = two.gate, up = two.up;
#pragma unroll
        for (int i = 0; i < FP8_V; i++) gate.x[i] = widen(narrow<T>(SiluFunction::of<T>(gate.x[i]) * up.x[i]));
        return gate;
    }
};

// Blocks of 128 x 128, one for each workgroup of 256. Grid: x blocks of columns, y blocks of rows.
template <class T> __device__ __forceinline__ void fp8_blocks(const Fp8Matrix<T> &m, const Fp8Scales &scales) {
    constexpr uint32_t LANES = FP8_GROUP / FP8_V, STEP = 256 / LANES, ROWS = FP8_GROUP / STEP;
    __shared__ WaveValues<uint32_t> lds;
    uint32_t column = blockIdx.x * FP8_GROUP + threadIdx.x % LANES * FP8_V, count = m.count(column);
    uint32_t first = blockIdx.y * FP8_GROUP + threadIdx.x / LANES;
    bool aligned = m.aligned();
    Fp8Held<T> held[ROWS];
    uint32_t largest = 0;
#pragma unroll
    for (uint32_t i = 0; i < ROWS; i++) {
        uint32_t row = first + i * STEP;
        held[i].load(m.from(row, column), row < m.rows ? count : 0, aligned);
    }
    in_order();
#pragma unroll
    for (uint32_t i = 0; i < ROWS; i++) largest = max_of(largest, Fp8Few<T>(held[i]).largest());
    largest = block_all_reduce(largest, threadIdx.x, 256u, Larger(), lds);
    Fp8Scale scale(bit_cast<float>(largest), scales.powers);
#pragma unroll
    for (uint32_t i = 0; i < ROWS; i++) {
        uint32_t row = first + i * STEP;
        if (row < m.rows && count > 0) Fp8Few<T>(held[i]).write(m.to(row, column), scale.inverse, count, aligned);
    }
    if (threadIdx.x == 0) scales.put(blockIdx.y, blockIdx.x, scale.scale);
}

// A factor for each row. Workgroups of 512, any number in x: rows of up to 8,192 elements are read once, where they are
// vectors.
template <class T> __device__ __forceinline__ void fp8_rows(const Fp8Matrix<T> &m, const Fp8Scales &scales) {
    constexpr uint32_t THREADS = 512, HELD = 2, STEP = THREADS * FP8_V;
    __shared__ WaveValues<uint32_t> lds;
    bool aligned = m.aligned();
    for (uint32_t row = blockIdx.x; row < m.rows; row += gridDim.x) {
        const T *from = m.from(row, 0);
        uint8_t *to = m.to(row, 0);
        uint32_t first = threadIdx.x * FP8_V, largest = 0;
        Fp8Held<T> held[HELD];
        if (aligned) {
#pragma unroll
            for (uint32_t i = 0; i < HELD; i++)
                if (first + i * STEP < m.columns) held[i].load(from + first + i * STEP);
#pragma unroll
            for (uint32_t i = 0; i < HELD; i++) largest = max_of(largest, Fp8Few<T>(held[i]).largest());
            for (uint32_t column = first + HELD * STEP; column < m.columns; column += STEP) {
                Fp8Held<T> more;
                more.load(from + column);
                largest = max_of(largest, Fp8Few<T>(more).largest());
            }
        } else {
            for (uint32_t column = threadIdx.x; column < m.columns; column += THREADS)
                largest = max_of(largest, magnitude(widen(from[column])));
        }
        largest = block_all_reduce(largest, threadIdx.x, THREADS, Larger(), lds);
        Fp8Scale scale(bit_cast<float>(largest), scales.powers);
        if (aligned) {
#pragma unroll
            for (uint32_t i = 0; i < HELD; i++)
                if (first + i * STEP < m.columns)
                    *(Fp8Words *)(to + first + i * STEP) = Fp8Few<T>(held[i]).bytes(scale.inverse);
            for (uint32_t column = first + HELD * STEP; column < m.columns; column += STEP) {
                Fp8Held<T> more;
                more.load(from + column);
                *(Fp8Words *)(to + column) = Fp8Few<T>(more).bytes(scale.inverse);
            }
        } else {
            for (uint32_t column = threadIdx.x; column < m.columns; column += THREADS) {
                Fp8Few<T> few = {};
                few.x[0] = widen(from[column]);
                to[column] = (uint8_t)few.bytes(scale.inverse)[0];
            }
        }
        if (threadIdx.x == 0) scales.put(row, 0, scale.scale);
    }
}

// The largest magnitude of all.
template <class T> __device__ __forceinline__ void fp8_largest(const Fp8Matrix<T> &m, uint32_t *largest) {
    __shared__ WaveValues<uint32_t> lds;
    bool aligned = m.aligned();
    uint32_t most = 0;
    auto load = [&](uint32_t row, uint32_t column, uint32_t count) INLINED {
        return Fp8AsItIs().load(m, row, column, count, aligned);
    };
    each_few<FP8_V, FP8_AHEAD<T>>(m.rows, m.columns, load,
                                  [&](uint32_t, uint32_t, uint32_t, const Fp8Held<T> &held)
                                      INLINED { most = max_of(most, Fp8Few<T>(held).largest()); });
    most = block_all_reduce(most, threadIdx.x, 256u, Larger(), lds);
    if (threadIdx.x == 0) device_atomic::largest(largest, most);
}

// All by one factor, of what `largest` has the bits of.
template <class T>
__device__ __forceinline__ void fp8_all(const Fp8Matrix<T> &m, const Fp8Scales &scales, uint32_t largest) {
    bool aligned = m.aligned();
    Fp8Scale scale(bit_cast<float>(largest), scales.powers);
    auto load = [&](uint32_t row, uint32_t column, uint32_t count) INLINED {
        return Fp8AsItIs().load(m, row, column, count, aligned);
    };
    auto use = [&](uint32_t row, uint32_t column, uint32_t count, const Fp8Held<T> &held) INLINED {
        Fp8Few<T>(held).write(m.to(row, column), scale.inverse, count, aligned);
    };
    each_few<FP8_V, FP8_AHEAD<T>>(m.rows, m.columns, load, use);
    if (global_thread() == 0) scales.put(0, 0, scale.scale);
}

// -0 becomes 0, and what is NaN becomes 0 and makes the factor NaN that it shares with others: that of row >> shift,
// and of k / 128 where those differ.
__device__ __forceinline__ void fp8_prepare(const Fp8Matrix<uint8_t> &m, const Fp8Scales &scales, uint32_t shift) {
    bool aligned = is_aligned(m.x, 8) && is_aligned(m.y, 8) && m.columns % FP8_V == 0 && m.ld % FP8_V == 0;
    auto load = [&](uint32_t row, uint32_t column, uint32_t count) INLINED {
        const uint8_t *from = m.from(row, column);
        Fp8Words bytes = {};
        if (aligned) {
            bytes = *(const Fp8Words *)from;
        } else {
            for (uint32_t i = 0; i < count; i++) bytes[i / 4] |= (uint32_t)from[i] << i % 4 * 8;
        }
        return bytes;
    };
    auto use = [&](uint32_t row, uint32_t column, uint32_t count, Fp8Words bytes) INLINED {
        uint8_t *to = m.to(row, column);
        uint32_t any = 0;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint32_t magnitudes = bytes[i] & 0x7f7f7f7fu, nans = (magnitudes + 0x01010101u) & 0x80808080u;
            // All bits of a byte that is NaN, but the sign's, which without_negative_zeros takes away.
            bytes[i] = without_negative_zeros(bytes[i] & ~(nans - (nans >> 7)));
            any |= nans;
        }
        if (aligned) {
            *(Fp8Words *)to = bytes;
        } else {
            for (uint32_t i = 0; i < count; i++) to[i] = (uint8_t)(bytes[i / 4] >> i % 4 * 8);
        }
        if (any) scales.put(row >> shift, column / FP8_GROUP, NAN);
    };
    each_few<FP8_V, FP8_AHEAD<uint8_t>>(m.rows, m.columns, load, use);
}
