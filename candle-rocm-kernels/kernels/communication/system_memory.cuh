// Words that other GPUs and the host read and write while a kernel runs.
#pragma once
#include "portable/portable.cuh"

namespace system_memory {
// An address that came as a number.
template <class T> __device__ __forceinline__ T *at(uint64_t address) {
    return (T *)(__attribute__((address_space(1))) T *)address;
}

// Two packets: each of them is read and written as a whole.
struct alignas(16) Packets {
    uint64_t words[2];
};

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
// The same, by the one work-item that saw a flag, before a barrier hands it to its workgroup.
__device__ __forceinline__ void observe(const uint32_t *) { observe(); }
__device__ __forceinline__ void rest() { __builtin_amdgcn_s_sleep(8); }
__device__ __forceinline__ void rest_briefly() { __builtin_amdgcn_s_sleep(1); }
__device__ __forceinline__ Packets read(const Packets *at) {
    const uint64_t *words = at->words;
    return {{__hip_atomic_load(words, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM),
             __hip_atomic_load(words + 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM)}};
}
__device__ __forceinline__ void write(Packets *at, const Packets &packets) {
    __hip_atomic_store(at->words, packets.words[0], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
    __hip_atomic_store(at->words + 1, packets.words[1], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
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
__device__ __forceinline__ void observe(const uint32_t *flag) {
    uint32_t value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];"
                 : "=r"(value)
                 : "l"((const __attribute__((address_space(1))) uint32_t *)flag)
                 : "memory");
}
__device__ __forceinline__ void rest() { asm volatile("nanosleep.u32 100;"); }
__device__ __forceinline__ void rest_briefly() {}
__device__ __forceinline__ Packets read(const Packets *at) {
    Packets packets;
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(packets.words[0]), "=l"(packets.words[1])
                 : "l"((const __attribute__((address_space(1))) Packets *)at)
                 : "memory");
    return packets;
}
__device__ __forceinline__ void write(Packets *at, const Packets &packets) {
    asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};"
                 :
                 : "l"((__attribute__((address_space(1))) Packets *)at), "l"(packets.words[0]), "l"(packets.words[1])
                 : "memory");
}
#endif
} // namespace system_memory
