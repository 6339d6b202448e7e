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
#include "rows/float_vector.cuh"

static constexpr float FP8_LARGEST = 448.0f, FP8_LEAST_LARGEST = 1e-4f;
// Elements of a row, or rows and columns of a block, that share a factor.
static constexpr uint32_t FP8_GROUP = 128;
// Elements that a thread handles together: what is computed for a group of 128 is so for as few threads as may be.
static constexpr int FP8_V = 16, FP8_WORDS = FP8_V / 4;

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

typedef uint32_t Fp8Words __attribute__((ext_vector_type(FP8_WORDS)));

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

// `count` of FP8_V bytes; all or none of them where they are aligned.
__device__ __forceinline__ void fp8_store(uint8_t *to, Fp8Words words, uint32_t count, bool aligned) {
    if (aligned) {
        if (count == FP8_V) *(Fp8Words *)to = words;
    } else {
        // The next byte is always the first.
#pragma unroll 1
        for (uint32_t i = 0; i < count; i++) {
            to[i] = (uint8_t)words[0];
#pragma unroll
            for (int w = 0; w < FP8_WORDS; w++)
                words[w] = words[w] >> 8 | (w + 1 < FP8_WORDS ? words[min_of(w + 1, FP8_WORDS - 1)] << 24 : 0);
        }
    }
}

// Elements that a thread handles, in f32.
template <class T> struct Fp8Vector : FloatVector<T, FP8_V> {
    using FloatVector<T, FP8_V>::FloatVector;
    using FloatVector<T, FP8_V>::x;

    __device__ __forceinline__ uint32_t largest() const {
        uint32_t most = 0;
#pragma unroll
        for (int i = 0; i < FP8_V; i++) most = max_of(most, magnitude(x[i]));
        return most;
    }
    // What is NaN or infinite becomes 0 with all that share its factor.
    __device__ __forceinline__ Fp8Words bytes(float inverse) const {
        Fp8Words words;
#pragma unroll
        for (int i = 0; i < FP8_WORDS; i++) {
            auto y = [&](int j) INLINED {
                return inverse == 0 ? 0.0f : x[4 * i + j] * inverse;
            };
            words[i] = fp8_four(y(0), y(1), y(2), y(3));
        }
        return words;
    }
    __device__ __forceinline__ void write(uint8_t *to, float inverse, uint32_t count, bool aligned) const {
        fp8_store(to, bytes(inverse), count, aligned);
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
        return is_aligned(x, 16) && is_aligned(y, FP8_V) && columns % FP8_V == 0 && ld * sizeof(T) % 16 == 0;
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

static constexpr uint32_t FP8_TOGETHER = 8;

// Each 128 of a row by themselves: LANES lanes, FP8_V of a lane. `source` gives what is cast, `m` has room for it.
// Grid: any in x.
template <class Source, class T>
__device__ __forceinline__ void fp8_groups(const Source &source, const Fp8Matrix<T> &m, const Fp8Scales &scales) {
    constexpr uint32_t LANES = FP8_GROUP / FP8_V;
    uint32_t groups = ceil_div(m.columns, FP8_GROUP), within = threadIdx.x % LANES * FP8_V;
    uint64_t total = (uint64_t)m.rows * groups;
    bool fits_32 = total >> 32 == 0, aligned = m.aligned();
    // Rows whose groups at one place follow one another, so that a wavefront writes factors that lie together.
    uint32_t together = Source::FROM_ONE_PLACE && scales.row_step == 1 ? FP8_TOGETHER : 1;
    // All lanes of a wavefront go on as long as one has a group.
    uint64_t first = global_thread() / wave_size() * wave_size() / LANES, lane = global_thread() / LANES - first;
    for (; first < total; first += global_threads() / LANES) {
        uint64_t index = first + lane;
        bool is_one = index < total;
        index = is_one ? index : 0;
        uint32_t tile = (uint32_t)divide(index, groups * together, fits_32);
        uint32_t rest = (uint32_t)(index - (uint64_t)tile * groups * together);
        uint32_t row = tile * together, high = min_of(together, m.rows - row), group = rest;
        if (high > 1) group = high == FP8_TOGETHER ? rest / FP8_TOGETHER : rest / high;
        row += rest - group * high;
        uint32_t column = group * FP8_GROUP + within, count = is_one ? m.count(column) : 0;
        Fp8Vector<T> values = source.read(m, row, column, count, aligned);
        uint32_t largest = wave_all_reduce(values.largest(), LANES, Larger());
        Fp8Scale scale(bit_cast<float>(largest), scales.powers);
        Fp8Words bytes = values.bytes(scale.inverse);
        source.each_row(row, [&](uint32_t to) INLINED {
            if (count > 0) fp8_store(m.to(to, column), bytes, count, aligned);
        });
        if (is_one && within == 0) scales.put(row, group, scale.scale);
    }
}

// Rows that are nobody's, where source[row] is negative, as casts of zeros. Warps of 32 lanes.
template <class T>
__device__ __forceinline__ void fp8_nobodys(const int32_t *source, const Fp8Matrix<T> &m, uint32_t rows) {
    uint32_t lane = threadIdx.x % 32;
    for (uint64_t row = global_thread() / 32; row < rows; row += global_threads() / 32) {
        if (source[row] >= 0) continue;
        for (uint32_t column = lane * FP8_V; column < m.columns; column += 32 * FP8_V)
            fp8_store(m.to((uint32_t)row, column), Fp8Words{}, m.count(column), m.aligned());
    }
}

// Tokens' factors to the rows that are theirs: row r is one of the `top` of token source[r] / top, or nobody's, and
// then the factor is that of zeros. A token has its factors together, and the result those of a block of k, so they
// are exchanged in LDS: a word by itself in a line costs as much as the line.
// Grid: x tiles of rows, y of words. Workgroup: 256.
static constexpr uint32_t SPREAD_ROWS = 64, SPREAD_WORDS = 32;
__device__ __forceinline__ void fp8_spread(const uint32_t *tokens, const int32_t *source, const Fp8Scales &to,
                                           uint32_t top, uint32_t rows, uint32_t groups) {
    __shared__ uint32_t tile[SPREAD_WORDS][SPREAD_ROWS + 1];
    uint32_t words = to.packed ? ceil_div(groups, 4u) : groups;
    uint32_t first = blockIdx.x * SPREAD_ROWS, word = blockIdx.y * SPREAD_WORDS + threadIdx.x % 32;
    uint32_t nobodys = bit_cast<uint32_t>(Fp8Scale(0, to.powers).scale);
    // Of a row's last word some bytes are nobody's factors, and 0.
    if (to.packed) nobodys = (nobodys >> 23) * 0x01010101u & ~0u >> (32 - 8 * min_of(groups - word * 4, 4u)) % 32;
#pragma unroll
    for (uint32_t i = threadIdx.x / 32; i < SPREAD_ROWS; i += 256 / 32)
        if (first + i < rows && word < words) {
            int32_t from = source[first + i];
            tile[threadIdx.x % 32][i] = from < 0 ? nobodys : tokens[(size_t)((uint32_t)from / top) * words + word];
        }
    __syncthreads();
    uint32_t row = first + threadIdx.x % SPREAD_ROWS;
#pragma unroll
    for (uint32_t i = threadIdx.x / SPREAD_ROWS; i < SPREAD_WORDS; i += 256 / SPREAD_ROWS) {
        uint32_t at = blockIdx.y * SPREAD_WORDS + i;
        if (row < rows && at < words)
            ((uint32_t *)to.values)[to.place(row) + at * to.k_step] = tile[i][threadIdx.x % SPREAD_ROWS];
    }
}

template <class T> using Fp8Held = Held<T, FP8_V>;
// Where there are none (`count` is 0), nothing is read.
struct Fp8AsItIs {
    // Whether what is cast is read in one place, and is in one: of more than one, those of several rows are too many.
    static constexpr bool FROM_ONE_PLACE = true;
    template <class T>
    __device__ __forceinline__ Fp8Vector<T> read(const Fp8Matrix<T> &m, uint32_t row, uint32_t column, uint32_t count,
                                                 bool aligned) const {
        Fp8Held<T> held;
        held.load(m.from(row, column), count, aligned);
        return held;
    }
    // Calls f with each row that the cast of a row is.
    template <class F> __device__ __forceinline__ void each_row(uint32_t row, F f) const { f(row); }
};

// A token's row, for each of its `top` experts: rows place[..], none where that is negative.
struct Fp8Scattered : Fp8AsItIs {
    static constexpr bool FROM_ONE_PLACE = false;
    const int32_t *place;
    uint32_t top;
    __device__ __forceinline__ Fp8Scattered(const int32_t *place, uint32_t top) : place(place), top(top) {}
    template <class F> __device__ __forceinline__ void each_row(uint32_t token, F f) const {
        for (uint32_t i = 0; i < top; i++) {
            int32_t row = place[token * top + i];
            if (row >= 0) f((uint32_t)row);
        }
    }
};

// silu(gate) * up, rounded to T as an operator of its own would; gates are a row's first half.
struct Fp8Gated : Fp8AsItIs {
    static constexpr bool FROM_ONE_PLACE = false;
    template <class T>
    __device__ __forceinline__ Fp8Vector<T> read(const Fp8Matrix<T> &m, uint32_t row, uint32_t column, uint32_t count,
                                                 bool aligned) const {
        Fp8Held<T> gates, ups;
        gates.load(m.from(row, column), count, aligned);
        ups.load(m.from(row, m.columns + column), count, aligned);
        Fp8Vector<T> gate = gates, up = ups;
#pragma unroll
        for (int i = 0; i < FP8_V; i++) gate.x[i] = upcast(round_to<T>(SiluFunction::of<T>(gate.x[i]) * up.x[i]));
        return gate;
    }
};

// Blocks of 128 x 128, one for each workgroup of 512. Grid: x blocks of columns, y blocks of rows.
template <class T> __device__ __forceinline__ void fp8_blocks(const Fp8Matrix<T> &m, const Fp8Scales &scales) {
    constexpr uint32_t THREADS = 512, LANES = FP8_GROUP / FP8_V, STEP = THREADS / LANES, ROWS = FP8_GROUP / STEP;
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
#pragma unroll
    for (uint32_t i = 0; i < ROWS; i++) largest = max_of(largest, Fp8Vector<T>(held[i]).largest());
    largest = block_all_reduce(largest, threadIdx.x, THREADS, Larger(), lds);
    Fp8Scale scale(bit_cast<float>(largest), scales.powers);
#pragma unroll
    for (uint32_t i = 0; i < ROWS; i++) {
        uint32_t row = first + i * STEP;
        if (row < m.rows && count > 0) Fp8Vector<T>(held[i]).write(m.to(row, column), scale.inverse, count, aligned);
    }
    if (threadIdx.x == 0) scales.put(blockIdx.y, blockIdx.x, scale.scale);
}

// A factor for each row. Workgroups of 256, any number in x: rows of up to 8,192 elements are read once, where they are
// vectors.
template <class T> __device__ __forceinline__ void fp8_rows(const Fp8Matrix<T> &m, const Fp8Scales &scales) {
    constexpr uint32_t THREADS = 256, HELD = 2, STEP = THREADS * FP8_V;
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
            for (uint32_t i = 0; i < HELD; i++) largest = max_of(largest, Fp8Vector<T>(held[i]).largest());
            for (uint32_t column = first + HELD * STEP; column < m.columns; column += STEP) {
                Fp8Held<T> more;
                more.load(from + column);
                largest = max_of(largest, Fp8Vector<T>(more).largest());
            }
        } else {
            for (uint32_t column = threadIdx.x; column < m.columns; column += THREADS)
                largest = max_of(largest, magnitude(upcast(from[column])));
        }
        largest = block_all_reduce(largest, threadIdx.x, THREADS, Larger(), lds);
        Fp8Scale scale(bit_cast<float>(largest), scales.powers);
        if (aligned) {
#pragma unroll
            for (uint32_t i = 0; i < HELD; i++)
                if (first + i * STEP < m.columns)
                    *(Fp8Words *)(to + first + i * STEP) = Fp8Vector<T>(held[i]).bytes(scale.inverse);
            for (uint32_t column = first + HELD * STEP; column < m.columns; column += STEP) {
                Fp8Held<T> more;
                more.load(from + column);
                *(Fp8Words *)(to + column) = Fp8Vector<T>(more).bytes(scale.inverse);
            }
        } else {
            for (uint32_t column = threadIdx.x; column < m.columns; column += THREADS) {
                Fp8Vector<T> values = {};
                values.x[0] = upcast(from[column]);
                to[column] = (uint8_t)values.bytes(scale.inverse)[0];
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
    for_vectors<FP8_V>(m.rows, m.columns, [&](uint32_t row, uint32_t column, uint32_t count) INLINED {
        most = max_of(most, Fp8AsItIs().read(m, row, column, count, aligned).largest());
    });
    most = block_all_reduce(most, threadIdx.x, 256u, Larger(), lds);
    if (threadIdx.x == 0) device_atomic::largest(largest, most);
}

// All by one factor, of what `largest` has the bits of.
template <class T>
__device__ __forceinline__ void fp8_all(const Fp8Matrix<T> &m, const Fp8Scales &scales, uint32_t largest) {
    bool aligned = m.aligned();
    Fp8Scale scale(bit_cast<float>(largest), scales.powers);
    for_vectors<FP8_V>(m.rows, m.columns, [&](uint32_t row, uint32_t column, uint32_t count) INLINED {
        Fp8AsItIs().read(m, row, column, count, aligned).write(m.to(row, column), scale.inverse, count, aligned);
    });
    if (global_thread() == 0) scales.put(0, 0, scale.scale);
}

// -0 becomes 0, and what is NaN becomes 0 and makes the factor NaN that it shares with others: that of row >> shift,
// and of k / 128 where those differ.
__device__ __forceinline__ void fp8_prepare(const Fp8Matrix<uint8_t> &m, const Fp8Scales &scales, uint32_t shift) {
    bool aligned = is_aligned(m.x, FP8_V) && is_aligned(m.y, FP8_V) && m.columns % FP8_V == 0 && m.ld % FP8_V == 0;
    for_vectors<FP8_V>(m.rows, m.columns, [&](uint32_t row, uint32_t column, uint32_t count) INLINED {
        const uint8_t *from = m.from(row, column);
        uint8_t *to = m.to(row, column);
        Fp8Words bytes = {};
        if (aligned) {
            bytes = *(const Fp8Words *)from;
        } else {
#pragma unroll
            for (int i = 0; i < FP8_V; i++)
                if (i < (int)count) bytes[i / 4] |= (uint32_t)from[i] << i % 4 * 8;
        }
        uint32_t any = 0;
#pragma unroll
        for (int i = 0; i < FP8_WORDS; i++) {
            uint32_t magnitudes = bytes[i] & 0x7f7f7f7fu, nans = (magnitudes + 0x01010101u) & 0x80808080u;
            // All bits of a byte that is NaN, but the sign's, which without_negative_zeros takes away.
            bytes[i] = without_negative_zeros(bytes[i] & ~(nans - (nans >> 7)));
            any |= nans;
        }
        fp8_store(to, bytes, count, aligned);
        if (any) scales.put(row >> shift, column / FP8_GROUP, NAN);
    });
}
