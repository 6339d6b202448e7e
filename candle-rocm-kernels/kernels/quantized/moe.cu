// Mixtures of experts: products of tokens with the matrices of the experts they were sent to.
//
// A slot is a token's place with one of its experts. Slots come sorted by expert: tokens[slot] is the row of the
// output (and of topk_weights) and experts[slot] the matrix. Without topk_weights a row of the input serves topk
// rows of the output in turn; with them each has its own, and the product is multiplied by the row's weight.
// A slot whose row is not in the output is left out; the row of one whose expert does not exist is zero.
#include "quantized/formats.cuh"

namespace quantized {

// -------------------------------------------------------------------- operands

// Rows of T, any k.
template <class T> struct Dense {
    static __device__ __forceinline__ void quad(const uint8_t *row, uint32_t quad, uint32_t k, float (&values)[4]) {
        const T *from = (const T *)row + 4 * (size_t)quad;
        if (k % 4 == 0) {
            vec<T, 4> loaded = load_vec<vec<T, 4>>(from);
#pragma unroll
            for (int i = 0; i < 4; i++) values[i] = (float)loaded[i];
        } else {
#pragma unroll
            for (int i = 0; i < 4; i++) values[i] = 4 * quad + i < k ? (float)from[i] : 0.0f;
        }
    }
};

// Rows of blocks of a quantised format, k a multiple of the block.
template <class Q> struct Quantised {
    static __device__ __forceinline__ void quad(const uint8_t *row, uint32_t quad, uint32_t k, float (&values)[4]) {
        (void)k;
        dequantize(row_quad<Q>(row, quad), values);
    }
};

// What a slot asks for.
struct Slot {
    uint32_t token;  // size_m: nothing
    uint32_t expert; // num_experts: zeros
};
__device__ __forceinline__ Slot slot_at(const int32_t *tokens, const int32_t *experts, uint32_t slot, uint32_t size_m,
                                        uint32_t num_experts) {
    if (slot >= size_m) return {size_m, num_experts};
    return {min_of((uint32_t)tokens[slot], size_m), min_of((uint32_t)experts[slot], num_experts)};
}

// -------------------------------------------------------- many tokens: tiles

constexpr uint32_t THREADS = 256, SLOTS = 32, COLUMNS = 64, DEPTH = 64;
// Floats of a tile's row: 16 rows' vectors of four lie in all banks of LDS.
constexpr uint32_t PITCH = DEPTH + 4;

typedef float Float4 __attribute__((ext_vector_type(4)));

// 256 threads make 64 columns of 32 slots. Slots of different experts take turns.
template <class T, class Weights, class Result>
__device__ __forceinline__ void product(const T *__restrict__ input, const uint8_t *__restrict__ weights,
                                        const int32_t *__restrict__ tokens, const int32_t *__restrict__ experts,
                                        const float *__restrict__ topk_weights, Result *__restrict__ output,
                                        uint32_t num_experts, uint32_t topk, uint32_t size_m, uint32_t size_n,
                                        uint32_t size_k, size_t row_bytes) {
    __shared__ Slot slots[SLOTS];
    alignas(16) __shared__ float a[SLOTS * PITCH];
    alignas(16) __shared__ float b[COLUMNS * PITCH];
    const uint32_t thread = threadIdx.x, fetched = thread / 4, quarter = thread % 4;
    // Four columns and two slots a thread, 16 apart.
    const uint32_t my_column = thread % 16, my_slot = thread / 16;
    constexpr int MY_COLUMNS = COLUMNS / 16, MY_SLOTS = SLOTS / 16;
    const uint32_t first_column = blockIdx.x * COLUMNS;
    const uint32_t column = min_of(first_column + fetched, size_n - 1);
    for (size_t first = (size_t)blockIdx.y * SLOTS; first < size_m; first += (size_t)gridDim.y * SLOTS) {
        __syncthreads();
        if (thread < SLOTS) slots[thread] = slot_at(tokens, experts, (uint32_t)first + thread, size_m, num_experts);
        __syncthreads();
        for (uint32_t begin = 0, end; begin < SLOTS; begin = end) {
            // Every thread finds the same run of slots with one expert.
            const uint32_t expert = uniform(slots[begin].expert);
            end = begin + 1;
            while (end < SLOTS && uniform(slots[end].expert) == expert) end++;
            float results[MY_SLOTS][MY_COLUMNS] = {};
            if (expert < num_experts) {
                const uint8_t *matrix_row = weights + ((size_t)expert * size_n + column) * row_bytes;
                bool fetches = fetched >= begin && fetched < end && slots[fetched % SLOTS].token < size_m;
                uint32_t token = fetches ? slots[fetched % SLOTS].token : 0;
                const uint8_t *input_row =
                    (const uint8_t *)(input + (size_t)(topk_weights ? token : token / topk) * size_k);
                for (uint32_t start = 0; start < size_k; start += DEPTH) {
                    __syncthreads();
#pragma unroll
                    for (uint32_t i = 0; i < DEPTH / 16; i++) {
                        uint32_t quad = DEPTH / 16 * quarter + i;
                        bool inside = start + 4 * quad < size_k;
                        float values[4] = {};
                        if (inside) Weights::quad(matrix_row, start / 4 + quad, size_k, values);
                        *(Float4 *)(b + fetched * PITCH + 4 * quad) =
                            Float4{values[0], values[1], values[2], values[3]};
                        if (fetched < SLOTS) {
                            float mine[4] = {};
                            if (inside && fetches) Dense<T>::quad(input_row, start / 4 + quad, size_k, mine);
                            *(Float4 *)(a + fetched * PITCH + 4 * quad) = Float4{mine[0], mine[1], mine[2], mine[3]};
                        }
                    }
                    __syncthreads();
#pragma unroll 4
                    for (uint32_t at = 0; at < DEPTH; at += 4) {
                        Float4 x[MY_SLOTS];
#pragma unroll
                        for (int i = 0; i < MY_SLOTS; i++)
                            x[i] = *(const Float4 *)(a + (my_slot + 16 * i) * PITCH + at);
#pragma unroll
                        for (int j = 0; j < MY_COLUMNS; j++) {
                            Float4 w = *(const Float4 *)(b + (my_column + 16 * j) * PITCH + at);
#pragma unroll
                            for (int i = 0; i < MY_SLOTS; i++)
#pragma unroll
                                for (int l = 0; l < 4; l++) results[i][j] = math::fma(x[i][l], w[l], results[i][j]);
                        }
                    }
                }
            }
#pragma unroll
            for (int i = 0; i < MY_SLOTS; i++) {
                uint32_t slot = my_slot + 16 * i;
                if (slot < begin || slot >= end || slots[slot].token >= size_m) continue;
                uint32_t token = slots[slot].token;
                float weight = topk_weights ? topk_weights[token] : 1.0f;
#pragma unroll
                for (int j = 0; j < MY_COLUMNS; j++) {
                    uint32_t n = first_column + my_column + 16 * j;
                    if (n < size_n)
                        output[(size_t)token * size_n + n] =
                            expert < num_experts ? (Result)(results[i][j] * weight) : (Result)0.0f;
                }
            }
        }
    }
}
#define PRODUCT(NAME, T, WEIGHTS, RESULT)                                                                             \
    ENTRY __launch_bounds__(256) NAME(                                                                                \
        const T *__restrict__ input, const uint8_t *__restrict__ weights, const int32_t *__restrict__ tokens,         \
        const int32_t *__restrict__ experts, const float *__restrict__ topk_weights, RESULT *__restrict__ output,     \
        uint32_t num_experts, uint32_t topk, uint32_t size_m, uint32_t size_n, uint32_t size_k, size_t row_bytes) {   \
        product<T, WEIGHTS, RESULT>(input, weights, tokens, experts, topk_weights, output, num_experts, topk, size_m, \
                                    size_n, size_k, row_bytes);                                                       \
    }
PRODUCT(moe_gemm_f16, half_t, Dense<half_t>, half_t)
PRODUCT(moe_gemm_bf16, bf16_t, Dense<bf16_t>, bf16_t)

// ------------------------------------------------------ few tokens: one by one

// A group of 32 threads makes a column of a slot; four groups in a workgroup.
template <class Q>
__device__ __forceinline__ void decode(const float *__restrict__ input, const uint8_t *__restrict__ weights,
                                       const int32_t *__restrict__ tokens, const int32_t *__restrict__ experts,
                                       const float *__restrict__ topk_weights, float *__restrict__ output,
                                       uint32_t num_experts, uint32_t topk, uint32_t size_m, uint32_t size_n,
                                       uint32_t size_k, size_t row_bytes) {
    const uint32_t lane = threadIdx.x % 32;
    for (size_t at = blockIdx.y; at < size_m; at += gridDim.y) {
        Slot slot = slot_at(tokens, experts, (uint32_t)at, size_m, num_experts);
        if (slot.token >= size_m) continue;
        const float *row = input + (size_t)(topk_weights ? slot.token : slot.token / topk) * size_k;
        float weight = topk_weights ? topk_weights[slot.token] : 1.0f;
        for (size_t n = (size_t)blockIdx.x * 4 + threadIdx.x / 32; n < size_n; n += (size_t)gridDim.x * 4) {
            float sum = 0;
            if (slot.expert < num_experts) {
                const uint8_t *matrix_row = weights + ((size_t)slot.expert * size_n + n) * row_bytes;
                for (uint32_t quad = lane; quad < size_k / 4; quad += 32) {
                    float values[4];
                    dequantize(row_quad<Q>(matrix_row, quad), values);
                    Float4 x = *(const Float4 *)(row + 4 * (size_t)quad);
#pragma unroll
                    for (int i = 0; i < 4; i++) sum = math::fma(values[i], x[i], sum);
                }
                sum = wave_all_reduce(sum, 32, Sum()) * weight;
            }
            if (lane == 0) output[(size_t)slot.token * size_n + n] = sum;
        }
    }
}

#define QUANTISED(NAME, Q)                                                                                          \
    PRODUCT(moe_prefill_##NAME##_f16, half_t, Quantised<Q>, float)                                                  \
    PRODUCT(moe_prefill_##NAME##_bf16, bf16_t, Quantised<Q>, float)                                                 \
    ENTRY __launch_bounds__(128) moe_decode_##NAME(                                                                 \
        const float *__restrict__ input, const uint8_t *__restrict__ weights, const int32_t *__restrict__ tokens,   \
        const int32_t *__restrict__ experts, const float *__restrict__ topk_weights, float *__restrict__ output,    \
        uint32_t num_experts, uint32_t topk, uint32_t size_m, uint32_t size_n, uint32_t size_k, size_t row_bytes) { \
        decode<Q>(input, weights, tokens, experts, topk_weights, output, num_experts, topk, size_m, size_n, size_k, \
                  row_bytes);                                                                                       \
    }
QUANTISED(q8_0, Q8_0)
QUANTISED(q4_k, Q4_K)
QUANTISED(q2_k, Q2_K)
QUANTISED(q3_k, Q3_K)
QUANTISED(q5_k, Q5_K)
QUANTISED(q6_k, Q6_K)

// -------------------------------------------------------------------- alignment

using namespace device_atomic;

// Gives each expert room for its slots, rounded up to a multiple of block_size: cumsum[e] is where it starts,
// cumsum[num_experts] and *total where the last ends, block_experts[b] the expert of block b or -1. Ids that are no
// expert's count nowhere. The first workgroup does that, the others fill sorted_slots with `slots`.
ENTRY __launch_bounds__(256)
    moe_align(const int32_t *__restrict__ slot_experts, int32_t *__restrict__ sorted_slots,
              int32_t *__restrict__ block_experts, int32_t *__restrict__ total, int32_t *cumsum, uint32_t num_experts,
              uint32_t block_size, uint32_t slots, uint32_t sorted_len) {
    if (blockIdx.x > 0) {
        for (size_t i = (size_t)(blockIdx.x - 1) * THREADS + threadIdx.x; i < sorted_len;
             i += (size_t)(gridDim.x - 1) * THREADS)
            sorted_slots[i] = (int32_t)slots;
        return;
    }
    __shared__ uint32_t sums[THREADS];
    const uint32_t thread = threadIdx.x, blocks = ceil_div((size_t)sorted_len, (size_t)block_size);
    for (size_t e = thread; e <= num_experts; e += THREADS) write(cumsum + e, 0);
    __syncthreads();
    for (size_t i = thread; i < slots; i += THREADS)
        if ((uint32_t)slot_experts[i] < num_experts) add_one(cumsum + slot_experts[i]);
    __syncthreads();
    uint32_t before = 0;
    for (size_t first = 0; first < num_experts; first += THREADS) {
        size_t expert = first + thread;
        uint32_t mine = 0;
        if (expert < num_experts) mine = ceil_div((uint32_t)read(cumsum + expert), block_size) * block_size;
        sums[thread] = mine;
        __syncthreads();
        for (uint32_t step = 1; step < THREADS; step *= 2) {
            uint32_t other = thread >= step ? sums[thread - step] : 0;
            __syncthreads();
            sums[thread] += other;
            __syncthreads();
        }
        uint32_t end = before + sums[thread], start = end - mine;
        if (expert < num_experts) {
            write(cumsum + expert, (int32_t)start);
            for (uint32_t block = start / block_size; block < end / block_size && block < blocks; block++)
                block_experts[block] = (int32_t)expert;
        }
        before += sums[THREADS - 1];
        __syncthreads();
    }
    if (thread == 0) {
        write(cumsum + num_experts, (int32_t)before);
        *total = (int32_t)before;
    }
    for (size_t block = before / block_size + thread; block < blocks; block += THREADS) block_experts[block] = -1;
}

// Puts every slot behind the others of its expert, in no particular order; cumsum[e] ends where the slots of e do.
ENTRY __launch_bounds__(256)
    moe_align_sort(const int32_t *__restrict__ slot_experts, int32_t *__restrict__ sorted_slots, int32_t *cumsum,
                   uint32_t num_experts, uint32_t slots, uint32_t sorted_len) {
    for (size_t i = global_thread(); i < slots; i += global_threads()) {
        if ((uint32_t)slot_experts[i] >= num_experts) continue;
        uint32_t at = (uint32_t)add_one(cumsum + slot_experts[i]);
        if (at < sorted_len) sorted_slots[at] = (int32_t)i;
    }
}

} // namespace quantized
