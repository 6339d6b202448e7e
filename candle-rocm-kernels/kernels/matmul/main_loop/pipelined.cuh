// Products on matrix units: a workgroup computes a large tile of C, with operands that go through registers to LDS by
// whole lines of memory. LDS has one K-block of lines, in halves of k: while one is multiplied, the other is replaced.
//
//   for each K-block of k:
//     stage    the K-block's second half, registers -> LDS
//     load     the next K-block, global -> registers
//     for each of the K-block's steps:
//       read     the next step's fragments, LDS -> registers
//       multiply this step's, registers -> sums
//     before the last one's products:
//       stage    the next K-block's first half, registers -> LDS
//   store      sums -> LDS -> global
//
// Smaller tiles have two K-blocks on their way: what is loaded is the one after the next.
//
// A barrier stands between what a half's last readers and its writers do, and between those and its first readers. What
// is loaded is on its way for all steps but the last, and neither reads nor writes of LDS are waited for before there
// is something else to multiply.
//
// LDS: lines of 128 bytes of k, A's rows and then B's columns; chunk c of row r is at place c ^ (r ^ r / 8) % 8 of its
// line (of 8-bit elements r / 16), so that eight rows' same chunks are in different banks.
//
//   row 0   0 1 2 3 4 5 6 7        row 8    1 0 3 2 5 4 7 6
//   row 1   1 0 3 2 5 4 7 6        row 9    0 1 2 3 4 5 6 7
//   row 2   2 3 0 1 6 7 4 5        row 10   3 2 1 0 7 6 5 4
//   ...                            ...
//
// Registers: a K-block on its way (PipelinedKBlock::held), two sets of fragments of a step, and the sums; who holds
// which element of these, the unit says (matmul/unit).
//
// Types: a tile's shape (PipelinedShape), a K-block in LDS (CacheLines), an operand on its way there (PipelinedKBlock)
// and from there (PipelinedOperand), and a wavefront's sums (WaveTile).
#pragma once
#include "matmul/main_loop/tile.cuh"

// 16 bytes at a base and an offset that are the same in all lanes, plus a lane's offset; or zeros, without reading, if
// they are not within reach: without a branch, of which the compiler would not know how many loads are on their way
// behind it. clang 18 and older cannot, and have one K-block on its way.
static constexpr uint32_t ALL = ~0u;
#if __has_builtin(__builtin_amdgcn_raw_buffer_load_b128)
static constexpr int MAX_PREFETCH = 2;
template <class V, class T>
__device__ __forceinline__ V load_if(const T *base, uint32_t uniform, uint32_t lane, uint32_t reach) {
    static_assert(sizeof(V) == 16, "a vector");
    // A raw buffer, from whose bounds on nothing is read.
    constexpr int FORMAT = 0x00020000;
    auto memory = __builtin_amdgcn_make_buffer_rsrc((void *)base, 0, (int)reach, FORMAT);
    return bit_cast<V>(__builtin_amdgcn_raw_buffer_load_b128(memory, lane, uniform, 0));
}
#else
static constexpr int MAX_PREFETCH = 1;
template <class V, class T>
__device__ __forceinline__ V load_if(const T *base, uint32_t uniform, uint32_t lane, uint32_t) {
    return load_vector<V>((const T *)((const char *)base + uniform), lane);
}
#endif

// A K-block in LDS: a line of 128 bytes of k for each row, in chunks of 16 bytes that are swizzled by the row's
// number. Readers want the same chunk of eight rows at once, those of CDNA of four and the second four of another eight
// within 32; writers have half of the chunks of two rows of which one has its halves swizzled, or of transposed blocks
// the same chunk of every eighth row.
template <class T, int ROWS> struct CacheLines {
    static constexpr int LINE = 128, CHUNK = 16, OF_VECTOR = 1, CHUNKS = LINE / CHUNK, BYTES = ROWS * LINE;
    // Elements of a vector are together, and blocks' rows shifted by their first bits.
    static constexpr int CHUNK_PITCH = CHUNK, LATE_ROW = 0;
    // What a row's chunks are swizzled by; of rows without common bits, the sum's by both of theirs.
    static __device__ __forceinline__ constexpr uint32_t swizzle(uint32_t row) {
        return (row ^ row / max_of(CHUNKS, VEC16<T>)) % CHUNKS;
    }
    static __device__ __forceinline__ uint32_t lds_offset(uint32_t row, uint32_t chunk) {
        return row * LINE + (chunk ^ swizzle(row)) * CHUNK;
    }
    static __device__ __forceinline__ LdsBytes after(LdsBytes to, int rows) {
        return swizzled_chunk(to, swizzle(rows)) + rows * LINE;
    }
    static __device__ __forceinline__ void store(LdsBytes to, WordVector<4>::type words) { lds_store(to, words); }
};

// A tile of M x N of C, by WAVES_M x WAVES_N wavefronts, with PREFETCH K-blocks on their way at once.
template <int M_, int N_, int WAVES_M_, int WAVES_N_, int PREFETCH_ = 1, SplitK REDUCTION_ = SplitK::SeparateKernel>
struct PipelinedShape {
    static constexpr int M = M_, N = N_, WAVES_M = WAVES_M_, WAVES_N = WAVES_N_, PREFETCH = PREFETCH_;
    // Halves of a K-block.
    static constexpr int STAGE_BYTES = 64, STAGES_OF_K_BLOCK = 2, VECTORS = STAGE_BYTES / 16;
    static constexpr int WAVE = WAVEFRONT, THREADS = WAVES_M * WAVES_N * WAVE, LAUNCH_LDS = 0;
    static constexpr SplitK REDUCTION = REDUCTION_;
    static constexpr bool WHOLE_CACHE_LINES = true;
    // Whether both wavefronts of a SIMD are of one workgroup. Its loops issue less beside matrix instructions and wait
    // for operands at once; where two workgroups share the SIMD that was slower by the clock, up to 1.3 times.
    static constexpr bool IN_STEP = THREADS / WAVE > 4;
    template <class T, int ROWS> using Stage = CacheLines<T, ROWS>;
    // Rows of an operand that have a place in LDS: two of each line's half for all threads. Rows past the tile's end
    // hold undefined data; they are never stored.
    static constexpr int loaded(int rows) { return ceil_div(rows, THREADS / 4) * (THREADS / 4); }
};

// An operand on its way. Its members count what a thread does for half a K-block in its half: writes to LDS, and vector
// instructions for them.
template <class T, int ROWS, class S, bool ALONG_K> struct PipelinedKBlock : KBlock<T, S::loaded(ROWS), S, ALONG_K> {
    using Base = KBlock<T, S::loaded(ROWS), S, ALONG_K>;
    static constexpr int loads(PingPong) { return Base::BLOCKS * Base::LINES; }
    static_assert(Base::BLOCKS == 1 && Base::IS_PING_PONG, "a thread has a block of one half");

    typename Base::Held held[S::PREFETCH];

    __device__ __forceinline__ PipelinedKBlock(const T *matrix, int64_t ld, uint32_t start, uint32_t rows,
                                               uint32_t begin, uint32_t end)
        : Base(matrix, ld, start, min_of(rows, start + ROWS), begin, end) {}
    // Reads the next K-block to a place for it, if it is within reach, and moves on. A line's offset is a lane's, which
    // takes a register, but no addition in each K-block.
    template <PingPong> __device__ __forceinline__ void load(int to, uint32_t reach) {
        constexpr bool OFFSETS = S::IN_STEP;
        uint32_t ld = (uint32_t)this->ld;
        opt_barrier_value(this->offset[0][0]);
#pragma unroll
        for (int l = 0; l < Base::LINES; l++) {
            if (OFFSETS && l > 0) opt_barrier_value(this->offset[0][l]);
            typedef typename Base::Vector Vector;
            uint32_t lane = this->offset[0][OFFSETS ? l : 0], line = OFFSETS ? 0 : l * ld;
            if constexpr (S::PREFETCH == 1) held[to][0][l] = load_vector<Vector>(this->base + line, lane);
            else held[to][0][l] = load_if<Vector>(this->base, line * (uint32_t)sizeof(T), lane, reach);
        }
        advance_by(this->base, Base::K_BLOCK * ld);
    }
    // Writes a half of the K-block in that place to LDS.
    template <PingPong PING_PONG> __device__ __forceinline__ void stage(LdsBytes k_block, int half, int from) {
        Base::template stage<PING_PONG>(k_block, half, held[from]);
    }
    static constexpr int writes(PingPong ping_pong, int half) { return ping_pong == half ? Base::V : 0; }
    // Each permutes four bytes; those of single bytes were halves of a permutation before.
    static constexpr int vector(PingPong ping_pong, int half) {
        return sizeof(T) == 4 ? 0 : writes(ping_pong, half) * Base::SEGMENT_BYTES / 4 * (sizeof(T) == 1 ? 2 : 1);
    }
};

// k is together: eight threads load a row's line. Of two vectors a thread's are in different halves, so that every
// thread has one to write of each.
template <class T, int ROWS, class S>
struct PipelinedKBlock<T, ROWS, S, true> : KBlockBase<T, S::loaded(ROWS), S, true> {
    using Base = KBlockBase<T, S::loaded(ROWS), S, true>;
    using typename Base::Stage;
    static constexpr int STEP = S::THREADS / Stage::CHUNKS, PAIRS = S::loaded(ROWS) / (2 * STEP);
    static constexpr int HALF = Stage::CHUNKS / 2;
    static_assert(STEP % 32 == 0, "a thread's rows differ in high bits");
    static constexpr bool IS_PING_PONG = false;
    // The second half of the threads have the last of the rows, which may be none of the tile's.
    static constexpr bool SPARE = S::loaded(ROWS) - ROWS >= STEP / 2;
    static constexpr bool is_spare(PingPong ping_pong, int i, int j) {
        return SPARE && ping_pong == PONG && i == PAIRS - 1 && j == 1;
    }
    static constexpr int loads(PingPong ping_pong) { return 2 * PAIRS - is_spare(ping_pong, PAIRS - 1, 1); }
    static constexpr int writes(PingPong, int) { return PAIRS; }
    static constexpr int vector(PingPong, int) { return 4 * PAIRS; }
    typedef WordVector<4>::type Vector;

    const T *base;
    uint32_t offset[PAIRS][2];
    Vector held[S::PREFETCH][PAIRS][2];

    static __device__ __forceinline__ uint32_t chunk(int of_pair) {
        return threadIdx.x % Stage::CHUNKS ^ of_pair * HALF;
    }
    // Of pair 0. The second rows differ from the first ones in one of the bits by which lines' halves are swizzled.
    static __device__ __forceinline__ uint32_t row(int of_pair) {
        return (threadIdx.x / Stage::CHUNKS ^ (Stage::swizzle(STEP) & HALF ? 0 : of_pair * HALF)) + of_pair * STEP;
    }

    __device__ __forceinline__ PipelinedKBlock(const T *matrix, int64_t ld, uint32_t start, uint32_t rows,
                                               uint32_t begin, uint32_t end)
        : Base(matrix, ld, start, min_of(rows, start + ROWS), begin, end), base(this->first + begin) {
#pragma unroll
        for (int i = 0; i < PAIRS; i++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                uint32_t at = min_of(row(j) + i * 2 * STEP, this->rows - 1);
                offset[i][j] = (at * (uint32_t)ld + chunk(j) * Base::V) * Base::SIZE;
            }
    }

    template <PingPong PING_PONG> __device__ __forceinline__ void load(int to, uint32_t reach) {
#pragma unroll
        for (int i = 0; i < PAIRS; i++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                if (is_spare(PING_PONG, i, j)) continue;
                opt_barrier_value(offset[i][j]);
                if constexpr (S::PREFETCH == 1) held[to][i][j] = load_vector<Vector>(base, offset[i][j]);
                else held[to][i][j] = load_if<Vector>(base, 0, offset[i][j], reach);
            }
        advance_by(base, Base::K_BLOCK);
    }
    template <PingPong> __device__ __forceinline__ void stage(LdsBytes k_block, int half, int from) const {
        // Which of a pair this thread has of that half.
        bool second = chunk(half) >= HALF;
        uint32_t at = second ? Stage::lds_offset(row(1), chunk(1)) : Stage::lds_offset(row(0), chunk(0));
#pragma unroll
        for (int i = 0; i < PAIRS; i++)
            Stage::store(Stage::after(k_block + at, i * 2 * STEP), second ? held[from][i][1] : held[from][i][0]);
    }
};

// Both operands on their way. Writes to LDS stand before one in SHARE of a step's products; behind one are as many
// loads as TOGETHER at least.
template <class T, class S, bool A_ALONG_K, bool B_ALONG_K,
          bool BY_CHUNKS = S::IN_STEP && sizeof(T) == 2 && !A_ALONG_K && !B_ALONG_K>
struct PipelinedKBlocks {
    using KBlockA = PipelinedKBlock<T, S::M, S, A_ALONG_K>;
    using KBlockB = PipelinedKBlock<T, S::N, S, B_ALONG_K>;
    static constexpr bool IS_PING_PONG = KBlockA::IS_PING_PONG || KBlockB::IS_PING_PONG;
    static constexpr int SHARE = 4, TOGETHER = S::IN_STEP ? 2 : 1;
    static constexpr int loads(PingPong ping_pong) { return KBlockA::loads(ping_pong) + KBlockB::loads(ping_pong); }
    static constexpr int writes(PingPong ping_pong, int half) {
        return KBlockA::writes(ping_pong, half) + KBlockB::writes(ping_pong, half);
    }
    static constexpr int vector(PingPong ping_pong, int half) {
        return KBlockA::vector(ping_pong, half) + KBlockB::vector(ping_pong, half);
    }

    KBlockA a;
    KBlockB b;

    __device__ __forceinline__ PipelinedKBlocks(const KBlockA &a, const KBlockB &b) : a(a), b(b) {}
    // Where the next K-block is, and where one will be that is further on: a loop ends there, without a counter.
    __device__ __forceinline__ const T *at() const { return a.base; }
    __device__ __forceinline__ const T *after(uint32_t k_blocks) const {
        return a.base + (uint64_t)k_blocks * KBlockA::K_BLOCK * (A_ALONG_K ? 1 : (uint32_t)a.ld);
    }
    template <PingPong PING_PONG> __device__ __forceinline__ void load(int to, uint32_t reach) {
        a.template load<PING_PONG>(to, reach);
        b.template load<PING_PONG>(to, reach);
    }
    template <PingPong PING_PONG> __device__ __forceinline__ void stage(LdsBytes k_block_a, LdsBytes k_block_b,
                                                                        int half, int from) {
        a.template stage<PING_PONG>(k_block_a, half, from);
        b.template stage<PING_PONG>(k_block_b, half, from);
    }
};

// Rows of both are together, elements have two bytes. A wavefront has blocks of one of them, of a whole chunk of k:
// half as many writes to LDS, and addresses for them, as for half a chunk of either.
template <class T, class S> struct PipelinedKBlocks<T, S, false, false, true> {
    using KBlockA = PipelinedKBlock<T, S::M, S, false>;
    using KBlockB = PipelinedKBlock<T, S::N, S, false>;
    using Stage = typename KBlockA::Stage;
    static constexpr int V = KBlockA::V, LINES = V, ROWS = S::loaded(S::M), EACH = S::THREADS / 4;
    static constexpr bool IS_PING_PONG = true;
    static constexpr int SHARE = 2, TOGETHER = 2;
    static_assert(S::PREFETCH == 1 && S::loaded(S::N) == ROWS && ROWS / V * S::VECTORS == EACH && EACH % S::WAVE == 0,
                  "a quarter of the wavefronts has half of a K-block");
    static constexpr int loads(PingPong) { return LINES; }
    static constexpr int writes(PingPong ping_pong, int half) { return ping_pong == half ? V : 0; }
    static constexpr int vector(PingPong ping_pong, int half) { return writes(ping_pong, half) * LINES / 2; }
    typedef WordVector<4>::type Vector;

    const T *base;
    uint32_t ld, offset[LINES], at_lds;
    uint32_t selectors[2] = {byte_selector(0, 1, 4, 5), byte_selector(2, 3, 6, 7)};
    Vector held[LINES];

    static __device__ __forceinline__ bool is_of_b() { return uniform(threadIdx.x / EACH % 2) != 0; }
    // Neighbours have rows that lie in different banks, and a line of memory.
    static __device__ __forceinline__ uint32_t row() { return threadIdx.x % (ROWS / V) * V; }
    static __device__ __forceinline__ uint32_t chunk() {
        return threadIdx.x / (S::THREADS / 2) * S::VECTORS + threadIdx.x % EACH / (ROWS / V);
    }

    __device__ __forceinline__ PipelinedKBlocks(const KBlockA &a, const KBlockB &b)
        : base(is_of_b() ? b.base : a.base), ld((uint32_t)(is_of_b() ? b.ld : a.ld)),
          at_lds((is_of_b() ? Stage::BYTES : 0) + Stage::lds_offset(row(), chunk())) {
        uint32_t rows = is_of_b() ? b.rows : a.rows;
#pragma unroll
        for (int l = 0; l < LINES; l++)
            offset[l] = ((chunk() * V + l) * ld + (row() < rows ? row() : 0)) * (uint32_t)sizeof(T);
    }

    __device__ __forceinline__ const T *at() const { return base; }
    __device__ __forceinline__ const T *after(uint32_t k_blocks) const {
        return base + (uint64_t)k_blocks * KBlockA::K_BLOCK * ld;
    }
    template <PingPong> __device__ __forceinline__ void load(int, uint32_t) {
#pragma unroll
        for (int l = 0; l < LINES; l++) {
            opt_barrier_value(offset[l]);
            held[l] = load_vector<Vector>(base, offset[l]);
        }
        advance_by(base, KBlockA::K_BLOCK * ld);
    }
    template <PingPong PING_PONG> __device__ __forceinline__ void stage(LdsBytes k_block_a, LdsBytes, int half, int) {
        if (PING_PONG != half) return;
        // Lest the compiler permute what is staged in one of several places before all of them.
#pragma unroll
        for (uint32_t &selector : selectors) opt_barrier_ordered_uniform(selector);
        LdsBytes to = k_block_a + at_lds;
#pragma unroll
        for (int r = 0; r < V; r++) {
            Vector words;
#pragma unroll
            for (int l = 0; l < LINES; l += 2)
                words[l / 2] = permute_bytes(held[l][r / 2], held[l + 1][r / 2], selectors[r % 2]);
            Stage::store(Stage::after(to, r), words);
        }
    }
};

// BLOCKS blocks of BLOCK rows of an operand from `first` on, as a wavefront reads them.
template <class T, class Stage, int BLOCKS, int BLOCK> struct PipelinedOperand {
    using Atom = MmaAtom<T>;
    using Fragment = typename Atom::Fragment;
    static_assert(Atom::CHUNKS == 1 && Atom::LOADS == 1, "a lane reads a chunk of a row");

    uint32_t at;

    PipelinedOperand() = default;
    __device__ __forceinline__ PipelinedOperand(uint32_t row, uint32_t chunk) : at(Stage::lds_offset(row, chunk)) {}

    // Some of them, those of a step.
    __device__ __forceinline__ void read(Fragment (&to)[BLOCKS], LdsBytes k_block, int step, int first = 0,
                                         int end = BLOCKS) const {
        using Words = typename Fragment::Words;
#pragma unroll
        for (int i = first; i < end; i++) {
            LdsBytes from = Stage::after(swizzled_chunk(k_block + at, step * Atom::STEP_CHUNKS), i * BLOCK);
            to[i].chunk[0] = Atom::template load<Words>(from);
        }
    }
};

// Waits for all reads of LDS, and for all loads if they are needed, at once: the compiler waits for each before what
// needs it, which takes more slots and, so long after they were asked for, gains nothing.
template <class S, bool LOADS> __device__ __forceinline__ void wait_for_operands() {
    if constexpr (!S::IN_STEP) return;
    constexpr int ANY_LOADS = 0xc00f, ANY_EXPORTS = 0x70;
    __builtin_amdgcn_s_waitcnt((LOADS ? 0 : ANY_LOADS) | ANY_EXPORTS);
    // An instruction, without which the compiler would not know of the wait.
    asm volatile("");
    opt_barrier_schedule();
}

// The order of a cluster of `PRODUCTS` matrix instructions, each of which takes the time of seven others: before each
// of the first ROOM ones writes of LDS, with the VECTOR instructions that all of them take; behind each a read of LDS,
// but not where those and loads begin, and its share of MORE vector instructions; and behind those after the writes
// loads, for whose registers these made room, TOGETHER or more.
template <int PRODUCTS, int READS, int WRITES, int VECTOR, int LOADS, int MORE = 0, int ROOM = PRODUCTS,
          int TOGETHER = 1, int AT = 0>
__device__ __forceinline__ void schedule_instruction_groups() {
    constexpr int MFMA = 8, VALU = 2, GLOBAL_LOAD = 0x20, LDS_READ = 0x100, LDS_WRITE = 0x200;
    if constexpr (AT < PRODUCTS) {
        constexpr int QUIET = LOADS > 0 ? 2 : 0;
        constexpr int WRITES_EACH = ceil_div(WRITES, ROOM), WRITING = WRITES > 0 ? ceil_div(WRITES, WRITES_EACH) : 0;
        constexpr int READS_EACH = ceil_div(READS, max_of(PRODUCTS - QUIET, 1)),
                      LOADS_EACH = max_of(TOGETHER, ceil_div(LOADS, max_of(PRODUCTS - WRITING, 1)));
        if constexpr (AT < WRITING) {
            __builtin_amdgcn_sched_group_barrier(VALU, VECTOR * WRITES_EACH / max_of(WRITES, 1), 0);
            __builtin_amdgcn_sched_group_barrier(LDS_WRITE, WRITES_EACH, 0);
        }
        __builtin_amdgcn_sched_group_barrier(MFMA, 1, 0);
        if constexpr (MORE > 0) __builtin_amdgcn_sched_group_barrier(VALU, ceil_div(MORE, PRODUCTS), 0);
        if constexpr (AT >= QUIET && (AT - QUIET) * READS_EACH < READS)
            __builtin_amdgcn_sched_group_barrier(LDS_READ, READS_EACH, 0);
        if constexpr (AT >= WRITING && (AT - WRITING) * LOADS_EACH < LOADS)
            __builtin_amdgcn_sched_group_barrier(GLOBAL_LOAD, LOADS_EACH, 0);
        schedule_instruction_groups<PRODUCTS, READS, WRITES, VECTOR, LOADS, MORE, ROOM, TOGETHER, AT + 1>();
    }
    if constexpr (AT == PRODUCTS) opt_barrier_schedule();
}

// What a workgroup has during its main loop, and the clusters of its schedule, whose instructions
// schedule_instruction_groups() puts in order. Fragments have two sets: a step's are read while those of the step
// before are multiplied.
template <class T, class S, Op OP_A, Op OP_B, template <class, class> class GemmTraits> struct PipelinedLoop {
    using Problem = typename GemmTraits<T, S>::Problem;
    using Atom = MmaAtom<T>;
    using KBlocks = PipelinedKBlocks<T, S, OP_A == Op::T, OP_B == Op::N>;
    using KBlockA = typename KBlocks::KBlockA;
    using KBlockB = typename KBlocks::KBlockB;
    using StageA = typename KBlockA::Stage;
    using StageB = typename KBlockB::Stage;
    using Tile = WaveTile<T, S, StageA::BYTES + StageB::BYTES>;
    using Scales = typename GemmTraits<T, S>::template Scales<Tile>;
    static constexpr int STEPS = StageA::CHUNKS / Atom::STEP_CHUNKS, FIRST_BLOCKS = Tile::BLOCKS_N / 2;
    static_assert(STEPS % 2 == 0, "K-blocks begin with the first of two sets of fragments");
    static_assert(Tile::LDS_BYTES <= LDS_MOST, "what a workgroup may have");
    static_assert(Scales::LDS_BYTES == 0, "the lines fill it");
    // What the first product needs comes last: one wait is for all then, which is later. By the clock that is faster,
    // but where a wavefront has fewer rows and no operand is transposed.
    static constexpr bool IS_TRANSPOSED = OP_A != Op::T || OP_B != Op::N;
    static constexpr int LATE = S::IN_STEP && (IS_TRANSPOSED || !Tile::UNEVEN) ? 1 : 0;
    // Where both operands' halves differ, the code would be so long that the compiler inlined no functions any more.
    static constexpr bool HAS_ODD = !KBlockA::IS_PING_PONG || !KBlockB::IS_PING_PONG;

    LdsBytes &k_block_a, &k_block_b;
    KBlocks &on_way;
    Tile &tile;
    Scales &scales;
    PipelinedOperand<T, StageA, Tile::BLOCKS_M, Atom::ROWS> &of_a;
    PipelinedOperand<T, StageB, Tile::BLOCKS_N, Atom::COLUMNS> &of_b;
    typename Atom::Fragment (&fragments_a)[2][Tile::BLOCKS_M], (&fragments_b)[2][Tile::BLOCKS_N];

    // What the first loads do not need is made when they are on their way.
    __device__ __forceinline__ void begin() {
        uint32_t lane = lane_id();
        opt_barrier_schedule();
        opt_barrier_value(lane);
        of_a = {tile.row + Atom::a_row(lane), Atom::a_chunk(lane)};
        of_b = {tile.column + Atom::b_column(lane), Atom::b_chunk(lane)};
        tile.opt_barrier_ordered();
    }
    // Load: the next K-block, global -> registers.
    template <PingPong PING_PONG> __device__ __forceinline__ void load(int to = 0, uint32_t reach = ALL) {
        scales.load();
        on_way.template load<PING_PONG>(to, reach);
    }
    // Stage: a half of a K-block, registers -> LDS.
    template <PingPong PING_PONG> __device__ __forceinline__ void stage(int half, int from = 0) {
        on_way.template stage<PING_PONG>(k_block_a, k_block_b, half, from);
    }
    // Read: a step's fragments, LDS -> registers.
    __device__ __forceinline__ void read(int step, int rows) {
        if (LATE) of_b.read(fragments_b[step % 2], k_block_b, step, LATE);
        of_a.read(fragments_a[step % 2], k_block_a, step, 0, rows);
        of_b.read(fragments_b[step % 2], k_block_b, step, 0, LATE ? LATE : Tile::BLOCKS_N);
    }
    // Multiply: a step's fragments, those of blocks of columns from `first` on.
    __device__ __forceinline__ void multiply(int step, int rows, int first = 0, int end = Tile::BLOCKS_N) {
        tile.multiply(fragments_a[step % 2], fragments_b[step % 2], first, end, rows);
    }
    // As lds_barrier(), but that what was waited for before it is not waited for once more.
    static __device__ __forceinline__ void barrier() {
        LDS_FENCE(__ATOMIC_RELEASE, "workgroup");
        __builtin_amdgcn_s_barrier();
        asm volatile("" ::: "memory");
        opt_barrier_schedule();
    }

    // The K-block in place `now`, behind which that in `next` is on its way, and another will be, if there are MORE and
    // it is within reach.
    template <PingPong PING_PONG, bool MORE>
    __device__ __forceinline__ void multiply_k_block(int now = 0, int next = 0, uint32_t reach = ALL) {
        constexpr int ROWS = Tile::blocks_of(PING_PONG == PONG), READS = ROWS + Tile::BLOCKS_N;
        constexpr int PRODUCTS = ROWS * Tile::BLOCKS_N * Atom::INSTRUCTIONS,
                      FIRST = ROWS * FIRST_BLOCKS * Atom::INSTRUCTIONS;
        constexpr int LOADS = MORE ? KBlocks::loads(PING_PONG) : 0;
        // The fewer rows, the shorter is the loop: its writes and loads are closer together, lest loads be waited for.
        constexpr bool SHORT = ROWS < Tile::BLOCKS_M;
        constexpr int ROOM = LOADS == 0 ? PRODUCTS : SHORT ? 2 : max_of(PRODUCTS / KBlocks::SHARE, 4);
        constexpr int WRITES[2] = {KBlocks::writes(PING_PONG, 0), KBlocks::writes(PING_PONG, 1)};
        constexpr int VECTOR[2] = {KBlocks::vector(PING_PONG, 0), KBlocks::vector(PING_PONG, 1)};
        // The rest of the last K-block's.
        scales.promote(tile, k_block_a, 0, FIRST_BLOCKS);
        scales.prepare(tile, k_block_a, 0);
        scales.begin(tile);
        if (WRITES[0] == 0) wait_for_operands<S, true>();
        stage<PING_PONG>(1, now);
        if (MORE) load<PING_PONG>(now, reach);
        read(1, ROWS);
        multiply(0, ROWS);
        schedule_instruction_groups<PRODUCTS, READS, WRITES[1], VECTOR[1], LOADS,
                                    Scales::VECTOR *(Tile::BLOCKS_N - FIRST_BLOCKS) + Scales::PREPARE, ROOM,
                                    SHORT ? 4 : KBlocks::TOGETHER>();
#pragma unroll
        for (int step = 1; step < STEPS - 1; step++) {
            // A half's last step was read: it may be replaced. The other half was written.
            if (step == STEPS / 2 - 1) barrier();
            else wait_for_operands<S, false>();
            read(step + 1, ROWS);
            multiply(step, ROWS);
            schedule_instruction_groups<PRODUCTS, READS, 0, 0, 0>();
        }
        wait_for_operands<S, (MORE && WRITES[0] > 0)>();
        if (MORE) stage<PING_PONG>(0, next);
        multiply(STEPS - 1, ROWS, 0, FIRST_BLOCKS);
        schedule_instruction_groups<FIRST, 0, MORE ? WRITES[0] : 0, VECTOR[0], 0>();
        barrier();
        if (MORE) read(0, ROWS);
        multiply(STEPS - 1, ROWS, FIRST_BLOCKS);
        scales.promote(tile, k_block_a, 0, 0, FIRST_BLOCKS);
        schedule_instruction_groups<PRODUCTS - FIRST, MORE ? READS : 0, 0, 0, 0, Scales::VECTOR * FIRST_BLOCKS>();
    }

    // The main loop of wavefronts whose turn it is.
    template <PingPong PING_PONG> __device__ __forceinline__ void multiply_k_blocks(uint32_t k_blocks) {
        load<PING_PONG>();
        if constexpr (S::PREFETCH == 2) load<PING_PONG>(1);
        begin();
        if (KBlocks::writes(PING_PONG, 0) > 0) wait_for_operands<S, true>();
        stage<PING_PONG>(0);
        barrier();
        read(0, Tile::blocks_of(PING_PONG == PONG));
        opt_barrier_schedule();
        if constexpr (S::PREFETCH == 2) {
            // Two at a time, and one end alone: of others the compiler would not know what they wait for.
            uint32_t left = k_blocks, all = ALL;
            // In a scalar register.
            opt_barrier_uniform(all);
#pragma unroll 1
            do {
                multiply_k_block<PING_PONG, true>(0, 1, left > 2 ? all : 0);
                multiply_k_block<PING_PONG, true>(1, 0, left > 3 ? all : 0);
                left -= 2;
            } while (left > 1);
            if (HAS_ODD && left == 1) multiply_k_block<PING_PONG, false>();
        } else {
            const T *end = on_way.after(k_blocks - 1);
#pragma unroll 1
            do multiply_k_block<PING_PONG, true>();
            while (on_way.at() != end);
            multiply_k_block<PING_PONG, false>();
        }
        scales.promote(tile, k_block_a, 0, FIRST_BLOCKS);
    }

    // What is left from k on, and products that have no whole K-blocks.
    __device__ __forceinline__ void multiply_rest(const Problem &problem, const TileCoordinates &coords, uint32_t k) {
        // What the loop did not need in registers.
        const GemmProblem &to = product_of((const Problem &)cold_path(problem)).gemm;
        auto rest_a = rows_of<KBlockA, T>(to, coords);
        auto rest_b = columns_of<KBlockB, T>(to, coords);
#pragma unroll 1
        for (; k < coords.end; k += KBlockA::DEPTH) {
            rest_a.stage_any(k_block_a, k);
            rest_b.stage_any(k_block_b, k);
            scales.stage_any(k_block_a, k);
            barrier();
            scales.begin(tile);
#pragma unroll
            for (int step = 0; step < STEPS / 2; step++) {
                read(step, Tile::BLOCKS_M);
                multiply(step, Tile::BLOCKS_M);
            }
            scales.prepare(tile, k_block_a, 0);
            scales.promote(tile, k_block_a, 0);
            barrier();
        }
    }

    static __device__ __forceinline__ void run(const Problem &problem, const TileCoordinates &coords,
                                               LdsBytes k_block_a, KBlockA &a, KBlockB &b, Tile &tile, Scales &scales) {
        LdsBytes k_block_b = k_block_a + StageA::BYTES;
        KBlocks on_way(a, b);
        PipelinedOperand<T, StageA, Tile::BLOCKS_M, Atom::ROWS> of_a;
        PipelinedOperand<T, StageB, Tile::BLOCKS_N, Atom::COLUMNS> of_b;
        typename Atom::Fragment fragments_a[2][Tile::BLOCKS_M], fragments_b[2][Tile::BLOCKS_N];
        PipelinedLoop loop = {k_block_a, k_block_b, on_way, tile, scales, of_a, of_b, fragments_a, fragments_b};

        // A single one is no K-block: for its sake, a loop's registers would be copied.
        uint32_t k_blocks = min_of(a.k_blocks(), b.k_blocks());
        if (S::PREFETCH == 2 && !HAS_ODD) k_blocks &= ~1u;
        if (__builtin_expect(k_blocks < 2, 0)) {
            k_blocks = 0;
            loop.begin();
        } else {
            if constexpr (!KBlocks::IS_PING_PONG && !Tile::UNEVEN)
                loop.template multiply_k_blocks<PING_OR_PONG>(k_blocks);
            else if (uniform(threadIdx.x / (S::THREADS / 2)) == 0) loop.template multiply_k_blocks<PING>(k_blocks);
            else loop.template multiply_k_blocks<PONG>(k_blocks);
        }
        uint32_t k = coords.begin + k_blocks * KBlockA::K_BLOCK;
        if (__builtin_expect(k < coords.end, 0)) loop.multiply_rest(problem, coords, k);
    }
};

// Grid: x tiles, y splits of k, z batch. Workgroup: S::THREADS.
template <class T, class S, Op OP_A, Op OP_B, template <class, class> class GemmTraits = Plain>
__device__ __forceinline__ void matmul_pipelined(const typename GemmTraits<T, S>::Problem &problem) {
    using Loop = PipelinedLoop<T, S, OP_A, OP_B, GemmTraits>;
    __shared__ char lds[Loop::Tile::LDS_BYTES] __attribute__((aligned(128)));
    constexpr bool ANEW = lacks_registers((OP_A == Op::N) + (OP_B == Op::T));
    multiply_tile<Loop, T, S, GemmTraits<T, S>, ANEW>(problem, (LdsBytes)lds);
}

// By the shape.
template <class T, class S, Op OP_A, Op OP_B, template <class, class> class GemmTraits = Plain>
__device__ __forceinline__ void matmul_by_shape(const typename GemmTraits<T, S>::Problem &problem) {
    if constexpr (S::WHOLE_CACHE_LINES) matmul_pipelined<T, S, OP_A, OP_B, GemmTraits>(problem);
    else matmul_tile<T, S, OP_A, OP_B, GemmTraits>(problem);
}
