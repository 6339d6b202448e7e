// Scores and their online softmax: what hides keys, the largest score so far, and the weights.
#pragma once
#include "attention/operands.cuh"

namespace attention {

// The lane, which is made anew of the work-item's number, so that it takes no register before.
__device__ __forceinline__ uint32_t lane_anew() {
    uint32_t item = threadIdx.x;
    opt_barrier_ordered(item);
    return item % WAVEFRONT;
}

struct Largest {
    __device__ __forceinline__ float operator()(float a, float b) const { return math::fmax(a, b); }
};

// tanh within 2^-22 of 1.
__device__ __forceinline__ float fast_tanh(float x) {
    return 1.0f - 2.0f * math::fast_recip(math::fast_exp2(x * (2 * attention::LOG2_E)) + 1.0f);
}

// What a wavefront made of its QB blocks of queries and KB blocks of keys, a number of each pair.
template <class T, int KB, int QB> struct Blocks {
    using Atom = AttentionAtom<T>;
    static constexpr int SUMS = Atom::Atom::SUMS, LANE = Atom::LANE_QUERIES, N = QB * LANE;
    typename Atom::Sums block[QB][KB];
    // The lane's first key, in units of TOGETHER that follow one another; how far its others are from that is the same
    // in all lanes.
    static constexpr int TOGETHER = Atom::OTHERS_TOGETHER, BATCH = min_of(SUMS, 4);
    uint32_t lane, first;

    __device__ __forceinline__ Blocks() : lane(lane_id()), first(Atom::other(lane, 0) / TOGETHER) {}
    // What follows makes what it needs of the lane's number anew: none of that takes registers before.
    __device__ __forceinline__ void cold_path() {
        lane = lane_anew();
        first = Atom::other(lane, 0) / TOGETHER;
        opt_barrier_ordered(first);
    }
    __device__ __forceinline__ uint32_t key(int k, int i) const {
        return first * TOGETHER + (k * Atom::OTHERS + Atom::other(0, i));
    }

    __device__ __forceinline__ uint32_t query(int n) const {
        return n / LANE * Atom::QUERIES + Atom::query(lane, n % LANE);
    }
    // Calls f(number of the query among the lane's, key, score), whose result is the new score.
    // IN_TURNS, a few at a time, which takes few registers.
    template <bool IN_BATCHES = false, class F> __device__ __forceinline__ void each(F f) {
#pragma unroll
        for (int q = 0; q < QB; q++)
#pragma unroll
            for (int k = 0; k < KB; k++)
#pragma unroll
                for (int i = 0; i < SUMS; i++) {
                    set_sum<typename Atom::Atom>(
                        block[q][k], i,
                        f(q * LANE + Atom::query_number(i), key(k, i), sum_of<typename Atom::Atom>(block[q][k], i)));
                    if (IN_BATCHES && i % BATCH == BATCH - 1) opt_barrier_ordered(block[q][k]);
                }
    }
    // Visits two numbers of each pair: f(number of the query, key, this, the other), which sets them.
    template <bool IN_BATCHES = false, class F> __device__ __forceinline__ void each_with(Blocks &other, F f) {
#pragma unroll
        for (int q = 0; q < QB; q++)
#pragma unroll
            for (int k = 0; k < KB; k++)
#pragma unroll
                for (int i = 0; i < SUMS; i++) {
                    float mine = sum_of<typename Atom::Atom>(block[q][k], i),
                          theirs = sum_of<typename Atom::Atom>(other.block[q][k], i);
                    f(q * LANE + Atom::query_number(i), key(k, i), mine, theirs);
                    set_sum<typename Atom::Atom>(block[q][k], i, mine);
                    set_sum<typename Atom::Atom>(other.block[q][k], i, theirs);
                    if (IN_BATCHES && i % BATCH == BATCH - 1)
                        opt_barrier_ordered(block[q][k]), opt_barrier_ordered(other.block[q][k]);
                }
    }
};

// The scores of a wavefront's QB blocks of queries and KB blocks of keys.
template <class T, int KB, int QB> struct Scores : Blocks<T, KB, QB> {
    using Base = Blocks<T, KB, QB>;
    using Base::block;
    using Base::each;
    using Base::LANE;
    using Base::N;
    using Base::SUMS;
    using typename Base::Atom;
    // Two at a time, where there are instructions for it.
    typedef float Pair __attribute__((ext_vector_type(2)));
    // For each of the lane's queries: the largest score that its results are scaled by, in units of 1 / factor powers
    // of two, and the lane's part of the sum of weights, in two.
    float largest[N];
    Pair sums[N];
    // Turns scores into exponents of two.
    float factor;

    __device__ __forceinline__ Scores(float factor) : factor(factor) {
#pragma unroll
        for (int n = 0; n < N; n++) largest[n] = -INFINITY, sums[n] = Pair(0.0f);
    }

    // Makes weights of the scores. `rescale` is called with what results were scaled by too much, for each query.
    template <class F> __device__ __forceinline__ void exponentiate(F rescale) {
        float most[N];
#pragma unroll
        for (int n = 0; n < N; n++) most[n] = -INFINITY;
        each([&](int n, uint32_t, float score) INLINED {
            most[n] = math::fmax(most[n], score);
            return score;
        });
        bool exceeds = false;
#pragma unroll
        for (int n = 0; n < N; n++) {
            most[n] = Atom::all_reduce(most[n], Largest());
            exceeds |= (most[n] - largest[n]) * factor > attention::SLACK;
        }
        if (ballot(exceeds) != 0) {
            float by[N];
#pragma unroll
            for (int n = 0; n < N; n++) {
                float now = math::fmax(largest[n], most[n]);
                by[n] = now == -INFINITY ? 1.0f : math::fast_exp2((largest[n] - now) * factor);
                largest[n] = now;
                sums[n] *= by[n];
            }
            rescale(by);
        }
        float offset[N];
#pragma unroll
        for (int n = 0; n < N; n++) offset[n] = largest[n] == -INFINITY ? 0.0f : -largest[n] * factor;
        if constexpr (SUMS == 1) {
            each([&](int n, uint32_t, float score) INLINED {
                float weight = math::fast_exp2(math::fma(score, factor, offset[n]));
                sums[n].x += weight;
                return weight;
            });
        } else {
#pragma unroll
            for (int q = 0; q < QB; q++)
#pragma unroll
                for (int k = 0; k < KB; k++)
#pragma unroll
                    for (int i = 0; i < SUMS; i += 2) {
                        int n = q * LANE + Atom::query_number(i);
                        Pair score = {block[q][k][i], block[q][k][i + 1]};
                        score = __builtin_elementwise_fma(score, Pair(factor), Pair(offset[n]));
                        Pair weight = {math::fast_exp2(score.x), math::fast_exp2(score.y)};
                        sums[n] += weight;
                        block[q][k][i] = weight.x, block[q][k][i + 1] = weight.y;
                    }
        }
    }
};

// Which keys a query sees: a range that moves on with the query. Or the same of the queries that see a key.
struct Visible {
    int32_t diagonal, left, right, keys;

    template <class Problem> __device__ __forceinline__ Visible(const Problem &p, const Sequence &s,
                                                                bool of_key = false)
        : diagonal((int32_t)(of_key ? s.queries - s.keys : s.keys - s.queries)), left(of_key ? p.right : p.left),
          right(of_key ? p.left : p.right), keys((int32_t)(of_key ? s.queries : s.keys)) {}
    __device__ __forceinline__ int32_t begin(uint32_t query) const {
        return left < 0 ? 0 : max_of((int32_t)query + diagonal - left, 0);
    }
    __device__ __forceinline__ int32_t end(uint32_t query) const {
        return right < 0 ? keys : min_of((int32_t)query + diagonal + right + 1, keys);
    }
    // Of the queries from `first` on and the keys from `at` on.
    template <class S> __device__ __forceinline__ void hide(S &scores, uint32_t first, int32_t at) const {
        int32_t from[S::N], to[S::N];
#pragma unroll
        for (int n = 0; n < S::N; n++) {
            uint32_t query = first + scores.query(n);
            from[n] = begin(query) - at, to[n] = end(query) - at;
        }
        // Lest it be in a register while nothing is hidden.
        float hidden = -INFINITY;
        opt_barrier_ordered(hidden);
        scores.each([&](int n, uint32_t key, float score)
                        INLINED { return (int32_t)key >= from[n] && (int32_t)key < to[n] ? score : hidden; });
    }
};

// What a problem does to scores besides hiding keys.
template <class T> struct Biases {
    const AttentionProblem &p;
    bool any;

    // Of a scale that is not positive the largest product is not that of the largest score.
    __device__ __forceinline__ explicit Biases(const AttentionProblem &p)
        : p(p), any(p.mask || p.slopes || p.softcap != 0 || !(p.scale > 0)) {}
    // What scores are multiplied by to be exponents of two.
    __device__ __forceinline__ float factor() const { return any ? attention::LOG2_E : p.scale * attention::LOG2_E; }

    // `query` and `key` are the first of the wavefront's.
    template <class S>
    __device__ __forceinline__ void apply(S &scores, uint32_t query, uint32_t key, const Sequence &s) const {
        auto &again = cold_path(p);
        float scale = again.scale, cap = again.softcap;
        if (cap != 0) {
            float inside = scale / cap;
            scores.each([=](int, uint32_t, float score) INLINED { return cap * fast_tanh(score * inside); });
        } else {
            scores.each([=](int, uint32_t, float score) INLINED { return score * scale; });
        }
        add<false>(scores, query, key, s);
    }
    // What is added to scores that are scaled. Where KEYS_STAY, the lane's own are keys, and the others queries.
    template <bool KEYS_STAY, class S>
    __device__ __forceinline__ void add(S &scores, uint32_t query, uint32_t key, const Sequence &s) const {
        auto &again = cold_path(p);
        if (again.slopes) {
            float slope = again.slopes[s.batch * again.slopes_batch + s.head];
            int32_t ahead = (int32_t)(query + s.keys - s.queries - key);
            scores.template each<KEYS_STAY>([&](int n, uint32_t k, float score) INLINED {
                int32_t further = (int32_t)(KEYS_STAY ? k - scores.query(n) : scores.query(n) - k);
                return score - slope * math::abs((float)(ahead + further));
            });
        }
        if (again.mask) {
            auto mask = (const T *)again.mask + s.batch * again.mask_batch + s.head * again.mask_head;
            uint64_t mask_row = again.mask_row, mask_key = again.mask_key;
            scores.template each<KEYS_STAY>([&](int n, uint32_t k, float score) INLINED {
                uint64_t i = min_of(query + (KEYS_STAY ? k : scores.query(n)), s.queries - 1),
                         j = min_of(key + (KEYS_STAY ? scores.query(n) : k), s.keys - 1);
                return score + upcast(mask[i * mask_row + j * mask_key]);
            });
        }
    }
};

} // namespace attention
