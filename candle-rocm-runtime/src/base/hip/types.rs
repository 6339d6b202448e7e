//! The C types of HIP that the runtime passes, written out here.
//!
//! They are the runtime's own and not those of `cubecl-hip-sys`, because that crate picks its bindings
//! by the ROCm that `hipconfig` reports on the machine that builds, panics on a symbol that the loaded
//! library lacks, and looks for no versioned `libamdhip64.so.N`: one binary could not serve ROCm 6 and 7.
//! Handles are opaque, and the numbers below are the same in ROCm 6.2 to 7.2 (compared header by header).
#![allow(non_camel_case_types)]

use std::ffi::{c_char, c_int, c_void};

/// `hipError_t`: 0 is success.
pub type hipError_t = u32;
/// `hipStream_t`. Null is the legacy default stream, [`STREAM_PER_THREAD`] the calling thread's.
pub type hipStream_t = *mut c_void;
/// `hipEvent_t`.
pub type hipEvent_t = *mut c_void;
/// `hipModule_t`.
pub type hipModule_t = *mut c_void;
/// `hipFunction_t`.
pub type hipFunction_t = *mut c_void;
/// `hipGraph_t`.
pub type hipGraph_t = *mut c_void;
/// `hipGraphExec_t`.
pub type hipGraphExec_t = *mut c_void;
/// `hipGraphNode_t`.
pub type hipGraphNode_t = *mut c_void;
/// `hipHostFn_t`.
pub type hipHostFn_t = Option<unsafe extern "C" fn(data: *mut c_void)>;
/// `hipDeviceptr_t`.
pub type hipDeviceptr_t = *mut c_void;
/// `hipDeviceAttribute_t`, see [`attribute`].
pub type hipDeviceAttribute_t = u32;
/// `hipFunction_attribute`.
pub type hipFunction_attribute = u32;
/// `hipMemcpyKind`.
pub type hipMemcpyKind = u32;
/// `hipStreamCaptureMode`.
pub type hipStreamCaptureMode = u32;
/// `hipStreamCaptureStatus`.
pub type hipStreamCaptureStatus = u32;

/// `hipStreamPerThread`: each thread of the process has its own stream behind this handle.
pub const STREAM_PER_THREAD: hipStream_t = 2 as hipStream_t;

/// `hipSuccess`.
pub const HIP_SUCCESS: hipError_t = 0;
/// `hipErrorInvalidValue`.
pub const HIP_ERROR_INVALID_VALUE: hipError_t = 1;
/// `hipErrorOutOfMemory`.
pub const HIP_ERROR_OUT_OF_MEMORY: hipError_t = 2;
/// `hipErrorNoDevice`.
pub const HIP_ERROR_NO_DEVICE: hipError_t = 100;
/// `hipErrorInvalidDevice`.
pub const HIP_ERROR_INVALID_DEVICE: hipError_t = 101;
/// `hipErrorNoBinaryForGpu`.
pub const HIP_ERROR_NO_BINARY_FOR_GPU: hipError_t = 209;
/// `hipErrorNotFound`.
pub const HIP_ERROR_NOT_FOUND: hipError_t = 500;
/// `hipErrorNotReady`.
pub const HIP_ERROR_NOT_READY: hipError_t = 600;
/// `hipErrorPeerAccessAlreadyEnabled`.
pub const HIP_ERROR_PEER_ACCESS_ALREADY_ENABLED: hipError_t = 704;
/// What calls return after a kernel has trapped: `hipErrorPriorLaunchFailure`, `hipErrorContextIsDestroyed`,
/// `hipErrorAssert`, `hipErrorLaunchFailure`, `hipErrorUnknown`.
pub const HIP_ERRORS_OF_TRAPS: [hipError_t; 5] = [53, 709, 710, 719, 999];

/// `hipMemcpyHostToDevice`.
pub const MEMCPY_HOST_TO_DEVICE: hipMemcpyKind = 1;
/// `hipMemcpyDeviceToHost`.
pub const MEMCPY_DEVICE_TO_HOST: hipMemcpyKind = 2;
/// `hipMemcpyDeviceToDevice`.
pub const MEMCPY_DEVICE_TO_DEVICE: hipMemcpyKind = 3;

/// `hipHostMallocPortable`: page-locked for every GPU.
pub const HOST_PORTABLE: u32 = 1;
/// `hipHostMallocMapped`: kernels reach it.
pub const HOST_MAPPED: u32 = 2;
/// `hipHostMallocCoherent`: what kernels write is there for the host while they run.
pub const HOST_COHERENT: u32 = 0x4000_0000;

/// `hipStreamDefault`: a stream that the legacy default stream waits for, and that waits for it.
pub const STREAM_DEFAULT: u32 = 0;
/// `hipStreamNonBlocking`: no implicit ordering with the legacy default stream.
pub const STREAM_NON_BLOCKING: u32 = 1;
/// `hipEventBlockingSync`: waiting for the event yields the CPU.
pub const EVENT_BLOCKING_SYNC: u32 = 1;
/// `hipEventDisableTiming`: the event orders work and measures nothing.
pub const EVENT_DISABLE_TIMING: u32 = 2;

/// `hipStreamCaptureModeRelaxed`: this thread may allocate while a stream of the process captures.
pub const CAPTURE_MODE_RELAXED: hipStreamCaptureMode = 2;
/// `hipStreamCaptureStatusNone`.
pub const CAPTURE_STATUS_NONE: hipStreamCaptureStatus = 0;

/// `HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK`: the largest workgroup that the kernel was compiled for.
pub const FUNC_MAX_THREADS_PER_BLOCK: hipFunction_attribute = 0;
/// `HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES`: static LDS bytes.
pub const FUNC_SHARED_SIZE_BYTES: hipFunction_attribute = 1;

/// Values of `hipDeviceAttribute_t`.
pub mod attribute {
    /// Whether its memory is the host's.
    pub const INTEGRATED: u32 = 16;
    /// Major number of the architecture: 9 for CDNA, 11 for RDNA3.
    pub const COMPUTE_CAPABILITY_MAJOR: u32 = 23;
    /// Largest workgroup in x.
    pub const MAX_BLOCK_DIM_X: u32 = 26;
    /// Largest workgroup in y.
    pub const MAX_BLOCK_DIM_Y: u32 = 27;
    /// Largest workgroup in z.
    pub const MAX_BLOCK_DIM_Z: u32 = 28;
    /// Largest grid in x, in workgroups.
    pub const MAX_GRID_DIM_X: u32 = 29;
    /// Largest grid in y, in workgroups.
    pub const MAX_GRID_DIM_Y: u32 = 30;
    /// Largest grid in z, in workgroups.
    pub const MAX_GRID_DIM_Z: u32 = 31;
    /// Largest workgroup, in work-items.
    pub const MAX_THREADS_PER_BLOCK: u32 = 56;
    /// Minor number of the architecture.
    pub const COMPUTE_CAPABILITY_MINOR: u32 = 61;
    /// Compute units (workgroup processors where the device counts in those).
    pub const MULTIPROCESSOR_COUNT: u32 = 63;
    /// PCI bus.
    pub const PCI_BUS: u32 = 67;
    /// Device on the PCI bus.
    pub const PCI_DEVICE: u32 = 68;
    /// PCI domain.
    pub const PCI_DOMAIN: u32 = 69;
    /// LDS bytes that a workgroup can have.
    pub const MAX_SHARED_MEMORY_PER_BLOCK: u32 = 74;
    /// LDS bytes that a workgroup can have when it asks; the same on AMD.
    pub const SHARED_MEMORY_PER_BLOCK_OPTIN: u32 = 75;
    /// Wavefront size.
    pub const WARP_SIZE: u32 = 87;
    /// Whether `hipMallocAsync` works.
    pub const MEMORY_POOLS_SUPPORTED: u32 = 88;
}

/// `hipDeviceProp_tR0600`, the layout since ROCm 6, as bytes: only two of its hundred fields are read.
///
/// The structure has 1472 bytes; the buffer is larger, in case a later ROCm appends to it.
#[repr(C, align(16))]
pub struct DeviceProperties {
    bytes: [u8; 4096],
}

impl DeviceProperties {
    /// Offset of `gcnArchName`, 256 bytes (after `hipReserved[32]`).
    pub const GCN_ARCH_NAME: usize = 1160;

    /// A zeroed structure for HIP to fill.
    pub fn zeroed() -> Box<Self> {
        Box::new(Self { bytes: [0; 4096] })
    }

    fn text(&self, offset: usize) -> String {
        let field = &self.bytes[offset..offset + 256];
        let end = field.iter().position(|&b| b == 0).unwrap_or(field.len());
        String::from_utf8_lossy(&field[..end]).into_owned()
    }

    /// The marketing name, such as `AMD Radeon RX 7900 XTX`.
    pub fn name(&self) -> String {
        self.text(0)
    }

    /// What tells it from every other GPU: `uuid`, behind the name.
    pub fn uuid(&self) -> [u8; 16] {
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&self.bytes[256..272]);
        uuid
    }

    /// The architecture with its features, such as `gfx942:sramecc+:xnack-`.
    pub fn gcn_arch_name(&self) -> String {
        self.text(Self::GCN_ARCH_NAME)
    }
}

/// A C string that HIP returned, or the fallback if it is null.
///
/// # Safety
/// `text` is null or a NUL-terminated string that lives during the call.
pub unsafe fn text_or(text: *const c_char, fallback: &str) -> String {
    if text.is_null() {
        return fallback.to_owned();
    }
    // SAFETY: the caller's promise.
    unsafe { std::ffi::CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

/// `int` of the C API, for attributes and counts.
pub type hip_int = c_int;
