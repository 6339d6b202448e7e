// Kernels that compute each output element from the elements at the same place of N inputs.
//
// Candle passes `numel`, `num_dims` and `info`: null when every input is contiguous, else on the
// device the dimensions followed by each input's strides (in elements), `num_dims` values each.
// The grid has one thread per element; all loops are grid-stride, so that fewer threads do too.
#pragma once
#include "elementwise/tiles.cuh"

// Adds the offsets, in each of N inputs, of the element `linear` of the first `count` dimensions. Index is uint32_t
// where their number allows it.
template <int N, class Index>
__device__ __forceinline__ void add_offsets(Index linear, size_t count, size_t num_dims, const size_t *info,
                                            size_t (&offset)[N]) {
#pragma nounroll
    for (size_t d = count; d-- > 1;) {
        Index size = (Index)info[d];
        Index rest = linear / size;
        Index at = linear - rest * size;
#pragma unroll
        for (int k = 0; k < N; k++) offset[k] += (size_t)at * info[(k + 1) * num_dims + d];
        linear = rest;
    }
    if (count != 0) {
#pragma unroll
        for (int k = 0; k < N; k++) offset[k] += (size_t)linear * info[(k + 1) * num_dims];
    }
}

// The offset in a single strided tensor.
__device__ __forceinline__ size_t strided_offset(size_t linear, size_t num_dims, const size_t *info) {
    size_t offset[1] = {};
    if (linear <= 0xffffffffu) add_offsets<1, uint32_t>((uint32_t)linear, num_dims, num_dims, info, offset);
    else add_offsets<1, size_t>(linear, num_dims, num_dims, info, offset);
    return offset[0];
}

// The numbers 0 to N - 1 as template arguments.
template <class T, T...> struct sequence {};
template <int N> using indices = __make_integer_seq<sequence, int, N>;

// The base of functions that have no result of some operands: `F::refuses(x...)` says whether, `F::refuse<X...>(place)`
// ends the launch.
struct Partial {};

// Whether F refuses any of some neighbours.
template <class F, int WIDTH, class... X>
__device__ __forceinline__ bool refuses_any(const vec<X, WIDTH> &...x) {
    bool any = false;
    if constexpr (__is_base_of(Partial, F)) {
#pragma unroll
        for (int k = 0; k < WIDTH; k++) any |= F::refuses(x[k]...);
    }
    return any;
}

// Ends the launch for the first of WIDTH neighbours from `place` on that F refuses. They are read again, so that until
// then no register holds them.
template <class F, int WIDTH, int... K, class... In>
__device__ __forceinline__ void refuse_first(sequence<int, K...>, size_t place, size_t num_dims, const size_t *info,
                                             const In *...in) {
    if constexpr (__is_base_of(Partial, F)) {
        size_t end = place + WIDTH - 1;
#pragma nounroll
        for (; place < end; place++) {
            size_t offset[sizeof...(In)] = {((void)K, place)...};
            if (info != nullptr) {
                ((offset[K] = 0), ...);
                add_offsets<sizeof...(In), size_t>(place, num_dims, num_dims, info, offset);
            }
            if (F::refuses(read_global<In>(in + offset[K])...)) break;
        }
        F::template refuse<In...>(place);
    }
}

// f of the elements at this place.
template <class F, class... X> __device__ __forceinline__ auto apply(F f, size_t place, X... x) {
    if constexpr (__is_base_of(Partial, F)) {
        if (F::refuses(x...)) F::template refuse<X...>(place);
    }
    return f(x...);
}

// Elements that are made at once: 16 bytes of the widest type. Of several f8e4m3 half as many do, as conversions take
// longer than memory.
template <class Out, class... In> __device__ constexpr int vector_width() {
    constexpr bool CONVERTS = sizeof...(In) > 1 && (... && is_same<In, f8e4m3_t>::value);
    return (CONVERTS ? 8 : 16) / largest_size<Out, In...>::value;
}

// Whether all of any number of inputs are aligned: all_aligned(bytes per element group, pointers...).
template <int WIDTH, class... T> __device__ __forceinline__ bool all_aligned(const T *...pointers) {
    return (... && is_aligned(pointers, sizeof(T) * WIDTH));
}

// N vectors of a thread, `step` vectors apart, all loaded before the first is used.
template <class T, int WIDTH, int N> struct Strip {
    vec<T, WIDTH> v[N];
    __device__ __forceinline__ Strip(const T *__restrict__ from, uint32_t step) {
#pragma unroll
        for (int n = 0; n < N; n++) v[n] = read_global<vec<T, WIDTH>>(from + (size_t)n * step * WIDTH);
    }
};

// The N vectors of `out` that begin at `first` and lie `step` vectors apart.
template <int WIDTH, int N, class F, class Out, class... In>
__device__ __forceinline__ void map_strip(size_t first, uint32_t step, F f, Out *__restrict__ out,
                                          const In *__restrict__... in) {
    [&](const Strip<In, WIDTH, N> &...loaded) INLINED {
#pragma unroll
        for (int n = 0; n < N; n++) {
            size_t place = (first + (size_t)n * step) * WIDTH;
            if (refuses_any<F, WIDTH>(loaded.v[n]...))
                refuse_first<F, WIDTH>(indices<sizeof...(In)>(), place, 0, nullptr, in...);
            vec<Out, WIDTH> result;
#pragma unroll
            for (int k = 0; k < WIDTH; k++) result[k] = f(loaded.v[n][k]...);
            store_vec(out + place, result);
        }
    }(Strip<In, WIDTH, N>(in + first * WIDTH, step)...);
}

// The base of functions that take longer than memory. Their code stands there once, which a strip's vectors go through
// one after another: for each of them it would take twice the time to compile, and more instructions than AMD's caches
// hold. NVIDIA's hold them, and an H200 does functions of 16-bit floats in 3 to 8 % less time so.
struct Long {
#if defined(__HIP__)
    static constexpr bool ONCE = true;
#else
    static constexpr bool ONCE = false;
#endif
};
template <class F> constexpr bool stands_once() {
    if constexpr (__is_base_of(Long, F)) return F::ONCE;
    else return false;
}

// The base of functions for cases that hardly occur: an element at a time has to do for them.
struct ColdPath {};

// WIDTH elements as they are loaded, in words, from which each is shifted out. Taken apart by memory they would be
// where they are loaded, which waits for them.
template <class T, int WIDTH> struct Packed {
    static constexpr int BYTES = sizeof(T) * WIDTH;
    using Bits = typename bits_of<sizeof(T)>::type;
    using Word = typename bits_of<(sizeof(T) >= 4) ? sizeof(T) : (BYTES < 4) ? BYTES : 4>::type;
    static constexpr int EACH = sizeof(Word) / sizeof(T);
    vec<Word, WIDTH / EACH> words;

    // Neighbours, or one element as often.
    __device__ __forceinline__ void read(const T *from, bool unit_stride) {
        if (WIDTH > 1 && unit_stride) {
            words = read_global<decltype(words)>(from);
        } else {
            Word all = 0;
#pragma unroll
            for (int k = 0; k < EACH; k++) all = (Word)(all | (Word)1 << k * 8 * (int)sizeof(T));
            all *= (Word)read_global<Bits>(from);
#pragma unroll
            for (int w = 0; w < WIDTH / EACH; w++) words[w] = all;
        }
    }
    __device__ __forceinline__ vec<T, WIDTH> elements() const {
        vec<T, WIDTH> all;
#pragma unroll
        for (int k = 0; k < WIDTH; k++) all[k] = bit_cast<T>((Bits)(words[k / EACH] >> k % EACH * 8 * (int)sizeof(T)));
        return all;
    }
};

template <int WIDTH, class T> __device__ __forceinline__ vec<T, WIDTH> read_or_repeat(const T *from, bool unit_stride) {
    Packed<T, WIDTH> x;
    x.read(from, unit_stride);
    return x.elements();
}

// N groups of a thread, of which the first is taken out at a time.
template <class T, int WIDTH, int N> struct Queue {
    Packed<T, WIDTH> group[N];
    __device__ __forceinline__ void opt_barrier_words(uint32_t zero) {
#pragma unroll
        for (int n = 0; n < N; n++) ::opt_barrier_words(group[n], zero);
    }
    __device__ __forceinline__ vec<T, WIDTH> take() {
        vec<T, WIDTH> first = group[0].elements();
#pragma unroll
        for (int n = 1; n < N; n++) group[n - 1] = group[n];
        return first;
    }
};

// The vectors of `out` from v on, `step` apart: a strip is loaded, and its vectors are made by the same code.
template <int WIDTH, int STRIP, class F, class Out, class... In>
__device__ __forceinline__ void map_queue(size_t v, size_t vectors, uint32_t step, F f, Out *__restrict__ out,
                                          const In *__restrict__... in) {
    static_assert(!__is_base_of(Partial, F), "it would have to look before it computes");
    uint32_t zero = (uint32_t)(vectors >> 63);
    [&](Queue<In, WIDTH, STRIP>... x) INLINED {
        while (v < vectors) {
            uint32_t count = 0;
#pragma unroll
            for (int n = 0; n < STRIP; n++) {
                size_t at = v + (size_t)n * step;
                if (at >= vectors) break;
                (x.group[n].read(in + at * WIDTH, true), ...);
                count++;
            }
            (x.opt_barrier_words(zero), ...);
#pragma nounroll
            for (; count != 0; count--, v += step) {
                vec<Out, WIDTH> result;
                [&](const vec<In, WIDTH> &...x) INLINED {
#pragma unroll
                    for (int k = 0; k < WIDTH; k++) result[k] = f(x[k]...);
                }(x.take()...);
                store_vec(out + v * WIDTH, result);
            }
        }
    }(Queue<In, WIDTH, STRIP>()...);
}

// out[i] = f(in[i]...), contiguous: 16 bytes of the widest type at a time, then the rest.
template <class F, class Out, class... In>
__device__ __forceinline__ void map_contiguous(size_t numel, F f, Out *__restrict__ out, const In *__restrict__... in) {
    constexpr int WIDTH = vector_width<Out, In...>(), STRIP = 2;
    uint32_t threads = gridDim.x * blockDim.x, thread = blockIdx.x * blockDim.x + threadIdx.x;
    size_t done = 0;
    // Where there is a thread for every element, one each takes less time than many in few.
    if (numel > threads && all_aligned<WIDTH>(out, in...)) {
        size_t vectors = numel / WIDTH, v = thread;
        if constexpr (stands_once<F>()) {
            map_queue<WIDTH, STRIP>(v, vectors, threads, f, out, in...);
        } else {
            // Strips leave an uneven rest, which only many of them outweigh.
            if (vectors >= (size_t)2 * STRIP * threads)
                for (; v + (size_t)(STRIP - 1) * threads < vectors; v += (size_t)STRIP * threads)
                    map_strip<WIDTH, STRIP>(v, threads, f, out, in...);
            for (; v < vectors; v += threads) map_strip<WIDTH, 1>(v, 1, f, out, in...);
        }
        done = vectors * WIDTH;
    }
    for (size_t i = done + thread; i < numel; i += threads) out[i] = apply(f, i, in[i]...);
}

// out[i] = f(in[offset of i]...), in groups of WIDTH neighbours along the last dimension, whose number has 32 bits. All
// that a thread reads for two groups is on its way before the first is made.
template <int WIDTH, int... K, class F, class Out, class... In>
__device__ __forceinline__ void map_in_place(sequence<int, K...>, Access access, size_t numel, size_t num_dims,
                                             const size_t *__restrict__ info, F f, Out *__restrict__ out,
                                             const In *__restrict__... in) {
    constexpr int N = sizeof...(In), STRIP = 2;
    size_t groups = numel / WIDTH, v = global_thread();
    // The group's row and its place there, and how far on the next are: two divisions instead of one for each group.
    uint32_t size = (uint32_t)(info[num_dims - 1] / WIDTH), row = (uint32_t)v / size, column = (uint32_t)v - row * size;
    uint32_t threads = (uint32_t)global_threads(), down = threads / size, across = threads - down * size;
    // In vector registers, of which there are enough.
    opt_barrier_value(size);
    opt_barrier_value(down);
    opt_barrier_value(across);
    opt_barrier_value(threads);
    uint32_t zero = (uint32_t)num_dims >> 31;
    [&](Queue<In, WIDTH, STRIP>... x) INLINED {
        while (v < groups) {
            uint32_t count = 0;
#pragma unroll
            for (int n = 0; n < STRIP; n++) {
                if (v + n * threads >= groups) break;
                // What follows from these is made again, instead of kept in more registers than there are.
                auto now = access;
                uint32_t dims = (uint32_t)num_dims;
                opt_barrier_uniform(dims);
                opt_barrier_uniform(now.word);
                size_t offset[N] = {((size_t)column * WIDTH * info[(K + 1) * dims + dims - 1])...};
                add_offsets<N, uint32_t>(row, dims - 1, dims, info, offset);
                (x.group[n].read(in + offset[K], now.has(Access::UNIT_STRIDE(K))), ...);
                row += down;
                if (column >= size - across) column -= size - across, row++;
                else column += across;
                count++;
            }
            (x.opt_barrier_words(zero), ...);
#pragma nounroll
            for (; count != 0; count--, v += threads) {
                vec<Out, WIDTH> result;
                [&](const vec<In, WIDTH> &...x) INLINED {
                    if (refuses_any<F, WIDTH>(x...))
                        refuse_first<F, WIDTH>(indices<N>(), v * WIDTH, num_dims, info, in...);
#pragma unroll
                    for (int k = 0; k < WIDTH; k++) result[k] = f(x[k]...);
                }(x.take()...);
                store_vec(out + v * WIDTH, result);
            }
        }
    }(Queue<In, WIDTH, STRIP>()...);
}

// out[i] = f(in[offset of i]...), an element at a time, for any number of them.
template <int... K, class F, class Out, class... In>
__device__ __forceinline__ void map_singly(sequence<int, K...>, size_t numel, size_t num_dims,
                                           const size_t *__restrict__ info, F f, Out *__restrict__ out,
                                           const In *__restrict__... in) {
    constexpr int N = sizeof...(In);
    for (size_t i = global_thread(); i < numel; i += global_threads()) {
        size_t offset[N] = {};
        add_offsets<N, size_t>(i, num_dims, num_dims, info, offset);
        out[i] = apply(f, i, read_global<In>(in + offset[K])...);
    }
}

// Compute and store: a vector of neighbours of a tile, or one element, in row i of it from place j on: `at` in the
// result, `offset` in what is read as it lies. What is STAGED is in LDS.
template <int WIDTH, class Shape, int... K, class F, class Out, class... In>
__device__ __forceinline__ void store_group(sequence<int, K...>, const Access &now, const unsigned char *lds,
                                            uint32_t i, uint32_t j, size_t at, const size_t (&offset)[sizeof...(In)],
                                            size_t num_dims, const size_t *info, F &f, Out *out, const In *...in) {
    constexpr int N = sizeof...(In);
    if (now.has(Access::VECTORS)) {
        vec<Out, WIDTH> result;
        [&](const vec<In, WIDTH> &...x) INLINED {
            if (refuses_any<F, WIDTH>(x...)) refuse_first<F, WIDTH>(indices<N>(), at, num_dims, info, in...);
#pragma unroll
            for (int k = 0; k < WIDTH; k++) result[k] = f(x[k]...);
        }((now.has(Access::STAGED(K)) ? read_staged<WIDTH, Shape>((const In *)(lds + Shape::start(K)), i, j)
                                      : read_or_repeat<WIDTH>(in + offset[K], now.has(Access::UNIT_STRIDE(K))))...);
        store_vec(out + at, result);
    } else {
        out[at] =
            apply(f, at,
                  (now.has(Access::STAGED(K)) ? read_staged<1, Shape>((const In *)(lds + Shape::start(K)), i, j)[0]
                                              : read_global<In>(in + offset[K]))...);
    }
}

// out[i] = f(in[offset of i]...) by tiles, where some inputs are transposed.
template <int WIDTH, int... K, class F, class Out, class... In>
__device__ __forceinline__ void map_tiles(sequence<int, K...>, Access access, size_t num_dims,
                                          const size_t *__restrict__ info, F f, Out *__restrict__ out,
                                          const In *__restrict__... in) {
    using Shape = Tile<In...>;
    constexpr int N = sizeof...(In);
    unsigned char *lds = tile_memory<Shape::ELEMENTS * Shape::BYTES>();
    uint32_t zero = (uint32_t)num_dims >> 31;
    // Tiles are numbered in 32 bits, as no memory has more.
    size_t last = num_dims - 1, transposed = access.transposed();
    uint32_t across = (uint32_t)ceil_div(info[last], (size_t)Shape::TO),
             down = (uint32_t)ceil_div(info[transposed], (size_t)Shape::FROM);
    size_t end = (size_t)across * down;
#pragma nounroll
    for (size_t d = 0; d < last; d++) end *= d == transposed ? 1 : info[d];
    // In vector registers, of which there are enough, as what is divided by them.
    opt_barrier_value(across);
    opt_barrier_value(down);
    for (uint32_t block = blockIdx.x; block < end; block += gridDim.x) {
        // What follows from these is made again, instead of kept in more registers than there are.
        auto now = access;
        uint32_t dims = (uint32_t)num_dims;
        opt_barrier_uniform(dims);
        opt_barrier_uniform(now.word);
        // The tile's place, and with it those of its first element in each tensor.
        uint32_t rest = block, last = dims - 1, transposed = now.transposed();
        opt_barrier_value(rest);
        uint32_t tile = rest / across;
        size_t base[N], first = (size_t)(rest - tile * across) * Shape::TO, row = 0, size = info[last];
        uint32_t rows = (uint32_t)min_of(size - first, (size_t)Shape::TO);
        const size_t stride[N] = {info[(K + 1) * dims + last]...};
        ((base[K] = first * stride[K]), ...);
        rest = tile / down;
        size_t column = (size_t)(tile - rest * down) * Shape::FROM;
        uint32_t columns = (uint32_t)min_of(info[transposed] - column, (size_t)Shape::FROM);
#pragma nounroll
        for (uint32_t d = last; d-- > 0;) {
            size_t place = column;
            if (d == transposed) {
                row = size;
            } else {
                uint32_t above = rest / (uint32_t)info[d];
                place = rest - above * (uint32_t)info[d];
                rest = above;
            }
            first += place * size;
            ((base[K] += place * info[(K + 1) * dims + d]), ...);
            size *= info[d];
        }
        auto fill = [&](auto *tile, auto *from, size_t stride) INLINED {
            if (now.has(Access::VECTORS)) stage<WIDTH, Shape>(tile, from, stride, columns, rows, zero);
            else stage<1, Shape>(tile, from, stride, columns, rows, zero);
        };
        ((now.has(Access::STAGED(K)) ? fill((In *)(lds + Shape::start(K)), in + base[K], stride[K]) : void()), ...);
        __syncthreads();
        uint32_t v = threadIdx.x, group = now.has(Access::VECTORS) ? log2_of(WIDTH) : 0;
        opt_barrier_words(v, zero);
#pragma nounroll
        for (; v < Shape::ELEMENTS >> group; v += blockDim.x) {
            auto now = access;
            uint32_t dims = (uint32_t)num_dims;
            opt_barrier_uniform(dims);
            opt_barrier_uniform(now.word);
            uint32_t of_row = log2_of(Shape::TO) - group, i = v >> of_row, j = (v & ((1u << of_row) - 1)) << group;
            if (i >= columns || j >= rows) continue;
            size_t at = first + i * row + j, offset[N];
            ((offset[K] = base[K] + i * info[(K + 1) * dims + now.transposed()] + j * info[(K + 1) * dims + dims - 1]),
             ...);
            store_group<WIDTH, Shape>(sequence<int, K...>(), now, lds, i, j, at, offset, num_dims, info, f, out, in...);
        }
        __syncthreads();
    }
}

// out[i] = f(in[i]...) for any layout.
template <int... K, class F, class Out, class... In>
__device__ __forceinline__ void map_any(sequence<int, K...> each, size_t numel, size_t num_dims,
                                        const size_t *__restrict__ info, F f, Out *__restrict__ out,
                                        const In *__restrict__... in) {
    if (info == nullptr || num_dims == 0) return map_contiguous(numel, f, out, in...);
    constexpr int WIDTH = vector_width<Out, In...>();
    Access access = {0};
    constexpr size_t MOST = 0xffffffff;
    if (info[num_dims - 1] % WIDTH == 0 && numel / WIDTH <= MOST && is_aligned(out, sizeof(Out) * WIDTH))
        access.word |= Access::VECTORS;
    // Where there is a thread for every element, tiles would leave most without work. They are numbered in 32 bits.
    if (numel > global_threads() && numel <= MOST * LEAST_TRANSPOSED)
        find_transposed<sizeof...(In)>(access, num_dims, info);
    (lay_out<WIDTH>(access, K, in, num_dims, info), ...);
    if (access.has(Access::TILES)) map_tiles<WIDTH>(each, access, num_dims, info, f, out, in...);
    else if (access.has(Access::VECTORS)) map_in_place<WIDTH>(each, access, numel, num_dims, info, f, out, in...);
    else if (numel <= MOST) map_in_place<1>(each, access, numel, num_dims, info, f, out, in...);
    else map_singly(each, numel, num_dims, info, f, out, in...);
}

// out[i] = f(in[i]) for a type of one byte, by a table in LDS: a workgroup computes f of each of the 256 values once.
// Code that converts to f32 and back for every element takes more time than memory, and as much to compile as all
// other types' together.
template <class F, class Out, class In>
__device__ __forceinline__ void map_by_table(size_t numel, size_t num_dims, const size_t *__restrict__ info, F f,
                                             Out *__restrict__ out, const In *__restrict__ in) {
    static_assert(sizeof(In) == 1, "a table has 256 values");
    __shared__ Out table[256];
#pragma nounroll
    for (uint32_t i = threadIdx.x; i < 256; i += blockDim.x) table[i] = f(bit_cast<In>((uint8_t)i));
    __syncthreads();
    auto look_up = [](In x) INLINED {
        return table[bit_cast<uint8_t>(x)];
    };
    map_any(indices<1>(), numel, num_dims, info, look_up, out, in);
}

template <class F, class Out, class... In>
__device__ __forceinline__ void map_cold_path(size_t numel, size_t num_dims, const size_t *__restrict__ info, F f,
                                              Out *__restrict__ out, const In *__restrict__... in) {
    if (info != nullptr) return map_singly(indices<sizeof...(In)>(), numel, num_dims, info, f, out, in...);
    for (size_t i = global_thread(); i < numel; i += global_threads()) out[i] = apply(f, i, in[i]...);
}

template <class F, class Out, class... In>
__device__ __forceinline__ void map(size_t numel, size_t num_dims, const size_t *__restrict__ info, F f,
                                    Out *__restrict__ out, const In *__restrict__... in) {
    if constexpr (sizeof...(In) == 1 && (... && is_same<In, f8e4m3_t>::value))
        map_by_table(numel, num_dims, info, f, out, in...);
    else if constexpr (__is_base_of(ColdPath, F)) map_cold_path(numel, num_dims, info, f, out, in...);
    else map_any(indices<sizeof...(In)>(), numel, num_dims, info, f, out, in...);
}
