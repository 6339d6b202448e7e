// Attention of few queries by matrix instructions over 16 of k: a wavefront has 16 keys, and up to 8 or 16 queries,
// which are the columns of scores and results. Which of a head's elements take which place of k, or of the rows of
// results, is arbitrary, as long as both operands agree: so lanes read 16 bytes at a time, and what they read
// are operands as they lie, but for the values, of which two keys' elements are paired.
#pragma once
#include "attention/decode_kernels.cuh"
#include "attention/decode_rows.cuh"
#include "matmul/skinny/atom.cuh"

namespace attention {

// The words of elements of one place in a word of two keys each, of which they take the lower and the upper half.
__device__ __forceinline__ uint32_t pair_halves(uint32_t of_one, uint32_t of_next, bool upper) {
    constexpr uint32_t LOWER = byte_selector(0, 1, 4, 5), UPPER = byte_selector(2, 3, 6, 7);
    return permute_bytes(of_one, of_next, upper ? UPPER : LOWER);
}

// What a lane has of row `row` of `rows`, each of `dim` elements, or of the last one below `end`: a vector from at(i)
// on for each i. Past a row's end its last elements are read.
template <int N, class W, class T, class At>
__device__ __forceinline__ void read_row(W (&to)[N], const T *rows, uint32_t row, uint32_t end, uint32_t dim, At at) {
    const T *from = rows + (size_t)min_of(row, end - 1) * dim;
#pragma unroll
    for (int i = 0; i < N; i++) to[i] = read_global<W>(from + min_of(at(i), dim - (uint32_t)(sizeof(W) / sizeof(T))));
}

#if defined(LDS_COPIES)
// NVIDIA's instructions, of 16 x 8 sums.

// Of 8 x 8 elements, of which a lane has two of a row, the lane's two of the transposed.
__device__ __forceinline__ uint32_t transpose_8x8(uint32_t two) {
    uint32_t transposed;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(two));
    return transposed;
}

template <class T, int DIM, int HEADS> struct AttendByMatrix {
    using Base = Attend<T, DIM, HEADS>;
    using Atom = MmaAtom<T>;
    using Lds = typename Base::Lds;
    static constexpr int THREADS = Base::THREADS, WAVES = Base::WAVES, ROW_GROUPS = WAVES, KEYS = 16;
    // The next rows are asked for when these were used: with room for both a lane's registers would spill, or half as
    // many wavefronts ask.
    static constexpr bool PREFETCH = false;
    static constexpr int RESIDENT = ListedAttend<DIM, HEADS>::MATRIX;
    // Sixteens of bytes that a lane has of a key, and of a value.
    static constexpr int OF_KEY = DIM / 32, OF_VALUE = DIM / 64;
    static_assert(sizeof(T) == 2 && HEADS <= 8, "what an instruction takes");
    typedef vec<uint32_t, 4> Words;

    // A lane's place among rows of operands (keys of scores, elements of results), and among pairs of columns and k.
    uint32_t row_group, dim, row, pair;
    float scale;
    Words query[OF_KEY];
    // Of queries 2 * pair and the next; and each four sums are of two elements times these two.
    float top[2], sum[2], sums[OF_VALUE][4][4];
    struct Rows {
        Words k[2][OF_KEY], v[4][OF_VALUE];
    };

    __device__ __forceinline__ AttendByMatrix(uint32_t dim)
        : row_group(threadIdx.x / 32), dim(dim), row(threadIdx.x % 32 / 4), pair(threadIdx.x % 4) {}

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
    __device__ __forceinline__ void load_keys(Rows &rows, const T *keys, uint32_t first, uint32_t end) const {
        auto at = [&](int j) INLINED {
            return of_key(j);
        };
#pragma unroll
        for (int i = 0; i < 2; i++) read_row(rows.k[i], keys, first + key(i), end, dim, at);
        if (dim == DIM) return;
#pragma unroll
        for (int j = 0; j < OF_KEY; j++)
            if (of_key(j) >= dim) rows.k[0][j] = rows.k[1][j] = Words{};
    }
    __device__ __forceinline__ void load_values(Rows &rows, const T *values, uint32_t first, uint32_t end) const {
        auto at = [&](int u) INLINED {
            return of_value(u);
        };
#pragma unroll
        for (int i = 0; i < 4; i++) read_row(rows.v[i], values, first + value(i), end, dim, at);
    }

    template <class F>
    __device__ __forceinline__ void step(Rows &rows, const Lds &lds, uint32_t first, uint32_t own, uint32_t end,
                                         uint32_t last, uint32_t heads, const Scores &how, F keys_used) {
        if (own - first < KEYS) {
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int j = 0; j < OF_KEY; j++)
                    if (first + key(i) >= own && of_key(j) < dim)
                        rows.k[i][j] = *(const Words *)(lds.heads[HEADS] + of_key(j));
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int u = 0; u < OF_VALUE; u++)
                    if (first + value(i) >= own && of_value(u) < dim)
                        rows.v[i][u] = *(const Words *)(lds.heads[HEADS + 1] + of_value(u));
        }
        float score[4] = {};
        auto &[k0, k1] = rows.k;
#pragma unroll
        for (int j = 0; j < OF_KEY; j++)
#pragma unroll
            for (int w = 0; w < 4; w += 2)
                Atom::multiply_half(score, {k0[j][w], k1[j][w], k0[j][w + 1], k1[j][w + 1]}, query[j][w],
                                    query[j][w + 1]);
        keys_used();
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
        uint32_t weights[2] = {transpose_8x8(weights_word<T>(score[0], score[1])),
                               transpose_8x8(weights_word<T>(score[2], score[3]))};
#pragma unroll
        for (int u = 0; u < OF_VALUE; u++)
#pragma unroll
            for (int w = 0; w < 4; w++) {
                auto word = [&](int i) INLINED {
                    return rows.v[i][u][w];
                };
                Atom::multiply_half(sums[u][w],
                                    {pair_halves(word(0), word(1), false), pair_halves(word(0), word(1), true),
                                     pair_halves(word(2), word(3), false), pair_halves(word(2), word(3), true)},
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
            if (row == 0) lds.top[head][row_group] = top[n], lds.sum[head][row_group] = all;
#pragma unroll
            for (int u = 0; u < OF_VALUE; u++)
#pragma unroll
                for (int w = 0; w < 4; w++)
#pragma unroll
                    for (int i = 0; i < 2; i++)
                        lds.rows[head][row_group * DIM + of_value(u) + 2 * w + i] = sums[u][w][2 * i + n];
        }
    }
    template <class Put, class Close> __device__ __forceinline__ void merge_waves(Lds &lds, Put put,
                                                                                  Close close) const {
        Base(dim).merge_waves(lds, put, close);
    }
};
#elif AMD_MFMA > 1 || defined(__GFX12__)
// AMD's instructions of 16 x 16 sums. Of k a lane has what it has the sums' rows of: so weights are the second
// product's operand as the first one left its scores.
template <class T, int DIM, int HEADS> struct AttendByMatrix {
    using Base = Attend<T, DIM, HEADS>;
    using Atom = SixteenColumns<T>;
    using Lds = typename Base::Lds;
    using Sums = typename Atom::Sums;
    using Run = typename Atom::Words;
    static constexpr int THREADS = Base::THREADS, WAVES = Base::WAVES, ROW_GROUPS = WAVES, KEYS = 16;
    static constexpr int RESIDENT = ListedAttend<DIM, HEADS>::MATRIX;
    // Groups of lanes, with other RUNs of k; the sixteens of bytes that a lane has of a key; its elements of a value,
    // of whose TILES it has one each, in vectors of VALUE_WORDS.
    static constexpr int RUN = Atom::RUN, GROUPS = WAVEFRONT / 16, OF_KEY = DIM / 8 / GROUPS, TILES = DIM / 16;
    static constexpr int VALUE_WORDS = min_of(TILES / 2, 4), VALUE_VECTORS = TILES / 2 / VALUE_WORDS;
    // Where a lane has registers for them, the next rows are on their way while these are used.
    static constexpr bool PREFETCH = OF_KEY * 4 + RUN * TILES / 2 <= 32;
    static_assert(sizeof(T) == 2 && HEADS <= 16, "what an instruction takes");
    typedef vec<uint32_t, 4> Words;
    typedef vec<uint32_t, VALUE_WORDS> ValueWords;

    // A lane's row or column, and its group.
    uint32_t row_group, dim, row, group;
    float scale, top, sum;
    Words query[OF_KEY];
    Sums sums[TILES];
    struct Rows {
        Words k[OF_KEY];
        ValueWords v[RUN][VALUE_VECTORS];
    };

    __device__ __forceinline__ AttendByMatrix(uint32_t dim)
        : row_group(uniform(threadIdx.x / WAVEFRONT)), dim(dim), row(threadIdx.x % 16),
          group(threadIdx.x % WAVEFRONT / 16) {}

    // Where a lane's sixteens of a key begin, and its vectors of a value; which of the wavefront's keys its value i is
    // of.
    __device__ __forceinline__ uint32_t of_key(int c) const { return (c * GROUPS + group) * 8; }
    __device__ __forceinline__ uint32_t of_value(int u) const { return row * TILES + u * VALUE_WORDS * 2; }
    __device__ __forceinline__ uint32_t value(int i) const { return group * RUN + i; }
    // A sixteen of the wavefront's RUNs of k.
    static __device__ __forceinline__ Run run_of(const Words &words, int run_index) {
        Run run;
#pragma unroll
        for (int w = 0; w < RUN / 2; w++) run[w] = words[run_index * (RUN / 2) + w];
        return run;
    }

    // Columns that have no query repeat the last one, and nobody reads their results.
    __device__ __forceinline__ void start(const Lds &lds, uint32_t heads, float by) {
        scale = by;
#pragma unroll
        for (int c = 0; c < OF_KEY; c++)
            query[c] = *(const Words *)(lds.heads[min_of(row, heads - 1)] + min_of(of_key(c), dim - 8));
        top = -INFINITY, sum = 0;
#pragma unroll
        for (auto &tile : sums) tile = Sums{};
    }

    // As Attend's.
    __device__ __forceinline__ void load_keys(Rows &rows, const T *keys, uint32_t first, uint32_t end) const {
        auto at = [&](int c) INLINED {
            return of_key(c);
        };
        read_row(rows.k, keys, first + row, end, dim, at);
        if (dim == DIM) return;
#pragma unroll
        for (int c = 0; c < OF_KEY; c++)
            if (of_key(c) >= dim) rows.k[c] = Words{};
    }
    __device__ __forceinline__ void load_values(Rows &rows, const T *values, uint32_t first, uint32_t end) const {
        auto at = [&](int u) INLINED {
            return of_value(u);
        };
#pragma unroll
        for (int i = 0; i < RUN; i++) read_row(rows.v[i], values, first + value(i), end, dim, at);
    }

    template <class F>
    __device__ __forceinline__ void step(Rows &rows, const Lds &lds, uint32_t first, uint32_t own, uint32_t end,
                                         uint32_t last, uint32_t heads, const Scores &how, F keys_used) {
        if (own - first < KEYS) {
            if (first + row >= own) {
#pragma unroll
                for (int c = 0; c < OF_KEY; c++)
                    if (of_key(c) < dim) rows.k[c] = *(const Words *)(lds.heads[HEADS] + of_key(c));
            }
#pragma unroll
            for (int i = 0; i < RUN; i++)
#pragma unroll
                for (int u = 0; u < VALUE_VECTORS; u++)
                    if (first + value(i) >= own && of_value(u) < dim)
                        rows.v[i][u] = *(const ValueWords *)(lds.heads[HEADS + 1] + of_value(u));
        }
        Sums score{};
#pragma unroll
        for (int c = 0; c < OF_KEY; c++)
#pragma unroll
            for (int run_index = 0; run_index < 8 / RUN; run_index++)
                Atom::multiply(score, run_of(rows.k[c], run_index), run_of(query[c], run_index));
        keys_used();
        bool exceeds = false;
#pragma unroll
        for (int i = 0; i < RUN; i++) score[i] *= scale;
        if (how.changes()) {
#pragma unroll
            for (int i = 0; i < RUN; i++) score[i] = how.of(score[i], row, heads, first + value(i), last);
        }
        if (first + KEYS > end) {
#pragma unroll
            for (int i = 0; i < RUN; i++) score[i] = first + value(i) >= end ? -INFINITY : score[i];
        }
#pragma unroll
        for (int i = 0; i < RUN; i++) exceeds |= score[i] > top + attention::SLACK;
        if (ballot(exceeds) != 0) {
            float most = top;
#pragma unroll
            for (int i = 0; i < RUN; i++) most = math::fmax(most, score[i]);
#pragma unroll
            for (int mask = 16; mask < WAVEFRONT; mask *= 2) most = math::fmax(most, shfl_xor(most, mask, WAVEFRONT));
            // Before the first key this is the exponential of minus infinity.
            float fade = most == -INFINITY ? 1 : math::fast_exp2(top - most);
            top = most;
            sum *= fade;
#pragma unroll
            for (auto &tile : sums) tile *= fade;
        }
        float by = top == -INFINITY ? 0 : top;
        Run weights;
#pragma unroll
        for (int i = 0; i < RUN; i += 2) {
            float one = math::fast_exp2(score[i] - by), next = math::fast_exp2(score[i + 1] - by);
            sum += one + next;
            weights[i / 2] = weights_word<T>(one, next);
        }
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
            auto word = [&](int i) INLINED {
                return rows.v[i][tile / 2 / VALUE_WORDS][tile / 2 % VALUE_WORDS];
            };
            Run of_keys;
#pragma unroll
            for (int i = 0; i < RUN; i += 2) of_keys[i / 2] = pair_halves(word(i), word(i + 1), tile % 2);
            Atom::multiply(sums[tile], of_keys, weights);
        }
    }

    // Where four elements of a row are in LDS: groups of lanes write to banks of their own.
    static __device__ __forceinline__ uint32_t place(uint32_t at) { return at ^ at / (RUN * TILES) % GROUPS * 4; }
    __device__ __forceinline__ void leave(Lds &lds) const {
        float all = sum;
#pragma unroll
        for (int mask = 16; mask < WAVEFRONT; mask *= 2) all += shfl_xor(all, mask, WAVEFRONT);
        if (row >= HEADS) return;
        if (group == 0) lds.top[row][row_group] = top, lds.sum[row][row_group] = all;
#pragma unroll
        for (int i = 0; i < RUN; i++)
#pragma unroll
            for (int tile = 0; tile < TILES; tile += 4)
                *(Four *)&lds.rows[row][row_group * DIM + place(value(i) * TILES + tile)] =
                    Four{sums[tile][i], sums[tile + 1][i], sums[tile + 2][i], sums[tile + 3][i]};
    }
    template <class Put, class Close> __device__ __forceinline__ void merge_waves(Lds &lds, Put put,
                                                                                  Close close) const {
        Base(dim).merge_placed(lds, place, put, close);
    }
};
#endif

// What reads a workgroup's keys, by the list. NVIDIA's older GPUs have no such instructions.
#if defined(__HIP__) || defined(LDS_COPIES)
static constexpr bool HAS_MATRIX = true;
#else
static constexpr bool HAS_MATRIX = false;
#endif
template <class T, int DIM, int HEADS> struct AttendByMatrix;
template <class T, int DIM, int HEADS,
          bool BY_MATRIX = HAS_MATRIX && sizeof(T) == 2 && (ListedAttend<DIM, HEADS>::MATRIX > 0)>
struct KeyReaderOf {
    using type = Attend<T, DIM, HEADS>;
};
template <class T, int DIM, int HEADS> struct KeyReaderOf<T, DIM, HEADS, true> {
    using type = AttendByMatrix<T, DIM, HEADS>;
};

} // namespace attention
