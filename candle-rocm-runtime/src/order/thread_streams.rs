//! What stands for a thread's default stream on AMD's HIP: a stream that was created here.
//!
//! AMD's HIP destroys the stream behind its handle for that, `hipStreamPerThread`, when the thread ends, and does not
//! keep another thread waiting that waits for an event on it meanwhile. A stream of ours is never destroyed: when its
//! thread has ended, the next one that needs a stream takes it over, behind the work that it was given before.

use std::cell::RefCell;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::base::error::Result;
use crate::base::hip::types::*;
use crate::device::gpu::Device;
use crate::order::live_streams::is_captured;

/// A GPU's number and a stream of it. Handles may be used from any thread.
type Owned = (usize, usize);

/// Streams whose threads have ended.
static LEFT: Mutex<Vec<Owned>> = Mutex::new(Vec::new());

/// The calling thread's.
struct ThreadStreams(RefCell<Vec<Owned>>);

thread_local! {
    static OWN: ThreadStreams = const { ThreadStreams(RefCell::new(Vec::new())) };
}

impl Drop for ThreadStreams {
    fn drop(&mut self) {
        // No call of HIP, whose own variables of this thread may be gone.
        LEFT.lock().append(self.0.get_mut());
    }
}

/// What [`STREAM_PER_THREAD`] means on the calling thread, which need not have this GPU as its current one.
///
/// The legacy default stream, which is ordered with those of all threads, where a stream cannot be created, which the
/// next call is told, and for a thread whose variables are gone already.
#[inline]
pub(crate) fn of_this_thread(device: &Arc<Device>) -> hipStream_t {
    let ordinal = device.ordinal();
    let found = OWN.try_with(|own| {
        let own = own.0.borrow();
        let found = own.iter().find(|(gpu, _)| *gpu == ordinal);
        found.map(|(_, stream)| *stream as hipStream_t)
    });
    match found {
        Ok(Some(stream)) => stream,
        Ok(None) => take(device),
        Err(_) => std::ptr::null_mut(),
    }
}

#[cold]
fn take(device: &Arc<Device>) -> hipStream_t {
    let stream = match left(device) {
        Some(stream) => stream,
        None => match create(device) {
            Ok(stream) => stream,
            Err(error) => {
                device.sticky().set(error);
                return std::ptr::null_mut();
            }
        },
    };
    OWN.with(|own| own.0.borrow_mut().push((device.ordinal(), stream as usize)));
    stream
}

/// The stream of a thread that has ended.
fn left(device: &Device) -> Option<hipStream_t> {
    loop {
        let stream = {
            let mut left = LEFT.lock();
            let place = left.iter().position(|(gpu, _)| *gpu == device.ordinal())?;
            left.swap_remove(place).1
        };
        // One that its thread left in the middle of a capture may be a part of it for ever.
        if !is_captured(device.hip(), stream as hipStream_t) {
            return Some(stream as hipStream_t);
        }
    }
}

/// A new stream, which the legacy default stream waits for, and which waits for that, as HIP's own ones.
fn create(device: &Device) -> Result<hipStream_t> {
    device.bind()?;
    let hip = device.hip();
    let mut stream = std::ptr::null_mut();
    // SAFETY: `stream` is writable.
    let status =
        hip.relaxed(|| unsafe { (hip.hipStreamCreateWithFlags)(&mut stream, STREAM_DEFAULT) });
    hip.check(status, || "creating a thread's own stream")?;
    device.streams().add(stream);
    Ok(stream)
}
