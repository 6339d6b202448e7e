//! What HIP's functions share of the CUDA driver: devices with their contexts, numbers and texts.

use std::ffi::{c_char, c_int, c_uint};
use std::sync::OnceLock;

use cuda::driver::sys::{self, CUdevice_attribute as Attribute, CUresult, Lib};

use crate::base::hip::types::*;

/// Shared memory beyond this must be asked for, kernel by kernel.
const SHARED_WITHOUT_ASKING: c_uint = 48 << 10;

/// A device and its primary context, by ordinal.
pub(super) struct Primary {
    pub device: sys::CUdevice,
    pub context: sys::CUcontext,
}

// SAFETY: CUDA's contexts may be used from any thread.
unsafe impl Send for Primary {}
// SAFETY: as above; nothing in it changes.
unsafe impl Sync for Primary {}

/// As many as a process can see.
static PRIMARIES: [OnceLock<Primary>; 64] = [const { OnceLock::new() }; 64];

/// The driver, which `load` found.
pub(super) fn driver() -> &'static Lib {
    // SAFETY: as in `load`, which comes first.
    unsafe { sys::culib() }
}

pub(super) fn status(result: CUresult) -> hipError_t {
    result as hipError_t
}

/// The device of this ordinal with its context, or the driver's error.
pub(super) fn primary(ordinal: c_int) -> std::result::Result<&'static Primary, hipError_t> {
    let slot = usize::try_from(ordinal)
        .ok()
        .and_then(|ordinal| PRIMARIES.get(ordinal))
        .ok_or(HIP_ERROR_INVALID_DEVICE)?;
    if let Some(primary) = slot.get() {
        return Ok(primary);
    }
    let (mut device, mut context) = (0, std::ptr::null_mut());
    // SAFETY: both outputs are writable.
    let result = unsafe {
        match (driver().cuDeviceGet)(&mut device, ordinal) {
            CUresult::CUDA_SUCCESS => (driver().cuDevicePrimaryCtxRetain)(&mut context, device),
            failure => failure,
        }
    };
    match result {
        // A second thread's retain is of the same context, which lives as long as the process.
        CUresult::CUDA_SUCCESS => Ok(slot.get_or_init(|| Primary { device, context })),
        failure => Err(status(failure)),
    }
}

/// Text into a C string field of so many bytes.
///
/// # Safety
/// `field` has room for `bytes` bytes.
pub(super) unsafe fn write_text(field: *mut c_char, bytes: usize, text: &[u8]) {
    let length = text.len().min(bytes - 1);
    // SAFETY: the caller's promise; the text is shorter than the field.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), field, length);
        field.add(length).write(0);
    }
}

/// CUDA's number for HIP's attribute.
pub(super) fn attribute_of(attribute: hipDeviceAttribute_t) -> Option<Attribute> {
    use Attribute::*;
    Some(match attribute {
        attribute::COMPUTE_CAPABILITY_MAJOR => CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
        attribute::COMPUTE_CAPABILITY_MINOR => CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        attribute::MAX_BLOCK_DIM_X => CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X,
        attribute::MAX_BLOCK_DIM_Y => CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,
        attribute::MAX_BLOCK_DIM_Z => CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z,
        attribute::MAX_GRID_DIM_X => CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X,
        attribute::MAX_GRID_DIM_Y => CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
        attribute::MAX_GRID_DIM_Z => CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z,
        attribute::MAX_THREADS_PER_BLOCK => CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
        attribute::MULTIPROCESSOR_COUNT => CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
        // A launch asks for what it needs, so all that can be asked for is there.
        attribute::MAX_SHARED_MEMORY_PER_BLOCK | attribute::SHARED_MEMORY_PER_BLOCK_OPTIN => {
            CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        }
        attribute::WARP_SIZE => CU_DEVICE_ATTRIBUTE_WARP_SIZE,
        attribute::INTEGRATED => CU_DEVICE_ATTRIBUTE_INTEGRATED,
        attribute::MEMORY_POOLS_SUPPORTED => CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
        _ => return None,
    })
}

/// Raises a kernel's limit of shared memory where a launch needs more than every kernel may have.
///
/// # Safety
/// `function` is a kernel of the current context.
pub(super) unsafe fn allow_shared(function: sys::CUfunction, bytes: c_uint) -> CUresult {
    if bytes <= SHARED_WITHOUT_ASKING {
        return CUresult::CUDA_SUCCESS;
    }
    let limit = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    // SAFETY: the caller's promise.
    unsafe { (driver().cuFuncSetAttribute)(function, limit, bytes as c_int) }
}

/// What the driver calls an error; null for a number that it does not know.
pub(super) fn error_text(
    error: hipError_t,
    lookup: unsafe extern "C" fn(CUresult, *mut *const c_char) -> CUresult,
) -> *const c_char {
    let mut text = std::ptr::null();
    // SAFETY: the function takes any number for an error, which is what it does with one that it does not know; both
    // signatures are the same in C. It writes a static string or null.
    unsafe {
        let lookup: unsafe extern "C" fn(hipError_t, *mut *const c_char) -> hipError_t =
            std::mem::transmute(lookup);
        lookup(error, &mut text);
    }
    text
}
