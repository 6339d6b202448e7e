// Products of small matrices spread over a warp, in the layouts that PTX's mma and ldmatrix give their registers. Every
// element is moved by shuffles, so that any GPU and any element type does it: right before fast.
#pragma once
#include "candle_rocm/intrinsics.h"

namespace candle_rocm {
namespace matrix {

// Kinds of elements: how many a register of 32 bits has, and the sum of a product of two such registers with `c`.
struct F16 {
    typedef float Sum;
    static constexpr int EACH = 2;
    static __device__ __forceinline__ float dot(uint32_t a, uint32_t b, float c) {
        typedef _Float16 Pair __attribute__((ext_vector_type(2)));
        Pair x = bits<Pair>(a), y = bits<Pair>(b);
        return __builtin_fmaf((float)x[1], (float)y[1], __builtin_fmaf((float)x[0], (float)y[0], c));
    }
};
struct Bf16 {
    typedef float Sum;
    static constexpr int EACH = 2;
    static __device__ __forceinline__ float dot(uint32_t a, uint32_t b, float c) {
        c = __builtin_fmaf(bits<float>(a << 16), bits<float>(b << 16), c);
        return __builtin_fmaf(bits<float>(a & 0xffff0000u), bits<float>(b & 0xffff0000u), c);
    }
};
// f32 of which 10 bits of mantissa are read.
struct Tf32 {
    typedef float Sum;
    static constexpr int EACH = 1;
    static __device__ __forceinline__ float dot(uint32_t a, uint32_t b, float c) {
        return __builtin_fmaf(bits<float>(a & 0xffffe000u), bits<float>(b & 0xffffe000u), c);
    }
};
template <class A, class B> struct Bytes {
    typedef int Sum;
    static constexpr int EACH = 4;
    static __device__ __forceinline__ int dot(uint32_t a, uint32_t b, int c) { return dot4<A, B>(a, b, c); }
};
template <> struct Bytes<int8_t, int8_t> {
    typedef int Sum;
    static constexpr int EACH = 4;
    static __device__ __forceinline__ int dot(uint32_t a, uint32_t b, int c) { return dot4_signed((int)a, (int)b, c); }
};

// Registers, as a function takes and returns them.
template <class T, int COUNT> struct Registers {
    T word[COUNT];
};

// c + a * b, of 8 * ROWS rows, 8 columns and 4 * DEPTH registers' elements between. Lane 4 g + t has of A, for each
// depth d, registers of rows g and (with two ROWS) g + 8; of B that of column g; of C columns 2 t and 2 t + 1 of those
// rows.
// A function that is called: kernels have hundreds of them, and would take minutes to compile.
template <class Kind, int ROWS, int DEPTH, class Sums = Registers<typename Kind::Sum, 2 * ROWS>>
__device__ __noinline__ Sums product(Sums c, Registers<uint32_t, ROWS * DEPTH> a, Registers<uint32_t, DEPTH> b) {
    uint32_t own = lane(), group = own & ~3u, columns = (own & 3u) * 8;
#pragma unroll
    for (int d = 0; d < DEPTH; d++) {
#pragma unroll
        for (uint32_t t = 0; t < 4; t++) {
            uint32_t left = read_lane(b.word[d], columns + t), right = read_lane(b.word[d], columns + 4 + t);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                uint32_t word = read_lane(a.word[ROWS * d + r], group + t);
                c.word[2 * r] = Kind::dot(word, left, c.word[2 * r]);
                c.word[2 * r + 1] = Kind::dot(word, right, c.word[2 * r + 1]);
            }
        }
    }
    return c;
}
template <class Kind, int ROWS, int DEPTH>
__device__ __forceinline__ void multiply(typename Kind::Sum (&c)[2 * ROWS], const uint32_t (&a)[ROWS * DEPTH],
                                         const uint32_t (&b)[DEPTH]) {
    Registers<typename Kind::Sum, 2 * ROWS> sums;
    Registers<uint32_t, ROWS * DEPTH> left;
    Registers<uint32_t, DEPTH> right;
    for (int i = 0; i < 2 * ROWS; i++) sums.word[i] = c[i];
    for (int i = 0; i < ROWS * DEPTH; i++) left.word[i] = a[i];
    for (int i = 0; i < DEPTH; i++) right.word[i] = b[i];
    sums = product<Kind, ROWS, DEPTH>(sums, left, right);
    for (int i = 0; i < 2 * ROWS; i++) c[i] = sums.word[i];
}

// The same with sums in pairs of f16.
template <class Kind, int ROWS, int DEPTH>
__device__ __forceinline__ void multiply_f16(uint32_t (&c)[ROWS], const uint32_t (&a)[ROWS * DEPTH],
                                             const uint32_t (&b)[DEPTH]) {
    typedef _Float16 Pair __attribute__((ext_vector_type(2)));
    float sums[2 * ROWS];
    for (int i = 0; i < ROWS; i++) {
        Pair pair = bits<Pair>(c[i]);
        sums[2 * i] = (float)pair[0], sums[2 * i + 1] = (float)pair[1];
    }
    multiply<Kind, ROWS, DEPTH>(sums, a, b);
    for (int i = 0; i < ROWS; i++) c[i] = bits<uint32_t>(Pair{(_Float16)sums[2 * i], (_Float16)sums[2 * i + 1]});
}

// COUNT matrices of 8 x 8 elements of 16 bits out of shared memory: lane i says where row i % 8 of matrix i / 8 begins.
// Lane 4 g + t gets elements 2 t and 2 t + 1 of row g; turned over, of column g.
template <int COUNT, bool TURNED>
__device__ __forceinline__ void load(uint32_t (&d)[COUNT], uint32_t row_address) {
    uint32_t own = lane(), g = own / 4, t = own % 4;
#pragma unroll
    for (uint32_t m = 0; m < COUNT; m++) {
        if constexpr (TURNED) {
            uint32_t low = *lds_pointer<const uint16_t>(read_lane(row_address, 8 * m + 2 * t) + 2 * g);
            uint32_t high = *lds_pointer<const uint16_t>(read_lane(row_address, 8 * m + 2 * t + 1) + 2 * g);
            d[m] = low | high << 16;
        } else {
            d[m] = *lds_pointer<const uint32_t>(read_lane(row_address, 8 * m + g) + 4 * t);
        }
    }
}

// One matrix of 8 x 8 elements of 16 bits in such registers, turned over.
__device__ __forceinline__ uint32_t turn(uint32_t word) {
    uint32_t own = lane(), g = own / 4, t = own % 4;
    // Element (2 t, g): row 2 t is held by lanes 8 t to 8 t + 3, two columns each.
    uint32_t low = read_lane(word, 8 * t + g / 2), high = read_lane(word, 8 * t + 4 + g / 2);
    return g % 2 == 0 ? (low & 0xffff) | high << 16 : low >> 16 | (high & 0xffff0000u);
}

} // namespace matrix
} // namespace candle_rocm
