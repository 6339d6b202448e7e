// Finds the first elements of long rows in order, without sorting the rows: digit by digit from the highest on, the key
// of the last of them; then all elements with smaller keys, and of those with this key as many as are wanted.
#pragma once
#include "scan/before_tile.cuh"
#include "sort/long_rows.cuh"

// What is known of a row between two launches. All is 0 before the first one.
struct Selection {
    uint64_t key;            // the digits found, of the key that the last wanted element has
    uint32_t before;         // elements whose keys are smaller in these digits
    int32_t ended;           // workgroups that counted the next one
    uint32_t counts[DIGITS]; // elements of each of its values
};

// Finds the next digit. `parts` workgroups count a row together; the last to end looks where the element of number
// `kept` - 1 is. The digits found before are those above `shift` + 8.
template <class U>
__device__ __forceinline__ void find_digit(const U *__restrict__ source, Selection *selections, uint32_t columns,
                                           uint32_t kept, uint32_t parts, uint32_t shift, SortKeys<U> keys) {
    constexpr uint32_t TOGETHER = 8;
    __shared__ DigitCounts lds;
    __shared__ uint32_t sums[SUM_BYTES / 4];
    __shared__ int32_t ended;
    uint32_t row = blockIdx.x / parts, part = blockIdx.x - row * parts;
    Selection &selection = selections[row];
    uint64_t above = selection.key;
    const U *from = source + (size_t)row * columns;
    lds.clear();
    // Whole tiles, one after the other.
    for (uint32_t first = part * TOGETHER * TILE_THREADS; first < columns; first += parts * TOGETHER * TILE_THREADS) {
        U found[TOGETHER];
#pragma unroll
        for (uint32_t i = 0; i < TOGETHER; i++) {
            uint32_t place = first + i * TILE_THREADS + threadIdx.x;
            found[i] = place < columns ? from[place] : (U)0;
        }
#pragma unroll
        for (uint32_t i = 0; i < TOGETHER; i++) {
            uint64_t digits = (uint64_t)keys.of(found[i]) >> shift;
            bool is_there = first + i * TILE_THREADS + threadIdx.x < columns;
            if (is_there && digits >> 8 == above) lds.add((uint32_t)digits & (DIGITS - 1));
        }
    }
    uint32_t count = lds.of_thread();
    if (count > 0) device_atomic::add(selection.counts + threadIdx.x, count);
    if (!ends_last(&selection.ended, parts, ended)) return;
    count = (uint32_t)device_atomic::read((const int32_t *)selection.counts + threadIdx.x);
    SortGroup group{TILE_THREADS, threadIdx.x, nullptr, (LDS_MEMORY uint32_t *)sums};
    uint32_t start = selection.before + group.exclusive_sum(count);
    __syncthreads();
    selection.counts[threadIdx.x] = 0;
    if (start < kept && kept - start <= count) {
        selection.key = above << 8 | threadIdx.x;
        selection.before = start;
    }
}

// Writes the elements that were selected, and their columns, in the order in which they stand: first those with smaller
// keys. A workgroup has a tile; they leave each other their numbers in `words`.
template <class U>
__device__ __forceinline__ void take_selected(const U *__restrict__ source, const Selection *__restrict__ selections,
                                              int64_t *words, U *__restrict__ elements, uint32_t *__restrict__ taken,
                                              uint32_t columns, uint32_t kept, uint32_t of_group, SortKeys<U> keys) {
    constexpr uint32_t WAVES = TILE_THREADS / WAVEFRONT;
    __shared__ uint64_t of_wave[WAVES];
    SortTile tile(columns);
    const Selection &selection = selections[tile.row];
    U last = (U)selection.key;
    uint32_t wave = uniform(threadIdx.x / WAVEFRONT), lane = lane_id();
    uint32_t first = wave * SORT_ITEMS * WAVEFRONT + lane;
    const U *from = source + tile.row * columns + tile.first;
    U found[SORT_ITEMS];
    // Numbers of smaller ones, in the upper half, and of equal ones: before each item, and of all.
    uint64_t before[SORT_ITEMS], all = 0;
    uint32_t smaller = 0, equal = 0; // bits: the items that are
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++) {
        uint32_t place = first + i * WAVEFRONT;
        found[i] = place < tile.count ? from[place] : (U)0;
    }
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++) {
        bool is_there = first + i * WAVEFRONT < tile.count;
        U key = keys.of(found[i]);
        smaller |= (uint32_t)(is_there && key < last) << i;
        equal |= (uint32_t)(is_there && key == last) << i;
        Lanes of_smaller = whole_wave_ballot(smaller >> i & 1), of_equal = whole_wave_ballot(equal >> i & 1);
        before[i] = all + ((uint64_t)lanes_before(of_smaller) << 32 | lanes_before(of_equal));
        all += (uint64_t)lanes_of(of_smaller) << 32 | (uint32_t)lanes_of(of_equal);
    }
    if (lane == 0) of_wave[wave] = all;
    __syncthreads();
    uint64_t earlier = 0, of_tile = 0;
#pragma unroll
    for (uint32_t w = 0; w < WAVES; w++) {
        if (w == wave) earlier = of_tile;
        of_tile += of_wave[w];
    }
    uint32_t tiles = ceil_div(columns, TILE);
    if (tiles > 1)
        earlier += sum_before_tile(TileSums<uint64_t>{words, tiles, of_group, 1}, tile.row, tile.tile, of_tile);
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++) {
        uint64_t places = earlier + before[i];
        uint32_t to = smaller >> i & 1 ? (uint32_t)(places >> 32) : selection.before + (uint32_t)places;
        if (!((smaller | equal) >> i & 1) || to >= kept) continue;
        elements[tile.row * kept + to] = found[i];
        taken[tile.row * kept + to] = tile.first + first + i * WAVEFRONT;
    }
}
