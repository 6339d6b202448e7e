// Sets of a wavefront's lanes, sums over the lanes before one's own, and additions whose order does not matter.
#pragma once
#include "portable/lds.cuh"

using Lanes = conditional<WAVEFRONT == 64, uint64_t, uint32_t>::type; // a bit for each

__device__ __forceinline__ int32_t lanes_of(uint32_t lanes) { return __builtin_popcount(lanes); }
__device__ __forceinline__ int32_t lanes_of(uint64_t lanes) { return __builtin_popcountll(lanes); }

// The first lane of a set that is not empty.
__device__ __forceinline__ uint32_t first_of(uint32_t lanes) { return (uint32_t)__builtin_ctz(lanes); }
__device__ __forceinline__ uint32_t first_of(uint64_t lanes) { return (uint32_t)__builtin_ctzll(lanes); }

// The lanes for which the predicate holds, where all lanes of the wavefront ask.
__device__ __forceinline__ Lanes whole_wave_ballot(bool predicate) {
#if defined(__HIP__)
    return (Lanes)ballot(predicate);
#else
    return (Lanes)__nvvm_vote_ballot_sync(~0u, predicate);
#endif
}

// How many lanes of a set are before one's own.
__device__ __forceinline__ uint32_t lanes_before(Lanes lanes) {
#if defined(__HIP__)
    uint32_t low = __builtin_amdgcn_mbcnt_lo((uint32_t)lanes, 0u);
    return WAVEFRONT == 64 ? __builtin_amdgcn_mbcnt_hi((uint32_t)((uint64_t)lanes >> 32), low) : low;
#else
    return (uint32_t)lanes_of(lanes & (((Lanes)1 << lane_id()) - 1));
#endif
}

// The sum of the values of the wavefront's lanes up to one's own, of which all take part.
template <class T> __device__ __forceinline__ T wave_inclusive_sum(T value) {
    uint32_t lane = lane_id();
#pragma unroll
    for (uint32_t step = 1; step < WAVEFRONT; step *= 2) {
        T other = shfl_up(value, step, (uint32_t)WAVEFRONT);
        if (lane >= step) value = value + other;
    }
    return value;
}

// Adds to a number in LDS that other lanes add to, in whichever order.
__device__ __forceinline__ void lds_add(LDS_MEMORY int32_t *at, int32_t value) {
#if defined(__HIP__)
    __hip_atomic_fetch_add(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
#else
    asm volatile("red.relaxed.cta.shared.add.s32 [%0], %1;" : : "r"((uint32_t)(uintptr_t)at), "r"(value) : "memory");
#endif
}
// The same, and what was there before.
__device__ __forceinline__ int32_t lds_fetch_add(LDS_MEMORY int32_t *at, int32_t value) {
#if defined(__HIP__)
    return __hip_atomic_fetch_add(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
#else
    int32_t before;
    asm volatile("atom.relaxed.cta.shared.add.s32 %0, [%1], %2;"
                 : "=r"(before)
                 : "r"((uint32_t)(uintptr_t)at), "r"(value)
                 : "memory");
    return before;
#endif
}

// Adds to a number in memory that other workgroups add to, in whichever order.
namespace device_atomic {
__device__ __forceinline__ void add(uint32_t *at, uint32_t value) {
#if defined(__HIP__)
    __hip_atomic_fetch_add(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
#else
    __nvvm_atom_add_gen_i((int *)at, (int)value);
#endif
}
} // namespace device_atomic
