// Conversion between any two element types.
#include "elementwise/elementwise.cuh"

// How these are launched: launch_heuristics.rs says what the words mean.
#define LAUNCHES(X, EVERY) EVERY(Mapped, 4, 2)

template <class From, class To>
__device__ __forceinline__ void cast(size_t numel, size_t num_dims, const size_t *__restrict__ info,
                                     const From *__restrict__ in, To *__restrict__ out) {
    auto f = [](From x) {
        return convert<To>(x);
    };
    if constexpr (is_same<From, To>::value) map_any(indices<1>(), numel, num_dims, info, f, out, in);
    else if constexpr (is_same<From, uint8_t>::value && is_same<To, f8e4m3_t>::value)
        map_by_table(numel, num_dims, info, f, out, in);
    else map(numel, num_dims, info, f, out, in);
}

#define CAST(FROM_NAME, FROM, TO_NAME, TO)                                                             \
    ENTRY cast_##FROM_NAME##_##TO_NAME(size_t numel, size_t num_dims, const size_t *__restrict__ info, \
                                       const FROM *__restrict__ in, TO *__restrict__ out) {            \
        cast(numel, num_dims, info, in, out);                                                          \
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
