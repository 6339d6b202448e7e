// Attention's gradients, for heads of up to 32, 64, 128 and 256 elements: delta of each query (grid: x heads, y tiles
// of queries, z sequences), then those of keys and values (x heads of keys, y tiles of keys times parts of the
// elements) and those of queries (x heads, y tiles of queries times parts). src/attention.rs says how many rows, parts
// and threads a kernel has.
#include "portable/lds.cuh"
#if defined(__HIP__) || defined(LDS_COPIES)
#include "attention/backward.cuh"

// By registers: where own rows are keys, a wavefront has two results of each, and where own rows are in registers, two
// of these as well. Where that is too much they stay in LDS, or elements are made in parts.
#if defined(AMD_MFMA)
using Keys32 = AttentionShape<32, 32, 32, 4, 1, false>;
using Keys64 = AttentionShape<64, 64, 32, 4, 1, false>;
#if AMD_MFMA == 1
using Keys128 = AttentionShape<128, 128, 32, 4, 1, false>;
#else
using Keys128 = AttentionShape<128, 128, 32, 8, 1, false>;
#endif
using Keys256 = Late<AttentionShape<256, 128, 32, 4, 1, false>>;
using Queries32 = AttentionShape<32, 32, 64, 4, 1, false>;
using Queries64 = AttentionShape<64, 64, 32, 4, 1, false>;
using Queries128 = AttentionShape<128, 128, 32, 4, 1, false>;
using Queries256 = Late<AttentionShape<256, 256, 32, 4, 1, false>>;
// Two wavefronts a SIMD, one of which makes weights while the other multiplies; of large heads one, which needs more
// than half of the registers; and on gfx908, which halves them.
#define BACKWARD_WAVES(DIM) __attribute__((amdgpu_waves_per_eu(DIM > 128 || AMD_MFMA == 1 ? 1 : 2)))
#elif defined(__GFX11__) || defined(__GFX12__)
using Keys32 = AttentionShape<32, 32, 32, 8, 1, false>;
using Keys64 = AttentionShape<64, 64, 16, 8, 1, false>;
using Keys128 = AttentionShape<128, 128, 16, 4, 1, true>;
using Keys256 = Late<AttentionShape<256, 128, 16, 2, 1, true>>;
using Queries32 = AttentionShape<32, 32, 32, 8, 1, false>;
using Queries64 = AttentionShape<64, 64, 32, 8, 1, false>;
using Queries128 = AttentionShape<128, 128, 32, 4, 1, true>;
using Queries256 = Late<AttentionShape<256, 256, 16, 2, 1, true>>;
#define BACKWARD_WAVES(DIM)
#elif defined(__HIP__)
static constexpr int BLOCKS_OF_8 = 64 / WAVEFRONT;
using Keys32 = AttentionShape<32, 32, 32, 4, 2 * BLOCKS_OF_8, true>;
using Keys64 = AttentionShape<64, 64, 32, 4, 2 * BLOCKS_OF_8, true>;
using Keys128 = Late<AttentionShape<128, 128, 16, 4, 2 * BLOCKS_OF_8, true>>;
using Keys256 = Late<AttentionShape<256, 128, 16, 4, BLOCKS_OF_8, true>>;
using Queries32 = AttentionShape<32, 32, 32, 4, 2 * BLOCKS_OF_8, true>;
using Queries64 = AttentionShape<64, 64, 32, 4, 2 * BLOCKS_OF_8, true>;
using Queries128 = AttentionShape<128, 128, 16, 4, 2 * BLOCKS_OF_8, true>;
using Queries256 = Late<AttentionShape<256, 256, 16, 4, BLOCKS_OF_8, true>>;
#define BACKWARD_WAVES(DIM)
#else
// Shapes by their time on Hopper.
using Keys32 = AttentionShape<32, 32, 32, 4, 2, false, 10>;
using Keys64 = AttentionShape<64, 64, 32, 4, 2, true, 51>;
using Keys128 = AttentionShape<128, 128, 32, 8, 1, true, 98>;
using Keys256 = AttentionShape<256, 128, 16, 4, 1, false, 35>;
using Queries32 = AttentionShape<32, 32, 64, 4, 2, true, 33>;
using Queries64 = AttentionShape<64, 64, 64, 4, 2, true, 65>;
using Queries128 = AttentionShape<128, 128, 32, 4, 2, true, 98>;
using Queries256 = AttentionShape<256, 128, 16, 4, 1, false, 34>;
#define BACKWARD_WAVES(DIM)
#endif

#define BACKWARD(TYPE, ELEMENT, DIM)                                      \
    ENTRY __launch_bounds__(Keys##DIM::THREADS) BACKWARD_WAVES(DIM)       \
        attention_backward_keys_##TYPE##_##DIM(AttentionGradients g) {    \
        Backward<ELEMENT, Keys##DIM, true>::run(g);                       \
    }                                                                     \
    ENTRY __launch_bounds__(Queries##DIM::THREADS) BACKWARD_WAVES(DIM)    \
        attention_backward_queries_##TYPE##_##DIM(AttentionGradients g) { \
        Backward<ELEMENT, Queries##DIM, false>::run(g);                   \
    }
#define BACKWARDS(TYPE, ELEMENT)                                                                             \
    ENTRY __launch_bounds__(Delta<ELEMENT>::THREADS) attention_backward_delta_##TYPE(AttentionGradients g) { \
        Delta<ELEMENT>::run(g);                                                                              \
    }                                                                                                        \
    BACKWARD(TYPE, ELEMENT, 32)                                                                              \
    BACKWARD(TYPE, ELEMENT, 64)                                                                              \
    BACKWARD(TYPE, ELEMENT, 128)                                                                             \
    BACKWARD(TYPE, ELEMENT, 256)
BACKWARDS(bf16, bf16_t)
BACKWARDS(f16, half_t)
#endif
