//! NVIDIA's marks for profilers (nvToolsExt), for C and C++ that a program links.

use std::ffi::{c_char, c_int, CStr};

use crate::nvtx::result;

/// A name that C++ gives.
///
/// # Safety
/// `name` is a C string.
unsafe fn text<'a>(name: *const c_char) -> std::borrow::Cow<'a, str> {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(name) }.to_string_lossy()
}

/// A range of work begins. Returns how many were open.
///
/// # Safety
/// `name` is a C string.
#[no_mangle]
pub unsafe extern "C" fn nvtxRangePushA(name: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    result::range_push(unsafe { text(name) })
}

/// The last one ends. Returns how many stay open, or less than 0 if there was none.
#[no_mangle]
pub extern "C" fn nvtxRangePop() -> c_int {
    result::range_pop()
}

/// A moment.
///
/// # Safety
/// `name` is a C string.
#[no_mangle]
pub unsafe extern "C" fn nvtxMarkA(name: *const c_char) {
    // SAFETY: the caller's promise.
    result::mark(unsafe { text(name) });
}
