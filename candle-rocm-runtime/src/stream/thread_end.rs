//! The end of a thread that used its own default stream.
//!
//! AMD's HIP destroys a thread's stream when the thread ends. It waits for the stream's work then; but another thread that
//! asks meanwhile to wait for an event on that stream is not kept waiting. So the work is waited for here, before HIP begins.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

use crate::base::error::Result;
use crate::base::hip::types::*;
use crate::device::gpu::Device;

thread_local! {
    /// The GPUs whose work is waited for when this thread ends: a bit for each.
    static NOTED: Cell<u64> = const { Cell::new(0) };
}

/// GPUs that are told apart; more share their bits, and a thread that uses two of them waits for the first alone.
const GPUS: usize = 64;

extern "C" {
    /// What the C library does for `thread_local` variables of C++: functions are called in the reverse order of their
    /// registration when the thread ends. Rust's own variables are let go in one of them, which every thread has registered
    /// before its first call of HIP, and so too late.
    fn __cxa_thread_atexit_impl(
        end: extern "C" fn(*mut c_void),
        argument: *mut c_void,
        library: *const c_void,
    ) -> c_int;
    /// Stands for the program or library that this is part of, which stays loaded until `end` was called. The C library does not
    /// take null for the program before something was registered with another handle: it reads through what it has not found.
    static __dso_handle: u8;
}

/// The calling thread is about to give work to its own stream on this GPU, of which HIP knows already.
#[inline]
pub(super) fn note(device: &Arc<Device>) {
    let bit = 1 << (device.ordinal() % GPUS);
    NOTED.with(|noted| {
        if noted.get() & bit == 0 {
            noted.set(noted.get() | bit);
            register(device);
        }
    });
}

#[cold]
fn register(device: &Arc<Device>) {
    let argument = Box::into_raw(Box::new(device.clone()));
    let library = (&raw const __dso_handle).cast();
    // SAFETY: `end` takes the box, once, and is part of the library that the handle stands for.
    let failed = unsafe { __cxa_thread_atexit_impl(end, argument.cast(), library) };
    if failed != 0 {
        // Out of memory: nobody will call `end`.
        // SAFETY: made above, and not given away.
        drop(unsafe { Box::from_raw(argument) });
    }
}

extern "C" fn end(argument: *mut c_void) {
    // SAFETY: made in `register`, and called once.
    let device = *unsafe { Box::from_raw(argument.cast::<Arc<Device>>()) };
    if let Err(error) = wait(&device) {
        device.sticky().set(error);
    }
}

/// Wait for the calling thread's own stream, unless it is being captured.
fn wait(device: &Arc<Device>) -> Result<()> {
    device.bind()?;
    let hip = device.hip();
    if let Some(query) = hip.hipStreamIsCapturing {
        let mut capture = CAPTURE_STATUS_NONE;
        // SAFETY: the output is writable.
        let status = unsafe { query(STREAM_PER_THREAD, &mut capture) };
        hip.check(status, || {
            "asking whether an ending thread's stream is captured"
        })?;
        if capture != CAPTURE_STATUS_NONE {
            return Ok(());
        }
    }
    // SAFETY: the calling thread's own stream.
    let status = hip.relaxed(|| unsafe { (hip.hipStreamSynchronize)(STREAM_PER_THREAD) });
    hip.check(status, || "waiting for the work of a thread that ends")
}
