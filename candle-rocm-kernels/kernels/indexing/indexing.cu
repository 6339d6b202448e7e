// Selection and update by index: index_select, gather, index_add, scatter, scatter_add.
//
// Tensors are contiguous and seen as (left, dim, right) around the indexed dimension. The largest
// value of the index type marks a place without source: it reads as zero and is not written. Any
// other index outside the dimension ends the launch, with a report, where Candle's CPU backend returns an error.
#include "elementwise/elementwise.cuh"
#include "indexing/binned_updates.cuh"
#include "indexing/tiled_updates.cuh"
#include "portable/sizes.cuh"

// How these are launched: launch_heuristics.rs says what the words mean. An element costs more than a load and a store,
// but for index_select, which moves vectors or several elements a thread. Updates share an output's as well, and are
// compiled for no larger workgroups.
#define LAUNCHES(X, EVERY)             \
    EVERY(AnyGrid, 1, Sizes, 0)        \
    X(is, AnyGrid, 4, Sizes, 0)        \
    X(ia, AnyGrid, 1, Shared, 1, 4, 7) \
    X(s, AnyGrid, 1, Shared, 3, 4, 6)  \
    X(sa, AnyGrid, 1, Shared, 3, 4, 6)

// These stand once for each size of element.
#define MOVES(X) X(is) X(gather) X(s)

// Elements that a thread has on their way at once.
constexpr int AT_ONCE = 4;

// The unit of `from` at index * stride, 0 where the index is absent. A bad index is read as absent, and `refused`
// becomes i: a trap in a loop would keep its loads from overlapping.
template <class U, class I>
__device__ __forceinline__ U select(const U *__restrict__ from, I index, size_t stride, size_t src_dim, size_t i,
                                    size_t &refused) {
    bool absent = is_absent(index), outside = is_outside(index, src_dim);
    if (outside && !absent) refused = i;
    U value = {};
    if (!outside && !absent) value = read_global<U>(from + (size_t)index * stride);
    return value;
}

// Moves units of U, which may be several elements.
template <class U, class I>
__device__ __forceinline__ void index_select(size_t units, size_t num_dims, const size_t *__restrict__ info,
                                             const I *__restrict__ ids, const U *__restrict__ src, U *__restrict__ dst,
                                             size_t src_dim, size_t ids_dim, size_t right) {
    constexpr Operation OPERATION("index_select");
    bool fits_32 = units <= 0xffffffffu;
    size_t refused = NONE, step = global_threads(), i = global_thread();
    auto index = [&](size_t id) INLINED {
        return ids[num_dims == 1 ? id * info[1] : strided_offset(id, num_dims, info)];
    };
    // The index of unit i, and what it would be in `src` for index 0.
    auto locate = [&](size_t i, const U *&from) INLINED {
        size_t row = divide(i, right, fits_32), left = divide(row, ids_dim, fits_32);
        from = src + left * src_dim * right + (i - row * right);
        return index(row - left * ids_dim);
    };
    for (; i + (AT_ONCE - 1) * step < units; i += AT_ONCE * step) {
        I found[AT_ONCE];
        const U *from[AT_ONCE];
        U values[AT_ONCE];
#pragma unroll
        for (int s = 0; s < AT_ONCE; s++) found[s] = locate(i + s * step, from[s]);
#pragma unroll
        for (int s = 0; s < AT_ONCE; s++) values[s] = select(from[s], found[s], right, src_dim, i + s * step, refused);
#pragma unroll
        for (int s = 0; s < AT_ONCE; s++) dst[i + s * step] = values[s];
    }
    for (; i < units; i += step) {
        const U *from;
        I found = locate(i, from);
        dst[i] = select(from, found, right, src_dim, i, refused);
    }
    if (refused != NONE) {
        size_t id = divide(refused, right, fits_32) % ids_dim;
        refuse<I>(OPERATION, row_outside, (int64_t)index(id), src_dim, id);
    }
}

#define INDEX_SELECT(I_NAME, I, NAME, T)                                                                               \
    ENTRY is_##I_NAME##_##NAME(size_t numel, size_t num_dims, const size_t *__restrict__ info,                         \
                               const I *__restrict__ ids, const T *__restrict__ src, T *__restrict__ dst, size_t left, \
                               size_t src_dim, size_t ids_dim, size_t right) {                                         \
        using Wide = vec<uint32_t, 4>;                                                                                 \
        if (right % VEC16<T> == 0 && is_aligned(src, 16) && is_aligned(dst, 16)) {                                     \
            index_select(numel / VEC16<T>, num_dims, info, ids, (const Wide *)src, (Wide *)dst, src_dim, ids_dim,      \
                         right / VEC16<T>);                                                                            \
        } else {                                                                                                       \
            index_select(numel, num_dims, info, ids, src, dst, src_dim, ids_dim, right);                               \
        }                                                                                                              \
    }

// N neighbouring elements at a time: they lie in one row of the indices, or are columns of one.
template <int N, class T, class I>
__device__ __forceinline__ void gather(size_t numel, const I *__restrict__ ids, const T *__restrict__ src,
                                       T *__restrict__ dst, size_t src_dim, size_t ids_dim, size_t right) {
    constexpr Operation OPERATION("gather");
    bool fits_32 = numel <= 0xffffffffu;
    size_t refused = NONE;
    for (size_t i = global_thread() * N; i < numel; i += global_threads() * N) {
        size_t row = divide(i, right, fits_32), left = divide(row, ids_dim, fits_32);
        const T *from = src + left * src_dim * right + (i - row * right);
        auto index = load_vec<vec<I, N>>(ids + i);
        vec<T, N> values;
#pragma unroll
        for (int k = 0; k < N; k++)
            values[k] = select(from + (right == 1 ? 0 : k), index[k], right, src_dim, i + k, refused);
        store_vec(dst + i, values);
    }
    if (refused != NONE) refuse<I>(OPERATION, place_outside, (int64_t)ids[refused], src_dim, refused);
}

template <class T, class I>
__device__ __forceinline__ void gather(size_t numel, const I *__restrict__ ids, const T *__restrict__ src,
                                       T *__restrict__ dst, size_t src_dim, size_t ids_dim, size_t right) {
    constexpr size_t N = AT_ONCE;
    bool together = right == 1 ? ids_dim % N == 0 : right % N == 0;
    if (together && is_aligned(ids, N * sizeof(I)) && is_aligned(dst, N * sizeof(T)))
        gather<(int)N>(numel, ids, src, dst, src_dim, ids_dim, right);
    else gather<1>(numel, ids, src, dst, src_dim, ids_dim, right);
}
#define GATHER(I_NAME, I, NAME, T)                                                                                   \
    ENTRY gather_##I_NAME##_##NAME(size_t numel, const I *__restrict__ ids, const T *__restrict__ src,               \
                                   T *__restrict__ dst, size_t left, size_t src_dim, size_t ids_dim, size_t right) { \
        gather(numel, ids, src, dst, src_dim, ids_dim, right);                                                       \
    }

// A multiprocessor of NVIDIA's shall have registers for so many workgroups.
#if defined(__HIP__)
#define UPDATE_ENTRY ENTRY __launch_bounds__(UPDATE_THREADS)
#else
#define UPDATE_ENTRY ENTRY __launch_bounds__(UPDATE_THREADS, UPDATE_GRIDS)
#endif

// Updates of columns that have the same indices for each left, by rows, by bins or by queues.
template <class Update, class I>
__device__ __forceinline__ void update_alike(const I *__restrict__ ids,
                                             const typename Update::Element *__restrict__ src,
                                             typename Update::Element *dst, const UpdateShape &shape, bool common,
                                             Operation operation, Reason reason) {
    size_t waves = global_threads() / wave_size();
    if (shape.right == 1 && shape.left * WAVES_OF_ROW >= waves)
        update_rows<Update>(ids, src, dst, shape, common, operation, reason);
    else if (shape.right <= MOST_BINNED) update_binned<Update>(ids, src, dst, shape, common, operation, reason);
    else update_queued<Update>(ids, src, dst, shape, common, operation, reason);
}

#define INDEX_ADD(I_NAME, I, NAME, T)                                                                               \
    UPDATE_ENTRY ia_##I_NAME##_##NAME(const I *__restrict__ ids, size_t ids_dim, const T *__restrict__ src, T *dst, \
                                      size_t left, size_t src_dim, size_t dst_dim, size_t right) {                  \
        update_alike<AddUpdate<T>>(ids, src, dst, {left, ids_dim, dst_dim, right}, true, Operation("index_add"),    \
                                   row_outside);                                                                    \
    }

template <class Update, class I>
__device__ __forceinline__ void scatter(const I *__restrict__ ids, const typename Update::Element *__restrict__ src,
                                        typename Update::Element *dst, const UpdateShape &shape, Operation operation) {
    if (shape.right == 1) update_alike<Update>(ids, src, dst, shape, false, operation, place_outside);
    else update_tiles<Update>(ids, src, dst, shape, operation, place_outside);
}
#define SCATTER_PARAMETERS(I, T)                                                                               \
    const I *__restrict__ ids, const T *__restrict__ src, T *dst, size_t left, size_t src_dim, size_t dst_dim, \
        size_t right
#define SCATTER(I_NAME, I, NAME, T)                                                                  \
    UPDATE_ENTRY s_##I_NAME##_##NAME(SCATTER_PARAMETERS(I, T)) {                                     \
        scatter<SetUpdate<T>>(ids, src, dst, {left, src_dim, dst_dim, right}, Operation("scatter")); \
    }
#define SCATTER_ADD(I_NAME, I, NAME, T)                                                                  \
    UPDATE_ENTRY sa_##I_NAME##_##NAME(SCATTER_PARAMETERS(I, T)) {                                        \
        scatter<AddUpdate<T>>(ids, src, dst, {left, src_dim, dst_dim, right}, Operation("scatter_add")); \
    }

#define MOVES_BY(I_NAME, I, NAME, T) \
    INDEX_SELECT(I_NAME, I, NAME, T) \
    GATHER(I_NAME, I, NAME, T)       \
    SCATTER(I_NAME, I, NAME, T)
#define MOVES_OF(NAME, T) FOR_INDICES(MOVES_BY, NAME, T)
FOR_SIZES(MOVES_OF)

#define SUMS_BY(I_NAME, I, NAME, T) \
    INDEX_ADD(I_NAME, I, NAME, T)   \
    SCATTER_ADD(I_NAME, I, NAME, T)
#define SUMS_OF(NAME, T) FOR_INDICES(SUMS_BY, NAME, T)
FOR_ALL(SUMS_OF)
