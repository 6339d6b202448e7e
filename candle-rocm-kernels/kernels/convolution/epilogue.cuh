// What is done to a convolution's sums on their way to the result: alpha, beta, bias, activation, residual, one
// rounding.
#pragma once
#include "convolution/places.cuh"
#include "matmul/loads/vectors.cuh"

template <class T, bool ACTIVATES = true> struct ConvolutionEpilogue {
    using Sum = compute_t<T>;

    T *result;
    const T *addend, *bias, *residual;
    Sum alpha, beta;
    uint32_t activation;

    // `phase` has the group and where its results begin.
    __device__ __forceinline__ ConvolutionEpilogue(const ConvolutionProblem &p, const Phase &phase)
        : result((T *)p.result + phase.result), addend((const T *)p.addend + phase.result),
          bias(p.bias ? (const T *)p.bias + phase.group * p.columns : nullptr),
          residual(p.residual ? (const T *)p.residual + phase.result : nullptr), alpha((Sum)p.alpha), beta((Sum)p.beta),
          activation(p.activation) {}

    __device__ __forceinline__ Sum activated(Sum x) const {
        if (!ACTIVATES || activation == ACTIVATION_none) return x;
        if (activation == ACTIVATION_RELU_OF_NAN) return x != x ? x : ReluFunction::of<T>(x);
        if (activation == ACTIVATION_relu) return ReluFunction::of<T>(x);
        return ::activated<T>(x, activation);
    }

    // One element, so many elements behind the first.
    __device__ __forceinline__ void store(int64_t at, uint32_t column, Sum sum) const {
        Sum x = alpha * sum;
        if (beta != 0) x = math::fma(beta, upcast(load_at<vec<T, 1>>(addend + at, 0)[0]), x);
        if (bias) x += upcast(load_at<vec<T, 1>>(bias + column, 0)[0]);
        x = activated(x);
        if (residual) x += upcast(load_at<vec<T, 1>>(residual + at, 0)[0]);
        store_at(result + at, vec<T, 1>{round_to<T>(x)});
    }

    // A vector of 16 bytes: rows of a column, or columns from this one on. The sums lie in LDS, where this lane may
    // write.
    template <bool COLUMNS> __device__ __forceinline__ void store_all(int64_t at, uint32_t column,
                                                                      LDS_MEMORY Sum *sums) const {
        constexpr int N = VEC16<T>;
        using Vector = vec<T, N>;
        Sum x[N];
#pragma unroll
        for (int i = 0; i < N; i++) x[i] = alpha * sums[i];
        if (beta != 0) {
            Vector old = load_vector<Vector>(addend + at);
#pragma unroll
            for (int i = 0; i < N; i++) x[i] = math::fma(beta, upcast(old[i]), x[i]);
        }
        if (bias) {
            if constexpr (COLUMNS) {
#pragma unroll
                for (int i = 0; i < N; i++) x[i] += upcast(load_at<vec<T, 1>>(bias + column + i, 0)[0]);
            } else {
                Sum same = upcast(load_at<vec<T, 1>>(bias + column, 0)[0]);
#pragma unroll
                for (int i = 0; i < N; i++) x[i] += same;
            }
        }
        if (ACTIVATES && activation != ACTIVATION_none) {
#pragma unroll
            for (int i = 0; i < N; i++) sums[i] = x[i];
            // From LDS, for a loop: the functions are too long to repeat.
#pragma unroll 1
            for (int i = 0; i < N; i++) sums[i] = activated(sums[i]);
#pragma unroll
            for (int i = 0; i < N; i++) x[i] = sums[i];
        }
        if (residual) {
            Vector more = load_vector<Vector>(residual + at);
#pragma unroll
            for (int i = 0; i < N; i++) x[i] += upcast(more[i]);
        }
        store_vector(result + at, round_all_to<T>(x));
    }
};

// Adds up the splits of k of each result, the first one first. Grid: any number of workgroups in x.
template <class T> __device__ __forceinline__ void convolution_sum(const ConvolutionProblem &p) {
    using Sum = compute_t<T>;
    uint64_t plane = (uint64_t)p.rows * p.columns, total = plane * p.groups.value;
    bool fits_32 = total >> 32 == 0;
    for (uint64_t i = global_thread(); i < total; i += global_threads()) {
        const Sum *from = (const Sum *)p.partial + i;
        Sum sum = *from;
        for (uint32_t split = 1; split < p.splits; split++) sum += from[split * total];
        uint64_t line = divide(i, p.rows, fits_32), group = divide(line, p.columns, fits_32);
        uint32_t row = (uint32_t)(i - line * p.rows), column = (uint32_t)(line - group * p.columns);
        Phase phase(p, (uint32_t)group);
        int64_t at = result_offset(p, phase.row(p, row)) + column * p.result_column;
        ConvolutionEpilogue<T>(p, phase).store(at, column, sum);
    }
}
