// Products of quantised matrices with up to eight vectors: what a model decodes with.
//
// The vectors are quantised first.
#include "quantized/mmvq.cuh"

namespace quantized {

// ---------------------------------------------------------------- activations

// Rows of `columns` elements, padded with zeros to `padded`, a multiple of 256. A thread makes an element and 32
// neighbours share a scale; workgroups go over all elements of all rows.
template <class T>
__device__ __forceinline__ void quantize(const T *__restrict__ src, uint8_t *__restrict__ dst, uint32_t columns,
                                         uint32_t padded, size_t elements) {
    for (size_t at = global_thread(); at < elements; at += global_threads()) {
        // The short division, where it is enough.
        size_t row = elements <= 0xffffffffu ? (uint32_t)at / padded : at / padded;
        uint32_t column = (uint32_t)(at - row * padded);
        float x = column < columns ? (float)src[row * columns + column] : 0.0f;
        float largest = wave_all_reduce(math::abs(x), 32, [](float a, float b) { return math::fmax(a, b); });
        float sum = wave_all_reduce(x, 32, Sum());
        float d = largest / 127.0f;
        int32_t q = saturate<int8_t>(math::round(d != 0.0f ? x / d : 0.0f));
        uint8_t *group = dst + at / ACTIVATIONS * ACTIVATION_BYTES;
        group[at % ACTIVATIONS] = (uint8_t)q;
        if (at % 32 == 0) {
            half_t *scale = (half_t *)(group + ACTIVATIONS + at % ACTIVATIONS / 8);
            scale[0] = (half_t)d;
            scale[1] = (half_t)sum;
        }
    }
}
#define QUANTIZE(NAME, T)                                                                                   \
    ENTRY mmvq_quantize_q8_1_##NAME(const T *__restrict__ src, uint8_t *__restrict__ dst, uint32_t columns, \
                                    uint32_t padded, size_t elements) {                                     \
        quantize(src, dst, columns, padded, elements);                                                      \
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

constexpr uint32_t THREADS = 128;
// Rows that a thread multiplies with what it has loaded of the vectors.
template <class Q, int VECTORS> constexpr int ROWS = VECTORS > 2 || Q::ELEMENTS == 256 ? 4 : 2;

// dst (vectors, dst_rows) = matrix (rows, columns) times `vectors` activation vectors, at most VECTORS.
// `row_threads` threads make ROWS rows: 32, 64 or the whole workgroup; workgroups stand in x. The vectors come from the
// first cache: in LDS they would cost barriers, and registers that other wavefronts have more use for.
template <class Q, int VECTORS>
__device__ __forceinline__ void product(const uint8_t *__restrict__ src, const uint8_t *__restrict__ y,
                                        void *__restrict__ dst, uint32_t columns, uint32_t rows, uint32_t vector_blocks,
                                        uint32_t dst_rows, uint32_t vectors, uint32_t row_threads, uint32_t type) {
    constexpr int R = ROWS<Q, VECTORS>, RESULTS = R * VECTORS;
    __shared__ float partial[THREADS / GROUP][RESULTS];
    uint32_t thread = threadIdx.x % row_threads, pieces = columns / 32;
    uint32_t first_row = (blockIdx.x * (THREADS / row_threads) + threadIdx.x / row_threads) * R;
    size_t row_bytes = (size_t)(columns / Q::ELEMENTS) * Q::BYTES;
    size_t vector_bytes = (size_t)vector_blocks * Q8_1::BYTES;
    // Rows past the end repeat the last; their sums are never stored.
    const uint8_t *weights[R];
#pragma unroll
    for (int r = 0; r < R; r++) weights[r] = src + min_of(first_row + r, rows - 1) * row_bytes;
    float sums[RESULTS] = {};
    accumulate<Q, R, VECTORS>(weights, y, vector_bytes, vectors, pieces, thread, row_threads, sums);
    float sum = group_sums(sums);
    uint32_t lane = threadIdx.x % GROUP, result = lane / (GROUP / RESULTS);
    bool stores = lane % (GROUP / RESULTS) == 0;
    if (row_threads > GROUP) {
        uint32_t groups = row_threads / GROUP, group = threadIdx.x / row_threads * groups;
        if (stores) partial[threadIdx.x / GROUP][result] = sum;
        __syncthreads();
        stores = thread < RESULTS;
        result = thread % RESULTS;
        sum = partial[group][result];
        for (uint32_t g = 1; g < groups; g++) sum += partial[group + g][result];
    }
    uint32_t row = first_row + result / VECTORS, v = result % VECTORS;
    if (stores && row < rows && v < vectors) store_result(dst, (size_t)v * dst_rows + row, sum, type);
}
#define PRODUCT(NAME, Q, VECTORS, BOUNDS)                                                                     \
    ENTRY BOUNDS mmvq_##NAME##_##VECTORS(const uint8_t *__restrict__ src, const uint8_t *__restrict__ y,      \
                                         void *__restrict__ dst, uint32_t columns, uint32_t rows,             \
                                         uint32_t vector_blocks, uint32_t dst_rows, uint32_t vectors,         \
                                         uint32_t row_threads, uint32_t type) {                               \
        product<Q, VECTORS>(src, y, dst, columns, rows, vector_blocks, dst_rows, vectors, row_threads, type); \
    }
// Products by CUDA's formula (`gives_cudas_bits`), which are too few to need speed: 32 threads make a result.
ENTRY __launch_bounds__(128)
    mmvq_q4_0_cudas(const uint8_t *__restrict__ src, const uint8_t *__restrict__ y, void *__restrict__ dst,
                    uint32_t columns, uint32_t rows, uint32_t vector_blocks, uint32_t dst_rows, uint32_t vectors,
                    uint32_t row_threads, uint32_t type) {
    uint32_t result = blockIdx.x * (THREADS / GROUP) + threadIdx.x / GROUP, lane = threadIdx.x % GROUP;
    uint32_t row = min_of(result / vectors, rows - 1), v = result % vectors;
    const uint8_t *weights = src + (size_t)row * (columns / Q4_0::ELEMENTS) * Q4_0::BYTES;
    const uint8_t *vector = y + (size_t)v * vector_blocks * Q8_1::BYTES;
    float sum = 0;
    for (uint32_t i = lane; i < columns / 32; i += GROUP) {
        const uint8_t *group = vector + i / 8 * ACTIVATION_BYTES, *scales = group + ACTIVATIONS + i % 8 * 4;
        const uint32_t *qs = (const uint32_t *)(group + i % 8 * 32);
        int32_t products = 0, plain = 0;
#pragma unroll
        for (uint32_t k = 0; k < 8; k++) {
            products = dot4(row_quad<Q4_0>(weights, 8 * i + k).q, qs[k], products);
            plain = dot4(0x01010101u, qs[k], plain);
        }
        float d = load_half(scales), addend = cudas_addend(plain, d, load_half(scales + 2), 8.0f);
        sum = math::fma(load_half(weights + (size_t)i * Q4_0::BYTES), math::fma((float)products, d, addend), sum);
    }
    sum = wave_all_reduce(sum, GROUP, Sum());
    if (lane == 0 && result < rows * vectors) store_result(dst, (size_t)v * dst_rows + row, sum, type);
}
// Left to itself, NVIDIA's assembler would save registers, and read one row or vector after another. (With 128 it keeps
// one word of q4_K's four vectors in memory, which is still the fastest.)
#define PRODUCTS(NAME, Q, FOUR)              \
    PRODUCT(NAME, Q, 1, RESIDENT(128, 4))    \
    PRODUCT(NAME, Q, 2, RESIDENT(128, 4))    \
    PRODUCT(NAME, Q, 4, RESIDENT(128, FOUR)) \
    PRODUCT(NAME, Q, 8, __launch_bounds__(128, 2))
PRODUCTS(q4_0, Q4_0, 4)
PRODUCTS(q4_1, Q4_1, 4)
PRODUCTS(q5_0, Q5_0, 4)
PRODUCTS(q5_1, Q5_1, 4)
PRODUCTS(q8_0, Q8_0, 4)
PRODUCTS(q2_k, Q2_K, 4)
PRODUCTS(q3_k, Q3_K, 4)
PRODUCTS(q4_k, Q4_K, 4)
PRODUCTS(q5_k, Q5_K, 3)
PRODUCTS(q6_k, Q6_K, 4)

} // namespace quantized
