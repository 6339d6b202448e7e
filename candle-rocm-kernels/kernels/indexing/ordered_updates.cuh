// Updates of a tensor's elements by index, in the order of the indices: index_add, scatter, scatter_add.
//
// Tensors are contiguous and seen as (left, dim, right) around the indexed dimension. Elements that share (left, right)
// are a column. An element of a column gets its updates in the order of the column's indices, so that results do not
// depend on scheduling even where indices repeat. Four ways share the work:
//
//   rows      right is 1, and left is large: a wavefront has a column, or some of its destination, and takes as many
//             indices at a time as it has lanes. Lanes whose indices have the same low bits take turns (Rounds). The
//             destination is in LDS where it fits.
//   bins      columns of one left have the same indices, and are few: a workgroup has some columns and some of their
//             destination, of which each wavefront has a bin (binned_updates.cuh).
//   queues    they are more: a workgroup has some columns and some of their destination, queues those of the indices
//             that lie there, in order, and then walks the queue.
//   tiles     each column has indices of its own: a workgroup has 32 columns and some of their destination, and each
//             wavefront queues the indices of some of the columns (tiled_updates.cuh).
//
// In bins and tiles a wavefront updates by as many indices at a time as it has lanes, and lanes of one place take turns
// (Turns).
//
// Where columns are too few to fill the GPU, several wavefronts or workgroups share the destination of one (`sharers`),
// and each of them reads all indices.
#pragma once
#include "indexing/indices.cuh"
#include "portable/convert.cuh"
#include "portable/lanes.cuh"

// Workgroups of the kernels of this file have so many threads, and queue so many indices at once.
constexpr uint32_t UPDATE_THREADS = 256, UPDATE_QUEUE = 2048;
// Sharers of a column's destination at most, where each of them reads all of the column's own indices: where the GPU
// would be idle otherwise, and where the destination does not fit LDS.
constexpr uint32_t MOST_SHARERS = 32, MOST_FOR_LDS = 4;
// Rows are a wavefront's or several's where there is a row for so many wavefronts of a launch, else a workgroup's.
constexpr uint32_t WAVES_OF_ROW = 4;
// One in so many workgroups of a launch that fills a GPU several times has work: those that are resident at once.
constexpr uint32_t UPDATE_GRIDS = 4;
// LDS of a workgroup: of 64 KiB a compute unit, so much that four workgroups fit; NVIDIA's multiprocessors have more.
#if defined(__HIP__)
constexpr uint32_t UPDATE_LDS = 16 << 10;
#else
constexpr uint32_t UPDATE_LDS = 32 << 10;
#endif
__device__ __forceinline__ char *update_lds() {
    static __shared__ char lds[UPDATE_LDS] __attribute__((aligned(16)));
    return lds;
}

// What is done to an element, and what the element's kind of index is called where it is refused.
template <class T> struct AddUpdate {
    using Element = T;
    static constexpr bool READS = true; // the element as it was
    // Each sum is rounded to the element type, as on the CPU.
    static __device__ __forceinline__ T of(T old, T value) {
        return round_to<T>((compute_t<T>)(upcast(old) + upcast(value)));
    }
};
template <class T> struct SetUpdate {
    using Element = T;
    static constexpr bool READS = false;
    static __device__ __forceinline__ T of(T, T value) { return value; }
};

// The shape of an update: indices of each column, and elements of its destination.
struct UpdateShape {
    size_t left, count, dst_dim, right;
};

// The part of a destination of `dst_dim` that sharer number `sharer` has, as [begin, begin + length).
struct OwnRange {
    size_t begin, length;
    __device__ __forceinline__ OwnRange(size_t dst_dim, uint32_t sharer, uint32_t sharers) {
        size_t each = (dst_dim + sharers - 1) / sharers;
        begin = min_of(sharer * each, dst_dim);
        length = min_of(each, dst_dim - begin);
    }
    // Whether places in a range would have more than 28 bits, so that too few of 32 are left for a column's number.
    static __device__ __forceinline__ bool is_long(size_t dst_dim, uint32_t sharers) {
        return (dst_dim + sharers - 1) / sharers >> 28 != 0;
    }
    // The place of an index, from `begin` on: `length` or more where it lies elsewhere.
    __device__ __forceinline__ size_t place(int64_t index) const { return (size_t)index - begin; }
};

// How many workgroups share the destination of an item, `most` at most.
__device__ __forceinline__ uint32_t sharers_of(size_t items, size_t most) {
    size_t of_each = gridDim.x / UPDATE_GRIDS / max_of(items, (size_t)1);
    return (uint32_t)max_of(min_of(of_each, most), (size_t)1);
}

// Whether an index lies in the range. `refused` becomes `position` where it is none of the dimension.
__device__ __forceinline__ bool is_own(int64_t index, const OwnRange &range, size_t dst_dim, size_t position,
                                       size_t &refused) {
    bool absent = is_absent(index);
    if (!absent && is_outside(index, dst_dim)) refused = position;
    return !absent && range.place(index) < range.length;
}

// Bits of the places below `length`.
__device__ __forceinline__ uint32_t bits_of_places(size_t length) {
    return length <= 1 ? 0 : 32 - __builtin_clz((uint32_t)length - 1);
}

// The last lane of a set that is not empty.
__device__ __forceinline__ uint32_t last_of(uint32_t lanes) { return 31 - (uint32_t)__builtin_clz(lanes); }
__device__ __forceinline__ uint32_t last_of(uint64_t lanes) { return 63 - (uint32_t)__builtin_clzll(lanes); }

// The lanes whose value, of so many bits, is one's own, where all lanes of the wavefront ask.
__device__ __forceinline__ Lanes lanes_alike(uint32_t value, uint32_t bits) {
#if defined(__HIP__)
    constexpr uint32_t TOGETHER = 4;
    Lanes same = ~(Lanes)0;
    for (uint32_t done = 0; done < bits; done += TOGETHER, value >>= TOGETHER) {
#pragma unroll
        for (uint32_t b = 0; b < TOGETHER; b++) {
            bool bit = value >> b & 1;
            Lanes set = whole_wave_ballot(bit);
            same &= bit ? set : ~set;
        }
    }
#else
    Lanes same = (Lanes)__nvvm_match_any_sync_i32(~0u, (int)value);
#endif
    return same;
}

// In which order the lanes of a wavefront update places that some of them share: each after the lanes of its place that
// are below it, and the last of them has the result.
struct Turns {
    uint32_t own, before; // how many are below, and the nearest of them
    bool is_last;

    // `place` has so many bits. All lanes of the wavefront are here.
    __device__ __forceinline__ Turns(uint32_t place, uint32_t bits, bool takes_part) {
        Lanes same = lanes_alike(place, bits) & whole_wave_ballot(takes_part);
        Lanes below = same & (((Lanes)1 << lane_id()) - 1);
        own = takes_part ? (uint32_t)lanes_of(below) : 0;
        before = below == 0 ? 0 : last_of(below);
        is_last = takes_part && same >> lane_id() == 1;
    }

    // What a lane's place has after its turn, where `old` was there before all.
    template <class Update, class T> __device__ __forceinline__ T apply(T old, T value) const {
        T result = Update::of(old, value);
        if constexpr (Update::READS) {
            for (uint32_t turn = 1; whole_wave_ballot(own >= turn) != 0; turn++) {
                T found = shfl(result, before, WAVEFRONT);
                if (own == turn) result = Update::of(found, value);
            }
        }
        return result;
    }
};

// ------------------------------------------------------------------------ rows

// In which order lanes of a wavefront update places that some of them share: a lane's round is the number of lanes
// below it whose places have the same low bits.
struct Rounds {
    uint32_t own;
    __device__ __forceinline__ Rounds(uint32_t place, bool takes_part) {
        constexpr int BITS = 8;
        Lanes same = whole_wave_ballot(takes_part);
#pragma unroll
        for (int b = 0; b < BITS; b++) {
            bool bit = place >> b & 1;
            Lanes set = whole_wave_ballot(bit);
            same &= bit ? set : ~set;
        }
        own = takes_part ? lanes_before(same) : 0;
    }
};

// A row's elements in global memory, and in LDS, as their bits.
template <class T> struct GlobalRow {
    T *at;
    __device__ __forceinline__ T read(size_t i) const { return at[i]; }
    __device__ __forceinline__ void write(size_t i, T value) const { at[i] = value; }
    static __device__ __forceinline__ void fence() { wave_memory_fence(); }
};
template <class T> struct LdsRow {
    using Bits = typename bits_of<sizeof(T)>::type;
    LDS_MEMORY Bits *at;
    __device__ __forceinline__ T read(size_t i) const { return bit_cast<T>((Bits)at[i]); }
    __device__ __forceinline__ void write(size_t i, T value) const { at[i] = bit_cast<Bits>(value); }
    static __device__ __forceinline__ void fence() { wave_fence(); }
};

// One wavefront's updates of its range of a row.
template <class Update, class Row>
__device__ __forceinline__ void update_range(const Row &row, const OwnRange &range, const Indices &ids,
                                             const typename Update::Element *__restrict__ src, size_t count,
                                             size_t dst_dim, size_t &refused) {
    using T = typename Update::Element;
    constexpr int STRIP = 4;
    uint32_t lanes = wave_size(), lane = lane_id();
    for (size_t first = 0; first < count; first += STRIP * lanes) {
        int64_t index[STRIP];
        size_t place[STRIP];
        T value[STRIP];
        bool own[STRIP];
#pragma unroll
        for (int s = 0; s < STRIP; s++) {
            size_t j = first + s * lanes + lane;
            own[s] = j < count;
            place[s] = own[s] ? j : NONE;
            value[s] = own[s] ? src[j] : T();
        }
        ids.read(index, place);
#pragma unroll
        for (int s = 0; s < STRIP; s++) {
            own[s] = own[s] && is_own(index[s], range, dst_dim, first + s * lanes + lane, refused);
            size_t to = range.place(index[s]);
            Row::fence();
            Rounds rounds((uint32_t)to, own[s]);
            for (uint32_t round = 0; whole_wave_ballot(own[s] && rounds.own >= round) != 0; round++) {
                if (own[s] && rounds.own == round) row.write(to, Update::of(row.read(to), value[s]));
                Row::fence();
            }
        }
    }
}

// Rows of `count` indices each, or the same indices for all of them (`common`).
template <class Update>
__device__ __forceinline__ size_t update_rows(const Indices &ids, const typename Update::Element *__restrict__ src,
                                              typename Update::Element *dst, const UpdateShape &shape, bool common) {
    using T = typename Update::Element;
    // Elements of a wavefront's row in LDS.
    constexpr uint32_t IN_LDS = UPDATE_LDS / (UPDATE_THREADS / WAVEFRONT) / sizeof(T);
    uint32_t lanes = wave_size(), lane = lane_id();
    size_t waves = global_threads() / lanes, refused = NONE;
    size_t most = min_of((size_t)MOST_SHARERS, (shape.dst_dim + lanes - 1) / lanes);
    size_t for_lds = (shape.dst_dim + IN_LDS - 1) / IN_LDS, least = for_lds <= MOST_FOR_LDS ? for_lds : 1;
    uint32_t sharers = (uint32_t)max_of(min_of(waves / max_of(shape.left, (size_t)1), most), max_of(least, (size_t)1));
    for (size_t item = global_thread() / lanes; item < shape.left * sharers; item += waves) {
        size_t pre = item / sharers, of_ids = common ? 0 : pre * shape.count;
        OwnRange range(shape.dst_dim, (uint32_t)(item - pre * sharers), sharers);
        T *to = dst + pre * shape.dst_dim + range.begin;
        const T *from = src + pre * shape.count;
        size_t before = refused;
        if (range.length <= IN_LDS && range.length < 8 * shape.count) {
            LdsRow<T> row{(LDS_MEMORY typename LdsRow<T>::Bits *)update_lds() + threadIdx.x / lanes * IN_LDS};
            for (size_t i = lane; i < range.length; i += lanes) row.write(i, to[i]);
            update_range<Update>(row, range, ids.from(of_ids), from, shape.count, shape.dst_dim, refused);
            for (size_t i = lane; i < range.length; i += lanes) to[i] = row.read(i);
            LdsRow<T>::fence();
        } else {
            update_range<Update>(GlobalRow<T>{to}, range, ids.from(of_ids), from, shape.count, shape.dst_dim, refused);
        }
        if (refused != before) refused += of_ids;
    }
    return refused;
}

// ---------------------------------------------------------------------- queues

// Indices that lie in a workgroup's range, in order: which they are, and their places in the range.
struct UpdateQueue {
    uint32_t place[UPDATE_QUEUE];
    uint16_t entry[UPDATE_QUEUE];
    uint32_t of_wave[UPDATE_THREADS / 32];
};

// Queues those of `count` indices from `first` on, UPDATE_QUEUE at most, that lie in the range. Returns how many.
__device__ __forceinline__ uint32_t queue_indices(UpdateQueue &queue, const Indices &ids, size_t first, size_t count,
                                                  const OwnRange &range, size_t dst_dim, size_t &refused) {
    constexpr uint32_t STRIP = UPDATE_QUEUE / UPDATE_THREADS;
    uint32_t lanes = wave_size(), lane = lane_id(), wave = threadIdx.x / lanes, waves = UPDATE_THREADS / lanes;
    // A wavefront's indices follow one another.
    uint32_t begin = wave * STRIP * lanes + lane;
    int64_t index[STRIP];
    size_t place[STRIP];
#pragma unroll
    for (uint32_t s = 0; s < STRIP; s++) {
        size_t j = first + begin + s * lanes;
        place[s] = j < count ? j : NONE;
    }
    ids.read(index, place);
    Lanes own[STRIP];
    uint32_t found = 0;
#pragma unroll
    for (uint32_t s = 0; s < STRIP; s++) {
        size_t j = first + begin + s * lanes;
        bool is_ours = j < count && is_own(index[s], range, dst_dim, j, refused);
        own[s] = whole_wave_ballot(is_ours);
        found += lanes_of(own[s]);
    }
    if (lane == 0) queue.of_wave[wave] = found;
    __syncthreads();
    uint32_t before = 0, all = 0;
    for (uint32_t w = 0; w < waves; w++) {
        before += w < wave ? queue.of_wave[w] : 0;
        all += queue.of_wave[w];
    }
#pragma unroll
    for (uint32_t s = 0; s < STRIP; s++) {
        uint32_t at = before + lanes_before(own[s]);
        if (own[s] >> lane & 1) {
            queue.entry[at] = begin + s * lanes;
            queue.place[at] = (uint32_t)range.place(index[s]);
        }
        before += lanes_of(own[s]);
    }
    __syncthreads();
    return all;
}

// A thread's column of what is queued, and which of the queue's places are its own: those whose low bits are `group`.
template <class T> struct QueuedColumn {
    const T *src; // of the first index that may be queued
    T *dst;       // of the range's first place
    size_t stride;
    uint32_t group, groups; // a power of two
    bool exists;
};

// Updates a strip of places, whose elements are in `result`, by `value`, in order.
template <class Update, uint32_t STRIP, class T>
__device__ __forceinline__ void apply_in_order(const uint32_t (&place)[STRIP], const bool (&own)[STRIP],
                                               const T (&value)[STRIP], T (&result)[STRIP], T *dst, size_t stride) {
#pragma unroll
    for (uint32_t s = 0; s < STRIP; s++) {
        if (!own[s]) continue;
        // What the strip's earlier entries made of the same place is not in memory yet.
#pragma unroll
        for (uint32_t t = 0; t < s; t++)
            if (own[t] && place[t] == place[s]) result[s] = result[t];
        result[s] = Update::of(result[s], value[s]);
        dst[place[s] * stride] = result[s];
    }
}

template <class Update>
__device__ __forceinline__ void walk_queue(const UpdateQueue &queue, uint32_t queued,
                                           const QueuedColumn<typename Update::Element> &column) {
    using T = typename Update::Element;
    constexpr uint32_t STRIP = 4;
    if (!column.exists) return;
    for (uint32_t first = 0; first < queued; first += STRIP) {
        uint32_t place[STRIP];
        T value[STRIP], result[STRIP];
        bool own[STRIP];
#pragma unroll
        for (uint32_t s = 0; s < STRIP; s++) {
            uint32_t at = min_of(first + s, queued - 1);
            place[s] = queue.place[at];
            own[s] = first + s < queued && (place[s] & (column.groups - 1)) == column.group;
            if (own[s]) {
                value[s] = column.src[queue.entry[at] * column.stride];
                result[s] = column.dst[place[s] * column.stride];
            }
        }
        apply_in_order<Update>(place, own, value, result, column.dst, column.stride);
    }
}

// The indices are those of each left, or the same for all (`common`).
template <class Update>
__device__ __forceinline__ size_t update_queued(const Indices &ids, const typename Update::Element *__restrict__ src,
                                                typename Update::Element *dst, const UpdateShape &shape, bool common) {
    using T = typename Update::Element;
    static_assert(sizeof(UpdateQueue) <= UPDATE_LDS, "the queue fits");
    UpdateQueue &queue = *(UpdateQueue *)update_lds();
    // Threads of a group take columns that follow one another.
    uint32_t of_group = power_of_two_from(min_of(shape.right, (size_t)UPDATE_THREADS));
    uint32_t groups = UPDATE_THREADS / of_group;
    size_t blocks = (shape.right + of_group - 1) / of_group, items = shape.left * blocks, refused = NONE;
    uint32_t sharers = sharers_of(items, min_of(shape.dst_dim, max_of(shape.right, (size_t)MOST_SHARERS)));
    while (OwnRange::is_long(shape.dst_dim, sharers)) sharers *= 2;
    for (size_t item = blockIdx.x; item < items * sharers; item += gridDim.x) {
        size_t of_range = item / sharers, pre = of_range / blocks, block = of_range - pre * blocks;
        OwnRange range(shape.dst_dim, (uint32_t)(item - of_range * sharers), sharers);
        size_t post = block * of_group + threadIdx.x % of_group, of_ids = common ? 0 : pre * shape.count;
        QueuedColumn<T> column{src + pre * shape.count * shape.right + post,
                               dst + (pre * shape.dst_dim + range.begin) * shape.right + post,
                               shape.right,
                               threadIdx.x / of_group,
                               groups,
                               post < shape.right};
        size_t outside = NONE;
        for (size_t first = 0; first < shape.count; first += UPDATE_QUEUE) {
            uint32_t queued = queue_indices(queue, ids.from(of_ids), first, shape.count, range, shape.dst_dim, outside);
            walk_queue<Update>(queue, queued, column);
            column.src += UPDATE_QUEUE * shape.right;
            __syncthreads();
        }
        if (outside != NONE) refused = of_ids + outside;
    }
    return refused;
}
