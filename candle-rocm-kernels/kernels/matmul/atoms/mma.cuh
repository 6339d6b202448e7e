// NVIDIA's mma.sync: 16 x 16 sums over 32 bytes of k, in two instructions of 8 columns each. The lanes' addresses are
// those of four blocks of 8 rows by 16 bytes, which ldmatrix deals out as the instructions want them, a word of each
// block for a lane: of A both halves of the rows, then of the second chunk; of B both chunks, then of the other
// columns.
//
//   A, in four words, word w from       C, in 8 sums of a lane, whose row is lane / 4 of eight
//   lane / 4's row of eight, bytes      and whose columns are lane % 4 * 2 and the next
//   lane % 4 * 4 on of a chunk
//               chunk 0   chunk 1                   columns 0 .. 7   columns 8 .. 15
//   rows 0 .. 7   word 0    word 2      rows 0 .. 7   sums 0, 1        sums 4, 5
//   rows 8 .. 15  word 1    word 3      rows 8 .. 15  sums 2, 3        sums 6, 7
//
//   B likewise: columns 0 .. 7 are words 0 and 1, of chunk 0 and chunk 1, columns 8 .. 15 words 2 and 3.
#pragma once

template <class V> struct MmaBlock {
    static constexpr int ROWS = 16, COLUMNS = 16, CHUNKS = 1, STEP_CHUNKS = 2, LOADS = 1, INSTRUCTIONS = 2, SUMS = 8;
    static constexpr bool UNROLLED = true;
    typedef ::Fragment<4, 1> Fragment;
    typedef V Sums __attribute__((ext_vector_type(SUMS)));
    static __device__ __forceinline__ uint32_t a_row(uint32_t lane) { return lane % 16; }
    static __device__ __forceinline__ uint32_t a_chunk(uint32_t lane) { return lane / 16; }
    static __device__ __forceinline__ uint32_t b_column(uint32_t lane) { return lane / 16 * 8 + lane % 8; }
    static __device__ __forceinline__ uint32_t b_chunk(uint32_t lane) { return lane / 8 % 2; }
    static __device__ __forceinline__ uint32_t row(uint32_t lane, int i) { return lane / 4 + i / 2 % 2 * 8; }
    static __device__ __forceinline__ uint32_t column(uint32_t lane, int i) { return i / 4 * 8 + lane % 4 * 2 + i % 2; }

    template <class Words> static __device__ __forceinline__ Words load(const LDS_MEMORY char *from) {
        Words words;
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                     : "r"(lds_address(from)));
        return words;
    }
    template <class Words> static __device__ __forceinline__ Words load_transposed(const LDS_MEMORY char *from) {
        Words words;
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                     : "r"(lds_address(from)));
        return words;
    }
};

// An instruction, on four sums as what its text calls +NAME, four words of A and two of B.
#define MMA_INSTRUCTION(TEXT, NAME, C0, C1, C2, C3, A, B0, B1)                                               \
    asm volatile("mma.sync.aligned." TEXT " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : NAME(C0), NAME(C1), NAME(C2), NAME(C3)                                                    \
                 : "r"((A)[0]), "r"((A)[1]), "r"((A)[2]), "r"((A)[3]), "r"(B0), "r"(B1))
// The instruction by itself, and as one of two on a block.
#define MMA(TEXT, NAME, TYPE)                                                                                         \
    static __device__ __forceinline__ void multiply_half(TYPE(&c)[4], const WordVector<4>::type &a, uint32_t b0,      \
                                                         uint32_t b1) {                                               \
        MMA_INSTRUCTION(TEXT, NAME, c[0], c[1], c[2], c[3], a, b0, b1);                                               \
    }                                                                                                                 \
    static __device__ __forceinline__ void multiply(Sums &c, const Fragment &a, const Fragment &b, int instruction) { \
        int first = 4 * instruction;                                                                                  \
        TYPE c0 = c[first], c1 = c[first + 1], c2 = c[first + 2], c3 = c[first + 3];                                  \
        MMA_INSTRUCTION(TEXT, NAME, c0, c1, c2, c3, a.chunk[0], b.chunk[0][2 * instruction],                          \
                        b.chunk[0][2 * instruction + 1]);                                                             \
        c[first] = c0, c[first + 1] = c1, c[first + 2] = c2, c[first + 3] = c3;                                       \
    }
template <> struct MmaAtom<bf16_t> : MmaBlock<float> {
    MMA("m16n8k16.row.col.f32.bf16.bf16.f32", "+f", float)
};
template <> struct MmaAtom<half_t> : MmaBlock<float> {
    MMA("m16n8k16.row.col.f32.f16.f16.f32", "+f", float)
};
template <> struct MmaAtom<int8_t> : MmaBlock<int> {
    MMA("m16n8k32.row.col.s32.s8.s8.s32", "+r", int)
};
#undef MMA
#undef MMA_INSTRUCTION

// 8 x 8 sums over four of k, one of which each lane holds.
template <> struct MmaAtom<double> : LaneLoads {
    static constexpr int ROWS = 8, COLUMNS = 8, CHUNKS = 1, STEP_CHUNKS = 4, LOADS = 1, INSTRUCTIONS = 1, SUMS = 2;
    static constexpr bool UNROLLED = true;
    typedef ::Fragment<2, 1> Fragment;
    typedef double Sums __attribute__((ext_vector_type(SUMS)));
    static __device__ __forceinline__ uint32_t a_row(uint32_t lane) { return lane / 4; }
    static __device__ __forceinline__ uint32_t a_chunk(uint32_t lane) { return lane % 4; }
    static __device__ __forceinline__ uint32_t b_column(uint32_t lane) { return lane / 4; }
    static __device__ __forceinline__ uint32_t b_chunk(uint32_t lane) { return lane % 4; }
    static __device__ __forceinline__ uint32_t row(uint32_t lane, int) { return lane / 4; }
    static __device__ __forceinline__ uint32_t column(uint32_t lane, int i) { return lane % 4 * 2 + i; }
    static __device__ __forceinline__ void multiply(Sums &c, const Fragment &a, const Fragment &b, int) {
        double c0 = c[0], c1 = c[1];
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                     : "+d"(c0), "+d"(c1)
                     : "d"(bit_cast<double>(a.chunk[0])), "d"(bit_cast<double>(b.chunk[0])));
        c[0] = c0, c[1] = c1;
    }
};
