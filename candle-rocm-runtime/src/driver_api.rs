//! The driver's functions that programs call beside cudarc's safe layer, under CUDA's own names.
//!
//! Each gives a [`CUresult`], whose [`result`](CUresult::result) is the error with all that is known of it, in the same
//! thread.

#![allow(non_snake_case)]

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

use crate::base::cuda_names::{
    CUdevice, CUdevice_attribute, CUmemPool_attribute, CUmemoryPool, CUresult, CUuuid,
};
use crate::base::error::{Error, ErrorKind, Result};
use crate::device::gpu::Device;
use crate::foreign::current_device;
use crate::pool::allocator::{Pool, Waited};
use crate::runtime;

thread_local! {
    /// The last error, until somebody asks for it.
    static LAST: RefCell<Option<Error>> = const { RefCell::new(None) };
}

/// What is no failure: programs go on after it.
const STATES: [CUresult; 6] = [
    CUresult::CUDA_ERROR_NOT_READY,
    CUresult::CUDA_ERROR_CONTEXT_ALREADY_CURRENT,
    CUresult::CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
    CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
    CUresult::CUDA_ERROR_PEER_ACCESS_NOT_ENABLED,
    CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
];

impl CUresult {
    /// Success, or an error.
    ///
    /// # Errors
    /// Anything but success: with what the call that this thread made last said, where it gave this number. States that
    /// programs ask for by the pattern `DriverError(number)` are the number alone.
    pub fn result(self) -> Result<()> {
        if self == Self::CUDA_SUCCESS {
            return Ok(());
        }
        let last = LAST.with(|last| last.borrow_mut().take());
        if STATES.contains(&self) {
            return Err(Error::DriverError(self));
        }
        Err(match last {
            Some(error) if error.cu_result() == self => error,
            _ => Error::new(ErrorKind::Hip(self as u32), format!("{self:?}")),
        })
    }
}

/// What a function gives for this.
pub(crate) fn given(result: Result<()>) -> CUresult {
    match result {
        Ok(()) => CUresult::CUDA_SUCCESS,
        Err(error) => {
            let number = error.cu_result();
            LAST.with(|last| *last.borrow_mut() = Some(error));
            number
        }
    }
}

/// Writes what `make` gives.
///
/// # Safety
/// The place is writable.
pub(crate) unsafe fn written<T>(place: *mut T, make: impl FnOnce() -> Result<T>) -> CUresult {
    given(make().map(|value| {
        // SAFETY: the caller's promise.
        unsafe { place.write(value) };
    }))
}

/// The GPU of this number.
pub(crate) fn device(number: CUdevice) -> Result<&'static Arc<Device>> {
    let ordinal =
        usize::try_from(number).map_err(|_| Error::invalid(format!("there is no GPU {number}")))?;
    runtime::current()?.device(ordinal)
}

/// The pool that a handle names.
pub(crate) fn pool(handle: CUmemoryPool) -> Result<&'static Pool> {
    match (handle as usize).checked_sub(1) {
        Some(ordinal) => Ok(runtime::current()?.device(ordinal)?.pool()),
        None => Err(Error::invalid("a null memory pool")),
    }
}

/// Starts the runtime.
///
/// # Safety
/// None is needed; CUDA's is C.
pub unsafe fn cuInit(_flags: u32) -> CUresult {
    given(runtime::current().map(drop))
}

/// HIP's version.
///
/// # Safety
/// The place is writable.
pub unsafe fn cuDriverGetVersion(version: *mut c_int) -> CUresult {
    // SAFETY: the caller's promise.
    unsafe { written(version, || Ok(runtime::current()?.version())) }
}

/// The number of GPUs.
///
/// # Safety
/// The place is writable.
pub unsafe fn cuDeviceGetCount(count: *mut c_int) -> CUresult {
    // SAFETY: the caller's promise.
    unsafe { written(count, || Ok(runtime::current()?.device_count() as c_int)) }
}

/// A GPU.
///
/// # Safety
/// The place is writable.
pub unsafe fn cuDeviceGet(place: *mut CUdevice, ordinal: c_int) -> CUresult {
    // SAFETY: the caller's promise.
    unsafe { written(place, || device(ordinal).map(|_| ordinal)) }
}

/// A number that describes a GPU.
///
/// # Safety
/// The place is writable.
pub unsafe fn cuDeviceGetAttribute(
    value: *mut c_int,
    attribute: CUdevice_attribute,
    number: CUdevice,
) -> CUresult {
    // SAFETY: the caller's promise.
    unsafe { written(value, || attribute.read(device(number)?)) }
}

/// A GPU's memory, in bytes.
///
/// # Safety
/// The place is writable.
pub unsafe fn cuDeviceTotalMem_v2(bytes: *mut usize, number: CUdevice) -> CUresult {
    // SAFETY: the caller's promise.
    unsafe { written(bytes, || Ok(device(number)?.info().total_memory)) }
}

/// Free and total memory of the thread's current GPU, in bytes; what the pool keeps is not free.
///
/// # Safety
/// Both places are writable.
pub unsafe fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> CUresult {
    given(mem_get_info().map(|(is_free, all)| {
        // SAFETY: the caller's promise.
        unsafe {
            free.write(is_free);
            total.write(all);
        }
    }))
}

/// Waits for the thread's current GPU.
///
/// # Safety
/// None is needed; CUDA's is C.
pub unsafe fn cuCtxSynchronize() -> CUresult {
    given(synchronize())
}

/// The pool of a GPU's memory: each has one.
///
/// # Safety
/// The place is writable.
pub unsafe fn cuDeviceGetDefaultMemPool(place: *mut CUmemoryPool, number: CUdevice) -> CUresult {
    // SAFETY: the caller's promise.
    unsafe {
        written(place, || {
            device(number).map(|gpu| (gpu.ordinal() + 1) as CUmemoryPool)
        })
    }
}

/// The same.
///
/// # Safety
/// The place is writable.
pub unsafe fn cuDeviceGetMemPool(place: *mut CUmemoryPool, number: CUdevice) -> CUresult {
    // SAFETY: the caller's promise.
    unsafe { cuDeviceGetDefaultMemPool(place, number) }
}

/// Gives what the pool keeps back to the driver, if it has got more than so many bytes from it. What is in use stays, and
/// so may some of the rest, as memory comes in segments.
///
/// # Safety
/// None is needed; CUDA's is C.
pub unsafe fn cuMemPoolTrimTo(handle: CUmemoryPool, keep: usize) -> CUresult {
    given(pool(handle).and_then(|pool| pool.trim_to(keep)))
}

/// What is known of a pool.
///
/// # Safety
/// The place is that of a value of the attribute's type: u64, and int for the first three.
pub unsafe fn cuMemPoolGetAttribute(
    handle: CUmemoryPool,
    attribute: CUmemPool_attribute,
    value: *mut c_void,
) -> CUresult {
    use CUmemPool_attribute as Attribute;
    let ask = || {
        let pool = pool(handle)?;
        let statistics = pool.statistics();
        Ok(match attribute {
            Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT => statistics.reserved as u64,
            Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH => statistics.peak_reserved as u64,
            Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT => statistics.in_use as u64,
            Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH => statistics.peak_in_use as u64,
            Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD => pool.release_threshold() as u64,
            _ => {
                return Err(Error::unsupported(format!(
                    "{attribute:?}, which this pool does not count"
                )))
            }
        })
    };
    // SAFETY: the caller's promise; what has another type is refused.
    unsafe { written(value.cast::<u64>(), ask) }
}

/// Sets how many bytes a pool may hold after a synchronisation (the release threshold), or, with 0, begins to count the
/// peaks anew; which ways of reuse the pool has leave for changes nothing.
///
/// # Safety
/// The place is that of a `u64`, for the threshold and the peaks.
pub unsafe fn cuMemPoolSetAttribute(
    handle: CUmemoryPool,
    attribute: CUmemPool_attribute,
    place: *mut c_void,
) -> CUresult {
    use CUmemPool_attribute as Attribute;
    // SAFETY: the caller's promise; it is called for attributes of 64 bits alone.
    let value = |place: *mut c_void| unsafe { place.cast::<u64>().read_unaligned() };
    given(pool(handle).and_then(|pool| match attribute {
        Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD => {
            pool.set_release_threshold(usize::try_from(value(place)).unwrap_or(usize::MAX));
            Ok(())
        }
        Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH | Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH => {
            match value(place) {
                0 => {
                    pool.forget_peaks();
                    Ok(())
                }
                peak => Err(Error::invalid(format!(
                    "{attribute:?} can be set to 0 alone, to count anew, and not to {peak}"
                ))),
            }
        }
        // Leave to reuse memory, which may be left unused.
        Attribute::CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES
        | Attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC
        | Attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES => Ok(()),
        _ => Err(Error::unsupported(format!("setting {attribute:?}"))),
    }))
}

/// Free and total memory of the thread's current GPU, in bytes; what the pool keeps is not free.
///
/// # Errors
/// The runtime cannot start, or HIP has no answer.
pub fn mem_get_info() -> Result<(usize, usize)> {
    current_device()?.memory()
}

/// Waits for the thread's current GPU.
///
/// # Errors
/// The runtime cannot start; or what an earlier kernel did.
pub fn synchronize() -> Result<()> {
    let device = current_device()?;
    device.synchronize()?;
    device
        .existing_pool()
        .map_or(Ok(()), |pool| pool.after_synchronisation(Waited::Gpu))
}

/// Starts the runtime.
///
/// # Errors
/// It cannot be started.
pub fn init() -> Result<()> {
    runtime::current().map(drop)
}

/// The GPU of this number.
///
/// # Errors
/// There is none.
pub fn get(ordinal: c_int) -> Result<CUdevice> {
    device(ordinal).map(|_| ordinal)
}

/// A GPU's marketing name.
///
/// # Errors
/// There is no such GPU.
pub fn name(number: CUdevice) -> Result<String> {
    Ok(device(number)?.info().name.clone())
}

/// What tells a GPU from every other.
///
/// # Errors
/// There is no such GPU, or HIP cannot describe it.
pub fn uuid(number: CUdevice) -> Result<CUuuid> {
    device(number)?.uuid()
}

/// A GPU's memory, in bytes.
///
/// # Safety
/// None is needed; cudarc's is unsafe, too.
///
/// # Errors
/// There is no such GPU.
pub unsafe fn total_mem(number: CUdevice) -> Result<usize> {
    Ok(device(number)?.info().total_memory)
}

/// The pool of a GPU's memory.
///
/// # Safety
/// None is needed; cudarc's is unsafe, too.
///
/// # Errors
/// There is no such GPU.
pub unsafe fn default_pool(number: CUdevice) -> Result<CUmemoryPool> {
    let mut handle = std::ptr::null_mut();
    // SAFETY: the place is writable.
    unsafe { cuDeviceGetDefaultMemPool(&mut handle, number) }.result()?;
    Ok(handle)
}

/// As [`cuMemPoolTrimTo`].
///
/// # Safety
/// None is needed; cudarc's is unsafe, too.
///
/// # Errors
/// There is no such pool, or what an earlier kernel did.
pub unsafe fn trim_pool(handle: CUmemoryPool, keep: usize) -> Result<()> {
    // SAFETY: nothing is needed.
    unsafe { cuMemPoolTrimTo(handle, keep) }.result()
}
