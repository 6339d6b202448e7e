// The kernels of module `grouped`, by architecture. grouped.cuh makes them of this list, and the build the table that
// candle_rocm_kernels::grouped reads.
//
//   X(operands, ops, schedule, rows, columns, waves_m, waves_n, stage_bytes, stages, prefetch)
//   SKINNY(operands, columns, unit, lanes, threads, rows, step)
//
// X is grouped_<operands>_<rows>x<columns>_<ops>, of all four pairs of operations or of one. Operands are bf16, or FP8
// with scales, of f8e4m3_blocks those of A shared by 128 rows. Schedules: Tile and Pipelined as in matmul_kernels.cuh,
// and Rows (main_loop/rows.cuh), a Tile whose K-blocks, where k is together, are copied straight to LDS, so many ahead.
//
// SKINNY is grouped_skinny_<operands>_n<columns>, at most so many columns at a time, both operands with k together; the
// rest is as in gemm_kernels.cuh, of form t.
#pragma once
#include "portable/architecture.cuh"

// FP8's K-blocks are of 128 k, whose sums are beside those of all of k: a wavefront has half the large tile, or the
// register file is full.
#define GROUPED_RDNA_TILES(X)                             \
    X(f8e4m3, all, Tile, 128, 128, 4, 2, 64, 2, 1)        \
    X(f8e4m3_blocks, all, Tile, 128, 128, 4, 2, 64, 2, 1) \
    X(f8e4m3, tn, Tile, 128, 64, 4, 1, 64, 2, 1)          \
    X(f8e4m3_blocks, tn, Tile, 128, 64, 4, 1, 64, 2, 1)   \
    X(f8e4m3, all, Tile, 128, 32, 4, 1, 64, 2, 1)         \
    X(bf16, all, Tile, 128, 128, 4, 2, 64, 2, 1)          \
    X(bf16, tn, Tile, 128, 64, 4, 1, 64, 2, 1)            \
    X(bf16, all, Tile, 128, 32, 4, 1, 64, 2, 1)
// Of gfx908's registers half can hold sums alone.
#define GROUPED_CDNA1_TILES(X)                            \
    X(f8e4m3, all, Tile, 128, 128, 4, 2, 32, 4, 1)        \
    X(f8e4m3_blocks, all, Tile, 128, 128, 4, 2, 32, 4, 1) \
    X(f8e4m3, tn, Tile, 128, 64, 4, 1, 64, 2, 1)          \
    X(f8e4m3_blocks, tn, Tile, 128, 64, 4, 1, 64, 2, 1)   \
    X(f8e4m3, all, Tile, 128, 32, 4, 1, 64, 2, 1)         \
    X(bf16, all, Tile, 128, 128, 2, 2, 32, 4, 1)          \
    X(bf16, tn, Tile, 128, 64, 4, 1, 64, 2, 1)            \
    X(bf16, all, Tile, 128, 32, 4, 1, 64, 2, 1)
#define GROUPED_CDNA2_TILES(X)                                 \
    X(f8e4m3, all, Tile, 128, 128, 2, 2, 32, 4, 1)             \
    X(f8e4m3_blocks, all, Pipelined, 128, 128, 2, 2, 64, 2, 1) \
    X(f8e4m3, tn, Tile, 128, 64, 4, 1, 64, 2, 1)               \
    X(f8e4m3_blocks, tn, Pipelined, 128, 64, 2, 2, 64, 2, 1)   \
    X(f8e4m3, all, Tile, 128, 32, 4, 1, 64, 2, 1)              \
    X(bf16, all, Pipelined, 128, 128, 2, 2, 64, 2, 2)          \
    X(bf16, tn, Tile, 128, 64, 4, 1, 64, 2, 1)                 \
    X(bf16, all, Tile, 128, 32, 4, 1, 64, 2, 1)
#define GROUPED_NVIDIA_TILES(X)                           \
    X(f8e4m3, all, Tile, 128, 128, 4, 2, 32, 4, 1)        \
    X(f8e4m3_blocks, all, Tile, 128, 128, 4, 2, 32, 4, 1) \
    X(f8e4m3, tn, Rows, 128, 64, 4, 1, 64, 2, 1)          \
    X(f8e4m3_blocks, tn, Rows, 128, 64, 4, 1, 64, 2, 1)   \
    X(f8e4m3, all, Rows, 128, 32, 4, 1, 64, 2, 2)         \
    X(bf16, all, Tile, 128, 128, 4, 2, 32, 2, 1)          \
    X(bf16, tn, Rows, 128, 64, 4, 1, 64, 2, 1)            \
    X(bf16, all, Rows, 128, 32, 4, 1, 64, 2, 2)

#define GROUPED_SKINNY(SKINNY, COLUMNS, BY, LANES, ROWS, FP8_STEP, BF16_STEP) \
    SKINNY(f8e4m3, COLUMNS, BY, LANES, 256, ROWS, FP8_STEP)                   \
    SKINNY(f8e4m3_blocks, COLUMNS, BY, LANES, 256, ROWS, FP8_STEP)            \
    SKINNY(bf16, COLUMNS, BY, LANES, 256, ROWS, BF16_STEP)
#define GROUPED_SKINNY_LANES(SKINNY)                  \
    GROUPED_SKINNY(SKINNY, 1, Lanes, 32, 8, 512, 256) \
    GROUPED_SKINNY(SKINNY, 4, Lanes, 32, 8, 512, 256) \
    GROUPED_SKINNY(SKINNY, 16, Lanes, 32, 8, 128, 64)

#define GROUPED_KERNELS_Vega20(X, SKINNY) GROUPED_RDNA_TILES(X) GROUPED_SKINNY_LANES(SKINNY)
#define GROUPED_KERNELS_Cdna1(X, SKINNY) GROUPED_CDNA1_TILES(X) GROUPED_SKINNY(SKINNY, 16, Matrix, 64, 16, 512, 256)
#define GROUPED_KERNELS_Cdna2(X, SKINNY) GROUPED_CDNA2_TILES(X) GROUPED_SKINNY(SKINNY, 16, Matrix, 64, 16, 512, 256)
#define GROUPED_KERNELS_Cdna3 GROUPED_KERNELS_Cdna2
#define GROUPED_KERNELS_Cdna4 GROUPED_KERNELS_Cdna2
#define GROUPED_KERNELS_Rdna2 GROUPED_KERNELS_Vega20
#define GROUPED_KERNELS_Rdna3(X, SKINNY) GROUPED_RDNA_TILES(X) GROUPED_SKINNY(SKINNY, 16, Matrix, 32, 16, 128, 64)
#define GROUPED_KERNELS_Rdna4(X, SKINNY) GROUPED_RDNA_TILES(X) GROUPED_SKINNY(SKINNY, 16, Matrix, 32, 16, 256, 128)
#define GROUPED_KERNELS_Nvidia(X, SKINNY)              \
    GROUPED_NVIDIA_TILES(X)                            \
    GROUPED_SKINNY(SKINNY, 8, Matrix, 32, 8, 256, 128) \
    GROUPED_SKINNY(SKINNY, 16, Matrix, 32, 16, 256, 128)
