// Products of f32 and f64 where no matrix unit has them: a lane makes one sum of a block of 8 x 4 (8 x 8, where
// wavefronts have 64 lanes), of half a chunk of k of its row and its column.
#pragma once
#include "matmul/atoms/atom.cuh"

template <class T> struct VectorBlock : LaneLoads {
    static constexpr int ROWS = 8, COLUMNS = WAVEFRONT / 8, CHUNKS = 1, STEP_CHUNKS = 1, SUMS = 1;
    static constexpr int LOADS = sizeof(T) == 4 ? 2 : 1, INSTRUCTIONS = sizeof(T) == 4 ? 2 : 1;
    static constexpr bool UNROLLED = false;
    typedef ::Fragment<2, 1> Fragment;
    typedef T Sums;
    static __device__ __forceinline__ uint32_t a_row(uint32_t lane) { return lane % 8; }
    static __device__ __forceinline__ uint32_t b_column(uint32_t lane) { return lane / 8; }
    static __device__ __forceinline__ uint32_t a_chunk(uint32_t) { return 0; }
    static __device__ __forceinline__ uint32_t b_chunk(uint32_t) { return 0; }
    static __device__ __forceinline__ uint32_t row(uint32_t lane, int) { return lane % 8; }
    static __device__ __forceinline__ uint32_t column(uint32_t lane, int) { return lane / 8; }
    static __device__ __forceinline__ void multiply(Sums &c, const Fragment &a, const Fragment &b, int instruction) {
        if constexpr (sizeof(T) == 4) c = math::fma(word_of<float>(a, instruction), word_of<float>(b, instruction), c);
        else c = math::fma(bit_cast<double>(a.chunk[0]), bit_cast<double>(b.chunk[0]), c);
    }
};

#if !defined(AMD_MFMA)
template <> struct MmaAtom<float> : VectorBlock<float> {};
#endif
#if defined(__HIP__) && (!defined(AMD_MFMA) || AMD_MFMA == 1)
template <> struct MmaAtom<double> : VectorBlock<double> {};
#endif
