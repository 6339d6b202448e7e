// Convolutions and their gradients as products whose operand is gathered from the image: one to three axes, strides,
// padding, dilation, groups, any order of memory.
#include "portable/lds.cuh"
#include "convolution/convolution_kernels.cuh"
#include "convolution/depthwise.cuh"
#include "convolution/depthwise_last.cuh"
#include "convolution/depthwise_weights.cuh"
#include "convolution/direct.cuh"
#include "convolution/grouped.cuh"
#include "convolution/transpose.cuh"
#include "matmul/elements.cuh"
#if defined(__HIP__) || defined(LDS_COPIES)
#include "convolution/channels.cuh"
#include "convolution/halo.cuh"
#include "convolution/lines.cuh"
#include "convolution/tile.cuh"

// Workgroups that NVIDIA's multiprocessors shall have registers for: of the largest tile of f32 but one.
template <class T, class S>
constexpr int CONVOLUTION_RESIDENT = sizeof(T) == 4 && S::M * S::N > 4096 ? 1 : 512 / S::THREADS;

#define CONVOLUTION(TYPE, SHAPE, NAME, GATHER)                                             \
    ENTRY __launch_bounds__(SHAPE::THREADS, (CONVOLUTION_RESIDENT<element_##TYPE, SHAPE>)) \
        CONVOLUTION_WAVES NAME(ConvolutionProblem p) {                                     \
        convolution_tile<element_##TYPE, SHAPE, Gather::GATHER>(p);                        \
    }
// More taps than a mask has bits are rare: the largest tiles are not made for them.
#define COMPARED_64(TYPE, SHAPE, NAME) CONVOLUTION(TYPE, SHAPE, NAME, COMPARED)
#define COMPARED_128(TYPE, SHAPE, NAME)
// A K-block of lanes along k is held element by element: half of it where registers would not hold it.
template <class T, int ROWS> constexpr int along_k_stage(int bytes) {
    return ROWS > 64 && sizeof(T) == 2 ? min_of(bytes, 32) : bytes;
}
#define CONVOLUTIONS(TYPE, ROWS, COLUMNS, WAVES_M, WAVES_N, STAGE_BYTES)                                           \
    using Shape_##TYPE##_##ROWS##x##COLUMNS = ConvolutionShape<ROWS, COLUMNS, WAVES_M, WAVES_N, STAGE_BYTES>;      \
    CONVOLUTION(TYPE, Shape_##TYPE##_##ROWS##x##COLUMNS, convolution_##TYPE##_##ROWS##x##COLUMNS##_masked, MASKED) \
    COMPARED_##ROWS(TYPE, Shape_##TYPE##_##ROWS##x##COLUMNS, convolution_##TYPE##_##ROWS##x##COLUMNS##_compared)   \
        CONVOLUTION(TYPE, Shape_##TYPE##_##ROWS##x##COLUMNS, convolution_##TYPE##_##ROWS##x##COLUMNS##_elements,   \
                    ELEMENTS) using AlongK_##TYPE##_##ROWS##x##COLUMNS =                                           \
            ConvolutionShape<ROWS, COLUMNS, WAVES_M, WAVES_N, (along_k_stage<element_##TYPE, ROWS>(STAGE_BYTES))>; \
    CONVOLUTION(TYPE, AlongK_##TYPE##_##ROWS##x##COLUMNS, convolution_##TYPE##_##ROWS##x##COLUMNS##_along_k, ALONG_K)

// Schedules of the kernels that read both operands by vectors of channels: the shape of a tile, and its kernel.
#define CHANNELS_Staged(TYPE, ROWS, COLUMNS, WAVES_M, WAVES_N, STAGE_BYTES, STAGES, LDS_KIB, NAME)                \
    using Channels_##TYPE##_##ROWS##x##COLUMNS = ConvolutionShape<ROWS, COLUMNS, WAVES_M, WAVES_N, STAGE_BYTES>;  \
    static_assert(STAGES == 2 && LDS_KIB == 0, "two buffers of the kernel's own");                                \
    ENTRY __launch_bounds__(Channels_##TYPE##_##ROWS##x##COLUMNS::THREADS,                                        \
                            (CONVOLUTION_RESIDENT<element_##TYPE, Channels_##TYPE##_##ROWS##x##COLUMNS>))         \
        CONVOLUTION_WAVES NAME(ConvolutionProblem p) {                                                            \
        using Loop = StagedChannels<element_##TYPE, Channels_##TYPE##_##ROWS##x##COLUMNS>;                        \
        __shared__ char lds_array[Loop::LDS_BYTES] __attribute__((aligned(128)));                                 \
        convolution_channels<element_##TYPE, Channels_##TYPE##_##ROWS##x##COLUMNS, Loop>(p, (LdsBytes)lds_array); \
    }
#define CHANNELS_Direct(TYPE, ROWS, COLUMNS, WAVES_M, WAVES_N, STAGE_BYTES, STAGES, LDS_KIB, NAME)                  \
    using Channels_##TYPE##_##ROWS##x##COLUMNS =                                                                    \
        InKGroups<DirectShape<ROWS, COLUMNS, WAVES_M, WAVES_N, STAGES, STAGE_BYTES>>;                               \
    ENTRY __launch_bounds__(Channels_##TYPE##_##ROWS##x##COLUMNS::THREADS) NAME(ConvolutionProblem p) {             \
        using Loop = DirectChannels<element_##TYPE, Channels_##TYPE##_##ROWS##x##COLUMNS>;                          \
        static_assert(Loop::LDS_BYTES == LDS_KIB << 10, "what launches ask for");                                   \
        convolution_channels<element_##TYPE, Channels_##TYPE##_##ROWS##x##COLUMNS, Loop>(p, (LdsBytes)dynamic_lds); \
    }
#define CHANNELS(TYPE, SCHEDULE, ROWS, COLUMNS, WAVES_M, WAVES_N, STAGE_BYTES, STAGES, LDS_KIB) \
    CHANNELS_##SCHEDULE(TYPE, ROWS, COLUMNS, WAVES_M, WAVES_N, STAGE_BYTES, STAGES, LDS_KIB,    \
                        convolution_##TYPE##_##ROWS##x##COLUMNS##_vectors)

// Tiles of the kernels that read the image masked, by two K groups.
#define SLICED(TYPE, ROWS, COLUMNS, WAVES_M, WAVES_N, STAGE_BYTES)                                                \
    using Sliced_##TYPE##_##ROWS##x##COLUMNS = ConvolutionShape<ROWS, COLUMNS, WAVES_M, WAVES_N, STAGE_BYTES, 2>; \
    ENTRY __launch_bounds__(2 * Sliced_##TYPE##_##ROWS##x##COLUMNS::THREADS, WAVEFRONT == 64 ? 2 : 1)             \
        convolution_sliced_##TYPE##_##ROWS##x##COLUMNS##_masked(ConvolutionProblem p) {                           \
        convolution_tile<element_##TYPE, Sliced_##TYPE##_##ROWS##x##COLUMNS, Gather::MASKED>(p);                  \
    }

// Likewise: where weights are exchanged, the larger tile takes more registers than three workgroups leave.
template <class S, Weights WEIGHTS>
constexpr int HALO_RESIDENT = WAVEFRONT == 64 || (S::M > 64 && WEIGHTS == Weights::TAPS_TOGETHER) ? 2 : 3;

#define HALO_OF(TYPE, SHAPE, UNIT, WEIGHTS, NAME)                                     \
    ENTRY __launch_bounds__(SHAPE::THREADS, (HALO_RESIDENT<SHAPE, Weights::WEIGHTS>)) \
        CONVOLUTION_WAVES NAME(ConvolutionProblem p) {                                \
        convolution_halo<element_##TYPE, SHAPE, UNIT, Weights::WEIGHTS>(p);           \
    }
#define HALO(TYPE, ROWS, COLUMNS, WAVES_M, WAVES_N, UNIT)                                                    \
    using Halo_##TYPE##_##ROWS##x##COLUMNS##_##UNIT = ConvolutionShape<ROWS, COLUMNS, WAVES_M, WAVES_N, 32>; \
    HALO_OF(TYPE, Halo_##TYPE##_##ROWS##x##COLUMNS##_##UNIT, UNIT, TAPS_TOGETHER,                            \
            convolution_halo_##TYPE##_##ROWS##x##COLUMNS##_##UNIT##_taps)                                    \
    HALO_OF(TYPE, Halo_##TYPE##_##ROWS##x##COLUMNS##_##UNIT, UNIT, CHANNELS_TOGETHER,                        \
            convolution_halo_##TYPE##_##ROWS##x##COLUMNS##_##UNIT##_channels)

#define LINES(TYPE, ROWS, COLUMNS, WAVES_M, WAVES_N, STAGE_BYTES, TAPS, UNIT)                                          \
    using Lines_##TYPE##_##ROWS##x##COLUMNS##_##UNIT = ConvolutionShape<ROWS, COLUMNS, WAVES_M, WAVES_N, STAGE_BYTES>; \
    ENTRY __launch_bounds__(Lines_##TYPE##_##ROWS##x##COLUMNS##_##UNIT::THREADS, TAPS == 1 ? 4 : 2)                    \
        convolution_lines_##TYPE##_##ROWS##x##COLUMNS##_##TAPS##_##UNIT(ConvolutionProblem p) {                        \
        convolution_lines<element_##TYPE, Lines_##TYPE##_##ROWS##x##COLUMNS##_##UNIT, TAPS, UNIT>(p);                  \
    }
#else
// Too old for the products' instructions.
#define CONVOLUTIONS(...)
#define SLICED(...)
#define HALO(...)
#define LINES(...)
#define CHANNELS(...)
#endif
// Two wavefronts a SIMD, which half of the registers allow each.
#if WAVEFRONT == 64
#define CONVOLUTION_WAVES __attribute__((amdgpu_waves_per_eu(2)))
#else
#define CONVOLUTION_WAVES
#endif

#define EACH(TYPE)                                                                 \
    ENTRY __launch_bounds__(256) convolution_direct_##TYPE(ConvolutionProblem p) { \
        convolution_direct<element_##TYPE>(p);                                     \
    }                                                                              \
    ENTRY __launch_bounds__(256) convolution_sum_##TYPE(ConvolutionProblem p) { convolution_sum<element_##TYPE>(p); }

#define GROUPED(TYPE, TAPS, STRIDE)                                                                     \
    ENTRY __launch_bounds__(256) convolution_grouped_##TYPE##_##TAPS##_##STRIDE(ConvolutionProblem p) { \
        GroupedLines<element_##TYPE, TAPS, STRIDE>().run(p);                                            \
    }

// Gradients of the data of places that are neighbours are convolutions of such.
#define DEPTHWISE_DATA_1(TYPE, TAPS)
#define DEPTHWISE_DATA_2(TYPE, TAPS)                                                                    \
    ENTRY __launch_bounds__(256) convolution_depthwise_data_##TYPE##_##TAPS##_2(ConvolutionProblem p) { \
        DepthwiseData<element_##TYPE, TAPS, 2>().run(p);                                                \
    }
#define DEPTHWISE(TYPE, TAPS, STRIDE)                                                                             \
    ENTRY __launch_bounds__(256) convolution_depthwise_##TYPE##_##TAPS##_##STRIDE(ConvolutionProblem p) {         \
        Depthwise<element_##TYPE, TAPS, STRIDE>().run(p);                                                         \
    }                                                                                                             \
    ENTRY __launch_bounds__(256) convolution_depthwise_last_##TYPE##_##TAPS##_##STRIDE(ConvolutionProblem p) {    \
        DepthwiseLast<element_##TYPE, TAPS, STRIDE>().run(p);                                                     \
    }                                                                                                             \
    ENTRY __launch_bounds__(256) convolution_depthwise_weights_##TYPE##_##TAPS##_##STRIDE(ConvolutionProblem p) { \
        DepthwiseWeights<element_##TYPE, TAPS, STRIDE>().run(p);                                                  \
    }                                                                                                             \
    DEPTHWISE_DATA_##STRIDE(TYPE, TAPS)

// Of elements of so many bits.
#define TRANSPOSE(BITS)                                                                                        \
    ENTRY __launch_bounds__(256)                                                                               \
        convolution_transpose_##BITS(const uint##BITS##_t *__restrict__ from, uint##BITS##_t *__restrict__ to, \
                                     uint32_t rows, uint32_t columns, int64_t pitch) {                         \
        transpose_weights(from, to, rows, columns, pitch);                                                     \
    }
TRANSPOSE(16)
TRANSPOSE(32)
TRANSPOSE(64)

LISTED(CONVOLUTION_KERNELS)(CONVOLUTIONS, SLICED, EACH, DEPTHWISE, HALO, LINES, CHANNELS, GROUPED)
