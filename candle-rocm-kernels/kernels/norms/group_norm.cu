// Normalisation of groups of channels, read once where a workgroup holds the group, and its gradients.
//
// f16 and bf16 are computed in f32 and rounded once. The order of a sum is fixed by shapes and by the parts, which the
// host (candle_rocm_backend::ops) chooses by the GPU's number of compute units.
#include "norms/group_norm.cuh"

namespace norms {

#define GROUP_NORM_KERNEL(NAME, FUNCTION, T)                                          \
    ENTRY __launch_bounds__(GROUP_NORM_MOST_THREADS) NAME(GroupNormProblem problem) { \
        if (problem.wide != 0) FUNCTION<T, VEC16<T>>(problem);                        \
        else FUNCTION<T, 1>(problem);                                                 \
    }
#define GROUP_NORM(NAME, T)                                        \
    GROUP_NORM_KERNEL(group_norm_##NAME, group_norm, T)            \
    GROUP_NORM_KERNEL(group_norm_moments_##NAME, split_moments, T) \
    GROUP_NORM_KERNEL(group_norm_sums_##NAME, channel_sums, T)     \
    GROUP_NORM_KERNEL(group_norm_gradient_##NAME, group_norm_gradient, T)
GROUP_NORM(f32, float)
GROUP_NORM(f16, half_t)
GROUP_NORM(bf16, bf16_t)

} // namespace norms
