// The largest and the least of whole numbers that 32 lanes hold, in each of them.
#pragma once
#include "portable/portable.cuh"

static constexpr uint32_t EXTREMES_LANES = 32;

#if defined(__HIP__)
__device__ __forceinline__ int32_t largest_of_32(int32_t value) {
    return wave_all_reduce(value, EXTREMES_LANES, [](int32_t a, int32_t b) INLINED { return max_of(a, b); });
}
__device__ __forceinline__ int32_t least_of_32(int32_t value) {
    return wave_all_reduce(value, EXTREMES_LANES, [](int32_t a, int32_t b) INLINED { return min_of(a, b); });
}
#else
__device__ __forceinline__ int32_t largest_of_32(int32_t value) {
    int32_t result;
    asm volatile("redux.sync.max.s32 %0, %1, 0xffffffff;" : "=r"(result) : "r"(value));
    return result;
}
__device__ __forceinline__ int32_t least_of_32(int32_t value) {
    int32_t result;
    asm volatile("redux.sync.min.s32 %0, %1, 0xffffffff;" : "=r"(result) : "r"(value));
    return result;
}
#endif
