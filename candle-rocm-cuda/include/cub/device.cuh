// cub's algorithms on whole arrays, for host code: DeviceReduce, DeviceScan, DeviceSelect. One block does the work,
// whatever the number of values: right for any, and slow for very many.
#pragma once
#include "cub/block.cuh"

namespace cub {
// Values made as they are read.
template <class Value, class F, class In, class Offset = ptrdiff_t> class TransformInputIterator {
    In values;
    F change;

public:
    typedef Value value_type;
    __host__ __device__ TransformInputIterator(In values, F change) : values(values), change(change) {}
    __host__ __device__ Value operator[](Offset at) const { return change(values[at]); }
};
template <class Value, class Offset = ptrdiff_t> class CountingInputIterator {
    Value first;

public:
    typedef Value value_type;
    __host__ __device__ explicit CountingInputIterator(Value first) : first(first) {}
    __host__ __device__ Value operator[](Offset at) const { return first + (Value)at; }
};

namespace details {
constexpr int DEVICE_THREADS = 1024;
template <class T> struct pointed;
template <class T> struct pointed<T *> {
    typedef T type;
};

template <class In, class T, class F>
__global__ void __launch_bounds__(DEVICE_THREADS) reduce(In in, T *out, size_t count, F combine, T first) {
    typedef BlockReduce<T, DEVICE_THREADS> Reduce;
    __shared__ typename Reduce::TempStorage storage;
    T mine = T();
    int used = (int)(count < (size_t)DEVICE_THREADS ? count : (size_t)DEVICE_THREADS);
    for (size_t i = threadIdx.x; i < count; i += DEVICE_THREADS) {
        mine = i == threadIdx.x ? T(in[i]) : combine(mine, T(in[i]));
    }
    T all = Reduce(storage).Reduce(mine, combine, used);
    if (threadIdx.x == 0) *out = count == 0 ? first : combine(first, all);
}
template <class In, class T>
__global__ void __launch_bounds__(DEVICE_THREADS) sums(In in, T *out, size_t count, bool inclusive) {
    typedef BlockScan<T, DEVICE_THREADS> Scan;
    __shared__ typename Scan::TempStorage storage;
    T before = T(0);
    for (size_t begin = 0; begin < count; begin += DEVICE_THREADS) {
        size_t at = begin + threadIdx.x;
        T value = at < count ? T(in[at]) : T(0), sum, all;
        Scan(storage).ExclusiveSum(value, sum, all);
        if (at < count) out[at] = before + sum + (inclusive ? value : T(0));
        before = before + all;
        __syncthreads();
    }
}
template <class In, class Flags, class Out, class Count>
__global__ void __launch_bounds__(DEVICE_THREADS) flagged(In in, Flags flags, Out out, Count *selected, size_t count) {
    typedef BlockScan<unsigned int, DEVICE_THREADS> Scan;
    __shared__ typename Scan::TempStorage storage;
    size_t before = 0;
    for (size_t begin = 0; begin < count; begin += DEVICE_THREADS) {
        size_t at = begin + threadIdx.x;
        bool taken = at < count && flags[at];
        unsigned int rank, all;
        Scan(storage).ExclusiveSum(taken ? 1u : 0u, rank, all);
        if (taken) out[before + rank] = in[at];
        before += all;
        __syncthreads();
    }
    if (threadIdx.x == 0) *selected = (Count)before;
}
// Callers ask for the size of a workspace first, and pass one then. None is needed; its size is one byte, as no caller
// expects none.
inline bool asks_for_size(void *workspace, size_t &bytes) {
    if (workspace == nullptr) bytes = 1;
    return workspace == nullptr;
}
} // namespace details

struct DeviceReduce {
    template <class In, class Out, class F, class T>
    static cudaError_t Reduce(void *workspace, size_t &bytes, In in, Out out, size_t count, F combine, T first,
                              cudaStream_t stream = 0) {
        typedef typename details::pointed<Out>::type Value;
        if (details::asks_for_size(workspace, bytes)) return cudaSuccess;
        details::reduce<<<1, details::DEVICE_THREADS, 0, stream>>>(in, out, count, combine, Value(first));
        return cudaPeekAtLastError();
    }
    template <class In, class Out>
    static cudaError_t Sum(void *workspace, size_t &bytes, In in, Out out, size_t count, cudaStream_t stream = 0) {
        return Reduce(workspace, bytes, in, out, count, cub::Sum(), 0, stream);
    }
};
struct DeviceScan {
    template <class In, class T>
    static cudaError_t ExclusiveSum(void *workspace, size_t &bytes, In in, T *out, size_t count,
                                    cudaStream_t stream = 0) {
        if (details::asks_for_size(workspace, bytes)) return cudaSuccess;
        details::sums<<<1, details::DEVICE_THREADS, 0, stream>>>(in, out, count, false);
        return cudaPeekAtLastError();
    }
    template <class In, class T>
    static cudaError_t InclusiveSum(void *workspace, size_t &bytes, In in, T *out, size_t count,
                                    cudaStream_t stream = 0) {
        if (details::asks_for_size(workspace, bytes)) return cudaSuccess;
        details::sums<<<1, details::DEVICE_THREADS, 0, stream>>>(in, out, count, true);
        return cudaPeekAtLastError();
    }
};
struct DeviceSelect {
    // Those whose flags are set, in their order, and how many they are.
    template <class In, class Flags, class Out, class Count>
    static cudaError_t Flagged(void *workspace, size_t &bytes, In in, Flags flags, Out out, Count *selected,
                               size_t count, cudaStream_t stream = 0) {
        if (details::asks_for_size(workspace, bytes)) return cudaSuccess;
        details::flagged<<<1, details::DEVICE_THREADS, 0, stream>>>(in, flags, out, selected, count);
        return cudaPeekAtLastError();
    }
};
} // namespace cub
