// Sparse matrices by vectors and by matrices, and the gradients of their values.
//
// f16 and bf16 are computed in f32 and rounded once. The order of a sum is that of a row's stored numbers, shared among
// as many threads as the host (candle_rocm_backend::ops) chooses by their count.
#include "sparse/sparse.cuh"

#define SPARSE_KERNEL(NAME, FUNCTION, T)                                  \
    ENTRY __launch_bounds__(SPARSE_THREADS) NAME(SparseProblem problem) { \
        if (problem.wide != 0) FUNCTION<T, VEC16<T>>(problem);            \
        else FUNCTION<T, 1>(problem);                                     \
    }
#define SPARSE(NAME, T)                                                                                                \
    ENTRY __launch_bounds__(SPARSE_THREADS) sparse_vector_##NAME(SparseProblem problem) { sparse_vector<T>(problem); } \
    SPARSE_KERNEL(sparse_matrix_##NAME, sparse_matrix, T)                                                              \
    SPARSE_KERNEL(sparse_sampled_##NAME, sparse_sampled, T)
FOR_WIDE_FLOATS(SPARSE)

ENTRY __launch_bounds__(SPARSE_THREADS) sparse_offsets_u32(SparseProblem problem) { sparse_offsets(problem); }
ENTRY __launch_bounds__(SPARSE_THREADS) sparse_transposed_u32(SparseProblem problem) { sparse_transposed(problem); }
