// What optimisers make of a weight, its gradient and its state, in f32.
#pragma once
#include "optimizers/tensors.cuh"
#include "random/philox.cuh"

// Loshchilov and Hutter: "Decoupled weight decay regularization", ICLR 2019. scale1 and scale2 undo the moments' bias.
struct AdamW {
    static constexpr bool FIRST = true, SECOND = true;
    static __device__ __forceinline__ float apply(const OptimizerStep &step, float rate, float weight, float gradient,
                                                  float &first, float &second) {
        first = math::fma(step.beta1, first, (1 - step.beta1) * gradient);
        second = math::fma(step.beta2, second, (1 - step.beta2) * (gradient * gradient));
        float direction = first * step.scale1 / (math::sqrt(second * step.scale2) + step.epsilon);
        return math::fma(-rate, direction, weight * step.kept);
    }
};

// Steps along the gradient, with decay added to it and, with momentum, along the sum of all gradients so far. scale1 is
// 1 for Nesterov's: the gradient and beta1 times that sum.
struct Sgd {
    static constexpr bool FIRST = true, SECOND = false;
    static __device__ __forceinline__ float apply(const OptimizerStep &step, float rate, float weight, float gradient,
                                                  float &first, float &) {
        gradient = math::fma(step.decay, weight, gradient);
        first = math::fma(step.beta1, first, gradient);
        float direction = step.scale1 != 0 ? math::fma(step.beta1, first, gradient) : first;
        return math::fma(-rate, direction, weight * step.kept);
    }
};

// Chen et al.: "Symbolic discovery of optimization algorithms", NeurIPS 2023.
struct Lion {
    static constexpr bool FIRST = true, SECOND = false;
    static __device__ __forceinline__ float apply(const OptimizerStep &step, float rate, float weight, float gradient,
                                                  float &first, float &) {
        float direction = math::fma(step.beta1, first, (1 - step.beta1) * gradient);
        float sign = direction > 0 ? 1.0f : direction < 0 ? -1.0f : direction;
        first = math::fma(step.beta2, first, (1 - step.beta2) * gradient);
        return math::fma(-rate, sign, weight * step.kept);
    }
};

// A vector of weights of 16 bits, rounded up or down by chance, so that the mean of many roundings is the number
// itself: 16 random bits are added below the last that is there. Infinities and NaN are as they are.
__device__ __forceinline__ Held<bf16_t, 4> rounded_by_chance(const FloatVector<bf16_t, 4> &values, uint64_t seed,
                                                             uint64_t number, uint32_t step) {
    Words4 words = philox(seed, Kind::Rounding, number / 2, step);
    // A choice of words by a condition would become one by a place, in scratch.
    uint32_t second = 0 - (uint32_t)(number & 1);
    vec<bf16_t, 4> rounded;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        uint32_t word = (words.w[2 + e / 2] & second) | (words.w[e / 2] & ~second);
        uint32_t bits = bit_cast<uint32_t>(values.x[e]), chance = word >> 16 * (e % 2) & 0xffff;
        bool finite = (bits & 0x7f800000u) != 0x7f800000u;
        rounded[e] = finite ? bf16_t::from_bits((uint16_t)((bits + chance) >> 16)) : bf16_t(values.x[e]);
    }
    Held<bf16_t, 4> held;
    held.words[0] = bit_cast<typename Held<bf16_t, 4>::Words>(rounded);
    return held;
}

// A step of all tensors' weights.
template <class Rule, class T> __device__ __forceinline__ void optimizer_step(const OptimizerStep &step) {
    // 16 bytes of state, which lanes that are neighbours read as neighbours, and as many weights beside it.
    constexpr int V = VEC16<float>;
    float clip = step.clip == nullptr ? 1.0f : *step.clip;
    for_chunk<V>(step.tensors, step.owners,
                 [&](const OptimizerTensor &tensor, uint64_t i, uint32_t some, bool wide) INLINED {
                     FloatVector<T, V> gradient = load_some<T, V>(tensor.gradient, i, some, wide), weights;
                     FloatVector<float, V> first, second, master;
                     if (tensor.master != nullptr) master = load_some<float, V>(tensor.master, i, some, wide);
                     else weights = load_some<T, V>(tensor.weights, i, some, wide);
                     if (Rule::FIRST && tensor.first != nullptr)
                         first = load_some<float, V>(tensor.first, i, some, wide);
                     if (Rule::SECOND) second = load_some<float, V>(tensor.second, i, some, wide);
                     float rate = step.rate * tensor.scale;
#pragma unroll
                     for (int e = 0; e < V; e++) {
                         float weight = tensor.master != nullptr ? master.x[e] : weights.x[e];
                         weight = Rule::apply(step, rate, weight, gradient.x[e] * clip, first.x[e], second.x[e]);
                         weights.x[e] = master.x[e] = weight;
                     }
                     if (tensor.master != nullptr) store_some(tensor.master, i, some, wide, master);
                     if (Rule::FIRST && tensor.first != nullptr) store_some(tensor.first, i, some, wide, first);
                     if (Rule::SECOND) store_some(tensor.second, i, some, wide, second);
                     Held<T, V> rounded = weights.rounded();
                     if constexpr (is_same<T, bf16_t>::value) {
                         uint64_t number = (uint64_t)blockIdx.x * (OPTIMIZER_CHUNK / V) + i % OPTIMIZER_CHUNK / V;
                         if (step.stochastic) rounded = rounded_by_chance(weights, step.seed, number, step.step);
                     }
                     rounded.store((T *)tensor.weights + i, some, wide);
                 });
}
