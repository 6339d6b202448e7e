// What kernels of cross-entropy are told.
#pragma once
#include "portable/portable.cuh"

// Rows of logits with a target each. The host (candle_rocm_backend::ops) knows the same fields.
//
// A row's loss is target_weight * (lse - logit of the target) + each_weight * (columns * lse - sum of logits) +
// z_loss * lse^2, with lse = log(sum(e^logit)). Where the target is `ignored`, it is 0.
struct CrossEntropyProblem {
    const void *logits, *targets;
    void *losses, *lse, *partial;
    // Backward: the loss's gradient, of one number or of one for each row, and what it is multiplied by; null for 1.
    const void *slope, *scale;
    // Backward: rows of `columns` elements; the logits themselves, too.
    void *gradient;
    // The sum of all losses, or their mean, and what the gradient of that is for each row that is not ignored.
    void *total, *total_scale;
    // Rows of logits, the elements from one to the next, and the first one's number among targets, losses and lse.
    uint64_t rows, stride, first_row;
    int64_t ignored;
    double target_weight, each_weight, z_loss;
    // Logits are cap * tanh(x / cap), where this is not 0.
    double softcap;
    // Workgroups' threads for a row, a power of two, and those groups of threads that share a row.
    uint32_t columns, threads, splits;
    // Of a target: 1, 4, 8, or 0 where there are none.
    uint32_t target_bytes;
    uint32_t has_ignored;
    // Whether each row has a slope of its own, whether rows whose targets are ignored want their lse, and whether the
    // total is a mean.
    uint32_t slope_of_row, every_lse, mean;
};
