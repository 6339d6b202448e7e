// The driver's types that device code names. Its functions are the host's, which calls them in Rust.
#pragma once
#include "cuda_runtime.h"

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct ihipStream_t *CUstream;
typedef struct ihipEvent_t *CUevent;
typedef struct ihipModule_t *CUmodule;
typedef struct ihipModuleSymbol_t *CUfunction;
typedef struct ihipCtx_t *CUcontext;
typedef enum cudaError_enum { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1, CUDA_ERROR_UNKNOWN = 999 } CUresult;
