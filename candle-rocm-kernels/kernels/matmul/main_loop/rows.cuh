// Products on mma.sync of operands that both have k together, as weights and activations have: a workgroup computes a
// tile of C of which each wavefront has rows of its own. Lanes copy to LDS what they themselves take of A, and upcast
// it once; B's columns are copied for all, and upcast by whoever reads them.
//
//   for each K-block of 128 bytes of k:
//     upcast    A's K-block, LDS -> registers
//     copy     both K-blocks that are PREFETCH further, global -> LDS
//     multiply all of the K-block's k for one block of columns after another, LDS -> registers -> sums
//   store      sums -> LDS -> global
//
// One barrier stands before the copies: B's K-block is there then, and nobody reads that in whose place one goes.
//
// Which k stands where in an instruction is arbitrary, as long as A and B agree: the four lanes of a
// row have 16 bytes each of 64 that lie together.
#pragma once
#include "matmul/main_loop/tile.cuh"
#include "matmul/atoms/fp8.cuh"

// What instructions take of 16 bytes of k: WIDE times as many, of another type.
template <class T> struct Upcast {
    using Type = T;
    static constexpr int WIDE = 1;
    typedef WordVector<4>::type Vector;
    static __device__ __forceinline__ void upcast(Vector (&to)[WIDE], const Vector &from) { to[0] = from; }
};
template <> struct Upcast<f8e4m3_t> {
    using Type = half_t;
    static constexpr int WIDE = 2;
    typedef WordVector<4>::type Vector;
    static __device__ __forceinline__ void upcast(Vector (&to)[WIDE], const Vector &from) {
#pragma unroll
        for (int i = 0; i < 8; i++) to[i / 4][i % 4] = bit_cast<uint32_t>(upcast_two(from[i / 2], i % 2 == 1));
    }
};

// B's K-block in LDS: of each column a line of 128 bytes, whose halves are swizzled in every other column: eight lanes
// read four chunks of 16 bytes of one half of two columns.
template <class T, int COLUMNS> struct ColumnLines {
    static constexpr int CHUNK = 16, LINE = 128, BYTES = COLUMNS * LINE;
    static __device__ __forceinline__ uint32_t lds_offset(uint32_t column, uint32_t chunk) {
        return column * LINE + (chunk ^ column % 2 * 4) * CHUNK;
    }
};

// A tile of so many rows and columns where k is together; K-blocks are copied PREFETCH before they are multiplied.
// Other operands have OTHERS' schedule.
template <class OTHERS, int PREFETCH_> struct RowsShape : OTHERS {
    static constexpr int PREFETCH = PREFETCH_;
    static_assert(OTHERS::STAGE_BYTES * OTHERS::STAGES_OF_K_BLOCK == 128, "K-blocks are lines");
    template <class T, int COLUMNS> using Stage = ColumnLines<T, COLUMNS>;
};

// 16 bytes, if they are `wanted`; the second-level cache fetches TOGETHER bytes around them.
template <int TOGETHER> __device__ __forceinline__ void copy_line(LdsBytes to, const void *from, bool wanted) {
    if constexpr (TOGETHER == 128) {
        copy_to_lds(to, from, wanted);
    } else {
        static_assert(TOGETHER == 256, "all that it fetches together");
        asm volatile("{\n\t.reg .pred wanted;\n\t"
                     "setp.ne.u32 wanted, %2, 0;\n\t"
                     "@wanted cp.async.cg.shared.global.L2::256B [%0], [%1], 16;\n\t}"
                     :
                     : "r"(lds_address(to)), "l"((const GLOBAL_MEMORY void *)from), "r"((uint32_t)wanted)
                     : "memory");
    }
}

// The vectors of 16 bytes of an operand's K-block that a thread copies: of each of its LINES rows, row(i), VECTORS of
// them, the first of which is vector(), each 64 bytes after another. Their places are in_lds(i, j).
template <class T, int ROWS, class S, class Mapping> struct ThreadsVectors : KBlockBase<T, ROWS, S, true> {
    using Base = KBlockBase<T, ROWS, S, true>;
    static constexpr int LINES = Mapping::LINES, VECTORS = Mapping::VECTORS, APART = 64;

    const T *base;
    Mapping mapping;
    uint32_t offset[LINES];

    __device__ __forceinline__ ThreadsVectors(const T *matrix, int64_t ld, uint32_t start, uint32_t rows,
                                              uint32_t begin, uint32_t end)
        : Base(matrix, ld, start, rows, begin, end), base(this->first + begin) {
#pragma unroll
        for (int i = 0; i < LINES; i++) offset[i] = (row(i) * (uint32_t)ld + mapping.vector() * Base::V) * Base::SIZE;
    }
    __device__ __forceinline__ uint32_t row(int i) const { return min_of(mapping.row(i), this->rows - 1); }

    // Copies the next K-block, if it is `wanted`.
    __device__ __forceinline__ void copy(LdsBytes k_block, bool wanted) {
#pragma unroll
        for (int i = 0; i < LINES; i++) {
            // Lest each has an address of its own that moves, of 64 bits.
            asm volatile("" : "+r"(offset[i]));
#pragma unroll
            for (int j = 0; j < VECTORS; j++)
                copy_line<Mapping::TOGETHER>(k_block + mapping.in_lds(i, j), (const char *)base + offset[i] + j * APART,
                                             wanted);
        }
        base += Base::K_BLOCK;
    }
    // That which begins at k, whatever its place; what lies outside the matrix is 0.
    __device__ __forceinline__ void copy_any(LdsBytes k_block, uint32_t k) const {
        typedef typename bits_of<Base::SIZE>::type Element;
#pragma unroll 1
        for (int i = 0; i < LINES; i++)
#pragma unroll 1
            for (int j = 0; j < VECTORS; j++)
#pragma unroll 1
                for (uint32_t e = 0; e < Base::V; e++) {
                    uint32_t at = k + mapping.vector() * Base::V + j * APART / Base::SIZE + e;
                    Element element = 0;
                    if (at < this->end) element = bit_cast<Element>(load_at<vec<T, 1>>(this->at(row(i), at), 0));
                    lds_store(k_block + mapping.in_lds(i, j) + e * Base::SIZE, element);
                }
    }
};

// Of A a lane has its blocks' rows, as an instruction takes them, and of a row one vector of either half. Rows' next
// lines are fetched with them.
template <class S> struct LanesRows {
    static constexpr int ROWS = S::M / S::WAVES_M, LINES = ROWS / 8, VECTORS = 2, TOGETHER = 256;
    static constexpr int BYTES = LINES * VECTORS * 16 * S::THREADS;
    uint32_t first = uniform(threadIdx.x / S::WAVE) % S::WAVES_M * ROWS + lane_id() / 4;
    __device__ __forceinline__ uint32_t row(int i) const { return first + i * 8; }
    __device__ __forceinline__ uint32_t vector() const { return lane_id() % 4; }
    __device__ __forceinline__ uint32_t in_lds(int i, int j) const {
        return ((i * VECTORS + j) * S::THREADS + threadIdx.x) * 16;
    }
};
// Of B eight threads have a column.
template <class S, class Lines> struct ThreadsColumns {
    static constexpr int LINES = S::N * 8 / S::THREADS, VECTORS = 1, TOGETHER = 128;
    static_assert(LINES * S::THREADS == S::N * 8, "each thread has as many");
    __device__ __forceinline__ uint32_t row(int i) const { return threadIdx.x / 8 + i * (S::THREADS / 8); }
    __device__ __forceinline__ uint32_t vector() const { return threadIdx.x % 8; }
    __device__ __forceinline__ uint32_t in_lds(int i, int) const { return Lines::lds_offset(row(i), vector()); }
};

// The phases of a workgroup's main loop, and what they share: registers of matmul_rows, by reference.
template <class T, class S, template <class, class> class GemmTraits> struct RowsLoop {
    using Wide = Upcast<T>;
    using Vector = typename Wide::Vector;
    using Lines = ColumnLines<T, S::N>;
    using Tile = WaveTile<T, S, LanesRows<S>::BYTES>;
    using Scales = typename GemmTraits<T, S>::template Scales<Tile>;
    using RowsMapping = LanesRows<S>;
    using ColumnsMapping = ThreadsColumns<S, Lines>;
    using Problem = typename GemmTraits<T, S>::Problem;
    using KBlockA = ThreadsVectors<T, S::M, S, RowsMapping>;
    using KBlockB = ThreadsVectors<T, S::N, S, ColumnsMapping>;
    static constexpr int WIDE = Wide::WIDE;
    // LDS: PREFETCH K-blocks of A, one more of B, then the factors of the scheme.
    static constexpr int COLUMNS_AT = S::PREFETCH * RowsMapping::BYTES,
                         SCALES_AT = COLUMNS_AT + (S::PREFETCH + 1) * Lines::BYTES;
    static constexpr int LDS_BYTES = max_of(SCALES_AT + Scales::LDS_BYTES, Tile::LDS_BYTES);
    static_assert(LDS_BYTES <= LDS_MOST, "what a workgroup may have");
    // A's K-block in registers: of a lane's rows one vector of either half, upcast.
    using Rows = Vector[RowsMapping::LINES][2][WIDE];

    LdsBytes &lds, &lds_scales;
    KBlockA &a;
    KBlockB &b;
    Tile &tile;
    Scales &scales;
    const uint32_t &lane;
    // Which of the K-blocks in LDS are this one's, of A's and of B's, and of the factors'.
    uint32_t &at_a, &at_b, &scaled;
    Rows &wide;

    __device__ __forceinline__ LdsBytes rows_at(uint32_t number) const { return lds + number * RowsMapping::BYTES; }
    __device__ __forceinline__ LdsBytes columns_at(uint32_t number) const {
        return lds + COLUMNS_AT + number * Lines::BYTES;
    }
    // Copy: K-blocks of both operands, global -> LDS, if they are `wanted`.
    __device__ __forceinline__ void copy(uint32_t number_a, uint32_t number_b, bool wanted) {
        b.copy(columns_at(number_b), wanted);
        a.copy(rows_at(number_a), wanted);
        end_copies();
    }
    // Upcast: A's K-block, LDS -> registers.
    __device__ __forceinline__ void upcast() {
#pragma unroll
        for (int i = 0; i < RowsMapping::LINES; i++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                Wide::upcast(wide[i][half], lds_load<Vector>(rows_at(at_a) + a.mapping.in_lds(i, half)));
    }
    // Multiply: all of the K-block's k for block j of columns, LDS -> registers -> sums.
    __device__ __forceinline__ void multiply_block(int j) {
        using Atom = MmaAtom<typename Wide::Type>;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            Vector columns[2][WIDE];
#pragma unroll
            for (int eight = 0; eight < 2; eight++) {
                uint32_t column = tile.column + j * 16 + eight * 8 + lane / 4, chunk = half * 4 + lane % 4;
                Wide::upcast(columns[eight], lds_load<Vector>(columns_at(at_b) + Lines::lds_offset(column, chunk)));
            }
#pragma unroll
            for (int w = 0; w < WIDE; w++)
#pragma unroll
                for (int word = 0; word < 4; word += 2) {
                    auto [first, second] = columns;
                    typename Atom::Fragment of_b{
                        {{first[w][word], first[w][word + 1], second[w][word], second[w][word + 1]}}};
#pragma unroll
                    for (int instruction = 0; instruction < Atom::INSTRUCTIONS; instruction++)
#pragma unroll
                        for (int i = 0; i < Tile::BLOCKS_M; i++) {
                            Vector low = wide[2 * i][half][w], high = wide[2 * i + 1][half][w];
                            typename Atom::Fragment of_a{{{low[word], high[word], low[word + 1], high[word + 1]}}};
                            Atom::multiply(tile.sums[i][j], of_a, of_b, instruction);
                        }
                }
        }
    }
    __device__ __forceinline__ void multiply() {
#pragma unroll
        for (int j = 0; j < Tile::BLOCKS_N; j++) {
            multiply_block(j);
            if constexpr (Scales::LDS_BYTES > 0) scales.prepare(tile, lds_scales, scaled, j, j + 1);
            scales.promote(tile, lds_scales, scaled, j, j + 1);
        }
    }

    static __device__ __forceinline__ void run(const Problem &, const TileCoordinates &coords, LdsBytes lds, KBlockA &a,
                                               KBlockB &b, Tile &tile, Scales &scales) {
        LdsBytes lds_scales = lds + SCALES_AT;
        const uint32_t lane = lane_id();
        uint32_t at_a = 0, at_b = 0, scaled = 0;
        Rows wide;
        RowsLoop loop = {lds, lds_scales, a, b, tile, scales, lane, at_a, at_b, scaled, wide};

        uint32_t k_blocks = min_of(a.k_blocks(), b.k_blocks());
        if (k_blocks > 0) {
            scales.load();
#pragma unroll
            for (uint32_t i = 0; i < S::PREFETCH; i++) loop.copy(i, i, i < k_blocks);
            scales.stage(lds_scales, 0);
            uint32_t last = S::PREFETCH;
#pragma unroll 1
            for (uint32_t left = k_blocks; left > 0; left--) {
                wait_for_copies<S::PREFETCH - 1>();
                loop.upcast();
                lds_barrier();
                loop.copy(at_a, last, left > S::PREFETCH);
                if (left > 1) scales.load();
                loop.multiply();
                scaled ^= 1;
                if (left > 1) scales.stage(lds_scales, scaled);
                last = at_b;
                at_a = at_a + 1 == S::PREFETCH ? 0 : at_a + 1, at_b = at_b == S::PREFETCH ? 0 : at_b + 1;
            }
            wait_for_copies<0>();
            lds_barrier();
        }
        // What is left of k, and products that `K-blocks` excludes.
        at_a = at_b = scaled = 0;
#pragma unroll 1
        for (uint32_t k = coords.begin + k_blocks * KBlockA::K_BLOCK; k < coords.end; k += KBlockA::K_BLOCK) {
            a.copy_any(loop.rows_at(0), k);
            b.copy_any(loop.columns_at(0), k);
            scales.stage_any(lds_scales, k);
            lds_barrier();
            loop.upcast();
            loop.multiply();
            lds_barrier();
        }
    }
};

// Grid: x tiles, y splits of k, z batch. Workgroup: S::THREADS.
template <class T, class S, template <class, class> class GemmTraits>
__device__ __forceinline__ void matmul_rows(const typename GemmTraits<T, S>::Problem &problem) {
    using Loop = RowsLoop<T, S, GemmTraits>;
    __shared__ char lds_array[Loop::LDS_BYTES] __attribute__((aligned(128)));
    multiply_tile<Loop, T, S, GemmTraits<T, S>, false>(problem, (LdsBytes)lds_array);
}

// By the shape.
template <class S> struct ByShape {
    template <class T, Op OP_A, Op OP_B, template <class, class> class GemmTraits>
    static __device__ __forceinline__ void run(const typename GemmTraits<T, S>::Problem &problem) {
        matmul_tile<T, S, OP_A, OP_B, GemmTraits>(problem);
    }
};
template <class OTHERS, int PREFETCH> struct ByShape<RowsShape<OTHERS, PREFETCH>> {
    template <class T, Op OP_A, Op OP_B, template <class, class> class GemmTraits>
    static __device__ __forceinline__ void run(const typename GemmTraits<T, OTHERS>::Problem &problem) {
        if constexpr (OP_A == Op::T && OP_B == Op::N) matmul_rows<T, RowsShape<OTHERS, PREFETCH>, GemmTraits>(problem);
        else matmul_tile<T, OTHERS, OP_A, OP_B, GemmTraits>(problem);
    }
};
template <class T, class S, Op OP_A, Op OP_B, template <class, class> class GemmTraits = Plain>
__device__ __forceinline__ void matmul_by_shape(const typename GemmTraits<T, S>::Problem &problem) {
    ByShape<S>::template run<T, OP_A, OP_B, GemmTraits>(problem);
}
