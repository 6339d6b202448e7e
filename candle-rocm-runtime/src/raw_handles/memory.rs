//! Memory by its address: allocations, copies, fills.
#![allow(non_snake_case)]

use std::ffi::{c_uchar, c_uint, c_void};
use std::sync::Arc;

use super::same::same;
use super::streams::{cuStreamSynchronize, stream_of};
use crate::base::cuda_names::{CUdeviceptr, CUmemoryPool, CUresult, CUstream};
use crate::base::error::{Error, Result};
use crate::base::hip::types::{
    MEMCPY_DEVICE_TO_DEVICE, MEMCPY_DEVICE_TO_HOST, MEMCPY_HOST_TO_DEVICE,
};
use crate::device::gpu::Device;
use crate::driver_api::{given, pool, written};
use crate::foreign::current_device;
use crate::order::key::StreamKey;
use crate::runtime;

/// The legacy default stream.
const LEGACY: CUstream = std::ptr::null_mut();

fn not_nothing(bytes: usize) -> Result<()> {
    match bytes {
        0 => Err(Error::invalid("an allocation of no bytes")),
        _ => Ok(()),
    }
}

/// The GPU whose pool gave this address; the thread's current one for what comes from elsewhere.
fn owner(address: CUdeviceptr) -> Result<(&'static Arc<Device>, bool)> {
    let runtime = runtime::current()?;
    for ordinal in 0..runtime.device_count() {
        let device = runtime.device(ordinal)?;
        if device
            .existing_pool()
            .is_some_and(|pool| pool.gave(address))
        {
            return Ok((device, true));
        }
    }
    Ok((current_device()?, false))
}

/// Memory of the thread's current GPU that belongs to no stream's order.
///
/// # Safety
/// The place is writable. The memory is not initialised.
pub unsafe fn cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize) -> CUresult {
    let allocate = || {
        not_nothing(bytes)?;
        let device = current_device()?;
        device.bind()?;
        device.pool().allocate_apart(bytes)
    };
    // SAFETY: the caller's promise.
    unsafe { written(address, allocate) }
}

/// Frees memory, after waiting for the GPU: of [`cuMemAlloc_v2`], of [`cuMemAllocAsync`], or what a buffer leaked.
///
/// # Safety
/// Nobody uses it after this.
pub unsafe fn cuMemFree_v2(address: CUdeviceptr) -> CUresult {
    let free = || {
        if address == 0 {
            return Ok(());
        }
        let (device, is_pooled) = owner(address)?;
        device.bind()?;
        if is_pooled {
            device.synchronize()?;
        }
        device.pool().free(address, StreamKey::of(LEGACY))
    };
    given(free())
}

/// Memory of the pool, for work given to the stream from now on.
///
/// # Safety
/// The handle is alive, and the place is writable. The memory is not initialised.
pub unsafe fn cuMemAllocAsync(
    address: *mut CUdeviceptr,
    bytes: usize,
    stream: CUstream,
) -> CUresult {
    let allocate = || {
        not_nothing(bytes)?;
        // SAFETY: the caller's promise.
        let stream = unsafe { stream_of(stream) }?;
        let pool = stream.context().device().pool();
        pool.allocate(bytes, stream.key())
    };
    // SAFETY: the caller's promise.
    unsafe { written(address, allocate) }
}

/// The same of a pool that is named.
///
/// # Safety
/// As [`cuMemAllocAsync`].
pub unsafe fn cuMemAllocFromPoolAsync(
    address: *mut CUdeviceptr,
    bytes: usize,
    from: CUmemoryPool,
    stream: CUstream,
) -> CUresult {
    let allocate = || {
        not_nothing(bytes)?;
        // SAFETY: the caller's promise.
        let stream = unsafe { stream_of(stream) }?;
        pool(from)?.allocate(bytes, stream.key())
    };
    // SAFETY: the caller's promise.
    unsafe { written(address, allocate) }
}

/// Returns memory to the pool, in the order of the stream: of [`cuMemAllocAsync`], or what a buffer leaked.
///
/// # Safety
/// The handle is alive. Work given to this stream or ordered before uses it, and nothing else.
pub unsafe fn cuMemFreeAsync(address: CUdeviceptr, stream: CUstream) -> CUresult {
    let free = || {
        // SAFETY: the caller's promise.
        let stream = unsafe { stream_of(stream) }?;
        stream.enter()?;
        let (device, _) = owner(address)?;
        device.pool().free(address, stream.key())
    };
    given(free())
}

same! {
    /// Page-locked memory of the host. The flags are those of `CU_MEMHOSTALLOC_*`.
    cuMemHostAlloc(memory: *mut *mut c_void, bytes: usize, flags: c_uint)
        => [required] hipHostMalloc(memory, bytes, flags);
    /// Page-locked memory of the host.
    cuMemAllocHost_v2(memory: *mut *mut c_void, bytes: usize) => [required] hipHostMalloc(memory, bytes, 0);
    /// Frees page-locked memory.
    cuMemFreeHost(memory: *mut c_void) => [required] hipHostFree(memory);
    /// Locks the pages of memory that is there.
    cuMemHostRegister_v2(memory: *mut c_void, bytes: usize, flags: c_uint)
        => [optional] hipHostRegister(memory, bytes, flags);
    /// Unlocks them.
    cuMemHostUnregister(memory: *mut c_void) => [optional] hipHostUnregister(memory);
    /// Where a GPU finds page-locked memory.
    cuMemHostGetDevicePointer_v2(address: *mut CUdeviceptr, memory: *mut c_void, flags: c_uint)
        => [optional] hipHostGetDevicePointer(address.cast(), memory, flags);
    /// Copies from the host, in the stream's order.
    cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream)
        => [required notes copies] hipMemcpyAsync(to as *mut c_void, from, bytes, MEMCPY_HOST_TO_DEVICE, stream);
    /// Copies to the host, in the stream's order.
    cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream)
        => [required notes copies] hipMemcpyAsync(to, from as *const c_void, bytes, MEMCPY_DEVICE_TO_HOST, stream);
    /// Copies within GPUs, in the stream's order.
    cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream)
        => [required notes copies]
        hipMemcpyAsync(to as *mut c_void, from as *const c_void, bytes, MEMCPY_DEVICE_TO_DEVICE, stream);
    /// Sets bytes, in the stream's order.
    cuMemsetD8Async(to: CUdeviceptr, value: c_uchar, bytes: usize, stream: CUstream)
        => [required notes fills] hipMemsetAsync(to as *mut c_void, value.into(), bytes, stream);
    /// Sets words of 32 bits, in the stream's order.
    cuMemsetD32Async(to: CUdeviceptr, value: c_uint, words: usize, stream: CUstream)
        => [optional notes fills] hipMemsetD32Async(to as *mut c_void, value as i32, words, stream);
}

/// Functions that do the same on the legacy default stream, and wait.
macro_rules! waiting {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) => $enqueue:ident;)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// As CUDA's: addresses have what is read or written there.
            pub unsafe fn $name($($arg: $type),*) -> CUresult {
                // SAFETY: the caller's promise.
                match unsafe { $enqueue($($arg,)* LEGACY) } {
                    // SAFETY: the default stream lives.
                    CUresult::CUDA_SUCCESS => unsafe { cuStreamSynchronize(LEGACY) },
                    error => error,
                }
            }
        )*
    };
}
waiting! {
    /// Copies from the host.
    cuMemcpyHtoD_v2(to: CUdeviceptr, from: *const c_void, bytes: usize) => cuMemcpyHtoDAsync_v2;
    /// Copies to the host.
    cuMemcpyDtoH_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize) => cuMemcpyDtoHAsync_v2;
    /// Copies within GPUs.
    cuMemcpyDtoD_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) => cuMemcpyDtoDAsync_v2;
    /// Sets bytes.
    cuMemsetD8_v2(to: CUdeviceptr, value: c_uchar, bytes: usize) => cuMemsetD8Async;
    /// Sets words of 32 bits.
    cuMemsetD32_v2(to: CUdeviceptr, value: c_uint, words: usize) => cuMemsetD32Async;
}
