// Matrices as products of quantised ones take them: blocks of 128 elements, 16 bytes of scales, then 128 signed bytes.
//
// Blocks of the same elements of all vectors are neighbours: block (elements / 128, vector). The scales have one of
// three layouts, chosen by the weights' format: four f32 (D4), four pairs of f16 of scale and sum (DS4), or for 64
// elements two f16, followed by the sums of the first six sixteens (D2S6). Our products add up the integers
// themselves and read the scales alone.
#pragma once
#include "portable/convert.cuh"

namespace quantized {

constexpr uint32_t BLOCK_ELEMENTS = 128, BLOCK_BYTES = 144, SCALES_BYTES = 16;

enum Scales { D4, DS4, D2S6 };

// The scale of elements 32 * chunk on of a block.
template <Scales LAYOUT> __device__ __forceinline__ float scale_of(const uint8_t *block, uint32_t chunk) {
    if constexpr (LAYOUT == D4) return ((const float *)block)[chunk];
    else if constexpr (LAYOUT == DS4) return (float)((const half_t *)block)[2 * chunk];
    else return (float)((const half_t *)block)[chunk / 2];
}

} // namespace quantized
