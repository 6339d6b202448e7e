// Mixtures of experts, but for their products: which tokens go to which, their rows there, and back.
//
// A token has `top` assignments, one for each expert that it goes to. Experts' rows lie one expert after another, each
// beginning at a multiple of 128; `place` says for an assignment which row that is, `source` for a row which
// assignment.
#pragma once
#include "portable/block_reduce.cuh"
#include "rows/float_vector.cuh"

namespace experts {

static constexpr uint32_t EXPERTS_ROWS = 128, EXPERTS_GROUP_BITS = 20;
static constexpr uint32_t EXPERTS_WARP = 32, EXPERTS_THREADS = 256;

// Which of EXPERTS_TOGETHER assignments from `first` on are an expert's, or, of number `experts`, of none that there
// is: a bit for each.
static constexpr uint32_t EXPERTS_TOGETHER = 8;
__device__ __forceinline__ uint32_t whose(const uint32_t *ids, uint32_t first, uint32_t assignments, uint32_t expert,
                                          uint32_t experts) {
    Held<uint32_t, EXPERTS_TOGETHER> held;
    bool aligned = is_aligned(ids, 16) && first + EXPERTS_TOGETHER <= assignments;
    held.load(ids + first, first < assignments ? min_of(assignments - first, EXPERTS_TOGETHER) : 0, aligned);
    uint32_t mine = 0;
#pragma unroll
    for (uint32_t i = 0; i < EXPERTS_TOGETHER; i++) {
        uint32_t id = min_of((uint32_t)held.words[i / 4][i % 4], experts);
        mine |= (first + i < assignments && id == expert ? 1u : 0u) << i;
    }
    return mine;
}

// How many of the assignments are an expert's: the workgroup's.
__device__ __forceinline__ void count_experts(const uint32_t *ids, int32_t *counts, uint32_t assignments,
                                              uint32_t experts) {
    __shared__ WaveValues<int32_t> lds;
    int32_t count = 0;
    for (uint32_t i = threadIdx.x * EXPERTS_TOGETHER; i < assignments; i += EXPERTS_THREADS * EXPERTS_TOGETHER)
        count += __builtin_popcount(whose(ids, i, assignments, blockIdx.x, experts));
    count = block_all_reduce(count, threadIdx.x, EXPERTS_THREADS, Sum(), lds);
    if (threadIdx.x == 0) counts[blockIdx.x] = count;
}

// Where an expert's rows begin, which block of 128 is whose, and which assignment has which row, in the assignments'
// order. A workgroup for each expert, and one for what is left of `blocks`.
struct TokenPermutation {
    const uint32_t *ids;
    const int32_t *counts;
    int32_t *starts;  // one more than experts
    int32_t *numbers; // of blocks of rows, as grouped products take them: -1 where nobody's
    int32_t *place;   // of assignments
    int32_t *source;  // of rows, -1 where nobody's
    uint32_t assignments, experts, blocks;
};
__device__ __forceinline__ int32_t in_use(int32_t count, int32_t block) {
    return min_of(count - block * (int32_t)EXPERTS_ROWS, (int32_t)EXPERTS_ROWS);
}
__device__ __forceinline__ void permute_tokens(const TokenPermutation &p) {
    __shared__ WaveValues<int32_t> lds;
    __shared__ int32_t of_wave[EXPERTS_THREADS / 32];
    uint32_t expert = blockIdx.x;
    int32_t before = 0;
    for (uint32_t e = threadIdx.x; e < expert; e += EXPERTS_THREADS)
        before += ceil_div(p.counts[e], (int32_t)EXPERTS_ROWS);
    before = block_all_reduce(before, threadIdx.x, EXPERTS_THREADS, Sum(), lds);
    bool rest = expert == p.experts;
    int32_t rows = rest ? 0 : p.counts[expert], first = before * EXPERTS_ROWS;
    int32_t end = rest ? p.blocks : before + ceil_div(rows, (int32_t)EXPERTS_ROWS);
    if (threadIdx.x == 0) p.starts[expert] = first;
    for (int32_t block = before + threadIdx.x; block < end; block += EXPERTS_THREADS)
        p.numbers[block] = rest ? -1 : (int32_t)expert | (in_use(rows, block - before) - 1) << EXPERTS_GROUP_BITS;
    for (int32_t row = first + rows + threadIdx.x; row < end * (int32_t)EXPERTS_ROWS; row += EXPERTS_THREADS)
        p.source[row] = -1;
    // Assignments of experts that there are not have no row.
    int32_t next = first;
    for (uint32_t from = 0; from < p.assignments; from += EXPERTS_THREADS * EXPERTS_TOGETHER) {
        uint32_t i = from + threadIdx.x * EXPERTS_TOGETHER;
        uint32_t mine = whose(p.ids, i, p.assignments, expert, p.experts);
        // How many those before this thread have: within 32 lanes, then of those before.
        int32_t count = __builtin_popcount(mine), within = count;
#pragma unroll
        for (uint32_t step = 1; step < 32; step *= 2) {
            int32_t other = shfl_up(within, step, 32u);
            if (threadIdx.x % 32 >= step) within += other;
        }
        if (threadIdx.x % 32 == 31) of_wave[threadIdx.x / 32] = within;
        __syncthreads();
        int32_t earlier = 0, all = 0;
#pragma unroll
        for (uint32_t w = 0; w < EXPERTS_THREADS / 32; w++) {
            earlier += w < threadIdx.x / 32 ? of_wave[w] : 0;
            all += of_wave[w];
        }
        __syncthreads();
        int32_t row = next + earlier + within - count;
        for (; mine != 0; mine &= mine - 1) {
            uint32_t at = i + __builtin_ctz(mine);
            p.place[at] = rest ? -1 : row;
            if (!rest) p.source[row++] = (int32_t)at;
        }
        next += all;
    }
}

// Each token's row to those of its experts, times the assignments' weights where there are any; of `rows`, nobody's are
// 0.
template <class T>
__device__ __forceinline__ void experts_scatter(const T *x, const int32_t *place, const int32_t *source,
                                                const float *weights, T *y, uint32_t tokens, uint32_t columns,
                                                uint32_t top, uint32_t rows) {
    constexpr int V = VEC16<T>;
    bool aligned = is_aligned(x, 16) && is_aligned(y, 16) && columns % V == 0;
    auto to = [&](uint64_t row, uint32_t column) INLINED {
        return y + row * columns + column;
    };
    for_vectors<V>(tokens, columns, [&](uint32_t token, uint32_t column, uint32_t count) INLINED {
        Held<T, V> held;
        held.load(x + (uint64_t)token * columns + column, count, aligned);
        for (uint32_t i = 0; i < top; i++) {
            uint32_t assignment = token * top + i;
            int32_t row = place[assignment];
            if (row < 0) continue;
            Held<T, V> weighted = held;
            if (weights) {
                float weight = weights[assignment];
                FloatVector<T, V> values = held;
#pragma unroll
                for (int e = 0; e < V; e++) values.x[e] *= weight;
                weighted = values.rounded();
            }
            weighted.store(to(row, column), count, aligned);
        }
    });
    uint32_t lane = threadIdx.x % EXPERTS_WARP;
    for (uint64_t row = global_thread() / EXPERTS_WARP; row < rows; row += global_threads() / EXPERTS_WARP) {
        if (source[row] >= 0) continue;
        for (uint32_t column = lane * V; column < columns; column += EXPERTS_WARP * V)
            Held<T, V>().store(to(row, column), min_of(columns - column, (uint32_t)V), aligned);
    }
}

// Each token's sum of its experts' rows, in the order of its assignments, times their weights where there are any, and
// what is added besides.
template <class T>
__device__ __forceinline__ void experts_combine(const T *x, const int32_t *place, const float *weights, const T *more,
                                                T *y, uint32_t tokens, uint32_t columns, uint32_t top) {
    // Rows of a token that are on their way together.
    constexpr int V = VEC16<T>, TOGETHER = 4;
    bool aligned = is_aligned(x, 16) && is_aligned(y, 16) && is_aligned(more, 16) && columns % V == 0;
    for_vectors<V>(tokens, columns, [&](uint32_t token, uint32_t column, uint32_t count) INLINED {
        Held<T, V> of_more;
        if (more) of_more.load(more + (uint64_t)token * columns + column, count, aligned);
        FloatVector<T, V> sum = of_more;
        for (uint32_t first = 0; first < top; first += TOGETHER) {
            Held<T, V> held[TOGETHER];
            int32_t rows[TOGETHER];
#pragma unroll
            for (int i = 0; i < TOGETHER; i++) {
                rows[i] = first + i < top ? place[token * top + first + i] : -1;
                if (rows[i] >= 0) held[i].load(x + (uint64_t)rows[i] * columns + column, count, aligned);
            }
#pragma unroll
            for (int i = 0; i < TOGETHER; i++) {
                if (rows[i] < 0) continue;
                FloatVector<T, V> values = held[i];
                float weight = weights ? weights[token * top + first + i] : 1.0f;
#pragma unroll
                for (int e = 0; e < V; e++) sum.x[e] = math::fma(values.x[e], weight, sum.x[e]);
            }
        }
        sum.rounded().store(y + (uint64_t)token * columns + column, count, aligned);
    });
}

// Weights' gradients: of each assignment, the product of its expert's row and of the token's gradient. Warps of 32
// lanes.
template <class T>
__device__ __forceinline__ void experts_dots(const T *x, const int32_t *place, const T *gradient, float *y,
                                             uint32_t assignments, uint32_t columns, uint32_t top) {
    uint32_t lane = threadIdx.x % EXPERTS_WARP;
    uint32_t first = (uint32_t)(global_thread() / EXPERTS_WARP), step = (uint32_t)(global_threads() / EXPERTS_WARP);
    // All lanes of a wavefront go on as long as one has an assignment.
    for (uint32_t from = first / 2 * 2; from < assignments; from += step) {
        uint32_t i = from + first % 2;
        int32_t row = i < assignments ? place[i] : -1;
        float sum = 0;
        if (row >= 0)
            for (uint32_t c = lane; c < columns; c += EXPERTS_WARP)
                sum = math::fma(upcast(x[(uint64_t)row * columns + c]),
                                upcast(gradient[(uint64_t)(i / top) * columns + c]), sum);
        sum = wave_all_reduce(sum, EXPERTS_WARP, Sum());
        if (lane == 0 && i < assignments) y[i] = sum;
    }
}

} // namespace experts
