// Reductions over the threads of a workgroup.
#pragma once
#include "portable/convert.cuh"

// LDS for one block_all_reduce: a value per wavefront, of which 1024 threads make 32 at most.
template <class T> struct WaveValues {
    T of_wave[32];
};

// Combines the values of all `threads` threads (a power of two, at most 1024; `thread` is one's own
// number); every thread gets the result. The order of combination is fixed by `threads` and the
// wavefront's size. The caller's LDS can be used again afterwards.
template <class T, class Op>
__device__ __forceinline__ T block_all_reduce(T value, uint32_t thread, uint32_t threads, Op op, WaveValues<T> &lds) {
    uint32_t width = min_of(threads, wave_size());
    value = wave_all_reduce(value, width, op);
    if (threads > width) {
        uint32_t waves = threads / width;
        if ((thread & (width - 1)) == 0) lds.of_wave[thread / width] = value;
        __syncthreads();
        value = wave_all_reduce(lds.of_wave[thread & (waves - 1)], waves, op);
        __syncthreads();
    }
    return value;
}
