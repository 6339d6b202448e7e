// What clang's own headers and the C library give device code, where a library such as hiprtc compiles and has neither:
// attributes, types of fixed width, mathematics over ROCm's device libraries.
#pragma once

#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((managed))
#define CANDLE_ROCM_FREESTANDING 1

#include <float.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "candle_rocm/math.h"
