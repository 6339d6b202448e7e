// Products on matrix units whose groups the kernel finds (mixtures of experts), in bf16 and, with scales for each 128
// of k, in FP8: what each kernel is. grouped.cu has all of them; a program that compiles one for the constants of a
// shape (src/specialised.rs) has it alone.
#pragma once
#include "matmul/skinny/grouped.cuh"
#include "matmul/grouped_kernels.cuh"
#include "matmul/grouped/tile.cuh"
#include "matmul/atoms/fp8.cuh"
#if defined(__HIP__)
#include "matmul/main_loop/pipelined.cuh"
#else
#include "matmul/main_loop/rows.cuh"
#endif

// Statements that hold of a kernel's argument `p`: the constants that it is compiled for.
#ifndef KNOWN
#define KNOWN(p)
#endif

// Two wavefronts a SIMD, which half of the registers allow each.
#if WAVEFRONT == 64
#define GROUPED_WAVES __attribute__((amdgpu_waves_per_eu(2)))
#else
#define GROUPED_WAVES
#endif

// The list's schedules: the shape of a tile.
#define GROUPED_Tile(M, N, WAVES_M, WAVES_N, STAGE_BYTES, STAGES_OF_K_BLOCK, PREFETCH) \
    MatmulShape<M, N, WAVES_M, WAVES_N, STAGE_BYTES, STAGES_OF_K_BLOCK>
#define GROUPED_Pipelined(M, N, WAVES_M, WAVES_N, STAGE_BYTES, STAGES_OF_K_BLOCK, PREFETCH) \
    PipelinedShape<M, N, WAVES_M, WAVES_N, min_of(PREFETCH, MAX_PREFETCH)>
#define GROUPED_Rows(M, N, WAVES_M, WAVES_N, STAGE_BYTES, STAGES_OF_K_BLOCK, PREFETCH) \
    RowsShape<MatmulShape<M, N, WAVES_M, WAVES_N, STAGE_BYTES, STAGES_OF_K_BLOCK>, PREFETCH>

// By the words of kernels' names.
#define ELEMENT_bf16 bf16_t
#define ELEMENT_f8e4m3 f8e4m3_t
#define ELEMENT_f8e4m3_blocks f8e4m3_t
#define TRAITS_bf16 Grouped
#define TRAITS_f8e4m3 Scaled
#define TRAITS_f8e4m3_blocks ScaledByShape
#define INPUT_bf16 AsItIs
#define INPUT_f8e4m3 ScaledBlocks<false>
#define INPUT_f8e4m3_blocks ScaledBlocks<true>
#define OPS_nn Op::N, Op::N
#define OPS_nt Op::N, Op::T
#define OPS_tn Op::T, Op::N
#define OPS_tt Op::T, Op::T

// What the list says: the shape of each tile, Grouped_<type>_<rows>x<columns>, and measures of few columns.
#define GROUPED_SHAPE(TYPE, OPS, SCHEDULE, ROWS, COLUMNS, WAVES_M, WAVES_N, STAGE_BYTES, STAGES_OF_K_BLOCK, PREFETCH) \
    using Grouped_##TYPE##_##ROWS##x##COLUMNS =                                                                       \
        GROUPED_##SCHEDULE(ROWS, COLUMNS, WAVES_M, WAVES_N, STAGE_BYTES, STAGES_OF_K_BLOCK, PREFETCH);
#define GROUPED_MEASURES(TYPE, COLUMNS, BY, LANES, THREADS, ROWS, STEP)                                               \
    static_assert(                                                                                                    \
        SkinnyProduct<ELEMENT_##TYPE, COLUMNS, false, INPUT_##TYPE>::is_listed_as(BY, LANES, THREADS, ROWS, STEP, 0), \
        "the list's measures");
LISTED(GROUPED_KERNELS)(GROUPED_SHAPE, GROUPED_MEASURES)

#define PRODUCT(TYPE, TILE, OPS) PRODUCT_OF(TYPE, Grouped_##TYPE##_##TILE, grouped_##TYPE##_##TILE##_##OPS, OPS)
#define PRODUCT_OF(TYPE, SHAPE, NAME, OPS)                                         \
    ENTRY __launch_bounds__(SHAPE::THREADS) GROUPED_WAVES NAME(GroupedProblem p) { \
        KNOWN(p);                                                                  \
        matmul_by_shape<ELEMENT_##TYPE, SHAPE, OPS_##OPS, TRAITS_##TYPE>(p);       \
    }

// At most so many columns at a time, both operands with k together.
#define SKINNY(TYPE, COLUMNS)                                                              \
    ENTRY __launch_bounds__(256, 2) grouped_skinny_##TYPE##_n##COLUMNS(GroupedProblem p) { \
        KNOWN(p);                                                                          \
        skinny_grouped<ELEMENT_##TYPE, COLUMNS, INPUT_##TYPE>(p);                          \
    }
