// Attention's gradients, for heads of up to 32, 64, 128 and 256 elements: delta of each query (grid: x heads, y tiles
// of queries, z sequences), then those of keys and values (x heads of keys, y tiles of keys times parts of the
// elements) and those of queries (x heads, y tiles of queries times parts).
#include "portable/lds.cuh"
#if defined(__HIP__) || defined(LDS_COPIES)
#include "attention/attention_kernels.cuh"
#include "attention/backward.cuh"
#include "matmul/elements.cuh"

namespace attention {

// Two wavefronts a SIMD of MFMA, one of which makes weights while the other multiplies; of large heads one, which needs
// more than half of the registers; and on gfx908, which halves them.
#if defined(AMD_MFMA)
#define BACKWARD_WAVES(DIM) __attribute__((amdgpu_waves_per_eu(DIM > 128 || AMD_MFMA == 1 ? 1 : 2)))
#else
#define BACKWARD_WAVES(DIM)
#endif

#define STAGED_Early(...) __VA_ARGS__
#define STAGED_Late(...) Late<__VA_ARGS__>
#define KEYS(DIM, MADE, OTHERS, ROWS, WAVES, OWN, STAGING, LDS_KIB) \
    using Keys##DIM = STAGED_##STAGING(ListedShape<DIM, MADE, OTHERS, ROWS, WAVES, OwnRows::OWN, LDS_KIB>);
#define QUERIES(DIM, MADE, OTHERS, ROWS, WAVES, OWN, STAGING, LDS_KIB) \
    using Queries##DIM = STAGED_##STAGING(ListedShape<DIM, MADE, OTHERS, ROWS, WAVES, OwnRows::OWN, LDS_KIB>);
LISTED(BACKWARD_KERNELS)(KEYS, QUERIES)

#define DELTA(TYPE)                                                                                                 \
    ENTRY __launch_bounds__(Delta<element_##TYPE>::THREADS) attention_backward_delta_##TYPE(AttentionGradients g) { \
        Delta<element_##TYPE>::run(g);                                                                              \
    }
#define BACKWARD(NAME, TYPE, SHAPE, DIM, OF_KEYS)                                            \
    ENTRY __launch_bounds__(SHAPE::THREADS) BACKWARD_WAVES(DIM) NAME(AttentionGradients g) { \
        Backward<element_##TYPE, SHAPE, OF_KEYS>::run(g);                                    \
    }
#define KEYS_BF16(DIM, ...) BACKWARD(attention_backward_keys_bf16_##DIM, bf16, Keys##DIM, DIM, true)
#define KEYS_F16(DIM, ...) BACKWARD(attention_backward_keys_f16_##DIM, f16, Keys##DIM, DIM, true)
#define QUERIES_BF16(DIM, ...) BACKWARD(attention_backward_queries_bf16_##DIM, bf16, Queries##DIM, DIM, false)
#define QUERIES_F16(DIM, ...) BACKWARD(attention_backward_queries_f16_##DIM, f16, Queries##DIM, DIM, false)
    DELTA(bf16) LISTED(BACKWARD_KERNELS)(KEYS_BF16, QUERIES_BF16) DELTA(f16)
        LISTED(BACKWARD_KERNELS)(KEYS_F16, QUERIES_F16)

} // namespace attention
#endif
