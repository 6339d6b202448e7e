// The rows of a contiguous matrix, each made by a group of threads.
//
// A row is read once: a group of threads holds it in registers, in vectors of WIDTH elements (16 bytes where rows and
// weights are aligned and divide into that, otherwise one element). Candle asks for a workgroup for each row; any that
// are wavefronts of 32 and more, and a power of two of rows each, will do.
#pragma once
#include "portable/block_reduce.cuh"

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
    } else if constexpr (WIDTH == 2) {
        // The mathematics of f64 is long, and takes more time than the masks of lanes that a form for whole rows saves.
        run(RowForm<WIDTH, 4, false, true>());
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
