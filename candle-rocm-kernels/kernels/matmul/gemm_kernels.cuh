// The kernels of module `gemm`, by architecture. gemm.cu makes them of this list, and the build the table that
// candle_rocm_kernels::gemm and skinny read.
//
//   TILE(type, rows, columns, thread_rows, thread_columns, stages)
//   SKINNY(form, type, columns, unit, lanes, threads, rows, step, lds_kib)
//   END(type)
//
// TILE is a kernel for each of the four pairs of operations, gemm_<type>_<rows>x<columns>_<ops>, of whose tile a thread
// makes thread_rows x thread_columns. Of two stages one is read while the other is written
// (main_loop/vector_units.cuh); of one, f32 is multiplied in pairs (main_loop/dual_issue.cuh).
//
// SKINNY is skinny_<form>_<type>_n<columns>, for at most so many columns: form t is for matrices whose k is together, n
// for those whose rows are. Its warps have so many lanes; a workgroup has at most so many threads, 256 or, where those
// can all share rows, 512. A warp makes so many rows, and takes step elements of k at a time. What multiplies is the
// lanes, or a matrix unit (skinny/atom.cuh). lds_kib is what a launch asks for, where lines are transposed in LDS.
//
// END is gemm_sum_<type>, which adds up splits of k, and gemm_epilogue_<type>.
#pragma once
#include "portable/architecture.cuh"

#define SKINNY_HALVES(SKINNY, TYPE)               \
    SKINNY(t, TYPE, 1, Lanes, 32, 256, 8, 256, 0) \
    SKINNY(n, TYPE, 1, Lanes, 32, 256, 64, 32, 0) \
    SKINNY(t, TYPE, 2, Lanes, 32, 256, 8, 256, 0) \
    SKINNY(n, TYPE, 2, Lanes, 32, 256, 64, 32, 0) \
    SKINNY(t, TYPE, 4, Lanes, 32, 256, 8, 256, 0) \
    SKINNY(n, TYPE, 4, Lanes, 32, 256, 64, 32, 0) \
    SKINNY(t, TYPE, 8, Lanes, 32, 256, 8, 128, 0) \
    SKINNY(n, TYPE, 8, Lanes, 32, 256, 64, 16, 0) \
    SKINNY(t, TYPE, 16, Lanes, 32, 256, 8, 64, 0) \
    SKINNY(n, TYPE, 16, Lanes, 32, 256, 64, 8, 0)
#define SKINNY_FLOATS(SKINNY, TYPE)               \
    SKINNY(t, TYPE, 1, Lanes, 32, 256, 8, 128, 0) \
    SKINNY(n, TYPE, 1, Lanes, 32, 256, 32, 32, 0) \
    SKINNY(t, TYPE, 2, Lanes, 32, 256, 8, 128, 0) \
    SKINNY(n, TYPE, 2, Lanes, 32, 256, 32, 32, 0) \
    SKINNY(t, TYPE, 4, Lanes, 32, 256, 8, 128, 0) \
    SKINNY(n, TYPE, 4, Lanes, 32, 256, 32, 32, 0) \
    SKINNY(t, TYPE, 8, Lanes, 32, 256, 8, 64, 0)  \
    SKINNY(n, TYPE, 8, Lanes, 32, 256, 32, 16, 0) \
    SKINNY(t, TYPE, 16, Lanes, 32, 256, 8, 32, 0) \
    SKINNY(n, TYPE, 16, Lanes, 32, 256, 32, 8, 0)
#define SKINNY_DOUBLES(SKINNY, TYPE)              \
    SKINNY(t, TYPE, 1, Lanes, 32, 256, 8, 64, 0)  \
    SKINNY(n, TYPE, 1, Lanes, 32, 256, 16, 32, 0) \
    SKINNY(t, TYPE, 4, Lanes, 32, 256, 8, 64, 0)  \
    SKINNY(n, TYPE, 4, Lanes, 32, 256, 16, 32, 0) \
    SKINNY(t, TYPE, 16, Lanes, 32, 256, 8, 16, 0) \
    SKINNY(n, TYPE, 16, Lanes, 32, 256, 16, 8, 0)
#define SKINNY_MFMA(SKINNY, TYPE)                    \
    SKINNY(t, TYPE, 16, Matrix, 64, 256, 16, 256, 0) \
    SKINNY(n, TYPE, 16, Matrix, 64, 256, 128, 32, 0)
#define SKINNY_RDNA3(SKINNY, TYPE)                  \
    SKINNY(t, TYPE, 16, Matrix, 32, 256, 16, 64, 0) \
    SKINNY(n, TYPE, 16, Matrix, 32, 256, 128, 16, 0)
#define SKINNY_RDNA4(SKINNY, TYPE)                   \
    SKINNY(t, TYPE, 16, Matrix, 32, 256, 16, 128, 0) \
    SKINNY(n, TYPE, 16, Matrix, 32, 256, 128, 16, 0)
#define SKINNY_LIST_MMA(SKINNY, TYPE)                \
    SKINNY(t, TYPE, 8, Matrix, 32, 256, 8, 128, 0)   \
    SKINNY(n, TYPE, 8, Matrix, 32, 256, 32, 64, 64)  \
    SKINNY(t, TYPE, 16, Matrix, 32, 256, 16, 128, 0) \
    SKINNY(n, TYPE, 16, Matrix, 32, 256, 32, 64, 64)
// As TF32 and the rest, of 16 columns, which is no slower than lanes of eight whose rows are together.
#define SKINNY_SPLIT_FLOATS(SKINNY, TYPE)           \
    SKINNY(t, TYPE, 1, Lanes, 32, 256, 8, 128, 0)   \
    SKINNY(n, TYPE, 1, Lanes, 32, 512, 32, 32, 0)   \
    SKINNY(t, TYPE, 2, Lanes, 32, 256, 8, 128, 0)   \
    SKINNY(n, TYPE, 2, Lanes, 32, 512, 32, 32, 0)   \
    SKINNY(t, TYPE, 4, Lanes, 32, 256, 8, 128, 0)   \
    SKINNY(n, TYPE, 4, Lanes, 32, 512, 32, 32, 0)   \
    SKINNY(t, TYPE, 8, Lanes, 32, 256, 8, 64, 0)    \
    SKINNY(t, TYPE, 16, Matrix, 32, 256, 16, 64, 0) \
    SKINNY(n, TYPE, 16, Matrix, 32, 512, 32, 32, 0)

#define GEMM_SMALL_TILES(TILE, TYPE) \
    TILE(TYPE, 64, 64, 4, 4, 2)      \
    TILE(TYPE, 32, 32, 4, 4, 2)
#define GEMM_TILES(TILE, TYPE)    \
    TILE(TYPE, 128, 128, 8, 8, 2) \
    GEMM_SMALL_TILES(TILE, TYPE)
// The fewest reads of LDS for a multiply-add: RDNA's gives both operands of four in the time of four multiply-adds that
// issue in pairs.
#define GEMM_DUAL_ISSUE_TILES(TILE, TYPE) \
    TILE(TYPE, 128, 128, 8, 16, 1)        \
    TILE(TYPE, 64, 64, 8, 8, 1)           \
    TILE(TYPE, 32, 32, 4, 4, 2)
// 8 x 8 sums in f64 would be half of a thread's registers.
#define GEMM_ALL(TILE, SKINNY, END, TILES, FLOATS, HALVES) \
    TILES(TILE, f32)                                       \
    GEMM_TILES(TILE, f16)                                  \
    GEMM_TILES(TILE, bf16)                                 \
    GEMM_SMALL_TILES(TILE, f64)                            \
    FLOATS(SKINNY, f32)                                    \
    HALVES(SKINNY, f16)                                    \
    HALVES(SKINNY, bf16)                                   \
    SKINNY_DOUBLES(SKINNY, f64)                            \
    END(f32)                                               \
    END(f16)                                               \
    END(bf16)                                              \
    END(f64)
#define GEMM_KERNELS_Vega20(TILE, SKINNY, END) GEMM_ALL(TILE, SKINNY, END, GEMM_TILES, SKINNY_FLOATS, SKINNY_HALVES)
#define GEMM_KERNELS_Cdna1(TILE, SKINNY, END) GEMM_ALL(TILE, SKINNY, END, GEMM_TILES, SKINNY_FLOATS, SKINNY_MFMA)
#define GEMM_KERNELS_Cdna2 GEMM_KERNELS_Cdna1
#define GEMM_KERNELS_Cdna3 GEMM_KERNELS_Cdna1
#define GEMM_KERNELS_Cdna4 GEMM_KERNELS_Cdna1
#define GEMM_KERNELS_Rdna2(TILE, SKINNY, END) \
    GEMM_ALL(TILE, SKINNY, END, GEMM_DUAL_ISSUE_TILES, SKINNY_FLOATS, SKINNY_HALVES)
#define GEMM_KERNELS_Rdna3(TILE, SKINNY, END) \
    GEMM_ALL(TILE, SKINNY, END, GEMM_DUAL_ISSUE_TILES, SKINNY_FLOATS, SKINNY_RDNA3)
#define GEMM_KERNELS_Rdna4(TILE, SKINNY, END) \
    GEMM_ALL(TILE, SKINNY, END, GEMM_DUAL_ISSUE_TILES, SKINNY_FLOATS, SKINNY_RDNA4)
#define GEMM_KERNELS_Nvidia(TILE, SKINNY, END) \
    GEMM_ALL(TILE, SKINNY, END, GEMM_TILES, SKINNY_SPLIT_FLOATS, SKINNY_LIST_MMA)
