// GGUF's quantised block formats, read four elements at a time.
//
// A tensor's row is a sequence of blocks of ELEMENTS values in BYTES bytes. All formats come down to
// value = scale * q + min with an 8-bit integer q, where scale and min hold for SCALED elements, and min is
// zero unless HAS_MIN.
// `quad(block, k)` gives elements 4k to 4k + 3: no quad has two scales. Layouts are those of Candle's
// `k_quants.rs`; blocks lie at even addresses, some at no more than that.
#pragma once
#include "convert.cuh"

struct Quad {
    uint32_t q; // four signed bytes, the first element lowest
    float scale, min;
};

__device__ __forceinline__ uint32_t load_u16(const uint8_t *at) { return *(const uint16_t *)at; }
// Four bytes at an even address.
__device__ __forceinline__ uint32_t load_u32(const uint8_t *at) { return load_u16(at) | load_u16(at + 2) << 16; }
__device__ __forceinline__ float load_half(const uint8_t *at) { return (float)*(const half_t *)at; }

// Subtracts `amount` (at most 128) from each byte (at most 127), into signed bytes.
__device__ __forceinline__ uint32_t subtract_bytes(uint32_t bytes, uint32_t amount) {
    return ((bytes | 0x80808080u) - amount * 0x01010101u) ^ 0x80808080u;
}
// Bits 3:0 to bit `to` of one byte each.
__device__ __forceinline__ uint32_t spread_bits(uint32_t bits, uint32_t to) {
    return ((bits & 1u) | (bits & 2u) << 7 | (bits & 4u) << 14 | (bits & 8u) << 21) << to;
}

// 32 elements: low nibbles are the first 16, high nibbles the others.
__device__ __forceinline__ uint32_t nibbles_32(const uint8_t *qs, uint32_t k) {
    return load_u32(qs + 4 * (k & 3u)) >> (k < 4 ? 0 : 4) & 0x0f0f0f0fu;
}

struct Q4_0 {
    static constexpr int ELEMENTS = 32, BYTES = 18, SCALED = 32;
    static constexpr bool SUM_FROM_BLOCK = true, HAS_MIN = false;
    static __device__ __forceinline__ Quad quad(const uint8_t *block, uint32_t k) {
        return {subtract_bytes(nibbles_32(block + 2, k), 8), load_half(block), 0.0f};
    }
};

struct Q4_1 {
    static constexpr int ELEMENTS = 32, BYTES = 20, SCALED = 32;
    static constexpr bool SUM_FROM_BLOCK = false, HAS_MIN = true;
    static __device__ __forceinline__ Quad quad(const uint8_t *block, uint32_t k) {
        return {nibbles_32(block + 4, k), load_half(block), load_half(block + 2)};
    }
};

struct Q5_0 {
    static constexpr int ELEMENTS = 32, BYTES = 22, SCALED = 32;
    static constexpr bool SUM_FROM_BLOCK = false, HAS_MIN = false;
    static __device__ __forceinline__ Quad quad(const uint8_t *block, uint32_t k) {
        uint32_t q = nibbles_32(block + 6, k) | spread_bits(load_u32(block + 2) >> (4 * k) & 15u, 4);
        return {subtract_bytes(q, 16), load_half(block), 0.0f};
    }
};

struct Q5_1 {
    static constexpr int ELEMENTS = 32, BYTES = 24, SCALED = 32;
    static constexpr bool SUM_FROM_BLOCK = false, HAS_MIN = true;
    static __device__ __forceinline__ Quad quad(const uint8_t *block, uint32_t k) {
        uint32_t q = nibbles_32(block + 8, k) | spread_bits(load_u32(block + 4) >> (4 * k) & 15u, 4);
        return {q, load_half(block), load_half(block + 2)};
    }
};

struct Q8_0 {
    static constexpr int ELEMENTS = 32, BYTES = 34, SCALED = 32;
    static constexpr bool SUM_FROM_BLOCK = false, HAS_MIN = false;
    static __device__ __forceinline__ Quad quad(const uint8_t *block, uint32_t k) {
        return {load_u32(block + 2 + 4 * k), load_half(block), 0.0f};
    }
};

// In the formats of 256 elements, e = 128 n + 32 j + l; the quad's first element has l = 4 (k mod 8).

// scales[16], qs[64], d, dmin: two bits an element, scale and min in four bits for 16.
struct Q2_K {
    static constexpr int ELEMENTS = 256, BYTES = 84, SCALED = 16;
    static constexpr bool SUM_FROM_BLOCK = false, HAS_MIN = true;
    static __device__ __forceinline__ Quad quad(const uint8_t *block, uint32_t k) {
        uint32_t n = k >> 5, j = k >> 3 & 3u, l = 4 * (k & 7u);
        uint32_t scales = block[k >> 2];
        return {load_u32(block + 16 + 32 * n + l) >> (2 * j) & 0x03030303u,
                load_half(block + 80) * (float)(scales & 15u), -(load_half(block + 82) * (float)(scales >> 4))};
    }
};

// hmask[32], qs[64], scales[12], d: three bits an element, a six-bit scale for 16.
struct Q3_K {
    static constexpr int ELEMENTS = 256, BYTES = 110, SCALED = 16;
    static constexpr bool SUM_FROM_BLOCK = false, HAS_MIN = false;
    static __device__ __forceinline__ Quad quad(const uint8_t *block, uint32_t k) {
        uint32_t n = k >> 5, j = k >> 3 & 3u, l = 4 * (k & 7u), s = k >> 2;
        uint32_t low = load_u32(block + 32 + 32 * n + l) >> (2 * j) & 0x03030303u;
        uint32_t high = load_u32(block + l) >> (4 * n + j) & 0x01010101u;
        const uint8_t *scales = block + 96;
        uint32_t scale = (scales[s & 7u] >> (s < 8 ? 0 : 4) & 15u) | (scales[8 + (s & 3u)] >> (2 * (s >> 2)) & 3u) << 4;
        return {subtract_bytes(low | high << 2, 4), load_half(block + 108) * ((float)scale - 32.0f), 0.0f};
    }
};

// Six-bit scale and min of each 32 elements in 12 bytes, as Q4_K and Q5_K have them.
__device__ __forceinline__ void scale_and_min(const uint8_t *scales, uint32_t s, uint32_t &scale, uint32_t &min) {
    uint32_t a = scales[s & 3u], b = scales[(s & 3u) + 4], c = scales[(s & 3u) + 8];
    scale = s < 4 ? a & 63u : (c & 15u) | (a >> 6) << 4;
    min = s < 4 ? b & 63u : c >> 4 | (b >> 6) << 4;
}

// d, dmin, scales[12], qs[128].
struct Q4_K {
    static constexpr int ELEMENTS = 256, BYTES = 144, SCALED = 32;
    static constexpr bool SUM_FROM_BLOCK = false, HAS_MIN = true;
    static __device__ __forceinline__ Quad quad(const uint8_t *block, uint32_t k) {
        uint32_t s = k >> 3, scale, min;
        scale_and_min(block + 4, s, scale, min);
        return {load_u32(block + 16 + 32 * (s >> 1) + 4 * (k & 7u)) >> (4 * (s & 1u)) & 0x0f0f0f0fu,
                load_half(block) * (float)scale, -(load_half(block + 2) * (float)min)};
    }
};

// d, dmin, scales[12], qh[32], qs[128].
struct Q5_K {
    static constexpr int ELEMENTS = 256, BYTES = 176, SCALED = 32;
    static constexpr bool SUM_FROM_BLOCK = false, HAS_MIN = true;
    static __device__ __forceinline__ Quad quad(const uint8_t *block, uint32_t k) {
        uint32_t s = k >> 3, l = 4 * (k & 7u), scale, min;
        scale_and_min(block + 4, s, scale, min);
        uint32_t low = load_u32(block + 48 + 32 * (s >> 1) + l) >> (4 * (s & 1u)) & 0x0f0f0f0fu;
        uint32_t high = load_u32(block + 16 + l) >> s & 0x01010101u;
        return {low | high << 4, load_half(block) * (float)scale, -(load_half(block + 2) * (float)min)};
    }
};

// ql[128], qh[64], scales[16] (signed), d: six bits an element, a scale for 16.
struct Q6_K {
    static constexpr int ELEMENTS = 256, BYTES = 210, SCALED = 16;
    static constexpr bool SUM_FROM_BLOCK = false, HAS_MIN = false;
    static __device__ __forceinline__ Quad quad(const uint8_t *block, uint32_t k) {
        uint32_t n = k >> 5, j = k >> 3 & 3u, l = 4 * (k & 7u);
        uint32_t low = load_u32(block + 64 * n + 32 * (j & 1u) + l) >> (4 * (j >> 1)) & 0x0f0f0f0fu;
        uint32_t high = load_u32(block + 128 + 32 * n + l) >> (2 * j) & 0x03030303u;
        return {subtract_bytes(low | high << 4, 32), load_half(block + 208) * (float)(int8_t)block[192 + (k >> 2)], 0.0f};
    }
};

// d (f32), qs[256], sums[16].
struct Q8_K {
    static constexpr int ELEMENTS = 256, BYTES = 292, SCALED = 32;
    static constexpr bool SUM_FROM_BLOCK = false, HAS_MIN = false;
    static __device__ __forceinline__ Quad quad(const uint8_t *block, uint32_t k) {
        return {load_u32(block + 4 + 4 * k), bit_cast<float>(load_u32(block)), 0.0f};
    }
};

// d, s, qs[32]: the activations that weights are multiplied with; s is their sum before rounding. Our
// products add up qs themselves, but for those that must give CUDA's bits.
struct Q8_1 {
    static constexpr int ELEMENTS = 32, BYTES = 36;
};

// The four values of a quad.
__device__ __forceinline__ void dequantize(Quad quad, float (&values)[4]) {
#pragma unroll
    for (int i = 0; i < 4; i++) values[i] = (float)(int8_t)(quad.q >> (8 * i)) * quad.scale + quad.min;
}

// Quad number k of a row, counted over all its blocks.
template <class Q> __device__ __forceinline__ Quad row_quad(const uint8_t *row, size_t k) {
    constexpr uint32_t QUADS = Q::ELEMENTS / 4;
    return Q::quad(row + k / QUADS * Q::BYTES, (uint32_t)(k % QUADS));
}

// d times the products with unsigned nibbles, less `weight` (8, or 4 for half a block) times the block's
// sum s: what Candle's Q4_0 kernels for CUDA compute. `products` is of the nibbles less 8, `plain` the sum
// of the activations' integers, which stands in where s is beyond f16.
__device__ __forceinline__ float product_less_eight(int32_t products, int32_t plain, float d, float s, float weight) {
    if (!(math::abs(s) <= 65504.0f)) return d * (float)products;
    return math::fma((float)(products + 8 * plain), d, -weight * s);
}

// Adds to sums[c] the product of 32 weights (quads 8 * chunk on) with column c's activations, for the first
// `columns` of them.
template <class Q, int COLUMNS>
__device__ __forceinline__ void multiply_chunk(const uint8_t *__restrict__ row, size_t chunk, const uint8_t *__restrict__ y, size_t column_bytes, uint32_t columns, float (&sums)[COLUMNS]) {
    constexpr int PARTS = 32 / Q::SCALED, QUADS = 8 / PARTS;
    Quad quads[8];
#pragma unroll
    for (int i = 0; i < 8; i++) quads[i] = row_quad<Q>(row, 8 * chunk + i);
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        if ((uint32_t)c >= columns) break;
        const uint8_t *block = y + c * column_bytes + chunk * Q8_1::BYTES;
        const uint32_t *qs = (const uint32_t *)(block + 4);
        float sum = 0, d = load_half(block);
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            int32_t products = 0, plain = 0;
#pragma unroll
            for (int i = QUADS * part; i < QUADS * (part + 1); i++) {
                products = dot4(quads[i].q, qs[i], products);
                if constexpr (Q::HAS_MIN || Q::SUM_FROM_BLOCK) plain = dot4(0x01010101u, qs[i], plain);
            }
            if constexpr (Q::SUM_FROM_BLOCK) {
                sums[c] = math::fma(quads[0].scale, product_less_eight(products, plain, d, load_half(block + 2), 8.0f), sums[c]);
                continue;
            }
            sum = math::fma(quads[QUADS * part].scale, (float)products, sum);
            if constexpr (Q::HAS_MIN) sum = math::fma(quads[QUADS * part].min, (float)plain, sum);
        }
        if constexpr (!Q::SUM_FROM_BLOCK) sums[c] = math::fma(d, sum, sums[c]);
    }
}
