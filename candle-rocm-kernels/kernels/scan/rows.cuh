// Inclusive sums along the last dimension: a wavefront's row, or a workgroup's tile of one.
#pragma once
#include "scan/before_tile.cuh"

// A row's elements in the order in which they are summed.
template <class T> struct ScannedRow {
    static constexpr int WIDTH = VEC16<T>;
    size_t base, count;
    bool reversed, wide;

    __device__ __forceinline__ size_t at(size_t i) const { return base + (reversed ? count - 1 - i : i); }

    // Vectors of WIDTH elements from at(v) on, for v in [0, used), of which there are elements before `end`. No load
    // waits for another.
    template <int N, class At>
    __device__ __forceinline__ void load(vec<T, WIDTH> (&to)[N], const T *source, uint32_t used, size_t end,
                                         At at) const {
#pragma unroll
        for (int v = 0; v < N; v++)
#pragma unroll
            for (int e = 0; e < WIDTH; e++) to[v][e] = bit_cast<T>(zero());
        if (wide) {
#pragma unroll
            for (int v = 0; v < N; v++)
                if (v < (int)used && at(v) < end)
                    to[v] = load_vec<vec<T, WIDTH>>(source + base + (reversed ? count - WIDTH - at(v) : at(v)));
            if (!reversed) return;
#pragma unroll
            for (int v = 0; v < N; v++) {
                vec<T, WIDTH> turned;
#pragma unroll
                for (int e = 0; e < WIDTH; e++) turned[e] = to[v][WIDTH - 1 - e];
                to[v] = turned;
            }
            return;
        }
#pragma unroll
        for (int v = 0; v < N; v++) {
            if (v >= (int)used) continue;
#pragma unroll
            for (int e = 0; e < WIDTH; e++)
                if (at(v) + e < end) to[v][e] = source[this->at(at(v) + e)];
        }
    }
    __device__ __forceinline__ void store(T *result, size_t i, size_t end, const vec<T, WIDTH> &values) const {
        if (wide && i < end) {
            vec<T, WIDTH> turned;
#pragma unroll
            for (int e = 0; e < WIDTH; e++) turned[e] = values[WIDTH - 1 - e];
            if (reversed) store_vec(result + base + count - WIDTH - i, turned);
            else store_vec(result + base + i, values);
            return;
        }
#pragma unroll
        for (int e = 0; e < WIDTH; e++)
            if (i + e < end) result[at(i + e)] = values[e];
    }

private:
    static __device__ __forceinline__ typename bits_of<sizeof(T)>::type zero() { return 0; }
};

// A wavefront's elements: vectors of a lane lie WAVEFRONT vectors apart.
template <class T> struct ScannedWave {
    using Sum = scan_sum_t<T>;
    static constexpr int WIDTH = VEC16<T>, VECTORS = SCAN_VECTORS<T>;
    Sum sums[VECTORS][WIDTH]; // of a vector alone
    Sum before[VECTORS];      // of the wavefront's vectors before
    Sum all;

    __device__ __forceinline__ explicit ScannedWave(const vec<T, WIDTH> (&elements)[VECTORS]) : all(0) {
        uint32_t lane = lane_id();
#pragma unroll
        for (int v = 0; v < VECTORS; v++)
#pragma unroll
            for (int e = 0; e < WIDTH; e++) sums[v][e] = to_sum<T>(elements[v][e]);
        Sum until[VECTORS];
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
#pragma unroll
            for (int e = 1; e < WIDTH; e++) sums[v][e] = sums[v][e - 1] + sums[v][e];
            until[v] = sums[v][WIDTH - 1];
        }
        wave_inclusive_sums(until);
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            Sum earlier = shfl_up(until[v], 1, (uint32_t)WAVEFRONT);
            before[v] = lane == 0 ? all : all + earlier;
            all = all + shfl(until[v], WAVEFRONT - 1, (uint32_t)WAVEFRONT);
        }
    }
};

// Rows of `count` elements, of which `threads` work-items sum a tile at a time: a wavefront's, which is then a whole
// row, or a workgroup's.
template <class T>
__device__ __forceinline__ void scan_rows(const T *__restrict__ source, T *__restrict__ result, int64_t *words,
                                          size_t rows, size_t count, uint32_t threads, uint32_t tiles,
                                          uint32_t of_group, uint32_t flags) {
    using Sum = scan_sum_t<T>;
    using Wave = ScannedWave<T>;
    constexpr uint32_t WIDTH = VEC16<T>;
    __shared__ Sum of_wave[SCAN_THREADS / WAVEFRONT];
    uint32_t groups = SCAN_THREADS / threads, wave = uniform((threadIdx.x & (threads - 1)) / WAVEFRONT);
    uint32_t lane = lane_id(), tile_size = threads * WIDTH * SCAN_VECTORS<T>;
    TileSums<Sum> left{words, tiles, of_group, 1};
    size_t units = rows * tiles;
    for (size_t unit = (size_t)blockIdx.x * groups + threadIdx.x / threads; unit < units;
         unit += (size_t)gridDim.x * groups) {
        size_t row = tiles == 1 ? unit : unit / tiles, first = (unit - row * tiles) * tile_size;
        size_t end = min_of(first + tile_size, count);
        ScannedRow<T> of_row{row * count, count, (flags & SCAN_REVERSED) != 0, (flags & SCAN_WIDE) != 0};
        // Rows that do not fill the tile are spread over all wavefronts.
        uint32_t used = uniform((uint32_t)ceil_div(end - first, (size_t)threads * WIDTH));
        first += ((size_t)wave * used * WAVEFRONT + lane) * WIDTH;
        auto at = [&](int v) INLINED {
            return first + (size_t)v * WAVEFRONT * WIDTH;
        };
        vec<T, (int)WIDTH> elements[SCAN_VECTORS<T>];
        of_row.load(elements, source, used, end, at);
        Wave own(elements);
        Sum before = 0;
        if (threads > WAVEFRONT) {
            if (lane == 0) of_wave[wave] = own.all;
            __syncthreads();
            Sum all = 0;
#pragma unroll
            for (uint32_t w = 0; w < SCAN_THREADS / WAVEFRONT; w++) {
                if (w == wave) before = all;
                all += of_wave[w];
            }
            if (tiles > 1) before += sum_before_tile(left, row, (uint32_t)(unit - row * tiles), all);
            // The next tile's sums are written where these are.
            __syncthreads();
        }
#pragma unroll
        for (int v = 0; v < SCAN_VECTORS<T>; v++) {
            if (v >= (int)used) continue;
            vec<T, (int)WIDTH> out;
#pragma unroll
            for (int e = 0; e < (int)WIDTH; e++) out[e] = of_sum<T>(before + own.before[v] + own.sums[v][e]);
            of_row.store(result, at(v), end, out);
        }
    }
}
