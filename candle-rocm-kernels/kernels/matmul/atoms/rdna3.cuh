// RDNA3's WMMA: 16 x 16 sums over 16 of k. A lane holds a whole row, and the wavefront's halves the same rows.
//
//   A, in fragments of 16 elements      C, in 8 sums of a lane, whose column is lane % 16
//   row  0   lanes  0 and 16              row  0   lanes  0 .. 15   sum 0
//   row  1   lanes  1 and 17              row  1   lanes 16 .. 31   sum 0
//   ...                                   row  2   lanes  0 .. 15   sum 1
//   row 15   lanes 15 and 31              ...
//                                         row 15   lanes 16 .. 31   sum 7
//
// B as A, its columns in place of rows. 16 elements are two chunks, or one of i8.
#pragma once

template <class V, int CHUNKS_> struct WmmaBlock : LaneLoads {
    static constexpr int ROWS = 16, COLUMNS = 16, CHUNKS = CHUNKS_, STEP_CHUNKS = CHUNKS, LOADS = 1, INSTRUCTIONS = 1,
                         SUMS = 8;
    static constexpr bool UNROLLED = true;
    typedef ::Fragment<4, CHUNKS> Fragment;
    typedef V Sums __attribute__((ext_vector_type(SUMS)));
    static __device__ __forceinline__ uint32_t a_row(uint32_t lane) { return lane % 16; }
    static __device__ __forceinline__ uint32_t b_column(uint32_t lane) { return lane % 16; }
    static __device__ __forceinline__ uint32_t a_chunk(uint32_t) { return 0; }
    static __device__ __forceinline__ uint32_t b_chunk(uint32_t) { return 0; }
    static __device__ __forceinline__ uint32_t row(uint32_t lane, int i) { return 2 * i + lane / 16; }
    static __device__ __forceinline__ uint32_t column(uint32_t lane, int) { return lane % 16; }
};

template <> struct MmaAtom<half_t> : WmmaBlock<float, 2> {
    typedef half_t Row __attribute__((ext_vector_type(16)));
    static __device__ __forceinline__ void multiply(Sums &c, const Fragment &a, const Fragment &b, int instruction) {
        c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(operand_of<Row>(a, instruction), operand_of<Row>(b, instruction),
                                                       c);
    }
};
template <> struct MmaAtom<bf16_t> : WmmaBlock<float, 2> {
    typedef short Row __attribute__((ext_vector_type(16)));
    static __device__ __forceinline__ void multiply(Sums &c, const Fragment &a, const Fragment &b, int instruction) {
        c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(operand_of<Row>(a, instruction),
                                                        operand_of<Row>(b, instruction), c);
    }
};
template <> struct MmaAtom<int8_t> : WmmaBlock<int, 1> {
    typedef int Row __attribute__((ext_vector_type(4)));
    static __device__ __forceinline__ void multiply(Sums &c, const Fragment &a, const Fragment &b, int instruction) {
        c = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, operand_of<Row>(a, instruction), true,
                                                       operand_of<Row>(b, instruction), c, false);
    }
};
