// Quantised matrices, and the matrices that mmq_blocks.cuh describes, as bf16: where there are many vectors, products of
// matrix units on 16 bits outweigh that, for they have no scales within k.
#define READ_SIXTEENS
#include "quantized/formats.cuh"
#include "quantized/mmq_blocks.cuh"

// 16 elements, scale * (q - offset) + min, at a multiple of 16 bytes.
template <int OFFSET>
__device__ __forceinline__ void widen_sixteen(const uint32_t (&q)[4], float scale, float min, bf16_t *to) {
#pragma unroll
    for (int eight = 0; eight < 2; eight++) {
        vec<bf16_t, 8> out;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int32_t integer = (int8_t)(q[2 * eight + i / 4] >> (8 * (i % 4)));
            out[i] = narrow<bf16_t>(math::fma(scale, (float)(integer - OFFSET), min));
        }
        store_vec(to + 8 * eight, out);
    }
}

// dst (rows, columns) = the matrix, whose rows are row_bytes apart. A thread makes a piece. Any grid.
template <class Q>
__device__ __forceinline__ void widen(const uint8_t *__restrict__ src, bf16_t *__restrict__ dst, uint32_t columns,
                                      uint32_t rows, size_t row_bytes) {
    uint32_t pieces = columns / 32, count = rows * pieces, step = gridDim.x * blockDim.x;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        uint32_t row = i / pieces, p = i - row * pieces;
        Piece piece = Q::piece(load_piece<Q>(src + row * row_bytes, p), p % (Q::ELEMENTS / 32));
        bf16_t *to = dst + (size_t)row * columns + p / 8 * 256;
#pragma unroll
        for (int s = 0; s < 2; s++)
            widen_sixteen<Q::OFFSET>(piece.q[s], piece.scale[s], Q::HAS_MIN ? piece.min[s] : 0.0f,
                                     to + 16 * Q::unit(p % 8, s));
    }
}
#define WIDEN(NAME, Q)                                                                                   \
    ENTRY __launch_bounds__(256) widen_##NAME(const uint8_t *__restrict__ src, bf16_t *__restrict__ dst, \
                                              uint32_t columns, uint32_t rows, size_t row_bytes) {       \
        widen<Q>(src, dst, columns, rows, row_bytes);                                                    \
    }
WIDEN(q4_0, Q4_0)
WIDEN(q4_1, Q4_1)
WIDEN(q5_0, Q5_0)
WIDEN(q5_1, Q5_1)
WIDEN(q8_0, Q8_0)
WIDEN(q2_k, Q2_K)
WIDEN(q3_k, Q3_K)
WIDEN(q4_k, Q4_K)
WIDEN(q5_k, Q5_K)
WIDEN(q6_k, Q6_K)

// dst (vectors, columns) = the blocks' elements; `columns` is a multiple of 32. Any grid.
template <Scales LAYOUT>
__device__ __forceinline__ void widen_blocks(const uint8_t *__restrict__ src, bf16_t *__restrict__ dst,
                                             uint32_t columns, uint32_t vectors) {
    constexpr uint32_t SIXTEENS_OF_BLOCK = BLOCK_ELEMENTS / 16;
    size_t count = (size_t)ceil_div(columns, BLOCK_ELEMENTS) * vectors * SIXTEENS_OF_BLOCK;
    for (size_t i = global_thread(); i < count; i += global_threads()) {
        size_t at = i / SIXTEENS_OF_BLOCK;
        uint32_t sixteen = (uint32_t)(i % SIXTEENS_OF_BLOCK), chunk = (uint32_t)(at / vectors);
        uint32_t vector = (uint32_t)(at - (size_t)chunk * vectors), first = chunk * BLOCK_ELEMENTS + 16 * sixteen;
        if (first >= columns) continue;
        const uint8_t *block = src + at * BLOCK_BYTES;
        auto words = load_vec<vec<uint32_t, 4>>(block + SCALES_BYTES + 16 * sixteen);
        uint32_t q[4] = {words[0], words[1], words[2], words[3]};
        widen_sixteen<0>(q, scale_of<LAYOUT>(block, sixteen / 2), 0.0f, dst + (size_t)vector * columns + first);
    }
}
#define WIDEN_BLOCKS(LAYOUT)                                                                                      \
    ENTRY __launch_bounds__(256) widen_blocks_##LAYOUT(const uint8_t *__restrict__ src, bf16_t *__restrict__ dst, \
                                                       uint32_t columns, uint32_t vectors) {                      \
        widen_blocks<LAYOUT>(src, dst, columns, vectors);                                                         \
    }
WIDEN_BLOCKS(D4)
WIDEN_BLOCKS(DS4)
WIDEN_BLOCKS(D2S6)
