// The matrix units as attention uses them.
//
// Both products are made so that what belongs to one query stays in the lanes that hold it: scores are (key, query)
// and results (element, query), the queries being the atom's columns. Then the maximum and the sum of a query's scores
// are found within a lane, and among the few lanes that have its other keys; and its results are scaled in place.
// NVIDIA's atom holds sums of a row together, and has the queries as its rows.
//
// The weights, e^score, are the second product's operand as they lie in registers: which key takes which place of it is
// arbitrary, as long as the values are staged in the same order, key_at(). Only RDNA3, whose lanes hold whole rows,
// asks for the other half's; and where there are no matrix instructions they go through LDS.
#pragma once
#include "matmul/atoms/atom.cuh"
#include "portable/streams.cuh"

namespace attention {
constexpr float LOG2_E = 1.44269504088896340736f, LN_2 = 0.69314718055994530942f;
// By so much, in powers of two, scores may exceed the largest that results are scaled by, before they are scaled anew.
constexpr float SLACK = 8;

// Two weights as a word of T, the first below.
template <class T> __device__ __forceinline__ uint32_t weights_word(float first, float second);
template <> __device__ __forceinline__ uint32_t weights_word<half_t>(float first, float second) {
    typedef half_t Two __attribute__((ext_vector_type(2)));
    return bit_cast<uint32_t>(Two{(half_t)first, (half_t)second});
}
#if defined(__HIP__)
// Nearest, ties away from 0: no weight is large enough to become an infinity, and a NaN shows in the sum of weights.
template <> __device__ __forceinline__ uint32_t weights_word<bf16_t>(float first, float second) {
    return high_halves(bit_cast<uint32_t>(first) + 0x8000u, bit_cast<uint32_t>(second) + 0x8000u);
}
#else
template <> __device__ __forceinline__ uint32_t weights_word<bf16_t>(float first, float second) {
    uint32_t word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
    return word;
}
#endif

// Sum i of a block.
template <class Atom> __device__ __forceinline__ float sum_of(const typename Atom::Sums &sums, int i) {
    if constexpr (Atom::SUMS == 1) return sums;
    else return sums[i];
}
template <class Atom> __device__ __forceinline__ void set_sum(typename Atom::Sums &sums, int i, float value) {
    if constexpr (Atom::SUMS == 1) sums = value;
    else sums[i] = value;
}

#if defined(__CUDA__) && !defined(__HIP__)
template <class T> struct AttentionAtom {
    using Atom = MmaAtom<T>;
    using Fragment = typename Atom::Fragment;
    using Sums = typename Atom::Sums;
    // A block of queries, and one of keys or of a result's elements; how many queries a lane has of a block.
    static constexpr int QUERIES = Atom::ROWS, OTHERS = Atom::COLUMNS, LANE_QUERIES = 2, OTHERS_TOGETHER = 1;
    // Whether a lane holds what it reads of an operand, so that it may read it elsewhere than in LDS.
    static constexpr bool LANE_READS = false, WEIGHTS_IN_LDS = false;

    static __device__ __forceinline__ uint32_t read_query(uint32_t lane) { return Atom::a_row(lane); }
    static __device__ __forceinline__ uint32_t query_chunk(uint32_t lane) { return Atom::a_chunk(lane); }
    static __device__ __forceinline__ uint32_t read_other(uint32_t lane) { return Atom::b_column(lane); }
    static __device__ __forceinline__ uint32_t other_chunk(uint32_t lane) { return Atom::b_chunk(lane); }

    // The query of the lane's sum i, by its number among the lane's; its place; and the place of the key or element.
    static __device__ __forceinline__ int query_number(int i) { return i / 2 % 2; }
    static __device__ __forceinline__ uint32_t query(uint32_t lane, int number) { return lane / 4 + number * 8; }
    static __device__ __forceinline__ uint32_t other(uint32_t lane, int i) { return Atom::column(lane, i); }

    static __device__ __forceinline__ void multiply(Sums &sums, const Fragment &others, const Fragment &queries,
                                                    int instruction) {
        Atom::multiply(sums, queries, others, instruction);
    }
    // Over the lanes that share queries.
    template <class Op> static __device__ __forceinline__ float all_reduce(float value, Op op) {
        value = op(value, shfl_xor(value, 1, 32));
        return op(value, shfl_xor(value, 2, 32));
    }
    // The key that element `at` of chunk `chunk` of a tile's values is of.
    static __host__ __device__ constexpr uint32_t key_at(uint32_t chunk, uint32_t at) { return chunk * 8 + at; }
    // The operand of step `step` of the second product, from all blocks' weights.
    template <int BLOCKS>
    static __device__ __forceinline__ void weights(Fragment &to, const Sums (&of)[BLOCKS], int step, uint32_t) {
#pragma unroll
        for (int word = 0; word < 4; word++)
            to.chunk[0][word] = weights_word<T>(of[step][2 * word], of[step][2 * word + 1]);
    }
};
#else
template <class T> struct AttentionAtomBase {
    using Atom = MmaAtom<T>;
    using Fragment = typename Atom::Fragment;
    using Sums = typename Atom::Sums;
    // A block of queries, and one of keys or of a result's elements; how many queries a lane has of a block.
    static constexpr int QUERIES = Atom::COLUMNS, OTHERS = Atom::ROWS, LANE_QUERIES = 1;
    // How many of a lane's others follow one another, beginning with a multiple of it.
    static constexpr int OTHERS_TOGETHER = 1;
    // Whether a lane holds what it reads of an operand, so that it may read it elsewhere than in LDS.
    static constexpr bool LANE_READS = true;

    static __device__ __forceinline__ uint32_t read_query(uint32_t lane) { return Atom::b_column(lane); }
    static __device__ __forceinline__ uint32_t query_chunk(uint32_t lane) { return Atom::b_chunk(lane); }
    static __device__ __forceinline__ uint32_t read_other(uint32_t lane) { return Atom::a_row(lane); }
    static __device__ __forceinline__ uint32_t other_chunk(uint32_t lane) { return Atom::a_chunk(lane); }

    // The query of the lane's sum i, by its number among the lane's; its place; and the place of the key or element.
    static __device__ __forceinline__ int query_number(int) { return 0; }
    static __device__ __forceinline__ uint32_t query(uint32_t lane, int) { return Atom::column(lane, 0); }
    static __device__ __forceinline__ uint32_t other(uint32_t lane, int i) { return Atom::row(lane, i); }

    static __device__ __forceinline__ void multiply(Sums &sums, const Fragment &others, const Fragment &queries,
                                                    int instruction) {
        Atom::multiply(sums, others, queries, instruction);
    }
};

#if defined(AMD_MFMA)
template <class T> struct AttentionAtom : AttentionAtomBase<T> {
    using typename AttentionAtomBase<T>::Fragment;
    using typename AttentionAtomBase<T>::Sums;
    static constexpr bool WEIGHTS_IN_LDS = false;
    static constexpr int OTHERS_TOGETHER = 4;

    // Over the lanes that share queries: the wavefront's halves.
    template <class Op> static __device__ __forceinline__ float all_reduce(float value, Op op) {
        return op(value, shfl_xor(value, 32, 64));
    }
    // The key that element `at` of chunk `chunk` of a tile's values is of. A lane has four keys of each eight.
    static __host__ __device__ constexpr uint32_t key_at(uint32_t chunk, uint32_t at) {
        return chunk / 2 * 16 + at / 4 * 8 + chunk % 2 * 4 + at % 4;
    }
    // The operand of step `step` of the second product, from all blocks' weights.
    template <int BLOCKS>
    static __device__ __forceinline__ void weights(Fragment &to, const Sums (&of)[BLOCKS], int step, uint32_t) {
#pragma unroll
        for (int word = 0; word < 4; word++) {
            int i = step % 2 * 8 + 2 * word;
            to.chunk[0][word] = weights_word<T>(of[step / 2][i], of[step / 2][i + 1]);
        }
    }
};
#elif defined(__GFX11__) || defined(__GFX12__)
// The word of the lane with the same place in the other row of 16.
__device__ __forceinline__ uint32_t other_row(uint32_t word) {
    return (uint32_t)__builtin_amdgcn_permlanex16((int)word, (int)word, 0x76543210, (int)0xfedcba98, false, false);
}

template <class T> struct AttentionAtom : AttentionAtomBase<T> {
    using typename AttentionAtomBase<T>::Fragment;
    using typename AttentionAtomBase<T>::Sums;
    static constexpr bool WEIGHTS_IN_LDS = false;

    // Over the lanes that share queries: the wavefront's halves.
    template <class Op> static __device__ __forceinline__ float all_reduce(float value, Op op) {
        return op(value, bit_cast<float>(other_row(bit_cast<uint32_t>(value))));
    }
#if defined(__GFX12__)
    // The key that element `at` of chunk `chunk` of a tile's values is of.
    static __host__ __device__ constexpr uint32_t key_at(uint32_t chunk, uint32_t at) { return chunk * 8 + at; }
    // The operand of step `step` of the second product, from all blocks' weights.
    template <int BLOCKS>
    static __device__ __forceinline__ void weights(Fragment &to, const Sums (&of)[BLOCKS], int step, uint32_t) {
#pragma unroll
        for (int word = 0; word < 4; word++)
            to.chunk[0][word] = weights_word<T>(of[step][2 * word], of[step][2 * word + 1]);
    }
#else
    // The lower half of a wavefront has the even keys, the upper half the odd ones.
    static __host__ __device__ constexpr uint32_t key_at(uint32_t chunk, uint32_t at) {
        return chunk / 2 * 16 + at * 2 + chunk % 2;
    }
    template <int BLOCKS>
    static __device__ __forceinline__ void weights(Fragment &to, const Sums (&of)[BLOCKS], int step, uint32_t lane) {
        bool upper = lane >= 16;
#pragma unroll
        for (int word = 0; word < 4; word++) {
            uint32_t mine = weights_word<T>(of[step][2 * word], of[step][2 * word + 1]), other = other_row(mine);
            to.chunk[0][word] = upper ? other : mine;
            to.chunk[1][word] = upper ? mine : other;
        }
    }
#endif
};
#else
template <class T> struct AttentionAtom : AttentionAtomBase<T> {
    static constexpr bool WEIGHTS_IN_LDS = true;

    // Over the lanes that share queries: eight neighbours.
    template <class Op> static __device__ __forceinline__ float all_reduce(float value, Op op) {
        return whole_wave_all_reduce(value, 8, op);
    }
    // The key that element `at` of chunk `chunk` of a tile's values is of. A word has a lane's keys of two blocks.
    static __host__ __device__ constexpr uint32_t key_at(uint32_t chunk, uint32_t at) {
        return chunk / 2 * 16 + at % 2 * 8 + chunk % 2 * 4 + at / 2;
    }
};
#endif
#endif

} // namespace attention
