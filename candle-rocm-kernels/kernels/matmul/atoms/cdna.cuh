// CDNA's MFMA: 32 x 32 sums, a row's eight bytes in a lane (four for some, on gfx950 sixteen), the lanes' halves at
// different k. In f64, which gfx908 has not, 16 x 16 sums and four groups of lanes.
//
//   A, in fragments of a chunk          C, in 16 sums of a lane, whose column is lane % 32
//            chunk 0    chunk 1           rows  0 ..  3   lanes 0 .. 31    sums  0 ..  3
//   row  0   lane  0    lane 32           rows  4 ..  7   lanes 32 .. 63   sums  0 ..  3
//   row  1   lane  1    lane 33           rows  8 .. 11   lanes 0 .. 31    sums  4 ..  7
//   ...                                   ...
//   row 31   lane 31    lane 63           rows 28 .. 31   lanes 32 .. 63   sums 12 .. 15
//
// B as A, its columns in place of rows. In f64 a lane has row (or column) lane % 16 of A and B, k lane / 16, and of C
// column lane % 16 and the rows lane / 16, 4 + lane / 16, 8 + lane / 16, 12 + lane / 16.
#pragma once

template <class V, int INSTRUCTIONS_> struct MfmaBlock : LaneLoads {
    static constexpr int ROWS = 32, COLUMNS = 32, CHUNKS = 1, STEP_CHUNKS = 2, LOADS = 1, INSTRUCTIONS = INSTRUCTIONS_,
                         SUMS = 16;
    static constexpr bool UNROLLED = true;
    typedef ::Fragment<4, 1> Fragment;
    typedef V Sums __attribute__((ext_vector_type(SUMS)));
    static __device__ __forceinline__ uint32_t a_row(uint32_t lane) { return lane % 32; }
    static __device__ __forceinline__ uint32_t b_column(uint32_t lane) { return lane % 32; }
    static __device__ __forceinline__ uint32_t a_chunk(uint32_t lane) { return lane / 32; }
    static __device__ __forceinline__ uint32_t b_chunk(uint32_t lane) { return lane / 32; }
    static __device__ __forceinline__ uint32_t row(uint32_t lane, int i) { return i / 4 * 8 + lane / 32 * 4 + i % 4; }
    static __device__ __forceinline__ uint32_t column(uint32_t lane, int) { return lane % 32; }
};

#if AMD_MFMA == 1
template <> struct MmaAtom<bf16_t> : MfmaBlock<float, 4> {
    typedef short Two __attribute__((ext_vector_type(2)));
    static __device__ __forceinline__ void multiply(Sums &c, const Fragment &a, const Fragment &b, int instruction) {
        c = __builtin_amdgcn_mfma_f32_32x32x4bf16(word_of<Two>(a, instruction), word_of<Two>(b, instruction), c, 0, 0,
                                                  0);
    }
};
#elif AMD_MFMA < 4
template <> struct MmaAtom<bf16_t> : MfmaBlock<float, 2> {
    typedef short Four __attribute__((ext_vector_type(4)));
    static __device__ __forceinline__ void multiply(Sums &c, const Fragment &a, const Fragment &b, int instruction) {
        c = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(operand_of<Four>(a, instruction), operand_of<Four>(b, instruction),
                                                     c, 0, 0, 0);
    }
};
#else
template <> struct MmaAtom<bf16_t> : MfmaBlock<float, 1> {
    typedef __bf16 Eight __attribute__((ext_vector_type(8)));
    static __device__ __forceinline__ void multiply(Sums &c, const Fragment &a, const Fragment &b, int instruction) {
        c = __builtin_amdgcn_mfma_f32_32x32x16_bf16(operand_of<Eight>(a, instruction),
                                                    operand_of<Eight>(b, instruction), c, 0, 0, 0);
    }
};
#endif
#if AMD_MFMA < 4
template <> struct MmaAtom<half_t> : MfmaBlock<float, 2> {
    typedef half_t Four __attribute__((ext_vector_type(4)));
    static __device__ __forceinline__ void multiply(Sums &c, const Fragment &a, const Fragment &b, int instruction) {
        c = __builtin_amdgcn_mfma_f32_32x32x8f16(operand_of<Four>(a, instruction), operand_of<Four>(b, instruction), c,
                                                 0, 0, 0);
    }
};
#else
template <> struct MmaAtom<half_t> : MfmaBlock<float, 1> {
    typedef half_t Eight __attribute__((ext_vector_type(8)));
    static __device__ __forceinline__ void multiply(Sums &c, const Fragment &a, const Fragment &b, int instruction) {
        c = __builtin_amdgcn_mfma_f32_32x32x16_f16(operand_of<Eight>(a, instruction), operand_of<Eight>(b, instruction),
                                                   c, 0, 0, 0);
    }
};
#endif
#if AMD_MFMA < 3
template <> struct MmaAtom<int8_t> : MfmaBlock<int, 4> {
    static __device__ __forceinline__ void multiply(Sums &c, const Fragment &a, const Fragment &b, int instruction) {
        c = __builtin_amdgcn_mfma_i32_32x32x8i8(word_of<int>(a, instruction), word_of<int>(b, instruction), c, 0, 0, 0);
    }
};
#elif AMD_MFMA == 3
template <> struct MmaAtom<int8_t> : MfmaBlock<int, 2> {
    static __device__ __forceinline__ void multiply(Sums &c, const Fragment &a, const Fragment &b, int instruction) {
        c = __builtin_amdgcn_mfma_i32_32x32x16_i8(operand_of<long>(a, instruction), operand_of<long>(b, instruction), c,
                                                  0, 0, 0);
    }
};
#else
template <> struct MmaAtom<int8_t> : MfmaBlock<int, 1> {
    typedef int Four __attribute__((ext_vector_type(4)));
    static __device__ __forceinline__ void multiply(Sums &c, const Fragment &a, const Fragment &b, int instruction) {
        c = __builtin_amdgcn_mfma_i32_32x32x32_i8(operand_of<Four>(a, instruction), operand_of<Four>(b, instruction), c,
                                                  0, 0, 0);
    }
};
#endif
template <> struct MmaAtom<float> : MfmaBlock<float, 4> {
    static __device__ __forceinline__ void multiply(Sums &c, const Fragment &a, const Fragment &b, int instruction) {
        c = __builtin_amdgcn_mfma_f32_32x32x2f32(word_of<float>(a, instruction), word_of<float>(b, instruction), c, 0,
                                                 0, 0);
    }
};
#if AMD_MFMA > 1
template <> struct MmaAtom<double> : LaneLoads {
    static constexpr int ROWS = 16, COLUMNS = 16, CHUNKS = 1, STEP_CHUNKS = 4, LOADS = 1, INSTRUCTIONS = 1, SUMS = 4;
    static constexpr bool UNROLLED = true;
    typedef ::Fragment<2, 1> Fragment;
    typedef double Sums __attribute__((ext_vector_type(4)));
    static __device__ __forceinline__ uint32_t a_row(uint32_t lane) { return lane % 16; }
    static __device__ __forceinline__ uint32_t b_column(uint32_t lane) { return lane % 16; }
    static __device__ __forceinline__ uint32_t a_chunk(uint32_t lane) { return lane / 16; }
    static __device__ __forceinline__ uint32_t b_chunk(uint32_t lane) { return lane / 16; }
    static __device__ __forceinline__ uint32_t row(uint32_t lane, int i) { return 4 * i + lane / 16; }
    static __device__ __forceinline__ uint32_t column(uint32_t lane, int) { return lane % 16; }
    static __device__ __forceinline__ void multiply(Sums &c, const Fragment &a, const Fragment &b, int) {
        c = __builtin_amdgcn_mfma_f64_16x16x4f64(bit_cast<double>(a.chunk[0]), bit_cast<double>(b.chunk[0]), c, 0, 0,
                                                 0);
    }
};
#endif
