// Attention's forward pass, for heads of up to 32, 64, 128, 256 and 512 elements. Grid: x heads, y tiles of queries
// times parts of the elements, z sequences. src/attention.rs says how many queries, parts and threads a kernel has.
#include "portable/lds.cuh"
#if defined(__HIP__) || defined(LDS_COPIES)
#include "attention/forward.cuh"

// By registers: a wavefront's results take half as many as a head has elements, and its queries a quarter, but half on
// RDNA3, whose lanes hold whole rows. Where that is too much the queries stay in LDS, or elements are made in parts.
#if defined(AMD_MFMA)
using Attention32 = AttentionShape<32, 32, 64, 4, 1, false>;
using Attention64 = AttentionShape<64, 64, 64, 4, 1, false>;
using Attention128 = AttentionShape<128, 128, 32, 4, 1, false>;
using Attention256 = AttentionShape<256, 256, 32, 4, 1, false>;
using Attention512 = AttentionShape<512, 256, 32, 4, 1, false>;
// Two wavefronts a SIMD, which half of the registers allow each; one of large heads.
#define ATTENTION_WAVES(DIM) __attribute__((amdgpu_waves_per_eu(DIM > 128 ? 1 : 2)))
#elif defined(__GFX11__) || defined(__GFX12__)
using Attention32 = AttentionShape<32, 32, 64, 8, 1, false>;
using Attention64 = AttentionShape<64, 64, 64, 8, 1, false>;
using Attention128 = AttentionShape<128, 128, 32, 8, 1, false>;
using Attention256 = AttentionShape<256, 256, 16, 4, 1, true>;
using Attention512 = AttentionShape<512, 128, 16, 2, 1, true>;
#define ATTENTION_WAVES(DIM)
#elif defined(__HIP__)
// A wavefront makes its results as 16 queries, of the largest heads as 8.
static constexpr int BLOCKS_OF_8 = 64 / WAVEFRONT;
using Attention32 = AttentionShape<32, 32, 32, 4, 2 * BLOCKS_OF_8, true>;
using Attention64 = AttentionShape<64, 64, 32, 4, 2 * BLOCKS_OF_8, true>;
using Attention128 = AttentionShape<128, 128, 32, 4, 2 * BLOCKS_OF_8, true>;
using Attention256 = AttentionShape<256, 256, 16, 8, BLOCKS_OF_8, true>;
using Attention512 = AttentionShape<512, 256, 16, 4, BLOCKS_OF_8, true>;
#define ATTENTION_WAVES(DIM)
#else
// A fragment of keys or values is for twice as many products of 32 queries as of 16, which is what bounds this loop.
using Attention32 = AttentionShape<32, 32, 64, 4, 2, true, 19>;
using Attention64 = AttentionShape<64, 64, 64, 4, 2, true, 35>;
using Attention128 = AttentionShape<128, 128, 32, 4, 2, true, 51>;
using Attention256 = AttentionShape<256, 128, 32, 4, 2, true, 90>;
#define ATTENTION_WAVES(DIM)
#endif

#define ATTENTION(TYPE, ELEMENT, DIM)                                     \
    ENTRY __launch_bounds__(Attention##DIM::THREADS) ATTENTION_WAVES(DIM) \
        attention_##TYPE##_##DIM(AttentionProblem p) {                    \
        Forward<ELEMENT, Attention##DIM>::run(p);                         \
    }
#if defined(__HIP__)
#define LARGEST(TYPE, ELEMENT) ATTENTION(TYPE, ELEMENT, 512)
#else
#define LARGEST(TYPE, ELEMENT)
#endif
#define ATTENTIONS(TYPE, ELEMENT) \
    ATTENTION(TYPE, ELEMENT, 32)  \
    ATTENTION(TYPE, ELEMENT, 64)  \
    ATTENTION(TYPE, ELEMENT, 128) \
    ATTENTION(TYPE, ELEMENT, 256) \
    LARGEST(TYPE, ELEMENT)
ATTENTIONS(bf16, bf16_t)
ATTENTIONS(f16, half_t)
#endif
