// Sums of parts of k, from one workgroup of a launch to another.
#pragma once
#include "matmul/gemm_problem.cuh"
#include "portable/handover.cuh"

// Sums that one workgroup leaves for another of the launch, which waits for them: no barrier, no counter, and no
// release, since each word says by itself whether it is there. Its bits are all set where it is not, before a launch
// and after it. Workgroups begin in the grid's order: what waits for those before it alone will come to its end.
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
