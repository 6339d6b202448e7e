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

// These stand once for the types of indices, of which they have one in their names for hosts. X(kernel, arguments that
// hosts pass): what follows these says which it is.
#define BY_INDEX(X) X(is, 10) X(gather, 8) X(ia, 8) X(s, 7) X(sa, 7)

// Elements that a thread has on their way at once.
constexpr int AT_ONCE = 4;

// The element or vector of `from` at index * stride, 0 where the index is absent. A bad index is read as absent, and
// `refused` becomes i: a trap in a loop would keep its loads from overlapping.
template <class U>
__device__ __forceinline__ U select(const U *__restrict__ from, int64_t index, size_t stride, size_t src_dim, size_t i,
                                    size_t &refused) {
    bool absent = is_absent(index), outside = is_outside(index, src_dim);
    if (outside && !absent) refused = i;
    U value = {};
    if (!outside && !absent) value = read_global<U>(from + (size_t)index * stride);
    return value;
}

// Moves elements or vectors of them, U, so many at once: their numbers fit N, and the index of row r of the result is
// at place(r). Returns the row of an index that is refused, or NONE.
template <int TOGETHER, class N, class U, class Place>
__device__ __forceinline__ size_t select_vectors(size_t vectors, const Indices &ids, const U *__restrict__ src,
                                                 U *__restrict__ dst, size_t src_dim, size_t ids_dim, size_t right,
                                                 Place place) {
    size_t refused = NONE, step = global_threads(), i = global_thread();
    auto move = [&](auto count) INLINED {
        constexpr int COUNT = count;
        N row[COUNT];
        size_t at[COUNT];
        int64_t index[COUNT];
        const U *from[COUNT];
        U values[COUNT];
#pragma unroll
        for (int s = 0; s < COUNT; s++) {
            N vector = (N)(i + s * step), of_all = vector / (N)right, left = of_all / (N)ids_dim;
            row[s] = of_all - left * (N)ids_dim;
            at[s] = place(row[s]);
            // Where the vector would be for index 0.
            from[s] = src + (size_t)left * src_dim * right + (vector - of_all * (N)right);
        }
        ids.read(index, at);
#pragma unroll
        for (int s = 0; s < COUNT; s++) values[s] = select(from[s], index[s], right, src_dim, row[s], refused);
#pragma unroll
        for (int s = 0; s < COUNT; s++) dst[i + s * step] = values[s];
    };
    if constexpr (TOGETHER > 1)
        for (; i + (TOGETHER - 1) * step < vectors; i += TOGETHER * step) move(Constant<TOGETHER>());
    for (; i < vectors; i += step) move(Constant<1>());
    return refused;
}

// Where the indices of index_select are.
struct IndexLayout {
    size_t num_dims;
    const size_t *info;
    __device__ __forceinline__ size_t place(size_t row) const {
        return num_dims == 1 ? row * info[1] : strided_offset(row, num_dims, info);
    }
};

// As above. More vectors than 32 bits count, and indices that do not lie evenly, have a loop of their own: divisions of
// 64 bits take some hundred instructions.
template <class U>
__device__ __forceinline__ size_t select_vectors(size_t vectors, const IndexLayout &layout, const Indices &ids,
                                                 const U *__restrict__ src, U *__restrict__ dst, size_t src_dim,
                                                 size_t ids_dim, size_t right) {
    if (layout.num_dims == 1 && vectors <= 0xffffffffu) {
        size_t stride = layout.info[1];
        return select_vectors<AT_ONCE, uint32_t>(vectors, ids, src, dst, src_dim, ids_dim, right,
                                                 [=](size_t row) INLINED { return row * stride; });
    }
    return select_vectors<1, size_t>(vectors, ids, src, dst, src_dim, ids_dim, right,
                                     [=](size_t row) INLINED { return layout.place(row); });
}

template <class T>
__device__ __forceinline__ void index_select(size_t numel, const IndexLayout &layout, const Indices &ids,
                                             const T *__restrict__ src, T *__restrict__ dst, size_t src_dim,
                                             size_t ids_dim, size_t right) {
    using Wide = vec<uint32_t, 4>;
    size_t refused;
    if (right % VEC16<T> == 0 && is_aligned(src, 16) && is_aligned(dst, 16)) {
        refused = select_vectors(numel / VEC16<T>, layout, ids, (const Wide *)src, (Wide *)dst, src_dim, ids_dim,
                                 right / VEC16<T>);
    } else {
        refused = select_vectors(numel, layout, ids, src, dst, src_dim, ids_dim, right);
    }
    if (refused != NONE) ids.refuse(Operation("index_select"), row_outside, layout.place(refused), src_dim, refused);
}
#define INDEX_SELECT(NAME, T)                                                                                     \
    ENTRY is_##NAME(size_t numel, size_t num_dims, const size_t *__restrict__ info, const void *__restrict__ ids, \
                    const T *__restrict__ src, T *__restrict__ dst, size_t left, size_t src_dim, size_t ids_dim,  \
                    size_t right, uint32_t index_type) {                                                          \
        index_select(numel, {num_dims, info}, {ids, index_type}, src, dst, src_dim, ids_dim, right);              \
    }

// N neighbouring elements at a time: they lie in one row of the indices, or are columns of one. Returns the number of
// an index that is refused, or NONE.
template <int N, class T>
__device__ __forceinline__ size_t gather(size_t numel, const Indices &ids, const T *__restrict__ src,
                                         T *__restrict__ dst, size_t src_dim, size_t ids_dim, size_t right) {
    bool fits_32 = numel <= 0xffffffffu;
    size_t refused = NONE;
    for (size_t i = global_thread() * N; i < numel; i += global_threads() * N) {
        size_t row = divide(i, right, fits_32), left = divide(row, ids_dim, fits_32);
        const T *from = src + left * src_dim * right + (i - row * right);
        int64_t index[N];
        ids.read_neighbours(index, i);
        vec<T, N> values;
#pragma unroll
        for (int k = 0; k < N; k++)
            values[k] = select(from + (right == 1 ? 0 : k), index[k], right, src_dim, i + k, refused);
        store_vec(dst + i, values);
    }
    return refused;
}

template <class T>
__device__ __forceinline__ void gather(size_t numel, const Indices &ids, const T *__restrict__ src, T *__restrict__ dst,
                                       size_t src_dim, size_t ids_dim, size_t right) {
    constexpr size_t N = AT_ONCE;
    bool together = right == 1 ? ids_dim % N == 0 : right % N == 0;
    size_t refused;
    if (together && ids.are_aligned<N>() && is_aligned(dst, N * sizeof(T)))
        refused = gather<(int)N>(numel, ids, src, dst, src_dim, ids_dim, right);
    else refused = gather<1>(numel, ids, src, dst, src_dim, ids_dim, right);
    if (refused != NONE) ids.refuse(Operation("gather"), place_outside, refused, src_dim, refused);
}
#define GATHER(NAME, T)                                                                                             \
    ENTRY gather_##NAME(size_t numel, const void *__restrict__ ids, const T *__restrict__ src, T *__restrict__ dst, \
                        size_t left, size_t src_dim, size_t ids_dim, size_t right, uint32_t index_type) {           \
        gather(numel, {ids, index_type}, src, dst, src_dim, ids_dim, right);                                        \
    }

// Registers shall be enough for the wavefronts of a SIMD that LDS has room for, and for so many workgroups of NVIDIA's
// multiprocessors.
#if defined(__HIP__)
#define UPDATE_ENTRY ENTRY __launch_bounds__(UPDATE_THREADS) __attribute__((amdgpu_waves_per_eu(UPDATE_GRIDS)))
#else
#define UPDATE_ENTRY ENTRY __launch_bounds__(UPDATE_THREADS, UPDATE_GRIDS)
#endif

// Updates of columns that have the same indices for each left, by rows, by bins or by queues. Returns the place of an
// index that is refused, or NONE.
template <class Update>
__device__ __forceinline__ size_t update_alike(const Indices &ids, const typename Update::Element *__restrict__ src,
                                               typename Update::Element *dst, const UpdateShape &shape, bool common) {
    size_t waves = global_threads() / wave_size();
    if (shape.right == 1 && shape.left * WAVES_OF_ROW >= waves)
        return update_rows<Update>(ids, src, dst, shape, common);
    if (shape.right <= MOST_BINNED) return update_binned<Update>(ids, src, dst, shape, common);
    return update_queued<Update>(ids, src, dst, shape, common);
}

template <class T>
__device__ __forceinline__ void index_add(const Indices &ids, const T *__restrict__ src, T *dst,
                                          const UpdateShape &shape) {
    size_t refused = update_alike<AddUpdate<T>>(ids, src, dst, shape, true);
    if (refused != NONE) ids.refuse(Operation("index_add"), row_outside, refused, shape.dst_dim, refused);
}
#define INDEX_ADD(NAME, T)                                                                                   \
    UPDATE_ENTRY ia_##NAME(const void *__restrict__ ids, size_t ids_dim, const T *__restrict__ src, T *dst,  \
                           size_t left, size_t src_dim, size_t dst_dim, size_t right, uint32_t index_type) { \
        index_add({ids, index_type}, src, dst, {left, ids_dim, dst_dim, right});                             \
    }

template <class Update>
__device__ __forceinline__ void scatter(const Indices &ids, const typename Update::Element *__restrict__ src,
                                        typename Update::Element *dst, const UpdateShape &shape, Operation operation) {
    size_t refused;
    if (shape.right == 1) refused = update_alike<Update>(ids, src, dst, shape, false);
    else refused = update_tiles<Update>(ids, src, dst, shape);
    if (refused != NONE) ids.refuse(operation, place_outside, refused, shape.dst_dim, refused);
}
#define SCATTER_BY(PREFIX, UPDATE, OPERATION, NAME, T)                                                          \
    UPDATE_ENTRY PREFIX##_##NAME(const void *__restrict__ ids, const T *__restrict__ src, T *dst, size_t left,  \
                                 size_t src_dim, size_t dst_dim, size_t right, uint32_t index_type) {           \
        scatter<UPDATE<T>>({ids, index_type}, src, dst, {left, src_dim, dst_dim, right}, Operation(OPERATION)); \
    }

#define MOVES_OF(NAME, T) \
    INDEX_SELECT(NAME, T) \
    GATHER(NAME, T)       \
    SCATTER_BY(s, SetUpdate, "scatter", NAME, T)
FOR_SIZES(MOVES_OF)

#define SUMS_OF(NAME, T) \
    INDEX_ADD(NAME, T)   \
    SCATTER_BY(sa, AddUpdate, "scatter_add", NAME, T)
FOR_ALL(SUMS_OF)
