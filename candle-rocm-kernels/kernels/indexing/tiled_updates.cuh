// Updates of columns that have indices of their own: a workgroup has 32 columns and a range of their destination. It
// reads tiles of the indices to LDS; a wavefront queues those of its columns that lie in the range, and updates by as
// many as it has lanes.
#pragma once
#include "indexing/ordered_updates.cuh"

// Columns of a workgroup, and indices of each that are in LDS at once.
constexpr uint32_t TILE_COLUMNS = 32, TILE_INDICES = 64;
constexpr uint32_t TILE_GROUPS = UPDATE_THREADS / TILE_COLUMNS, TILE_STRIP = TILE_INDICES / TILE_GROUPS;
// Columns of a wavefront, in so many bits.
constexpr uint32_t WAVE_COLUMNS = TILE_COLUMNS * WAVEFRONT / UPDATE_THREADS, WAVE_COLUMN_BITS = WAVEFRONT == 64 ? 3 : 2;
static_assert(1 << WAVE_COLUMN_BITS == WAVE_COLUMNS, "a power of two");
// What stands in LDS for an index that lies elsewhere.
constexpr uint32_t ELSEWHERE = ~0u;

// At which elements a column's first source and its range of the destination are: a pointer read from LDS would have no
// address space.
struct TileColumn {
    size_t src, dst;
};

// Indices of a wavefront that wait until there is one for each lane: place and column, and which index.
struct WaveRing {
    static constexpr uint32_t SIZE = 2 * WAVEFRONT;
    uint32_t place[SIZE], entry[SIZE];
};

// What waits in a wavefront's ring.
struct Waiting {
    uint32_t first = 0, count = 0;

    // Adds those of the lanes whose index is `own`; `own` has a bit for each.
    __device__ __forceinline__ void add(WaveRing &ring, Lanes own, uint32_t place, uint32_t entry) {
        uint32_t at = (first + count + (uint32_t)lanes_before(own)) % WaveRing::SIZE;
        if (own >> lane_id() & 1) {
            ring.place[at] = place;
            ring.entry[at] = entry;
        }
        count += (uint32_t)lanes_of(own);
        wave_fence();
    }
    // Where this lane's index is of the first `taken`, of which there are no more than lanes.
    __device__ __forceinline__ uint32_t take(uint32_t taken) {
        uint32_t at = (first + (lane_id() < taken ? lane_id() : 0)) % WaveRing::SIZE;
        first += taken;
        count -= taken;
        return at;
    }
};

template <class T> struct UpdateTile {
    // A row more than columns, so that neighbours along a column are in different banks.
    uint32_t places[TILE_INDICES][TILE_COLUMNS + 1];
    WaveRing rings[UPDATE_THREADS / WAVEFRONT];
    TileColumn columns[TILE_COLUMNS];
};

// A wavefront's columns: `stride` elements from index to index, entries counted from index `base` on, and places and
// columns have so many bits.
template <class Update> struct WaveColumns {
    using T = typename Update::Element;
    const T *src;
    T *dst;
    const TileColumn *columns;
    size_t stride, base;
    uint32_t bits;
    Waiting waiting;

    // Updates by the first `taken` that wait.
    __device__ __forceinline__ void update(const WaveRing &ring, uint32_t taken) {
        bool exists = lane_id() < taken;
        uint32_t at = waiting.take(taken), place = ring.place[at];
        TileColumn column = columns[place % WAVE_COLUMNS];
        T *to = dst + (column.dst + (place >> WAVE_COLUMN_BITS) * stride);
        T value = src[column.src + (base + ring.entry[at]) * stride], old = Update::READS ? *to : T();
        Turns turns(place, bits, exists);
        T result = turns.template apply<Update>(old, value);
        if (turns.is_last) *to = result;
        wave_memory_fence();
    }
    // Updates by all that still wait.
    __device__ __forceinline__ void finish(const WaveRing &ring) {
        if (waiting.count != 0) update(ring, waiting.count);
    }
};

// Queues a wavefront's indices of a tile, from index `entry` on, and updates by as many as it has lanes at a time.
template <class Update>
__device__ __forceinline__ void queue_tile(UpdateTile<typename Update::Element> &tile, WaveColumns<Update> &columns,
                                           uint32_t entry) {
    uint32_t wave = uniform(threadIdx.x / WAVEFRONT), lane = lane_id();
    WaveRing &ring = tile.rings[wave];
    for (uint32_t c = 0; c < WAVE_COLUMNS; c++) {
#pragma unroll
        for (uint32_t first = 0; first < TILE_INDICES; first += WAVEFRONT) {
            uint32_t place = tile.places[first + lane][wave * WAVE_COLUMNS + c];
            Lanes own = whole_wave_ballot(place != ELSEWHERE);
            if (own == 0) continue;
            columns.waiting.add(ring, own, place << WAVE_COLUMN_BITS | c, entry + first + lane);
            if (columns.waiting.count >= WAVEFRONT) columns.update(ring, WAVEFRONT);
        }
    }
}

__device__ __forceinline__ void read_tile(int64_t (&index)[TILE_STRIP], const Indices &column, size_t first,
                                          size_t count, size_t stride) {
    size_t place[TILE_STRIP];
#pragma unroll
    for (uint32_t s = 0; s < TILE_STRIP; s++) {
        size_t j = first + s * TILE_GROUPS + threadIdx.x / TILE_COLUMNS;
        place[s] = j < count ? j * stride : NONE;
    }
    column.read(index, place);
}

// The updates of 32 columns, of which this thread reads indices of one, from `begin` on, if it `exists`.
template <class Update>
__device__ __forceinline__ void update_tile(UpdateTile<typename Update::Element> &tile, const Indices &ids,
                                            WaveColumns<Update> columns, size_t begin, bool exists,
                                            const UpdateShape &shape, const OwnRange &range, size_t &refused) {
    uint32_t column = threadIdx.x % TILE_COLUMNS, group = threadIdx.x / TILE_COLUMNS;
    uint32_t wave = uniform(threadIdx.x / WAVEFRONT);
    int64_t index[TILE_STRIP];
    read_tile(index, ids.from(begin), 0, shape.count, shape.right);
    for (size_t first = 0; first < shape.count; first += TILE_INDICES) {
#pragma unroll
        for (uint32_t s = 0; s < TILE_STRIP; s++) {
            size_t j = first + s * TILE_GROUPS + group;
            bool own =
                exists && j < shape.count && is_own(index[s], range, shape.dst_dim, begin + j * shape.right, refused);
            tile.places[s * TILE_GROUPS + group][column] = own ? (uint32_t)range.place(index[s]) : ELSEWHERE;
        }
        __syncthreads();
        read_tile(index, ids.from(begin), first + TILE_INDICES, shape.count, shape.right);
        // Entries have 32 bits.
        if ((first - columns.base) >> 31) {
            columns.finish(tile.rings[wave]);
            columns.base = first;
        }
        queue_tile<Update>(tile, columns, (uint32_t)(first - columns.base));
        __syncthreads();
    }
    columns.finish(tile.rings[wave]);
}

template <class Update>
__device__ __forceinline__ size_t update_tiles(const Indices &ids, const typename Update::Element *__restrict__ src,
                                               typename Update::Element *dst, const UpdateShape &shape) {
    using T = typename Update::Element;
    static_assert(sizeof(UpdateTile<T>) <= UPDATE_LDS, "the tile fits");
    UpdateTile<T> &tile = *(UpdateTile<T> *)update_lds();
    uint32_t column = threadIdx.x % TILE_COLUMNS;
    size_t columns = shape.left * shape.right, refused = NONE;
    size_t items = (columns + TILE_COLUMNS - 1) / TILE_COLUMNS;
    uint32_t sharers = sharers_of(items, min_of(shape.dst_dim, (size_t)MOST_SHARERS));
    while (OwnRange::is_long(shape.dst_dim, sharers)) sharers *= 2;
    for (size_t item = blockIdx.x; item < items * sharers; item += gridDim.x) {
        size_t block = item / sharers, of_all = min_of(block * TILE_COLUMNS + column, columns - 1);
        size_t pre = divide(of_all, shape.right, columns <= 0xffffffffu), post = of_all - pre * shape.right;
        OwnRange range(shape.dst_dim, (uint32_t)(item - block * sharers), sharers);
        size_t begin = pre * shape.count * shape.right + post;
        __syncthreads();
        if (threadIdx.x < TILE_COLUMNS)
            tile.columns[column] = {begin, (pre * shape.dst_dim + range.begin) * shape.right + post};
        WaveColumns<Update> of_wave{src,         dst, tile.columns + uniform(threadIdx.x / WAVEFRONT) * WAVE_COLUMNS,
                                    shape.right, 0,   bits_of_places(range.length) + WAVE_COLUMN_BITS,
                                    {}};
        update_tile(tile, ids, of_wave, begin, block * TILE_COLUMNS + column < columns, shape, range, refused);
    }
    return refused;
}
