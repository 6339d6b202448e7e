// Philox4x32-10: random words that depend on a seed and a counter alone.
//
// Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011. A counter and a key become four
// 32-bit words. The key is the seed; the counter is the number of the block of words (64 bits), the kind of what is
// made of it, so that kinds never share words, and the number of a step for kinds that draw anew in each.
#pragma once
#include "portable/portable.cuh"

enum class Kind : uint32_t { UniformF32, UniformF64, NormalF32, NormalF64, Dropout, Rounding };

struct Words4 {
    uint32_t w[4];
};

__device__ __forceinline__ Words4 philox(uint64_t seed, Kind kind, uint64_t block, uint32_t step = 0) {
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = (uint32_t)kind, c3 = step;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        uint32_t high0 = umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
        uint32_t high1 = umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return {{c0, c1, c2, c3}};
}
