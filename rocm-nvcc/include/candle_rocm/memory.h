// What device code calls of C's library beside mathematics: copies, printf, assert.
#pragma once
#include "candle_rocm/platform.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

extern "C" {
__device__ int printf(const char *format, ...);
static __device__ __forceinline__ void *memcpy(void *to, const void *from, size_t bytes) {
    return __builtin_memcpy(to, from, bytes);
}
static __device__ __forceinline__ void *memmove(void *to, const void *from, size_t bytes) {
    return __builtin_memmove(to, from, bytes);
}
static __device__ __forceinline__ void *memset(void *to, int value, size_t bytes) {
    return __builtin_memset(to, value, bytes);
}
static __device__ __forceinline__ int memcmp(const void *a, const void *b, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        int differ = ((const unsigned char *)a)[i] - ((const unsigned char *)b)[i];
        if (differ != 0) return differ;
    }
    return 0;
}
// What a failed assert() calls.
__device__ __attribute__((noreturn, weak)) void __assert_fail(const char *, const char *, unsigned int,
                                                              const char *) noexcept {
    __builtin_trap();
}
}
