// RMSNorm and LayerNorm of rows, in one read where the row's threads hold it.
#pragma once
#include "norms/row_kernels.cuh"
#include "rows/rows.cuh"

namespace norms {

// 1 / sqrt(sum / columns + eps)
template <class C> __device__ __forceinline__ C norm_scale(C sum, uint32_t columns, float eps) {
    if constexpr (sizeof(C) == 4) return math::fast_rsqrt(sum * math::fast_recip((float)columns) + eps);
    else return math::rsqrt(sum / (C)columns + (C)eps);
}

// x / sqrt(mean(x^2) + eps) * alpha
template <class Form, class Source, class T>
__device__ __forceinline__ void rmsnorm_row(const Source &src, T *__restrict__ dst, const T *__restrict__ alpha,
                                            uint32_t columns, float eps, const RowGroup &row_group) {
    constexpr int WIDTH = Form::WIDTH, N = Form::N;
    constexpr bool FULL = Form::FULL, REST = Form::REST;
    using C = compute_t<T>;
    using V = vec<T, WIDTH>;
    __shared__ WaveValues<C> lds;
    Held<Source, WIDTH, N, FULL> held(src, row_group, columns, round_to<T>((C)0));
    auto write_back = [&](uint32_t i, V x) INLINED {
        src.write_back(i, x);
    };
    held.each_vector(row_group, columns, write_back);
    C sum = 0;
    held.each([&](C x) INLINED { sum = math::fma(x, x, sum); });
    if constexpr (REST) {
        for_rest<WIDTH, N>(src, row_group, columns, [&](uint32_t i, V x) INLINED {
            write_back(i, x);
#pragma unroll
            for (int k = 0; k < WIDTH; k++) sum = math::fma((C)upcast(x[k]), (C)upcast(x[k]), sum);
        });
    }
    sum = row_group.all_reduce(sum, Sum(), lds);
    C scale = norm_scale(sum, columns, eps);
    auto finish = [&](uint32_t i, V x) INLINED {
        V a = read_global<V>(alpha + i), y;
#pragma unroll
        for (int k = 0; k < WIDTH; k++) y[k] = round_to<T>((C)upcast(x[k]) * scale * (C)upcast(a[k]));
        store_vec(dst + i, y);
    };
    held.opt_barrier_words(columns);
    held.each_vector(row_group, columns, finish);
    if constexpr (REST) for_rest<WIDTH, N>(src, row_group, columns, finish);
}

// The mean of some numbers and the sum of the squares of their distances from it.
template <class C> struct Moments {
    C mean, squares;
};

// (x - mean) / sqrt(variance + eps) * alpha + beta. Squares are of distances from a mean: E[x^2] - mean^2 cancels when
// the mean is large. Where all threads hold as many elements, they combine their own moments, in one exchange; else
// they agree on the mean first.
template <class Form, class Source, class T, class Beta>
__device__ __forceinline__ void layernorm_row(const Source &src, T *__restrict__ dst, const T *__restrict__ alpha,
                                              const Beta &beta, uint32_t columns, float eps,
                                              const RowGroup &row_group) {
    constexpr int WIDTH = Form::WIDTH, N = Form::N;
    constexpr bool FULL = Form::FULL, REST = Form::REST;
    using C = compute_t<T>;
    using V = vec<T, WIDTH>;
    Held<Source, WIDTH, N, FULL> held(src, row_group, columns, round_to<T>((C)0));
    auto write_back = [&](uint32_t i, V x) INLINED {
        src.write_back(i, x);
    };
    held.each_vector(row_group, columns, write_back);
    C sum = 0;
    held.each([&](C x) INLINED { sum += x; });
    C mean, squares = 0;
    auto add_square = [&](uint32_t, V x) INLINED {
#pragma unroll
        for (int k = 0; k < WIDTH; k++) {
            C centred = (C)upcast(x[k]) - mean;
            squares = math::fma(centred, centred, squares);
        }
    };
    held.opt_barrier_words(columns);
    if constexpr (FULL) {
        __shared__ WaveValues<Moments<C>> lds;
        C count = N * WIDTH;
        mean = sum / count;
        held.each_vector(row_group, columns, add_square);
        auto combine = [&](Moments<C> a, Moments<C> b) INLINED {
            C distance = b.mean - a.mean;
            Moments<C> both = {(C)0.5 * (a.mean + b.mean),
                               a.squares + b.squares + distance * distance * ((C)0.5 * count)};
            count *= (C)2;
            return both;
        };
        Moments<C> all = row_group.all_reduce(Moments<C>{mean, squares}, combine, lds);
        mean = all.mean;
        squares = all.squares;
    } else {
        __shared__ WaveValues<C> lds;
        if constexpr (REST) {
            for_rest<WIDTH, N>(src, row_group, columns, [&](uint32_t i, V x) INLINED {
                write_back(i, x);
#pragma unroll
                for (int k = 0; k < WIDTH; k++) sum += (C)upcast(x[k]);
            });
        }
        mean = row_group.all_reduce(sum, Sum(), lds) / (C)columns;
        held.each_vector(row_group, columns, add_square);
        if constexpr (REST) for_rest<WIDTH, N>(src, row_group, columns, add_square);
        squares = row_group.all_reduce(squares, Sum(), lds);
    }
    C scale = norm_scale(squares, columns, eps), shift = -mean * scale;
    auto finish = [&](uint32_t i, V x) INLINED {
        V a = read_global<V>(alpha + i), b = beta.template read<WIDTH>(i), y;
#pragma unroll
        for (int k = 0; k < WIDTH; k++) {
            // What small floats cannot tell apart survives the difference of products, in f32.
            C centred =
                is_same<T, C>::value ? ((C)upcast(x[k]) - mean) * scale : math::fma((C)upcast(x[k]), scale, shift);
            y[k] = round_to<T>(math::fma(centred, (C)upcast(a[k]), (C)upcast(b[k])));
        }
        store_vec(dst + i, y);
    };
    held.opt_barrier_words(columns);
    held.each_vector(row_group, columns, finish);
    if constexpr (REST) for_rest<WIDTH, N>(src, row_group, columns, finish);
}

// Candle launches a workgroup of 32 or 1024 for each row. Its y is the number of rows.
template <class T>
__device__ __forceinline__ void rmsnorm(const T *src, T *dst, const T *alpha, int32_t columns, float eps) {
    auto make = [&](auto form, const RowGroup &row_group, size_t row) INLINED {
        Plain<T> source{src + row * columns};
        rmsnorm_row<decltype(form)>(source, dst + row * columns, alpha, columns, eps, row_group);
    };
    for_rows_of<RowsOf_rmsnorm::VECTORS, T>(blockDim.y, columns, can_vectorise<T>(columns, src, dst, alpha), make);
}

template <class T>
__device__ __forceinline__ void layernorm(const T *src, T *dst, const T *alpha, const T *beta, int32_t columns,
                                          float eps) {
    auto make = [&](auto form, const RowGroup &row_group, size_t row) INLINED {
        Plain<T> source{src + row * columns};
        layernorm_row<decltype(form)>(source, dst + row * columns, alpha, Plain<T>{beta}, columns, eps, row_group);
    };
    for_rows_of<RowsOf_layernorm::VECTORS, T>(blockDim.y, columns, can_vectorise<T>(columns, src, dst, alpha, beta),
                                              make);
}

} // namespace norms
