// The permutation of assignments for at most PERMUTATION_MOST experts, in two launches whose work does not grow with
// the experts. Assignments lie in chunks, a workgroup's each: the first kernel counts each chunk's of each expert, the
// second adds up what all chunks have and gives each assignment the next row of its expert.
#pragma once
#include "portable/lanes.cuh"
#include "experts/rows.cuh"

namespace experts {

static constexpr uint32_t PERMUTATION_MOST = 512, PERMUTATION_WAVES = EXPERTS_THREADS / WAVEFRONT;
using RowsOfExperts = LDS_MEMORY int32_t[PERMUTATION_MOST];

// Calls f(assignment, expert) for a wavefront's part of the workgroup's chunk, in order, by all lanes: of number
// `experts` where there is no such expert, and assignment `end` where there is none.
template <class F>
__device__ __forceinline__ void each_of_chunk(const uint32_t *ids, uint32_t assignments, uint32_t experts,
                                              uint32_t chunk, F f) {
    uint32_t each = chunk / PERMUTATION_WAVES, wave = threadIdx.x / WAVEFRONT;
    uint32_t first = min_of(blockIdx.x * chunk + wave * each, assignments), end = min_of(first + each, assignments);
    // Several are on their way at once.
    constexpr uint32_t TOGETHER = 8;
    for (uint32_t from = first; from < end; from += TOGETHER * WAVEFRONT) {
        uint32_t here[TOGETHER];
#pragma unroll
        for (uint32_t t = 0; t < TOGETHER; t++) {
            uint32_t i = from + t * WAVEFRONT + threadIdx.x % WAVEFRONT;
            here[t] = i < end ? ids[i] : experts;
        }
#pragma unroll
        for (uint32_t t = 0; t < TOGETHER; t++) {
            uint32_t i = from + t * WAVEFRONT + threadIdx.x % WAVEFRONT;
            if (from + t * WAVEFRONT < end) f(min_of(i, end), end, min_of(here[t], experts));
        }
    }
}

__device__ __forceinline__ void count_chunk(const uint32_t *ids, int32_t *counts, uint32_t assignments,
                                            uint32_t experts, uint32_t chunk) {
    static __shared__ int32_t lds[PERMUTATION_MOST];
    LDS_MEMORY int32_t *of_expert = (LDS_MEMORY int32_t *)lds;
    for (uint32_t e = threadIdx.x; e < experts; e += EXPERTS_THREADS) of_expert[e] = 0;
    __syncthreads();
    each_of_chunk(ids, assignments, experts, chunk, [&](uint32_t, uint32_t, uint32_t expert) INLINED {
        if (expert < experts) lds_add(of_expert + expert, 1);
    });
    __syncthreads();
    for (uint32_t e = threadIdx.x; e < experts; e += EXPERTS_THREADS) counts[blockIdx.x * experts + e] = of_expert[e];
}

// What a workgroup of permute_chunk has in LDS: rows of each expert before this chunk's of each wavefront, all of an
// expert's, and where these begin.
struct PermutationLds {
    int32_t (&rows_of_waves)[PERMUTATION_WAVES][PERMUTATION_MOST], (&rows_of_experts)[PERMUTATION_MOST];
    int32_t (&starts)[PERMUTATION_MOST + 1], (&of_wave)[PERMUTATION_WAVES];
};

// Scan: where each expert begins, and there each wavefront's rows. Returns how many blocks all experts have.
__device__ __forceinline__ int32_t scan_experts(const TokenPermutation &p, const PermutationLds &lds, uint32_t wave,
                                                uint32_t lane, uint32_t chunks) {
    int32_t blocks = 0;
    for (uint32_t from = 0; from < p.experts; from += EXPERTS_THREADS) {
        uint32_t e = from + threadIdx.x;
        bool inside = e < p.experts;
        int32_t rows = 0, before = 0;
        if (inside) {
#pragma unroll 4
            for (uint32_t c = 0; c < chunks; c++) {
                int32_t count = p.counts[c * p.experts + e];
                rows += count;
                before += c < blockIdx.x ? count : 0;
            }
        }
        int32_t mine = ceil_div(rows, (int32_t)EXPERTS_ROWS), end = mine;
#pragma unroll
        for (uint32_t step = 1; step < WAVEFRONT; step *= 2) {
            int32_t other = shfl_up(end, step, (uint32_t)WAVEFRONT);
            if (lane >= step) end += other;
        }
        if (lane == WAVEFRONT - 1) lds.of_wave[wave] = end;
        __syncthreads();
        int32_t earlier = blocks;
#pragma unroll
        for (uint32_t w = 0; w < PERMUTATION_WAVES; w++) {
            earlier += w < wave ? lds.of_wave[w] : 0;
            blocks += lds.of_wave[w];
        }
        __syncthreads();
        if (!inside) continue;
        int32_t start = (earlier + end - mine) * (int32_t)EXPERTS_ROWS, row = start + before;
        lds.starts[e] = start;
        lds.rows_of_experts[e] = rows;
        for (uint32_t w = 0; w < PERMUTATION_WAVES; w++) {
            int32_t count = lds.rows_of_waves[w][e];
            lds.rows_of_waves[w][e] = row;
            row += count;
        }
    }
    return blocks;
}

// Place: each assignment's row. `next` has the next row of each expert for this wavefront.
__device__ __forceinline__ void place_assignments(const TokenPermutation &p, LDS_MEMORY int32_t *next, uint32_t chunk,
                                                  uint32_t lane) {
    uint32_t bits = 32 - (uint32_t)__builtin_clz(p.experts);
    each_of_chunk(p.ids, p.assignments, p.experts, chunk, [&](uint32_t i, uint32_t end, uint32_t expert) INLINED {
        // How many lanes before have the same expert.
        Lanes same = ~(Lanes)0;
#pragma unroll 1
        for (uint32_t b = 0; b < bits; b++) {
            Lanes set = (Lanes)ballot(expert >> b & 1);
            same &= expert >> b & 1 ? set : ~set;
        }
        int32_t earlier = lanes_of(same & (((Lanes)1 << lane) - 1));
        bool placed = expert < p.experts;
        int32_t row = placed ? next[expert] + earlier : -1;
        wave_fence();
        if (placed && earlier == 0) next[expert] = row + lanes_of(same);
        wave_fence();
        if (i < end) p.place[i] = row;
        if (placed) p.source[row] = (int32_t)i;
    });
}

// Store: what no assignment has, by all workgroups together: where experts begin, whose blocks are, and rows that are
// nobody's.
__device__ __forceinline__ void store_blocks(const TokenPermutation &p, const PermutationLds &lds, int32_t blocks,
                                             uint32_t wave, uint32_t lane, uint32_t chunks) {
    if (blockIdx.x == 0)
        for (uint32_t e = threadIdx.x; e <= p.experts; e += EXPERTS_THREADS) p.starts[e] = lds.starts[e];
    for (uint32_t e = blockIdx.x + chunks * wave; e < p.experts; e += chunks * PERMUTATION_WAVES) {
        int32_t rows = lds.rows_of_experts[e], first = lds.starts[e], end = lds.starts[e + 1];
        for (int32_t block = lane; block * (int32_t)EXPERTS_ROWS < rows; block += WAVEFRONT)
            p.numbers[first / (int32_t)EXPERTS_ROWS + block] = (int32_t)e | (in_use(rows, block) - 1)
                                                                                << EXPERTS_GROUP_BITS;
        for (int32_t row = first + rows + lane; row < end; row += WAVEFRONT) p.source[row] = -1;
    }
    for (uint32_t block = blocks + (uint32_t)global_thread(); block < p.blocks; block += global_threads())
        p.numbers[block] = -1;
    for (uint32_t row = blocks * EXPERTS_ROWS + (uint32_t)global_thread(); row < p.blocks * EXPERTS_ROWS;
         row += global_threads())
        p.source[row] = -1;
}

__device__ __forceinline__ void permute_chunk(const TokenPermutation &p, uint32_t chunk) {
    static __shared__ int32_t rows_of_waves[PERMUTATION_WAVES][PERMUTATION_MOST], rows_of_experts[PERMUTATION_MOST];
    static __shared__ int32_t starts[PERMUTATION_MOST + 1], of_wave[PERMUTATION_WAVES];
    PermutationLds lds = {rows_of_waves, rows_of_experts, starts, of_wave};
    uint32_t wave = threadIdx.x / WAVEFRONT, lane = threadIdx.x % WAVEFRONT, chunks = gridDim.x;
    // Count: this chunk's rows of each wavefront.
    LDS_MEMORY int32_t *next = (LDS_MEMORY int32_t *)rows_of_waves[wave];
    for (uint32_t e = lane; e < p.experts; e += WAVEFRONT) next[e] = 0;
    wave_fence();
    each_of_chunk(p.ids, p.assignments, p.experts, chunk, [&](uint32_t, uint32_t, uint32_t expert) INLINED {
        if (expert < p.experts) lds_add(next + expert, 1);
    });
    __syncthreads();
    int32_t blocks = scan_experts(p, lds, wave, lane, chunks);
    if (threadIdx.x == 0) starts[p.experts] = blocks * (int32_t)EXPERTS_ROWS;
    __syncthreads();
    place_assignments(p, next, chunk, lane);
    store_blocks(p, lds, blocks, wave, lane, chunks);
}

} // namespace experts
