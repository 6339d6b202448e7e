// The kernels attend_<elements>_<queries>_<type> of module `attention_decode`, on all architectures:
// attention_decode.cu makes them of this list, and the build the table that candle_rocm_kernels::decode reads.
#pragma once

// X(most elements of a head, queries of a group that a workgroup takes, what follows X).
#define FOR_ATTEND(X, ...) \
    X(64, 1, __VA_ARGS__)  \
    X(64, 4, __VA_ARGS__)  \
    X(128, 1, __VA_ARGS__) \
    X(128, 4, __VA_ARGS__) \
    X(256, 1, __VA_ARGS__) \
    X(256, 4, __VA_ARGS__) \
    X(512, 1, __VA_ARGS__) \
    X(512, 2, __VA_ARGS__)

// X(name, type of what comes in and goes out, the cache's type).
#define FOR_ATTEND_TYPES(X)   \
    X(f16, half_t, half_t)    \
    X(bf16, bf16_t, bf16_t)   \
    X(f32, float, float)      \
    X(f32_f16, float, half_t) \
    X(f32_bf16, float, bf16_t)
