// thrust's pointer to the GPU's memory, which host code holds.
#pragma once
#include "cuda_runtime.h"

namespace thrust {
template <class T> class device_ptr {
    T *pointer;

public:
    typedef T value_type;
    __host__ __device__ device_ptr(T *pointer = nullptr) : pointer(pointer) {}
    __host__ __device__ T *get() const { return pointer; }
    __host__ __device__ device_ptr operator+(ptrdiff_t by) const { return device_ptr(pointer + by); }
    __host__ __device__ ptrdiff_t operator-(const device_ptr &other) const { return pointer - other.pointer; }
};
template <class T> __host__ __device__ T *raw_pointer_cast(const device_ptr<T> &pointer) { return pointer.get(); }
template <class T> __host__ __device__ T *raw_pointer_cast(T *pointer) { return pointer; }
template <class T> __host__ __device__ device_ptr<T> device_pointer_cast(T *pointer) { return device_ptr<T>(pointer); }
} // namespace thrust
