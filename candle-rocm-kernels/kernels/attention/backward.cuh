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
// Others have first rows (queries, or keys), second ones (dout, or values), and both or the first ones transposed:
//
//   for each tile of the others:
//     stage    its second rows, and what is transposed, registers -> LDS     (while scores are made)
//     scores   own rows * first rows
//     barrier
//     changes  own rows * second rows
//     load     the next tile's first rows, global -> registers
//     weights  and changes, of scores; results + second rows transposed * weights
//     stage    the next tile's first rows, registers -> LDS
//     load     its second rows, and what is transposed
//     results  + first rows transposed * changes
//     barrier
//
// What is written between two barriers is read after the second: each has one place in LDS. Weights are between
// products, so that of two wavefronts of a SIMD one makes weights while the other multiplies. The keys' kernel loads
// first rows that late for want of registers, the queries' kernel as soon as scores are made.
//
// Where tiles are copied straight to LDS, they are transposed as they are read, and the next one has a place of its
// own.
#pragma once
#include "attention/products.cuh"

namespace attention {

// What the kernels of gradients are told.
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
    // ROWS rows from `first` on, read by a tile. Rows past the last repeat it, and do not count.
    template <int ROWS, class Tile> __device__ __forceinline__ void load(Tile &tile, uint32_t first) const {
        if constexpr (Tile::DIRECT) {
            if (first + ROWS <= count) tile.load_lines(base + (uint64_t)first * row, row);
            else tile.load([&](uint32_t i) INLINED { return at(first + i); });
        } else {
            first = min_of(first, count - 1);
            tile.load_lines_until(base + (uint64_t)first * row, row, count - 1 - first);
        }
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
template <class T, class S, bool OF_KEYS> struct Backward : Products<T, S, IsLate<S>::VALUE ? 1 : 2> {
    using Base = Products<T, S, IsLate<S>::VALUE ? 1 : 2>;
    using Base::N;
    using typename Base::Atom;
    using typename Base::Keys;
    using typename Base::Outputs;
    using typename Base::QueryFragments;
    using typename Base::Values;
    using Held = Blocks<T, Base::KB, Base::QB>;
    static constexpr int OWN = Base::QUERIES, WAVE_OWN = Base::WAVE_QUERIES, OTHERS = S::KEYS;
    // When what is next is loaded: when it is staged, or as early as may be.
    static constexpr bool LATE = IsLate<S>::VALUE, EARLY = !OF_KEYS && !LATE;
    static_assert(S::THREADS >= OTHERS, "a thread has one of the others' numbers");
    // What is known of a query.
    struct Numbers {
        float lse, delta;
    };

    // LDS: the others as they lie, which have two kinds of rows, those transposed, what is known of each of them, and
    // what stays there. Own rows on their way to registers and results on theirs to memory have the others' place.
    // Others that are copied straight to LDS are transposed as they are read, and lie there twice, with their numbers.
    static constexpr bool DIRECT = Keys::DIRECT;
    static constexpr int TRANSPOSED_OPERANDS = OF_KEYS ? 2 : 1,
                         NUMBERS_BYTES = OF_KEYS ? (2 * OTHERS * 4 + 127) / 128 * 128 : 0;
#if defined(LDS_COPIES)
    using Transposed = Values;
#else
    using Transposed = ValueTile<T, OTHERS, S::ELEMENTS, S::THREADS, TRANSPOSED_OPERANDS>;
#endif
    static constexpr int SECOND_AT = Keys::Layout::BYTES, NUMBERS_AT = (2 * SECOND_AT + 127) / 128 * 128;
    static constexpr int BUFFER = NUMBERS_AT + NUMBERS_BYTES, TRANSPOSED_AT = DIRECT ? 2 * BUFFER : BUFFER;
    static constexpr int TILES = DIRECT ? TRANSPOSED_AT : TRANSPOSED_AT + Transposed::BYTES;
    static constexpr int PASSING = max_of(max_of(TILES, Base::RESULT_BYTES *S::WAVES), Base::LOADING_BYTES);
    static constexpr int WEIGHTS_AT = (PASSING + 127) / 128 * 128;
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

    // The tile of own rows that a workgroup makes, and what this wavefront has of it.
    struct WaveTile {
        LdsBytes lds, weights;
        uint32_t wave, lane;
        // The workgroup's first own row and the wavefront's, and the first column of results.
        uint32_t first, my_first, column;
        // Others that each of this wavefront's rows goes with.
        int32_t inner_begin, inner_end;
    };

    // The main loop over tiles of others: what is on its way, own rows in registers, and the phases of a tile.
    struct MainLoop {
        const WaveTile &place;
        Sequence &s;
        const Biases<T> &biases;
        float factor;
        Others &others;
        Outputs &of_changes, &of_weights;
        Keys &first_tile, &second_tile;
        Transposed &transposed;
        QueryFragments &own_first, &own_second;
        Numbers (&own)[N];
        // Of copies straight to LDS, which of its two places the tile is in.
        uint32_t &buffer;

        // Load: what is known of own queries.
        __device__ __forceinline__ void load_numbers() {
            if constexpr (!OF_KEYS) {
#pragma unroll
                for (int n = 0; n < N; n++) {
                    own[n] = numbers_of(others, place.my_first + Held().query(n), s.queries);
                    own[n].lse = exponent(own[n].lse);
                }
            }
        }
        // Multiply: own rows times the others' first or SECOND ones. `also` as multiply_keys() says.
        template <bool SECOND, class Also>
        __device__ __forceinline__ void multiply(Held &held, LdsBytes others_lds, Also also) {
            Base::multiply_keys(held.block, SECOND ? own_second : own_first, others_lds + (SECOND ? SECOND_AT : 0),
                                place.lds + OWN_AT + (SECOND ? Base::STAYING_BYTES : 0), place.wave, place.lane, also);
        }
        template <bool SECOND> __device__ __forceinline__ void multiply(Held &held, LdsBytes others_lds) {
            multiply<SECOND>(held, others_lds, [](int) INLINED {});
        }
        // Weigh: products -> weights and changes, of others from `at` on.
        __device__ __forceinline__ void weigh(Held &scores, Held &changes, LdsBytes others_lds, int32_t at,
                                              const Sequence &s) {
            make_weights(scores, changes, biases, factor, s, others_lds + NUMBERS_AT, own, place.my_first, at,
                         at < place.inner_begin || at + OTHERS > place.inner_end);
        }

        // Load: both kinds of the others' rows, global -> a buffer in LDS.
        __device__ __forceinline__ void copy(uint32_t buffer) {
            first_tile.into(place.lds + buffer), second_tile.into(place.lds + buffer + SECOND_AT);
            others.first.template load<OTHERS>(first_tile, (uint32_t)others.at);
            others.second.template load<OTHERS>(second_tile, (uint32_t)others.at);
            load_own_number(others, own[0]);
        }
        __device__ __forceinline__ void settle_copies() {
            stage_own_number(place.lds + buffer, own[0]);
            Base::settle_copies();
        }
        // A tile where others are copied straight to LDS.
        __device__ __forceinline__ void direct_tile() {
            static_assert(Keys::Layout::CHUNK_PITCH == Values::Layout::CHUNK_PITCH, "both read the same tiles");
            LdsBytes now = place.lds + buffer, transposed_lds = now + place.column / 8 * Keys::Layout::CHUNK_PITCH;
            Held scores, changes;
            multiply<false>(scores, now);
            multiply<true>(changes, now);
            weigh(scores, changes, now, others.at, s);
            others.advance(s);
            copy(buffer ^ BUFFER);
            if constexpr (OF_KEYS)
                Base::multiply_values(of_weights, scores.block, transposed_lds + SECOND_AT, place.weights, place.lane);
            Base::multiply_values(of_changes, changes.block, transposed_lds, place.weights, place.lane);
            buffer ^= BUFFER;
            settle_copies();
        }

        // Load: the others' first rows, global -> registers; or the second ones, and what is transposed.
        __device__ __forceinline__ void load_first() {
            others.first.template load<OTHERS>(first_tile, (uint32_t)others.at);
        }
        __device__ __forceinline__ void load_second() {
            others.second.template load<OTHERS>(second_tile, (uint32_t)others.at);
            load_own_number(others, own[0]);
            load_transposed(others, transposed, place.column);
        }
        // A tile where others go through registers.
        __device__ __forceinline__ void staged_tile() {
            LdsBytes lds = place.lds;
            if (LATE) load_second();
            Held scores, changes;
            multiply<false>(scores, lds, [&](int step) INLINED {
                if (step == min_of(1, Base::PREFETCH)) {
                    second_tile.stage(lds + SECOND_AT);
                    stage_own_number(lds, own[0]);
                }
                if (step == min_of(2 * Base::PREFETCH, min_of(2, Base::STEPS - 1)))
                    transposed.stage(lds + TRANSPOSED_AT);
            });
            Sequence now = s;
            int32_t at = others.at;
            others.advance(s);
            lds_barrier();
            // Before weights, where there are registers for it.
            if (EARLY) load_first();
            multiply<true>(changes, lds);
            if (EARLY) {
                first_tile.stage(lds);
                load_second();
            }
            // Of a SIMD's wavefronts one makes weights while another multiplies, which goes first.
            set_priority<0>();
            opt_barrier_schedule();
            weigh(scores, changes, lds, at, now);
            decltype(auto) weights_of_scores = Base::packed(scores.block, place.lane);
            decltype(auto) weights_of_changes = Base::packed(changes.block, place.lane);
            opt_barrier_schedule();
            if (!EARLY && !LATE) load_first();
            opt_barrier_schedule();
            set_priority<1>();
            if constexpr (OF_KEYS)
                Base::template multiply_values<Transposed>(of_weights, weights_of_scores, lds + TRANSPOSED_AT,
                                                           place.weights, place.lane, S::ELEMENTS);
            opt_barrier_schedule();
            if (LATE) load_first();
            if (!EARLY) first_tile.stage(lds);
            if (!EARLY && !LATE) load_second();
            opt_barrier_schedule();
            Base::template multiply_values<Transposed>(of_changes, weights_of_changes, lds + TRANSPOSED_AT,
                                                       place.weights, place.lane);
            opt_barrier_schedule();
            lds_barrier();
        }

        // The first tile is on its way, or there.
        __device__ __forceinline__ void begin() {
            if constexpr (DIRECT) {
                copy(buffer);
                settle_copies();
            } else {
                load_first();
                if (!LATE) load_second();
                first_tile.stage(place.lds);
                lds_barrier();
            }
        }
        // Load, multiply, weigh and multiply: a tile, behind which the next one is on its way.
        __device__ __forceinline__ void next_tile() {
            if constexpr (DIRECT) direct_tile();
            else staged_tile();
        }
    };

    static __device__ __forceinline__ void run(const AttentionGradients &g) {
        LdsBytes lds = Base::template lds_of_workgroup<LDS_BYTES>();
        const AttentionProblem &p = g.forward;
        Sequence s(p);
        uint32_t count = OF_KEYS ? s.keys : s.queries;
        // The tile first that has most to do, where queries see what is before them.
        uint32_t tile = OF_KEYS ? blockIdx.y : gridDim.y - 1 - blockIdx.y,
                 head_tile = S::HEAD_TILES == 1 ? 0 : tile % S::HEAD_TILES;
        uint32_t first = tile / S::HEAD_TILES * OWN, column = head_tile * S::ELEMENTS;
        if (first >= count || column >= p.dim) return;
        uint32_t wave = uniform(threadIdx.x / S::WAVE), lane = lane_id();
        uint32_t my_first = first + wave * WAVE_OWN;
        LdsBytes weights = lds + WEIGHTS_AT + wave * Base::WEIGHTS_BYTES;

        Visible visible(p, s, OF_KEYS);
        Biases<T> biases(p);
        float factor = uniform(biases.factor());
        int32_t inner_begin = visible.begin(my_first + WAVE_OWN - 1), inner_end = visible.end(my_first);
        Others others = others_of(g, s);
        others.begin = visible.begin(first) / OTHERS * OTHERS;
        others.end = visible.end(min_of(first + OWN, count) - 1);
        others.at = others.begin;

        Outputs of_changes = {}, of_weights = {};
        if (others.begin < others.end) {
            uint32_t tiles = ceil_div((uint32_t)(others.end - others.begin), (uint32_t)OTHERS);
            uint32_t left = tiles * (OF_KEYS ? p.group : 1);
            WaveTile place = {lds, weights, wave, lane, first, my_first, column, inner_begin, inner_end};
            Keys first_tile(p.dim), second_tile(p.dim);
            Transposed transposed(p.dim - column);
            QueryFragments own_first, own_second;
            load_own(own_first, own_second, g, s, lds, first, wave, lane);
            Numbers own[N];
            uint32_t buffer = 0;
            MainLoop loop = {place,      s,           biases,     factor,    others,     of_changes, of_weights,
                             first_tile, second_tile, transposed, own_first, own_second, own,        buffer};
            loop.load_numbers();
            loop.begin();
#pragma unroll 1
            for (; left > 0; left--) loop.next_tile();
        }
        settle_products();
        store(g, s, of_changes, of_weights, lds + wave * Base::RESULT_BYTES, my_first, column, lane_anew());
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

    // Those of a query; queries after the last repeat it.
    static __device__ __forceinline__ Numbers numbers_of(const Others &others, uint32_t query, uint32_t end) {
        query = min_of(query, end - 1);
        return {others.lse[query], others.delta[query]};
    }
    // Of tiles of queries a thread takes the numbers of one.
    static __device__ __forceinline__ void load_own_number(const Others &others, Numbers &to) {
        uint32_t thread = threadIdx.x;
        if (OF_KEYS && thread < OTHERS) {
            // Lest what follows of it be in registers all the time.
            opt_barrier_ordered(thread);
            to = numbers_of(others, (uint32_t)others.at + thread, others.first.count);
        }
    }
    static __device__ __forceinline__ void stage_own_number(LdsBytes lds, const Numbers &numbers) {
        uint32_t thread = threadIdx.x;
        if (OF_KEYS && thread < OTHERS) {
            opt_barrier_ordered(thread);
            lds_store(lds + NUMBERS_AT + thread * 4, exponent(numbers.lse));
            lds_store(lds + NUMBERS_AT + (OTHERS + thread) * 4, numbers.delta);
        }
    }
    static __device__ __forceinline__ void load_transposed(const Others &others, Transposed &to, uint32_t column) {
        uint32_t last = others.first.count - 1, at = min_of((uint32_t)others.at, last);
        auto lines = [&](uint32_t tensor) INLINED {
            HeadRows<T> rows = tensor ? others.second : others.first;
            rows.base += (uint64_t)at * rows.row + column;
            return rows;
        };
        to.load_lines_until(lines, last - at);
    }

    // Weights of the products of queries and keys, and changes of those of dout and values.
    static __device__ __forceinline__ void make_weights(Held &scores, Held &changes, const Biases<T> &biases,
                                                        float factor, const Sequence &s, LdsBytes numbers,
                                                        const Numbers (&own)[N], uint32_t first, int32_t at,
                                                        bool hides) {
        auto lse_of = [&](int n, uint32_t other) INLINED {
            if constexpr (OF_KEYS) return lds_load<float>(numbers + other * 4);
            else return own[n].lse;
        };
        auto delta_of = [&](int n, uint32_t other) INLINED {
            if constexpr (OF_KEYS) return lds_load<float>(numbers + (OTHERS + other) * 4);
            else return own[n].delta;
        };
        if (biases.any) {
            scores.cold_path();
            auto &again = cold_path(biases.p);
            float scale = again.scale, cap = again.softcap;
            if (cap != 0) {
                float inside = scale / cap;
                // What is left of delta below is times the derivative.
                scores.template each_with<OF_KEYS>(
                    changes, [&](int n, uint32_t other, float &score, float &change) INLINED {
                        float bent = fast_tanh(score * inside), by = math::fma(-bent, bent, 1.0f);
                        score = cap * bent;
                        change = math::fma(change - delta_of(n, other), by, delta_of(n, other));
                    });
            } else {
                scores.template each<OF_KEYS>([=](int, uint32_t, float score) INLINED { return score * scale; });
            }
            biases.template add<OF_KEYS>(scores, OF_KEYS ? (uint32_t)at : first, OF_KEYS ? first : (uint32_t)at, s);
        }
        if (hides) {
            scores.cold_path();
            Visible(cold_path(biases.p), s, OF_KEYS).hide(scores, first, at);
        }
        if constexpr (OF_KEYS) scores.cold_path();
        scores.template each_with<OF_KEYS>(changes, [&](int n, uint32_t other, float &score, float &change) INLINED {
            score = math::fast_exp2(math::fma(score, factor, -lse_of(n, other)));
            change = score * (change - delta_of(n, other));
        });
    }

    static __device__ __forceinline__ void store(const AttentionGradients &g, const Sequence &s, Outputs &of_changes,
                                                 Outputs &of_weights, LdsBytes strip, uint32_t first, uint32_t column,
                                                 uint32_t lane) {
        const AttentionProblem &p = g.forward;
        float by[N];
#pragma unroll
        for (int n = 0; n < N; n++) by[n] = p.scale;
        Base::rescale(of_changes, by);
        auto put = [&](const AttentionTensor &to, const Outputs &results) INLINED {
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
                for (int k = 0; k < 8; k++) sum = math::fma(upcast(x[k]), upcast(y[k]), sum);
            }
            sum = whole_wave_all_reduce(sum, LANES, Sum());
            if (threadIdx.x % LANES == 0 && first + i < s.queries) delta[first + i] = sum;
        }
    }
};

} // namespace attention
