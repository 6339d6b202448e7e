// Softmax, norms and their gradients of few long rows, by several workgroups a row.
//
// Few rows that are long would leave most of the GPU idle with a workgroup each. A row is cut into splits, of whole
// vectors: the workgroups of a first launch leave what each found in its split, those of a second combine all splits'
// findings, each for itself and in the same order, and write their split.
#pragma once
#include "norms/gradients.cuh"

namespace norms {

// The split of one's workgroup, in elements.
struct RowSplit {
    uint32_t first, count;

    __device__ __forceinline__ RowSplit(uint32_t columns, uint32_t splits, uint32_t width, uint32_t split) {
        uint32_t vectors = columns / width, each = ceil_div(vectors, splits);
        uint32_t begin = min_of(split * each, vectors), end = min_of(begin + each, vectors);
        first = begin * width;
        count = (end - begin) * width;
    }
};

template <class C> struct Pair {
    C a, b;
};
// What the splits of a softmax or a norm leave.
template <class T> using PartialOf = Pair<compute_t<T>>;

// Leaves the largest logit of the split and the sum of the exponentials relative to it.
template <int WIDTH, class T, class Source>
__device__ __forceinline__ void softmax_split(const Source &row, Pair<compute_t<T>> *__restrict__ partial,
                                              uint32_t columns, uint32_t splits) {
    using C = compute_t<T>;
    using V = typename Source::template Vector<WIDTH>;
    __shared__ WaveValues<C> lds;
    RowSplit split(columns, splits, WIDTH, blockIdx.x);
    RowGroup row_group(blockDim.x, threadIdx.x);
    Online<T> online;
    for_rest<WIDTH, 0>(row.from(split.first), row_group, split.count,
                       [&](uint32_t, const V &x) INLINED { online.add(x); });
    C largest = row_group.all_reduce(online.largest, Maximum(), lds);
    C sum = row_group.all_reduce(online.sum * rescale<T>(online.largest, finite(largest)), Sum(), lds);
    if (threadIdx.x == 0) partial[(size_t)blockIdx.y * splits + blockIdx.x] = {largest, sum};
}

template <int WIDTH, bool LOG, bool ZERO, class T, class Source>
__device__ __forceinline__ void softmax_split_finish(const Source &row, const Pair<compute_t<T>> *__restrict__ partial,
                                                     T *__restrict__ dst, uint32_t columns, uint32_t splits) {
    using C = compute_t<T>;
    using V = typename Source::template Vector<WIDTH>;
    __shared__ WaveValues<C> lds;
    RowGroup row_group(blockDim.x, threadIdx.x);
    const Pair<C> *of_row = partial + (size_t)blockIdx.y * splits;
    C largest = -(C)INFINITY, sum = 0;
    for (uint32_t p = threadIdx.x; p < splits; p += blockDim.x) largest = math::fmax(largest, of_row[p].a);
    C all = finite(row_group.all_reduce(largest, Maximum(), lds));
    for (uint32_t p = threadIdx.x; p < splits; p += blockDim.x) sum += of_row[p].b * rescale<T>(of_row[p].a, all);
    SoftmaxResult<T, LOG, ZERO> result(all, row_group.all_reduce(sum, Sum(), lds));
    RowSplit split(columns, splits, WIDTH, blockIdx.x);
    T *__restrict__ to = dst + split.first;
    for_rest<WIDTH, 0>(row.from(split.first), row_group, split.count,
                       [&](uint32_t i, const V &x) INLINED { store_vec(to + i, result.of(x)); });
}

// Leaves the mean of the split and the sum of the squares of the distances from it; RMS: 0 and the sum of squares.
template <int WIDTH, bool RMS, class T, class Source>
__device__ __forceinline__ void norm_split(const Source &row, Pair<compute_t<T>> *__restrict__ partial,
                                           uint32_t columns, uint32_t splits) {
    using C = compute_t<T>;
    using V = vec<T, WIDTH>;
    constexpr int N = 4;
    __shared__ WaveValues<C> lds;
    RowSplit split(columns, splits, WIDTH, blockIdx.x);
    RowGroup row_group(blockDim.x, threadIdx.x);
    Source src = row.from(split.first);
    Held<Source, WIDTH, N, false> held(src, row_group, split.count, round_to<T>((C)0));
    held.each_vector(row_group, split.count, [&](uint32_t i, V x) INLINED { src.write_back(i, x); });
    C mean = 0, squares = 0;
    if constexpr (!RMS) {
        auto add = [&](uint32_t, V x) INLINED {
#pragma unroll
            for (int k = 0; k < WIDTH; k++) mean += (C)upcast(x[k]);
        };
        held.each_vector(row_group, split.count, add);
        for_rest<WIDTH, N>(src, row_group, split.count, add);
        mean = row_group.all_reduce(mean, Sum(), lds) / (C)max_of(split.count, 1u);
    }
    auto add_square = [&](uint32_t, V x) INLINED {
#pragma unroll
        for (int k = 0; k < WIDTH; k++) {
            C c = (C)upcast(x[k]) - mean;
            squares = math::fma(c, c, squares);
        }
    };
    held.each_vector(row_group, split.count, add_square);
    for_rest<WIDTH, N>(src, row_group, split.count, [&](uint32_t i, V x) INLINED {
        src.write_back(i, x);
        add_square(i, x);
    });
    squares = row_group.all_reduce(squares, Sum(), lds);
    if (threadIdx.x == 0) partial[(size_t)blockIdx.y * splits + blockIdx.x] = {mean, squares};
}

// The mean of a row, from the means `a` of its splits.
template <int WIDTH, class Partial, class C>
__device__ __forceinline__ C mean_of_splits(const Partial *__restrict__ of_row, uint32_t columns, uint32_t splits,
                                            const RowGroup &row_group, WaveValues<C> &lds) {
    C sum = 0;
    for (uint32_t p = threadIdx.x; p < splits; p += blockDim.x)
        sum += of_row[p].a * (C)RowSplit(columns, splits, WIDTH, p).count;
    return row_group.all_reduce(sum, Sum(), lds) / (C)columns;
}

template <int WIDTH, bool RMS, class T>
__device__ __forceinline__ void norm_split_finish(const T *__restrict__ row,
                                                  const Pair<compute_t<T>> *__restrict__ partial, T *__restrict__ dst,
                                                  const T *__restrict__ alpha, const T *__restrict__ beta,
                                                  uint32_t columns, uint32_t splits, float eps) {
    using C = compute_t<T>;
    using V = vec<T, WIDTH>;
    __shared__ WaveValues<C> lds;
    RowGroup row_group(blockDim.x, threadIdx.x);
    const Pair<C> *of_row = partial + (size_t)blockIdx.y * splits;
    C mean = RMS ? (C)0 : mean_of_splits<WIDTH>(of_row, columns, splits, row_group, lds), squares = 0;
    for (uint32_t p = threadIdx.x; p < splits; p += blockDim.x) {
        C distance = of_row[p].a - mean;
        squares += of_row[p].b;
        if constexpr (!RMS) squares += distance * distance * (C)RowSplit(columns, splits, WIDTH, p).count;
    }
    C scale = norm_scale(row_group.all_reduce(squares, Sum(), lds), columns, eps);
    RowSplit split(columns, splits, WIDTH, blockIdx.x);
    for_rest<WIDTH, 0>(Plain<T>{row + split.first}, row_group, split.count, [&](uint32_t i, V x) INLINED {
        size_t at = (size_t)split.first + i;
        V a = read_global<V>(alpha + at), y;
        if constexpr (RMS) {
#pragma unroll
            for (int k = 0; k < WIDTH; k++) y[k] = round_to<T>((C)upcast(x[k]) * scale * (C)upcast(a[k]));
        } else {
            V b = read_global<V>(beta + at);
#pragma unroll
            for (int k = 0; k < WIDTH; k++)
                y[k] = round_to<T>(math::fma(((C)upcast(x[k]) - mean) * scale, (C)upcast(a[k]), (C)upcast(b[k])));
        }
        store_vec(dst + at, y);
    });
}

// Leaves the split's sum.
template <int WIDTH, bool LOG, class T>
__device__ __forceinline__ void softmax_backward_split(const Two<T> &row, compute_t<T> *__restrict__ partial,
                                                       uint32_t columns, uint32_t splits) {
    using C = compute_t<T>;
    using V = typename Two<T>::template Vector<WIDTH>;
    __shared__ WaveValues<C> lds;
    RowSplit split(columns, splits, WIDTH, blockIdx.x);
    RowGroup row_group(blockDim.x, threadIdx.x);
    SoftmaxGradient<WIDTH, LOG, T> gradient;
    for_rest<WIDTH, 0>(row.from(split.first), row_group, split.count,
                       [&](uint32_t, const V &x) INLINED { gradient.add(x); });
    C sum = row_group.all_reduce(gradient.sum, Sum(), lds);
    if (threadIdx.x == 0) partial[(size_t)blockIdx.y * splits + blockIdx.x] = sum;
}

template <int WIDTH, bool LOG, class T>
__device__ __forceinline__ void softmax_backward_split_finish(const Two<T> &row,
                                                              const compute_t<T> *__restrict__ partial,
                                                              T *__restrict__ dx, uint32_t columns, uint32_t splits,
                                                              compute_t<T> scale) {
    using C = compute_t<T>;
    using V = typename Two<T>::template Vector<WIDTH>;
    __shared__ WaveValues<C> lds;
    RowGroup row_group(blockDim.x, threadIdx.x);
    SoftmaxGradient<WIDTH, LOG, T> gradient;
    for (uint32_t p = threadIdx.x; p < splits; p += blockDim.x)
        gradient.sum += partial[(size_t)blockIdx.y * splits + p];
    gradient.sum = row_group.all_reduce(gradient.sum, Sum(), lds);
    RowSplit split(columns, splits, WIDTH, blockIdx.x);
    T *__restrict__ to = dx + split.first;
    for_rest<WIDTH, 0>(row.from(split.first), row_group, split.count,
                       [&](uint32_t i, const V &x) INLINED { store_vec(to + i, gradient.of(x, scale)); });
}

// A split's mean, and its sums with that for the row's mean.
template <class C> struct PartialOfGradient {
    C a;
    Three<C> sums;
};

template <int WIDTH, bool RMS, class T>
__device__ __forceinline__ void norm_backward_split(const Two<T> &row, const T *__restrict__ alpha,
                                                    PartialOfGradient<compute_t<T>> *__restrict__ partial,
                                                    uint32_t columns, uint32_t splits) {
    using C = compute_t<T>;
    constexpr int N = 4;
    RowSplit split(columns, splits, WIDTH, blockIdx.x);
    RowGroup row_group(blockDim.x, threadIdx.x);
    Two<T> src = row.from(split.first);
    Held<Two<T>, WIDTH, N, false> held(src, row_group, split.count, round_to<T>((C)0));
    NormGradient<WIDTH, RMS, T> gradient;
    norm_backward_sums<true>(gradient, held, src, alpha + split.first, split.count, row_group);
    // A split without elements has no mean.
    C mean = split.count == 0 ? (C)0 : gradient.mean;
    if (threadIdx.x == 0) partial[(size_t)blockIdx.y * splits + blockIdx.x] = {mean, gradient.sums};
}

template <int WIDTH, bool RMS, class T>
__device__ __forceinline__ void norm_backward_split_finish(const Two<T> &row, const T *__restrict__ alpha,
                                                           const PartialOfGradient<compute_t<T>> *__restrict__ partial,
                                                           T *__restrict__ dx, compute_t<T> *stats, uint32_t columns,
                                                           uint32_t splits, float eps) {
    using C = compute_t<T>;
    using V = typename Two<T>::template Vector<WIDTH>;
    __shared__ WaveValues<Three<C>> lds;
    RowGroup row_group(blockDim.x, threadIdx.x);
    const PartialOfGradient<C> *of_row = partial + (size_t)blockIdx.y * splits;
    NormGradient<WIDTH, RMS, T> gradient;
    if constexpr (!RMS) {
        __shared__ WaveValues<C> lds_of_mean;
        gradient.mean = mean_of_splits<WIDTH>(of_row, columns, splits, row_group, lds_of_mean);
    }
    for (uint32_t p = threadIdx.x; p < splits; p += blockDim.x) {
        Three<C> of_split = of_row[p].sums;
        if constexpr (!RMS) {
            C distance = of_row[p].a - gradient.mean;
            of_split.a += distance * distance * (C)RowSplit(columns, splits, WIDTH, p).count;
            of_split.b += distance * of_split.c;
        }
        gradient.sums = {gradient.sums.a + of_split.a, gradient.sums.b + of_split.b, gradient.sums.c + of_split.c};
    }
    gradient.reduce(row_group, lds);
    gradient.finish(stats, columns, eps, stats != nullptr && blockIdx.x == 0 && threadIdx.x == 0);
    RowSplit split(columns, splits, WIDTH, blockIdx.x);
    for_rest<WIDTH, 0>(row.from(split.first), row_group, split.count, [&](uint32_t i, const V &v) INLINED {
        size_t at = (size_t)split.first + i;
        store_vec(dx + at, gradient.of(v, read_global<vec<T, WIDTH>>(alpha + at)));
    });
}

} // namespace norms
