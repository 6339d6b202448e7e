// The kernels of module `skinny_normed`, by architecture. skinny_normed.cu makes them of this list, and the build the
// table that candle_rocm_kernels::skinny reads.
//
//   X(type, columns, unit, lanes, threads, rows, step)
//
// X is normed_skinny_<type> and gated_skinny_<type>, which take columns by so many at a time. The rest is as in
// gemm_kernels.cuh, of form t; matrix units of NVIDIA's take twice the rows, since all workgroups norm the columns.
#pragma once
#include "portable/architecture.cuh"

#define NORMED_FLOATS(X) X(f32, 1, Lanes, 32, 256, 8, 128)
#define NORMED_KERNELS_Vega20(X)       \
    X(f16, 1, Lanes, 32, 256, 8, 256)  \
    X(bf16, 1, Lanes, 32, 256, 8, 256) \
    NORMED_FLOATS(X)
#define NORMED_KERNELS_Cdna1(X)           \
    X(f16, 16, Matrix, 64, 256, 16, 256)  \
    X(bf16, 16, Matrix, 64, 256, 16, 256) \
    NORMED_FLOATS(X)
#define NORMED_KERNELS_Cdna2 NORMED_KERNELS_Cdna1
#define NORMED_KERNELS_Cdna3 NORMED_KERNELS_Cdna1
#define NORMED_KERNELS_Cdna4 NORMED_KERNELS_Cdna1
#define NORMED_KERNELS_Rdna2 NORMED_KERNELS_Vega20
#define NORMED_KERNELS_Rdna3(X)          \
    X(f16, 16, Matrix, 32, 256, 16, 64)  \
    X(bf16, 16, Matrix, 32, 256, 16, 64) \
    NORMED_FLOATS(X)
#define NORMED_KERNELS_Rdna4(X)           \
    X(f16, 16, Matrix, 32, 256, 16, 128)  \
    X(bf16, 16, Matrix, 32, 256, 16, 128) \
    NORMED_FLOATS(X)
#define NORMED_KERNELS_Nvidia(X)         \
    X(f16, 8, Matrix, 32, 256, 16, 128)  \
    X(bf16, 8, Matrix, 32, 256, 16, 128) \
    NORMED_FLOATS(X)
