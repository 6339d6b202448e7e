// Reductions over dimensions, softmax, normalisations, rotary embedding.
#include "reduce/fold.cuh"
#include "reduce/long_fold.cuh"
#include "elementwise/rope.cuh"
#include "norms/norm.cuh"
#include "norms/softmax.cuh"

// How these are launched, but for those of row_kernels.cuh: launch_heuristics.rs says what the words mean.
#define LAUNCHES(X, EVERY)                  \
    X(fast_sum_small, AnyGrid, 1, Sizes, 0) \
    X(fast_sum, Outputs, 0, 1)              \
    X(fast_min, Outputs, 0, 1)              \
    X(fast_max, Outputs, 0, 1)              \
    X(fast_argmin, Outputs, 0, 1)           \
    X(fast_argmax, Outputs, 0, 1)           \
    X(rope_i, AnyGrid, 1, Narrow, 4, 5)     \
    X(rope, AnyGrid, 1, Narrow, 4, 5)       \
    X(rope_thd, AnyGrid, 1, Narrow, 4, 5, 6, 7)

#define FOLD_PARAMETERS(T, OUT)                                                                                \
    size_t numel, size_t reduced, size_t num_dims, const size_t *__restrict__ info, const T *__restrict__ src, \
        OUT *__restrict__ dst
#define FOLDS(NAME, T)                                                                                               \
    ENTRY fast_sum_##NAME(FOLD_PARAMETERS(T, T)) { fold<Summing<T>>(numel, reduced, num_dims, info, src, dst); }     \
    /* Here numel is the number of outputs. */                                                                       \
    ENTRY fast_sum_small_##NAME(FOLD_PARAMETERS(T, T)) { fast_sum_small(numel, reduced, num_dims, info, src, dst); } \
    ENTRY fast_min_##NAME(FOLD_PARAMETERS(T, T)) {                                                                   \
        fold<Extremum<Smallest, false, T>>(numel, reduced, num_dims, info, src, dst);                                \
    }                                                                                                                \
    ENTRY fast_max_##NAME(FOLD_PARAMETERS(T, T)) {                                                                   \
        fold<Extremum<Largest, false, T>>(numel, reduced, num_dims, info, src, dst);                                 \
    }                                                                                                                \
    ENTRY fast_argmin_##NAME(FOLD_PARAMETERS(T, uint32_t)) {                                                         \
        fold<Extremum<Smallest, true, T>>(numel, reduced, num_dims, info, src, dst);                                 \
    }                                                                                                                \
    ENTRY fast_argmax_##NAME(FOLD_PARAMETERS(T, uint32_t)) {                                                         \
        fold<Extremum<Largest, true, T>>(numel, reduced, num_dims, info, src, dst);                                  \
    }
FOR_ALL(FOLDS)

// What replaces a fold of few long outputs (candle_rocm_kernels::split_rows). The segments of an extremum and of its
// place are the same.
#define LONG_SPLITS(KERNEL, NAME, T, ...)                                                                           \
    ENTRY __launch_bounds__(256) long_##KERNEL##_splits_##NAME(                                                     \
        size_t reduced, size_t num_dims, const size_t *__restrict__ info, const T *__restrict__ src, void *found) { \
        using Fold = __VA_ARGS__;                                                                                   \
        fold_segments<Fold>(reduced, num_dims, info, src, (typename Fold::State *)found);                           \
    }
#define LONG_FINISH(KERNEL, NAME, T, OUT, ...)                                                               \
    ENTRY __launch_bounds__(256)                                                                             \
        long_##KERNEL##_finish_##NAME(size_t reduced, size_t num_dims, const size_t *__restrict__ info,      \
                                      const T *__restrict__ src, OUT *__restrict__ dst, const void *found) { \
        using Fold = __VA_ARGS__;                                                                            \
        fold_finish<Fold>(reduced, num_dims, info, src, dst, (const typename Fold::State *)found);           \
    }
#define LONG_FOLDS(NAME, T)                                             \
    LONG_SPLITS(sum, NAME, T, Summing<T>)                               \
    LONG_SPLITS(min, NAME, T, Extremum<Smallest, true, T>)              \
    LONG_SPLITS(max, NAME, T, Extremum<Largest, true, T>)               \
    LONG_FINISH(sum, NAME, T, T, Summing<T>)                            \
    LONG_FINISH(min, NAME, T, T, Extremum<Smallest, false, T>)          \
    LONG_FINISH(max, NAME, T, T, Extremum<Largest, false, T>)           \
    LONG_FINISH(argmin, NAME, T, uint32_t, Extremum<Smallest, true, T>) \
    LONG_FINISH(argmax, NAME, T, uint32_t, Extremum<Largest, true, T>)
FOR_ALL(LONG_FOLDS)

// block_size is what Candle launches with; blockDim says the same.
#define ROWS(NAME, T)                                                                                                  \
    ENTRY softmax_##NAME(const T *__restrict__ src, T *__restrict__ dst, int32_t columns) {                            \
        norms::softmax(src, dst, columns);                                                                             \
    }                                                                                                                  \
    ENTRY rmsnorm_##NAME(const T *__restrict__ src, T *__restrict__ dst, const T *__restrict__ alpha, int32_t columns, \
                         int32_t block_size, float eps) {                                                              \
        norms::rmsnorm(src, dst, alpha, columns, eps);                                                                 \
    }                                                                                                                  \
    ENTRY layernorm_##NAME(const T *__restrict__ src, T *__restrict__ dst, const T *__restrict__ alpha,                \
                           const T *__restrict__ beta, int32_t columns, int32_t block_size, float eps) {               \
        norms::layernorm(src, dst, alpha, beta, columns, eps);                                                         \
    }
FOR_WIDE_FLOATS(ROWS)

#define ROPES(NAME, T)                                                                                              \
    ENTRY rope_i_##NAME(const T *__restrict__ src, const T *__restrict__ cos, const T *__restrict__ sin,            \
                        T *__restrict__ dst, uint32_t bh, uint32_t td, uint32_t stride_b) {                         \
        rope_i(src, cos, sin, dst, bh, td, stride_b);                                                               \
    }                                                                                                               \
    ENTRY rope_##NAME(const T *__restrict__ src, const T *__restrict__ cos, const T *__restrict__ sin,              \
                      T *__restrict__ dst, uint32_t bh, uint32_t td, uint32_t d, uint32_t stride_b) {               \
        rope(src, cos, sin, dst, bh, td, d, stride_b);                                                              \
    }                                                                                                               \
    ENTRY rope_thd_##NAME(const T *__restrict__ src, const T *__restrict__ cos, const T *__restrict__ sin,          \
                          T *__restrict__ dst, uint32_t b, uint32_t t, uint32_t h, uint32_t d, uint32_t stride_b) { \
        rope_thd(src, cos, sin, dst, b, t, h, d, stride_b);                                                         \
    }
FOR_WIDE_FLOATS(ROPES)
