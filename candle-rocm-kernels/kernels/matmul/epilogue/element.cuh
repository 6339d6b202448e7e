// The epilogue of a product: bias, activation, residual, one rounding. In skinny products, and for C as it is
// after those whose kernels or libraries do not do it.
#pragma once
#include "matmul/matmul_problem.cuh"

// Rows and columns are those of C as the caller has it; a product that was taken transposed has them the other way
// round.
template <class T> struct ElementEpilogue {
    using Acc = compute_t<T>;

    const T *bias;
    const T *residual;
    int64_t ld_residual;
    uint32_t activation;
    bool transposed;

    __device__ __forceinline__ ElementEpilogue(const MatmulProblem &p, uint32_t z, bool transposed)
        : bias((const T *)p.bias), residual(p.residual ? (const T *)p.residual + z * p.stride_residual : nullptr),
          ld_residual(p.ld_residual), activation(p.activation), transposed(transposed) {}

    // The residual of an element, which may be read long before the sum is there.
    __device__ __forceinline__ T residual_of(uint32_t row, uint32_t column) const {
        uint32_t r = transposed ? column : row, c = transposed ? row : column;
        return residual ? load_at<vec<T, 1>>(residual + (int64_t)c * ld_residual + r, 0)[0] : T();
    }
    __device__ __forceinline__ T operator()(Acc x, uint32_t row, uint32_t column, T of_residual) const {
        if (bias) x += upcast(bias[transposed ? column : row]);
        if (activation != ACTIVATION_none) x = activated<T>(x, activation);
        if (residual) x += upcast(of_residual);
        return round_to<T>(x);
    }
    __device__ __forceinline__ T operator()(Acc x, uint32_t row, uint32_t column) const {
        return (*this)(x, row, column, residual_of(row, column));
    }
};

// alpha * sum + beta * C, and what follows, of a product's elements.
template <class T> struct ScaledEpilogue {
    using Acc = compute_t<T>;

    T *c;
    int64_t row_c, column_c;
    Scaling<Acc> scaling;
    ElementEpilogue<T> epilogue;

    // `c` is that of product z of the batch.
    __device__ __forceinline__ ScaledEpilogue(const MatmulProblem &p, T *c, bool transposed, uint32_t z)
        : c(c), row_c(p.gemm.row_c), column_c(p.gemm.ldc), scaling(p.gemm), epilogue(p, z, transposed) {}

    __device__ __forceinline__ void store(uint32_t row, uint32_t column, Acc sum, T of_residual) const {
        T *to = c + (int64_t)row * row_c + (int64_t)column * column_c;
        Acc x[1];
        scaling(x, &sum, to);
        *to = epilogue(x[0], row, column, of_residual);
    }
    __device__ __forceinline__ void store(uint32_t row, uint32_t column, Acc sum) const {
        store(row, column, sum, epilogue.residual_of(row, column));
    }
};

// Adds up the splits of each element of C, in their order. Grid: any number of workgroups in x.
template <class T> __device__ __forceinline__ void gemm_sum(const MatmulProblem &p, bool transposed) {
    using Acc = compute_t<T>;
    uint64_t plane = (uint64_t)p.gemm.m * p.gemm.n, total = plane * p.batch;
    bool fits_32 = total >> 32 == 0;
    for (uint64_t i = global_thread(); i < total; i += global_threads()) {
        const Acc *from = (const Acc *)p.partial + i;
        Acc sum = *from;
        for (uint32_t split = 1; split < p.splits; split++) sum += from[split * total];
        uint64_t line = divide(i, p.gemm.m, fits_32), z = divide(line, p.gemm.n, fits_32);
        ScaledEpilogue<T>(p, (T *)p.gemm.c + z * p.gemm.stride_c, transposed, (uint32_t)z)
            .store((uint32_t)(i - line * p.gemm.m), (uint32_t)(line - z * p.gemm.n), sum);
    }
}

// C as it is, and what follows. Grid: any number of workgroups in x.
template <class T> __device__ __forceinline__ void gemm_epilogue(const MatmulProblem &p) {
    uint64_t plane = (uint64_t)p.gemm.m * p.gemm.n, total = plane * p.batch;
    bool fits_32 = total >> 32 == 0;
    for (uint64_t i = global_thread(); i < total; i += global_threads()) {
        uint64_t line = divide(i, p.gemm.m, fits_32), z = divide(line, p.gemm.n, fits_32);
        uint32_t row = (uint32_t)(i - line * p.gemm.m), column = (uint32_t)(line - z * p.gemm.n);
        T *to = (T *)p.gemm.c + z * p.gemm.stride_c + (int64_t)column * p.gemm.ldc + row;
        *to = ElementEpilogue<T>(p, (uint32_t)z, false)(upcast(*to), row, column);
    }
}
