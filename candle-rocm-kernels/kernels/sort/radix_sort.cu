// Radix sort of the rows of a contiguous matrix, whose elements are known by their bits alone: rows that fit a
// workgroup in one launch, others by three or four launches for each digit; and the first elements in order of long
// rows. Few short rows are sorted by counting.
//
// Equal elements stay in order, and NaNs are the largest. The host (radix_sort.rs) says what the elements are.
#include "sort/long_rows.cuh"
#include "sort/ranked_rows.cuh"
#include "sort/select.cuh"
#include "sort/short_rows.cuh"

#define RADIX_SORT(BITS, U)                                                                                           \
    ENTRY __launch_bounds__(512)                                                                                      \
        radix_rows_##BITS(const U *__restrict__ source, const uint32_t *__restrict__ names,                           \
                          uint32_t *__restrict__ index, U *__restrict__ values, uint32_t rows, uint32_t columns,      \
                          uint32_t kept, uint32_t threads, uint64_t infinity, uint32_t order) {                       \
        sort_rows<U>(source, names, index, values, rows, columns, kept, threads, SortKeys<U>(order, infinity));       \
    }                                                                                                                 \
    ENTRY __launch_bounds__(128) radix_rank_##BITS(                                                                   \
        const U *__restrict__ source, const uint32_t *__restrict__ names, uint32_t *__restrict__ index,               \
        U *__restrict__ values, uint32_t columns, uint32_t kept, uint32_t parts, uint32_t order, uint64_t infinity) { \
        rank_rows<U>(source, names, index, values, columns, kept, parts, SortKeys<U>(order, infinity));               \
    }                                                                                                                 \
    ENTRY __launch_bounds__(256)                                                                                      \
        radix_count_##BITS(const U *__restrict__ source, uint32_t *__restrict__ counts, uint32_t columns,             \
                           uint32_t shift, uint64_t infinity, uint32_t order) {                                       \
        count_tile<U>(source, counts, columns, shift, SortKeys<U>(order, infinity));                                  \
    }                                                                                                                 \
    ENTRY __launch_bounds__(256)                                                                                      \
        radix_move_##BITS(const U *__restrict__ from, const uint32_t *__restrict__ index, U *__restrict__ keys,       \
                          uint32_t *__restrict__ to_columns, U *__restrict__ values, const U *__restrict__ elements,  \
                          const uint32_t *__restrict__ counts, const uint32_t *__restrict__ starts, uint32_t columns, \
                          uint32_t kept, uint64_t infinity, uint32_t shift, uint32_t given, uint32_t final) {         \
        SortMove<U> move{from, index, keys, to_columns, values, elements, counts, starts};                            \
        move_tile<U>(move, columns, kept, shift, SortKeys<U>(given, infinity), SortKeys<U>(final, infinity));         \
    }                                                                                                                 \
    ENTRY __launch_bounds__(256)                                                                                      \
        radix_select_##BITS(const U *__restrict__ source, Selection *selections, uint32_t columns, uint32_t kept,     \
                            uint32_t parts, uint32_t shift, uint64_t infinity, uint32_t order) {                      \
        find_digit<U>(source, selections, columns, kept, parts, shift, SortKeys<U>(order, infinity));                 \
    }                                                                                                                 \
    ENTRY __launch_bounds__(256)                                                                                      \
        radix_take_##BITS(const U *__restrict__ source, const Selection *__restrict__ selections, int64_t *words,     \
                          U *__restrict__ elements, uint32_t *__restrict__ taken, uint32_t columns, uint32_t kept,    \
                          uint32_t of_group, uint32_t order, uint64_t infinity) {                                     \
        take_selected<U>(source, selections, words, elements, taken, columns, kept, of_group,                         \
                         SortKeys<U>(order, infinity));                                                               \
    }
RADIX_SORT(8, uint8_t)
RADIX_SORT(16, uint16_t)
RADIX_SORT(32, uint32_t)
RADIX_SORT(64, uint64_t)

ENTRY __launch_bounds__(256)
    radix_scan_tiles(uint32_t *__restrict__ counts, uint32_t *__restrict__ starts, uint32_t columns) {
    scan_tiles(counts, starts, columns);
}
ENTRY __launch_bounds__(256) radix_scan_chunks(uint32_t *__restrict__ starts, uint32_t chunks) {
    scan_chunks(starts, chunks);
}
