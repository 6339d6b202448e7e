//! How a process ends that has used a GPU.

use std::ffi::{c_int, c_void};
use std::sync::Once;

use rocm_emulator::trouble;

extern "C" {
    /// glibc's: calls `function` with the process's exit status, before what was registered earlier.
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// From now on the process ends without the destructors of AMD's libraries, whose order among themselves is not settled:
/// HIP's are at work while ROCr's thread of events still calls it, and some processes never ended (9 of 100 on gfx1030).
/// What was registered later, such as the program's own, still runs, and its output is written.
pub fn ends_at_once() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the function is of this library, which nothing unloads while its threads run. If glibc has no room to
        // remember it, the process ends as it would have without.
        let refused = unsafe { on_exit(end, std::ptr::null_mut()) } != 0;
        if refused {
            trouble::say(format_args!(
                "no room for a function at the process's end, which may take long"
            ));
        }
    });
}

extern "C" fn end(status: c_int, _: *mut c_void) {
    // SAFETY: a null pointer means all of the C library's streams.
    unsafe { libc::fflush(std::ptr::null_mut()) };
    // SAFETY: nothing of the process is used after this.
    unsafe { libc::_exit(status) };
}
