// Inclusive sums along a dimension that is not the last: neighbours in memory are of different sums, which lanes hold
// side by side.
#pragma once
#include "scan/sums.cuh"

// Lanes side by side along the last dimension: a power of two. A workgroup has as many strips of rows as such groups.
constexpr uint32_t MOST_COLUMN_LANES = 32;

// What a workgroup's strips sum of each lane's columns.
template <class T> struct StripSums {
    using Sum = scan_sum_t<T>;
    static constexpr int WIDTH = VEC16<T>, WAVES = SCAN_THREADS / WAVEFRONT;
    // Of a wavefront's strips: lanes side by side, each in a bank of its own.
    Sum of[WAVES][WIDTH][MOST_COLUMN_LANES];

    // Adds up what each strip has of a lane's columns. Of the strips before one's own, too.
    __device__ __forceinline__ void add_up(uint32_t lanes, const Sum (&own)[WIDTH], Sum (&before)[WIDTH],
                                           Sum (&all)[WIDTH]) {
        uint32_t lane = lane_id(), column = lane & (lanes - 1), wave = threadIdx.x / WAVEFRONT;
        Sum until[WIDTH];
#pragma unroll
        for (int e = 0; e < WIDTH; e++) until[e] = own[e];
        __syncthreads();
        inclusive_sums_of_lanes(until, lanes, (uint32_t)WAVEFRONT);
        if (lane >= WAVEFRONT - lanes)
#pragma unroll
            for (int e = 0; e < WIDTH; e++) of[wave][e][column] = until[e];
        __syncthreads();
#pragma unroll
        for (int e = 0; e < WIDTH; e++) {
            Sum earlier = shfl_up(until[e], lanes, (uint32_t)WAVEFRONT);
            until[e] = lane < lanes ? (Sum)0 : earlier;
            all[e] = before[e] = 0;
        }
#pragma unroll
        for (uint32_t w = 0; w < (uint32_t)WAVES; w++)
#pragma unroll
            for (int e = 0; e < WIDTH; e++) {
                if (w == wave) before[e] = all[e] + until[e];
                all[e] += of[w][e][column];
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
    __device__ __forceinline__ void load(HeldElements (&to)[N], uint32_t there, Row row) const {
#pragma unroll
        for (int r = 0; r < N; r++) to[r] = {};
        if (wide) {
#pragma unroll
            for (int r = 0; r < N; r++)
                if ((uint32_t)r < there && has(0)) to[r] = load_vec<HeldElements>(row(r) + first);
            return;
        }
#pragma unroll
        for (int r = 0; r < N; r++) {
            auto values = bit_cast<vec<T, WIDTH>>(to[r]);
#pragma unroll
            for (int e = 0; e < WIDTH; e++)
                if ((uint32_t)r < there && has(e)) values[e] = row(r)[first + e];
            to[r] = bit_cast<HeldElements>(values);
        }
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

// A work-item's part of a workgroup.
struct Strip {
    uint32_t lanes, number;
    __device__ __forceinline__ explicit Strip(uint32_t lanes) : lanes(lanes), number(threadIdx.x / lanes) {}
    __device__ __forceinline__ uint32_t count() const { return SCAN_THREADS / lanes; }
};

// The sums of all rows before a tile's, of the lane's columns. `all` has the tile's own.
template <class T>
__device__ __forceinline__ void sums_before_tile(const TileSums<scan_sum_t<T>> &left, const LaneColumns<T> &columns,
                                                 StripSums<T> &lds, const Strip &strip, size_t outer, uint32_t tile,
                                                 scan_sum_t<T> (&all)[VEC16<T>], scan_sum_t<T> (&before)[VEC16<T>]) {
    using Sum = scan_sum_t<T>;
    using Left = LeftSum<Sum>;
    constexpr int WIDTH = VEC16<T>;
    uint32_t group = left.group(tile);
    Sum sums[WIDTH], found[WIDTH], unused[WIDTH];
    if (strip.number == 0)
#pragma unroll
        for (int e = 0; e < WIDTH; e++)
            if (columns.has(e)) Left::leave(left.of(outer, tile, columns.first + e), all[e]);
#pragma unroll
    for (int e = 0; e < WIDTH; e++) sums[e] = 0;
    uint32_t there = columns.count(), begin = group * left.of_group;
    for (uint32_t t = begin + strip.number; t < tile && there > 0; t += strip.count())
        add_waited<Sum, WIDTH>(left.of(outer, t, columns.first), there, sums);
    lds.add_up(strip.lanes, sums, unused, before);
    if (strip.number == 0 && left.ends_group(tile))
#pragma unroll
        for (int e = 0; e < WIDTH; e++)
            if (columns.has(e)) Left::leave(left.of_whole(outer, group, columns.first + e), before[e] + all[e]);
    if (group == 0) return;
#pragma unroll
    for (int e = 0; e < WIDTH; e++) sums[e] = 0;
    for (uint32_t g = strip.number; g < group && there > 0; g += strip.count())
        add_waited<Sum, WIDTH>(left.of_whole(outer, g, columns.first), there, sums);
    lds.add_up(strip.lanes, sums, unused, found);
#pragma unroll
    for (int e = 0; e < WIDTH; e++) before[e] = found[e] + before[e];
}

// Sums a tile: some rows of some columns of matrix `outer`. Rows that do not fill it are spread over all strips.
template <class T>
__device__ __forceinline__ void scan_column_tile(const T *__restrict__ source, T *__restrict__ result,
                                                 const TileSums<scan_sum_t<T>> &left, const LaneColumns<T> &columns,
                                                 StripSums<T> &lds, const Strip &strip, size_t outer, size_t count,
                                                 uint32_t tile, bool reversed) {
    using Sum = scan_sum_t<T>;
    constexpr int WIDTH = VEC16<T>, ROWS = COLUMN_ROWS<T>;
    uint32_t of_tile = strip.count() * ROWS;
    size_t first = (size_t)tile * of_tile, end = min_of(first + of_tile, count);
    uint32_t used = ceil_div((uint32_t)(end - first), strip.count());
    first += (size_t)strip.number * used;
    auto row = [&](int r) INLINED {
        size_t i = first + r;
        return (outer * count + (reversed ? count - 1 - i : i)) * columns.end;
    };
    uint32_t there = (uint32_t)min_of(first < end ? end - first : 0, (size_t)used);
    HeldElements elements[ROWS];
    columns.load(elements, there, [&](int r) INLINED { return source + row(r); });
    Sum own[WIDTH], before[WIDTH], all[WIDTH];
#pragma unroll
    for (int e = 0; e < WIDTH; e++) own[e] = 0;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        auto values = bit_cast<vec<T, WIDTH>>(elements[r]);
#pragma unroll
        for (int e = 0; e < WIDTH; e++) own[e] = own[e] + to_sum<T>(values[e]);
    }
    lds.add_up(strip.lanes, own, before, all);
    if (left.tiles > 1) {
        Sum earlier[WIDTH];
        sums_before_tile<T>(left, columns, lds, strip, outer, tile, all, earlier);
#pragma unroll
        for (int e = 0; e < WIDTH; e++) before[e] = earlier[e] + before[e];
    }
    opt_barrier_held(elements, left.of_group);
#pragma unroll
    for (int e = 0; e < WIDTH; e++) own[e] = 0;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        auto values = bit_cast<vec<T, WIDTH>>(elements[r]);
        vec<T, WIDTH> out;
#pragma unroll
        for (int e = 0; e < WIDTH; e++) {
            own[e] = own[e] + to_sum<T>(values[e]);
            out[e] = of_sum<T>(before[e] + own[e]);
        }
        if ((uint32_t)r < there) columns.store(result + row(r), out);
    }
}

// `matrices` of `count` rows of `inner` elements, summed along the rows' number. A workgroup has a tile, or, where none
// waits for others, several.
template <class T>
__device__ __forceinline__ void scan_columns(const T *__restrict__ source, T *__restrict__ result, int64_t *words,
                                             size_t matrices, size_t count, size_t inner, uint32_t lanes,
                                             uint32_t tiles, uint32_t blocks, uint32_t of_group, uint32_t flags) {
    __shared__ StripSums<T> lds;
    TileSums<scan_sum_t<T>> left{words, tiles, of_group, inner};
    Strip strip(lanes);
    size_t of_matrix = (size_t)tiles * blocks, lane = threadIdx.x & (lanes - 1);
    for (size_t unit = blockIdx.x; unit < matrices * of_matrix; unit += gridDim.x) {
        // All columns of a tile stand before the next tile in the grid.
        size_t outer = unit / of_matrix;
        uint32_t rest = (uint32_t)(unit - outer * of_matrix), tile = rest / blocks, block = rest - tile * blocks;
        LaneColumns<T> columns{((size_t)block * lanes + lane) * VEC16<T>, inner, (flags & SCAN_WIDE) != 0};
        scan_column_tile<T>(source, result, left, columns, lds, strip, outer, count, tile,
                            (flags & SCAN_REVERSED) != 0);
    }
}
