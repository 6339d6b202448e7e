// Weights with their output channels together, as a gradient of the data reads them: rows become columns.
#pragma once
#include "convolution/places.cuh"

// Of each group: `from` has `rows` lines of `columns` elements, `pitch` apart; `to` the same elements column by column.
// Grid: x tiles of columns, y tiles of rows, z groups. Workgroup: 32 x 8.
template <class T>
__device__ __forceinline__ void transpose_weights(const T *__restrict__ from, T *__restrict__ to, uint32_t rows,
                                                  uint32_t columns, int64_t pitch) {
    constexpr uint32_t TILE = 32, LINES = 8;
    __shared__ T tile[TILE][TILE + 1];
    uint32_t first_row = blockIdx.y * TILE, first_column = blockIdx.x * TILE;
    from += (int64_t)blockIdx.z * rows * pitch;
    to += (int64_t)blockIdx.z * rows * columns;
    for (uint32_t line = threadIdx.y; line < TILE; line += LINES) {
        uint32_t row = first_row + line, column = first_column + threadIdx.x;
        if (row < rows && column < columns) tile[line][threadIdx.x] = from[row * pitch + column];
    }
    __syncthreads();
    for (uint32_t line = threadIdx.y; line < TILE; line += LINES) {
        uint32_t row = first_row + threadIdx.x, column = first_column + line;
        if (row < rows && column < columns) to[(int64_t)column * rows + row] = tile[threadIdx.x][line];
    }
}
