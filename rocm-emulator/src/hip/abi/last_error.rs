//! How the calling thread's calls failed.

use std::cell::{Cell, RefCell};
use std::ffi::CString;

thread_local! {
    /// What `hipGetLastError` gives.
    pub static LAST_ERROR: Cell<u32> = const { Cell::new(0) };
    /// The account of the last failed call, if there was more to say than its status.
    pub static LAST_MESSAGE: RefCell<Option<CString>> = const { RefCell::new(None) };
}
