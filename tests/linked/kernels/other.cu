// A second file, with a kernel of the same name; cub's algorithms on whole arrays.
#include <cub/cub.cuh>
#if CUB_VERSION >= 300000
// Where NVIDIA has them since CUDA 13.
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
namespace cub {
template <class V, class F, class I> using TransformInputIterator = thrust::transform_iterator<F, I, V>;
template <class V> using CountingInputIterator = thrust::counting_iterator<V>;
}
#endif

static __global__ void add(float *x, int count) {
    for (int i = threadIdx.x; i < count; i += blockDim.x) x[i] += 100.0f;
}

extern "C" int launch_add_hundred(float *x, int count, cudaStream_t stream) {
    void *arguments[] = {&x, &count};
    return cudaLaunchKernel(add, dim3(1), dim3(33), arguments, 0, stream);
}

struct IsOdd {
    __host__ __device__ bool operator()(float x) const { return (int)x % 2 != 0; }
};
// How many of `x` are odd, the sums before each, and the places of the odd ones.
extern "C" int odd_ones(const float *x, int count, unsigned *odd, float *sums, unsigned *places, unsigned *found,
                        cudaStream_t stream) {
    cub::TransformInputIterator<bool, IsOdd, const float *> flags(x, IsOdd());
    cub::CountingInputIterator<unsigned> numbers(0);
    // One workspace for all three, as large as the one that needs most.
    size_t most = 0, bytes = 0;
    void *workspace = nullptr;
    cudaError_t error = cub::DeviceReduce::Sum(nullptr, bytes, flags, odd, count, stream);
    most = bytes > most ? bytes : most;
    if (error == cudaSuccess) error = cub::DeviceScan::ExclusiveSum(nullptr, bytes, x, sums, count, stream);
    most = bytes > most ? bytes : most;
    if (error == cudaSuccess) {
        error = cub::DeviceSelect::Flagged(nullptr, bytes, numbers, flags, places, found, count, stream);
    }
    most = bytes > most ? bytes : most;
    if (error == cudaSuccess) error = cudaMallocAsync(&workspace, most, stream);
    if (error == cudaSuccess) error = cub::DeviceReduce::Sum(workspace, most, flags, odd, count, stream);
    if (error == cudaSuccess) error = cub::DeviceScan::ExclusiveSum(workspace, most, x, sums, count, stream);
    if (error == cudaSuccess) {
        error = cub::DeviceSelect::Flagged(workspace, most, numbers, flags, places, found, count, stream);
    }
    // What is too small is refused, and nothing is written.
    size_t little = 1;
    if (count > 2000 &&
        cub::DeviceScan::ExclusiveSum(workspace, little, x, sums, count, stream) != cudaErrorInvalidValue) {
        error = cudaErrorUnknown;
    }
    cudaError_t freed = cudaFreeAsync(workspace, stream);
    return error == cudaSuccess ? freed : error;
}

template <int ITEMS> __global__ void mirror(const float *in, float *out, int count) {
    typedef cub::BlockLoad<float, 64, ITEMS, cub::BLOCK_LOAD_WARP_TRANSPOSE> Load;
    typedef cub::BlockStore<float, 64, ITEMS, cub::BLOCK_STORE_WARP_TRANSPOSE> Store;
    __shared__ union {
        typename Load::TempStorage load;
        typename Store::TempStorage store;
    } storage;
    float items[ITEMS], turned[ITEMS];
    int begin = blockIdx.x * 64 * ITEMS;
    Load(storage.load).Load(in + begin, items, count - begin, -1.0f);
    for (int i = 0; i < ITEMS; i++) turned[i] = items[ITEMS - 1 - i];
    Store(storage.store).Store(out + begin, turned, count - begin);
}
// Turns each run of three around; what is not there at the end is -1.
extern "C" int launch_mirror(const float *in, float *out, int count, cudaStream_t stream) {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((count + 191) / 192);
    config.blockDim = dim3(64);
    config.stream = stream;
    return cudaLaunchKernelEx(&config, mirror<3>, in, out, count);
}
