//! Error queries.

use std::ffi::CString;

use super::last_error::{LAST_ERROR, LAST_MESSAGE};
use super::prelude::*;
use crate::hip::error;
use crate::hip::state::runtime;

pub unsafe fn hipDrvGetErrorName(error: hipError_t, name: *mut *const c_char) -> Result {
    if !error::is_known(error) {
        return Err(Code::InvalidValue.into());
    }
    // SAFETY: the program's promise.
    unsafe { out(name, error::name(error).as_ptr()) }
}

pub unsafe fn hipDrvGetErrorString(error: hipError_t, text: *mut *const c_char) -> Result {
    if !error::is_known(error) {
        return Err(Code::InvalidValue.into());
    }
    // SAFETY: the program's promise.
    unsafe { out(text, error::text(error).as_ptr()) }
}

pub unsafe fn hipGetLastError() -> hipError_t {
    LAST_ERROR.replace(0)
}

pub unsafe fn hipExtGetLastError() -> hipError_t {
    LAST_ERROR.replace(0)
}

pub unsafe fn hipPeekAtLastError() -> hipError_t {
    LAST_ERROR.get()
}

pub unsafe fn hipGetErrorName(error: hipError_t) -> *const c_char {
    error::name(error).as_ptr()
}

pub unsafe fn hipGetErrorString(error: hipError_t) -> *const c_char {
    error::text(error).as_ptr()
}

/// `const char *rocmEmuGetLastFault(void)`: the account of the calling thread's last failed call, else of the
/// current device's pending fault, else null. Valid until the thread's next failed call.
pub unsafe fn rocmEmuGetLastFault() -> *const c_char {
    LAST_MESSAGE.with_borrow_mut(|message| {
        if message.is_none() {
            let fault = runtime()
                .ok()
                .and_then(|runtime| runtime.current().fault.lock().clone());
            *message = fault
                .and_then(|fault| fault.message)
                .map(|text| CString::new(text.replace('\0', " ")).unwrap_or_default());
        }
        message
            .as_ref()
            .map_or(std::ptr::null(), |text| text.as_ptr())
    })
}
