// Matrix multiply-accumulate of a wavefront, as each architecture has it.
//
// MmaAtom<T>::multiply adds to a block of ROWS x COLUMNS sums the product of a block of A and one of B. Operands lie in
// LDS in chunks: 16 bytes (of f64, 8) of consecutive k of one row of A or one column of B. A lane holds a Fragment of
// each, which load() reads: CHUNKS chunks of row a_row() from a_chunk() on, and of column b_column() from b_chunk() on,
// or a LOADS-th of each chunk at a time; or, where lanes hand on what they read, what others read. All lanes together
// have STEP_CHUNKS of a row. Which element of k takes which place is arbitrary, as long as A and B agree. A fragment is
// multiplied in PARTS instructions, so that a block's need not follow one another; loops over steps are UNROLLED or
// not. A lane's sum i is that of row() and column() of the block.
//
// Where copies from global memory go straight to LDS (LDS_COPIES), an atom of 16-bit elements has load_transposed() as
// well: the same fragment of an operand whose rows are together. There a chunk is of 8 rows, and a lane reads for the
// element of k that its row's last three bits and its chunk give, those 8 rows that its row is one of.
#pragma once
#include "matmul/gemm_problem.cuh"
#include "portable/lds.cuh"
template <int WORDS, int CHUNKS> struct Fragment {
    using Words = typename WordVector<WORDS>::type;
    Words chunk[CHUNKS];
};

// The types of sums and of C.
template <class T> struct Product {
    using Sum = compute_t<T>;
    using C = T;
};
template <> struct Product<int8_t> {
    using Sum = int32_t;
    using C = int32_t;
};

// What an instruction takes of the fragment, as a V.
template <class V, class F> __device__ __forceinline__ V operand_of(const F &fragment, int instruction) {
    typedef typename WordVector<sizeof(V) / 4>::type Words;
    Words words;
#pragma unroll
    for (int i = 0; i < (int)sizeof(V) / 4; i++) {
        int word = instruction * (int)sizeof(V) / 4 + i;
        words[i] = fragment.chunk[word / 4][word % 4];
    }
    return bit_cast<V>(words);
}
template <class V, class F> __device__ __forceinline__ V word_of(const F &fragment, int instruction) {
    return bit_cast<V>(fragment.chunk[0][instruction]);
}

template <class T> struct MmaAtom;

// Atoms whose lanes multiply what they read.
struct LaneLoads {
    template <class Words> static __device__ __forceinline__ Words load(const LDS_MEMORY char *from) {
        return lds_load<Words>(from);
    }
};

#if defined(__CUDA__) && !defined(__HIP__)
#include "matmul/atoms/mma.cuh"
#elif defined(AMD_MFMA)
#include "matmul/atoms/cdna.cuh"
#elif defined(__GFX11__)
#include "matmul/atoms/rdna3.cuh"
#elif defined(__GFX12__)
#include "matmul/atoms/rdna4.cuh"
#else
#include "matmul/atoms/dot.cuh"
#endif
