// Products on matrix units: a workgroup computes a tile of C.
//
//   for each panel of k, for each of its slices:
//     stage    the panel's next slice, registers -> LDS     (the buffer that is not being read)
//     load     the next panel, global -> registers          (once this one's last slice has left)
//     multiply this slice, LDS -> registers -> sums
//   store      sums -> LDS -> global
//
// Types: a tile's shape (MatmulShape), an operand's panel and slice (matmul_panel.cuh), what a wavefront multiplies at
// a time (Operand, MatrixUnit) and its sums (WaveTile).
#pragma once
#include "matmul/matmul_panel.cuh"
#include "matmul/matmul_results.cuh"

// The tile that this workgroup makes. Workgroups are dealt to chiplets in turn, each with an L2 of its own, so each
// chiplet's shall be neighbours; and neighbours are tiles that share operands: `group` tiles of rows for one tile of
// columns after another.
struct TilePlace {
    uint32_t m;
    uint32_t n;
};
__device__ __forceinline__ TilePlace tile_place(const MatmulProblem &p) {
    uint32_t index = blockIdx.x;
    if (p.chiplets > 1) {
        uint32_t tiles = p.tiles_m * p.tiles_n, each = tiles / p.chiplets, more = tiles % p.chiplets;
        uint32_t chiplet = index % p.chiplets;
        index = chiplet * each + min_of(chiplet, more) + index / p.chiplets;
    }
    uint32_t group_tiles = p.group * p.tiles_n, group = index / group_tiles;
    uint32_t first = group * p.group, within = index - group * group_tiles;
    uint32_t rows = min_of(p.tiles_m - first, p.group);
    return {first + within % rows, within / rows};
}

// A wavefront's BLOCKS blocks of BLOCK rows of an operand, from row `first` on.
template <class T, class Slice, int BLOCKS, int BLOCK> struct Operand {
    using Unit = MatrixUnit<T>;
    using Fragment = typename Unit::Fragment;
    using Words = typename Fragment::Words;

    uint32_t at;
    Fragment fragment[BLOCKS];

    __device__ __forceinline__ Operand(uint32_t first, uint32_t lane_row)
        : at(Slice::place(first + lane_row, Unit::chunk(lane_id()))) {}

    // Reads the fragments of a step, or piece `piece` of them.
    __device__ __forceinline__ void load(LdsBytes slice, int step, int piece) {
#pragma unroll
        for (int i = 0; i < BLOCKS; i++)
#pragma unroll
            for (int c = 0; c < Unit::CHUNKS; c++) {
                int chunk = step * Unit::STEP_CHUNKS + c;
                fragment[i].chunk[c] = lds_load<Words>(slice + at + Slice::position(i * BLOCK) * Slice::CHUNK +
                                                       chunk * Slice::CHUNK_PITCH + piece * (int)sizeof(Words));
            }
    }
};

// A wavefront's part of the tile.
template <class T, class S> struct WaveTile {
    using Unit = MatrixUnit<T>;
    using Sum = typename Product<T>::Sum;
    using C = typename Product<T>::C;
    using SliceA = Slice<T, S::M, S::VECTORS>;
    using SliceB = Slice<T, S::N, S::VECTORS>;
    static constexpr int M = S::M / S::WAVES_M, N = S::N / S::WAVES_N;
    static constexpr int BLOCKS_M = M / Unit::ROWS, BLOCKS_N = N / Unit::COLUMNS;
    static constexpr int STEPS = SliceA::CHUNKS / Unit::STEP_CHUNKS, STEPS_UNROLLED = Unit::UNROLLED ? STEPS : 1;
    static_assert(M % Unit::ROWS == 0 && N % Unit::COLUMNS == 0 && STEPS > 0, "a wavefront has whole blocks and steps");
    static_assert(M % 32 == 0 || S::WAVES_M == 1, "a wavefront's rows begin with the same low bits");
    static_assert(N % 32 == 0 || S::WAVES_N == 1, "and its columns");

    typename Unit::Sums sums[BLOCKS_M][BLOCKS_N] = {};
    uint32_t wave = uniform(threadIdx.x / S::WAVE);
    uint32_t row = wave % S::WAVES_M * M, column = wave / S::WAVES_M * N;
    Operand<T, SliceA, BLOCKS_M, Unit::ROWS> a{row, Unit::a_row(lane_id())};
    Operand<T, SliceB, BLOCKS_N, Unit::COLUMNS> b{column, Unit::b_column(lane_id())};

    // Reads the fragments of a step, or piece `piece` of them.
    __device__ __forceinline__ void read(LdsBytes slice_a, LdsBytes slice_b, int step, int piece) {
        a.load(slice_a, step, piece);
        b.load(slice_b, step, piece);
    }

    // Adds the fragments' products to the sums.
    __device__ __forceinline__ void multiply() {
#pragma unroll
        for (int part = 0; part < Unit::PARTS; part++)
#pragma unroll
            for (int j = 0; j < BLOCKS_N; j++)
#pragma unroll
                for (int i = 0; i < BLOCKS_M; i++) Unit::multiply(sums[i][j], a.fragment[i], b.fragment[j], part);
    }

    // Nothing that makes the sums moves past it, nor reads of LDS before it.
    __device__ __forceinline__ void pin() {
#pragma unroll
        for (int j = 0; j < BLOCKS_N; j++)
#pragma unroll
            for (int i = 0; i < BLOCKS_M; i++) asm volatile("" : "+v"(sums[i][j])::"memory");
    }

    // The results go through LDS, so that a lane gets V consecutive rows of a column and neighbours get its other rows.
    // A wavefront has a place there for a strip: STRIP rows of a block of columns, with 16 bytes between columns for
    // the banks.
    static constexpr int V = VEC16<C>, PAD = 16 / (int)sizeof(Sum);
    static constexpr int strip_bytes(int rows) { return (rows + PAD) * Unit::COLUMNS * (int)sizeof(Sum); }
    static constexpr int strip_rows(int lds_bytes) {
        int rows = Unit::ROWS;
        while (2 * rows <= 64 && M % (2 * rows) == 0 && strip_bytes(2 * rows) * S::WAVES_M * S::WAVES_N <= lds_bytes)
            rows *= 2;
        return rows;
    }
    static constexpr int LDS_SLICES = 2 * (SliceA::BYTES + SliceB::BYTES);
    static constexpr int STRIP = strip_rows(LDS_SLICES), PITCH = STRIP + PAD;
    static constexpr int LDS_STRIPS = strip_bytes(STRIP) * S::WAVES_M * S::WAVES_N;
    static constexpr int LDS_BYTES = max_of(LDS_SLICES, LDS_STRIPS);
    static constexpr int STRIPS = M / STRIP * BLOCKS_N;

    __device__ __forceinline__ void write_strip(LDS_MEMORY Sum *strip, int number) const {
        uint32_t lane = lane_id();
        constexpr int BLOCKS = STRIP / Unit::ROWS;
#pragma unroll
        for (int i = 0; i < BLOCKS; i++) {
            auto block = sums[number % (M / STRIP) * BLOCKS + i][number / (M / STRIP)];
#pragma unroll
            for (int e = 0; e < Unit::SUMS; e++) {
                Sum sum;
                if constexpr (Unit::SUMS == 1) sum = block;
                else sum = block[e];
                strip[Unit::column(lane) * PITCH + i * Unit::ROWS + Unit::row(lane, e)] = sum;
            }
        }
    }

    // Writes what lies within C of the tile whose corner is (row0, column0): finished, or raw as part y of k.
    __device__ __forceinline__ void store(const MatmulProblem &p, LdsBytes lds, uint32_t row0, uint32_t column0,
                                          uint32_t y, uint32_t z) const {
        LDS_MEMORY Sum *strip = (LDS_MEMORY Sum *)(lds + wave * strip_bytes(STRIP));
        Results<T> results(p, z);
        Sum *partial = (Sum *)p.partial + ((uint64_t)y * p.batch + z) * p.gemm.n * p.gemm.m;
        // One strip at a time, so that what is done to results is there once.
#pragma unroll 1
        for (int number = 0; number < STRIPS; number++) {
#pragma unroll
            for (int n = 0; n < STRIPS; n++)
                if (n == number) write_strip(strip, n);
            wave_fence();
            uint32_t strip_row = row0 + row + number % (M / STRIP) * STRIP;
            uint32_t strip_column = column0 + column + number / (M / STRIP) * Unit::COLUMNS;
#pragma unroll 1
            for (uint32_t i = lane_id(); i < STRIP * Unit::COLUMNS / V; i += S::WAVE) {
                uint32_t r = i % (STRIP / V) * V, c = i / (STRIP / V);
                uint32_t first = strip_row + r, at_column = strip_column + c;
                LDS_MEMORY Sum *from = strip + c * PITCH + r;
                if (first >= p.gemm.m || at_column >= p.gemm.n) continue;
                bool whole = first + V <= p.gemm.m;
                uint32_t count = whole ? V : p.gemm.m - first;
                if (p.parts > 1) {
                    Sum *to = partial + (uint64_t)at_column * p.gemm.m + first;
                    constexpr int N = VEC16<Sum>;
                    if (whole) {
#pragma unroll
                        for (int e = 0; e < V; e += N)
                            store_at(to + e,
                                     bit_cast<vec<Sum, N>>(lds_load<WordVector<4>::type>((LdsBytes)(from + e))));
                    } else {
#pragma unroll 1
                        for (uint32_t e = 0; e < count; e++) to[e] = from[e];
                    }
                } else if (whole) {
                    results.template store<V>(first, at_column, from);
                } else {
#pragma unroll 1
                    for (uint32_t e = 0; e < count; e++) results.store(first + e, at_column, from[e]);
                }
            }
            wave_fence();
        }
    }
};

// Grid: x tiles, y parts of k, z batch. Workgroup: S::THREADS.
template <class T, class S, Op OP_A, Op OP_B> __device__ __forceinline__ void matmul_tile(const MatmulProblem &p) {
    using Tile = WaveTile<T, S>;
    using PanelA = Panel<T, S::M, S, OP_A == Op::T>;
    using PanelB = Panel<T, S::N, S, OP_B == Op::N>;
    static_assert(Tile::LDS_BYTES <= 65536, "what a workgroup may have");
    __shared__ char lds_array[Tile::LDS_BYTES] __attribute__((aligned(128)));
    LdsBytes lds = (LdsBytes)lds_array;
    auto slice_a = [&](uint32_t buffer) INLINED {
        return lds + buffer * (PanelA::Slice::BYTES + PanelB::Slice::BYTES);
    };
    auto slice_b = [&](uint32_t buffer) INLINED {
        return slice_a(buffer) + PanelA::Slice::BYTES;
    };

    const GemmProblem &g = p.gemm;
    TilePlace place = tile_place(p);
    uint32_t row0 = place.m * S::M, column0 = place.n * S::N, y = blockIdx.y, z = blockIdx.z;
    uint32_t begin = 0, end = g.k;
    if (p.parts > 1) {
        begin = min_of((uint64_t)y * p.part_k, (uint64_t)g.k);
        end = min_of(g.k - begin, p.part_k) + begin;
    }
    PanelA a((const T *)g.a + z * g.stride_a, g.lda, row0, g.m, begin, end);
    PanelB b((const T *)g.b + z * g.stride_b, g.ldb, column0, g.n, begin, end);
    Tile tile;

    uint32_t panels = min_of(a.panels(), b.panels()), buffer = 0;

    // The schedule's clusters. Load: the next panel, global -> registers.
    auto load = [&]() INLINED {
        a.load();
        b.load();
    };
    // Stage: a slice of the panel, registers -> LDS.
    auto stage = [&](auto turn, uint32_t buffer, int slice) INLINED {
        a.template stage<turn.value>(slice_a(buffer), slice);
        b.template stage<turn.value>(slice_b(buffer), slice);
    };
    // Multiply: a slice, LDS -> registers -> sums.
    auto multiply = [&](uint32_t buffer) INLINED {
#pragma unroll Tile::STEPS_UNROLLED
        for (int step = 0; step < Tile::STEPS; step++)
#pragma unroll
            for (int piece = 0; piece < Tile::Unit::PIECES; piece++) {
                tile.read(slice_a(buffer), slice_b(buffer), step, piece);
                tile.multiply();
                // Reading ahead, the compiler would run out of registers. There are other wavefronts to wait with.
                if (S::WAVE == 32) tile.pin();
            }
    };

    // The schedule: what stands between two barriers runs while others multiply. `more` says that a panel follows.
    auto start = [&](auto turn) INLINED {
        load();
        stage(turn, 0, 0);
        lds_barrier();
    };
    auto multiply_panel = [&](auto turn, auto more) INLINED {
#pragma unroll
        for (int j = 0; j < S::SLICES; j++) {
            uint32_t now = S::SLICES % 2 == 0 ? j % 2 : buffer, next = now ^ 1;
            if (j + 1 < S::SLICES) stage(turn, next, j + 1);
            // The panel's registers are free before its last two slices, or, if it has but one, before that.
            if (j == max_of(S::SLICES - 2, 0) && more) load();
            multiply(now);
            if (j + 1 == S::SLICES && more) stage(turn, next, 0);
            lds_barrier();
            buffer ^= 1;
        }
    };
    auto multiply_panels = [&](auto turn) INLINED {
        start(turn);
        uint32_t left = panels;
#pragma unroll 1
        do multiply_panel(turn, Constant<true>());
        while (--left > 1);
        multiply_panel(turn, Constant<false>());
    };

    // Where two turns have loops of their own, neither has a branch, and what they stage is known when they are
    // compiled. So are the last panel, after which none is loaded, and a single one, for whose sake a loop's registers
    // would be copied.
    constexpr Constant<ANY_TURN> any;
    if constexpr (!Tile::Unit::UNROLLED) {
        if (panels > 0) {
            start(any);
#pragma unroll 1
            for (uint32_t left = panels; left > 0; left--) multiply_panel(any, left > 1);
        }
    } else if (panels == 1) {
        start(any);
        multiply_panel(any, Constant<false>());
    } else if (panels > 1) {
        if constexpr (!PanelA::IN_TURNS && !PanelB::IN_TURNS) multiply_panels(any);
        else if (uniform(threadIdx.x / (S::THREADS / 2)) == 0) multiply_panels(Constant<FIRST_TURN>());
        else multiply_panels(Constant<SECOND_TURN>());
    }
    // What is left of k, and products that `panels` excludes.
#pragma unroll 1
    for (uint32_t k = begin + panels * PanelA::PANEL; k < end; k += PanelA::DEPTH) {
        a.stage_any(slice_a(0), k);
        b.stage_any(slice_b(0), k);
        lds_barrier();
        multiply(0);
        lds_barrier();
    }
    tile.store(p, lds, row0, column0, y, z);
}
