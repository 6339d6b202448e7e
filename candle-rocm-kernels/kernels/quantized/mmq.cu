// Products of quantised matrices with matrices in q8_1: what a model reads a prompt with, if it is short.
#define READ_SIXTEENS
#include "quantized/formats.cuh"
#include "quantized/mmq_blocks.cuh"
#if !defined(__HIP__)
#include "quantized/mmq_tensor_cores.cuh"
#endif

namespace quantized {

// ---------------------------------------------------------------- activations

// The larger of two magnitudes; a NaN wins.
struct Largest {
    __device__ __forceinline__ float operator()(float a, float b) const { return a != a || a > b ? a : b; }
};

// `blocks` blocks, of `chunks` for each of `rows` vectors in each plane. Vector i of a plane is row ids[i], or i
// without ids; rows, planes and cubes of `planes` planes are so many elements apart in the source, and the
// blocks of a plane `plane_blocks` from those of the next. 32 threads make a block, four elements each; 8 of
// them (16 with D2S6) share a scale.
template <Scales LAYOUT>
__device__ __forceinline__ void quantize(const float *__restrict__ src, const int32_t *__restrict__ ids,
                                         uint8_t *__restrict__ dst, size_t columns, int64_t row_stride,
                                         int64_t plane_stride, int64_t cube_stride, size_t chunks, size_t rows,
                                         size_t planes, size_t plane_blocks, size_t blocks) {
    constexpr uint32_t SCALED = LAYOUT == D2S6 ? 64 : 32, SUMMED = LAYOUT == D2S6 ? 16 : 32;
    uint32_t within = 4 * (threadIdx.x % 32);
    bool fits_32 = blocks >> 32 == 0;
    for (size_t at = global_thread() / 32; at < blocks; at += global_threads() / 32) {
        // Neighbours read neighbouring blocks of a row.
        size_t vector = divide(at, chunks, fits_32), chunk = at - vector * chunks;
        size_t plane = divide(vector, rows, fits_32), row = vector - plane * rows;
        size_t cube = divide(plane, planes, fits_32);
        size_t first = chunk * BLOCK_ELEMENTS + within;
        const float *from = src + (int64_t)cube * cube_stride + (int64_t)(plane - cube * planes) * plane_stride +
                            (ids ? (int64_t)ids[row] : (int64_t)row) * row_stride + first;
        float largest = 0, sum = 0;
        vec<float, 4> x = {};
        if (first + 4 <= columns && (uintptr_t)from % 16 == 0) {
            x = read_global<vec<float, 4>>(from);
        } else {
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (first + i < columns) x[i] = from[i];
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            largest = Largest()(math::abs(x[i]), largest);
            sum += x[i];
        }
        largest = wave_all_reduce(largest, SCALED / 4, Largest());
        sum = wave_all_reduce(sum, SUMMED / 4, Sum());
        float d = largest / 127.0f;
        uint32_t q = 0;
#pragma unroll
        for (int i = 0; i < 4; i++)
            q |= (uint32_t)(uint8_t)saturate<int8_t>(math::round(d != 0.0f ? x[i] / d : 0.0f)) << (8 * i);
        uint8_t *block = dst + (plane * plane_blocks + chunk * rows + row) * BLOCK_BYTES;
        ((uint32_t *)(block + SCALES_BYTES))[within / 4] = q;
        if (LAYOUT == D2S6 && within % SUMMED == 0 && within < 96) ((half_t *)block)[2 + within / SUMMED] = (half_t)sum;
        if (within % SCALED == 0) {
            if (LAYOUT == D4) ((float *)block)[within / 32] = d;
            if (LAYOUT == D2S6) ((half_t *)block)[within / 64] = (half_t)d;
            if (LAYOUT == DS4) {
                ((half_t *)block)[within / 16] = (half_t)d;
                ((half_t *)block)[within / 16 + 1] = (half_t)sum;
            }
        }
    }
}
#define QUANTIZE(LAYOUT)                                                                                           \
    ENTRY __launch_bounds__(256) mmq_quantize_q8_1_##LAYOUT(                                                       \
        const float *__restrict__ src, const int32_t *__restrict__ ids, uint8_t *__restrict__ dst, size_t columns, \
        int64_t row_stride, int64_t plane_stride, int64_t cube_stride, size_t chunks, size_t rows, size_t planes,  \
        size_t plane_blocks, size_t blocks) {                                                                      \
        quantize<LAYOUT>(src, ids, dst, columns, row_stride, plane_stride, cube_stride, chunks, rows, planes,      \
                         plane_blocks, blocks);                                                                    \
    }
QUANTIZE(D4)
QUANTIZE(DS4)
QUANTIZE(D2S6)

// -------------------------------------------------------------------- products

constexpr uint32_t THREADS = 256, ROWS = 64, QUADS = BLOCK_ELEMENTS / 4;
// Words from one row to the next: reading 16 bytes of each of 8 rows touches every LDS bank once.
constexpr uint32_t PITCH = QUADS + 4;

// 128 elements of a tile's rows and vectors.
template <class Q, int COLUMNS> struct Tile {
    static constexpr uint32_t SCALE_GROUPS = BLOCK_ELEMENTS / Q::SCALED;
    alignas(16) uint32_t weights[ROWS][PITCH];
    alignas(16) uint32_t activations[COLUMNS][PITCH];
    float scale[SCALE_GROUPS][ROWS], min[Q::HAS_MIN ? SCALE_GROUPS : 1][ROWS];
    float d[BLOCK_ELEMENTS / 32][COLUMNS];
    // Sums of the activations' integers over as many elements as have a min.
    float plain[Q::HAS_MIN ? SCALE_GROUPS : 1][COLUMNS];
};

typedef vec<uint32_t, 4> Words;

template <class Q, Scales LAYOUT, int COLUMNS>
__device__ __forceinline__ void load(Tile<Q, COLUMNS> &tile, const uint8_t *__restrict__ src,
                                     const uint8_t *__restrict__ y, uint32_t step, uint32_t first_row,
                                     uint32_t first_column, uint32_t columns, uint32_t rows, uint32_t vectors,
                                     size_t row_bytes) {
    constexpr uint32_t SCALE_QUADS = Q::SCALED / 4;
    // 32 threads read 128 elements of a row.
    uint32_t k = threadIdx.x % QUADS, quad_of_row = step * QUADS + k;
#pragma unroll
    for (uint32_t r = threadIdx.x / QUADS; r < ROWS; r += THREADS / QUADS) {
        // Rows past the end repeat the last; their sums are never stored.
        size_t row = min_of(first_row + r, rows - 1);
        Quad quad = {0, 0.0f, 0.0f};
        if (4 * quad_of_row < columns) quad = row_quad<Q>(src + row * row_bytes, quad_of_row);
        tile.weights[r][k] = quad.q;
        if (k % SCALE_QUADS == 0) {
            tile.scale[k / SCALE_QUADS][r] = quad.scale;
            if constexpr (Q::HAS_MIN) tile.min[k / SCALE_QUADS][r] = quad.min;
        }
    }
    // A thread copies 32 elements of a vector.
#pragma unroll
    for (uint32_t i = threadIdx.x; i < COLUMNS * 4; i += THREADS) {
        uint32_t c = i / 4, chunk = i % 4;
        size_t vector = min_of(first_column + c, vectors - 1);
        const uint8_t *block = y + ((size_t)step * vectors + vector) * BLOCK_BYTES;
        const uint8_t *words = block + SCALES_BYTES + 32 * chunk;
        int32_t plain = 0;
#pragma unroll
        for (uint32_t w = 0; w < 8; w += 4) {
            Words four = load_vec<Words>(words + 4 * w);
            store_vec(&tile.activations[c][8 * chunk + w], four);
            if constexpr (Q::HAS_MIN) {
#pragma unroll
                for (uint32_t i = 0; i < 4; i++) plain = dot4(0x01010101u, four[i], plain);
                if ((w + 4) % SCALE_QUADS == 0) {
                    tile.plain[(8 * chunk + w) / SCALE_QUADS][c] = (float)plain;
                    plain = 0;
                }
            }
        }
        tile.d[chunk][c] = scale_of<LAYOUT>(block, chunk);
    }
}

#if !defined(__HIP__)
#define TENSOR_CORES
template <Scales LAYOUT> struct Activations {
    static constexpr uint32_t BYTES = BLOCK_BYTES, SCALES = SCALES_BYTES;
    static __device__ __forceinline__ float scale(const uint8_t *block, uint32_t chunk) {
        return scale_of<LAYOUT>(block, chunk);
    }
};
#elif defined(AMD_MFMA)
// CDNA's matrix instructions. A wavefront makes 16 rows of the tile in blocks of 16 x 16; in such a block a
// lane holds rows 4 * (lane / 16) on of column lane % 16.
template <class Q, int COLUMNS> struct Sums {
    static constexpr int WAVES_DOWN = ROWS / 16, ACROSS = THREADS / 64 / WAVES_DOWN, BLOCKS = COLUMNS / 16 / ACROSS;
    typedef int32_t v4i __attribute__((ext_vector_type(4)));
    float value[BLOCKS][4] = {};

    static __device__ __forceinline__ uint32_t row() { return threadIdx.x / 64 % WAVES_DOWN * 16 + lane_id() / 16 * 4; }
    static __device__ __forceinline__ uint32_t column(int block) {
        return 16 * (threadIdx.x / 64 / WAVES_DOWN * BLOCKS + block) + lane_id() % 16;
    }

    // Products of the integers of elements 32 * chunk on, or of their half `scale_group` alone if there are two.
    static __device__ __forceinline__ v4i products(const Tile<Q, COLUMNS> &tile, uint32_t chunk, uint32_t scale_group,
                                                   int block) {
        const uint32_t *a = tile.weights[threadIdx.x / 64 % WAVES_DOWN * 16 + lane_id() % 16];
        const uint32_t *b = tile.activations[column(block)];
        uint32_t group = lane_id() / 16;
        v4i c = {0, 0, 0, 0};
#if AMD_MFMA < 3
        // 16 elements an instruction, four in a lane.
#pragma unroll
        for (uint32_t half = 0; half < 2; half++)
            if (Q::SCALED == 32 || half == scale_group)
                c = __builtin_amdgcn_mfma_i32_16x16x16i8((int)a[8 * chunk + 4 * half + group],
                                                         (int)b[8 * chunk + 4 * half + group], c, 0, 0, 0);
#else
        // 32 elements an instruction, eight in a lane; zeros take the place of the half not asked for.
        uint64_t weights = *(const uint64_t *)(a + 8 * chunk + 2 * group);
        if (Q::SCALED == 16 && group / 2 != scale_group) weights = 0;
        c = __builtin_amdgcn_mfma_i32_16x16x32_i8((long)weights, *(const long *)(b + 8 * chunk + 2 * group), c, 0, 0,
                                                  0);
#endif
        return c;
    }

    __device__ __forceinline__ void add(const Tile<Q, COLUMNS> &tile) {
        constexpr uint32_t SCALE_GROUPS = 32 / Q::SCALED;
        // Unrolled, the products of all chunks would be in flight, at a wavefront's worth of registers.
#pragma unroll 1
        for (uint32_t chunk = 0; chunk < 4; chunk++) {
#pragma unroll
            for (uint32_t scale_group = 0; scale_group < SCALE_GROUPS; scale_group++) {
                uint32_t p = SCALE_GROUPS * chunk + scale_group;
#pragma unroll
                for (int block = 0; block < BLOCKS; block++) {
                    v4i c = products(tile, chunk, scale_group, block);
                    float d = tile.d[chunk][column(block)];
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        float sum = tile.scale[p][row() + i] * (float)c[i];
                        if constexpr (Q::HAS_MIN)
                            sum = math::fma(tile.min[p][row() + i], tile.plain[p][column(block)], sum);
                        value[block][i] = math::fma(d, sum, value[block][i]);
                    }
                }
            }
        }
    }

    template <class Store> __device__ __forceinline__ void for_each(Store store) const {
#pragma unroll
        for (int block = 0; block < BLOCKS; block++)
#pragma unroll
            for (int i = 0; i < 4; i++) store(row() + i, column(block), value[block][i]);
    }
};
#else
// Dot products of four. A thread makes every 16th row of the tile and every ACROSS-th column.
template <class Q, int COLUMNS> struct Sums {
    static constexpr int DOWN = 16, ACROSS = THREADS / DOWN, MY_ROWS = ROWS / DOWN, MY_COLUMNS = COLUMNS / ACROSS;
    float value[MY_ROWS][MY_COLUMNS] = {};

    __device__ __forceinline__ void add(const Tile<Q, COLUMNS> &tile) {
        constexpr uint32_t SCALE_QUADS = Q::SCALED / 4;
        uint32_t my_row = threadIdx.x % 16, my_column = threadIdx.x / 16;
#pragma unroll 1
        for (uint32_t p = 0; p < BLOCK_ELEMENTS / Q::SCALED; p++) {
            uint32_t a[MY_ROWS][SCALE_QUADS];
#pragma unroll
            for (int r = 0; r < MY_ROWS; r++)
#pragma unroll
                for (uint32_t k = 0; k < SCALE_QUADS; k++) a[r][k] = tile.weights[my_row + 16 * r][SCALE_QUADS * p + k];
#pragma unroll
            for (int c = 0; c < MY_COLUMNS; c++) {
                uint32_t column = my_column + ACROSS * c, b[SCALE_QUADS];
#pragma unroll
                for (uint32_t k = 0; k < SCALE_QUADS; k++) b[k] = tile.activations[column][SCALE_QUADS * p + k];
                float d = tile.d[p * Q::SCALED / 32][column];
#pragma unroll
                for (int r = 0; r < MY_ROWS; r++) {
                    int32_t products = 0;
#pragma unroll
                    for (uint32_t k = 0; k < SCALE_QUADS; k++) products = dot4(a[r][k], b[k], products);
                    float sum = tile.scale[p][my_row + 16 * r] * (float)products;
                    if constexpr (Q::HAS_MIN) sum = math::fma(tile.min[p][my_row + 16 * r], tile.plain[p][column], sum);
                    value[r][c] = math::fma(d, sum, value[r][c]);
                }
            }
        }
    }

    template <class Store> __device__ __forceinline__ void for_each(Store store) const {
#pragma unroll
        for (int c = 0; c < MY_COLUMNS; c++)
#pragma unroll
            for (int r = 0; r < MY_ROWS; r++)
                store(threadIdx.x % 16 + 16 * r, threadIdx.x / 16 + ACROSS * c, value[r][c]);
    }
};
#endif

// dst (vectors, dst_rows) = matrix (rows, columns) times the vectors, in tiles of ROWS x COLUMNS: of rows in x, of
// vectors in y, in steps of the grid. Workgroups in z each add up `k_per_split` of the columns, a multiple of 256, and
// have results of their own, `split_results` apart.
template <class Q, Scales LAYOUT, int COLUMNS>
__device__ __forceinline__ void product(const uint8_t *__restrict__ src, const uint8_t *__restrict__ y,
                                        float *__restrict__ dst, uint32_t columns, uint32_t rows, uint32_t vectors,
                                        size_t row_bytes, size_t dst_rows, uint32_t k_per_split, size_t split_results) {
    uint32_t begin = blockIdx.z * k_per_split, end = min_of(columns - begin, k_per_split) + begin;
    dst += blockIdx.z * split_results;
#if defined(TENSOR_CORES)
    // The widest tiles are high, too: of the host's workgroups every second has nothing to do. Small tiles have less to
    // do in a step, so theirs are longer.
    constexpr int HIGH = COLUMNS == 128 ? 2 * ROWS : ROWS, CHUNKS = COLUMNS == 128 ? 2 : 4;
    using Product = tensor_cores::Product<Q, Activations<LAYOUT>, HIGH, COLUMNS, CHUNKS, THREADS>;
    __shared__ typename Product::Tile tiles[2];
    if (blockIdx.x * HIGH >= rows) return;
    for (uint32_t first_column = blockIdx.y * COLUMNS; first_column < vectors; first_column += gridDim.y * COLUMNS)
        Product().run(tiles, src, y, dst, begin, end, rows, vectors, row_bytes, dst_rows, blockIdx.x * HIGH,
                      first_column);
#else
    __shared__ Tile<Q, COLUMNS> tile;
    uint32_t first_row = blockIdx.x * ROWS;
    for (uint32_t first_column = blockIdx.y * COLUMNS; first_column < vectors; first_column += gridDim.y * COLUMNS) {
        Sums<Q, COLUMNS> sums;
        for (uint32_t step = begin / BLOCK_ELEMENTS; step < ceil_div(end, BLOCK_ELEMENTS); step++) {
            load<Q, LAYOUT, COLUMNS>(tile, src, y, step, first_row, first_column, columns, rows, vectors, row_bytes);
            __syncthreads();
            sums.add(tile);
            __syncthreads();
        }
        sums.for_each([=](uint32_t row, uint32_t column, float value) {
            row += first_row;
            column += first_column;
            if (row < rows && column < vectors) dst[column * dst_rows + row] = value;
        });
    }
#endif
}
#define PRODUCT(NAME, Q, LAYOUT, COLUMNS)                                                                       \
    ENTRY __launch_bounds__(THREADS, COLUMNS == 128 ? 1 : 2)                                                    \
        mmq_##NAME##_##COLUMNS(const uint8_t *__restrict__ src, const uint8_t *__restrict__ y,                  \
                               float *__restrict__ dst, uint32_t columns, uint32_t rows, uint32_t vectors,      \
                               size_t row_bytes, size_t dst_rows, uint32_t k_per_split, size_t split_results) { \
        product<Q, LAYOUT, COLUMNS>(src, y, dst, columns, rows, vectors, row_bytes, dst_rows, k_per_split,      \
                                    split_results);                                                             \
    }
#define PRODUCTS(NAME, Q, LAYOUT) \
    PRODUCT(NAME, Q, LAYOUT, 16)  \
    PRODUCT(NAME, Q, LAYOUT, 64)  \
    PRODUCT(NAME, Q, LAYOUT, 128)
PRODUCTS(q4_0, Q4_0, DS4)
PRODUCTS(q4_1, Q4_1, DS4)
PRODUCTS(q5_0, Q5_0, D4)
PRODUCTS(q5_1, Q5_1, DS4)
PRODUCTS(q8_0, Q8_0, D4)
PRODUCTS(q2_k, Q2_K, D2S6)
PRODUCTS(q3_k, Q3_K, D4)
PRODUCTS(q4_k, Q4_K, DS4)
PRODUCTS(q5_k, Q5_K, DS4)
PRODUCTS(q6_k, Q6_K, D4)

// dst (vectors, dst_rows) = the sum of `splits` results of (vectors, rows) each, `split_results` apart, always in the
// same order.
ENTRY __launch_bounds__(256) mmq_sum(const float *__restrict__ partial, float *__restrict__ dst, uint32_t rows,
                                     uint32_t vectors, size_t dst_rows, uint32_t splits, size_t split_results) {
    uint32_t results = rows * vectors;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < results; i += gridDim.x * blockDim.x) {
        float sum = partial[i];
        for (uint32_t p = 1; p < splits; p++) sum += partial[p * split_results + i];
        uint32_t vector = i / rows;
        dst[vector * dst_rows + (i - vector * rows)] = sum;
    }
}

} // namespace quantized
