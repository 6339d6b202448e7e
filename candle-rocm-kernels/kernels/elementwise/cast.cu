// Conversion between any two element types.
#include "elementwise/elementwise.cuh"

#define CAST(FROM_NAME, FROM, TO_NAME, TO)                                                             \
    ENTRY cast_##FROM_NAME##_##TO_NAME(size_t numel, size_t num_dims, const size_t *__restrict__ info, \
                                       const FROM *__restrict__ in, TO *__restrict__ out) {            \
        map(numel, num_dims, info, [](FROM x) { return convert<TO>(x); }, out, in);                    \
    }
// The inner table cannot be FOR_ALL again: a macro does not expand within itself.
#define CAST_TO_ALL(NAME, T)     \
    CAST(NAME, T, u8, uint8_t)   \
    CAST(NAME, T, u32, uint32_t) \
    CAST(NAME, T, i16, int16_t)  \
    CAST(NAME, T, i32, int32_t)  \
    CAST(NAME, T, i64, int64_t)  \
    CAST(NAME, T, bf16, bf16_t)  \
    CAST(NAME, T, f16, half_t)   \
    CAST(NAME, T, f32, float)    \
    CAST(NAME, T, f64, double)   \
    CAST(NAME, T, f8e4m3, f8e4m3_t)
FOR_ALL(CAST_TO_ALL)
