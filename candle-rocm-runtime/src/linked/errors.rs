//! Errors as CUDA's functions return them: numbers, with the last one kept for who asks.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, CString};
use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::hip::types::*;
use crate::device::gpu::Device;
use crate::runtime;

/// `cudaErrorInvalidConfiguration`.
const INVALID_CONFIGURATION: u32 = 9;
/// `cudaErrorInvalidDeviceFunction`.
const INVALID_DEVICE_FUNCTION: u32 = 98;
/// `cudaErrorInitializationError`.
const INITIALIZATION: u32 = 3;
/// `cudaErrorNotSupported`.
const NOT_SUPPORTED: u32 = 801;
/// `cudaErrorUnknown`.
const UNKNOWN: u32 = 999;

/// What a call of this thread returned, or could not return.
struct Last {
    code: u32,
    error: Error,
    /// The GPU that keeps the error too, until somebody asks.
    left_in: Option<&'static Arc<Device>>,
    /// The text, once somebody asked for it.
    text: Option<&'static CString>,
}

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
    /// The same after `cudaGetLastError`, whose caller may ask for its text.
    static TAKEN: RefCell<Option<Last>> = const { RefCell::new(None) };
}

/// CUDA's number for an error. HIP's are the same.
fn code_of(error: &Error) -> u32 {
    match *error.kind() {
        ErrorKind::Hip(code) => code,
        ErrorKind::Runtime => INITIALIZATION,
        ErrorKind::NoDevice => HIP_ERROR_NO_DEVICE,
        ErrorKind::OutOfMemory => HIP_ERROR_OUT_OF_MEMORY,
        ErrorKind::InvalidArgument => HIP_ERROR_INVALID_VALUE,
        ErrorKind::Module => HIP_ERROR_NO_BINARY_FOR_GPU,
        ErrorKind::KernelNotFound => INVALID_DEVICE_FUNCTION,
        ErrorKind::LaunchLimit => INVALID_CONFIGURATION,
        ErrorKind::Unsupported => NOT_SUPPORTED,
        ErrorKind::Library | ErrorKind::Communication => UNKNOWN,
    }
}

/// What the function `name` returns: 0, or the number of its error, which is kept.
pub(super) fn returned(name: &str, result: Result<()>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => keep(error.context(name), None),
    }
}

/// The same of a launch, whose caller does not see what it returns: the GPU keeps the error besides.
pub(super) fn launched(result: Result<()>, device: Option<&'static Arc<Device>>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => {
            match device {
                Some(device) => device.sticky().set(error.clone()),
                // Without a GPU no later call could return it.
                None => tracing::error!(%error, "a kernel was not launched"),
            }
            keep(error, device)
        }
    }
}

fn keep(error: Error, left_in: Option<&'static Arc<Device>>) -> c_int {
    let code = code_of(&error);
    tracing::debug!(code, %error, "kept for cudaGetLastError");
    LAST.set(Some(Last {
        code,
        error,
        left_in,
        text: None,
    }));
    code as c_int
}

/// `cudaGetLastError`: the last error of this thread, once.
#[no_mangle]
pub extern "C" fn cudaGetLastError() -> c_int {
    let Some(mut last) = LAST.take() else {
        return 0;
    };
    if let Some(device) = last.left_in.take() {
        // Whoever asked has it now. Another error that waits there is the next call's.
        if let Err(waiting) = device.sticky().take() {
            if waiting != last.error {
                device.sticky().set(waiting);
            }
        }
    }
    let code = last.code as c_int;
    TAKEN.set(Some(last));
    code
}

/// `cudaPeekAtLastError`: the same, which stays.
#[no_mangle]
pub extern "C" fn cudaPeekAtLastError() -> c_int {
    LAST.with_borrow(|last| last.as_ref().map_or(0, |last| last.code as c_int))
}

/// `cudaGetErrorString`: of this thread's last error all that is known of it, of others what HIP says. The text stays valid.
#[no_mangle]
pub extern "C" fn cudaGetErrorString(code: c_int) -> *const c_char {
    let known = |slot: &'static std::thread::LocalKey<RefCell<Option<Last>>>| {
        slot.with_borrow_mut(|last| {
            let last = last.as_mut().filter(|last| last.code as c_int == code)?;
            // C's callers expect a text that nobody frees. One is left for each error that is asked about.
            let text = || {
                let text = last.error.message().replace('\0', " ");
                let text: &'static CString =
                    Box::leak(Box::new(CString::new(text).unwrap_or_default()));
                text
            };
            Some(last.text.get_or_insert_with(text).as_ptr())
        })
    };
    if let Some(text) = known(&LAST).or_else(|| known(&TAKEN)) {
        return text;
    }
    match (code, runtime::current()) {
        (0, _) => c"no error".as_ptr(),
        // SAFETY: the function accepts any value and returns a static string.
        (_, Ok(runtime)) => unsafe { (runtime.hip().hipGetErrorString)(code as u32) },
        (_, Err(_)) => {
            c"an error of the CUDA runtime, and no runtime that could tell of it".as_ptr()
        }
    }
}

/// `cudaGetErrorName`: HIP's name for the same number.
#[no_mangle]
pub extern "C" fn cudaGetErrorName(code: c_int) -> *const c_char {
    match (code, runtime::current()) {
        (0, _) => c"cudaSuccess".as_ptr(),
        // SAFETY: the function accepts any value and returns a static string.
        (_, Ok(runtime)) => unsafe { (runtime.hip().hipGetErrorName)(code as u32) },
        (_, Err(_)) => c"cudaErrorUnknown".as_ptr(),
    }
}
