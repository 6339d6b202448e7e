// Inclusive sums along the last dimension: rows of some lanes of a wavefront, or a workgroup's tile of one.
#pragma once
#include "scan/before_tile.cuh"

// Where a vector of a lane is: in a row that begins there, from this element of it on, if that is before `end`.
struct ScannedVector {
    size_t base, at, end;
};

// Rows, in the order in which their elements are summed.
template <class T> struct ScannedRows {
    static constexpr int WIDTH = VEC16<T>;
    size_t count;
    bool reversed, wide;

    __device__ __forceinline__ size_t element(const ScannedVector &of, int e) const {
        size_t i = of.at + e;
        return of.base + (reversed ? count - 1 - i : i);
    }
    __device__ __forceinline__ size_t vector(const ScannedVector &of) const {
        return of.base + (reversed ? count - WIDTH - of.at : of.at);
    }
    static __device__ __forceinline__ HeldElements turned(const HeldElements &elements) {
        auto values = bit_cast<vec<T, WIDTH>>(elements);
        vec<T, WIDTH> result;
#pragma unroll
        for (int e = 0; e < WIDTH; e++) result[e] = values[WIDTH - 1 - e];
        return bit_cast<HeldElements>(result);
    }
    // The vectors of a lane, zeros where there are none. No load waits for another.
    template <int N, class Place>
    __device__ __forceinline__ void load(HeldElements (&to)[N], const T *source, Place place) const {
#pragma unroll
        for (int v = 0; v < N; v++) to[v] = {};
        if (wide) {
#pragma unroll
            for (int v = 0; v < N; v++) {
                ScannedVector of = place(v);
                if (of.at < of.end) to[v] = load_vec<HeldElements>(source + vector(of));
            }
            if (!reversed) return;
#pragma unroll
            for (int v = 0; v < N; v++) to[v] = turned(to[v]);
            return;
        }
#pragma unroll
        for (int v = 0; v < N; v++) {
            ScannedVector of = place(v);
            auto values = bit_cast<vec<T, WIDTH>>(to[v]);
#pragma unroll
            for (int e = 0; e < WIDTH; e++)
                if (of.at + e < of.end) values[e] = source[element(of, e)];
            to[v] = bit_cast<HeldElements>(values);
        }
    }
    __device__ __forceinline__ void store(T *result, const ScannedVector &of, const vec<T, WIDTH> &values) const {
        if (wide) {
            auto held = bit_cast<HeldElements>(values);
            if (of.at < of.end) store_vec(result + vector(of), reversed ? turned(held) : held);
            return;
        }
#pragma unroll
        for (int e = 0; e < WIDTH; e++)
            if (of.at + e < of.end) result[element(of, e)] = values[e];
    }
};

// The sums of vectors of some lanes, a row's or some rows': vectors of a lane lie as many apart as there are lanes.
template <class T> struct ScannedLanes {
    using Sum = scan_sum_t<T>;
    static constexpr int WIDTH = VEC16<T>, VECTORS = SCAN_VECTORS<T>;
    // Of the row's vectors before each, and of those and the lanes' own.
    Sum before[VECTORS], until[VECTORS];

    // `row_of` gives the number of a vector's row.
    template <class RowOf>
    __device__ __forceinline__ ScannedLanes(const HeldElements (&elements)[VECTORS], uint32_t lanes, RowOf row_of) {
        uint32_t lane = lane_id() & (lanes - 1);
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            auto values = bit_cast<vec<T, WIDTH>>(elements[v]);
            until[v] = to_sum<T>(values[0]);
#pragma unroll
            for (int e = 1; e < WIDTH; e++) until[v] = until[v] + to_sum<T>(values[e]);
        }
        inclusive_sums_of_lanes(until, 1, lanes);
        Sum all = 0;
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            if (v > 0 && row_of(v) != row_of(v - 1)) all = 0;
            Sum earlier = shfl_up(until[v], 1, lanes);
            before[v] = lane == 0 ? all : all + earlier;
            all = all + shfl(until[v], lanes - 1, lanes);
            until[v] = all;
        }
    }
};

// Rows of `count` elements, of which `threads` work-items sum a tile at a time: a workgroup's, or those of a wavefront
// or of a part of it. Of rows that are one tile they have `together` each.
template <class T>
__device__ __forceinline__ void scan_rows(const T *__restrict__ source, T *__restrict__ result, int64_t *words,
                                          size_t rows, size_t count, uint32_t threads, uint32_t together,
                                          uint32_t tiles, uint32_t of_group, uint32_t flags) {
    using Sum = scan_sum_t<T>;
    constexpr uint32_t WIDTH = VEC16<T>, VECTORS = SCAN_VECTORS<T>, WAVES = SCAN_THREADS / WAVEFRONT;
    // What each wavefront has of each of the workgroup's rows.
    __shared__ Sum of_wave[VECTORS][WAVES];
    bool has_tile = threads > WAVEFRONT;
    uint32_t lanes = has_tile ? (uint32_t)WAVEFRONT : threads, groups = SCAN_THREADS / threads;
    uint32_t wave = uniform(has_tile ? threadIdx.x / WAVEFRONT : 0), lane = lane_id() & (lanes - 1);
    uint32_t of_step = lanes * WIDTH;
    size_t tile_size = (size_t)threads * WIDTH * VECTORS, units = rows * tiles;
    TileSums<Sum> left{words, tiles, of_group, 1};
    ScannedRows<T> of_rows{count, (flags & SCAN_REVERSED) != 0, (flags & SCAN_WIDE) != 0};
    for (size_t first_tile = (size_t)blockIdx.x * groups * together; first_tile < units;
         first_tile += (size_t)gridDim.x * groups * together) {
        size_t unit = first_tile + threadIdx.x / threads, row = tiles == 1 ? unit : unit / tiles;
        uint32_t tile = (uint32_t)(unit - row * tiles);
        size_t first = tile * tile_size, end = min_of(first + tile_size, count);
        // Rows that do not fill the tile are spread over all wavefronts.
        uint32_t used = uniform((uint32_t)ceil_div(end - first, (size_t)threads * WIDTH));
        // v / used is (v * parts) / 64 for all v and used up to 8.
        uint32_t parts = 64 / used + 1;
        auto row_of = [&](int v) INLINED {
            return (uint32_t)v * parts / 64;
        };
        first += ((size_t)wave * used * WAVEFRONT + lane) * WIDTH;
        auto place = [&](int v) INLINED {
            uint32_t number = row_of(v);
            size_t of_row = row + (size_t)number * groups;
            bool is_there = (uint32_t)v < used * together && of_row < rows;
            return ScannedVector{of_row * count, first + (size_t)(v - number * used) * of_step, is_there ? end : 0};
        };
        HeldElements elements[VECTORS];
        of_rows.load(elements, source, place);
        ScannedLanes<T> own(elements, lanes, row_of);
        if (has_tile) {
            if (lane == 0)
#pragma unroll
                for (int v = 0; v < (int)VECTORS; v++)
                    if ((uint32_t)v < used * together) of_wave[row_of(v)][wave] = own.until[v];
            __syncthreads();
#pragma unroll 1
            for (uint32_t number = 0; number < together; number++) {
                Sum before = 0, all = 0;
#pragma unroll
                for (uint32_t w = 0; w < WAVES; w++) {
                    if (w == wave) before = all;
                    all += of_wave[number][w];
                }
                if (tiles > 1) before += sum_before_tile(left, row, tile, all);
#pragma unroll
                for (int v = 0; v < (int)VECTORS; v++)
                    if (row_of(v) == number) own.before[v] = before + own.before[v];
            }
            // The next rows' sums are written where these are.
            __syncthreads();
        }
        opt_barrier_held(elements, of_group);
#pragma unroll
        for (int v = 0; v < (int)VECTORS; v++) {
            auto values = bit_cast<vec<T, (int)WIDTH>>(elements[v]);
            vec<T, (int)WIDTH> out;
            Sum sum = 0;
#pragma unroll
            for (int e = 0; e < (int)WIDTH; e++) {
                sum = e == 0 ? to_sum<T>(values[0]) : sum + to_sum<T>(values[e]);
                out[e] = of_sum<T>(own.before[v] + sum);
            }
            of_rows.store(result, place(v), out);
        }
    }
}
