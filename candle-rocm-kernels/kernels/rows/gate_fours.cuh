// Gates of experts whose number divides by four, for a `top` of at most twice the lanes of a team.
//
// A token has a team of LANES lanes, each of which holds FOURS times four experts in registers: its halves are the
// fours of even and of odd number. Of every half the two best fours are known, and what as many of these reach as a
// `top` can have is a bound that seldom many more experts reach. They alone, the candidates, are put in order.
#pragma once
#include "rows/gate.cuh"

typedef uint64_t KeyPair __attribute__((ext_vector_type(2))); // as LDS takes them

// The value of lane ^ MASK of a team. On AMD all but 4 are moves within the vector unit: 3 turns fours round, 7 eights.
template <uint32_t LANES, uint32_t MASK, class T> __device__ __forceinline__ T across(T value) {
#if defined(__HIP__)
    if constexpr (MASK == 3 || MASK == 7)
        return wave::move(value, [](int32_t word) INLINED {
            return __builtin_amdgcn_mov_dpp(word, MASK == 3 ? 0x1b : 0x141, 0xf, 0xf, true);
        });
#endif
    return shfl_xor(value, MASK, LANES);
}
template <uint32_t LANES, class T, class Op> __device__ __forceinline__ T team_reduce(T value, Op op) {
    value = op(value, across<LANES, 1>(value));
    value = op(value, across<LANES, 2>(value));
    if constexpr (LANES == 8) value = op(value, across<LANES, 7>(value));
    return value;
}

// A team's values in order, two a lane, the largest in its first lane, or in its last.
template <uint32_t LANES, bool LARGEST_FIRST>
__device__ __forceinline__ void order_team(float (&values)[2], uint32_t lane) {
    // With the lanes on the other side: the first value has the other's second one.
    auto one = [&](float &value, float other, uint32_t bit) INLINED {
        float larger = math::fmax(value, other), smaller = math::fmin(value, other);
        value = ((lane & bit) == 0) == LARGEST_FIRST ? larger : smaller;
    };
    auto within = [&]() INLINED {
        float larger = math::fmax(values[0], values[1]), smaller = math::fmin(values[0], values[1]);
        values[0] = LARGEST_FIRST ? larger : smaller, values[1] = LARGEST_FIRST ? smaller : larger;
    };
    auto mirrored = [&](auto mask, uint32_t bit) INLINED {
        float others[2] = {across<LANES, mask.value>(values[1]), across<LANES, mask.value>(values[0])};
        one(values[0], others[0], bit), one(values[1], others[1], bit);
    };
    auto apart = [&](auto mask) INLINED {
        float others[2] = {across<LANES, mask.value>(values[0]), across<LANES, mask.value>(values[1])};
        one(values[0], others[0], mask.value), one(values[1], others[1], mask.value);
    };
    within();
    mirrored(Constant<1u>(), 1), within();
    mirrored(Constant<3u>(), 2), apart(Constant<1u>()), within();
    if constexpr (LANES == 8) mirrored(Constant<7u>(), 4), apart(Constant<2u>()), apart(Constant<1u>()), within();
}

// The two largest of some numbers.
struct BestTwo {
    float best = -INFINITY, second = -INFINITY;
    __device__ __forceinline__ void add(float x) {
        second = math::fmax(second, math::fmin(x, best));
        best = math::fmax(best, x);
    }
    __device__ __forceinline__ void add(BestTwo other) {
        second = math::fmax(math::fmin(best, other.best), math::fmax(second, other.second));
        best = math::fmax(best, other.best);
    }
};

// A candidate as a number: the larger choice is larger, of two the lesser expert. 0 is nobody.
__device__ __forceinline__ uint64_t gate_key(float choice, uint32_t expert) {
    return (uint64_t)((uint32_t)ordered(choice) ^ 0x80000000u) << 32 | (uint32_t)~expert;
}

// How scores are made, close enough to find the best of them: e^(x - largest) times `factor`, or the sigmoid. A weight
// is made with what the exponent's product left out.
struct GateScores {
    bool sigmoid;
    float largest, factor;
    static constexpr float LOG2_E = 1.44269504f, LOG2_E_REST = 1.92596303e-8f, LN_2 = 0.693147181f;

    static __device__ __forceinline__ float exp(float x) { return math::fast_exp2(x * LOG2_E); }
    static __device__ __forceinline__ float sigmoid_of(float x) { return math::fast_recip(1.0f + exp(-x)); }
    __device__ __forceinline__ float choice(float raw, float bias) const {
        return math::fmax(math::fma(raw, factor, bias), GATE_LAST);
    }
    __device__ __forceinline__ float raw(float x) const { return sigmoid ? sigmoid_of(x) : exp(x - largest); }
    __device__ __forceinline__ float weight(float x) const {
        x = sigmoid ? -x : x - largest;
        float product = x * LOG2_E, rest = math::fma(x, LOG2_E_REST, math::fma(x, LOG2_E, -product));
        float e = math::fast_exp2(product);
        // Infinite or 0 as it is: the rest may be no number then.
        if (e > 0 && e < INFINITY) e = math::fma(e, rest * LN_2, e);
        return sigmoid ? math::fast_recip(1.0f + e) : e * factor;
    }
};

template <int LANES, int FOURS> struct FoursLds {
    static constexpr int MOST_TOP = 2 * LANES, CANDIDATES = 8 * LANES, EXPERTS = 4 * LANES * FOURS;
    // Candidates: each an expert first, then a key. And who is chosen.
    static constexpr int CHOSEN = CANDIDATES * 8, BYTES = CHOSEN + MOST_TOP * 4;
};

static constexpr uint32_t GATE_GROUPS = 8;

// Which groups are looked at, a bit for each: `groups` are what a lane has of them.
template <int LANES>
__device__ __forceinline__ uint32_t best_groups(BestTwo (&groups)[GATE_GROUPS], const GateOptions &o, uint32_t lane) {
    // Lanes share the groups out, by halves.
    uint32_t first = 0;
    auto halve = [&](auto mask, auto count) INLINED {
        bool upper = lane & mask.value;
        constexpr uint32_t HALF = count.value / 2;
#pragma unroll
        for (uint32_t i = 0; i < HALF; i++) {
            BestTwo low = groups[i], high = groups[i + HALF], mine;
            mine.best = upper ? high.best : low.best, mine.second = upper ? high.second : low.second;
            float best = upper ? low.best : high.best, second = upper ? low.second : high.second;
            mine.add(BestTwo{across<LANES, mask.value>(best), across<LANES, mask.value>(second)});
            groups[i] = mine;
        }
        first += upper ? HALF : 0;
    };
    constexpr uint32_t MINE = GATE_GROUPS / LANES;
    if constexpr (LANES == 8) halve(Constant<4u>(), Constant<8u>());
    halve(Constant<2u>(), Constant<LANES == 8 ? 4u : 8u>());
    halve(Constant<1u>(), Constant<2 * MINE>());
    float scores[MINE];
    uint32_t ranks[MINE] = {};
#pragma unroll
    for (uint32_t i = 0; i < MINE; i++)
        scores[i] = math::fmax(o.best_two ? groups[i].best + groups[i].second : groups[i].best, GATE_LAST);
#pragma unroll
    for (uint32_t turn = 0; turn < LANES; turn++)
#pragma unroll
        for (uint32_t j = 0; j < MINE; j++) {
            float other = turn == 0 ? scores[j] : shfl(scores[j], lane + turn, LANES);
            bool before = lane + turn >= LANES;
#pragma unroll
            for (uint32_t i = 0; i < MINE; i++)
                if (other > scores[i] || (other == scores[i] && (turn == 0 ? j < i : before))) ranks[i]++;
        }
    uint32_t open = 0;
#pragma unroll
    for (uint32_t i = 0; i < MINE; i++) open |= ranks[i] < o.top_groups ? 1u << (first + i) : 0;
    return team_reduce<LANES>(open, [](uint32_t a, uint32_t b) INLINED { return a | b; });
}

// The experts of a token and their weights, as `experts_gate` chooses them. All lanes of a workgroup come here; `lds`
// is a team's, `biases` the workgroup's. What is read is aligned to 16 bytes, and experts divide by four. Groups are
// GATE_GROUPS, of as many experts as a team can have, or one.
template <int LANES, int FOURS, class T>
__device__ __forceinline__ void gate_fours(const T *logits, const float *bias, uint32_t *ids, float *weights,
                                           const GateOptions &o, LdsBytes lds, LdsBytes biases, uint32_t lane,
                                           bool writes) {
    using Lds = FoursLds<LANES, FOURS>;
    // Candidates that a lane ranks together: seldom has a team more.
    constexpr uint32_t SLOTS = 4;
    typedef float Four __attribute__((ext_vector_type(4)));
    using Some = vec<T, 4>;
    auto four = [&](uint32_t j) INLINED {
        return j * LANES + lane;
    };
    auto inside = [&](uint32_t j) INLINED {
        return four(j) * 4 < o.experts;
    };
    // A lane beyond the experts has the last ones once more, which then count for nothing.
    Some held[FOURS];
#pragma unroll
    for (int j = 0; j < FOURS; j++) held[j] = read_global<Some>(logits + min_of(four(j) * 4, o.experts - 4));
    for (uint32_t e = threadIdx.x; e < (uint32_t)Lds::EXPERTS; e += GATE_THREADS)
        lds_store(biases + e * 4, bias && e < o.experts ? bias[e] : 0.0f);
    lds_barrier();
    float choices[FOURS][4];
#pragma unroll
    for (int j = 0; j < FOURS; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) choices[j][i] = widen(held[j][i]);
    GateScores scores = {o.sigmoid != 0, 0, 1};
    if (o.sigmoid) {
#pragma unroll
        for (int j = 0; j < FOURS; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) choices[j][i] = GateScores::sigmoid_of(choices[j][i]);
    } else {
        float largest = -INFINITY, sum = 0;
#pragma unroll
        for (int j = 0; j < FOURS; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) largest = math::fmax(largest, choices[j][i]);
        scores.largest = team_reduce<LANES>(largest, LargerFloat());
#pragma unroll
        for (int j = 0; j < FOURS; j++) {
            float *x = choices[j];
#pragma unroll
            for (int i = 0; i < 4; i++) x[i] = GateScores::exp(x[i] - scores.largest);
            float of_four = (x[0] + x[1]) + (x[2] + x[3]);
            sum += inside(j) ? of_four : 0;
        }
        scores.factor = 1.0f / team_reduce<LANES>(sum, Sum());
    }

    // Choices, and the best of each four: below all where there is none.
    float best[FOURS];
#pragma unroll
    for (int j = 0; j < FOURS; j++) {
        Four of_bias = lds_load<Four>(biases + four(j) * 16);
        float *x = choices[j];
#pragma unroll
        for (int i = 0; i < 4; i++) x[i] = scores.choice(x[i], of_bias[i]);
        float larger = math::fmax(math::fmax(x[0], x[1]), math::fmax(x[2], x[3]));
        best[j] = inside(j) ? larger : -INFINITY;
    }
    if constexpr (FOURS >= GATE_GROUPS) {
        if (o.groups > 1) {
            BestTwo groups[GATE_GROUPS];
#pragma unroll
            for (int j = 0; j < FOURS; j++) {
                const float *x = choices[j];
                float middle = math::fmin(math::fmax(x[0], x[1]), math::fmax(x[2], x[3]));
                float smaller = math::fmax(math::fmin(x[0], x[1]), math::fmin(x[2], x[3]));
                groups[j / (FOURS / GATE_GROUPS)].add(BestTwo{best[j], math::fmax(middle, smaller)});
            }
            uint32_t open = best_groups<LANES>(groups, o, lane);
#pragma unroll
            for (int j = 0; j < FOURS; j++)
                if ((open >> j / (FOURS / GATE_GROUPS) & 1) == 0) best[j] = -INFINITY;
        }
    }

    BestTwo halves[2];
#pragma unroll
    for (int j = 0; j < FOURS; j++) halves[j % 2].add(best[j]);
    float bests[2] = {halves[0].best, halves[1].best}, seconds[2] = {halves[0].second, halves[1].second};
    order_team<LANES, true>(bests, lane);
    order_team<LANES, false>(seconds, lane);
    float bound = math::fmin(math::fmax(bests[0], seconds[0]), math::fmax(bests[1], seconds[1]));
    bound = team_reduce<LANES>(bound, [](float a, float b) INLINED { return math::fmin(a, b); });
    bound = math::fmax(bound, GATE_BELOW);

    // A bit for each expert that reaches the bound.
    uint64_t mine = 0;
#pragma unroll
    for (int from = 0; from < FOURS; from += 8) {
        uint32_t below = 0, open = 0;
#pragma unroll
        for (int j = min_of(FOURS - from, 8) - 1; j >= 0; j--) {
            if (best[from + j] >= bound) open |= 15u << 4 * j;
#pragma unroll
            for (int i = 3; i >= 0; i--) below = below << 1 | bit_cast<uint32_t>(choices[from + j][i] - bound) >> 31;
        }
        mine |= (uint64_t)(open & ~below) << 4 * from;
    }
    uint32_t count = (uint32_t)__builtin_popcountll(mine), to = count;
#pragma unroll
    for (uint32_t step = 1; step < LANES; step *= 2) {
        uint32_t other = shfl_up(to, step, (uint32_t)LANES);
        if (lane >= step) to += other;
    }
    uint32_t all = shfl(to, LANES - 1, (uint32_t)LANES);
    LdsBytes at = lds + (to - count) * 8;
    auto next_of = [&](uint64_t &bits) INLINED {
        uint32_t bit = (uint32_t)__builtin_ctzll(bits);
        bits &= bits - 1;
        return four(bit / 4) * 4 + bit % 4;
    };
    auto key_of = [&](uint32_t e, float x) INLINED {
        return gate_key(scores.choice(scores.raw(x), lds_load<float>(biases + e * 4)), e);
    };
    if (all <= (uint32_t)Lds::CANDIDATES) {
        for (; mine != 0; at += 8) lds_store(at, next_of(mine));
    } else {
        // Too many are equal, or one lane's: one after another. What equals the last one is the next, the least first.
        uint64_t last = ~(uint64_t)0;
        for (uint32_t i = 0; i < o.top; i++) {
            uint64_t next = 0, rest = mine;
            for (uint64_t bits = mine; bits != 0;) {
                uint64_t others = mine & ~(bits & (0 - bits));
                uint32_t e = next_of(bits);
                uint64_t key = key_of(e, widen(logits[e]));
                if (key > next) next = key, rest = others;
                if (key >> 32 == last >> 32) break;
            }
            last = team_reduce<LANES>(next, [](uint64_t a, uint64_t b) INLINED { return max_of(a, b); });
            if (last == next) mine = rest;
            if (lane == 0) lds_store(lds + i * 8, ~(uint32_t)last);
        }
        all = o.top;
    }
    wave_fence();
    // One more than there are, where that is odd: nobody's key.
    uint32_t even = (all + 1) & ~1u;
#pragma unroll 1
    for (uint32_t from = lane; from < even; from += SLOTS * LANES) {
        uint32_t candidates[SLOTS];
        float x[SLOTS];
#pragma unroll
        for (uint32_t i = 0; i < SLOTS; i++) {
            uint32_t candidate = from + i * LANES;
            candidates[i] = candidate < all ? lds_load<uint32_t>(lds + candidate * 8) : 0;
        }
#pragma unroll
        for (uint32_t i = 0; i < SLOTS; i++) x[i] = widen(logits[candidates[i]]);
#pragma unroll
        for (uint32_t i = 0; i < SLOTS; i++) {
            uint32_t candidate = from + i * LANES;
            lds_store(lds + candidate * 8, candidate < all ? key_of(candidates[i], x[i]) : 0);
        }
    }
    wave_fence();
#pragma unroll 1
    for (uint32_t from = lane; from < all; from += SLOTS * LANES) {
        uint64_t keys[SLOTS];
        uint32_t ranks[SLOTS] = {};
#pragma unroll
        for (uint32_t i = 0; i < SLOTS; i++) keys[i] = lds_load<uint64_t>(lds + (from + i * LANES) * 8);
#pragma unroll 1
        for (uint32_t i = 0; i < even; i += 2) {
            KeyPair others = lds_load<KeyPair>(lds + i * 8);
#pragma unroll
            for (uint32_t j = 0; j < SLOTS; j++) ranks[j] += (others[0] > keys[j]) + (others[1] > keys[j]);
        }
#pragma unroll
        for (uint32_t i = 0; i < SLOTS; i++)
            if (from + i * LANES < all && ranks[i] < o.top)
                lds_store(lds + Lds::CHOSEN + ranks[i] * 4, ~(uint32_t)keys[i]);
    }
    wave_fence();
    uint32_t numbers[2] = {};
    float weighed[2] = {};
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t rank = lane + i * LANES;
        if (rank < o.top) {
            numbers[i] = lds_load<uint32_t>(lds + Lds::CHOSEN + rank * 4);
            weighed[i] = scores.weight(widen(logits[numbers[i]]));
        }
    }
    float sum = team_reduce<LANES>(weighed[0] + weighed[1], Sum());
    float factor = o.normalise ? o.factor / (sum + 1e-20f) : o.factor;
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t rank = lane + i * LANES;
        if (writes && rank < o.top) {
            ids[rank] = numbers[i];
            weights[rank] = weighed[i] * factor;
        }
    }
}
