// Candle's element types: X(name in kernels' names, type). The build makes `candle_rocm_kernels::dtypes` of this list.
#pragma once

#define FOR_INTEGERS(X) X(u8, uint8_t) X(u32, uint32_t) X(i16, int16_t) X(i32, int32_t) X(i64, int64_t)
#define FOR_WIDE_FLOATS(X) X(bf16, bf16_t) X(f16, half_t) X(f32, float) X(f64, double)
#define FOR_SMALL_FLOATS(X) X(f8e4m3, f8e4m3_t)

// Those that Candle takes indices and conditions from, for a table within a table: X(name, type, what follows X).
#define FOR_INDICES(X, ...) X(u8, uint8_t, __VA_ARGS__) X(u32, uint32_t, __VA_ARGS__) X(i64, int64_t, __VA_ARGS__)

#define FOR_FLOATS(X)  \
    FOR_WIDE_FLOATS(X) \
    FOR_SMALL_FLOATS(X)
#define FOR_ALL(X)  \
    FOR_INTEGERS(X) \
    FOR_FLOATS(X)
