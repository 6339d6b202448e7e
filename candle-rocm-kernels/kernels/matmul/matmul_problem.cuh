// What the `matmul` module's kernels are told: a product, and what is done to its results on the way to memory.
#pragma once
#include "portable/activations.cuh"
#include "matmul/gemm_problem.cuh"

// What numbers below 2^31 are divided by, which kernels do while no operands are on their way yet: the quotient is
// number * multiplier / 2^(31 + shift). (Granlund and Montgomery, Division by Invariant Integers using Multiplication)
struct Divisor {
    uint32_t value;
    uint32_t multiplier;
    uint32_t shift;
};

// The order of C's tiles, which the grid's x counts: groups of tiles of rows, one tile of columns after another, dealt
// to XCDs.
struct TileOrder {
    uint32_t tiles_m;
    uint32_t tiles_n;
    // Tiles of each XCD, of which the first so many have one more.
    uint32_t of_xcd;
    uint32_t more;
    Divisor xcds;
    // Tiles of rows of a group, those of the last one, and all tiles of a group.
    Divisor group;
    Divisor last_group;
    Divisor of_group;
};

// What becomes of the sums of splits of k.
enum SplitKReduction {
    // matmul_sum_<type> adds them up.
    SPLIT_K_SEPARATE_KERNEL,
    // The last split's workgroups wait for the others'.
    SPLIT_K_IN_KERNEL,
    // As the first; and the grid's x counts splits, its y tiles, so that each XCD gets whole splits and reads but
    // their share of both operands.
    SPLIT_K_PER_XCD,
};

// Column-major, distances in elements, row_c is 1.
//
//   value = alpha * sum + beta * C (not read where beta is 0)
//   value = activation(value + bias[row]) + residual[row + column * ld_residual + z * stride_residual]
//
// in the compute type, rounded once to C's type, which is that of bias and residual too. Null pointers are left out.
// For i8 C is i32, alpha and beta are integers, results wrap, and there is no activation.
struct MatmulProblem {
    GemmProblem gemm;
    // With more than one split: raw sums of (part, batch, column, row), or, where they are reduced in the kernel, of
    // (part, batch, tile), which has all of its sums there, as lanes do.
    void *partial;
    uint32_t split_k_reduction; // SplitKReduction
    // Nothing is done to whole sums but the factor (1, or 0), and C has the operands' type: the shortest code stores
    // them.
    uint32_t is_bare;
    const void *bias;
    const void *residual;
    int64_t ld_residual;
    int64_t stride_residual;
    uint32_t batch;
    // k is summed in so many splits (the grid's y, or x), each of k_per_split, a multiple of the stages' depth; one has
    // all of k.
    uint32_t splits;
    uint32_t k_per_split;
    uint32_t activation;
    TileOrder order;
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
