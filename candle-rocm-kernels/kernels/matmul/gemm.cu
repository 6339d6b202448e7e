// Matrix products for Candle's matmul, in place of cuBLAS: strided batches, column-major.
// Sums are f32 for f16, bf16 and f32, and f64 for f64, in an order that depends on the shape alone.
#include "matmul/few/product.cuh"
#include "matmul/gemm_tile.cuh"

// gemm_<type>_<rows>x<columns>_<ops>: any product.
#define TILE(TYPE, ELEMENT_T, TM, TN, ROWS, COLS, OPS, OP_A, OP_B)                  \
    ENTRY __launch_bounds__((Shape<TM, TN, 16, ROWS, COLS>::THREADS))               \
        gemm_##TYPE##_##TM##x##TN##_##OPS(GemmProblem p) {                          \
        gemm_tile<ELEMENT_T, Shape<TM, TN, 16, ROWS, COLS>, Op::OP_A, Op::OP_B>(p); \
    }
#define TILE_OPS(TYPE, ELEMENT_T, TM, TN, ROWS, COLS)   \
    TILE(TYPE, ELEMENT_T, TM, TN, ROWS, COLS, nn, N, N) \
    TILE(TYPE, ELEMENT_T, TM, TN, ROWS, COLS, nt, N, T) \
    TILE(TYPE, ELEMENT_T, TM, TN, ROWS, COLS, tn, T, N) \
    TILE(TYPE, ELEMENT_T, TM, TN, ROWS, COLS, tt, T, T)

// gemv_t_<type>_c<columns>, gemv_n_<type>_c<columns>: at most so many columns, with A's k or its rows together.
// `layout`, of `Layout`, is an argument, for it costs the loops nothing. candle_rocm_kernels::few lists which there
// are.
#define VECTOR_OF(NAME, ...)                                                                         \
    ENTRY __launch_bounds__((FewProduct<__VA_ARGS__>::THREADS), (FewProduct<__VA_ARGS__>::RESIDENT)) \
        NAME(MatmulProblem p, uint32_t layout, uint32_t sharing) {                                   \
        FewProduct<__VA_ARGS__>().run(p, layout, sharing);                                           \
    }
#define VECTOR(TYPE, T, COLUMNS)                             \
    VECTOR_OF(gemv_t_##TYPE##_c##COLUMNS, T, COLUMNS, false) \
    VECTOR_OF(gemv_n_##TYPE##_c##COLUMNS, T, COLUMNS, true)
#if defined(FEW_UNIT)
#define HALVES(TYPE, T) VECTOR(TYPE, T, 16)
#elif defined(FEW_MMA)
#define HALVES(TYPE, T) VECTOR(TYPE, T, 8) VECTOR(TYPE, T, 16)
#else
#define HALVES(TYPE, T) SINGLES(TYPE, T)
#endif
// The matrix unit's for 16 columns is no slower.
#if defined(FEW_MMA)
#define EIGHT_ROWS_TOGETHER(TYPE, T)
#else
#define EIGHT_ROWS_TOGETHER(TYPE, T) VECTOR_OF(gemv_n_##TYPE##_c8, T, 8, true)
#endif
#define SINGLES(TYPE, T)                       \
    VECTOR(TYPE, T, 1)                         \
    VECTOR(TYPE, T, 2)                         \
    VECTOR(TYPE, T, 4)                         \
    VECTOR_OF(gemv_t_##TYPE##_c8, T, 8, false) \
    EIGHT_ROWS_TOGETHER(TYPE, T)               \
    VECTOR(TYPE, T, 16)
#define DOUBLES(TYPE, T) \
    VECTOR(TYPE, T, 1)   \
    VECTOR(TYPE, T, 4)   \
    VECTOR(TYPE, T, 16)

// gemm_sum_<type> adds up the parts of k; gemm_epilogue_<type> does what follows a product to C as it is.
#define ELEMENT(TYPE, T, VECTORS)                                                    \
    TILE_OPS(TYPE, T, 64, 64, 4, 4)                                                  \
    TILE_OPS(TYPE, T, 32, 32, 4, 4)                                                  \
    VECTORS(TYPE, T)                                                                 \
    ENTRY __launch_bounds__(256) gemm_sum_##TYPE(MatmulProblem p, uint32_t layout) { \
        gemm_sum<T>(p, layout & TRANSPOSED);                                         \
    }                                                                                \
    ENTRY __launch_bounds__(256) gemm_epilogue_##TYPE(MatmulProblem p) { gemm_epilogue<T>(p); }

ELEMENT(f32, float, SINGLES)
ELEMENT(f16, half_t, HALVES)
ELEMENT(bf16, bf16_t, HALVES)
ELEMENT(f64, double, DOUBLES)
// 8 x 8 sums in f64 would be half of a thread's registers, so these are for the others.
TILE_OPS(f32, float, 128, 128, 8, 8)
TILE_OPS(f16, half_t, 128, 128, 8, 8)
TILE_OPS(bf16, bf16_t, 128, 128, 8, 8)
