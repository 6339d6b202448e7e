//! Work that a C function gives to a stream it knows by its handle alone.
//!
//! Such a function has nothing to return an error in: what goes wrong waits in the device, and the next call
//! of the runtime returns it, as with a kernel that fails.

use std::ffi::c_void;
use std::sync::Arc;

use crate::base::error::Result;
use crate::device::gpu::Device;
use crate::runtime;
use crate::stream::context::Context;
use crate::stream::queue::Stream;

/// Runs `work` with the stream behind `raw`, a stream of the calling thread's current GPU. Its error waits in
/// the device and names `function`; true if there was none.
///
/// # Safety
/// `raw` is a live stream of the current GPU or null, the default stream.
pub unsafe fn on_stream(
    function: &str,
    raw: *mut c_void,
    work: impl FnOnce(&Stream) -> Result<()>,
) -> bool {
    let device = match current_device() {
        Ok(device) => device,
        Err(cause) => {
            // Without a device there is no stream, and so no caller that could have a result.
            tracing::error!(function, %cause, "nowhere to leave an error");
            return false;
        }
    };
    let result = Context::new(device.ordinal()).and_then(|context| {
        // SAFETY: the caller's promise.
        let stream = unsafe { context.wrap_borrowed_stream(raw.cast()) };
        work(&stream)
    });
    match result {
        Ok(()) => true,
        Err(cause) => {
            device
                .sticky()
                .set(cause.context(format!("`{function}` was not computed")));
            false
        }
    }
}

/// The calling thread's current GPU.
pub(crate) fn current_device() -> Result<&'static Arc<Device>> {
    let runtime = runtime::current()?;
    let hip = runtime.hip();
    let mut ordinal = 0;
    // SAFETY: the output is writable.
    let status = unsafe { (hip.hipGetDevice)(&mut ordinal) };
    hip.check(status, || "asking which GPU is current")?;
    runtime.device(ordinal as usize)
}
