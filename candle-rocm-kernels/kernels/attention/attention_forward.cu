// Attention's forward pass, for heads of up to 32, 64, 128, 256 and 512 elements. Grid: x heads, y tiles of queries
// times parts of the elements, z sequences.
#include "portable/lds.cuh"
#if defined(__HIP__) || defined(LDS_COPIES)
#include "attention/attention_kernels.cuh"
#include "attention/forward.cuh"
#include "matmul/elements.cuh"

namespace attention {

// Two wavefronts a SIMD of MFMA, which half of the registers allow each; one of large heads.
#if defined(AMD_MFMA)
#define ATTENTION_WAVES(DIM) __attribute__((amdgpu_waves_per_eu(DIM > 128 ? 1 : 2)))
#else
#define ATTENTION_WAVES(DIM)
#endif

#define SHAPE(DIM, MADE, OTHERS, ROWS, WAVES, OWN, LDS_KIB) \
    using Attention##DIM = ListedShape<DIM, MADE, OTHERS, ROWS, WAVES, OwnRows::OWN, LDS_KIB>;
LISTED(FORWARD_KERNELS)(SHAPE)

#define ATTENTION(TYPE, DIM)                                              \
    ENTRY __launch_bounds__(Attention##DIM::THREADS) ATTENTION_WAVES(DIM) \
        attention_##TYPE##_##DIM(AttentionProblem p) {                    \
        Forward<element_##TYPE, Attention##DIM>::run(p);                  \
    }
#define OF_BF16(DIM, ...) ATTENTION(bf16, DIM)
#define OF_F16(DIM, ...) ATTENTION(f16, DIM)
    LISTED(FORWARD_KERNELS)(OF_BF16) LISTED(FORWARD_KERNELS)(OF_F16)

} // namespace attention
#endif
