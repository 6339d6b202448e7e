//! NVIDIA's marks for profilers (nvToolsExt): events of `tracing`, whose subscribers tell times.

use std::cell::Cell;
use std::ffi::{c_char, c_int, CStr};

thread_local! {
    /// How many ranges of this thread are open.
    static DEPTH: Cell<c_int> = const { Cell::new(0) };
}

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
    tracing::trace!(name = &*unsafe { text(name) }, "range begins");
    let depth = DEPTH.get();
    DEPTH.set(depth + 1);
    depth
}

/// The last one ends. Returns how many stay open, or less than 0 if there was none.
#[no_mangle]
pub extern "C" fn nvtxRangePop() -> c_int {
    let depth = DEPTH.get() - 1;
    DEPTH.set(depth.max(0));
    tracing::trace!(depth, "range ends");
    depth
}

/// A moment.
///
/// # Safety
/// `name` is a C string.
#[no_mangle]
pub unsafe extern "C" fn nvtxMarkA(name: *const c_char) {
    // SAFETY: the caller's promise.
    tracing::trace!(name = &*unsafe { text(name) }, "mark");
}
