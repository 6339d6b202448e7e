//! What host code asks of kernels, under the CUDA runtime's names.

use std::ffi::{c_int, c_uint, c_void};

use super::errors::returned;
use super::registry;
use crate::base::error::{Error, Result};
use crate::foreign::current_device;

/// `cudaFuncAttributeMaxDynamicSharedMemorySize`.
const MAX_DYNAMIC_SHARED: c_uint = 8;

/// `cudaFuncAttributes`, as our header has it.
#[repr(C)]
pub struct Attributes {
    shared_size_bytes: usize,
    const_size_bytes: usize,
    local_size_bytes: usize,
    max_threads_per_block: c_int,
    num_regs: c_int,
    ptx_version: c_int,
    binary_version: c_int,
    cache_mode_ca: c_int,
    max_dynamic_shared_size_bytes: c_int,
    preferred_shmem_carveout: c_int,
}

/// `cudaFuncGetAttributes`. Registers, local memory and NVIDIA's versions are 0.
///
/// # Safety
/// As CUDA's.
#[no_mangle]
pub unsafe extern "C" fn cudaFuncGetAttributes(
    attributes: *mut Attributes,
    kernel: *const c_void,
) -> c_int {
    let ask = || -> Result<()> {
        let device = current_device()?;
        let function = registry::function(kernel, device)?;
        let own = function.static_lds_bytes();
        let known = Attributes {
            shared_size_bytes: own as usize,
            const_size_bytes: 0,
            local_size_bytes: 0,
            max_threads_per_block: function.largest_workgroup() as c_int,
            num_regs: 0,
            ptx_version: 0,
            binary_version: 0,
            cache_mode_ca: 0,
            max_dynamic_shared_size_bytes: device.info().max_lds_bytes.saturating_sub(own) as c_int,
            preferred_shmem_carveout: -1,
        };
        // SAFETY: the caller's promise.
        unsafe { *attributes = known };
        Ok(())
    };
    returned("cudaFuncGetAttributes", ask())
}

/// `cudaFuncSetAttribute`: what a workgroup can have of LDS needs no asking for; more than that is an error.
///
/// # Safety
/// As CUDA's.
#[no_mangle]
pub unsafe extern "C" fn cudaFuncSetAttribute(
    kernel: *const c_void,
    attribute: c_uint,
    value: c_int,
) -> c_int {
    let set = || -> Result<()> {
        let device = current_device()?;
        let function = registry::function(kernel, device)?;
        match attribute {
            MAX_DYNAMIC_SHARED => function.check_dynamic_lds(value.into()),
            _ => Ok(()),
        }
    };
    returned("cudaFuncSetAttribute", set())
}

/// `cudaFuncSetCacheConfig`: a preference, which nothing here depends on.
///
/// # Safety
/// None is needed.
#[no_mangle]
pub unsafe extern "C" fn cudaFuncSetCacheConfig(_kernel: *const c_void, _config: c_uint) -> c_int {
    0
}

/// `cudaOccupancyMaxActiveBlocksPerMultiprocessor`.
///
/// # Safety
/// As CUDA's.
#[no_mangle]
pub unsafe extern "C" fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(
    blocks: *mut c_int,
    kernel: *const c_void,
    threads: c_int,
    shared: usize,
) -> c_int {
    let ask = || -> Result<()> {
        let function = registry::function(kernel, current_device()?)?;
        let threads = u32::try_from(threads)
            .map_err(|_| Error::invalid(format!("workgroups of {threads} work-items")))?;
        let count = function.active_workgroups(threads, shared)?;
        // SAFETY: the caller's promise.
        unsafe { *blocks = count as c_int };
        Ok(())
    };
    returned("cudaOccupancyMaxActiveBlocksPerMultiprocessor", ask())
}
