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

// Sums that one workgroup leaves for another of the launch, which waits for them: no barrier, no counter, and no release,
// since each word says by itself whether it is there. Its bits are all set where it is not, before a launch and after it.
// Workgroups begin in the grid's order: what waits for those before it alone will come to its end.
template <class Sum> struct LeftSum {
    using Word = typename conditional<sizeof(Sum) == 8, int64_t, int32_t>::type;

    // As many bits set are no sum's: what is none of a number gets others.
    static __device__ __forceinline__ void leave(GLOBAL_MEMORY Sum *at, Sum sum) {
        Word word = bit_cast<Word>(sum);
        device_atomic::write((Word *)at, word == NOTHING ? word ^ 1 : word);
    }
    // COUNT of them, or none if one is not there yet.
    template <int COUNT>
    static __device__ __forceinline__ bool take(GLOBAL_MEMORY Sum *const (&at)[COUNT], Sum (&sums)[COUNT]) {
        Word words[COUNT];
        bool all = true;
#pragma unroll
        for (int i = 0; i < COUNT; i++) words[i] = at[i] ? device_atomic::read((const Word *)at[i]) : 0;
#pragma unroll
        for (int i = 0; i < COUNT; i++) all &= words[i] != NOTHING;
        if (!all) return false;
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            if (at[i]) device_atomic::write((Word *)at[i], NOTHING);
            sums[i] = bit_cast<Sum>(words[i]);
        }
        return true;
    }

private:
    static constexpr Word NOTHING = -1;
};
