//! Enumerations under the names that CUDA, and so cudarc and Candle, give them.
//!
//! Candle spells these in its own source. Their numbers are HIP's where HIP has the same enumeration
//! (capture modes and states, event flags); elsewhere nothing depends on the number.
#![allow(non_camel_case_types, clippy::upper_case_acronyms, missing_docs)]

use crate::base::hip::types::{attribute, hipStream_t};

/// An address in device memory; 0 is no address.
pub type CUdeviceptr = u64;
/// A GPU's number.
pub type CUdevice = i32;
/// A stream's handle.
pub type CUstream = hipStream_t;

/// Flag of page-locked memory: all contexts see it as page-locked.
pub const CU_MEMHOSTALLOC_PORTABLE: u32 = 1;
/// Flag of page-locked memory: the device can address it.
pub const CU_MEMHOSTALLOC_DEVICEMAP: u32 = 2;
/// Flag of page-locked memory: fast to write in order, slow to read.
pub const CU_MEMHOSTALLOC_WRITECOMBINED: u32 = 4;

/// What an event does beside ordering work.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CUevent_flags {
    /// Measures time.
    CU_EVENT_DEFAULT = 0,
    /// Waiting for it yields the CPU.
    CU_EVENT_BLOCKING_SYNC = 1,
    /// Measures no time.
    CU_EVENT_DISABLE_TIMING = 2,
    /// Can be shared between processes.
    CU_EVENT_INTERPROCESS = 4,
}

/// Whether a stream's work is captured into a graph.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CUstreamCaptureStatus {
    /// It runs.
    CU_STREAM_CAPTURE_STATUS_NONE = 0,
    /// It is captured.
    CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
    /// It was being captured until an error.
    CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2,
}

/// Which calls a capture forbids.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CUstreamCaptureMode {
    /// Unsafe calls, from any thread.
    CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
    /// Unsafe calls, from the capturing thread.
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
    /// None.
    CU_STREAM_CAPTURE_MODE_RELAXED = 2,
}

/// How a graph is made launchable: a sum of flags, 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CUgraphInstantiate_flags(pub u32);

impl CUgraphInstantiate_flags {
    /// Free what a launch allocated before the next launch.
    pub const CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH: Self = Self(1);
    /// Upload right away.
    pub const CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD: Self = Self(2);
    /// Launchable from the device.
    pub const CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH: Self = Self(4);
    /// Use the nodes' priorities.
    pub const CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY: Self = Self(8);
}

impl std::ops::BitOr for CUgraphInstantiate_flags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

macro_rules! attributes {
    ($($name:ident = $hip:ident;)*) => {
        /// A number that describes a GPU.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum CUdevice_attribute {
            $($name,)*
        }

        impl CUdevice_attribute {
            /// HIP's number for the same attribute.
            pub(crate) fn hip(self) -> u32 {
                match self {
                    $(Self::$name => attribute::$hip,)*
                }
            }
        }
    };
}
attributes! {
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = MAX_THREADS_PER_BLOCK;
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = MAX_BLOCK_DIM_X;
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y = MAX_BLOCK_DIM_Y;
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z = MAX_BLOCK_DIM_Z;
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = MAX_GRID_DIM_X;
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y = MAX_GRID_DIM_Y;
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z = MAX_GRID_DIM_Z;
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = MAX_SHARED_MEMORY_PER_BLOCK;
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = SHARED_MEMORY_PER_BLOCK_OPTIN;
    CU_DEVICE_ATTRIBUTE_WARP_SIZE = WARP_SIZE;
    CU_DEVICE_ATTRIBUTE_INTEGRATED = INTEGRATED;
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = MULTIPROCESSOR_COUNT;
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = COMPUTE_CAPABILITY_MAJOR;
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = COMPUTE_CAPABILITY_MINOR;
    CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = MEMORY_POOLS_SUPPORTED;
}

/// Whether a matrix is used as it is or transposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cublasOperation_t {
    /// As it is.
    CUBLAS_OP_N,
    /// Transposed.
    CUBLAS_OP_T,
    /// Conjugated and transposed: for real numbers, transposed.
    CUBLAS_OP_C,
}

/// The type of a matrix's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudaDataType_t {
    CUDA_R_16F,
    CUDA_R_16BF,
    CUDA_R_32F,
    CUDA_R_64F,
    CUDA_R_8I,
    CUDA_R_32I,
    CUDA_R_8F_E4M3,
    CUDA_R_8F_E5M2,
}

/// In which type a product is summed, and so the type of alpha and beta. The "fast" ones permit less
/// precision, which a vendor's library may make use of; our own kernels use no less than 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cublasComputeType_t {
    CUBLAS_COMPUTE_16F,
    CUBLAS_COMPUTE_16F_PEDANTIC,
    CUBLAS_COMPUTE_32F,
    CUBLAS_COMPUTE_32F_PEDANTIC,
    CUBLAS_COMPUTE_32F_FAST_16F,
    CUBLAS_COMPUTE_32F_FAST_16BF,
    CUBLAS_COMPUTE_32F_FAST_TF32,
    CUBLAS_COMPUTE_64F,
    CUBLAS_COMPUTE_64F_PEDANTIC,
    CUBLAS_COMPUTE_32I,
    CUBLAS_COMPUTE_32I_PEDANTIC,
}

/// What tells a GPU from every other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CUuuid {
    pub bytes: [std::ffi::c_char; 16],
}

/// What is known of a kernel. The numbers are HIP's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum CUfunction_attribute {
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
    CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
    CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES = 2,
    CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
    CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
    CU_FUNC_ATTRIBUTE_PTX_VERSION = 5,
    CU_FUNC_ATTRIBUTE_BINARY_VERSION = 6,
    CU_FUNC_ATTRIBUTE_CACHE_MODE_CA = 7,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9,
    CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET = 10,
    CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH = 11,
    CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT = 12,
    CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH = 13,
    CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14,
    CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE = 15,
}

/// How occupancy is asked for, which changes nothing here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CUoccupancy_flags {
    CU_OCCUPANCY_DEFAULT = 0,
    CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE = 1,
}

/// How LDS and cache share memory, which they do not on AMD GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CUfunc_cache {
    CU_FUNC_CACHE_PREFER_NONE = 0,
    CU_FUNC_CACHE_PREFER_SHARED = 1,
    CU_FUNC_CACHE_PREFER_L1 = 2,
    CU_FUNC_CACHE_PREFER_EQUAL = 3,
}

/// How the CPU waits for a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CUctx_flags {
    CU_CTX_SCHED_AUTO = 0,
    CU_CTX_SCHED_SPIN = 1,
    CU_CTX_SCHED_YIELD = 2,
    CU_CTX_SCHED_BLOCKING_SYNC = 4,
}

/// Limits of a GPU that CUDA lets programs choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CUlimit {
    CU_LIMIT_STACK_SIZE = 0,
    CU_LIMIT_PRINTF_FIFO_SIZE = 1,
    CU_LIMIT_MALLOC_HEAP_SIZE = 2,
    CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH = 3,
    CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT = 4,
    CU_LIMIT_MAX_L2_FETCH_GRANULARITY = 5,
    CU_LIMIT_PERSISTING_L2_CACHE_SIZE = 6,
}

/// A GPU's memory pool: its number, and one, so that none is null.
pub type CUmemoryPool = *mut u8;

/// What is known of a memory pool, and can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CUmemPool_attribute {
    CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES = 1,
    CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC = 2,
    CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES = 3,
    CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4,
    CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT = 5,
    CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH = 6,
    CU_MEMPOOL_ATTR_USED_MEM_CURRENT = 7,
    CU_MEMPOOL_ATTR_USED_MEM_HIGH = 8,
}

/// How a call of the driver ended. The numbers are HIP's, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum CUresult {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_DEINITIALIZED = 4,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_IMAGE = 200,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
    CUDA_ERROR_INVALID_HANDLE = 400,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
    CUDA_ERROR_LAUNCH_FAILED = 719,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
    CUDA_ERROR_UNKNOWN = 999,
}

/// How a call of cuBLAS ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cublasStatus_t {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_ARCH_MISMATCH = 8,
    CUBLAS_STATUS_MAPPING_ERROR = 11,
    CUBLAS_STATUS_EXECUTION_FAILED = 13,
    CUBLAS_STATUS_INTERNAL_ERROR = 14,
    CUBLAS_STATUS_NOT_SUPPORTED = 15,
    CUBLAS_STATUS_LICENSE_ERROR = 16,
}

/// A hint that nothing here needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cublasGemmAlgo_t {
    CUBLAS_GEMM_DEFAULT,
    CUBLAS_GEMM_DEFAULT_TENSOR_OP,
}
