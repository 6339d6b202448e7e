// Gates of experts whose number divides by four, for a `top` of at most as many as a subwarp has cells.
//
// A token has a subwarp of LANES lanes, each of which holds QUADS times four experts in registers, in CELLS cells. Of
// every cell the two best quads are known, and what as many of these reach as the subwarp has cells is a bound that
// seldom many more quads reach. They alone come to LDS, the subwarp shares them out, and their experts that reach the
// bound are put in order.
#pragma once
#include "experts/gate.cuh"

namespace experts {

typedef int64_t KeyPair __attribute__((ext_vector_type(2))); // as LDS takes them
typedef float FloatPair __attribute__((ext_vector_type(2)));

// Of a workgroup: few, so that others begin soon where one ends.
static constexpr uint32_t QUADS_THREADS = 128;

// All lanes of a warp exchange together: of a subwarp alone NVIDIA's would first look who is there.
static constexpr uint32_t WARP_LANES = 32;

// The value of lane ^ MASK of a subwarp. On AMD all but 4 are moves within the vector unit: 3 turns quads round, 7
// eights.
template <uint32_t LANES, uint32_t MASK, class T> __device__ __forceinline__ T across(T value) {
#if defined(__HIP__)
    if constexpr (MASK == 3 || MASK == 7)
        return wave::move(value, [](int32_t word) INLINED {
            return __builtin_amdgcn_mov_dpp(word, MASK == 3 ? 0x1b : 0x141, 0xf, 0xf, true);
        });
#endif
    return shfl_xor(value, MASK, WARP_LANES);
}
template <uint32_t LANES, class T, class Op> __device__ __forceinline__ T subwarp_reduce(T value, Op op) {
    value = op(value, across<LANES, 1>(value));
    value = op(value, across<LANES, 2>(value));
    if constexpr (LANES == 8) value = op(value, across<LANES, 7>(value));
    return value;
}

// A bit for each lane of a subwarp for which it holds.
template <uint32_t LANES> __device__ __forceinline__ uint32_t subwarp_bits(bool holds) {
    return (uint32_t)(ballot(holds) >> (lane_id() & ~(LANES - 1))) & ((1u << LANES) - 1);
}

// What half of a subwarp's values reach. A lane's are in order, the largest first.
template <uint32_t LANES, int COUNT>
__device__ __forceinline__ float middle_of_subwarp(float (&values)[COUNT], uint32_t lane) {
    // A lane's in order, which rise and then fall or the other way round.
    auto within = [&]() INLINED {
#pragma unroll
        for (int step = COUNT / 2; step > 0; step /= 2)
#pragma unroll
            for (int i = 0; i < COUNT; i++)
                if ((i & step) == 0) {
                    float larger = math::fmax(values[i], values[i + step]);
                    values[i + step] = math::fmin(values[i], values[i + step]), values[i] = larger;
                }
    };
    // With the lane that differs in these bits and is on the other side of `bit`, the larger ones to the lower lane.
    auto exchange = [&](auto mask, uint32_t bit, bool mirrored) INLINED {
        float others[COUNT];
#pragma unroll
        for (int i = 0; i < COUNT; i++) others[i] = across<LANES, mask.value>(values[mirrored ? COUNT - 1 - i : i]);
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            float larger = math::fmax(values[i], others[i]), smaller = math::fmin(values[i], others[i]);
            values[i] = (lane & bit) == 0 ? larger : smaller;
        }
    };
    exchange(Constant<1u>(), 1, true), within();
    if constexpr (LANES == 8) exchange(Constant<3u>(), 2, true), exchange(Constant<1u>(), 1, false), within();
    // Both halves of the subwarp are in order. Each value meets one of the other half: the larger ones are half of all.
    float least = INFINITY;
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        least = math::fmin(least, math::fmax(values[i], across<LANES, LANES - 1>(values[COUNT - 1 - i])));
    least = math::fmin(least, across<LANES, 1>(least));
    if constexpr (LANES == 8) least = math::fmin(least, across<LANES, 2>(least));
    return least;
}

// The two largest of some numbers.
struct BestTwo {
    float best = -INFINITY, second = -INFINITY;
    __device__ __forceinline__ void add(float x) {
        second = math::fmax(second, math::fmin(x, best));
        best = math::fmax(best, x);
    }
};

// A candidate as a number: the larger choice is larger, of two the lesser expert. `choice` is one as a number already.
static constexpr int64_t GATE_NOBODY = (int64_t)1 << 63;
__device__ __forceinline__ int64_t gate_key(int32_t choice, uint32_t expert) {
    return (int64_t)((uint64_t)(uint32_t)choice << 32 | (uint32_t)~expert);
}

// How scores are made, close enough to find the best of them: e^(x - largest) times `factor`, or the sigmoid. A weight
// is made with what the exponent's product left out.
struct GateScores {
    bool sigmoid;
    float largest, factor;
    static constexpr float LOG2_E = 1.44269504f, LOG2_E_REST = 1.92596303e-8f, LN_2 = 0.693147181f;

    static __device__ __forceinline__ float exp(float x) { return math::fast_exp2(x * LOG2_E); }
    static __device__ __forceinline__ float sigmoid_of(float x) { return math::fast_recip(1.0f + exp(-x)); }
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

// Bits of a token's quads, each lane's LANES apart from its own on.
template <int LANES, int QUADS> struct QuadBits {
    static constexpr int WORDS = (LANES * QUADS + 31) / 32;
    uint32_t words[WORDS];

    // The bit of a lane's four `j`, in its word.
    static __device__ constexpr uint32_t first_bit(int j) { return 1u << (j * LANES % 32); }
    static __device__ constexpr int word_of(int j) { return j * LANES / 32; }

    __device__ __forceinline__ void all_of_subwarp() {
#pragma unroll
        for (uint32_t &word : words)
            word = subwarp_reduce<LANES>(word, [](uint32_t a, uint32_t b) INLINED { return a | b; });
    }
    // Those of a subwarp's lanes for whose quads `holds`.
    template <class Holds> static __device__ __forceinline__ QuadBits where(uint32_t lane, Holds holds) {
        QuadBits bits = {};
        if constexpr (LANES == 8) {
            // A byte of each vote is the subwarp's.
            uint32_t first = lane_id() / 8, subwarp = first % 4, votes[4];
#pragma unroll
            for (int j = 0; j < QUADS; j++) {
                votes[j % 4] = (uint32_t)(ballot(holds(j)) >> (first & ~3u) * 8);
                if (j % 2)
                    votes[j % 4] = permute_bytes(votes[j % 4 - 1], votes[j % 4],
                                                 byte_selector(subwarp, 4 + subwarp, 4 + subwarp, 4 + subwarp));
                if (j % 4 == 1) bits.words[word_of(j)] = votes[1] & 0xffff;
                if (j % 4 == 3) bits.words[word_of(j)] = permute_bytes(votes[1], votes[3], byte_selector(0, 1, 4, 5));
            }
        } else {
#pragma unroll
            for (int j = 0; j < QUADS; j++)
                if (holds(j)) bits.words[word_of(j)] |= first_bit(j);
#pragma unroll
            for (uint32_t &word : bits.words) word <<= lane;
            bits.all_of_subwarp();
        }
        return bits;
    }
    // With those from one number on to another.
    __device__ __forceinline__ void add(uint32_t first, uint32_t end) {
        auto below = [](uint32_t number, uint32_t word) INLINED {
            uint32_t count = max_of(number, 32 * word) - 32 * word;
            return count >= 32 ? ~0u : (1u << count) - 1;
        };
#pragma unroll
        for (uint32_t i = 0; i < WORDS; i++) words[i] |= below(end, i) ^ below(first, i);
    }
    __device__ __forceinline__ uint32_t count(uint32_t of = ~0u) const {
        uint32_t sum = 0;
#pragma unroll
        for (uint32_t word : words) sum += (uint32_t)__builtin_popcount(word & of);
        return sum;
    }
    // A lane's own, from which `has` knows whether its four `j` is there.
    __device__ __forceinline__ QuadBits of_lane(uint32_t lane) const {
        QuadBits bits;
#pragma unroll
        for (int i = 0; i < WORDS; i++) bits.words[i] = words[i] >> lane;
        return bits;
    }
    __device__ __forceinline__ bool has(int j) const { return (words[word_of(j)] & first_bit(j)) != 0; }
};

template <int LANES, int QUADS, int CELLS> struct QuadsLds {
    static constexpr int MOST_TOP = LANES * CELLS, CANDIDATES = 2 * MOST_TOP, KEYS = 4 * MOST_TOP;
    // First what groups are ranked by, of at most eight of a lane's quads. Then quads' choices and numbers. Then keys
    // and who is chosen.
    static constexpr int AT_ONCE = QUADS % 8 == 0 ? 8 : 4, BESTS = (LANES + 1) * AT_ONCE * 8;
    static constexpr int NUMBERS = CANDIDATES * 16, CHOSEN = KEYS * 8;
    static constexpr int MOST = max_of(BESTS, max_of(NUMBERS + CANDIDATES * 4, CHOSEN + MOST_TOP * 4));
    // Two subwarps' are in different banks.
    static constexpr int BYTES = (MOST + 63) / 128 * 128 + 64;
};

static constexpr uint32_t GATE_GROUPS = 8;

// The best of some choices, and the largest sum of two.
struct BestAndSum {
    float best = -INFINITY, sum = -INFINITY;
    __device__ __forceinline__ void add(BestAndSum other) {
        sum = math::fmax(math::fmax(sum, other.sum), best + other.best);
        best = math::fmax(best, other.best);
    }
};

// Whether a lane's groups are looked at, by what they are ranked by.
template <int LANES, int MINE>
__device__ __forceinline__ void rank_groups(bool (&open)[MINE], const GateOptions &o, const BestAndSum (&bests)[MINE],
                                            uint32_t lane) {
    int32_t keys[MINE];
#pragma unroll
    for (int i = 0; i < MINE; i++) {
        uint32_t group = i * LANES + lane;
        int32_t key = ordered(math::fmax(o.best_two ? bests[i].sum : bests[i].best, GATE_LAST));
        keys[i] = group < o.groups ? key : GATE_TAKEN + 1;
    }
    uint32_t ranks[MINE] = {};
    // Lanes that differ in these bits, of which the highest says who is before the other, where both are equal.
    auto rank_against = [&](auto mask) INLINED {
        bool before = lane & (mask.value & 4 ? 4 : mask.value & 2 ? 2 : 1);
#pragma unroll
        for (int j = 0; j < MINE; j++) {
            int32_t other = across<LANES, mask.value>(keys[j]);
#pragma unroll
            for (int i = 0; i < MINE; i++) ranks[i] += other > keys[i] - (j < i || (j == i && before));
        }
    };
#pragma unroll
    for (int j = 0; j < MINE; j++)
#pragma unroll
        for (int i = 0; i < MINE; i++)
            if (j != i) ranks[i] += keys[j] > keys[i] - (j < i);
    rank_against(Constant<1u>()), rank_against(Constant<2u>()), rank_against(Constant<3u>());
    if constexpr (LANES == 8)
        rank_against(Constant<4u>()), rank_against(Constant<5u>()), rank_against(Constant<6u>()),
            rank_against(Constant<7u>());
#pragma unroll
    for (int i = 0; i < MINE; i++) open[i] = ranks[i] < o.top_groups;
}

// A token's top-k gate, as a lane of its subwarp has it. Phases, in the order of `gate_quads`:
//
//   load       logits, global -> registers, upcast to f32
//   score      logits -> scores, and with the bias choices
//   mask       choices of groups that are not looked at
//   select     a bound that the chosen reach, and the quads that reach it, registers -> LDS
//   compact    those quads' experts that reach the bound, as keys, LDS -> registers -> LDS
//   rank       keys -> the chosen experts in order, LDS -> LDS
//   store      chosen experts and their weights, LDS -> global
//
// Lane `l` of a subwarp holds the experts 4 * (j * LANES + l) + i in `choices[j][i]`.
template <int LANES, int QUADS, int CELLS, class T> struct TokenGate {
    using Lds = QuadsLds<LANES, QUADS, CELLS>;
    using Bits = QuadBits<LANES, QUADS>;
    using Some = vec<T, 4>;
    typedef float Four __attribute__((ext_vector_type(4)));
    typedef int32_t Numbers __attribute__((ext_vector_type(4)));
    static constexpr int SLOTS = Lds::CANDIDATES / LANES;

    // Registers of gate_quads, by reference.
    const T *&logits;
    const float *&bias;
    const GateOptions &o;
    LdsBytes &lds;
    uint32_t &lane, &quads;
    // Whether every lane's quads are experts. A lane beyond the experts has the last ones once more, which then count
    // for nothing.
    bool &whole;
    GateScores &scores;
    float (&choices)[QUADS][4];
    // The best of each four, and the largest sum of two of its choices; below all where it is not looked at.
    float (&best)[QUADS], (&sums)[QUADS];

    __device__ __forceinline__ uint32_t quad(uint32_t j) const { return j * LANES + lane; }
    __device__ __forceinline__ uint32_t held_quad(uint32_t j) const { return min_of(quad(j), quads - 1); }

    // Load: the lane's logits, global -> registers, as f32.
    __device__ __forceinline__ void load() {
        Some held[QUADS];
        if (whole) {
#pragma unroll
            for (int j = 0; j < QUADS; j++) held[j] = read_global<Some>(logits + quad(j) * 4);
        } else {
#pragma unroll
            for (int j = 0; j < QUADS; j++) held[j] = read_global<Some>(logits + held_quad(j) * 4);
        }
#pragma unroll
        for (int j = 0; j < QUADS; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) choices[j][i] = upcast(held[j][i]);
    }

    // Score: sigmoids of the logits, each by itself.
    __device__ __forceinline__ void score_by_sigmoid() {
#pragma unroll
        for (int j = 0; j < QUADS; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) choices[j][i] = GateScores::sigmoid_of(choices[j][i]);
    }
    // Score: the softmax of all of the token's logits.
    __device__ __forceinline__ void score_by_softmax() {
        float largest = -INFINITY, sum = 0;
#pragma unroll
        for (int j = 0; j < QUADS; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) largest = math::fmax(largest, choices[j][i]);
        scores.largest = subwarp_reduce<LANES>(largest, LargerFloat());
#pragma unroll
        for (int j = 0; j < QUADS; j++) {
            float *x = choices[j];
#pragma unroll
            for (int i = 0; i < 4; i++) x[i] = GateScores::exp(x[i] - scores.largest);
            float of_quad = (x[0] + x[1]) + (x[2] + x[3]);
            sum += quad(j) < quads ? of_quad : 0;
        }
        scores.factor = 1.0f / subwarp_reduce<LANES>(sum, Sum());
#pragma unroll
        for (int j = 0; j < QUADS; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) choices[j][i] *= scores.factor;
    }

    // Score: adds the bias of the quads that `number` names.
    template <class Number> __device__ __forceinline__ void add_bias(Number number) {
        // Four at once: registers are few.
        constexpr int TOGETHER = min_of(QUADS, 4);
#pragma unroll
        for (int from = 0; from < QUADS; from += TOGETHER) {
            Four of_bias[TOGETHER];
#pragma unroll
            for (int j = 0; j < TOGETHER; j++) of_bias[j] = read_global<Four>(bias + number(from + j) * 4);
#pragma unroll
            for (int j = 0; j < TOGETHER; j++)
#pragma unroll
                for (int i = 0; i < 4; i++) choices[from + j][i] += of_bias[j][i];
        }
    }

    // Score: NaN and Inf are rare; one FMA chain detects them. NaN sorts last.
    __device__ __forceinline__ void bound_choices() {
        float finite[2] = {};
#pragma unroll
        for (int j = 0; j < QUADS; j++)
#pragma unroll
            for (int i = 0; i < 2; i++) finite[i] = math::fma(choices[j][2 * i], choices[j][2 * i + 1], finite[i]);
        if (!(math::abs(finite[0] + finite[1]) < INFINITY)) {
#pragma unroll
            for (int j = 0; j < QUADS; j++)
#pragma unroll
                for (int i = 0; i < 4; i++) choices[j][i] = math::fmax(choices[j][i], GATE_LAST);
        }
    }

    // Mask: what groups are ranked by, of each four.
    __device__ __forceinline__ void reduce_quads() {
#pragma unroll
        for (int j = 0; j < QUADS; j++) {
            const float *x = choices[j];
            float some = math::fmax(x[0], x[1]), others = math::fmax(x[2], x[3]);
            best[j] = math::fmax(some, others);
            if (o.groups > 1) sums[j] = math::fmax(math::fmax(x[0] + x[1], x[2] + x[3]), some + others);
        }
    }

    // A lane ranks so many groups; LDS has quads of so many rounds, one after another.
    static constexpr int MINE = GATE_GROUPS / LANES, ROUNDS = QUADS / Lds::AT_ONCE;

    __device__ __forceinline__ BestAndSum bests_at(uint32_t number) const {
        FloatPair pair = lds_load<FloatPair>(lds + number * 8);
        return BestAndSum{pair[0], pair[1]};
    }

    // Mask: groups as large as can be, of which the one that a lane's four belongs to is known.
    __device__ __forceinline__ void mask_regular_groups() {
        BestAndSum bests[MINE];
        bool open[MINE];
        // Behind a group there is a gap, for the sake of banks.
#pragma unroll
        for (int g = 0; g < QUADS / ROUNDS; g++) {
            BestAndSum mine = {best[g * ROUNDS], sums[g * ROUNDS]};
#pragma unroll
            for (int j = 1; j < ROUNDS; j++) mine.add(BestAndSum{best[g * ROUNDS + j], sums[g * ROUNDS + j]});
            lds_store(lds + (g * (LANES + 1) + lane) * 8, FloatPair{mine.best, mine.sum});
        }
        wave_fence();
#pragma unroll
        for (int i = 0; i < MINE; i++) {
            BestAndSum some[LANES];
#pragma unroll
            for (int k = 0; k < LANES; k++) some[k] = bests_at((i * LANES + lane) * (LANES + 1) + k);
#pragma unroll
            for (int step = 1; step < LANES; step *= 2)
#pragma unroll
                for (int k = 0; k + step < LANES; k += 2 * step) some[k].add(some[k + step]);
            bests[i] = some[0];
        }
        rank_groups<LANES>(open, o, bests, lane);
        uint32_t bits = 0;
#pragma unroll
        for (int i = 0; i < MINE; i++) bits |= subwarp_bits<LANES>(open[i]) << (i * LANES);
#pragma unroll
        for (int j = 0; j < QUADS; j++) best[j] = bits >> (j / ROUNDS) & 1 ? best[j] : -INFINITY;
    }

    // Mask: groups of any size, whose quads pass by LDS.
    __device__ __forceinline__ void mask_groups() {
        BestAndSum bests[MINE];
        bool open[MINE];
        // It divides.
        uint32_t each = (uint32_t)math::fma((float)quads, math::fast_recip((float)o.groups), 0.5f);
#pragma unroll
        for (int round = 0; round < ROUNDS; round++) {
            constexpr uint32_t ROOM = Lds::AT_ONCE * LANES;
#pragma unroll
            for (int j = 0; j < Lds::AT_ONCE; j++)
                lds_store(lds + (j * LANES + lane) * 8,
                          FloatPair{best[round * Lds::AT_ONCE + j], sums[round * Lds::AT_ONCE + j]});
            wave_fence();
#pragma unroll
            for (int i = 0; i < MINE; i++) {
                uint32_t first = (i * LANES + lane) * each, end = min_of(first + each, (round + 1) * ROOM);
                if (i * LANES + lane < o.groups)
#pragma unroll 2
                    for (uint32_t f = max_of(first, round * ROOM); f < end; f++)
                        bests[i].add(bests_at(f - round * ROOM));
            }
            wave_fence();
        }
        rank_groups<LANES>(open, o, bests, lane);
        Bits bits = {};
#pragma unroll
        for (int i = 0; i < MINE; i++) {
            uint32_t first = (i * LANES + lane) * each;
            if (open[i]) bits.add(first, first + each);
        }
        bits.all_of_subwarp();
        bits = bits.of_lane(lane);
#pragma unroll
        for (int j = 0; j < QUADS; j++) best[j] = bits.has(j) ? best[j] : -INFINITY;
    }

    // Mask: quads beyond the experts.
    __device__ __forceinline__ void mask_repeated() {
#pragma unroll
        for (int j = 0; j < QUADS; j++) best[j] = quad(j) < quads ? best[j] : -INFINITY;
    }

    // Select: a choice that as many quads reach as can be chosen, and seldom many more.
    __device__ __forceinline__ float least_choice() const {
        BestTwo cells[CELLS];
#pragma unroll
        for (int j = 0; j < QUADS; j++) {
            if (j < CELLS) cells[j].best = best[j];
            else cells[j % CELLS].add(best[j]);
        }
        float largest[2 * CELLS] = {cells[0].best, cells[0].second};
        if constexpr (CELLS == 2) {
            BestTwo other = cells[1];
            float middle = math::fmax(cells[0].second, other.second), met = math::fmin(cells[0].best, other.best);
            largest[0] = math::fmax(cells[0].best, other.best), largest[1] = math::fmax(met, middle);
            largest[2] = math::fmin(met, middle), largest[3] = math::fmin(cells[0].second, other.second);
        }
        return math::fmax(middle_of_subwarp<LANES>(largest, lane), GATE_BELOW);
    }

    // Select: the subwarp's quads that reach the bound, and how many these are. Where many are equal to it, those of
    // the least numbers are as many as can be chosen beside those that are beyond.
    __device__ __forceinline__ Bits candidates_from(float bound, uint32_t &count) const {
        Bits candidates = Bits::where(lane, [&](int j) INLINED { return best[j] >= bound; });
        count = candidates.count();
        if (ballot(count > (uint32_t)Lds::CANDIDATES) != 0) {
            Bits beyond = Bits::where(lane, [&](int j) INLINED { return best[j] > bound; });
            uint32_t left = o.top, of_beyond = beyond.count();
            left = left > of_beyond ? left - of_beyond : 0;
            if (count > (uint32_t)Lds::CANDIDATES) {
                count = of_beyond + left;
#pragma unroll
                for (int w = 0; w < Bits::WORDS; w++) {
                    uint32_t equal = candidates.words[w] & ~beyond.words[w];
                    candidates.words[w] = beyond.words[w];
#pragma unroll 1
                    for (; equal != 0 && left != 0; left--, equal &= equal - 1)
                        candidates.words[w] |= equal & (0 - equal);
                }
            }
        }
        return candidates;
    }

    // Select: the lane's candidates, registers -> LDS, behind those of the lanes before.
    __device__ __forceinline__ void stage_candidates(const Bits &candidates, const Bits &mine) const {
        uint32_t lower = ((1u << lane) - 1) * (LANES == 8 ? 0x01010101u : 0x11111111u);
        uint32_t first = candidates.count(lower);
        LdsBytes at = lds + first * 16, of_number = lds + Lds::NUMBERS + first * 4;
#pragma unroll
        for (int j = 0; j < QUADS; j++)
            if (mine.has(j)) {
                lds_store(at, Four{choices[j][0], choices[j][1], choices[j][2], choices[j][3]});
                lds_store(of_number, j * LANES * 4 + lane * 4);
                at += 16, of_number += 4;
            }
    }

    // Compact: experts of the candidates that reach the bound, by choices as numbers, which those that are not negative
    // are as they are. LDS has their keys then, if they have room; returns how many there are.
    __device__ __forceinline__ uint32_t compact(float bound, uint32_t count, bool &fits) const {
        Numbers slots[SLOTS];
        uint32_t experts[SLOTS], hits = 0;
#pragma unroll
        for (int s = 0; s < SLOTS; s++) {
            uint32_t at = s * LANES + lane;
            Four some = -INFINITY;
            experts[s] = 0;
            if (fits && at < count) {
                some = lds_load<Four>(lds + at * 16);
                experts[s] = lds_load<uint32_t>(lds + Lds::NUMBERS + at * 4);
            }
#pragma unroll
            for (int i = 0; i < 4; i++) hits += some[i] >= bound;
            slots[s] = bit_cast<Numbers>(some);
        }
        if (bound < 0) {
#pragma unroll
            for (int s = 0; s < SLOTS; s++)
#pragma unroll
                for (int i = 0; i < 4; i++) slots[s][i] = ordered(bit_cast<float>(slots[s][i]));
        }
        int32_t least = ordered(bound);
        uint32_t to = hits, from_lane = lane_id() - lane;
#pragma unroll
        for (uint32_t step = 1; step < LANES; step *= 2) {
            uint32_t other = shfl_up(to, step, WARP_LANES);
            if (lane >= step) to += other;
        }
        uint32_t all = shfl(to, from_lane % WARP_LANES + LANES - 1, WARP_LANES);
        fits = fits && all <= (uint32_t)Lds::KEYS;
        wave_fence();
        if (fits) {
            LdsBytes at = lds + (to - hits) * 8;
#pragma unroll
            for (int s = 0; s < SLOTS; s++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    if (slots[s][i] >= least) lds_store(at, gate_key(slots[s][i], experts[s] + i)), at += 8;
            // One more than there are: nobody's key.
            if (lane == LANES - 1) lds_store(at, GATE_NOBODY);
        }
        return all;
    }

    // Rank: too many in too few cells, one after another: what comes after the last one in their order.
    __device__ __forceinline__ void choose_one_by_one(const Bits &mine, bool fits) const {
        uint32_t own = 0;
#pragma unroll
        for (int j = 0; j < QUADS; j++) own |= mine.has(j) ? 1u << j : 0;
        int64_t last = ~GATE_NOBODY;
#pragma unroll 1
        for (uint32_t i = 0; i < o.top; i++) {
            int64_t next = GATE_NOBODY;
#pragma unroll 1
            for (uint32_t rest = fits ? 0 : own; rest != 0; rest &= rest - 1) {
                uint32_t first = quad((uint32_t)__builtin_ctz(rest)) * 4;
                for (uint32_t e = first; e < first + 4; e++) {
                    float x = scores.raw(upcast(logits[e])) * scores.factor;
                    int64_t key = gate_key(ordered(math::fmax(bias ? x + bias[e] : x, GATE_LAST)), e);
                    if (key < last && key > next) next = key;
                }
            }
            last = subwarp_reduce<LANES>(next, [](int64_t a, int64_t b) INLINED { return max_of(a, b); });
            if (!fits && lane == 0) lds_store(lds + Lds::CHOSEN + i * 4, ~(uint32_t)last);
        }
    }

    // Rank: of `all` keys each one's number of larger ones is its place among the chosen.
    __device__ __forceinline__ void rank(uint32_t all) const {
        // Candidates that a lane ranks together: seldom has a subwarp more.
        constexpr uint32_t RANKED = 2 * CELLS;
#pragma unroll 1
        for (uint32_t from = lane; from < all; from += RANKED * LANES) {
            int64_t keys[RANKED];
            uint32_t ranks[RANKED] = {};
#pragma unroll
            for (uint32_t i = 0; i < RANKED; i++) keys[i] = lds_load<int64_t>(lds + (from + i * LANES) * 8);
#pragma unroll 1
            for (uint32_t i = 0; i < all; i += 2) {
                KeyPair others = lds_load<KeyPair>(lds + i * 8);
#pragma unroll
                for (uint32_t j = 0; j < RANKED; j++) ranks[j] += (others[0] > keys[j]) + (others[1] > keys[j]);
            }
#pragma unroll
            for (uint32_t i = 0; i < RANKED; i++)
                if (from + i * LANES < all && ranks[i] < o.top)
                    lds_store(lds + Lds::CHOSEN + ranks[i] * 4, ~(uint32_t)keys[i]);
        }
    }

    // Store: the chosen experts and their weights, of the logits anew.
    __device__ __forceinline__ void store(uint32_t *ids, float *weights, bool writes) const {
        uint32_t chosen[CELLS] = {};
        float weighed[CELLS] = {}, sum = 0;
#pragma unroll
        for (uint32_t i = 0; i < CELLS; i++) {
            uint32_t rank = lane + i * LANES;
            if (rank < o.top) {
                chosen[i] = lds_load<uint32_t>(lds + Lds::CHOSEN + rank * 4);
                weighed[i] = scores.weight(upcast(logits[chosen[i]]));
            }
            sum += weighed[i];
        }
        sum = subwarp_reduce<LANES>(sum, Sum());
        float factor = o.normalise ? o.factor / (sum + 1e-20f) : o.factor;
#pragma unroll
        for (uint32_t i = 0; i < CELLS; i++) {
            uint32_t rank = lane + i * LANES;
            if (writes && rank < o.top) {
                ids[rank] = chosen[i];
                weights[rank] = weighed[i] * factor;
            }
        }
    }
};

// The experts of a token and their weights, as `experts_gate` chooses them. All lanes of a workgroup come here; `lds`
// is a subwarp's. What is read is aligned to 16 bytes, and experts divide by four, as those of a group do. Groups are
// GATE_GROUPS at most. A fence stands between writes of LDS and reads of it.
template <int LANES, int QUADS, int CELLS, class T>
__device__ __forceinline__ void gate_quads(const T *logits, const float *bias, uint32_t *ids, float *weights,
                                           const GateOptions &o, LdsBytes lds, uint32_t lane, bool writes) {
    using Gate = TokenGate<LANES, QUADS, CELLS, T>;
    uint32_t quads = o.experts / 4;
    bool whole = quads == LANES * QUADS;
    GateScores scores = {o.sigmoid != 0, 0, 1};
    float choices[QUADS][4], best[QUADS], sums[QUADS];
    Gate gate = {logits, bias, o, lds, lane, quads, whole, scores, choices, best, sums};
    gate.load();
    if (o.sigmoid) gate.score_by_sigmoid();
    else gate.score_by_softmax();
    if (bias && whole) gate.add_bias([&](uint32_t j) INLINED { return gate.quad(j); });
    else if (bias) gate.add_bias([&](uint32_t j) INLINED { return gate.held_quad(j); });
    gate.bound_choices();

    gate.reduce_quads();
    if (o.groups > 1) {
        if (whole && o.groups == GATE_GROUPS && QUADS % GATE_GROUPS == 0) gate.mask_regular_groups();
        else gate.mask_groups();
        wave_fence();
    } else if (!whole) {
        gate.mask_repeated();
    }

    float bound = gate.least_choice();
    uint32_t count;
    auto candidates = gate.candidates_from(bound, count);
    bool fits = count <= (uint32_t)Gate::Lds::CANDIDATES;
    auto mine = candidates.of_lane(lane);
    if (fits) gate.stage_candidates(candidates, mine);
    wave_fence();
    uint32_t all = gate.compact(bound, count, fits);
    if (ballot(!fits) != 0) {
        gate.choose_one_by_one(mine, fits);
        all = fits ? all : 0;
    }
    wave_fence();
    gate.rank(all);
    wave_fence();
    gate.store(ids, weights, writes);
}

} // namespace experts
