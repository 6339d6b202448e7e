// One query of each sequence, or few, against a long cache of keys and values: the attention of decoding.
//
// `rope_cache` rotates a step's queries and keys by their positions and puts keys and values into the cache; `attend`
// reads the cache, whose keys workgroups share in splits; `merge` puts the splits together. Of one step `attend` can do
// all three: it norms and rotates its queries itself, the workgroup of the last keys does so with the new one and keeps
// it, and the workgroup that ends last merges. Where a sequence is, a number in the GPU's memory says, so that a
// captured step is right wherever it is run.
//
// The cache is (2, batch, kv_heads, capacity, dim), keys before values; queries and results are (batch, steps, heads,
// dim). Step s of a sequence at `position` sees the keys 0 to position + s, or the last `window` of these. What comes
// in and goes out is of type T, the cache of C: the same, or 16 bits where T is f32.
#include "attention/decode_kernels.cuh"
#include "attention/decode_matrix.cuh"
#include "attention/decode_problem.cuh"
#include "portable/block_reduce.cuh"
#include "portable/workspace.cuh"
#include "quantized/vectors.cuh"
#include "norms/norm.cuh"

namespace attention {

// ------------------------------------------------------------------ rope_cache

struct Heads {
    uint32_t queries, keys, dim;
    __device__ __forceinline__ uint32_t all() const { return queries + 2 * keys; }
};

// Rotates VEC pairs (x, y) by the angles given as cosines and sines.
template <int VEC, class T>
__device__ __forceinline__ void rotate(vec<T, VEC> &x, vec<T, VEC> &y, const T *cos, const T *sin) {
    auto c = read_global<vec<T, VEC>>(cos), s = read_global<vec<T, VEC>>(sin);
#pragma unroll
    for (int k = 0; k < VEC; k++) {
        float a = upcast(x[k]), b = upcast(y[k]), by = upcast(c[k]), up = upcast(s[k]);
        x[k] = round_to<T>(a * by - b * up);
        y[k] = round_to<T>(a * up + b * by);
    }
}

template <int VEC, class T, class To> __device__ __forceinline__ void store_kept(To *to, const vec<T, VEC> &x) {
    vec<To, VEC> all;
#pragma unroll
    for (int k = 0; k < VEC; k++) all[k] = kept<To, T>(upcast(x[k]));
    store_vec(to, all);
}

// Pairs are VEC neighbours and those dim / 2 further, or, INTERLEAVED, elements 2i and 2i + 1.
template <int VEC, bool INTERLEAVED, class T, class To>
__device__ __forceinline__ void rotate_head(const T *src, To *dst, uint32_t at, uint32_t half, const T *cos,
                                            const T *sin) {
    if constexpr (INTERLEAVED) {
        auto x = read_global<vec<T, VEC>>(src + 2 * at), y = read_global<vec<T, VEC>>(src + 2 * at + VEC);
        vec<T, VEC> even, odd;
#pragma unroll
        for (int k = 0; k < VEC; k++) {
            even[k] = 2 * k < VEC ? x[2 * k % VEC] : y[2 * k % VEC];
            odd[k] = 2 * k + 1 < VEC ? x[(2 * k + 1) % VEC] : y[(2 * k + 1) % VEC];
        }
        if (cos != nullptr) rotate<VEC>(even, odd, cos + at, sin + at);
#pragma unroll
        for (int k = 0; k < VEC; k++) {
            (2 * k < VEC ? x : y)[2 * k % VEC] = even[k];
            (2 * k + 1 < VEC ? x : y)[(2 * k + 1) % VEC] = odd[k];
        }
        store_kept<VEC>(dst + 2 * at, x);
        store_kept<VEC>(dst + 2 * at + VEC, y);
    } else {
        auto x = read_global<vec<T, VEC>>(src + at), y = read_global<vec<T, VEC>>(src + at + half);
        if (cos != nullptr) rotate<VEC>(x, y, cos + at, sin + at);
        store_kept<VEC>(dst + at, x);
        store_kept<VEC>(dst + at + half, y);
    }
}

// `packed` has, for each step, the queries', the keys' and the values' heads. Queries go to `queries`, or, if that is
// null, to `as_keys` in the cache's type.
template <int VEC, bool INTERLEAVED, class T, class C>
__device__ __forceinline__ void rope_cache(const T *packed, const T *cos, const T *sin, uint32_t table,
                                           const uint32_t *position, T *queries, C *as_keys, C *cache, uint32_t batch,
                                           uint32_t steps, Heads heads, uint32_t capacity) {
    uint32_t half = heads.dim / 2, vectors_of_half = half / VEC, all = heads.all();
    size_t end = (size_t)batch * steps * all * vectors_of_half,
           values = (size_t)batch * heads.keys * capacity * heads.dim;
    for (size_t i = global_thread(); i < end; i += global_threads()) {
        uint32_t in_row = (uint32_t)(i % (all * vectors_of_half)), row = (uint32_t)(i / (all * vectors_of_half));
        uint32_t head = in_row / vectors_of_half, at = in_row % vectors_of_half * VEC, sequence = row / steps;
        uint32_t place = position[sequence] + row % steps;
        const T *src = packed + ((size_t)row * all + head) * heads.dim;
        size_t angle = (size_t)min_of(place, table - 1) * half;
        if (head < heads.queries) {
            size_t dst = ((size_t)row * heads.queries + head) * heads.dim;
            if (sizeof(T) == sizeof(C) || queries != nullptr)
                rotate_head<VEC, INTERLEAVED>(src, queries + dst, at, half, cos + angle, sin + angle);
            else rotate_head<VEC, INTERLEAVED>(src, as_keys + dst, at, half, cos + angle, sin + angle);
            continue;
        }
        // A place that the cache has not is none of its memory.
        if (place >= capacity) continue;
        uint32_t of_keys = (head - heads.queries) % heads.keys;
        bool value = head - heads.queries >= heads.keys;
        size_t dst = (((size_t)sequence * heads.keys + of_keys) * capacity + place) * heads.dim;
        rotate_head<VEC, INTERLEAVED>(src, cache + dst + (value ? values : 0), at, half, value ? nullptr : cos + angle,
                                      sin + angle);
    }
}

#define ROPE_CACHE(NAME, T, C)                                                                                        \
    ENTRY __launch_bounds__(256)                                                                                      \
        rope_cache_##NAME(const T *__restrict__ packed, const T *__restrict__ cos, const T *__restrict__ sin,         \
                          uint32_t table, const uint32_t *__restrict__ position, T *__restrict__ queries,             \
                          C *__restrict__ as_keys, C *__restrict__ cache, uint32_t batch, uint32_t steps,             \
                          uint32_t heads, uint32_t kv_heads, uint32_t dim, uint32_t capacity, uint32_t interleaved) { \
        Heads of{heads, kv_heads, dim};                                                                               \
        constexpr int VEC = VEC16<T>;                                                                                 \
        bool wide = dim % (2 * VEC) == 0 && is_aligned(packed, 16) && is_aligned(queries, 16) &&                      \
                    is_aligned(as_keys, 16) && is_aligned(cache, 16) && is_aligned(cos, 16) && is_aligned(sin, 16);   \
        auto run = [&](auto vec, auto pairs) INLINED {                                                                \
            rope_cache<vec.value, pairs.value>(packed, cos, sin, table, position, queries, as_keys, cache, batch,     \
                                               steps, of, capacity);                                                  \
        };                                                                                                            \
        if (interleaved && wide) run(Constant<VEC>{}, Constant<true>{});                                              \
        else if (interleaved) run(Constant<1>{}, Constant<true>{});                                                   \
        else if (wide) run(Constant<VEC>{}, Constant<false>{});                                                       \
        else run(Constant<1>{}, Constant<false>{});                                                                   \
    }
ROPE_CACHE(f16, half_t, half_t)
ROPE_CACHE(bf16, bf16_t, bf16_t)
ROPE_CACHE(f32, float, float)
ROPE_CACHE(f32_f16, float, half_t)
ROPE_CACHE(f32_bf16, float, bf16_t)

// ---------------------------------------------------------------------- attend

// Where a step's heads come from: queries alone, rotated already, or, with `cos`, the heads of queries, keys and values
// as a product makes them; then queries and keys may each have a norm before they are rotated.
template <class T> struct Step {
    const T *heads, *cos, *sin;
    uint32_t table;
    bool interleaved;
    const T *query_norm, *key_norm;
    float epsilon;

    // Work-items that share a head: lanes of one wavefront.
    static constexpr uint32_t LANES = 32;

    // A register each: packed in twos, the one would have to be there before the other is asked for.
    using Bits = uint32_t;
    static __device__ __forceinline__ Bits ask_one(const T *from) {
        if constexpr (sizeof(T) == 4) return read_global<uint32_t>(from);
        else return read_global<uint16_t>(from);
    }
    static __device__ __forceinline__ float value_of(Bits bits) {
        if constexpr (sizeof(T) == 4) return bit_cast<float>(bits);
        else return upcast(bit_cast<T>((uint16_t)bits));
    }

    // What a lane has of a head of DIM elements at most: pairs that rotate together, and angles. It is asked for at
    // once.
    template <int DIM> struct Head {
        static constexpr int PAIRS = DIM / 2 / LANES;
        Bits pairs[PAIRS][2], norms[PAIRS][2], cos[PAIRS], sin[PAIRS];
    };

    __device__ __forceinline__ void place_of(uint32_t pair, uint32_t half, uint32_t (&at)[2]) const {
        at[0] = interleaved ? 2 * pair : pair;
        at[1] = interleaved ? at[0] + 1 : pair + half;
    }

    // Head `from`, of `dim` elements; `rotated` by the angles of `place`, and with `norm`, unless that is null. Past a
    // head's end its last pair is read again, and the head instead of what is not there: behind branches, the compiler
    // would wait for one before it asks for the next.
    template <int DIM>
    __device__ __forceinline__ void ask(Head<DIM> &head, const T *from, uint32_t dim, const T *norm, bool rotated,
                                        uint32_t place, uint32_t lane) const {
        uint32_t half = dim / 2;
        size_t angles = (size_t)min_of(place, table - 1) * half;
#pragma unroll
        for (int p = 0; p < Head<DIM>::PAIRS; p++) {
            uint32_t pair = min_of(lane + p * LANES, half - 1), at[2];
            place_of(pair, half, at);
#pragma unroll
            for (int k = 0; k < 2; k++) head.pairs[p][k] = ask_one(from + at[k]);
#pragma unroll
            for (int k = 0; k < 2; k++) head.norms[p][k] = ask_one((norm != nullptr ? norm : from) + at[k]);
            head.cos[p] = ask_one(rotated ? cos + angles + pair : from);
            head.sin[p] = ask_one(rotated ? sin + angles + pair : from);
        }
    }

    // What was asked for, to LDS, in the cache's type.
    template <int DIM, class C>
    __device__ __forceinline__ void stage(const Head<DIM> &head, C *to, uint32_t dim, bool normed, bool rotated,
                                          uint32_t lane) const {
        constexpr int PAIRS = Head<DIM>::PAIRS;
        uint32_t half = dim / 2;
        float scale = 1;
        if (normed) {
            float sum = 0;
#pragma unroll
            for (int p = 0; p < PAIRS; p++)
#pragma unroll
                for (int k = 0; k < 2; k++) {
                    float x = lane + p * LANES < half ? value_of(head.pairs[p][k]) : 0;
                    sum = math::fma(x, x, sum);
                }
            scale = norms::norm_scale(wave_all_reduce(sum, LANES, Sum{}), dim, epsilon);
        }
#pragma unroll
        for (int p = 0; p < PAIRS; p++) {
            uint32_t pair = lane + p * LANES, at[2];
            if (pair >= half) continue;
            place_of(pair, half, at);
            float pairs[2];
#pragma unroll
            for (int k = 0; k < 2; k++) {
                float x = value_of(head.pairs[p][k]);
                pairs[k] = normed ? upcast(round_to<T>(x * scale * value_of(head.norms[p][k]))) : x;
            }
            if (rotated) {
                float by = value_of(head.cos[p]), up = value_of(head.sin[p]), x = pairs[0], y = pairs[1];
                pairs[0] = x * by - y * up;
                pairs[1] = x * up + y * by;
            }
#pragma unroll
            for (int k = 0; k < 2; k++) to[at[k]] = kept<C, T>(pairs[k]);
        }
    }
};

// Of the keys that a query sees, the workgroup's split: whole steps of it. Later workgroups may have none.
struct KeySplit {
    uint32_t begin, end, last, all, each;
    __device__ __forceinline__ KeySplit(uint32_t last, uint32_t capacity, uint32_t window, uint32_t step,
                                        uint32_t splits)
        : last(last) {
        uint32_t past = min_of(last + 1, capacity), first = window != 0 && past > window ? past - window : 0;
        all = past - first;
        each = ceil_div(ceil_div(all, splits), step) * step;
        begin = first + min_of(blockIdx.x * each, all);
        end = first + min_of((blockIdx.x + 1) * each, all);
    }
    // Splits that have keys.
    __device__ __forceinline__ uint32_t count() const { return ceil_div(all, each); }
};

// Where the splits of `rows` heads' results are: their numbers, then the logarithms. A row has room for `most` parts
// and uses `count`; rows differ in it, since sequences are not of one length.
struct SplitResults {
    float *numbers;
    size_t rows;
    uint32_t most, count, dim;
    __device__ __forceinline__ float *number(size_t row, uint32_t split) const {
        return numbers + (row * most + split) * dim;
    }
    __device__ __forceinline__ float *logarithm(size_t row, uint32_t split) const {
        return numbers + rows * most * dim + row * most + split;
    }
};

// Where results go: to `numbers`, or, quantised as a product with them takes it, to `vector`, if that is not null.
template <class T> struct Result {
    T *numbers;
    uint8_t *vector;
    // Of a vector's elements, eight lanes have 32 neighbours.
    __device__ __forceinline__ void put(size_t at, const Four &x) const {
        if (vector != nullptr) return store_four(vector, at, quantized::quantize_four(x));
        vec<T, 4> four;
#pragma unroll
        for (int k = 0; k < 4; k++) four[k] = round_to<T>(x[k]);
        store_vec(numbers + at, four);
    }
};

// The workgroup that ends last of those with the same queries puts `heads` results together, from row `head` on. All
// others have written theirs by then, and the counter is 0 again.
template <class KeyReader, class T>
__device__ __forceinline__ void merge_last(typename KeyReader::Lds &lds, const SplitResults &splits, size_t head,
                                           uint32_t heads, int32_t *counter, const Result<T> &result) {
    if (!ends_last(counter, splits.count, lds.ended)) return;
    for (uint32_t h = threadIdx.x / WAVEFRONT; h < heads; h += KeyReader::WAVES) {
        auto logarithms = splits.logarithm(head + h, 0);
        float most = -INFINITY, all = 0;
        for (uint32_t n = threadIdx.x % WAVEFRONT; n < splits.count; n += WAVEFRONT)
            most = math::fmax(most, logarithms[n]);
        most = wave_all_reduce(most, WAVEFRONT, [](float a, float b) INLINED { return math::fmax(a, b); });
        for (uint32_t n = threadIdx.x % WAVEFRONT; n < splits.count; n += WAVEFRONT) {
            float weight = logarithms[n] == -INFINITY ? 0 : math::fast_exp2(logarithms[n] - most);
            lds.share[h][n] = weight;
            all += weight;
        }
        all = wave_all_reduce(all, WAVEFRONT, Sum{});
        for (uint32_t n = threadIdx.x % WAVEFRONT; n < splits.count; n += WAVEFRONT)
            lds.share[h][n] = all == 0 ? 0 : lds.share[h][n] / all;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x * 4; i < heads * splits.dim; i += KeyReader::THREADS * 4) {
        uint32_t h = i / splits.dim, at = i % splits.dim;
        const float *numbers = splits.number(head + h, 0) + at;
        Four x{};
#pragma unroll 8
        for (uint32_t n = 0; n < splits.count; n++) {
            Four split = *(const Four *)(numbers + n * splits.dim);
#pragma unroll
            for (int k = 0; k < 4; k++) x[k] = math::fma(split[k], lds.share[h][n], x[k]);
        }
        result.put((head + h) * splits.dim + at, x);
    }
}

// A head of the step that LANES work-items bring to LDS: the `staged`th of the workgroup's `count` queries, or, behind
// HEADS of those, the step's own key and then its value.
template <class T, uint32_t HEADS> struct IncomingHead {
    uint32_t staged, lane;
    bool of_query, of_own, value, rotated;
    const T *norm;

    __device__ __forceinline__ IncomingHead(const Step<T> &from, uint32_t count, bool has_own, bool packed)
        : staged(threadIdx.x / from.LANES), lane(threadIdx.x % from.LANES), of_query(staged < count),
          of_own(!of_query && staged - HEADS < 2 && has_own), value(of_own && staged != HEADS),
          rotated(packed && !value), norm(of_own ? value ? nullptr : from.key_norm : from.query_norm) {}
};

// Store: the step's own key and value, LDS -> the cache, at `place` of the sequence's rows.
template <class C, int HEADS, class KeyReader>
__device__ __forceinline__ void store_own(const typename KeyReader::Lds &lds, C *keys, C *values, uint32_t place,
                                          uint32_t dim) {
    for (uint32_t i = threadIdx.x * VEC16<C>; i < 2 * dim; i += KeyReader::THREADS * VEC16<C>) {
        bool value = i >= dim;
        uint32_t at = value ? i - dim : i;
        C *to = (value ? values : keys) + (size_t)place * dim + at;
        store_vec(to, *(const vec<C, VEC16<C>> *)(lds.heads[HEADS + value] + at));
    }
}

// Load and compute: all keys of the part from `key` on, of which the first are in `rows`; behind those that are weighed
// the next ones are on their way.
template <class KeyReader, class LoadKeys, class LoadValues>
__device__ __forceinline__ void weigh_keys(KeyReader &reader, typename KeyReader::Lds &lds,
                                           typename KeyReader::Rows &rows, uint32_t &key, uint32_t own,
                                           const KeySplit &split, uint32_t count, const Scores &how, LoadKeys load_keys,
                                           LoadValues load_values) {
    while (key < split.end) {
        uint32_t now = key;
        key += KeyReader::ROW_GROUPS * KeyReader::KEYS;
        auto step = [&](auto keys_used) INLINED {
            reader.step(rows, lds, now, own, split.end, split.last, count, how, keys_used);
        };
        if constexpr (KeyReader::PREFETCH) {
            typename KeyReader::Rows next;
            load_keys(next), load_values(next);
            step([] INLINED {});
            rows = next;
        } else {
            step([&] INLINED { load_keys(rows); });
            load_values(rows);
        }
    }
}

// The grid: splits of the keys, groups of HEADS queries with the same keys, steps of all sequences. With one split the
// result is written, with more `splits` of all, then the logarithms, and, where there are `counters`, one for each
// group of each step, zeros, the result by the workgroup that ends last. Heads of queries, keys and values are of one
// step a sequence.
template <class T, class C, int DIM, int HEADS>
__device__ __forceinline__ void attend(const Step<T> &from, C *cache, const uint32_t *position, const Result<T> &result,
                                       float *of_splits, int32_t *counters, uint32_t batch, uint32_t steps,
                                       uint32_t group, uint32_t kv_heads, uint32_t dim, uint32_t capacity,
                                       uint32_t window, float scale, float softcap, const float *slopes) {
    using KeyReader = typename KeyReaderOf<C, DIM, HEADS>::type;
    __shared__ typename KeyReader::Lds lds;
    constexpr uint32_t STEP = KeyReader::ROW_GROUPS * KeyReader::KEYS, NONE = ~0u;
    // Read now, not where it is needed: the compiler would wait for each by itself.
    uint32_t max_splits = gridDim.x, columns = gridDim.y, rows_of_grid = gridDim.z;
    opt_barrier_uniform(max_splits), opt_barrier_uniform(columns), opt_barrier_uniform(rows_of_grid);
    // Groups of more queries than a workgroup has, and steps of more than one token, are seldom, and divisions long.
    uint32_t heads = group * kv_heads, chunks = ceil_div(group, (uint32_t)HEADS), row = blockIdx.z;
    uint32_t of_keys = blockIdx.y, in_group = 0, sequence = row, of_step = 0;
    if (chunks != 1) of_keys = blockIdx.y / chunks, in_group = blockIdx.y % chunks * HEADS;
    if (steps != 1) sequence = row / steps, of_step = row % steps;
    uint32_t count = min_of((uint32_t)HEADS, group - in_group), query = of_keys * group + in_group;
    size_t head = (size_t)row * heads + query;
    uint32_t place = position[sequence] + of_step;
    KeySplit split(place, capacity, window, STEP, max_splits);
    C *keys = cache + ((size_t)sequence * kv_heads + of_keys) * capacity * dim;
    C *values = keys + (size_t)batch * kv_heads * capacity * dim;
    // Where workgroups merge by themselves, those without keys have no part in it.
    if (counters != nullptr && split.begin == split.end) return;
    // The step's own key, if it is kept and of this split: it is not read from the cache.
    bool packed = from.cos != nullptr;
    uint32_t own = packed && place < capacity && split.begin < split.end && split.end == place + 1 ? place : NONE;
    uint32_t kept_end = own == NONE ? split.end : own;
    KeyReader reader(dim);
    uint32_t key = split.begin + reader.row_group * KeyReader::KEYS;
    typename KeyReader::Rows rows;

    // The step's heads are asked for first: they are few, and needed first. Who has none asks for one all the same.
    IncomingHead<T, HEADS> head_in(from, count, own != NONE, packed);
    const T *row_from = from.heads + (size_t)row * (heads + (packed ? 2 * kv_heads : 0)) * dim;
    uint32_t number =
        head_in.of_own ? heads + head_in.value * kv_heads + of_keys : query + (head_in.of_query ? head_in.staged : 0);
    typename Step<T>::template Head<DIM> head_of_lane;
    from.template ask<DIM>(head_of_lane, row_from + (size_t)number * dim, dim, head_in.norm, head_in.rotated, place,
                           head_in.lane);
    // With the cache empty but for what is kept now, there is no row that could be read instead of those past the last:
    // of the step's own heads as many bytes are, which nobody uses.
    const C *read_keys = keys, *read_values = values;
    static_assert(sizeof(C) <= sizeof(T), "heads that come in have the bytes of a row");
    if (kept_end == 0) {
        read_keys = (const C *)(row_from + (size_t)(heads + of_keys) * dim);
        read_values = read_keys + (size_t)kv_heads * dim;
    }
    uint32_t readable = max_of(kept_end, 1u);
    auto load_keys = [&](typename KeyReader::Rows &to) INLINED {
        reader.load_keys(to, read_keys, key, readable);
    };
    auto load_values = [&](typename KeyReader::Rows &to) INLINED {
        reader.load_values(to, read_values, key, readable);
    };
    load_keys(rows), load_values(rows);
    uint32_t splits_used = counters != nullptr ? split.count() : max_splits;
    if (head_in.of_query || head_in.of_own)
        from.template stage<DIM>(head_of_lane, lds.heads[head_in.staged], dim, head_in.norm != nullptr, head_in.rotated,
                                 head_in.lane);
    __syncthreads();
    if (own != NONE && in_group == 0) store_own<C, HEADS, KeyReader>(lds, keys, values, own, dim);

    Scores how{softcap, slopes == nullptr ? slopes : slopes + query};
    reader.start(lds, count, scale);
    weigh_keys(reader, lds, rows, key, own, split, count, how, load_keys, load_values);
    SplitResults splits{of_splits, (size_t)rows_of_grid * heads, max_splits, splits_used, dim};
    reader.leave(lds);
    reader.merge_waves(
        lds,
        [&](uint32_t h, uint32_t at, const Four &x) INLINED {
            if (h >= count) return;
            if (splits_used == 1) result.put((head + h) * dim + at, x);
            else store_vec(splits.number(head + h, blockIdx.x) + at, x);
        },
        [&](uint32_t h, float logarithm) INLINED {
            if (h < count && splits_used != 1) *splits.logarithm(head + h, blockIdx.x) = logarithm;
        });
    if (counters != nullptr && splits_used != 1)
        merge_last<KeyReader>(lds, splits, head, count, counters + (size_t)row * columns + blockIdx.y, result);
}

// With registers for so many of them at once: wavefronts of a SIMD, workgroups of a multiprocessor.
#if defined(__HIP__)
#define RESIDENT(COUNT) __launch_bounds__(256) __attribute__((amdgpu_waves_per_eu(COUNT)))
#else
#define RESIDENT(COUNT) __launch_bounds__(256, COUNT)
#endif
// By pointers of which none reads what another writes.
template <class T, class C, int DIM, int HEADS>
__device__ __forceinline__ void attend_apart(const AttendProblem &p, const T *__restrict__ heads, C *__restrict__ cache,
                                             const uint32_t *__restrict__ position, T *__restrict__ result,
                                             uint8_t *__restrict__ vector, float *__restrict__ splits,
                                             int32_t *__restrict__ counters, const T *__restrict__ cos,
                                             const T *__restrict__ sin, const T *__restrict__ query_norm,
                                             const T *__restrict__ key_norm, const float *__restrict__ slopes) {
    Step<T> step{heads, cos, sin, p.table, p.interleaved != 0, query_norm, key_norm, p.epsilon};
    attend<T, C, DIM, HEADS>(step, cache, position, Result<T>{result, vector}, splits, counters, p.batch, p.steps,
                             p.group, p.kv_heads, p.dim, p.capacity, p.window, p.scale, p.softcap, slopes);
}
#define ATTEND(DIM, HEADS, MATRIX, NAME, T, C)                                                                      \
    ENTRY RESIDENT((KeyReaderOf<C, DIM, HEADS>::type::RESIDENT)) attend_##DIM##_##HEADS##_##NAME(AttendProblem p) { \
        attend_apart<T, C, DIM, HEADS>(p, (const T *)p.heads, (C *)p.cache, p.position, (T *)p.result, p.vector,    \
                                       p.splits, p.counters, (const T *)p.cos, (const T *)p.sin,                    \
                                       (const T *)p.query_norm, (const T *)p.key_norm, p.slopes);                   \
    }
#define ATTENDS(NAME, T, C) LISTED(ATTEND_KERNELS)(ATTEND, NAME, T, C)
FOR_ATTEND_TYPES(ATTENDS)

// ----------------------------------------------------------------------- merge

// A workgroup of 256 puts the splits of one head's result together, in their order.
template <class T>
__device__ __forceinline__ void merge(const float *splits, T *result, uint32_t count, uint32_t dim) {
    __shared__ WaveValues<float> values;
    __shared__ float share[MAX_SPLITS], rows[256];
    const float *logarithms = splits + (size_t)gridDim.x * count * dim + (size_t)blockIdx.x * count;
    const float *from = splits + (size_t)blockIdx.x * count * dim;
    uint32_t thread = threadIdx.x;
    float logarithm = thread < count ? read_global<float>(logarithms + thread) : -INFINITY;
    float most =
        block_all_reduce(logarithm, thread, 256, [](float a, float b) INLINED { return math::fmax(a, b); }, values);
    float weight = logarithm == -INFINITY ? 0 : math::exp2(logarithm - most);
    float all = block_all_reduce(weight, thread, 256, Sum{}, values);
    share[thread] = all == 0 ? 0 : weight / all;
    __syncthreads();
    // Groups of threads take a row's numbers, and with others share out the splits.
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
            result[(size_t)blockIdx.x * dim + at] = round_to<T>(x);
        }
        __syncthreads();
    }
}

#define MERGE(NAME, T)                                                                                         \
    ENTRY __launch_bounds__(256)                                                                               \
        merge_##NAME(const float *__restrict__ splits, T *__restrict__ result, uint32_t count, uint32_t dim) { \
        merge(splits, result, count, dim);                                                                     \
    }
MERGE(f16, half_t)
MERGE(bf16, bf16_t)
MERGE(f32, float)

} // namespace attention
