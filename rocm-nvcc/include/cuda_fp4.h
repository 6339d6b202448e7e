// CUDA's 4-bit floats, as they are stored: two in a byte. There is no arithmetic on them.
#pragma once
#include "cuda_runtime.h"

typedef unsigned char __nv_fp4_storage_t;
typedef unsigned char __nv_fp4x2_storage_t;
typedef unsigned short __nv_fp4x4_storage_t;

struct __nv_fp4_e2m1 {
    __nv_fp4_storage_t __x;
    __nv_fp4_e2m1() = default;
    // A sign, two bits of exponent, one of fraction.
    __host__ __device__ explicit operator float() const {
        int exponent = (__x >> 1) & 3, fraction = __x & 1;
        float size =
            exponent == 0 ? 0.5f * (float)fraction : (1.0f + 0.5f * (float)fraction) * (float)(1 << exponent) * 0.5f;
        return (__x & 8) != 0 ? -size : size;
    }
};
struct __nv_fp4x2_e2m1 {
    __nv_fp4x2_storage_t __x;
};
struct __nv_fp4x4_e2m1 {
    __nv_fp4x4_storage_t __x;
};
