// What the `dnn` module's kernels are told: tensors of any strides, of which cuDNN's layers make others.
//
//   y = alpha * result + beta * y (not read where beta is 0)
//
// in the compute type, rounded once. Distances are in elements.
#pragma once
#include "matmul/matmul_problem.cuh"

// Elements that follow one another: how many, and how far apart in x and in y.
struct DnnDirection {
    Divisor count;
    uint32_t unused;
    int64_t x;
    int64_t y;
};

// Numbers are those of cuDNN's enumerations.
//
// Elements are counted along four kept and four reduced directions each, from the fastest on; those that are not there
// have one element. 256 work-items make 256 >> log2_lanes results at once. Neighbours among work-items are lanes of a
// result, or results (`by_results`).
struct DnnProblem {
    const void *x;
    void *y;
    // The places of extrema among the elements of each result, or null.
    uint32_t *indices;
    double alpha;
    double beta;
    double coefficient;
    DnnDirection kept_0;
    DnnDirection kept_1;
    DnnDirection kept_2;
    DnnDirection kept_3;
    DnnDirection reduced_0;
    DnnDirection reduced_1;
    DnnDirection reduced_2;
    DnnDirection reduced_3;
    uint32_t results;
    uint32_t reduced;
    uint32_t mode;
    uint32_t propagates_nan;
    uint32_t log2_lanes;
    uint32_t by_results;
};

// An axis of a pooled tensor.
struct DnnAxis {
    Divisor outputs;
    int32_t size;
    int32_t window;
    int32_t stride;
    int32_t padding;
    uint32_t unused;
    int64_t x;
    int64_t y;
};

struct DnnPooling {
    const void *x;
    void *y;
    double alpha;
    double beta;
    DnnAxis axis_z;
    DnnAxis axis_y;
    DnnAxis axis_x;
    DnnDirection channels;
    DnnDirection images;
    uint32_t results;
    uint32_t mode;
    uint32_t propagates_nan;
    // Whether channels are the fastest.
    uint32_t channels_last;
};
