// Operands on their way to the matrix units: K-blocks, that a workgroup reads from global memory to registers, and
// stages from there to LDS (stages/stage.cuh).
//
// "Rows" are A's rows or B's columns. An operand whose k is together in memory (ALONG_K) is copied as it is. Of another
// operand each thread reads a block of so many elements of k by one vector of rows, and transposes it.
//
// Registers, a thread's `Held` of a K-block: vectors of k of some rows, or V vectors of V rows (a block), which are
// transposed when they are staged.
#pragma once
#include "matmul/loads/vectors.cuh"
#include "matmul/stages/stage.cuh"

template <> struct Words<1> {
    typedef uint8_t type;
};

// A position in an operand that moves along k, in elements.
template <class T> __device__ __forceinline__ void advance_by(const T *&base, int64_t elements) {
    base += elements;
    opt_barrier_uniform(base);
}

// What the two kinds of K-blocks share: the operand from this tile's first row on.
template <class T, int ROWS, class S, bool ALONG_K> struct KBlockBase {
    static constexpr int V = VEC16<T>, SIZE = (int)sizeof(T);
    // Elements of k in a stage and in a K-block.
    static constexpr int DEPTH = S::STAGE_BYTES / SIZE, K_BLOCK = DEPTH * S::STAGES_OF_K_BLOCK;
    using Stage = typename S::template Stage<T, ROWS>;

    const T *first;
    int64_t ld;
    uint32_t rows;
    uint32_t begin, end; // of k
    bool has_vectors;

    // `matrix` is the operand, of `rows` rows, `start` the tile's first.
    __device__ __forceinline__ KBlockBase(const T *matrix, int64_t ld, uint32_t start, uint32_t rows, uint32_t begin,
                                          uint32_t end)
        : first(matrix + (ALONG_K ? (int64_t)start * ld : (int64_t)start)), ld(ld), rows(rows - start), begin(begin),
          end(end), has_vectors(vectors_at(matrix, ld)) {}

    __device__ __forceinline__ const T *at(uint32_t row, uint32_t k) const {
        return first + (ALONG_K ? (int64_t)row * ld + k : (int64_t)k * ld + row);
    }

    // How many K-blocks `load` may read: they lie within the matrix, and their offsets in 32 bits. Rows outside the
    // matrix are replaced by others (their sums are never stored), but a vector of rows that begins in it may
    // reach into the next column, if there is one.
    __device__ __forceinline__ uint32_t k_blocks() const {
        uint32_t depth = end - begin;
        if (!has_vectors) return 0;
        constexpr uint32_t MOST = (1ull << 32) / (SIZE * (ALONG_K ? ROWS : K_BLOCK)) - 2;
        // Scalar units compare 32 bits.
        if ((uint32_t)((uint64_t)ld >> 32) | (uint32_t)((uint32_t)ld - 1 >= MOST)) return 0;
        if (!ALONG_K && rows < ROWS && rows % V != 0) {
            uint32_t kept = ceil_div((uint32_t)V - 1, (uint32_t)ld);
            depth = depth > kept ? depth - kept : 0;
        }
        return depth / K_BLOCK;
    }

    // Writes the stage that begins at k to LDS, whatever its place; what lies outside the matrix is 0 there.
    __device__ __forceinline__ void stage_any(LdsBytes lds_stage, uint32_t k) const {
        constexpr uint32_t VECTORS = ROWS * S::VECTORS, PER_LINE = ALONG_K ? S::VECTORS : ROWS / V;
#pragma unroll 1
        for (uint32_t index = threadIdx.x; index < VECTORS; index += S::THREADS) {
            uint32_t along = index % PER_LINE * V, line = index / PER_LINE;
            // Rows after the matrix's last repeat that.
            uint32_t row = ALONG_K ? min_of(line, rows - 1) : along, within = ALONG_K ? along : line;
            uint32_t lines = ALONG_K ? ROWS : end - k, elements = ALONG_K ? end - k : rows;
            const T *from = at(row, k + within);
            LdsBytes to = lds_stage + Stage::lds_offset(ALONG_K ? line : along, within * SIZE / Stage::CHUNK) +
                          within * SIZE % Stage::CHUNK;
            // In LDS, element j of the vector.
            auto element_at = [&](int j) INLINED {
                return ALONG_K ? to + j * (Stage::CHUNK == SIZE ? Stage::CHUNK_PITCH : SIZE) : Stage::after(to, j);
            };
            typedef typename bits_of<SIZE>::type Element;
            if (has_vectors && line < lines && along + V <= elements) {
                vec<Element, V> values = load_vector<vec<Element, V>>(from);
                if constexpr (ALONG_K) {
                    Stage::store(to, bit_cast<WordVector<4>::type>(values));
                } else {
#pragma unroll
                    for (int j = 0; j < V; j++) lds_store(element_at(j), values[j]);
                }
            } else {
#pragma unroll 1
                for (uint32_t j = 0; j < V; j++) {
                    Element element = 0;
                    if (line < lines && along + j < elements)
                        element = bit_cast<Element>(load_at<vec<T, 1>>(from + j, 0));
                    lds_store(element_at(j), element);
                }
            }
        }
    }
};

template <class T, int ROWS, class S, bool ALONG_K> struct KBlock;

// k is together: vectors of it are copied to LDS as they are. A thread's vectors i have row row(i), one in each stage,
// so that a row's part of the K-block is read at once.
template <class T, int ROWS, class S> struct KBlock<T, ROWS, S, true> : KBlockBase<T, ROWS, S, true> {
    using Base = KBlockBase<T, ROWS, S, true>;
    using typename Base::Stage;
    static constexpr int TOTAL = ROWS * S::VECTORS, VECTORS = ceil_div(TOTAL, S::THREADS);
    static constexpr int ROW_STEP = S::THREADS / S::VECTORS;
    static_assert(ROW_STEP % 32 == 0, "a thread's rows begin with the same low bits");
    static constexpr bool EVEN = TOTAL % S::THREADS == 0, IS_PING_PONG = false;
    typedef WordVector<4>::type Vector;

    const T *base;
    uint32_t offset[VECTORS];
    Vector held[S::STAGES_OF_K_BLOCK][VECTORS];

    static __device__ __forceinline__ uint32_t chunk() { return threadIdx.x % S::VECTORS; }
    static __device__ __forceinline__ uint32_t row(int i) { return threadIdx.x / S::VECTORS + i * ROW_STEP; }
    static __device__ __forceinline__ bool mine(int i) { return EVEN || threadIdx.x + i * S::THREADS < TOTAL; }

    __device__ __forceinline__ KBlock(const T *matrix, int64_t ld, uint32_t start, uint32_t rows, uint32_t begin,
                                      uint32_t end)
        : Base(matrix, ld, start, rows, begin, end), base(this->first + begin) {
#pragma unroll
        for (int i = 0; i < VECTORS; i++)
            offset[i] = (min_of(row(i), this->rows - 1) * (uint32_t)ld + chunk() * Base::V) * Base::SIZE;
    }

    // Reads the next K-block.
    __device__ __forceinline__ void load() {
#pragma unroll
        for (int i = 0; i < VECTORS; i++) {
            opt_barrier_value(offset[i]);
            if (mine(i)) {
#pragma unroll
                for (int j = 0; j < S::STAGES_OF_K_BLOCK; j++)
                    held[j][i] = load_vector<Vector>(base, offset[i], j * Base::DEPTH);
            }
        }
        advance_by(base, Base::K_BLOCK);
    }
    // Writes its stage j to LDS.
    template <PingPong> __device__ __forceinline__ void stage(LdsBytes lds_stage, int j) const {
#pragma unroll
        for (int i = 0; i < VECTORS; i++)
            if (mine(i))
                Stage::store(lds_stage + Stage::lds_offset(row(0), chunk() * Stage::OF_VECTOR) +
                                 Stage::position(i * ROW_STEP) * Stage::CHUNK,
                             held[j][i]);
    }
};

// Rows are together. A thread holds blocks of LINES elements of k by a vector of rows.
template <class T, int ROWS, class S> struct KBlock<T, ROWS, S, false> : KBlockBase<T, ROWS, S, false> {
    using Base = KBlockBase<T, ROWS, S, false>;
    using typename Base::Stage;
    static constexpr int V = Base::V, SIZE = Base::SIZE;
    // Four lines make longer writes to LDS, two more blocks: enough for all threads in each stage, or in every other.
    static constexpr int VECTORS = ROWS / V;
    static constexpr bool TWO_LINES =
        VECTORS * (16 / (4 * SIZE)) * S::VECTORS * min_of(S::STAGES_OF_K_BLOCK, 2) < S::THREADS;
    static constexpr int LINES = SIZE == 8 || (SIZE != 1 && TWO_LINES) ? 2 : 4, SEGMENT_BYTES = LINES * SIZE,
                         SEGMENTS = 16 / SEGMENT_BYTES;
    static constexpr int PER_STAGE = VECTORS * SEGMENTS * S::VECTORS;
    static constexpr int TOTAL = PER_STAGE * S::STAGES_OF_K_BLOCK, BLOCKS = ceil_div(TOTAL, S::THREADS);
    static constexpr bool EVEN = TOTAL % S::THREADS == 0,
                          IS_PING_PONG = PER_STAGE % S::THREADS != 0 && S::STAGES_OF_K_BLOCK > 1;
    typedef WordVector<4>::type Vector;
    typedef typename WordVector<SEGMENT_BYTES / 4>::type Segment;

    const T *base;
    uint32_t offset[BLOCKS][LINES], lds_stage[BLOCKS];
    // Which bytes make two elements of k of a row; of four, after halves of them were made.
    uint32_t selectors[4] = {byte_selector(0, 1, 4, 5), byte_selector(2, 3, 6, 7), byte_selector(0, 4, 1, 5),
                             byte_selector(2, 6, 3, 7)};
    // What a thread has of a K-block.
    typedef Vector Held[BLOCKS][LINES];
    Held held;

    struct Block {
        uint32_t row;
        uint32_t chunk;   // of the K-block
        uint32_t segment; // of the chunk
    };
    // Neighbouring threads have blocks that LDS takes at once: rows that Stage shifts against each other (their bits
    // are V on, but not its LATE_ROW), then the parts of a chunk. With bytes 32 threads write at once, which may take
    // two chunks. Where there are too few rows, chunks that are shifted as rows with bit 32 or 64 would be stand in for
    // those.
    static constexpr bool FOR_32 = SIZE >= 2 && SIZE <= 4 && S::VECTORS == 4 && ROWS <= 32,
                          FOR_64 = SIZE == 2 && S::VECTORS == 4 && ROWS <= 64;
    static __device__ __forceinline__ Block block(int i) {
        uint32_t index = threadIdx.x + i * S::THREADS, row = 0;
        int taken = 0;
        auto take_row = [&](int bit) INLINED {
            row += index % 2 * bit;
            index /= 2;
        };
#pragma unroll
        for (int bit = V; bit < ROWS; bit *= 2)
            if (bit != Stage::LATE_ROW && taken < 3) {
                take_row(bit);
                taken++;
            }
        uint32_t segment = index % SEGMENTS, chunk = 0;
        index /= SEGMENTS;
        auto take_chunk = [&](int bit) INLINED {
            chunk += index % 2 * bit;
            index /= 2;
        };
        if (SIZE == 1) {
            chunk = index % S::VECTORS;
            index /= S::VECTORS;
        }
        if (FOR_32) take_chunk(1);
        if (FOR_64) take_chunk(2);
        if (Stage::LATE_ROW >= V && Stage::LATE_ROW < ROWS) take_row(Stage::LATE_ROW);
        int skipped = 0;
#pragma unroll
        for (int bit = V; bit < ROWS; bit *= 2)
            if (bit != Stage::LATE_ROW && ++skipped > 3) take_row(bit);
        if (FOR_64 && !FOR_32) take_chunk(1);
        return {row, chunk + index * (SIZE == 1 || FOR_64 ? S::VECTORS : FOR_32 ? 2 : 1), segment};
    }
    static __device__ __forceinline__ bool mine(int i) { return EVEN || threadIdx.x + i * S::THREADS < TOTAL; }
    // The stage of this thread's block i: the same for all lanes of a wavefront, if there are enough blocks.
    static __device__ __forceinline__ uint32_t stage_of(int i) {
        uint32_t lds_stage = (threadIdx.x + i * S::THREADS) / PER_STAGE;
        return PER_STAGE % S::WAVE == 0 ? uniform(lds_stage) : lds_stage;
    }

    __device__ __forceinline__ KBlock(const T *matrix, int64_t ld, uint32_t start, uint32_t rows, uint32_t begin,
                                      uint32_t end)
        : Base(matrix, ld, start, rows, begin, end), base(this->first + (int64_t)begin * ld) {
#pragma unroll
        for (int i = 0; i < BLOCKS; i++) {
            Block b = block(i);
            lds_stage[i] = stage_of(i);
#pragma unroll
            for (int l = 0; l < LINES; l++)
                offset[i][l] =
                    ((b.chunk * V + b.segment * LINES + l) * (uint32_t)ld + (b.row < this->rows ? b.row : 0)) * SIZE;
        }
    }

    __device__ __forceinline__ void load() {
#pragma unroll
        for (int i = 0; i < BLOCKS; i++) {
#pragma unroll
            for (int l = 0; l < LINES; l++) {
                opt_barrier_value(offset[i][l]);
                if (mine(i)) held[i][l] = load_vector<Vector>(base, offset[i][l]);
            }
        }
        advance_by(base, Base::K_BLOCK * this->ld);
    }

    template <PingPong PING_PONG> __device__ __forceinline__ void stage(LdsBytes to, int j) {
        stage<PING_PONG>(to, j, held);
    }
    template <PingPong PING_PONG> __device__ __forceinline__ void stage(LdsBytes to, int j, const Held &from) {
        constexpr int FIRST = PING_PONG == PONG ? S::THREADS / 2 : 0,
                      END = PING_PONG == PING ? S::THREADS / 2 : S::THREADS;
        // Lest the compiler permute blocks that are staged in one of several places before all of them.
#pragma unroll
        for (uint32_t &selector : selectors) opt_barrier_ordered_uniform(selector);
#pragma unroll
        for (int i = 0; i < BLOCKS; i++) {
            int least = (i * S::THREADS + FIRST) / PER_STAGE, most = (i * S::THREADS + END - 1) / PER_STAGE;
            if (j < least || j > most || (least != most && lds_stage[i] != (uint32_t)j)) continue;
            if (mine(i)) store(to, i, from[i]);
        }
    }

    __device__ __forceinline__ void store(LdsBytes lds_stage, int i) const { store(lds_stage, i, held[i]); }
    __device__ __forceinline__ void store(LdsBytes lds_stage, int i, const Vector (&from)[LINES]) const {
        Block b = block(i);
        auto [first, second, low, high] = selectors;
        LdsBytes to = lds_stage + Stage::lds_offset(b.row, b.chunk * Stage::OF_VECTOR % Stage::CHUNKS) +
                      b.segment * SEGMENT_BYTES;
        auto put = [&](int row, Segment segment) INLINED {
            lds_store(Stage::after(to, row), segment);
        };
        if constexpr (SIZE == 1) {
#pragma unroll
            for (int w = 0; w < 4; w++) {
                uint32_t x0 = permute_bytes(from[0][w], from[1][w], low),
                         y0 = permute_bytes(from[2][w], from[3][w], low);
                uint32_t x1 = permute_bytes(from[0][w], from[1][w], high),
                         y1 = permute_bytes(from[2][w], from[3][w], high);
                put(4 * w, Segment(permute_bytes(x0, y0, first)));
                put(4 * w + 1, Segment(permute_bytes(x0, y0, second)));
                put(4 * w + 2, Segment(permute_bytes(x1, y1, first)));
                put(4 * w + 3, Segment(permute_bytes(x1, y1, second)));
            }
        } else if constexpr (SIZE == 2) {
#pragma unroll
            for (int w = 0; w < 4; w++) {
                Segment even, odd;
#pragma unroll
                for (int l = 0; l < LINES; l += 2) {
                    even[l / 2] = permute_bytes(from[l][w], from[l + 1][w], first);
                    odd[l / 2] = permute_bytes(from[l][w], from[l + 1][w], second);
                }
                put(2 * w, even);
                put(2 * w + 1, odd);
            }
        } else if constexpr (SIZE == 4) {
#pragma unroll
            for (int w = 0; w < 4; w++) {
                Segment segment;
#pragma unroll
                for (int l = 0; l < LINES; l++) segment[l] = from[l][w];
                put(w, segment);
            }
        } else {
            // Chunks are elements: nothing is transposed.
#pragma unroll
            for (int l = 0; l < LINES; l++) lds_store(to + l * Stage::CHUNK_PITCH, from[l]);
        }
    }
};
