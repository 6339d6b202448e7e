// What every schedule of products has: the tile of C that a workgroup makes, and a wavefront's sums of it.
#pragma once
#include "matmul/split_k/workspace.cuh"
#include "matmul/loads/k_block.cuh"
#include "matmul/epilogue/epilogue.cuh"
#include "matmul/atoms/atom.cuh"

struct Divided {
    uint32_t quotient, rest;
};
__device__ __forceinline__ Divided divided(uint32_t number, const Divisor &by) {
    uint32_t quotient = (uint32_t)((uint64_t)(number << 1) * by.multiplier >> 32) >> by.shift;
    return {quotient, number - quotient * by.value};
}

// The tile of a workgroup of such a number. Workgroups are dealt to XCDs in turn, each with an L2 of its own, so
// each XCD's shall be neighbours; and neighbours are tiles that share operands: `group` tiles of rows for one tile
// of columns after another.
struct TileIndex {
    uint32_t m;
    uint32_t n;
};
__device__ __forceinline__ TileIndex tile_index(const TileOrder &order, uint32_t number) {
    auto [in_xcd, xcd] = divided(number, order.xcds);
    uint32_t index = xcd * order.of_xcd + min_of(xcd, order.more) + in_xcd;
    auto [group, in_group] = divided(index, order.of_group);
    uint32_t first = group * order.group.value;
    bool whole = order.tiles_m - first >= order.group.value;
    auto [n, m] = divided(in_group, whole ? order.group : order.last_group);
    return {first + m, n};
}

// The tile that this workgroup makes: rows and columns of C from a corner on, over some of k.
struct TileCoordinates {
    uint32_t row, column;
    uint32_t begin, end;
    uint32_t y;       // of the splits of k
    uint32_t z;       // of the batch: C's matrix
    uint32_t a, b;    // the operands'
    uint32_t columns; // that C's matrix has
};
template <class S> __device__ __forceinline__ TileCoordinates tile_coordinates(const MatmulProblem &p) {
    bool of_xcds = p.split_k_reduction == SPLIT_K_PER_XCD;
    TileIndex tile = tile_index(p.order, of_xcds ? blockIdx.y : blockIdx.x);
    uint32_t y = p.splits > 1 ? of_xcds ? blockIdx.x : blockIdx.y : 0, z = blockIdx.z,
             begin = min_of(y * p.k_per_split, p.gemm.k);
    uint32_t end = begin + min_of(p.gemm.k - begin, p.k_per_split);
    return {tile.m * S::M, tile.n * S::N, begin, end, y, z, z, z, p.gemm.n};
}

// The operands' K-blocks for that tile.
template <class KBlock, class T> __device__ __forceinline__ KBlock rows_of(const GemmProblem &g,
                                                                           const TileCoordinates &coords) {
    return KBlock((const T *)g.a + coords.a * g.stride_a, g.lda, coords.row, g.m, coords.begin, coords.end);
}
template <class KBlock, class T>
__device__ __forceinline__ KBlock columns_of(const GemmProblem &g, const TileCoordinates &coords) {
    return KBlock((const T *)g.b + coords.b * g.stride_b, g.ldb, coords.column, coords.columns, coords.begin,
                  coords.end);
}

// A wavefront's share of the tile, in a workgroup with so many bytes of LDS for operands.
template <class T, class S, int LDS_OPERANDS> struct WaveTile {
    using Atom = MmaAtom<T>;
    using Sum = typename Product<T>::Sum;
    using C = typename Product<T>::C;
    // The first half of the wavefronts may have fewer rows than the second, and has those after the second's.
    static constexpr int M = ceil_div(S::M / Atom::ROWS, S::WAVES_M) * Atom::ROWS, N = S::N / S::WAVES_N;
    static constexpr bool UNEVEN = S::M != S::WAVES_M * M;
    static constexpr int BLOCKS_M = M / Atom::ROWS, BLOCKS_N = N / Atom::COLUMNS;
    static_assert(!UNEVEN || S::WAVES_M == 2, "a half has the same rows");
    static_assert(S::M % Atom::ROWS == 0 && N % Atom::COLUMNS == 0, "a wavefront has whole blocks");
    static_assert(M % 32 == 0 || S::WAVES_M == 1, "a wavefront's rows begin with the same low bits");
    static_assert(N % 32 == 0 || S::WAVES_N == 1, "and its columns");

    typename Atom::Sums sums[BLOCKS_M][BLOCKS_N] = {};
    uint32_t wave = uniform(threadIdx.x / S::WAVE);
    uint32_t row = UNEVEN ? (1 - wave / S::WAVES_N) * M : wave % S::WAVES_M * M;
    uint32_t column = UNEVEN ? wave % S::WAVES_N * N : wave / S::WAVES_M * N;

    // Blocks of rows of a wavefront, by its half, and of this one.
    static constexpr int blocks_of(bool second) { return UNEVEN && !second ? S::M / Atom::ROWS - BLOCKS_M : BLOCKS_M; }
    __device__ __forceinline__ int blocks() const { return UNEVEN && row > 0 ? blocks_of(false) : BLOCKS_M; }

    // Adds products of fragments of its rows and columns, or some blocks of them, to the sums.
    using Fragment = typename Atom::Fragment;
    __device__ __forceinline__ void multiply(const Fragment (&a)[BLOCKS_M], const Fragment (&b)[BLOCKS_N],
                                             int first = 0, int end = BLOCKS_N, int rows = BLOCKS_M) {
#pragma unroll
        for (int instruction = 0; instruction < Atom::INSTRUCTIONS; instruction++)
#pragma unroll
            for (int j = first; j < end; j++)
#pragma unroll
                for (int i = 0; i < rows; i++) Atom::multiply(sums[i][j], a[i], b[j], instruction);
    }

    // Nothing that makes the sums moves past it, nor reads of LDS before it.
    __device__ __forceinline__ void opt_barrier_ordered() {
#pragma unroll
        for (int j = 0; j < BLOCKS_N; j++)
#pragma unroll
            for (int i = 0; i < BLOCKS_M; i++) ::opt_barrier_ordered(sums[i][j]);
    }

    // The results go through LDS, so that a lane gets V consecutive rows of a column and neighbours get its other rows.
    // A wavefront has a place there for a strip: STRIP rows of a block of columns, with 16 bytes between columns for
    // the banks.
    static constexpr int V = VEC16<C>, PAD = 16 / (int)sizeof(Sum);
    static constexpr int strip_bytes(int rows) { return (rows + PAD) * Atom::COLUMNS * (int)sizeof(Sum); }
    static constexpr int strip_rows(int lds_bytes) {
        int rows = Atom::ROWS;
        while (2 * rows <= 64 && M % (2 * rows) == 0 && strip_bytes(2 * rows) * S::WAVES_M * S::WAVES_N <= lds_bytes)
            rows *= 2;
        return rows;
    }
    static constexpr int STRIP = strip_rows(LDS_OPERANDS), PITCH = STRIP + PAD;
    static constexpr int LDS_STRIPS = strip_bytes(STRIP) * S::WAVES_M * S::WAVES_N;
    static constexpr int LDS_BYTES = max_of(LDS_OPERANDS, LDS_STRIPS);
    static constexpr int STRIPS = M / STRIP * BLOCKS_N;

    __device__ __forceinline__ void write_strip(LDS_MEMORY Sum *strip, int number) const {
        uint32_t lane = lane_id();
        constexpr int BLOCKS = STRIP / Atom::ROWS;
#pragma unroll
        for (int i = 0; i < BLOCKS; i++) {
            auto block = sums[number % (M / STRIP) * BLOCKS + i][number / (M / STRIP)];
#pragma unroll
            for (int e = 0; e < Atom::SUMS; e++) {
                Sum sum;
                if constexpr (Atom::SUMS == 1) sum = block;
                else sum = block[e];
                strip[Atom::column(lane, e) * PITCH + i * Atom::ROWS + Atom::row(lane, e)] = sum;
            }
        }
    }

    // Whether workgroups of splits of k may are reduced in the kernel.
    static constexpr bool REDUCES_IN_KERNEL = S::REDUCTION == SplitK::InKernel;
    static_assert(!REDUCES_IN_KERNEL || is_same<Sum, float>::value, "f32 is reduced in the kernel");

    // Leaves this part's sums for the last one's workgroup, as lanes have them; or, there, adds the others' to its own,
    // in their order. Returns whether the sums are whole.
    __device__ __forceinline__ bool reduce_in_kernel(const MatmulProblem &p) {
        constexpr int OF_LANE = BLOCKS_M * BLOCKS_N * Atom::SUMS, WAVES = S::WAVES_M * S::WAVES_N;
        constexpr uint32_t OF_WAVE = OF_LANE * S::WAVE * sizeof(float);
        static_assert(sizeof(sums) == OF_LANE * sizeof(float), "nothing but sums");
        using Workspace = SplitKFloats<OF_LANE, S::WAVE>;
        auto &own = (float(&)[OF_LANE])sums;
        GridIndex grid;
        uint32_t tiles = p.order.tiles_m * p.order.tiles_n, plane = p.batch * tiles * (WAVES * OF_WAVE);
        uint32_t at = ((grid.z * tiles + grid.x) * WAVES + wave) * OF_WAVE;
        bool is_last = grid.y + 1 == p.splits;
        if (__builtin_expect(is_last, 1)) Workspace::add(own, p.partial, at, plane, grid.y);
        else Workspace::leave(WorkspaceMemory(p.partial), at + grid.y * plane, own);
        return is_last;
    }

    // Writes what lies within C of the workgroup's part: finished, as Epilogue has it, or raw as one split of k.
    template <class Epilogue, class Problem>
    __device__ __forceinline__ void store(const Problem &problem, LdsBytes lds, const TileCoordinates &coords,
                                          bool raw) {
        const MatmulProblem &p = product_of(problem);
        LDS_MEMORY Sum *strip = (LDS_MEMORY Sum *)(lds + wave * strip_bytes(STRIP));
        Epilogue epilogue(problem, coords.z);
        Sum *partial = (Sum *)p.partial + ((uint64_t)coords.y * p.batch + coords.z) * p.gemm.n * p.gemm.m;
        uint32_t rows = UNEVEN ? min_of(p.gemm.m, coords.row + S::M) : p.gemm.m;
        bool has_vectors = raw ? vectors_at(partial, p.gemm.m) : epilogue.has_vectors;
        // One strip at a time, so that what is done to results is there once.
#pragma unroll 1
        for (int number = 0; number < STRIPS; number++) {
#pragma unroll
            for (int n = 0; n < STRIPS; n++)
                if (n == number) write_strip(strip, n);
            wave_fence();
            uint32_t strip_row = coords.row + row + number % (M / STRIP) * STRIP;
            uint32_t strip_column = coords.column + column + number / (M / STRIP) * Atom::COLUMNS;
#pragma unroll 1
            for (uint32_t i = lane_id(); i < STRIP * Atom::COLUMNS / V; i += S::WAVE) {
                uint32_t r = i % (STRIP / V) * V, c = i / (STRIP / V);
                uint32_t first = strip_row + r, at_column = strip_column + c;
                LDS_MEMORY Sum *from = strip + c * PITCH + r;
                if (first >= rows || at_column >= coords.columns) continue;
                bool whole = first + V <= rows && has_vectors;
                uint32_t count = has_vectors ? rows - first : min_of((uint32_t)V, rows - first);
                if (raw) {
                    Sum *to = partial + (uint64_t)at_column * p.gemm.m + first;
                    constexpr int N = VEC16<Sum>;
                    if (whole) {
#pragma unroll
                        for (int e = 0; e < V; e += N)
                            store_vector(to + e,
                                         bit_cast<vec<Sum, N>>(lds_load<WordVector<4>::type>((LdsBytes)(from + e))));
                    } else {
#pragma unroll 1
                        for (uint32_t e = 0; e < count; e++) to[e] = from[e];
                    }
                } else if (whole) {
                    epilogue.template store<V>(first, at_column, from);
                } else {
#pragma unroll 1
                    for (uint32_t e = 0; e < count; e++) epilogue.store(first + e, at_column, from[e]);
                }
            }
            wave_fence();
        }
    }
};
