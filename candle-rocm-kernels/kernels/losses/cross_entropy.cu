// Cross-entropy of logits and targets, by row: logits are read once, and for the gradient read and written once.
//
// f16 and bf16 are computed in f32. Where rows are long and do not fill the GPU, several groups of threads share each,
// and leave their sums for a second launch. The order of a sum is fixed by shapes, the row's place within 16 bytes and
// the host's choice of threads and splits. A target that is no column ends the launch, with a report.
#include "losses/cross_entropy.cuh"

#define CROSS_ENTROPY(NAME, T)                                                                                  \
    ENTRY __launch_bounds__(CROSS_ENTROPY_THREADS) cross_entropy_rows_##NAME(CrossEntropyProblem problem) {     \
        by_softcap(problem, [&](auto capped) INLINED { cross_entropy_rows<capped.value, T>(problem); });        \
    }                                                                                                           \
    ENTRY __launch_bounds__(CROSS_ENTROPY_THREADS) cross_entropy_finish_##NAME(CrossEntropyProblem problem) {   \
        by_softcap(problem, [&](auto capped) INLINED { cross_entropy_finish<capped.value, T>(problem); });      \
    }                                                                                                           \
    ENTRY __launch_bounds__(CROSS_ENTROPY_THREADS) cross_entropy_backward_##NAME(CrossEntropyProblem problem) { \
        by_softcap(problem, [&](auto capped) INLINED { cross_entropy_backward<capped.value, T>(problem); });    \
    }
FOR_WIDE_FLOATS(CROSS_ENTROPY)

#define CROSS_ENTROPY_SCALE(NAME, T)                                                                          \
    ENTRY __launch_bounds__(CROSS_ENTROPY_THREADS)                                                            \
        cross_entropy_scale_##NAME(const T *__restrict__ from, T *__restrict__ to, const compute_t<T> *slope, \
                                   const compute_t<T> *scale, size_t count) {                                 \
        cross_entropy_scale(from, to, slope, scale, count);                                                   \
    }
FOR_WIDE_FLOATS(CROSS_ENTROPY_SCALE)

ENTRY __launch_bounds__(1024) cross_entropy_sum_f32(CrossEntropyProblem problem) { cross_entropy_sum<float>(problem); }
ENTRY __launch_bounds__(1024) cross_entropy_sum_f64(CrossEntropyProblem problem) { cross_entropy_sum<double>(problem); }
