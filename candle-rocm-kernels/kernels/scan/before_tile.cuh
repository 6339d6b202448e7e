// The sum of all tiles of a row before a workgroup's own, where each workgroup has a tile.
#pragma once
#include "scan/sums.cuh"

// The sum of all that is before a tile of a row, which the whole workgroup waits for. `own` is the tile's sum.
template <class Sum>
__device__ __forceinline__ Sum sum_before_tile(const TileSums<Sum> &left, size_t row, uint32_t tile, Sum own) {
    __shared__ Sum of_wave[SCAN_THREADS / WAVEFRONT];
    uint32_t wave = threadIdx.x / WAVEFRONT, lane = lane_id(), group = left.group(tile);
    uint32_t first = group * left.of_group;
    Sum sum = 0;
    if (wave == 0) {
        // Before it waits for other groups the group's last tile says what they wait for.
        if (lane == 0) LeftSum<Sum>::leave(left.of(row, tile, 0), own);
        for (uint32_t t = first + lane; t < tile; t += WAVEFRONT) sum += LeftSum<Sum>::wait(left.of(row, t, 0));
        sum = whole_wave_all_reduce(sum, WAVEFRONT, ::Sum{});
        if (lane == 0 && left.ends_group(tile)) LeftSum<Sum>::leave(left.of_whole(row, group, 0), sum + own);
    } else {
        for (uint32_t g = threadIdx.x - WAVEFRONT; g < group; g += SCAN_THREADS - WAVEFRONT)
            sum += LeftSum<Sum>::wait(left.of_whole(row, g, 0));
        sum = whole_wave_all_reduce(sum, WAVEFRONT, ::Sum{});
    }
    if (lane == 0) of_wave[wave] = sum;
    __syncthreads();
    sum = of_wave[1];
#pragma unroll
    for (uint32_t w = 2; w < SCAN_THREADS / WAVEFRONT; w++) sum += of_wave[w];
    return sum + of_wave[0];
}
