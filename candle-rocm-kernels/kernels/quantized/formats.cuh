// GGUF's quantised block formats, read four elements at a time.
//
// A tensor's row is a sequence of blocks of ELEMENTS values in BYTES bytes. All formats come down to
// value = scale * q + min with an 8-bit integer q, where scale and min hold for SCALED elements, and min is
// zero unless HAS_MIN.
// `quad(block, k)` gives elements 4k to 4k + 3: no quad has two scales. Layouts are those of Candle's
// `k_quants.rs`; blocks lie at even addresses, some at no more than that.
#pragma once
#include "portable/convert.cuh"

namespace quantized {

struct Quad {
    uint32_t q; // four signed bytes, the first element lowest
    float scale, min;
};

__device__ __forceinline__ uint32_t load_u16(const uint8_t *at) { return *(const uint16_t *)at; }
__device__ __forceinline__ float load_half(const uint8_t *at) { return (float)*(const half_t *)at; }
__device__ __forceinline__ float half_of(uint32_t bits) { return (float)bit_cast<half_t>((uint16_t)bits); }

// WORDS words at a multiple of ALIGNMENT bytes, in the widest loads that allows. With READ_SIXTEENS words at even
// addresses, too, are read in aligned sixteens, which costs instructions and saves the first cache's time.
#if defined(READ_SIXTEENS)
constexpr bool SIXTEENS = true;
#else
constexpr bool SIXTEENS = false;
#endif
#if !defined(__HIP__)
// Words of a vector; with READ_SIXTEENS by one load in any case: of those that are chosen from, or used apart, the
// compiler would make several.
template <class Words> __device__ __forceinline__ Words read_words(const void *from) {
    if constexpr (SIXTEENS) return read_global<Words>(from);
    else return *(const Words *)from;
}
#endif
template <int ALIGNMENT, int WORDS> __device__ __forceinline__ void load_words(const uint8_t *at,
                                                                               uint32_t (&words)[WORDS]) {
#if defined(__HIP__)
    // AMD's vector loads take any address.
    struct __attribute__((packed, aligned(ALIGNMENT))) Packed {
        uint32_t words[WORDS];
    };
    Packed packed = *(const Packed *)at;
#pragma unroll
    for (int i = 0; i < WORDS; i++) words[i] = packed.words[i];
#else
    if constexpr (ALIGNMENT >= 4) {
        constexpr int N = ALIGNMENT >= 16 && WORDS % 4 == 0 ? 4 : ALIGNMENT >= 8 && WORDS % 2 == 0 ? 2 : 1;
        // The compiler takes a vector's load apart less readily than a structure's.
        typedef uint32_t Words __attribute__((ext_vector_type(N)));
#pragma unroll
        for (int i = 0; i < WORDS; i += N) {
            Words loaded = read_words<Words>(at + 4 * i);
#pragma unroll
            for (int j = 0; j < N; j++) words[i + j] = loaded[j];
        }
    } else if constexpr (SIXTEENS && WORDS >= 4) {
        // The sixteens that hold the bytes, moved into place.
        constexpr int COUNT = (4 * WORDS + 14 + 15) / 16;
        typedef uint32_t Words __attribute__((ext_vector_type(4)));
        uint32_t offset = (uint32_t)(uintptr_t)at % 16, last = (offset + 4 * WORDS - 1) / 16;
        const Words *from = (const Words *)(at - offset);
        uint32_t loaded[4 * COUNT];
#pragma unroll
        for (uint32_t i = 0; i < COUNT; i++) {
            // No sixteen that has none of the bytes.
            Words sixteen = read_words<Words>(from + min_of(i, last));
#pragma unroll
            for (int j = 0; j < 4; j++) loaded[4 * i + j] = sixteen[j];
        }
#pragma unroll
        for (int i = 0; i < WORDS + 2; i++) {
            uint32_t here = loaded[i], there = loaded[i + 2];
            loaded[i] = offset & 8 ? there : here;
        }
#pragma unroll
        for (int i = 0; i < WORDS + 1; i++) {
            uint32_t here = loaded[i], there = loaded[i + 1];
            loaded[i] = offset & 4 ? there : here;
        }
#pragma unroll
        for (int i = 0; i < WORDS; i++)
            words[i] = (uint32_t)(((uint64_t)loaded[i + 1] << 32 | loaded[i]) >> (offset % 4 * 8));
    } else if constexpr (WORDS == 1) {
        words[0] = load_u16(at) | load_u16(at + 2) << 16;
    } else {
        // The words that hold the bytes, shifted by none or two of them. The last two may end the tensor.
        uint32_t shift = (uint32_t)(uintptr_t)at % 4 * 8;
        const uint32_t *from = (const uint32_t *)(at - shift / 8);
        uint32_t loaded[WORDS + 1];
#pragma unroll
        for (int i = 0; i < WORDS; i++) loaded[i] = from[i];
        loaded[WORDS] = load_u16(at + 4 * WORDS - 2);
#pragma unroll
        for (int i = 0; i < WORDS; i++) words[i] = (uint32_t)(((uint64_t)loaded[i + 1] << 32 | loaded[i]) >> shift);
    }
#endif
}

// Four bytes.
template <int ALIGNMENT> __device__ __forceinline__ uint32_t load_u32(const uint8_t *at) {
    uint32_t word[1];
    load_words<ALIGNMENT>(at, word);
    return word[0];
}

// Subtracts `amount` (at most 128) from each byte (at most 127), into signed bytes.
__device__ __forceinline__ uint32_t subtract_bytes(uint32_t bytes, uint32_t amount) {
    return ((bytes | 0x80808080u) - amount * 0x01010101u) ^ 0x80808080u;
}
// Bits 3:0 to bit `to` of one byte each: no two of the sixteen products of bits meet.
__device__ __forceinline__ uint32_t spread_bits(uint32_t bits, uint32_t to) {
    return (bits * 0x00204081u & 0x01010101u) << to;
}

// 32 elements: low nibbles are the first 16, high nibbles the others.
template <int ALIGNMENT> __device__ __forceinline__ uint32_t nibbles_32(const uint8_t *qs, uint32_t k) {
    return load_u32<ALIGNMENT>(qs + 4 * (k & 3u)) >> (k < 4 ? 0 : 4) & 0x0f0f0f0fu;
}

// A piece: 32 elements of a block that lie in the same bytes, or close by, in two halves of 16. An element's value is
// scale * (q - OFFSET) + min, q a signed byte, with the half's scale and min (none unless HAS_MIN). Piece p of a block
// is read by `load_head`, for which pieces p + 2, p + 4, ... would read the same, and `load_body`, and decoded by
// `piece`. Its half s is the elements 16 * sixteen(p, s) on; in blocks of 32, p counts the blocks of 256 elements.
struct Piece {
    uint32_t q[2][4];
    float scale[2], min[2];
    __device__ __forceinline__ void set(float d, float m = 0.0f) {
        scale[0] = scale[1] = d;
        min[0] = min[1] = m;
    }
};
// Low nibbles to the first half, high ones to the second.
__device__ __forceinline__ void low_and_high(const uint32_t *qs, Piece &piece) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        piece.q[0][i] = qs[i] & 0x0f0f0f0fu;
        piece.q[1][i] = qs[i] >> 4 & 0x0f0f0f0fu;
    }
}
// Element e's fifth bit is bit e.
__device__ __forceinline__ void fifth_bits(uint32_t bits, Piece &piece) {
#pragma unroll
    for (int i = 0; i < 8; i++) piece.q[i / 4][i % 4] |= spread_bits(bits >> (4 * i) & 15u, 4);
}
// Scales and mins of elements 64 j on and 64 j + 32 on, from the first 16 bytes of Q4_K and Q5_K.
__device__ __forceinline__ void scales_and_mins(const uint32_t (&header)[4], uint32_t j, Piece &piece) {
    uint32_t shift = 16 * (j & 1u), a = header[1] >> shift, b = header[2] >> shift, c = header[3] >> shift;
    uint32_t scales = j < 2 ? a & 0x3f3fu : (c & 0x0f0fu) | (a & 0xc0c0u) >> 2;
    uint32_t mins = j < 2 ? b & 0x3f3fu : (c >> 4 & 0x0f0fu) | (b & 0xc0c0u) >> 2;
    float d = half_of(header[0]), dmin = half_of(header[0] >> 16);
#pragma unroll
    for (int s = 0; s < 2; s++) {
        piece.scale[s] = d * (float)(scales >> (8 * s) & 255u);
        piece.min[s] = -(dmin * (float)(mins >> (8 * s) & 255u));
    }
}

// A block of 32 is one piece of two halves, and has nothing to read but its body.
struct BlockOf32 {
    template <class Raw> static __device__ __forceinline__ void load_head(const uint8_t *, uint32_t, Raw &) {}
    static constexpr __device__ __forceinline__ uint32_t sixteen(uint32_t p, uint32_t s) { return 2 * p + s; }
};

struct Q4_0 : BlockOf32 {
    static constexpr int ELEMENTS = 32, BYTES = 18, SCALED = 32;
    static constexpr bool HAS_MIN = false;
    static __device__ __forceinline__ Quad quad(const uint8_t *block, uint32_t k) {
        return {subtract_bytes(nibbles_32<2>(block + 2, k), 8), load_half(block), 0.0f};
    }
    static constexpr int OFFSET = 8;
    struct Raw {
        uint32_t qs[4], d;
    };
    static __device__ __forceinline__ void load_body(const uint8_t *block, uint32_t p, Raw &raw) {
        load_words<2>(block + 2, raw.qs);
        raw.d = load_u16(block);
    }
    static __device__ __forceinline__ Piece piece(const Raw &raw, uint32_t) {
        Piece piece;
        low_and_high(raw.qs, piece);
        piece.set(half_of(raw.d));
        return piece;
    }
};

struct Q4_1 : BlockOf32 {
    static constexpr int ELEMENTS = 32, BYTES = 20, SCALED = 32;
    static constexpr bool HAS_MIN = true;
    static __device__ __forceinline__ Quad quad(const uint8_t *block, uint32_t k) {
        return {nibbles_32<4>(block + 4, k), load_half(block), load_half(block + 2)};
    }
    static constexpr int OFFSET = 0;
    struct Raw {
        uint32_t words[5];
    };
    static __device__ __forceinline__ void load_body(const uint8_t *block, uint32_t p, Raw &raw) {
        load_words<4>(block, raw.words);
    }
    static __device__ __forceinline__ Piece piece(const Raw &raw, uint32_t) {
        Piece piece;
        low_and_high(raw.words + 1, piece);
        piece.set(half_of(raw.words[0]), half_of(raw.words[0] >> 16));
        return piece;
    }
};

struct Q5_0 : BlockOf32 {
    static constexpr int ELEMENTS = 32, BYTES = 22, SCALED = 32;
    static constexpr bool HAS_MIN = false;
    static __device__ __forceinline__ Quad quad(const uint8_t *block, uint32_t k) {
        uint32_t q = nibbles_32<2>(block + 6, k) | spread_bits(load_u32<2>(block + 2) >> (4 * k) & 15u, 4);
        return {subtract_bytes(q, 16), load_half(block), 0.0f};
    }
    static constexpr int OFFSET = 16;
    struct Raw {
        uint32_t words[5], d;
    };
    static __device__ __forceinline__ void load_body(const uint8_t *block, uint32_t p, Raw &raw) {
        load_words<2>(block + 2, raw.words);
        raw.d = load_u16(block);
    }
    static __device__ __forceinline__ Piece piece(const Raw &raw, uint32_t) {
        Piece piece;
        low_and_high(raw.words + 1, piece);
        fifth_bits(raw.words[0], piece);
        piece.set(half_of(raw.d));
        return piece;
    }
};

struct Q5_1 : BlockOf32 {
    static constexpr int ELEMENTS = 32, BYTES = 24, SCALED = 32;
    static constexpr bool HAS_MIN = true;
    static __device__ __forceinline__ Quad quad(const uint8_t *block, uint32_t k) {
        uint32_t q = nibbles_32<4>(block + 8, k) | spread_bits(load_u32<4>(block + 4) >> (4 * k) & 15u, 4);
        return {q, load_half(block), load_half(block + 2)};
    }
    static constexpr int OFFSET = 0;
    struct Raw {
        uint32_t words[6];
    };
    static __device__ __forceinline__ void load_body(const uint8_t *block, uint32_t p, Raw &raw) {
        load_words<8>(block, raw.words);
    }
    static __device__ __forceinline__ Piece piece(const Raw &raw, uint32_t) {
        Piece piece;
        low_and_high(raw.words + 2, piece);
        fifth_bits(raw.words[1], piece);
        piece.set(half_of(raw.words[0]), half_of(raw.words[0] >> 16));
        return piece;
    }
};

struct Q8_0 : BlockOf32 {
    static constexpr int ELEMENTS = 32, BYTES = 34, SCALED = 32;
    static constexpr bool HAS_MIN = false;
    static __device__ __forceinline__ Quad quad(const uint8_t *block, uint32_t k) {
        return {load_u32<2>(block + 2 + 4 * k), load_half(block), 0.0f};
    }
    static constexpr int OFFSET = 0;
    struct Raw {
        uint32_t qs[8], d;
    };
    static __device__ __forceinline__ void load_body(const uint8_t *block, uint32_t p, Raw &raw) {
        load_words<2>(block + 2, raw.qs);
        raw.d = load_u16(block);
    }
    static __device__ __forceinline__ Piece piece(const Raw &raw, uint32_t) {
        Piece piece;
#pragma unroll
        for (int i = 0; i < 8; i++) piece.q[i / 4][i % 4] = raw.qs[i];
        piece.set(half_of(raw.d));
        return piece;
    }
};

// In the formats of 256 elements, e = 128 n + 32 j + l; the quad's first element has l = 4 (k mod 8).

// Half s of piece 2 i + h is the elements 64 i + 32 s + 16 h on.
struct PairedPieces {
    static constexpr __device__ __forceinline__ uint32_t sixteen(uint32_t p, uint32_t s) {
        return 4 * (p >> 1) + 2 * s + (p & 1u);
    }
};

// scales[16], qs[64], d, dmin: two bits an element, scale and min in four bits for 16.
struct Q2_K : PairedPieces {
    static constexpr int ELEMENTS = 256, BYTES = 84, SCALED = 16;
    static constexpr bool HAS_MIN = true;
    static __device__ __forceinline__ Quad quad(const uint8_t *block, uint32_t k) {
        uint32_t n = k >> 5, j = k >> 3 & 3u, l = 4 * (k & 7u);
        uint32_t scales = block[k >> 2];
        return {load_u32<4>(block + 16 + 32 * n + l) >> (2 * j) & 0x03030303u,
                load_half(block + 80) * (float)(scales & 15u), -(load_half(block + 82) * (float)(scales >> 4))};
    }
    // Piece 4 n + 2 i + h has bytes 16 h on of the n-th 32; its halves are j = 2 i and 2 i + 1.
    static constexpr int OFFSET = 0;
    struct Raw {
        uint32_t qs[4], scales, d;
    };
    static __device__ __forceinline__ void load_head(const uint8_t *block, uint32_t p, Raw &raw) {
        raw.d = *(const uint32_t *)(block + 80);
    }
    static __device__ __forceinline__ void load_body(const uint8_t *block, uint32_t p, Raw &raw) {
        load_words<4>(block + 16 + 32 * (p >> 2) + 16 * (p & 1u), raw.qs);
        raw.scales = *(const uint32_t *)(block + 4 * (p >> 1));
    }
    static __device__ __forceinline__ Piece piece(const Raw &raw, uint32_t p) {
        Piece piece;
        uint32_t scales = raw.scales >> (8 * (p & 1u)), shift = 2 * (p & 2u);
#pragma unroll
        for (int s = 0; s < 2; s++) {
#pragma unroll
            for (int i = 0; i < 4; i++) piece.q[s][i] = raw.qs[i] >> shift >> (2 * s) & 0x03030303u;
            piece.scale[s] = half_of(raw.d) * (float)(scales >> (16 * s) & 15u);
            piece.min[s] = -(half_of(raw.d >> 16) * (float)(scales >> (16 * s + 4) & 15u));
        }
        return piece;
    }
};

// hmask[32], qs[64], scales[12], d: three bits an element, a six-bit scale for 16.
struct Q3_K : PairedPieces {
    static constexpr int ELEMENTS = 256, BYTES = 110, SCALED = 16;
    static constexpr bool HAS_MIN = false;
    static __device__ __forceinline__ Quad quad(const uint8_t *block, uint32_t k) {
        uint32_t n = k >> 5, j = k >> 3 & 3u, l = 4 * (k & 7u), s = k >> 2;
        uint32_t low = load_u32<2>(block + 32 + 32 * n + l) >> (2 * j) & 0x03030303u;
        uint32_t high = load_u32<2>(block + l) >> (4 * n + j) & 0x01010101u;
        const uint8_t *scales = block + 96;
        uint32_t scale = (scales[s & 7u] >> (s < 8 ? 0 : 4) & 15u) | (scales[8 + (s & 3u)] >> (2 * (s >> 2)) & 3u) << 4;
        return {subtract_bytes(low | high << 2, 4), load_half(block + 108) * ((float)scale - 32.0f), 0.0f};
    }
    // Pieces as in Q2_K.
    static constexpr int OFFSET = 4;
    struct Raw {
        uint32_t qs[4], mask[4], low[1], high[1], d;
    };
    static __device__ __forceinline__ void load_head(const uint8_t *block, uint32_t p, Raw &raw) {
        load_words<2>(block + 16 * (p & 1u), raw.mask);
        load_words<2>(block + 104, raw.high);
        raw.d = load_u16(block + 108);
    }
    static __device__ __forceinline__ void load_body(const uint8_t *block, uint32_t p, Raw &raw) {
        load_words<2>(block + 32 + 32 * (p >> 2) + 16 * (p & 1u), raw.qs);
        load_words<2>(block + 96 + 2 * (p & 2u), raw.low);
    }
    static __device__ __forceinline__ Piece piece(const Raw &raw, uint32_t p) {
        Piece piece;
        uint32_t pair = p >> 1, shift = 2 * (p & 2u);
        uint32_t scales = (raw.low[0] >> (4 * (p >> 2)) & 0x0f0f0f0fu) | (raw.high[0] >> (2 * pair) & 0x03030303u) << 4;
        scales >>= 8 * (p & 1u);
#pragma unroll
        for (int s = 0; s < 2; s++) {
#pragma unroll
            for (int i = 0; i < 4; i++)
                piece.q[s][i] =
                    (raw.qs[i] >> shift >> (2 * s) & 0x03030303u) | (raw.mask[i] >> (2 * pair) >> s & 0x01010101u) << 2;
            piece.scale[s] = half_of(raw.d) * (float)((int32_t)(scales >> (16 * s) & 63u) - 32);
        }
        return piece;
    }
};

// Six-bit scale and min of each 32 elements in 12 bytes, as Q4_K and Q5_K have them.
__device__ __forceinline__ void scale_and_min(const uint8_t *scales, uint32_t s, uint32_t &scale, uint32_t &min) {
    uint32_t a = scales[s & 3u], b = scales[(s & 3u) + 4], c = scales[(s & 3u) + 8];
    scale = s < 4 ? a & 63u : (c & 15u) | (a >> 6) << 4;
    min = s < 4 ? b & 63u : c >> 4 | (b >> 6) << 4;
}

// d, dmin, scales[12], qs[128].
struct Q4_K : PairedPieces {
    static constexpr int ELEMENTS = 256, BYTES = 144, SCALED = 32;
    static constexpr bool HAS_MIN = true;
    static __device__ __forceinline__ Quad quad(const uint8_t *block, uint32_t k) {
        uint32_t s = k >> 3, scale, min;
        scale_and_min(block + 4, s, scale, min);
        return {load_u32<4>(block + 16 + 32 * (s >> 1) + 4 * (k & 7u)) >> (4 * (s & 1u)) & 0x0f0f0f0fu,
                load_half(block) * (float)scale, -(load_half(block + 2) * (float)min)};
    }
    // Piece 2 j + h has bytes 16 h on of the j-th 32: its halves are of elements 64 j on and 64 j + 32 on.
    static constexpr int OFFSET = 0;
    struct Raw {
        uint32_t header[4], qs[4];
    };
    static __device__ __forceinline__ void load_head(const uint8_t *block, uint32_t p, Raw &raw) {
        load_words<16>(block, raw.header);
    }
    static __device__ __forceinline__ void load_body(const uint8_t *block, uint32_t p, Raw &raw) {
        load_words<16>(block + 16 + 16 * p, raw.qs);
    }
    static __device__ __forceinline__ Piece piece(const Raw &raw, uint32_t p) {
        Piece piece;
        low_and_high(raw.qs, piece);
        scales_and_mins(raw.header, p >> 1, piece);
        return piece;
    }
};

// d, dmin, scales[12], qh[32], qs[128].
struct Q5_K : PairedPieces {
    static constexpr int ELEMENTS = 256, BYTES = 176, SCALED = 32;
    static constexpr bool HAS_MIN = true;
    static __device__ __forceinline__ Quad quad(const uint8_t *block, uint32_t k) {
        uint32_t s = k >> 3, l = 4 * (k & 7u), scale, min;
        scale_and_min(block + 4, s, scale, min);
        uint32_t low = load_u32<4>(block + 48 + 32 * (s >> 1) + l) >> (4 * (s & 1u)) & 0x0f0f0f0fu;
        uint32_t high = load_u32<4>(block + 16 + l) >> s & 0x01010101u;
        return {low | high << 4, load_half(block) * (float)scale, -(load_half(block + 2) * (float)min)};
    }
    // Pieces as in Q4_K.
    static constexpr int OFFSET = 0;
    struct Raw {
        uint32_t header[4], qh[4], qs[4];
    };
    static __device__ __forceinline__ void load_head(const uint8_t *block, uint32_t p, Raw &raw) {
        load_words<16>(block, raw.header);
        load_words<16>(block + 16 + 16 * (p & 1u), raw.qh);
    }
    static __device__ __forceinline__ void load_body(const uint8_t *block, uint32_t p, Raw &raw) {
        load_words<16>(block + 48 + 16 * p, raw.qs);
    }
    static __device__ __forceinline__ Piece piece(const Raw &raw, uint32_t p) {
        Piece piece;
        low_and_high(raw.qs, piece);
#pragma unroll
        for (int s = 0; s < 2; s++)
#pragma unroll
            for (int i = 0; i < 4; i++) piece.q[s][i] |= (raw.qh[i] >> (p & 6u) >> s & 0x01010101u) << 4;
        scales_and_mins(raw.header, p >> 1, piece);
        return piece;
    }
};

// ql[128], qh[64], scales[16] (signed), d: six bits an element, a scale for 16.
struct Q6_K {
    static constexpr int ELEMENTS = 256, BYTES = 210, SCALED = 16;
    static constexpr bool HAS_MIN = false;
    static __device__ __forceinline__ Quad quad(const uint8_t *block, uint32_t k) {
        uint32_t n = k >> 5, j = k >> 3 & 3u, l = 4 * (k & 7u);
        uint32_t low = load_u32<2>(block + 64 * n + 32 * (j & 1u) + l) >> (4 * (j >> 1)) & 0x0f0f0f0fu;
        uint32_t high = load_u32<2>(block + 128 + 32 * n + l) >> (2 * j) & 0x03030303u;
        return {subtract_bytes(low | high << 4, 32), load_half(block + 208) * (float)(int8_t)block[192 + (k >> 2)],
                0.0f};
    }
    // Piece 4 n + 2 b + h has bytes 16 h on of the (2 n + b)-th 32 of ql: its halves are j = b and b + 2.
    static constexpr int OFFSET = 32;
    struct Raw {
        uint32_t ql[4], qh[4];
        int32_t scales[2];
        uint32_t d;
    };
    static __device__ __forceinline__ void load_head(const uint8_t *block, uint32_t p, Raw &raw) {
        raw.d = load_u16(block + 208);
    }
    static __device__ __forceinline__ void load_body(const uint8_t *block, uint32_t p, Raw &raw) {
        load_words<2>(block + 16 * p, raw.ql);
        load_words<2>(block + 128 + 32 * (p >> 2) + 16 * (p & 1u), raw.qh);
        const int8_t *scales = (const int8_t *)block + 192 + sixteen(p, 0);
        raw.scales[0] = scales[0];
        raw.scales[1] = scales[4];
    }
    static __device__ __forceinline__ Piece piece(const Raw &raw, uint32_t p) {
        Piece piece;
        low_and_high(raw.ql, piece);
#pragma unroll
        for (int s = 0; s < 2; s++) {
#pragma unroll
            for (int i = 0; i < 4; i++) piece.q[s][i] |= (raw.qh[i] >> (p & 2u) >> (4 * s) & 0x03030303u) << 4;
            piece.scale[s] = half_of(raw.d) * (float)raw.scales[s];
        }
        return piece;
    }
    static constexpr __device__ __forceinline__ uint32_t sixteen(uint32_t p, uint32_t s) {
        return 8 * (p >> 2) + 4 * s + (p & 3u);
    }
};

// d (f32), qs[256], sums[16].
struct Q8_K {
    static constexpr int ELEMENTS = 256, BYTES = 292, SCALED = 32;
    static constexpr bool HAS_MIN = false;
    static __device__ __forceinline__ Quad quad(const uint8_t *block, uint32_t k) {
        return {load_u32<4>(block + 4 + 4 * k), bit_cast<float>(load_u32<4>(block)), 0.0f};
    }
};

// d, s, qs[32]: the activations that weights are multiplied with; s is their sum before rounding. Our
// products add up qs themselves, but for those that must give CUDA's bits (`gives_cudas_bits`).
struct Q8_1 {
    static constexpr int ELEMENTS = 32, BYTES = 36;
};

// The four values of a quad.
__device__ __forceinline__ void dequantize(Quad quad, float (&values)[4]) {
#pragma unroll
    for (int i = 0; i < 4; i++) values[i] = (float)(int8_t)(quad.q >> (8 * i)) * quad.scale + quad.min;
}

// Piece number i of a row, counted over all its blocks.
template <class Q> __device__ __forceinline__ typename Q::Raw load_piece(const uint8_t *row, uint32_t i) {
    constexpr uint32_t PIECES = Q::ELEMENTS / 32;
    const uint8_t *block = row + (size_t)(i / PIECES) * Q::BYTES;
    typename Q::Raw raw;
    Q::load_head(block, i % PIECES, raw);
    Q::load_body(block, i % PIECES, raw);
    return raw;
}

// Products of matrices take 64 elements at a time, the pieces 2 step and 2 step + 1: two chunks of 32 elements, or
// twice as many. Where, in sixteens, half s of the step's piece h stands:
template <class Q> __device__ __forceinline__ uint32_t place_of(uint32_t h, uint32_t s) {
    return Q::ELEMENTS == 32 ? 2 * h + s : h / 2 * 4 + 2 * s + h % 2;
}
// and the place in the row, in chunks, of the step's chunk `slot`.
template <class Q> __device__ __forceinline__ uint32_t chunk_of(uint32_t step, uint32_t slot) {
    constexpr bool WHOLE = Q::ELEMENTS == 32;
    return step / 4 * 8 + Q::sixteen(2 * (step % 4) + (WHOLE ? slot : 0), WHOLE ? 0 : slot) / 2;
}

// Quad number k of a row, counted over all its blocks.
template <class Q> __device__ __forceinline__ Quad row_quad(const uint8_t *row, size_t k) {
    constexpr uint32_t QUADS = Q::ELEMENTS / 4;
    return Q::quad(row + k / QUADS * Q::BYTES, (uint32_t)(k % QUADS));
}

// Candle's own tests hold products of Q4_0 with matrices of at most so many elements to the bits that CUDA gave. CUDA's
// formula has 2.4 to 2.6 times the error of the centred integers' products, which larger matrices get: the roundings of
// activations meet nibbles of 0 to 15.
constexpr uint64_t CUDAS_BITS = 1024;
__device__ __forceinline__ bool gives_cudas_bits(uint32_t rows, uint32_t columns) {
    return (uint64_t)rows * columns <= CUDAS_BITS;
}

// What CUDA's formula adds to d times the products with centred nibbles: d times the products with unsigned ones, less
// `weight` (8, or 4 for half a block) times the block's sum s, is what it computes. `plain` is the sum of the
// activations' integers; it stands in where s is beyond f16.
__device__ __forceinline__ float cudas_addend(int32_t plain, float d, float s, float weight) {
    if (!(math::abs(s) <= 65504.0f)) return 0.0f;
    return math::fma(-weight, s, 8.0f * d * (float)plain);
}

// A sixteen's integers, each times FACTOR, a signed byte, added up.
template <int FACTOR = 1> __device__ __forceinline__ int32_t sum_bytes(const vec<uint32_t, 4> &qs) {
    int32_t sum = 0;
#pragma unroll
    for (int k = 0; k < 4; k++) sum = dot4((uint8_t)FACTOR * 0x01010101u, qs[k], sum);
    return sum;
}

// The scales of two halves' activations and what goes with each: the sum of its integers (in blocks of 32 of both, with
// the first) where elements have a min, or what makes products with q - OFFSET of those with q.
template <class Q>
__device__ __forceinline__ void scales_and_sums(const vec<uint32_t, 4> (&qs)[2], const uint32_t (&ds)[2],
                                                vec<uint32_t, 2> (&scale)[2]) {
    int32_t sums[2];
#pragma unroll
    for (int s = 0; s < 2; s++) sums[s] = sum_bytes<(Q::HAS_MIN ? 1 : -Q::OFFSET)>(qs[s]);
    if constexpr (Q::ELEMENTS == 32 && Q::HAS_MIN) sums[0] += sums[1];
#pragma unroll
    for (int s = 0; s < 2; s++) {
        uint32_t sum = Q::HAS_MIN ? bit_cast<uint32_t>((float)sums[s]) : (uint32_t)sums[s];
        scale[s] = {{bit_cast<uint32_t>(half_of(ds[s])), sum}};
    }
}

// sum + the product of a piece with the activations of its halves; `scale` has what goes with it.
template <class Q>
__device__ __forceinline__ float multiply_piece(const Piece &piece, const vec<uint32_t, 4> (&qs)[2],
                                                const vec<uint32_t, 2> (&scale)[2], float sum) {
    int32_t products[2] = {};
#pragma unroll
    for (int s = 0; s < 2; s++) {
        if constexpr (Q::OFFSET != 0 && Q::ELEMENTS == 32) products[s] = (int32_t)scale[s][1];
#pragma unroll
        for (int i = 0; i < 4; i++) products[s] = dot4(piece.q[s][i], qs[s][i], products[s]);
    }
    if constexpr (Q::ELEMENTS == 32) products[0] += products[1];
#pragma unroll
    for (int s = 0; s < (Q::ELEMENTS == 32 ? 1 : 2); s++) {
        // In blocks of 256 products that begin with it would take more registers.
        if constexpr (Q::OFFSET != 0 && Q::ELEMENTS != 32) products[s] += (int32_t)scale[s][1];
        float x = piece.scale[s] * (float)products[s];
        if constexpr (Q::HAS_MIN) x = math::fma(piece.min[s], bit_cast<float>(scale[s][1]), x);
        sum = math::fma(bit_cast<float>(scale[s][0]), x, sum);
    }
    return sum;
}

// Half s of the activations that piece i of a row is multiplied with: in q8_1, 16 elements of a block.
template <class Q>
__device__ __forceinline__ void load_half_activations(const uint8_t *__restrict__ y, uint32_t i, uint32_t s,
                                                      vec<uint32_t, 4> &qs, uint32_t &ds) {
    uint32_t sixteen = i / 8 * 16 + Q::sixteen(i % 8, s);
    const uint32_t *block = (const uint32_t *)(y + (size_t)(sixteen / 2) * Q8_1::BYTES);
    ds = block[0];
#pragma unroll
    for (int k = 0; k < 4; k++) qs[k] = block[1 + 4 * (sixteen % 2) + k];
}

// Both halves, with their scales and what goes with these.
template <class Q>
__device__ __forceinline__ void load_activations(const uint8_t *__restrict__ y, uint32_t i, vec<uint32_t, 4> (&qs)[2],
                                                 vec<uint32_t, 2> (&scale)[2]) {
    uint32_t ds[2];
#pragma unroll
    for (int s = 0; s < 2; s++) load_half_activations<Q>(y, i, s, qs[s], ds[s]);
    scales_and_sums<Q>(qs, ds, scale);
}

// Adds to sums[c] the product of 32 weights, piece i, with column c's activations, for the first `columns` of them.
template <class Q, int COLUMNS>
__device__ __forceinline__ void multiply_chunk(const uint8_t *__restrict__ row, uint32_t i,
                                               const uint8_t *__restrict__ y, size_t column_bytes, uint32_t columns,
                                               float (&sums)[COLUMNS]) {
    Piece piece = Q::piece(load_piece<Q>(row, i), i % (Q::ELEMENTS / 32));
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        if ((uint32_t)c >= columns) break;
        vec<uint32_t, 4> qs[2];
        vec<uint32_t, 2> scale[2];
        load_activations<Q>(y + c * column_bytes, i, qs, scale);
        sums[c] = multiply_piece<Q>(piece, qs, scale, sums[c]);
    }
}

} // namespace quantized
