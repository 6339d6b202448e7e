// What a warp of lanes multiplies at a time where C has few columns: matrix instructions that take their operands as
// they come from memory, or multiply-adds.
//
// A warp of LANES lanes has ROW_LANES places for rows of A and K_LANES for k, and B_VECTORS columns of B in a lane, of
// COLUMNS in all. At each step a lane holds DEPTH vectors of 16 bytes along k for each of its rows and columns; vector
// d of place l in k is the elements (d * K_LANES + l) * VEC16 on, of A and of B alike. `multiply` adds to a lane's sums
// of one of its rows, `Sums`, and `promote` does so with such sums times factors of their columns and rows. At the end
// `each` calls f(tile, row place, column, sum) with those that the lane is to store. Where k is together a step takes
// TILES rows in a lane (NORMED_TILES where each workgroup norms B first), and UNROLL vectors of each. BY says what
// multiplies, as lists of kernels have it (gemm_kernels.cuh).
//
//   k of a row of A, or of a column of B, in vectors of 16 bytes, by their places l:
//     | 0 | 1 | ... | K_LANES - 1 | 0 | 1 | ... | K_LANES - 1 | ...
//     |------ vector d = 0 -------|------ vector d = 1 -------|
#pragma once
#include "matmul/gemm_problem.cuh"
#include "portable/streams.cuh"

enum MultipliedBy { Lanes, Matrix };

// 16 bytes as they are loaded.
typedef uint32_t Words4 __attribute__((ext_vector_type(4)));

// Half `half` of the words as a V.
template <class V> __device__ __forceinline__ V half_of_words(const Words4 &words, int half) {
    typedef uint32_t Two __attribute__((ext_vector_type(2)));
    return bit_cast<V>(Two{words[2 * half], words[2 * half + 1]});
}

// Adds up N values each over the lanes that differ in the bits LOW .. HIGH (exclusive) of their index,
// and leaves a part of the sums in each lane: the first `KEPT` of v, which are sums `first(..)` on.
// Halving the values at each step moves N values where N reductions would move N log N.
template <class Acc, int N, uint32_t LOW, uint32_t HIGH> struct LaneReduction {
    static constexpr int LANES = HIGH / LOW;
    static constexpr int KEPT = N > LANES ? N / LANES : 1;

    // The index of v[0] in this lane.
    static __device__ __forceinline__ uint32_t first(uint32_t lane) {
        uint32_t index = 0;
        int count = N;
#pragma unroll
        for (uint32_t mask = LOW; mask < HIGH; mask <<= 1) {
            if (count == 1) break;
            count /= 2;
            if (lane & mask) index += count;
        }
        return index;
    }
    // One lane of those that hold the same sums.
    static __device__ __forceinline__ bool leads(uint32_t lane) {
        constexpr uint32_t SPREAD = LOW * (N < LANES ? N : LANES);
        return (lane & (HIGH - 1) & ~(SPREAD - 1)) == 0;
    }
    static __device__ __forceinline__ void run(Acc (&v)[N], uint32_t lane) { step<N, LOW>(v, lane); }

private:
    template <int COUNT, uint32_t MASK> static __device__ __forceinline__ void step(Acc (&v)[N], uint32_t lane) {
        if constexpr (MASK < HIGH) {
            if constexpr (COUNT > 1) {
                bool upper = lane & MASK;
#pragma unroll
                for (int i = 0; i < COUNT / 2; i++) {
                    Acc one = v[i], other = v[i + COUNT / 2];
                    Acc give = upper ? one : other;
                    Acc own = upper ? other : one;
                    v[i] = own + shfl_xor(give, MASK, HIGH);
                }
                step<COUNT / 2, MASK * 2>(v, lane);
            } else {
                v[0] += shfl_xor(v[0], MASK, HIGH);
                step<1, MASK * 2>(v, lane);
            }
        }
    }
};

// ---------------------------------------------------------------- multiply-adds

// The sum and the product of two vectors' elements.
template <class T> __device__ __forceinline__ compute_t<T> dot(const Words4 &a, const Words4 &b, compute_t<T> sum) {
    if constexpr (is_same<T, bf16_t>::value) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            sum = math::fma(bit_cast<float>(a[i] << 16), bit_cast<float>(b[i] << 16), sum);
            sum = math::fma(bit_cast<float>(a[i] & 0xffff0000u), bit_cast<float>(b[i] & 0xffff0000u), sum);
        }
        return sum;
#if defined(__HIP__) && !defined(__gfx1010__) && !defined(__gfx1013__)
    } else if constexpr (is_same<T, half_t>::value) {
        typedef half_t Two __attribute__((ext_vector_type(2)));
#pragma unroll
        for (int i = 0; i < 4; i++) sum = __builtin_amdgcn_fdot2(bit_cast<Two>(a[i]), bit_cast<Two>(b[i]), sum, false);
        return sum;
#endif
    } else {
        typedef T Elements __attribute__((ext_vector_type(VEC16<T>)));
        Elements x = bit_cast<Elements>(a), y = bit_cast<Elements>(b);
#pragma unroll
        for (int i = 0; i < VEC16<T>; i++) sum = math::fma((compute_t<T>)x[i], (compute_t<T>)y[i], sum);
        return sum;
    }
}

// Lanes share out k, and where columns are more than four the columns, too: what a lane holds of sums stays the same.
// With ROWS_TOGETHER eight lanes read a line of rows.
template <class T, int COLUMNS_, bool ROWS_TOGETHER> struct FmaAtom {
    static constexpr MultipliedBy BY = Lanes;
    static constexpr int LANES = 32, COLUMNS = COLUMNS_, B_VECTORS = COLUMNS < 4 ? COLUMNS : 4, DEPTH = 1;
    static constexpr int TILES = 8, NORMED_TILES = TILES, UNROLL = 1;
    static constexpr int GROUPS = COLUMNS / B_VECTORS;
    static constexpr int ROW_LANES = ROWS_TOGETHER ? 8 : 1, K_LANES = LANES / ROW_LANES / GROUPS;
    static constexpr bool SPLITS = false;
    using Sum = compute_t<T>;
    struct Sums {
        Sum v[B_VECTORS] = {};
    };
    static __device__ __forceinline__ uint32_t row_index(uint32_t lane) { return lane % ROW_LANES; }
    static __device__ __forceinline__ uint32_t k_index(uint32_t lane) { return lane / ROW_LANES % K_LANES; }
    static __device__ __forceinline__ uint32_t column(uint32_t lane, int j) {
        return lane / (ROW_LANES * K_LANES) * B_VECTORS + j;
    }
    static __device__ __forceinline__ void multiply(Sums &sums, const Words4 (&a)[1], const Words4 (&b)[B_VECTORS][1]) {
#pragma unroll
        for (int j = 0; j < B_VECTORS; j++) sums.v[j] = dot<T>(a[0], b[j][0], sums.v[j]);
    }
    template <class F>
    static __device__ __forceinline__ void promote(Sums &to, const Sums &sums, uint32_t lane,
                                                   const float (&of_columns)[B_VECTORS], F of_row) {
        float row = of_row(row_index(lane));
#pragma unroll
        for (int j = 0; j < B_VECTORS; j++) to.v[j] = math::fma(sums.v[j], row * of_columns[j], to.v[j]);
    }
    template <int TILES, class F> static __device__ __forceinline__ void each(Sums (&sums)[TILES], uint32_t lane, F f) {
        constexpr int COUNT = TILES * B_VECTORS;
        using Reduction = LaneReduction<Sum, COUNT, ROW_LANES, ROW_LANES * K_LANES>;
        Sum all[COUNT];
#pragma unroll
        for (int i = 0; i < COUNT; i++) all[i] = sums[i / B_VECTORS].v[i % B_VECTORS];
        Reduction::run(all, lane);
        if (!Reduction::leads(lane)) return;
        uint32_t first = Reduction::first(lane);
#pragma unroll
        for (int i = 0; i < Reduction::KEPT; i++)
            f((first + i) / B_VECTORS, row_index(lane), column(lane, (int)((first + i) % B_VECTORS)), all[i]);
    }
};

// ---------------------------------------------------------- matrix instructions

// What those of 16 x 16 sums have in common: a row of A and a column of B in a lane, SUMS sums, of which number s is of
// row SUM_ROW * s + SUM_LANE * (lane / 16).
template <int LANES_, int DEPTH_, int K_LANES_, int SUMS, int SUM_ROW, int SUM_LANE> struct SixteenAtom {
    static constexpr MultipliedBy BY = Matrix;
    static constexpr int LANES = LANES_, COLUMNS = 16, B_VECTORS = 1, DEPTH = DEPTH_, ROW_LANES = 16;
    static constexpr int TILES = 1, NORMED_TILES = TILES, UNROLL = 8;
    static constexpr bool SPLITS = false;
    // Lanes of RDNA3's halves hold the same.
    static constexpr int K_LANES = K_LANES_;
    using Sum = float;
    struct Sums {
        typedef float Vector __attribute__((ext_vector_type(SUMS)));
        Vector v = {};
    };
    static __device__ __forceinline__ uint32_t row_index(uint32_t lane) { return lane % 16; }
    static __device__ __forceinline__ uint32_t k_index(uint32_t lane) { return K_LANES == 1 ? 0 : lane / 16; }
    static __device__ __forceinline__ uint32_t column(uint32_t lane, int) { return lane % 16; }
    template <class F>
    static __device__ __forceinline__ void promote(Sums &to, const Sums &sums, uint32_t lane,
                                                   const float (&of_columns)[B_VECTORS], F of_row) {
#pragma unroll
        for (int s = 0; s < SUMS; s++) {
            float factor = of_row(SUM_ROW * s + SUM_LANE * (lane / 16)) * of_columns[0];
            to.v[s] = math::fma((float)sums.v[s], factor, (float)to.v[s]);
        }
    }
    template <int TILES, class F> static __device__ __forceinline__ void each(Sums (&sums)[TILES], uint32_t lane, F f) {
#pragma unroll
        for (int i = 0; i < TILES; i++)
#pragma unroll
            for (int s = 0; s < SUMS; s++)
                f((uint32_t)i, SUM_ROW * s + SUM_LANE * (lane / 16), lane % 16, (float)sums[i].v[s]);
    }
};

// The atom of a type, for at most COLUMNS columns.
template <class T, int COLUMNS, bool ROWS_TOGETHER> struct SkinnyAtom : FmaAtom<T, COLUMNS, ROWS_TOGETHER> {};

#if defined(__HIP__) && (defined(AMD_MFMA) || defined(__GFX12__))
// One instruction of 16 x 16 sums. A lane has a row and, of k, RUN elements, as many as it has sums, which are of one
// column.
template <class T> struct SixteenColumns;
#define SIXTEEN_COLUMNS(T, ELEMENT, WIDE, MULTIPLY)                                                          \
    template <> struct SixteenColumns<T> {                                                                   \
        static constexpr int RUN = WIDE;                                                                     \
        typedef float Sums __attribute__((ext_vector_type(WIDE)));                                           \
        typedef uint32_t Words __attribute__((ext_vector_type(WIDE / 2)));                                   \
        static __device__ __forceinline__ void multiply(Sums &sums, const Words &row, const Words &column) { \
            typedef ELEMENT Run __attribute__((ext_vector_type(WIDE)));                                      \
            sums = MULTIPLY;                                                                                 \
        }                                                                                                    \
    };
#if defined(AMD_MFMA)
SIXTEEN_COLUMNS(half_t, half_t, 4,
                __builtin_amdgcn_mfma_f32_16x16x16f16(bit_cast<Run>(row), bit_cast<Run>(column), sums, 0, 0, 0))
#if AMD_MFMA > 1
SIXTEEN_COLUMNS(bf16_t, short, 4,
                __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(bit_cast<Run>(row), bit_cast<Run>(column), sums, 0, 0, 0))
#endif
#else
SIXTEEN_COLUMNS(half_t, half_t, 8,
                __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(bit_cast<Run>(row), bit_cast<Run>(column), sums))
SIXTEEN_COLUMNS(bf16_t, short, 8,
                __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(bit_cast<Run>(row), bit_cast<Run>(column), sums))
#endif
#undef SIXTEEN_COLUMNS
#endif

#if defined(__HIP__)
#if defined(AMD_MFMA)
template <class T> struct MfmaAtom : SixteenAtom<64, 1, 4, 4, 1, 4> {
    static __device__ __forceinline__ void multiply(Sums &sums, const Words4 (&a)[1], const Words4 (&b)[1][1]) {
#if AMD_MFMA == 1
        if constexpr (is_same<T, bf16_t>::value) {
            typedef short Two __attribute__((ext_vector_type(2)));
#pragma unroll
            for (int i = 0; i < 4; i++)
                sums.v = __builtin_amdgcn_mfma_f32_16x16x8bf16(bit_cast<Two>(a[0][i]), bit_cast<Two>(b[0][0][i]),
                                                               sums.v, 0, 0, 0);
            return;
        } else
#endif
        {
            using One = SixteenColumns<T>;
#pragma unroll
            for (int i = 0; i < 2; i++)
                One::multiply(sums.v, half_of_words<typename One::Words>(a[0], i),
                              half_of_words<typename One::Words>(b[0][0], i));
        }
    }
};
#define SKINNY_ATOM MfmaAtom
#elif defined(__GFX11__)
template <class T> struct WmmaAtom : SixteenAtom<32, 2, 1, 8, 2, 1> {
    static __device__ __forceinline__ void multiply(Sums &sums, const Words4 (&a)[2], const Words4 (&b)[1][2]) {
        typedef uint32_t Words8 __attribute__((ext_vector_type(8)));
        typedef half_t Halves __attribute__((ext_vector_type(16)));
        typedef short Shorts __attribute__((ext_vector_type(16)));
        Words8 x = __builtin_shufflevector(a[0], a[1], 0, 1, 2, 3, 4, 5, 6, 7);
        Words8 y = __builtin_shufflevector(b[0][0], b[0][1], 0, 1, 2, 3, 4, 5, 6, 7);
        if constexpr (is_same<T, half_t>::value)
            sums.v = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(bit_cast<Halves>(x), bit_cast<Halves>(y), sums.v);
        else sums.v = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(bit_cast<Shorts>(x), bit_cast<Shorts>(y), sums.v);
    }
};
#define SKINNY_ATOM WmmaAtom
#elif defined(__GFX12__)
template <class T> struct WmmaAtom : SixteenAtom<32, 1, 2, 8, 1, 8> {
    static __device__ __forceinline__ void multiply(Sums &sums, const Words4 (&a)[1], const Words4 (&b)[1][1]) {
        SixteenColumns<T>::multiply(sums.v, a[0], b[0][0]);
    }
};
#define SKINNY_ATOM WmmaAtom
#endif
#if defined(SKINNY_ATOM)
template <bool ROWS_TOGETHER> struct SkinnyAtom<half_t, 16, ROWS_TOGETHER> : SKINNY_ATOM<half_t> {};
template <bool ROWS_TOGETHER> struct SkinnyAtom<bf16_t, 16, ROWS_TOGETHER> : SKINNY_ATOM<bf16_t> {};
#endif
#else
// A float's word as the nearest TF32 and the rest, which the unit takes 11 bits of.
struct Split {
    uint32_t big, rest;
    __device__ __forceinline__ Split(uint32_t word)
        : big((word + 0x1000) & 0xffffe000), rest(bit_cast<uint32_t>(bit_cast<float>(word) - bit_cast<float>(big))) {}
};

// mma.sync, in which rows of A are the instruction's columns: eight of them, and 8 or 16 columns of B, which are its
// rows. A lane's 16 bytes are operands of two instructions: which k stands where is the same for both. A warp has few
// rows, so that more workgroups have some: on an H200 that gains more than each of them takes to read B.
template <class T, int COLUMNS_> struct MmaSyncAtom {
    static constexpr MultipliedBy BY = Matrix;
    static constexpr int LANES = 32, COLUMNS = COLUMNS_, B_VECTORS = COLUMNS / 8, DEPTH = 1;
    static constexpr int ROW_LANES = 8, K_LANES = 4, TILES = B_VECTORS, NORMED_TILES = 2, UNROLL = 4;
    static_assert(COLUMNS == 8 || COLUMNS == 16, "of one instruction");
    // Whether operands are taken apart, of which infinities have no rest.
    static constexpr bool SPLITS = is_same<T, float>::value;
    using Sum = float;
    struct Sums {
        float v[4] = {};
    };
    static __device__ __forceinline__ uint32_t row_index(uint32_t lane) { return lane / 4; }
    static __device__ __forceinline__ uint32_t k_index(uint32_t lane) { return lane % 4; }
    static __device__ __forceinline__ uint32_t column(uint32_t lane, int j) { return lane / 4 + 8 * j; }
    // m16n8k16, or m16n8k8 of TF32: of so many k, the words of half of them each of B's columns, and of A's rows.
    static __device__ __forceinline__ void multiply_once(float (&c)[4], uint32_t low0, uint32_t high0, uint32_t low1,
                                                         uint32_t high1, uint32_t low_a, uint32_t high_a) {
        if constexpr (is_same<T, half_t>::value)
            asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                "{%0, %1, %2, %3};"
                : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                : "r"(low0), "r"(low1), "r"(high0), "r"(high1), "r"(low_a), "r"(high_a));
        else if constexpr (is_same<T, bf16_t>::value)
            asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                "{%0, %1, %2, %3};"
                : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                : "r"(low0), "r"(low1), "r"(high0), "r"(high1), "r"(low_a), "r"(high_a));
        else
            asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                "{%0, %1, %2, %3};"
                : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                : "r"(low0), "r"(low1), "r"(high0), "r"(high1), "r"(low_a), "r"(high_a));
    }
    // Multiplies floats, each as the nearest TF32 and the rest: what is left out is the product of two rests, 2^-22 of
    // theirs at most. The order matters to registers.
    static __device__ __forceinline__ void multiply_split(float (&c)[4], Split low0, Split high0, Split low1,
                                                          Split high1, Split low_a, Split high_a) {
        multiply_once(c, low0.rest, high0.rest, low1.rest, high1.rest, low_a.big, high_a.big);
        multiply_once(c, low0.big, high0.big, low1.big, high1.big, low_a.rest, high_a.rest);
        multiply_once(c, low0.big, high0.big, low1.big, high1.big, low_a.big, high_a.big);
    }
    static __device__ __forceinline__ void multiply(Sums &sums, const Words4 (&a)[1], const Words4 (&b)[B_VECTORS][1]) {
        // The unit cuts off what does not fit a sum: where sums are to be as good as floats' few products meet there.
        Sums of_vector;
        Sums &to = SPLITS ? of_vector : sums;
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
            uint32_t low1 = 0, high1 = 0;
            if constexpr (B_VECTORS == 2) low1 = b[1][0][i], high1 = b[1][0][i + 1];
            if constexpr (SPLITS) multiply_split(to.v, b[0][0][i], b[0][0][i + 1], low1, high1, a[0][i], a[0][i + 1]);
            else multiply_once(to.v, b[0][0][i], b[0][0][i + 1], low1, high1, a[0][i], a[0][i + 1]);
        }
        if constexpr (SPLITS)
#pragma unroll
            for (int s = 0; s < 2 * B_VECTORS; s++) sums.v[s] += of_vector.v[s];
    }
    template <class F>
    static __device__ __forceinline__ void promote(Sums &to, const Sums &sums, uint32_t lane,
                                                   const float (&of_columns)[B_VECTORS], F of_row) {
        float rows[2] = {of_row(2 * (lane % 4)), of_row(2 * (lane % 4) + 1)};
#pragma unroll
        for (int s = 0; s < 2 * B_VECTORS; s++)
            to.v[s] = math::fma(sums.v[s], rows[s % 2] * of_columns[s / 2], to.v[s]);
    }
    template <int TILES, class F> static __device__ __forceinline__ void each(Sums (&sums)[TILES], uint32_t lane, F f) {
#pragma unroll
        for (int i = 0; i < TILES; i++)
#pragma unroll
            for (int s = 0; s < 2 * B_VECTORS; s++)
                f((uint32_t)i, 2 * (lane % 4) + s % 2, lane / 4 + 8 * (s / 2), sums[i].v[s]);
    }
};
template <int COLUMNS, bool ROWS_TOGETHER>
struct SkinnyAtom<half_t, COLUMNS, ROWS_TOGETHER> : MmaSyncAtom<half_t, COLUMNS> {};
template <int COLUMNS, bool ROWS_TOGETHER>
struct SkinnyAtom<bf16_t, COLUMNS, ROWS_TOGETHER> : MmaSyncAtom<bf16_t, COLUMNS> {};
template <bool ROWS_TOGETHER> struct SkinnyAtom<float, 16, ROWS_TOGETHER> : MmaSyncAtom<float, 16> {};
#define SKINNY_MMA
#endif
