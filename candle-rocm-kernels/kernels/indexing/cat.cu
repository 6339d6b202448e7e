// Concatenation of many tensors along a dimension in one launch, whose workgroups have an input each.
//
// Elements are moved by their bits, 16 bytes at once where all inputs and their rows allow it.
#include "indexing/cat.cuh"

#define CAT(NAME, CHUNK) \
    ENTRY __launch_bounds__(CAT_THREADS) cat_##NAME(CatInputs inputs) { concatenate<CHUNK>(inputs); }
typedef uint32_t CatQuad __attribute__((ext_vector_type(4)));
CAT(8, uint8_t)
CAT(16, uint16_t)
CAT(32, uint32_t)
CAT(64, uint64_t)
CAT(128, CatQuad)
