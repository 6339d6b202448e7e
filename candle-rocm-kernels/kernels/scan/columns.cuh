// Inclusive sums along a dimension that is not the last: neighbours in memory are of different sums, which lanes hold
// side by side.
#pragma once
#include "scan/sums.cuh"

// A workgroup's work-items: lanes along the last dimension, and as many strips of rows.
constexpr uint32_t COLUMN_LANES = 32, COLUMN_STRIPS = SCAN_THREADS / COLUMN_LANES;

// A strip's sums of a lane's columns, one strip's beside the other's.
template <class T> struct StripSums {
    using Sum = scan_sum_t<T>;
    static constexpr int WIDTH = VEC16<T>;
    // Lanes side by side, each in a bank of its own.
    Sum of[COLUMN_STRIPS][WIDTH][COLUMN_LANES];

    // Adds up what each strip has of the lane's columns. Of the strips before `strip`, too.
    __device__ __forceinline__ void add_up(uint32_t lane, uint32_t strip, const Sum (&own)[WIDTH], Sum (&before)[WIDTH],
                                           Sum (&all)[WIDTH]) {
        __syncthreads();
#pragma unroll
        for (int e = 0; e < WIDTH; e++) of[strip][e][lane] = own[e];
        __syncthreads();
#pragma unroll
        for (int e = 0; e < WIDTH; e++) all[e] = before[e] = 0;
#pragma unroll
        for (uint32_t s = 0; s < COLUMN_STRIPS; s++)
#pragma unroll
            for (int e = 0; e < WIDTH; e++) {
                if (s == strip) before[e] = all[e];
                all[e] += of[s][e][lane];
            }
    }
};

// The columns of a lane: those before `end`.
template <class T> struct LaneColumns {
    static constexpr int WIDTH = VEC16<T>;
    size_t first, end;
    bool wide;

    __device__ __forceinline__ bool has(int e) const { return first + e < end; }
    __device__ __forceinline__ uint32_t count() const {
        return (uint32_t)min_of(first < end ? end - first : 0, (size_t)WIDTH);
    }
    // Those of `there` of N rows, zeros of the others; no load waits for another.
    template <int N, class Row>
    __device__ __forceinline__ void load(vec<T, WIDTH> (&to)[N], uint32_t there, Row row) const {
#pragma unroll
        for (int r = 0; r < N; r++) to[r] = {};
        if (wide) {
#pragma unroll
            for (int r = 0; r < N; r++)
                if ((uint32_t)r < there && has(0)) to[r] = load_vec<vec<T, WIDTH>>(row(r) + first);
            return;
        }
#pragma unroll
        for (int r = 0; r < N; r++)
#pragma unroll
            for (int e = 0; e < WIDTH; e++)
                if ((uint32_t)r < there && has(e)) to[r][e] = row(r)[first + e];
    }
    __device__ __forceinline__ void store(T *row, const vec<T, WIDTH> &values) const {
        if (wide && has(0)) {
            store_vec(row + first, values);
            return;
        }
#pragma unroll
        for (int e = 0; e < WIDTH; e++)
            if (has(e)) row[first + e] = values[e];
    }
};

// Adds sums that another workgroup leaves, of the first `there` of WIDTH columns, four at a time.
template <class Sum, int WIDTH>
__device__ __forceinline__ void add_waited(const int64_t *at, uint32_t there, Sum (&sums)[WIDTH]) {
    constexpr int TOGETHER = min_of(WIDTH, 4);
#pragma unroll
    for (int first = 0; first < WIDTH; first += TOGETHER) {
        if (first >= (int)there) return;
        Sum found[TOGETHER];
        LeftSum<Sum>::wait_all(at + first * LeftSum<Sum>::WORDS, there - first, found);
#pragma unroll
        for (int e = 0; e < TOGETHER; e++) sums[first + e] += found[e];
    }
}

// The sums of all rows before a tile's, of the lane's columns. `all` has the tile's own.
template <class T>
__device__ __forceinline__ void sums_before_tile(const TileSums<scan_sum_t<T>> &left, const LaneColumns<T> &columns,
                                                 StripSums<T> &lds, size_t outer, uint32_t tile,
                                                 scan_sum_t<T> (&all)[VEC16<T>], scan_sum_t<T> (&before)[VEC16<T>]) {
    using Sum = scan_sum_t<T>;
    using Left = LeftSum<Sum>;
    constexpr int WIDTH = VEC16<T>;
    uint32_t lane = threadIdx.x % COLUMN_LANES, strip = threadIdx.x / COLUMN_LANES, group = left.group(tile);
    Sum sums[WIDTH], found[WIDTH], unused[WIDTH];
    if (strip == 0)
#pragma unroll
        for (int e = 0; e < WIDTH; e++)
            if (columns.has(e)) Left::leave(left.of(outer, tile, columns.first + e), all[e]);
#pragma unroll
    for (int e = 0; e < WIDTH; e++) sums[e] = 0;
    uint32_t there = columns.count(), begin = group * left.of_group;
    for (uint32_t t = begin + strip; t < tile && there > 0; t += COLUMN_STRIPS)
        add_waited<Sum, WIDTH>(left.of(outer, t, columns.first), there, sums);
    lds.add_up(lane, strip, sums, unused, before);
    if (strip == 0 && left.ends_group(tile))
#pragma unroll
        for (int e = 0; e < WIDTH; e++)
            if (columns.has(e)) Left::leave(left.of_whole(outer, group, columns.first + e), before[e] + all[e]);
    if (group == 0) return;
#pragma unroll
    for (int e = 0; e < WIDTH; e++) sums[e] = 0;
    for (uint32_t g = strip; g < group && there > 0; g += COLUMN_STRIPS)
        add_waited<Sum, WIDTH>(left.of_whole(outer, g, columns.first), there, sums);
    lds.add_up(lane, strip, sums, unused, found);
#pragma unroll
    for (int e = 0; e < WIDTH; e++) before[e] = found[e] + before[e];
}

// Sums a tile: some rows of some columns of matrix `outer`.
template <class T>
__device__ __forceinline__ void scan_column_tile(const T *__restrict__ source, T *__restrict__ result,
                                                 const TileSums<scan_sum_t<T>> &left, const LaneColumns<T> &columns,
                                                 StripSums<T> &lds, size_t outer, size_t count, uint32_t tile,
                                                 bool reversed) {
    using Sum = scan_sum_t<T>;
    constexpr int WIDTH = VEC16<T>, ROWS = SCAN_VECTORS<T>;
    uint32_t lane = threadIdx.x % COLUMN_LANES, strip = threadIdx.x / COLUMN_LANES;
    size_t first = ((size_t)tile * COLUMN_STRIPS + strip) * ROWS;
    auto row = [&](int r) INLINED {
        size_t i = first + r;
        return (outer * count + (reversed ? count - 1 - i : i)) * columns.end;
    };
    uint32_t there = (uint32_t)min_of(first < count ? count - first : 0, (size_t)ROWS);
    vec<T, WIDTH> elements[ROWS];
    columns.load(elements, there, [&](int r) INLINED { return source + row(r); });
    Sum sums[ROWS][WIDTH], before[WIDTH], all[WIDTH];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int e = 0; e < WIDTH; e++) sums[r][e] = to_sum<T>(elements[r][e]) + (r > 0 ? sums[r - 1][e] : (Sum)0);
    lds.add_up(lane, strip, sums[ROWS - 1], before, all);
    if (left.tiles > 1) {
        Sum earlier[WIDTH];
        sums_before_tile<T>(left, columns, lds, outer, tile, all, earlier);
#pragma unroll
        for (int e = 0; e < WIDTH; e++) before[e] = earlier[e] + before[e];
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        vec<T, WIDTH> out;
#pragma unroll
        for (int e = 0; e < WIDTH; e++) out[e] = of_sum<T>(before[e] + sums[r][e]);
        if ((uint32_t)r < there) columns.store(result + row(r), out);
    }
}

// `matrices` of `count` rows of `inner` elements, summed along the rows' number. A workgroup has a tile, or, where none
// waits for others, several.
template <class T>
__device__ __forceinline__ void scan_columns(const T *__restrict__ source, T *__restrict__ result, int64_t *words,
                                             size_t matrices, size_t count, size_t inner, uint32_t tiles,
                                             uint32_t blocks, uint32_t of_group, uint32_t flags) {
    __shared__ StripSums<T> lds;
    TileSums<scan_sum_t<T>> left{words, tiles, of_group, inner};
    size_t of_matrix = (size_t)tiles * blocks, lane = threadIdx.x % COLUMN_LANES;
    for (size_t unit = blockIdx.x; unit < matrices * of_matrix; unit += gridDim.x) {
        // All columns of a tile stand before the next tile in the grid.
        size_t outer = unit / of_matrix;
        uint32_t rest = (uint32_t)(unit - outer * of_matrix), tile = rest / blocks, block = rest - tile * blocks;
        LaneColumns<T> columns{(block * COLUMN_LANES + lane) * VEC16<T>, inner, (flags & SCAN_WIDE) != 0};
        scan_column_tile<T>(source, result, left, columns, lds, outer, count, tile, (flags & SCAN_REVERSED) != 0);
    }
}
