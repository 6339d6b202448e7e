// Launchers as crates have them: templates, a variable, dynamic shared memory, errors, memory in a stream's order.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <vector>

__constant__ float factors[2];

template <class T, int BY> __global__ void scale(T *x, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) x[i] = T(float(x[i]) * float(BY) * factors[BY % 2]);
}
// Of this file alone: another has one of the same name.
static __global__ void add(float *x, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) x[i] += 1.0f;
}
__global__ void reverse(float *x, int count) {
    extern __shared__ float values[];
    if (threadIdx.x < count) values[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < count) x[threadIdx.x] = values[count - 1 - threadIdx.x];
}
__global__ void lanes(unsigned *out) {
    unsigned sum = threadIdx.x;
    for (int by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(~0u, sum, by);
    out[threadIdx.x] = sum;
}

extern "C" int launch_scale(void *x, int count, int is_half, float even, float odd, cudaStream_t stream) {
    float values[2] = {even, odd};
    cudaError_t error = cudaMemcpyToSymbolAsync(factors, values, sizeof(values), 0, cudaMemcpyHostToDevice, stream);
    if (error != cudaSuccess) return error;
    int blocks = (count + 95) / 96;
    if (is_half) {
        scale<__half, 2><<<blocks, 96, 0, stream>>>((__half *)x, count);
    } else {
        scale<float, 3><<<blocks, 96, 0, stream>>>((float *)x, count);
    }
    return cudaGetLastError();
}
extern "C" int launch_add(float *x, int count, cudaStream_t stream) {
    add<<<(count + 63) / 64, 64, 0, stream>>>(x, count);
    return cudaGetLastError();
}
// Blocks in clusters of so many.
extern "C" int launch_add_in_clusters(float *x, int count, unsigned cluster, cudaStream_t stream) {
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = cluster;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(2 * ((count + 127) / 128)), config.blockDim = dim3(64), config.stream = stream;
    config.attrs = &attribute, config.numAttrs = 1;
    void *arguments[] = {&x, &count};
    return cudaLaunchKernelExC(&config, (const void *)add, arguments);
}
extern "C" int launch_reverse(float *x, int count, int shared, cudaStream_t stream) {
    cudaError_t error = cudaFuncSetAttribute(reverse, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (error != cudaSuccess) return error;
    reverse<<<1, 256, shared, stream>>>(x, count);
    return cudaGetLastError();
}
// Nobody asks what became of it.
extern "C" void launch_too_large(float *x, cudaStream_t stream) { reverse<<<1, 2048, 0, stream>>>(x, 1); }
extern "C" const char *error_text(int error) { return cudaGetErrorString((cudaError_t)error); }

extern "C" int sums_of_lanes(unsigned *host) {
    unsigned *memory = nullptr;
    cudaStream_t stream;
    cudaError_t error = cudaStreamCreate(&stream);
    if (error == cudaSuccess) error = cudaMallocAsync(&memory, 64 * sizeof(unsigned), stream);
    if (error != cudaSuccess) return error;
    lanes<<<1, 64, 0, stream>>>(memory);
    std::vector<unsigned> sums(64);
    error = cudaMemcpyAsync(sums.data(), memory, 64 * sizeof(unsigned), cudaMemcpyDeviceToHost, stream);
    if (error == cudaSuccess) error = cudaFreeAsync(memory, stream);
    if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
    if (error == cudaSuccess) error = cudaStreamDestroy(stream);
    for (int i = 0; i < 64; i++) host[i] = sums[i];
    return error;
}
// The warp, the compute capability as one number, the threads that `reverse` can have, and whether as many blocks of it
// as are said to fit do.
extern "C" int facts(int *out) {
    int device = 0, blocks = 0;
    cudaDeviceProp properties;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess) error = cudaGetDeviceProperties(&properties, device);
    if (error != cudaSuccess) return error;
    out[0] = properties.warpSize;
    out[1] = properties.major * 10 + properties.minor;
    error = cudaDeviceGetAttribute(out + 2, cudaDevAttrMaxThreadsPerBlock, device);
    if (error != cudaSuccess) return error;
    error = cudaOccupancyMaxPotentialBlockSize(&blocks, out + 3, reverse);
    out[4] = blocks > 0;
    return error;
}
