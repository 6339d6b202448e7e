// Skinny products, as in decoding, where reading A is the work: each 16 bytes of A are loaded once, by lanes
// that read whole lines together, straight into the operands of a SkinnyAtom, and so is B, which stays in the caches.
//
//   a workgroup has threads() / LANES warps; 2^log2_slice_k of them share ROWS rows of C and divide k
//   for each round of k, a step for each of these warps:
//     load      STEP elements of k of ROWS rows of A, at least eight vectors in a lane, and of all columns of B
//     multiply
//   then the warps' sums meet in LDS, and are added in the warps' order
//   of several splits of k the last one's workgroup waits for the others' sums, and adds up all of them, in their order
//
// With ROWS_TOGETHER, where op(A) = N, a lane loads a block of VEC16 lines of VEC16 rows and transposes it in its
// registers, or the warp lines, which are transposed in LDS (skinny/transposed.cuh). What cannot be read by sixteens
// (the last elements of k, B whose k is not together, addresses that NVIDIA's loads do not take) is read with more care
// and less haste.
//
// An Input may change B on its way into the operands (skinny/normed.cuh), or scale the sums of each 128 of k
// (skinny/grouped.cuh, skinny/weights.cuh). A's elements may be smaller than B's, which then has as many vectors more
// (skinny/weights.cuh). Where rows are GATED the first half of op(A)'s
// are gates of the second half: C has half as many, a warp takes as many gates as rows that they are for, and what
// is stored is activation(gate) * row.
//
// Addresses in the loop are a uniform base, advanced by the scalar unit, plus 32-bit offsets that stay the same: the
// loop then holds loads and multiply-adds, and next to nothing else. The host checks that the offsets fit
// (gemm/candidates.rs).
#pragma once
#include "matmul/split_k/workspace.cuh"
#include "matmul/skinny/transposed.cuh"
#include "matmul/epilogue/element.cuh"

// How B lies, and whether C is taken the other way round.
enum Layout : uint32_t { B_ALONG_K = 1, TRANSPOSED = 2 };

// Moves a uniform address on, and keeps the lane's offsets what they are. The compiler is prevented
// from combining the two: it would make a 64-bit address of each load of the loop, to be added to at
// each step, where the hardware adds a scalar base and a 32-bit offset by itself.
template <class T> __device__ __forceinline__ void advance(const T *&base, int64_t elements) {
    base += elements;
    opt_barrier_uniform(base);
}
template <int N> __device__ __forceinline__ void opt_barrier_values(uint32_t (&offsets)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) opt_barrier_value(offsets[i]);
}

// A vector at a base and an offset of bytes. On NVIDIA's GPUs its address is a multiple of 16; A passes by the first
// cache, which has room for B then.
#if defined(__HIP__)
constexpr bool ANY_ADDRESS = true;
template <class T> __device__ __forceinline__ Words4 load_streamed(const T *base, uint32_t offset, int elements) {
    return load_at<Words4>(base, offset, elements);
}
template <class T> __device__ __forceinline__ Words4 load_cached(const T *base, uint32_t offset, int elements) {
    return load_at<Words4>(base, offset, elements);
}
#else
constexpr bool ANY_ADDRESS = false;
template <class T> __device__ __forceinline__ Words4 load_streamed(const T *base, uint32_t offset, int elements) {
    return read_streamed<Words4>((const char *)(base + elements) + offset);
}
template <class T> __device__ __forceinline__ Words4 load_cached(const T *base, uint32_t offset, int elements) {
    return read_global<Words4>((const char *)(base + elements) + offset);
}
#endif

// VEC16 lines of as many elements as rows of as many.
template <class T> __device__ __forceinline__ void transpose(Words4 *block) {
    constexpr int V = VEC16<T>, WORDS = 4 / V;
    Words4 lines[V];
#pragma unroll
    for (int l = 0; l < V; l++) lines[l] = block[l];
#pragma unroll
    for (int r = 0; r < V; r++) {
        if constexpr (sizeof(T) == 2) {
            // Pairs of lines: the lower halves of their words, or the upper.
#pragma unroll
            for (int w = 0; w < 4; w++) {
                uint32_t x = lines[2 * w][r / 2], y = lines[2 * w + 1][r / 2];
                block[r][w] = r % 2 == 0 ? low_halves(x, y) : high_halves(x, y);
            }
        } else {
#pragma unroll
            for (int w = 0; w < 4; w++) block[r][w] = lines[w / WORDS][r * WORDS + w % WORDS];
        }
    }
}

// Where this workgroup's sums of its split of k go, of matrix z of the batch; null where there is but one split.
template <class Sum> __device__ __forceinline__ GLOBAL_MEMORY Sum *split_sums(const MatmulProblem &p, uint32_t z) {
    GLOBAL_MEMORY Sum *partial = (GLOBAL_MEMORY Sum *)p.partial;
    if (partial) partial += ((uint64_t)blockIdx.y * p.batch + z) * p.gemm.n * p.gemm.m;
    return partial;
}

// B as it is.
struct AsItIs {
    static constexpr bool NORMS = false, SCALES = false;
};

// The atom of A's elements and B's, which may be normed on their way.
template <class A, class T, int COLUMNS, bool ROWS_TOGETHER, bool NORMS> struct AtomOf;
template <class T, int COLUMNS, bool ROWS_TOGETHER, bool NORMS> struct AtomOf<T, T, COLUMNS, ROWS_TOGETHER, NORMS> {
    using Atom = SkinnyAtom<T, COLUMNS, ROWS_TOGETHER>;
};

template <class T, int COLUMNS_, bool ROWS_TOGETHER, class Input = AsItIs, bool GATED = false, class A = T>
struct SkinnyProduct {
    using Atom = typename AtomOf<A, T, COLUMNS_, ROWS_TOGETHER, Input::NORMS>::Atom;
    using Sum = typename Atom::Sum;
    // Elements of a vector of A, and the vectors of B that are as many.
    static constexpr int V = VEC16<A>, B_PER_A = V / VEC16<T>;
    // Whether all of k is vectors, as the host of such kernels says.
    static constexpr bool WHOLE_K = Input::NORMS || B_PER_A > 1;
    // How rows that are together are transposed: lines in LDS, or blocks in registers.
#if defined(SKINNY_TRANSPOSED)
    static constexpr bool LINES = ROWS_TOGETHER && sizeof(T) == 2;
#else
    static constexpr bool LINES = false;
#endif
    static constexpr bool BLOCKS = ROWS_TOGETHER && !LINES;
    // Rows of A in a lane, and vectors of each in a step, of BLOCKS those of one. LINES are of 32 rows: there are twice
    // as many workgroups as with whole lines of memory, whose other half the second-level cache fetches for another.
    static constexpr int TILES = LINES ? 4 : BLOCKS ? V : Input::NORMS ? Atom::NORMED_TILES : Atom::TILES;
    static constexpr int UNROLL = ROWS_TOGETHER ? 8 / TILES * Atom::DEPTH : Atom::UNROLL;
    // Work-items of a workgroup at most, and those of this one: the usual number, or, on NVIDIA's GPUs where blocks of
    // floats are transposed, twice as many, all of which share rows. k is then divided less, whose parts must meet.
#if defined(__HIP__)
    static constexpr int USUAL_THREADS = 256, THREADS = USUAL_THREADS;
#else
    static constexpr int USUAL_THREADS = 256, THREADS = USUAL_THREADS * (BLOCKS && sizeof(T) == 4 ? 2 : 1);
#endif
    static __device__ __forceinline__ uint32_t threads() {
        return THREADS == USUAL_THREADS ? (uint32_t)THREADS : blockDim.x;
    }
    static constexpr int LANES = Atom::LANES, WARPS = THREADS / LANES;
    // Groups of 2^log2_slice_k warps that have their own rows.
    static __device__ __forceinline__ uint32_t groups(uint32_t log2_slice_k) {
        return threads() / LANES >> log2_slice_k;
    }
    static constexpr int SIZE = sizeof(T), SIZE_A = sizeof(A), DEPTH = Atom::DEPTH, COLUMNS = Atom::COLUMNS;
    static constexpr int B_VECTORS = Atom::B_VECTORS;
    static constexpr uint32_t ROWS = Atom::ROW_LANES * TILES, K_VECTOR = Atom::K_LANES * V, STEP = K_VECTOR * UNROLL;
    static_assert(UNROLL % DEPTH == 0 && (!BLOCKS || TILES % V == 0), "whole blocks");
    // Workgroups that one of NVIDIA's multiprocessors has registers for, without spilling any.
    static constexpr bool SMALL = SIZE == 2 && COLUMNS == 8 && !ROWS_TOGETHER && !WHOLE_K;
    static constexpr int RESIDENT = (SIZE == 8 ? 1 : SMALL ? 4 : 2) * USUAL_THREADS / THREADS;
    // PREFETCH: the next round's vectors of A are on their way while this one's are multiplied, for which AMD's GPUs
    // have registers for both. (On an H200 there were fewer wavefronts then, and the product slower.) ROLLING: those of
    // a step are asked for as soon as this round's were multiplied, which takes no more registers; on an H200 it is the
    // faster where a multiprocessor has few wavefronts, and not where it has many, or reads much of B. What norms,
    // scales or turns lines has none left.
    static constexpr bool GOES_ON = !Input::NORMS && !Input::SCALES && !LINES;
#if defined(__HIP__)
    static constexpr bool PREFETCH = GOES_ON && SIZE == 2 && !ROWS_TOGETHER, ROLLING = false;
#else
    static constexpr bool PREFETCH = false;
    static constexpr bool ROLLING =
        GOES_ON && (SIZE == 2 ? COLUMNS == 16 : SIZE == 4 && !Atom::SPLITS && (BLOCKS || COLUMNS == 1));
#endif
    // What the sums of all warps take of LDS at a time, a few tiles of each.
    static constexpr int WHOLE = WARPS * (int)ROWS * COLUMNS * (int)sizeof(Sum),
                         MOST = 16 * THREADS / USUAL_THREADS << 10;
    static constexpr int PASSES = WHOLE <= MOST ? 1 : WHOLE / MOST < TILES ? WHOLE / MOST : TILES;
    static constexpr int PASS_TILES = TILES / PASSES, PASS_ROWS = Atom::ROW_LANES * PASS_TILES;
    static_assert(PASS_TILES * PASSES == TILES, "powers of two");
    // What a launch asks for.
#if defined(SKINNY_TRANSPOSED)
    static constexpr int lds_bytes() {
        if constexpr (LINES) return TransposedLines<T, (int)ROWS>::BYTES * WARPS;
        else return 0;
    }
#else
    static constexpr int lds_bytes() { return 0; }
#endif
    // Whether lists of kernels have these measures.
    static constexpr bool is_listed_as(MultipliedBy by, int lanes, int threads, uint32_t rows, uint32_t step,
                                       int lds_kib) {
        return by == Atom::BY && lanes == LANES && threads == THREADS && rows == ROWS && step == STEP &&
               lds_kib << 10 == lds_bytes();
    }
    // Rows of C that a warp makes.
    static constexpr uint32_t STORED_ROWS = GATED ? ROWS / 2 : ROWS;
    static_assert(!GATED || (PASSES == 1 && !ROWS_TOGETHER), "a gate and what it is for meet in LDS");

    // A row of op(A) by the number of its tile and its place in that, from the warp's first on.
    static __device__ __forceinline__ uint32_t row_of(uint32_t tile, uint32_t place) {
        return BLOCKS ? (tile / V * Atom::ROW_LANES + place) * V + tile % V : tile * Atom::ROW_LANES + place;
    }

    // Vector d of the rows and columns of a lane. With BLOCKS `a` first has lines.
    struct Operands {
        Words4 a[DEPTH][TILES];
        Words4 b[DEPTH][B_VECTORS][B_PER_A];
    };
    using Sums = typename Atom::Sums;
    Sums sums[TILES] = {};
    Input input;

    static __device__ __forceinline__ void multiply(Sums (&sums)[TILES], Operands &operands) {
        if constexpr (BLOCKS) {
#pragma unroll
            for (int d = 0; d < DEPTH; d++)
#pragma unroll
                for (int i = 0; i < TILES; i += V) transpose<T>(operands.a[d] + i);
        }
        Words4 b[B_VECTORS][DEPTH * B_PER_A];
#pragma unroll
        for (int j = 0; j < B_VECTORS; j++)
#pragma unroll
            for (int d = 0; d < DEPTH * B_PER_A; d++) b[j][d] = operands.b[d / B_PER_A][j][d % B_PER_A];
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            Words4 a[DEPTH];
#pragma unroll
            for (int d = 0; d < DEPTH; d++) a[d] = operands.a[d][i];
            Atom::multiply(sums[i], a, b);
        }
    }

    // Where a workgroup's operands lie.
    struct TileOperands {
        const A *a;
        const T *b;
        int64_t lda, column_b, step_b;
        // The workgroup's first row, the warp's first after it, all rows and columns of the product, and k.
        uint32_t first, warp_row, m, n, k;
        // The first of them among all k, and how many those are.
        uint32_t first_k, length;
        // Whether vectors may be loaded as such.
        bool wide_a, wide_b;

        // Whether the warp has any.
        __device__ __forceinline__ bool has_rows() const { return first + warp_row < m; }
    };

    // The main loop over all whole vectors of k: rounds in which each warp has a whole step, and one in which some of
    // the lanes have none. Its phases, and what they share: registers of whole_vectors, by reference, since clang 19
    // copies more of them where they are members.
    struct MainLoop {
        using Round = Operands[UNROLL / DEPTH];

        SkinnyProduct &product;
        const TileOperands &at;
        // Elements of k in a round, and the lane's first of them. Offsets stay what they are; the bases go on.
        uint32_t &lane, &round, &k, (&offset_a)[TILES], (&offset_b)[B_VECTORS], &offset_k, &lda;
        const A *&a;
        const T *&b;
        uint32_t &begin_k;

        // Where the lane's vectors are, from the round's first on.
        __device__ __forceinline__ void find_offsets() {
            // Rows and columns beyond the last repeat it, or the last vector of rows, and are not stored.
            uint32_t last = at.m - 1 - at.first, row;
#pragma unroll
            for (int i = 0; i < TILES; i++) {
                if constexpr (ROWS_TOGETHER) {
                    row = at.warp_row + row_of(i / V * V, Atom::row_index(lane));
                    // Of a matrix with whole vectors of rows.
                    if (row > last) row = last + 1 - V;
                    offset_a[i] = ((k + i % V) * lda + row) * SIZE_A;
                } else {
                    row = row_of(i, Atom::row_index(lane));
                    row = min_of(at.warp_row + row % STORED_ROWS, last) + row / STORED_ROWS * at.m;
                    offset_a[i] = (row * lda + k) * SIZE_A;
                }
            }
#pragma unroll
            for (int j = 0; j < B_VECTORS; j++)
                offset_b[j] = (min_of(Atom::column(lane, j), at.n - 1) * (uint32_t)at.column_b + k) * SIZE;
        }
        // Whether vector `u` has `left` elements of k and more to go.
        template <class All> __device__ __forceinline__ bool is_there(All, uint32_t left, int u) const {
            return All::value || k + u * K_VECTOR + V <= left;
        }
        // Load: vector `u` of all rows, or all columns, global -> registers.
        template <class All>
        __device__ __forceinline__ void load_a_at(All all, uint32_t left, Round &operands, int u) const {
            const A *line = ROWS_TOGETHER ? a + (int64_t)u * K_VECTOR * lda : a;
#pragma unroll
            for (int i = 0; i < TILES; i++) {
                Words4 &to = operands[u / DEPTH].a[u % DEPTH][i];
                to = {};
                if (is_there(all, left, u)) to = load_streamed(line, offset_a[i], ROWS_TOGETHER ? 0 : u * K_VECTOR);
            }
        }
        template <class All>
        __device__ __forceinline__ void load_b_at(All all, uint32_t left, Round &operands, int u) const {
#pragma unroll
            for (int j = 0; j < B_VECTORS; j++)
#pragma unroll
                for (int part = 0; part < B_PER_A; part++) {
                    Words4 &to = operands[u / DEPTH].b[u % DEPTH][j][part];
                    to = {};
                    if (is_there(all, left, u)) to = load_cached(b, offset_b[j], u * K_VECTOR + part * VEC16<T>);
                }
        }
        template <class All> __device__ __forceinline__ void load_a(All all, uint32_t left, Round &operands) const {
#pragma unroll
            for (int u = 0; u < UNROLL; u++) load_a_at(all, left, operands, u);
        }
        template <class All> __device__ __forceinline__ void load_b(All all, uint32_t left, Round &operands) const {
#pragma unroll
            for (int u = 0; u < UNROLL; u++) load_b_at(all, left, operands, u);
        }
        // Vector `u` of those of a round of column j.
        static __device__ __forceinline__ Words4 &of_b(Round &operands, int u, int j) {
            return operands[u / B_PER_A / DEPTH].b[u / B_PER_A % DEPTH][j][u % B_PER_A];
        }
        // Load: B's vectors with their norm, as LDS has them already, or made here of B and the norm's weights.
        template <class All> __device__ __forceinline__ void load_normed_b(All all, uint32_t left, Round &operands) {
            if (product.input.staged) {
                Words4 column[UNROLL * B_PER_A];
                product.input.template read<K_VECTOR, B_PER_A>(column, k,
                                                               [&](int u) INLINED { return is_there(all, left, u); });
#pragma unroll
                for (int u = 0; u < UNROLL * B_PER_A; u++)
#pragma unroll
                    for (int j = 0; j < B_VECTORS; j++) of_b(operands, u, j) = column[u];
            } else {
                load_b(all, left, operands);
                Words4 weight[UNROLL * B_PER_A];
#pragma unroll
                for (int u = 0; u < UNROLL * B_PER_A; u++) {
                    weight[u] = {};
                    if (is_there(all, left, u / B_PER_A))
                        weight[u] = load_cached(product.input.weight, offset_k,
                                                u / B_PER_A * K_VECTOR + u % B_PER_A * VEC16<T>);
                }
                opt_barrier_schedule();
#pragma unroll
                for (int u = 0; u < UNROLL * B_PER_A; u++)
#pragma unroll
                    for (int j = 0; j < B_VECTORS; j++) product.input.norm(of_b(operands, u, j), j, weight[u]);
            }
        }
        // Multiply: a round whose sums are scaled for each block of k.
        __device__ __forceinline__ void multiply_scaled(Round &operands) {
            // Vectors that lie in one block of k, which those of a lane do in any case.
            constexpr int OF_BLOCK = max_of(1, Input::BLOCK / (int)K_VECTOR), BLOCKS = UNROLL / OF_BLOCK;
            static_assert(DEPTH == 1 && STEP % Input::BLOCK == 0, "steps are whole blocks");
            typename Input::template Factors<Atom> factors[BLOCKS];
#pragma unroll
            for (int i = 0; i < BLOCKS; i++)
                factors[i] = product.input.template load<Atom>(at, lane, begin_k + k + i * OF_BLOCK * K_VECTOR);
            opt_barrier_schedule();
#pragma unroll
            for (int i = 0; i < BLOCKS; i++) {
                Sums of_block[TILES] = {};
#pragma unroll
                for (int u = 0; u < OF_BLOCK; u++) multiply(of_block, operands[i * OF_BLOCK + u]);
                product.input.template promote<Atom>(at, lane, product.sums, of_block, factors[i], row_of);
            }
        }
        // Loads B of a round whose A is on its way, and multiplies both. `meanwhile` is asked for after B, since loads
        // come in their order.
        template <class All, class Meanwhile>
        __device__ __forceinline__ void load_b_and_multiply(All all, uint32_t left, Round &operands,
                                                            Meanwhile meanwhile) {
            if constexpr (Input::NORMS) load_normed_b(all, left, operands);
            else load_b(all, left, operands);
            opt_barrier_schedule();
            meanwhile();
            if constexpr (Input::SCALES) {
                multiply_scaled(operands);
            } else {
                opt_barrier_schedule();
#pragma unroll
                for (int u = 0; u < UNROLL / DEPTH; u++) multiply(product.sums, operands[u]);
            }
        }
        // On to the next round's vectors of A, or all others.
        __device__ __forceinline__ void advance_a() { advance(a, ROWS_TOGETHER ? round * at.lda : round); }
        __device__ __forceinline__ void advance_others() {
            advance(b, round);
            if constexpr (Input::NORMS) advance(product.input.weight, round), product.input.done += round;
            if constexpr (Input::SCALES) begin_k += round;
        }
        // Load: all of a whole round's A.
        __device__ __forceinline__ void load_round(Round &operands) {
            load_a(Constant<true>(), 0, operands);
            advance_a();
        }
        // ROLLING: multiplies a round each of whose steps is replaced by the next round's once it was multiplied.
        __device__ __forceinline__ void roll(Round &now) {
            opt_barrier_values(offset_a);
            opt_barrier_values(offset_b);
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                multiply(product.sums, now[u]);
                load_a_at(Constant<true>(), 0, now, u);
                load_b_at(Constant<true>(), 0, now, u);
            }
            advance_a();
            advance_others();
        }
    };

    // Adds up the products of all whole vectors of k. Returns the elements of k that are done.
    __device__ __forceinline__ uint32_t whole_vectors(const TileOperands &at, uint32_t lane, uint32_t k_slice,
                                                      uint32_t log2_slice_k) {
        using Round = typename MainLoop::Round;

        uint32_t round = STEP << log2_slice_k, rounds = at.k / STEP >> log2_slice_k,
                 k = k_slice * STEP + Atom::k_index(lane) * V;
        uint32_t offset_a[TILES], offset_b[B_VECTORS], offset_k = k * SIZE;
        uint32_t lda = (uint32_t)at.lda;
        const A *a = at.a + (ROWS_TOGETHER ? (int64_t)at.first : at.first * at.lda);
        const T *b = at.b;
        // Where the round begins.
        uint32_t begin_k = 0, begun = 0;
        MainLoop loop{*this, at, lane, round, k, offset_a, offset_b, offset_k, lda, a, b, begin_k};
        loop.find_offsets();
        Constant<true> all;
        auto nothing = []() INLINED {
        };
        if constexpr (Input::NORMS) {
            // A's first vectors are on their way while the columns' squares are added up.
            Round operands;
            input.begin(at);
            opt_barrier_schedule();
            if (rounds > 0) loop.load_round(operands);
            opt_barrier_schedule();
            input.template meet<Atom>(at, lane);
            if (rounds > 0) {
                loop.load_b_and_multiply(all, 0, operands, nothing);
                loop.advance_others();
                begun = 1;
            }
        }
        Round now;
        if ((PREFETCH || ROLLING) && rounds > 0) loop.load_round(now);
        if constexpr (ROLLING) {
            static_assert(DEPTH == 1, "a step is multiplied by itself");
            if (rounds > 0) {
                loop.load_b(all, 0, now);
                loop.advance_others();
#pragma unroll 1
                for (uint32_t left = rounds; left > 1; left--) loop.roll(now);
                // Apart, since loads under a condition take more registers.
#pragma unroll
                for (int u = 0; u < UNROLL; u++) multiply(sums, now[u]);
            }
        } else {
#pragma unroll 1
            for (uint32_t left = rounds - begun; left > 0; left--) {
                opt_barrier_values(loop.offset_a);
                opt_barrier_values(loop.offset_b);
                Round next;
                if (!PREFETCH) loop.load_round(now);
                loop.load_b_and_multiply(all, 0, now, [&]() INLINED {
                    if (PREFETCH && left > 1) loop.load_round(next);
                });
                loop.advance_others();
#pragma unroll
                for (int n = 0; PREFETCH && n < UNROLL / DEPTH; n++) now[n] = next[n];
            }
        }
        uint32_t left = at.k - rounds * loop.round;
        if (left >= V) {
            Round operands;
            loop.load_a(Constant<false>(), left, operands);
            loop.load_b_and_multiply(Constant<false>(), left, operands, nothing);
        }
        settle_products();
        return at.k / V * V;
    }

    // V elements from `from` on, `step` apart: those of the first `count`; zeros for the others.
    static __device__ __forceinline__ Words4 some(const T *from, int64_t step, uint32_t count) {
        vec<T, V> elements = {};
#pragma unroll
        for (int i = 0; i < V; i++)
            if ((uint32_t)i < count) elements[i] = from[i * step];
        return bit_cast<Words4>(elements);
    }
    static __device__ __forceinline__ Words4 careful(const T *from, int64_t step, uint32_t count, bool wide) {
        if (wide && count >= V) return load_cached(from, 0, 0);
        return some(from, step, count);
    }

#if defined(SKINNY_TRANSPOSED)
    // All of k where lines are transposed in LDS: whole vectors of B and of A's rows, or, with care, any. Each step's
    // are there, or on their way, when the last one's are read. (What is read with care would slow the other loop down
    // if it were in it.)
    template <bool WHOLE>
    __device__ __forceinline__ uint32_t lines_of_k(const TileOperands &at, uint32_t lane, uint32_t k_slice,
                                                   uint32_t log2_slice_k, uint32_t done = 0) {
        using Lines = TransposedLines<T, (int)ROWS>;
        static_assert(Lines::LINES == STEP && DEPTH == 1, "a step has the lines of one");
        constexpr int AT_A_TIME = WHOLE ? Lines::COPIES : 2;
        uint32_t round = STEP << log2_slice_k, first = k_slice * STEP, end = WHOLE ? at.k / V * V : at.k;
        // A lane's line of the first copy, and its vector of B.
        uint32_t line = first + Lines::line(lane), k = first + Atom::k_index(lane) * V;
        uint32_t row = at.warp_row + Lines::row(lane), rows = at.m - at.first;
        if (WHOLE && row >= rows) row = rows - V;
        uint32_t offset_a = (line * (uint32_t)at.lda + row) * SIZE, offset_b[B_VECTORS];
#pragma unroll
        for (int j = 0; j < B_VECTORS; j++)
            offset_b[j] = (min_of(Atom::column(lane, j), at.n - 1) * (uint32_t)at.column_b + (WHOLE ? k : 0)) * SIZE;
        const T *a = at.a + at.first + done * at.lda, *b = at.b + done * at.step_b;
        Lines lines((LdsBytes)dynamic_lds + threadIdx.x / LANES * Lines::BYTES, lane), next = lines;
        // Elements of k that are still to be copied, and to be multiplied.
        uint32_t to_copy = end - done, left = to_copy;
        auto copy = [&](const Lines &to) INLINED {
            if (to_copy > 0) {
                const T *from = a;
#pragma unroll AT_A_TIME
                for (int i = 0; i < Lines::COPIES; i++) {
                    const T *chunk = (const T *)((const char *)from + offset_a);
                    bool wanted = line + i * Lines::AT_ONCE < to_copy;
                    if constexpr (WHOLE) to.copy(i, chunk, wanted);
                    else to.store(i, some(chunk, 1, wanted && row < rows ? rows - row : 0));
                    from += Lines::AT_ONCE * at.lda;
                }
                advance(a, round * at.lda);
                to_copy -= min_of(to_copy, round);
            }
            end_copies();
        };
        Words4 b_now[UNROLL][B_VECTORS][1], b_next[UNROLL][B_VECTORS];
        auto load_b = [&]() INLINED {
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                uint32_t from = k + u * K_VECTOR, count = left > from ? left - from : 0;
#pragma unroll
                for (int j = 0; j < B_VECTORS; j++) {
                    const T *column = (const T *)((const char *)b + offset_b[j]);
                    Words4 &to = b_next[u][j];
                    to = {};
                    if constexpr (!WHOLE) to = some(column + from * at.step_b, at.step_b, count);
                    else if (count > 0) to = load_cached(column, 0, u * K_VECTOR);
                }
            }
            advance(b, round * at.step_b);
        };
#pragma unroll
        for (int s = 0; s < Lines::PREFETCH; s++) {
            copy(next);
            next.next_step();
        }
        load_b();
#pragma unroll 1
        while (left > 0) {
            opt_barrier_value(offset_a);
            opt_barrier_values(offset_b);
#pragma unroll
            for (int u = 0; u < UNROLL; u++)
#pragma unroll
                for (int j = 0; j < B_VECTORS; j++) b_now[u][j][0] = b_next[u][j];
            left -= min_of(left, round);
            load_b();
            wait_for_copies<Lines::PREFETCH - 1>();
            wave_fence();
#pragma unroll
            for (int u = 0; u < UNROLL; u++)
#pragma unroll
                for (int i = 0; i < TILES; i++) {
                    Words4 vector[1] = {lines.vector(u, i)};
                    Atom::multiply(sums[i], vector, b_now[u]);
                }
            wave_fence();
            copy(lines);
            lines.next_step();
        }
        return end;
    }
#endif

    // What is left from `done` on: a few rows after others, for which fewer registers do.
    __device__ __forceinline__ void careful_steps(const TileOperands &at, uint32_t lane, uint32_t k_slice,
                                                  uint32_t log2_slice_k, uint32_t done) {
        constexpr int BLOCK = BLOCKS ? V : 1;
        const T *rows = at.a + (ROWS_TOGETHER ? at.first + at.warp_row : (at.first + at.warp_row) * at.lda);
        uint32_t rows_left = at.m - at.first - at.warp_row;
        for (uint32_t first = done + k_slice * STEP; first < at.k; first += STEP << log2_slice_k) {
#pragma unroll 1
            for (uint32_t u = 0; u < UNROLL / DEPTH; u++) {
                uint32_t k = first + u * DEPTH * K_VECTOR + Atom::k_index(lane) * V;
                auto left = [&](int d) INLINED {
                    return at.k > k + d * K_VECTOR ? at.k - k - d * K_VECTOR : 0;
                };
                Sums of_block[TILES] = {};
                Sums(&to)[TILES] = Input::SCALES ? of_block : sums;
                Words4 b[B_VECTORS][DEPTH];
#pragma unroll
                for (int j = 0; j < B_VECTORS; j++) {
                    const T *column = at.b + min_of(Atom::column(lane, j), at.n - 1) * at.column_b;
#pragma unroll
                    for (int d = 0; d < DEPTH; d++)
                        b[j][d] = careful(column + (k + d * K_VECTOR) * at.step_b, at.step_b, left(d), at.wide_b);
                }
#pragma unroll
                for (int i = 0; i < TILES; i += BLOCK) {
                    uint32_t row = row_of(i, Atom::row_index(lane));
                    Words4 a[DEPTH][BLOCK];
#pragma unroll
                    for (int d = 0; d < DEPTH; d++) {
                        uint32_t at_k = k + d * K_VECTOR;
                        if constexpr (BLOCKS) {
#pragma unroll
                            for (int l = 0; l < V; l++)
                                a[d][l] =
                                    careful(rows + (at_k + l) * at.lda + row, 1,
                                            row < rows_left && (uint32_t)l < left(d) ? rows_left - row : 0, at.wide_a);
                            transpose<T>(a[d]);
                        } else {
                            a[d][0] = careful(rows + min_of(row, rows_left - 1) * at.lda + at_k, 1, left(d), at.wide_a);
                        }
                    }
#pragma unroll
                    for (int l = 0; l < BLOCK; l++) {
                        Words4 one[DEPTH];
#pragma unroll
                        for (int d = 0; d < DEPTH; d++) one[d] = a[d][l];
                        Atom::multiply(to[i + l], one, b);
                    }
                    opt_barrier_schedule();
                }
                if constexpr (Input::SCALES) {
                    // A block's elements, whichever lanes have them; or each lane's own.
                    uint32_t of_block_k = (int)K_VECTOR > Input::BLOCK ? k : first + u * DEPTH * K_VECTOR;
                    auto factors = input.template load<Atom>(at, lane, of_block_k);
                    input.template promote<Atom>(at, lane, sums, of_block, factors, row_of);
                }
            }
        }
    }

    // A result by multiply-adds alone: infinities have no rest (Atom::SPLITS), and what is none of a number is rare.
    static __device__ __forceinline__ Sum alone(const TileOperands &at, uint32_t k, uint32_t row, uint32_t column) {
        const T *a = at.a + (ROWS_TOGETHER ? row : row * at.lda), *b = at.b + column * at.column_b;
        int64_t step_a = ROWS_TOGETHER ? at.lda : 1;
        Sum sum = 0;
#pragma unroll 1
        for (uint32_t i = 0; i < k; i++) sum = math::fma(a[i * step_a], b[i * at.step_b], sum);
        return sum;
    }

    // Where results go: finished, or raw as one split of k.
    struct Store {
        const MatmulProblem &problem;
        ScaledEpilogue<T> epilogue;
        GLOBAL_MEMORY Sum *partial;

        __device__ __forceinline__ Store(const MatmulProblem &p, T *c, uint32_t layout)
            : problem(p), epilogue(p, c, layout & TRANSPOSED, blockIdx.z), partial(split_sums<Sum>(p, blockIdx.z)) {}
        // A whole sum's result.
        __device__ __forceinline__ void store(uint32_t row, uint32_t column, Sum sum, T of_residual) const {
            epilogue.store(row, column, sum, of_residual);
        }
        __device__ __forceinline__ void store(uint32_t row, uint32_t column, Sum sum) const {
            epilogue.store(row, column, sum);
        }
        __device__ __forceinline__ void store_gated(uint32_t row, uint32_t column, Sum gate, Sum up) const {
            epilogue.c[row + (int64_t)column * epilogue.column_c] =
                round_to<T>(activated<T>(gate, problem.activation) * up);
        }

        // Of several splits: leaves one's sum, for the last split's workgroup or for another launch; or makes it that
        // of all splits, in their order, which is whole.
        __device__ __forceinline__ bool is_whole(uint32_t row, uint32_t column, Sum &sum) const {
            // So many splits are on their way at a time.
            constexpr int SPLITS = sizeof(Sum) == 8 ? 4 : 8;
            uint64_t at = (uint64_t)column * problem.gemm.m + row;
            if (problem.split_k_reduction == SPLIT_K_SEPARATE_KERNEL) {
                partial[at] = sum;
                return false;
            }
            GridIndex grid;
            if (grid.y + 1 < problem.splits) {
                SplitKSum<Sum>::leave(partial + at, sum);
                return false;
            }
            uint64_t plane = (uint64_t)problem.gemm.m * problem.gemm.n * problem.batch;
            GLOBAL_MEMORY Sum *first = partial - grid.y * plane + at;
            Sum before = 0;
#pragma unroll 1
            for (uint32_t split = 0; split < grid.y; split += SPLITS) {
                GLOBAL_MEMORY Sum *from[SPLITS];
                Sum sums[SPLITS];
#pragma unroll
                for (uint32_t j = 0; j < SPLITS; j++)
                    from[j] = split + j < grid.y ? first + (split + j) * plane : nullptr;
                while (!SplitKSum<Sum>::take(from, sums)) {}
#pragma unroll
                for (uint32_t j = 0; j < SPLITS; j++) before += sums[j];
            }
            sum = before + sum;
            return true;
        }
    };

    // Grid: x rows, y splits of k, z batch.
    __device__ __forceinline__ void run(const MatmulProblem &problem, uint32_t layout, uint32_t log2_slice_k) {
        auto operands = select_batch<T>(problem.gemm);
        auto make_store = [&]() INLINED {
            return Store(problem, operands.c, layout);
        };
        auto residual_of = [&](uint32_t row, uint32_t column) INLINED {
            return ElementEpilogue<T>(problem, blockIdx.z, layout & TRANSPOSED).residual_of(row, column);
        };
        compute(problem, (const A *)operands.a, operands.b, problem.gemm.n, true, layout, log2_slice_k, make_store,
                residual_of);
    }

    // Where a thread's result stands that is number `i` of those that a pass brings together.
    struct At {
        uint32_t in_pass, column, group, row;
        __device__ __forceinline__ At(uint32_t i, int pass, uint32_t first)
            : in_pass(i % PASS_ROWS), column(i / PASS_ROWS % COLUMNS), group(i / (PASS_ROWS * COLUMNS)),
              row(first + group * ROWS +
                  row_of(pass * PASS_TILES + in_pass / Atom::ROW_LANES, in_pass % Atom::ROW_LANES)) {}
    };

    // Sums of all warps, as a pass brings them together.
    using Shared = Sum[WARPS][COLUMNS][PASS_ROWS];

    // Where this workgroup's operands lie, of which the product has `columns` columns.
    static __device__ __forceinline__ TileOperands place_of(const MatmulProblem &problem, const A *a, const T *b,
                                                            uint32_t columns, bool in_use, uint32_t layout,
                                                            uint32_t warp, uint32_t log2_slice_k) {
        const GemmProblem &p = problem.gemm;
        uint32_t groups = SkinnyProduct::groups(log2_slice_k), first_k = blockIdx.y * problem.k_per_split;
        bool along_k = layout & B_ALONG_K;
        TileOperands at;
        at.lda = p.lda;
        at.column_b = along_k ? p.ldb : 1;
        at.step_b = along_k ? 1 : p.ldb;
        at.first = blockIdx.x * (groups * STORED_ROWS);
        at.warp_row = (warp >> log2_slice_k) * STORED_ROWS;
        at.m = p.m;
        at.n = columns;
        at.first_k = first_k;
        at.length = p.k;
        // Nothing for a warp without rows; where all go on together, what others do as well.
        at.k = Input::NORMS || (in_use && (PREFETCH || at.has_rows())) ? min_of(p.k - first_k, problem.k_per_split) : 0;
        at.a = a + first_k * (ROWS_TOGETHER ? p.lda : 1);
        at.b = b + first_k * at.step_b;
        at.wide_a = ANY_ADDRESS || (((uintptr_t)at.a | p.lda * SIZE_A) & 15) == 0;
        at.wide_b = along_k && (ANY_ADDRESS || (((uintptr_t)at.b | p.ldb * SIZE) & 15) == 0);
        return at;
    }

    // Main loop: the warp's sums, in registers. `whole_rows` says that blocks of rows are whole, or beyond the last.
    __device__ __forceinline__ void add_up(TileOperands &at, uint32_t lane, uint32_t k_slice, uint32_t log2_slice_k,
                                           bool whole_rows) {
        if constexpr (Input::SCALES) input.template find_factors<Atom>(at, lane);
        if constexpr (WHOLE_K) {
            // The host gives whole vectors alone.
            whole_vectors(at, lane, k_slice, log2_slice_k);
        } else {
            bool by_vectors = at.wide_a && at.wide_b && whole_rows;
            uint32_t done = 0;
            if constexpr (LINES) {
#if defined(SKINNY_TRANSPOSED)
                if (by_vectors) done = lines_of_k<true>(at, lane, k_slice, log2_slice_k);
                if (done < at.k) lines_of_k<false>(at, lane, k_slice, log2_slice_k, done);
#endif
            } else {
                if (by_vectors) done = whole_vectors(at, lane, k_slice, log2_slice_k);
                if (!at.has_rows()) at.k = 0;
                careful_steps(at, lane, k_slice, log2_slice_k, done);
            }
        }
    }

    // Reduce: the sum of the warps that share a row, in their order.
    static __device__ __forceinline__ Sum sum_of(const Shared &shared, uint32_t log2_slice_k, uint32_t group,
                                                 uint32_t column, uint32_t in_pass) {
        Sum sum = shared[group << log2_slice_k][column][in_pass];
        for (uint32_t s = 1; s >> log2_slice_k == 0; s++) sum += shared[(group << log2_slice_k) + s][column][in_pass];
        return sum;
    }

    // Store: gated rows.
    template <class Store>
    static __device__ __forceinline__ void store_gated(const Shared &shared, const TileOperands &at, const Store &out,
                                                       uint32_t log2_slice_k) {
        for (uint32_t i = threadIdx.x; i < groups(log2_slice_k) * STORED_ROWS * COLUMNS; i += threads()) {
            uint32_t in_pass = i % STORED_ROWS, column = i / STORED_ROWS % COLUMNS, group = i / (STORED_ROWS * COLUMNS);
            uint32_t row = at.first + group * STORED_ROWS + in_pass;
            if (row >= at.m || column >= at.n) continue;
            out.store_gated(row, column, sum_of(shared, log2_slice_k, group, column, in_pass),
                            sum_of(shared, log2_slice_k, group, column, in_pass + STORED_ROWS));
        }
    }
    // Store: a pass's results of a whole product, or of one of its splits of k. With EARLY `early` is what is added to
    // the thread's first.
    template <bool IN_SPLITS, bool EARLY, class Store, class Residual>
    static __device__ __forceinline__ void store_pass(const Shared &shared, const TileOperands &at, const Store &out,
                                                      int pass, uint32_t log2_slice_k, uint32_t split_length,
                                                      Residual residual_of, T &early) {
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < groups(log2_slice_k) * PASS_ROWS * COLUMNS; i += threads()) {
            At own(i, pass, at.first);
            if (own.row >= at.m || own.column >= at.n) continue;
            Sum sum = sum_of(shared, log2_slice_k, own.group, own.column, own.in_pass);
            if constexpr (Atom::SPLITS)
                if (sum != sum) sum = alone(at, split_length, own.row, own.column);
            if constexpr (IN_SPLITS) {
                if (out.is_whole(own.row, own.column, sum)) out.store(own.row, own.column, sum);
            } else if constexpr (EARLY) {
                if (i != threadIdx.x) early = residual_of(own.row, own.column);
                out.store(own.row, own.column, sum, early);
            } else {
                out.store(own.row, own.column, sum);
            }
        }
    }

    // The product with so many columns of B, or, if none is in use, zeros. `make_store` makes what stores it, once the
    // sums are there. `residual_of` reads what is added to one; a thread's first is asked for before the product, as
    // nothing else would hide the wait.
    template <class MakeStore, class Residual = AsItIs>
    __device__ __forceinline__ void compute(const MatmulProblem &problem, const A *a, const T *b, uint32_t columns,
                                            bool in_use, uint32_t layout, uint32_t log2_slice_k, MakeStore make_store,
                                            Residual residual_of = {}) {
        constexpr bool EARLY = !is_same<Residual, AsItIs>::value && !Input::NORMS && PASSES == 1;
        __shared__ Shared shared;
        const GemmProblem &p = problem.gemm;
        uint32_t warp = threadIdx.x / LANES, lane = threadIdx.x % LANES, k_slice = warp & ((1u << log2_slice_k) - 1);
        uint32_t groups = SkinnyProduct::groups(log2_slice_k);
        TileOperands at = place_of(problem, a, b, columns, in_use, layout, warp, log2_slice_k);
        uint32_t split_length = min_of(p.k - at.first_k, problem.k_per_split);
        bool whole_rows = !ROWS_TOGETHER || p.m % V == 0 || p.m - at.first >= groups * ROWS;

        T early = {};
        if constexpr (EARLY) {
            At own(threadIdx.x, 0, at.first);
            if (own.group < groups && own.row < at.m && own.column < at.n) early = residual_of(own.row, own.column);
        }
        add_up(at, lane, k_slice, log2_slice_k, whole_rows);

        auto out = make_store();
#pragma unroll 1
        for (int pass = 0; pass < PASSES; pass++) {
            if (pass > 0) __syncthreads();
            // Reduce: a pass's sums of each warp, registers -> LDS.
            Atom::each(sums, lane, [&](uint32_t tile, uint32_t place, uint32_t column, Sum sum) INLINED {
                if (tile / PASS_TILES == (uint32_t)pass)
                    shared[warp][column][tile % PASS_TILES * Atom::ROW_LANES + place] = sum;
            });
            __syncthreads();
            if constexpr (GATED) {
                store_gated(shared, at, out, log2_slice_k);
                return;
            }
            // A loop each, so that the code of products in one split is together: short ones wait for its lines.
            if (out.partial)
                store_pass<true, EARLY>(shared, at, out, pass, log2_slice_k, split_length, residual_of, early);
            else store_pass<false, EARLY>(shared, at, out, pass, log2_slice_k, split_length, residual_of, early);
        }
    }
};
