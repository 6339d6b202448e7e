// The skinny kernels of module `fp8_weights`, by architecture. fp8_weights.cu makes them of this list, and the build
// the tables that candle_rocm_kernels::skinny reads.
//
//   X(type, columns, unit, lanes, threads, rows, step)  linear_fp8_<type>
//   Y(type, columns, unit, lanes, threads, rows, step)  normed_fp8_<type> and gated_fp8_<type>
//   Z(type, rows, gated_rows, round, lds_kib, resident, most, normed_most)  streamed_linear_fp8_<type> and its kin,
//     which take a column alone: rows of a tile, and gated ones; elements of k in a round; what the stages take of LDS;
//     workgroups of a multiprocessor; and the elements of k that there may be, and in what is normed
//     (skinny/streamed.cuh)
//
// Columns are of the type, weights FP8. The rest is as in gemm_kernels.cuh, of form t.
#pragma once
#include "portable/architecture.cuh"

#define WEIGHT_KERNELS_Vega20(X, Y, Z) \
    X(f16, 1, Lanes, 32, 256, 8, 512)  \
    X(bf16, 1, Lanes, 32, 256, 8, 512) \
    Y(f16, 1, Lanes, 32, 256, 8, 512)  \
    Y(bf16, 1, Lanes, 32, 256, 8, 512)
#define WEIGHT_KERNELS_Cdna1(X, Y, Z)     \
    X(f16, 16, Matrix, 64, 256, 16, 256)  \
    X(bf16, 16, Matrix, 64, 256, 16, 256) \
    Y(f16, 16, Matrix, 64, 256, 16, 256)  \
    Y(bf16, 16, Matrix, 64, 256, 16, 256)
#define WEIGHT_KERNELS_Cdna2 WEIGHT_KERNELS_Cdna1
#define WEIGHT_KERNELS_Cdna3 WEIGHT_KERNELS_Cdna1
#define WEIGHT_KERNELS_Cdna4 WEIGHT_KERNELS_Cdna1
#define WEIGHT_KERNELS_Rdna2 WEIGHT_KERNELS_Vega20
#define WEIGHT_KERNELS_Rdna3(X, Y, Z)     \
    X(f16, 16, Matrix, 32, 256, 16, 128)  \
    X(bf16, 16, Matrix, 32, 256, 16, 128) \
    Y(f16, 16, Matrix, 32, 256, 16, 128)  \
    Y(bf16, 16, Matrix, 32, 256, 16, 128)
#define WEIGHT_KERNELS_Rdna4 WEIGHT_KERNELS_Rdna3
#define WEIGHT_KERNELS_Nvidia(X, Y, Z)      \
    X(f16, 8, Matrix, 32, 256, 16, 256)     \
    X(bf16, 8, Matrix, 32, 256, 16, 256)    \
    Y(f16, 8, Matrix, 32, 256, 32, 128)     \
    Y(bf16, 8, Matrix, 32, 256, 32, 128)    \
    Z(f16, 16, 8, 2048, 64, 2, 16384, 8192) \
    Z(bf16, 16, 8, 2048, 64, 2, 16384, 8192)
