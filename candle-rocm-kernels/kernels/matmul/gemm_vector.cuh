// Products with few columns, as in decoding, where reading A is the work. B's columns are read
// straight from memory, 16 bytes at a time where they allow it.
//
// Both kernels keep their addresses as a uniform base, advanced by the scalar unit, plus 32-bit
// offsets that stay the same through the loop: the loop then holds loads and multiply-adds, and next
// to nothing else. The host checks that a workgroup's offsets fit (gemm/plan.rs).
#pragma once
#include "matmul/gemm_epilogue.cuh"

// How B lies, and whether C is taken the other way round.
enum Layout : uint32_t { B_ALONG_K = 1, TRANSPOSED = 2 };

// Moves a uniform address on, and keeps the lane's offsets what they are. The compiler is prevented
// from combining the two: it would make a 64-bit address of each load of the loop, to be added to at
// each step, where the hardware adds a scalar base and a 32-bit offset by itself.
template <class T> __device__ __forceinline__ void advance(const T *&base, int64_t elements) {
    base += elements;
    opaque_uniform(base);
}
template <int N> __device__ __forceinline__ void keep(uint32_t (&offsets)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) opaque(offsets[i]);
}

// Adds up N values each over the lanes that differ in the bits LOW .. HIGH (exclusive) of their index,
// and leaves a part of the sums in each lane: the first `KEPT` of v, which are sums `first(..)` on.
// Halving the values at each step moves N values where N reductions would move N log N.
template <class Acc, int N, uint32_t LOW, uint32_t HIGH> struct LaneReduction {
    static constexpr int LANES = HIGH / LOW;
    static constexpr int KEPT = N > LANES ? N / LANES : 1;

    // The index of v[0] in this lane.
    static __device__ __forceinline__ uint32_t first(uint32_t lane) {
        uint32_t index = 0;
        int count = N;
#pragma unroll
        for (uint32_t mask = LOW; mask < HIGH; mask <<= 1) {
            if (count == 1) break;
            count /= 2;
            if (lane & mask) index += count;
        }
        return index;
    }
    // One lane of those that hold the same sums.
    static __device__ __forceinline__ bool leads(uint32_t lane) {
        constexpr uint32_t SPREAD = LOW * (N < LANES ? N : LANES);
        return (lane & (HIGH - 1) & ~(SPREAD - 1)) == 0;
    }
    static __device__ __forceinline__ void run(Acc (&v)[N], uint32_t lane) { step<N, LOW>(v, lane); }

private:
    template <int COUNT, uint32_t MASK> static __device__ __forceinline__ void step(Acc (&v)[N], uint32_t lane) {
        if constexpr (MASK < HIGH) {
            if constexpr (COUNT > 1) {
                bool upper = lane & MASK;
#pragma unroll
                for (int i = 0; i < COUNT / 2; i++) {
                    Acc one = v[i], other = v[i + COUNT / 2];
                    Acc give = upper ? one : other;
                    Acc keep = upper ? other : one;
                    v[i] = keep + shfl_xor(give, MASK, HIGH);
                }
                step<COUNT / 2, MASK * 2>(v, lane);
            } else {
                v[0] += shfl_xor(v[0], MASK, HIGH);
                step<1, MASK * 2>(v, lane);
            }
        }
    }
};

// ------------------------------------------------------------- op(A) = T
// A's k lies together: WIDTH lanes share ROWS rows of C and COLS columns. Grid: x rows, z batch.
// The 8-lane form reads whole 128-byte lines and reduces in three steps; the 32-lane form is for long k.
constexpr int GEMV_T_THREADS = 128;

template <class T, int COLS, int WIDTH> struct GemvT {
    using Acc = compute_t<T>;
    static constexpr int V = VEC16<T>;
    static constexpr int ROWS = COLS <= 2 ? 4 : 2;
    static constexpr int UNROLL = 2;
    static constexpr int SUMS = ROWS * COLS;
    static constexpr int GROUPS = GEMV_T_THREADS / WIDTH;
    using Reduction = LaneReduction<Acc, SUMS, 1, WIDTH>;
    // Up to eight columns have a scalar base each; for more scalar registers do not reach, and their distances from the
    // first, which the host checks, are the lanes' offsets.
    static constexpr int BASES = COLS <= 8 ? COLS : 1, OFFSETS = COLS <= 8 ? 1 : COLS;

    Acc sums[SUMS] = {}; // [row][column]

    template <int N>
    __device__ __forceinline__ void accumulate(const vec<T, N> (&rows)[ROWS], const vec<T, N> (&cols)[COLS]) {
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int c = 0; c < COLS; c++)
                    sums[r * COLS + c] = math::fma(widen(rows[r][i]), widen(cols[c][i]), sums[r * COLS + c]);
    }

    __device__ __forceinline__ void run(const MatmulProblem &problem, uint32_t layout) {
        const GemmProblem &p = problem.gemm;
        bool b_along_k = layout & B_ALONG_K;
        auto [a, b, c] = select_batch<T>(p);
        uint32_t lane = threadIdx.x % WIDTH;
        uint32_t group_row = threadIdx.x / WIDTH * ROWS;
        uint32_t row0 = blockIdx.x * (GROUPS * ROWS);
        if (row0 + group_row >= p.m) return;
        uint32_t last_row = p.m - 1 - row0;
        a += (int64_t)row0 * p.lda;
        // Rows and columns beyond the last repeat it, and are not stored.
        uint32_t rows[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) rows[r] = min_of(group_row + r, last_row);
        int64_t col_b = b_along_k ? p.ldb : 1, step_b = b_along_k ? 1 : p.ldb;
        const T *columns[COLS];
#pragma unroll
        for (int j = 0; j < COLS; j++) columns[j] = b + min_of((uint32_t)j, p.n - 1) * col_b;

        if (b_along_k) sum_vectors(a, rows, columns, (uint32_t)p.lda, p.k, lane);
        else sum_elements(a, rows, columns, p.lda, step_b, p.k, lane);

        Reduction::run(sums, lane);
        if (!Reduction::leads(lane)) return;
        uint32_t first = Reduction::first(lane);
        FinishedSums<T> results(problem, c, layout & TRANSPOSED);
#pragma unroll
        for (int i = 0; i < Reduction::KEPT; i++) {
            uint32_t row = group_row + (first + i) / COLS, column = (first + i) % COLS;
            if (row <= last_row && column < p.n) results.store(row0 + row, column, sums[i]);
        }
    }

    __device__ __forceinline__ void sum_vectors(const T *a, const uint32_t (&rows)[ROWS], const T *(&columns)[COLS],
                                                uint32_t lda, uint32_t k, uint32_t lane) {
        constexpr uint32_t STEP = WIDTH * V * UNROLL;
        uint32_t along[OFFSETS];
#pragma unroll
        for (int j = 0; j < OFFSETS; j++)
            along[j] = lane * 16 + (uint32_t)(columns[j] - columns[0]) * (uint32_t)sizeof(T);
        auto column = [&](int j) INLINED {
            return columns[j < BASES ? j : 0];
        };
        auto offset_b = [&](int j) INLINED {
            return along[j < OFFSETS ? j : 0];
        };
        uint32_t offset[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) offset[r] = rows[r] * lda * (uint32_t)sizeof(T) + lane * 16;
        auto step = [&](int u) {
            vec<T, V> from_a[ROWS], from_b[COLS];
#pragma unroll
            for (int r = 0; r < ROWS; r++) from_a[r] = load_at<vec<T, V>>(a, offset[r], u * WIDTH * V);
#pragma unroll
            for (int j = 0; j < COLS; j++) from_b[j] = load_at<vec<T, V>>(column(j), offset_b(j), u * WIDTH * V);
            accumulate(from_a, from_b);
        };
#pragma unroll 1
        for (uint32_t steps = k / STEP; steps > 0; steps--) {
            keep(offset);
            keep(along);
#pragma unroll
            for (int u = 0; u < UNROLL; u++) step(u);
            advance(a, STEP);
#pragma unroll
            for (int j = 0; j < BASES; j++) advance(columns[j], STEP);
        }
        uint32_t left = k % STEP;
        if (left == 0) return;
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            if (lane + u * WIDTH < left / V) step(u);
        if (lane < left % V) {
            // Elements after the last whole vector, one a lane: V is at most 8, and so at most WIDTH.
            uint32_t element = (left / V * V + lane) * (uint32_t)sizeof(T);
            vec<T, 1> one_a[ROWS], one_b[COLS];
#pragma unroll
            for (int r = 0; r < ROWS; r++) one_a[r] = load_at<vec<T, 1>>(a, offset[r] - lane * 16 + element);
#pragma unroll
            for (int j = 0; j < COLS; j++) one_b[j] = load_at<vec<T, 1>>(column(j), offset_b(j) - lane * 16 + element);
            accumulate(one_a, one_b);
        }
    }

    // Any layout of B.
    __device__ __forceinline__ void sum_elements(const T *a, const uint32_t (&rows)[ROWS], const T *(&columns)[COLS],
                                                 int64_t lda, int64_t step_b, uint32_t k, uint32_t lane) {
        const T *row[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) row[r] = a + rows[r] * lda;
#pragma unroll 1
        for (uint32_t l = lane; l < k; l += WIDTH) {
            vec<T, 1> from_a[ROWS], from_b[COLS];
#pragma unroll
            for (int r = 0; r < ROWS; r++) from_a[r] = {row[r][l]};
#pragma unroll
            for (int j = 0; j < COLS; j++) from_b[j] = {columns[j][l * step_b]};
            accumulate(from_a, from_b);
        }
    }
};

// ------------------------------------------------------------- op(A) = N
// A's rows lie together: a thread holds one vector of them, and the workgroup's ROW_THREADS x
// SPLITS threads divide k. Grid: x rows, z batch.
constexpr int GEMV_N_THREADS = 128;

template <class T, int COLS> struct GemvN {
    using Acc = compute_t<T>;
    static constexpr int V = VEC16<T>;
    static constexpr int ROW_THREADS = 8;
    static constexpr int ROWS = ROW_THREADS * V;
    static constexpr int SPLITS = GEMV_N_THREADS / ROW_THREADS;
    // Consecutive elements of k for a thread, whose B is then one or two loads.
    static constexpr int DEPTH = 4;
    static constexpr int VB = DEPTH < V ? DEPTH : V;
    static constexpr int SUMS = V * COLS;
    // Lanes 8 and 16 apart hold other parts of k for the same rows; then come the waves' halves.
    using Reduction = LaneReduction<Acc, SUMS, ROW_THREADS, 32>;
    static constexpr int PARTS = GEMV_N_THREADS / 32;

    Acc sums[SUMS] = {}; // [row][column]

    __device__ __forceinline__ void accumulate(const vec<T, V> &rows, int column, Acc factor) {
#pragma unroll
        for (int r = 0; r < V; r++)
            sums[r * COLS + column] = math::fma(widen(rows[r]), factor, sums[r * COLS + column]);
    }

    __device__ __forceinline__ void run(const MatmulProblem &problem, uint32_t layout) {
        const GemmProblem &p = problem.gemm;
        bool b_along_k = layout & B_ALONG_K;
        __shared__ Acc shared[PARTS][COLS][ROWS];
        auto [a, b, c] = select_batch<T>(p);
        uint32_t row0 = blockIdx.x * ROWS;
        uint32_t rows = min_of((uint32_t)ROWS, p.m - row0);
        uint32_t row = threadIdx.x % ROW_THREADS * V;
        uint32_t split = threadIdx.x / ROW_THREADS;
        a += row0;
        int64_t col_b = b_along_k ? p.ldb : 1, step_b = b_along_k ? 1 : p.ldb;

        if (b_along_k && row + V <= rows) {
            sum_vectors(a, b, p, row, split);
        } else if (row < rows) {
            sum_elements(a, b, p, min_of(rows - row, (uint32_t)V), row, split, col_b, step_b);
        }

        uint32_t lane = threadIdx.x % 32;
        Reduction::run(sums, lane);
        if (Reduction::leads(lane)) {
            uint32_t first = Reduction::first(lane);
#pragma unroll
            for (int i = 0; i < Reduction::KEPT; i++)
                shared[threadIdx.x / 32][(first + i) % COLS][row + (first + i) / COLS] = sums[i];
        }
        __syncthreads();
        FinishedSums<T> results(problem, c, layout & TRANSPOSED);
        for (uint32_t i = threadIdx.x; i < ROWS * COLS; i += GEMV_N_THREADS) {
            uint32_t r = i % ROWS, column = i / ROWS;
            if (r >= rows || column >= p.n) continue;
            Acc sum = shared[0][column][r];
#pragma unroll
            for (int part = 1; part < PARTS; part++) sum += shared[part][column][r];
            results.store(row0 + r, column, sum);
        }
    }

    // Whole vectors of A and of B.
    __device__ __forceinline__ void sum_vectors(const T *a, const T *b, const GemmProblem &p, uint32_t row,
                                                uint32_t split) {
        constexpr uint32_t STEP = SPLITS * DEPTH;
        constexpr uint32_t SIZE = sizeof(T);
        const T *columns[COLS];
#pragma unroll
        for (int j = 0; j < COLS; j++) columns[j] = b + min_of((uint32_t)j, p.n - 1) * p.ldb;
        uint32_t lda = (uint32_t)p.lda;
        uint32_t offset_b[1] = {split * DEPTH * SIZE};
        uint32_t offset_a[DEPTH];
#pragma unroll
        for (int i = 0; i < DEPTH; i++) offset_a[i] = ((split * DEPTH + i) * lda + row) * SIZE;
#pragma unroll 1
        for (uint32_t steps = p.k / STEP; steps > 0; steps--) {
            keep(offset_a);
            keep(offset_b);
            vec<T, V> from_a[DEPTH];
            vec<T, VB> from_b[COLS][DEPTH / VB];
#pragma unroll
            for (int i = 0; i < DEPTH; i++) from_a[i] = load_at<vec<T, V>>(a, offset_a[i]);
#pragma unroll
            for (int j = 0; j < COLS; j++)
#pragma unroll
                for (int i = 0; i < DEPTH; i += VB) from_b[j][i / VB] = load_at<vec<T, VB>>(columns[j], offset_b[0], i);
#pragma unroll
            for (int i = 0; i < DEPTH; i++)
#pragma unroll
                for (int j = 0; j < COLS; j++) accumulate(from_a[i], j, widen(from_b[j][i / VB][i % VB]));
            advance(a, STEP * p.lda);
#pragma unroll
            for (int j = 0; j < COLS; j++) advance(columns[j], STEP);
        }
        uint32_t left = p.k % STEP;
#pragma unroll
        for (int i = 0; i < DEPTH; i++) {
            if (split * DEPTH + i >= left) break;
            vec<T, V> from_a = load_at<vec<T, V>>(a, offset_a[i]);
#pragma unroll
            for (int j = 0; j < COLS; j++)
                accumulate(from_a, j, widen(load_at<vec<T, 1>>(columns[j], offset_b[0], i)[0]));
        }
    }

    // Any layout of B, and the rows after the last whole vector.
    __device__ __forceinline__ void sum_elements(const T *a, const T *b, const GemmProblem &p, uint32_t rows,
                                                 uint32_t row, uint32_t split, int64_t col_b, int64_t step_b) {
#pragma unroll 1
        for (uint32_t l = split; l < p.k; l += SPLITS) {
            const T *from = a + l * p.lda + row;
            vec<T, V> from_a = {};
#pragma unroll
            for (int r = 0; r < V; r++)
                if ((uint32_t)r < rows) from_a[r] = from[r];
#pragma unroll
            for (int j = 0; j < COLS; j++)
                accumulate(from_a, j, widen(b[min_of((uint32_t)j, p.n - 1) * col_b + l * step_b]));
        }
    }
};
