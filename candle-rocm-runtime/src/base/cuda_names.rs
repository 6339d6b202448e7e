//! Enumerations under the names that CUDA, and so cudarc and Candle, give them.
//!
//! Candle spells these in its own source. Their numbers are HIP's where HIP has the same enumeration
//! (capture modes and states, event flags); elsewhere nothing depends on the number.
#![allow(non_camel_case_types, clippy::upper_case_acronyms, missing_docs)]

use std::ffi::{c_void, CStr};

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

/// Flags that programs add up, each sum a value: so that `as u64` gives its number, as of C's enumeration.
macro_rules! flags {
    ($(#[$doc:meta])* $name:ident: $($(#[$of_one:meta])* $flag:ident = $number:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum $name {
            $($(#[$of_one])* $flag = $number,)*
        }

        impl $name {
            const ALL: &[Self] = &[$(Self::$flag,)*];
        }

        impl std::ops::BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                Self::ALL[(self as u32 | other as u32) as usize]
            }
        }
    };
}
flags! {
    /// How a graph is made launchable: a sum of flags, the default none.
    CUgraphInstantiate_flags:
    /// None.
    #[default]
    NONE = 0;
    /// Free what a launch allocated before the next launch.
    CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH = 1;
    /// Upload right away.
    CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD = 2;
    #[doc(hidden)]
    FLAGS_3 = 3;
    /// Launchable from the device.
    CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH = 4;
    #[doc(hidden)]
    FLAGS_5 = 5;
    #[doc(hidden)]
    FLAGS_6 = 6;
    #[doc(hidden)]
    FLAGS_7 = 7;
    /// Use the nodes' priorities.
    CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY = 8;
    #[doc(hidden)]
    FLAGS_9 = 9;
    #[doc(hidden)]
    FLAGS_10 = 10;
    #[doc(hidden)]
    FLAGS_11 = 11;
    #[doc(hidden)]
    FLAGS_12 = 12;
    #[doc(hidden)]
    FLAGS_13 = 13;
    #[doc(hidden)]
    FLAGS_14 = 14;
    #[doc(hidden)]
    FLAGS_15 = 15;
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

/// Whether a stream and the legacy default stream wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum CUstream_flags {
    CU_STREAM_DEFAULT = 0,
    CU_STREAM_NON_BLOCKING = 1,
}

/// How a stream waits for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum CUevent_wait_flags {
    CU_EVENT_WAIT_DEFAULT = 0,
    CU_EVENT_WAIT_EXTERNAL = 1,
}

/// A function of the host's in a stream's order.
pub type CUhostFn = Option<unsafe extern "C" fn(data: *mut c_void)>;

/// A GPU's context: its number, and one, so that none is null. HIP has one for each GPU of a process.
pub type CUcontext = *mut u8;

/// What is known of the memory of a GPU's graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum CUgraphMem_attribute {
    CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT = 0,
    CU_GRAPH_MEM_ATTR_USED_MEM_HIGH = 1,
    CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT = 2,
    CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH = 3,
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

macro_rules! results {
    ($($name:ident = $number:literal;)*) => {
        /// How a call of the driver ended. The numbers are HIP's, too.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u32)]
        pub enum CUresult {
            $($name = $number,)*
        }

        impl CUresult {
            /// That of this number; [`CUresult::CUDA_ERROR_UNKNOWN`] of others.
            pub(crate) fn of(number: u32) -> Self {
                match number {
                    $($number => Self::$name,)*
                    _ => Self::CUDA_ERROR_UNKNOWN,
                }
            }

            /// Its name, as C has it.
            pub(crate) fn name(self) -> &'static CStr {
                let name = match self {
                    $(Self::$name => concat!(stringify!($name), "\0"),)*
                };
                CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default()
            }
        }
    };
}
results! {
    CUDA_SUCCESS = 0;
    CUDA_ERROR_INVALID_VALUE = 1;
    CUDA_ERROR_OUT_OF_MEMORY = 2;
    CUDA_ERROR_NOT_INITIALIZED = 3;
    CUDA_ERROR_DEINITIALIZED = 4;
    CUDA_ERROR_PROFILER_DISABLED = 5;
    CUDA_ERROR_PROFILER_NOT_INITIALIZED = 6;
    CUDA_ERROR_PROFILER_ALREADY_STARTED = 7;
    CUDA_ERROR_PROFILER_ALREADY_STOPPED = 8;
    CUDA_ERROR_STUB_LIBRARY = 34;
    CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER = 36;
    CUDA_ERROR_DEVICE_UNAVAILABLE = 46;
    CUDA_ERROR_MULTICAST_RESOURCE_FULL = 47;
    CUDA_ERROR_NO_DEVICE = 100;
    CUDA_ERROR_INVALID_DEVICE = 101;
    CUDA_ERROR_DEVICE_NOT_LICENSED = 102;
    CUDA_ERROR_INVALID_IMAGE = 200;
    CUDA_ERROR_INVALID_CONTEXT = 201;
    CUDA_ERROR_CONTEXT_ALREADY_CURRENT = 202;
    CUDA_ERROR_MAP_FAILED = 205;
    CUDA_ERROR_UNMAP_FAILED = 206;
    CUDA_ERROR_ARRAY_IS_MAPPED = 207;
    CUDA_ERROR_ALREADY_MAPPED = 208;
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209;
    CUDA_ERROR_ALREADY_ACQUIRED = 210;
    CUDA_ERROR_NOT_MAPPED = 211;
    CUDA_ERROR_NOT_MAPPED_AS_ARRAY = 212;
    CUDA_ERROR_NOT_MAPPED_AS_POINTER = 213;
    CUDA_ERROR_ECC_UNCORRECTABLE = 214;
    CUDA_ERROR_UNSUPPORTED_LIMIT = 215;
    CUDA_ERROR_CONTEXT_ALREADY_IN_USE = 216;
    CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217;
    CUDA_ERROR_INVALID_PTX = 218;
    CUDA_ERROR_INVALID_GRAPHICS_CONTEXT = 219;
    CUDA_ERROR_NVLINK_UNCORRECTABLE = 220;
    CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221;
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222;
    CUDA_ERROR_JIT_COMPILATION_DISABLED = 223;
    CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY = 224;
    CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC = 225;
    CUDA_ERROR_CONTAINED = 226;
    CUDA_ERROR_INSUFFICIENT_LOADER_VERSION = 227;
    CUDA_ERROR_INVALID_SOURCE = 300;
    CUDA_ERROR_FILE_NOT_FOUND = 301;
    CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND = 302;
    CUDA_ERROR_SHARED_OBJECT_INIT_FAILED = 303;
    CUDA_ERROR_OPERATING_SYSTEM = 304;
    CUDA_ERROR_INVALID_HANDLE = 400;
    CUDA_ERROR_ILLEGAL_STATE = 401;
    CUDA_ERROR_LOSSY_QUERY = 402;
    CUDA_ERROR_NOT_FOUND = 500;
    CUDA_ERROR_NOT_READY = 600;
    CUDA_ERROR_ILLEGAL_ADDRESS = 700;
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701;
    CUDA_ERROR_LAUNCH_TIMEOUT = 702;
    CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING = 703;
    CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704;
    CUDA_ERROR_PEER_ACCESS_NOT_ENABLED = 705;
    CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE = 708;
    CUDA_ERROR_CONTEXT_IS_DESTROYED = 709;
    CUDA_ERROR_ASSERT = 710;
    CUDA_ERROR_TOO_MANY_PEERS = 711;
    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712;
    CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713;
    CUDA_ERROR_HARDWARE_STACK_ERROR = 714;
    CUDA_ERROR_ILLEGAL_INSTRUCTION = 715;
    CUDA_ERROR_MISALIGNED_ADDRESS = 716;
    CUDA_ERROR_INVALID_ADDRESS_SPACE = 717;
    CUDA_ERROR_INVALID_PC = 718;
    CUDA_ERROR_LAUNCH_FAILED = 719;
    CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE = 720;
    CUDA_ERROR_TENSOR_MEMORY_LEAK = 721;
    CUDA_ERROR_NOT_PERMITTED = 800;
    CUDA_ERROR_NOT_SUPPORTED = 801;
    CUDA_ERROR_SYSTEM_NOT_READY = 802;
    CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803;
    CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804;
    CUDA_ERROR_MPS_CONNECTION_FAILED = 805;
    CUDA_ERROR_MPS_RPC_FAILURE = 806;
    CUDA_ERROR_MPS_SERVER_NOT_READY = 807;
    CUDA_ERROR_MPS_MAX_CLIENTS_REACHED = 808;
    CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED = 809;
    CUDA_ERROR_MPS_CLIENT_TERMINATED = 810;
    CUDA_ERROR_CDP_NOT_SUPPORTED = 811;
    CUDA_ERROR_CDP_VERSION_MISMATCH = 812;
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900;
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901;
    CUDA_ERROR_STREAM_CAPTURE_MERGE = 902;
    CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903;
    CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904;
    CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905;
    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906;
    CUDA_ERROR_CAPTURED_EVENT = 907;
    CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908;
    CUDA_ERROR_TIMEOUT = 909;
    CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE = 910;
    CUDA_ERROR_EXTERNAL_DEVICE = 911;
    CUDA_ERROR_INVALID_CLUSTER_SIZE = 912;
    CUDA_ERROR_FUNCTION_NOT_LOADED = 913;
    CUDA_ERROR_INVALID_RESOURCE_TYPE = 914;
    CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION = 915;
    CUDA_ERROR_KEY_ROTATION = 916;
    CUDA_ERROR_STREAM_DETACHED = 917;
    CUDA_ERROR_GRAPH_RECAPTURE_FAILURE = 918;
    CUDA_ERROR_FABRIC_NOT_READY = 919;
    CUDA_ERROR_UNKNOWN = 999;
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
