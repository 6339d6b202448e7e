// What nvcc has built in: attributes, versions, the bounds of a launch. Every other header begins here.
#pragma once

#if !defined(__HIP__)
#error "this header is for device code that candle-rocm compiles; host compilers need CUDA's own"
#endif

// What code asks to learn that it is compiled as CUDA. The version is 12.8's, the last whose names these headers
// follow.
#ifndef __CUDACC__
#define __CUDACC__ 1
#endif
#ifndef __NVCC__
#define __NVCC__ 1
#endif
// As clang says of itself where it compiles CUDA: source then leaves out what only nvcc understands.
#ifndef __CUDA__
#define __CUDA__ 1
#endif
#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 8
#define __CUDACC_VER_BUILD__ 0
#define CUDA_VERSION 12080
#define CUDART_VERSION 12080
// Tells source that cares that it is on an AMD GPU after all.
#define CANDLE_ROCM_CUDA 1

#include <stddef.h>
#include <stdint.h>

// clang's wrapper defined __host__, __device__, __global__, __shared__ and __constant__.
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __inline_hint__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __builtin_align__(bytes) __attribute__((aligned(bytes)))
#define __device_builtin__
#define __cudart_builtin__
#define __grid_constant__
#define __nv_pure__ __attribute__((pure))
#define CUDARTAPI
#define CUDART_CB
#define CUDAAPI
#ifndef __restrict__
#define __restrict__ __restrict
#endif

// The first bound alone: CUDA's others count workgroups of a multiprocessor and of a cluster, clang's waves of a SIMD.
#define __launch_bounds__(threads, ...) __attribute__((launch_bounds(threads)))
#define __maxnreg__(registers)
#define __cluster_dims__(...)

#define CANDLE_ROCM_DEVICE static __device__ __forceinline__
#define CANDLE_ROCM_BOTH static __host__ __device__ __forceinline__

// Lanes of a wavefront. A warp is 32 of them everywhere: on CDNA each half of a wavefront is one.
#if defined(__GFX9__)
#define CANDLE_ROCM_WAVEFRONT 64
#else
#define CANDLE_ROCM_WAVEFRONT 32
#endif

namespace candle_rocm {
// The bits of one type as another of the same size.
template <class To, class From> __host__ __device__ __forceinline__ constexpr To bits(const From &from) {
    static_assert(sizeof(To) == sizeof(From), "bits of another size");
    return __builtin_bit_cast(To, from);
}
template <class A, class B> struct same {
    static constexpr bool value = false;
};
template <class A> struct same<A, A> {
    static constexpr bool value = true;
};
} // namespace candle_rocm
