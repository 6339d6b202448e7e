//! Counters by which the workgroups that have parts of k find out which of them ends last and adds up the parts.
//!
//! They are 0 before a launch and 0 again after it. The launches of a stream follow one another, and so do those of the
//! graphs captured from it, which are launched there: they share the stream's. A graph of a thread's own stream has none:
//! another thread's launch of it is on that one's.

use std::sync::Arc;

use crate::base::error::Result;
use crate::device::gpu::Device;
use crate::device::per_device::PerDevice;
use crate::order::key::StreamKey;
use crate::stream::per_stream::PerStream;
use crate::stream::queue::Stream;

/// Addresses of counters.
static COUNTERS: PerDevice<PerStream<u64>> = PerDevice::new();

/// Those of a stream: more workgroups in a row need no parts.
const COUNT: u64 = 4096;
const BYTES: usize = COUNT as usize * std::mem::size_of::<i32>();

fn of_device(device: &Arc<Device>) -> &'static PerStream<u64> {
    COUNTERS.get_or_init(device, || {
        device.streams().at_end(release);
        // They are small, and freeing them would wait for the GPU.
        PerStream::new(usize::MAX)
    })
}

/// The address of so many counters for the stream's next launch. `None` if there are not that many, or if the launch may
/// run beside another of the stream's: on another library's stream, in another stream's capture, or in that of a thread's.
///
/// # Errors
/// The device has not the memory, or an error is waiting.
pub(super) fn of(stream: &Stream, count: u64) -> Result<Option<u64>> {
    if count > COUNT || !stream.is_ordered_here() {
        return Ok(None);
    }
    if stream.is_capturing()? {
        let (device, key) = (stream.context().device(), stream.key());
        let shares = !stream.is_per_thread() && device.pool().is_capture_begun_on(key);
        let counters = of_device(device).get(key).filter(|_| shares);
        return Ok(counters.map(|address| *address));
    }
    make(stream).map(Some)
}

/// Sees to it that the stream has counters before a capture, in which they cannot be made.
///
/// # Errors
/// The device has not the memory.
pub(crate) fn prepare(stream: &Stream) -> Result<()> {
    if !stream.is_ordered_here() || stream.is_per_thread() || stream.is_capturing()? {
        return Ok(());
    }
    make(stream).map(drop)
}

/// After a launch that may not have put them back to 0: the stream's next one has others. Graphs may still name these.
pub(super) fn forget(stream: &Stream) {
    of_device(stream.context().device()).forget(stream.key());
}

/// A stream is about to be destroyed.
fn release(device: &Arc<Device>, key: StreamKey) -> Result<()> {
    match of_device(device).release(device, key) {
        Some(address) => device.pool().free_apart(address),
        None => Ok(()),
    }
}

fn make(stream: &Stream) -> Result<u64> {
    let device = stream.context().device();
    stream.enter()?;
    let zeros = || {
        let address = device.pool().allocate_apart(BYTES)?;
        let hip = device.hip();
        // SAFETY: so many bytes were just allocated; the stream's launches come after this.
        let status = unsafe { (hip.hipMemsetAsync)(address as *mut _, 0, BYTES, stream.raw()) };
        hip.check(status, || "setting counters of workgroups to zero")?;
        Ok(address)
    };
    let counters = of_device(device).get_or_make(stream, zeros, Ok)?;
    Ok(*counters)
}
