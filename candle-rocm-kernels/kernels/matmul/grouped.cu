// Products on matrix units whose groups the kernel finds, in bf16 and, with scales, in FP8: all kernels of grouped.cuh.
#include "matmul/grouped.cuh"

#define PRODUCTS_all(TYPE, TILE) \
    PRODUCT(TYPE, TILE, nn)      \
    PRODUCT(TYPE, TILE, nt)      \
    PRODUCT(TYPE, TILE, tn)      \
    PRODUCT(TYPE, TILE, tt)
#define PRODUCTS_tn(TYPE, TILE) PRODUCT(TYPE, TILE, tn)
#define PRODUCTS(TYPE, OPS, SCHEDULE, ROWS, COLUMNS, ...) PRODUCTS_##OPS(TYPE, ROWS##x##COLUMNS)
#define SKINNY_COLUMNS(TYPE, COLUMNS, ...) SKINNY(TYPE, COLUMNS)
LISTED(GROUPED_KERNELS)(PRODUCTS, SKINNY_COLUMNS)

    // Adds up splits of k.
    ENTRY __launch_bounds__(256) grouped_sum(GroupedProblem p) {
    matmul_sum<bf16_t, GroupedEpilogue>(p);
}
