// Gates of mixtures of experts: which experts a token goes to, and with what weights.
#pragma once
#include "portable/extremes.cuh"
#include "portable/lds.cuh"

namespace experts {

static constexpr uint32_t GATE_MOST = 512, GATE_THREADS = 256;
static constexpr uint32_t GATE_WARP = EXTREMES_LANES, GATE_WARPS = GATE_THREADS / GATE_WARP;
// What a choice that is no number counts for, and what is below all choices.
static constexpr float GATE_LAST = -3.0e38f, GATE_BELOW = -3.2e38f;

// What is asked of a gate.
struct GateOptions {
    uint32_t experts;
    uint32_t top;
    // Experts stand in so many groups, of which the best `top_groups` are looked at: by the sum of each one's best two
    // scores (`best_two`), or by its best.
    uint32_t groups;
    uint32_t top_groups;
    uint32_t best_two;
    uint32_t sigmoid;   // or softmax
    uint32_t normalise; // weights to the sum of one
    float factor;       // of weights
};

struct LargerFloat {
    __device__ __forceinline__ float operator()(float a, float b) const { return math::fmax(a, b); }
};

// Numbers in whose order floats are, but for NaN; and those that are looked at no more.
static constexpr int32_t GATE_TAKEN = -0x7fffffff - 1;
__device__ __forceinline__ int32_t ordered(float x) {
    int32_t bits = bit_cast<int32_t>(x);
    return bits ^ (bits >> 31 & 0x7fffffff);
}

// Whose number is the largest of a warp's, or, of several, the least: of each lane's best, or nobody's.
__device__ __forceinline__ uint32_t first_of_warp(int32_t best, uint32_t number) {
    bool is_best = best == largest_of_32(best);
    return (uint32_t)least_of_32(is_best ? (int32_t)number : 0x7fffffff);
}

// Leaves the choices of the best groups alone, and takes the others out. `choices` is a number for each expert.
__device__ __forceinline__ void choose_groups(int32_t *choices, const GateOptions &o, uint32_t lane) {
    constexpr float LEAST = -INFINITY;
    uint32_t each = o.experts / o.groups;
    // Lanes that share a group: a power of two.
    uint32_t shares = 1;
    while (2 * shares * o.groups <= GATE_WARP) shares *= 2;
    uint32_t group = lane / shares, first = group * each + lane % shares, end = (group + 1) * each;
    float best = LEAST, second = LEAST;
    if (group < o.groups)
        for (uint32_t e = first; e < end; e += shares) {
            float x = bit_cast<float>(ordered(bit_cast<float>(choices[e])));
            second = math::fmax(second, math::fmin(x, best));
            best = math::fmax(best, x);
        }
    for (uint32_t step = 1; step < shares; step *= 2) {
        float other = shfl_xor(best, step, GATE_WARP), other_second = shfl_xor(second, step, GATE_WARP);
        second = math::fmax(math::fmin(best, other), math::fmax(second, other_second));
        best = math::fmax(best, other);
    }
    float score = o.best_two && each > 1 ? best + second : best;
    int32_t mine = group < o.groups ? ordered(score > GATE_LAST ? score : GATE_LAST) : GATE_TAKEN;
    bool taken = false;
    for (uint32_t i = 0; i < o.top_groups; i++)
        if (first_of_warp(mine, group) == group) taken = true, mine = GATE_TAKEN;
    if (group < o.groups && !taken)
        for (uint32_t e = first; e < end; e += shares) choices[e] = GATE_TAKEN;
}

// The experts of a token and their weights, by a warp of 32 lanes, each of which holds SLOTS experts at most. `lds` has
// an element for each expert. Weights are of scores, choices have the bias as well. What is no number is chosen last.
template <int SLOTS, class T>
__device__ __forceinline__ void experts_gate(const T *logits, const float *bias, uint32_t *ids, float *weights,
                                             const GateOptions &o, uint32_t *lds, uint32_t lane, bool writes) {
    float scores[SLOTS];
    int32_t choices[SLOTS];
    auto expert = [&](int i) INLINED {
        return lane + i * GATE_WARP;
    };
    float largest = -INFINITY, sum = 0;
#pragma unroll
    for (int i = 0; i < SLOTS; i++) {
        scores[i] = expert(i) < o.experts ? upcast(logits[expert(i)]) : -INFINITY;
        largest = math::fmax(largest, scores[i]);
    }
    if (!o.sigmoid) {
        largest = wave_all_reduce(largest, GATE_WARP, LargerFloat());
#pragma unroll
        for (int i = 0; i < SLOTS; i++)
            if (expert(i) < o.experts) sum += scores[i] = math::exp(scores[i] - largest);
        sum = wave_all_reduce(sum, GATE_WARP, Sum());
    }
#pragma unroll
    for (int i = 0; i < SLOTS; i++) {
        scores[i] = o.sigmoid ? 1.0f / (1.0f + math::exp(-scores[i])) : scores[i] / sum;
        choices[i] = GATE_TAKEN;
        if (expert(i) < o.experts) {
            float choice = bias ? scores[i] + bias[expert(i)] : scores[i];
            choices[i] = ordered(choice > GATE_LAST ? choice : GATE_LAST);
        }
    }
    if (o.groups > 1) {
#pragma unroll
        for (int i = 0; i < SLOTS; i++)
            if (expert(i) < o.experts) lds[expert(i)] = (uint32_t)choices[i];
        wave_fence();
        choose_groups((int32_t *)lds, o, lane);
        wave_fence();
#pragma unroll
        for (int i = 0; i < SLOTS; i++)
            if (expert(i) < o.experts) choices[i] = (int32_t)lds[expert(i)];
        wave_fence();
    }
#pragma unroll
    for (int i = 0; i < SLOTS; i++)
        if (expert(i) < o.experts) lds[expert(i)] = bit_cast<uint32_t>(scores[i]);
    // A lane keeps the choice of its number: `top` is 32 at most.
    uint32_t number = 0;
    for (uint32_t i = 0; i < o.top; i++) {
        int32_t best = choices[0];
        uint32_t of_best = lane;
#pragma unroll
        for (int j = 1; j < SLOTS; j++)
            if (choices[j] > best) best = choices[j], of_best = expert(j);
        uint32_t chosen = first_of_warp(best, of_best);
        if (lane == i) number = chosen;
#pragma unroll
        for (int j = 0; j < SLOTS; j++)
            if (expert(j) == chosen) choices[j] = GATE_TAKEN;
    }
    wave_fence();
    float score = lane < o.top ? bit_cast<float>(lds[number]) : 0;
    float all = wave_all_reduce(score, GATE_WARP, Sum());
    if (writes && lane < o.top) {
        ids[lane] = number;
        weights[lane] = score * (o.normalise ? o.factor / (all + 1e-20f) : o.factor);
    }
}

// The gate for any number of experts.
template <class T>
__device__ __forceinline__ void gate_of_any(const T *logits, const float *bias, uint32_t *ids, float *weights,
                                            const GateOptions &o, uint32_t *lds, uint32_t lane, bool writes) {
    if (o.experts <= 2 * GATE_WARP) experts_gate<2>(logits, bias, ids, weights, o, lds, lane, writes);
    else if (o.experts <= 8 * GATE_WARP) experts_gate<8>(logits, bias, ids, weights, o, lds, lane, writes);
    else experts_gate<GATE_MOST / GATE_WARP>(logits, bias, ids, weights, o, lds, lane, writes);
}

} // namespace experts
