// Attention without a matrix of scores in memory: a workgroup has a tile of queries, and passes over the keys.
//
//   for each tile of keys that any of its queries sees:
//     load     its values, global -> registers
//     scores   keys * queries; hide what is not seen; weights = 2^(scores - the largest so far)
//     stage    the values, turned over, registers -> LDS
//     load     the next tile's keys, global -> registers
//     results  scaled anew if the largest has grown much; + values * weights
//     stage    those keys, registers -> LDS
//
// What is loaded is on its way during a whole product each, and takes the same registers in turns.
#pragma once
#include "attention/softmax.cuh"

// DIM elements of a head at most, ELEMENTS of which a workgroup makes; tiles of KEYS keys; WAVES wavefronts with
// QUERY_BLOCKS of the unit's blocks of queries each, which they keep in registers or in LDS.
template <int DIM_, int ELEMENTS_, int KEYS_, int WAVES_, int QUERY_BLOCKS_, bool QUERIES_IN_LDS_>
struct AttentionShape {
    static constexpr int DIM = DIM_, ELEMENTS = ELEMENTS_, KEYS = KEYS_, WAVES = WAVES_, QUERY_BLOCKS = QUERY_BLOCKS_;
    static constexpr int WAVE = WAVEFRONT, THREADS = WAVES * WAVE, CHUNKS = DIM / 8, PARTS = DIM / ELEMENTS;
    static constexpr bool QUERIES_IN_LDS = QUERIES_IN_LDS_;
};

template <class T, class S> struct Forward {
    using Unit = AttentionUnit<T>;
    using Matrix = typename Unit::Unit;
    using Fragment = typename Unit::Fragment;
    static constexpr int QB = S::QUERY_BLOCKS, WAVE_QUERIES = QB * Unit::QUERIES, QUERIES = WAVE_QUERIES * S::WAVES;
    static constexpr int KB = S::KEYS / Unit::OTHERS, EB = S::ELEMENTS / Unit::OTHERS;
    static constexpr int STEPS = S::CHUNKS / Matrix::STEP_CHUNKS, VALUE_STEPS = S::KEYS / 8 / Matrix::STEP_CHUNKS;
    using Keys = CopiedTile<T, S::KEYS, S::CHUNKS, S::THREADS>;
    using Queries = CopiedTile<T, QUERIES, S::CHUNKS, S::THREADS>;
    using Values = ValueTile<T, S::KEYS, S::ELEMENTS, S::THREADS>;
    using Held = ::Scores<T, KB, QB>;
    // Blocks of a result's elements whose values are read at once.
    static constexpr int FRAGMENT_WORDS = (int)sizeof(Fragment) / 4, GROUP = min_of(EB, 16 / FRAGMENT_WORDS);
    static_assert(EB % GROUP == 0, "whole groups");

    // Whether the next fragments of keys are on their way while some are multiplied.
    static constexpr bool READ_AHEAD = S::WAVE == 64 && !S::QUERIES_IN_LDS;

    // LDS: keys, values, then what stays there. The queries on their way to registers and the results on theirs to
    // memory have the place of keys and values.
    static constexpr int PIECE = S::ELEMENTS % 64 == 0 ? 64 : 32, PITCH = PIECE + 8;
    static constexpr int WEIGHTS_PITCH = S::KEYS / 2 + (S::KEYS > 16 ? 8 : 0);
    static constexpr int WEIGHTS_BYTES = Unit::WEIGHTS_IN_LDS ? WAVE_QUERIES * WEIGHTS_PITCH * 4 : 0;
    static constexpr int RESULT_BYTES = WAVE_QUERIES * PITCH * 2;
    static constexpr int VALUES_AT = Keys::Layout::BYTES;
    static constexpr int PASSING = max_of(max_of(VALUES_AT + Values::BYTES, RESULT_BYTES *S::WAVES),
                                          Unit::LANE_READS || S::QUERIES_IN_LDS ? 0 : Queries::Layout::BYTES);
    static constexpr int WEIGHTS_AT = (PASSING + 127) / 128 * 128;
    static constexpr int QUERIES_AT = WEIGHTS_AT + WEIGHTS_BYTES * S::WAVES;
    static constexpr int LDS_BYTES = QUERIES_AT + (S::QUERIES_IN_LDS ? Queries::Layout::BYTES : 0);
    static_assert(LDS_BYTES <= LDS_MOST, "what a workgroup may have");

    // A wavefront's queries, as the unit takes them.
    struct QueryFragments {
        Fragment fragment[S::QUERIES_IN_LDS ? 1 : STEPS][QB];
    };

    static __device__ __forceinline__ void run(const AttentionProblem &p) {
        __shared__ char lds_array[LDS_BYTES] __attribute__((aligned(128)));
        LdsBytes lds = (LdsBytes)lds_array;
        Sequence s(p);
        // The last tile first: where queries see what is before them, it has most to do.
        uint32_t tile = gridDim.y - 1 - blockIdx.y, part = S::PARTS == 1 ? 0 : tile % S::PARTS;
        uint32_t first = tile / S::PARTS * QUERIES, column = part * S::ELEMENTS;
        if (first >= s.queries || column >= p.dim) return;
        uint32_t wave = uniform(threadIdx.x / S::WAVE), lane = lane_id();
        uint32_t my_first = first + wave * WAVE_QUERIES;

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
        typename Unit::Sums results[QB][EB] = {};

        if (begin < end) {
            load_queries(queries, p, s, lds, first, wave, lane);
            keys.template load<S::KEYS>(key_tile, (uint32_t)begin, key_page);
            key_tile.stage(lds);
            lds_barrier();
#pragma unroll 1
            for (int32_t at = begin; at < end; at += S::KEYS) {
                values.template load<S::KEYS>(value_tile, (uint32_t)at, value_page);
                in_order();
                multiply_keys(held, queries, lds, wave, lane);
                if (biases.any) biases.apply(held, my_first, (uint32_t)at, s);
                if (at < inner_begin || at + S::KEYS > inner_end) hide(held, Visible(seldom(p), s), my_first, at);
                held.exponentiate([&](float(&by)[Held::N]) INLINED { rescale(results, by); });
                in_order();
                value_tile.stage(lds + VALUES_AT);
                keys.template load<S::KEYS>(key_tile, (uint32_t)at + S::KEYS, key_page);
                in_order();
                lds_barrier();
                multiply_values(results, held, lds, wave, lane);
                in_order();
                key_tile.stage(lds);
                lds_barrier();
            }
        }
        store(p, s, results, held, lds + wave * RESULT_BYTES, my_first, column, part == 0, lane);
    }

    static __device__ __forceinline__ void load_queries(QueryFragments &to, const AttentionProblem &p,
                                                        const Sequence &s, LdsBytes lds, uint32_t first, uint32_t wave,
                                                        uint32_t lane) {
        const T *rows = s.rows<T>(p.q, p.starts_q, s.head, s.first_query);
        auto at = [&](uint32_t row) INLINED {
            return rows + (uint64_t)min_of(first + row, s.queries - 1) * p.q.row;
        };
        if constexpr (Unit::LANE_READS && !S::QUERIES_IN_LDS) {
            typedef typename Fragment::Words Words;
#pragma unroll
            for (int q = 0; q < QB; q++) {
                const T *from = at(wave * WAVE_QUERIES + q * Unit::QUERIES + Unit::read_query(lane));
#pragma unroll
                for (int step = 0; step < STEPS; step++)
#pragma unroll
                    for (int c = 0; c < Matrix::CHUNKS; c++) {
                        uint32_t chunk = step * Matrix::STEP_CHUNKS + Unit::query_chunk(lane) + c;
                        Words words = Words(0u);
                        if (chunk * 8 < p.dim) words = load_vector<Words>(from, chunk * 16);
                        to.fragment[step][q].chunk[c] = words;
                    }
            }
        } else {
            LdsBytes place = lds + (S::QUERIES_IN_LDS ? QUERIES_AT : 0);
            Queries(p.dim).copy(at, place);
            lds_barrier();
            if constexpr (!S::QUERIES_IN_LDS) {
                Operand<T, typename Queries::Layout, QB, Unit::QUERIES> operand(
                    wave * WAVE_QUERIES + Unit::read_query(lane), Unit::query_chunk(lane));
#pragma unroll
                for (int step = 0; step < STEPS; step++) {
                    operand.load(place, step, 0);
#pragma unroll
                    for (int q = 0; q < QB; q++) to.fragment[step][q] = operand.fragment[q];
                }
                lds_barrier();
            }
        }
    }

    static __device__ __forceinline__ void multiply_keys(Held &held, const QueryFragments &queries, LdsBytes lds,
                                                         uint32_t wave, uint32_t lane) {
        Operand<T, typename Keys::Layout, KB, Unit::OTHERS> keys[2] = {
            {Unit::read_other(lane), Unit::other_chunk(lane)}, {Unit::read_other(lane), Unit::other_chunk(lane)}};
        Operand<T, typename Queries::Layout, QB, Unit::QUERIES> from_lds(wave * WAVE_QUERIES + Unit::read_query(lane),
                                                                         Unit::query_chunk(lane));
#pragma unroll
        for (int q = 0; q < QB; q++)
#pragma unroll
            for (int k = 0; k < KB; k++) held.block[q][k] = {};
        auto multiply = [&](const auto &keys, int step) INLINED {
#pragma unroll
            for (int part = 0; part < Matrix::PARTS; part++)
#pragma unroll
                for (int q = 0; q < QB; q++)
#pragma unroll
                    for (int k = 0; k < KB; k++)
                        Unit::multiply(held.block[q][k], keys.fragment[k],
                                       S::QUERIES_IN_LDS ? from_lds.fragment[q]
                                                         : queries.fragment[S::QUERIES_IN_LDS ? 0 : step][q],
                                       part);
        };
        if constexpr (READ_AHEAD) {
            keys[0].load(lds, 0, 0);
#pragma unroll
            for (int step = 0; step < STEPS; step++) {
                if (step + 1 < STEPS) keys[(step + 1) % 2].load(lds, step + 1, 0);
                in_order();
                multiply(keys[step % 2], step);
                in_order();
            }
        } else {
            constexpr int UNROLLED = Matrix::UNROLLED ? STEPS : 1;
#pragma unroll UNROLLED
            for (int step = 0; step < STEPS; step++)
#pragma unroll
                for (int piece = 0; piece < Matrix::PIECES; piece++) {
                    keys[0].load(lds, step, piece);
                    if (S::QUERIES_IN_LDS) from_lds.load(lds + QUERIES_AT, step, piece);
                    multiply(keys[0], step);
                    pin_blocks(held.block, 0, KB);
                }
        }
    }

    // Reading ahead further, the compiler would run out of registers. There are other wavefronts to wait with.
    template <int BLOCKS>
    static __device__ __forceinline__ void pin_blocks(typename Unit::Sums (&blocks)[QB][BLOCKS], int first, int count) {
#pragma unroll
        for (int q = 0; q < QB; q++)
#pragma unroll
            for (int b = first; b < first + count; b++) pin(blocks[q][b]);
    }

    static __device__ __forceinline__ void hide(Held &held, const Visible &visible, uint32_t first, int32_t at) {
        int32_t begin[Held::N], end[Held::N];
#pragma unroll
        for (int n = 0; n < Held::N; n++) {
            uint32_t query = first + held.query(n);
            begin[n] = visible.begin(query) - at, end[n] = visible.end(query) - at;
        }
        held.each([&](int n, uint32_t key, float score)
                      INLINED { return (int32_t)key >= begin[n] && (int32_t)key < end[n] ? score : -INFINITY; });
    }

    static __device__ __forceinline__ void rescale(typename Unit::Sums (&results)[QB][EB], const float (&by)[Held::N]) {
#pragma unroll
        for (int q = 0; q < QB; q++)
#pragma unroll
            for (int e = 0; e < EB; e++)
#pragma unroll
                for (int i = 0; i < Matrix::SUMS; i++)
                    set_sum<Matrix>(
                        results[q][e], i,
                        sum_of<Matrix>(results[q][e], i) * by[q * Unit::LANE_QUERIES + Unit::query_number(i)]);
    }

    static __device__ __forceinline__ void multiply_values(typename Unit::Sums (&results)[QB][EB], const Held &held,
                                                           LdsBytes lds, uint32_t wave, uint32_t lane) {
        using Slice = typename Values::Slice;
        constexpr int UNROLLED = Matrix::UNROLLED ? VALUE_STEPS : 1,
                      SLICE_STEPS = Values::SLICE_CHUNKS / Matrix::STEP_CHUNKS;
        Operand<T, Slice, GROUP, Unit::OTHERS> values(Unit::read_other(lane), Unit::other_chunk(lane));
        LDS_MEMORY uint32_t *weights = (LDS_MEMORY uint32_t *)(lds + WEIGHTS_AT + wave * WEIGHTS_BYTES);
        if constexpr (Unit::WEIGHTS_IN_LDS) {
#pragma unroll
            for (int q = 0; q < QB; q++)
#pragma unroll
                for (int k = 0; k < KB; k += 2)
                    weights[(q * Unit::QUERIES + Unit::query(lane, 0)) * WEIGHTS_PITCH + k * 4 + lane % 8] =
                        weights_word<T>(held.block[q][k], held.block[q][k + 1]);
            wave_fence();
        }
#pragma unroll UNROLLED
        for (int step = 0; step < VALUE_STEPS; step++) {
            LdsBytes slice = lds + VALUES_AT + step / SLICE_STEPS * Slice::BYTES;
#pragma unroll
            for (int piece = 0; piece < Matrix::PIECES; piece++) {
                Fragment of_queries[QB];
#pragma unroll
                for (int q = 0; q < QB; q++) {
                    if constexpr (Unit::WEIGHTS_IN_LDS)
                        of_queries[q].chunk[0] = lds_load<typename Fragment::Words>(
                            (LdsBytes)(weights + (q * Unit::QUERIES + Unit::query(lane, 0)) * WEIGHTS_PITCH + step * 4 +
                                       piece * 2));
                    else Unit::weights(of_queries[q], held.block[q], step, lane);
                }
#pragma unroll
                for (int group = 0; group < EB; group += GROUP) {
                    values.load(slice + Slice::position(group * Unit::OTHERS) * 16, step % SLICE_STEPS, piece);
#pragma unroll
                    for (int part = 0; part < Matrix::PARTS; part++)
#pragma unroll
                        for (int q = 0; q < QB; q++)
#pragma unroll
                            for (int e = 0; e < GROUP; e++)
                                Unit::multiply(results[q][group + e], values.fragment[e], of_queries[q], part);
                    if (!READ_AHEAD) pin_blocks(results, group, GROUP);
                }
            }
        }
        if constexpr (Unit::WEIGHTS_IN_LDS) wave_fence();
    }

    // By pieces of PIECE elements through LDS, so that a lane has 16 bytes of a row and its neighbours the others.
    static __device__ __forceinline__ void store(const AttentionProblem &p, const Sequence &s,
                                                 typename Unit::Sums (&results)[QB][EB], Held &held, LdsBytes lds,
                                                 uint32_t first, uint32_t column, bool with_lse, uint32_t lane) {
        float by[Held::N];
#pragma unroll
        for (int n = 0; n < Held::N; n++) {
            float sum = Unit::all_reduce(held.sums[n].x + held.sums[n].y, Sum());
            by[n] = sum == 0 ? 0.0f : 1.0f / sum;
            uint32_t query = first + held.query(n);
            if (p.lse && with_lse && query < s.queries) {
                uint64_t row = p.starts_q ? s.first_query + query : s.batch * p.lse_batch + query;
                p.lse[row + s.head * p.lse_head] =
                    sum == 0 ? -INFINITY : (held.largest[n] * held.factor + math::fast_log2(sum)) * attention::LN_2;
            }
        }
        rescale(results, by);
        T *rows = (T *)s.rows<T>(p.out, p.starts_q, s.head, s.first_query);
        LDS_MEMORY uint16_t *strip = (LDS_MEMORY uint16_t *)lds;
        constexpr int BLOCKS = PIECE / Unit::OTHERS, VECTORS = PIECE / 8;
#pragma unroll
        for (int piece = 0; piece < S::ELEMENTS / PIECE; piece++) {
#pragma unroll
            for (int q = 0; q < QB; q++)
#pragma unroll
                for (int e = 0; e < BLOCKS; e++)
#pragma unroll
                    for (int i = 0; i < Matrix::SUMS; i++)
                        strip[held.query(q * Unit::LANE_QUERIES + Unit::query_number(i)) * PITCH + e * Unit::OTHERS +
                              Unit::other(lane, i)] =
                            bit_cast<uint16_t>(narrow<T>(sum_of<Matrix>(results[q][piece * BLOCKS + e], i)));
            wave_fence();
#pragma unroll 1
            for (uint32_t i = lane; i < WAVE_QUERIES * VECTORS; i += S::WAVE) {
                uint32_t query = i / VECTORS, element = i % VECTORS * 8, at = column + piece * PIECE + element;
                if (first + query >= s.queries || at >= p.dim) continue;
                store_vector(
                    rows + (uint64_t)(first + query) * p.out.row + at,
                    bit_cast<vec<T, 8>>(lds_load<WordVector<4>::type>((LdsBytes)(strip + query * PITCH + element))));
            }
            wave_fence();
        }
    }
};
