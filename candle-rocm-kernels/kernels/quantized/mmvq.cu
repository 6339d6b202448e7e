// Products of quantised matrices with up to eight vectors: what a model decodes with.
//
// The vectors are quantised first, to what q8_1 holds, 256 elements in 288 bytes: 256 signed bytes, and for each 32 of
// them a scale and the elements' sum, both f16. So the sixteens that a thread reads are aligned, and several in a line.
#include "quantized/formats.cuh"

constexpr uint32_t ACTIVATIONS = 256, ACTIVATION_BYTES = ACTIVATIONS / 32 * Q8_1::BYTES;

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

// The halves of the activations that piece i of a row is multiplied with, their scales and what goes with these.
template <class Q>
__device__ __forceinline__ void load_vector(const uint8_t *__restrict__ y, uint32_t i, vec<uint32_t, 4> (&qs)[2],
                                            vec<uint32_t, 2> (&scale)[2]) {
    const uint8_t *group = y + (size_t)(i / 8) * ACTIVATION_BYTES;
    uint32_t ds[2];
    int32_t plain[2];
#pragma unroll
    for (int s = 0; s < 2; s++) {
        uint32_t unit = Q::unit(i % 8, s);
        qs[s] = *(const vec<uint32_t, 4> *)(group + 16 * unit);
        ds[s] = *(const uint32_t *)(group + ACTIVATIONS + unit / 2 * 4);
        plain[s] = sum_bytes(qs[s]);
    }
    // In blocks of 32 the two halves count together.
    if constexpr (Q::ELEMENTS == 32) plain[0] += plain[1];
#pragma unroll
    for (int s = 0; s < 2; s++) {
        float d = half_of(ds[s]);
        scale[s] = {{bit_cast<uint32_t>(d), beside_scale<Q>(plain[s], d, half_of(ds[s] >> 16))}};
    }
}

// -------------------------------------------------------------------- products

// The result's type, as the host numbers it.
enum Result : uint32_t { RESULT_F32, RESULT_F16, RESULT_BF16 };

__device__ __forceinline__ void store_result(void *dst, size_t at, float value, uint32_t type) {
    if (type == RESULT_F32) ((float *)dst)[at] = value;
    else if (type == RESULT_F16) ((half_t *)dst)[at] = (half_t)value;
    else ((bf16_t *)dst)[at] = (bf16_t)value;
}

constexpr uint32_t THREADS = 128, GROUP = 32;
// Rows that a thread multiplies with what it has loaded of the vectors.
template <class Q, int VECTORS> constexpr int ROWS = VECTORS > 2 || Q::ELEMENTS == 256 ? 4 : 2;

// Adds each of N values, a power of two, over 2 * WIDTH lanes; of 32, a lane gets the sum of value lane / (32 / N).
template <uint32_t WIDTH = 16, int N> __device__ __forceinline__ float group_sums(const float (&values)[N]) {
    if constexpr (WIDTH == 0) {
        return values[0];
    } else if constexpr (N == 1) {
        float sums[1] = {values[0] + shfl_xor(values[0], WIDTH, GROUP)};
        return group_sums<WIDTH / 2>(sums);
    } else {
        bool upper = lane_id() & WIDTH;
        float sums[N / 2];
#pragma unroll
        for (int i = 0; i < N / 2; i++) {
            float low = values[i], high = values[i + N / 2];
            sums[i] = (upper ? high : low) + shfl_xor(upper ? low : high, WIDTH, GROUP);
        }
        return group_sums<WIDTH / 2>(sums);
    }
}

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
    // Rows past the end repeat the last; nobody stores what comes of them.
    const uint8_t *weights[R];
#pragma unroll
    for (int r = 0; r < R; r++) weights[r] = src + min_of(first_row + r, rows - 1) * row_bytes;
    float sums[RESULTS] = {};
    // Weights are fetched a step ahead.
    typename Q::Raw raw[R];
    uint32_t i = thread;
    if (i < pieces)
#pragma unroll
        for (int r = 0; r < R; r++) raw[r] = load_piece<Q>(weights[r], i);
    while (i < pieces) {
        Piece piece[R];
#pragma unroll
        for (int r = 0; r < R; r++) piece[r] = Q::piece(raw[r], i % (Q::ELEMENTS / 32));
        uint32_t now = i;
        i += row_threads;
        if (i < pieces)
#pragma unroll
            for (int r = 0; r < R; r++) raw[r] = load_piece<Q>(weights[r], i);
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            // The last vector stands in for those that are not there.
            const uint8_t *from = y + min_of((uint32_t)v, vectors - 1) * vector_bytes;
            vec<uint32_t, 4> qs[2];
            vec<uint32_t, 2> scale[2];
            load_vector<Q>(from, now, qs, scale);
#pragma unroll
            for (int r = 0; r < R; r++)
                sums[r * VECTORS + v] = multiply_piece<Q>(piece[r], qs, scale, sums[r * VECTORS + v]);
        }
    }
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
#define PRODUCT(NAME, Q, VECTORS, ...)                                                                           \
    ENTRY __launch_bounds__(128, ##__VA_ARGS__)                                                                  \
        mmvq_##NAME##_##VECTORS(const uint8_t *__restrict__ src, const uint8_t *__restrict__ y,                  \
                                void *__restrict__ dst, uint32_t columns, uint32_t rows, uint32_t vector_blocks, \
                                uint32_t dst_rows, uint32_t vectors, uint32_t row_threads, uint32_t type) {      \
        product<Q, VECTORS>(src, y, dst, columns, rows, vector_blocks, dst_rows, vectors, row_threads, type);    \
    }
// For eight vectors NVIDIA's assembler would save registers, and read one vector after another.
#define PRODUCTS(NAME, Q) \
    PRODUCT(NAME, Q, 1)   \
    PRODUCT(NAME, Q, 2)   \
    PRODUCT(NAME, Q, 4)   \
    PRODUCT(NAME, Q, 8, 2)
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
