//! HIP's C interface: `extern "C"` functions with HIP's own signatures.
//!
//! Every function comes from one list, [`hip_functions!`](crate::hip_functions). They are not exported under
//! their names from this crate, so that a program can hold the emulator beside AMD's library; the package
//! `amdhip64` exports them. [`symbol`] finds one by name, as `dlsym` would.
//!
//! All of them may be called from any thread. A null or unmapped pointer, or a handle that names nothing, gives
//! an error. Output pointers must be valid or null, as with AMD's library.
//!
//! # Safety
//! The pointers that a program passes must be what HIP's documentation says they are; what can be checked is
//! checked.
#![allow(non_snake_case)]

mod boxes;
mod copy;
mod device;
mod errors;
mod graph;
mod graph_node;
mod graph_params;
mod graph_work;
mod last_error;
mod launch;
mod list;
mod memory;
mod module;
mod pool;
mod prelude;
mod stream;
pub mod types;

use std::collections::HashMap;
use std::ffi::CString;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::NonNull;
use std::sync::LazyLock;

use last_error::{LAST_ERROR, LAST_MESSAGE};
use prelude::*;

macro_rules! wrappers {
    (
        status { $($module:ident :: $name:ident($($arg:ident: $type:ty),*);)* }
        plain { $($plain_module:ident :: $plain:ident($($plain_arg:ident: $plain_type:ty),*) -> $returns:ty;)* }
    ) => {
        $(
            #[doc = concat!("HIP's `", stringify!($name), "`.\n\n# Safety\nSee the [module](self).")]
            pub unsafe extern "C" fn $name($($arg: $type),*) -> hipError_t {
                // SAFETY: the program's promise, handed on.
                guard(|| unsafe { $module::$name($($arg),*) })
            }
        )*
        $(
            #[doc = concat!("HIP's `", stringify!($plain), "`.\n\n# Safety\nSee the [module](self).")]
            pub unsafe extern "C" fn $plain($($plain_arg: $plain_type),*) -> $returns {
                // SAFETY: the program's promise, handed on.
                unsafe { $plain_module::$plain($($plain_arg),*) }
            }
        )*

        static SYMBOLS: LazyLock<HashMap<&'static str, usize>> = LazyLock::new(|| {
            HashMap::from([
                $((stringify!($name), $name as *const () as usize),)*
                $((stringify!($plain), $plain as *const () as usize),)*
            ])
        });
    };
}
crate::hip_functions!(wrappers);

/// The lookup by name that programs call.
mod lookup {
    use std::ptr::NonNull;

    use super::prelude::*;

    /// `hipDriverProcAddressQueryResult`.
    const FOUND: hipDriverProcAddressQueryResult = 0;
    const NOT_FOUND: hipDriverProcAddressQueryResult = 1;

    /// Default, legacy stream, per-thread stream.
    const FLAGS: std::ops::RangeInclusive<u64> = 0..=2;
    const PER_THREAD_STREAM: u64 = 2;

    /// Functions that got another structure with HIP 6.0, and their names since.
    const RENAMED: &[(&str, &str)] = &[("hipGetDeviceProperties", "hipGetDevicePropertiesR0600")];
    /// HIP 6.0 as 100 times the major plus the minor version; the numbers that `hipRuntimeGetVersion` gives are larger, too.
    const RENAMED_SINCE: c_int = 600;

    pub unsafe fn hipGetProcAddress(
        name: *const c_char,
        function: *mut *mut c_void,
        version: c_int,
        flags: u64,
        status: *mut hipDriverProcAddressQueryResult,
    ) -> Result {
        // SAFETY: the program's promise.
        let name = unsafe { text(name) }?;
        let refuse = |what: String| Err(HipError::new(Code::InvalidValue, what));
        if name.is_empty() || !FLAGS.contains(&flags) {
            return refuse(format!("function {name:?} with flags {flags:#x}"));
        }
        let renamed = RENAMED
            .iter()
            .find(|row| row.0 == name && version >= RENAMED_SINCE);
        let of_thread = (flags == PER_THREAD_STREAM)
            .then(|| super::symbol(&format!("{name}_spt")))
            .flatten();
        let found = match renamed {
            Some((_, renamed)) => super::symbol(renamed),
            None => of_thread.or_else(|| super::symbol(name)),
        };
        let address = found.map_or(std::ptr::null_mut(), NonNull::as_ptr);
        let result = if address.is_null() { NOT_FOUND } else { FOUND };
        // SAFETY: as above.
        unsafe {
            out(function, address)?;
            optional_out(status, result)?;
        }
        match found {
            Some(_) => Ok(()),
            None => refuse(format!("the emulator has no function {name}")),
        }
    }
}

/// The function of that name, as `dlsym` on a `libamdhip64.so` would give it.
pub fn symbol(name: &str) -> Option<NonNull<c_void>> {
    SYMBOLS
        .get(name)
        .and_then(|address| NonNull::new(*address as *mut c_void))
}

/// The names of all functions.
pub fn names() -> impl Iterator<Item = &'static str> {
    SYMBOLS.keys().copied()
}

/// Run a function's body; keep its failure for `hipGetLastError`, and no panic crosses into C.
fn guard(body: impl FnOnce() -> Result) -> hipError_t {
    let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        Err(HipError::new(
            Code::Unknown,
            "the emulator panicked; the message is on standard error",
        ))
    });
    let Err(error) = outcome else { return 0 };
    // Not being ready is an answer, no failure.
    if error.code != Code::NotReady {
        LAST_ERROR.set(error.code as u32);
        let message = error
            .message
            .map(|text| CString::new(text.replace('\0', " ")).unwrap_or_default());
        tracing::debug!(code = ?error.code, ?message, "HIP call failed");
        LAST_MESSAGE.set(message);
    }
    error.code as u32
}
