// Softmax and normalisation of the rows of a contiguous matrix.
//
// A row is read once: a team of threads holds it in registers, in vectors of WIDTH elements (16 bytes where rows and
// weights are aligned and divide into that, otherwise one element). Candle asks for a workgroup for each row; any that
// are wavefronts of 32 and more, and a power of two of rows each, will do.
#pragma once
#include "block_reduce.cuh"

// The threads that make one row: a power of two of neighbours, some of a wavefront's or several whole wavefronts.
struct Team {
    uint32_t size, thread, number;

    __device__ __forceinline__ Team(uint32_t size, uint32_t thread) : size(size), thread(thread & (size - 1)), number(thread >> log2_of(size)) {}

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

// A thread's N vectors of a row. What lies outside reads as `outside`; FULL says that nothing does.
template <class T, int WIDTH, int N, bool FULL> struct Held {
    using V = vec<T, WIDTH>;
    V x[N];

    __device__ __forceinline__ Held(const T *__restrict__ row, const Team &team, uint32_t columns, T outside) {
        uint32_t vectors = columns / WIDTH;
#pragma unroll
        for (int n = 0; n < N; n++) {
            uint32_t v = team.thread + n * team.size;
            if constexpr (!FULL) {
#pragma unroll
                for (int k = 0; k < WIDTH; k++) x[n][k] = outside;
            }
            if (FULL || v < vectors) x[n] = read_global<V>(row + (size_t)v * WIDTH);
        }
    }

    // f(element's compute value) for each element held.
    template <class F> __device__ __forceinline__ void each(F f) const {
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int k = 0; k < WIDTH; k++) f(widen(x[n][k]));
    }

    // Between passes: what one pass computed of the elements would otherwise be kept for the next, in twice the registers.
    __device__ __forceinline__ void forget(uint32_t columns) {
        if constexpr (is_same<T, compute_t<T>>::value) return;
#pragma unroll
        for (int n = 0; n < N; n++) ::forget(x[n], columns >> 31);
    }

    // Calls f(n, first element's place, vector) for the vectors that exist.
    template <class F> __device__ __forceinline__ void each_vector(const Team &team, uint32_t columns, F f) const {
#pragma unroll
        for (int n = 0; n < N; n++) {
            uint32_t v = team.thread + n * team.size;
            if (FULL || v < columns / WIDTH) f(v * WIDTH, x[n]);
        }
    }
};

// Calls f(first element's place, vector) for a row's vectors beyond the N that each thread of the team holds.
template <int WIDTH, int N, class T, class F>
__device__ __forceinline__ void for_rest(const T *__restrict__ row, const Team &team, uint32_t columns, F f) {
    using V = vec<T, WIDTH>;
    constexpr int STRIP = WIDTH == 1 ? 1 : 2;
    uint32_t vectors = columns / WIDTH, v = team.thread + N * team.size;
    for (; v + (STRIP - 1) * team.size < vectors; v += STRIP * team.size) {
        V x[STRIP];
#pragma unroll
        for (int s = 0; s < STRIP; s++) x[s] = read_global<V>(row + (size_t)(v + s * team.size) * WIDTH);
#pragma unroll
        for (int s = 0; s < STRIP; s++) f((v + s * team.size) * WIDTH, x[s]);
    }
    for (; v < vectors; v += team.size) f(v * WIDTH, read_global<V>(row + (size_t)v * WIDTH));
}

// ------------------------------------------------------------------ softmax

// e^x for x <= 0. The small floats are rounded so much more coarsely that the hardware's own exponential will do.
template <class T, class C> __device__ __forceinline__ C row_exp(C x) {
    if constexpr (sizeof(T) == 2) return math::fast_exp2(x * 1.44269504088896340736f);
    else return math::exp(x);
}
// The same times 2^-shift.
__device__ __forceinline__ float row_exp_shifted(float x, float shift) { return math::fast_exp2(math::fma(x, 1.44269504088896340736f, -shift)); }

struct Maximum {
    template <class C> __device__ __forceinline__ C operator()(C a, C b) const { return math::fmax(a, b); }
};

// Each thread takes the exponentials relative to its own largest; then the team agrees on one. REST says that rows are
// longer than what the team holds.
template <int WIDTH, int N, bool FULL, bool REST, class T>
__device__ __forceinline__ void softmax_row(const T *__restrict__ src, T *__restrict__ dst, uint32_t columns, const Team &team) {
    using C = compute_t<T>;
    using V = vec<T, WIDTH>;
    // f32 and f64 keep the exponentials; smaller types would round them, and compute twice.
    constexpr bool KEEP = is_same<T, C>::value;
    __shared__ WaveValues<C> lds;
    Held<T, WIDTH, N, FULL> held(src, team, columns, narrow<T>(-(C)INFINITY));
    C largest = -(C)INFINITY, sum = 0;
    held.each([&](C x) INLINED { largest = math::fmax(largest, x); });
    held.forget(columns);
    // Of nothing but -infinity there is no largest to subtract.
    auto finite = [](C x) INLINED { return x == -(C)INFINITY ? (C)0 : x; };
    C own = finite(largest);
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int k = 0; k < WIDTH; k++) {
            C e = row_exp<T>((C)widen(held.x[n][k]) - own);
            sum += e;
            if constexpr (KEEP) held.x[n][k] = e;
        }
    if constexpr (REST) {
        for_rest<WIDTH, N>(src, team, columns, [&](uint32_t, V x) INLINED {
            C before = finite(largest);
#pragma unroll
            for (int k = 0; k < WIDTH; k++) largest = math::fmax(largest, (C)widen(x[k]));
            C now = finite(largest);
            sum *= row_exp<T>(before - now);
#pragma unroll
            for (int k = 0; k < WIDTH; k++) sum += row_exp<T>((C)widen(x[k]) - now);
        });
    }
    C all = finite(team.all_reduce(largest, Maximum(), lds));
    sum = team.all_reduce(sum * row_exp<T>(finite(largest) - all), Sum(), lds);
    C scale = KEEP ? (C)1 / sum : math::log2(sum), kept_scale = KEEP ? row_exp<T>(own - all) * scale : (C)0;
    auto finish = [&](V x) INLINED {
        V y;
#pragma unroll
        for (int k = 0; k < WIDTH; k++) {
            if constexpr (KEEP) y[k] = row_exp<T>(x[k] - all) * scale;
            else y[k] = narrow<T>(row_exp_shifted(widen(x[k]) - all, scale));
        }
        return y;
    };
    held.forget(columns);
    held.each_vector(team, columns, [&](uint32_t i, V x) INLINED {
        if constexpr (KEEP) {
#pragma unroll
            for (int k = 0; k < WIDTH; k++) x[k] *= kept_scale;
            store_vec(dst + i, x);
        } else {
            store_vec(dst + i, finish(x));
        }
    });
    if constexpr (REST) for_rest<WIDTH, N>(src, team, columns, [&](uint32_t i, V x) INLINED { store_vec(dst + i, finish(x)); });
}

// ------------------------------------------------------------ normalisations

// 1 / sqrt(sum / columns + eps)
template <class C> __device__ __forceinline__ C norm_scale(C sum, uint32_t columns, float eps) {
    if constexpr (sizeof(C) == 4) return math::fast_rsqrt(sum * math::fast_recip((float)columns) + eps);
    else return math::rsqrt(sum / (C)columns + (C)eps);
}

// x / sqrt(mean(x^2) + eps) * alpha
template <int WIDTH, int N, bool FULL, bool REST, class T>
__device__ __forceinline__ void rmsnorm_row(const T *__restrict__ src, T *__restrict__ dst, const T *__restrict__ alpha, uint32_t columns, float eps, const Team &team) {
    using C = compute_t<T>;
    using V = vec<T, WIDTH>;
    __shared__ WaveValues<C> lds;
    Held<T, WIDTH, N, FULL> held(src, team, columns, narrow<T>((C)0));
    C sum = 0;
    held.each([&](C x) INLINED { sum = math::fma(x, x, sum); });
    if constexpr (REST) {
        for_rest<WIDTH, N>(src, team, columns, [&](uint32_t, V x) INLINED {
#pragma unroll
            for (int k = 0; k < WIDTH; k++) sum = math::fma((C)widen(x[k]), (C)widen(x[k]), sum);
        });
    }
    sum = team.all_reduce(sum, Sum(), lds);
    C scale = norm_scale(sum, columns, eps);
    auto finish = [&](uint32_t i, V x) INLINED {
        V a = read_global<V>(alpha + i), y;
#pragma unroll
        for (int k = 0; k < WIDTH; k++) y[k] = narrow<T>((C)widen(x[k]) * scale * (C)widen(a[k]));
        store_vec(dst + i, y);
    };
    held.forget(columns);
    held.each_vector(team, columns, finish);
    if constexpr (REST) for_rest<WIDTH, N>(src, team, columns, finish);
}

// The mean of some numbers and the sum of the squares of their distances from it.
template <class C> struct Moments {
    C mean, squares;
};

// (x - mean) / sqrt(variance + eps) * alpha + beta. Squares are of distances from a mean: E[x^2] - mean^2 cancels when
// the mean is large. Where all threads hold as many elements, they combine their own moments, in one exchange; else
// they agree on the mean first.
template <int WIDTH, int N, bool FULL, bool REST, class T>
__device__ __forceinline__ void layernorm_row(const T *__restrict__ src, T *__restrict__ dst, const T *__restrict__ alpha, const T *__restrict__ beta, uint32_t columns, float eps, const Team &team) {
    using C = compute_t<T>;
    using V = vec<T, WIDTH>;
    Held<T, WIDTH, N, FULL> held(src, team, columns, narrow<T>((C)0));
    C sum = 0;
    held.each([&](C x) INLINED { sum += x; });
    C mean, squares = 0;
    auto add_square = [&](uint32_t, V x) INLINED {
#pragma unroll
        for (int k = 0; k < WIDTH; k++) {
            C centred = (C)widen(x[k]) - mean;
            squares = math::fma(centred, centred, squares);
        }
    };
    held.forget(columns);
    if constexpr (FULL) {
        __shared__ WaveValues<Moments<C>> lds;
        C count = N * WIDTH;
        mean = sum / count;
        held.each_vector(team, columns, add_square);
        auto combine = [&](Moments<C> a, Moments<C> b) INLINED {
            C distance = b.mean - a.mean;
            Moments<C> both = {(C)0.5 * (a.mean + b.mean), a.squares + b.squares + distance * distance * ((C)0.5 * count)};
            count *= (C)2;
            return both;
        };
        Moments<C> all = team.all_reduce(Moments<C>{mean, squares}, combine, lds);
        mean = all.mean;
        squares = all.squares;
    } else {
        __shared__ WaveValues<C> lds;
        if constexpr (REST) {
            for_rest<WIDTH, N>(src, team, columns, [&](uint32_t, V x) INLINED {
#pragma unroll
                for (int k = 0; k < WIDTH; k++) sum += (C)widen(x[k]);
            });
        }
        mean = team.all_reduce(sum, Sum(), lds) / (C)columns;
        held.each_vector(team, columns, add_square);
        if constexpr (REST) for_rest<WIDTH, N>(src, team, columns, add_square);
        squares = team.all_reduce(squares, Sum(), lds);
    }
    C scale = norm_scale(squares, columns, eps), shift = -mean * scale;
    auto finish = [&](uint32_t i, V x) INLINED {
        V a = read_global<V>(alpha + i), b = read_global<V>(beta + i), y;
#pragma unroll
        for (int k = 0; k < WIDTH; k++) {
            // What small floats cannot tell apart survives the difference of products, in f32.
            C centred = is_same<T, C>::value ? ((C)widen(x[k]) - mean) * scale : math::fma((C)widen(x[k]), scale, shift);
            y[k] = narrow<T>(math::fma(centred, (C)widen(a[k]), (C)widen(b[k])));
        }
        store_vec(dst + i, y);
    };
    held.forget(columns);
    held.each_vector(team, columns, finish);
    if constexpr (REST) for_rest<WIDTH, N>(src, team, columns, finish);
}

// ------------------------------------------------------------------- shapes

// Whether a row of so many elements can be moved 16 bytes at a time.
template <class T, class... P> __device__ __forceinline__ bool can_widen(uint32_t columns, const P *...pointers) {
    return columns % VEC16<T> == 0 && (... && is_aligned(pointers, 16));
}

// A compile-time number as an argument.
template <int VALUE> struct Constant { static constexpr int value = VALUE; };

// Calls make(N, FULL, REST, team, row), N at most MOST (4 or 8), for the `rows` rows of this workgroup (a power of two, as are its threads), of
// `vectors` vectors each.
template <int MOST, class F>
__device__ __forceinline__ void for_rows(uint32_t rows, uint32_t vectors, uint32_t thread, uint32_t threads, F make) {
    constexpr Constant<1> YES{};
    constexpr Constant<0> NO{};
    // All threads share the rows out, and hold four vectors at most if they can.
    uint32_t fewest = min_of(power_of_two_from((vectors + 3) / 4), threads), most = power_of_two_from(vectors);
    uint32_t size = max_of(threads >> log2_of(rows), fewest);
    // Where a wavefront holds a row, no barrier keeps those without a row from leaving. Those of the last wavefront stay,
    // for the exchanges, and make some row a second time.
    if (most <= wave_size()) size = min_of(size, most);
    if (thread >= max_of(size * rows, wave_size())) return;
    uint32_t teams = threads >> log2_of(size);
    auto run = [&](auto n, auto full, auto rest) INLINED {
        for (uint32_t done = 0; done < rows; done += teams) {
            // Addresses that depend on it are not worth keeping from row to row, one or two registers each.
            forget(thread, vectors >> 31);
            Team team(size, thread);
            make(n, full, rest, team, (size_t)blockIdx.x * rows + done + (team.number & (rows - 1)));
        }
    };
    if (vectors == size) run(Constant<1>(), YES, NO);
    else if (vectors < size) run(Constant<1>(), NO, NO);
    else if (vectors == 4 * size) run(Constant<4>(), YES, NO);
    else if (MOST == 8 && vectors == 8 * size) run(Constant<MOST>(), YES, NO);
    else run(Constant<4>(), NO, YES);
}

// Candle launches a workgroup of (1, 32) for each row. Its x is the number of rows, and there may be more of them.
template <class T> __device__ __forceinline__ void softmax(const T *src, T *dst, int32_t columns) {
    // Eight vectors of f64 exponentials are more than the registers of a workgroup of 1024.
    constexpr int MOST = sizeof(T) == 8 ? 4 : 8;
    uint32_t thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    auto make = [&](auto width, uint32_t vectors) INLINED {
        for_rows<MOST>(blockDim.x, vectors, thread, threads, [&](auto n, auto full, auto rest, const Team &team, size_t row) INLINED {
            softmax_row<width.value, n.value, full.value != 0, rest.value != 0>(src + row * columns, dst + row * columns, columns, team);
        });
    };
    if (can_widen<T>(columns, src, dst)) make(Constant<VEC16<T>>(), columns / VEC16<T>);
    else make(Constant<1>(), columns);
}

// Candle launches a workgroup of 32 or 1024 for each row. Its y is the number of rows.
template <class T>
__device__ __forceinline__ void rmsnorm(const T *src, T *dst, const T *alpha, int32_t columns, float eps) {
    uint32_t thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    auto make = [&](auto width, uint32_t vectors) INLINED {
        for_rows<8>(blockDim.y, vectors, thread, threads, [&](auto n, auto full, auto rest, const Team &team, size_t row) INLINED {
            rmsnorm_row<width.value, n.value, full.value != 0, rest.value != 0>(src + row * columns, dst + row * columns, alpha, columns, eps, team);
        });
    };
    if (can_widen<T>(columns, src, dst, alpha)) make(Constant<VEC16<T>>(), columns / VEC16<T>);
    else make(Constant<1>(), columns);
}

template <class T>
__device__ __forceinline__ void layernorm(const T *src, T *dst, const T *alpha, const T *beta, int32_t columns, float eps) {
    uint32_t thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    auto make = [&](auto width, uint32_t vectors) INLINED {
        for_rows<4>(blockDim.y, vectors, thread, threads, [&](auto n, auto full, auto rest, const Team &team, size_t row) INLINED {
            layernorm_row<width.value, n.value, full.value != 0, rest.value != 0>(src + row * columns, dst + row * columns, alpha, beta, columns, eps, team);
        });
    };
    if (can_widen<T>(columns, src, dst, alpha, beta)) make(Constant<VEC16<T>>(), columns / VEC16<T>);
    else make(Constant<1>(), columns);
}
