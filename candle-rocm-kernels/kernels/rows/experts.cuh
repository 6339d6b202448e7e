// Mixtures of experts, but for their products: which tokens go to which, their rows there, and back.
//
// A token has `top` assignments, one for each expert that it goes to. Experts' rows lie one expert after another, each
// beginning at a multiple of 128; `place` says for an assignment which row that is, `source` for a row which
// assignment.
#pragma once
#include "portable/block_reduce.cuh"
#include "portable/extremes.cuh"
#include "rows/few.cuh"

static constexpr uint32_t EXPERTS_MOST = 512, EXPERTS_ROWS = 128, EXPERTS_GROUP_BITS = 20;
static constexpr uint32_t EXPERTS_TEAM = EXTREMES_LANES, EXPERTS_TEAMS = 8, EXPERTS_THREADS = 256;
// What a choice that is no number counts for.
static constexpr float EXPERTS_LAST = -3.0e38f;

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
static constexpr int32_t EXPERTS_TAKEN = -0x7fffffff - 1;
__device__ __forceinline__ int32_t ordered(float x) {
    int32_t bits = bit_cast<int32_t>(x);
    return bits ^ (bits >> 31 & 0x7fffffff);
}

// Whose number is the largest of a team's, or, of several, the least: of each lane's best, or nobody's.
__device__ __forceinline__ uint32_t first_of_team(int32_t best, uint32_t number) {
    bool is_best = best == largest_of_32(best);
    return (uint32_t)least_of_32(is_best ? (int32_t)number : 0x7fffffff);
}

// Leaves the choices of the best groups alone, and takes the others out. `choices` is a number for each expert.
__device__ __forceinline__ void choose_groups(int32_t *choices, const GateOptions &o, uint32_t lane) {
    constexpr float LEAST = -INFINITY;
    uint32_t each = o.experts / o.groups;
    // Lanes that share a group: a power of two.
    uint32_t shares = 1;
    while (2 * shares * o.groups <= EXPERTS_TEAM) shares *= 2;
    uint32_t group = lane / shares, first = group * each + lane % shares, end = (group + 1) * each;
    float best = LEAST, second = LEAST;
    if (group < o.groups)
        for (uint32_t e = first; e < end; e += shares) {
            float x = bit_cast<float>(ordered(bit_cast<float>(choices[e])));
            second = math::fmax(second, math::fmin(x, best));
            best = math::fmax(best, x);
        }
    for (uint32_t step = 1; step < shares; step *= 2) {
        float other = shfl_xor(best, step, EXPERTS_TEAM), other_second = shfl_xor(second, step, EXPERTS_TEAM);
        second = math::fmax(math::fmin(best, other), math::fmax(second, other_second));
        best = math::fmax(best, other);
    }
    float score = o.best_two && each > 1 ? best + second : best;
    int32_t mine = group < o.groups ? ordered(score > EXPERTS_LAST ? score : EXPERTS_LAST) : EXPERTS_TAKEN;
    bool taken = false;
    for (uint32_t i = 0; i < o.top_groups; i++)
        if (first_of_team(mine, group) == group) taken = true, mine = EXPERTS_TAKEN;
    if (group < o.groups && !taken)
        for (uint32_t e = first; e < end; e += shares) choices[e] = EXPERTS_TAKEN;
}

// The experts of a token and their weights, by a team of 32 lanes, each of which holds SLOTS experts at most. `lds` has
// an element for each expert. Weights are of scores, choices have the bias as well. What is no number is chosen last.
template <int SLOTS, class T>
__device__ __forceinline__ void experts_gate(const T *logits, const float *bias, uint32_t *ids, float *weights,
                                             const GateOptions &o, uint32_t *lds, uint32_t lane, bool writes) {
    float scores[SLOTS];
    int32_t choices[SLOTS];
    auto expert = [&](int i) INLINED {
        return lane + i * EXPERTS_TEAM;
    };
    float largest = -INFINITY, sum = 0;
#pragma unroll
    for (int i = 0; i < SLOTS; i++) {
        scores[i] = expert(i) < o.experts ? widen(logits[expert(i)]) : -INFINITY;
        largest = math::fmax(largest, scores[i]);
    }
    if (!o.sigmoid) {
        largest = wave_all_reduce(largest, EXPERTS_TEAM, LargerFloat());
#pragma unroll
        for (int i = 0; i < SLOTS; i++)
            if (expert(i) < o.experts) sum += scores[i] = math::exp(scores[i] - largest);
        sum = wave_all_reduce(sum, EXPERTS_TEAM, Sum());
    }
#pragma unroll
    for (int i = 0; i < SLOTS; i++) {
        scores[i] = o.sigmoid ? 1.0f / (1.0f + math::exp(-scores[i])) : scores[i] / sum;
        choices[i] = EXPERTS_TAKEN;
        if (expert(i) < o.experts) {
            float choice = bias ? scores[i] + bias[expert(i)] : scores[i];
            choices[i] = ordered(choice > EXPERTS_LAST ? choice : EXPERTS_LAST);
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
        uint32_t chosen = first_of_team(best, of_best);
        if (lane == i) number = chosen;
#pragma unroll
        for (int j = 0; j < SLOTS; j++)
            if (expert(j) == chosen) choices[j] = EXPERTS_TAKEN;
    }
    wave_fence();
    float score = lane < o.top ? bit_cast<float>(lds[number]) : 0;
    float all = wave_all_reduce(score, EXPERTS_TEAM, Sum());
    if (writes && lane < o.top) {
        ids[lane] = number;
        weights[lane] = score * (o.normalise ? o.factor / (all + 1e-20f) : o.factor);
    }
}

// The same for any number of experts.
template <class T>
__device__ __forceinline__ void gate_of_any(const T *logits, const float *bias, uint32_t *ids, float *weights,
                                            const GateOptions &o, uint32_t *lds, uint32_t lane, bool writes) {
    if (o.experts <= 2 * EXPERTS_TEAM) experts_gate<2>(logits, bias, ids, weights, o, lds, lane, writes);
    else if (o.experts <= 8 * EXPERTS_TEAM) experts_gate<8>(logits, bias, ids, weights, o, lds, lane, writes);
    else experts_gate<EXPERTS_MOST / EXPERTS_TEAM>(logits, bias, ids, weights, o, lds, lane, writes);
}

// Which of EXPERTS_FEW assignments from `first` on are an expert's, or, of number `experts`, of none that there is: a
// bit for each.
static constexpr uint32_t EXPERTS_FEW = 8;
__device__ __forceinline__ uint32_t whose(const uint32_t *ids, uint32_t first, uint32_t assignments, uint32_t expert,
                                          uint32_t experts) {
    Held<uint32_t, EXPERTS_FEW> held;
    bool aligned = is_aligned(ids, 16) && first + EXPERTS_FEW <= assignments;
    held.load(ids + first, first < assignments ? min_of(assignments - first, EXPERTS_FEW) : 0, aligned);
    uint32_t mine = 0;
#pragma unroll
    for (uint32_t i = 0; i < EXPERTS_FEW; i++) {
        uint32_t id = min_of((uint32_t)held.words[i / 4][i % 4], experts);
        mine |= (first + i < assignments && id == expert ? 1u : 0u) << i;
    }
    return mine;
}

// How many of the assignments are an expert's: the workgroup's.
__device__ __forceinline__ void count_experts(const uint32_t *ids, int32_t *counts, uint32_t assignments,
                                              uint32_t experts) {
    __shared__ WaveValues<int32_t> lds;
    int32_t count = 0;
    for (uint32_t i = threadIdx.x * EXPERTS_FEW; i < assignments; i += EXPERTS_THREADS * EXPERTS_FEW)
        count += __builtin_popcount(whose(ids, i, assignments, blockIdx.x, experts));
    count = block_all_reduce(count, threadIdx.x, EXPERTS_THREADS, Sum(), lds);
    if (threadIdx.x == 0) counts[blockIdx.x] = count;
}

// Where an expert's rows begin, which block of 128 is whose, and which assignment has which row, in the assignments'
// order. A workgroup for each expert, and one for what is left of `blocks`.
struct ExpertPlaces {
    const uint32_t *ids;
    const int32_t *counts;
    int32_t *starts;  // one more than experts
    int32_t *numbers; // of blocks of rows, as grouped products take them: -1 where nobody's
    int32_t *place;   // of assignments
    int32_t *source;  // of rows, -1 where nobody's
    uint32_t assignments, experts, blocks;
};
__device__ __forceinline__ int32_t in_use(int32_t count, int32_t block) {
    return min_of(count - block * (int32_t)EXPERTS_ROWS, (int32_t)EXPERTS_ROWS);
}
__device__ __forceinline__ void place_experts(const ExpertPlaces &p) {
    __shared__ WaveValues<int32_t> lds;
    __shared__ int32_t of_wave[EXPERTS_THREADS / 32];
    uint32_t expert = blockIdx.x;
    int32_t before = 0;
    for (uint32_t e = threadIdx.x; e < expert; e += EXPERTS_THREADS)
        before += ceil_div(p.counts[e], (int32_t)EXPERTS_ROWS);
    before = block_all_reduce(before, threadIdx.x, EXPERTS_THREADS, Sum(), lds);
    bool rest = expert == p.experts;
    int32_t rows = rest ? 0 : p.counts[expert], first = before * EXPERTS_ROWS;
    int32_t end = rest ? p.blocks : before + ceil_div(rows, (int32_t)EXPERTS_ROWS);
    if (threadIdx.x == 0) p.starts[expert] = first;
    for (int32_t block = before + threadIdx.x; block < end; block += EXPERTS_THREADS)
        p.numbers[block] = rest ? -1 : (int32_t)expert | (in_use(rows, block - before) - 1) << EXPERTS_GROUP_BITS;
    for (int32_t row = first + rows + threadIdx.x; row < end * (int32_t)EXPERTS_ROWS; row += EXPERTS_THREADS)
        p.source[row] = -1;
    // Assignments of experts that there are not have no row.
    int32_t next = first;
    for (uint32_t from = 0; from < p.assignments; from += EXPERTS_THREADS * EXPERTS_FEW) {
        uint32_t i = from + threadIdx.x * EXPERTS_FEW;
        uint32_t mine = whose(p.ids, i, p.assignments, expert, p.experts);
        // How many those before this thread have: within 32 lanes, then of those before.
        int32_t count = __builtin_popcount(mine), within = count;
#pragma unroll
        for (uint32_t step = 1; step < 32; step *= 2) {
            int32_t other = shfl_up(within, step, 32u);
            if (threadIdx.x % 32 >= step) within += other;
        }
        if (threadIdx.x % 32 == 31) of_wave[threadIdx.x / 32] = within;
        __syncthreads();
        int32_t earlier = 0, all = 0;
#pragma unroll
        for (uint32_t w = 0; w < EXPERTS_THREADS / 32; w++) {
            earlier += w < threadIdx.x / 32 ? of_wave[w] : 0;
            all += of_wave[w];
        }
        __syncthreads();
        int32_t row = next + earlier + within - count;
        for (; mine != 0; mine &= mine - 1) {
            uint32_t at = i + __builtin_ctz(mine);
            p.place[at] = rest ? -1 : row;
            if (!rest) p.source[row++] = (int32_t)at;
        }
        next += all;
    }
}

// Each token's row to those of its experts, times the assignments' weights where there are any; of `rows`, nobody's are
// 0.
template <class T>
__device__ __forceinline__ void experts_scatter(const T *x, const int32_t *place, const int32_t *source,
                                                const float *weights, T *y, uint32_t tokens, uint32_t columns,
                                                uint32_t top, uint32_t rows) {
    constexpr int V = VEC16<T>;
    bool aligned = is_aligned(x, 16) && is_aligned(y, 16) && columns % V == 0;
    auto to = [&](uint64_t row, uint32_t column) INLINED {
        return y + row * columns + column;
    };
    each_few<V>(tokens, columns, [&](uint32_t token, uint32_t column, uint32_t count) INLINED {
        Held<T, V> held;
        held.load(x + (uint64_t)token * columns + column, count, aligned);
        for (uint32_t i = 0; i < top; i++) {
            uint32_t assignment = token * top + i;
            int32_t row = place[assignment];
            if (row < 0) continue;
            Held<T, V> weighted = held;
            if (weights) {
                float weight = weights[assignment];
                Few<T, V> few = held;
#pragma unroll
                for (int e = 0; e < V; e++) few.x[e] *= weight;
                weighted = few.narrowed();
            }
            weighted.store(to(row, column), count, aligned);
        }
    });
    uint32_t lane = threadIdx.x % EXPERTS_TEAM;
    for (uint64_t row = global_thread() / EXPERTS_TEAM; row < rows; row += global_threads() / EXPERTS_TEAM) {
        if (source[row] >= 0) continue;
        for (uint32_t column = lane * V; column < columns; column += EXPERTS_TEAM * V)
            Held<T, V>().store(to(row, column), min_of(columns - column, (uint32_t)V), aligned);
    }
}

// Each token's sum of its experts' rows, in the order of its assignments, times their weights where there are any, and
// what is added besides.
template <class T>
__device__ __forceinline__ void experts_combine(const T *x, const int32_t *place, const float *weights, const T *more,
                                                T *y, uint32_t tokens, uint32_t columns, uint32_t top) {
    // Rows of a token that are on their way together.
    constexpr int V = VEC16<T>, TOGETHER = 4;
    bool aligned = is_aligned(x, 16) && is_aligned(y, 16) && is_aligned(more, 16) && columns % V == 0;
    each_few<V>(tokens, columns, [&](uint32_t token, uint32_t column, uint32_t count) INLINED {
        Held<T, V> of_more;
        if (more) of_more.load(more + (uint64_t)token * columns + column, count, aligned);
        Few<T, V> sum = of_more;
        for (uint32_t first = 0; first < top; first += TOGETHER) {
            Held<T, V> held[TOGETHER];
            int32_t rows[TOGETHER];
#pragma unroll
            for (int i = 0; i < TOGETHER; i++) {
                rows[i] = first + i < top ? place[token * top + first + i] : -1;
                if (rows[i] >= 0) held[i].load(x + (uint64_t)rows[i] * columns + column, count, aligned);
            }
#pragma unroll
            for (int i = 0; i < TOGETHER; i++) {
                if (rows[i] < 0) continue;
                Few<T, V> few = held[i];
                float weight = weights ? weights[token * top + first + i] : 1.0f;
#pragma unroll
                for (int e = 0; e < V; e++) sum.x[e] = math::fma(few.x[e], weight, sum.x[e]);
            }
        }
        sum.narrowed().store(y + (uint64_t)token * columns + column, count, aligned);
    });
}

// Weights' gradients: of each assignment, the product of its expert's row and of the token's gradient. Teams of 32
// lanes.
template <class T>
__device__ __forceinline__ void experts_dots(const T *x, const int32_t *place, const T *gradient, float *y,
                                             uint32_t assignments, uint32_t columns, uint32_t top) {
    uint32_t lane = threadIdx.x % EXPERTS_TEAM;
    uint32_t first = (uint32_t)(global_thread() / EXPERTS_TEAM), step = (uint32_t)(global_threads() / EXPERTS_TEAM);
    // All lanes of a wavefront go on as long as one has an assignment.
    for (uint32_t from = first / 2 * 2; from < assignments; from += step) {
        uint32_t i = from + first % 2;
        int32_t row = i < assignments ? place[i] : -1;
        float sum = 0;
        if (row >= 0)
            for (uint32_t c = lane; c < columns; c += EXPERTS_TEAM)
                sum = math::fma(widen(x[(uint64_t)row * columns + c]),
                                widen(gradient[(uint64_t)(i / top) * columns + c]), sum);
        sum = wave_all_reduce(sum, EXPERTS_TEAM, Sum());
        if (lane == 0 && i < assignments) y[i] = sum;
    }
}
