// Tiles of tensors, transposed in LDS.
//
// Where an input's neighbours in memory lie along another dimension than the output's, as in a transposed tensor,
// reading in the output's order takes a line of memory for each element. Such inputs are read in their own order, a
// tile of the two dimensions at a time, and transposed in LDS.
#pragma once
#include "portable/convert.cuh"

// The size of the largest of some types.
template <class... T> struct largest_size;
template <class T> struct largest_size<T> {
    static constexpr int value = sizeof(T);
};
template <class T, class... Rest> struct largest_size<T, Rest...> {
    static constexpr int value = (int)sizeof(T) > largest_size<Rest...>::value ? (int)sizeof(T)
                                                                               : largest_size<Rest...>::value;
};

// The shape of a tile: elements along the dimension in which the transposed inputs have neighbours, and along the last
// one. A line of 128 bytes where LDS for every input leaves room for the most wavefronts on a compute unit.
template <class... In> struct Tile {
    static constexpr int BYTES = (... + (int)sizeof(In)), LDS = sizeof...(In) > 2 ? 12288 : 8192;
    static __host__ __device__ constexpr int power(int most) { return most < 2 ? 1 : 2 * power(most / 2); }
    static constexpr int ELEMENTS = power(LDS / BYTES), LINE = 128 / largest_size<In...>::value;
    static constexpr int FROM = LINE > 2 * (ELEMENTS / LINE) ? LINE / 2 : LINE, TO = ELEMENTS / FROM;

    // Where in LDS the tile of input k begins, in bytes.
    static __host__ __device__ constexpr uint32_t start(int k) {
        constexpr int sizes[] = {(int)sizeof(In)...};
        int bytes = 0;
        for (int n = 0; n < k; n++) bytes += sizes[n] * ELEMENTS;
        return (uint32_t)bytes;
    }

    // Where LDS has the element (i, j): groups of rows have the same columns in other banks.
    template <int WIDTH, int GROUP> static __device__ __forceinline__ uint32_t column(uint32_t i, uint32_t j) {
        return i ^ ((j / WIDTH * GROUP) & (FROM - 1));
    }
};

// LDS for tiles, one and the same for all functions of a kernel.
template <int BYTES> __device__ __forceinline__ unsigned char *tile_memory() {
    __shared__ __attribute__((aligned(16))) unsigned char lds[BYTES];
    return lds;
}

// Elements that are read from a transposed input at once: 16 bytes, or one.
template <int WIDTH, class T> constexpr int GROUP = WIDTH > 1 ? VEC16<T> : 1;

// How inputs are read, in the bits of a word, so that it takes one register.
struct Access {
    uint32_t word;
    // Input k: transposed, in LDS; neighbours along the last dimension are neighbours in memory, not one and the same
    // element.
    static __host__ __device__ constexpr uint32_t STAGED(int k) { return 1u << k; }
    static __host__ __device__ constexpr uint32_t UNIT_STRIDE(int k) { return 16u << k; }
    // Several elements at a time can be read and written. Some input is transposed.
    static constexpr uint32_t VECTORS = 256, TILES = 512;

    __device__ __forceinline__ uint32_t has(uint32_t flag) const { return word & flag; }
    // The dimension in which the inputs that are transposed have their neighbours in memory.
    __device__ __forceinline__ uint32_t transposed() const { return word >> 16; }
};

// Of too few elements a dimension is read in lines of no use.
constexpr size_t LEAST_TRANSPOSED = 8;

// Finds a dimension, if it is worth it, in which some input has its neighbours in memory and which is not the last.
template <int N> __device__ __forceinline__ void find_transposed(Access &access, size_t num_dims, const size_t *info) {
    size_t last = num_dims - 1;
    if (info[last] < LEAST_TRANSPOSED || last > 0xffff) return;
#pragma unroll
    for (int k = 0; k < N; k++) {
        const size_t *strides = info + (k + 1) * num_dims;
        if (access.has(Access::TILES) || strides[last] <= 1) continue;
#pragma nounroll
        for (size_t d = 0; d < last; d++)
            if (strides[d] == 1 && info[d] >= LEAST_TRANSPOSED)
                access.word = (access.word & 0xffff) | Access::TILES | (uint32_t)d << 16;
    }
}

// Adds input k.
template <int WIDTH, class T>
__device__ __forceinline__ void lay_out(Access &access, int k, const T *from, size_t num_dims, const size_t *info) {
    const size_t *strides = info + (k + 1) * num_dims;
    size_t last = num_dims - 1, along = last;
    bool staged = access.has(Access::TILES) && strides[last] > 1 && strides[access.transposed()] == 1;
    if (staged) {
        access.word |= Access::STAGED(k);
        along = access.transposed();
    }
    if (strides[last] == 1) access.word |= Access::UNIT_STRIDE(k);
    if (strides[last] == 0) return;
    uint32_t group = staged ? GROUP<WIDTH, T> : WIDTH;
    bool fits = strides[along] == 1 && info[along] % group == 0 && is_aligned(from, sizeof(T) * group);
#pragma nounroll
    for (size_t d = 0; fits && d <= last; d++) fits = d == along || info[d] == 1 || strides[d] % group == 0;
    if (!fits) access.word &= ~Access::VECTORS;
}

// Reads an input's tile of `columns` by `rows` elements into LDS.
template <int WIDTH, class Tile, class T>
__device__ __forceinline__ void stage(T *lds, const T *from, size_t stride, uint32_t columns, uint32_t rows,
                                      uint32_t zero) {
    constexpr uint32_t STEP = GROUP<WIDTH, T>, COUNT = Tile::ELEMENTS / STEP, STRIP = WIDTH > 1 ? 2 : 4;
    using Words = typename conditional<(WIDTH > 1), vec<uint32_t, 4>, T>::type;
    // What follows from it is not worth keeping from tile to tile.
    uint32_t first = threadIdx.x;
    opt_barrier_words(first, zero);
#pragma nounroll
    for (; first < COUNT; first += STRIP * blockDim.x) {
        Words x[STRIP];
        // Some is read and written more than once, where the tile is cut off and by the last threads.
        auto each = [&](auto f) INLINED {
#pragma unroll
            for (uint32_t s = 0; s < STRIP; s++) {
                uint32_t v = min_of(first + s * blockDim.x, COUNT - 1) * STEP;
                f(x[s], v % Tile::FROM, v / Tile::FROM);
            }
        };
        each([&](Words &x, uint32_t i, uint32_t j)
                 INLINED { x = read_global<Words>(from + min_of(j, rows - 1) * stride + min_of(i, columns - STEP)); });
        each([&](Words &x, uint32_t i, uint32_t j)
                 INLINED { *(Words *)(lds + j * Tile::FROM + Tile::template column<WIDTH, STEP>(i, j)) = x; });
    }
}

// WIDTH neighbours along the last dimension from column i of the tile in LDS.
template <int WIDTH, class Tile, class T> __device__ __forceinline__ vec<T, WIDTH> read_staged(const T *lds, uint32_t i,
                                                                                               uint32_t j) {
    const T *at = lds + j * Tile::FROM + Tile::template column<WIDTH, GROUP<WIDTH, T>>(i, j);
    vec<T, WIDTH> result;
#pragma unroll
    for (int k = 0; k < WIDTH; k++) result[k] = at[k * Tile::FROM];
    return result;
}
