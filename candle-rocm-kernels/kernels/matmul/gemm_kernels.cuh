// The kernels of module `gemm`, by architecture. gemm.cu makes them of this list, and the build the table that
// candle_rocm_kernels::few reads.
//
//   TILE(type, rows, columns, thread_rows, thread_columns)
//   GEMV(form, type, columns, unit, lanes, threads, rows, step, lds_kib)
//   END(type)
//
// TILE is a kernel for each of the four pairs of operations, gemm_<type>_<rows>x<columns>_<ops>, of whose tile a thread
// makes thread_rows x thread_columns.
//
// GEMV is gemv_<form>_<type>_c<columns>, for at most so many columns: form t is for matrices whose k is together, n for
// those whose rows are. Its warps have so many lanes; a workgroup has at most so many threads, 256 or, where those can
// all share rows, 512. A warp makes so many rows, and takes step elements of k at a time. What multiplies is the lanes,
// or a matrix unit (skinny/atom.cuh). lds_kib is what a launch asks for, where lines are transposed in LDS.
//
// END is gemm_sum_<type>, which adds up splits of k, and gemm_epilogue_<type>.
#pragma once
#include "portable/architecture.cuh"

#define GEMV_HALVES(GEMV, TYPE)                 \
    GEMV(t, TYPE, 1, Lanes, 32, 256, 8, 256, 0) \
    GEMV(n, TYPE, 1, Lanes, 32, 256, 64, 32, 0) \
    GEMV(t, TYPE, 2, Lanes, 32, 256, 8, 256, 0) \
    GEMV(n, TYPE, 2, Lanes, 32, 256, 64, 32, 0) \
    GEMV(t, TYPE, 4, Lanes, 32, 256, 8, 256, 0) \
    GEMV(n, TYPE, 4, Lanes, 32, 256, 64, 32, 0) \
    GEMV(t, TYPE, 8, Lanes, 32, 256, 8, 128, 0) \
    GEMV(n, TYPE, 8, Lanes, 32, 256, 64, 16, 0) \
    GEMV(t, TYPE, 16, Lanes, 32, 256, 8, 64, 0) \
    GEMV(n, TYPE, 16, Lanes, 32, 256, 64, 8, 0)
#define GEMV_FLOATS(GEMV, TYPE)                 \
    GEMV(t, TYPE, 1, Lanes, 32, 256, 8, 128, 0) \
    GEMV(n, TYPE, 1, Lanes, 32, 256, 32, 32, 0) \
    GEMV(t, TYPE, 2, Lanes, 32, 256, 8, 128, 0) \
    GEMV(n, TYPE, 2, Lanes, 32, 256, 32, 32, 0) \
    GEMV(t, TYPE, 4, Lanes, 32, 256, 8, 128, 0) \
    GEMV(n, TYPE, 4, Lanes, 32, 256, 32, 32, 0) \
    GEMV(t, TYPE, 8, Lanes, 32, 256, 8, 64, 0)  \
    GEMV(n, TYPE, 8, Lanes, 32, 256, 32, 16, 0) \
    GEMV(t, TYPE, 16, Lanes, 32, 256, 8, 32, 0) \
    GEMV(n, TYPE, 16, Lanes, 32, 256, 32, 8, 0)
#define GEMV_DOUBLES(GEMV, TYPE)                \
    GEMV(t, TYPE, 1, Lanes, 32, 256, 8, 64, 0)  \
    GEMV(n, TYPE, 1, Lanes, 32, 256, 16, 32, 0) \
    GEMV(t, TYPE, 4, Lanes, 32, 256, 8, 64, 0)  \
    GEMV(n, TYPE, 4, Lanes, 32, 256, 16, 32, 0) \
    GEMV(t, TYPE, 16, Lanes, 32, 256, 8, 16, 0) \
    GEMV(n, TYPE, 16, Lanes, 32, 256, 16, 8, 0)
#define GEMV_MFMA(GEMV, TYPE)                      \
    GEMV(t, TYPE, 16, Matrix, 64, 256, 16, 256, 0) \
    GEMV(n, TYPE, 16, Matrix, 64, 256, 128, 32, 0)
#define GEMV_RDNA3(GEMV, TYPE)                    \
    GEMV(t, TYPE, 16, Matrix, 32, 256, 16, 64, 0) \
    GEMV(n, TYPE, 16, Matrix, 32, 256, 128, 16, 0)
#define GEMV_RDNA4(GEMV, TYPE)                     \
    GEMV(t, TYPE, 16, Matrix, 32, 256, 16, 128, 0) \
    GEMV(n, TYPE, 16, Matrix, 32, 256, 128, 16, 0)
#define GEMV_MMA(GEMV, TYPE)                       \
    GEMV(t, TYPE, 8, Matrix, 32, 256, 8, 128, 0)   \
    GEMV(n, TYPE, 8, Matrix, 32, 256, 32, 64, 64)  \
    GEMV(t, TYPE, 16, Matrix, 32, 256, 16, 128, 0) \
    GEMV(n, TYPE, 16, Matrix, 32, 256, 32, 64, 64)
// As TF32 and the rest, of 16 columns, which is no slower than lanes of eight whose rows are together.
#define GEMV_SPLIT_FLOATS(GEMV, TYPE)             \
    GEMV(t, TYPE, 1, Lanes, 32, 256, 8, 128, 0)   \
    GEMV(n, TYPE, 1, Lanes, 32, 512, 32, 32, 0)   \
    GEMV(t, TYPE, 2, Lanes, 32, 256, 8, 128, 0)   \
    GEMV(n, TYPE, 2, Lanes, 32, 512, 32, 32, 0)   \
    GEMV(t, TYPE, 4, Lanes, 32, 256, 8, 128, 0)   \
    GEMV(n, TYPE, 4, Lanes, 32, 512, 32, 32, 0)   \
    GEMV(t, TYPE, 8, Lanes, 32, 256, 8, 64, 0)    \
    GEMV(t, TYPE, 16, Matrix, 32, 256, 16, 64, 0) \
    GEMV(n, TYPE, 16, Matrix, 32, 512, 32, 32, 0)

#define GEMM_OF_TYPE(TILE, GEMV, END, TYPE, GEMVS) \
    TILE(TYPE, 64, 64, 4, 4)                       \
    TILE(TYPE, 32, 32, 4, 4)                       \
    GEMVS(GEMV, TYPE)                              \
    END(TYPE)
// 8 x 8 sums in f64 would be half of a thread's registers.
#define GEMM_ALL(TILE, GEMV, END, FLOATS, HALVES)    \
    GEMM_OF_TYPE(TILE, GEMV, END, f32, FLOATS)       \
    GEMM_OF_TYPE(TILE, GEMV, END, f16, HALVES)       \
    GEMM_OF_TYPE(TILE, GEMV, END, bf16, HALVES)      \
    GEMM_OF_TYPE(TILE, GEMV, END, f64, GEMV_DOUBLES) \
    TILE(f32, 128, 128, 8, 8)                        \
    TILE(f16, 128, 128, 8, 8)                        \
    TILE(bf16, 128, 128, 8, 8)
#define GEMM_KERNELS_Vega20(TILE, GEMV, END) GEMM_ALL(TILE, GEMV, END, GEMV_FLOATS, GEMV_HALVES)
#define GEMM_KERNELS_Cdna1(TILE, GEMV, END) GEMM_ALL(TILE, GEMV, END, GEMV_FLOATS, GEMV_MFMA)
#define GEMM_KERNELS_Cdna2 GEMM_KERNELS_Cdna1
#define GEMM_KERNELS_Cdna3 GEMM_KERNELS_Cdna1
#define GEMM_KERNELS_Cdna4 GEMM_KERNELS_Cdna1
#define GEMM_KERNELS_Rdna2 GEMM_KERNELS_Vega20
#define GEMM_KERNELS_Rdna3(TILE, GEMV, END) GEMM_ALL(TILE, GEMV, END, GEMV_FLOATS, GEMV_RDNA3)
#define GEMM_KERNELS_Rdna4(TILE, GEMV, END) GEMM_ALL(TILE, GEMV, END, GEMV_FLOATS, GEMV_RDNA4)
#define GEMM_KERNELS_Nvidia(TILE, GEMV, END) GEMM_ALL(TILE, GEMV, END, GEMV_SPLIT_FLOATS, GEMV_MMA)
