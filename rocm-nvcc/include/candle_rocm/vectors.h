// CUDA's vector types, their alignment and make_*, and dim3.
#pragma once
#include "candle_rocm/platform.h"

#define CANDLE_ROCM_VECTORS(NAME, T, A1, A2, A4)                                           \
    struct alignas(A1) NAME##1 { T x; };                                                   \
    struct alignas(A2) NAME##2 { T x, y; };                                                \
    struct NAME##3 { T x, y, z; };                                                         \
    struct alignas(A4) NAME##4 { T x, y, z, w; };                                          \
    CANDLE_ROCM_BOTH constexpr NAME##1 make_##NAME##1(T x) { return {x}; }                 \
    CANDLE_ROCM_BOTH constexpr NAME##2 make_##NAME##2(T x, T y) { return {x, y}; }         \
    CANDLE_ROCM_BOTH constexpr NAME##3 make_##NAME##3(T x, T y, T z) { return {x, y, z}; } \
    CANDLE_ROCM_BOTH constexpr NAME##4 make_##NAME##4(T x, T y, T z, T w) { return {x, y, z, w}; }

//                  name, element, alignment of one, two, four
CANDLE_ROCM_VECTORS(char, signed char, 1, 2, 4)
CANDLE_ROCM_VECTORS(uchar, unsigned char, 1, 2, 4)
CANDLE_ROCM_VECTORS(short, short, 2, 4, 8)
CANDLE_ROCM_VECTORS(ushort, unsigned short, 2, 4, 8)
CANDLE_ROCM_VECTORS(int, int, 4, 8, 16)
CANDLE_ROCM_VECTORS(uint, unsigned int, 4, 8, 16)
CANDLE_ROCM_VECTORS(long, long, 8, 16, 16)
CANDLE_ROCM_VECTORS(ulong, unsigned long, 8, 16, 16)
CANDLE_ROCM_VECTORS(longlong, long long, 8, 16, 16)
CANDLE_ROCM_VECTORS(ulonglong, unsigned long long, 8, 16, 16)
CANDLE_ROCM_VECTORS(float, float, 4, 8, 16)
CANDLE_ROCM_VECTORS(double, double, 8, 16, 16)
#undef CANDLE_ROCM_VECTORS

struct dim3 {
    unsigned int x, y, z;
    __host__ __device__ constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
    __host__ __device__ constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    __host__ __device__ constexpr operator uint3() const { return uint3{x, y, z}; }
};
