// The kernels of module `matmul`, by architecture. matmul.cu makes them of this list, and the build the table that
// candle_rocm_kernels::matmul reads.
//
//   X(type, schedule, rows, columns, waves_m, waves_n, stage_bytes, stages, prefetch, lds_kib, reduction)
//   SUM(type)
//
// X is a kernel for each of the four pairs of operations, matmul_<type>_<rows>x<columns>_<ops>, whose workgroups make a
// tile of rows x columns of C by waves_m x waves_n wavefronts. Schedules:
//
//   Tile       a K-block has so many stages of stage_bytes of k, two of which are in LDS (main_loop/tile.cuh)
//   Pipelined  so many K-blocks of 128 bytes of k, in two halves, are on their way at once (main_loop/pipelined.cuh)
//   Direct     so many stages are in LDS, whose size, lds_kib, a launch asks for (main_loop/direct.cuh)
//
// What adds up the sums of splits of k (split-K): InKernel the last split's workgroups, to which the launch's others
// hand f32; or a SeparateKernel. Of larger tiles few workgroups would read all splits' sums, while a launch of its own
// has all compute units for it.
//
// SUM is matmul_sum_<type>, which adds up splits of k.
#pragma once
#include "portable/architecture.cuh"

// A K-block is staged so that two workgroups or more fit a compute unit's LDS: of 128 bytes, or of 64 where registers
// are dear. The largest tile's sums would be half of the registers of Vega 20's eight wavefronts, which leaves too few.
#define MATMUL_VEGA20_TILES(X, SUM, TYPE, REDUCTION)      \
    X(TYPE, Tile, 128, 128, 4, 2, 64, 2, 1, 0, REDUCTION) \
    X(TYPE, Tile, 64, 64, 2, 2, 64, 2, 1, 0, REDUCTION)   \
    X(TYPE, Tile, 128, 32, 4, 1, 64, 2, 1, 0, REDUCTION)  \
    SUM(TYPE)
#define MATMUL_KERNELS_Vega20(X, SUM)           \
    MATMUL_VEGA20_TILES(X, SUM, bf16, InKernel) \
    MATMUL_VEGA20_TILES(X, SUM, f16, InKernel)  \
    MATMUL_VEGA20_TILES(X, SUM, i8, SeparateKernel)

#define MATMUL_MFMA_TILES(X, SUM, TYPE, REDUCTION)        \
    X(TYPE, Tile, 128, 128, 2, 2, 32, 4, 1, 0, REDUCTION) \
    X(TYPE, Tile, 64, 64, 2, 2, 64, 2, 1, 0, REDUCTION)   \
    X(TYPE, Tile, 128, 32, 4, 1, 64, 2, 1, 0, REDUCTION)  \
    SUM(TYPE)
// Four wavefronts' sums would fill gfx908's accumulation registers, and the others have no room for a K-block.
#define MATMUL_CDNA1_TILES(X, SUM, TYPE, REDUCTION)            \
    X(TYPE, Tile, 256, 128, 4, 2, 32, 4, 1, 0, SeparateKernel) \
    MATMUL_MFMA_TILES(X, SUM, TYPE, REDUCTION)
#define MATMUL_KERNELS_Cdna1(X, SUM)               \
    MATMUL_CDNA1_TILES(X, SUM, bf16, InKernel)     \
    MATMUL_CDNA1_TILES(X, SUM, f16, InKernel)      \
    MATMUL_CDNA1_TILES(X, SUM, i8, SeparateKernel) \
    MATMUL_CDNA1_TILES(X, SUM, f32, InKernel)

// Pipelined: eight wavefronts that share a unit's whole LDS, or two workgroups of four.
#define MATMUL_PIPELINED_TILES(X, SUM, TYPE)                        \
    X(TYPE, Pipelined, 256, 256, 2, 4, 64, 2, 1, 0, SeparateKernel) \
    X(TYPE, Pipelined, 128, 128, 2, 2, 64, 2, 2, 0, InKernel)       \
    X(TYPE, Tile, 64, 64, 2, 2, 64, 2, 1, 0, InKernel)              \
    X(TYPE, Tile, 128, 32, 4, 1, 64, 2, 1, 0, InKernel)             \
    SUM(TYPE)
// As many tiles of 224 x 256 are in 4096 x 4096 as an MI300X has compute units. Of two wavefronts on a SIMD one has
// fewer rows. In f64 the largest tile's sums would be all of a lane's registers.
#define MATMUL_KERNELS_Cdna2(X, SUM)                                \
    MATMUL_PIPELINED_TILES(X, SUM, bf16)                            \
    MATMUL_PIPELINED_TILES(X, SUM, f16)                             \
    X(bf16, Pipelined, 224, 256, 2, 4, 64, 2, 1, 0, SeparateKernel) \
    X(f16, Pipelined, 224, 256, 2, 4, 64, 2, 1, 0, SeparateKernel)  \
    X(i8, Tile, 256, 128, 2, 2, 32, 4, 1, 0, SeparateKernel)        \
    MATMUL_MFMA_TILES(X, SUM, i8, SeparateKernel)                   \
    MATMUL_PIPELINED_TILES(X, SUM, f32)                             \
    MATMUL_MFMA_TILES(X, SUM, f64, SeparateKernel)
#define MATMUL_KERNELS_Cdna3 MATMUL_KERNELS_Cdna2
#define MATMUL_KERNELS_Cdna4 MATMUL_KERNELS_Cdna2

#define MATMUL_RDNA_TILES(X, SUM, TYPE, REDUCTION)             \
    X(TYPE, Tile, 256, 128, 4, 2, 64, 1, 1, 0, SeparateKernel) \
    MATMUL_VEGA20_TILES(X, SUM, TYPE, REDUCTION)
#define MATMUL_KERNELS_Rdna2(X, SUM)          \
    MATMUL_RDNA_TILES(X, SUM, bf16, InKernel) \
    MATMUL_RDNA_TILES(X, SUM, f16, InKernel)  \
    MATMUL_RDNA_TILES(X, SUM, i8, SeparateKernel)
#define MATMUL_KERNELS_Rdna3 MATMUL_KERNELS_Rdna2
#define MATMUL_KERNELS_Rdna4 MATMUL_KERNELS_Rdna2

#define MATMUL_DIRECT_TILES(X, SUM, TYPE)                           \
    X(TYPE, Direct, 256, 128, 4, 2, 128, 3, 1, 144, SeparateKernel) \
    X(TYPE, Direct, 128, 128, 2, 2, 128, 3, 1, 96, InKernel)        \
    X(TYPE, Direct, 64, 64, 2, 2, 128, 4, 1, 64, InKernel)          \
    X(TYPE, Direct, 128, 32, 4, 1, 128, 4, 1, 80, InKernel)         \
    SUM(TYPE)
// Nobody transposes bytes on their way from LDS, nor f64, whose larger tiles' sums would take too many registers.
#define MATMUL_KERNELS_Nvidia(X, SUM)                        \
    MATMUL_DIRECT_TILES(X, SUM, bf16)                        \
    MATMUL_DIRECT_TILES(X, SUM, f16)                         \
    X(i8, Tile, 256, 128, 4, 2, 32, 2, 1, 0, SeparateKernel) \
    X(i8, Tile, 128, 128, 2, 2, 32, 2, 1, 0, SeparateKernel) \
    X(i8, Tile, 64, 64, 2, 2, 32, 2, 1, 0, SeparateKernel)   \
    X(i8, Tile, 128, 32, 4, 1, 32, 2, 1, 0, SeparateKernel)  \
    SUM(i8)                                                  \
    X(f64, Tile, 64, 64, 2, 2, 32, 2, 1, 0, SeparateKernel)  \
    SUM(f64)
