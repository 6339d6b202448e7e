// Updates of few columns that have the same indices: a workgroup has up to four of them and a range of their
// destination, of which each wavefront has every so-manieth place, a bin. The workgroup reads indices once for all
// bins.
#pragma once
#include "indexing/ordered_updates.cuh"

// Wavefronts of a workgroup, and as many bins.
constexpr uint32_t UPDATE_BINS = UPDATE_THREADS / WAVEFRONT, BIN_BITS = UPDATE_BINS == 8 ? 3 : 2;
static_assert(1 << BIN_BITS == UPDATE_BINS, "a power of two");
// Columns of a workgroup, and how many columns of the same indices make no whole lines of memory for queues.
constexpr uint32_t BIN_COLUMNS = 4, MOST_BINNED = 16;
// Indices of a thread at once.
constexpr uint32_t BIN_STRIP = UPDATE_QUEUE / UPDATE_THREADS;

// Indices that lie in a workgroup's range, by bins and in order: their places in the range, and which they are.
struct BinnedQueue {
    uint32_t place[UPDATE_QUEUE];
    uint16_t entry[UPDATE_QUEUE];
    uint32_t of_wave[UPDATE_BINS][UPDATE_BINS]; // of its indices, how many lie in each bin
};
// A wavefront's part of it.
struct BinPart {
    uint32_t begin, end;
};

// A wavefront's indices follow one another. This is the place of a lane's first among those that are queued at once.
__device__ __forceinline__ uint32_t first_of_strip() {
    return threadIdx.x / WAVEFRONT * BIN_STRIP * WAVEFRONT + lane_id();
}

__device__ __forceinline__ void read_strip(int64_t (&index)[BIN_STRIP], const Indices &ids, size_t first,
                                           size_t count) {
    size_t place[BIN_STRIP];
#pragma unroll
    for (uint32_t s = 0; s < BIN_STRIP; s++) {
        size_t j = first + first_of_strip() + s * WAVEFRONT;
        place[s] = j < count ? j : NONE;
    }
    ids.read(index, place);
}

// The lanes of `own` whose bin, of which `set` has the bits, is `bin`.
__device__ __forceinline__ Lanes lanes_of_bin(Lanes own, const Lanes (&set)[BIN_BITS], uint32_t bin) {
#pragma unroll
    for (uint32_t b = 0; b < BIN_BITS; b++) own &= bin >> b & 1 ? set[b] : ~set[b];
    return own;
}

// Where a wavefront's indices of bin `lane` begin in the queue, from the counts of all wavefronts; `end` becomes where
// those of all end.
__device__ __forceinline__ uint32_t start_of_bin(const BinnedQueue &queue, uint32_t wave, uint32_t &end) {
    uint32_t bin = lane_id() & (UPDATE_BINS - 1), before = 0, all = 0;
#pragma unroll
    for (uint32_t w = 0; w < UPDATE_BINS; w++) {
        uint32_t found = queue.of_wave[w][bin];
        before += w < wave ? found : 0;
        all += found;
    }
    end = all;
#pragma unroll
    for (uint32_t step = 1; step < UPDATE_BINS; step *= 2) {
        uint32_t other = shfl_up(end, step, (uint32_t)WAVEFRONT);
        if (bin >= step) end += other;
    }
    return end - all + before;
}

// Queues those of the indices from `first` on that lie in the range.
__device__ __forceinline__ BinPart queue_by_bins(BinnedQueue &queue, const int64_t (&index)[BIN_STRIP], size_t first,
                                                 size_t count, const OwnRange &range, size_t dst_dim, size_t &refused) {
    uint32_t lane = lane_id(), wave = threadIdx.x / WAVEFRONT, own = 0, found = 0;
    uint32_t rank[BIN_STRIP];
#pragma unroll
    for (uint32_t s = 0; s < BIN_STRIP; s++) {
        size_t j = first + first_of_strip() + s * WAVEFRONT;
        bool is_ours = j < count && is_own(index[s], range, dst_dim, j, refused);
        Lanes ours = whole_wave_ballot(is_ours);
        rank[s] = 0;
        if (ours == 0) continue;
        uint32_t bin = (uint32_t)range.place(index[s]) & (UPDATE_BINS - 1);
        Lanes set[BIN_BITS];
#pragma unroll
        for (uint32_t b = 0; b < BIN_BITS; b++) set[b] = whole_wave_ballot(bin >> b & 1);
        rank[s] = shfl(found, bin, (uint32_t)WAVEFRONT) + (uint32_t)lanes_before(lanes_of_bin(ours, set, bin));
        found += (uint32_t)lanes_of(lanes_of_bin(ours, set, lane & (UPDATE_BINS - 1)));
        own |= is_ours ? 1u << s : 0;
    }
    if (lane < UPDATE_BINS) queue.of_wave[wave][lane] = found;
    __syncthreads();
    uint32_t end, start = start_of_bin(queue, wave, end);
#pragma unroll
    for (uint32_t s = 0; s < BIN_STRIP; s++) {
        uint32_t place = (uint32_t)range.place(index[s]);
        uint32_t at = shfl(start, place & (UPDATE_BINS - 1), (uint32_t)WAVEFRONT) + rank[s];
        if (own >> s & 1) {
            queue.place[at] = place;
            queue.entry[at] = (uint16_t)(first_of_strip() + s * WAVEFRONT);
        }
    }
    __syncthreads();
    uint32_t before = shfl(end, max_of(wave, 1u) - 1, (uint32_t)WAVEFRONT);
    return {uniform(wave == 0 ? 0u : before), uniform(shfl(end, wave, (uint32_t)WAVEFRONT))};
}

// Columns of a workgroup, side by side: the first one's first source among the queued, and its range's first place.
template <class T> struct BinColumns {
    const T *src;
    T *dst;
    size_t stride;
    uint32_t count;
};

template <class Update>
__device__ __forceinline__ void walk_bin(const BinnedQueue &queue, BinPart part, uint32_t bits,
                                         const BinColumns<typename Update::Element> &columns) {
    using T = typename Update::Element;
    for (uint32_t first = part.begin; first < part.end; first += WAVEFRONT) {
        bool exists = first + lane_id() < part.end;
        uint32_t at = exists ? first + lane_id() : first, place = queue.place[at];
        const T *from = columns.src + queue.entry[at] * columns.stride;
        T *to = columns.dst + place * columns.stride, value[BIN_COLUMNS], old[BIN_COLUMNS];
#pragma unroll
        for (uint32_t c = 0; c < BIN_COLUMNS; c++) {
            value[c] = c < columns.count ? from[c] : T();
            old[c] = Update::READS && c < columns.count ? to[c] : T();
        }
        Turns turns(place, bits, exists);
#pragma unroll
        for (uint32_t c = 0; c < BIN_COLUMNS; c++) {
            if (c >= columns.count) break;
            T result = turns.apply<Update>(old[c], value[c]);
            if (turns.is_last) to[c] = result;
        }
        wave_memory_fence();
    }
}

// Updates some columns' range by all of their indices.
template <class Update>
__device__ __forceinline__ void update_by_bins(BinnedQueue &queue, const Indices &ids,
                                               BinColumns<typename Update::Element> columns, const UpdateShape &shape,
                                               const OwnRange &range, size_t &refused) {
    uint32_t bits = bits_of_places(range.length);
    int64_t index[BIN_STRIP];
    read_strip(index, ids, 0, shape.count);
    for (size_t first = 0; first < shape.count; first += UPDATE_QUEUE) {
        BinPart part = queue_by_bins(queue, index, first, shape.count, range, shape.dst_dim, refused);
        read_strip(index, ids, first + UPDATE_QUEUE, shape.count);
        walk_bin<Update>(queue, part, bits, columns);
        columns.src += UPDATE_QUEUE * columns.stride;
        __syncthreads();
    }
}

template <class Update>
__device__ __forceinline__ size_t update_binned(const Indices &ids, const typename Update::Element *__restrict__ src,
                                                typename Update::Element *dst, const UpdateShape &shape, bool common) {
    static_assert(sizeof(BinnedQueue) <= UPDATE_LDS, "the queue fits");
    BinnedQueue &queue = *(BinnedQueue *)update_lds();
    size_t blocks = (shape.right + BIN_COLUMNS - 1) / BIN_COLUMNS, items = shape.left * blocks, refused = NONE;
    uint32_t sharers = sharers_of(items, min_of(shape.dst_dim, (size_t)MOST_SHARERS));
    while (OwnRange::is_long(shape.dst_dim, sharers)) sharers *= 2;
    for (size_t item = blockIdx.x; item < items * sharers; item += gridDim.x) {
        size_t of_range = item / sharers, pre = of_range / blocks, post = (of_range - pre * blocks) * BIN_COLUMNS;
        OwnRange range(shape.dst_dim, (uint32_t)(item - of_range * sharers), sharers);
        size_t of_ids = common ? 0 : pre * shape.count, outside = NONE;
        update_by_bins<Update>(queue, ids.from(of_ids),
                               {src + pre * shape.count * shape.right + post,
                                dst + (pre * shape.dst_dim + range.begin) * shape.right + post, shape.right,
                                (uint32_t)min_of(shape.right - post, (size_t)BIN_COLUMNS)},
                               shape, range, outside);
        if (outside != NONE) refused = of_ids + outside;
    }
    return refused;
}
