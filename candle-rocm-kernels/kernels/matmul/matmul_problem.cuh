// What the `matmul` module's kernels are told: a product, and what is done to its results on the way to memory.
#pragma once
#include "portable/activations.cuh"
#include "matmul/gemm_problem.cuh"

// Laid out as the host's argument of the same name. Column-major, distances in elements, row_c is 1.
//
//   value = alpha * sum + beta * C (not read where beta is 0)
//   value = activation(value + bias[row]) + residual[row + column * ld_residual + z * stride_residual]
//
// in the compute type, rounded once to C's type, which is that of bias and residual too. Null pointers are left out.
// For i8 C is i32, alpha and beta are integers, results wrap, and there is no activation.
struct MatmulProblem {
    GemmProblem gemm;
    // With more than one part: raw sums of (part, batch, column, row), for matmul_sum_<type>, or, where parts hand them
    // over (1, or 0), for the workgroups of the last part; of tiles, which have all of their sums there, as lanes do.
    void *partial;
    uint64_t hands_over;
    const void *bias;
    const void *residual;
    int64_t ld_residual;
    int64_t stride_residual;
    uint32_t batch;
    // k is summed in so many parts (the grid's y), each of part_k, a multiple of the slices' depth.
    uint32_t parts;
    uint32_t part_k;
    uint32_t activation;
    // The grid's x counts tiles_m * tiles_n tiles, in groups of `group` tiles of rows, dealt to so many chiplets.
    uint32_t tiles_m;
    uint32_t tiles_n;
    uint32_t group;
    uint32_t chiplets;
};

// What kernels that are told more find the product in.
__device__ __forceinline__ const MatmulProblem &product_of(const MatmulProblem &p) { return p; }

#define NUMBERED(NAME, FUNCTION, NUMBER, ...) ACTIVATION_##NAME = NUMBER,
enum Activation { FOR_ACTIVATIONS(NUMBERED, ) };
#undef NUMBERED

// x came from a T.
template <class T, class C> __device__ __forceinline__ C activated(C x, uint32_t activation) {
    if (activation == ACTIVATION_gelu_erf) return GeluErfFunction::of<T>(x);
    return activation == ACTIVATION_silu ? SiluFunction::of<T>(x) : GeluFunction::of<T>(x);
}
