// Skinny products of weights in FP8 with columns of 16 bits, as they are in decoding: half of the bytes of a product of
// 16 bits, and no cast of the columns. A lane widens 16 weights to the columns' type, which holds each exactly, and
// multiplies them with two vectors of a column; the sums of each 128 of k are scaled by the factor that 128 x 128
// weights share.
//
// Weights are prepared (atoms/fp8.cuh): no element is NaN or -0.
#pragma once
#include "matmul/skinny/fp8.cuh"
#include "matmul/skinny/normed.cuh"

typedef uint32_t Words2 __attribute__((ext_vector_type(2)));

// Two of four weights as a word of Ts, each divided by WIDENED_SCALE.
template <class T> constexpr float WIDENED_SCALE = 1;
template <class T> __device__ __forceinline__ uint32_t widened_two(uint32_t four, bool upper) {
    return bit_cast<uint32_t>(upcast_two(four, upper));
}
#if defined(AMD_MFMA) && AMD_MFMA == 3
// The instruction of gfx942 takes a bias of 8 where OCP's is 7.
template <> constexpr float WIDENED_SCALE<bf16_t> = 2;
#endif
template <> __device__ __forceinline__ uint32_t widened_two<bf16_t>(uint32_t four, bool upper) {
#if defined(__CUDA__) && !defined(__HIP__)
    // A bf16 is the upper half of a float, and these have three bits of mantissa.
    HalfTwo two = upcast_two(four, upper);
    return high_halves(bit_cast<uint32_t>((float)two[0]), bit_cast<uint32_t>((float)two[1]));
#else
    typedef float Two __attribute__((ext_vector_type(2)));
#if (defined(AMD_MFMA) && AMD_MFMA >= 3) || defined(__GFX12__)
    Two x =
        upper ? __builtin_amdgcn_cvt_pk_f32_fp8((int)four, true) : __builtin_amdgcn_cvt_pk_f32_fp8((int)four, false);
#else
    auto widened = [](uint32_t top) INLINED {
        return bit_cast<float>((top & 0x80000000u) | ((top & 0x7f000000u) >> 4)) * 0x1p120f;
    };
    Two x = {widened(four << (upper ? 8 : 24)), widened(four << (upper ? 0 : 16))};
#endif
    // A bf16 is the upper half of a float, and these have three bits of mantissa.
    return high_halves(bit_cast<uint32_t>((float)x[0]), bit_cast<uint32_t>((float)x[1]));
#endif
}
// Four of them.
template <class T> __device__ __forceinline__ Words2 widened_four(uint32_t four) {
    return Words2{widened_two<T>(four, false), widened_two<T>(four, true)};
}

// What a lane multiplies at a time: 16 weights of a row, and 16 elements of a column.
template <class T, int COLUMNS> struct WeightAtom : FmaAtom<T, COLUMNS, false> {
    using Base = FmaAtom<T, COLUMNS, false>;
    using typename Base::Sums;
    static __device__ __forceinline__ void multiply(Sums &sums, const Words4 (&a)[1],
                                                    const Words4 (&b)[Base::B_VECTORS][2]) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            Words2 low = widened_four<T>(a[0][2 * half]), high = widened_four<T>(a[0][2 * half + 1]);
#pragma unroll
            for (int j = 0; j < Base::B_VECTORS; j++)
                sums.v[j] = dot<T>(Words4{low[0], low[1], high[0], high[1]}, b[j][half], sums.v[j]);
        }
    }
};

#if defined(AMD_MFMA)
template <class T> struct WeightMfmaAtom : SixteenAtom<64, 1, 4, 4, 1, 4> {
    static constexpr int UNROLL = 4;
    static __device__ __forceinline__ void multiply(Sums &sums, const Words4 (&a)[1], const Words4 (&b)[1][2]) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            Words2 row = widened_four<T>(a[0][i]), column = half_of_words<Words2>(b[0][i / 2], i % 2);
#if AMD_MFMA == 1
            if constexpr (is_same<T, bf16_t>::value) {
                typedef short Two __attribute__((ext_vector_type(2)));
#pragma unroll
                for (int w = 0; w < 2; w++)
                    sums.v = __builtin_amdgcn_mfma_f32_16x16x8bf16(bit_cast<Two>((uint32_t)row[w]),
                                                                   bit_cast<Two>((uint32_t)column[w]), sums.v, 0, 0, 0);
            } else
#endif
                SixteenColumns<T>::multiply(sums.v, row, column);
        }
    }
};
#define WEIGHT_ATOM WeightMfmaAtom
#elif defined(__GFX12__)
template <class T> struct WeightWmmaAtom : SixteenAtom<32, 1, 2, 8, 1, 8> {
    static constexpr int UNROLL = 4;
    static __device__ __forceinline__ void multiply(Sums &sums, const Words4 (&a)[1], const Words4 (&b)[1][2]) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            Words2 low = widened_four<T>(a[0][2 * half]), high = widened_four<T>(a[0][2 * half + 1]);
            SixteenColumns<T>::multiply(sums.v, Words4{low[0], low[1], high[0], high[1]}, b[0][half]);
        }
    }
};
#define WEIGHT_ATOM WeightWmmaAtom
#elif defined(__GFX11__)
template <class T> struct WeightWmmaAtom : SixteenAtom<32, 1, 1, 8, 2, 1> {
    static __device__ __forceinline__ void multiply(Sums &sums, const Words4 (&a)[1], const Words4 (&b)[1][2]) {
        Words4 row[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            Words2 low = widened_four<T>(a[0][2 * half]), high = widened_four<T>(a[0][2 * half + 1]);
            row[half] = Words4{low[0], low[1], high[0], high[1]};
        }
        typename WmmaAtom<T>::Sums all{sums.v};
        WmmaAtom<T>::multiply(all, row, b);
        sums.v = all.v;
    }
};
#define WEIGHT_ATOM WeightWmmaAtom
#elif defined(SKINNY_MMA)
template <class T, int COLUMNS, bool NORMS> struct WeightMmaAtom : MmaSyncAtom<T, COLUMNS> {
    using Base = MmaSyncAtom<T, COLUMNS>;
    using typename Base::Sums;
    // Blocks of rows that read each vector of B once: more where it is normed by each workgroup. Weights of a step in a
    // lane are as many. (One H200, of 1 to 4 blocks and 2 to 8 vectors.)
    static constexpr int TILES = NORMS ? 4 : 2, NORMED_TILES = TILES, UNROLL = NORMS ? 2 : 4;
    static __device__ __forceinline__ void multiply(Sums &sums, const Words4 (&a)[1],
                                                    const Words4 (&b)[Base::B_VECTORS][2]) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            Words2 row = widened_four<T>(a[0][i]), column = half_of_words<Words2>(b[0][i / 2], i % 2), other = {};
            if constexpr (Base::B_VECTORS == 2) other = half_of_words<Words2>(b[1][i / 2], i % 2);
            Base::multiply_once(sums.v, column[0], column[1], other[0], other[1], row[0], row[1]);
        }
    }
};
template <class T, int COLUMNS, bool NORMS> struct AtomOf<f8e4m3_t, T, COLUMNS, false, NORMS> {
    using Atom = WeightMmaAtom<T, COLUMNS, NORMS>;
};
#else
template <class T, int COLUMNS, bool NORMS> struct AtomOf<f8e4m3_t, T, COLUMNS, false, NORMS> {
    using Atom = WeightAtom<T, COLUMNS>;
};
#endif
#if defined(WEIGHT_ATOM)
template <class T, bool NORMS> struct AtomOf<f8e4m3_t, T, 16, false, NORMS> {
    using Atom = WEIGHT_ATOM<T>;
};
#endif

// Factors of weights, f32: that of row r and element k is values[(r >> row_shift) * row_step + k / 128 * k_step].
struct WeightFactors {
    const float *values;
    uint32_t row_step;
    uint32_t k_step;
    uint32_t row_shift;
};

// An input whose sums of each 128 of k are scaled by the weights' factors, of which a warp's rows share one, or, where
// some are gates and others what those are for, each half of its rows. STORED is how many rows a half has.
template <class Base, class T, uint32_t STORED> struct ScaledWeights : Base {
    static constexpr bool SCALES = true;
    static constexpr int BLOCK = 128;

    WeightFactors factors;
    uint32_t of_row[2];

    // Before the product's loop.
    template <class Atom, class TileOperands>
    __device__ __forceinline__ void find_factors(const TileOperands &at, uint32_t) {
        uint32_t row = min_of(at.first + at.warp_row, at.m - 1);
        of_row[0] = (row >> factors.row_shift) * factors.row_step;
        of_row[1] = ((row + at.m) >> factors.row_shift) * factors.row_step;
    }

    template <class Atom> struct Factors {
        float of_half[2];
    };
    template <class Atom, class TileOperands>
    __device__ __forceinline__ Factors<Atom> load(const TileOperands &at, uint32_t, uint32_t k) const {
        uint32_t block = min_of(at.first_k + k, at.length - 1) / BLOCK * factors.k_step;
        const GLOBAL_MEMORY float *values = (const GLOBAL_MEMORY float *)factors.values + block;
        Factors<Atom> found;
        found.of_half[0] = values[of_row[0]];
        found.of_half[1] = STORED > 0 ? values[of_row[1]] : 0;
        return found;
    }
    // Adds a lane's sums of a block. `row_of` gives a tile's row at a place.
    template <class Atom, class TileOperands, int TILES, class F>
    __device__ __forceinline__ void promote(const TileOperands &, uint32_t lane, typename Atom::Sums (&to)[TILES],
                                            const typename Atom::Sums (&sums)[TILES], const Factors<Atom> &found,
                                            F row_of) const {
        float of_columns[Atom::B_VECTORS];
#pragma unroll
        for (int j = 0; j < Atom::B_VECTORS; j++) of_columns[j] = WIDENED_SCALE<T>;
#pragma unroll
        for (int i = 0; i < TILES; i++)
            Atom::promote(to[i], sums[i], lane, of_columns, [&](uint32_t place) INLINED {
                // No index: that would put both in memory.
                return STORED > 0 && row_of(i, place) >= STORED ? found.of_half[1] : found.of_half[0];
            });
    }
};
