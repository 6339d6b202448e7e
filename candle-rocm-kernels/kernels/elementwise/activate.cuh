// Bias, activation and residual of a matrix, gated activations, and their gradients.
#pragma once
#include "portable/activations.cuh"
#include "elementwise/elementwise.cuh"

// Calls f(width, row, column) for each vector of a matrix, or each element if it cannot be read in vectors. A matrix of
// one row may have any number of columns.
template <class T, class F> __device__ __forceinline__ void for_matrix(size_t rows, size_t columns, bool wide, F f) {
    size_t thread = global_thread(), threads = global_threads();
    auto each = [&](auto width, size_t vectors) INLINED {
        constexpr int W = width.value;
        size_t total = rows * vectors, row = 0, at = thread, down = 0, across = threads;
        if (rows != 1) {
            bool fits_32 = total + threads <= 0xffffffffu;
            row = divide(thread, vectors, fits_32);
            at = thread - row * vectors;
            down = divide(threads, vectors, fits_32);
            across = threads - down * vectors;
        }
        for (size_t v = thread; v < total; v += threads) {
            f(width, row, at * W);
            row += down;
            at += across;
            if (rows != 1 && at >= vectors) {
                at -= vectors;
                row++;
            }
        }
    };
    constexpr int WIDTH = VEC16<T>;
    if (wide && (rows == 1 || columns % WIDTH == 0)) {
        each(Constant<WIDTH>(), columns / WIDTH);
        // Of one row.
        for (size_t i = columns - columns % WIDTH + thread; i < columns; i += threads) f(Constant<1>(), (size_t)0, i);
    } else {
        each(Constant<1>(), columns);
    }
}

// A vector, or zeros of a null pointer.
template <class V, class T> __device__ __forceinline__ V read_or_zeros(const T *from, size_t i) {
    V value;
#pragma unroll
    for (size_t k = 0; k < sizeof(V) / sizeof(T); k++) value[k] = round_to<T>((compute_t<T>)0);
    if (from != nullptr) value = read_global<V>(from + i);
    return value;
}

// F(x + bias) + residual; bias and residual may be null.
template <class F, class T>
__device__ __forceinline__ void activate(const T *__restrict__ x, const T *__restrict__ bias,
                                         const T *__restrict__ residual, T *__restrict__ out, size_t rows,
                                         size_t columns) {
    using C = compute_t<T>;
    for_matrix<T>(rows, columns, all_aligned<VEC16<T>>(x, bias, residual, out),
                  [&](auto width, size_t row, size_t column) INLINED {
                      using V = vec<T, width.value>;
                      size_t i = row * columns + column;
                      V v = read_global<V>(x + i), b = read_or_zeros<V>(bias, column),
                        r = read_or_zeros<V>(residual, i);
#pragma unroll
                      for (int k = 0; k < width.value; k++)
                          v[k] = round_to<T>(F::template of<T>((C)upcast(v[k]) + (C)upcast(b[k])) + (C)upcast(r[k]));
                      store_vec(out + i, v);
                  });
}

// dy * F'(x + bias)
template <class F, class T>
__device__ __forceinline__ void activate_backward(const T *__restrict__ x, const T *__restrict__ bias,
                                                  const T *__restrict__ dy, T *__restrict__ dx, size_t rows,
                                                  size_t columns) {
    using C = compute_t<T>;
    for_matrix<T>(rows, columns, all_aligned<VEC16<T>>(x, bias, dy, dx),
                  [&](auto width, size_t row, size_t column) INLINED {
                      using V = vec<T, width.value>;
                      size_t i = row * columns + column;
                      V v = read_global<V>(x + i), d = read_global<V>(dy + i), b = read_or_zeros<V>(bias, column);
#pragma unroll
                      for (int k = 0; k < width.value; k++)
                          v[k] = round_to<T>((C)upcast(d[k]) * F::template slope<T>((C)upcast(v[k]) + (C)upcast(b[k])));
                      store_vec(dx + i, v);
                  });
}

// silu(gate) * up; rows of gate and up are `stride` elements apart.
template <class T>
__device__ __forceinline__ void swiglu(const T *__restrict__ gate, const T *__restrict__ up, T *__restrict__ out,
                                       size_t rows, size_t columns, size_t stride) {
    using C = compute_t<T>;
    bool wide = all_aligned<VEC16<T>>(gate, up, out) && (rows == 1 || stride % VEC16<T> == 0);
    for_matrix<T>(rows, columns, wide, [&](auto width, size_t row, size_t column) INLINED {
        using V = vec<T, width.value>;
        V g = read_global<V>(gate + row * stride + column), u = read_global<V>(up + row * stride + column);
#pragma unroll
        for (int k = 0; k < width.value; k++)
            g[k] = round_to<T>(SiluFunction::of<T>((C)upcast(g[k])) * (C)upcast(u[k]));
        store_vec(out + row * columns + column, g);
    });
}

// Its gradients, laid out as gate and up are.
template <class T>
__device__ __forceinline__ void swiglu_backward(const T *__restrict__ gate, const T *__restrict__ up,
                                                const T *__restrict__ dy, T *__restrict__ dgate, T *__restrict__ dup,
                                                size_t rows, size_t columns, size_t stride) {
    using C = compute_t<T>;
    bool wide = all_aligned<VEC16<T>>(gate, up, dy, dgate, dup) && (rows == 1 || stride % VEC16<T> == 0);
    for_matrix<T>(rows, columns, wide, [&](auto width, size_t row, size_t column) INLINED {
        using V = vec<T, width.value>;
        size_t i = row * stride + column;
        V g = read_global<V>(gate + i), u = read_global<V>(up + i), d = read_global<V>(dy + row * columns + column);
#pragma unroll
        for (int k = 0; k < width.value; k++) {
            C x = (C)upcast(g[k]), dk = (C)upcast(d[k]);
            g[k] = round_to<T>(dk * (C)upcast(u[k]) * SiluFunction::slope<T>(x));
            u[k] = round_to<T>(dk * SiluFunction::of<T>(x));
        }
        store_vec(dgate + i, g);
        store_vec(dup + i, u);
    });
}
