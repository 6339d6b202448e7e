// Softmax and log-softmax of rows, in one read where the row's threads hold it.
#pragma once
#include "norms/row_kernels.cuh"
#include "rows/rows.cuh"

namespace norms {

// e^x for x <= 0. The small floats are rounded so much more coarsely that the hardware's own exponential will do.
template <class T, class C> __device__ __forceinline__ C row_exp(C x) {
    if constexpr (sizeof(T) == 2) return math::fast_exp2(x * 1.44269504088896340736f);
    else return math::exp(x);
}
// e^x times 2^-shift.
__device__ __forceinline__ float row_exp_shifted(float x, float shift) {
    return math::fast_exp2(math::fma(x, 1.44269504088896340736f, -shift));
}

struct Maximum {
    template <class C> __device__ __forceinline__ C operator()(C a, C b) const { return math::fmax(a, b); }
};

// Of nothing but -infinity there is no largest to subtract.
template <class C> __device__ __forceinline__ C finite(C largest) { return largest == -(C)INFINITY ? (C)0 : largest; }

// What turns a sum of exponentials relative to `from`, the largest so far, into one relative to `to`, the largest of
// more. Of nothing the sum is 0, and the factor must not be infinite.
template <class T, class C> __device__ __forceinline__ C rescale(C from, C to) {
    return row_exp<T>(math::fmin(finite(from) - to, (C)0));
}

// The largest of some numbers, and the sum of their exponentials relative to it, as they come.
template <class T> struct Online {
    using C = compute_t<T>;
    C largest = -(C)INFINITY, sum = 0;

    template <int WIDTH, class E> __device__ __forceinline__ void add(const vec<E, WIDTH> &x) {
        C before = largest;
#pragma unroll
        for (int k = 0; k < WIDTH; k++) largest = math::fmax(largest, (C)upcast(x[k]));
        C now = finite(largest);
        sum *= rescale<T>(before, now);
#pragma unroll
        for (int k = 0; k < WIDTH; k++) sum += row_exp<T>((C)upcast(x[k]) - now);
    }
};

// What softmax writes of an element x of a row whose largest is `all` and whose exponentials add up to `sum`. ZERO
// gives zeros where nothing is above -infinity, and otherwise such a row is NaN.
template <class T, bool LOG, bool ZERO> struct SoftmaxResult {
    using C = compute_t<T>;
    // Single and double precision multiply; smaller types leave the division to the exponent.
    static constexpr bool MULTIPLY = is_same<T, C>::value;
    C all, scale;

    __device__ __forceinline__ SoftmaxResult(C all, C sum) : all(all) {
        if constexpr (LOG) scale = math::log(sum);
        else if constexpr (MULTIPLY) scale = ZERO && sum == (C)0 ? (C)0 : (C)1 / sum;
        else scale = ZERO && sum == 0 ? 0 : math::log2(sum);
    }
    __device__ __forceinline__ T operator()(C x) const {
        if constexpr (LOG) return round_to<T>((x - all) - scale);
        else if constexpr (MULTIPLY) return round_to<T>(row_exp<T>(x - all) * scale);
        else return round_to<T>(row_exp_shifted(x - all, scale));
    }
    template <int WIDTH, class E> __device__ __forceinline__ vec<T, WIDTH> of(const vec<E, WIDTH> &x) const {
        vec<T, WIDTH> y;
#pragma unroll
        for (int k = 0; k < WIDTH; k++) y[k] = (*this)((C)upcast(x[k]));
        return y;
    }
};

// Every result is made of its element, the row's largest and the row's sum alone, so that equal elements have equal
// results. Exponentials that are kept are relative to the row's largest. Others each thread adds up relative to its own
// largest, and computes anew.
template <class Form, bool LOG = false, bool ZERO = false, class Source, class T>
__device__ __forceinline__ void softmax_row(const Source &src, T *__restrict__ dst, uint32_t columns,
                                            const RowGroup &row_group) {
    constexpr int WIDTH = Form::WIDTH, N = Form::N;
    constexpr bool FULL = Form::FULL, REST = Form::REST;
    using C = compute_t<T>;
    using E = typename Source::Element;
    using V = vec<E, WIDTH>;
    // f32 and f64 keep the exponentials; smaller types would round them, and compute twice.
    constexpr bool HOLDS = !LOG && is_same<T, C>::value;
    __shared__ WaveValues<C> lds;
    Held<Source, WIDTH, N, FULL> held(src, row_group, columns, round_to<E>(-(C)INFINITY));
    Online<T> online;
    held.each([&](C x) INLINED { online.largest = math::fmax(online.largest, x); });
    held.opt_barrier_words(columns);
    auto add_held = [&](C from) INLINED {
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int k = 0; k < WIDTH; k++) {
                C e = row_exp<T>((C)upcast(held.x[n][k]) - from);
                online.sum += e;
                if constexpr (HOLDS) held.x[n][k] = e;
            }
    };
    if constexpr (!HOLDS) add_held(finite(online.largest));
    if constexpr (REST) for_rest<WIDTH, N>(src, row_group, columns, [&](uint32_t, V x) INLINED { online.add(x); });
    C all = finite(row_group.all_reduce(online.largest, Maximum(), lds));
    if constexpr (REST || !HOLDS) online.sum *= rescale<T>(online.largest, all);
    if constexpr (HOLDS) add_held(all);
    SoftmaxResult<T, LOG, ZERO> result(all, row_group.all_reduce(online.sum, Sum(), lds));
    held.opt_barrier_words(columns);
    if constexpr (HOLDS) {
        held.each_vector(row_group, columns, [&](uint32_t i, V x) INLINED {
#pragma unroll
            for (int k = 0; k < WIDTH; k++) x[k] *= result.scale;
            store_vec(dst + i, x);
        });
    } else {
        held.each_vector(row_group, columns, [&](uint32_t i, V x) INLINED { store_vec(dst + i, result.of(x)); });
    }
    if constexpr (REST)
        for_rest<WIDTH, N>(src, row_group, columns, [&](uint32_t i, V x) INLINED { store_vec(dst + i, result.of(x)); });
}

// Candle launches a workgroup of (1, 32) for each row. Its x is the number of rows, and there may be more of them.
template <class T> __device__ __forceinline__ void softmax(const T *src, T *dst, int32_t columns) {
    // Eight vectors of f64 exponentials are more than the registers of a workgroup of 1024.
    constexpr int MOST = sizeof(T) == 8 ? 4 : RowsOf_softmax::VECTORS;
    auto make = [&](auto form, const RowGroup &row_group, size_t row) INLINED {
        softmax_row<decltype(form)>(Plain<T>{src + row * columns}, dst + row * columns, columns, row_group);
    };
    for_rows_of<MOST, T>(blockDim.x, columns, can_vectorise<T>(columns, src, dst), make);
}

} // namespace norms
