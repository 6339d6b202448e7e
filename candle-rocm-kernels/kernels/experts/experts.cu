// Mixtures of experts, but for their products.
#include "experts/gate_quads.cuh"
#include "experts/token_permutation.cuh"

namespace experts {

ENTRY __launch_bounds__(EXPERTS_THREADS)
    experts_count(const uint32_t *ids, int32_t *counts, uint32_t assignments, uint32_t experts) {
    count_experts(ids, counts, assignments, experts);
}
ENTRY __launch_bounds__(EXPERTS_THREADS)
    experts_permute(const uint32_t *ids, const int32_t *counts, int32_t *starts, int32_t *numbers, int32_t *place,
                    int32_t *source, uint32_t assignments, uint32_t experts, uint32_t blocks) {
    permute_tokens({ids, counts, starts, numbers, place, source, assignments, experts, blocks});
}

ENTRY __launch_bounds__(EXPERTS_THREADS)
    experts_count_chunks(const uint32_t *ids, int32_t *counts, uint32_t assignments, uint32_t experts, uint32_t chunk) {
    count_chunk(ids, counts, assignments, experts, chunk);
}
ENTRY __launch_bounds__(EXPERTS_THREADS)
    experts_permute_chunks(const uint32_t *ids, const int32_t *counts, int32_t *starts, int32_t *numbers,
                           int32_t *place, int32_t *source, uint32_t assignments, uint32_t experts, uint32_t blocks,
                           uint32_t chunk) {
    permute_chunk({ids, counts, starts, numbers, place, source, assignments, experts, blocks}, chunk);
}

// Of at most so many experts. A multiprocessor of NVIDIA's shall have registers for so many workgroups.
#define GATE_QUADS(TYPE, T, MOST, LANES, QUADS, CELLS, WORKGROUPS)                                                   \
    ENTRY __launch_bounds__(QUADS_THREADS, WORKGROUPS) experts_gate_quads_##MOST##_##TYPE(                           \
        const T *logits, const float *bias, uint32_t *ids, float *weights, uint32_t tokens, uint32_t experts,        \
        uint32_t top, uint32_t groups, uint32_t top_groups, uint32_t best_two, uint32_t sigmoid, uint32_t normalise, \
        float factor) {                                                                                              \
        static __shared__ char lds[QUADS_THREADS / LANES][QuadsLds<LANES, QUADS, CELLS>::BYTES]                      \
            __attribute__((aligned(16)));                                                                            \
        uint32_t lane_group = threadIdx.x / LANES, token = blockIdx.x * (QUADS_THREADS / LANES) + lane_group;        \
        /* Lanes without a token take the last: exchanges need them. */                                              \
        bool mine = token < tokens;                                                                                  \
        token = min_of(token, tokens - 1);                                                                           \
        GateOptions o = {experts, top, groups, top_groups, best_two, sigmoid, normalise, factor};                    \
        gate_quads<LANES, QUADS, CELLS>(logits + (uint64_t)token * experts, bias, ids + (uint64_t)token * top,       \
                                        weights + (uint64_t)token * top, o, (LdsBytes)lds[lane_group],               \
                                        threadIdx.x % LANES, mine);                                                  \
    }

#define EXPERTS(TYPE, T)                                                                                             \
    ENTRY __launch_bounds__(EXPERTS_THREADS)                                                                         \
        experts_gate_##TYPE(const T *logits, const float *bias, uint32_t *ids, float *weights, uint32_t tokens,      \
                            uint32_t experts, uint32_t top, uint32_t groups, uint32_t top_groups, uint32_t best_two, \
                            uint32_t sigmoid, uint32_t normalise, float factor) {                                    \
        __shared__ uint32_t lds[GATE_WARPS][GATE_MOST];                                                              \
        uint32_t lane_group = threadIdx.x / EXPERTS_WARP, token = blockIdx.x * GATE_WARPS + lane_group;              \
        /* Whoever has no token does the last one's once more, for the sake of its wavefront. */                     \
        bool mine = token < tokens;                                                                                  \
        token = min_of(token, tokens - 1);                                                                           \
        GateOptions o = {experts, top, groups, top_groups, best_two, sigmoid, normalise, factor};                    \
        gate_of_any(logits + (uint64_t)token * experts, bias, ids + (uint64_t)token * top,                           \
                    weights + (uint64_t)token * top, o, lds[lane_group], threadIdx.x % EXPERTS_WARP, mine);          \
    }                                                                                                                \
    GATE_QUADS(TYPE, T, 64, 4, 4, 2, 9)                                                                              \
    GATE_QUADS(TYPE, T, 128, 8, 4, 1, 10)                                                                            \
    GATE_QUADS(TYPE, T, 256, 8, 8, 1, 8)                                                                             \
    GATE_QUADS(TYPE, T, 384, 8, 12, 1, 5)                                                                            \
    GATE_QUADS(TYPE, T, 512, 8, 16, 2, 4)                                                                            \
    ENTRY __launch_bounds__(EXPERTS_THREADS)                                                                         \
        experts_scatter_##TYPE(const T *x, const int32_t *place, const int32_t *source, const float *weights, T *y,  \
                               uint32_t tokens, uint32_t columns, uint32_t top, uint32_t rows) {                     \
        experts_scatter(x, place, source, weights, y, tokens, columns, top, rows);                                   \
    }                                                                                                                \
    ENTRY __launch_bounds__(EXPERTS_THREADS)                                                                         \
        experts_combine_##TYPE(const T *x, const int32_t *place, const float *weights, const T *more, T *y,          \
                               uint32_t tokens, uint32_t columns, uint32_t top) {                                    \
        experts_combine(x, place, weights, more, y, tokens, columns, top);                                           \
    }                                                                                                                \
    ENTRY __launch_bounds__(EXPERTS_THREADS)                                                                         \
        experts_dots_##TYPE(const T *x, const int32_t *place, const T *gradient, float *y, uint32_t assignments,     \
                            uint32_t columns, uint32_t top) {                                                        \
        experts_dots(x, place, gradient, y, assignments, columns, top);                                              \
    }
EXPERTS(f32, float)
EXPERTS(f16, half_t)
EXPERTS(bf16, bf16_t)

} // namespace experts
