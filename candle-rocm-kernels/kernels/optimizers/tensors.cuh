// Tensors of an optimiser's launch, and how a workgroup finds its elements.
#pragma once
#include "rows/float_vector.cuh"

// A row of the table in device memory that a launch reads. The host (candle_rocm_backend::optim) knows the same fields.
struct OptimizerTensor {
    void *weights;
    const void *gradient;
    // State, in f32: what a rule lacks is null, as is `master` where the weights have no copy in f32.
    float *first, *second, *master;
    uint64_t count;
    // The number of the tensor's first workgroup.
    uint32_t first_chunk;
    // Of the learning rate, for this tensor.
    float scale;
};

// What a launch of any rule is told.
struct OptimizerStep {
    const OptimizerTensor *tensors;
    // The number of each workgroup's tensor.
    const uint32_t *owners;
    // What gradients are multiplied by, on the device; null for 1.
    const float *clip;
    uint64_t seed;
    // The learning rate, what decay leaves of weights in a step, and the rule's own numbers.
    float rate, kept, decay, beta1, beta2, epsilon, scale1, scale2;
    // The number of the step, and whether weights of 16 bits are rounded up or down by chance.
    uint32_t step, stochastic;
};

constexpr uint32_t OPTIMIZER_THREADS = 256, OPTIMIZER_CHUNK = 8192;

// A pointer that a table holds, of which the compiler shall know that it is one to device memory.
template <class T> using InTable = __attribute__((address_space(1))) T *;
template <class T> __device__ __forceinline__ T *of_table(T *const &pointer) {
    return (T *)*(const InTable<T> *)(const void *)&pointer;
}

// Vectors of a workgroup's elements: body(tensor, first element, elements that are there, whether they are aligned).
template <uint32_t WIDTH, class F>
__device__ __forceinline__ void for_chunk(const OptimizerTensor *tensors, const uint32_t *owners, F body) {
    const OptimizerTensor &row = tensors[uniform(owners[blockIdx.x])];
    OptimizerTensor tensor = row;
    tensor.weights = of_table(row.weights), tensor.gradient = of_table(row.gradient);
    tensor.first = of_table(row.first), tensor.second = of_table(row.second), tensor.master = of_table(row.master);
    bool aligned = is_aligned(tensor.weights, 16) && is_aligned(tensor.gradient, 16) && is_aligned(tensor.first, 16) &&
                   is_aligned(tensor.second, 16) && is_aligned(tensor.master, 16);
    uint64_t begin = (uint64_t)(blockIdx.x - tensor.first_chunk) * OPTIMIZER_CHUNK;
    uint64_t end = min_of(begin + OPTIMIZER_CHUNK, tensor.count);
    for (uint64_t i = begin + threadIdx.x * WIDTH; i < end; i += OPTIMIZER_THREADS * WIDTH) {
        uint32_t some = (uint32_t)min_of(end - i, (uint64_t)WIDTH);
        body(tensor, i, some, aligned && some == WIDTH);
    }
}

// A lane's vector of a tensor's gradient, weights or state.
template <class T, int V>
__device__ __forceinline__ FloatVector<T, V> load_some(const void *from, uint64_t i, uint32_t some, bool wide) {
    Held<T, V> held;
    if (wide) held.load((const T *)from + i);
    else held.load((const T *)from + i, some, false);
    return held;
}
template <int V>
__device__ __forceinline__ void store_some(float *to, uint64_t i, uint32_t some, bool wide,
                                           const FloatVector<float, V> &values) {
    values.rounded().store(to + i, some, wide);
}
