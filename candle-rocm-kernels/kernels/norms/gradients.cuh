// Gradients of softmax, log-softmax and norms, by row, and of a norm's parameters, by column.
#pragma once
#include "norms/norm.cuh"
#include "norms/softmax.cuh"
#include "norms/sources.cuh"

namespace norms {

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

} // namespace norms
