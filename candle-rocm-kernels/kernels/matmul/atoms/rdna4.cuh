// RDNA4's WMMA: 16 x 16 sums over 16 of k, of which each half of the wavefront holds one half.
//
//   A, in fragments of a chunk          C, in 8 sums of a lane, whose column is lane % 16
//            chunk 0    chunk 1           rows 0 ..  7   lanes  0 .. 15   sums 0 .. 7
//   row  0   lane  0    lane 16           rows 8 .. 15   lanes 16 .. 31   sums 0 .. 7
//   row  1   lane  1    lane 17
//   ...
//   row 15   lane 15    lane 31
//
// B as A, its columns in place of rows. Of i8 two chunks are two instructions' k, and each takes half of both.
#pragma once

template <class V, int INSTRUCTIONS_> struct WmmaBlock : LaneLoads {
    static constexpr int ROWS = 16, COLUMNS = 16, CHUNKS = 1, STEP_CHUNKS = 2, LOADS = 1, INSTRUCTIONS = INSTRUCTIONS_,
                         SUMS = 8;
    static constexpr bool UNROLLED = true;
    typedef ::Fragment<4, 1> Fragment;
    typedef V Sums __attribute__((ext_vector_type(SUMS)));
    static __device__ __forceinline__ uint32_t a_row(uint32_t lane) { return lane % 16; }
    static __device__ __forceinline__ uint32_t b_column(uint32_t lane) { return lane % 16; }
    static __device__ __forceinline__ uint32_t a_chunk(uint32_t lane) { return lane / 16; }
    static __device__ __forceinline__ uint32_t b_chunk(uint32_t lane) { return lane / 16; }
    static __device__ __forceinline__ uint32_t row(uint32_t lane, int i) { return lane / 16 * 8 + i; }
    static __device__ __forceinline__ uint32_t column(uint32_t lane, int) { return lane % 16; }
};

template <> struct MmaAtom<half_t> : WmmaBlock<float, 1> {
    typedef half_t Half __attribute__((ext_vector_type(8)));
    static __device__ __forceinline__ void multiply(Sums &c, const Fragment &a, const Fragment &b, int instruction) {
        c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(operand_of<Half>(a, instruction),
                                                             operand_of<Half>(b, instruction), c);
    }
};
template <> struct MmaAtom<bf16_t> : WmmaBlock<float, 1> {
    typedef short Half __attribute__((ext_vector_type(8)));
    static __device__ __forceinline__ void multiply(Sums &c, const Fragment &a, const Fragment &b, int instruction) {
        c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(operand_of<Half>(a, instruction),
                                                              operand_of<Half>(b, instruction), c);
    }
};
template <> struct MmaAtom<int8_t> : WmmaBlock<int, 2> {
    typedef int Half __attribute__((ext_vector_type(2)));
    static __device__ __forceinline__ void multiply(Sums &c, const Fragment &a, const Fragment &b, int instruction) {
        c = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, operand_of<Half>(a, instruction), true,
                                                             operand_of<Half>(b, instruction), c, false);
    }
};
