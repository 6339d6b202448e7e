// What attention's passes are made of: a wavefront's own rows, which are the atom's columns, times a tile of others;
// and those others, transposed, times what was made of the first product.
//
// Forward, a workgroup's own rows are queries and it passes over keys. Its pass for the gradients of keys has them the
// other way round: where this says query, that is a key, and a query where it says key or value.
#pragma once
#include "attention/softmax.cuh"

namespace attention {

// DIM elements of a head at most, ELEMENTS of which a workgroup makes; tiles of KEYS keys; WAVES wavefronts with
// QUERY_BLOCKS of the atom's blocks of queries each, which they keep in registers or in LDS; and the KiB of LDS that a
// launch asks for, where a kernel has none of its own.
template <int DIM_, int ELEMENTS_, int KEYS_, int WAVES_, int QUERY_BLOCKS_, bool QUERIES_IN_LDS_, int LDS_KIB_ = 0>
struct AttentionShape {
    static constexpr int DIM = DIM_, ELEMENTS = ELEMENTS_, KEYS = KEYS_, WAVES = WAVES_, QUERY_BLOCKS = QUERY_BLOCKS_;
    static constexpr int WAVE = WAVEFRONT, THREADS = WAVES * WAVE, CHUNKS = DIM / 8, HEAD_TILES = DIM / ELEMENTS;
    static constexpr bool QUERIES_IN_LDS = QUERIES_IN_LDS_;
    static constexpr int LDS_KIB = LDS_KIB_;
};

// The shape of a row of attention_kernels.cuh, where a wavefront has so many rows of its own.
enum class OwnRows { Registers, Lds };
template <int DIM, int MADE, int OTHERS, int ROWS, int WAVES, OwnRows OWN, int LDS_KIB>
using ListedShape =
    AttentionShape<DIM, MADE, OTHERS, WAVES, ROWS / AttentionAtom<half_t>::QUERIES, OWN == OwnRows::Lds, LDS_KIB>;

// PREFETCH_FRAGMENTS says how many fragments are on their way while others are multiplied, where registers are left for
// them.
template <class T, class S, int PREFETCH_FRAGMENTS> struct Products {
    using Atom = AttentionAtom<T>;
    using Matrix = typename Atom::Atom;
    using Fragment = typename Atom::Fragment;
    using Sums = typename Atom::Sums;
    static constexpr int QB = S::QUERY_BLOCKS, WAVE_QUERIES = QB * Atom::QUERIES, QUERIES = WAVE_QUERIES * S::WAVES;
    static constexpr int KB = S::KEYS / Atom::OTHERS, EB = S::ELEMENTS / Atom::OTHERS;
    static constexpr int STEPS = S::CHUNKS / Matrix::STEP_CHUNKS, VALUE_STEPS = S::KEYS / 8 / Matrix::STEP_CHUNKS;
    // What a lane's queries are counted by.
    static constexpr int N = QB * Atom::LANE_QUERIES;
#if defined(LDS_COPIES)
    using Keys = DirectTile<T, S::KEYS, S::CHUNKS, S::THREADS>;
    using Values = DirectTile<T, S::KEYS, S::ELEMENTS / 8, S::THREADS>;
#else
    using Keys = CopiedTile<T, S::KEYS, S::CHUNKS, S::THREADS>;
    using Values = ValueTile<T, S::KEYS, S::ELEMENTS, S::THREADS>;
#endif
    using Queries = CopiedTile<T, QUERIES, S::CHUNKS, S::THREADS>;
    typedef Sums Scored[QB][KB];
    typedef Sums Outputs[QB][EB];
    // Blocks of a result's elements whose values are read at once: of 32 queries' results, what few registers are left
    // for.
    static constexpr int FRAGMENT_WORDS = (int)sizeof(Fragment) / 4;
    static constexpr int GROUP = min_of(EB, (Keys::DIRECT ? 8 : 16) / FRAGMENT_WORDS);
    static_assert(EB % GROUP == 0, "whole groups");

    static constexpr int PREFETCH = S::WAVE == 32 || S::QUERIES_IN_LDS ? 0 : PREFETCH_FRAGMENTS;

    // Where BYTES of LDS are.
    template <int BYTES> static __device__ __forceinline__ LdsBytes lds_of_workgroup() {
#if defined(LDS_COPIES)
        static_assert(BYTES <= S::LDS_KIB << 10, "what a launch asks for");
        return (LdsBytes)dynamic_lds;
#else
        static_assert(BYTES <= LDS_MOST, "what a workgroup may have");
        __shared__ char lds[BYTES] __attribute__((aligned(128)));
        return (LdsBytes)lds;
#endif
    }
    // Of tiles that are copied straight to LDS: those that were asked for are there, and whatever was read is free.
    static __device__ __forceinline__ void settle_copies() {
#if defined(LDS_COPIES)
        end_copies();
        wait_for_copies<0>();
        lds_barrier();
#endif
    }

    // LDS of a wavefront, for weights on their way to the unit and for results on theirs to memory; and of all, for
    // queries on their way to registers.
    static constexpr int STRIP = S::ELEMENTS % 64 == 0 ? 64 : 32, PITCH = STRIP + 8;
    static constexpr int WEIGHTS_PITCH = S::KEYS / 2 + (S::KEYS > 16 ? 8 : 0);
    static constexpr int WEIGHTS_BYTES = Atom::WEIGHTS_IN_LDS ? WAVE_QUERIES * WEIGHTS_PITCH * 4 : 0;
    static constexpr int RESULT_BYTES = WAVE_QUERIES * PITCH * 2;
    static constexpr int LOADING_BYTES = Atom::LANE_READS || S::QUERIES_IN_LDS ? 0 : Queries::Layout::BYTES;
    static constexpr int STAYING_BYTES = S::QUERIES_IN_LDS ? Queries::Layout::BYTES : 0;

    // A wavefront's queries, as the atom takes them.
    struct QueryFragments {
        Fragment fragment[S::QUERIES_IN_LDS ? 1 : STEPS][QB];
    };

    // `at` gives the address of one of the workgroup's rows, of `dim` elements. `place` is where they stay in LDS, or
    // pass through it.
    template <class At> static __device__ __forceinline__ void load_queries(QueryFragments &to, At at, uint32_t dim,
                                                                            LdsBytes place, uint32_t wave,
                                                                            uint32_t lane) {
        if constexpr (Atom::LANE_READS && !S::QUERIES_IN_LDS) {
            typedef typename Fragment::Words Words;
#pragma unroll
            for (int q = 0; q < QB; q++) {
                const T *from = at(wave * WAVE_QUERIES + q * Atom::QUERIES + Atom::read_query(lane));
#pragma unroll
                for (int step = 0; step < STEPS; step++)
#pragma unroll
                    for (int c = 0; c < Matrix::CHUNKS; c++) {
                        uint32_t chunk = step * Matrix::STEP_CHUNKS + Atom::query_chunk(lane) + c;
                        Words words = Words(0u);
                        if (chunk * 8 < dim) words = load_vector<Words>(from, chunk * 16);
                        to.fragment[step][q].chunk[c] = words;
                    }
            }
        } else {
            Queries(dim).copy(at, place);
            lds_barrier();
            if constexpr (!S::QUERIES_IN_LDS) {
                Operand<T, typename Queries::Layout, QB, Atom::QUERIES> operand(
                    wave * WAVE_QUERIES + Atom::read_query(lane), Atom::query_chunk(lane));
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

    // Keys in LDS times the queries, which are in LDS at `place`, if not in registers. `also` is told each step before
    // its products, or the first alone, if nothing is read ahead.
    template <class F>
    static __device__ __forceinline__ void multiply_keys(Scored &to, const QueryFragments &queries, LdsBytes lds,
                                                         LdsBytes place, uint32_t wave, uint32_t lane, F also) {
        Operand<T, typename Keys::Layout, KB, Atom::OTHERS> keys(Atom::read_other(lane), Atom::other_chunk(lane));
        Operand<T, typename Queries::Layout, QB, Atom::QUERIES> from_lds(wave * WAVE_QUERIES + Atom::read_query(lane),
                                                                         Atom::query_chunk(lane));
#pragma unroll
        for (int q = 0; q < QB; q++)
#pragma unroll
            for (int k = 0; k < KB; k++) to[q][k] = {};
        auto multiply = [&](const Fragment(&keys)[KB], int step) INLINED {
#pragma unroll
            for (int instruction = 0; instruction < Matrix::INSTRUCTIONS; instruction++)
#pragma unroll
                for (int q = 0; q < QB; q++)
#pragma unroll
                    for (int k = 0; k < KB; k++)
                        Atom::multiply(to[q][k], keys[k],
                                       S::QUERIES_IN_LDS ? from_lds.fragment[q]
                                                         : queries.fragment[S::QUERIES_IN_LDS ? 0 : step][q],
                                       instruction);
        };
        if constexpr (PREFETCH > 0) {
            Fragment read[PREFETCH + 1][KB];
            auto read_step = [&](int step) INLINED {
                keys.load(lds, step, 0);
#pragma unroll
                for (int k = 0; k < KB; k++) read[step % (PREFETCH + 1)][k] = keys.fragment[k];
            };
#pragma unroll
            for (int step = 0; step < PREFETCH; step++) read_step(step);
#pragma unroll
            for (int step = 0; step < STEPS; step++) {
                if (step + PREFETCH < STEPS) read_step(step + PREFETCH);
                also(step);
                opt_barrier_schedule();
                multiply(read[step % (PREFETCH + 1)], step);
                opt_barrier_schedule();
            }
        } else {
            also(0);
            constexpr int UNROLLED = Matrix::UNROLLED ? STEPS : 1;
#pragma unroll UNROLLED
            for (int step = 0; step < STEPS; step++)
#pragma unroll
                for (int load = 0; load < Matrix::LOADS; load++) {
                    keys.load(lds, step, load);
                    if (S::QUERIES_IN_LDS) from_lds.load(place, step, load);
                    multiply(keys.fragment, step);
                    opt_barrier_blocks(to, 0, KB);
                }
        }
    }

    // Reading ahead further, the compiler would run out of registers. There are other wavefronts to wait with.
    template <int BLOCKS>
    static __device__ __forceinline__ void opt_barrier_blocks(Sums (&blocks)[QB][BLOCKS], int first, int count) {
#pragma unroll
        for (int q = 0; q < QB; q++)
#pragma unroll
            for (int b = first; b < first + count; b++) opt_barrier_ordered(blocks[q][b]);
    }

    // Weights as the atom takes them, which are half of the registers.
    struct Packed {
        Fragment step[VALUE_STEPS][QB];

        __device__ __forceinline__ Packed(const Scored &held, uint32_t lane) {
#pragma unroll
            for (int s = 0; s < VALUE_STEPS; s++)
#pragma unroll
                for (int q = 0; q < QB; q++) Atom::weights(step[s][q], held[q], s, lane);
        }
    };
    static constexpr bool PACKED = !Atom::WEIGHTS_IN_LDS && Matrix::CHUNKS == 1;
    static __device__ __forceinline__ decltype(auto) packed(const Scored &held, uint32_t lane) {
        if constexpr (PACKED) return Packed(held, lane);
        else return (held);
    }
    static __device__ __forceinline__ Fragment weights_of(const Packed &held, int q, int step, uint32_t) {
        return held.step[step][q];
    }
    static __device__ __forceinline__ Fragment weights_of(const Scored &held, int q, int step, uint32_t lane) {
        Fragment fragment;
        Atom::weights(fragment, held[q], step, lane);
        return fragment;
    }

    static __device__ __forceinline__ void rescale(Outputs &results, const float (&by)[N]) {
#pragma unroll
        for (int q = 0; q < QB; q++)
#pragma unroll
            for (int e = 0; e < EB; e++)
#pragma unroll
                for (int i = 0; i < Matrix::SUMS; i++)
                    set_sum<Matrix>(
                        results[q][e], i,
                        sum_of<Matrix>(results[q][e], i) * by[q * Atom::LANE_QUERIES + Atom::query_number(i)]);
    }

    // Adds values in LDS, transposed, from a tile's element `first` on, times weights, which pass through LDS where
    // the atom wants it.
    template <class From = Values, class Held>
    static __device__ __forceinline__ void multiply_values(Outputs &results, const Held &held, LdsBytes lds,
                                                           LdsBytes passing, uint32_t lane, int first = 0) {
        if constexpr (PREFETCH > 1) multiply_values_prefetched<From>(results, held, lds, lane, first);
        else multiply_values_unprefetched<From>(results, held, lds, passing, lane, first);
    }
    // multiply_values() with the next fragments on their way while some are multiplied.
    static constexpr int PREFETCH_GROUP = min_of(EB, 2), GROUPS = VALUE_STEPS * EB / PREFETCH_GROUP;
    template <class From, class Held>
    static __device__ __forceinline__ void multiply_values_prefetched(Outputs &results, const Held &held, LdsBytes lds,
                                                                      uint32_t lane, int first) {
        constexpr int STAGE_STEPS = From::STAGE_CHUNKS / Matrix::STEP_CHUNKS, OF_STEP = EB / PREFETCH_GROUP;
        typename From::template Read<PREFETCH_GROUP> values(Atom::read_other(lane), Atom::other_chunk(lane));
        Fragment read[2][PREFETCH_GROUP], of_queries[QB];
        auto read_group = [&](int n) INLINED {
            int step = n / OF_STEP, element = first + n % OF_STEP * PREFETCH_GROUP * Atom::OTHERS;
            values.load(From::operand_at(lds, step / STAGE_STEPS, element), step % STAGE_STEPS, 0);
#pragma unroll
            for (int e = 0; e < PREFETCH_GROUP; e++) read[n % 2][e] = values.fragment[e];
        };
        read_group(0);
#pragma unroll
        for (int n = 0; n < GROUPS; n++) {
            if (n + 1 < GROUPS) read_group(n + 1);
            opt_barrier_schedule();
#pragma unroll
            for (int q = 0; q < QB; q++)
                if (n % OF_STEP == 0) of_queries[q] = weights_of(held, q, n / OF_STEP, lane);
#pragma unroll
            for (int instruction = 0; instruction < Matrix::INSTRUCTIONS; instruction++)
#pragma unroll
                for (int q = 0; q < QB; q++)
#pragma unroll
                    for (int e = 0; e < PREFETCH_GROUP; e++)
                        Atom::multiply(results[q][n % OF_STEP * PREFETCH_GROUP + e], read[n % 2][e], of_queries[q],
                                       instruction);
            opt_barrier_schedule();
        }
    }
    template <class From, class Held>
    static __device__ __forceinline__ void multiply_values_unprefetched(Outputs &results, const Held &held,
                                                                        LdsBytes lds, LdsBytes passing, uint32_t lane,
                                                                        int first) {
        constexpr int UNROLLED = Matrix::UNROLLED ? VALUE_STEPS : 1,
                      STAGE_STEPS = From::STAGE_CHUNKS / Matrix::STEP_CHUNKS;
        typename From::template Read<GROUP> values(Atom::read_other(lane), Atom::other_chunk(lane));
        LDS_MEMORY uint32_t *weights = (LDS_MEMORY uint32_t *)passing;
        if constexpr (Atom::WEIGHTS_IN_LDS) {
#pragma unroll
            for (int q = 0; q < QB; q++)
#pragma unroll
                for (int k = 0; k < KB; k += 2)
                    weights[(q * Atom::QUERIES + Atom::query(lane, 0)) * WEIGHTS_PITCH + k * 4 + lane % 8] =
                        weights_word<T>(held[q][k], held[q][k + 1]);
            wave_fence();
        }
#pragma unroll UNROLLED
        for (int step = 0; step < VALUE_STEPS; step++) {
#pragma unroll
            for (int load = 0; load < Matrix::LOADS; load++) {
                Fragment of_queries[QB];
#pragma unroll
                for (int q = 0; q < QB; q++) {
                    if constexpr (Atom::WEIGHTS_IN_LDS)
                        of_queries[q].chunk[0] = lds_load<typename Fragment::Words>(
                            (LdsBytes)(weights + (q * Atom::QUERIES + Atom::query(lane, 0)) * WEIGHTS_PITCH + step * 4 +
                                       load * 2));
                    else of_queries[q] = weights_of(held, q, step, lane);
                }
#pragma unroll
                for (int group = 0; group < EB; group += GROUP) {
                    values.load(From::operand_at(lds, step / STAGE_STEPS, first + group * Atom::OTHERS),
                                step % STAGE_STEPS, load);
#pragma unroll
                    for (int instruction = 0; instruction < Matrix::INSTRUCTIONS; instruction++)
#pragma unroll
                        for (int q = 0; q < QB; q++)
#pragma unroll
                            for (int e = 0; e < GROUP; e++)
                                Atom::multiply(results[q][group + e], values.fragment[e], of_queries[q], instruction);
                    if (PREFETCH == 0) opt_barrier_blocks(results, group, GROUP);
                }
            }
        }
        if constexpr (Atom::WEIGHTS_IN_LDS) wave_fence();
    }

    // By strips of STRIP elements through LDS, so that a lane has 16 bytes of a row and its neighbours the others.
    // `rows` are `pitch` apart and `end` in number; the wavefront's begin with `first`, its elements, of `dim`, with
    // `column`.
    static __device__ __forceinline__ void store(T *rows, uint32_t pitch, uint32_t end, uint32_t dim,
                                                 const Outputs &results, LdsBytes lds, uint32_t first, uint32_t column,
                                                 uint32_t lane) {
        LDS_MEMORY uint16_t *strip = (LDS_MEMORY uint16_t *)lds;
        constexpr int BLOCKS = STRIP / Atom::OTHERS, VECTORS = STRIP / 8;
#pragma unroll
        for (int strip_of_head = 0; strip_of_head < S::ELEMENTS / STRIP; strip_of_head++) {
#pragma unroll
            for (int q = 0; q < QB; q++)
#pragma unroll
                for (int e = 0; e < BLOCKS; e++)
#pragma unroll
                    for (int i = 0; i < Matrix::SUMS; i++)
                        strip[(q * Atom::QUERIES + Atom::query(lane, Atom::query_number(i))) * PITCH +
                              e * Atom::OTHERS + Atom::other(lane, i)] =
                            bit_cast<uint16_t>(round_to<T>(sum_of<Matrix>(results[q][strip_of_head * BLOCKS + e], i)));
            wave_fence();
#pragma unroll 1
            for (uint32_t i = lane; i < WAVE_QUERIES * VECTORS; i += S::WAVE) {
                uint32_t query = i / VECTORS, element = i % VECTORS * 8, at = column + strip_of_head * STRIP + element;
                if (first + query >= end || at >= dim) continue;
                store_vector(
                    rows + (uint64_t)(first + query) * pitch + at,
                    bit_cast<vec<T, 8>>(lds_load<WordVector<4>::type>((LdsBytes)(strip + query * PITCH + element))));
            }
            wave_fence();
        }
    }
};

} // namespace attention
