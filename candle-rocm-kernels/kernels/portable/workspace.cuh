// One workgroup's results in another's hands, within a launch.
#pragma once
#include "portable/portable.cuh"

namespace device_atomic {
#if defined(__HIP__)
__device__ __forceinline__ void publish() { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent"); }
__device__ __forceinline__ void observe() { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent"); }
__device__ __forceinline__ int32_t add_one_released(int32_t *at) { return add_one(at); }
#else
// The barrier hands all writes of the workgroup to the one work-item that releases them. A fence, which acquires as
// well, would empty the first cache for all others.
__device__ __forceinline__ void publish() {}
__device__ __forceinline__ void observe() { asm volatile("fence.acq_rel.gpu;" : : : "memory"); }
__device__ __forceinline__ int32_t add_one_released(int32_t *at) {
    int32_t before;
    asm volatile("atom.add.release.gpu.s32 %0, [%1], 1;" : "=r"(before) : "l"(at) : "memory");
    return before;
}
#endif
} // namespace device_atomic

// The workgroup's place in the grid. NVIDIA's is read anew, so that no register holds it from earlier on.
struct GridIndex {
    uint32_t x, y, z;
#if defined(__HIP__)
    __device__ __forceinline__ GridIndex() : x(blockIdx.x), y(blockIdx.y), z(blockIdx.z) {}
#else
    __device__ __forceinline__ GridIndex() {
        asm volatile("mov.u32 %0, %%ctaid.x; mov.u32 %1, %%ctaid.y; mov.u32 %2, %%ctaid.z;"
                     : "=r"(x), "=r"(y), "=r"(z));
    }
#endif
};

// Memory from an address on that is the same in all lanes, of at most 4 GiB, through which workgroups of a launch hand
// words over: four at a time, each moved at once, past the caches that they do not share. They are at a lane's offset
// of bytes, after one that is the same in all lanes, and a constant. Of memory that is not there zeros are read, and
// nothing is written, without a branch where the hardware has bounds.
typedef uint32_t WorkspaceWords __attribute__((ext_vector_type(4)));
#if defined(__HIP__) && __has_builtin(__builtin_amdgcn_raw_buffer_load_b128)
class WorkspaceMemory {
    // Raw buffers' format and bounds, and the bits of the memory model of LLVM's AMDGPUUsage, for the device's scope.
#if defined(__GFX9__)
    static constexpr int FORMAT = 0x00020000;
#elif defined(__GFX10__)
    static constexpr int FORMAT = 0x31014000;
#else
    static constexpr int FORMAT = 0x31004000;
#endif
#if (defined(AMD_MFMA) && AMD_MFMA > 2) || defined(__GFX12__)
    static constexpr int LOADS = 16, STORES = 16;
#elif defined(__GFX10__)
    static constexpr int LOADS = 5, STORES = 0;
#else
    static constexpr int LOADS = 1, STORES = 0;
#endif
    __amdgpu_buffer_rsrc_t memory;

public:
    __device__ __forceinline__ explicit WorkspaceMemory(void *at, bool is_there = true)
        : memory(__builtin_amdgcn_make_buffer_rsrc(at, 0, (int)uniform(is_there ? ~0u : 0), FORMAT)) {}
    __device__ __forceinline__ WorkspaceWords read(uint32_t uniform, uint32_t lane, int constant) const {
        return __builtin_amdgcn_raw_buffer_load_b128(memory, lane + constant, uniform, LOADS);
    }
    __device__ __forceinline__ void write(uint32_t uniform, uint32_t lane, int constant, WorkspaceWords words) const {
        __builtin_amdgcn_raw_buffer_store_b128(words, memory, lane + constant, uniform, STORES);
    }
};
#else
class WorkspaceMemory {
    char *memory;
    bool is_there;

public:
    __device__ __forceinline__ explicit WorkspaceMemory(void *at, bool is_there = true)
        : memory((char *)at), is_there(is_there) {}
#if defined(__HIP__)
    // clang 18 and older.
    __device__ __forceinline__ WorkspaceWords read(uint32_t uniform, uint32_t lane, int constant) const {
        WorkspaceWords words = {};
#pragma unroll
        for (int i = 0; i < 4 && is_there; i++)
            words[i] = device_atomic::read((const int32_t *)(memory + uniform + lane + constant) + i);
        return words;
    }
    __device__ __forceinline__ void write(uint32_t uniform, uint32_t lane, int constant, WorkspaceWords words) const {
#pragma unroll
        for (int i = 0; i < 4 && is_there; i++)
            device_atomic::write((int32_t *)(memory + uniform + lane + constant) + i, (int32_t)words[i]);
    }
#else
    __device__ __forceinline__ WorkspaceWords read(uint32_t uniform, uint32_t lane, int constant) const {
        uint32_t x, y, z, w;
        if (!is_there) return {};
        asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(x), "=r"(y), "=r"(z), "=r"(w)
                     : "l"((const __attribute__((address_space(1))) char *)memory + uniform + lane + constant)
                     : "memory");
        return {x, y, z, w};
    }
    __device__ __forceinline__ void write(uint32_t uniform, uint32_t lane, int constant, WorkspaceWords words) const {
        if (!is_there) return;
        asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};"
                     :
                     : "l"((__attribute__((address_space(1))) char *)memory + uniform + lane + constant), "r"(words[0]),
                       "r"(words[1]), "r"(words[2]), "r"(words[3])
                     : "memory");
    }
#endif
};
#endif

// Whether the workgroup ends last of the `count` that call this with one counter: it then reads what they wrote before.
// The counter is 0 before, and 0 again after. `ended` is in LDS.
__device__ __forceinline__ bool ends_last(int32_t *counter, uint32_t count, int32_t &ended) {
    device_atomic::publish();
    __syncthreads();
    if (threadIdx.x == 0) ended = device_atomic::add_one_released(counter);
    __syncthreads();
    if (ended != (int32_t)count - 1) return false;
    device_atomic::observe();
    if (threadIdx.x == 0) device_atomic::write(counter, 0);
    return true;
}
