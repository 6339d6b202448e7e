// What is done to sums on their way to C: alpha, beta, bias, activation, residual, one rounding.
#pragma once
#include "matmul/matmul_problem.cuh"
#include "matmul/loads/vectors.cuh"
#include "matmul/atoms/atom.cuh"

template <class T> struct Epilogue {
    using Sum = typename Product<T>::Sum;
    using C = typename Product<T>::C;
    static constexpr bool ACTIVATES = !is_same<T, int8_t>::value, MAY_UPCAST = sizeof(C) == 2;

    C *c;
    const C *bias;
    const C *residual;
    int64_t ldc, ld_residual;
    Scaling<Sum> scaling;
    uint32_t activation;
    bool wide, has_vectors;

    __device__ __forceinline__ Epilogue(const MatmulProblem &p, uint32_t z)
        : c((C *)p.gemm.c + z * p.gemm.stride_c), bias((const C *)p.bias),
          residual(p.residual ? (const C *)p.residual + z * p.stride_residual : nullptr), ldc(p.gemm.ldc),
          ld_residual(p.ld_residual), scaling(p.gemm), activation(p.activation), wide(MAY_UPCAST && p.gemm.wide_c),
          has_vectors(vectors_at(c, ldc) && vectors_at(bias, 0) && vectors_at(residual, ld_residual)) {
        if (!wide) return;
        float *wide_c = (float *)p.gemm.c + z * p.gemm.stride_c;
        c = (C *)wide_c, has_vectors = vectors_at(wide_c, ldc);
    }

    // One element.
    __device__ __forceinline__ void store(uint32_t row, uint32_t column, Sum sum) const {
        if constexpr (MAY_UPCAST)
            if (wide) return scaling.template store<1>(wide_at(row, column), &sum);
        C *to = c + (int64_t)column * ldc + row;
        Sum scaled[1];
        scaling(scaled, &sum, to);
        Sum x = scaled[0];
        if (bias) x += upcast(load_at<vec<C, 1>>(bias + row, 0)[0]);
        if constexpr (ACTIVATES)
            if (activation != ACTIVATION_none) x = activated<T>(x, activation);
        if (residual) x += upcast(load_at<vec<C, 1>>(residual + (int64_t)column * ld_residual + row, 0)[0]);
        store_at(to, vec<C, 1>{round_to<C>(x)});
    }

    // N rows, whose sums lie in LDS, where this lane may write. Vectors of so many must be possible (has_vectors).
    template <int N> __device__ __forceinline__ void store(uint32_t row, uint32_t column, LDS_MEMORY Sum *sums) const {
        if constexpr (MAY_UPCAST)
            if (wide) return store_wide<N>(wide_at(row, column), read_sums<N>(sums));
        C *to = c + (int64_t)column * ldc + row;
        Sum x[N];
        scaling(x, read_sums<N>(sums).v, to);
        if (bias) {
            vec<C, N> more = load_vector<vec<C, N>>(bias + row);
#pragma unroll
            for (int i = 0; i < N; i++) x[i] += upcast(more[i]);
        }
        if constexpr (ACTIVATES) {
            if (activation != ACTIVATION_none) {
#pragma unroll
                for (int i = 0; i < N; i++) sums[i] = x[i];
                // From LDS, for a loop: the functions are too long to repeat.
#pragma unroll 1
                for (int i = 0; i < N; i++) sums[i] = activated<T>((Sum)sums[i], activation);
#pragma unroll
                for (int i = 0; i < N; i++) x[i] = sums[i];
            }
        }
        if (residual) {
            vec<C, N> more = load_vector<vec<C, N>>(residual + (int64_t)column * ld_residual + row);
#pragma unroll
            for (int i = 0; i < N; i++) x[i] += upcast(more[i]);
        }
        store_vector(to, round_all_to<C>(x));
    }

private:
    template <int N> struct Sums {
        Sum v[N];
    };
    // Where C is f32: nothing follows the product there.
    __device__ __forceinline__ float *wide_at(uint32_t row, uint32_t column) const {
        return (float *)c + (int64_t)column * ldc + row;
    }
    template <int N> __device__ __forceinline__ void store_wide(float *to, const Sums<N> &sums) const {
        constexpr int V = min_of(N, VEC16<float>);
#pragma unroll
        for (int first = 0; first < N; first += V) {
            Sum some[V], x[V];
#pragma unroll
            for (int i = 0; i < V; i++) some[i] = sums.v[first + i];
            scaling(x, some, (const float *)to + first);
            vec<float, V> out;
#pragma unroll
            for (int i = 0; i < V; i++) out[i] = x[i];
            store_vector(to + first, out);
        }
    }
    // They begin at a multiple of 16 bytes.
    template <int N> static __device__ __forceinline__ Sums<N> read_sums(const LDS_MEMORY Sum *from) {
        Sums<N> sums;
#if defined(__HIP__)
#pragma unroll
        for (int i = 0; i < N; i++) sums.v[i] = from[i];
#else
        constexpr int V = min_of(N, VEC16<Sum>);
#pragma unroll
        for (int i = 0; i < N; i += V) {
            auto words = lds_load<typename WordVector<V * sizeof(Sum) / 4>::type>((const LDS_MEMORY char *)(from + i));
            auto some = bit_cast<vec<Sum, V>>(words);
#pragma unroll
            for (int j = 0; j < V; j++) sums.v[i + j] = some[j];
        }
#endif
        return sums;
    }
};

// Adds up the splits of each element of C, the last one first, as where they are reduced in the kernel
// (WaveTile::reduce_in_kernel). Grid: any number of workgroups in x.
template <class T, class Epilogue = ::Epilogue<T>, class Problem>
__device__ __forceinline__ void matmul_sum(const Problem &problem) {
    using Sum = typename Product<T>::Sum;
    const MatmulProblem &p = product_of(problem);
    uint64_t plane = (uint64_t)p.gemm.m * p.gemm.n, total = plane * p.batch;
    bool fits_32 = total >> 32 == 0;
    // Calls f(row, column, matrix of the batch, sums) for N rows at a time, of which C has a multiple.
    auto each = [&](auto width, auto f) INLINED {
        constexpr int N = width.value;
        for (uint64_t i = global_thread() * N; i < total; i += global_threads() * N) {
            const Sum *from = (const Sum *)p.partial + i;
            auto sums = load_vector<vec<Sum, N>>(from + (p.splits - 1) * total);
#pragma unroll 4
            for (uint32_t split = 0; split + 1 < p.splits; split++) {
                auto more = load_vector<vec<Sum, N>>(from + split * total);
#pragma unroll
                for (int e = 0; e < N; e++) sums[e] += more[e];
            }
            uint64_t line = divide(i, p.gemm.m, fits_32), z = divide(line, p.gemm.n, fits_32);
            f((uint32_t)(i - line * p.gemm.m), (uint32_t)(line - z * p.gemm.n), (uint32_t)z, sums);
        }
    };
    if constexpr (is_same<Problem, MatmulProblem>::value) {
        using C = typename Product<T>::C;
        constexpr int N = VEC16<Sum>;
        C *c = (C *)p.gemm.c;
        if (p.is_bare && p.gemm.m % N == 0 && vectors_at(c, p.gemm.ldc) && vectors_at(c, p.gemm.stride_c)) {
            Sum alpha = Scaling<Sum>(p.gemm).alpha;
            each(Constant<N>(), [&](uint32_t row, uint32_t column, uint32_t z, const vec<Sum, N> &sums) INLINED {
                Sum scaled[N];
#pragma unroll
                for (int e = 0; e < N; e++) scaled[e] = alpha * sums[e];
                store_vector(c + z * p.gemm.stride_c + (int64_t)column * p.gemm.ldc + row, round_all_to<C>(scaled));
            });
            return;
        }
    }
    each(Constant<1>(), [&](uint32_t row, uint32_t column, uint32_t z, const vec<Sum, 1> &sums)
                            INLINED { Epilogue(problem, z).store(row, column, sums[0]); });
}
