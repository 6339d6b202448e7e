// Products of large matrices: a workgroup computes a tile of C.
//
//   for each stage of k:   load  global -> registers   (the stage after this one)
//                          mma   LDS -> registers, multiply and accumulate
//                          stage registers -> LDS      (the buffer that is not being read)
//   store  registers -> global
//
// Tiles of one stage have an order of their own (dual_issue.cuh).
//
// The types are a tile's shape (`Shape`), a stage on its way to LDS (`KBlock`), a stage in LDS
// (`Stage`) and the accumulators of a thread (`Accumulator`). Matrix instructions replace the last two.
//
// LDS: two buffers of K lines of A's rows and of B's columns, in the compute type, each with 16 bytes free behind it.
#pragma once
#include "matmul/loads/vectors.cuh"

// A tile of M x N of C, in stages of K, so many of which are in LDS; each thread holds ROWS x COLS of it.
template <int M_, int N_, int K_, int ROWS_, int COLS_, int STAGES_> struct Shape {
    static constexpr int M = M_, N = N_, K = K_, ROWS = ROWS_, COLS = COLS_, STAGES = STAGES_;
    static constexpr int THREADS = (M / ROWS) * (N / COLS);
};

// One stage of an operand in LDS, in the compute type: [K][extent], where extent runs along C's rows
// (for A) or columns (for B). The padding keeps rows 16-byte aligned and spreads them over the banks.
template <class Acc, int K, int EXTENT> struct Stage {
    static constexpr int PAD = 16 / (int)sizeof(Acc);
    Acc v[K][EXTENT + PAD];

    __device__ __forceinline__ Acc *at(uint32_t k, uint32_t e) { return &v[k][e]; }
};

// A thread's share of one stage of an operand: VECTORS loads of 16 bytes. The operand is seen as
// extent x k, and lies in memory with its extent together (ALONG_K = false) or its k together.
template <class T, int K, int EXTENT, int THREADS, bool ALONG_K> struct KBlock {
    static constexpr int V = VEC16<T>;
    static constexpr int TOTAL = K * EXTENT / V;
    static constexpr int VECTORS = ceil_div(TOTAL, THREADS);
    static constexpr bool EVEN = TOTAL % THREADS == 0;
    // Vectors along the direction that is together in memory.
    static constexpr int PER_LINE = (ALONG_K ? K : EXTENT) / V;
    static_assert(PER_LINE > 0 && (ALONG_K ? K : EXTENT) % V == 0, "a line is whole vectors");

    const T *base;
    int64_t ld;
    uint32_t extent; // of the operand from this tile's start on
    uint32_t depth;  // k
    bool has_vectors;
    vec<T, V> held[VECTORS];

    // `matrix` is the operand, `start` the tile's first row (column, for B) of its `extent`.
    __device__ __forceinline__ KBlock(const T *matrix, int64_t ld, uint32_t start, uint32_t extent, uint32_t depth)
        : base(matrix + (ALONG_K ? (int64_t)start * ld : (int64_t)start)), ld(ld), extent(extent - start), depth(depth),
          has_vectors(vectors_at(matrix, ld)) {}

    struct Coordinates {
        uint32_t e;
        uint32_t k;
    };
    // Where vector i of this thread begins in the stage.
    static __device__ __forceinline__ Coordinates coordinates(int i) {
        uint32_t index = threadIdx.x + i * THREADS;
        uint32_t line = index / PER_LINE, along = index % PER_LINE * V;
        return ALONG_K ? Coordinates{line, along} : Coordinates{along, line};
    }
    static __device__ __forceinline__ bool mine(int i) { return EVEN || threadIdx.x + i * THREADS < TOTAL; }
    __device__ __forceinline__ const T *at(uint32_t e, uint32_t k) const {
        return base + (ALONG_K ? (int64_t)e * ld + k : (int64_t)k * ld + e);
    }

    // Reads the stage that begins at k; what lies outside the operand reads as 0.
    __device__ __forceinline__ void load(uint32_t k) {
        if (has_vectors && extent >= EXTENT && k + K <= depth) {
#pragma unroll
            for (int i = 0; i < VECTORS; i++) {
                Coordinates p = coordinates(i);
                if (mine(i)) held[i] = load_vector<vec<T, V>>(at(p.e, k + p.k));
            }
        } else {
#pragma unroll
            for (int i = 0; i < VECTORS; i++) {
                Coordinates p = coordinates(i);
                if (mine(i)) load_edge(held[i], p.e, k + p.k);
            }
        }
    }

    __device__ __forceinline__ void load_edge(vec<T, V> &into, uint32_t e, uint32_t k) const {
        into = vec<T, V>{};
        if (e >= extent || k >= depth) return;
        uint32_t left = ALONG_K ? depth - k : extent - e;
        const T *from = at(e, k);
        if (has_vectors && left >= V) {
            into = load_vector<vec<T, V>>(from);
            return;
        }
#pragma unroll
        for (int j = 0; j < V; j++)
            if ((uint32_t)j < left) into[j] = from[j];
    }

    // Writes what was read to LDS, upcast.
    template <class LdsStage> __device__ __forceinline__ void stage(LdsStage &lds_stage) const {
#pragma unroll
        for (int i = 0; i < VECTORS; i++) {
            Coordinates p = coordinates(i);
            if (!mine(i)) continue;
#pragma unroll
            for (int j = 0; j < V; j++) {
                compute_t<T> wide = upcast(held[i][j]);
                *(ALONG_K ? lds_stage.at(p.k + j, p.e) : lds_stage.at(p.k, p.e + j)) = wide;
            }
        }
    }
};

// A thread's ROWS x COLS of the tile: vectors of 16 bytes of the compute type, spread over the tile so
// that neighbouring threads read neighbouring vectors of LDS.
template <class T, class S> struct Accumulator {
    using Acc = compute_t<T>;
    static constexpr int WIDTH = 16 / (int)sizeof(Acc);
    static constexpr int ROW_THREADS = S::M / S::ROWS, COL_THREADS = S::N / S::COLS;
    static_assert(S::ROWS % WIDTH == 0 && S::COLS % WIDTH == 0, "fragments are whole vectors");

    Acc v[S::COLS][S::ROWS] = {};
    uint32_t row_thread = threadIdx.x % ROW_THREADS;
    uint32_t col_thread = threadIdx.x / ROW_THREADS;

    // The tile's row of this thread's row i, and column of its column j.
    __device__ __forceinline__ uint32_t row(int i) const {
        return i / WIDTH * (ROW_THREADS * WIDTH) + row_thread * WIDTH + i % WIDTH;
    }
    __device__ __forceinline__ uint32_t col(int j) const {
        return j / WIDTH * (COL_THREADS * WIDTH) + col_thread * WIDTH + j % WIDTH;
    }

    __device__ __forceinline__ void mma(const Stage<Acc, S::K, S::M> &a, const Stage<Acc, S::K, S::N> &b) {
        using Vector = vec<Acc, WIDTH>;
        // Unrolled further, the compiler reads so far ahead that registers run out.
#pragma unroll 2
        for (int k = 0; k < S::K; k++) {
            Vector rows[S::ROWS / WIDTH], cols[S::COLS / WIDTH];
#pragma unroll
            for (int i = 0; i < S::ROWS / WIDTH; i++) rows[i] = load_vec<Vector>(&a.v[k][row(i * WIDTH)]);
#pragma unroll
            for (int j = 0; j < S::COLS / WIDTH; j++) cols[j] = load_vec<Vector>(&b.v[k][col(j * WIDTH)]);
#pragma unroll
            for (int j = 0; j < S::COLS; j++)
#pragma unroll
                for (int i = 0; i < S::ROWS; i++)
                    v[j][i] = math::fma(rows[i / WIDTH][i % WIDTH], cols[j / WIDTH][j % WIDTH], v[j][i]);
        }
    }

    // Writes the part of the tile that lies within C; (row0, col0) is the tile's corner.
    __device__ __forceinline__ void store(const GemmProblem &p, T *c, uint32_t row0, uint32_t col0) const {
        Scaling<compute_t<T>> scaling(p);
#pragma unroll
        for (int j = 0; j < S::COLS; j++) {
            uint32_t column = col0 + col(j);
            if (column >= p.n) continue;
            T *to = c + (int64_t)column * p.ldc;
#pragma unroll
            for (int i = 0; i < S::ROWS; i += WIDTH) {
                uint32_t first = row0 + row(i);
                if (first + WIDTH <= p.m) {
                    scaling.template store<WIDTH>(to + first, &v[j][i]);
                } else {
#pragma unroll
                    for (int e = 0; e < WIDTH; e++)
                        if (first + e < p.m) scaling.template store<1>(to + first + e, &v[j][i + e]);
                }
            }
        }
    }
};

// Grid: x tiles of rows, y tiles of columns, z batch. Workgroup: S::THREADS.
template <class T, class S, Op OP_A, Op OP_B> __device__ __forceinline__ void gemm_tile(const GemmProblem &p) {
    using Acc = compute_t<T>;
    __shared__ Stage<Acc, S::K, S::M> stages_a[2];
    __shared__ Stage<Acc, S::K, S::N> stages_b[2];

    auto [a, b, c] = select_batch<T>(p);
    uint32_t row0 = blockIdx.x * S::M, col0 = blockIdx.y * S::N;
    Accumulator<T, S> sums;
    if (p.k > 0) {
        KBlock<T, S::K, S::M, S::THREADS, OP_A == Op::T> rows(a, p.lda, row0, p.m, p.k);
        KBlock<T, S::K, S::N, S::THREADS, OP_B == Op::N> cols(b, p.ldb, col0, p.n, p.k);
        rows.load(0);
        cols.load(0);
        rows.stage(stages_a[0]);
        cols.stage(stages_b[0]);
        uint32_t buffer = 0;
        for (uint32_t k = S::K;; k += S::K) {
            // Ends the writes to this buffer and the reads of the other one.
            __syncthreads();
            bool more = k < p.k;
            if (more) {
                rows.load(k);
                cols.load(k);
            }
            sums.mma(stages_a[buffer], stages_b[buffer]);
            if (!more) break;
            buffer ^= 1;
            rows.stage(stages_a[buffer]);
            cols.stage(stages_b[buffer]);
        }
    }
    sums.store(p, c, row0, col0);
}
