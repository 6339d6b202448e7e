// Selection and update by index: index_select, gather, index_add, scatter, scatter_add.
//
// Tensors are contiguous and seen as (left, dim, right) around the indexed dimension. The largest
// value of the index type marks a place without source: it reads as zero and is not written. Any
// other index outside the dimension ends the launch, with a report, where Candle's CPU backend returns an error.
//
// The updates give each (left, right) column to one thread, which walks it in order: results do not
// depend on scheduling even where indices repeat.
#include "elementwise/elementwise.cuh"
#include "portable/report.cuh"

template <class I> __device__ __forceinline__ bool is_absent(I index) {
    constexpr bool SIGNED = (I)-1 < (I)0;
    return index == (SIGNED ? (I)(((uint64_t)1 << (8 * sizeof(I) - 1)) - 1) : (I)-1);
}

// The index as a place in a dimension of `size`. `position` is the index's own place in the tensor of indices.
template <class I>
__device__ __forceinline__ size_t checked(I index, size_t size, Operation operation, Reason reason, size_t position) {
    // A negative index is a huge unsigned one.
    if ((uint64_t)(int64_t)index >= (uint64_t)size) refuse<I>(operation, reason, (int64_t)index, size, position);
    return (size_t)index;
}

// No place.
constexpr size_t NONE = ~(size_t)0;
// Elements that a thread has on their way at once.
constexpr int AT_ONCE = 4;

// dst[i] = the unit of src that place(i, index) gives, 0 where the index is absent, for all i below `count`; index(i)
// reads the index. A bad index is read as absent, and its i returned: a trap in the loop would keep loads from overlapping.
template <class U, class Index, class Place>
__device__ __forceinline__ size_t select(size_t count, size_t src_dim, const U *__restrict__ src, U *__restrict__ dst,
                                         Index index, Place place) {
    size_t refused = NONE, step = global_threads();
    for (size_t first = global_thread(); first < count; first += AT_ONCE * step) {
        decltype(index(first)) found[AT_ONCE];
        U values[AT_ONCE];
#pragma unroll
        for (int s = 0; s < AT_ONCE; s++) {
            size_t i = first + s * step;
            if (i < count) found[s] = index(i);
        }
#pragma unroll
        for (int s = 0; s < AT_ONCE; s++) {
            size_t i = first + s * step;
            values[s] = U{};
            if (i >= count || is_absent(found[s])) continue;
            // A negative index is a huge unsigned one.
            if ((uint64_t)(int64_t)found[s] >= (uint64_t)src_dim) refused = i;
            else values[s] = read_global<U>(src + place(i, (size_t)found[s]));
        }
#pragma unroll
        for (int s = 0; s < AT_ONCE; s++) {
            size_t i = first + s * step;
            if (i < count) dst[i] = values[s];
        }
    }
    return refused;
}

// Moves units of U, which may be several elements.
template <class U, class I>
__device__ __forceinline__ void index_select(size_t units, size_t num_dims, const size_t *__restrict__ info,
                                             const I *__restrict__ ids, const U *__restrict__ src, U *__restrict__ dst,
                                             size_t src_dim, size_t ids_dim, size_t right) {
    constexpr Operation OPERATION("index_select");
    bool narrow = units <= 0xffffffffu;
    auto index = [&](size_t i) INLINED {
        size_t row = divide(i, right, narrow), id = row - divide(row, ids_dim, narrow) * ids_dim;
        return ids[num_dims == 1 ? id * info[1] : strided_offset(id, num_dims, info)];
    };
    size_t refused = select(units, src_dim, src, dst, index, [&](size_t i, size_t from) INLINED {
        size_t row = divide(i, right, narrow), left = divide(row, ids_dim, narrow);
        return (left * src_dim + from) * right + (i - row * right);
    });
    if (refused != NONE) {
        size_t id = divide(refused, right, narrow) % ids_dim;
        refuse<I>(OPERATION, row_outside, (int64_t)index(refused), src_dim, id);
    }
}

#define INDEX_SELECT(I_NAME, I, NAME, T)                                                                               \
    ENTRY is_##I_NAME##_##NAME(size_t numel, size_t num_dims, const size_t *__restrict__ info,                         \
                               const I *__restrict__ ids, const T *__restrict__ src, T *__restrict__ dst, size_t left, \
                               size_t src_dim, size_t ids_dim, size_t right) {                                         \
        using Bits = bits_of<sizeof(T)>::type;                                                                         \
        using Wide = vec<uint32_t, 4>;                                                                                 \
        if (right % VEC16<T> == 0 && is_aligned(src, 16) && is_aligned(dst, 16)) {                                     \
            index_select(numel / VEC16<T>, num_dims, info, ids, (const Wide *)src, (Wide *)dst, src_dim, ids_dim,      \
                         right / VEC16<T>);                                                                            \
        } else {                                                                                                       \
            index_select(numel, num_dims, info, ids, (const Bits *)src, (Bits *)dst, src_dim, ids_dim, right);         \
        }                                                                                                              \
    }

template <class T, class I>
__device__ __forceinline__ void gather(size_t numel, const I *__restrict__ ids, const T *__restrict__ src,
                                       T *__restrict__ dst, size_t src_dim, size_t ids_dim, size_t right) {
    constexpr Operation OPERATION("gather");
    bool narrow = numel <= 0xffffffffu;
    auto index = [&](size_t i) INLINED {
        return ids[i];
    };
    size_t refused = select(numel, src_dim, src, dst, index, [&](size_t i, size_t from) INLINED {
        size_t row = divide(i, right, narrow), left = divide(row, ids_dim, narrow);
        return (left * src_dim + from) * right + (i - row * right);
    });
    if (refused != NONE) refuse<I>(OPERATION, place_outside, (int64_t)ids[refused], src_dim, refused);
}
#define GATHER(I_NAME, I, NAME, T)                                                                                   \
    ENTRY gather_##I_NAME##_##NAME(size_t numel, const I *__restrict__ ids, const T *__restrict__ src,               \
                                   T *__restrict__ dst, size_t left, size_t src_dim, size_t ids_dim, size_t right) { \
        using Bits = bits_of<sizeof(T)>::type;                                                                       \
        gather(numel, ids, (const Bits *)src, (Bits *)dst, src_dim, ids_dim, right);                                 \
    }

// Each sum is rounded to the element type, as on the CPU.
template <class T> __device__ __forceinline__ T add(T a, T b) { return narrow<T>((compute_t<T>)(widen(a) + widen(b))); }

template <class T, class I>
__device__ __forceinline__ void index_add(const I *__restrict__ ids, size_t ids_dim, const T *__restrict__ src, T *dst,
                                          size_t left, size_t src_dim, size_t dst_dim, size_t right) {
    constexpr Operation OPERATION("index_add");
    size_t columns = left * right;
    for (size_t i = global_thread(); i < columns; i += global_threads()) {
        size_t pre = divide(i, right, columns <= 0xffffffffu), post = i - pre * right;
        for (size_t j = 0; j < ids_dim; j++) {
            I index = ids[j];
            if (is_absent(index)) continue;
            size_t row = checked(index, dst_dim, OPERATION, row_outside, j);
            T *to = dst + (pre * dst_dim + row) * right + post;
            *to = add(*to, src[(pre * src_dim + j) * right + post]);
        }
    }
}
#define INDEX_ADD(I_NAME, I, NAME, T)                                                                        \
    ENTRY ia_##I_NAME##_##NAME(const I *__restrict__ ids, size_t ids_dim, const T *__restrict__ src, T *dst, \
                               size_t left, size_t src_dim, size_t dst_dim, size_t right) {                  \
        index_add(ids, ids_dim, src, dst, left, src_dim, dst_dim, right);                                    \
    }

template <class T, class I, class Update>
__device__ __forceinline__ void scatter(const I *__restrict__ ids, const T *__restrict__ src, T *dst, size_t left,
                                        size_t src_dim, size_t dst_dim, size_t right, Operation operation,
                                        Update update) {
    size_t columns = left * right;
    for (size_t i = global_thread(); i < columns; i += global_threads()) {
        size_t pre = divide(i, right, columns <= 0xffffffffu), post = i - pre * right;
        for (size_t j = 0; j < src_dim; j++) {
            size_t from = (pre * src_dim + j) * right + post;
            I index = ids[from];
            if (is_absent(index)) continue;
            size_t place = checked(index, dst_dim, operation, place_outside, from);
            update(dst + (pre * dst_dim + place) * right + post, src[from]);
        }
    }
}
#define SCATTER_PARAMETERS(I, T)                                                                               \
    const I *__restrict__ ids, const T *__restrict__ src, T *dst, size_t left, size_t src_dim, size_t dst_dim, \
        size_t right
#define SCATTER(I_NAME, I, NAME, T)                                                                       \
    ENTRY s_##I_NAME##_##NAME(SCATTER_PARAMETERS(I, T)) {                                                 \
        using Bits = bits_of<sizeof(T)>::type;                                                            \
        scatter(ids, (const Bits *)src, (Bits *)dst, left, src_dim, dst_dim, right, Operation("scatter"), \
                [](Bits *to, Bits value) { *to = value; });                                               \
    }                                                                                                     \
    ENTRY sa_##I_NAME##_##NAME(SCATTER_PARAMETERS(I, T)) {                                                \
        scatter(ids, src, dst, left, src_dim, dst_dim, right, Operation("scatter_add"),                   \
                [](T *to, T value) { *to = add(*to, value); });                                           \
    }

#define ALL_BY(I_NAME, I, NAME, T)   \
    INDEX_SELECT(I_NAME, I, NAME, T) \
    GATHER(I_NAME, I, NAME, T)       \
    INDEX_ADD(I_NAME, I, NAME, T)    \
    SCATTER(I_NAME, I, NAME, T)
#define ALL_INDEXING(NAME, T) FOR_INDICES(ALL_BY, NAME, T)
FOR_ALL(ALL_INDEXING)
