// Vectors of up to 16 bytes of the matrices in global memory. AMD's GPUs reach them wherever they begin, NVIDIA's where
// they are aligned: who may meet others asks first, and goes by single elements.
#pragma once
#include "matmul/gemm_problem.cuh"
#include "portable/lds.cuh"

#if defined(__HIP__)
// Whether vectors of 16 bytes of a matrix may be read and written, from the first of each of its lines on.
template <class T> __device__ __forceinline__ constexpr bool vectors_at(const T *, int64_t) { return true; }

// A V at `base`, plus a byte offset and a constant number of elements.
template <class V, class T>
__device__ __forceinline__ V load_vector(const T *base, uint32_t offset = 0, int elements = 0) {
    return load_at<V>(base, offset, elements);
}
template <int N, class T> __device__ __forceinline__ void store_vector(T *to, const vec<T, N> &value) {
    store_at(to, value);
}
#else
template <class T> __device__ __forceinline__ bool vectors_at(const T *matrix, int64_t ld) {
    return is_aligned(matrix, 16) && ld * (int64_t)sizeof(T) % 16 == 0;
}

template <class V, class T>
__device__ __forceinline__ V load_vector(const T *base, uint32_t offset = 0, int elements = 0) {
    typedef typename WordVector<sizeof(V) / 4>::type Raw;
    const GLOBAL_MEMORY char *from = (const GLOBAL_MEMORY char *)base + offset + elements * (int)sizeof(T);
    return bit_cast<V>(*(const GLOBAL_MEMORY Raw *)from);
}
template <int N, class T> __device__ __forceinline__ void store_vector(T *to, const vec<T, N> &value) {
    typedef typename WordVector<sizeof(vec<T, N>) / 4>::type Raw;
    *(GLOBAL_MEMORY Raw *)to = bit_cast<Raw>(value);
}
#endif
