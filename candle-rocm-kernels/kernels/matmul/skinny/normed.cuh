// B's columns normed on their way into skinny products: x / sqrt(mean(x^2) + epsilon) * weight, rounded as the
// norm's own kernel rounds it. Each workgroup adds up the squares anew, while its first part of A is on its way: for
// the few columns of decoding that costs less than a launch. A column alone is normed once, to LDS, if it has room
// there; of several each lane norms what it multiplies.
#pragma once
#include "matmul/skinny/product.cuh"
#include "norms/norm.cuh"

template <class T, int B_VECTORS> struct Normed {
    static constexpr bool NORMS = true, SCALES = false;
    static constexpr int V = VEC16<T>, THREADS = 256, HELD = 2;
    using Elements = vec<T, V>;

    // Of all k, moved on with B.
    const T *weight;
    float epsilon;
    // What a lane's columns are multiplied by.
    float scale[B_VECTORS];
    // The first column's first vectors, and their weights.
    Words4 held[HELD], weights[HELD];
    // Whether the column is in LDS, and how much of it was multiplied.
    bool staged;
    uint32_t done;
    // With the warps' sums a quarter of a compute unit's LDS.
    static constexpr uint32_t MOST_STAGED = (11 << 10) / sizeof(T);

    static __device__ __forceinline__ T *column_in_lds() {
        __shared__ Words4 column[MOST_STAGED / V];
        return (T *)column;
    }

    static __device__ __forceinline__ float squares(const Words4 &words) {
        Elements x = bit_cast<Elements>(words);
        float sum = 0;
#pragma unroll
        for (int i = 0; i < V; i++) sum = math::fma(upcast(x[i]), upcast(x[i]), sum);
        return sum;
    }

    template <class TileOperands> __device__ __forceinline__ void begin(const TileOperands &at) {
#pragma unroll
        for (int h = 0; h < HELD; h++) {
            uint32_t k = (h * THREADS + threadIdx.x) * V;
            held[h] = weights[h] = {};
            if (k >= at.length) continue;
            held[h] = load_cached(at.b, k * (uint32_t)sizeof(T), 0);
            weights[h] = load_cached(weight, k * (uint32_t)sizeof(T), 0);
        }
    }

    // Every work-item must be there.
    template <class Atom, class TileOperands> __device__ __forceinline__ void meet(const TileOperands &at,
                                                                                   uint32_t lane) {
        __shared__ WaveValues<float> lds;
#pragma unroll 1
        for (uint32_t column = 0; column < at.n; column++) {
            float sum = 0;
            uint32_t first = 0;
            if (column == 0) {
                first = HELD * THREADS * V;
#pragma unroll
                for (int h = 0; h < HELD; h++) sum += squares(held[h]);
            }
            const T *x = at.b + column * at.column_b;
            for (uint32_t k = first + threadIdx.x * V; k < at.length; k += THREADS * V)
                sum += squares(load_cached(x, k * (uint32_t)sizeof(T), 0));
            sum = norms::norm_scale(block_all_reduce(sum, threadIdx.x, THREADS, Sum{}, lds), at.length, epsilon);
#pragma unroll
            for (int j = 0; j < B_VECTORS; j++)
                if (min_of(Atom::column(lane, j), at.n - 1) == column) scale[j] = sum;
        }
        staged = at.n == 1 && at.length <= MOST_STAGED;
        done = 0;
        if (!staged) return;
        auto put = [&](uint32_t k, Words4 x, const Words4 &of_k) INLINED {
            norm(x, 0, of_k);
            *(Words4 *)(column_in_lds() + k) = x;
        };
#pragma unroll
        for (int h = 0; h < HELD; h++) {
            uint32_t k = (h * THREADS + threadIdx.x) * V;
            if (k < at.length) put(k, held[h], weights[h]);
        }
        for (uint32_t k = (HELD * THREADS + threadIdx.x) * V; k < at.length; k += THREADS * V)
            put(k, load_cached(at.b, k * (uint32_t)sizeof(T), 0), load_cached(weight, k * (uint32_t)sizeof(T), 0));
        __syncthreads();
    }

    // The lane's vectors of the column in LDS, B_PER_A together and those STEP elements apart; zeros past the end.
    template <int STEP, int B_PER_A, int N, class IsThere>
    __device__ __forceinline__ void read(Words4 (&to)[N], uint32_t k, IsThere is_there) const {
        const T *from = column_in_lds() + done + k;
#pragma unroll
        for (int u = 0; u < N; u++) {
            to[u] = {};
            if (is_there(u / B_PER_A)) to[u] = *(const Words4 *)(from + u / B_PER_A * STEP + u % B_PER_A * V);
        }
    }

    __device__ __forceinline__ void norm(Words4 &b, int j, const Words4 &of_k) const {
        Elements x = bit_cast<Elements>(b), w = bit_cast<Elements>(of_k);
#pragma unroll
        for (int i = 0; i < V; i++) x[i] = round_to<T>(upcast(x[i]) * scale[j] * upcast(w[i]));
        b = bit_cast<Words4>(x);
    }
};

// The product of weights (rows, length) with contiguous columns of as many elements, as MatmulProblem has it.
template <class T>
__device__ __forceinline__ MatmulProblem product_of_columns(const void *weight, const T *x, T *result, uint32_t rows,
                                                            uint32_t columns, uint32_t length) {
    MatmulProblem p{};
    p.gemm.a = weight;
    p.gemm.b = x;
    p.gemm.c = result;
    p.gemm.lda = p.gemm.ldb = length;
    p.gemm.row_c = 1;
    p.gemm.ldc = rows;
    p.gemm.alpha = 1;
    p.gemm.m = rows;
    p.gemm.n = columns;
    p.gemm.k = p.k_per_split = length;
    p.batch = p.splits = 1;
    return p;
}
