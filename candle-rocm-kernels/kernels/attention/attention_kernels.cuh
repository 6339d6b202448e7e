// The kernels of modules `forward` and `backward`, by architecture: both make them of these lists, and the build the
// tables that candle_rocm_kernels::attention reads.
//
//   X(elements, made, others, rows, waves, own, lds_kib)
//   KEYS(elements, made, others, rows, waves, own, staging, lds_kib)
//   QUERIES(elements, made, others, rows, waves, own, staging, lds_kib)
//
// X is attention_<type>_<elements>, for heads of at most so many elements, of which a workgroup makes some of the
// result's: its waves have so many rows each, of queries, and go through so many others, keys, at a time. Own rows are
// in Registers or Lds. KEYS is attention_backward_keys_<type>_<elements>, whose own rows are keys, and the others
// queries; QUERIES is attention_backward_queries_<type>_<elements>. Late staging takes fewer registers (backward.cuh).
// lds_kib is what a launch asks for, where a kernel has no LDS of its own.
//
// By registers: a wavefront's results take half as many as a head has elements, and own rows a quarter, but half on
// RDNA3, whose lanes hold whole rows; where own rows are keys, a wavefront has two results of each. Where that is too
// much own rows stay in LDS, or elements are made in parts.
#pragma once
#include "portable/architecture.cuh"

#define FORWARD_KERNELS_Cdna1(X)         \
    X(32, 32, 64, 32, 4, Registers, 0)   \
    X(64, 64, 64, 32, 4, Registers, 0)   \
    X(128, 128, 32, 32, 4, Registers, 0) \
    X(256, 256, 32, 32, 4, Registers, 0) \
    X(512, 256, 32, 32, 4, Registers, 0)
#define FORWARD_KERNELS_Cdna2 FORWARD_KERNELS_Cdna1
#define FORWARD_KERNELS_Cdna3 FORWARD_KERNELS_Cdna1
#define FORWARD_KERNELS_Cdna4 FORWARD_KERNELS_Cdna1
#define FORWARD_KERNELS_Rdna3(X)         \
    X(32, 32, 64, 16, 8, Registers, 0)   \
    X(64, 64, 64, 16, 8, Registers, 0)   \
    X(128, 128, 32, 16, 8, Registers, 0) \
    X(256, 256, 16, 16, 4, Lds, 0)       \
    X(512, 128, 16, 16, 2, Lds, 0)
#define FORWARD_KERNELS_Rdna4 FORWARD_KERNELS_Rdna3
#define FORWARD_KERNELS_Vega20(X)  \
    X(32, 32, 32, 16, 4, Lds, 0)   \
    X(64, 64, 32, 16, 4, Lds, 0)   \
    X(128, 128, 32, 16, 4, Lds, 0) \
    X(256, 256, 16, 8, 8, Lds, 0)  \
    X(512, 256, 16, 8, 4, Lds, 0)
#define FORWARD_KERNELS_Rdna2 FORWARD_KERNELS_Vega20
// A fragment of keys or values is for twice as many products of 32 queries as of 16, which is what bounds this loop.
#define FORWARD_KERNELS_Nvidia(X)   \
    X(32, 32, 64, 32, 4, Lds, 19)   \
    X(64, 64, 64, 32, 4, Lds, 35)   \
    X(128, 128, 32, 32, 4, Lds, 51) \
    X(256, 128, 32, 32, 4, Lds, 90)

#define BACKWARD_MFMA(KEYS, QUERIES, WAVES_OF_128)            \
    KEYS(32, 32, 32, 32, 4, Registers, Early, 0)              \
    QUERIES(32, 32, 64, 32, 4, Registers, Early, 0)           \
    KEYS(64, 64, 32, 32, 4, Registers, Early, 0)              \
    QUERIES(64, 64, 32, 32, 4, Registers, Early, 0)           \
    KEYS(128, 128, 32, 32, WAVES_OF_128, Registers, Early, 0) \
    QUERIES(128, 128, 32, 32, 4, Registers, Early, 0)         \
    KEYS(256, 128, 32, 32, 4, Registers, Late, 0)             \
    QUERIES(256, 256, 32, 32, 4, Registers, Late, 0)
#define BACKWARD_KERNELS_Cdna1(KEYS, QUERIES) BACKWARD_MFMA(KEYS, QUERIES, 4)
#define BACKWARD_KERNELS_Cdna2(KEYS, QUERIES) BACKWARD_MFMA(KEYS, QUERIES, 8)
#define BACKWARD_KERNELS_Cdna3 BACKWARD_KERNELS_Cdna2
#define BACKWARD_KERNELS_Cdna4 BACKWARD_KERNELS_Cdna2
#define BACKWARD_KERNELS_Rdna3(KEYS, QUERIES)       \
    KEYS(32, 32, 32, 16, 8, Registers, Early, 0)    \
    QUERIES(32, 32, 32, 16, 8, Registers, Early, 0) \
    KEYS(64, 64, 16, 16, 8, Registers, Early, 0)    \
    QUERIES(64, 64, 32, 16, 8, Registers, Early, 0) \
    KEYS(128, 128, 16, 16, 4, Lds, Early, 0)        \
    QUERIES(128, 128, 32, 16, 4, Lds, Early, 0)     \
    KEYS(256, 128, 16, 16, 2, Lds, Late, 0)         \
    QUERIES(256, 256, 16, 16, 2, Lds, Late, 0)
#define BACKWARD_KERNELS_Rdna4 BACKWARD_KERNELS_Rdna3
#define BACKWARD_KERNELS_Vega20(KEYS, QUERIES)  \
    KEYS(32, 32, 32, 16, 4, Lds, Early, 0)      \
    QUERIES(32, 32, 32, 16, 4, Lds, Early, 0)   \
    KEYS(64, 64, 32, 16, 4, Lds, Early, 0)      \
    QUERIES(64, 64, 32, 16, 4, Lds, Early, 0)   \
    KEYS(128, 128, 16, 16, 4, Lds, Late, 0)     \
    QUERIES(128, 128, 16, 16, 4, Lds, Early, 0) \
    KEYS(256, 128, 16, 8, 4, Lds, Late, 0)      \
    QUERIES(256, 256, 16, 8, 4, Lds, Late, 0)
#define BACKWARD_KERNELS_Rdna2 BACKWARD_KERNELS_Vega20
// By their time on Hopper.
#define BACKWARD_KERNELS_Nvidia(KEYS, QUERIES)      \
    KEYS(32, 32, 32, 32, 4, Registers, Early, 10)   \
    QUERIES(32, 32, 64, 32, 4, Lds, Early, 33)      \
    KEYS(64, 64, 32, 32, 4, Lds, Early, 51)         \
    QUERIES(64, 64, 64, 32, 4, Lds, Early, 65)      \
    KEYS(128, 128, 32, 16, 8, Lds, Early, 98)       \
    QUERIES(128, 128, 32, 32, 4, Lds, Early, 98)    \
    KEYS(256, 128, 16, 16, 4, Registers, Early, 35) \
    QUERIES(256, 128, 16, 16, 4, Registers, Early, 34)
