// Products of quantised matrices on NVIDIA's tensor cores: mma of 16 x 8 x 32 signed bytes.
//
// A workgroup makes ROWS x COLUMNS results, two or four chunks of 32 elements of the inner dimension at a time, in the
// order in which the weights' pieces have them. A step's operands lie in one of two tiles in LDS, while those of the
// next are on their way in registers.
#pragma once
#include "quantized/formats.cuh"

namespace quantized {

namespace tensor_cores {

template <class Q, int ROWS, int COLUMNS, int CHUNKS> struct Tile {
    static constexpr int SCALE_GROUPS = 32 * CHUNKS / Q::SCALED, SIXTEENTHS = 2 * CHUNKS;
    vec<uint32_t, 4> weights[ROWS][SIXTEENTHS], activations[COLUMNS][SIXTEENTHS];
    // A row's scale and min, by parts; a vector's scale and the sum of its integers, by parts or, without mins, by
    // chunks.
    static constexpr int SIDES = Q::HAS_MIN ? SCALE_GROUPS : CHUNKS, WIDE = Q::HAS_MIN ? 2 : 1;
    // Further apart than their lengths, so that lanes write four parts at once. With mins there is less to gain, and
    // not always LDS.
    static constexpr int GAP = Q::HAS_MIN ? 0 : 8;
    vec<float, WIDE> row_side[SCALE_GROUPS][ROWS + GAP];
    alignas(16) vec<float, WIDE> column_side[SIDES][COLUMNS + GAP];

    // Where 16 bytes stand in a row of four or eight: eight rows' same 16 bytes then lie in all banks.
    static __device__ __forceinline__ uint32_t place(uint32_t row, uint32_t sixteen) {
        return sixteen ^ (CHUNKS == 4 ? row & 7u : row >> 1 & 3u);
    }
};

__device__ __forceinline__ void load_matrices(const void *at, uint32_t (&words)[4]) {
    uint32_t address = (uint32_t)(uintptr_t)(const __attribute__((address_space(3))) void *)at;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address)
                 : "memory");
}

// c = 16 x 32 bytes of a times 32 x 8 of b.
__device__ __forceinline__ void multiply(const uint32_t (&a)[4], const uint32_t *b, int32_t (&c)[4]) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
                 : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(0));
}
// c = half `half` of a times that of b.
__device__ __forceinline__ void multiply_half(const uint32_t (&a)[4], const uint32_t *b, int half, int32_t (&c)[4]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %7, %7, %7};"
                 : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
                 : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]), "r"(0));
}

// What this thread fetches of a step's operands: a piece of weights, and some of the vectors' sixteens.
template <class Q, int SIXTEENTHS> struct Fetched {
    typename Q::Raw raw;
    vec<uint32_t, 4> words[SIXTEENTHS];
    float d[SIXTEENTHS];
};

template <class Q, class Activations, int ROWS, int COLUMNS, int CHUNKS, int THREADS> struct Product {
    static_assert(THREADS == CHUNKS * ROWS || (THREADS == 2 * CHUNKS * ROWS && 2 * COLUMNS >= ROWS),
                  "every thread fetches weights, or half of them");
    using Tile = tensor_cores::Tile<Q, ROWS, COLUMNS, CHUNKS>;
    // A piece of weights each is for the first threads, the vectors for the last, or all where the first are all.
    static constexpr uint32_t FETCHERS = CHUNKS * ROWS, FIRST = THREADS - FETCHERS, PIECES = Q::ELEMENTS / 32;
    // Wavefronts are so many rows high, and share the columns; sixteen are too few for that, and a step's chunks are
    // shared instead.
    static constexpr int WAVE_ROWS = COLUMNS == 16 ? 16 : 32, DOWN = ROWS / WAVE_ROWS,
                         SHARERS = COLUMNS == 16 ? THREADS / 32 / DOWN : 1, ACROSS = THREADS / 32 / DOWN / SHARERS,
                         MY_COLUMNS = COLUMNS / ACROSS, MY_CHUNKS = CHUNKS / SHARERS;
    static constexpr int M = WAVE_ROWS / 16, N = MY_COLUMNS / 8, SCALE_GROUPS = 32 / Q::SCALED;
    static_assert(N % 2 == 0, "columns are loaded by sixteens");

    // Steps whose operands are on their way while one is multiplied. What a tile of few columns has to do is short
    // beside memory's latency; and with 64 there are registers for it where blocks have no heads.
    static constexpr int PREFETCH = COLUMNS == 16 || (COLUMNS == 64 && PIECES == 1) ? 2 : 1;

    static constexpr int SIXTEENTHS = ceil_div(2 * CHUNKS * COLUMNS, FIRST == 0 ? THREADS : (int)FIRST);
    using Operands = Fetched<Q, SIXTEENTHS>;

    const uint8_t *row, *vectors[SIXTEENTHS];
    uint32_t pieces;
    size_t plane;
    float value[M][N][4] = {};

    static __device__ __forceinline__ uint32_t my_row() { return threadIdx.x / 32 % DOWN * WAVE_ROWS; }
    static __device__ __forceinline__ uint32_t my_column() { return threadIdx.x / 32 / DOWN % ACROSS * MY_COLUMNS; }
    static __device__ __forceinline__ uint32_t sharer() { return SHARERS == 1 ? 0 : threadIdx.x / 32 / DOWN; }
    static __device__ __forceinline__ bool fetches_weights() { return FIRST == 0 || threadIdx.x < FETCHERS; }
    static __device__ __forceinline__ bool fetches_vectors() {
        return FIRST == 0 ? THREADS <= 2 * CHUNKS * COLUMNS || threadIdx.x < 2 * CHUNKS * COLUMNS
                          : threadIdx.x >= FETCHERS;
    }
    // The vector and the sixteen of it that are this thread's number u.
    static __device__ __forceinline__ uint32_t fetched_column(int u) {
        return (FIRST == 0 ? u * THREADS + threadIdx.x : u * FIRST + threadIdx.x - FETCHERS) / (2 * CHUNKS);
    }
    static __device__ __forceinline__ uint32_t fetched_sixteen() { return threadIdx.x % (2 * CHUNKS); }

    __device__ __forceinline__ void fetch(Operands &fetched, uint32_t step) const {
        // Past the end stands the last piece again, for zeros in the vectors.
        if (fetches_weights()) {
            uint32_t i = min_of(CHUNKS * step + threadIdx.x % CHUNKS, pieces - 1);
            const uint8_t *block = row + (size_t)(i / PIECES) * Q::BYTES;
            // Steps within a block share its head, if they have the same registers.
            if (PREFETCH == 2 || PIECES == 1 || CHUNKS * step % PIECES == 0)
                Q::load_head(block, i % PIECES, fetched.raw);
            Q::load_body(block, i % PIECES, fetched.raw);
        }
        if (!fetches_vectors()) return;
        uint32_t chunk = chunk_of<Q>(CHUNKS / 2 * step + fetched_sixteen() / 4, fetched_sixteen() / 2 % 2);
#pragma unroll
        for (int u = 0; u < SIXTEENTHS; u++) {
            const uint8_t *block = vectors[u] + chunk / 4 * plane;
            load_words<16>(block + Activations::SCALES + 32 * (chunk % 4) + 16 * (fetched_sixteen() % 2),
                           fetched.words[u].v);
            fetched.d[u] = Activations::scale(block, chunk % 4);
        }
    }

    static __device__ __forceinline__ void store(Tile &tile, const Operands &fetched, uint32_t step, uint32_t pieces) {
        if (fetches_weights()) {
            uint32_t r = threadIdx.x / CHUNKS, h = threadIdx.x % CHUNKS;
            Piece piece = Q::piece(fetched.raw, min_of(CHUNKS * step + h, pieces - 1) % PIECES);
#pragma unroll
            for (uint32_t i = 0; i < 2; i++) {
                // In blocks of 256 neighbours take turns, lest their 16 bytes lie in the same banks.
                uint32_t s = Q::ELEMENTS == 32 ? i : i ^ (h & 1u), sixteen = place_of<Q>(h, s),
                         scale_group = Q::SCALED == 16 ? sixteen : sixteen / 2;
                vec<uint32_t, 4> q;
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    q[k] = s == 0 ? piece.q[0][k] : piece.q[1][k];
                    if constexpr (Q::OFFSET != 0) q[k] = subtract_bytes(q[k], Q::OFFSET);
                }
                tile.weights[r][Tile::place(r, sixteen)] = q;
                if (Q::SCALED == 16 || sixteen % 2 == 0) {
                    vec<float, Tile::WIDE> side;
                    side[0] = s == 0 ? piece.scale[0] : piece.scale[1];
                    if constexpr (Q::HAS_MIN) side[1] = s == 0 ? piece.min[0] : piece.min[1];
                    tile.row_side[scale_group][r] = side;
                }
            }
        }
        if (!fetches_vectors()) return;
        uint32_t sixteen = fetched_sixteen();
#pragma unroll
        for (int u = 0; u < SIXTEENTHS; u++) {
            uint32_t c = fetched_column(u);
            tile.activations[c][Tile::place(c, sixteen)] = fetched.words[u];
            vec<float, Tile::WIDE> side;
            side[0] = fetched.d[u];
            if constexpr (Q::HAS_MIN) {
                int32_t plain = sum_bytes(fetched.words[u]);
                if constexpr (Q::SCALED == 32) plain += shfl_xor(plain, 1, 32);
                side[1] = (float)plain;
            }
            if (Q::HAS_MIN && Q::SCALED == 16) tile.column_side[sixteen][c] = side;
            else if (sixteen % 2 == 0) tile.column_side[sixteen / 2][c] = side;
        }
    }

    // A pair of blocks of eight columns, of one part of a chunk: what is multiplied at a time.
    static constexpr int PAIRS = N / 2, ITEMS = PAIRS * SCALE_GROUPS, WIDE = Tile::WIDE;
    // Adds a step's products. The matrices of the item after the next are read and the next item is multiplied while
    // the results of the last are scaled, so that none waits.
    __device__ __forceinline__ void add(const Tile &tile, uint32_t slot) {
        uint32_t lane = lane_id(), group = lane / 4, within = lane % 4;
        uint32_t a[M][4], b[2][4];
        int32_t products[2][2][M][4];
        vec<float, WIDE> row_side[SCALE_GROUPS][M][2];
        vec<float, 2 * WIDE> column_side[2][2];
        auto read = [&](int t) {
            if (t % SCALE_GROUPS != 0) return;
            uint32_t c = my_column() + 16 * (t / SCALE_GROUPS) + lane % 8 + lane / 16 * 8;
            load_matrices(&tile.activations[c][Tile::place(c, 2 * slot + lane / 8 % 2)], b[t / SCALE_GROUPS % 2]);
        };
        auto multiply_item = [&](int t) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                uint32_t column = my_column() + 16 * (t / SCALE_GROUPS) + 8 * i + 2 * within;
                column_side[t % 2][i] = load_vec<vec<float, 2 * WIDE>>(
                    &tile.column_side[Q::HAS_MIN ? SCALE_GROUPS * slot + t % SCALE_GROUPS : slot][column][0]);
#pragma unroll
                for (int m = 0; m < M; m++) {
                    if constexpr (SCALE_GROUPS == 1) multiply(a[m], b[t % 2] + 2 * i, products[t % 2][i][m]);
                    else multiply_half(a[m], b[t / SCALE_GROUPS % 2] + 2 * i, t % SCALE_GROUPS, products[t % 2][i][m]);
                }
            }
        };
        auto scale = [&](int t) {
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int m = 0; m < M; m++)
#pragma unroll
                    for (int k = 0; k < 4; k++) {
                        const vec<float, WIDE> &row = row_side[t % SCALE_GROUPS][m][k / 2];
                        const vec<float, 2 * WIDE> &column = column_side[t % 2][i];
                        float &total = value[m][2 * (t / SCALE_GROUPS) + i][k];
                        float sum = row[0] * (float)products[t % 2][i][m][k];
                        if constexpr (Q::HAS_MIN) sum = math::fma(row[WIDE - 1], column[k % 2 * WIDE + WIDE - 1], sum);
                        total = math::fma(column[k % 2 * WIDE], sum, total);
                    }
        };
#pragma unroll
        for (int m = 0; m < M; m++) {
            uint32_t r = my_row() + 16 * m + lane % 16;
            load_matrices(&tile.weights[r][Tile::place(r, 2 * slot + lane / 16)], a[m]);
        }
        read(0);
#pragma unroll
        for (int scale_group = 0; scale_group < SCALE_GROUPS; scale_group++)
#pragma unroll
            for (int m = 0; m < M; m++)
#pragma unroll
                for (int half = 0; half < 2; half++)
                    row_side[scale_group][m][half] =
                        tile.row_side[SCALE_GROUPS * slot + scale_group][my_row() + 16 * m + 8 * half + group];
        if (ITEMS > 1) read(1);
        multiply_item(0);
#pragma unroll
        for (int t = 0; t < ITEMS; t++) {
            if (t + 1 < ITEMS) multiply_item(t + 1);
            if (t + 2 < ITEMS) read(t + 2);
            scale(t);
        }
    }

    // Adds up the sharers' sums in their order, for the first of them, of which a thread is if it returns true.
    struct Meeting {
        vec<float, 4> sums[SHARERS][DOWN * ACROSS * 32][M][N];
    };
    __device__ __forceinline__ bool meet(Meeting &meeting) {
        uint32_t with = threadIdx.x % (DOWN * ACROSS * 32);
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int n = 0; n < N; n++) meeting.sums[sharer()][with][m][n] = load_vec<vec<float, 4>>(value[m][n]);
        __syncthreads();
        for (int s = 1; s < SHARERS && sharer() == 0; s++)
#pragma unroll
            for (int m = 0; m < M; m++)
#pragma unroll
                for (int n = 0; n < N; n++)
#pragma unroll
                    for (int k = 0; k < 4; k++) value[m][n][k] += meeting.sums[s][with][m][n][k];
        // Whoever comes next writes where this was read.
        __syncthreads();
        return sharer() == 0;
    }

    // dst (vectors, dst_rows): rows first_row on of vectors first_column on, of elements `begin` (a multiple of 256) to
    // `end` of both.
    __device__ __forceinline__ void run(Tile (&tiles)[2], const uint8_t *__restrict__ src,
                                        const uint8_t *__restrict__ y, float *__restrict__ dst, uint32_t begin,
                                        uint32_t end, uint32_t rows, uint32_t columns_of_y, size_t row_bytes,
                                        size_t dst_rows, uint32_t first_row, uint32_t first_column) {
        // Rows and vectors past the end repeat the last; their sums are never stored.
        row = src + min_of(first_row + threadIdx.x % FETCHERS / CHUNKS, rows - 1) * row_bytes;
#pragma unroll
        for (int u = 0; u < SIXTEENTHS; u++)
            vectors[u] = y + (size_t)min_of(first_column + fetched_column(u), columns_of_y - 1) * Activations::BYTES;
        plane = (size_t)columns_of_y * Activations::BYTES;
        pieces = end / 32;
        uint32_t first = begin / (32 * CHUNKS), steps = ceil_div(pieces, (uint32_t)CHUNKS);
        // In turns, so that none is moved while it is on its way.
        Operands fetched[PREFETCH];
#pragma unroll
        for (int i = 0; i < PREFETCH; i++) fetch(fetched[i], min_of(first + i, steps - 1));
        // A split's first tile is the first: it begins at an even step.
        store(tiles[0], fetched[0], first, pieces);
        __syncthreads();
        auto one = [&](uint32_t step, Operands &now, Operands &next) INLINED {
            if (step + PREFETCH < steps) fetch(now, step + PREFETCH);
#pragma unroll 1
            for (uint32_t slot = 0; slot < MY_CHUNKS; slot++) add(tiles[step % 2], sharer() * MY_CHUNKS + slot);
            if (step + 1 < steps) store(tiles[(step + 1) % 2], next, step + 1, pieces);
            __syncthreads();
        };
        uint32_t step = first;
        if constexpr (PREFETCH == 2) {
#pragma unroll 1
            for (; step + 1 < steps; step += 2) {
                one(step, fetched[0], fetched[1]);
                one(step + 1, fetched[1], fetched[0]);
            }
            if (step < steps) one(step, fetched[0], fetched[1]);
        } else {
#pragma unroll 1
            for (; step < steps; step++) one(step, fetched[0], fetched[0]);
        }
        if constexpr (SHARERS > 1) {
            if (!meet(*(Meeting *)tiles)) return;
        }
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int n = 0; n < N; n++)
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    uint32_t r = first_row + my_row() + 16 * m + 8 * (k / 2) + lane_id() / 4;
                    uint32_t c = first_column + my_column() + 8 * n + 2 * (lane_id() % 4) + k % 2;
                    if (r < rows && c < columns_of_y) dst[c * dst_rows + r] = value[m][n][k];
                }
    }
};

} // namespace tensor_cores

} // namespace quantized
