// cub's algorithms on arrays that take many blocks: sorts, scans, reductions.
#include <cub/cub.cuh>

// Asks `run` for the size of its workspace, then runs it with one.
template <class Run> static int with_workspace(cudaStream_t stream, Run run) {
    size_t bytes = 0;
    void *workspace = nullptr;
    cudaError_t error = run(nullptr, bytes);
    if (error == cudaSuccess) error = cudaMallocAsync(&workspace, bytes, stream);
    if (error == cudaSuccess) error = run(workspace, bytes);
    cudaError_t freed = cudaFreeAsync(workspace, stream);
    return error == cudaSuccess ? freed : error;
}

template <class K>
static int sort_pairs(const void *keys, void *keys_out, const unsigned *values, unsigned *values_out, int count,
                      int begin_bit, int end_bit, bool descending, cudaStream_t stream) {
    const K *in = (const K *)keys;
    K *out = (K *)keys_out;
    return with_workspace(stream, [=](void *workspace, size_t &bytes) {
        if (descending) {
            return cub::DeviceRadixSort::SortPairsDescending(workspace, bytes, in, out, values, values_out, count,
                                                             begin_bit, end_bit, stream);
        }
        return cub::DeviceRadixSort::SortPairs(workspace, bytes, in, out, values, values_out, count, begin_bit, end_bit,
                                               stream);
    });
}
// Keys of a type (0 u32, 1 f32, 2 i64, 3 f16, 4 u8), by these bits, and the values that go with them.
extern "C" int sort_by_keys(int type, const void *keys, void *keys_out, const unsigned *values, unsigned *values_out,
                            int count, int begin_bit, int end_bit, int descending, cudaStream_t stream) {
    bool down = descending != 0;
    switch (type) {
    case 0: return sort_pairs<unsigned>(keys, keys_out, values, values_out, count, begin_bit, end_bit, down, stream);
    case 1: return sort_pairs<float>(keys, keys_out, values, values_out, count, begin_bit, end_bit, down, stream);
    case 2: return sort_pairs<long>(keys, keys_out, values, values_out, count, begin_bit, end_bit, down, stream);
    case 3: return sort_pairs<__half>(keys, keys_out, values, values_out, count, begin_bit, end_bit, down, stream);
    default:
        return sort_pairs<unsigned char>(keys, keys_out, values, values_out, count, begin_bit, end_bit, down, stream);
    }
}
// In two buffers; which of them has the keys in the end.
extern "C" int sort_in_buffers(float *keys, float *others, int count, int *selector, cudaStream_t stream) {
    cub::DoubleBuffer<float> buffers(keys, others);
    int error = with_workspace(stream, [&](void *workspace, size_t &bytes) {
        return cub::DeviceRadixSort::SortKeys(workspace, bytes, buffers, count, 0, 32, stream);
    });
    *selector = buffers.selector;
    return error;
}

struct Larger {
    __device__ unsigned operator()(unsigned a, unsigned b) const { return a < b ? b : a; }
};
// Sums before and with each, the greatest so far (and at least 7), and of all: sum, least, greatest.
extern "C" int scan_and_reduce(const unsigned *x, unsigned *before, unsigned *with, unsigned *greatest, unsigned *all,
                               int count, cudaStream_t stream) {
    int error = with_workspace(stream, [=](void *workspace, size_t &bytes) {
        return cub::DeviceScan::ExclusiveSum(workspace, bytes, x, before, count, stream);
    });
    error |= with_workspace(stream, [=](void *workspace, size_t &bytes) {
        return cub::DeviceScan::InclusiveSum(workspace, bytes, x, with, count, stream);
    });
    error |= with_workspace(stream, [=](void *workspace, size_t &bytes) {
        return cub::DeviceScan::ExclusiveScan(workspace, bytes, x, greatest, Larger(), 7u, count, stream);
    });
    error |= with_workspace(stream, [=](void *workspace, size_t &bytes) {
        return cub::DeviceReduce::Sum(workspace, bytes, x, all, count, stream);
    });
    error |= with_workspace(stream, [=](void *workspace, size_t &bytes) {
        return cub::DeviceReduce::Min(workspace, bytes, x, all + 1, count, stream);
    });
    error |= with_workspace(stream, [=](void *workspace, size_t &bytes) {
        return cub::DeviceReduce::Max(workspace, bytes, x, all + 2, count, stream);
    });
    return error;
}
