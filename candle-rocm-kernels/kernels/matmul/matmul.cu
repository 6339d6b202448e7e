// Matrix products on matrix units, for Candle's matmul in place of cuBLAS: strided batches, column-major, every
// transposition, split-K, and what often follows a product.
#include "portable/lds.cuh"
#if defined(__HIP__) || defined(LDS_COPIES)
#include "matmul/elements.cuh"
#include "matmul/matmul_kernels.cuh"
#include "matmul/main_loop/tile.cuh"
#if defined(LDS_COPIES)
#include "matmul/main_loop/direct.cuh"
#elif defined(AMD_MFMA) && AMD_MFMA > 1
#include "matmul/main_loop/pipelined.cuh"
#endif

// Two wavefronts a SIMD, which half of the registers allow each.
#if WAVEFRONT == 64
#define MATMUL_WAVES __attribute__((amdgpu_waves_per_eu(2)))
#else
#define MATMUL_WAVES
#endif

// The list's schedules: the shape of a tile, and what makes one.
#define SHAPE_Tile(M, N, WAVES_M, WAVES_N, STAGE_BYTES, STAGES_OF_K_BLOCK, PREFETCH, REDUCTION) \
    MatmulShape<M, N, WAVES_M, WAVES_N, STAGE_BYTES, STAGES_OF_K_BLOCK, SplitK::REDUCTION>
#define SHAPE_Pipelined(M, N, WAVES_M, WAVES_N, STAGE_BYTES, STAGES_OF_K_BLOCK, PREFETCH, REDUCTION) \
    PipelinedShape<M, N, WAVES_M, WAVES_N, min_of(PREFETCH, MAX_PREFETCH), SplitK::REDUCTION>
#define SHAPE_Direct(M, N, WAVES_M, WAVES_N, STAGE_BYTES, STAGES_OF_K_BLOCK, PREFETCH, REDUCTION) \
    DirectShape<M, N, WAVES_M, WAVES_N, STAGES_OF_K_BLOCK, STAGE_BYTES, SplitK::REDUCTION>
#define RUN_Tile matmul_tile
#define RUN_Pipelined matmul_pipelined
#define RUN_Direct matmul_direct

#define PRODUCT(TYPE, RUN, SHAPE, NAME, OPS, OP_A, OP_B)                                 \
    ENTRY __launch_bounds__(SHAPE::THREADS) MATMUL_WAVES NAME##_##OPS(MatmulProblem p) { \
        RUN<element_##TYPE, SHAPE, Op::OP_A, Op::OP_B>(p);                               \
    }
#define PRODUCTS(TYPE, SCHEDULE, ROWS, COLUMNS, WAVES_M, WAVES_N, STAGE_BYTES, STAGES_OF_K_BLOCK, PREFETCH, LDS_KIB, \
                 REDUCTION)                                                                                          \
    using Shape_##TYPE##_##ROWS##x##COLUMNS =                                                                        \
        SHAPE_##SCHEDULE(ROWS, COLUMNS, WAVES_M, WAVES_N, STAGE_BYTES, STAGES_OF_K_BLOCK, PREFETCH, REDUCTION);      \
    static_assert(Shape_##TYPE##_##ROWS##x##COLUMNS::LAUNCH_LDS == LDS_KIB << 10, "what launches ask for");          \
    PRODUCT(TYPE, RUN_##SCHEDULE, Shape_##TYPE##_##ROWS##x##COLUMNS, matmul_##TYPE##_##ROWS##x##COLUMNS, nn, N, N)   \
    PRODUCT(TYPE, RUN_##SCHEDULE, Shape_##TYPE##_##ROWS##x##COLUMNS, matmul_##TYPE##_##ROWS##x##COLUMNS, nt, N, T)   \
    PRODUCT(TYPE, RUN_##SCHEDULE, Shape_##TYPE##_##ROWS##x##COLUMNS, matmul_##TYPE##_##ROWS##x##COLUMNS, tn, T, N)   \
    PRODUCT(TYPE, RUN_##SCHEDULE, Shape_##TYPE##_##ROWS##x##COLUMNS, matmul_##TYPE##_##ROWS##x##COLUMNS, tt, T, T)
#define SUM(TYPE) \
    ENTRY __launch_bounds__(256) matmul_sum_##TYPE(MatmulProblem p) { matmul_sum<element_##TYPE>(p); }
LISTED(MATMUL_KERNELS)(PRODUCTS, SUM)
#endif
