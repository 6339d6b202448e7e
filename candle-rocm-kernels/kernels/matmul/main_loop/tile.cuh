// Products on matrix units: a workgroup computes a tile of C, with operands that go through registers to LDS.
//
//   for each K-block of k, for each of its stages:
//     stage    the K-block's next stage, registers -> LDS     (the buffer that is not being read)
//     load     the next K-block, global -> registers          (once this one's last stage has left)
//     multiply this stage, LDS -> registers -> sums
//   store      sums -> LDS -> global
//
// The K-block that is loaded stays on its way while all stages that follow are multiplied: the compiler, which would
// rather load late and stage early, is held to this order. While a stage's first reads of LDS take their time, after
// the barrier that completes it, other wavefronts of the SIMD compute.
//
// Types: a tile's shape (MatmulShape), an operand's K-block and stage (loads/k_block.cuh), what a wavefront multiplies
// at a time (Operand, MmaAtom), its sums (WaveTile), and what the product is beside those (GEMM traits, such as Plain).
#pragma once
#include "matmul/loads/k_block.cuh"
#include "matmul/main_loop/shape.cuh"
#include "matmul/epilogue/whole_tile.cuh"
#include "portable/streams.cuh"

// A wavefront's BLOCKS blocks of BLOCK rows of an operand, of which this lane reads from a row's chunk on.
template <class T, class Stage, int BLOCKS, int BLOCK> struct Operand {
    using Atom = MmaAtom<T>;
    using Fragment = typename Atom::Fragment;
    using Words = typename Fragment::Words;

    uint32_t at;
    Fragment fragment[BLOCKS];

    Operand() = default;
    __device__ __forceinline__ Operand(uint32_t row, uint32_t chunk) : at(Stage::lds_offset(row, chunk)) {}

    // Reads the fragments of a step, or part `load` of them.
    __device__ __forceinline__ void load(LdsBytes lds_stage, int step, int load) {
#pragma unroll
        for (int i = 0; i < BLOCKS; i++)
#pragma unroll
            for (int c = 0; c < Atom::CHUNKS; c++) {
                int chunk = step * Atom::STEP_CHUNKS + c;
                fragment[i].chunk[c] =
                    Atom::template load<Words>(lds_stage + at + Stage::position(i * BLOCK) * Stage::CHUNK +
                                               chunk * Stage::CHUNK_PITCH + load * (int)sizeof(Words));
            }
    }
};

// Products whose sums are C's, each of the batch by itself. Other GEMM traits have the same members.
template <class T, class S> struct Plain {
    using Problem = MatmulProblem;
    using Epilogue = ::Epilogue<T>;
    // What is done to sums after each K-block, with what it needs in LDS.
    template <class Tile, class Problem = MatmulProblem> struct Scales {
        static constexpr int LDS_BYTES = 0, VECTOR = 0, PREPARE = 0;
        static constexpr bool PREFETCH = false;
        __device__ __forceinline__ Scales(const Problem &, const TileCoordinates &, const Tile &) {}
        __device__ __forceinline__ void load() {}
        __device__ __forceinline__ void stage(LdsBytes, uint32_t) {}
        __device__ __forceinline__ void stage_any(LdsBytes, uint32_t) {}
        __device__ __forceinline__ void prepare(const Tile &, LdsBytes, uint32_t) {}
        __device__ __forceinline__ void begin(Tile &) {}
        __device__ __forceinline__ void promote(Tile &, LdsBytes, uint32_t, int = 0, int = 0) {}
        __device__ __forceinline__ void finish(Tile &) {}
    };
    // The tile of this workgroup; none is past its end.
    static __device__ __forceinline__ bool coordinates_of(const MatmulProblem &p, TileCoordinates &coords) {
        coords = tile_coordinates<S>(p);
        return true;
    }
    // C's matrix z, if nothing but the factor is done to its whole sums; else nothing.
    static __device__ __forceinline__ typename Product<T>::C *bare(const MatmulProblem &p, uint32_t z,
                                                                   typename Product<T>::Sum &factor) {
        factor = Scaling<typename Product<T>::Sum>(p.gemm).alpha;
        return p.is_bare ? (typename Product<T>::C *)p.gemm.c + z * p.gemm.stride_c : nullptr;
    }
};

// A workgroup's tile by a main loop, Loop::run(), from its place in the grid to its end in memory. ANEW as in
// store_tile().
template <class Loop, class T, class S, class Traits, bool ANEW>
__device__ __forceinline__ void multiply_tile(const typename Traits::Problem &problem, LdsBytes lds) {
    const GemmProblem &g = product_of(problem).gemm;
    TileCoordinates coords;
    if (!Traits::coordinates_of(problem, coords)) return;
    auto a = rows_of<typename Loop::KBlockA, T>(g, coords);
    auto b = columns_of<typename Loop::KBlockB, T>(g, coords);
    typename Loop::Tile tile;
    typename Loop::Scales scales(problem, coords, tile);
    Loop::run(problem, coords, lds, a, b, tile, scales);
    scales.finish(tile);
    store_tile<Traits, T, S, ANEW>(tile, problem, lds, coords);
}

// What a workgroup has during its main loop, and the clusters of its schedule.
template <class T, class S, Op OP_A, Op OP_B, template <class, class> class GemmTraits> struct TileLoop {
    using Problem = typename GemmTraits<T, S>::Problem;
    using Atom = MmaAtom<T>;
    using KBlockA = KBlock<T, S::M, S, OP_A == Op::T>;
    using KBlockB = KBlock<T, S::N, S, OP_B == Op::N>;
    using StageA = typename KBlockA::Stage;
    using StageB = typename KBlockB::Stage;
    // LDS: two buffers of a stage of both operands, then the factors of the scheme.
    static constexpr int BUFFER = StageA::BYTES + StageB::BYTES, SCALES_AT = 2 * BUFFER;
    using Tile = WaveTile<T, S, SCALES_AT>;
    using Scales = typename GemmTraits<T, S>::template Scales<Tile>;
    static constexpr int STEPS = StageA::CHUNKS / Atom::STEP_CHUNKS, STEPS_UNROLLED = Atom::UNROLLED ? STEPS : 1;
    static_assert(STEPS > 0, "a stage has whole steps");
    static_assert(!Tile::UNEVEN, "all wavefronts do the same");
    static constexpr int LDS_BYTES = max_of(SCALES_AT + Scales::LDS_BYTES, Tile::LDS_BYTES);
    static_assert(LDS_BYTES <= LDS_MOST, "what a workgroup may have");
    // What the first loads do not need is made when they are on their way; not with factors, whose loops it made
    // thinner.
    static constexpr bool LATE = Scales::LDS_BYTES == 0;

    LdsBytes &lds;
    KBlockA &a;
    KBlockB &b;
    Tile &tile;
    Scales &scales;
    Operand<T, StageA, Tile::BLOCKS_M, Atom::ROWS> &of_a;
    Operand<T, StageB, Tile::BLOCKS_N, Atom::COLUMNS> &of_b;
    // Whole K-blocks, the buffer that is read, and that of the factors.
    uint32_t &k_blocks, &buffer, &scaled;

    __device__ __forceinline__ LdsBytes stage_a(uint32_t buffer) const { return lds + buffer * BUFFER; }
    __device__ __forceinline__ LdsBytes stage_b(uint32_t buffer) const { return stage_a(buffer) + StageA::BYTES; }
    __device__ __forceinline__ LdsBytes lds_scales() const { return lds + SCALES_AT; }

    // Where the lane reads fragments.
    __device__ __forceinline__ void locate(uint32_t lane) {
        of_a = {tile.row + Atom::a_row(lane), Atom::a_chunk(lane)};
        of_b = {tile.column + Atom::b_column(lane), Atom::b_chunk(lane)};
    }
    __device__ __forceinline__ void begin() {
        if (!LATE) return;
        uint32_t lane = lane_id();
        opt_barrier_schedule();
        opt_barrier_value(lane);
        tile.opt_barrier_ordered();
        locate(lane);
    }
    // Load: the next K-block, global -> registers.
    __device__ __forceinline__ void load() {
        scales.load();
        a.load();
        b.load();
    }
    // Stage: a stage of the K-block, registers -> LDS.
    template <PingPong PING_PONG> __device__ __forceinline__ void stage(uint32_t buffer, int lds_stage) {
        a.template stage<PING_PONG>(stage_a(buffer), lds_stage);
        b.template stage<PING_PONG>(stage_b(buffer), lds_stage);
    }
    // Multiply: a stage, LDS -> registers -> sums.
    __device__ __forceinline__ void multiply(uint32_t buffer) {
#pragma unroll STEPS_UNROLLED
        for (int step = 0; step < STEPS; step++)
#pragma unroll
            for (int load = 0; load < Atom::LOADS; load++) {
                of_a.load(stage_a(buffer), step, load);
                of_b.load(stage_b(buffer), step, load);
                tile.multiply(of_a.fragment, of_b.fragment);
                // Reading ahead, the compiler would run out of registers. There are other wavefronts to wait with.
                if (S::WAVE == 32) tile.opt_barrier_ordered();
            }
    }

    // The schedule: what stands between two barriers runs while others multiply. `more` says that a K-block follows.
    // Lest its loads sink below the products, or waits for them rise above those, nothing passes
    // opt_barrier_schedule().
    template <PingPong PING_PONG> __device__ __forceinline__ void start() {
        load();
        begin();
        stage<PING_PONG>(0, 0);
        scales.stage(lds_scales(), 0);
        lds_barrier();
    }
    template <PingPong PING_PONG, class More> __device__ __forceinline__ void multiply_k_block(More more) {
#pragma unroll
        for (int j = 0; j < S::STAGES_OF_K_BLOCK; j++) {
            uint32_t now = S::STAGES_OF_K_BLOCK % 2 == 0 ? j % 2 : buffer, next = now ^ 1;
            if (j + 1 < S::STAGES_OF_K_BLOCK) stage<PING_PONG>(next, j + 1);
            // The K-block's registers are free before its last two stages, or, if it has but one, before that.
            if (j == max_of(S::STAGES_OF_K_BLOCK - 2, 0) && more) {
                load();
                opt_barrier_schedule();
            }
            // Read a stage ahead, the factors are there after the last products, and then the first sums are, too.
            bool is_last = j + 1 == S::STAGES_OF_K_BLOCK;
            if (Scales::PREFETCH && j == S::STAGES_OF_K_BLOCK - 2) scales.prepare(tile, lds_scales(), scaled);
            multiply(now);
            if (Scales::PREFETCH && is_last) opt_barrier_schedule();
            if (!Scales::PREFETCH && is_last) scales.prepare(tile, lds_scales(), scaled);
            if (is_last) scales.promote(tile, lds_scales(), scaled);
            if (j + 1 == S::STAGES_OF_K_BLOCK && more) {
                opt_barrier_schedule();
                stage<PING_PONG>(next, 0);
                scales.stage(lds_scales(), scaled ^ 1);
            }
            lds_barrier();
            buffer ^= 1;
        }
        scaled ^= 1;
    }
    template <PingPong PING_PONG> __device__ __forceinline__ void multiply_k_blocks() {
        start<PING_PONG>();
        uint32_t left = k_blocks;
#pragma unroll 1
        do multiply_k_block<PING_PONG>(Constant<true>());
        while (--left > 1);
        multiply_k_block<PING_PONG>(Constant<false>());
    }

    // What is left from k on, and products that have no whole K-blocks.
    __device__ __forceinline__ void multiply_rest(const TileCoordinates &coords, uint32_t k) {
#pragma unroll 1
        for (; __builtin_expect(k < coords.end, 0); k += KBlockA::DEPTH) {
            a.stage_any(stage_a(0), k);
            b.stage_any(stage_b(0), k);
            scales.stage_any(lds_scales(), k);
            lds_barrier();
            scales.prepare(tile, lds_scales(), 0);
            multiply(0);
            scales.promote(tile, lds_scales(), 0);
            lds_barrier();
        }
    }

    static __device__ __forceinline__ void run(const Problem &, const TileCoordinates &coords, LdsBytes lds, KBlockA &a,
                                               KBlockB &b, Tile &tile, Scales &scales) {
        Operand<T, StageA, Tile::BLOCKS_M, Atom::ROWS> of_a;
        Operand<T, StageB, Tile::BLOCKS_N, Atom::COLUMNS> of_b;
        uint32_t k_blocks = min_of(a.k_blocks(), b.k_blocks()), buffer = 0, scaled = 0;
        TileLoop loop = {lds, a, b, tile, scales, of_a, of_b, k_blocks, buffer, scaled};
        if (!LATE) loop.locate(lane_id());

        // Where two halves have loops of their own, neither has a branch, and what they stage is known when they are
        // compiled. So are the last K-block, after which none is loaded, and a single one, for whose sake a loop's
        // registers would be copied.
        if (__builtin_expect(k_blocks == 0, 0)) {
            loop.begin();
        } else if constexpr (!Atom::UNROLLED) {
            loop.template start<PING_OR_PONG>();
#pragma unroll 1
            for (uint32_t left = k_blocks; left > 0; left--) loop.template multiply_k_block<PING_OR_PONG>(left > 1);
        } else if (__builtin_expect(k_blocks == 1, 0)) {
            loop.template start<PING_OR_PONG>();
            loop.template multiply_k_block<PING_OR_PONG>(Constant<false>());
        } else {
            if constexpr (!KBlockA::IS_PING_PONG && !KBlockB::IS_PING_PONG)
                loop.template multiply_k_blocks<PING_OR_PONG>();
            else if (uniform(threadIdx.x / (S::THREADS / 2)) == 0) loop.template multiply_k_blocks<PING>();
            else loop.template multiply_k_blocks<PONG>();
        }
        loop.multiply_rest(coords, coords.begin + k_blocks * KBlockA::K_BLOCK);
    }
};

// Grid: x tiles, y splits of k, z batch. Workgroup: S::THREADS.
template <class T, class S, Op OP_A, Op OP_B, template <class, class> class GemmTraits = Plain>
__device__ __forceinline__ void matmul_tile(const typename GemmTraits<T, S>::Problem &problem) {
    using Loop = TileLoop<T, S, OP_A, OP_B, GemmTraits>;
    __shared__ char lds_array[Loop::LDS_BYTES] __attribute__((aligned(128)));
    constexpr bool ANEW = lacks_registers((OP_A == Op::N) + (OP_B == Op::T));
    multiply_tile<Loop, T, S, GemmTraits<T, S>, ANEW>(problem, (LdsBytes)lds_array);
}
