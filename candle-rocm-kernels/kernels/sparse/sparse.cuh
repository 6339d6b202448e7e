// Sparse matrices by vectors and by matrices, and what their gradients are made of: the stored numbers of a row lie
// together.
#pragma once
#include "rows/rows.cuh"

// A row's stored numbers are those from `offsets[row]` to before `offsets[row + 1]`, or `width` for each where there
// are no offsets. A number whose column is not below `inner` is padding. The host (candle_rocm_backend::ops) knows the
// same fields.
struct SparseProblem {
    // Of each stored number: its column, and its place among the values, which is its own number where this is null.
    const uint32_t *columns, *places;
    const uint32_t *offsets;
    const void *values;
    // `inner` rows of `across` elements, and as many rows as the sparse matrix has.
    const void *dense, *gradient;
    void *result;
    uint64_t rows, stored;
    uint32_t inner, across, width;
    // Threads that share a row or a number, a power of two, and whether dense rows are read by 16 bytes.
    uint32_t lanes, wide, unused;
};

constexpr uint32_t SPARSE_THREADS = 256, NO_COLUMN = 0xffffffff;

__device__ __forceinline__ uint64_t row_begin(const SparseProblem &problem, uint64_t row) {
    return problem.offsets == nullptr ? row * problem.width : problem.offsets[row];
}
__device__ __forceinline__ uint64_t place_of(const SparseProblem &problem, uint64_t k) {
    return problem.places == nullptr ? k : problem.places[k];
}

// How many of sorted numbers are below `limit`.
__device__ __forceinline__ uint64_t numbers_below(const uint32_t *numbers, uint64_t count, uint64_t limit) {
    uint64_t low = 0;
    while (count > 0) {
        uint64_t half = count / 2;
        if (numbers[low + half] < limit) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low;
}

// The row of a stored number.
__device__ __forceinline__ uint64_t row_of(const SparseProblem &problem, uint64_t k) {
    if (problem.offsets == nullptr) return k / problem.width;
    return numbers_below(problem.offsets, problem.rows + 1, k + 1) - 1;
}

// A row by a vector: each row's numbers are shared by `lanes` threads.
template <class T> __device__ __forceinline__ void sparse_vector(const SparseProblem &problem) {
    using C = compute_t<T>;
    __shared__ WaveValues<C> lds;
    const T *values = (const T *)problem.values, *dense = (const T *)problem.dense;
    RowGroup row_group(problem.lanes, threadIdx.x);
    uint64_t row = (uint64_t)blockIdx.x * (SPARSE_THREADS / problem.lanes) + row_group.number;
    C sum = 0;
    if (row < problem.rows) {
        uint64_t end = row_begin(problem, row + 1);
#pragma unroll 4
        for (uint64_t k = row_begin(problem, row) + row_group.thread; k < end; k += row_group.size) {
            uint32_t column = problem.columns[k];
            C value = upcast(values[place_of(problem, k)]);
            if (column < problem.inner) sum = math::fma(value, (C)upcast(dense[column]), sum);
        }
    }
    sum = row_group.all_reduce(sum, Sum(), lds);
    if (row < problem.rows && row_group.thread == 0) ((T *)problem.result)[row] = round_to<T>(sum);
}

// A row by a matrix: each of `lanes` threads has WIDTH columns of the result, and all numbers of the row.
template <class T, int WIDTH> __device__ __forceinline__ void sparse_matrix(const SparseProblem &problem) {
    using C = compute_t<T>;
    using V = vec<T, WIDTH>;
    const T *values = (const T *)problem.values, *dense = (const T *)problem.dense;
    uint32_t lane = threadIdx.x & (problem.lanes - 1), number = threadIdx.x >> log2_of(problem.lanes);
    uint64_t row = (uint64_t)blockIdx.x * (SPARSE_THREADS / problem.lanes) + number;
    uint32_t first = (blockIdx.y * problem.lanes + lane) * WIDTH;
    if (row >= problem.rows || first >= problem.across) return;
    C sums[WIDTH] = {};
    uint64_t end = row_begin(problem, row + 1);
#pragma unroll 4
    for (uint64_t k = row_begin(problem, row); k < end; k++) {
        uint32_t column = problem.columns[k];
        if (column >= problem.inner) continue;
        C value = upcast(values[place_of(problem, k)]);
        V x = read_global<V>(dense + (uint64_t)column * problem.across + first);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) sums[i] = math::fma(value, (C)upcast(x[i]), sums[i]);
    }
    store_vec((T *)problem.result + row * problem.across + first, round_all_to<T, WIDTH>(sums));
}

// For each stored number the product of the gradient's row with the dense row that it was multiplied by.
template <class T, int WIDTH> __device__ __forceinline__ void sparse_sampled(const SparseProblem &problem) {
    using C = compute_t<T>;
    using V = vec<T, WIDTH>;
    uint64_t k = global_thread() >> log2_of(problem.lanes);
    uint32_t lane = threadIdx.x & (problem.lanes - 1);
    uint32_t column = k < problem.stored ? problem.columns[k] : NO_COLUMN;
    C sum = 0;
    if (column < problem.inner) {
        const T *gradient = (const T *)problem.gradient + row_of(problem, k) * problem.across;
        const T *dense = (const T *)problem.dense + (uint64_t)column * problem.across;
        for (uint32_t i = lane * WIDTH; i < problem.across; i += problem.lanes * WIDTH) {
            V a = read_global<V>(gradient + i), b = read_global<V>(dense + i);
#pragma unroll
            for (int e = 0; e < WIDTH; e++) sum = math::fma((C)upcast(a[e]), (C)upcast(b[e]), sum);
        }
    }
    sum = whole_wave_all_reduce(sum, problem.lanes, Sum());
    if (k < problem.stored && lane == 0) ((T *)problem.result)[place_of(problem, k)] = round_to<T>(sum);
}

// Where each of `rows` rows begins among stored numbers whose rows, in order, are `columns`; and the last one's end.
__device__ __forceinline__ void sparse_offsets(const SparseProblem &problem) {
    uint64_t row = global_thread();
    if (row <= problem.rows)
        ((uint32_t *)problem.result)[row] = (uint32_t)numbers_below(problem.columns, problem.stored, row);
}

// Rows and places of the stored numbers in the order `columns`: columns and places of the transposed matrix, one after
// the other.
__device__ __forceinline__ void sparse_transposed(const SparseProblem &problem) {
    uint64_t i = global_thread();
    if (i >= problem.stored) return;
    uint64_t k = problem.columns[i];
    ((uint32_t *)problem.result)[i] = (uint32_t)row_of(problem, k);
    ((uint32_t *)problem.result)[problem.stored + i] = (uint32_t)place_of(problem, k);
}
