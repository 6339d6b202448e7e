// The kernels attend_<elements>_<queries>_<type> of module `attention_decode`, by architecture, each of every type
// below: attention_decode.cu makes them of these lists, and the build the table that candle_rocm_kernels::decode reads.
//
//   X(elements, queries, matrix, what follows X)
//
// X is for heads of at most so many elements; a workgroup takes so many queries of a group. Where a cache of 16 bits is
// read by matrix instructions (decode_matrix.cuh), `matrix` is what registers are for at once: workgroups of an NVIDIA
// multiprocessor, wavefronts of an AMD SIMD. 0 is for groups of lanes (decode_rows.cuh): larger heads have no registers
// for matrix instructions, and a single query gains nothing by them.
#pragma once
#include "portable/architecture.cuh"

#define ATTEND_OF(X, OF_64, OF_128, OF_256, ...) \
    X(64, 1, 0, __VA_ARGS__)                     \
    X(64, 4, OF_64, __VA_ARGS__)                 \
    X(128, 1, 0, __VA_ARGS__)                    \
    X(128, 4, OF_128, __VA_ARGS__)               \
    X(256, 1, 0, __VA_ARGS__)                    \
    X(256, 4, OF_256, __VA_ARGS__)               \
    X(512, 1, 0, __VA_ARGS__)                    \
    X(512, 2, 0, __VA_ARGS__)
#define ATTEND_KERNELS_Vega20(X, ...) ATTEND_OF(X, 0, 0, 0, __VA_ARGS__)
#define ATTEND_KERNELS_Cdna1 ATTEND_KERNELS_Vega20
// With registers for one wavefront, sums would be in accumulation registers, and move for each scaling.
#define ATTEND_KERNELS_Cdna2(X, ...) ATTEND_OF(X, 2, 2, 2, __VA_ARGS__)
#define ATTEND_KERNELS_Cdna3 ATTEND_KERNELS_Cdna2
#define ATTEND_KERNELS_Cdna4 ATTEND_KERNELS_Cdna2
#define ATTEND_KERNELS_Rdna2 ATTEND_KERNELS_Vega20
#define ATTEND_KERNELS_Rdna3 ATTEND_KERNELS_Vega20
#define ATTEND_KERNELS_Rdna4(X, ...) ATTEND_OF(X, 2, 2, 0, __VA_ARGS__)
#define ATTEND_KERNELS_Nvidia(X, ...) ATTEND_OF(X, 2, 1, 0, __VA_ARGS__)

// X(name, type of what comes in and goes out, the cache's type).
#define FOR_ATTEND_TYPES(X)   \
    X(f16, half_t, half_t)    \
    X(bf16, bf16_t, bf16_t)   \
    X(f32, float, float)      \
    X(f32_f16, float, half_t) \
    X(f32_bf16, float, bf16_t)

namespace attention {

// What the list says of a kernel.
template <int DIM, int HEADS> struct ListedAttend;
#define LISTED_ATTEND(DIM, HEADS, MATRIX_, ...)   \
    template <> struct ListedAttend<DIM, HEADS> { \
        static constexpr int MATRIX = MATRIX_;    \
    };
LISTED(ATTEND_KERNELS)(LISTED_ATTEND)
#undef LISTED_ATTEND

} // namespace attention
