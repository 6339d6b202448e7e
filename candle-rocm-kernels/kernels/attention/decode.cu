// One query of each sequence, or few, against a long cache of keys and values: the attention of decoding.
//
// `rope_cache` turns a step's queries and keys by their positions and puts keys and values into the cache; `attend`
// reads the cache, whose keys workgroups share in parts; `merge` puts the parts together. Of one step `attend` can do
// all three: it norms and turns its queries itself, the workgroup of the last keys does so with the new one and keeps
// it, and the workgroup that ends last merges. Where a sequence is, a number in the GPU's memory says, so that a
// captured step is right wherever it is run.
//
// The cache is (2, batch, kv_heads, capacity, dim), keys before values; queries and results are (batch, steps, heads,
// dim). Step s of a sequence at `position` sees the keys 0 to position + s, or the last `window` of these.
#include "attention/unit.cuh"
#include "portable/block_reduce.cuh"
#include "portable/handover.cuh"
#include "quantized/vectors.cuh"
#include "rows/rows.cuh"

// ------------------------------------------------------------------ rope_cache

struct Heads {
    uint32_t queries, keys, dim;
    __device__ __forceinline__ uint32_t all() const { return queries + 2 * keys; }
};

// Turns VEC pairs (x, y) by the angles given as cosines and sines.
template <int VEC, class T>
__device__ __forceinline__ void turn(vec<T, VEC> &x, vec<T, VEC> &y, const T *cos, const T *sin) {
    auto c = read_global<vec<T, VEC>>(cos), s = read_global<vec<T, VEC>>(sin);
#pragma unroll
    for (int k = 0; k < VEC; k++) {
        float a = widen(x[k]), b = widen(y[k]), by = widen(c[k]), up = widen(s[k]);
        x[k] = narrow<T>(a * by - b * up);
        y[k] = narrow<T>(a * up + b * by);
    }
}

// Pairs are VEC neighbours and those dim / 2 further, or, INTERLEAVED, elements 2i and 2i + 1.
template <int VEC, bool INTERLEAVED, class T>
__device__ __forceinline__ void turn_head(const T *src, T *dst, uint32_t at, uint32_t half, const T *cos,
                                          const T *sin) {
    if constexpr (INTERLEAVED) {
        auto x = read_global<vec<T, VEC>>(src + 2 * at), y = read_global<vec<T, VEC>>(src + 2 * at + VEC);
        vec<T, VEC> even, odd;
#pragma unroll
        for (int k = 0; k < VEC; k++) {
            even[k] = 2 * k < VEC ? x[2 * k % VEC] : y[2 * k % VEC];
            odd[k] = 2 * k + 1 < VEC ? x[(2 * k + 1) % VEC] : y[(2 * k + 1) % VEC];
        }
        if (cos != nullptr) turn<VEC>(even, odd, cos + at, sin + at);
#pragma unroll
        for (int k = 0; k < VEC; k++) {
            (2 * k < VEC ? x : y)[2 * k % VEC] = even[k];
            (2 * k + 1 < VEC ? x : y)[(2 * k + 1) % VEC] = odd[k];
        }
        store_vec(dst + 2 * at, x);
        store_vec(dst + 2 * at + VEC, y);
    } else {
        auto x = read_global<vec<T, VEC>>(src + at), y = read_global<vec<T, VEC>>(src + at + half);
        if (cos != nullptr) turn<VEC>(x, y, cos + at, sin + at);
        store_vec(dst + at, x);
        store_vec(dst + at + half, y);
    }
}

// `packed` has, for each step, the queries', the keys' and the values' heads.
template <int VEC, bool INTERLEAVED, class T>
__device__ __forceinline__ void rope_cache(const T *packed, const T *cos, const T *sin, uint32_t table,
                                           const uint32_t *position, T *queries, T *cache, uint32_t batch,
                                           uint32_t steps, Heads heads, uint32_t capacity) {
    uint32_t half = heads.dim / 2, pieces = half / VEC, all = heads.all();
    size_t end = (size_t)batch * steps * all * pieces, values = (size_t)batch * heads.keys * capacity * heads.dim;
    for (size_t i = global_thread(); i < end; i += global_threads()) {
        uint32_t in_row = (uint32_t)(i % (all * pieces)), row = (uint32_t)(i / (all * pieces));
        uint32_t head = in_row / pieces, at = in_row % pieces * VEC, sequence = row / steps;
        uint32_t place = position[sequence] + row % steps;
        const T *src = packed + ((size_t)row * all + head) * heads.dim;
        size_t angle = (size_t)min_of(place, table - 1) * half;
        if (head < heads.queries) {
            T *dst = queries + ((size_t)row * heads.queries + head) * heads.dim;
            turn_head<VEC, INTERLEAVED>(src, dst, at, half, cos + angle, sin + angle);
            continue;
        }
        // A place that the cache has not is none of its memory.
        if (place >= capacity) continue;
        uint32_t of_keys = (head - heads.queries) % heads.keys;
        bool value = head - heads.queries >= heads.keys;
        size_t dst = (((size_t)sequence * heads.keys + of_keys) * capacity + place) * heads.dim;
        turn_head<VEC, INTERLEAVED>(src, cache + dst + (value ? values : 0), at, half, value ? nullptr : cos + angle,
                                    sin + angle);
    }
}

#define ROPE_CACHE(NAME, T)                                                                                         \
    ENTRY __launch_bounds__(256) rope_cache_##NAME(                                                                 \
        const T *__restrict__ packed, const T *__restrict__ cos, const T *__restrict__ sin, uint32_t table,         \
        const uint32_t *__restrict__ position, T *__restrict__ queries, T *__restrict__ cache, uint32_t batch,      \
        uint32_t steps, uint32_t heads, uint32_t kv_heads, uint32_t dim, uint32_t capacity, uint32_t interleaved) { \
        Heads of{heads, kv_heads, dim};                                                                             \
        constexpr int VEC = VEC16<T>;                                                                               \
        bool wide = dim % (2 * VEC) == 0 && is_aligned(packed, 16) && is_aligned(queries, 16) &&                    \
                    is_aligned(cache, 16) && is_aligned(cos, 16) && is_aligned(sin, 16);                            \
        auto run = [&](auto vec, auto pairs) INLINED {                                                              \
            rope_cache<vec.value, pairs.value>(packed, cos, sin, table, position, queries, cache, batch, steps, of, \
                                               capacity);                                                           \
        };                                                                                                          \
        if (interleaved && wide) run(Constant<VEC>{}, Constant<true>{});                                            \
        else if (interleaved) run(Constant<1>{}, Constant<true>{});                                                 \
        else if (wide) run(Constant<VEC>{}, Constant<false>{});                                                     \
        else run(Constant<1>{}, Constant<false>{});                                                                 \
    }
ROPE_CACHE(f16, half_t)
ROPE_CACHE(bf16, bf16_t)
ROPE_CACHE(f32, float)

// ---------------------------------------------------------------------- attend

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
            return widen(bit_cast<T>((uint16_t)(k % 2 ? word >> 16 : word)));
        }
    }
};

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
            product -= attention::LOG2_E * slopes[head] * (float)(last - min_of(key, last));
        return product;
    }
};

using Four = vec<float, 4>;

// Parts of a head's result at most.
static constexpr uint32_t MOST_PARTS = 256;

// Where a step's heads come from: queries alone, turned already, or, with `cos`, the heads of queries, keys and values
// as a product makes them; then queries and keys may each have a norm before they are turned.
template <class T> struct Step {
    const T *heads, *cos, *sin;
    uint32_t table;
    bool interleaved;
    const T *query_norm, *key_norm;
    float epsilon;

    // Work-items that share a head: lanes of one wavefront.
    static constexpr uint32_t LANES = 32;

    // Head `from`, of `dim` elements, by its norm and with `turned` by the angles of `place`, to LDS.
    __device__ __forceinline__ void stage(const T *from, T *to, uint32_t dim, const T *norm, bool turned,
                                          uint32_t place, uint32_t lane) const {
        uint32_t half = dim / 2;
        float scale = 1;
        if (norm != nullptr) {
            float sum = 0;
            for (uint32_t i = lane; i < dim; i += LANES) {
                float x = widen(read_global<T>(from + i));
                sum = math::fma(x, x, sum);
            }
            scale = norm_scale(wave_all_reduce(sum, LANES, Sum{}), dim, epsilon);
        }
        auto element = [&](uint32_t at) INLINED {
            T x = read_global<T>(from + at);
            return norm == nullptr ? x : narrow<T>(widen(x) * scale * widen(read_global<T>(norm + at)));
        };
        for (uint32_t i = lane; i < half; i += LANES) {
            uint32_t first = interleaved ? 2 * i : i, second = interleaved ? first + 1 : i + half;
            vec<T, 1> x{element(first)}, y{element(second)};
            if (turned) {
                size_t angle = (size_t)min_of(place, table - 1) * half + i;
                turn<1>(x, y, cos + angle, sin + angle);
            }
            to[first] = x[0];
            to[second] = y[0];
        }
    }
};

// A workgroup's part of the keys for HEADS queries, which read the same keys. A team of lanes holds a row of DIM
// elements, EACH eights a lane; teams take KEYS rows in turn, and the next are on their way while these are used, where
// AHEAD says so.
template <class T, int DIM, int HEADS> struct Attend {
    static constexpr int THREADS = 256, EACH = DIM > 256 ? 2 : 1, TEAM = DIM / 8 / EACH;
    static constexpr int KEYS = EACH * sizeof(T) > 2 ? 1 : 2;
    static constexpr int TEAMS = THREADS / TEAM, WAVES = THREADS / WAVEFRONT, OWN = 8 * EACH;
    static constexpr bool AHEAD = true;
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
                alignas(16) float rows[HEADS][WAVES][DIM];
            };
            float share[HEADS][MOST_PARTS];
        };
        int32_t ended;
    };

    // Where a lane's eights begin in a row, and whether the row reaches so far.
    uint32_t lane, team, dim;
    float query[HEADS][OWN], sums[HEADS][OWN], top[HEADS], sum[HEADS];
    // Rows of keys and values.
    struct Rows {
        Eight<T> k[KEYS][EACH], v[KEYS][EACH];
    };

    __device__ __forceinline__ Attend(uint32_t dim) : lane(threadIdx.x % TEAM), team(threadIdx.x / TEAM), dim(dim) {}

    __device__ __forceinline__ uint32_t begin(int e) const { return (e * TEAM + lane) * 8; }

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

    // KEYS rows from `key` on, of those that lie in the cache, below `end`, or the last of these.
    __device__ __forceinline__ void load(Rows &rows, const T *keys, const T *values, uint32_t key, uint32_t end) const {
        auto &[k, v] = rows;
#pragma unroll
        for (int n = 0; n < KEYS; n++) {
            size_t row = (size_t)min_of(key + n, end - 1) * dim;
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                k[n][e].clear();
                v[n][e].clear();
                if (begin(e) < dim && end != 0) {
                    k[n][e].read(keys + row + begin(e));
                    v[n][e].read(values + row + begin(e));
                }
            }
        }
    }

    // What was loaded, of which rows from `end` on do not count. `own` is in LDS.
    __device__ __forceinline__ void step(Rows &rows, const Lds &lds, uint32_t key, uint32_t own, uint32_t end,
                                         uint32_t last, uint32_t heads, const Scores &how) {
        auto &[k, v] = rows;
#pragma unroll
        for (int n = 0; n < KEYS; n++) {
            if (key + n != own) continue;
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
                score[h][n] = wave_all_reduce(dot, TEAM, Sum{});
            }
        }
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

    // Adds up COUNT values of each of a wavefront's teams. From step to step a lane keeps half as many, in the end from
    // number `first` on: what each has to move, and to store, is the least.
    template <int MASK, int COUNT>
    static __device__ __forceinline__ void add_teams(float *values, uint32_t &first) {
        if constexpr (MASK < WAVEFRONT) {
            bool upper = threadIdx.x & MASK;
            constexpr int HALF = COUNT / 2;
#pragma unroll
            for (int i = 0; i < HALF; i++) {
                float low = values[i], high = values[i + HALF];
                values[i] = (upper ? high : low) + shfl_xor(upper ? low : high, MASK, WAVEFRONT);
            }
            first += upper ? HALF : 0;
            add_teams<MASK * 2, HALF>(values, first);
        }
    }

    // What each wavefront's teams made to LDS.
    __device__ __forceinline__ void leave(Lds &lds) const {
        uint32_t wave = threadIdx.x / WAVEFRONT, in_wave = threadIdx.x % WAVEFRONT;
        auto of_wave = [](float x, auto op) INLINED {
#pragma unroll
            for (int mask = TEAM; mask < WAVEFRONT; mask *= 2) x = op(x, shfl_xor(x, mask, WAVEFRONT));
            return x;
        };
        float values[HEADS * OWN];
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
            float most = of_wave(top[h], [](float a, float b) INLINED { return math::fmax(a, b); });
            // A team without keys has none of the weight.
            float share = top[h] == -INFINITY ? 0 : math::exp2(top[h] - most), all = of_wave(sum[h] * share, Sum{});
            if (in_wave == 0) {
                lds.top[h][wave] = most;
                lds.sum[h][wave] = all;
            }
#pragma unroll
            for (int i = 0; i < OWN; i++) values[h * OWN + i] = sums[h][i] * share;
        }
        uint32_t first = 0;
        add_teams<TEAM, HEADS * OWN>(values, first);
        constexpr int LEFT = TEAM < WAVEFRONT ? HEADS * OWN * TEAM / WAVEFRONT : HEADS * OWN;
#pragma unroll
        for (int n = 0; n < LEFT; n++) {
            uint32_t at = first + n, i = at % OWN;
            lds.rows[at / OWN][wave][(i / 8 * TEAM + lane) * 8 + i % 8] = values[n];
        }
    }

    // Puts the wavefronts' sums together: a head's `dim` numbers go to put(head, place, four numbers), and the
    // logarithm to base 2 of the sum of its weights to close(head, logarithm), minus infinity where there were no keys.
    template <class Put, class Close> __device__ __forceinline__ void merge_waves(Lds &lds, Put put,
                                                                                  Close close) const {
        __syncthreads();
        for (uint32_t i = threadIdx.x * 4; i < HEADS * DIM; i += THREADS * 4) {
            uint32_t h = i / DIM, at = i % DIM;
            float most = -INFINITY, all = 0;
            Four x{};
#pragma unroll
            for (int w = 0; w < WAVES; w++) most = math::fmax(most, lds.top[h][w]);
#pragma unroll
            for (int w = 0; w < WAVES; w++) {
                float share = lds.top[h][w] == -INFINITY ? 0 : math::exp2(lds.top[h][w] - most);
                all = math::fma(lds.sum[h][w], share, all);
                Four row = *(const Four *)&lds.rows[h][w][at];
#pragma unroll
                for (int k = 0; k < 4; k++) x[k] = math::fma(row[k], share, x[k]);
            }
#pragma unroll
            for (int k = 0; k < 4; k++) x[k] = all == 0 ? 0 : x[k] / all;
            if (at < dim) put(h, at, x);
            if (at == 0) close(h, all == 0 ? -INFINITY : most + math::log2(all));
        }
    }
};

#if defined(LDS_COPIES)
// The same by matrix instructions of 16 x 8 sums over 16 of k: a wavefront has 16 keys, and up to 8 queries, which are
// the columns of scores and results. Which of a head's elements take which place of k, or of the rows of results, is
// nobody's concern if both operands have them alike: so lanes read 16 bytes at a time, and what they read are operands
// as they lie, but for the values, of which two keys' elements are paired.
// Of 8 x 8 elements, of which a lane has two of a row, the lane's two of the transposed.
__device__ __forceinline__ uint32_t turn_8x8(uint32_t two) {
    uint32_t turned;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(two));
    return turned;
}

template <class T, int DIM, int HEADS> struct AttendByMatrix {
    using Base = Attend<T, DIM, HEADS>;
    using Unit = MatrixUnit<T>;
    using Lds = typename Base::Lds;
    static constexpr int THREADS = Base::THREADS, WAVES = Base::WAVES, TEAMS = WAVES, KEYS = 16;
    // The next rows are asked for when these were used: with room for both a lane's registers would spill, or half as
    // many wavefronts ask.
    static constexpr bool AHEAD = false;
    static constexpr int RESIDENT = 1;
    // Sixteens of bytes that a lane has of a key, and of a value.
    static constexpr int OF_KEY = DIM / 32, OF_VALUE = DIM / 64;
    static_assert(sizeof(T) == 2 && HEADS <= 8, "what an instruction takes");
    typedef vec<uint32_t, 4> Words;

    // A lane's place among rows of operands (keys of scores, elements of results), and among pairs of columns and k.
    uint32_t team, dim, row, pair;
    float scale;
    Words query[OF_KEY];
    // Of queries 2 * pair and the next; and each four sums are of two elements times these two.
    float top[2], sum[2], sums[OF_VALUE][4][4];
    struct Rows {
        Words k[2][OF_KEY], v[4][OF_VALUE];
    };

    __device__ __forceinline__ AttendByMatrix(uint32_t dim)
        : team(threadIdx.x / 32), dim(dim), row(threadIdx.x % 32 / 4), pair(threadIdx.x % 4) {}

    // Where a lane's sixteens of a key begin, and of a value; which key its rows i of each are of.
    __device__ __forceinline__ uint32_t of_key(int j) const { return (j * 4 + pair) * 8; }
    __device__ __forceinline__ uint32_t of_value(int u) const { return (u * 8 + row) * 8; }
    __device__ __forceinline__ uint32_t key(int i) const { return row + i * 8; }
    __device__ __forceinline__ uint32_t value(int i) const { return pair * 2 + i % 2 + i / 2 * 8; }

    __device__ __forceinline__ void start(const Lds &lds, uint32_t heads, float by) {
        scale = by;
#pragma unroll
        for (int j = 0; j < OF_KEY; j++) {
            query[j] = Words{};
            if (row < heads && of_key(j) < dim) query[j] = *(const Words *)(lds.heads[row] + of_key(j));
        }
#pragma unroll
        for (int n = 0; n < 2; n++) top[n] = -INFINITY, sum[n] = 0;
#pragma unroll
        for (auto &of_sixteen : sums)
#pragma unroll
            for (auto &four : of_sixteen)
#pragma unroll
                for (float &x : four) x = 0;
    }

    // As Attend's.
    __device__ __forceinline__ void load(Rows &rows, const T *keys, const T *values, uint32_t first,
                                         uint32_t end) const {
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < OF_KEY; j++) {
                rows.k[i][j] = Words{};
                if (of_key(j) < dim && end != 0)
                    rows.k[i][j] = read_global<Words>(keys + (size_t)min_of(first + key(i), end - 1) * dim + of_key(j));
            }
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int u = 0; u < OF_VALUE; u++) {
                rows.v[i][u] = Words{};
                if (of_value(u) < dim && end != 0)
                    rows.v[i][u] =
                        read_global<Words>(values + (size_t)min_of(first + value(i), end - 1) * dim + of_value(u));
            }
    }

    __device__ __forceinline__ void step(Rows &rows, const Lds &lds, uint32_t first, uint32_t own, uint32_t end,
                                         uint32_t last, uint32_t heads, const Scores &how) {
        if (own - first < KEYS) {
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int j = 0; j < OF_KEY; j++)
                    if (first + key(i) == own && of_key(j) < dim)
                        rows.k[i][j] = *(const Words *)(lds.heads[HEADS] + of_key(j));
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int u = 0; u < OF_VALUE; u++)
                    if (first + value(i) == own && of_value(u) < dim)
                        rows.v[i][u] = *(const Words *)(lds.heads[HEADS + 1] + of_value(u));
        }
        float score[4] = {};
        auto &[k0, k1] = rows.k;
#pragma unroll
        for (int j = 0; j < OF_KEY; j++)
#pragma unroll
            for (int w = 0; w < 4; w += 2)
                Unit::multiply_half(score, {k0[j][w], k1[j][w], k0[j][w + 1], k1[j][w + 1]}, query[j][w],
                                    query[j][w + 1]);
        bool exceeds = false;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            score[i] *= scale;
            if (how.changes()) score[i] = how.of(score[i], pair * 2 + i % 2, heads, first + key(i / 2), last);
            if (first + key(i / 2) >= end) score[i] = -INFINITY;
            exceeds |= score[i] > top[i % 2] + attention::SLACK;
        }
        if (ballot(exceeds) != 0) {
#pragma unroll
            for (int n = 0; n < 2; n++) {
                float most = math::fmax(math::fmax(score[n], score[2 + n]), top[n]);
#pragma unroll
                for (int mask = 4; mask < 32; mask *= 2) most = math::fmax(most, shfl_xor(most, mask, 32));
                float fade = most == -INFINITY ? 1 : math::fast_exp2(top[n] - most);
                top[n] = most;
                sum[n] *= fade;
#pragma unroll
                for (auto &of_sixteen : sums)
#pragma unroll
                    for (auto &four : of_sixteen) four[n] *= fade, four[2 + n] *= fade;
            }
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            score[i] = math::fast_exp2(score[i] - (top[i % 2] == -INFINITY ? 0 : top[i % 2]));
            sum[i % 2] += score[i];
        }
        uint32_t weights[2] = {turn_8x8(weights_word<T>(score[0], score[1])),
                               turn_8x8(weights_word<T>(score[2], score[3]))};
        constexpr uint32_t LOW = 0x5410, HIGH = 0x7632;
#pragma unroll
        for (int u = 0; u < OF_VALUE; u++)
#pragma unroll
            for (int w = 0; w < 4; w++) {
                auto word = [&](int i) INLINED {
                    return rows.v[i][u][w];
                };
                Unit::multiply_half(sums[u][w],
                                    {permute_bytes(word(0), word(1), LOW), permute_bytes(word(0), word(1), HIGH),
                                     permute_bytes(word(2), word(3), LOW), permute_bytes(word(2), word(3), HIGH)},
                                    weights[0], weights[1]);
            }
    }

    __device__ __forceinline__ void leave(Lds &lds) const {
#pragma unroll
        for (int n = 0; n < 2; n++) {
            uint32_t head = pair * 2 + n;
            float all = sum[n];
#pragma unroll
            for (int mask = 4; mask < 32; mask *= 2) all += shfl_xor(all, mask, 32);
            if (head >= HEADS) continue;
            if (row == 0) lds.top[head][team] = top[n], lds.sum[head][team] = all;
#pragma unroll
            for (int u = 0; u < OF_VALUE; u++)
#pragma unroll
                for (int w = 0; w < 4; w++)
#pragma unroll
                    for (int i = 0; i < 2; i++) lds.rows[head][team][of_value(u) + 2 * w + i] = sums[u][w][2 * i + n];
        }
    }
    template <class Put, class Close> __device__ __forceinline__ void merge_waves(Lds &lds, Put put,
                                                                                  Close close) const {
        Base(dim).merge_waves(lds, put, close);
    }
};
#endif

// What reads a workgroup's keys. A single query gains nothing by matrix instructions, and heads of 256 have no
// registers for them.
template <class T, int DIM, int HEADS, bool BY_MATRIX = sizeof(T) == 2 && DIM <= 128 && (HEADS > 1)> struct TeamOf {
    using type = Attend<T, DIM, HEADS>;
};
#if defined(LDS_COPIES)
template <class T, int DIM, int HEADS> struct TeamOf<T, DIM, HEADS, true> {
    using type = AttendByMatrix<T, DIM, HEADS>;
};
#endif

// Of the keys that a query sees, the workgroup's part: whole steps of it. Later workgroups may have none.
struct Part {
    uint32_t begin, end, last, count;
    __device__ __forceinline__ Part(uint32_t last, uint32_t capacity, uint32_t window, uint32_t step) : last(last) {
        uint32_t all = min_of(last + 1, capacity), first = window != 0 && all > window ? all - window : 0;
        uint32_t each = ceil_div(ceil_div(all - first, gridDim.x), step) * step;
        count = ceil_div(all - first, each);
        begin = first + min_of(blockIdx.x * each, all - first);
        end = first + min_of((blockIdx.x + 1) * each, all - first);
    }
};

// Where the parts of `rows` heads' results are: their numbers, then the logarithms. A row has room for `most` parts and
// uses `count`; rows differ in it, since sequences are not of one length.
struct Parts {
    float *numbers;
    size_t rows;
    uint32_t most, count, dim;
    __device__ __forceinline__ float *number(size_t row, uint32_t part) const {
        return numbers + (row * most + part) * dim;
    }
    __device__ __forceinline__ float *logarithm(size_t row, uint32_t part) const {
        return numbers + rows * most * dim + row * most + part;
    }
};

// Where results go: to `numbers`, or, quantised as a product with them takes it, to `vector`, if that is not null.
template <class T> struct Result {
    T *numbers;
    uint8_t *vector;
    // Of a vector's elements, eight lanes have 32 neighbours.
    __device__ __forceinline__ void put(size_t at, const Four &x) const {
        if (vector != nullptr) return store_four(vector, at, quantize_four(x));
        vec<T, 4> four;
#pragma unroll
        for (int k = 0; k < 4; k++) four[k] = narrow<T>(x[k]);
        store_vec(numbers + at, four);
    }
};

// The workgroup that ends last of those with the same queries puts `heads` results together, from row `head` on. All
// others have written theirs by then, and the counter is 0 again.
template <class Team, class T>
__device__ __forceinline__ void merge_last(typename Team::Lds &lds, const Parts &parts, size_t head, uint32_t heads,
                                           int32_t *counter, const Result<T> &result) {
    if (!ends_last(counter, parts.count, lds.ended)) return;
    for (uint32_t h = threadIdx.x / WAVEFRONT; h < heads; h += Team::WAVES) {
        auto logarithms = parts.logarithm(head + h, 0);
        float most = -INFINITY, all = 0;
        for (uint32_t n = threadIdx.x % WAVEFRONT; n < parts.count; n += WAVEFRONT)
            most = math::fmax(most, logarithms[n]);
        most = wave_all_reduce(most, WAVEFRONT, [](float a, float b) INLINED { return math::fmax(a, b); });
        for (uint32_t n = threadIdx.x % WAVEFRONT; n < parts.count; n += WAVEFRONT) {
            float weight = logarithms[n] == -INFINITY ? 0 : math::exp2(logarithms[n] - most);
            lds.share[h][n] = weight;
            all += weight;
        }
        all = wave_all_reduce(all, WAVEFRONT, Sum{});
        for (uint32_t n = threadIdx.x % WAVEFRONT; n < parts.count; n += WAVEFRONT)
            lds.share[h][n] = all == 0 ? 0 : lds.share[h][n] / all;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x * 4; i < heads * parts.dim; i += Team::THREADS * 4) {
        uint32_t h = i / parts.dim, at = i % parts.dim;
        const float *numbers = parts.number(head + h, 0) + at;
        Four x{};
#pragma unroll 8
        for (uint32_t n = 0; n < parts.count; n++) {
            Four part = *(const Four *)(numbers + n * parts.dim);
#pragma unroll
            for (int k = 0; k < 4; k++) x[k] = math::fma(part[k], lds.share[h][n], x[k]);
        }
        result.put((head + h) * parts.dim + at, x);
    }
}

// The grid: parts of the keys, groups of HEADS queries with the same keys, steps of all sequences. With one part the
// result is written, with more `parts` of all, then the logarithms, and, where there are `counters`, one for each group
// of each step, zeros, the result by the workgroup that ends last. Heads of queries, keys and values are of one step
// a sequence.
template <class T, int DIM, int HEADS>
__device__ __forceinline__ void attend(const Step<T> &from, T *cache, const uint32_t *position, const Result<T> &result,
                                       float *of_parts, int32_t *counters, uint32_t batch, uint32_t steps,
                                       uint32_t heads, uint32_t kv_heads, uint32_t dim, uint32_t capacity,
                                       uint32_t window, float scale, float softcap, const float *slopes) {
    using Team = typename TeamOf<T, DIM, HEADS>::type;
    __shared__ typename Team::Lds lds;
    constexpr uint32_t STEP = Team::TEAMS * Team::KEYS, NONE = ~0u;
    uint32_t group = heads / kv_heads, chunks = ceil_div(group, (uint32_t)HEADS);
    uint32_t of_keys = blockIdx.y / chunks, in_group = blockIdx.y % chunks * HEADS, row = blockIdx.z;
    uint32_t sequence = row / steps, count = min_of((uint32_t)HEADS, group - in_group),
             query = of_keys * group + in_group;
    size_t head = (size_t)row * heads + query;
    uint32_t place = position[sequence] + row % steps;
    Part part(place, capacity, window, STEP);
    T *keys = cache + ((size_t)sequence * kv_heads + of_keys) * capacity * dim;
    T *values = keys + (size_t)batch * kv_heads * capacity * dim;
    // Where workgroups merge by themselves, those without keys have no part in it.
    if (counters != nullptr && blockIdx.x >= part.count) return;
    uint32_t parts_count = counters != nullptr ? part.count : gridDim.x;
    // The step's own key, if it is kept and of this part: it is not read from the cache.
    bool packed = from.cos != nullptr;
    uint32_t own = packed && place < capacity && part.begin < part.end && part.end == place + 1 ? place : NONE;
    uint32_t kept = own == NONE ? part.end : own;
    Team team(dim);
    uint32_t key = part.begin + team.team * Team::KEYS;
    typename Team::Rows rows;
    if (key < part.end) team.load(rows, keys, values, key, kept);

    uint32_t staged = threadIdx.x / from.LANES, lane = threadIdx.x % from.LANES;
    const T *row_from = from.heads + (size_t)row * (heads + (packed ? 2 * kv_heads : 0)) * dim;
    if (staged < count) {
        const T *of_query = row_from + (size_t)(query + staged) * dim;
        from.stage(of_query, lds.heads[staged], dim, from.query_norm, packed, place, lane);
    } else if (staged - HEADS < 2 && own != NONE) {
        bool value = staged != HEADS;
        const T *of_key = row_from + (size_t)(heads + value * kv_heads + of_keys) * dim;
        from.stage(of_key, lds.heads[staged], dim, value ? nullptr : from.key_norm, !value, place, lane);
    }
    __syncthreads();
    if (own != NONE && in_group == 0)
        for (uint32_t i = threadIdx.x; i < 2 * dim; i += Team::THREADS) {
            bool value = i >= dim;
            uint32_t at = value ? i - dim : i;
            (value ? values : keys)[(size_t)own * dim + at] = lds.heads[HEADS + value][at];
        }

    Scores how{softcap, slopes == nullptr ? slopes : slopes + query};
    team.start(lds, count, scale);
    while (key < part.end) {
        uint32_t now = key;
        key += STEP;
        if constexpr (Team::AHEAD) {
            typename Team::Rows next;
            if (key < part.end) team.load(next, keys, values, key, kept);
            team.step(rows, lds, now, own, part.end, part.last, count, how);
            if (key < part.end) rows = next;
        } else {
            team.step(rows, lds, now, own, part.end, part.last, count, how);
            if (key < part.end) team.load(rows, keys, values, key, kept);
        }
    }
    Parts parts{of_parts, (size_t)gridDim.z * heads, gridDim.x, parts_count, dim};
    team.leave(lds);
    team.merge_waves(
        lds,
        [&](uint32_t h, uint32_t at, const Four &x) INLINED {
            if (h >= count) return;
            if (parts_count == 1) result.put((head + h) * dim + at, x);
            else store_vec(parts.number(head + h, blockIdx.x) + at, x);
        },
        [&](uint32_t h, float logarithm) INLINED {
            if (h < count && parts_count != 1) *parts.logarithm(head + h, blockIdx.x) = logarithm;
        });
    if (counters != nullptr && parts_count != 1)
        merge_last<Team>(lds, parts, head, count, counters + (size_t)row * gridDim.y + blockIdx.y, result);
}

#define ATTEND(NAME, T, DIM, HEADS)                                                                                   \
    ENTRY __launch_bounds__(256, (TeamOf<T, DIM, HEADS>::type::RESIDENT)) attend_##DIM##_##HEADS##_##NAME(            \
        const T *__restrict__ from, T *__restrict__ cache, const uint32_t *__restrict__ position,                     \
        T *__restrict__ result, float *__restrict__ parts, int32_t *__restrict__ counters, const T *__restrict__ cos, \
        const T *__restrict__ sin, uint32_t table, uint32_t interleaved, const T *__restrict__ query_norm,            \
        const T *__restrict__ key_norm, float epsilon, uint32_t batch, uint32_t steps, uint32_t heads,                \
        uint32_t kv_heads, uint32_t dim, uint32_t capacity, uint32_t window, float scale, float softcap,              \
        const float *__restrict__ slopes, uint8_t *__restrict__ vector) {                                             \
        Step<T> step{from, cos, sin, table, interleaved != 0, query_norm, key_norm, epsilon};                         \
        attend<T, DIM, HEADS>(step, cache, position, Result<T>{result, vector}, parts, counters, batch, steps, heads, \
                              kv_heads, dim, capacity, window, scale, softcap, slopes);                               \
    }
#define ATTENDS(NAME, T)    \
    ATTEND(NAME, T, 64, 1)  \
    ATTEND(NAME, T, 64, 4)  \
    ATTEND(NAME, T, 128, 1) \
    ATTEND(NAME, T, 128, 4) \
    ATTEND(NAME, T, 256, 1) \
    ATTEND(NAME, T, 256, 4) \
    ATTEND(NAME, T, 512, 1) \
    ATTEND(NAME, T, 512, 2)
ATTENDS(f16, half_t)
ATTENDS(bf16, bf16_t)
ATTENDS(f32, float)

// ----------------------------------------------------------------------- merge

// A workgroup of 256 puts the parts of one head's result together, in their order.
template <class T>
__device__ __forceinline__ void merge(const float *parts, T *result, uint32_t count, uint32_t dim) {
    __shared__ WaveValues<float> values;
    __shared__ float share[MOST_PARTS], rows[256];
    const float *logarithms = parts + (size_t)gridDim.x * count * dim + (size_t)blockIdx.x * count;
    const float *from = parts + (size_t)blockIdx.x * count * dim;
    uint32_t thread = threadIdx.x;
    float logarithm = thread < count ? read_global<float>(logarithms + thread) : -INFINITY;
    float most =
        block_all_reduce(logarithm, thread, 256, [](float a, float b) INLINED { return math::fmax(a, b); }, values);
    float weight = logarithm == -INFINITY ? 0 : math::exp2(logarithm - most);
    float all = block_all_reduce(weight, thread, 256, Sum{}, values);
    share[thread] = all == 0 ? 0 : weight / all;
    __syncthreads();
    // Teams of threads take a row's numbers, and with others share out the parts.
    for (uint32_t begin = 0; begin < dim; begin += 256) {
        uint32_t width = min_of(power_of_two_from(dim - begin), 256u), at = begin + thread % width;
        float x = 0;
        if (at < dim)
            for (uint32_t n = thread / width; n < count; n += 256 / width)
                if (share[n] != 0) x = math::fma(read_global<float>(from + (size_t)n * dim + at), share[n], x);
        rows[thread] = x;
        __syncthreads();
        if (thread < width && at < dim) {
            for (uint32_t t = thread + width; t < 256; t += width) x += rows[t];
            result[(size_t)blockIdx.x * dim + at] = narrow<T>(x);
        }
        __syncthreads();
    }
}

#define MERGE(NAME, T)                                                                                        \
    ENTRY __launch_bounds__(256)                                                                              \
        merge_##NAME(const float *__restrict__ parts, T *__restrict__ result, uint32_t count, uint32_t dim) { \
        merge(parts, result, count, dim);                                                                     \
    }
MERGE(f16, half_t)
MERGE(bf16, bf16_t)
MERGE(f32, float)
