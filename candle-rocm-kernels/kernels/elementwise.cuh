// Kernels that compute each output element from the elements at the same place of N inputs.
//
// Candle passes `numel`, `num_dims` and `info`: null when every input is contiguous, else on the
// device the dimensions followed by each input's strides (in elements), `num_dims` values each.
// The grid has one thread per element; all loops are grid-stride, so that fewer threads do too.
#pragma once
#include "tiles.cuh"

// Turns the linear index of an element into its offset in each of N inputs. Index is uint32_t where
// numel allows it.
template <int N, class Index>
__device__ __forceinline__ void strided_offsets(Index linear, size_t num_dims, const size_t *info, size_t (&offset)[N]) {
#pragma unroll
    for (int k = 0; k < N; k++) offset[k] = 0;
#pragma nounroll
    for (size_t d = num_dims; d-- > 1;) {
        Index size = (Index)info[d];
        Index rest = linear / size;
        Index at = linear - rest * size;
#pragma unroll
        for (int k = 0; k < N; k++) offset[k] += (size_t)at * info[(k + 1) * num_dims + d];
        linear = rest;
    }
    if (num_dims != 0) {
#pragma unroll
        for (int k = 0; k < N; k++) offset[k] += (size_t)linear * info[(k + 1) * num_dims];
    }
}

// The offset in a single strided tensor.
__device__ __forceinline__ size_t strided_offset(size_t linear, size_t num_dims, const size_t *info) {
    size_t offset[1];
    if (linear <= 0xffffffffu) strided_offsets<1, uint32_t>((uint32_t)linear, num_dims, info, offset);
    else strided_offsets<1, size_t>(linear, num_dims, info, offset);
    return offset[0];
}

// The same over any number of inputs: all_aligned(bytes per element group, pointers...).
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
__device__ __forceinline__ void map_strip(size_t first, uint32_t step, F f, Out *__restrict__ out, const In *__restrict__... in) {
    [&](const Strip<In, WIDTH, N> &...loaded) INLINED {
#pragma unroll
        for (int n = 0; n < N; n++) {
            vec<Out, WIDTH> result;
#pragma unroll
            for (int k = 0; k < WIDTH; k++) result[k] = f(loaded.v[n][k]...);
            store_vec(out + (first + (size_t)n * step) * WIDTH, result);
        }
    }(Strip<In, WIDTH, N>(in + first * WIDTH, step)...);
}

// out[i] = f(in[i]...), contiguous: 16 bytes of the widest type at a time, then the rest.
template <class F, class Out, class... In>
__device__ __forceinline__ void map_contiguous(size_t numel, F f, Out *__restrict__ out, const In *__restrict__... in) {
    constexpr int WIDTH = 16 / largest_size<Out, In...>::value, STRIP = 2;
    uint32_t threads = gridDim.x * blockDim.x, thread = blockIdx.x * blockDim.x + threadIdx.x;
    size_t done = 0;
    // Where there is a thread for every element, one each takes less time than many in few.
    if (numel > threads && all_aligned<WIDTH>(out, in...)) {
        size_t vectors = numel / WIDTH, v = thread;
        // Strips leave an uneven rest, which only many of them outweigh.
        if (vectors >= (size_t)2 * STRIP * threads)
            for (; v + (size_t)(STRIP - 1) * threads < vectors; v += (size_t)STRIP * threads) map_strip<WIDTH, STRIP>(v, threads, f, out, in...);
        for (; v < vectors; v += threads) map_strip<WIDTH, 1>(v, 1, f, out, in...);
        done = vectors * WIDTH;
    }
    for (size_t i = done + thread; i < numel; i += threads) out[i] = f(in[i]...);
}

// WIDTH neighbours, or one element as often.
template <int WIDTH, class T> __device__ __forceinline__ vec<T, WIDTH> read_or_repeat(const T *from, bool unit) {
    if (WIDTH > 1 && unit) return read_global<vec<T, WIDTH>>(from);
    T value = read_global<T>(from);
    vec<T, WIDTH> all;
#pragma unroll
    for (int k = 0; k < WIDTH; k++) all[k] = value;
    return all;
}

// The numbers 0 to N - 1 as template arguments.
template <class T, T...> struct sequence {};
template <int N> using indices = __make_integer_seq<sequence, int, N>;

// out[i] = f(in[offset of i]...): WIDTH elements of the last dimension at a time where that can be, by tiles if some inputs
// are turned over.
template <int WIDTH, int... K, class F, class Out, class... In>
__device__ __forceinline__ void map_strided(sequence<int, K...>, Access access, size_t numel, size_t num_dims, const size_t *__restrict__ info, F f, Out *__restrict__ out, const In *__restrict__... in) {
    using Shape = Tile<In...>;
    constexpr int N = sizeof...(In);
    unsigned char *lds = tile_memory<Shape::ELEMENTS * Shape::BYTES>();
    auto group_of = [](Access access) INLINED { return access.has(Access::VECTORS) ? log2_of(WIDTH) : 0; };
    // Blocks are tiles, or as many neighbours as there are threads: in 32 bits, as no memory has more.
    uint32_t across = 0, down = 0, zero = (uint32_t)num_dims >> 31;
    size_t end = numel;
    if (access.has(Access::TILES)) {
        size_t last = num_dims - 1, turned = access.turned();
        across = (uint32_t)ceil_div(info[last], (size_t)Shape::TO), down = (uint32_t)ceil_div(info[turned], (size_t)Shape::FROM);
        end = (size_t)across * down;
#pragma nounroll
        for (size_t d = 0; d < last; d++) end *= d == turned ? 1 : info[d];
        // In vector registers, of which there are enough, as what is divided by them.
        opaque(across);
        opaque(down);
    }
    for (uint32_t block = blockIdx.x; (access.has(Access::TILES) ? block : (size_t)block * blockDim.x << group_of(access)) < end; block += gridDim.x) {
        // What follows from these is made again, instead of kept in more registers than there are.
        auto now = access;
        uint32_t dims = (uint32_t)num_dims;
        opaque_uniform(dims);
        opaque_uniform(now.word);
        size_t base[N] = {}, first = 0, row = 0;
        uint32_t columns = 0, rows = 0, each = blockDim.x;
        if (now.has(Access::TILES)) {
            each = Shape::ELEMENTS >> group_of(now);
            // The tile's place, and with it those of its first element in each tensor.
            uint32_t rest = block, last = dims - 1, turned = now.turned();
            opaque(rest);
            uint32_t tile = rest / across;
            size_t at = (size_t)(rest - tile * across) * Shape::TO, size = info[last];
            rows = (uint32_t)min_of(size - at, (size_t)Shape::TO);
            first = at;
            ((base[K] = at * info[(K + 1) * dims + last]), ...);
            rest = tile / down;
            size_t column = (size_t)(tile - rest * down) * Shape::FROM;
            columns = (uint32_t)min_of(info[turned] - column, (size_t)Shape::FROM);
#pragma nounroll
            for (uint32_t d = last; d-- > 0;) {
                size_t place = column;
                if (d == turned) {
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
            ((now.has(Access::STAGED(K)) ? fill((In *)(lds + Shape::start(K)), in + base[K], info[(K + 1) * dims + last]) : void()), ...);
            __syncthreads();
        }
        uint32_t v = threadIdx.x;
        forget(v, zero);
#pragma nounroll
        for (; v < each; v += blockDim.x) {
            auto now = access;
            uint32_t dims = (uint32_t)num_dims;
            opaque_uniform(dims);
            opaque_uniform(now.word);
            size_t at, offset[N];
            uint32_t i = 0, j = 0, group = group_of(now);
            bool inside;
            if (now.has(Access::TILES)) {
                uint32_t last = dims - 1, turned = now.turned(), of_row = log2_of(Shape::TO) - group;
                i = v >> of_row, j = (v & ((1u << of_row) - 1)) << group;
                inside = i < columns && j < rows;
                at = first + i * row + j;
                ((offset[K] = base[K] + i * info[(K + 1) * dims + turned] + j * info[(K + 1) * dims + last]), ...);
            } else {
                at = ((size_t)block * blockDim.x + v) << group;
                inside = at < end;
                if (now.has(Access::NARROW)) strided_offsets<N, uint32_t>((uint32_t)at, dims, info, offset);
                else strided_offsets<N, size_t>(at, dims, info, offset);
            }
            if (!inside) continue;
            if (now.has(Access::VECTORS)) {
                vec<Out, WIDTH> result;
                [&](const vec<In, WIDTH> &...x) INLINED {
#pragma unroll
                    for (int k = 0; k < WIDTH; k++) result[k] = f(x[k]...);
                }((now.has(Access::STAGED(K)) ? read_staged<WIDTH, Shape>((const In *)(lds + Shape::start(K)), i, j) : read_or_repeat<WIDTH>(in + offset[K], now.has(Access::UNIT(K))))...);
                store_vec(out + at, result);
            } else {
                out[at] = f((now.has(Access::STAGED(K)) ? read_staged<1, Shape>((const In *)(lds + Shape::start(K)), i, j)[0] : read_global<In>(in + offset[K]))...);
            }
        }
        if (access.has(Access::TILES)) __syncthreads();
    }
}

// out[i] = f(in[i]...) for any layout.
template <int... K, class F, class Out, class... In>
__device__ __forceinline__ void map_any(sequence<int, K...> each, size_t numel, size_t num_dims, const size_t *__restrict__ info, F f, Out *__restrict__ out, const In *__restrict__... in) {
    if (info == nullptr || num_dims == 0) return map_contiguous(numel, f, out, in...);
    constexpr int WIDTH = 16 / largest_size<Out, In...>::value;
    Access access = {0};
    if (numel <= 0xffffffffu) access.word |= Access::NARROW;
    if (info[num_dims - 1] % WIDTH == 0 && is_aligned(out, sizeof(Out) * WIDTH)) access.word |= Access::VECTORS;
    // Where there is a thread for every element, tiles would leave most without work. They are numbered in 32 bits.
    if (numel > global_threads() && numel <= 0xffffffffu * LEAST_TURNED) find_turned<sizeof...(In)>(access, num_dims, info);
    (lay_out<WIDTH>(access, K, in, num_dims, info), ...);
    map_strided<WIDTH>(each, access, numel, num_dims, info, f, out, in...);
}

template <class F, class Out, class... In>
__device__ __forceinline__ void map(size_t numel, size_t num_dims, const size_t *__restrict__ info, F f, Out *__restrict__ out, const In *__restrict__... in) {
    map_any(indices<sizeof...(In)>(), numel, num_dims, info, f, out, in...);
}
