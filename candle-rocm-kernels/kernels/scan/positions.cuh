// Positions of elements for which something holds, in order: each workgroup has a tile, and waits for the numbers of
// the tiles before it.
#pragma once
#include "scan/before_tile.cuh"

constexpr int POSITION_ITEMS = 16;
constexpr uint32_t POSITION_TILE = SCAN_THREADS * POSITION_ITEMS;

// Writes the positions of those of `count` elements, fewer than 2^32, for which `holds(i)`, and how many these are.
template <class Holds>
__device__ __forceinline__ void take_positions(uint32_t count, uint32_t *__restrict__ positions, int64_t *words,
                                               uint32_t *__restrict__ found, uint32_t of_group, Holds holds) {
    constexpr uint32_t WAVES = SCAN_THREADS / WAVEFRONT;
    __shared__ uint32_t of_wave[WAVES];
    uint32_t wave = uniform(threadIdx.x / WAVEFRONT), lane = lane_id(), tiles = (count - 1) / POSITION_TILE + 1;
    uint32_t first = blockIdx.x * POSITION_TILE + wave * POSITION_ITEMS * WAVEFRONT + lane;
    Lanes held[POSITION_ITEMS];
    uint32_t all = 0;
#pragma unroll
    for (int i = 0; i < POSITION_ITEMS; i++) {
        uint32_t at = first + i * WAVEFRONT;
        // Positions behind the last element may wrap around.
        bool is_there = at < count && at >= first;
        held[i] = whole_wave_ballot(is_there && holds(at));
    }
#pragma unroll
    for (int i = 0; i < POSITION_ITEMS; i++) all += (uint32_t)lanes_of(held[i]);
    if (lane == 0) of_wave[wave] = all;
    __syncthreads();
    uint32_t before = 0, of_tile = 0;
#pragma unroll
    for (uint32_t w = 0; w < WAVES; w++) {
        if (w == wave) before = of_tile;
        of_tile += of_wave[w];
    }
    uint32_t earlier = 0;
    if (tiles > 1) earlier = sum_before_tile(TileSums<uint32_t>{words, tiles, of_group, 1}, 0, blockIdx.x, of_tile);
    if (blockIdx.x == tiles - 1 && threadIdx.x == 0) *found = earlier + of_tile;
    before += earlier;
#pragma unroll
    for (int i = 0; i < POSITION_ITEMS; i++) {
        if (held[i] >> lane & 1) positions[before + lanes_before(held[i])] = first + i * WAVEFRONT;
        before += (uint32_t)lanes_of(held[i]);
    }
}
