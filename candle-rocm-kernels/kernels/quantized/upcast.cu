// Quantised matrices, and the matrices that mmq_blocks.cuh describes, as bf16: where there are many vectors, products
// of matrix units on 16 bits outweigh that, for they have no scales within k.
#define READ_SIXTEENS
#include "quantized/formats.cuh"
#include "quantized/mmq_blocks.cuh"

namespace quantized {

// Eight elements, scale * (q - OFFSET) + min, of two words of signed bytes.
typedef vec<uint32_t, 4> Eight;
template <int OFFSET>
__device__ __forceinline__ Eight upcast_eight(const uint32_t (&q)[4], int first, float scale, float min) {
    vec<bf16_t, 8> out;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int32_t integer = (int8_t)(q[first + i / 4] >> (8 * (i % 4)));
        out[i] = round_to<bf16_t>(math::fma(scale, (float)(integer - OFFSET), min));
    }
    return bit_cast<Eight>(out);
}

// Where half s of piece i of the matrix begins in dst.
template <class Q> __device__ __forceinline__ size_t half_of_piece(uint32_t i, uint32_t s, uint32_t pieces) {
    uint32_t row = i / pieces, p = i - row * pieces;
    return ((size_t)row * pieces + p / 8 * 8) * 32 + 16 * Q::sixteen(p % 8, s);
}

// dst (rows, columns) = the matrix, whose rows are row_bytes apart. A thread makes a piece, whose halves it stores with
// its neighbour: both of them first one's sixteen elements, then the other's, so that no sector is written in parts.
template <class Q>
__device__ __forceinline__ void upcast(const uint8_t *__restrict__ src, bf16_t *__restrict__ dst, uint32_t columns,
                                       uint32_t rows, size_t row_bytes) {
    uint32_t pieces = columns / 32, count = rows * pieces, step = gridDim.x * blockDim.x;
    bool odd = threadIdx.x & 1;
    // Neighbours go round together.
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; (i & ~1u) < count; i += step) {
        uint32_t at = min_of(i, count - 1), row = at / pieces, p = at - row * pieces;
        Piece piece = Q::piece(load_piece<Q>(src + row * row_bytes, p), p % (Q::ELEMENTS / 32));
#pragma unroll
        for (int s = 0; s < 2; s++) {
            float min = Q::HAS_MIN ? piece.min[s] : 0.0f;
            Eight eight[2];
#pragma unroll
            for (int e = 0; e < 2; e++) eight[e] = upcast_eight<Q::OFFSET>(piece.q[s], 2 * e, piece.scale[s], min);
            Eight of_even, of_odd;
#pragma unroll
            for (int k = 0; k < 4; k++) {
                uint32_t first = eight[0][k], last = eight[1][k], got = shfl_xor(odd ? first : last, 1, 2);
                of_even[k] = odd ? got : first;
                of_odd[k] = odd ? last : got;
            }
            store_vec(dst + half_of_piece<Q>(at & ~1u, s, pieces) + 8 * odd, of_even);
            if ((at | 1) < count) store_vec(dst + half_of_piece<Q>(at | 1, s, pieces) + 8 * odd, of_odd);
        }
    }
}
#define UPCAST(NAME, Q)                                                                                   \
    ENTRY __launch_bounds__(256) upcast_##NAME(const uint8_t *__restrict__ src, bf16_t *__restrict__ dst, \
                                               uint32_t columns, uint32_t rows, size_t row_bytes) {       \
        upcast<Q>(src, dst, columns, rows, row_bytes);                                                    \
    }
UPCAST(q4_0, Q4_0)
UPCAST(q4_1, Q4_1)
UPCAST(q5_0, Q5_0)
UPCAST(q5_1, Q5_1)
UPCAST(q8_0, Q8_0)
UPCAST(q2_k, Q2_K)
UPCAST(q3_k, Q3_K)
UPCAST(q4_k, Q4_K)
UPCAST(q5_k, Q5_K)
UPCAST(q6_k, Q6_K)

// dst (vectors, columns) = the blocks' elements; `columns` is a multiple of 32. Any grid.
template <Scales LAYOUT>
__device__ __forceinline__ void upcast_blocks(const uint8_t *__restrict__ src, bf16_t *__restrict__ dst,
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
        float scale = scale_of<LAYOUT>(block, sixteen / 2);
        bf16_t *to = dst + (size_t)vector * columns + first;
#pragma unroll
        for (int e = 0; e < 2; e++) store_vec(to + 8 * e, upcast_eight<0>(q, 2 * e, scale, 0.0f));
    }
}
#define UPCAST_BLOCKS(LAYOUT)                                                                                      \
    ENTRY __launch_bounds__(256) upcast_blocks_##LAYOUT(const uint8_t *__restrict__ src, bf16_t *__restrict__ dst, \
                                                        uint32_t columns, uint32_t vectors) {                      \
        upcast_blocks<LAYOUT>(src, dst, columns, vectors);                                                         \
    }
UPCAST_BLOCKS(D4)
UPCAST_BLOCKS(DS4)
UPCAST_BLOCKS(D2S6)

} // namespace quantized
