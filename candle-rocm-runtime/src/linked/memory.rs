//! Memory and copies under the CUDA runtime's names.

use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_void};

use foldhash::fast::RandomState;
use parking_lot::Mutex;

use super::errors::returned;
use super::registry;
use super::same::same;
use crate::base::error::{Error, Result};
use crate::base::hip::types::{hipMemcpyKind, hipStream_t};
use crate::foreign::current_device;
use crate::runtime;
use crate::stream::context::Context;

/// What the pool gave to `cudaMallocAsync`: addresses, and the GPUs they are on.
static FROM_POOL: Mutex<Option<HashMap<usize, usize, RandomState>>> = Mutex::new(None);

same! {
    cudaMalloc => hipMalloc(pointer: *mut *mut c_void, bytes: usize);
    cudaMallocHost => hipHostMalloc(pointer: *mut *mut c_void, bytes: usize) + 0;
    cudaHostAlloc => hipHostMalloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
    cudaFreeHost => hipHostFree(pointer: *mut c_void);
    cudaMemcpyAsync => hipMemcpyAsync(
        to: *mut c_void, from: *const c_void, bytes: usize, kind: hipMemcpyKind, stream: hipStream_t
    );
    cudaMemsetAsync => hipMemsetAsync(to: *mut c_void, value: c_int, bytes: usize, stream: hipStream_t);
    cudaMemGetInfo => hipMemGetInfo(free: *mut usize, total: *mut usize);
}

/// `cudaMallocAsync`: from the pool that Candle's buffers come from, in the order of the stream.
///
/// # Safety
/// As CUDA's.
#[no_mangle]
pub unsafe extern "C" fn cudaMallocAsync(
    pointer: *mut *mut c_void,
    bytes: usize,
    stream: hipStream_t,
) -> c_int {
    let allocate = || -> Result<()> {
        let device = current_device()?;
        let context = Context::new(device.ordinal())?;
        // SAFETY: the caller's promise.
        let stream = unsafe { context.wrap_borrowed_stream(stream) };
        let memory = match bytes {
            0 => 0,
            _ => device.pool().allocate(bytes, stream.key())?,
        };
        if memory != 0 {
            let mut all = FROM_POOL.lock();
            all.get_or_insert_default()
                .insert(memory as usize, device.ordinal());
        }
        // SAFETY: the caller's promise.
        unsafe { *pointer = memory as *mut c_void };
        Ok(())
    };
    returned("cudaMallocAsync", allocate())
}

/// Returns memory in the order of a stream, to where it came from.
///
/// # Safety
/// As CUDA's `cudaFreeAsync`.
unsafe fn free(pointer: *mut c_void, stream: hipStream_t) -> Result<()> {
    let runtime = runtime::current()?;
    let from = FROM_POOL
        .lock()
        .as_mut()
        .and_then(|all| all.remove(&(pointer as usize)));
    let Some(ordinal) = from else {
        let hip = runtime.hip();
        // SAFETY: the caller's promise. It waits for all work of the GPU, and so for the stream's.
        let status = unsafe { (hip.hipFree)(pointer) };
        return hip.check(status, || "hipFree");
    };
    let device = runtime.device(ordinal)?;
    let context = Context::new(ordinal)?;
    // SAFETY: the caller's promise.
    let stream = unsafe { context.wrap_borrowed_stream(stream) };
    device.pool().free(pointer as u64, stream.key())
}

/// `cudaFreeAsync`.
///
/// # Safety
/// As CUDA's.
#[no_mangle]
pub unsafe extern "C" fn cudaFreeAsync(pointer: *mut c_void, stream: hipStream_t) -> c_int {
    // SAFETY: the caller's promise.
    returned("cudaFreeAsync", unsafe { free(pointer, stream) })
}

/// `cudaFree`.
///
/// # Safety
/// As CUDA's.
#[no_mangle]
pub unsafe extern "C" fn cudaFree(pointer: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    returned("cudaFree", unsafe { free(pointer, std::ptr::null_mut()) })
}

/// `cudaMallocManaged`, which is not there: memory is the GPU's or the host's.
///
/// # Safety
/// None is needed.
#[no_mangle]
pub unsafe extern "C" fn cudaMallocManaged(
    _pointer: *mut *mut c_void,
    _bytes: usize,
    _flags: c_uint,
) -> c_int {
    let error = Error::unsupported("managed memory; allocate with cudaMalloc and copy");
    returned("cudaMallocManaged", Err(error))
}

/// Waits for the stream, after `work` was given to it.
fn finished(stream: hipStream_t, work: impl FnOnce() -> c_int) -> c_int {
    match work() {
        // SAFETY: a stream that the work was just given to.
        0 => unsafe { super::events::cudaStreamSynchronize(stream) },
        failed => failed,
    }
}

/// `cudaMemcpy`.
///
/// # Safety
/// As CUDA's.
#[no_mangle]
pub unsafe extern "C" fn cudaMemcpy(
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    kind: hipMemcpyKind,
) -> c_int {
    let stream = std::ptr::null_mut();
    // SAFETY: the caller's promise.
    finished(stream, || unsafe {
        cudaMemcpyAsync(to, from, bytes, kind, stream)
    })
}

/// `cudaMemset`.
///
/// # Safety
/// As CUDA's.
#[no_mangle]
pub unsafe extern "C" fn cudaMemset(to: *mut c_void, value: c_int, bytes: usize) -> c_int {
    let stream = std::ptr::null_mut();
    // SAFETY: the caller's promise.
    finished(stream, || unsafe {
        cudaMemsetAsync(to, value, bytes, stream)
    })
}

/// Where in a variable `bytes` bytes from `offset` on are.
fn within(symbol: *const c_void, offset: usize, bytes: usize) -> Result<*mut c_void> {
    let (memory, length) = registry::variable(symbol, current_device()?)?;
    match offset.checked_add(bytes) {
        Some(end) if end <= length => Ok((memory as usize + offset) as *mut c_void),
        _ => Err(Error::invalid(format!(
            "{bytes} bytes from {offset} on, of a variable of {length}"
        ))),
    }
}

/// `cudaMemcpyToSymbolAsync`.
///
/// # Safety
/// As CUDA's.
#[no_mangle]
pub unsafe extern "C" fn cudaMemcpyToSymbolAsync(
    symbol: *const c_void,
    from: *const c_void,
    bytes: usize,
    offset: usize,
    kind: hipMemcpyKind,
    stream: hipStream_t,
) -> c_int {
    match within(symbol, offset, bytes) {
        // SAFETY: the caller's promise, and the variable has these bytes.
        Ok(to) => unsafe { cudaMemcpyAsync(to, from, bytes, kind, stream) },
        Err(error) => returned("cudaMemcpyToSymbolAsync", Err(error)),
    }
}

/// `cudaMemcpyFromSymbolAsync`.
///
/// # Safety
/// As CUDA's.
#[no_mangle]
pub unsafe extern "C" fn cudaMemcpyFromSymbolAsync(
    to: *mut c_void,
    symbol: *const c_void,
    bytes: usize,
    offset: usize,
    kind: hipMemcpyKind,
    stream: hipStream_t,
) -> c_int {
    match within(symbol, offset, bytes) {
        // SAFETY: the caller's promise, and the variable has these bytes.
        Ok(from) => unsafe { cudaMemcpyAsync(to, from, bytes, kind, stream) },
        Err(error) => returned("cudaMemcpyFromSymbolAsync", Err(error)),
    }
}

/// `cudaGetSymbolAddress`.
///
/// # Safety
/// As CUDA's.
#[no_mangle]
pub unsafe extern "C" fn cudaGetSymbolAddress(
    pointer: *mut *mut c_void,
    symbol: *const c_void,
) -> c_int {
    let result = within(symbol, 0, 0).map(|memory| {
        // SAFETY: the caller's promise.
        unsafe { *pointer = memory };
    });
    returned("cudaGetSymbolAddress", result)
}
