// What the `convolution` module's kernels are told: a convolution, or one of its gradients, as a product whose one
// operand is gathered from an image.
//
//   result[row, column] = sum over k of image[row, k] * matrix[column, k]
//
//             row                       column             k                           image       matrix
//   forward   batch, place of outputs   output channel     input channel, tap          inputs      weights
//   data      batch, place of inputs    input channel      output channel, tap         gradients   weights
//   weights   input channel, tap        output channel     batch, place of outputs     inputs      gradients
//
// Rows and k each are an outer number and a place on three axes (z, y, x, of which those that are not used have one
// place). Place r of rows and place t of k meet the image at r * row_step + t * k_step + first, where the image is 0
// outside. Distances are in elements.
#pragma once
#include "matmul/matmul_problem.cuh"

// The gradient of the data of a convolution with strides is several convolutions, its phases: places of inputs that
// are the same modulo the stride meet the same taps. Phase c of an axis has the taps from c % tap_phases on, and those
// places whose rest the tap gives; phases beyond tap_phases have no taps.
struct ConvolutionAxis {
    int32_t size; // of the image
    int32_t row_step;
    int32_t k_step;
    int32_t first;
    int64_t image;  // between the image's neighbours
    int64_t matrix; // between the matrix's neighbours along k
    int64_t tap;    // between the matrix's neighbours of different phases
    int64_t result; // between the result's neighbours along rows
    int64_t place;  // between the result's neighbours of different phases
    // Places of rows and of k, those of the phases that have one less, and how many have not.
    Divisor rows;
    Divisor rows_less;
    Divisor taps;
    Divisor taps_less;
    uint32_t rows_rest;
    uint32_t taps_rest;
    Divisor phases;
    Divisor tap_phases;
    uint32_t dilation;
    uint32_t shift;
};

// How results are written. Numbered as `Store` in candle-rocm-kernels/src/convolution.rs.
enum ConvolutionStore {
    STORE_ELEMENTS_OF_ROWS,    // neighbours are rows'
    STORE_ELEMENTS_OF_COLUMNS, // neighbours are columns'
    STORE_VECTORS_OF_ROWS,     // 16 bytes of rows lie together
    STORE_VECTORS_OF_COLUMNS,  // 16 bytes of columns lie together
};

// An activation beside those of portable/activations.cuh: ReLU of a NaN that is NaN.
static constexpr uint32_t ACTIVATION_RELU_OF_NAN = 5;

//   value = alpha * sum + beta * addend (not read where beta is 0)
//   value = activation(value + bias[column]) + residual
//
// in the compute type, rounded once. Addend and residual lie as the result does; the addend may be the result itself.
// Null pointers are left out.
struct ConvolutionProblem {
    const void *image;
    const void *matrix;
    void *result;
    const void *addend;
    const void *bias;
    const void *residual;
    // With more than one split: raw sums of (split, z of the grid, column, row).
    void *partial;
    double alpha;
    double beta;
    ConvolutionAxis z;
    ConvolutionAxis y;
    ConvolutionAxis x;
    // Between outer numbers.
    int64_t image_row;
    int64_t image_k;
    int64_t matrix_k;
    int64_t result_row;
    int64_t matrix_column;
    int64_t result_column;
    // Between groups.
    int64_t image_group;
    int64_t matrix_group;
    int64_t result_group;
    Divisor groups;
    // Outer numbers of rows and of k, and whether they follow one another, or the places do.
    Divisor row_outers;
    Divisor k_outers;
    uint32_t rows_by_outer;
    uint32_t k_by_outer;
    // Of a group, and of the largest phase.
    uint32_t rows;
    uint32_t columns;
    uint32_t depth;
    // k is summed in so many splits (the grid's y), each of k_per_split, a multiple of 128 bytes of it.
    uint32_t splits;
    uint32_t k_per_split;
    uint32_t store;
    uint32_t activation;
    TileOrder order;
};
