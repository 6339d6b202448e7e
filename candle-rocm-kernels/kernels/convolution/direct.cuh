// Convolutions without a product: for groups of few channels, and for tensors beyond what a product's 32 bits reach.
#pragma once
#include "convolution/epilogue.cuh"
#include "convolution/operands.cuh"
#include "portable/streams.cuh"

// The sum of a row and a column.
template <class T>
__device__ __forceinline__ compute_t<T> direct_sum(const ConvolutionProblem &p, const Phase &phase, const Place &row,
                                                   uint32_t column) {
    Coordinates first = row_coordinates(p, phase, row);
    const T *of_row = (const T *)p.image + phase.image + row.outer * p.image_row + image_offset(p, first);
    const T *of_column = (const T *)p.matrix + phase.matrix + (int64_t)column * p.matrix_column;
    compute_t<T> sum = 0;
    Place k = {0, 0, 0, 0};
    for (k.z = 0; k.z < phase.z.taps.value; k.z++)
        for (k.y = 0; k.y < phase.y.taps.value; k.y++)
            for (k.x = 0; k.x < phase.x.taps.value; k.x++) {
                Coordinates at = k_coordinates(p, k);
                if (!is_inside(p, first, at)) continue;
                const T *x = of_row + image_offset(p, at), *w = of_column + matrix_offset(p, k);
                for (uint32_t outer = 0; outer < p.k_outers.value; outer++)
                    sum = math::fma(upcast(x[outer * p.image_k]), upcast(w[outer * p.matrix_k]), sum);
            }
    return sum;
}

// An element of the result a work-item. Lanes are neighbours of rows, or of columns and groups. Grid: x any number of
// workgroups, z phases.
template <class T> __device__ __forceinline__ void convolution_direct(const ConvolutionProblem &p) {
    uint32_t groups = p.groups.value, first = blockIdx.z * groups;
    uint32_t rows = Phase(p, first).rows;
    uint64_t channels = (uint64_t)p.columns * groups, total = rows * channels;
    bool fits_32 = total >> 32 == 0, by_columns = p.store % 2 == 1;
    for (uint64_t i = global_thread(); i < total; i += global_threads()) {
        uint64_t inner = by_columns ? channels : rows;
        uint64_t line = divide(i, inner, fits_32), along = i - line * inner;
        uint32_t number = (uint32_t)(by_columns ? line : along);
        uint64_t channel = by_columns ? along : line;
        uint32_t group = (uint32_t)divide(channel, p.columns, channels >> 32 == 0),
                 column = (uint32_t)(channel - (uint64_t)group * p.columns);
        Phase phase(p, first + group);
        Place row = phase.row(p, number);
        int64_t at = result_offset(p, row) + (int64_t)column * p.result_column;
        ConvolutionEpilogue<T>(p, phase).store(at, column, direct_sum<T>(p, phase, row, column));
    }
}
