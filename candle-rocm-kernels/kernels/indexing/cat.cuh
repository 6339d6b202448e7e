// Tensors that are copied side by side: which workgroup copies which elements.
#pragma once
#include "portable/portable.cuh"

// Rows of the result, and inputs side by side in each. The host (candle_rocm_backend::ops) knows the same fields.
// Lengths are in units: what is moved at once.
struct CatInputs {
    uint64_t result;
    uint64_t rows;
    // From one row of the result to the next, and how many inputs there are.
    uint32_t stride, count;
    // Of each input: where it begins, where its columns end in the result, and its first workgroup.
    uint64_t addresses[192];
    uint32_t ends[192];
    uint32_t first_blocks[192];
};

constexpr uint32_t CAT_THREADS = 256, CAT_CHUNKS = 4;

// The input that a workgroup copies from: the last one whose first workgroup is not behind it.
__device__ __forceinline__ uint32_t cat_input(const CatInputs &inputs, uint32_t block) {
    uint32_t low = 0, high = inputs.count;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (inputs.first_blocks[middle] <= block) low = middle;
        else high = middle;
    }
    return low;
}

template <class Chunk> __device__ __forceinline__ void concatenate(const CatInputs &inputs) {
    typedef __attribute__((address_space(1))) Chunk InMemory;
    uint32_t number = uniform(cat_input(inputs, blockIdx.x));
    uint32_t begin = number == 0 ? 0 : inputs.ends[number - 1], width = inputs.ends[number] - begin;
    const InMemory *from = (const InMemory *)inputs.addresses[number];
    uint64_t count = inputs.rows * width;
    bool fits_32 = count >> 32 == 0;
    uint64_t first = (uint64_t)(blockIdx.x - inputs.first_blocks[number]) * (CAT_THREADS * CAT_CHUNKS) + threadIdx.x;
    InMemory *to = (InMemory *)inputs.result;
    Chunk held[CAT_CHUNKS];
#pragma unroll
    for (uint32_t k = 0; k < CAT_CHUNKS; k++)
        if (first + k * CAT_THREADS < count) held[k] = from[first + k * CAT_THREADS];
#pragma unroll
    for (uint32_t k = 0; k < CAT_CHUNKS; k++) {
        uint64_t i = first + k * CAT_THREADS;
        if (i >= count) continue;
        uint64_t row = inputs.rows == 1 ? 0 : divide(i, width, fits_32);
        to[row * inputs.stride + begin + (i - row * width)] = held[k];
    }
}
