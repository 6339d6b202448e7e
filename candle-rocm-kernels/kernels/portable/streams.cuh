// What kernels need that live on memory's speed: loads that stay ahead of their use, and the order of 16-bit elements.
#pragma once
#include "portable/portable.cuh"

// Of two words the lower halves, x's first, and the upper ones.
#if defined(__HIP__)
__device__ __forceinline__ uint32_t low_halves(uint32_t x, uint32_t y) {
    return __builtin_amdgcn_perm(y, x, 0x05040100u);
}
__device__ __forceinline__ uint32_t high_halves(uint32_t x, uint32_t y) {
    return __builtin_amdgcn_perm(y, x, 0x07060302u);
}
#else
__device__ __forceinline__ uint32_t low_halves(uint32_t x, uint32_t y) { return __nvvm_prmt(x, y, 0x5410u); }
__device__ __forceinline__ uint32_t high_halves(uint32_t x, uint32_t y) { return __nvvm_prmt(x, y, 0x7632u); }
#endif

// The compiler moves no instruction past this: what is loaded before it is on its way before what follows needs it.
// Volatile reads, which are NVIDIA's, keep their order by themselves.
__device__ __forceinline__ void opt_barrier_schedule() {
#if defined(__HIP__)
    __builtin_amdgcn_sched_barrier(0);
#endif
}

// From here on a wavefront goes first among its SIMD's, or not (0).
template <int PRIORITY> __device__ __forceinline__ void set_priority() {
#if defined(__HIP__)
    __builtin_amdgcn_s_setprio(PRIORITY);
#endif
}

// Between a loop's last matrix instructions and what reads their sums behind it, where Clang 19 leaves a few wait
// states too few for gfx90a.
__device__ __forceinline__ void settle_products() {
#if defined(AMD_MFMA)
    opt_barrier_schedule();
    asm volatile("s_nop 3");
    opt_barrier_schedule();
#endif
}

// 16 aligned bytes that are read once: past the first cache, which keeps what is read again.
#if !defined(__HIP__)
template <class V> __device__ __forceinline__ V read_streamed(const void *from) {
    read_only::Words<4> to;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to.w[0]), "=r"(to.w[1]), "=r"(to.w[2]), "=r"(to.w[3])
                 : "l"((read_only::Pointer<uint32_t>)from));
    return __builtin_bit_cast(V, to);
}
// 16 bytes that are asked for here, if a fence follows: the assembler puts other loads off until a value is used.
template <class V> __device__ __forceinline__ V read_now(const void *from) {
    read_only::Words<4> to;
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to.w[0]), "=r"(to.w[1]), "=r"(to.w[2]), "=r"(to.w[3])
                 : "l"((read_only::Pointer<uint32_t>)from));
    return __builtin_bit_cast(V, to);
}
#endif
