// What the programs share: four words in and four out for each thread, and memory that all threads have.
#pragma once
#include <stdint.h>

#define PROGRAM(NAME)                                                                                         \
    __device__ __forceinline__ void NAME##_body(const uint32_t(&in)[4], uint32_t(&out)[4], uint32_t *memory); \
    extern "C" __global__ void NAME(const uint32_t *input, uint32_t *output, uint32_t *memory) {              \
        unsigned int at = blockIdx.x * blockDim.x + threadIdx.x;                                              \
        uint32_t in[4], out[4] = {0, 0, 0, 0};                                                                \
        for (int i = 0; i < 4; i++) in[i] = input[4 * at + i];                                                \
        NAME##_body(in, out, memory);                                                                         \
        for (int i = 0; i < 4; i++) output[4 * at + i] = out[i];                                              \
    }                                                                                                         \
    __device__ __forceinline__ void NAME##_body(const uint32_t(&in)[4], uint32_t(&out)[4], uint32_t *memory)

#define FULL 0xffffffffu
// Lanes of this warp, of which the last in a block may have fewer than 32.
#define LANES ((unsigned int)__popc(__activemask()))

// A number's bits, of NaN always the same.
__device__ __forceinline__ uint32_t word(float x) { return x != x ? 0x7fc00000u : __float_as_uint(x); }
