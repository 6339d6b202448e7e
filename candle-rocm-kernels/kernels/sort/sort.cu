// Argument sort of the rows of a contiguous matrix: bitonic, in LDS, one workgroup a row, as Candle asks for it. The
// runtime launches the radix sort of radix_sort.cu instead, wherever it knows the arguments.
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
