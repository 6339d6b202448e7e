// Functions of the standard library that nvcc lets device code call, and clang leaves to the host.
#pragma once
#include "candle_rocm/platform.h"

#if !defined(CANDLE_ROCM_FREESTANDING)
namespace std {
template <class T> __device__ inline void swap(T &a, T &b) {
    T kept = static_cast<T &&>(a);
    a = static_cast<T &&>(b);
    b = static_cast<T &&>(kept);
}
} // namespace std
#endif
