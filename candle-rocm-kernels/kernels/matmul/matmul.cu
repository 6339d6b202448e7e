// Matrix products on matrix units, for Candle's matmul in place of cuBLAS: strided batches, column-major, every
// transposition, k in parts, and what often follows a product. src/matmul.rs lists which of the kernels an architecture
// has.
#include "portable/lds.cuh"
#if defined(__HIP__) || defined(LDS_COPIES)
#include "matmul/matmul_tile.cuh"
#if defined(LDS_COPIES)
#include "matmul/matmul_direct.cuh"
#elif defined(AMD_MFMA) && AMD_MFMA > 1
#include "matmul/matmul_lines.cuh"
#define WHOLE_LINES
#endif

// Tiles by name: how many wavefronts share rows and columns, and how a panel of 128 bytes of k (64 where registers are
// dear) is sliced, that two workgroups or more fit a compute unit's LDS. Where copies go straight to LDS, how many
// slices of 128 bytes it holds: src/matmul.rs knows them, too, because a launch asks for that LDS.
#if defined(LDS_COPIES)
using Direct256x128 = DirectShape<256, 128, 4, 2, 3>;
using Direct128x128 = DirectShape<128, 128, 2, 2, 3>;
using Direct64x64 = DirectShape<64, 64, 2, 2, 4>;
using Direct128x32 = DirectShape<128, 32, 4, 1, 4>;
// Nobody turns bytes over on their way from LDS, nor f64, whose larger tiles' sums would take too many registers.
using Tile256x128 = MatmulShape<256, 128, 4, 2, 32, 2>;
using Tile128x128 = MatmulShape<128, 128, 2, 2, 32, 2>;
using Tile64x64 = MatmulShape<64, 64, 2, 2, 32, 2>;
using Tile128x32 = MatmulShape<128, 32, 4, 1, 32, 2>;
#define MATMUL_WAVES
#elif defined(AMD_MFMA)
#if defined(WHOLE_LINES)
// Of f16, bf16 and f32: eight wavefronts that share a unit's whole LDS, or two workgroups of four.
using Lines256x256 = LinesShape<256, 256, 2, 4>;
// As many tiles of 4096 x 4096 as an MI300X has compute units. Of two wavefronts on a SIMD one has fewer rows.
using Lines224x256 = LinesShape<224, 256, 2, 4>;
using Lines128x128 = LinesShape<128, 128, 2, 2, MOST_AHEAD>;
using Tile256x128 = MatmulShape<256, 128, 2, 2, 32, 4>;
#else
// Four wavefronts' sums would fill gfx908's accumulation registers, and the others have no room for a panel.
using Tile256x128 = MatmulShape<256, 128, 4, 2, 32, 4>;
#endif
using Tile128x128 = MatmulShape<128, 128, 2, 2, 32, 4>;
using Tile64x64 = MatmulShape<64, 64, 2, 2, 64, 2>;
using Tile128x32 = MatmulShape<128, 32, 4, 1, 64, 2>;
// Two wavefronts a SIMD, which half of the registers allow each.
#define MATMUL_WAVES __attribute__((amdgpu_waves_per_eu(2)))
#elif WAVEFRONT == 64
// The largest tile's sums would be half of the registers of eight wavefronts, and leave too few for what makes them.
using Tile128x128 = MatmulShape<128, 128, 4, 2, 64, 2>;
using Tile64x64 = MatmulShape<64, 64, 2, 2, 64, 2>;
using Tile128x32 = MatmulShape<128, 32, 4, 1, 64, 2>;
#define MATMUL_WAVES __attribute__((amdgpu_waves_per_eu(2)))
#else
using Tile256x128 = MatmulShape<256, 128, 4, 2, 64, 1>;
using Tile128x128 = MatmulShape<128, 128, 4, 2, 64, 2>;
using Tile64x64 = MatmulShape<64, 64, 2, 2, 64, 2>;
using Tile128x32 = MatmulShape<128, 32, 4, 1, 64, 2>;
#define MATMUL_WAVES
#endif

#define PRODUCT(TYPE, ELEMENT, TILE, OPS, OP_A, OP_B)                                                           \
    ENTRY __launch_bounds__(Tile##TILE::THREADS) MATMUL_WAVES matmul_##TYPE##_##TILE##_##OPS(MatmulProblem p) { \
        matmul_tile<ELEMENT, Tile##TILE, Op::OP_A, Op::OP_B>(p);                                                \
    }
#define LINES_PRODUCT(TYPE, ELEMENT, TILE, OPS, OP_A, OP_B)                                                      \
    ENTRY __launch_bounds__(Lines##TILE::THREADS) MATMUL_WAVES matmul_##TYPE##_##TILE##_##OPS(MatmulProblem p) { \
        matmul_lines<ELEMENT, Lines##TILE, Op::OP_A, Op::OP_B>(p);                                               \
    }
#define DIRECT_PRODUCT(TYPE, ELEMENT, TILE, OPS, OP_A, OP_B)                                         \
    ENTRY __launch_bounds__(Direct##TILE::THREADS) matmul_##TYPE##_##TILE##_##OPS(MatmulProblem p) { \
        matmul_direct<ELEMENT, Direct##TILE, Op::OP_A, Op::OP_B>(p);                                 \
    }
#define WITH_OPS(PRODUCT, TYPE, ELEMENT, TILE) \
    PRODUCT(TYPE, ELEMENT, TILE, nn, N, N)     \
    PRODUCT(TYPE, ELEMENT, TILE, nt, N, T)     \
    PRODUCT(TYPE, ELEMENT, TILE, tn, T, N)     \
    PRODUCT(TYPE, ELEMENT, TILE, tt, T, T)
#define PRODUCTS(TYPE, ELEMENT, TILE) WITH_OPS(PRODUCT, TYPE, ELEMENT, TILE)
#define SUM(TYPE, ELEMENT) \
    ENTRY __launch_bounds__(256) matmul_sum_##TYPE(MatmulProblem p) { matmul_sum<ELEMENT>(p); }
#define SMALL_TILES(TYPE, ELEMENT)   \
    PRODUCTS(TYPE, ELEMENT, 128x128) \
    PRODUCTS(TYPE, ELEMENT, 64x64)   \
    PRODUCTS(TYPE, ELEMENT, 128x32)  \
    SUM(TYPE, ELEMENT)
#if defined(AMD_MFMA) || WAVEFRONT == 32
#define TILES(TYPE, ELEMENT)         \
    PRODUCTS(TYPE, ELEMENT, 256x128) \
    SMALL_TILES(TYPE, ELEMENT)
#else
#define TILES(TYPE, ELEMENT) SMALL_TILES(TYPE, ELEMENT)
#endif

#if defined(LDS_COPIES)
#define DIRECT_TILES(TYPE, ELEMENT)                  \
    WITH_OPS(DIRECT_PRODUCT, TYPE, ELEMENT, 256x128) \
    WITH_OPS(DIRECT_PRODUCT, TYPE, ELEMENT, 128x128) \
    WITH_OPS(DIRECT_PRODUCT, TYPE, ELEMENT, 64x64)   \
    WITH_OPS(DIRECT_PRODUCT, TYPE, ELEMENT, 128x32)  \
    SUM(TYPE, ELEMENT)
DIRECT_TILES(bf16, bf16_t)
DIRECT_TILES(f16, half_t)
TILES(i8, int8_t)
PRODUCTS(f64, double, 64x64)
SUM(f64, double)
#else
#if defined(WHOLE_LINES)
#define LINES_TILES(TYPE, ELEMENT)                  \
    WITH_OPS(LINES_PRODUCT, TYPE, ELEMENT, 256x256) \
    WITH_OPS(LINES_PRODUCT, TYPE, ELEMENT, 128x128) \
    PRODUCTS(TYPE, ELEMENT, 64x64)                  \
    PRODUCTS(TYPE, ELEMENT, 128x32)                 \
    SUM(TYPE, ELEMENT)
#else
#define LINES_TILES TILES
#endif
LINES_TILES(bf16, bf16_t)
LINES_TILES(f16, half_t)
#if defined(WHOLE_LINES)
WITH_OPS(LINES_PRODUCT, bf16, bf16_t, 224x256)
WITH_OPS(LINES_PRODUCT, f16, half_t, 224x256)
#endif
TILES(i8, int8_t)
#if defined(MATRIX_UNIT_F32)
LINES_TILES(f32, float)
#endif
#if defined(MATRIX_UNIT_F64)
// The largest tile's sums would be all of a lane's registers.
SMALL_TILES(f64, double)
#endif
#endif
#endif
