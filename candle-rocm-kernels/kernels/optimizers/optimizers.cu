// Optimisers' steps, of many tensors in one launch: each workgroup finds its tensor in a table.
//
// State is f32, and what is computed is: weights of f16 and bf16 are rounded once, from copies in f32 where there are
// such. The global norm by which gradients are clipped is summed in an order that the tensors' sizes fix, and stays on
// the device.
#include "optimizers/rules.cuh"
#include "portable/block_reduce.cuh"

#define FOR_WEIGHTS(X) X(f32, float) X(f16, half_t) X(bf16, bf16_t)
#define OPTIMIZER(KERNEL, RULE, NAME, T)                                                         \
    ENTRY __launch_bounds__(OPTIMIZER_THREADS) optimizer_##KERNEL##_##NAME(OptimizerStep step) { \
        optimizer_step<RULE, T>(step);                                                           \
    }
#define OPTIMIZERS(NAME, T)          \
    OPTIMIZER(adamw, AdamW, NAME, T) \
    OPTIMIZER(sgd, Sgd, NAME, T)     \
    OPTIMIZER(lion, Lion, NAME, T)
FOR_WEIGHTS(OPTIMIZERS)

// Leaves each workgroup's sum of the squares of its gradients.
template <class T>
__device__ __forceinline__ void sum_squares(const OptimizerTensor *tensors, const uint32_t *owners, float *sums) {
    constexpr int V = VEC16<T>;
    __shared__ WaveValues<float> lds;
    float sum = 0;
    for_chunk<V>(tensors, owners, [&](const OptimizerTensor &tensor, uint64_t i, uint32_t some, bool wide) INLINED {
        FloatVector<T, V> gradient = load_some<T, V>(tensor.gradient, i, some, wide);
#pragma unroll
        for (int e = 0; e < V; e++) sum = math::fma(gradient.x[e], gradient.x[e], sum);
    });
    sum = block_all_reduce(sum, threadIdx.x, OPTIMIZER_THREADS, Sum(), lds);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
#define SUM_SQUARES(NAME, T)                                                                                          \
    ENTRY __launch_bounds__(OPTIMIZER_THREADS) optimizer_squares_##NAME(                                              \
        const OptimizerTensor *__restrict__ tensors, const uint32_t *__restrict__ owners, float *__restrict__ sums) { \
        sum_squares<T>(tensors, owners, sums);                                                                        \
    }
FOR_WEIGHTS(SUM_SQUARES)

// The norm of all gradients, and what they are multiplied by so that it is `most` at most: the second and the first of
// two numbers.
ENTRY __launch_bounds__(1024)
    optimizer_clip_f32(const float *__restrict__ sums, float *__restrict__ clip, size_t count, float most) {
    __shared__ WaveValues<double> lds;
    double sum = 0;
    for (size_t i = threadIdx.x; i < count; i += 1024) sum += (double)sums[i];
    sum = block_all_reduce(sum, threadIdx.x, 1024, Sum(), lds);
    if (threadIdx.x != 0) return;
    double norm = math::sqrt(sum);
    // A norm that is no number must not pass for a small one.
    clip[0] = norm <= (double)most ? 1.0f : (float)((double)most / (norm + 1e-6));
    clip[1] = (float)norm;
}
