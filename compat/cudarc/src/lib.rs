//! The part of cudarc's API that Candle uses, on HIP: patch it in to run Candle on AMD GPUs.
//!
//! There is no logic here: each item is one of [`candle_rocm_runtime`]'s, under the path and the name that
//! cudarc 0.19.10 gives its counterpart.

mod absent;

/// The driver API: contexts, streams, memory, kernels, graphs.
pub mod driver {
    pub use self::named::DriverError;
    pub use candle_rocm_runtime::context::Context as CudaContext;
    pub use candle_rocm_runtime::event::Event as CudaEvent;
    pub use candle_rocm_runtime::graph::Graph as CudaGraph;
    pub use candle_rocm_runtime::module::{Function as CudaFunction, Module as CudaModule};
    pub use candle_rocm_runtime::raw_handles::profiler::{profiler_start, profiler_stop, Profiler};
    pub use candle_rocm_runtime::stream::Stream as CudaStream;
    pub use candle_rocm_runtime::{
        DeviceBuffer as CudaSlice, DevicePtr, DevicePtrMut, DeviceRepr, DeviceSlice, HostSlice,
        LaunchArgs, LaunchConfig, PinnedHostSlice, PushKernelArg, SyncOnDrop, ValidAsZeroBits,
        View as CudaView, ViewMut as CudaViewMut,
    };

    /// The error as a type, and the pattern `DriverError(number)`, which is one of its variants: of one name, as a
    /// variant that comes by `*` leaves the type's name to the alias.
    mod named {
        pub use candle_rocm_runtime::error::Error::*;

        /// What went wrong: CUDA's number, and a sentence.
        pub type DriverError = candle_rocm_runtime::error::Error;
    }

    /// cudarc's safe layer, whose items it also exports one level up.
    pub mod safe {
        pub use super::{
            profiler_start, profiler_stop, CudaContext, CudaEvent, CudaFunction, CudaGraph,
            CudaModule, CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut,
            DeviceRepr, DeviceSlice, DriverError, HostSlice, LaunchArgs, LaunchConfig,
            PinnedHostSlice, Profiler, PushKernelArg, SyncOnDrop, ValidAsZeroBits,
        };
    }

    /// Functions that return a result.
    pub mod result {
        pub use super::DriverError;
        pub use candle_rocm_runtime::driver_api::{init, mem_get_info};
        pub use candle_rocm_runtime::raw_handles::result::{
            event, free_async, free_host, free_sync, function, graph, launch_cooperative_kernel,
            launch_kernel, malloc_async, malloc_host, malloc_sync, memcpy_dtod_async,
            memcpy_dtod_sync, memcpy_dtoh_async, memcpy_dtoh_sync, memcpy_htod_async,
            memcpy_htod_sync, memcpy_peer_async, memory_free, memset_d8_async, memset_d8_sync,
            module, primary_ctx, stream,
        };

        /// GPUs and their attributes.
        pub mod device {
            pub use candle_rocm_runtime::device::{
                count as get_count, read_attribute as get_attribute,
            };
            pub use candle_rocm_runtime::driver_api::{
                default_pool as get_default_mem_pool, default_pool as get_mem_pool, get,
                name as get_name, total_mem, uuid as get_uuid,
            };
        }

        /// The thread's current GPU.
        pub mod ctx {
            pub use candle_rocm_runtime::driver_api::synchronize;
            pub use candle_rocm_runtime::raw_handles::result::ctx::{get_current, set_current};
        }

        /// Memory pools.
        pub mod mem_pool {
            pub use candle_rocm_runtime::driver_api::trim_pool as trim_to;
            pub use candle_rocm_runtime::raw_handles::result::mem_pool::{
                alloc_async, get_attribute, set_attribute,
            };
        }
    }

    /// Types under CUDA's own names.
    pub mod sys {
        pub use candle_rocm_runtime::cuda_names::{
            CUcontext, CUctx_flags, CUctx_flags as CUctx_flags_enum, CUdevice, CUdevice_attribute,
            CUdevice_attribute as CUdevice_attribute_enum, CUdeviceptr, CUevent_flags,
            CUevent_flags as CUevent_flags_enum, CUevent_wait_flags,
            CUevent_wait_flags as CUevent_wait_flags_enum, CUfunc_cache,
            CUfunc_cache as CUfunc_cache_enum, CUfunction_attribute,
            CUfunction_attribute as CUfunction_attribute_enum, CUgraphInstantiate_flags,
            CUgraphInstantiate_flags as CUgraphInstantiate_flags_enum, CUgraphMem_attribute,
            CUgraphMem_attribute as CUgraphMem_attribute_enum, CUhostFn, CUlimit,
            CUlimit as CUlimit_enum, CUmemPool_attribute,
            CUmemPool_attribute as CUmemPool_attribute_enum, CUmemoryPool, CUoccupancy_flags,
            CUoccupancy_flags as CUoccupancy_flags_enum, CUresult, CUresult as cudaError_enum,
            CUstream, CUstreamCaptureMode, CUstreamCaptureMode as CUstreamCaptureMode_enum,
            CUstreamCaptureStatus, CUstreamCaptureStatus as CUstreamCaptureStatus_enum,
            CUstream_flags, CUstream_flags as CUstream_flags_enum, CUuuid,
            CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_WRITECOMBINED,
        };
        pub use candle_rocm_runtime::driver_api::{
            cuCtxSynchronize, cuDeviceGet, cuDeviceGetAttribute, cuDeviceGetCount,
            cuDeviceGetDefaultMemPool, cuDeviceGetMemPool, cuDeviceTotalMem_v2, cuDriverGetVersion,
            cuInit, cuMemGetInfo_v2, cuMemPoolGetAttribute, cuMemPoolSetAttribute, cuMemPoolTrimTo,
        };
        pub use candle_rocm_runtime::hip::types::{
            hipEvent_t as CUevent, hipFunction_t as CUfunction, hipGraphExec_t as CUgraphExec,
            hipGraphNode_t as CUgraphNode, hipGraph_t as CUgraph, hipModule_t as CUmodule,
        };
        pub use candle_rocm_runtime::raw_handles::devices::{
            cuCtxEnablePeerAccess, cuCtxGetCurrent, cuCtxGetDevice, cuCtxSetCurrent,
            cuDeviceCanAccessPeer, cuDeviceGetGraphMemAttribute, cuDeviceGetName,
            cuDeviceGetPCIBusId, cuDeviceGetUuid, cuDeviceGetUuid_v2, cuDeviceGraphMemTrim,
            cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRetain, cuMemcpyPeerAsync,
        };
        pub use candle_rocm_runtime::raw_handles::graphs::{
            cuGraphDestroy, cuGraphExecDestroy, cuGraphGetNodes, cuGraphInstantiateWithFlags,
            cuGraphLaunch, cuGraphUpload,
        };
        pub use candle_rocm_runtime::raw_handles::memory::{
            cuMemAllocAsync, cuMemAllocFromPoolAsync, cuMemAllocHost_v2, cuMemAlloc_v2,
            cuMemFreeAsync, cuMemFreeHost, cuMemFree_v2, cuMemHostAlloc,
            cuMemHostGetDevicePointer_v2, cuMemHostRegister_v2, cuMemHostUnregister,
            cuMemcpyDtoDAsync_v2, cuMemcpyDtoD_v2, cuMemcpyDtoHAsync_v2, cuMemcpyDtoH_v2,
            cuMemcpyHtoDAsync_v2, cuMemcpyHtoD_v2, cuMemsetD32Async, cuMemsetD32_v2,
            cuMemsetD8Async, cuMemsetD8_v2,
        };
        pub use candle_rocm_runtime::raw_handles::modules::{
            cuFuncGetAttribute, cuFuncSetAttribute, cuFuncSetCacheConfig,
            cuLaunchCooperativeKernel, cuLaunchKernel, cuModuleGetFunction, cuModuleGetGlobal_v2,
            cuModuleLoadData, cuModuleUnload, cuOccupancyMaxActiveBlocksPerMultiprocessor,
        };
        pub use candle_rocm_runtime::raw_handles::streams::{
            cuCtxGetStreamPriorityRange, cuEventCreate, cuEventDestroy_v2, cuEventElapsedTime,
            cuEventElapsedTime_v2, cuEventQuery, cuEventRecord, cuEventSynchronize,
            cuLaunchHostFunc, cuStreamBeginCapture_v2, cuStreamCreate, cuStreamCreateWithPriority,
            cuStreamDestroy_v2, cuStreamEndCapture, cuStreamIsCapturing, cuStreamQuery,
            cuStreamSynchronize, cuStreamWaitEvent, cuThreadExchangeStreamCaptureMode,
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

/// Convolutions and other layers of networks.
pub mod cudnn {
    pub use candle_rocm_runtime::dnn::{
        sys, ActivationDescriptor, ActivationForward, ConvBackwardData,
        ConvBackwardData as Conv2dBackwardData, ConvBackwardFilter,
        ConvBackwardFilter as Conv2dBackwardFilter, ConvBiasActivationForward, ConvDescriptor,
        ConvDescriptor as Conv2dDescriptor, ConvForward, ConvForward as Conv2dForward,
        Dnn as Cudnn, DnnDataType as CudnnDataType, FilterDescriptor, FlatIndices, NoIndices,
        PoolingDescriptor, PoolingForward, ReduceTensor, ReductionDescriptor, Softmax,
        SoftmaxForward, TensorDescriptor,
    };
    pub use result::CudnnError;

    /// Functions that return a result.
    pub mod result {
        pub use candle_rocm_runtime::error::DnnError as CudnnError;
    }

    /// cudarc's safe layer, whose items it also exports one level up.
    pub mod safe {
        pub use super::{
            ActivationDescriptor, ActivationForward, Conv2dBackwardData, Conv2dBackwardFilter,
            Conv2dDescriptor, Conv2dForward, ConvBackwardData, ConvBackwardFilter,
            ConvBiasActivationForward, ConvDescriptor, ConvForward, Cudnn, CudnnDataType,
            CudnnError, FilterDescriptor, FlatIndices, NoIndices, PoolingDescriptor,
            PoolingForward, ReduceTensor, ReductionDescriptor, Softmax, SoftmaxForward,
            TensorDescriptor,
        };
    }
}

/// Collectives over several GPUs.
pub mod nccl {
    pub use candle_rocm_runtime::communication::{Comm, Group, Id, NcclType, ReduceOp};
    pub use result::{group_end, group_start};

    /// Functions that return a result.
    pub mod result {
        pub use candle_rocm_runtime::communication::result::{
            all_gather, all_reduce, broadcast, comm_abort, comm_count, comm_cu_device,
            comm_destroy, comm_finalize, comm_init_all, comm_init_rank, comm_user_rank,
            get_nccl_version, get_uniqueid, group_end, group_start, recv, reduce, reduce_scatter,
            send, NcclError, NcclStatus,
        };
    }

    /// cudarc's safe layer, whose items it also exports one level up.
    pub mod safe {
        pub use super::{group_end, group_start, Comm, Group, Id, NcclType, ReduceOp};
    }

    /// Types under NCCL's own names.
    pub mod sys {
        pub use candle_rocm_runtime::communication::sys::{
            cudaStream_t, ncclComm, ncclComm_t, ncclDataType_t, ncclRedOp_t, ncclResult_t,
            ncclUniqueId,
        };
    }
}

/// Ranges and marks for profilers.
pub mod nvtx {
    pub use candle_rocm_runtime::nvtx::{mark, name_category, scoped_range, Event, Payload, Range};

    /// Functions without types of their own.
    pub mod result {
        pub use candle_rocm_runtime::nvtx::result::{
            mark, name_category, name_os_thread, range_end, range_pop, range_push, range_start,
        };
    }

    /// cudarc's safe layer, whose items it also exports one level up.
    pub mod safe {
        pub use super::{mark, name_category, scoped_range, Event, Payload, Range};
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
