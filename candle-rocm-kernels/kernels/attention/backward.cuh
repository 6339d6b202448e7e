// Attention's gradients without a matrix of scores in memory. Of each pair of query i and key j that it sees:
//
//   weight = e^(score - lse[i])                                       as forward made it
//   change = weight * (dot(dout[i], v[j]) - delta[i])                 the score's gradient
//   dq[i] += scale * change * k[j],   dk[j] += scale * change * q[i],   dv[j] += weight * dout[i]
//
// with delta[i] = dot(dout[i], out[i]); under a softcap the change is times the derivative of tanh. One kernel has a
// tile of keys and passes over the queries that see them, of all heads that share the keys; another has a tile of
// queries and passes over keys. Each row has one wavefront that adds, in one order.
//
//   for each tile of the others:
//     load     it turned over, global -> registers
//     scores   own rows * others, twice; weights and changes of them
//     stage    what was turned over, registers -> LDS
//     load     the next tile as it lies, global -> registers
//     results  + turned over * weights or changes
//     stage    the next tile, registers -> LDS
//
// Where tiles are copied straight to LDS, they are turned over as they are read, and the next one has a place of its
// own.
#pragma once
#include "attention/products.cuh"

// Laid out as the host's argument of the same name.
struct AttentionGradients {
    // Its result and `lse` are read.
    AttentionProblem forward;
    AttentionTensor dout, dq, dk, dv;
    // Laid out as lse.
    float *delta;
};

// Rows of one head, one after another.
template <class T> struct HeadRows {
    const T *base;
    uint32_t row, count;

    __device__ __forceinline__ const T *at(uint32_t i) const { return base + (uint64_t)min_of(i, count - 1) * row; }
    // ROWS rows from `first` on, read by a tile. Those after the last repeat it, and nobody counts them.
    template <int ROWS, class Tile> __device__ __forceinline__ void load(Tile &tile, uint32_t first) const {
        if (first + ROWS <= count) tile.load_lines(base + (uint64_t)first * row, row);
        else tile.load([&](uint32_t i) INLINED { return at(first + i); });
    }
};

// Where a head's numbers of each query are, as lse has them.
__device__ __forceinline__ uint64_t query_numbers(const AttentionProblem &p, const Sequence &s) {
    return (p.starts_q ? s.first_query : s.batch * p.lse_batch) + s.head * p.lse_head;
}
// What is subtracted of exponents of two to make weights: of a query that sees no key, so much that none is left.
__device__ __forceinline__ float exponent(float lse) { return lse == -INFINITY ? INFINITY : lse * attention::LOG2_E; }

// A shape whose wavefronts have no registers for what is on its way during products: it is loaded when it is staged.
template <class Shape> struct Late : Shape {};
template <class Shape> struct IsLate {
    static constexpr bool VALUE = false;
};
template <class Shape> struct IsLate<Late<Shape>> {
    static constexpr bool VALUE = true;
};

// A workgroup's own rows are keys (OF_KEYS) or queries, which a shape calls queries in either case.
template <class T, class S, bool OF_KEYS> struct Backward : Products<T, S> {
    using Base = Products<T, S>;
    using Base::N;
    using typename Base::Keys;
    using typename Base::QueryFragments;
    using typename Base::Results;
    using typename Base::Unit;
    using typename Base::Values;
    using Held = Blocks<T, Base::KB, Base::QB>;
    static constexpr int OWN = Base::QUERIES, WAVE_OWN = Base::WAVE_QUERIES, OTHERS = S::KEYS;
    static constexpr bool LATE = IsLate<S>::VALUE;
    static_assert(S::THREADS >= OTHERS, "a thread has one of the others' numbers");

    // LDS: the others as they lie, which have two kinds of rows, those turned over, what is known of each of them, and
    // what stays there. Own rows on their way to registers and results on theirs to memory have the others' place.
    // Others that are copied straight to LDS are turned over as they are read, and lie there twice, with their numbers.
    static constexpr bool DIRECT = Keys::DIRECT;
    static constexpr int TURNED = OF_KEYS ? 2 : 1, NUMBERS_BYTES = OF_KEYS ? (2 * OTHERS * 4 + 127) / 128 * 128 : 0;
    static constexpr int SECOND_AT = Keys::Layout::BYTES, TURNED_AT = (2 * SECOND_AT + 127) / 128 * 128;
    static constexpr int BUFFER = TURNED_AT + NUMBERS_BYTES;
    static constexpr int TILES = DIRECT ? 2 * BUFFER : TURNED_AT + TURNED * Values::BYTES;
    static constexpr int PASSING = max_of(max_of(TILES, Base::RESULT_BYTES *S::WAVES), Base::LOADING_BYTES);
    static constexpr int PASSING_END = (PASSING + 127) / 128 * 128;
    static constexpr int NUMBERS_AT = DIRECT ? TURNED_AT : PASSING_END;
    static constexpr int WEIGHTS_AT = PASSING_END + (DIRECT ? 0 : NUMBERS_BYTES);
    static constexpr int OWN_AT = WEIGHTS_AT + Base::WEIGHTS_BYTES * S::WAVES;
    static constexpr int LDS_BYTES = OWN_AT + 2 * Base::STAYING_BYTES;

    // The tile of others that is next to be worked on: of a head, from row `at` on.
    struct Others {
        HeadRows<T> first, second;
        const float *lse, *delta;
        uint32_t first_head, second_head, heads_left; // to the next head
        uint64_t numbers_head;
        int32_t begin, end, at;

        __device__ __forceinline__ void advance(Sequence &s) {
            at += OTHERS;
            if (OF_KEYS && at >= end && heads_left > 0) {
                at = begin, heads_left--, s.head++;
                first.base += first_head, second.base += second_head;
                lse += numbers_head, delta += numbers_head;
            }
        }
    };

    static __device__ __forceinline__ void run(const AttentionGradients &g) {
        LdsBytes lds = Base::template lds_of_workgroup<LDS_BYTES>();
        const AttentionProblem &p = g.forward;
        Sequence s(p);
        uint32_t count = OF_KEYS ? s.keys : s.queries;
        // The tile first that has most to do, where queries see what is before them.
        uint32_t tile = OF_KEYS ? blockIdx.y : gridDim.y - 1 - blockIdx.y, part = S::PARTS == 1 ? 0 : tile % S::PARTS;
        uint32_t first = tile / S::PARTS * OWN, column = part * S::ELEMENTS;
        if (first >= count || column >= p.dim) return;
        uint32_t wave = uniform(threadIdx.x / S::WAVE), lane = lane_id();
        uint32_t my_first = first + wave * WAVE_OWN;
        LdsBytes weights = lds + WEIGHTS_AT + wave * Base::WEIGHTS_BYTES;

        Visible visible(p, s, OF_KEYS);
        Biases<T> biases(p);
        float factor = biases.factor();
        // Tiles that each of this wavefront's rows goes with.
        int32_t inner_begin = visible.begin(my_first + WAVE_OWN - 1), inner_end = visible.end(my_first);
        Others others = others_of(g, s);
        others.begin = visible.begin(first) / OTHERS * OTHERS;
        others.end = visible.end(min_of(first + OWN, count) - 1);
        others.at = others.begin;

        Results of_changes = {}, of_weights = {};
        if (others.begin < others.end) {
            uint32_t tiles = ceil_div((uint32_t)(others.end - others.begin), (uint32_t)OTHERS);
            uint32_t left = tiles * (OF_KEYS ? p.group : 1);
            Keys first_tile(p.dim), second_tile(p.dim);
            Values first_turned(p.dim - column), second_turned(p.dim - column);
            QueryFragments own_first, own_second;
            load_own(own_first, own_second, g, s, lds, first, wave, lane);
            float lse[N], delta[N];
            if constexpr (!OF_KEYS) load_numbers(lse, delta, others, my_first, s.queries, lane);
            auto weigh = [&](Held &scores, Held &changes, LdsBytes others_lds) INLINED {
                Base::multiply_keys(scores.block, own_first, others_lds, lds + OWN_AT, wave, lane);
                Base::multiply_keys(changes.block, own_second, others_lds + SECOND_AT,
                                    lds + OWN_AT + Base::STAYING_BYTES, wave, lane);
                make_weights(scores, changes, biases, factor, s, others_lds + NUMBERS_AT, lse, delta, my_first,
                             others.at, others.at < inner_begin || others.at + OTHERS > inner_end);
            };
            if constexpr (DIRECT) {
                static_assert(Keys::Layout::CHUNK_PITCH == Values::Layout::CHUNK_PITCH, "both read the same tiles");
                auto load = [&](uint32_t buffer) INLINED {
                    first_tile.into(lds + buffer), second_tile.into(lds + buffer + SECOND_AT);
                    load_others(others, first_tile, second_tile, lse, delta);
                };
                uint32_t now = 0;
                load(now);
                stage_others(first_tile, second_tile, lds + now, lse, delta);
                Base::settle_copies();
#pragma unroll 1
                for (; left > 0; left--) {
                    Held scores, changes;
                    weigh(scores, changes, lds + now);
                    others.advance(s);
                    load(now ^ BUFFER);
                    LdsBytes turned = lds + now + column / 8 * Keys::Layout::CHUNK_PITCH;
                    if constexpr (OF_KEYS)
                        Base::multiply_values(of_weights, scores.block, turned + SECOND_AT, weights, lane);
                    Base::multiply_values(of_changes, changes.block, turned, weights, lane);
                    now ^= BUFFER;
                    stage_others(first_tile, second_tile, lds + now, lse, delta);
                    Base::settle_copies();
                }
            } else {
                load_others(others, first_tile, second_tile, lse, delta);
                stage_others(first_tile, second_tile, lds, lse, delta);
                lds_barrier();
#pragma unroll 1
                for (; left > 0; left--) {
                    if (!LATE) load_turned(others, first_turned, second_turned, column);
                    in_order();
                    Held scores, changes;
                    weigh(scores, changes, lds);
                    in_order();
                    if (LATE) load_turned(others, first_turned, second_turned, column);
                    first_turned.stage(lds + TURNED_AT);
                    if constexpr (OF_KEYS) second_turned.stage(lds + TURNED_AT + Values::BYTES);
                    others.advance(s);
                    if (!LATE) load_others(others, first_tile, second_tile, lse, delta);
                    in_order();
                    lds_barrier();
                    if constexpr (OF_KEYS)
                        Base::multiply_values(of_weights, scores.block, lds + TURNED_AT + Values::BYTES, weights, lane);
                    Base::multiply_values(of_changes, changes.block, lds + TURNED_AT, weights, lane);
                    in_order();
                    if (LATE) load_others(others, first_tile, second_tile, lse, delta);
                    stage_others(first_tile, second_tile, lds, lse, delta);
                    lds_barrier();
                }
            }
        }
        settle_products();
        store(g, s, of_changes, of_weights, lds + wave * Base::RESULT_BYTES, my_first, column, lane);
    }

    static __device__ __forceinline__ Others others_of(const AttentionGradients &g, const Sequence &s) {
        const AttentionProblem &p = g.forward;
        Others others;
        if constexpr (OF_KEYS) {
            others.first = {s.rows<T>(p.q, p.starts_q, s.head, s.first_query), p.q.row, s.queries};
            others.second = {s.rows<T>(g.dout, p.starts_q, s.head, s.first_query), g.dout.row, s.queries};
        } else {
            others.first = {s.rows<T>(p.k, p.starts_k, s.key_head, s.first_key), p.k.row, s.keys};
            others.second = {s.rows<T>(p.v, p.starts_k, s.key_head, s.first_key), p.v.row, s.keys};
        }
        others.first_head = p.q.head, others.second_head = g.dout.head, others.heads_left = p.group - 1;
        others.numbers_head = p.lse_head;
        uint64_t numbers = query_numbers(p, s);
        others.lse = p.lse + numbers, others.delta = g.delta + numbers;
        return others;
    }

    static __device__ __forceinline__ void load_own(QueryFragments &to_first, QueryFragments &to_second,
                                                    const AttentionGradients &g, const Sequence &s, LdsBytes lds,
                                                    uint32_t first, uint32_t wave, uint32_t lane) {
        const AttentionProblem &p = g.forward;
        auto load = [&](QueryFragments &to, const AttentionTensor &of, int place) INLINED {
            HeadRows<T> rows = {OF_KEYS ? s.rows<T>(of, p.starts_k, s.key_head, s.first_key)
                                        : s.rows<T>(of, p.starts_q, s.head, s.first_query),
                                of.row, OF_KEYS ? s.keys : s.queries};
            auto at = [&](uint32_t i) INLINED {
                return rows.at(first + i);
            };
            Base::load_queries(to, at, p.dim, lds + (S::QUERIES_IN_LDS ? OWN_AT + place * Base::STAYING_BYTES : 0),
                               wave, lane);
        };
        load(to_first, OF_KEYS ? p.k : p.q, 0);
        load(to_second, OF_KEYS ? p.v : g.dout, 1);
    }

    // Of the lane's own queries.
    static __device__ __forceinline__ void load_numbers(float (&lse)[N], float (&delta)[N], const Others &others,
                                                        uint32_t first, uint32_t count, uint32_t lane) {
#pragma unroll
        for (int n = 0; n < N; n++) {
            uint32_t query = first + n / Unit::LANE_QUERIES * Unit::QUERIES + Unit::query(lane, n % Unit::LANE_QUERIES);
            query = min_of(query, count - 1);
            lse[n] = exponent(others.lse[query]), delta[n] = others.delta[query];
        }
    }

    // The next tile as it lies; where it is of queries, a thread takes the numbers of one.
    static __device__ __forceinline__ void load_others(const Others &others, Keys &first, Keys &second, float (&lse)[N],
                                                       float (&delta)[N]) {
        others.first.template load<OTHERS>(first, (uint32_t)others.at);
        others.second.template load<OTHERS>(second, (uint32_t)others.at);
        if (OF_KEYS && threadIdx.x < OTHERS) {
            uint32_t query = min_of((uint32_t)others.at + threadIdx.x, others.first.count - 1);
            lse[0] = others.lse[query], delta[0] = others.delta[query];
        }
    }
    static __device__ __forceinline__ void stage_others(Keys &first, Keys &second, LdsBytes lds, const float (&lse)[N],
                                                        const float (&delta)[N]) {
        first.stage(lds);
        second.stage(lds + SECOND_AT);
        if (OF_KEYS && threadIdx.x < OTHERS) {
            lds_store(lds + NUMBERS_AT + threadIdx.x * 4, exponent(lse[0]));
            lds_store(lds + NUMBERS_AT + (OTHERS + threadIdx.x) * 4, delta[0]);
        }
    }
    static __device__ __forceinline__ void load_turned(const Others &others, Values &first, Values &second,
                                                       uint32_t column) {
        auto load = [&](HeadRows<T> rows, Values &to) INLINED {
            rows.base += column;
            rows.template load<OTHERS>(to, (uint32_t)others.at);
        };
        load(others.first, first);
        if constexpr (OF_KEYS) load(others.second, second);
    }

    // Weights of the products of queries and keys, and changes of those of dout and values.
    static __device__ __forceinline__ void make_weights(Held &scores, Held &changes, const Biases<T> &biases,
                                                        float factor, const Sequence &s, LdsBytes numbers,
                                                        const float (&lse)[N], const float (&delta)[N], uint32_t first,
                                                        int32_t at, bool hides) {
        auto lse_of = [&](int n, uint32_t other) INLINED {
            if constexpr (OF_KEYS) return lds_load<float>(numbers + other * 4);
            else return lse[n];
        };
        auto delta_of = [&](int n, uint32_t other) INLINED {
            if constexpr (OF_KEYS) return lds_load<float>(numbers + (OTHERS + other) * 4);
            else return delta[n];
        };
        if (biases.any) {
            auto &again = seldom(biases.p);
            float scale = again.scale, cap = again.softcap;
            if (cap != 0) {
                float inside = scale / cap;
                // What is left of delta below is times the derivative.
                scores.each_with(changes, [&](int n, uint32_t other, float &score, float &change) INLINED {
                    float bent = fast_tanh(score * inside), by = math::fma(-bent, bent, 1.0f);
                    score = cap * bent;
                    change = math::fma(change - delta_of(n, other), by, delta_of(n, other));
                });
            } else {
                scores.each([=](int, uint32_t, float score) INLINED { return score * scale; });
            }
            biases.template add<OF_KEYS>(scores, OF_KEYS ? (uint32_t)at : first, OF_KEYS ? first : (uint32_t)at, s);
        }
        if (hides) Visible(seldom(biases.p), s, OF_KEYS).hide(scores, first, at);
        scores.each_with(changes, [&](int n, uint32_t other, float &score, float &change) INLINED {
            score = math::fast_exp2(math::fma(score, factor, -lse_of(n, other)));
            change = score * (change - delta_of(n, other));
        });
    }

    static __device__ __forceinline__ void store(const AttentionGradients &g, const Sequence &s, Results &of_changes,
                                                 Results &of_weights, LdsBytes strip, uint32_t first, uint32_t column,
                                                 uint32_t lane) {
        const AttentionProblem &p = g.forward;
        float by[N];
#pragma unroll
        for (int n = 0; n < N; n++) by[n] = p.scale;
        Base::rescale(of_changes, by);
        auto put = [&](const AttentionTensor &to, const Results &results) INLINED {
            const T *rows = OF_KEYS ? s.rows<T>(to, p.starts_k, s.key_head, s.first_key)
                                    : s.rows<T>(to, p.starts_q, s.head, s.first_query);
            Base::store((T *)rows, to.row, OF_KEYS ? s.keys : s.queries, p.dim, results, strip, first, column, lane);
        };
        put(OF_KEYS ? g.dk : g.dq, of_changes);
        if constexpr (OF_KEYS) put(g.dv, of_weights);
    }
};

// delta, of ROWS queries of a head a workgroup. LANES neighbours have a query together, each some of its chunks.
template <class T> struct Delta {
    static constexpr int THREADS = 256, LANES = 16, ROWS = 64;

    static __device__ __forceinline__ void run(const AttentionGradients &g) {
        const AttentionProblem &p = g.forward;
        Sequence s(p);
        const T *out = s.rows<T>(p.out, p.starts_q, s.head, s.first_query),
                *dout = s.rows<T>(g.dout, p.starts_q, s.head, s.first_query);
        float *delta = g.delta + query_numbers(p, s);
        uint32_t first = blockIdx.y * ROWS;
        if (first >= s.queries) return;
#pragma unroll 1
        for (uint32_t i = threadIdx.x / LANES; i < ROWS; i += THREADS / LANES) {
            uint32_t query = min_of(first + i, s.queries - 1);
            float sum = 0;
#pragma unroll 1
            for (uint32_t at = threadIdx.x % LANES * 8; at < p.dim; at += LANES * 8) {
                auto x = load_vector<vec<T, 8>>(out + (uint64_t)query * p.out.row, at * 2),
                     y = load_vector<vec<T, 8>>(dout + (uint64_t)query * g.dout.row, at * 2);
#pragma unroll
                for (int k = 0; k < 8; k++) sum = math::fma(widen(x[k]), widen(y[k]), sum);
            }
            sum = whole_wave_all_reduce(sum, LANES, Sum());
            if (threadIdx.x % LANES == 0 && first + i < s.queries) delta[first + i] = sum;
        }
    }
};
