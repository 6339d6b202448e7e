// FP8 (e4m3) by matrix units: as they are where a unit takes them, upcast to f16 elsewhere, which holds each exactly.
//
// Operands are prepared: no element is NaN or -0. So they are the same bytes for all GPUs. gfx940 to gfx942 take
// another e4m3 (fnuz), whose bias is 8: the same bits are half as much there, which SCALE of either operand makes up
// for.
#pragma once
#include "matmul/atoms/atom.cuh"
#include "portable/convert.cuh"

template <> struct Product<f8e4m3_t> {
    using Sum = float;
    // As wide as what is written together.
    using C = bf16_t;
};

// Two elements of four, as f16. Fields moved into place have an exponent 8 too small; scaling also normalises, for the
// matrix units of gfx90a take denormal numbers for 0.
typedef half_t HalfTwo __attribute__((ext_vector_type(2)));
__device__ __forceinline__ HalfTwo upcast_two(uint32_t four, bool upper) {
#if defined(__CUDA__) && !defined(__HIP__) && __CUDA_ARCH__ >= 890
    uint32_t halves;
    uint16_t two = (uint16_t)(upper ? four >> 16 : four);
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(two));
    return bit_cast<HalfTwo>(halves);
#else
    uint32_t two = permute_bytes(four, 0, upper ? byte_selector(4, 2, 4, 3) : byte_selector(4, 0, 4, 1));
    uint32_t bits = (two & 0x80008000u) | ((two & 0x7f007f00u) >> 1);
    return bit_cast<HalfTwo>(bits) * (half_t)256.0f;
#endif
}
template <class V> __device__ __forceinline__ V upcast_four(uint32_t four) {
    HalfTwo lower = upcast_two(four, false), upper = upcast_two(four, true);
    return V{lower[0], lower[1], upper[0], upper[1]};
}
typedef half_t HalfSixteen __attribute__((ext_vector_type(16)));
template <class Words> __device__ __forceinline__ HalfSixteen upcast_sixteen(const Words &words) {
    HalfSixteen row;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        HalfTwo two = upcast_two(words[i / 2], i % 2 == 1);
        row[2 * i] = two[0], row[2 * i + 1] = two[1];
    }
    return row;
}
// The sum and the products of four elements each.
__device__ __forceinline__ float dot_four(uint32_t x, uint32_t y, float sum) {
#pragma unroll
    for (int upper = 0; upper < 2; upper++) {
        HalfTwo of_x = upcast_two(x, upper), of_y = upcast_two(y, upper);
#if defined(__HIP__) && !defined(__gfx1010__) && !defined(__gfx1013__)
        sum = __builtin_amdgcn_fdot2(of_x, of_y, sum, false);
#else
        sum = math::fma((float)of_x[1], (float)of_y[1], math::fma((float)of_x[0], (float)of_y[0], sum));
#endif
    }
    return sum;
}

#if defined(__CUDA__) && !defined(__HIP__)
// A lane's four k of either half are two pairs of an instruction of f16, the same of A and of B. (FP8 has instructions
// since PTX 8.4, newer than what we emit; Hopper widens their operands, too.)
template <> struct MmaAtom<f8e4m3_t> : MmaBlock<float> {
    static constexpr float SCALE = 1;
    static __device__ __forceinline__ uint32_t two(uint32_t four, bool upper) {
        return bit_cast<uint32_t>(upcast_two(four, upper));
    }
    static __device__ __forceinline__ void multiply(Sums &c, const Fragment &a, const Fragment &b, int instruction) {
        auto [a0, a1, a2, a3] = a.chunk[0];
        uint32_t b0 = b.chunk[0][2 * instruction], b1 = b.chunk[0][2 * instruction + 1];
        int first = 4 * instruction;
        float c0 = c[first], c1 = c[first + 1], c2 = c[first + 2], c3 = c[first + 3];
        auto half = [&](uint32_t low, uint32_t high, uint32_t of_b) INLINED {
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                         "{%8, %9}, {%0, %1, %2, %3};"
                         : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
                         : "r"(two(low, false)), "r"(two(high, false)), "r"(two(low, true)), "r"(two(high, true)),
                           "r"(two(of_b, false)), "r"(two(of_b, true)));
        };
        half(a0, a1, b0);
        half(a2, a3, b1);
        c[first] = c0, c[first + 1] = c1, c[first + 2] = c2, c[first + 3] = c3;
    }
};
#elif defined(AMD_MFMA) && AMD_MFMA >= 3
template <> struct MmaAtom<f8e4m3_t> : MfmaBlock<float, 2> {
    // gfx950 takes OCP's.
    static constexpr float SCALE = AMD_MFMA == 3 ? 2 : 1;
    static __device__ __forceinline__ void multiply(Sums &c, const Fragment &a, const Fragment &b, int instruction) {
        c = __builtin_amdgcn_mfma_f32_32x32x16_fp8_fp8(operand_of<long>(a, instruction),
                                                       operand_of<long>(b, instruction), c, 0, 0, 0);
    }
};
#elif defined(AMD_MFMA)
template <> struct MmaAtom<f8e4m3_t> : MfmaBlock<float, 4> {
    static constexpr float SCALE = 1;
    typedef half_t Four __attribute__((ext_vector_type(4)));
    static __device__ __forceinline__ void multiply(Sums &c, const Fragment &a, const Fragment &b, int instruction) {
        c = __builtin_amdgcn_mfma_f32_32x32x8f16(upcast_four<Four>(word_of<uint32_t>(a, instruction)),
                                                 upcast_four<Four>(word_of<uint32_t>(b, instruction)), c, 0, 0, 0);
    }
};
#elif defined(__GFX12__)
template <> struct MmaAtom<f8e4m3_t> : WmmaBlock<float, 2> {
    static constexpr float SCALE = 1;
    typedef int Half __attribute__((ext_vector_type(2)));
    static __device__ __forceinline__ void multiply(Sums &c, const Fragment &a, const Fragment &b, int instruction) {
        c = __builtin_amdgcn_wmma_f32_16x16x16_fp8_fp8_w32_gfx12(operand_of<Half>(a, instruction),
                                                                 operand_of<Half>(b, instruction), c);
    }
};
#elif defined(__GFX11__)
template <> struct MmaAtom<f8e4m3_t> : WmmaBlock<float, 1> {
    static constexpr float SCALE = 1;
    static __device__ __forceinline__ void multiply(Sums &c, const Fragment &a, const Fragment &b, int) {
        c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(upcast_sixteen(a.chunk[0]), upcast_sixteen(b.chunk[0]), c);
    }
};
#else
template <> struct MmaAtom<f8e4m3_t> : DotBlock<float> {
    static constexpr float SCALE = 1;
    static __device__ __forceinline__ void multiply(Sums &c, const Fragment &a, const Fragment &b, int instruction) {
        c = dot_four(word_of<uint32_t>(a, instruction), word_of<uint32_t>(b, instruction), c);
    }
};
#endif
