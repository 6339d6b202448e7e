// How a tile's sums become results: where nothing is done to them but the factor, and they are all C's, by the shortest
// code; else as epilogue/epilogue.cuh has it.
#pragma once
#include "matmul/main_loop/wave_tile.cuh"
#include "portable/cold_path.cuh"

// A wavefront's sums of a tile that lies within C, where nothing follows but the factor: through LDS, 64 rows of a
// block of columns at a time, so that eight lanes write a line of C, or 32 where it has no more. What is done to them
// is there once: a launch has few workgroups for each instruction cache, and the first waits for every line of code.
template <class Tile> struct WholeTile {
    using Atom = typename Tile::Atom;
    using Sum = typename Tile::Sum;
    using C = typename Tile::C;
    static constexpr int ROWS = Tile::UNEVEN ? 32 : min_of(Tile::STRIP, 64), CHUNK = 16,
                         COLUMN = ROWS * (int)sizeof(Sum), CHUNKS = COLUMN / CHUNK;
    static constexpr int LDS_BYTES = COLUMN * Atom::COLUMNS, PASSES = Tile::M / ROWS * Tile::BLOCKS_N;
    // Rows of a vector of C, and of a chunk.
    static constexpr int V = VEC16<C>, TOGETHER = CHUNK / (int)sizeof(Sum), OF_VECTOR = V / TOGETHER;
    static constexpr int VECTORS = CHUNKS / OF_VECTOR;
    static_assert(TOGETHER == 4 && Atom::ROWS == 32 && Atom::SUMS == 16, "a lane has every other chunk of a column");

    // A column has the first chunks of its vectors, then the second ones. They are swizzled by the column's number.
    static __device__ __forceinline__ uint32_t lds_offset(uint32_t column, uint32_t chunk) {
        return column * COLUMN + (chunk ^ column % CHUNKS) * CHUNK;
    }

    // `lds` is the workgroup's, `alpha` the factor.
    static __device__ __forceinline__ void store(const Tile &tile, LdsBytes lds, const TileCoordinates &coords, C *c,
                                                 int64_t ldc, Sum alpha) {
        constexpr int EACH = WAVEFRONT / VECTORS, STORES = Atom::COLUMNS / EACH, UNROLLED = PASSES > 1 ? STORES : 1;
        uint32_t lane = lane_id(), column = lane / VECTORS, vector = lane % VECTORS;
        lds += tile.wave * LDS_BYTES;
        LdsBytes to = lds + lds_offset(Atom::column(lane, 0), lane / Atom::COLUMNS * (OF_VECTOR > 1 ? VECTORS : 1));
        LdsBytes from = lds + lds_offset(column, vector);
        c += (coords.column + tile.column) * ldc + coords.row + tile.row + column * ldc + vector * V;
        // Columns of the first rows, then of the next.
        int passes = tile.blocks() * Atom::ROWS / ROWS * Tile::BLOCKS_N;
#pragma unroll 1
        for (int pass = 0; pass < passes; pass++) {
#pragma unroll
            for (int n = 0; n < PASSES; n++)
                if (n == pass) write(tile, to, n / Tile::BLOCKS_N * ROWS / Atom::ROWS, n % Tile::BLOCKS_N);
            wave_fence();
            C *at = c + pass / Tile::BLOCKS_N * ROWS + pass % Tile::BLOCKS_N * Atom::COLUMNS * ldc;
#pragma unroll UNROLLED
            for (int i = 0; i < STORES; i++) {
                Sum scaled[V];
#pragma unroll
                for (int j = 0; j < OF_VECTOR; j++) {
                    LdsBytes chunk = swizzled_chunk(from, j * VECTORS ^ i * EACH % CHUNKS) + i * EACH * COLUMN;
                    auto sums = bit_cast<vec<Sum, TOGETHER>>(lds_load<WordVector<4>::type>(chunk));
#pragma unroll
                    for (int e = 0; e < TOGETHER; e++) scaled[j * TOGETHER + e] = alpha * sums[e];
                }
                store_vector(at, round_all_to<C>(scaled));
                at += EACH * ldc;
            }
            wave_fence();
        }
    }

private:
    // The sums of ROWS rows from block `first` on.
    static __device__ __forceinline__ void write(const Tile &tile, LdsBytes to, int first, int column) {
#pragma unroll
        for (int i = 0; i < CHUNKS / 2; i++) {
            constexpr int OF_BLOCK = Atom::SUMS / TOGETHER;
            auto sums = tile.sums[first + i / OF_BLOCK][column];
            vec<Sum, TOGETHER> chunk;
#pragma unroll
            for (int e = 0; e < TOGETHER; e++) chunk[e] = sums[i % OF_BLOCK * TOGETHER + e];
            lds_store(swizzled_chunk(to, i * (OF_VECTOR > 1 ? 1 : 2)), bit_cast<WordVector<4>::type>(chunk));
        }
    }
};

// Whether a kernel that transposes none, one or both of its operands lacks scalar registers to keep what its end needs,
// and reads that anew there, which takes a scalar load's time.
constexpr bool lacks_registers(int transposed) {
#if !defined(__HIP__) || WAVEFRONT == 32
    return false;
#elif defined(AMD_MFMA) && AMD_MFMA > 2
    return transposed == 2;
#else
    return true;
#endif
}

// Reduces a split's sums in the kernel, or stores them: as results, or raw.
template <class GemmTraits, class T, class S, bool ANEW, class Tile, class Problem>
__device__ __forceinline__ void store_tile(Tile &tile, const Problem &kept, LdsBytes lds,
                                           const TileCoordinates &coords) {
    const Problem &problem = ANEW ? (const Problem &)cold_path(kept) : kept;
    const MatmulProblem &p = product_of(problem);
    bool raw = p.splits > 1;
    if constexpr (Tile::REDUCES_IN_KERNEL && is_same<Problem, MatmulProblem>::value) {
        if (__builtin_expect(p.split_k_reduction == SPLIT_K_IN_KERNEL, 1)) {
            if (!tile.reduce_in_kernel(p)) return;
            raw = false;
        }
    }
    using Atom = typename Tile::Atom;
    if constexpr (Atom::ROWS == 32 && Atom::SUMS == 16) {
        static_assert(S::WAVES_M * S::WAVES_N * WholeTile<Tile>::LDS_BYTES <= Tile::LDS_BYTES, "wavefronts' places");
        bool whole = p.gemm.m - coords.row >= S::M && coords.columns - coords.column >= S::N;
        typename Tile::Sum factor;
        auto *c = raw ? nullptr : GemmTraits::bare(problem, coords.z, factor);
        if (__builtin_expect(whole && c, 1)) return WholeTile<Tile>::store(tile, lds, coords, c, p.gemm.ldc, factor);
    }
    tile.template store<typename GemmTraits::Epilogue>(problem, lds, coords, raw);
}
