// thrust's sums of all values before one, by one block, whatever their number.
#pragma once
#include "cub/cub.cuh"
#include "thrust/device_ptr.h"
#include "thrust/execution_policy.h"

namespace thrust {
namespace details {
constexpr int SCAN_THREADS = 1024;
template <class In, class Out>
__global__ void __launch_bounds__(SCAN_THREADS) scan(const In *in, Out *out, size_t count, Out first, bool inclusive) {
    typedef cub::BlockScan<Out, SCAN_THREADS> Scan;
    __shared__ typename Scan::TempStorage storage;
    Out before = first;
    for (size_t begin = 0; begin < count; begin += SCAN_THREADS) {
        size_t at = begin + threadIdx.x;
        Out value = at < count ? (Out)in[at] : Out(0), sum, all;
        Scan(storage).ExclusiveSum(value, sum, all);
        if (at < count) out[at] = before + sum + (inclusive ? value : Out(0));
        before = before + all;
        __syncthreads();
    }
}
} // namespace details
template <class In, class Out>
device_ptr<Out> inclusive_scan(const cuda::execution_policy &policy, device_ptr<In> from, device_ptr<In> to,
                               device_ptr<Out> out) {
    size_t count = (size_t)(to - from);
    details::scan<<<1, details::SCAN_THREADS, 0, policy.stream>>>(from.get(), out.get(), count, Out(0), true);
    return out + (ptrdiff_t)count;
}
template <class In, class Out>
device_ptr<Out> exclusive_scan(const cuda::execution_policy &policy, device_ptr<In> from, device_ptr<In> to,
                               device_ptr<Out> out, Out first = Out(0)) {
    size_t count = (size_t)(to - from);
    details::scan<<<1, details::SCAN_THREADS, 0, policy.stream>>>(from.get(), out.get(), count, first, false);
    return out + (ptrdiff_t)count;
}
} // namespace thrust
