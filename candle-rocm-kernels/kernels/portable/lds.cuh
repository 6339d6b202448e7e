// LDS ("shared memory" in CUDA) as kernels use it that place its bytes themselves: reads, writes, barriers, and copies
// from global memory that go straight to it.
#pragma once
#include "portable/portable.cuh"

#define LDS_MEMORY __attribute__((address_space(3)))
typedef LDS_MEMORY char *LdsBytes;
template <class V> __device__ __forceinline__ V lds_load(const LDS_MEMORY char *from) {
    return *(const LDS_MEMORY V *)from;
}
template <class V> __device__ __forceinline__ void lds_store(LdsBytes to, V value) { *(LDS_MEMORY V *)to = value; }
// An address as instructions take it.
__device__ __forceinline__ uint32_t lds_address(const LDS_MEMORY char *at) { return (uint32_t)(uintptr_t)at; }
// The place of the chunk of 16 bytes whose number differs in the bits `chunks`, where as many chunks begin at a
// multiple of their bytes.
__device__ __forceinline__ LdsBytes swizzled_chunk(LdsBytes place, uint32_t chunks) {
    return (LdsBytes)(uintptr_t)(lds_address(place) ^ chunks * 16);
}

// N words of 32 bits.
template <int N> struct WordVector {
    typedef uint32_t type __attribute__((ext_vector_type(N)));
};

#if defined(__HIP__)
// What the waves wrote to LDS is there for all after it. Loads from global memory may stay on their way.
// (Clang before 19 has fences for all memory alone.)
#if __clang_major__ >= 19
#define LDS_FENCE(ORDER, SCOPE) __builtin_amdgcn_fence(ORDER, SCOPE, "local")
#else
#define LDS_FENCE(ORDER, SCOPE) __builtin_amdgcn_fence(ORDER, SCOPE)
#endif
__device__ __forceinline__ void lds_barrier() {
    LDS_FENCE(__ATOMIC_RELEASE, "workgroup");
#if defined(__GFX11__)
    // Before the builtin of GFX11 and GFX12 Clang 19 waits for all memory, and its fences alone not always for LDS.
    asm volatile("s_waitcnt lgkmcnt(0)\n\ts_barrier" ::: "memory");
#elif defined(__GFX12__)
    asm volatile("s_wait_dscnt 0x0\n\ts_barrier_signal -1\n\ts_barrier_wait -1" ::: "memory");
#else
    __builtin_amdgcn_s_barrier();
#endif
    LDS_FENCE(__ATOMIC_ACQUIRE, "workgroup");
}
// Writes to LDS by the lanes of a wavefront are there for its lanes after it, which only the compiler must be told.
__device__ __forceinline__ void wave_fence() {
    LDS_FENCE(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    LDS_FENCE(__ATOMIC_ACQUIRE, "wavefront");
}
// Likewise writes to any memory.
__device__ __forceinline__ void wave_memory_fence() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

// Four of the bytes of a (0 to 3) and b (4 to 7), by a selector that says which, the lowest first.
constexpr uint32_t byte_selector(uint32_t b0, uint32_t b1, uint32_t b2, uint32_t b3) {
    return b0 | b1 << 8 | b2 << 16 | b3 << 24;
}
__device__ __forceinline__ uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selector) {
    return __builtin_amdgcn_perm(b, a, selector);
}

// From here on the compiler knows nothing of a value: nothing that makes it moves past this, nor reads of LDS before
// it.
template <class V> __device__ __forceinline__ void opt_barrier_ordered(V &value) {
    asm volatile("" : "+v"(value)::"memory");
}
// An ordered barrier of a value that all lanes share.
__device__ __forceinline__ void opt_barrier_ordered_uniform(uint32_t &value) { asm volatile("" : "+s"(value)); }

// Bytes of LDS that a kernel may have of its own.
static constexpr int LDS_MOST = 64 << 10;
#else
__device__ __forceinline__ void lds_barrier() { __syncthreads(); }
__device__ __forceinline__ void wave_fence() { __nvvm_bar_warp_sync(~0u); }
__device__ __forceinline__ void wave_memory_fence() { __nvvm_bar_warp_sync(~0u); }

constexpr uint32_t byte_selector(uint32_t b0, uint32_t b1, uint32_t b2, uint32_t b3) {
    return b0 | b1 << 4 | b2 << 8 | b3 << 12;
}
__device__ __forceinline__ uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selector) {
    return __nvvm_prmt(a, b, selector);
}

// The assembler decides what it holds in registers.
template <class V> __device__ __forceinline__ void opt_barrier_ordered(V &) {}
__device__ __forceinline__ void opt_barrier_ordered_uniform(uint32_t &) {}

static constexpr int LDS_MOST = 48 << 10;

// Copies from global memory straight to LDS: cp.async. What was asked for since the last end of a batch is a batch, and
// batches end in their order. After a wait a barrier makes what arrived known to the other waves.
#if __CUDA_ARCH__ >= 800
#define LDS_COPIES
// 16 bytes, if they are `wanted`.
__device__ __forceinline__ void copy_to_lds(LdsBytes to, const void *from, bool wanted) {
    asm volatile("{\n\t.reg .pred wanted;\n\t"
                 "setp.ne.u32 wanted, %2, 0;\n\t"
                 "@wanted cp.async.cg.shared.global.L2::128B [%0], [%1], 16;\n\t}"
                 :
                 : "r"(lds_address(to)), "l"((const __attribute__((address_space(1))) void *)from),
                   "r"((uint32_t)wanted)
                 : "memory");
}
// Copies 16 bytes, or writes zeros if they are not `wanted`.
__device__ __forceinline__ void copy_or_clear(LdsBytes to, const void *from, bool wanted) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
                 :
                 : "r"(lds_address(to)), "l"((const __attribute__((address_space(1))) void *)from), "r"(wanted ? 16 : 0)
                 : "memory");
}
__device__ __forceinline__ void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most so many batches are on their way.
template <int BATCHES> __device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(BATCHES) : "memory");
}

// LDS that a launch asks for: more than the compiler may lay out.
extern __shared__ char dynamic_lds[] __attribute__((aligned(1024)));
#endif
#endif
