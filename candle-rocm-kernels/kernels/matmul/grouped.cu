// All kernels of matmul/grouped.cuh; src/grouped.rs lists them.
#include "matmul/grouped.cuh"

#define PRODUCTS(TYPE, TILE) \
    PRODUCT(TYPE, TILE, nn)  \
    PRODUCT(TYPE, TILE, nt)  \
    PRODUCT(TYPE, TILE, tn)  \
    PRODUCT(TYPE, TILE, tt)

PRODUCTS(f8e4m3, 128x128)
PRODUCTS(f8e4m3_blocks, 128x128)
PRODUCT(f8e4m3, 128x64, tn)
PRODUCT(f8e4m3_blocks, 128x64, tn)
PRODUCTS(f8e4m3, 128x32)
PRODUCTS(bf16, 128x128)
PRODUCT(bf16, 128x64, tn)
PRODUCTS(bf16, 128x32)

#define FEW_OF(COLUMNS)         \
    FEW(f8e4m3, COLUMNS)        \
    FEW(f8e4m3_blocks, COLUMNS) \
    FEW(bf16, COLUMNS)
#if defined(FEW_UNIT)
FEW_OF(16)
#elif defined(FEW_MMA)
FEW_OF(8)
FEW_OF(16)
#else
FEW_OF(1)
FEW_OF(4)
FEW_OF(16)
#endif

// Adds up parts of k.
ENTRY __launch_bounds__(256) grouped_sum(GroupedProblem p) { matmul_sum<bf16_t, GroupedResults>(p); }
