// Products on matrix units whose groups the kernel finds (mixtures of experts), in bf16 and, with scales for each 128
// of k, in FP8: what each kernel is. grouped.cu has all of them; a program that compiles one for the constants of a
// shape (src/specialised.rs) has it alone.
#pragma once
#include "matmul/few/grouped.cuh"
#include "matmul/grouped_tile.cuh"
#include "matmul/unit/fp8.cuh"
#if defined(__HIP__)
#include "matmul/matmul_lines.cuh"
#else
#include "matmul/matmul_rows.cuh"
#endif

// Statements that hold of a kernel's argument `p`: the constants that it is compiled for.
#ifndef KNOWN
#define KNOWN(p)
#endif

// Tiles by name, as in matmul.cu. FP8's panels are of 128 k, whose sums are beside those of all of k: a wavefront has
// half the large tile, or the register file is full.
#define GROUPED_WAVES
#if defined(__CUDA__) && !defined(__HIP__)
using Fp8Tile128x128 = MatmulShape<128, 128, 4, 2, 32, 4>;
using Tile128x128 = MatmulShape<128, 128, 4, 2, 32, 2>;
using Fp8Tile128x64 = RowsShape<MatmulShape<128, 64, 4, 1, 64, 2>, 1>;
using Fp8Tile128x32 = RowsShape<MatmulShape<128, 32, 4, 1, 64, 2>, 2>;
#else
using Fp8Tile128x64 = MatmulShape<128, 64, 4, 1, 64, 2>;
using Fp8Tile128x32 = MatmulShape<128, 32, 4, 1, 64, 2>;
#if !defined(AMD_MFMA)
using Fp8Tile128x128 = MatmulShape<128, 128, 4, 2, 64, 2>;
using Tile128x128 = MatmulShape<128, 128, 4, 2, 64, 2>;
#elif AMD_MFMA > 1
using Fp8Tile128x128 = MatmulShape<128, 128, 2, 2, 32, 4>;
using Tile128x128 = LinesShape<128, 128, 2, 2, MOST_AHEAD>;
#define SCALED_BY_LANES
using Fp8Blocks128x128 = LinesShape<128, 128, 2, 2>;
using Fp8Blocks128x64 = LinesShape<128, 64, 2, 2>;
#else
// Of gfx908's registers half can hold sums alone.
using Fp8Tile128x128 = MatmulShape<128, 128, 4, 2, 32, 4>;
using Tile128x128 = MatmulShape<128, 128, 2, 2, 32, 4>;
#endif
#if WAVEFRONT == 64
#undef GROUPED_WAVES
#define GROUPED_WAVES __attribute__((amdgpu_waves_per_eu(2)))
#endif
#endif
using Tile128x64 = Fp8Tile128x64;
using Tile128x32 = Fp8Tile128x32;

// By the words of kernels' names.
#define ELEMENT_bf16 bf16_t
#define ELEMENT_f8e4m3 f8e4m3_t
#define ELEMENT_f8e4m3_blocks f8e4m3_t
#define SCHEME_bf16 Grouped
#define SCHEME_f8e4m3 Scaled
#if defined(SCALED_BY_LANES)
#define SCHEME_f8e4m3_blocks ScaledByLanes
#define SHAPE_f8e4m3_blocks Fp8Blocks
#else
#define SCHEME_f8e4m3_blocks ScaledByBlocks
#define SHAPE_f8e4m3_blocks Fp8Tile
#endif
#define SHAPE_bf16 Tile
#define SHAPE_f8e4m3 Fp8Tile
#define INPUT_bf16 AsItIs
#define INPUT_f8e4m3 ScaledBlocks<false>
#define INPUT_f8e4m3_blocks ScaledBlocks<true>
#define OPS_nn Op::N, Op::N
#define OPS_nt Op::N, Op::T
#define OPS_tn Op::T, Op::N
#define OPS_tt Op::T, Op::T

#define PRODUCT(TYPE, TILE, OPS) PRODUCT_OF(TYPE, TILE, OPS, SHAPE_##TYPE)
#define PRODUCT_OF(TYPE, TILE, OPS, SHAPE) PRODUCT_BY(TYPE, TILE, OPS, SHAPE)
#define PRODUCT_BY(TYPE, TILE, OPS, SHAPE)                                                                          \
    ENTRY __launch_bounds__(SHAPE##TILE::THREADS) GROUPED_WAVES grouped_##TYPE##_##TILE##_##OPS(GroupedProblem p) { \
        KNOWN(p);                                                                                                   \
        matmul_by_shape<ELEMENT_##TYPE, SHAPE##TILE, OPS_##OPS, SCHEME_##TYPE>(p);                                  \
    }

// At most so many columns at a time, both operands with k together; candle_rocm_kernels::grouped says how many.
#define FEW(TYPE, COLUMNS)                                                              \
    ENTRY __launch_bounds__(256, 2) grouped_few_##TYPE##_c##COLUMNS(GroupedProblem p) { \
        KNOWN(p);                                                                       \
        few_grouped<ELEMENT_##TYPE, COLUMNS, INPUT_##TYPE>(p);                          \
    }
