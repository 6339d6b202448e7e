// The largest of what a launch's workgroups find, in memory.
#pragma once
#include "portable/portable.cuh"

namespace device_atomic {
// Leaves the larger of what is there and `value`, whichever order workgroups come in.
__device__ __forceinline__ void largest(uint32_t *at, uint32_t value) {
#if defined(__HIP__)
    __hip_atomic_fetch_max(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
#else
    asm volatile("red.relaxed.gpu.global.max.u32 [%0], %1;"
                 :
                 : "l"((__attribute__((address_space(1))) uint32_t *)at), "r"(value)
                 : "memory");
#endif
}
} // namespace device_atomic
