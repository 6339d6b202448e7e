// Stages of a K-block in LDS, from which the matrix units' fragments are read.
//
// "Rows" are A's rows or B's columns. A stage holds its rows' elements of k in chunks of 16 bytes, the same chunk of
// all rows together, so that what a lane multiplies is one read of 16 bytes (of f64, 8).
//
// LDS, a stage of 16-bit or 32-bit elements: 16 bytes for each row, and as many free behind each eight of rows.
//
//   chunk 0               rows 0 .. 7 | free | 8 .. 15 | free | 32 .. 39 | free | 40 .. 47 | free | ...
//     HALF * 16 further   rows 16 .. 23 | free | 24 .. 31 | free | 48 .. 55 | free | 56 .. 63 | free | ...
//   chunk 1               CHUNK_PITCH further, likewise
#pragma once
#include "matmul/gemm_problem.cuh"
#include "portable/lds.cuh"

// A K-block's stages are staged by all threads, or by the first and the second half of them as ping-pong halves. What a
// wavefront knows of its half when it is compiled: it is the first, the second, or any.
enum PingPong { PING, PONG, PING_OR_PONG };

// Where a stage's chunks lie. Eight lanes that read or write 16 bytes each, 16 of 8, or 32 of 4, take turns, and shall
// touch all banks. Readers have eight consecutive rows, or (CDNA) four and the second four of another eight within 32.
// Writers of transposed blocks have rows a block apart, in KBlock::block's order: eights of rows (or of bytes, 32 rows)
// that differ in bits 8, 32 and 64. So 16 bytes follow each eight; and eights whose rows have bit 16, which shall lie
// as those 16 before, come after all others. Writers along k have the chunks of few rows, so chunks are shifted, too.
// Of f64 a lane reads one element, and 16 lanes the rows that follow one another: chunks are of 8 bytes, without gaps.
template <class T, int ROWS, int VECTORS> struct Stage {
    static constexpr int CHUNK = sizeof(T) == 8 ? 8 : 16, OF_VECTOR = 16 / CHUNK, CHUNKS = VECTORS * OF_VECTOR;
    // In chunks. Of rows without common bits, the sum's is the sum of theirs.
    static __host__ __device__ __forceinline__ constexpr uint32_t position(uint32_t row) {
        return sizeof(T) == 8   ? row
               : sizeof(T) == 1 ? row + row / 32
                                : row / 16 % 2 * HALF + (row / 8 % 2 + row / 32 * 2) * 9 + row % 8;
    }
    static constexpr uint32_t HALF = (ROWS / 16 * 9 + 7) / 8 * 8;
    static constexpr int POSITIONS = sizeof(T) == 8 ? ROWS : sizeof(T) == 1 ? ROWS + ROWS / 32 : 2 * HALF;
    static constexpr int LATE_ROW = 16;
    static constexpr int SHIFT = VECTORS >= 8 ? 16 : 128 / VECTORS; // of 16 bytes of k
    static constexpr int CHUNK_PITCH = (POSITIONS * CHUNK + 127) / 128 * 128 + SHIFT / OF_VECTOR;
    static constexpr int BYTES = (CHUNKS * CHUNK_PITCH + 127) / 128 * 128;

    static __device__ __forceinline__ uint32_t lds_offset(uint32_t row, uint32_t chunk) {
        return chunk * CHUNK_PITCH + position(row) * CHUNK;
    }
    // The place of a row that follows `to`'s, of the same 16 bytes of rows.
    static __device__ __forceinline__ LdsBytes after(LdsBytes to, int rows) { return to + rows * CHUNK; }
    // Writes a vector of k of a row.
    static __device__ __forceinline__ void store(LdsBytes to, WordVector<4>::type words) {
        if constexpr (CHUNK == 16) {
            lds_store(to, words);
        } else {
            lds_store(to, WordVector<2>::type(words.xy));
            lds_store(to + CHUNK_PITCH, WordVector<2>::type(words.zw));
        }
    }
};
