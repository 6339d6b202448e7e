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
        pub use candle_rocm_runtime::foreign::mem_get_info;

        /// GPUs and their attributes.
        pub mod device {
            pub use candle_rocm_runtime::device::{
                count as get_count, numbered as get, read_attribute as get_attribute,
            };
        }
    }

    /// Types under CUDA's own names.
    pub mod sys {
        pub use candle_rocm_runtime::cuda_names::{
            CUdevice, CUdevice_attribute, CUdevice_attribute as CUdevice_attribute_enum,
            CUdeviceptr, CUevent_flags, CUgraphInstantiate_flags, CUstream, CUstreamCaptureMode,
            CUstreamCaptureStatus, CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_PORTABLE,
            CU_MEMHOSTALLOC_WRITECOMBINED,
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
            cublasComputeType_t, cublasGemmAlgo_t, cublasOperation_t, cudaDataType_t,
        };
    }
}

/// Matrix products with what follows them.
pub mod cublaslt {
    pub use candle_rocm_runtime::blas_lt::{result, sys};
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
