// What scans are made of: the type in which elements are summed, and sums that workgroups of a launch leave each other.
#pragma once
#include "portable/convert.cuh"
#include "portable/lanes.cuh"
#include "portable/workspace.cuh"

// Elements are summed as their compute type, integers as unsigned ones, which wrap around.
template <class T> struct scan_sum {
    using integer = typename conditional<sizeof(T) == 8, uint64_t, uint32_t>::type;
    using type = typename conditional<is_float<T>::value, compute_t<T>, integer>::type;
};
template <class T> using scan_sum_t = typename scan_sum<T>::type;

template <class T> __device__ __forceinline__ scan_sum_t<T> to_sum(T value) {
    if constexpr (is_float<T>::value) return upcast(value);
    else return (scan_sum_t<T>)value;
}
template <class T> __device__ __forceinline__ T of_sum(scan_sum_t<T> sum) {
    if constexpr (is_float<T>::value) return round_to<T>(sum);
    else return (T)sum;
}

// Inclusive sums over the lanes of groups of `group` neighbours, of those `step`, 2 `step`... lanes apart, of several
// values of each lane: a step of all of them at a time, so that no exchange between lanes waits for another's.
template <class T, int N>
__device__ __forceinline__ void inclusive_sums_of_lanes(T (&values)[N], uint32_t step, uint32_t group) {
    uint32_t lane = lane_id() & (group - 1);
#pragma unroll 1
    for (; step < group; step *= 2)
#pragma unroll
        for (int n = 0; n < N; n++) {
            T other = shfl_up(values[n], step, group);
            if (lane >= step) values[n] = values[n] + other;
        }
}

// A sum that one workgroup leaves for others of the launch, which wait for it: words of 64 bits, each with 32 bits of
// the sum and one that says that they are there. All are 0 before the launch. Workgroups begin in the grid's order:
// what waits for those before it alone will come to its end.
template <class Sum> struct LeftSum {
    static constexpr int WORDS = sizeof(Sum) / 4;

    static __device__ __forceinline__ void leave(int64_t *at, Sum sum) {
        uint32_t halves[WORDS];
        __builtin_memcpy(halves, &sum, sizeof(Sum));
#pragma unroll
        for (int i = 0; i < WORDS; i++) device_atomic::write(at + i, (int64_t)((uint64_t)1 << 32 | halves[i]));
    }
    static __device__ __forceinline__ Sum wait(const int64_t *at) {
        Sum sum[1];
        wait_all(at, 1, sum);
        return sum[0];
    }
    // N sums one after another, of which there are `there` and one at least: all are asked for at once.
    template <int N>
    static __device__ __forceinline__ void wait_all(const int64_t *at, uint32_t there, Sum (&sums)[N]) {
        uint32_t halves[N][WORDS];
        bool waits;
        do {
            waits = false;
            int64_t word[N][WORDS];
#pragma unroll
            for (int n = 0; n < N; n++)
#pragma unroll
                for (int i = 0; i < WORDS; i++)
                    word[n][i] = device_atomic::read(at + min_of((uint32_t)n, there - 1) * WORDS + i);
#pragma unroll
            for (int n = 0; n < N; n++)
#pragma unroll
                for (int i = 0; i < WORDS; i++) {
                    waits = waits || word[n][i] >> 32 == 0;
                    halves[n][i] = (uint32_t)word[n][i];
                }
        } while (waits);
#pragma unroll
        for (int n = 0; n < N; n++) __builtin_memcpy(&sums[n], halves[n], sizeof(Sum));
    }
};

// Where the sums of a scan of several tiles are: each tile's own, then those of each whole group of tiles. A tile waits
// for its group's tiles before it and for the groups before, which wait for no more than their tiles: no chain.
template <class Sum> struct TileSums {
    int64_t *words;
    // Tiles of a scan and of a group, and sums of a tile, one for each of its scans side by side.
    uint32_t tiles, of_group;
    size_t of_tile;

    __device__ __forceinline__ uint32_t group(uint32_t tile) const { return tile / of_group; }
    __device__ __forceinline__ bool ends_group(uint32_t tile) const { return tile % of_group == of_group - 1; }
    // The words of a scan's tile, or of its group, of the scans of number `outer`.
    __device__ __forceinline__ int64_t *of(size_t outer, uint32_t tile, size_t scan) const {
        size_t each = tiles + tiles / of_group;
        return words + ((outer * each + tile) * of_tile + scan) * LeftSum<Sum>::WORDS;
    }
    __device__ __forceinline__ int64_t *of_whole(size_t outer, uint32_t group, size_t scan) const {
        return of(outer, tiles + group, scan);
    }
};

// 16 bytes of elements as a lane holds them: words, where the compiler would give each element of 16 bits a register.
using HeldElements = WordVector<4>::type;

// Elements are added up a second time rather than that all of their sums are kept, which are as many registers for each
// byte as an element has. `number` is below 2^31, which the assembler does not know.
template <int N> __device__ __forceinline__ void opt_barrier_held(HeldElements (&elements)[N], uint32_t number) {
#pragma unroll
    for (int n = 0; n < N; n++) opt_barrier_words(elements[n], number >> 31);
}

// Vectors of 16 bytes of one scan that a lane holds at once, and rows of a strip's columns.
template <class T> constexpr int SCAN_VECTORS = min_of(8, 64 / VEC16<T>);
template <class T> constexpr int COLUMN_ROWS = sizeof(T) == 2 ? 16 : 8;
constexpr uint32_t SCAN_THREADS = 256;
// Bits of a number that the host gives (scan.rs).
constexpr uint32_t SCAN_REVERSED = 1, SCAN_WIDE = 2;
