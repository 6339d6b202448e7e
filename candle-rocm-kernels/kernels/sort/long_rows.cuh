// Sorts rows that fit no workgroup, by one digit of their keys at a time, in three launches: each tile's elements of
// each digit are counted; the counts are scanned; each tile's elements are sorted and moved to their places.
#pragma once
#include "sort/digits.cuh"
#include "sort/keys.cuh"

constexpr uint32_t TILE_THREADS = 256, TILE = TILE_THREADS * SORT_ITEMS;
// Tiles whose counts one workgroup scans.
constexpr uint32_t CHUNK = 64;
static_assert(TILE_THREADS == DIGITS, "a thread has a digit");

// How many elements a workgroup found of each digit, of which a thread has one: several counters each, so that the
// lanes of a wavefront that find the same digit do not all queue for one.
struct DigitCounts {
    static constexpr uint32_t COPIES = 4;
    int32_t counters[DIGITS * COPIES];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (uint32_t c = 0; c < COPIES; c++) counters[threadIdx.x + c * DIGITS] = 0;
        lds_barrier();
    }
    __device__ __forceinline__ void add(uint32_t digit) {
        lds_add((LDS_MEMORY int32_t *)counters + digit * COPIES + threadIdx.x % COPIES, 1);
    }
    // Those of the thread's digit, once all are counted.
    __device__ __forceinline__ uint32_t of_thread() {
        uint32_t sum = 0;
        lds_barrier();
#pragma unroll
        for (uint32_t c = 0; c < COPIES; c++) sum += counters[threadIdx.x * COPIES + c];
        return sum;
    }
};

// A workgroup's tile: its number, its row's, and its elements of that.
struct SortTile {
    size_t row;
    uint32_t tile, first, count;

    __device__ __forceinline__ SortTile(uint32_t columns) {
        uint32_t of_row = ceil_div(columns, TILE);
        row = blockIdx.x / of_row;
        tile = blockIdx.x - (uint32_t)row * of_row;
        first = tile * TILE;
        count = min_of(columns - first, TILE);
    }
    // Where the chunk of tiles stands in whose scan the tile is.
    __device__ __forceinline__ size_t chunk(uint32_t columns) const {
        return row * ceil_div(ceil_div(columns, TILE), CHUNK) + tile / CHUNK;
    }
};

// Counts a tile's elements of each digit, which `counts` gets for each tile.
template <class U>
__device__ __forceinline__ void count_tile(const U *__restrict__ source, uint32_t *__restrict__ counts,
                                           uint32_t columns, uint32_t shift, SortKeys<U> keys) {
    __shared__ DigitCounts lds;
    SortTile tile(columns);
    const U *from = source + tile.row * columns + tile.first;
    lds.clear();
    U found[SORT_ITEMS];
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++) {
        uint32_t place = i * TILE_THREADS + threadIdx.x;
        found[i] = place < tile.count ? from[place] : (U)0;
    }
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++)
        if (i * TILE_THREADS + threadIdx.x < tile.count) lds.add((uint32_t)(keys.of(found[i]) >> shift) & (DIGITS - 1));
    counts[(size_t)blockIdx.x * DIGITS + threadIdx.x] = lds.of_thread();
}

// Scans the counts of a chunk of tiles, digit by digit: each becomes that of the chunk's tiles before. `starts` gets
// the chunk's, or, of a row of one chunk, where its digits begin.
__device__ __forceinline__ void scan_tiles(uint32_t *__restrict__ counts, uint32_t *__restrict__ starts,
                                           uint32_t columns) {
    __shared__ uint32_t lds[SUM_BYTES / 4];
    uint32_t tiles = ceil_div(columns, TILE), chunks = ceil_div(tiles, CHUNK), row = blockIdx.x / chunks;
    uint32_t first = (blockIdx.x - row * chunks) * CHUNK, end = min_of(first + CHUNK, tiles), sum = 0;
    uint32_t *at = counts + (size_t)row * tiles * DIGITS + threadIdx.x;
    constexpr uint32_t TOGETHER = 8;
    for (uint32_t tile = first; tile < end; tile += TOGETHER) {
        uint32_t here[TOGETHER];
#pragma unroll
        for (uint32_t t = 0; t < TOGETHER; t++) here[t] = tile + t < end ? at[(size_t)(tile + t) * DIGITS] : 0;
#pragma unroll
        for (uint32_t t = 0; t < TOGETHER; t++) {
            if (tile + t < end) at[(size_t)(tile + t) * DIGITS] = sum;
            sum += here[t];
        }
    }
    if (chunks == 1) {
        SortGroup group{TILE_THREADS, threadIdx.x, nullptr, (LDS_MEMORY uint32_t *)lds};
        sum = group.exclusive_sum(sum);
    }
    starts[(size_t)blockIdx.x * DIGITS + threadIdx.x] = sum;
}

// Turns a row's chunks' counts into the places where the digits of each begin.
__device__ __forceinline__ void scan_chunks(uint32_t *starts, uint32_t chunks) {
    __shared__ uint32_t lds[SUM_BYTES / 4];
    uint32_t *at = starts + (size_t)blockIdx.x * chunks * DIGITS + threadIdx.x, sum = 0;
#pragma unroll 8
    for (uint32_t c = 0; c < chunks; c++) sum += at[(size_t)c * DIGITS];
    SortGroup group{TILE_THREADS, threadIdx.x, nullptr, (LDS_MEMORY uint32_t *)lds};
    uint32_t place = group.exclusive_sum(sum);
#pragma unroll 8
    for (uint32_t c = 0; c < chunks; c++) {
        uint32_t count = at[(size_t)c * DIGITS];
        at[(size_t)c * DIGITS] = place;
        place += count;
    }
}

// What a launch that moves elements reads and writes; what is null is left out.
template <class U> struct SortMove {
    const U *from;          // elements or keys
    const uint32_t *index;  // their columns; null: as they stand
    U *keys;                // their keys in the digit's order
    uint32_t *columns;      // and their columns
    U *values;              // and the elements
    const U *elements;      // of the row as given, for those whose keys do not say them
    const uint32_t *counts; // as scan_tiles leaves them
    const uint32_t *starts;
};

// Writes a tile's keys, which LDS has in their digit's order, and the elements that they say. `items` become their
// places in the row, all ones where there is none; `inexact` those below `kept` whose keys do not say the element.
template <class U>
__device__ __forceinline__ void move_keys(const SortMove<U> &move, const SortTile &tile, size_t base, uint32_t kept,
                                          uint32_t shift, SortKeys<U> final, const LDS_MEMORY U *of_keys,
                                          const uint32_t (&places)[DIGITS], uint32_t (&items)[SORT_ITEMS],
                                          bool (&inexact)[SORT_ITEMS]) {
    U keys[SORT_ITEMS];
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++) keys[i] = of_keys[i * TILE_THREADS + threadIdx.x];
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++) {
        uint32_t place = i * TILE_THREADS + threadIdx.x;
        items[i] = places[(uint32_t)(keys[i] >> shift) & (DIGITS - 1)] + place;
        if (place >= tile.count) items[i] = ~0u;
        inexact[i] = false;
    }
    if (move.keys != nullptr)
#pragma unroll
        for (int i = 0; i < SORT_ITEMS; i++)
            if (items[i] != ~0u) move.keys[base + items[i]] = keys[i];
    if (move.values != nullptr)
#pragma unroll
        for (int i = 0; i < SORT_ITEMS; i++) {
            if (items[i] >= kept) continue;
            inexact[i] = !final.is_exact(keys[i]);
            if (!inexact[i]) move.values[tile.row * kept + items[i]] = final.element(keys[i]);
        }
}

// Sorts a tile by a digit, and moves its elements to their places in the row. Of columns and elements the first `kept`
// are written, of a row of as many. `given` has the keys of what is read, `final` those of the elements.
template <class U>
__device__ __forceinline__ void move_tile(const SortMove<U> &move, uint32_t columns, uint32_t kept, uint32_t shift,
                                          SortKeys<U> given, SortKeys<U> final) {
    __shared__ char exchange[TILE * (sizeof(U) > 4 ? sizeof(U) : 4)] __attribute__((aligned(16)));
    __shared__ uint32_t counters[TILE_THREADS / WAVEFRONT * COUNTER_BYTES / 4], sums[SUM_BYTES / 4], places[DIGITS];
    SortGroup group{TILE_THREADS, threadIdx.x, (LDS_MEMORY char *)counters, (LDS_MEMORY uint32_t *)sums};
    SortTile tile(columns);
    size_t base = tile.row * columns;
    uint32_t start = move.starts[tile.chunk(columns) * DIGITS + threadIdx.x];
    start += move.counts[(size_t)blockIdx.x * DIGITS + threadIdx.x];

    // Nothing is done to what is read before all of it is on its way.
    U keys[SORT_ITEMS];
    uint32_t items[SORT_ITEMS], ranks[SORT_ITEMS], first = group.wave() * SORT_ITEMS * WAVEFRONT + group.lane();
    const U *from = move.from + base + tile.first;
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++) keys[i] = from[min_of(first + i * WAVEFRONT, tile.count - 1)];
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++) {
        keys[i] = first + i * WAVEFRONT < tile.count ? given.of(keys[i]) : (U) ~(U)0;
        items[i] = (uint32_t)(keys[i] >> shift) & (DIGITS - 1);
    }
    group.clear();
    rank_items(group, items, ranks, [](int) INLINED { return true; });
    group.scan();
    // The scan leaves a digit's first place of the tile with the first wavefront.
    places[threadIdx.x] = start - group.counter(0, threadIdx.x);
    LDS_MEMORY U *of_keys = (LDS_MEMORY U *)exchange;
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++) ranks[i] += group.counter(group.wave(), items[i]);
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++) of_keys[ranks[i]] = keys[i];
    // Columns are on their way while keys are written.
    uint32_t moved[SORT_ITEMS];
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++) moved[i] = tile.first + first + i * WAVEFRONT;
    if (move.index != nullptr) {
        const uint32_t *index = move.index + base + tile.first;
#pragma unroll
        for (int i = 0; i < SORT_ITEMS; i++) moved[i] = index[min_of(first + i * WAVEFRONT, tile.count - 1)];
    }
    lds_barrier();
    bool inexact[SORT_ITEMS];
    move_keys(move, tile, base, kept, shift, final, of_keys, places, items, inexact);
    lds_barrier();
    LDS_MEMORY uint32_t *of_columns = (LDS_MEMORY uint32_t *)exchange;
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++) of_columns[ranks[i]] = moved[i];
    lds_barrier();
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++) moved[i] = of_columns[i * TILE_THREADS + threadIdx.x];
    if (move.columns != nullptr)
#pragma unroll
        for (int i = 0; i < SORT_ITEMS; i++)
            if (items[i] < kept) move.columns[tile.row * kept + items[i]] = moved[i];
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++)
        if (inexact[i]) move.values[tile.row * kept + items[i]] = move.elements[base + moved[i]];
}
