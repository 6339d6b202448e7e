/* HIP without a GPU: each function succeeds at once and is counted. With it in libamdhip64's place, what remains of an
   operator is the host code above it. testing/src/no_gpu.rs compiles it with cc. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef void *handle;

enum { MOST_FUNCTIONS = 64 };

/* Calls of each function, for the test to read. */
struct count {
    const char *name;
    uint64_t calls;
} no_gpu_calls[MOST_FUNCTIONS];

static void *slot(const char *name) {
    for (int i = 0; i < MOST_FUNCTIONS; i++) {
        if (!no_gpu_calls[i].name) no_gpu_calls[i].name = name;
        if (strcmp(no_gpu_calls[i].name, name) == 0) return &no_gpu_calls[i];
    }
    return &no_gpu_calls[MOST_FUNCTIONS - 1];
}

#define COUNT                                                   \
    static struct count *mine;                                  \
    if (!mine) mine = slot(__func__);                           \
    mine->calls++

#define NOTHING(name, ...) \
    int name(__VA_ARGS__) { COUNT; return 0; }

/* Addresses and handles that nothing follows. */
static uintptr_t next = (uintptr_t)1 << 40;
static void *fresh(size_t bytes) {
    uintptr_t address = next;
    next += (bytes + 4095) & ~(size_t)4095;
    return (void *)address;
}

#define FRESH(name, ...) \
    int name(handle *out, ##__VA_ARGS__) { COUNT; *out = fresh(1); return 0; }

NOTHING(hipInit, unsigned flags)
NOTHING(hipSetDevice, int device)
NOTHING(hipDeviceSynchronize, void)
NOTHING(hipFree, void *pointer)
NOTHING(hipHostFree, void *pointer)
NOTHING(hipMemcpyAsync, void *dst, const void *src, size_t bytes, int kind, handle stream)
NOTHING(hipMemsetAsync, void *dst, int value, size_t bytes, handle stream)
NOTHING(hipStreamDestroy, handle stream)
NOTHING(hipStreamSynchronize, handle stream)
NOTHING(hipStreamQuery, handle stream)
NOTHING(hipStreamWaitEvent, handle stream, handle event, unsigned flags)
NOTHING(hipEventDestroy, handle event)
NOTHING(hipEventRecord, handle event, handle stream)
NOTHING(hipEventSynchronize, handle event)
NOTHING(hipEventQuery, handle event)
NOTHING(hipEventElapsedTime, float *milliseconds, handle start, handle end)
NOTHING(hipModuleUnload, handle module)
NOTHING(hipModuleLaunchKernel, handle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
        unsigned bz, unsigned lds, handle stream, void **arguments, void **extra)

FRESH(hipStreamCreateWithFlags, unsigned flags)
FRESH(hipEventCreateWithFlags, unsigned flags)
FRESH(hipModuleLoadData, const void *image)
FRESH(hipModuleGetFunction, handle module, const char *name)

int hipMalloc(void **pointer, size_t bytes) { COUNT; *pointer = fresh(bytes); return 0; }
int hipHostMalloc(void **pointer, size_t bytes, unsigned flags) { COUNT; *pointer = fresh(bytes); return 0; }
int hipGetDeviceCount(int *count) { COUNT; *count = 1; return 0; }
int hipGetDevice(int *device) { COUNT; *device = 0; return 0; }
int hipMemGetInfo(size_t *available, size_t *total) { COUNT; *available = *total = (size_t)1 << 36; return 0; }
int hipDeviceGetAttribute(int *value, int attribute, int device) {
    COUNT;
    switch (attribute) {
    case 56: *value = 1024; break; /* hipDeviceAttributeMaxThreadsPerBlock */
    case 63: *value = 48; break;   /* hipDeviceAttributeMultiprocessorCount, of an RX 7900 XTX */
    case 87: *value = 32; break;   /* hipDeviceAttributeWarpSize */
    default: *value = 1 << 20;     /* a limit, which nothing here reaches */
    }
    return 0;
}
int hipGetDevicePropertiesR0600(char *properties, int device) {
    COUNT;
    strcpy(properties, "no GPU");
    strcpy(properties + 1160, "gfx1100");
    return 0;
}
const char *hipGetErrorName(int error) { return "hipErrorUnknown"; }
const char *hipGetErrorString(int error) { return "no GPU"; }
