// A workgroup's split of the keys for some queries, which read the same keys: groups of lanes hold a row each.
//
// Registers: lane l of a group of TEAM lanes holds the elements (e * TEAM + l) * 8 .. + 7 of a row, for each of EACH e,
// of KEYS keys and their values, of all queries, and of the results.
//
//   a row, in eights of elements:   | lane 0 | lane 1 | ... | lane TEAM - 1 | lane 0 | lane 1 | ...
//                                   |------------- e = 0 ---------------- |----- e = 1 ---- ...
//
// LDS: the step's queries, its own key and value, and then what wavefronts merge.
#pragma once
#include "attention/atom.cuh"

namespace attention {

// What a cache of C keeps of a number that came in as T. Where that narrows, what is beyond C's range becomes its
// largest number of that sign, not an infinity, of which all later results would be NaN; NaN stays.
template <class C, class T> __device__ __forceinline__ C kept(float x) {
    if constexpr (sizeof(C) < sizeof(T)) {
        constexpr float MOST = is_same<C, bf16_t>::value ? 0x1.fep127f : 65504;
        x = math::abs(x) > MOST ? math::copysign(MOST, x) : x;
    }
    return round_to<C>(x);
}

// Eight elements of a row as they are loaded.
template <class T> struct Eight {
    static constexpr int WORDS = sizeof(T) * 8 / 4;
    vec<uint32_t, 4> words[WORDS / 4];
    __device__ __forceinline__ void read(const T *from) {
#pragma unroll
        for (int n = 0; n < WORDS / 4; n++) words[n] = read_global<vec<uint32_t, 4>>(from + n * VEC16<T>);
    }
    __device__ __forceinline__ void read_lds(const T *from) {
#pragma unroll
        for (int n = 0; n < WORDS / 4; n++) words[n] = *(const vec<uint32_t, 4> *)(from + n * VEC16<T>);
    }
    __device__ __forceinline__ void clear() {
#pragma unroll
        for (auto &four : words)
#pragma unroll
            for (int n = 0; n < 4; n++) four[n] = 0;
    }
    __device__ __forceinline__ float operator[](int k) const {
        if constexpr (sizeof(T) == 4) {
            return bit_cast<float>(words[k / 4][k % 4]);
        } else {
            uint32_t word = words[0][k / 2];
            return upcast(bit_cast<T>((uint16_t)(k % 2 ? word >> 16 : word)));
        }
    }
};

// A number that all lanes read, and nothing in the launch writes: by the scalar unit.
__device__ __forceinline__ float read_uniform(const float *from) {
#if defined(__HIP__)
    return *(const __attribute__((address_space(4))) float *)from;
#else
    return read_global<float>(from);
#endif
}

// What is done to scores. They and the cap are times log2(e), since exponents are to base 2; ALiBi's slopes are not.
struct Scores {
    float softcap;
    const float *slopes;

    // Whether products are not the scores.
    __device__ __forceinline__ bool changes() const { return softcap != 0 || slopes != nullptr; }
    // The score of key `key` with query `head` of `heads`, of their product; `last` is the query's own.
    __device__ __forceinline__ float of(float product, uint32_t head, uint32_t heads, uint32_t key,
                                        uint32_t last) const {
        if (softcap != 0) product = softcap * math::tanh(product / softcap);
        // The distance from the query to the key.
        if (slopes != nullptr && head < heads)
            product -= attention::LOG2_E * read_uniform(slopes + head) * (float)(last - min_of(key, last));
        return product;
    }
};

using Four = vec<float, 4>;

// Splits of a head's result at most.
static constexpr uint32_t MAX_SPLITS = 256;

// A workgroup's split of the keys for HEADS queries, which read the same keys. A group of lanes holds a row of DIM
// elements, EACH eights a lane; groups take KEYS rows in turn, and the next are on their way while these are used,
// where PREFETCH says so.
template <class T, int DIM, int HEADS> struct Attend {
    static constexpr int THREADS = 256, EACH = DIM > 256 ? 2 : 1, ROW_LANES = DIM / 8 / EACH;
    static constexpr int KEYS = EACH * sizeof(T) > 2 ? 1 : 2;
    static constexpr int ROW_GROUPS = THREADS / ROW_LANES, WAVES = THREADS / WAVEFRONT, OWN = 8 * EACH;
    static constexpr bool PREFETCH = true;
#if defined(__HIP__)
    static constexpr int RESIDENT = 1;
#else
    // Workgroups that a multiprocessor has registers for: timed on an H200.
    static constexpr int RESIDENT = DIM <= 128 ? 2 : 1;
#endif

    struct Lds {
        // The step's queries, and its own key and value.
        alignas(16) T heads[HEADS + 2][DIM];
        union {
            struct {
                float top[HEADS][WAVES], sum[HEADS][WAVES];
                // A little further apart than their lengths, for lanes that write heads at once.
                alignas(16) float rows[HEADS][WAVES * DIM + 16];
            };
            float share[HEADS][MAX_SPLITS];
        };
        int32_t ended;
    };

    // Where a lane's eights begin in a row, and whether the row reaches so far.
    uint32_t lane, row_group, dim;
    float query[HEADS][OWN], sums[HEADS][OWN], top[HEADS], sum[HEADS];
    // Rows of keys and values.
    struct Rows {
        Eight<T> k[KEYS][EACH], v[KEYS][EACH];
    };

    __device__ __forceinline__ Attend(uint32_t dim)
        : lane(threadIdx.x % ROW_LANES), row_group(threadIdx.x / ROW_LANES), dim(dim) {}

    __device__ __forceinline__ uint32_t begin(int e) const { return (e * ROW_LANES + lane) * 8; }

    // Of the queries in LDS; those that there are not are zeros.
    __device__ __forceinline__ void start(const Lds &lds, uint32_t heads, float scale) {
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                Eight<T> x;
                x.clear();
                if (h < (int)heads && begin(e) < dim) x.read_lds(lds.heads[h] + begin(e));
#pragma unroll
                for (int k = 0; k < 8; k++) query[h][e * 8 + k] = x[k] * scale;
            }
#pragma unroll
            for (int k = 0; k < OWN; k++) sums[h][k] = 0;
            top[h] = -INFINITY;
            sum[h] = 0;
        }
    }

    // KEYS rows from `key` on, of those that lie in the cache, below `end`, or the last of these: never behind a
    // branch, after which the compiler waits for all that was asked for.
    __device__ __forceinline__ void load_keys(Rows &rows, const T *keys, uint32_t key, uint32_t end) const {
        load_rows(rows.k, keys, key, end);
        if (dim == DIM) return;
#pragma unroll
        for (int n = 0; n < KEYS; n++)
#pragma unroll
            for (int e = 0; e < EACH; e++)
                if (begin(e) >= dim) rows.k[n][e].clear();
    }
    __device__ __forceinline__ void load_values(Rows &rows, const T *values, uint32_t key, uint32_t end) const {
        load_rows(rows.v, values, key, end);
    }
    __device__ __forceinline__ void load_rows(Eight<T> (&to)[KEYS][EACH], const T *from, uint32_t key,
                                              uint32_t end) const {
#pragma unroll
        for (int n = 0; n < KEYS; n++) {
            const T *row = from + (size_t)min_of(key + n, end - 1) * dim;
#pragma unroll
            for (int e = 0; e < EACH; e++) to[n][e].read(row + min_of(begin(e), dim - 8));
        }
    }

    // What was loaded, of which rows from `end` on do not count. `own`, the last, is in LDS, and stands for those as
    // well: what was loaded for them may be no number. When keys are done with, keys_used().
    template <class F>
    __device__ __forceinline__ void step(Rows &rows, const Lds &lds, uint32_t key, uint32_t own, uint32_t end,
                                         uint32_t last, uint32_t heads, const Scores &how, F keys_used) {
        auto &[k, v] = rows;
#pragma unroll
        for (int n = 0; n < KEYS; n++) {
            if (key + n < own) continue;
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                if (begin(e) >= dim) continue;
                k[n][e].read_lds(lds.heads[HEADS] + begin(e));
                v[n][e].read_lds(lds.heads[HEADS + 1] + begin(e));
            }
        }
        float score[HEADS][KEYS], most[HEADS];
        bool exceeds = false;
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
#pragma unroll
            for (int n = 0; n < KEYS; n++) {
                float dot = 0;
#pragma unroll
                for (int e = 0; e < EACH; e++)
#pragma unroll
                    for (int i = 0; i < 8; i++) dot = math::fma(k[n][e][i], query[h][e * 8 + i], dot);
                score[h][n] = wave_all_reduce(dot, ROW_LANES, Sum{});
            }
        }
        keys_used();
        if (how.changes()) {
#pragma unroll
            for (int h = 0; h < HEADS; h++)
#pragma unroll
                for (int n = 0; n < KEYS; n++) score[h][n] = how.of(score[h][n], h, heads, key + n, last);
        }
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
            most[h] = top[h];
#pragma unroll
            for (int n = 0; n < KEYS; n++) {
                score[h][n] = key + n >= end ? -INFINITY : score[h][n];
                most[h] = math::fmax(most[h], score[h][n]);
            }
            exceeds |= most[h] > top[h] + attention::SLACK;
        }
        if (ballot(exceeds) != 0) {
#pragma unroll
            for (int h = 0; h < HEADS; h++) {
                // Before the first key this is the exponential of minus infinity.
                float fade = most[h] == -INFINITY ? 1 : math::fast_exp2(top[h] - most[h]);
                top[h] = most[h];
                sum[h] *= fade;
#pragma unroll
                for (int i = 0; i < OWN; i++) sums[h][i] *= fade;
            }
        }
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
            float by = top[h] == -INFINITY ? 0 : top[h];
#pragma unroll
            for (int n = 0; n < KEYS; n++) {
                float weight = math::fast_exp2(score[h][n] - by);
                sum[h] += weight;
#pragma unroll
                for (int i = 0; i < OWN; i++) sums[h][i] = math::fma(weight, v[n][i / 8][i % 8], sums[h][i]);
            }
        }
    }

    // Adds up COUNT values of each of a wavefront's groups. From step to step a lane keeps half as many, in the end
    // from number `first` on: what each has to move, and to store, is the least.
    template <int MASK, int COUNT>
    static __device__ __forceinline__ void add_row_groups(float *values, uint32_t &first) {
        if constexpr (MASK < WAVEFRONT) {
            bool upper = threadIdx.x & MASK;
            constexpr int HALF = COUNT / 2;
#pragma unroll
            for (int i = 0; i < HALF; i++) {
                float low = values[i], high = values[i + HALF];
                values[i] = (upper ? high : low) + shfl_xor(upper ? low : high, MASK, WAVEFRONT);
            }
            first += upper ? HALF : 0;
            add_row_groups<MASK * 2, HALF>(values, first);
        }
    }

    // What each wavefront's groups made to LDS.
    __device__ __forceinline__ void leave(Lds &lds) const {
        uint32_t wave = threadIdx.x / WAVEFRONT, in_wave = threadIdx.x % WAVEFRONT;
        auto of_wave = [](float x, auto op) INLINED {
#pragma unroll
            for (int mask = ROW_LANES; mask < WAVEFRONT; mask *= 2) x = op(x, shfl_xor(x, mask, WAVEFRONT));
            return x;
        };
        float values[HEADS * OWN];
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
            float most = of_wave(top[h], [](float a, float b) INLINED { return math::fmax(a, b); });
            // A group without keys has none of the weight.
            float share = top[h] == -INFINITY ? 0 : math::exp2(top[h] - most), all = of_wave(sum[h] * share, Sum{});
            if (in_wave == 0) {
                lds.top[h][wave] = most;
                lds.sum[h][wave] = all;
            }
#pragma unroll
            for (int i = 0; i < OWN; i++) values[h * OWN + i] = sums[h][i] * share;
        }
        uint32_t first = 0;
        add_row_groups<ROW_LANES, HEADS * OWN>(values, first);
        constexpr int LEFT = ROW_LANES < WAVEFRONT ? HEADS * OWN * ROW_LANES / WAVEFRONT : HEADS * OWN;
#pragma unroll
        for (int n = 0; n < LEFT; n++) {
            uint32_t at = first + n, i = at % OWN;
            lds.rows[at / OWN][wave * DIM + (i / 8 * ROW_LANES + lane) * 8 + i % 8] = values[n];
        }
    }

    // Puts the wavefronts' sums together: a head's `dim` numbers go to put(head, place, four numbers), and the
    // logarithm to base 2 of the sum of its weights to close(head, logarithm), minus infinity where there were no keys.
    template <class Put, class Close> __device__ __forceinline__ void merge_waves(Lds &lds, Put put,
                                                                                  Close close) const {
        merge_placed(lds, [](uint32_t at) INLINED { return at; }, put, close);
    }
    // merge_waves() where element `at` of a row, and the three after it, are at place(at).
    template <class Address, class Put, class Close>
    __device__ __forceinline__ void merge_placed(Lds &lds, Address place, Put put, Close close) const {
        __syncthreads();
        for (uint32_t i = threadIdx.x * 4; i < HEADS * DIM; i += THREADS * 4) {
            uint32_t h = i / DIM, at = i % DIM;
            float most = -INFINITY, all = 0;
            Four x{};
#pragma unroll
            for (int w = 0; w < WAVES; w++) most = math::fmax(most, lds.top[h][w]);
#pragma unroll
            for (int w = 0; w < WAVES; w++) {
                float share = lds.top[h][w] == -INFINITY ? 0 : math::fast_exp2(lds.top[h][w] - most);
                all = math::fma(lds.sum[h][w], share, all);
                Four row = *(const Four *)&lds.rows[h][w * DIM + place(at)];
#pragma unroll
                for (int k = 0; k < 4; k++) x[k] = math::fma(row[k], share, x[k]);
            }
            float inverse = all == 0 ? 0 : 1 / all;
#pragma unroll
            for (int k = 0; k < 4; k++) x[k] *= inverse;
            if (at < dim) put(h, at, x);
            if (at == 0) close(h, all == 0 ? -INFINITY : most + math::log2(all));
        }
    }
};

} // namespace attention
