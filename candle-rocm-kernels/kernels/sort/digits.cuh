// Where a stable sort by one digit of their keys, of 8 bits, puts the elements of some wavefronts.
//
// A wavefront's elements are numbered by items, then by lanes: element i * WAVEFRONT + lane is item i of the lane. Each
// wavefront counts its elements of each digit, item by item, which gives each element its rank among those; then the
// counts are scanned, by digits first and by wavefronts second.
#pragma once
#include "portable/lanes.cuh"

constexpr uint32_t DIGITS = 256;
// Elements of a lane at most.
constexpr int SORT_ITEMS = 16;
// A wavefront's counters: 16 bits each, which hold as many elements as a workgroup sorts.
constexpr uint32_t COUNTER_BYTES = DIGITS * 2;
// Room for a sum of each wavefront.
constexpr uint32_t SUM_BYTES = 64;

typedef uint16_t __attribute__((may_alias)) SortCounter;

// Wavefronts of a workgroup that sort together: one by itself, or all.
struct SortGroup {
    uint32_t threads, thread;
    LDS_MEMORY char *counters; // COUNTER_BYTES for each wavefront
    LDS_MEMORY uint32_t *sums; // SUM_BYTES

    __device__ __forceinline__ uint32_t waves() const { return threads / WAVEFRONT; }
    __device__ __forceinline__ uint32_t wave() const { return uniform(thread / WAVEFRONT); }
    __device__ __forceinline__ uint32_t lane() const { return thread % WAVEFRONT; }

    // What the group wrote to LDS is there for all of it.
    __device__ __forceinline__ void sync() const {
        if (threads == WAVEFRONT) wave_fence();
        else lds_barrier();
    }
    __device__ __forceinline__ LDS_MEMORY SortCounter &counter(uint32_t wave, uint32_t digit) const {
        return ((LDS_MEMORY SortCounter *)(counters + wave * COUNTER_BYTES))[digit];
    }
    __device__ __forceinline__ LDS_MEMORY int32_t *words() const {
        return (LDS_MEMORY int32_t *)(counters + wave() * COUNTER_BYTES);
    }
    // This wavefront's counters are 0.
    __device__ __forceinline__ void clear() const {
        for (uint32_t w = lane(); w < DIGITS / 2; w += WAVEFRONT) words()[w] = 0;
        wave_fence();
    }

    // The sum of the values of the group's threads before one's own. All sync once; `sums` may be written again after
    // the next sync.
    __device__ __forceinline__ uint32_t exclusive_sum(uint32_t value) const {
        uint32_t sum = wave_inclusive_sum(value), before = sum - value;
        if (threads > WAVEFRONT) {
            if (lane() == WAVEFRONT - 1) sums[wave()] = sum;
            sync();
            for (uint32_t w = 0; w < wave(); w++) before += sums[w];
        }
        return before;
    }

    // Each counter becomes the place of the wavefront's first element of the digit.
    __device__ __forceinline__ void scan() const {
        uint32_t each = max_of(DIGITS / threads, 1u), first = min_of(thread * each, DIGITS);
        uint32_t end = min_of(first + each, DIGITS), own = 0;
        sync();
        for (uint32_t d = first; d < end; d++)
            for (uint32_t w = 0; w < waves(); w++) own += counter(w, d);
        uint32_t place = exclusive_sum(own);
        for (uint32_t d = first; d < end; d++)
            for (uint32_t w = 0; w < waves(); w++) {
                uint32_t count = counter(w, d);
                counter(w, d) = (SortCounter)place;
                place += count;
            }
        sync();
    }
};

// The lanes that have the same digit as one's own.
__device__ __forceinline__ Lanes lanes_alike(uint32_t digit) {
    uint32_t others = 0, upper_others = 0;
#pragma unroll
    for (uint32_t bit = 0; bit < 8; bit++) {
        // All ones or zeros, as the bit is: what differs from it is of lanes that have the other bit.
        uint32_t own = (uint32_t)((int32_t)(digit << (31 - bit)) >> 31);
        uint64_t votes = whole_wave_ballot(own != 0);
        others |= (uint32_t)votes ^ own;
        if constexpr (WAVEFRONT == 64) upper_others |= (uint32_t)(votes >> 32) ^ own;
    }
    return (Lanes) ~((uint64_t)upper_others << 32 | others);
}

// The rank of each item among those of the wavefront with the same digit, which the lowest byte of `items` is. Counters
// are 0 before, and the numbers of elements after. `is_there(i)` is alike in all lanes.
template <class IsThere>
__device__ __forceinline__ void rank_items(const SortGroup &group, const uint32_t (&items)[SORT_ITEMS],
                                           uint32_t (&ranks)[SORT_ITEMS], IsThere is_there) {
    uint32_t earlier[SORT_ITEMS];
    // The first of the lanes alike counts them all. Nothing waits for what was counted before until all items are.
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++) {
        ranks[i] = earlier[i] = 0;
        if (!is_there(i)) continue;
        uint32_t digit = items[i] & (DIGITS - 1);
        Lanes alike = lanes_alike(digit);
        uint32_t before = lanes_before(alike);
        if (before == 0) earlier[i] = lds_fetch_add(group.words() + digit / 2, lanes_of(alike) << digit % 2 * 16);
        wave_fence();
        ranks[i] = before | first_of(alike) << 16;
    }
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++) {
        if (!is_there(i)) continue;
        uint32_t counted = shfl(earlier[i], ranks[i] >> 16, (uint32_t)WAVEFRONT);
        ranks[i] = (ranks[i] & 0xffff) + (counted >> items[i] % 2 * 16 & 0xffff);
    }
}
