// LU, Cholesky and triangular solves of many small matrices, each held in LDS.
//
// Each number has one thread that computes it, in an order that the size fixes.
#include "linalg/linalg.cuh"

#define LINALG(NAME, T)                                                                                             \
    ENTRY __launch_bounds__(LINALG_THREADS) linalg_lu_##NAME(LinalgProblem problem) { lu<T>(problem); }             \
    ENTRY __launch_bounds__(LINALG_THREADS) linalg_cholesky_##NAME(LinalgProblem problem) { cholesky<T>(problem); } \
    ENTRY __launch_bounds__(LINALG_THREADS) linalg_triangular_##NAME(LinalgProblem problem) { triangular<T>(problem); }
LINALG(f32, float)
LINALG(f64, double)
