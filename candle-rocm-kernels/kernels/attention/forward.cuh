// Attention without a matrix of scores in memory: a workgroup has a tile of queries, and passes over the keys.
//
//   for each tile of keys that any of its queries sees:
//     load     its values, global -> registers
//     scores   keys * queries; hide what is not seen; weights = 2^(scores - the largest so far)
//     stage    the values, transposed, registers -> LDS
//     load     the next tile's keys, global -> registers
//     results  scaled anew if the largest has grown much; + values * weights
//     stage    those keys, registers -> LDS
//
// What is loaded is on its way during a whole product each, and takes the same registers in turns. Where it is copied
// straight to LDS, there are no stages: values are transposed as they are read, and keys are on their way from the
// scores on.
#pragma once
#include "attention/products.cuh"

namespace attention {

template <class T, class S> struct Forward : Products<T, S, 1> {
    using Base = Products<T, S, 1>;
    using Base::QUERIES;
    using Base::WAVE_QUERIES;
    using typename Base::Atom;
    using typename Base::Keys;
    using typename Base::Outputs;
    using typename Base::QueryFragments;
    using typename Base::Values;
    using Held = attention::Scores<T, Base::KB, Base::QB>;

    // LDS: keys, values, then what stays there. The queries on their way to registers and the results on theirs to
    // memory have the place of keys and values.
    static constexpr int VALUES_AT = Keys::Layout::BYTES;
    static constexpr int PASSING =
        max_of(max_of(VALUES_AT + Values::BYTES, Base::RESULT_BYTES *S::WAVES), Base::LOADING_BYTES);
    static constexpr int WEIGHTS_AT = (PASSING + 127) / 128 * 128;
    static constexpr int QUERIES_AT = WEIGHTS_AT + Base::WEIGHTS_BYTES * S::WAVES;
    static constexpr int LDS_BYTES = QUERIES_AT + Base::STAYING_BYTES;

    static __device__ __forceinline__ void run(const AttentionProblem &p) {
        LdsBytes lds = Base::template lds_of_workgroup<LDS_BYTES>();
        Sequence s(p);
        // The last tile first: where queries see what is before them, it has most to do.
        uint32_t tile = gridDim.y - 1 - blockIdx.y, head_tile = S::HEAD_TILES == 1 ? 0 : tile % S::HEAD_TILES;
        uint32_t first = tile / S::HEAD_TILES * QUERIES, column = head_tile * S::ELEMENTS;
        if (first >= s.queries || column >= p.dim) return;
        uint32_t wave = uniform(threadIdx.x / S::WAVE), lane = lane_id();
        uint32_t my_first = first + wave * WAVE_QUERIES;
        LdsBytes weights = lds + WEIGHTS_AT + wave * Base::WEIGHTS_BYTES;

        Visible visible(p, s);
        Biases<T> biases(p);
        uint32_t last = min_of(first + QUERIES, s.queries) - 1;
        int32_t begin = visible.begin(first) / S::KEYS * S::KEYS, end = visible.end(last);
        // Tiles of which each of this wavefront's queries sees all.
        int32_t inner_begin = visible.begin(my_first + WAVE_QUERIES - 1), inner_end = visible.end(my_first);

        Rows<T> keys(p, s, p.k), values(p, s, p.v);
        values.base += column;
        auto key_page = [](auto &problem) INLINED {
            return problem.k.batch;
        };
        auto value_page = [](auto &problem) INLINED {
            return problem.v.batch;
        };
        Keys key_tile(p.dim);
        Values value_tile(p.dim - column);
        QueryFragments queries;
        Held held(biases.factor());
        Outputs results = {};

        if (begin < end) {
            const T *rows = s.rows<T>(p.q, p.starts_q, s.head, s.first_query);
            auto query = [&](uint32_t row) INLINED {
                return rows + (uint64_t)min_of(first + row, s.queries - 1) * p.q.row;
            };
            Base::load_queries(queries, query, p.dim, lds + (S::QUERIES_IN_LDS ? QUERIES_AT : 0), wave, lane);
            key_tile.into(lds), value_tile.into(lds + VALUES_AT);
            keys.template load<S::KEYS>(key_tile, (uint32_t)begin, key_page);
            if constexpr (Keys::DIRECT) {
                Base::settle_copies();
            } else {
                key_tile.stage(lds);
                lds_barrier();
            }
#pragma unroll 1
            for (int32_t at = begin; at < end; at += S::KEYS) {
                values.template load<S::KEYS>(value_tile, (uint32_t)at, value_page);
                opt_barrier_schedule();
                Base::multiply_keys(held.block, queries, lds, lds + QUERIES_AT, wave, lane, [](int) {});
                if constexpr (Keys::DIRECT) {
                    Base::settle_copies();
                    keys.template load<S::KEYS>(key_tile, (uint32_t)at + S::KEYS, key_page);
                }
                if (biases.any) biases.apply(held, my_first, (uint32_t)at, s);
                if (at < inner_begin || at + S::KEYS > inner_end) Visible(cold_path(p), s).hide(held, my_first, at);
                held.exponentiate([&](float(&by)[Held::N]) INLINED { Base::rescale(results, by); });
                opt_barrier_schedule();
                if constexpr (!Keys::DIRECT) {
                    value_tile.stage(lds + VALUES_AT);
                    keys.template load<S::KEYS>(key_tile, (uint32_t)at + S::KEYS, key_page);
                    opt_barrier_schedule();
                    lds_barrier();
                }
                Base::multiply_values(results, held.block, lds + VALUES_AT, weights, lane);
                opt_barrier_schedule();
                if constexpr (Keys::DIRECT) {
                    Base::settle_copies();
                } else {
                    key_tile.stage(lds);
                    lds_barrier();
                }
            }
        }
        store(p, s, results, held, lds + wave * Base::RESULT_BYTES, my_first, column, head_tile == 0, lane);
    }

    static __device__ __forceinline__ void store(const AttentionProblem &p, const Sequence &s, Outputs &results,
                                                 Held &held, LdsBytes lds, uint32_t first, uint32_t column,
                                                 bool with_lse, uint32_t lane) {
        float by[Held::N];
#pragma unroll
        for (int n = 0; n < Held::N; n++) {
            float sum = Atom::all_reduce(held.sums[n].x + held.sums[n].y, Sum());
            by[n] = sum == 0 ? 0.0f : 1.0f / sum;
            uint32_t query = first + held.query(n);
            if (p.lse && with_lse && query < s.queries) {
                uint64_t row = p.starts_q ? s.first_query + query : s.batch * p.lse_batch + query;
                p.lse[row + s.head * p.lse_head] =
                    sum == 0 ? -INFINITY : (held.largest[n] * held.factor + math::fast_log2(sum)) * attention::LN_2;
            }
        }
        Base::rescale(results, by);
        Base::store((T *)s.rows<T>(p.out, p.starts_q, s.head, s.first_query), p.out.row, s.queries, p.dim, results, lds,
                    first, column, lane);
    }
};

} // namespace attention
