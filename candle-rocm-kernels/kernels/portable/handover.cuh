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
struct GridPlace {
    uint32_t x, y, z;
#if defined(__HIP__)
    __device__ __forceinline__ GridPlace() : x(blockIdx.x), y(blockIdx.y), z(blockIdx.z) {}
#else
    __device__ __forceinline__ GridPlace() {
        asm volatile("mov.u32 %0, %%ctaid.x; mov.u32 %1, %%ctaid.y; mov.u32 %2, %%ctaid.z;"
                     : "=r"(x), "=r"(y), "=r"(z));
    }
#endif
};

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
