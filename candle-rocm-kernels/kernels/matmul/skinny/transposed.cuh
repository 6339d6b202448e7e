// A whose rows are together, for NVIDIA's matrix instructions: a warp copies lines of A to LDS as they lie in memory,
// and reads vectors along k from there, as if k were together. Transposed in registers the lines of one step would
// take half of them; here the next step's are on their way meanwhile, and need none.
#pragma once
#include "matmul/skinny/atom.cuh"
#include "portable/lds.cuh"

#if defined(LDS_COPIES)
#include "matmul/atoms/atom.cuh"
#define SKINNY_TRANSPOSED

// The lines of a warp's steps: of ROWS rows each, as many as fill COPIES vectors of every lane.
template <class T, int ROWS> struct TransposedLines {
    static constexpr int V = VEC16<T>, SIZE = sizeof(T), LINE = ROWS * SIZE, CHUNKS = LINE / 16, AT_ONCE = 32 / CHUNKS;
    static constexpr int COPIES = 8, LINES = COPIES * AT_ONCE, STEP_BYTES = LINES * LINE, PREFETCH = 2;
    static constexpr int BYTES = PREFETCH * STEP_BYTES;
    static_assert(SIZE == 2 && CHUNKS == 4, "what ldmatrix transposes, and places are for");

    LdsBytes step, end, to, from;

    // Where a chunk of a line lies in a step: the eight chunks that a copy's lanes write together, or ldmatrix reads
    // together, have different banks.
    static __device__ __forceinline__ uint32_t lds_offset(uint32_t line, uint32_t chunk) {
        return line * LINE + (chunk ^ line / 8 % 4) * 16;
    }
    // A lane's line in the first copy, and its first row there.
    static __device__ __forceinline__ uint32_t line(uint32_t lane) { return lane / CHUNKS; }
    static __device__ __forceinline__ uint32_t row(uint32_t lane) { return lane % CHUNKS * V; }

    // `warp` has BYTES of LDS.
    __device__ __forceinline__ TransposedLines(LdsBytes warp, uint32_t lane)
        : step(warp), end(warp + BYTES), to(warp + lds_offset(line(lane), lane % CHUNKS)),
          from(warp + lds_offset(lane % 8 / 2 * V + lane / 8 * 2 + lane % 2, 0)) {}

    // Chunk `i` of a lane, of line line() + i * AT_ONCE: copied, or cleared if it is not `wanted`; or as it is held.
    __device__ __forceinline__ void copy(int i, const void *chunk, bool wanted) const {
        copy_or_clear(chunk_of(i), chunk, wanted);
    }
    __device__ __forceinline__ void store(int i, Words4 chunk) const { lds_store(chunk_of(i), chunk); }
    // Of row lane / 4 of so many eighth rows a vector along k, from u * 32 + lane % 4 * V on.
    __device__ __forceinline__ Words4 vector(int u, int eighth) const {
        return MmaBlock<float>::load_transposed<Words4>(swizzled_chunk(from + u * 32 * LINE, eighth));
    }
    // On to the next step's place.
    __device__ __forceinline__ void next_step() {
        bool last = step + STEP_BYTES == end;
        int bytes = last ? STEP_BYTES - BYTES : STEP_BYTES;
        step += bytes;
        to += bytes;
        from += bytes;
    }

private:
    __device__ __forceinline__ LdsBytes chunk_of(int i) const { return swizzled_chunk(to + i * AT_ONCE * LINE, i % 4); }
};
#endif
