// Quantised blocks: dequantisation, row look-up, and products with f32 or q8_1 activations.
#include "portable/block_reduce.cuh"
#include "quantized/formats.cuh"

// How these are launched: launch_heuristics.rs says what the words mean.
#define LAUNCHES(X, EVERY)                      \
    X(indexed_moe_forward_q2k_q8_1, LoopsOverY) \
    X(indexed_moe_forward_q3k_q8_1, LoopsOverY) \
    X(indexed_moe_forward_q4k_q8_1, LoopsOverY) \
    X(indexed_moe_forward_q5k_q8_1, LoopsOverY) \
    X(indexed_moe_forward_q6k_q8_1, LoopsOverY) \
    X(indexed_moe_forward_q8_0_q8_1, LoopsOverY)

namespace quantized {

// ------------------------------------------------------------ dequantisation

// One thread makes four elements. `quads` may exceed what the grid has threads for.
template <class Q, class Out>
__device__ __forceinline__ void dequantize_quads(const uint8_t *__restrict__ src, Out *__restrict__ dst, size_t quads) {
    for (size_t k = global_thread(); k < quads; k += global_threads()) {
        float values[4];
        dequantize(row_quad<Q>(src, k), values);
        vec<Out, 4> out;
#pragma unroll
        for (int i = 0; i < 4; i++) out[i] = (Out)values[i];
        store_vec(dst + 4 * k, out);
    }
}

// The 32-element formats get their number of blocks, or (Q5) of elements; the others launch one
// workgroup a block.
#define DEQUANTIZE_COUNTED(NAME, Q, OUT_NAME, OUT, QUADS)                                              \
    ENTRY dequantize_block_##NAME##_##OUT_NAME(const uint8_t *__restrict__ src, OUT *__restrict__ dst, \
                                               int32_t count) {                                        \
        dequantize_quads<Q>(src, dst, QUADS);                                                          \
    }
#define DEQUANTIZE_BLOCKS(NAME, Q, OUT_NAME, OUT)                                                        \
    ENTRY dequantize_block_##NAME##_##OUT_NAME(const uint8_t *__restrict__ src, OUT *__restrict__ dst) { \
        dequantize_quads<Q>(src, dst, (size_t)gridDim.x * (Q::ELEMENTS / 4));                            \
    }
#define DEQUANTIZE(OUT_NAME, OUT)                                    \
    DEQUANTIZE_COUNTED(q4_0, Q4_0, OUT_NAME, OUT, (size_t)count * 8) \
    DEQUANTIZE_COUNTED(q4_1, Q4_1, OUT_NAME, OUT, (size_t)count * 8) \
    DEQUANTIZE_COUNTED(q5_0, Q5_0, OUT_NAME, OUT, (size_t)count / 4) \
    DEQUANTIZE_COUNTED(q5_1, Q5_1, OUT_NAME, OUT, (size_t)count / 4) \
    DEQUANTIZE_COUNTED(q8_0, Q8_0, OUT_NAME, OUT, (size_t)count * 8) \
    DEQUANTIZE_BLOCKS(q2_K, Q2_K, OUT_NAME, OUT)                     \
    DEQUANTIZE_BLOCKS(q3_K, Q3_K, OUT_NAME, OUT)                     \
    DEQUANTIZE_BLOCKS(q4_K, Q4_K, OUT_NAME, OUT)                     \
    DEQUANTIZE_BLOCKS(q5_K, Q5_K, OUT_NAME, OUT)                     \
    DEQUANTIZE_BLOCKS(q6_K, Q6_K, OUT_NAME, OUT)                     \
    DEQUANTIZE_BLOCKS(q8_K, Q8_K, OUT_NAME, OUT)
DEQUANTIZE(f32, float)
DEQUANTIZE(f16, half_t)

// ------------------------------------------------------------- rows by index

// dst[i] = row ids[i] of src, as f32. Workgroups share a row along y.
template <class Q>
__device__ __forceinline__ void get_rows(const uint8_t *__restrict__ src, const uint32_t *__restrict__ ids,
                                         float *__restrict__ dst, int64_t columns, size_t row_bytes) {
    const uint8_t *row = src + (size_t)ids[blockIdx.x] * row_bytes;
    float *out = dst + (size_t)blockIdx.x * columns;
    size_t step = (size_t)gridDim.y * blockDim.x;
    for (size_t k = (size_t)blockIdx.y * blockDim.x + threadIdx.x; k < (size_t)columns / 4; k += step) {
        float values[4];
        dequantize(row_quad<Q>(row, k), values);
        store_vec(out + 4 * k, vec<float, 4>{{values[0], values[1], values[2], values[3]}});
    }
}

template <class T>
__device__ __forceinline__ void get_float_rows(const uint8_t *__restrict__ src, const uint32_t *__restrict__ ids,
                                               float *__restrict__ dst, int64_t columns, size_t row_bytes) {
    const T *row = (const T *)(src + (size_t)ids[blockIdx.x] * row_bytes);
    float *out = dst + (size_t)blockIdx.x * columns;
    size_t step = (size_t)gridDim.y * blockDim.x;
    for (size_t i = (size_t)blockIdx.y * blockDim.x + threadIdx.x; i < (size_t)columns; i += step)
        out[i] = (float)row[i];
}

#define GET_ROWS(NAME, FUNCTION)                                                                                      \
    ENTRY get_rows_##NAME(const uint8_t *__restrict__ src, const uint32_t *__restrict__ ids, float *__restrict__ dst, \
                          int64_t columns, size_t row_bytes) {                                                        \
        FUNCTION(src, ids, dst, columns, row_bytes);                                                                  \
    }
GET_ROWS(f32, get_float_rows<float>)
GET_ROWS(f16, get_float_rows<half_t>)
GET_ROWS(bf16, get_float_rows<bf16_t>)
GET_ROWS(q4_0, get_rows<Q4_0>)
GET_ROWS(q4_1, get_rows<Q4_1>)
GET_ROWS(q5_0, get_rows<Q5_0>)
GET_ROWS(q5_1, get_rows<Q5_1>)
GET_ROWS(q8_0, get_rows<Q8_0>)
GET_ROWS(q2_K, get_rows<Q2_K>)
GET_ROWS(q3_K, get_rows<Q3_K>)
GET_ROWS(q4_K, get_rows<Q4_K>)
GET_ROWS(q5_K, get_rows<Q5_K>)
GET_ROWS(q6_K, get_rows<Q6_K>)

// --------------------------------------------------------------- activations

// Rows of `columns` floats to q8_1 blocks, padded with zeros to `padded` (a multiple of the
// workgroup). 32 neighbouring threads make a block.
ENTRY quantize_q8_1(const float *__restrict__ src, uint8_t *__restrict__ dst, int32_t columns, int32_t padded) {
    uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= (uint32_t)padded) return;
    float x = at < (uint32_t)columns ? src[(size_t)blockIdx.y * columns + at] : 0.0f;
    float largest = wave_all_reduce(math::abs(x), 32, [](float a, float b) { return math::fmax(a, b); });
    float sum = wave_all_reduce(x, 32, Sum());
    float d = largest / 127.0f;
    // A division, not a product with the inverse: the quotient of halves must round as CUDA's does.
    int32_t q = saturate<int8_t>(math::round(d != 0.0f ? x / d : 0.0f));
    uint8_t *block = dst + ((size_t)blockIdx.y * padded + at) / 32 * Q8_1::BYTES;
    block[4 + at % 32] = (uint8_t)q;
    if (at % 32 == 0) {
        *(half_t *)block = (half_t)d;
        *(half_t *)(block + 2) = (half_t)sum;
    }
}

// ------------------------------------------------- products with f32 vectors

// dst[row] = row . y: a workgroup a row.
template <class Q>
__device__ __forceinline__ void dequantize_mul_mat_vec(const uint8_t *__restrict__ src, const float *__restrict__ y,
                                                       float *__restrict__ dst, int32_t columns, int32_t rows) {
    __shared__ WaveValues<float> lds;
    uint32_t thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    const uint8_t *row = src + (size_t)blockIdx.x * (columns / Q::ELEMENTS) * Q::BYTES;
    float sum = 0;
    for (size_t k = thread; k < (size_t)columns / 4; k += threads) {
        float values[4];
        dequantize(row_quad<Q>(row, k), values);
#pragma unroll
        for (int i = 0; i < 4; i++) sum = math::fma(values[i], y[4 * k + i], sum);
    }
    sum = block_all_reduce(sum, thread, threads, Sum(), lds);
    if (thread == 0) dst[blockIdx.x] = sum;
}
#define DEQUANTIZE_MUL_MAT_VEC(NAME, Q)                                                               \
    ENTRY dequantize_mul_mat_vec_##NAME(const uint8_t *__restrict__ src, const float *__restrict__ y, \
                                        float *__restrict__ dst, int32_t columns, int32_t rows) {     \
        dequantize_mul_mat_vec<Q>(src, y, dst, columns, rows);                                        \
    }
DEQUANTIZE_MUL_MAT_VEC(q4_0_cuda, Q4_0)
DEQUANTIZE_MUL_MAT_VEC(q4_1_cuda, Q4_1)
DEQUANTIZE_MUL_MAT_VEC(q5_0_cuda, Q5_0)
DEQUANTIZE_MUL_MAT_VEC(q5_1_cuda, Q5_1)
DEQUANTIZE_MUL_MAT_VEC(q8_0_cuda, Q8_0)
DEQUANTIZE_MUL_MAT_VEC(q2_k, Q2_K)
DEQUANTIZE_MUL_MAT_VEC(q3_k, Q3_K)
DEQUANTIZE_MUL_MAT_VEC(q4_k, Q4_K)
DEQUANTIZE_MUL_MAT_VEC(q5_k, Q5_K)
DEQUANTIZE_MUL_MAT_VEC(q6_k, Q6_K)

// ----------------------------------------------- products with q8_1 vectors

// Adds to sums[c] the product of half a Q4_0 block, bytes 8 (half mod 2) to 7 more of its nibbles, with
// column c's activations, by CUDA's formula, in which the sum of the activations comes from the block, rounded to f16.
// The other half goes to another thread, as on CUDA.
template <int COLUMNS>
__device__ __forceinline__ void multiply_half_block(const uint8_t *__restrict__ row, size_t half,
                                                    const uint8_t *__restrict__ y, size_t column_bytes,
                                                    float (&sums)[COLUMNS]) {
    const uint8_t *weights = row + half / 2 * Q4_0::BYTES;
    uint32_t first = 2 * (half & 1), at[4] = {first, first + 1, first + 4, first + 5};
    Quad quads[4];
#pragma unroll
    for (int i = 0; i < 4; i++) quads[i] = Q4_0::quad(weights, at[i]);
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        const uint8_t *block = y + c * column_bytes + half / 2 * Q8_1::BYTES;
        const uint32_t *qs = (const uint32_t *)(block + 4);
        int32_t products = 0, plain = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            products = dot4(quads[i].q, qs[at[i]], products);
            plain = dot4(0x01010101u, qs[at[i]], plain);
        }
        float d = load_half(block), addend = cudas_addend(plain, d, load_half(block + 2), 4.0f);
        sums[c] = math::fma(quads[0].scale, math::fma((float)products, d, addend), sums[c]);
    }
}

// dst (COLUMNS, rows of dst) = weights times COLUMNS activation vectors. A workgroup takes one row, or
// two if there is more than one column, as Candle's grid has it.
template <class Q, int COLUMNS>
__device__ __forceinline__ void mul_mat_vec_q8_1(const uint8_t *__restrict__ src, const uint8_t *__restrict__ y,
                                                 float *__restrict__ dst, int32_t columns, int32_t rows, int32_t padded,
                                                 int32_t dst_rows) {
    constexpr uint32_t ROWS = COLUMNS == 1 ? 1 : 2;
    __shared__ WaveValues<float> lds;
    uint32_t thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    size_t row_bytes = (size_t)(columns / Q::ELEMENTS) * Q::BYTES, column_bytes = (size_t)(padded / 32) * Q8_1::BYTES;
    for (uint32_t row = blockIdx.x * ROWS; row < blockIdx.x * ROWS + ROWS && row < (uint32_t)rows; row++) {
        float sums[COLUMNS] = {};
        if (is_same<Q, Q4_0>::value && gives_cudas_bits(rows, columns)) {
            // The reversed bits make the reduction add distant halves first, as CUDA's does.
            uint32_t first = (thread & ~31u) | __builtin_bitreverse32(thread) >> 27;
            for (uint32_t half = first; half < (uint32_t)columns / 16; half += threads)
                multiply_half_block(src + row * row_bytes, half, y, column_bytes, sums);
        } else {
            for (uint32_t chunk = thread; chunk < (uint32_t)columns / 32; chunk += threads)
                multiply_chunk<Q>(src + row * row_bytes, chunk, y, column_bytes, COLUMNS, sums);
        }
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            float sum = block_all_reduce(sums[c], thread, threads, Sum(), lds);
            if (thread == 0) dst[(size_t)c * dst_rows + row] = sum;
        }
    }
}
#define MUL_MAT_VEC(NAME, Q, COLUMNS)                                                                             \
    ENTRY __launch_bounds__(128) mul_mat_vec_##NAME##_q8_1_cuda##COLUMNS(                                         \
        const uint8_t *__restrict__ src, const uint8_t *__restrict__ y, float *__restrict__ dst, int32_t columns, \
        int32_t rows, int32_t padded, int32_t dst_rows) {                                                         \
        mul_mat_vec_q8_1<Q, COLUMNS>(src, y, dst, columns, rows, padded, dst_rows);                               \
    }
#define MUL_MAT_VECS(NAME, Q) \
    MUL_MAT_VEC(NAME, Q, 1)   \
    MUL_MAT_VEC(NAME, Q, 2)   \
    MUL_MAT_VEC(NAME, Q, 3)   \
    MUL_MAT_VEC(NAME, Q, 4)   \
    MUL_MAT_VEC(NAME, Q, 5)   \
    MUL_MAT_VEC(NAME, Q, 6)   \
    MUL_MAT_VEC(NAME, Q, 7)   \
    MUL_MAT_VEC(NAME, Q, 8)
MUL_MAT_VECS(q4_0, Q4_0)
MUL_MAT_VECS(q4_1, Q4_1)
MUL_MAT_VECS(q5_0, Q5_0)
MUL_MAT_VECS(q5_1, Q5_1)
MUL_MAT_VECS(q8_0, Q8_0)
MUL_MAT_VECS(q2_K, Q2_K)
MUL_MAT_VECS(q3_K, Q3_K)
MUL_MAT_VECS(q4_K, Q4_K)
MUL_MAT_VECS(q5_K, Q5_K)
MUL_MAT_VECS(q6_K, Q6_K)

// A mixture of experts: out (batch, topk, n) = row of the expert that ids (batch, topk) names, times
// input (batch, topk or 1, k). Grid (n, batch or fewer, topk): a grid has at most 65,535 workgroups along y.
template <class Q>
__device__ __forceinline__ void indexed_moe_forward(const uint8_t *__restrict__ src, const uint8_t *__restrict__ y,
                                                    const uint32_t *__restrict__ ids, float *__restrict__ dst,
                                                    int32_t n, int32_t k, int32_t batch, int32_t topk, int32_t padded,
                                                    int32_t input_dim1) {
    __shared__ WaveValues<float> lds;
    uint32_t thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    for (uint32_t token = blockIdx.y; token < (uint32_t)batch; token += gridDim.y) {
        size_t slot = (size_t)token * topk + blockIdx.z;
        size_t input = (size_t)token * input_dim1 + (input_dim1 == 1 ? 0 : blockIdx.z);
        const uint8_t *row = src + ((size_t)ids[slot] * n + blockIdx.x) * (k / Q::ELEMENTS) * Q::BYTES;
        float sums[1] = {};
        for (uint32_t chunk = thread; chunk < (uint32_t)k / 32; chunk += threads)
            multiply_chunk<Q>(row, chunk, y + input * (padded / 32) * Q8_1::BYTES, 0, 1, sums);
        float sum = block_all_reduce(sums[0], thread, threads, Sum(), lds);
        if (thread == 0) dst[slot * n + blockIdx.x] = sum;
    }
}
#define INDEXED_MOE(NAME, Q)                                                                              \
    ENTRY __launch_bounds__(128) indexed_moe_forward_##NAME##_q8_1(                                       \
        const uint8_t *__restrict__ src, const uint8_t *__restrict__ y, const uint32_t *__restrict__ ids, \
        float *__restrict__ dst, int32_t n, int32_t k, int32_t batch, int32_t topk, int32_t padded,       \
        int32_t input_dim1) {                                                                             \
        indexed_moe_forward<Q>(src, y, ids, dst, n, k, batch, topk, padded, input_dim1);                  \
    }
INDEXED_MOE(q2k, Q2_K)
INDEXED_MOE(q3k, Q3_K)
INDEXED_MOE(q4k, Q4_K)
INDEXED_MOE(q5k, Q5_K)
INDEXED_MOE(q6k, Q6_K)
INDEXED_MOE(q8_0, Q8_0)

// ---------------------------------------------- products with q8_1 matrices

// A tile of ROWS x COLUMNS outputs by a workgroup of 128 threads: a thread makes every 16th row and every 8th column of
// it. 64 elements of the inner dimension at a time go to LDS.
template <class Q, int ROWS, int COLUMNS> struct MulMatTile {
    static constexpr int THREADS = 128, LANES = 16, MY_ROWS = ROWS / LANES, MY_COLUMNS = COLUMNS / (THREADS / LANES);
    static constexpr int SCALE_GROUPS = 64 / Q::SCALED, QUADS = 16 / SCALE_GROUPS;
    static constexpr bool IS_Q4_0 = is_same<Q, Q4_0>::value;

    // Rows of words by element quad, so that neighbouring threads use neighbouring banks.
    struct Lds {
        uint32_t (&weights)[16][ROWS], (&activations)[16][COLUMNS];
        float (&scale)[SCALE_GROUPS][ROWS], (&min)[Q::HAS_MIN ? SCALE_GROUPS : 1][ROWS], (&d)[2][COLUMNS];
        // What CUDA's formula adds to products of Q4_0, or 0.
        float (&addend)[2][IS_Q4_0 ? COLUMNS : 1];
        int32_t (&plain)[SCALE_GROUPS][COLUMNS];
    };

    Lds lds;
    uint32_t rows, columns, pieces;
    size_t row_bytes, column_bytes;
    bool cudas_bits;
    uint32_t thread = threadIdx.y * blockDim.x + threadIdx.x;
    uint32_t first_row = blockIdx.x * ROWS, first_column = blockIdx.y * COLUMNS;
    uint32_t my_row = thread % LANES, my_column = thread / LANES;
    float sums[MY_ROWS][MY_COLUMNS] = {};

    __device__ __forceinline__ MulMatTile(const Lds &lds, int32_t inner, int32_t rows, int32_t columns, int32_t padded)
        : lds(lds), rows((uint32_t)rows), columns((uint32_t)columns), pieces((uint32_t)inner / 32),
          row_bytes((size_t)(inner / Q::ELEMENTS) * Q::BYTES), column_bytes((size_t)(padded / 32) * Q8_1::BYTES),
          cudas_bits(IS_Q4_0 && gives_cudas_bits(rows, inner)) {}

    // Stage: a step's weights, global -> registers, unpacked -> LDS.
    __device__ __forceinline__ void stage_weights(const uint8_t *src, uint32_t step) {
#pragma unroll
        for (uint32_t i = thread; i < 2 * ROWS; i += THREADS) {
            uint32_t h = i / ROWS, r = i % ROWS, piece_of_row = 2 * step + h;
            // Rows past the end repeat the last; they are never stored.
            size_t row = min_of(first_row + r, rows - 1);
            Piece piece = {};
            if (piece_of_row < pieces)
                piece = Q::piece(load_piece<Q>(src + row * row_bytes, piece_of_row), piece_of_row % (Q::ELEMENTS / 32));
#pragma unroll
            for (uint32_t s = 0; s < 2; s++) {
                uint32_t place = place_of<Q>(h, s), scale_group = 4 * place / QUADS;
#pragma unroll
                for (uint32_t k = 0; k < 4; k++)
                    lds.weights[4 * place + k][r] =
                        Q::OFFSET != 0 ? subtract_bytes(piece.q[s][k], Q::OFFSET) : piece.q[s][k];
                lds.scale[scale_group][r] = piece.scale[s];
                if constexpr (Q::HAS_MIN) lds.min[scale_group][r] = piece.min[s];
            }
        }
    }
    // Stage: a step's activations, and their sums, global -> registers -> LDS.
    __device__ __forceinline__ void stage_activations(const uint8_t *y, uint32_t step) {
#pragma unroll
        for (uint32_t i = thread; i < 2 * COLUMNS; i += THREADS) {
            uint32_t slot = i / COLUMNS, c = i % COLUMNS, chunk = chunk_of<Q>(step, slot);
            size_t column = min_of(first_column + c, columns - 1);
            const uint32_t *block =
                (const uint32_t *)(y + column * column_bytes + (size_t)min_of(chunk, pieces - 1) * Q8_1::BYTES);
            lds.d[slot][c] = half_of(block[0]);
            int32_t sum = 0;
#pragma unroll
            for (uint32_t k = 0; k < 8; k++) {
                uint32_t q = block[1 + k];
                lds.activations[8 * slot + k][c] = q;
                sum = dot4(0x01010101u, q, sum);
                if ((k + 1) % QUADS == 0) {
                    lds.plain[(8 * slot + k) / QUADS][c] = sum;
                    if constexpr (IS_Q4_0)
                        lds.addend[slot][c] =
                            cudas_bits ? cudas_addend(sum, lds.d[slot][c], half_of(block[0] >> 16), 8.0f) : 0.0f;
                    sum = 0;
                }
            }
        }
    }
    // Multiply: the elements that share a scale, LDS -> registers -> sums.
    __device__ __forceinline__ void multiply(int scale_group) {
        uint32_t slot = scale_group * QUADS / 8, w[MY_ROWS][QUADS];
#pragma unroll
        for (int r = 0; r < MY_ROWS; r++)
#pragma unroll
            for (int k = 0; k < QUADS; k++) w[r][k] = lds.weights[QUADS * scale_group + k][my_row + r * LANES];
#pragma unroll
        for (int c = 0; c < MY_COLUMNS; c++) {
            uint32_t column = my_column + c * (THREADS / LANES), q[QUADS];
#pragma unroll
            for (int k = 0; k < QUADS; k++) q[k] = lds.activations[QUADS * scale_group + k][column];
#pragma unroll
            for (int r = 0; r < MY_ROWS; r++) {
                uint32_t row = my_row + r * LANES;
                int32_t products = 0;
#pragma unroll
                for (int k = 0; k < QUADS; k++) products = dot4(w[r][k], q[k], products);
                if constexpr (IS_Q4_0) {
                    float product = math::fma((float)products, lds.d[slot][column], lds.addend[slot][column]);
                    sums[r][c] = math::fma(lds.scale[scale_group][row], product, sums[r][c]);
                    continue;
                }
                float sum = lds.scale[scale_group][row] * (float)products;
                if constexpr (Q::HAS_MIN)
                    sum = math::fma(lds.min[scale_group][row], (float)lds.plain[scale_group][column], sum);
                sums[r][c] = math::fma(lds.d[slot][column], sum, sums[r][c]);
            }
        }
    }
    // Store: the sums of rows and columns that there are.
    __device__ __forceinline__ void store(float *dst, int32_t dst_rows) const {
#pragma unroll
        for (int c = 0; c < MY_COLUMNS; c++) {
            uint32_t column = first_column + my_column + c * (THREADS / LANES);
#pragma unroll
            for (int r = 0; r < MY_ROWS; r++) {
                uint32_t row = first_row + my_row + r * LANES;
                if (row < rows && column < columns) dst[(size_t)column * dst_rows + row] = sums[r][c];
            }
        }
    }
};

// dst (columns of y, rows) = weights times activations.
template <class Q, int ROWS, int COLUMNS>
__device__ __forceinline__ void mul_mat(const uint8_t *__restrict__ src, const uint8_t *__restrict__ y,
                                        float *__restrict__ dst, int32_t inner, int32_t rows, int32_t columns,
                                        int32_t padded, int32_t dst_rows) {
    using Tile = MulMatTile<Q, ROWS, COLUMNS>;
    constexpr int SCALE_GROUPS = Tile::SCALE_GROUPS;
    __shared__ uint32_t weights[16][ROWS], activations[16][COLUMNS];
    __shared__ float scale[SCALE_GROUPS][ROWS], min[Q::HAS_MIN ? SCALE_GROUPS : 1][ROWS], d[2][COLUMNS];
    __shared__ float addend[2][Tile::IS_Q4_0 ? COLUMNS : 1];
    __shared__ int32_t plain[SCALE_GROUPS][COLUMNS];
    Tile tile({weights, activations, scale, min, d, addend, plain}, inner, rows, columns, padded);
    for (uint32_t step = 0; step < ceil_div(tile.pieces, 2u); step++) {
        tile.stage_weights(src, step);
        tile.stage_activations(y, step);
        __syncthreads();
#pragma unroll 1
        for (int scale_group = 0; scale_group < SCALE_GROUPS; scale_group++) tile.multiply(scale_group);
        __syncthreads();
    }
    tile.store(dst, dst_rows);
}
#define MUL_MAT(NAME, Q, ROWS, COLUMNS)                                                                         \
    ENTRY __launch_bounds__(128)                                                                                \
        mul_mat_##NAME(const uint8_t *__restrict__ src, const uint8_t *__restrict__ y, float *__restrict__ dst, \
                       int32_t inner, int32_t rows, int32_t columns, int32_t padded, int32_t dst_rows) {        \
        mul_mat<Q, ROWS, COLUMNS>(src, y, dst, inner, rows, columns, padded, dst_rows);                         \
    }
// The tiles are those that Candle's grid covers.
MUL_MAT(q4_0, Q4_0, 128, 64)
MUL_MAT(q4_1, Q4_1, 128, 64)
MUL_MAT(q5_0, Q5_0, 64, 128)
MUL_MAT(q5_1, Q5_1, 64, 128)
MUL_MAT(q8_0, Q8_0, 64, 128)
MUL_MAT(q2_K, Q2_K, 128, 64)
MUL_MAT(q3_K, Q3_K, 128, 128)
MUL_MAT(q4_K, Q4_K, 128, 64)
MUL_MAT(q5_K, Q5_K, 128, 64)
MUL_MAT(q6_K, Q6_K, 64, 64)

} // namespace quantized
