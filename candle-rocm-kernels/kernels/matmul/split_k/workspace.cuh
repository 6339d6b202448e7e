// Split-K in one launch: who adds up the splits, and their sums from one workgroup to another.
#pragma once
#include "matmul/gemm_problem.cuh"
#include "portable/workspace.cuh"

// What adds up the sums of splits of k: another launch, or the last split's workgroups.
enum class SplitK { SeparateKernel, InKernel };

// Sums that one workgroup leaves for another of the launch, which waits for them: no barrier, no counter, and no
// release, since each word says by itself whether it is there. Its bits are all set where it is not, before a launch
// and after it. Workgroups begin in the grid's order: what waits for those before it alone will come to its end.
template <class Sum> struct SplitKSum {
    using Word = typename conditional<sizeof(Sum) == 8, int64_t, int32_t>::type;

    // All ones mark a word that is not yet written. A NaN with that payload is stored with another payload.
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

// A lane's COUNT floats, four at a time: so those of all lanes of a wavefront of LANES lie.
template <int COUNT, int LANES> struct SplitKFloats {
    // Those of a lane that are on their way at a time, of so many splits.
    static constexpr int AT_ONCE = COUNT == 64 ? 64 : COUNT % 32 == 0 ? 32 : 16, SPLITS = max_of(48 / AT_ONCE, 1);
    static_assert(COUNT % AT_ONCE == 0, "some at a time");

    static __device__ __forceinline__ void leave(const WorkspaceMemory &memory, uint32_t at,
                                                 const float (&sums)[COUNT]) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4) {
            WorkspaceWords words;
#pragma unroll
            for (int e = 0; e < 4; e++) words[e] = min_of(bit_cast<uint32_t>(sums[i + e]), NOTHING - 1);
            memory.write(at, lane_id() * 16, i * 4 * LANES, words);
        }
    }
    // Waits for those of so many splits, `plane` bytes from each other, and adds them to others, one split after
    // another.
    static __device__ __forceinline__ void add(float (&sums)[COUNT], void *memory, uint32_t at, uint32_t plane,
                                               uint32_t splits) {
#pragma unroll
        for (int first = 0; first < COUNT; first += AT_ONCE)
#pragma unroll 1
            for (uint32_t split = 0; split < splits; split += SPLITS)
                add_at_once(sums + first, memory, at + split * plane, first * 4 * LANES, plane, splits - split);
    }

private:
    static constexpr uint32_t NOTHING = 0xffffffff;

    // FEW of as many parts as there are, at most PARTS.
    static __device__ __forceinline__ void add_at_once(float *sums, void *memory, uint32_t at, int first,
                                                       uint32_t plane, uint32_t splits) {
        WorkspaceWords words[SPLITS][AT_ONCE / 4];
        auto each = [&](auto f) INLINED {
#pragma unroll
            for (int split = 0; split < SPLITS; split++) {
                WorkspaceMemory of_split(memory, split == 0 || (uint32_t)split < splits);
#pragma unroll
                for (int i = 0; i < AT_ONCE; i += 4)
                    f(of_split, at + split * plane, first + i * 4 * LANES, words[split][i / 4]);
            }
        };
        uint32_t largest, lane = lane_id() * 16;
        do {
            // Anew in each round, and with offsets that are constants.
            opt_barrier_value(lane);
            each([&](const WorkspaceMemory &split, uint32_t from, int constant, WorkspaceWords &words)
                     INLINED { words = split.read(from, lane, constant); });
            largest = 0;
#pragma unroll
            for (int split = 0; split < SPLITS; split++)
#pragma unroll
                for (int i = 0; i < AT_ONCE; i++) largest = max_of(largest, words[split][i / 4][i % 4]);
        } while (__builtin_expect(largest == NOTHING, 0));
        each([&](const WorkspaceMemory &split, uint32_t to, int constant, WorkspaceWords &)
                 INLINED { split.write(to, lane, constant, WorkspaceWords(NOTHING)); });
#pragma unroll
        for (int split = 0; split < SPLITS; split++)
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) sums[i] += bit_cast<float>(words[split][i / 4][i % 4]);
    }
};
