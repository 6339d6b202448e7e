// Products of large f32 matrices on vector units that issue two multiply-adds at once (RDNA 3 and 4), in the fewest
// reads of LDS for each: a thread holds up to 8 x 16 of the tile. RDNA 2 has them for the fewer reads.
//
//   for each stage of k:   stage registers -> LDS
//                          load  global -> registers   (the stage after this one)
//                          for each k: read LDS -> registers (the k after this one), multiply and accumulate
//
// One stage is in LDS, between two barriers: other workgroups multiply meanwhile. Of two multiply-adds that issue at
// once all three operands lie in different banks of registers, by a register's lowest bits: those of neighbouring rows
// and neighbouring columns do. The compiler pairs what stands within one k, which scheduling barriers bound.
#pragma once
#include "matmul/main_loop/vector_units.cuh"
#include "portable/streams.cuh"

// One stage of an operand in LDS: [K][extent]. Each 4 lines of k begin 8 elements later than those before, so that a
// wavefront that writes 4 vectors along k of each of 8 rows writes to all banks.
template <int K, int EXTENT> struct SkewedStage {
    static constexpr int LINES = 4, SKEW = 8;
    alignas(16) float v[K * EXTENT + K / LINES * SKEW];

    static __device__ __forceinline__ uint32_t place(uint32_t k, uint32_t e) {
        return k * EXTENT + k / LINES * SKEW + e;
    }
    __device__ __forceinline__ float *at(uint32_t k, uint32_t e) { return &v[place(k, e)]; }
};

// What a thread multiplies for one k: its rows of A and columns of B.
template <class S> struct VectorFragment {
    using Vector = vec<float, 4>;
    Vector rows[S::ROWS / 4], cols[S::COLS / 4];

    __device__ __forceinline__ void read(const Accumulator<float, S> &sums, SkewedStage<S::K, S::M> &a,
                                         SkewedStage<S::K, S::N> &b, int k) {
#pragma unroll
        for (int i = 0; i < S::ROWS / 4; i++) rows[i] = load_vec<Vector>(a.at(k, sums.row(4 * i)));
#pragma unroll
        for (int j = 0; j < S::COLS / 4; j++) cols[j] = load_vec<Vector>(b.at(k, sums.col(4 * j)));
    }

    // In squares of 2 x 2, each diagonal of which is a pair.
    __device__ __forceinline__ void mma(Accumulator<float, S> &sums) const {
#pragma unroll
        for (int j = 0; j < S::COLS; j += 2)
#pragma unroll
            for (int i = 0; i < S::ROWS; i += 2)
#pragma unroll
                for (int of = 0; of < 4; of++) {
                    int row = i + of % 2, col = j + (of % 2 ^ of / 2);
                    float &sum = sums.v[col][row];
                    sum = math::fma(rows[row / 4][row % 4], cols[col / 4][col % 4], sum);
                }
    }
};

// The stage's products, added to the sums.
template <class S>
__device__ __forceinline__ void mma_stage(Accumulator<float, S> &sums, SkewedStage<S::K, S::M> &a,
                                          SkewedStage<S::K, S::N> &b) {
    VectorFragment<S> now, next;
    now.read(sums, a, b, 0);
#pragma unroll
    for (int k = 0; k < S::K; k++) {
        if (k + 1 < S::K) next.read(sums, a, b, k + 1);
        now.mma(sums);
        opt_barrier_schedule();
        now = next;
    }
}

// Grid: x tiles of rows, y tiles of columns, z batch. Workgroup: S::THREADS.
template <class T, class S, Op OP_A, Op OP_B> __device__ __forceinline__ void gemm_dual_issue(const GemmProblem &p) {
    static_assert(is_same<T, float>::value, "pairs are of f32");
    __shared__ SkewedStage<S::K, S::M> stage_a;
    __shared__ SkewedStage<S::K, S::N> stage_b;

    auto [a, b, c] = select_batch<float>(p);
    uint32_t row0 = blockIdx.x * S::M, col0 = blockIdx.y * S::N;
    Accumulator<float, S> sums;
    if (p.k > 0) {
        KBlock<float, S::K, S::M, S::THREADS, OP_A == Op::T> rows(a, p.lda, row0, p.m, p.k);
        KBlock<float, S::K, S::N, S::THREADS, OP_B == Op::N> cols(b, p.ldb, col0, p.n, p.k);
        rows.load(0);
        cols.load(0);
        for (uint32_t k = S::K;; k += S::K) {
            rows.stage(stage_a);
            cols.stage(stage_b);
            __syncthreads();
            bool more = k < p.k;
            if (more) {
                rows.load(k);
                cols.load(k);
            }
            mma_stage(sums, stage_a, stage_b);
            if (!more) break;
            __syncthreads();
        }
    }
    sums.store(p, c, row0, col0);
}
