// Convolutions without a product, an element of the result a work-item: for groups of few channels, and for tensors
// beyond what a product's 32 bits reach.
#pragma once
#include "convolution/epilogue.cuh"

// Grid: x any number of workgroups over rows and columns, z groups of each phase.
template <class T> __device__ __forceinline__ void convolution_direct(const ConvolutionProblem &p) {
    using Sum = compute_t<T>;
    Phase phase(p, blockIdx.z);
    uint64_t total = (uint64_t)phase.rows * p.columns;
    bool fits_32 = total >> 32 == 0, by_columns = p.store % 2 == 1;
    const T *image = (const T *)p.image + phase.image, *matrix = (const T *)p.matrix + phase.matrix;
    ConvolutionEpilogue<T> epilogue(p, phase);
    for (uint64_t i = global_thread(); i < total; i += global_threads()) {
        uint32_t inner = by_columns ? p.columns : phase.rows;
        uint32_t line = (uint32_t)divide(i, inner, fits_32), along = (uint32_t)(i - (uint64_t)line * inner);
        uint32_t number = by_columns ? line : along, column = by_columns ? along : line;
        Place row = phase.row(p, number);
        Coordinates first = row_coordinates(p, phase, row);
        const T *of_row = image + row.outer * p.image_row + image_offset(p, first);
        const T *of_column = matrix + (int64_t)column * p.matrix_column;
        Sum sum = 0;
        Place k = {0, 0, 0, 0};
        for (k.z = 0; k.z < phase.z.taps.value; k.z++)
            for (k.y = 0; k.y < phase.y.taps.value; k.y++)
                for (k.x = 0; k.x < phase.x.taps.value; k.x++) {
                    Coordinates at = k_coordinates(p, k);
                    if (!is_inside(p, first, at)) continue;
                    const T *x = of_row + image_offset(p, at), *w = of_column + matrix_offset(p, k);
#pragma unroll 4
                    for (uint32_t outer = 0; outer < p.k_outers.value; outer++)
                        sum = math::fma(upcast(x[outer * p.image_k]), upcast(w[outer * p.matrix_k]), sum);
                }
        epilogue.store(result_offset(p, row) + (int64_t)column * p.result_column, column, sum);
    }
}
