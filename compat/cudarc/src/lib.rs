//! The part of cudarc's API that Candle uses, on HIP: patch it in to run Candle on AMD GPUs.
//!
//! There is no logic here: each item is one of [`candle_rocm_runtime`]'s, under the path and the name that
//! cudarc 0.19.10 gives its counterpart.

mod absent;

/// The driver API: contexts, streams, memory, kernels, graphs.
pub mod driver {
    pub use candle_rocm_runtime::context::Context as CudaContext;
    pub use candle_rocm_runtime::error::Error as DriverError;
    pub use candle_rocm_runtime::event::Event as CudaEvent;
    pub use candle_rocm_runtime::graph::Graph as CudaGraph;
    pub use candle_rocm_runtime::module::{Function as CudaFunction, Module as CudaModule};
    pub use candle_rocm_runtime::stream::Stream as CudaStream;
    pub use candle_rocm_runtime::{
        DeviceBuffer as CudaSlice, DevicePtr, DevicePtrMut, DeviceRepr, DeviceSlice, HostSlice,
        LaunchArgs, LaunchConfig, PinnedHostSlice, PushKernelArg, SyncOnDrop, ValidAsZeroBits,
        View as CudaView, ViewMut as CudaViewMut,
    };

    /// cudarc's safe layer, whose items it also exports one level up.
    pub mod safe {
        pub use super::{
            CudaContext, CudaEvent, CudaFunction, CudaGraph, CudaModule, CudaSlice, CudaStream,
            CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DeviceRepr, DeviceSlice, DriverError,
            HostSlice, LaunchArgs, LaunchConfig, PinnedHostSlice, PushKernelArg, SyncOnDrop,
            ValidAsZeroBits,
        };
    }

    /// Functions that return a result.
    pub mod result {
        pub use super::DriverError;
        pub use candle_rocm_runtime::driver_api::{init, mem_get_info};

        /// GPUs and their attributes.
        pub mod device {
            pub use candle_rocm_runtime::device::{
                count as get_count, read_attribute as get_attribute,
            };
            pub use candle_rocm_runtime::driver_api::{
                default_pool as get_default_mem_pool, get, name as get_name, total_mem,
                uuid as get_uuid,
            };
        }

        /// The thread's current GPU.
        pub mod ctx {
            pub use candle_rocm_runtime::driver_api::synchronize;
        }

        /// Memory pools.
        pub mod mem_pool {
            pub use candle_rocm_runtime::driver_api::trim_pool as trim_to;
        }
    }

    /// Types under CUDA's own names.
    pub mod sys {
        pub use candle_rocm_runtime::cuda_names::{
            CUctx_flags, CUctx_flags as CUctx_flags_enum, CUdevice, CUdevice_attribute,
            CUdevice_attribute as CUdevice_attribute_enum, CUdeviceptr, CUevent_flags,
            CUevent_flags as CUevent_flags_enum, CUfunc_cache, CUfunc_cache as CUfunc_cache_enum,
            CUfunction_attribute, CUfunction_attribute as CUfunction_attribute_enum,
            CUgraphInstantiate_flags, CUlimit, CUlimit as CUlimit_enum, CUmemPool_attribute,
            CUmemPool_attribute as CUmemPool_attribute_enum, CUmemoryPool, CUoccupancy_flags,
            CUoccupancy_flags as CUoccupancy_flags_enum, CUresult, CUresult as cudaError_enum,
            CUstream, CUstreamCaptureMode, CUstreamCaptureMode as CUstreamCaptureMode_enum,
            CUstreamCaptureStatus, CUstreamCaptureStatus as CUstreamCaptureStatus_enum, CUuuid,
            CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_WRITECOMBINED,
        };
        pub use candle_rocm_runtime::driver_api::{
            cuCtxSynchronize, cuDeviceGet, cuDeviceGetAttribute, cuDeviceGetCount,
            cuDeviceGetDefaultMemPool, cuDeviceGetMemPool, cuDeviceTotalMem_v2, cuDriverGetVersion,
            cuInit, cuMemGetInfo_v2, cuMemPoolGetAttribute, cuMemPoolSetAttribute, cuMemPoolTrimTo,
        };
        pub use candle_rocm_runtime::hip::types::{
            hipEvent_t as CUevent, hipFunction_t as CUfunction, hipGraphExec_t as CUgraphExec,
            hipGraph_t as CUgraph, hipModule_t as CUmodule,
        };
    }
}

/// Matrix products.
pub mod cublas {
    pub use candle_rocm_runtime::blas::{Blas as CudaBlas, Gemm, GemmConfig, StridedBatchedConfig};

    /// Functions that return a result.
    pub mod result {
        pub use candle_rocm_runtime::blas::{dgemm, gemm_strided_batched_ex, hgemm, sgemm};
        pub use candle_rocm_runtime::error::BlasError as CublasError;
    }

    /// Types under cuBLAS's own names.
    pub mod sys {
        pub use candle_rocm_runtime::blas::BlasHandle as cublasHandle_t;
        pub use candle_rocm_runtime::cuda_names::{
            cublasComputeType_t, cublasGemmAlgo_t, cublasOperation_t, cublasStatus_t,
            cudaDataType_t, cudaDataType_t as cudaDataType,
        };
    }
}

/// Matrix products with a bias and an activation.
pub mod cublaslt {
    pub use candle_rocm_runtime::blas_lt::{
        result, sys, Activation, BlasLt as CudaBlasLT, Matmul, MatmulConfig, MatmulShared,
        Workspace,
    };

    /// cudarc's safe layer, whose items it also exports one level up.
    pub mod safe {
        pub use super::{Activation, CudaBlasLT, Matmul, MatmulConfig, MatmulShared, Workspace};
    }
}

/// Random numbers.
pub mod curand {
    pub use candle_rocm_runtime::rng::Rng as CudaRng;

    /// Functions that return a result.
    pub mod result {
        pub use candle_rocm_runtime::error::RandomError as CurandError;
    }
}

/// Code to load, and compiling it at run time.
pub mod nvrtc {
    pub use candle_rocm_runtime::error::CompileError;
    pub use candle_rocm_runtime::module::{
        compile_text as compile_ptx, compile_text_with as compile_ptx_with_opts, CompileOptions,
        Image as Ptx,
    };

    /// cudarc's safe layer, whose items it also exports one level up.
    pub mod safe {
        pub use super::{compile_ptx, compile_ptx_with_opts, CompileError, CompileOptions, Ptx};
    }
}

/// What types are called in CUDA C++.
pub mod types {
    pub use candle_rocm_runtime::dtype::CudaTypeName;
}
