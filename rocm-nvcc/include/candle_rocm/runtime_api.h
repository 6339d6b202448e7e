// The CUDA runtime's functions and types that host code beside kernels names. candle-rocm-runtime has the functions,
// for programs that link such code.
#pragma once
#include "candle_rocm/vectors.h"

typedef struct ihipStream_t *cudaStream_t;
typedef struct ihipEvent_t *cudaEvent_t;
// clang looks for HIP's names where it meets <<<>>>.
typedef cudaStream_t hipStream_t;
typedef int hipError_t;
extern "C" hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t shared = 0, hipStream_t stream = 0);
extern "C" hipError_t __hipPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, hipStream_t *stream);
extern "C" hipError_t hipLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                                      hipStream_t stream);
extern "C" hipError_t hipLaunchKernel_spt(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                                          hipStream_t stream);

enum cudaError {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInitializationError = 3,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInvalidDevicePointer = 17,
    cudaErrorInvalidDeviceFunction = 98,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorNoKernelImageForDevice = 209,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorSymbolNotFound = 500,
    cudaErrorNotReady = 600,
    cudaErrorIllegalAddress = 700,
    cudaErrorLaunchOutOfResources = 701,
    cudaErrorLaunchFailure = 719,
    cudaErrorNotSupported = 801,
    cudaErrorUnknown = 999
};
typedef enum cudaError cudaError_t;
enum cudaMemcpyKind {
    cudaMemcpyHostToHost = 0,
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
    cudaMemcpyDefault = 4
};
enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9,
    cudaFuncAttributeNonPortableClusterSizeAllowed = 15
};
enum cudaFuncCache {
    cudaFuncCachePreferNone,
    cudaFuncCachePreferShared,
    cudaFuncCachePreferL1,
    cudaFuncCachePreferEqual
};
enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1,
    cudaDevAttrMaxBlockDimX = 2,
    cudaDevAttrMaxBlockDimY = 3,
    cudaDevAttrMaxBlockDimZ = 4,
    cudaDevAttrMaxGridDimX = 5,
    cudaDevAttrMaxGridDimY = 6,
    cudaDevAttrMaxGridDimZ = 7,
    cudaDevAttrMaxSharedMemoryPerBlock = 8,
    cudaDevAttrTotalConstantMemory = 9,
    cudaDevAttrWarpSize = 10,
    cudaDevAttrMaxRegistersPerBlock = 12,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrMaxThreadsPerMultiProcessor = 39,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
    cudaDevAttrMaxRegistersPerMultiprocessor = 82,
    cudaDevAttrCooperativeLaunch = 95,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
    cudaDevAttrReservedSharedMemoryPerBlock = 111
};
enum cudaStreamCaptureStatus {
    cudaStreamCaptureStatusNone = 0,
    cudaStreamCaptureStatusActive = 1,
    cudaStreamCaptureStatusInvalidated = 2
};
struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem, sharedMemPerBlock;
    int regsPerBlock, warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate;
    size_t totalConstMem;
    int major, minor, multiProcessorCount, maxThreadsPerMultiProcessor;
    size_t sharedMemPerMultiprocessor, sharedMemPerBlockOptin;
};
struct cudaFuncAttributes {
    size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
    int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA, maxDynamicSharedSizeBytes;
    int preferredShmemCarveout;
};
enum cudaLaunchAttributeID {
    cudaLaunchAttributeIgnore = 0,
    cudaLaunchAttributeCooperative = 2,
    cudaLaunchAttributeClusterDimension = 4,
    cudaLaunchAttributeProgrammaticStreamSerialization = 6,
    cudaLaunchAttributePriority = 8,
    cudaLaunchAttributePreferredClusterDimension = 11
};
union cudaLaunchAttributeValue {
    int cooperative, priority, programmaticStreamSerializationAllowed;
    struct {
        unsigned int x, y, z;
    } clusterDim, preferredClusterDim;
};
struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;
    cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    unsigned int numAttrs;
};
enum cudaDriverEntryPointQueryResult {
    cudaDriverEntryPointSuccess = 0,
    cudaDriverEntryPointSymbolNotFound = 1,
    cudaDriverEntryPointVersionNotSufficent = 2
};
#define cudaEnableDefault 0
#define cudaStreamDefault 0
#define cudaStreamNonBlocking 1
#define cudaStreamLegacy ((cudaStream_t)1)
#define cudaStreamPerThread ((cudaStream_t)2)
#define cudaEventDefault 0
#define cudaEventBlockingSync 1
#define cudaEventDisableTiming 2

extern "C" {
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
const char *cudaGetErrorString(cudaError_t error);
const char *cudaGetErrorName(cudaError_t error);
cudaError_t cudaMalloc(void **pointer, size_t bytes);
cudaError_t cudaMallocAsync(void **pointer, size_t bytes, cudaStream_t stream);
cudaError_t cudaMallocHost(void **pointer, size_t bytes);
cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned int flags);
cudaError_t cudaMallocManaged(void **pointer, size_t bytes, unsigned int flags = 1);
cudaError_t cudaFree(void *pointer);
cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream);
cudaError_t cudaFreeHost(void *pointer);
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream = 0);
cudaError_t cudaMemset(void *to, int value, size_t bytes);
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream = 0);
cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t bytes, size_t offset,
                                    cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpyFromSymbolAsync(void *to, const void *symbol, size_t bytes, size_t offset, cudaMemcpyKind kind,
                                      cudaStream_t stream);
cudaError_t cudaGetSymbolAddress(void **pointer, const void *symbol);
cudaError_t cudaMemGetInfo(size_t *free, size_t *total);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device);
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaStreamCreate(cudaStream_t *stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags = 0);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status);
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = 0);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute attribute, int value);
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *kernel);
cudaError_t cudaFuncSetCacheConfig(const void *kernel, cudaFuncCache config);
cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                             cudaStream_t stream);
cudaError_t cudaLaunchCooperativeKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                                        cudaStream_t stream);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel, int threads, size_t shared);
}
// The driver's functions are called from Rust: C++ finds none by name.
static inline cudaError_t cudaGetDriverEntryPoint(const char *, void **function, unsigned long long,
                                                  cudaDriverEntryPointQueryResult *result = nullptr) {
    *function = nullptr;
    if (result) *result = cudaDriverEntryPointSymbolNotFound;
    return cudaErrorSymbolNotFound;
}
template <class T> static inline cudaError_t cudaMalloc(T **pointer, size_t bytes) {
    return cudaMalloc((void **)pointer, bytes);
}
template <class T> static inline cudaError_t cudaMallocAsync(T **pointer, size_t bytes, cudaStream_t stream) {
    return cudaMallocAsync((void **)pointer, bytes, stream);
}
template <class T> static inline cudaError_t cudaMallocHost(T **pointer, size_t bytes) {
    return cudaMallocHost((void **)pointer, bytes);
}
template <class K> static inline cudaError_t cudaFuncSetAttribute(K *kernel, cudaFuncAttribute attribute, int value) {
    return cudaFuncSetAttribute((const void *)kernel, attribute, value);
}
template <class K>
static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, K *kernel, int threads,
                                                                        size_t shared) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, (const void *)kernel, threads, shared);
}
template <class K> static inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, K *kernel) {
    return cudaFuncGetAttributes(attributes, (const void *)kernel);
}
template <class K>
static inline cudaError_t cudaLaunchKernel(K *kernel, dim3 grid, dim3 block, void **arguments, size_t shared = 0,
                                           cudaStream_t stream = 0) {
    return cudaLaunchKernel((const void *)kernel, grid, block, arguments, shared, stream);
}
template <class K>
static inline cudaError_t cudaLaunchCooperativeKernel(K *kernel, dim3 grid, dim3 block, void **arguments,
                                                      size_t shared = 0, cudaStream_t stream = 0) {
    return cudaLaunchCooperativeKernel((const void *)kernel, grid, block, arguments, shared, stream);
}
// As many threads as the kernel can have, and as many blocks of them as the GPU holds at once.
template <class K>
static inline cudaError_t cudaOccupancyMaxPotentialBlockSize(int *blocks, int *threads, K *kernel, size_t shared = 0,
                                                             int limit = 0) {
    cudaFuncAttributes attributes;
    cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
    int device = 0, units = 0, each = 0;
    if (error == cudaSuccess) error = cudaGetDevice(&device);
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(&units, cudaDevAttrMultiProcessorCount, device);
    if (error != cudaSuccess) return error;
    *threads = limit > 0 && limit < attributes.maxThreadsPerBlock ? limit : attributes.maxThreadsPerBlock;
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, *threads, shared);
    *blocks = each * units;
    return error;
}
// A variable of the GPU, which C++ names by itself.
template <class T>
static inline cudaError_t cudaMemcpyToSymbolAsync(const T &symbol, const void *from, size_t bytes, size_t offset = 0,
                                                  cudaMemcpyKind kind = cudaMemcpyHostToDevice,
                                                  cudaStream_t stream = 0) {
    return cudaMemcpyToSymbolAsync((const void *)&symbol, from, bytes, offset, kind, stream);
}
template <class T>
static inline cudaError_t cudaMemcpyToSymbol(const T &symbol, const void *from, size_t bytes, size_t offset = 0,
                                             cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
    cudaError_t error = cudaMemcpyToSymbolAsync((const void *)&symbol, from, bytes, offset, kind, (cudaStream_t)0);
    return error == cudaSuccess ? cudaStreamSynchronize(0) : error;
}
template <class T>
static inline cudaError_t cudaMemcpyFromSymbol(void *to, const T &symbol, size_t bytes, size_t offset = 0,
                                               cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
    cudaError_t error = cudaMemcpyFromSymbolAsync(to, (const void *)&symbol, bytes, offset, kind, (cudaStream_t)0);
    return error == cudaSuccess ? cudaStreamSynchronize(0) : error;
}
template <class T> static inline cudaError_t cudaGetSymbolAddress(void **pointer, const T &symbol) {
    return cudaGetSymbolAddress(pointer, (const void *)&symbol);
}
namespace candle_rocm {
template <class T> struct as_it_is {
    typedef T type;
};
} // namespace candle_rocm
// Of attributes, a cooperative launch is one, and a cluster of several blocks is an error; the others allow more
// overlap or another priority, and change no result.
static inline cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *kernel, void **arguments) {
    bool cooperative = false;
    for (unsigned int i = 0; i < config->numAttrs; i++) {
        const cudaLaunchAttribute &attribute = config->attrs[i];
        if (attribute.id == cudaLaunchAttributeCooperative) cooperative = attribute.val.cooperative != 0;
        if (attribute.id == cudaLaunchAttributeClusterDimension) {
            const auto &cluster = attribute.val.clusterDim;
            if (cluster.x * cluster.y * cluster.z > 1) return cudaErrorNotSupported;
        }
    }
    dim3 grid = config->gridDim, block = config->blockDim;
    size_t shared = config->dynamicSmemBytes;
    if (cooperative) return cudaLaunchCooperativeKernel(kernel, grid, block, arguments, shared, config->stream);
    return cudaLaunchKernel(kernel, grid, block, arguments, shared, config->stream);
}
// Arguments become what the kernel takes.
template <class... P>
static inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P...),
                                             typename candle_rocm::as_it_is<P>::type... arguments) {
    void *all[] = {(void *)&arguments..., nullptr};
    return cudaLaunchKernelExC(config, (const void *)kernel, all);
}
// No AMD GPU has clusters.
template <class K>
static inline cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, K *, const cudaLaunchConfig_t *) {
    *clusters = 0;
    return cudaErrorNotSupported;
}
