// Matrix products for Candle's matmul, in place of cuBLAS: strided batches, column-major.
// Sums are f32 for f16, bf16 and f32, and f64 for f64, in an order that depends on the shape alone.
#include "matmul/gemm_tile.cuh"
#include "matmul/gemm_vector.cuh"

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

// gemv_t_<type>_w<lanes>_c<columns>, gemv_n_<type>_c<columns>: at most so many columns. `layout`, of `Layout`, is
// an argument, for it costs the loops nothing.
#define VECTOR_T(TYPE, T, COLS, WIDTH)                                                                             \
    ENTRY __launch_bounds__(GEMV_T_THREADS) gemv_t_##TYPE##_w##WIDTH##_c##COLS(MatmulProblem p, uint32_t layout) { \
        GemvT<T, COLS, WIDTH>().run(p, layout);                                                                    \
    }
#define VECTOR_N(TYPE, T, COLS)                                                                         \
    ENTRY __launch_bounds__(GEMV_N_THREADS) gemv_n_##TYPE##_c##COLS(MatmulProblem p, uint32_t layout) { \
        GemvN<T, COLS>().run(p, layout);                                                                \
    }
#define VECTOR(TYPE, T, COLS)   \
    VECTOR_T(TYPE, T, COLS, 8)  \
    VECTOR_T(TYPE, T, COLS, 32) \
    VECTOR_N(TYPE, T, COLS)

#define ELEMENT(TYPE, T)            \
    TILE_OPS(TYPE, T, 64, 64, 4, 4) \
    TILE_OPS(TYPE, T, 32, 32, 4, 4) \
    VECTOR(TYPE, T, 1)              \
    VECTOR(TYPE, T, 2)              \
    VECTOR(TYPE, T, 4)              \
    VECTOR(TYPE, T, 8)              \
    ENTRY __launch_bounds__(256) gemm_epilogue_##TYPE(MatmulProblem p) { gemm_epilogue<T>(p); }

ELEMENT(f32, float)
ELEMENT(f16, half_t)
ELEMENT(bf16, bf16_t)
ELEMENT(f64, double)
// 8 x 8 sums in f64 would be half of a thread's registers, so these are for the others.
TILE_OPS(f32, float, 128, 128, 8, 8)
TILE_OPS(f16, half_t, 128, 128, 8, 8)
TILE_OPS(bf16, bf16_t, 128, 128, 8, 8)
// Where there are no matrix instructions of the type, vector units take more columns.
VECTOR(f32, float, 16)
VECTOR(f64, double, 16)
