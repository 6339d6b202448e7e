// Products on matrix units: a workgroup computes a tile of C, with operands that are copied straight to LDS.
//
//   for each stage of k:
//     copy     a stage some way ahead, global -> LDS        (in place of the one before this)
//     wait     for the next stage, of which the last step reads already
//     for each of its steps:
//       read     the next step's fragments, LDS -> registers
//       multiply this step's, registers -> sums
//   store      sums -> LDS -> global
//
// Types: a tile's shape (DirectShape), stages in LDS (SwizzledLines), an operand on its way there (DirectKBlock) and
// from there (DirectOperand), and a wavefront's sums (WaveTile).
#pragma once
#include "matmul/main_loop/tile.cuh"

// A tile of M x N of C, by WAVES_M x WAVES_N wavefronts. LDS has STAGES stages of STAGE_BYTES of k.
template <int M_, int N_, int WAVES_M_, int WAVES_N_, int STAGES_, int STAGE_BYTES_ = 128,
          SplitK REDUCTION_ = SplitK::SeparateKernel>
struct DirectShape {
    static constexpr int M = M_, N = N_, WAVES_M = WAVES_M_, WAVES_N = WAVES_N_, STAGES = STAGES_;
    static constexpr int STAGE_BYTES = STAGE_BYTES_, STAGES_OF_K_BLOCK = 1, VECTORS = STAGE_BYTES / 16;
    static constexpr int WAVE = WAVEFRONT, THREADS = WAVES_M * WAVES_N * WAVE;
    // What a launch asks for.
    static constexpr int LAUNCH_LDS = STAGES * (M + N) * STAGE_BYTES;
    static constexpr SplitK REDUCTION = REDUCTION_;
    template <class T, int ROWS> using Stage = ::Stage<T, ROWS, VECTORS>;
};

// A stage as copies leave it: lines of memory, of CHUNKS chunks of 16 bytes each. A line's chunks are swizzled by the
// line's number, so that the same chunk of eight lines, which readers want at once, is in all banks.
template <int LINES_, int LINE_BYTES> struct SwizzledLines {
    static constexpr int LINES = LINES_, CHUNKS = LINE_BYTES / 16, BYTES = LINES * LINE_BYTES;
    static_assert((CHUNKS & (CHUNKS - 1)) == 0 && CHUNKS >= 4 && BYTES % 1024 == 0, "places differ by powers of two");
    // The place of a chunk among its line's, and the chunk in such a place.
    static __device__ __forceinline__ uint32_t swizzled(uint32_t line, uint32_t chunk) {
        return chunk ^ (CHUNKS >= 8 ? line % 8 : line / 2 % 4);
    }
    static __device__ __forceinline__ uint32_t lds_offset(uint32_t line, uint32_t chunk) {
        return line * LINE_BYTES + swizzled(line, chunk) * 16;
    }
};

// The vectors of a stage that a thread copies: COUNT, each STEP lines after the one before, all of the same chunk of
// their lines.
template <class LINES, class S> struct DirectVectors {
    using Lines = LINES;
    static constexpr int COUNT = Lines::BYTES / 16 / S::THREADS, STEP = S::THREADS / Lines::CHUNKS;
    static_assert(COUNT * STEP == Lines::LINES && STEP % 8 == 0, "a thread's vectors are all swizzled alike");
    static __device__ __forceinline__ uint32_t line(int i) { return threadIdx.x / Lines::CHUNKS + i * STEP; }
    static __device__ __forceinline__ uint32_t chunk() { return Lines::swizzled(line(0), threadIdx.x % Lines::CHUNKS); }
    static __device__ __forceinline__ uint32_t lds_offset(int i) { return (threadIdx.x + i * S::THREADS) * 16; }
};

// An operand on its way: lines are rows (ALONG_K) or elements of k.
template <class T, int ROWS, class S, bool ALONG_K> struct DirectKBlock : KBlockBase<T, ROWS, S, ALONG_K> {
    using Base = KBlockBase<T, ROWS, S, ALONG_K>;
    static constexpr int V = Base::V, SIZE = Base::SIZE, DEPTH = Base::DEPTH;
    using Lines = SwizzledLines<ALONG_K ? ROWS : DEPTH, (ALONG_K ? DEPTH : ROWS) * SIZE>;
    using Mine = DirectVectors<Lines, S>;
    static constexpr int VECTORS = Mine::COUNT;

    const T *base;
    uint32_t offset[VECTORS];

    static __device__ __forceinline__ uint32_t line(int i) { return Mine::line(i); }
    // The vectors' first element in their lines.
    static __device__ __forceinline__ uint32_t along() { return Mine::chunk() * V; }
    static __device__ __forceinline__ uint32_t lds_offset(int i) { return Mine::lds_offset(i); }

    __device__ __forceinline__ DirectKBlock(const T *matrix, int64_t ld, uint32_t start, uint32_t rows, uint32_t begin,
                                            uint32_t end)
        : Base(matrix, ld, start, rows, begin, end), base(this->at(0, begin)) {
#pragma unroll
        for (int i = 0; i < VECTORS; i++) {
            // Rows outside the matrix are replaced by others.
            uint32_t row = ALONG_K ? min_of(line(i), this->rows - 1) : along() < this->rows ? along() : 0;
            offset[i] = (ALONG_K ? row * (uint32_t)ld + along() : line(i) * (uint32_t)ld + row) * SIZE;
        }
    }

    // Asks for share `share` of `shares` of the next stage, if there is one.
    __device__ __forceinline__ void copy(LdsBytes lds_stage, bool is_one, int share = 0, int shares = 1) {
#pragma unroll
        for (int i = 0; i < VECTORS; i++)
            if (i >= share * VECTORS / shares && i < (share + 1) * VECTORS / shares)
                copy_to_lds(lds_stage + lds_offset(i), (const char *)base + offset[i], is_one);
        if (share + 1 == shares) base += ALONG_K ? DEPTH : DEPTH * this->ld;
    }

    // Writes the stage that begins at k, whatever its place; what lies outside of the matrix is 0 there.
    __device__ __forceinline__ void stage_any(LdsBytes lds_stage, uint32_t k) const {
        typedef typename bits_of<SIZE>::type Element;
        uint32_t lines = ALONG_K ? this->rows : this->end - k, elements = ALONG_K ? this->end - k : this->rows;
        uint32_t first = along();
#pragma unroll 1
        for (int i = 0; i < VECTORS; i++) {
            uint32_t count = line(i) < lines && first < elements ? min_of(elements - first, (uint32_t)V) : 0;
            const T *from = ALONG_K ? this->at(line(i), k + first) : this->at(first, k + line(i));
            vec<Element, V> values;
            if (count == V && this->has_vectors) {
                values = load_vector<vec<Element, V>>(from);
            } else {
#pragma unroll
                for (int j = 0; j < V; j++)
                    values[j] = (uint32_t)j < count ? ((const GLOBAL_MEMORY Element *)from)[j] : 0;
            }
            lds_store(lds_stage + lds_offset(i), bit_cast<WordVector<4>::type>(values));
        }
    }
};

// BLOCKS blocks of an operand's rows from `first` on, as a wavefront reads them.
template <class T, class Lines, int BLOCKS, bool ALONG_K> struct DirectOperand {
    using Atom = MmaAtom<T>;
    using Fragment = typename Atom::Fragment;
    static constexpr int ROWS = Atom::ROWS, DEPTH = Atom::STEP_CHUNKS * VEC16<T>;
    static_assert(Atom::ROWS == Atom::COLUMNS && (BLOCKS & (BLOCKS - 1)) == 0, "blocks differ in bits of their own");
    static_assert(ALONG_K || sizeof(T) == 2, "what units transpose");

    uint32_t at;

    // A lane's row of a block, and its chunk.
    __device__ __forceinline__ DirectOperand(uint32_t first, uint32_t row, uint32_t chunk) {
        if constexpr (ALONG_K) at = Lines::lds_offset(first + row, chunk);
        else at = Lines::lds_offset(chunk * VEC16<T> + row % 8, first / VEC16<T> + row / 8);
    }

    __device__ __forceinline__ void read(Fragment (&to)[BLOCKS], LdsBytes lds_stage, int step) const {
        using Words = typename Fragment::Words;
#pragma unroll
        for (int i = 0; i < BLOCKS; i++) {
            if constexpr (ALONG_K) {
                LdsBytes from = swizzled_chunk(lds_stage + at, step * Atom::STEP_CHUNKS);
                to[i].chunk[0] = Atom::template load<Words>(from + i * ROWS * Lines::CHUNKS * 16);
            } else {
                LdsBytes from = swizzled_chunk(lds_stage + at, i * (ROWS / VEC16<T>));
                to[i].chunk[0] = Atom::template load_transposed<Words>(from + step * DEPTH * Lines::CHUNKS * 16);
            }
        }
    }
};

// The phases of a workgroup's main loop, and what they share: registers of the kernel, by reference. Fragments have two
// sets: a step's are read while those of the step before are multiplied.
template <class T, class S, class LinesA, class LinesB, bool A_ALONG_K, bool B_ALONG_K> struct DirectStages {
    using Atom = MmaAtom<T>;
    // LDS: S::STAGES stages of k, each of A and then of B.
    static constexpr int OF_A = LinesA::BYTES, LDS_STAGE_BYTES = OF_A + LinesB::BYTES,
                         LDS_BYTES = S::STAGES * LDS_STAGE_BYTES;
    using Tile = WaveTile<T, S, LDS_BYTES>;
    static_assert(Tile::LDS_BYTES == LDS_BYTES && S::STAGES > 2, "results fit where operands were");
    static constexpr int STEPS = S::STAGE_BYTES / 16 / Atom::STEP_CHUNKS;
    static_assert(STEPS % 2 == 0, "stages begin with the first of two sets of fragments");
    using OperandA = DirectOperand<T, LinesA, Tile::BLOCKS_M, A_ALONG_K>;
    using OperandB = DirectOperand<T, LinesB, Tile::BLOCKS_N, B_ALONG_K>;
    using FragmentsA = typename Atom::Fragment[2][Tile::BLOCKS_M];
    using FragmentsB = typename Atom::Fragment[2][Tile::BLOCKS_N];

    Tile &tile;
    OperandA &of_a;
    OperandB &of_b;
    FragmentsA &fragments_a;
    FragmentsB &fragments_b;

    // Read: a step's fragments, LDS -> registers.
    __device__ __forceinline__ void read(LdsBytes lds_stage, int step) {
        of_a.read(fragments_a[step % 2], lds_stage, step);
        of_b.read(fragments_b[step % 2], lds_stage + OF_A, step);
    }
    // Multiply: a step's fragments, registers -> sums.
    __device__ __forceinline__ void multiply(int step) { tile.multiply(fragments_a[step % 2], fragments_b[step % 2]); }

    // Multiplies so many stages, at least one. copy(lds_stage, is_one, share, shares) asks for share `share` of the
    // next stage, global -> LDS, if there is one.
    template <class Copy> __device__ __forceinline__ void multiply_stages(LdsBytes lds, uint32_t stages, Copy copy) {
        // All stages but one are on their way before the first is multiplied.
#pragma unroll
        for (int stage = 0; stage < S::STAGES - 1; stage++) {
            copy(lds + stage * LDS_STAGE_BYTES, (uint32_t)stage < stages, 0, 1);
            end_copies();
        }
        wait_for_copies<S::STAGES - 2>();
        lds_barrier();
        read(lds, 0);
        // Where the stage lies that is multiplied, the next one, and the one before.
        uint32_t now = 0, before = LDS_BYTES - LDS_STAGE_BYTES;
#pragma unroll 1
        for (uint32_t left = stages; left > 0; left--) {
            uint32_t next = now + LDS_STAGE_BYTES == LDS_BYTES ? 0 : now + LDS_STAGE_BYTES;
#pragma unroll
            for (int step = 0; step < STEPS; step++) {
                if (step + 1 < STEPS) {
                    read(lds + now, step + 1);
                    copy(lds + before, left >= S::STAGES, step, STEPS - 1);
                } else {
                    end_copies();
                    wait_for_copies<S::STAGES - 2>();
                    lds_barrier();
                    read(lds + next, 0);
                }
                multiply(step);
            }
            before = now;
            now = next;
        }
        lds_barrier();
    }
};

// A product's tile by these.
template <class T, class S, Op OP_A, Op OP_B> struct DirectLoop {
    using Atom = MmaAtom<T>;
    using KBlockA = DirectKBlock<T, S::M, S, OP_A == Op::T>;
    using KBlockB = DirectKBlock<T, S::N, S, OP_B == Op::N>;
    using Stages = DirectStages<T, S, typename KBlockA::Lines, typename KBlockB::Lines, OP_A == Op::T, OP_B == Op::N>;
    using Tile = typename Stages::Tile;
    using Scales = typename Plain<T, S>::template Scales<Tile>;
    static constexpr int DEPTH = KBlockA::DEPTH;

    KBlockA &a;
    KBlockB &b;
    Stages &stages;

    // What is left from k on, and products that have no whole stages.
    __device__ __forceinline__ void multiply_rest(LdsBytes lds, uint32_t k, uint32_t end) {
#pragma unroll 1
        for (; k < end; k += DEPTH) {
            a.stage_any(lds, k);
            b.stage_any(lds + Stages::OF_A, k);
            lds_barrier();
#pragma unroll 1
            for (int step = 0; step < Stages::STEPS; step++) {
                stages.of_a.read(stages.fragments_a[0], lds, step);
                stages.of_b.read(stages.fragments_b[0], lds + Stages::OF_A, step);
                stages.multiply(0);
            }
            lds_barrier();
        }
    }

    static __device__ __forceinline__ void run(const MatmulProblem &, const TileCoordinates &coords, LdsBytes lds,
                                               KBlockA &a, KBlockB &b, Tile &tile, Scales &) {
        typename Stages::OperandA of_a(tile.row, Atom::a_row(lane_id()), Atom::a_chunk(lane_id()));
        typename Stages::OperandB of_b(tile.column, Atom::b_column(lane_id()), Atom::b_chunk(lane_id()));
        typename Stages::FragmentsA fragments_a;
        typename Stages::FragmentsB fragments_b;
        Stages stages = {tile, of_a, of_b, fragments_a, fragments_b};
        uint32_t count = min_of(a.k_blocks(), b.k_blocks());
        if (count > 0)
            stages.multiply_stages(lds, count, [&](LdsBytes lds_stage, bool is_one, int share, int shares) INLINED {
                a.copy(lds_stage, is_one, share, shares);
                b.copy(lds_stage + Stages::OF_A, is_one, share, shares);
            });
        DirectLoop loop = {a, b, stages};
        loop.multiply_rest(lds, coords.begin + count * DEPTH, coords.end);
    }
};

// Grid: x tiles, y splits of k, z batch. Workgroup: S::THREADS, with LDS for S::STAGES stages of both operands.
template <class T, class S, Op OP_A, Op OP_B> __device__ __forceinline__ void matmul_direct(const MatmulProblem &p) {
    multiply_tile<DirectLoop<T, S, OP_A, OP_B>, T, S, Plain<T, S>, false>(p, (LdsBytes)dynamic_lds);
}
