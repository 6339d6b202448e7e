// Convolutions, pooling, upsampling: the kernels by name.
#include "conv/convolution.cuh"
#include "conv/resample.cuh"
#include "portable/sizes.cuh"

// How these are launched: launch_heuristics.rs says what the words mean.
// Windows of pairs, and neighbours that share what they lie between, are several outputs a thread.
#define LAUNCHES(X, EVERY)             \
    EVERY(AnyGrid, 1, Longest)         \
    X(avg_pool2d, AnyGrid, 2, Longest) \
    X(max_pool2d, AnyGrid, 2, Longest) \
    X(upsample_bilinear2d, AnyGrid, 8, Longest)

// These stand once for each size of element.
#define MOVES(X) X(im2col1d) X(im2col) X(upsample_nearest2d)

// Candle's host code passes the number of src's elements first; the kernels need dst's, which the
// dimensions give.
#define CONVOLUTIONS(NAME, T)                                                                                         \
    ENTRY conv1d_##NAME(size_t src_numel, size_t l_out, size_t stride, size_t padding, size_t dilation,               \
                        const size_t *__restrict__ info, const T *__restrict__ src, const T *__restrict__ kernel,     \
                        T *__restrict__ dst) {                                                                        \
        convolve(1, l_out, Window{stride, padding, dilation, 0}, with_height(info), with_height(info + 6), src,       \
                 kernel, dst);                                                                                        \
    }                                                                                                                 \
    ENTRY conv2d_##NAME(size_t src_numel, size_t w_out, size_t h_out, size_t stride, size_t padding, size_t dilation, \
                        const size_t *__restrict__ info, const T *__restrict__ src, const T *__restrict__ kernel,     \
                        T *__restrict__ dst) {                                                                        \
        convolve(h_out, w_out, Window{stride, padding, dilation, padding}, Layout<4>(info), Layout<4>(info + 8), src, \
                 kernel, dst);                                                                                        \
    }                                                                                                                 \
    ENTRY conv_transpose1d_##NAME(size_t src_numel, size_t l_out, size_t stride, size_t padding,                      \
                                  size_t output_padding, size_t dilation, const size_t *__restrict__ info,            \
                                  const T *__restrict__ src, const T *__restrict__ kernel, T *__restrict__ dst) {     \
        convolve_transposed(1, l_out, Window{stride, padding, dilation, 0}, with_height(info), with_height(info + 6), \
                            src, kernel, dst);                                                                        \
    }                                                                                                                 \
    ENTRY conv_transpose2d_##NAME(size_t src_numel, size_t w_out, size_t h_out, size_t stride, size_t padding,        \
                                  size_t output_padding, size_t dilation, const size_t *__restrict__ info,            \
                                  const T *__restrict__ src, const T *__restrict__ kernel, T *__restrict__ dst) {     \
        convolve_transposed(h_out, w_out, Window{stride, padding, dilation, padding}, Layout<4>(info),                \
                            Layout<4>(info + 8), src, kernel, dst);                                                   \
    }                                                                                                                 \
    ENTRY col2im1d_##NAME(size_t dst_numel, size_t l_out, size_t l_in, size_t c_out, size_t k_size, size_t stride,    \
                          const T *__restrict__ src, T *__restrict__ dst) {                                           \
        fold_1d(dst_numel, l_out, l_in, c_out, k_size, stride, src, dst);                                             \
    }
FOR_ALL(CONVOLUTIONS)

// In pooling and nearest upsampling, the host's first of two sizes goes with dimension 2, the height,
// whatever it is called there. In bilinear upsampling the width comes first.
#define RESAMPLERS(NAME, T)                                                                                         \
    ENTRY avg_pool2d_##NAME(size_t src_numel, size_t h_k, size_t w_k, size_t h_stride, size_t w_stride,             \
                            const size_t *__restrict__ info, const T *__restrict__ src, T *__restrict__ dst) {      \
        avg_pool2d(h_k, w_k, h_stride, w_stride, info, src, dst);                                                   \
    }                                                                                                               \
    ENTRY max_pool2d_##NAME(size_t src_numel, size_t h_k, size_t w_k, size_t h_stride, size_t w_stride,             \
                            const size_t *__restrict__ info, const T *__restrict__ src, T *__restrict__ dst) {      \
        max_pool2d(h_k, w_k, h_stride, w_stride, info, src, dst);                                                   \
    }                                                                                                               \
    ENTRY upsample_bilinear2d_##NAME(size_t w_out, size_t h_out, bool align_corners, bool h_given, double h_factor, \
                                     bool w_given, double w_factor, const size_t *__restrict__ info,                \
                                     const T *__restrict__ src, T *__restrict__ dst) {                              \
        upsample_bilinear2d(h_out, w_out, align_corners, h_given, h_factor, w_given, w_factor, info, src, dst);     \
    }
FOR_ALL(RESAMPLERS)

#define MOVES_OF(NAME, T)                                                                                              \
    ENTRY im2col1d_##NAME(size_t windows, size_t l_out, size_t l_k, size_t stride, size_t padding, size_t dilation,    \
                          const size_t *__restrict__ info, const T *__restrict__ src, T *__restrict__ dst) {           \
        unfold_1d(windows, l_out, l_k, Window{stride, padding, dilation, 0}, info, src, dst);                          \
    }                                                                                                                  \
    ENTRY im2col_##NAME(size_t dst_numel, size_t h_out, size_t w_out, size_t h_k, size_t w_k, size_t stride,           \
                        size_t padding, size_t dilation, const size_t *__restrict__ info, const T *__restrict__ src,   \
                        T *__restrict__ dst) {                                                                         \
        unfold(h_out, w_out, h_k, w_k, Window{stride, padding, dilation, padding}, Layout<4>(info), src, dst);         \
    }                                                                                                                  \
    ENTRY upsample_nearest2d_##NAME(size_t h_out, size_t w_out, double h_scale, double w_scale,                        \
                                    const size_t *__restrict__ info, const T *__restrict__ src, T *__restrict__ dst) { \
        upsample_nearest2d(h_out, w_out, h_scale, w_scale, info, src, dst);                                            \
    }
FOR_SIZES(MOVES_OF)
