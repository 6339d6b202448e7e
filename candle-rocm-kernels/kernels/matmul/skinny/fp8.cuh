// What a warp of lanes multiplies of FP8 where C has few columns (skinny/atom.cuh): 16 elements of a row and of a
// column, by instructions of FP8 or upcast to f16, as the units of larger products do (atoms/fp8.cuh).
#pragma once
#include "matmul/skinny/atom.cuh"
#include "matmul/atoms/fp8.cuh"

template <>
__device__ __forceinline__ float dot<f8e4m3_t>(const Words4 &a, const Words4 &b, float sum) {
#pragma unroll
    for (int i = 0; i < 4; i++) sum = dot_four(a[i], b[i], sum);
    return sum;
}

#if defined(AMD_MFMA)
template <> struct MfmaAtom<f8e4m3_t> : SixteenAtom<64, 1, 4, 4, 1, 4> {
    static __device__ __forceinline__ void multiply(Sums &sums, const Words4 (&a)[1], const Words4 (&b)[1][1]) {
#if AMD_MFMA >= 3
#pragma unroll
        for (int i = 0; i < 2; i++)
            sums.v = __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(half_of_words<long>(a[0], i),
                                                                half_of_words<long>(b[0][0], i), sums.v, 0, 0, 0);
#else
        typedef half_t Four __attribute__((ext_vector_type(4)));
#pragma unroll
        for (int i = 0; i < 4; i++)
            sums.v = __builtin_amdgcn_mfma_f32_16x16x16f16(upcast_four<Four>(a[0][i]), upcast_four<Four>(b[0][0][i]),
                                                           sums.v, 0, 0, 0);
#endif
    }
};
#elif defined(__GFX12__)
template <> struct WmmaAtom<f8e4m3_t> : SixteenAtom<32, 1, 2, 8, 1, 8> {
    static __device__ __forceinline__ void multiply(Sums &sums, const Words4 (&a)[1], const Words4 (&b)[1][1]) {
        typedef int Half __attribute__((ext_vector_type(2)));
#pragma unroll
        for (int i = 0; i < 2; i++)
            sums.v = __builtin_amdgcn_wmma_f32_16x16x16_fp8_fp8_w32_gfx12(half_of_words<Half>(a[0], i),
                                                                          half_of_words<Half>(b[0][0], i), sums.v);
    }
};
#elif defined(__GFX11__)
template <> struct WmmaAtom<f8e4m3_t> : SixteenAtom<32, 1, 1, 8, 2, 1> {
    static __device__ __forceinline__ void multiply(Sums &sums, const Words4 (&a)[1], const Words4 (&b)[1][1]) {
        sums.v = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(upcast_sixteen(a[0]), upcast_sixteen(b[0][0]), sums.v);
    }
};
#elif defined(SKINNY_MMA)
template <int COLUMNS_> struct Fp8MmaSyncAtom : MmaSyncAtom<half_t, COLUMNS_> {
    using Base = MmaSyncAtom<half_t, COLUMNS_>;
    using typename Base::Sums;
    static __device__ __forceinline__ uint32_t two(uint32_t four, bool upper) {
        return bit_cast<uint32_t>(upcast_two(four, upper));
    }
    static __device__ __forceinline__ void multiply(Sums &sums, const Words4 (&a)[1],
                                                    const Words4 (&b)[Base::B_VECTORS][1]) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t low1 = 0, high1 = 0;
            if constexpr (Base::B_VECTORS == 2) low1 = two(b[1][0][i], false), high1 = two(b[1][0][i], true);
            Base::multiply_once(sums.v, two(b[0][0][i], false), two(b[0][0][i], true), low1, high1, two(a[0][i], false),
                                two(a[0][i], true));
        }
    }
};
template <int COLUMNS, bool ROWS_TOGETHER>
struct SkinnyAtom<f8e4m3_t, COLUMNS, ROWS_TOGETHER> : Fp8MmaSyncAtom<COLUMNS> {};
#endif
#if defined(SKINNY_ATOM)
template <bool ROWS_TOGETHER> struct SkinnyAtom<f8e4m3_t, 16, ROWS_TOGETHER> : SKINNY_ATOM<f8e4m3_t> {};
#endif
