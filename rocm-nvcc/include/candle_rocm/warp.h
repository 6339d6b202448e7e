// Warps: barriers, shuffles, votes, matches and reductions among 32 lanes, on wavefronts of 32 and of 64.
#pragma once
#include "candle_rocm/index.h"
#include "candle_rocm/memory.h"

namespace candle_rocm {
// The lane in the wavefront.
__device__ __forceinline__ uint32_t wave_lane() {
    return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
}
// The lane in the warp.
__device__ __forceinline__ uint32_t lane() { return wave_lane() & 31u; }

// One bit for each active lane of the warp for which `predicate` holds.
__device__ __forceinline__ uint32_t ballot(bool predicate) {
#if CANDLE_ROCM_WAVEFRONT == 64
    return (uint32_t)(__builtin_amdgcn_ballot_w64(predicate) >> (wave_lane() & 32u));
#else
    return __builtin_amdgcn_ballot_w32(predicate);
#endif
}

// A word of lane `source` of the warp.
__device__ __forceinline__ uint32_t read_lane(uint32_t word, uint32_t source) {
    return (uint32_t)__builtin_amdgcn_ds_bpermute((int)(((wave_lane() & 32u) | source) << 2), (int)word);
}

// A word of lane ^ mask. Constant masks need no address: DPP's quad_perm for 1 and 2, ds_swizzle (bit-mask mode, xor in
// bits 14:10, and-mask 0x1f) above. Both stay within 32 lanes.
__device__ __forceinline__ uint32_t xor_lane(uint32_t word, uint32_t mask) {
    if (__builtin_constant_p(mask)) {
        switch (mask) {
        case 1: return (uint32_t)__builtin_amdgcn_mov_dpp((int)word, 0xb1, 0xf, 0xf, true);
        case 2: return (uint32_t)__builtin_amdgcn_mov_dpp((int)word, 0x4e, 0xf, 0xf, true);
        case 4: return (uint32_t)__builtin_amdgcn_ds_swizzle((int)word, 0x101f);
        case 8: return (uint32_t)__builtin_amdgcn_ds_swizzle((int)word, 0x201f);
        case 16: return (uint32_t)__builtin_amdgcn_ds_swizzle((int)word, 0x401f);
        }
    }
    return read_lane(word, lane() ^ mask);
}

// `move` of each word of a value of any size.
template <class T, class Move> __device__ __forceinline__ T each_word(T value, Move move) {
    constexpr int WORDS = (sizeof(T) + 3) / 4;
    uint32_t words[WORDS] = {};
    __builtin_memcpy(words, &value, sizeof(T));
#pragma unroll
    for (int i = 0; i < WORDS; i++) words[i] = move(words[i]);
    __builtin_memcpy(&value, words, sizeof(T));
    return value;
}
template <class T> __device__ __forceinline__ bool same_bits(const T &a, const T &b) {
    constexpr int WORDS = (sizeof(T) + 3) / 4;
    uint32_t left[WORDS] = {}, right[WORDS] = {}, differ = 0;
    __builtin_memcpy(left, &a, sizeof(T));
    __builtin_memcpy(right, &b, sizeof(T));
#pragma unroll
    for (int i = 0; i < WORDS; i++) differ |= left[i] ^ right[i];
    return differ == 0;
}
} // namespace candle_rocm

// The shuffles exchange among segments of `width` lanes, a power of two up to 32. A lane that would read outside gets
// its own value. The masks are not looked at: lanes that they leave out must not be read, as in CUDA.
template <class T>
__device__ __forceinline__ T __shfl_sync(unsigned int, T value, int source, int width = 32) {
    uint32_t lane = candle_rocm::lane(), within = (uint32_t)width - 1;
    uint32_t from = (lane & ~within) | ((uint32_t)source & within);
    return candle_rocm::each_word(value, [=](uint32_t word) { return candle_rocm::read_lane(word, from); });
}
template <class T>
__device__ __forceinline__ T __shfl_up_sync(unsigned int, T value, unsigned int delta, int width = 32) {
    uint32_t lane = candle_rocm::lane(), within = (uint32_t)width - 1;
    uint32_t from = (lane & within) >= delta ? lane - delta : lane;
    return candle_rocm::each_word(value, [=](uint32_t word) { return candle_rocm::read_lane(word, from); });
}
template <class T>
__device__ __forceinline__ T __shfl_down_sync(unsigned int, T value, unsigned int delta, int width = 32) {
    uint32_t lane = candle_rocm::lane(), within = (uint32_t)width - 1;
    uint32_t from = (lane & within) + delta <= within ? lane + delta : lane;
    return candle_rocm::each_word(value, [=](uint32_t word) { return candle_rocm::read_lane(word, from); });
}
template <class T>
__device__ __forceinline__ T __shfl_xor_sync(unsigned int, T value, int mask, int width = 32) {
    if (__builtin_constant_p(mask) && __builtin_constant_p(width) && (uint32_t)mask < (uint32_t)width)
        return candle_rocm::each_word(value,
                                      [=](uint32_t word) { return candle_rocm::xor_lane(word, (uint32_t)mask); });
    uint32_t lane = candle_rocm::lane(), within = (uint32_t)width - 1, from = (lane ^ (uint32_t)mask) & 31u;
    // CUDA's rule: lanes of earlier segments can be read, those of later ones not.
    from = from <= (lane | within) ? from : lane;
    return candle_rocm::each_word(value, [=](uint32_t word) { return candle_rocm::read_lane(word, from); });
}

CANDLE_ROCM_DEVICE unsigned int __activemask() { return candle_rocm::ballot(true); }
CANDLE_ROCM_DEVICE unsigned int __ballot_sync(unsigned int mask, int predicate) {
    return candle_rocm::ballot(predicate != 0) & mask;
}
CANDLE_ROCM_DEVICE int __any_sync(unsigned int mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
CANDLE_ROCM_DEVICE int __all_sync(unsigned int mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }
CANDLE_ROCM_DEVICE int __uni_sync(unsigned int mask, int predicate) {
    return __any_sync(mask, predicate) == __all_sync(mask, predicate);
}

// The lanes of a wavefront are in step: what remains is that the compiler keeps the order of memory accesses.
CANDLE_ROCM_DEVICE void __syncwarp(unsigned int = 0xffffffffu) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

// The lanes of the mask that have the same value.
template <class T> __device__ __forceinline__ unsigned int __match_any_sync(unsigned int mask, T value) {
    unsigned int equal = 0, left = mask & candle_rocm::ballot(true);
    while (left != 0) {
        int lane = __builtin_ctz(left);
        left &= left - 1;
        T other = __shfl_sync(mask, value, lane);
        if (candle_rocm::same_bits(other, value)) equal |= 1u << lane;
    }
    return equal;
}
// The mask if all have one value, else 0.
template <class T> __device__ __forceinline__ unsigned int __match_all_sync(unsigned int mask, T value, int *all) {
    unsigned int active = mask & candle_rocm::ballot(true);
    T first = __shfl_sync(mask, value, __builtin_ctz(active));
    *all = __all_sync(mask, candle_rocm::same_bits(first, value));
    return *all ? mask : 0u;
}

namespace candle_rocm {
// A reduction over the lanes of the mask, in their order. Of a whole warp by halves.
template <class T, class F> __device__ __forceinline__ T reduce_lanes(unsigned int mask, T value, F combine) {
    if (candle_rocm::ballot(true) == 0xffffffffu && mask == 0xffffffffu) {
#pragma unroll
        for (int step = 16; step > 0; step /= 2) value = combine(value, __shfl_xor_sync(mask, value, step));
        return value;
    }
    unsigned int left = mask & candle_rocm::ballot(true);
    T sum = __shfl_sync(mask, value, __builtin_ctz(left));
    for (left &= left - 1; left != 0; left &= left - 1)
        sum = combine(sum, __shfl_sync(mask, value, __builtin_ctz(left)));
    return sum;
}
} // namespace candle_rocm

#define CANDLE_ROCM_REDUCE(NAME, T, EXPRESSION)                                                  \
    CANDLE_ROCM_DEVICE T __reduce_##NAME##_sync(unsigned int mask, T value) {                    \
        return candle_rocm::reduce_lanes(mask, value, [](T a, T b) -> T { return EXPRESSION; }); \
    }
CANDLE_ROCM_REDUCE(add, unsigned int, a + b)
CANDLE_ROCM_REDUCE(add, int, a + b)
CANDLE_ROCM_REDUCE(min, unsigned int, a < b ? a : b)
CANDLE_ROCM_REDUCE(min, int, a < b ? a : b)
CANDLE_ROCM_REDUCE(max, unsigned int, a > b ? a : b)
CANDLE_ROCM_REDUCE(max, int, a > b ? a : b)
CANDLE_ROCM_REDUCE(and, unsigned int, a &b)
CANDLE_ROCM_REDUCE(or, unsigned int, a | b)
CANDLE_ROCM_REDUCE(xor, unsigned int, a ^ b)
#undef CANDLE_ROCM_REDUCE
