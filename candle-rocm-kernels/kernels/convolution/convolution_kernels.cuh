// The kernels of module `convolution`, by architecture. convolution.cu makes them of this list, and the build the table
// that candle_rocm_kernels::convolution reads.
//
//   X(type, rows, columns, waves_m, waves_n, stage_bytes)
//   SLICED(type, rows, columns, waves_m, waves_n, stage_bytes)
//   EACH(type)
//   DEPTHWISE(type, taps, stride)
//   HALO(type, rows, columns, waves_m, waves_n, unit)
//   LINES(type, rows, columns, waves_m, waves_n, stage_bytes, taps, unit)
//   CHANNELS(type, schedule, rows, columns, waves_m, waves_n, stage_bytes, stages, lds_kib)
//   GROUPED(type, taps, stride)
//
// X is four kernels whose workgroups make a tile of rows x columns by waves_m x waves_n wavefronts:
// convolution_<type>_<rows>x<columns>_masked and ..._compared, which gather the image element by element and read the
// matrix by 16 bytes, and ..._elements and ..._along_k, which read neither so, with rows or elements of k side by side
// in lanes (operands.cuh, along_k.cuh). Tiles of 128 rows have no ..._compared. A K-block has stage_bytes of k: so few
// of the largest tile's that two workgroups fit a compute unit's LDS.
//
// CHANNELS is convolution_<type>_<rows>x<columns>_vectors, which reads both operands by 16 bytes (channels.cuh):
// through registers (Staged), or straight to LDS (Direct), which then has `stages` K-blocks, for which a launch asks
// for lds_kib.
//
// SLICED is convolution_sliced_<type>_<rows>x<columns>_masked: ..._masked by two K groups (tile.cuh), which make
// every second K-block each.
//
// DEPTHWISE is convolution_depthwise_<type>_<taps>_<stride>, for groups of one channel, taps x taps taps, and places
// `stride` apart, where neighbours along x are neighbours in memory; ..._depthwise_last_..., where channels are; and
// ..._depthwise_weights_..., of gradients of weights, where neighbours along x are. Where places are more than one
// apart there is ..._depthwise_data_..., of gradients of the data, too.
//
// GROUPED is convolution_grouped_<type>_<taps>_<stride>, for groups of few channels, likewise (grouped.cuh).
//
// HALO is two kernels for 3 x 3 taps and stride 1 along x (halo.cuh), which read each pixel once for a line of taps, by
// units of neighbours of a line, and put its channels together: convolution_halo_<type>_<rows>x<columns>_<unit>_taps,
// of weights whose taps lie together, and ..._channels, of those whose channels do.
//
// LINES is convolution_lines_<type>_<rows>x<columns>_<taps>_<unit>, of gradients of weights (lines.cuh), which reads
// both operands along lines, `unit` neighbours at once, for as many taps of a line.
//
// EACH is convolution_direct_<type>, without a product, and convolution_sum_<type>, which adds up splits of k.
//
// For elements of 16, 32 and 64 bits there is convolution_transpose_<bits>, which puts output channels together.
#pragma once
#include "portable/architecture.cuh"

#define CONVOLUTION_DEPTHWISE(DEPTHWISE, TYPE) \
    DEPTHWISE(TYPE, 3, 1)                      \
    DEPTHWISE(TYPE, 3, 2)                      \
    DEPTHWISE(TYPE, 5, 1)                      \
    DEPTHWISE(TYPE, 7, 1)
#define CONVOLUTION_GROUPED(GROUPED, TYPE) \
    GROUPED(TYPE, 3, 1)                    \
    GROUPED(TYPE, 3, 2)
#define CONVOLUTION_EACH(EACH, DEPTHWISE, HALO, GROUPED) \
    HALO(f16, 64, 64, 2, 2, 2)                           \
    HALO(bf16, 64, 64, 2, 2, 2)                          \
    HALO(f16, 64, 64, 2, 2, 1)                           \
    HALO(bf16, 64, 64, 2, 2, 1)                          \
    EACH(f32)                                            \
    EACH(f64)                                            \
    EACH(f16)                                            \
    EACH(bf16)                                           \
    CONVOLUTION_DEPTHWISE(DEPTHWISE, f32)                \
    CONVOLUTION_DEPTHWISE(DEPTHWISE, f16)                \
    CONVOLUTION_DEPTHWISE(DEPTHWISE, bf16)               \
    CONVOLUTION_GROUPED(GROUPED, f32)                    \
    CONVOLUTION_GROUPED(GROUPED, f16)                    \
    CONVOLUTION_GROUPED(GROUPED, bf16)
#define CONVOLUTION_CHANNELS_SMALL(CHANNELS)      \
    CHANNELS(f32, Staged, 64, 64, 2, 2, 64, 2, 0) \
    CHANNELS(f64, Staged, 64, 64, 2, 2, 64, 2, 0)
#define CONVOLUTION_CHANNELS_64(CHANNELS)            \
    CHANNELS(f16, Staged, 128, 128, 2, 2, 32, 2, 0)  \
    CHANNELS(bf16, Staged, 128, 128, 2, 2, 32, 2, 0) \
    CHANNELS(f32, Staged, 128, 128, 2, 2, 32, 2, 0)  \
    CHANNELS(f16, Staged, 64, 64, 2, 2, 64, 2, 0)    \
    CHANNELS(bf16, Staged, 64, 64, 2, 2, 64, 2, 0)   \
    CONVOLUTION_CHANNELS_SMALL(CHANNELS)
#define CONVOLUTION_CHANNELS_32(CHANNELS)            \
    CHANNELS(f16, Staged, 128, 128, 4, 2, 64, 2, 0)  \
    CHANNELS(bf16, Staged, 128, 128, 4, 2, 64, 2, 0) \
    CHANNELS(f32, Staged, 128, 128, 2, 4, 64, 2, 0)  \
    CHANNELS(f16, Staged, 64, 64, 2, 2, 64, 2, 0)    \
    CHANNELS(bf16, Staged, 64, 64, 2, 2, 64, 2, 0)   \
    CONVOLUTION_CHANNELS_SMALL(CHANNELS)
#define CONVOLUTION_CHANNELS_DIRECT(CHANNELS, TYPE)    \
    CHANNELS(TYPE, Direct, 128, 128, 2, 2, 128, 3, 98) \
    CHANNELS(TYPE, Direct, 128, 64, 2, 2, 128, 3, 74)  \
    CHANNELS(TYPE, Direct, 64, 64, 2, 2, 128, 4, 65)
#define CONVOLUTION_CHANNELS_NVIDIA(CHANNELS)       \
    CONVOLUTION_CHANNELS_DIRECT(CHANNELS, f16)      \
    CONVOLUTION_CHANNELS_DIRECT(CHANNELS, bf16)     \
    CHANNELS(f32, Staged, 128, 128, 2, 4, 64, 2, 0) \
    CONVOLUTION_CHANNELS_SMALL(CHANNELS)
#define CONVOLUTION_SMALL(X, SLICED) \
    X(f16, 64, 64, 2, 2, 64)         \
    X(bf16, 64, 64, 2, 2, 64)        \
    X(f32, 64, 64, 2, 2, 64)         \
    X(f64, 64, 64, 2, 2, 64)         \
    SLICED(f16, 64, 64, 2, 2, 64)    \
    SLICED(bf16, 64, 64, 2, 2, 64)
#define CONVOLUTION_LINES(LINES, TYPE, STAGE_BYTES) \
    LINES(TYPE, 192, 64, 2, 2, STAGE_BYTES, 3, 8)   \
    LINES(TYPE, 192, 64, 2, 2, STAGE_BYTES, 3, 2)   \
    LINES(TYPE, 192, 64, 2, 2, 64, 3, 1)            \
    LINES(TYPE, 64, 64, 2, 2, 128, 1, 8)
#define CONVOLUTION_64(X, SLICED, EACH, DEPTHWISE, HALO, LINES, CHANNELS, GROUPED) \
    X(f16, 128, 128, 2, 2, 32)                                                     \
    X(bf16, 128, 128, 2, 2, 32)                                                    \
    X(f32, 128, 128, 2, 2, 32)                                                     \
    CONVOLUTION_SMALL(X, SLICED)                                                   \
    CONVOLUTION_CHANNELS_64(CHANNELS)                                              \
    CONVOLUTION_LINES(LINES, f16, 64)                                              \
    CONVOLUTION_LINES(LINES, bf16, 64)                                             \
    CONVOLUTION_EACH(EACH, DEPTHWISE, HALO, GROUPED)
// Of wavefronts of 32 lanes, but for CHANNELS.
#define CONVOLUTION_WAVES_32(X, SLICED, EACH, DEPTHWISE, HALO, LINES, GROUPED) \
    X(f16, 128, 128, 4, 2, 64)                                                 \
    X(bf16, 128, 128, 4, 2, 64)                                                \
    X(f32, 128, 128, 2, 4, 64)                                                 \
    CONVOLUTION_SMALL(X, SLICED)                                               \
    CONVOLUTION_LINES(LINES, f16, 128)                                         \
    CONVOLUTION_LINES(LINES, bf16, 128)                                        \
    CONVOLUTION_EACH(EACH, DEPTHWISE, HALO, GROUPED)
// Where registers hold a larger tile, and LDS two workgroups of it.
#define CONVOLUTION_HALO_LARGE(HALO) \
    HALO(f16, 128, 64, 2, 2, 2)      \
    HALO(bf16, 128, 64, 2, 2, 2)
#define CONVOLUTION_32(X, SLICED, EACH, DEPTHWISE, HALO, LINES, CHANNELS, GROUPED) \
    CONVOLUTION_WAVES_32(X, SLICED, EACH, DEPTHWISE, HALO, LINES, GROUPED)         \
    CONVOLUTION_CHANNELS_32(CHANNELS)
#define CONVOLUTION_32_LARGE(X, SLICED, EACH, DEPTHWISE, HALO, LINES, CHANNELS, GROUPED) \
    CONVOLUTION_HALO_LARGE(HALO)                                                         \
    CONVOLUTION_32(X, SLICED, EACH, DEPTHWISE, HALO, LINES, CHANNELS, GROUPED)
#define CONVOLUTION_NVIDIA(X, SLICED, EACH, DEPTHWISE, HALO, LINES, CHANNELS, GROUPED) \
    CONVOLUTION_HALO_LARGE(HALO)                                                       \
    CONVOLUTION_WAVES_32(X, SLICED, EACH, DEPTHWISE, HALO, LINES, GROUPED)             \
    CONVOLUTION_CHANNELS_NVIDIA(CHANNELS)
#define CONVOLUTION_KERNELS_Vega20 CONVOLUTION_64
#define CONVOLUTION_KERNELS_Cdna1 CONVOLUTION_64
#define CONVOLUTION_KERNELS_Cdna2 CONVOLUTION_64
#define CONVOLUTION_KERNELS_Cdna3 CONVOLUTION_64
#define CONVOLUTION_KERNELS_Cdna4 CONVOLUTION_64
#define CONVOLUTION_KERNELS_Rdna2 CONVOLUTION_32
#define CONVOLUTION_KERNELS_Rdna3 CONVOLUTION_32_LARGE
#define CONVOLUTION_KERNELS_Rdna4 CONVOLUTION_32_LARGE
#define CONVOLUTION_KERNELS_Nvidia CONVOLUTION_NVIDIA
