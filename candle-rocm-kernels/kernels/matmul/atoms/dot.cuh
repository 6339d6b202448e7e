// Without matrix instructions: a lane makes one sum of a block of 8 x 4 (of 8 x 8, where wavefronts have 64 lanes), by
// dot products of two (f16) or four (i8) elements an instruction; bf16, of which neither RDNA2 nor Vega has any, by two
// FMA.
//
//   A   a lane holds a chunk, or half of one, of row lane % 8
//   B   likewise of column lane / 8
//   C   a lane has the sum of row lane % 8 and column lane / 8
#pragma once

template <class V> struct DotBlock : LaneLoads {
    static constexpr int ROWS = 8, COLUMNS = WAVEFRONT / 8, CHUNKS = 1, STEP_CHUNKS = 1, SUMS = 1;
    // A lane has so many rows and columns that whole chunks of them would fill its registers.
    static constexpr int LOADS = 2, INSTRUCTIONS = 2;
    // Nor would all steps fit the instruction cache.
    static constexpr bool UNROLLED = false;
    typedef ::Fragment<2, 1> Fragment;
    typedef V Sums;
    static __device__ __forceinline__ uint32_t a_row(uint32_t lane) { return lane % 8; }
    static __device__ __forceinline__ uint32_t b_column(uint32_t lane) { return lane / 8; }
    static __device__ __forceinline__ uint32_t a_chunk(uint32_t) { return 0; }
    static __device__ __forceinline__ uint32_t b_chunk(uint32_t) { return 0; }
    static __device__ __forceinline__ uint32_t row(uint32_t lane, int) { return lane % 8; }
    static __device__ __forceinline__ uint32_t column(uint32_t lane, int) { return lane / 8; }
};

template <> struct MmaAtom<half_t> : DotBlock<float> {
    typedef half_t Two __attribute__((ext_vector_type(2)));
    static __device__ __forceinline__ void multiply(Sums &c, const Fragment &a, const Fragment &b, int instruction) {
        Two x = word_of<Two>(a, instruction), y = word_of<Two>(b, instruction);
#if !defined(__gfx1010__) && !defined(__gfx1013__)
        c = __builtin_amdgcn_fdot2(x, y, c, false);
#else
        c = math::fma((float)x[1], (float)y[1], math::fma((float)x[0], (float)y[0], c));
#endif
    }
};
template <> struct MmaAtom<bf16_t> : DotBlock<float> {
    static __device__ __forceinline__ float low(uint32_t two) { return bit_cast<float>(two << 16); }
    static __device__ __forceinline__ float high(uint32_t two) { return bit_cast<float>(two & 0xffff0000u); }
    static __device__ __forceinline__ void multiply(Sums &c, const Fragment &a, const Fragment &b, int instruction) {
        uint32_t x = word_of<uint32_t>(a, instruction), y = word_of<uint32_t>(b, instruction);
        c = math::fma(high(x), high(y), math::fma(low(x), low(y), c));
    }
};
template <> struct MmaAtom<int8_t> : DotBlock<int32_t> {
    static __device__ __forceinline__ void multiply(Sums &c, const Fragment &a, const Fragment &b, int instruction) {
        c = dot4(word_of<uint32_t>(a, instruction), word_of<uint32_t>(b, instruction), c);
    }
};
