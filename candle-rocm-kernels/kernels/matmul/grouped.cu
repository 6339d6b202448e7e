// Products on matrix units whose groups the kernel finds (mixtures of experts), in bf16 and, with scales for each 128
// of k, in FP8; src/grouped.rs lists the kernels.
#include "matmul/few/grouped.cuh"
#include "matmul/grouped_tile.cuh"
#include "matmul/unit/fp8.cuh"

// Tiles by name, as in matmul.cu. FP8's panels are of 128 k, whose sums are beside those of all of k: a wavefront has
// half the tile, or the register file is full.
using Fp8Tile128x32 = MatmulShape<128, 32, 4, 1, 64, 2>;
using Tile128x32 = MatmulShape<128, 32, 4, 1, 64, 2>;
#define GROUPED_WAVES
#if defined(__CUDA__) && !defined(__HIP__)
using Fp8Tile128x128 = MatmulShape<128, 128, 4, 2, 32, 4>;
using Tile128x128 = MatmulShape<128, 128, 4, 2, 32, 2>;
#elif defined(AMD_MFMA)
#if AMD_MFMA > 1
using Fp8Tile128x128 = MatmulShape<128, 128, 2, 2, 32, 4>;
#else
// Of gfx908's registers half can hold sums alone.
using Fp8Tile128x128 = MatmulShape<128, 128, 4, 2, 32, 4>;
#endif
using Tile128x128 = MatmulShape<128, 128, 2, 2, 32, 4>;
#else
using Fp8Tile128x128 = MatmulShape<128, 128, 4, 2, 64, 2>;
using Tile128x128 = MatmulShape<128, 128, 4, 2, 64, 2>;
#endif
#if defined(__HIP__) && WAVEFRONT == 64
#undef GROUPED_WAVES
#define GROUPED_WAVES __attribute__((amdgpu_waves_per_eu(2)))
#endif

#define PRODUCT(TYPE, ELEMENT, SCHEME, SHAPE, TILE, OPS, OP_A, OP_B)                                                \
    ENTRY __launch_bounds__(SHAPE##TILE::THREADS) GROUPED_WAVES grouped_##TYPE##_##TILE##_##OPS(GroupedProblem p) { \
        matmul_tile<ELEMENT, SHAPE##TILE, Op::OP_A, Op::OP_B, SCHEME>(p);                                           \
    }
#define PRODUCTS(TYPE, ELEMENT, SCHEME, SHAPE, TILE)      \
    PRODUCT(TYPE, ELEMENT, SCHEME, SHAPE, TILE, nn, N, N) \
    PRODUCT(TYPE, ELEMENT, SCHEME, SHAPE, TILE, nt, N, T) \
    PRODUCT(TYPE, ELEMENT, SCHEME, SHAPE, TILE, tn, T, N) \
    PRODUCT(TYPE, ELEMENT, SCHEME, SHAPE, TILE, tt, T, T)

PRODUCTS(f8e4m3, f8e4m3_t, Scaled, Fp8Tile, 128x128)
PRODUCTS(f8e4m3_blocks, f8e4m3_t, ScaledByBlocks, Fp8Tile, 128x128)
PRODUCTS(f8e4m3, f8e4m3_t, Scaled, Fp8Tile, 128x32)
PRODUCTS(bf16, bf16_t, Grouped, Tile, 128x128)
PRODUCTS(bf16, bf16_t, Grouped, Tile, 128x32)

// At most so many columns at a time, both operands with k together; candle_rocm_kernels::grouped says how many.
#define FEW_OF(TYPE, ELEMENT, COLUMNS, INPUT)                                           \
    ENTRY __launch_bounds__(256, 2) grouped_few_##TYPE##_c##COLUMNS(GroupedProblem p) { \
        few_grouped<ELEMENT, COLUMNS, INPUT>(p);                                        \
    }
#define FEW(COLUMNS)                                             \
    FEW_OF(f8e4m3, f8e4m3_t, COLUMNS, ScaledBlocks<false>)       \
    FEW_OF(f8e4m3_blocks, f8e4m3_t, COLUMNS, ScaledBlocks<true>) \
    FEW_OF(bf16, bf16_t, COLUMNS, AsItIs)
#if defined(FEW_UNIT)
FEW(16)
#elif defined(FEW_MMA)
FEW(8)
FEW(16)
#else
FEW(1)
FEW(4)
FEW(16)
#endif

// Adds up parts of k.
ENTRY __launch_bounds__(256) grouped_sum(GroupedProblem p) { matmul_sum<bf16_t, GroupedResults>(p); }
