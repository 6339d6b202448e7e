// Matrix products for Candle's matmul, in place of cuBLAS: strided batches, column-major.
// Sums are f32 for f16, bf16 and f32, and f64 for f64, in an order that depends on the shape alone.
#include "matmul/elements.cuh"
#include "matmul/skinny/product.cuh"
#include "matmul/gemm_kernels.cuh"
#include "matmul/main_loop/vector_units.cuh"

// Any product.
#define TILE_OPS(TYPE, TM, TN, ROWS, COLS, OPS, OP_A, OP_B)                              \
    ENTRY __launch_bounds__((Shape<TM, TN, 16, ROWS, COLS>::THREADS))                    \
        gemm_##TYPE##_##TM##x##TN##_##OPS(GemmProblem p) {                               \
        gemm_tile<element_##TYPE, Shape<TM, TN, 16, ROWS, COLS>, Op::OP_A, Op::OP_B>(p); \
    }
#define TILE(TYPE, TM, TN, ROWS, COLS)           \
    TILE_OPS(TYPE, TM, TN, ROWS, COLS, nn, N, N) \
    TILE_OPS(TYPE, TM, TN, ROWS, COLS, nt, N, T) \
    TILE_OPS(TYPE, TM, TN, ROWS, COLS, tn, T, N) \
    TILE_OPS(TYPE, TM, TN, ROWS, COLS, tt, T, T)

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
