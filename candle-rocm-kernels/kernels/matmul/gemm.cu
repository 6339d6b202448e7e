// Matrix products for Candle's matmul, in place of cuBLAS: strided batches, column-major.
// Sums are f32 for f16, bf16 and f32, and f64 for f64, in an order that depends on the shape alone.
#include "matmul/elements.cuh"
#include "matmul/skinny/product.cuh"
#include "matmul/gemm_kernels.cuh"
#include "matmul/main_loop/dual_issue.cuh"
#include "matmul/main_loop/vector_units.cuh"

// Any product. Workgroups of one stage have a compute unit of RDNA's pairs for themselves: the LDS of two is one or the
// other for all of a workgroup, so that three workgroups keep one of them busy for two thirds of the time.
#define SCHEDULE_1 gemm_dual_issue
#define SCHEDULE_2 gemm_tile
#define MODE_1 __attribute__((target("cumode")))
#define MODE_2
#define TILE_OPS(TYPE, SHAPE, STAGES, NAME, OPS, OP_A, OP_B)                            \
    MODE_##STAGES ENTRY __launch_bounds__(SHAPE::THREADS) NAME##_##OPS(GemmProblem p) { \
        SCHEDULE_##STAGES<element_##TYPE, SHAPE, Op::OP_A, Op::OP_B>(p);                \
    }
#define TILE(TYPE, TM, TN, ROWS, COLS, STAGES)                                              \
    using Shape_##TYPE##_##TM##x##TN = Shape<TM, TN, 16, ROWS, COLS, STAGES>;               \
    TILE_OPS(TYPE, Shape_##TYPE##_##TM##x##TN, STAGES, gemm_##TYPE##_##TM##x##TN, nn, N, N) \
    TILE_OPS(TYPE, Shape_##TYPE##_##TM##x##TN, STAGES, gemm_##TYPE##_##TM##x##TN, nt, N, T) \
    TILE_OPS(TYPE, Shape_##TYPE##_##TM##x##TN, STAGES, gemm_##TYPE##_##TM##x##TN, tn, T, N) \
    TILE_OPS(TYPE, Shape_##TYPE##_##TM##x##TN, STAGES, gemm_##TYPE##_##TM##x##TN, tt, T, T)

// Few columns. `layout`, of `Layout`, is an argument, for it costs the loops nothing.
#define SKINNY(FORM, TYPE, COLUMNS, BY, LANES, THREADS, ROWS, STEP, LDS_KIB)                                 \
    using Skinny_##FORM##_##TYPE##_##COLUMNS = SkinnyProduct<element_##TYPE, COLUMNS, ROWS_TOGETHER_##FORM>; \
    static_assert(Skinny_##FORM##_##TYPE##_##COLUMNS::is_listed_as(BY, LANES, THREADS, ROWS, STEP, LDS_KIB), \
                  "the list's measures");                                                                    \
    ENTRY __launch_bounds__(THREADS, (Skinny_##FORM##_##TYPE##_##COLUMNS::RESIDENT))                         \
        skinny_##FORM##_##TYPE##_n##COLUMNS(MatmulProblem p, uint32_t layout, uint32_t log2_slice_k) {       \
        Skinny_##FORM##_##TYPE##_##COLUMNS().run(p, layout, log2_slice_k);                                   \
    }
#define ROWS_TOGETHER_t false
#define ROWS_TOGETHER_n true

// gemm_sum_<type> adds up the splits of k; gemm_epilogue_<type> does what follows a product to C as it is.
#define END(TYPE)                                                                    \
    ENTRY __launch_bounds__(256) gemm_sum_##TYPE(MatmulProblem p, uint32_t layout) { \
        gemm_sum<element_##TYPE>(p, layout & TRANSPOSED);                            \
    }                                                                                \
    ENTRY __launch_bounds__(256) gemm_epilogue_##TYPE(MatmulProblem p) { gemm_epilogue<element_##TYPE>(p); }

LISTED(GEMM_KERNELS)(TILE, SKINNY, END)
