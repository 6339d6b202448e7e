// One workgroup's results in another's hands, within a launch: who counted with an atomic after `publish` has written
// all it wrote before, and who saw that count reads it after `observe`.
#pragma once
#include "portable/portable.cuh"

namespace device_atomic {
#if defined(__HIP__)
__device__ __forceinline__ void publish() { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent"); }
__device__ __forceinline__ void observe() { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent"); }
#else
__device__ __forceinline__ void publish() { asm volatile("fence.acq_rel.gpu;" : : : "memory"); }
__device__ __forceinline__ void observe() { asm volatile("fence.acq_rel.gpu;" : : : "memory"); }
#endif
} // namespace device_atomic
