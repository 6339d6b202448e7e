// B's columns normed on their way into products of few columns: x / sqrt(mean(x^2) + epsilon) * weight, rounded as the
// norm's own kernel rounds it. Each workgroup adds up the squares anew, while its first part of A is on its way: for
// the few columns of decoding that costs less than a launch.
#pragma once
#include "matmul/few/product.cuh"
#include "rows/rows.cuh"

template <class T, int B_VECTORS> struct Normed {
    static constexpr bool NORMS = true, SCALES = false;
    static constexpr int V = VEC16<T>, THREADS = 256, HELD = 2;
    using Elements = vec<T, V>;

    // Of all k, moved on with B.
    const T *weight;
    float epsilon;
    // What a lane's columns are multiplied by.
    float scale[B_VECTORS];
    // The first column's first vectors.
    Words4 held[HELD];

    static __device__ __forceinline__ float squares(const Words4 &words) {
        Elements x = bit_cast<Elements>(words);
        float sum = 0;
#pragma unroll
        for (int i = 0; i < V; i++) sum = math::fma(widen(x[i]), widen(x[i]), sum);
        return sum;
    }

    template <class Place> __device__ __forceinline__ void begin(const Place &at) {
#pragma unroll
        for (int h = 0; h < HELD; h++) {
            uint32_t k = (h * THREADS + threadIdx.x) * V;
            held[h] = {};
            if (k < at.length) held[h] = load_cached(at.b, k * (uint32_t)sizeof(T), 0);
        }
    }

    // Every work-item must be there.
    template <class Unit, class Place> __device__ __forceinline__ void meet(const Place &at, uint32_t lane) {
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
            sum = norm_scale(block_all_reduce(sum, threadIdx.x, THREADS, Sum{}, lds), at.length, epsilon);
#pragma unroll
            for (int j = 0; j < B_VECTORS; j++)
                if (min_of(Unit::column(lane, j), at.n - 1) == column) scale[j] = sum;
        }
    }

    __device__ __forceinline__ void norm(Words4 &b, int j, const Words4 &of_k) const {
        Elements x = bit_cast<Elements>(b), w = bit_cast<Elements>(of_k);
#pragma unroll
        for (int i = 0; i < V; i++) x[i] = narrow<T>(widen(x[i]) * scale[j] * widen(w[i]));
        b = bit_cast<Words4>(x);
    }
};
