// Words that other GPUs and the host read and write while a kernel runs.
#pragma once
#include "portable/portable.cuh"

namespace system_memory {
// An address that came as a number.
template <class T> __device__ __forceinline__ T *at(uint64_t address) {
    return (T *)(__attribute__((address_space(1))) T *)address;
}

#if defined(__HIP__)
__device__ __forceinline__ uint32_t read(const uint32_t *at) {
    return __hip_atomic_load(at, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
__device__ __forceinline__ void write(uint32_t *at, uint32_t value) {
    __hip_atomic_store(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
// What was written before is there for all who see what is written after.
__device__ __forceinline__ void publish() { __builtin_amdgcn_fence(__ATOMIC_RELEASE, ""); }
// What is read after is not older than what was read before.
__device__ __forceinline__ void observe() { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, ""); }
__device__ __forceinline__ void rest() { __builtin_amdgcn_s_sleep(8); }
#else
__device__ __forceinline__ uint32_t read(const uint32_t *at) {
    uint32_t value;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];"
                 : "=r"(value)
                 : "l"((const __attribute__((address_space(1))) uint32_t *)at)
                 : "memory");
    return value;
}
__device__ __forceinline__ void write(uint32_t *at, uint32_t value) {
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;"
                 :
                 : "l"((__attribute__((address_space(1))) uint32_t *)at), "r"(value)
                 : "memory");
}
__device__ __forceinline__ void publish() { __nvvm_membar_sys(); }
__device__ __forceinline__ void observe() { __nvvm_membar_sys(); }
__device__ __forceinline__ void rest() { asm volatile("nanosleep.u32 100;"); }
#endif
} // namespace system_memory
