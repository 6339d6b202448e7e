// Rows of the fused operators: masked softmax, log-softmax, norms of sums, and what their gradients need.
#pragma once
#include "rows/rows.cuh"

// ------------------------------------------------------------------ sources

struct NoMask {};

// The logits x * scale + mask, in the compute type. What a mask of type M does: T is added, of u8 a zero hides the
// element, whatever it is.
template <class T, class M> struct Logits {
    using Element = compute_t<T>;
    template <int WIDTH> using Vector = vec<Element, WIDTH>;
    const T *row;
    const M *mask;
    Element scale;

    template <int WIDTH> __device__ __forceinline__ Vector<WIDTH> read(size_t i) const {
        vec<T, WIDTH> x = read_global<vec<T, WIDTH>>(row + i);
        Vector<WIDTH> logits;
        if constexpr (is_same<M, NoMask>::value) {
#pragma unroll
            for (int k = 0; k < WIDTH; k++) logits[k] = (Element)upcast(x[k]) * scale;
        } else {
            vec<M, WIDTH> m = read_global<vec<M, WIDTH>>(mask + i);
#pragma unroll
            for (int k = 0; k < WIDTH; k++) {
                if constexpr (is_same<M, uint8_t>::value)
                    logits[k] = m[k] != 0 ? (Element)upcast(x[k]) * scale : -(Element)INFINITY;
                else logits[k] = (Element)upcast(x[k]) * scale + (Element)upcast(m[k]);
            }
        }
        return logits;
    }
    template <int WIDTH> static __device__ __forceinline__ Vector<WIDTH> all(Element value) {
        return Plain<Element>::template all<WIDTH>(value);
    }
    __device__ __forceinline__ Logits from(size_t i) const {
        if constexpr (is_same<M, NoMask>::value) return {row + i, mask, scale};
        else return {row + i, mask + i, scale};
    }
};

// Where the mask of each row is: rows are numbered in three dimensions, of which the last two have these sizes, and the
// mask has a stride (in elements, 0 where it is repeated) in each.
struct MaskRows {
    uint32_t middle, inner;
    size_t strides[3];

    __device__ __forceinline__ size_t offset(size_t row) const {
        uint32_t outer = (uint32_t)row / inner, i = (uint32_t)row - outer * inner;
        uint32_t o = outer / middle, m = outer - o * middle;
        return o * strides[0] + m * strides[1] + i * strides[2];
    }
    __device__ __forceinline__ bool divide_by(uint32_t width) const {
        return (strides[0] | strides[1] | strides[2]) % width == 0;
    }
};

// x + residual, rounded to T, which is kept.
template <class T> struct SumOf {
    using Element = T;
    template <int WIDTH> using Vector = vec<T, WIDTH>;
    const T *x, *residual;
    T *sum;

    template <int WIDTH> __device__ __forceinline__ Vector<WIDTH> read(size_t i) const {
        Vector<WIDTH> a = read_global<Vector<WIDTH>>(x + i), b = read_global<Vector<WIDTH>>(residual + i);
#pragma unroll
        for (int k = 0; k < WIDTH; k++) a[k] = round_to<T>(upcast(a[k]) + upcast(b[k]));
        return a;
    }
    template <int WIDTH> static __device__ __forceinline__ Vector<WIDTH> all(T value) {
        return Plain<T>::template all<WIDTH>(value);
    }
    template <class V> __device__ __forceinline__ void write_back(uint32_t i, V value) const {
        store_vec(sum + i, value);
    }
    __device__ __forceinline__ SumOf from(size_t i) const { return {x + i, residual + i, sum + i}; }
};

// Two rows at a time.
template <class T> struct Two {
    using Element = T;
    template <int WIDTH> struct Vector {
        vec<T, WIDTH> a, b;
    };
    const T *a, *b;

    template <int WIDTH> __device__ __forceinline__ Vector<WIDTH> read(size_t i) const {
        return {read_global<vec<T, WIDTH>>(a + i), read_global<vec<T, WIDTH>>(b + i)};
    }
    template <int WIDTH> static __device__ __forceinline__ Vector<WIDTH> all(T value) {
        return {Plain<T>::template all<WIDTH>(value), Plain<T>::template all<WIDTH>(value)};
    }
    __device__ __forceinline__ Two from(size_t i) const { return {a + i, b + i}; }
};

// ---------------------------------------------------------------- gradients

// From a softmax's result y and its gradient dy: scale * y * (dy - sum(y * dy)); from a log-softmax's: dy - e^y *
// sum(dy).
template <int WIDTH, bool LOG, class T> struct SoftmaxGradient {
    using C = compute_t<T>;
    using V = typename Two<T>::template Vector<WIDTH>;
    C sum = 0;

    __device__ __forceinline__ void add(const V &x) {
#pragma unroll
        for (int k = 0; k < WIDTH; k++) {
            if constexpr (LOG) sum += (C)upcast(x.b[k]);
            else sum = math::fma((C)upcast(x.a[k]), (C)upcast(x.b[k]), sum);
        }
    }
    // Once the sum is the row's.
    __device__ __forceinline__ vec<T, WIDTH> of(const V &x, C scale) const {
        vec<T, WIDTH> d;
#pragma unroll
        for (int k = 0; k < WIDTH; k++) {
            C y = (C)upcast(x.a[k]), dy = (C)upcast(x.b[k]);
            if constexpr (LOG) d[k] = round_to<T>(dy - row_exp<T>(y) * sum);
            else d[k] = round_to<T>(y * (dy - sum) * scale);
        }
        return d;
    }
};

template <class Form, bool LOG, class T>
__device__ __forceinline__ void softmax_backward_row(const Two<T> &src, T *__restrict__ dx, uint32_t columns,
                                                     compute_t<T> scale, const RowGroup &row_group) {
    constexpr int WIDTH = Form::WIDTH, N = Form::N;
    constexpr bool FULL = Form::FULL, REST = Form::REST;
    using C = compute_t<T>;
    using V = typename Two<T>::template Vector<WIDTH>;
    __shared__ WaveValues<C> lds;
    Held<Two<T>, WIDTH, N, FULL> held(src, row_group, columns, round_to<T>((C)0));
    SoftmaxGradient<WIDTH, LOG, T> gradient;
    auto add = [&](uint32_t, const V &x) INLINED {
        gradient.add(x);
    };
    held.each_vector(row_group, columns, add);
    if constexpr (REST) for_rest<WIDTH, N>(src, row_group, columns, add);
    gradient.sum = row_group.all_reduce(gradient.sum, Sum(), lds);
    auto finish = [&](uint32_t i, const V &x) INLINED {
        store_vec(dx + i, gradient.of(x, scale));
    };
    held.opt_barrier_words(columns);
    held.each_vector(row_group, columns, finish);
    if constexpr (REST) for_rest<WIDTH, N>(src, row_group, columns, finish);
}

template <class C> struct Three {
    C a, b, c;
};

// The gradient of a normalised row's input x from the result's, dy: with g = dy * alpha, c = x - mean and r = 1 /
// sqrt(variance + eps), r * (g - mean(g) - c * r^2 * mean(g * c)). RMS: without the means of x and of g.
template <int WIDTH, bool RMS, class T> struct NormGradient {
    using C = compute_t<T>;
    using V = typename Two<T>::template Vector<WIDTH>;
    C mean = 0;
    // Of c^2, of g * c, of g.
    Three<C> sums = {0, 0, 0};
    C r, along, shift;

    __device__ __forceinline__ void add(const V &v, const vec<T, WIDTH> &w) {
#pragma unroll
        for (int k = 0; k < WIDTH; k++) {
            C c = (C)upcast(v.a[k]) - mean, g = (C)upcast(v.b[k]) * (C)upcast(w[k]);
            sums.a = math::fma(c, c, sums.a);
            sums.b = math::fma(g, c, sums.b);
            if constexpr (!RMS) sums.c += g;
        }
    }
    // Of all threads.
    __device__ __forceinline__ void reduce(const RowGroup &row_group, WaveValues<Three<C>> &lds) {
        sums = row_group.all_reduce(
            sums,
            [](const Three<C> &x, const Three<C> &y) INLINED { return Three<C>{x.a + y.a, x.b + y.b, x.c + y.c}; },
            lds);
    }
    // Once the sums are the row's. `stats` gets the row's mean (RMS: 0) and r.
    __device__ __forceinline__ void finish(C *stats, uint32_t columns, float eps, bool writes) {
        r = norm_scale(sums.a, columns, eps);
        along = r * r * sums.b / (C)columns;
        shift = sums.c / (C)columns;
        if (writes) {
            stats[0] = mean;
            stats[1] = r;
        }
    }
    __device__ __forceinline__ vec<T, WIDTH> of(const V &v, const vec<T, WIDTH> &w) const {
        vec<T, WIDTH> d;
#pragma unroll
        for (int k = 0; k < WIDTH; k++) {
            C c = (C)upcast(v.a[k]) - mean, g = (C)upcast(v.b[k]) * (C)upcast(w[k]);
            d[k] = round_to<T>(r * (g - shift - c * along));
        }
        return d;
    }
};

// The gradient's mean and sums of a row, or of what stands at `src` of one.
template <bool REST, int WIDTH, int N, bool FULL, bool RMS, class T>
__device__ __forceinline__ void norm_backward_sums(NormGradient<WIDTH, RMS, T> &gradient,
                                                   Held<Two<T>, WIDTH, N, FULL> &held, const Two<T> &src,
                                                   const T *__restrict__ alpha, uint32_t columns,
                                                   const RowGroup &row_group) {
    using C = compute_t<T>;
    using V = typename Two<T>::template Vector<WIDTH>;
    __shared__ WaveValues<Three<C>> lds;
    if constexpr (!RMS) {
        __shared__ WaveValues<C> lds_of_mean;
        C mean = 0;
        auto add = [&](uint32_t, const V &v) INLINED {
#pragma unroll
            for (int k = 0; k < WIDTH; k++) mean += (C)upcast(v.a[k]);
        };
        held.each_vector(row_group, columns, add);
        if constexpr (REST) for_rest<WIDTH, N>(src, row_group, columns, add);
        gradient.mean = row_group.all_reduce(mean, Sum(), lds_of_mean) / (C)columns;
    }
    held.opt_barrier_words(columns);
    auto add = [&](uint32_t i, const V &v) INLINED {
        gradient.add(v, read_global<vec<T, WIDTH>>(alpha + i));
    };
    // Beside both rows there is no room for all of alpha.
    held.template each_vector<2>(row_group, columns, add);
    if constexpr (REST) for_rest<WIDTH, N>(src, row_group, columns, add);
    gradient.reduce(row_group, lds);
}

template <class Form, bool RMS, class T>
__device__ __forceinline__ void norm_backward_row(const Two<T> &src, const T *__restrict__ alpha, T *__restrict__ dx,
                                                  compute_t<T> *stats, uint32_t columns, float eps,
                                                  const RowGroup &row_group) {
    constexpr int WIDTH = Form::WIDTH, N = Form::N;
    constexpr bool FULL = Form::FULL, REST = Form::REST;
    using C = compute_t<T>;
    using V = typename Two<T>::template Vector<WIDTH>;
    Held<Two<T>, WIDTH, N, FULL> held(src, row_group, columns, round_to<T>((C)0));
    NormGradient<WIDTH, RMS, T> gradient;
    norm_backward_sums<REST>(gradient, held, src, alpha, columns, row_group);
    gradient.finish(stats, columns, eps, stats != nullptr && row_group.thread == 0);
    auto finish = [&](uint32_t i, const V &v) INLINED {
        store_vec(dx + i, gradient.of(v, read_global<vec<T, WIDTH>>(alpha + i)));
    };
    held.opt_barrier_words(columns);
    held.template each_vector<2>(row_group, columns, finish);
    if constexpr (REST) for_rest<WIDTH, N>(src, row_group, columns, finish);
}

// The sums over rows that the gradients of a norm's parameters are: of dy * (x - mean) * r to `by_x`, of dy to `plain`,
// each unless it is null. A workgroup of 256 has the rows of one slab and columns in steps of the grid; slab s writes
// its sums to the s-th row of `by_x` and `plain`, which column_finish adds up.
template <int WIDTH, class T>
__device__ __forceinline__ void column_sums(const T *__restrict__ dy, const T *__restrict__ x,
                                            const compute_t<T> *__restrict__ stats, compute_t<T> *__restrict__ by_x,
                                            compute_t<T> *__restrict__ plain, size_t rows, uint32_t columns,
                                            uint32_t slab) {
    using C = compute_t<T>;
    using V = vec<T, WIDTH>;
    constexpr uint32_t ACROSS = 32, DOWN = 8;
    __shared__ C lds[DOWN][ACROSS * VEC16<T>];
    uint32_t across = threadIdx.x % ACROSS, down = threadIdx.x / ACROSS, vectors = columns / WIDTH;
    size_t first = (size_t)blockIdx.y * slab, end = min_of(first + slab, rows);
    for (uint32_t base = blockIdx.x * ACROSS; base < vectors; base += gridDim.x * ACROSS) {
        uint32_t vector = base + across;
        C of_x[WIDTH] = {}, of_dy[WIDTH] = {};
        if (vector < vectors) {
            size_t row = first + down;
            auto add = [&](auto strip) INLINED {
                constexpr int STRIP = strip.value;
                V d[STRIP], v[STRIP];
                C mean[STRIP], r[STRIP];
#pragma unroll
                for (int s = 0; s < STRIP; s++) {
                    size_t from = row + s * DOWN;
                    d[s] = read_global<V>(dy + from * columns + (size_t)vector * WIDTH);
                    if (by_x != nullptr) {
                        v[s] = read_global<V>(x + from * columns + (size_t)vector * WIDTH);
                        mean[s] = stats[2 * from];
                        r[s] = stats[2 * from + 1];
                    }
                }
#pragma unroll
                for (int s = 0; s < STRIP; s++) {
#pragma unroll
                    for (int k = 0; k < WIDTH; k++) {
                        C dk = (C)upcast(d[s][k]);
                        of_dy[k] += dk;
                        if (by_x != nullptr) of_x[k] = math::fma(dk, ((C)upcast(v[s][k]) - mean[s]) * r[s], of_x[k]);
                    }
                }
                row += STRIP * DOWN;
            };
            while (row + DOWN < end) add(Constant<2>());
            if (row < end) add(Constant<1>());
        }
        auto combine = [&](const C *sums, C *to) INLINED {
            if (to == nullptr) return;
#pragma unroll
            for (int k = 0; k < WIDTH; k++) lds[down][k * ACROSS + across] = sums[k];
            __syncthreads();
            for (uint32_t at = threadIdx.x; at < ACROSS * WIDTH; at += ACROSS * DOWN) {
                // Neighbours in memory are WIDTH apart in what the threads hold.
                uint32_t column = base * WIDTH + at, place = at % WIDTH * ACROSS + at / WIDTH;
                C sum = 0;
#pragma unroll
                for (uint32_t row = 0; row < DOWN; row++) sum += lds[row][place];
                if (column < columns) to[(size_t)blockIdx.y * columns + column] = sum;
            }
            __syncthreads();
        };
        combine(of_x, by_x);
        combine(of_dy, plain);
    }
}

// ---------------------------------------------------------- rows in splits
//
// Few rows that are long would leave most of the GPU idle with a workgroup each. A row is cut into splits, of whole
// vectors: the workgroups of a first launch leave what each found in its split, those of a second combine all splits'
// findings, each for itself and in the same order, and write their split.

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
