// Softmax and normalisation of the rows of a contiguous matrix.
//
// A row is read once: a group of threads holds it in registers, in vectors of WIDTH elements (16 bytes where rows and
// weights are aligned and divide into that, otherwise one element). Candle asks for a workgroup for each row; any that
// are wavefronts of 32 and more, and a power of two of rows each, will do.
#pragma once
#include "portable/block_reduce.cuh"
#include "rows/row_kernels.cuh"

// The threads that make one row: a power of two of neighbours, some of a wavefront's or several whole wavefronts.
struct RowGroup {
    uint32_t size, thread, number;

    __device__ __forceinline__ RowGroup(uint32_t size, uint32_t thread)
        : size(size), thread(thread & (size - 1)), number(thread >> log2_of(size)) {}

    // Combines one value a thread. Every thread of the workgroup takes part.
    template <class C, class Op>
    __device__ __forceinline__ C all_reduce(C value, Op op, WaveValues<C> &lds) const {
        if (size < wave_size()) return whole_wave_all_reduce(value, size, op);
        value = whole_wave_all_reduce(value, wave_size(), op);
        if (size > wave_size()) {
            uint32_t waves = size / wave_size(), first = number * waves;
            if ((thread & (wave_size() - 1)) == 0) lds.of_wave[first + thread / wave_size()] = value;
            __syncthreads();
            value = whole_wave_all_reduce(lds.of_wave[first + (thread & (waves - 1))], waves, op);
            __syncthreads();
        }
        return value;
    }
};

// Nothing that follows is moved before this, or was computed before from `value`.
__device__ __forceinline__ void opt_barrier_memory(uint32_t &value) {
#if defined(__HIP__)
    asm volatile("" : "+v"(value) : : "memory");
#else
    asm volatile("" : "+r"(value) : : "memory");
#endif
}

// Where the elements of a row come from: `read<WIDTH>(i)` gives a vector of those from element i on, a multiple of
// WIDTH; `write_back` is called once with each, for a source that stores what it made; `from(i)` is the row without its
// first i elements.
template <class T> struct Plain {
    using Element = T;
    template <int WIDTH> using Vector = vec<T, WIDTH>;
    const T *__restrict__ row;
    template <int WIDTH> __device__ __forceinline__ Vector<WIDTH> read(size_t i) const {
        return read_global<Vector<WIDTH>>(row + i);
    }
    template <int WIDTH> static __device__ __forceinline__ Vector<WIDTH> all(T value) {
        Vector<WIDTH> x;
#pragma unroll
        for (int k = 0; k < WIDTH; k++) x[k] = value;
        return x;
    }
    template <class V> __device__ __forceinline__ void write_back(uint32_t, V) const {}
    __device__ __forceinline__ Plain from(size_t i) const { return {row + i}; }
};

// What the code that makes a row is compiled for: vectors of WIDTH elements, N of which a thread holds. FULL says that
// the group holds exactly the row; REST that the row may be longer than what it holds.
template <int WIDTH_, int N_, bool FULL_, bool REST_> struct RowForm {
    static constexpr int WIDTH = WIDTH_, N = N_;
    static constexpr bool FULL = FULL_, REST = REST_;
};

// A thread's N vectors of a row. What lies outside reads as `outside`; FULL says that nothing does.
template <class Source, int WIDTH, int N, bool FULL> struct Held {
    using V = typename Source::template Vector<WIDTH>;
    V x[N];

    template <class Outside> __device__ __forceinline__ Held(const Source &row, const RowGroup &row_group,
                                                             uint32_t columns, Outside outside) {
        uint32_t vectors = columns / WIDTH;
#pragma unroll
        for (int n = 0; n < N; n++) {
            uint32_t v = row_group.thread + n * row_group.size;
            if constexpr (!FULL) x[n] = Source::template all<WIDTH>(outside);
            if (FULL || v < vectors) x[n] = row.template read<WIDTH>((size_t)v * WIDTH);
        }
    }

    // f(element's compute value) for each element held.
    template <class F> __device__ __forceinline__ void each(F f) const {
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int k = 0; k < WIDTH; k++) f(upcast(x[n][k]));
    }

    // Between passes: what one pass computed of the elements would otherwise be kept for the next, in twice the
    // registers.
    __device__ __forceinline__ void opt_barrier_words(uint32_t columns) {
        using T = typename Source::Element;
        if constexpr (is_same<T, compute_t<T>>::value) return;
#pragma unroll
        for (int n = 0; n < N; n++) ::opt_barrier_words(x[n], columns >> 31);
    }

    // Calls f(first element's place, vector) for the vectors that exist. Masks of lanes and addresses, and what f
    // loads, are made for so many vectors at a time as TOGETHER says, where the registers have no room for those of
    // all.
    template <int TOGETHER = (N > 8 ? 4 : N), class F> __device__ __forceinline__ void each_vector(
        const RowGroup &row_group, uint32_t columns, F f) const {
        uint32_t thread = row_group.thread;
#pragma unroll
        for (int n = 0; n < N; n++) {
            if constexpr (TOGETHER < N) {
                if (n % TOGETHER == 0) opt_barrier_memory(thread);
            }
            uint32_t v = thread + n * row_group.size;
            if (FULL || v < columns / WIDTH) f(v * WIDTH, x[n]);
        }
    }
};

// Calls f(first element's place, vector) for a row's vectors beyond the N that each thread of the group holds.
template <int WIDTH, int N, class Source, class F>
__device__ __forceinline__ void for_rest(const Source &row, const RowGroup &row_group, uint32_t columns, F f) {
    constexpr int STRIP = WIDTH == 1 ? 1 : 2;
    uint32_t vectors = columns / WIDTH, v = row_group.thread + N * row_group.size;
    for (; v + (STRIP - 1) * row_group.size < vectors; v += STRIP * row_group.size) {
        typename Source::template Vector<WIDTH> x[STRIP];
#pragma unroll
        for (int s = 0; s < STRIP; s++) x[s] = row.template read<WIDTH>((size_t)(v + s * row_group.size) * WIDTH);
#pragma unroll
        for (int s = 0; s < STRIP; s++) f((v + s * row_group.size) * WIDTH, x[s]);
    }
    for (; v < vectors; v += row_group.size) f(v * WIDTH, row.template read<WIDTH>((size_t)v * WIDTH));
}

// ------------------------------------------------------------------ softmax

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

// ------------------------------------------------------------ normalisations

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

// ------------------------------------------------------------------- shapes

// Whether a row of so many elements can be moved 16 bytes at a time.
template <class T, class... P> __device__ __forceinline__ bool can_vectorise(uint32_t columns, const P *...pointers) {
    return columns % VEC16<T> == 0 && (... && is_aligned(pointers, 16));
}

// Elements that a thread holds at most of a row that is read by elements, so that 1024 threads hold 16,384.
template <class T> constexpr int MOST_ELEMENTS = sizeof(T) == 8 ? 8 : 16;

// Calls make(form, group, row), with N at most MOST (4 or 8, or SINGLE for vectors of one element), for the `rows` rows
// of this workgroup (a power of two, as are its threads), of `vectors` vectors each.
template <int MOST, int WIDTH, int SINGLE, class F>
__device__ __forceinline__ void for_rows(uint32_t rows, uint32_t vectors, uint32_t thread, uint32_t threads, F make) {
    // All threads share the rows out, and hold four vectors at most if they can.
    uint32_t fewest = min_of(power_of_two_from((vectors + 3) / 4), threads), most = power_of_two_from(vectors);
    uint32_t size = max_of(threads >> log2_of(rows), fewest);
    // Where a wavefront holds a row, no barrier keeps those without a row from leaving. Those of the last wavefront
    // stay, for the exchanges, and make some row a second time.
    if (most <= wave_size()) size = min_of(size, most);
    if (thread >= max_of(size * rows, wave_size())) return;
    uint32_t row_groups = threads >> log2_of(size);
    auto run = [&](auto form) INLINED {
        for (uint32_t done = 0; done < rows; done += row_groups) {
            // Addresses that depend on it are not worth keeping from row to row, one or two registers each.
            opt_barrier_words(thread, vectors >> 31);
            RowGroup row_group(size, thread);
            make(form, row_group, (size_t)blockIdx.x * rows + done + (row_group.number & (rows - 1)));
        }
    };
    if constexpr (WIDTH == 1) {
        // Forms cost time to compile. Rows that are read by elements are seldom a power of two of them.
        if (vectors <= 4 * size) run(RowForm<1, 4, false, false>());
        else run(RowForm<1, SINGLE, false, true>());
    } else {
        if (vectors == size) run(RowForm<WIDTH, 1, true, false>());
        else if (vectors == 4 * size) run(RowForm<WIDTH, 4, true, false>());
        else if (MOST == 8 && vectors == 8 * size) run(RowForm<WIDTH, MOST, true, false>());
        else run(RowForm<WIDTH, 4, false, true>());
    }
}

// The rows of a kernel that is launched with one of the workgroup's dimensions, `rows`, as their number:
// body(form, group, row).
template <int MOST, class T, int SINGLE = MOST_ELEMENTS<T>, class F>
__device__ __forceinline__ void for_rows_of(uint32_t rows, uint32_t columns, bool wide, F body) {
    uint32_t thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    if (wide) for_rows<MOST, VEC16<T>, SINGLE>(rows, columns / VEC16<T>, thread, threads, body);
    else for_rows<MOST, 1, SINGLE>(rows, columns, thread, threads, body);
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
