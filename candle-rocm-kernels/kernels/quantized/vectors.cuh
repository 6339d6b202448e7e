// Vectors as products of quantised matrices take them: what q8_1 holds, 256 elements in 288 bytes: 256 signed bytes,
// and for each 32 of them a scale and the elements' sum, both f16. So the sixteens that a thread reads are aligned, and
// several in a line.
#pragma once
#include "portable/convert.cuh"

namespace quantized {

constexpr uint32_t ACTIVATIONS = 256, ACTIVATION_BYTES = ACTIVATIONS / 32 * 36;

// Four elements of a vector: their signed bytes, and the scale and the sum that they have with their neighbours.
struct QuantizedFour {
    uint32_t bytes, scale;
};

// Eight lanes, whose 32 neighbouring elements share a scale, take part together.
__device__ __forceinline__ QuantizedFour quantize_four(const vec<float, 4> &x) {
    float largest = 0, sum = 0;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        largest = math::fmax(largest, math::abs(x[k]));
        sum += x[k];
    }
    largest = wave_all_reduce(largest, 8, [](float a, float b) INLINED { return math::fmax(a, b); });
    sum = wave_all_reduce(sum, 8, Sum{});
    float d = largest * (1.0f / 127.0f), per = d != 0.0f ? 1.0f / d : 0.0f;
    uint32_t bytes = 0;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        int32_t q = saturate<int8_t>(math::round(x[k] * per));
        bytes |= (uint32_t)(uint8_t)q << (8 * k);
    }
    uint32_t scale = bit_cast<uint16_t>((half_t)d), of_sum = bit_cast<uint16_t>((half_t)sum);
    return {bytes, scale | of_sum << 16};
}

// To the elements `at` to at + 3 of a vector, a multiple of 4.
__device__ __forceinline__ void store_four(uint8_t *dst, size_t at, const QuantizedFour &four) {
    uint8_t *group = dst + at / ACTIVATIONS * ACTIVATION_BYTES;
    *(uint32_t *)(group + at % ACTIVATIONS) = four.bytes;
    if (at % 32 == 0) *(uint32_t *)(group + ACTIVATIONS + at % ACTIVATIONS / 8) = four.scale;
}

} // namespace quantized
