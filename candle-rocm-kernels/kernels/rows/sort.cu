// Argument sort of the rows of a contiguous matrix: bitonic, in LDS, one workgroup a row. Rows that do not fit LDS are
// sorted by runs, which are merged in memory.
//
// Equal elements stay in order, as in the CPU's stable sort. NaNs sort as the largest values.
#include "portable/convert.cuh"

// How these are launched: launch_heuristics.rs says what the words mean.
#define LAUNCHES(X, EVERY)  \
    X(asort_asc, Sorted, 2) \
    X(asort_desc, Sorted, 2)

// Whether element a belongs before element b; indices from `columns` on are padding, and last.
template <bool ASCENDING, class T>
__device__ __forceinline__ bool comes_before(const T *__restrict__ row, uint32_t a, uint32_t b, uint32_t columns) {
    if (a >= columns || b >= columns) return a < b;
    compute_t<T> x = upcast(row[a]), y = upcast(row[b]);
    bool x_nan = x != x, y_nan = y != y;
    bool less = y_nan ? !x_nan : x < y, greater = x_nan ? !y_nan : x > y;
    if (less || greater) return ASCENDING ? less : greater;
    return a < b;
}

template <bool ASCENDING, class T>
__device__ __forceinline__ void asort(const T *__restrict__ src, uint32_t *__restrict__ dst, uint32_t columns,
                                      uint32_t padded) {
    extern __shared__ uint32_t order[];
    const T *row = src + (size_t)blockIdx.x * columns;
    for (uint32_t i = threadIdx.x; i < padded; i += blockDim.x) order[i] = i;
    __syncthreads();
    for (uint32_t run = 2; run <= padded; run *= 2) {
        for (uint32_t distance = run / 2; distance > 0; distance /= 2) {
            // Pair number p compares `low` with the element `distance` above it.
            for (uint32_t p = threadIdx.x; p < padded / 2; p += blockDim.x) {
                uint32_t low = 2 * p - (p & (distance - 1)), high = low + distance;
                uint32_t a = order[low], b = order[high];
                bool upwards = (low & run) == 0;
                if (comes_before<ASCENDING>(row, b, a, columns) == upwards) {
                    order[low] = b;
                    order[high] = a;
                }
            }
            __syncthreads();
        }
    }
    uint32_t *out = dst + (size_t)blockIdx.x * columns;
    for (uint32_t i = threadIdx.x; i < columns; i += blockDim.x) out[i] = order[i];
}

#define ASORT(NAME, T)                                                                                              \
    ENTRY __launch_bounds__(1024)                                                                                   \
        asort_asc_##NAME(const T *__restrict__ src, uint32_t *__restrict__ dst, int32_t columns, int32_t padded) {  \
        asort<true>(src, dst, columns, padded);                                                                     \
    }                                                                                                               \
    ENTRY __launch_bounds__(1024)                                                                                   \
        asort_desc_##NAME(const T *__restrict__ src, uint32_t *__restrict__ dst, int32_t columns, int32_t padded) { \
        asort<false>(src, dst, columns, padded);                                                                    \
    }
FOR_ALL(ASORT)

// --------------------------------------------------- rows that do not fit LDS

// Pairs of a run, which a workgroup sorts in LDS (long_sort.rs), and the workgroup's threads.
constexpr uint32_t RUN = 1024, RUN_THREADS = 256;

// An integer whose order is that of the elements: a NaN is the largest, whatever its sign, and -0 equals 0.
template <class T> __device__ __forceinline__ uint64_t sort_key(T element) {
    constexpr uint64_t SIGN = (uint64_t)1 << 63;
    if constexpr (is_float<T>::value) {
        compute_t<T> x = upcast(element);
        if (x != x) return ~(uint64_t)0;
        if (x == 0) x = 0;
        constexpr int BYTES = sizeof(x);
        uint64_t bits = (uint64_t)bit_cast<typename bits_of<BYTES>::type>(x) << (64 - 8 * BYTES);
        return bits & SIGN ? ~bits : bits | SIGN;
    } else if constexpr ((T)-1 < (T)0) {
        return (uint64_t)(int64_t)element ^ SIGN;
    } else {
        return element;
    }
}

// The keys of `count` elements. `flip` is 0, or all ones to sort in descending order.
#define ASORT_KEYS(NAME, T)                                                                                        \
    ENTRY __launch_bounds__(256)                                                                                   \
        asort_keys_##NAME(const T *__restrict__ src, uint64_t *__restrict__ keys, uint64_t count, uint64_t flip) { \
        for (size_t i = global_thread(); i < count; i += global_threads()) keys[i] = sort_key(src[i]) ^ flip;      \
    }
FOR_ALL(ASORT_KEYS)

// Sorts the runs of each row: the keys in place, and their columns into `index`. Equal keys stay in order.
ENTRY __launch_bounds__(RUN_THREADS)
    asort_runs(uint64_t *__restrict__ keys, uint32_t *__restrict__ index, uint32_t rows, uint32_t columns) {
    __shared__ uint64_t run_keys[RUN];
    __shared__ uint32_t run_positions[RUN];
    uint32_t of_row = ceil_div(columns, RUN);
    for (size_t run = blockIdx.x; run < (size_t)rows * of_row; run += gridDim.x) {
        size_t row = run / of_row;
        uint32_t first = (uint32_t)(run - row * of_row) * RUN, length = min_of(columns - first, RUN);
        uint64_t *from = keys + row * columns + first;
        for (uint32_t i = threadIdx.x; i < RUN; i += blockDim.x) {
            // Padding has the largest key and a place behind all others.
            run_keys[i] = i < length ? from[i] : ~(uint64_t)0;
            run_positions[i] = i;
        }
        __syncthreads();
        for (uint32_t sorted = 2; sorted <= RUN; sorted *= 2) {
            for (uint32_t distance = sorted / 2; distance > 0; distance /= 2) {
                for (uint32_t p = threadIdx.x; p < RUN / 2; p += blockDim.x) {
                    uint32_t low = 2 * p - (p & (distance - 1)), high = low + distance;
                    uint64_t a = run_keys[low], b = run_keys[high];
                    uint32_t a_position = run_positions[low], b_position = run_positions[high];
                    bool upwards = (low & sorted) == 0;
                    if ((b < a || (b == a && b_position < a_position)) == upwards) {
                        run_keys[low] = b, run_keys[high] = a;
                        run_positions[low] = b_position, run_positions[high] = a_position;
                    }
                }
                __syncthreads();
            }
        }
        for (uint32_t i = threadIdx.x; i < length; i += blockDim.x) {
            from[i] = run_keys[i];
            index[row * columns + first + i] = first + run_positions[i];
        }
        __syncthreads();
    }
}

// How many of the keys [begin, end), which are sorted, come before `key`: those that are smaller, or also equal ones.
__device__ __forceinline__ uint32_t keys_before(const uint64_t *__restrict__ keys, uint32_t begin, uint32_t end,
                                                uint64_t key, bool equal_too) {
    uint32_t low = begin;
    while (low < end) {
        uint32_t middle = low + (end - low) / 2;
        uint64_t other = keys[middle];
        if (other < key || (equal_too && other == key)) low = middle + 1;
        else end = middle;
    }
    return low - begin;
}

// Merges neighbouring runs of `run` pairs, a power of two, of each of the rows that `count` elements make. A pair's new
// place is its place in its run and the number of pairs of the other run that come before it. Without `to_keys` the
// indices alone are written.
ENTRY __launch_bounds__(256)
    asort_merge(const uint64_t *__restrict__ keys, const uint32_t *__restrict__ index, uint64_t *__restrict__ to_keys,
                uint32_t *__restrict__ to_index, uint64_t count, uint32_t columns, uint32_t run) {
    bool fits_32 = count <= 0xffffffffu;
    for (size_t i = global_thread(); i < count; i += global_threads()) {
        size_t row = divide(i, columns, fits_32), base = row * columns;
        uint32_t at = (uint32_t)(i - base), begin = at & ~(2 * run - 1);
        // Neither sum wraps around: there are fewer than 2^31 columns.
        uint32_t middle = min_of(begin + run, columns), end = min_of(begin + 2 * run, columns);
        uint64_t key = keys[i];
        // Equal keys of the first run come before those of the second.
        bool second = at >= middle;
        uint32_t others = keys_before(keys + base, second ? begin : middle, second ? middle : end, key, second);
        size_t to = base + (second ? at - run : at) + others;
        if (to_keys != nullptr) to_keys[to] = key;
        to_index[to] = index[i];
    }
}
