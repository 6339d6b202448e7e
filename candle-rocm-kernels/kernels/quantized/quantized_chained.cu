// Products of quantised matrices with one vector, of which each leaves what the next one reads: a token's decoding in
// few kernels. Results are f32; vectors are quantised as vectors.cuh has it, by the kernel that makes their elements.
#include "portable/activations.cuh"
#include "portable/block_reduce.cuh"
#include "portable/workspace.cuh"
#include "quantized/mmvq.cuh"
#include "norms/norm.cuh"

namespace quantized {

// -------------------------------------------------------------------- products

constexpr uint32_t THREADS = 256;
// Rows that a thread multiplies with what it has loaded of the vector.
template <class Q> constexpr int ROWS = Q::ELEMENTS == 256 ? 4 : 2;

// The vector of the next product: the result's norm, `norm` its weight, or none where that is null.
struct Next {
    const float *norm;
    float epsilon;
    int32_t *counter;
    uint8_t *vector;
};

// Quads of a row that a thread has at a time; those past the end are zeros.
struct Quads {
    static constexpr uint32_t COUNT = 4, STEP = THREADS * 4, ALL = COUNT * STEP;
    vec<float, 4> x[COUNT], weight[COUNT];
    __device__ __forceinline__ void load(const float *from, const float *norm, uint32_t begin, uint32_t columns) {
#pragma unroll
        for (uint32_t n = 0; n < COUNT; n++) {
            uint32_t at = begin + n * STEP + threadIdx.x * 4;
            x[n] = weight[n] = vec<float, 4>{};
            if (at >= columns) continue;
            x[n] = *(const vec<float, 4> *)(from + at);
            weight[n] = read_global<vec<float, 4>>(norm + at);
        }
    }
    __device__ __forceinline__ float squares(float sum) const {
#pragma unroll
        for (uint32_t n = 0; n < COUNT; n++)
#pragma unroll
            for (int k = 0; k < 4; k++) sum = math::fma(x[n][k], x[n][k], sum);
        return sum;
    }
    __device__ __forceinline__ void store(uint8_t *vector, float scale, uint32_t begin, uint32_t columns) {
        QuantizedFour quantized[COUNT];
#pragma unroll
        for (uint32_t n = 0; n < COUNT; n++) {
#pragma unroll
            for (int k = 0; k < 4; k++) x[n][k] = x[n][k] * scale * weight[n][k];
            quantized[n] = quantize_four(x[n]);
        }
#pragma unroll
        for (uint32_t n = 0; n < COUNT; n++) {
            uint32_t at = begin + n * STEP + threadIdx.x * 4;
            if (at < columns) store_four(vector, at, quantized[n]);
        }
    }
};

// x / sqrt(mean(x^2) + epsilon) * norm, quantised, by one workgroup; `columns` is a multiple of 256.
__device__ __forceinline__ void norm_to_vector(const float *x, uint32_t columns, const Next &next,
                                               WaveValues<float> &values) {
    // Of most models' rows the first are all, and are read once.
    Quads first, more;
    first.load(x, next.norm, 0, columns);
    float sum = first.squares(0);
    for (uint32_t begin = Quads::ALL; begin < columns; begin += Quads::ALL) {
        more.load(x, next.norm, begin, columns);
        sum = more.squares(sum);
    }
    float scale = norms::norm_scale(block_all_reduce(sum, threadIdx.x, THREADS, Sum{}, values), columns, next.epsilon);
    first.store(next.vector, scale, 0, columns);
    for (uint32_t begin = Quads::ALL; begin < columns; begin += Quads::ALL) {
        more.load(x, next.norm, begin, columns);
        more.store(next.vector, scale, begin, columns);
    }
}

// dst (rows) = matrix (rows, columns) times the vector y, and `addend`, unless that is null. `row_threads` threads make
// ROWS rows: 32, 64 or the whole workgroup; workgroups stand in x. The one that ends last makes the next vector.
template <class Q>
__device__ __forceinline__ void product(const uint8_t *__restrict__ src, const uint8_t *__restrict__ y,
                                        const float *__restrict__ addend, float *dst, uint32_t columns, uint32_t rows,
                                        uint32_t row_threads, const Next &next) {
    constexpr int R = ROWS<Q>;
    __shared__ float partial[THREADS / GROUP][R];
    __shared__ WaveValues<float> values;
    __shared__ int32_t ended;
    uint32_t thread = threadIdx.x % row_threads, lane = threadIdx.x % GROUP, group = threadIdx.x / GROUP;
    uint32_t first_row = (blockIdx.x * (THREADS / row_threads) + threadIdx.x / row_threads) * R;
    bool several = row_threads > GROUP, of_group = lane % (GROUP / R) == 0;
    bool stores = several ? thread < R : of_group;
    uint32_t row = first_row + (several ? thread % R : lane / (GROUP / R));
    stores = stores && row < rows;
    // On its way while the product is made.
    float beside = stores && addend != nullptr ? read_global<float>(addend + row) : 0;
    size_t row_bytes = (size_t)(columns / Q::ELEMENTS) * Q::BYTES;
    // Rows past the end repeat the last; their sums are never stored.
    const uint8_t *weights[R];
#pragma unroll
    for (int r = 0; r < R; r++) weights[r] = src + min_of(first_row + r, rows - 1) * row_bytes;
    float sums[R] = {};
    accumulate<Q, R, 1>(weights, y, 0, 1, columns / 32, thread, row_threads, sums);
    float sum = group_sums(sums);
    if (several) {
        if (of_group) partial[group][lane / (GROUP / R)] = sum;
        __syncthreads();
        uint32_t groups = row_threads / GROUP, first = threadIdx.x / row_threads * groups;
        sum = 0;
        for (uint32_t g = 0; g < groups; g++) sum += partial[first + g][thread % R];
    }
    if (stores) dst[row] = sum + beside;
    if (next.norm != nullptr && ends_last(next.counter, gridDim.x, ended)) norm_to_vector(dst, rows, next, values);
}

// ----------------------------------------------------------------------- gated

// A scale's elements, and how many of them a workgroup makes: a group of threads two.
constexpr uint32_t SCALED = 32, GATED_THREADS = 128, GATED_ROWS = 2 * GATED_THREADS / GROUP;

// The vector silu(gate) * up, where gate and up are the products of y with the first and the second `rows` rows of the
// matrix (2 rows, columns); `rows` is a multiple of 256. Elements that share a scale are quantised by the workgroup
// that ends last of those that make them: `made` has room for all in f32, `counters` one for each scale.
template <class Q>
__device__ __forceinline__ void gated(const uint8_t *__restrict__ src, const uint8_t *__restrict__ y, float *made,
                                      int32_t *counters, uint8_t *__restrict__ vector, uint32_t columns,
                                      uint32_t rows) {
    __shared__ int32_t ended;
    uint32_t lane = threadIdx.x % GROUP, row = blockIdx.x * GATED_ROWS + threadIdx.x / GROUP * 2;
    size_t row_bytes = (size_t)(columns / Q::ELEMENTS) * Q::BYTES;
    const uint8_t *weights[4];
#pragma unroll
    for (uint32_t r = 0; r < 4; r++) weights[r] = src + (size_t)(row + r % 2 + r / 2 * rows) * row_bytes;
    float sums[4] = {};
    accumulate<Q, 4, 1>(weights, y, 0, 1, columns / 32, lane, GROUP, sums);
    // Lanes 0 and 8 have gates, 16 and 24 what they are for.
    float sum = group_sums(sums), up = shfl_xor(sum, 16, GROUP);
    if (lane == 0 || lane == 8) made[row + lane / 8] = SiluFunction::of<float>(sum) * up;
    uint32_t scale = blockIdx.x * GATED_ROWS / SCALED, at = scale * SCALED + 4 * threadIdx.x;
    if (ends_last(counters + scale, SCALED / GATED_ROWS, ended) && threadIdx.x < SCALED / 4)
        store_four(vector, at, quantize_four(*(const vec<float, 4> *)(made + at)));
}

// Results stand from element `first` of dst on.
#define CHAINED(NAME, Q, COUNT)                                                                                       \
    ENTRY RESIDENT(256, COUNT) chained_##NAME(                                                                        \
        const uint8_t *__restrict__ src, const uint8_t *__restrict__ y, const float *__restrict__ addend, float *dst, \
        uint32_t first, uint32_t columns, uint32_t rows, uint32_t row_threads, const float *__restrict__ norm,        \
        float epsilon, int32_t *counter, uint8_t *vector) {                                                           \
        product<Q>(src, y, addend, dst + first, columns, rows, row_threads, Next{norm, epsilon, counter, vector});    \
    }                                                                                                                 \
    ENTRY RESIDENT(128, 6)                                                                                            \
        gated_##NAME(const uint8_t *__restrict__ src, const uint8_t *__restrict__ y, float *made, int32_t *counters,  \
                     uint8_t *__restrict__ vector, uint32_t columns, uint32_t rows) {                                 \
        gated<Q>(src, y, made, counters, vector, columns, rows);                                                      \
    }
CHAINED(q4_0, Q4_0, 3)
CHAINED(q4_1, Q4_1, 3)
CHAINED(q5_0, Q5_0, 3)
CHAINED(q5_1, Q5_1, 3)
CHAINED(q8_0, Q8_0, 3)
CHAINED(q2_k, Q2_K, 3)
CHAINED(q3_k, Q3_K, 3)
CHAINED(q4_k, Q4_K, 3)
CHAINED(q5_k, Q5_K, 2)
CHAINED(q6_k, Q6_K, 3)

} // namespace quantized
