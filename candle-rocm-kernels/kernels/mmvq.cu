// Products of quantised matrices with up to eight vectors in q8_1: what a model decodes with.
#include "quants.cuh"

// ---------------------------------------------------------------- activations

// Rows of `columns` elements to q8_1 blocks, padded with zeros to `padded` (a multiple of 32). A thread
// makes an element and 32 neighbours a block; workgroups go over all blocks of all rows.
template <class T>
__device__ __forceinline__ void quantize(const T *__restrict__ src, uint8_t *__restrict__ dst, uint32_t columns, uint32_t padded, size_t elements) {
    for (size_t at = global_thread(); at < elements; at += global_threads()) {
        size_t row = at / padded;
        uint32_t column = (uint32_t)(at - row * padded);
        float x = column < columns ? (float)src[row * columns + column] : 0.0f;
        float largest = wave_all_reduce(math::abs(x), 32, [](float a, float b) { return math::fmax(a, b); });
        float sum = wave_all_reduce(x, 32, Sum());
        float d = largest / 127.0f;
        int32_t q = saturate<int8_t>(math::round(d != 0.0f ? x / d : 0.0f));
        uint8_t *block = dst + at / 32 * Q8_1::BYTES;
        block[4 + column % 32] = (uint8_t)q;
        if (column % 32 == 0) {
            *(half_t *)block = (half_t)d;
            *(half_t *)(block + 2) = (half_t)sum;
        }
    }
}
#define QUANTIZE(NAME, T)                                                                          \
    extern "C" __global__ void mmvq_quantize_q8_1_##NAME(                                          \
        const T *__restrict__ src, uint8_t *__restrict__ dst, uint32_t columns, uint32_t padded,   \
        size_t elements) {                                                                         \
        quantize(src, dst, columns, padded, elements);                                             \
    }
QUANTIZE(f32, float)
QUANTIZE(f16, half_t)
QUANTIZE(bf16, bf16_t)

// -------------------------------------------------------------------- products

// The result's type, as the host numbers it.
enum Result : uint32_t { RESULT_F32, RESULT_F16, RESULT_BF16 };

__device__ __forceinline__ void store_result(void *dst, size_t at, float value, uint32_t type) {
    if (type == RESULT_F32) ((float *)dst)[at] = value;
    else if (type == RESULT_F16) ((half_t *)dst)[at] = (half_t)value;
    else ((bf16_t *)dst)[at] = (bf16_t)value;
}

constexpr uint32_t THREADS = 128, GROUP = 32;

// dst (vectors, dst_rows) = matrix (rows, columns) times `vectors` activation vectors, at most VECTORS.
// `row_threads` threads make a row, 32 or the whole workgroup; workgroups stand in x.
template <class Q, int VECTORS>
__device__ __forceinline__ void product(const uint8_t *__restrict__ src, const uint8_t *__restrict__ y, void *__restrict__ dst, uint32_t columns, uint32_t rows, uint32_t vector_blocks, uint32_t dst_rows, uint32_t vectors, uint32_t row_threads, uint32_t type) {
    __shared__ float partial[THREADS / GROUP][VECTORS];
    uint32_t thread = threadIdx.x % row_threads, rows_here = THREADS / row_threads;
    size_t row = (size_t)blockIdx.x * rows_here + threadIdx.x / row_threads;
    size_t row_bytes = (size_t)(columns / Q::ELEMENTS) * Q::BYTES, vector_bytes = (size_t)vector_blocks * Q8_1::BYTES;
    // Rows past the end repeat the last; nobody stores what comes of them.
    const uint8_t *weights = src + min_of(row, (size_t)rows - 1) * row_bytes;
    float sums[VECTORS] = {};
    for (uint32_t chunk = thread; chunk < columns / 32; chunk += row_threads)
        multiply_chunk<Q>(weights, chunk, y, vector_bytes, vectors, sums);
#pragma unroll
    for (int v = 0; v < VECTORS; v++) sums[v] = wave_all_reduce(sums[v], GROUP, Sum());
    if (row_threads > GROUP) {
        if (threadIdx.x % GROUP == 0)
#pragma unroll
            for (int v = 0; v < VECTORS; v++) partial[threadIdx.x / GROUP][v] = sums[v];
        __syncthreads();
#pragma unroll
        for (int v = 0; v < VECTORS; v++)
            sums[v] = (partial[0][v] + partial[1][v]) + (partial[2][v] + partial[3][v]);
    }
    if (thread != 0 || row >= rows) return;
#pragma unroll
    for (int v = 0; v < VECTORS; v++)
        if ((uint32_t)v < vectors) store_result(dst, (size_t)v * dst_rows + row, sums[v], type);
}
#define PRODUCT(NAME, Q, VECTORS)                                                                  \
    extern "C" __global__ void __launch_bounds__(128) mmvq_##NAME##_##VECTORS(                     \
        const uint8_t *__restrict__ src, const uint8_t *__restrict__ y, void *__restrict__ dst,    \
        uint32_t columns, uint32_t rows, uint32_t vector_blocks, uint32_t dst_rows,                \
        uint32_t vectors, uint32_t row_threads, uint32_t type) {                                   \
        product<Q, VECTORS>(src, y, dst, columns, rows, vector_blocks, dst_rows, vectors,          \
                            row_threads, type);                                                    \
    }
#define PRODUCTS(NAME, Q)                                                                          \
    PRODUCT(NAME, Q, 1)                                                                            \
    PRODUCT(NAME, Q, 2)                                                                            \
    PRODUCT(NAME, Q, 4)                                                                            \
    PRODUCT(NAME, Q, 8)
PRODUCTS(q4_0, Q4_0)
PRODUCTS(q4_1, Q4_1)
PRODUCTS(q5_0, Q5_0)
PRODUCTS(q5_1, Q5_1)
PRODUCTS(q8_0, Q8_0)
PRODUCTS(q2_k, Q2_K)
PRODUCTS(q3_k, Q3_K)
PRODUCTS(q4_k, Q4_K)
PRODUCTS(q5_k, Q5_K)
PRODUCTS(q6_k, Q6_K)
