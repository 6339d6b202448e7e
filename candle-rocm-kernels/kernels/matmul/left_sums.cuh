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

// The same of a lane's COUNT floats, four at a time, which is how those of all lanes of a wavefront of so many lie.
template <int COUNT, int LANES> struct LeftFloats {
    // Those of a lane that are on their way at a time, of so many parts.
    static constexpr int AT_ONCE = COUNT == 64 ? 64 : COUNT % 32 == 0 ? 32 : 16, PARTS = max_of(48 / AT_ONCE, 1);
    static_assert(COUNT % AT_ONCE == 0, "some at a time");

    static __device__ __forceinline__ void leave(const HandoverMemory &memory, uint32_t at,
                                                 const float (&sums)[COUNT]) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4) {
            HandedWords words;
#pragma unroll
            for (int e = 0; e < 4; e++) words[e] = min_of(bit_cast<uint32_t>(sums[i + e]), NOTHING - 1);
            memory.write(at, lane_id() * 16, i * 4 * LANES, words);
        }
    }
    // Waits for those of so many parts, `plane` bytes from each other, and adds them to others, one part after another.
    static __device__ __forceinline__ void add(float (&sums)[COUNT], void *memory, uint32_t at, uint32_t plane,
                                               uint32_t parts) {
#pragma unroll
        for (int first = 0; first < COUNT; first += AT_ONCE)
#pragma unroll 1
            for (uint32_t part = 0; part < parts; part += PARTS)
                add_at_once(sums + first, memory, at + part * plane, first * 4 * LANES, plane, parts - part);
    }

private:
    static constexpr uint32_t NOTHING = 0xffffffff;

    // FEW of as many parts as there are, at most PARTS.
    static __device__ __forceinline__ void add_at_once(float *sums, void *memory, uint32_t at, int first,
                                                       uint32_t plane, uint32_t parts) {
        HandedWords words[PARTS][AT_ONCE / 4];
        auto each = [&](auto f) INLINED {
#pragma unroll
            for (int part = 0; part < PARTS; part++) {
                HandoverMemory of_part(memory, part == 0 || (uint32_t)part < parts);
#pragma unroll
                for (int i = 0; i < AT_ONCE; i += 4)
                    f(of_part, at + part * plane, first + i * 4 * LANES, words[part][i / 4]);
            }
        };
        uint32_t largest, lane = lane_id() * 16;
        do {
            // Anew in each round, and with offsets that are constants.
            opaque(lane);
            each([&](const HandoverMemory &part, uint32_t from, int constant, HandedWords &words)
                     INLINED { words = part.read(from, lane, constant); });
            largest = 0;
#pragma unroll
            for (int part = 0; part < PARTS; part++)
#pragma unroll
                for (int i = 0; i < AT_ONCE; i++) largest = max_of(largest, words[part][i / 4][i % 4]);
        } while (__builtin_expect(largest == NOTHING, 0));
        each([&](const HandoverMemory &part, uint32_t to, int constant, HandedWords &)
                 INLINED { part.write(to, lane, constant, HandedWords(NOTHING)); });
#pragma unroll
        for (int part = 0; part < PARTS; part++)
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) sums[i] += bit_cast<float>(words[part][i / 4][i % 4]);
    }
};
