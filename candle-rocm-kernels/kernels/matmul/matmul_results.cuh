// What is done to sums on their way to C: alpha, beta, bias, activation, residual, one rounding.
#pragma once
#include "matmul/matmul_problem.cuh"
#include "matmul/unit/unit.cuh"

template <class T> struct Results {
    using Sum = typename Product<T>::Sum;
    using C = typename Product<T>::C;
    static constexpr bool ACTIVATES = !is_same<T, int8_t>::value;

    C *c;
    const C *bias;
    const C *residual;
    int64_t ldc, ld_residual;
    Scaling<Sum> scaling;
    uint32_t activation;

    __device__ __forceinline__ Results(const MatmulProblem &p, uint32_t z)
        : c((C *)p.gemm.c + z * p.gemm.stride_c), bias((const C *)p.bias),
          residual(p.residual ? (const C *)p.residual + z * p.stride_residual : nullptr), ldc(p.gemm.ldc),
          ld_residual(p.ld_residual), scaling(p.gemm), activation(p.activation) {}

    // One element.
    __device__ __forceinline__ void store(uint32_t row, uint32_t column, Sum sum) const {
        C *to = c + (int64_t)column * ldc + row;
        Sum scaled[1];
        scaling(scaled, &sum, to);
        Sum x = scaled[0];
        if (bias) x += widen(load_at<vec<C, 1>>(bias + row, 0)[0]);
        if constexpr (ACTIVATES)
            if (activation != ACTIVATION_none) x = activated<T>(x, activation);
        if (residual) x += widen(load_at<vec<C, 1>>(residual + (int64_t)column * ld_residual + row, 0)[0]);
        store_at(to, vec<C, 1>{narrow<C>(x)});
    }

    // N rows, whose sums lie in LDS, where this lane may write.
    template <int N> __device__ __forceinline__ void store(uint32_t row, uint32_t column, LDS_MEMORY Sum *sums) const {
        C *to = c + (int64_t)column * ldc + row;
        Sum x[N];
        scaling(x, sums, to);
        if (bias) {
            vec<C, N> more = load_at<vec<C, N>>(bias + row, 0);
#pragma unroll
            for (int i = 0; i < N; i++) x[i] += widen(more[i]);
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
            vec<C, N> more = load_at<vec<C, N>>(residual + (int64_t)column * ld_residual + row, 0);
#pragma unroll
            for (int i = 0; i < N; i++) x[i] += widen(more[i]);
        }
        vec<C, N> out;
#pragma unroll
        for (int i = 0; i < N; i++) out[i] = narrow<C>(x[i]);
        store_at(to, out);
    }
};

// Adds up the parts of each element of C, in their order. Grid: any number of workgroups in x.
template <class T> __device__ __forceinline__ void matmul_sum(const MatmulProblem &p) {
    using Sum = typename Product<T>::Sum;
    uint64_t plane = (uint64_t)p.gemm.m * p.gemm.n, total = plane * p.batch;
    bool narrow = total >> 32 == 0;
    for (uint64_t i = global_thread(); i < total; i += global_threads()) {
        const Sum *from = (const Sum *)p.partial + i;
        Sum sum = *from;
        for (uint32_t part = 1; part < p.parts; part++) sum += from[part * total];
        uint64_t line = divide(i, p.gemm.m, narrow), z = divide(line, p.gemm.n, narrow);
        Results<T>(p, (uint32_t)z).store((uint32_t)(i - line * p.gemm.m), (uint32_t)(line - z * p.gemm.n), sum);
    }
}
