//! Calling HIP: choosing the GPU, and turning what it answers into errors.

use super::table::HipTable;
use super::types::{
    hipError_t, text_or, CAPTURE_MODE_RELAXED, HIP_ERRORS_OF_TRAPS, HIP_ERROR_OUT_OF_MEMORY,
    HIP_SUCCESS,
};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::reports;

impl HipTable {
    /// Makes the GPU of this number the calling thread's current one.
    #[inline]
    pub fn select(&self, ordinal: usize) -> Result<()> {
        // SAFETY: any number may be asked for. HIP keeps it in a thread-local, so that setting it costs less than
        // asking whether it is set.
        let status = unsafe { (self.hipSetDevice)(ordinal as i32) };
        self.check(status, || format!("selecting GPU {ordinal}"))
    }

    /// Runs a call that HIP otherwise refuses, ending the capture, while any stream of the process is captured in its
    /// strictest mode, which is the default, or one by this thread: for fear of what the call may wait for.
    pub(crate) fn relaxed<R>(&self, call: impl FnOnce() -> R) -> R {
        let Some(exchange) = self.hipThreadExchangeStreamCaptureMode else {
            return call();
        };
        let mut mode = CAPTURE_MODE_RELAXED;
        // SAFETY: `mode` is readable and writable; it receives the mode to restore.
        unsafe { exchange(&mut mode) };
        let result = call();
        // SAFETY: as above.
        unsafe { exchange(&mut mode) };
        result
    }

    /// Turns a status into a result; on failure `what` says what was being done.
    #[inline]
    pub fn check<W: std::fmt::Display>(
        &self,
        status: hipError_t,
        what: impl FnOnce() -> W,
    ) -> Result<()> {
        if status == HIP_SUCCESS {
            return Ok(());
        }
        Err(self.error(status, what()))
    }

    /// The error for a status that is not success, with HIP's name and text for it, what a kernel of ours on the
    /// current GPU said before it trapped and, on the emulator, the fault behind it.
    #[cold]
    pub fn error(&self, status: hipError_t, what: impl std::fmt::Display) -> Error {
        // SAFETY: both functions accept any value and return static strings or null.
        let (name, text) = unsafe {
            (
                text_or((self.hipGetErrorName)(status), "hipErrorUnknown"),
                text_or((self.hipGetErrorString)(status), "no description"),
            )
        };
        let fault = self
            .last_fault()
            .map_or(String::new(), |fault| format!("\n{fault}"));
        let said = self
            .said_before_trap(status)
            .map_or(String::new(), |said| format!(": {said}"));
        let kind = match status {
            HIP_ERROR_OUT_OF_MEMORY => ErrorKind::OutOfMemory,
            _ => ErrorKind::Hip(status),
        };
        Error::new(
            kind,
            format!("{what}: {name} ({status}): {text}{said}{fault}"),
        )
    }

    /// What a kernel on the current GPU said before it trapped, if the status is of that kind.
    fn said_before_trap(&self, status: hipError_t) -> Option<String> {
        if !HIP_ERRORS_OF_TRAPS.contains(&status) {
            return None;
        }
        let mut device = -1;
        // SAFETY: `device` is writable.
        match unsafe { (self.hipGetDevice)(&mut device) } {
            HIP_SUCCESS => reports::of_device(usize::try_from(device).ok()?),
            // After a trap AMD's HIP (7.2) fails every call, this one too, whichever GPU is the current one.
            _ => reports::of_all_devices(),
        }
    }

    /// The emulator's account of the last fault on this thread; `None` on real hardware.
    pub fn last_fault(&self) -> Option<String> {
        let get = self.rocmEmuGetLastFault?;
        // SAFETY: the function takes nothing and returns null or a NUL-terminated string that stays
        // valid until the next HIP call of this thread.
        let text = unsafe { text_or(get(), "") };
        (!text.is_empty()).then_some(text)
    }
}

/// A function that a provider may lack, or the error that says so.
macro_rules! optional {
    ($hip:expr, $name:ident) => {
        $hip.$name
            .ok_or_else(|| $crate::base::hip::calls::missing(stringify!($name)))
    };
}
pub(crate) use optional;

/// The error for an optional HIP function that this provider lacks.
pub(crate) fn missing(name: &str) -> Error {
    Error::unsupported(format!(
        "the loaded HIP library has no function {name}; ROCm 6 or later has it"
    ))
}
