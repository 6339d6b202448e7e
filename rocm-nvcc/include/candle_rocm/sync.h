// Barriers of a block, fences, and what ends or delays a thread.
#pragma once
#include "candle_rocm/warp.h"

// All waves of the workgroup arrive; their LDS and global writes are visible after it.
CANDLE_ROCM_DEVICE void __syncthreads() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
CANDLE_ROCM_DEVICE void __threadfence_block() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup"); }
CANDLE_ROCM_DEVICE void __threadfence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
CANDLE_ROCM_DEVICE void __threadfence_system() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, ""); }

namespace candle_rocm {
// How many threads of the block `predicate` holds for.
__device__ __forceinline__ int count_threads(bool predicate) {
    __shared__ int count;
    __syncthreads();
    bool first = __builtin_amdgcn_workitem_id_x() == 0 && __builtin_amdgcn_workitem_id_y() == 0 &&
                 __builtin_amdgcn_workitem_id_z() == 0;
    if (first) count = 0;
    __syncthreads();
    if (predicate) __hip_atomic_fetch_add(&count, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    __syncthreads();
    return count;
}
} // namespace candle_rocm
CANDLE_ROCM_DEVICE int __syncthreads_count(int predicate) { return candle_rocm::count_threads(predicate != 0); }
CANDLE_ROCM_DEVICE int __syncthreads_or(int predicate) { return candle_rocm::count_threads(predicate != 0) != 0; }
CANDLE_ROCM_DEVICE int __syncthreads_and(int predicate) { return candle_rocm::count_threads(predicate == 0) == 0; }

// Host functions call it, too, where a macro of theirs does for both.
CANDLE_ROCM_BOTH __attribute__((noreturn)) void __trap() { __builtin_trap(); }
CANDLE_ROCM_DEVICE void __brkpt() { __builtin_trap(); }
// About so long: a unit of s_sleep is 64 clocks, 32 ns at 2 GHz.
CANDLE_ROCM_DEVICE void __nanosleep(unsigned int ns) {
    for (unsigned int slept = 0; slept < ns; slept += 32) __builtin_amdgcn_s_sleep(1);
}
CANDLE_ROCM_DEVICE long long clock64() { return (long long)__builtin_readcyclecounter(); }
CANDLE_ROCM_DEVICE clock_t clock() { return (clock_t)__builtin_readcyclecounter(); }
