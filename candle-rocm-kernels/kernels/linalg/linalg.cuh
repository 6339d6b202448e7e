// Decompositions of small matrices and triangular solves, in LDS: a thread has a row of its matrix.
#pragma once
#include "portable/portable.cuh"

// Matrices of n x n, of which a workgroup has `together`, each with `lanes` threads, a power of two. The host
// (candle_rocm_backend::ops) knows the same fields.
struct LinalgProblem {
    const void *matrices;
    // Of triangular solves: n rows of `columns` numbers for each matrix, of which a workgroup has `across`, a power of
    // two.
    const void *right;
    void *result;
    // Of LU: the row that each row of the result was.
    uint32_t *rows;
    uint64_t batch;
    uint32_t n, columns, lanes, together, across, tiles;
    // Of triangular solves: the triangle, whether it is transposed, and whether its diagonal is 1.
    uint32_t upper, transposed, unit, unused;
};

constexpr uint32_t LINALG_THREADS = 256, LINALG_MOST = 64;

// Matrices in LDS, the rows of each n + 1 numbers apart, so that a column's lie in banks of their own.
template <class T> struct SmallMatrices {
    T of[LINALG_MOST * (LINALG_MOST + 1)];

    // Calls f(place in LDS, place among the elements of all matrices) for those that this workgroup has.
    template <class F>
    static __device__ __forceinline__ void each(const LinalgProblem &problem, uint64_t first, F f) {
        uint32_t n = problem.n, there = (uint32_t)min_of(problem.batch - first, (uint64_t)problem.together);
        for (uint32_t e = threadIdx.x; e < there * n * n; e += blockDim.x) {
            uint32_t row = e / n;
            f(row * (n + 1) + (e - row * n), first * n * n + e);
        }
    }
    __device__ __forceinline__ void load(const LinalgProblem &problem, uint64_t first) {
        const T *from = (const T *)problem.matrices;
        each(problem, first, [&](uint32_t place, uint64_t e) INLINED { of[place] = from[e]; });
        __syncthreads();
    }
};

// A thread's row of one of the workgroup's matrices.
struct MatrixRow {
    uint32_t number, row;
    bool is_there;

    __device__ __forceinline__ MatrixRow(const LinalgProblem &problem, uint64_t first)
        : number(threadIdx.x >> log2_of(problem.lanes)), row(threadIdx.x & (problem.lanes - 1)),
          is_there(number < problem.together && first + number < problem.batch && row < problem.n) {}
};

// The row of the largest number, by its size, of a column's from `step` on; the first of several.
template <class T> __device__ __forceinline__ uint32_t pivot_of(const T *matrix, uint32_t n, uint32_t step) {
    uint32_t pivot = step;
    T most = math::abs(matrix[step * (n + 1) + step]);
    for (uint32_t i = step + 1; i < n; i++) {
        T size = math::abs(matrix[i * (n + 1) + step]);
        if (size > most) {
            most = size;
            pivot = i;
        }
    }
    return pivot;
}

// Rows in another order = L U: L below the diagonal, which is 1, and U from the diagonal on.
template <class T> __device__ __forceinline__ void lu(const LinalgProblem &problem) {
    __shared__ SmallMatrices<T> lds;
    __shared__ uint32_t order[LINALG_THREADS];
    uint64_t first = (uint64_t)blockIdx.x * problem.together;
    uint32_t n = problem.n;
    order[threadIdx.x] = threadIdx.x & (problem.lanes - 1);
    lds.load(problem, first);
    MatrixRow own(problem, first);
    T *matrix = lds.of + (own.is_there ? own.number * n * (n + 1) : 0);
    uint32_t *rows = order + own.number * problem.lanes;
    for (uint32_t step = 0; step < n; step++) {
        uint32_t pivot = pivot_of(matrix, n, step);
        __syncthreads();
        if (own.is_there && pivot != step) {
            // A thread exchanges the elements of its column.
            T &a = matrix[step * (n + 1) + own.row], &b = matrix[pivot * (n + 1) + own.row], kept = a;
            a = b;
            b = kept;
            if (own.row == step) {
                uint32_t before = rows[step];
                rows[step] = rows[pivot];
                rows[pivot] = before;
            }
        }
        __syncthreads();
        if (own.is_there && own.row > step) {
            T *to = matrix + own.row * (n + 1);
            const T *from = matrix + step * (n + 1);
            T factor = to[step] / from[step];
            to[step] = factor;
            for (uint32_t j = step + 1; j < n; j++) to[j] = math::fma(-factor, from[j], to[j]);
        }
        __syncthreads();
    }
    T *result = (T *)problem.result;
    lds.each(problem, first, [&](uint32_t place, uint64_t e) INLINED { result[e] = lds.of[place]; });
    if (own.is_there) problem.rows[(first + own.number) * n + own.row] = rows[own.row];
}

// L L^T = the matrix, whose lower triangle alone is read; zeros above L's diagonal.
template <class T> __device__ __forceinline__ void cholesky(const LinalgProblem &problem) {
    __shared__ SmallMatrices<T> lds;
    uint64_t first = (uint64_t)blockIdx.x * problem.together;
    uint32_t n = problem.n;
    lds.load(problem, first);
    MatrixRow own(problem, first);
    T *matrix = lds.of + (own.is_there ? own.number * n * (n + 1) : 0), *to = matrix + own.row * (n + 1);
    for (uint32_t step = 0; step < n; step++) {
        T diagonal = math::sqrt(matrix[step * (n + 1) + step]), factor = 0;
        if (own.is_there && own.row > step) to[step] = factor = to[step] / diagonal;
        __syncthreads();
        if (own.is_there && own.row == step) to[step] = diagonal;
        if (own.is_there && own.row > step)
            for (uint32_t j = step + 1; j <= own.row; j++)
                to[j] = math::fma(-factor, matrix[j * (n + 1) + step], to[j]);
        __syncthreads();
    }
    T *result = (T *)problem.result;
    lds.each(problem, first, [&](uint32_t place, uint64_t e) INLINED {
        uint32_t row = place / (n + 1), column = place - row * (n + 1);
        result[e] = column > row % n ? (T)0 : lds.of[place];
    });
}

// Solves triangle * x = right: in each step a row's numbers are known, and leave the rows that wait for them.
template <class T> __device__ __forceinline__ void triangular(const LinalgProblem &problem) {
    __shared__ SmallMatrices<T> lds;
    __shared__ T known[2][LINALG_THREADS];
    uint32_t n = problem.n, block = blockIdx.x / problem.tiles, tile = blockIdx.x - block * problem.tiles;
    uint64_t first = (uint64_t)block * problem.together;
    lds.load(problem, first);
    // Threads side by side have a row's columns.
    uint32_t shift = log2_of(problem.across), lane = threadIdx.x & (problem.across - 1);
    uint32_t row = threadIdx.x >> shift & (problem.lanes - 1), column = tile * problem.across + lane;
    uint32_t number = threadIdx.x >> shift >> log2_of(problem.lanes), of_column = number * problem.across + lane;
    bool is_there = number < problem.together && first + number < problem.batch && row < n && column < problem.columns;
    const T *matrix = lds.of + (is_there ? number * n * (n + 1) : 0);
    uint64_t at = ((first + number) * n + row) * problem.columns + column;
    T x = is_there ? ((const T *)problem.right)[at] : (T)0;
    bool forward = (problem.upper != 0) == (problem.transposed != 0);
    uint32_t by_row = problem.transposed != 0 ? 1 : n + 1, by_step = problem.transposed != 0 ? n + 1 : 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t step = forward ? i : n - 1 - i;
        if (is_there && row == step) {
            if (problem.unit == 0) x = x / matrix[step * (n + 2)];
            known[i & 1][of_column] = x;
        }
        __syncthreads();
        bool waits = forward ? row > step : row < step;
        if (is_there && waits) x = math::fma(-matrix[row * by_row + step * by_step], known[i & 1][of_column], x);
    }
    if (is_there) ((T *)problem.result)[at] = x;
}
