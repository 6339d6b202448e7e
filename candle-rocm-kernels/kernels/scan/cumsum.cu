// Inclusive sums along a dimension of a contiguous tensor, read once and written once: the workgroups of a launch leave
// each other their sums.
//
// The order of a sum is fixed by the shape and the wavefront's lanes. f16, bf16 and f8e4m3 are summed in f32 and each
// result is rounded once; integers wrap around. The host (scan.rs) chooses tiles and groups.
#include "scan/columns.cuh"
#include "scan/rows.cuh"

#define CUMSUM(NAME, T)                                                                                        \
    ENTRY __launch_bounds__(SCAN_THREADS) cumsum_rows_##NAME(                                                  \
        const T *__restrict__ source, T *__restrict__ result, int64_t *words, size_t rows, size_t count,       \
        uint32_t threads, uint32_t together, uint32_t tiles, uint32_t of_group, uint32_t flags) {              \
        scan_rows<T>(source, result, words, rows, count, threads, together, tiles, of_group, flags);           \
    }                                                                                                          \
    ENTRY __launch_bounds__(SCAN_THREADS) cumsum_columns_##NAME(                                               \
        const T *__restrict__ source, T *__restrict__ result, int64_t *words, size_t matrices, size_t count,   \
        size_t inner, uint32_t lanes, uint32_t tiles, uint32_t blocks, uint32_t of_group, uint32_t flags) {    \
        scan_columns<T>(source, result, words, matrices, count, inner, lanes, tiles, blocks, of_group, flags); \
    }
FOR_ALL(CUMSUM)
