//! Memory by which workgroups of one launch reduce the sums of their splits of k.
//!
//! All its bits are set before a launch and after it: a word in which they are is not there yet. The launches of a stream
//! follow one another, and so do those of the graphs captured from it, which are launched there: they share the stream's. A
//! graph of a thread's own stream has none: another thread's launch of it is on that one's.

use std::sync::Arc;

use crate::base::error::Result;
use crate::device::gpu::Device;
use crate::device::per_device::PerDevice;
use crate::order::key::StreamKey;
use crate::stream::per_stream::PerStream;
use crate::stream::queue::Stream;

/// Addresses.
static WORKSPACES: PerDevice<PerStream<u64>> = PerDevice::new();

/// Bytes of a stream's: products with more sums to hand over gain little by it.
pub(super) const BYTES: u64 = 16 << 20;

fn of_device(device: &Arc<Device>) -> &'static PerStream<u64> {
    WORKSPACES.get_or_init(device, || {
        device.streams().at_end(release);
        // They are small, and freeing them would wait for the GPU.
        PerStream::new(usize::MAX)
    })
}

/// The address of so many bytes for the stream's next launch. `None` if there are not that many, or if the launch may
/// run beside another of the stream's: on another library's stream, in another stream's capture, or in that of a thread's.
///
/// # Errors
/// The device has not the memory, or an error is waiting.
pub(super) fn of(stream: &Stream, bytes: u64) -> Result<Option<u64>> {
    if bytes > BYTES || !stream.is_ordered_here() {
        return Ok(None);
    }
    if stream.is_capturing()? {
        let (device, key) = (stream.context().device(), stream.key());
        let shares = !stream.is_per_thread() && device.pool().is_capture_begun_on(key);
        let memory = of_device(device).get(key).filter(|_| shares);
        return Ok(memory.map(|address| *address));
    }
    make(stream).map(Some)
}

/// Sees to it that the stream has the memory before a capture, in which it cannot be made.
///
/// # Errors
/// The device has not the memory.
pub(crate) fn prepare(stream: &Stream) -> Result<()> {
    if !stream.is_ordered_here() || stream.is_per_thread() || stream.is_capturing()? {
        return Ok(());
    }
    make(stream).map(drop)
}

/// After a launch that may not have put all bits back: the stream's next one has other memory. Graphs may still name this.
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
    let ones = || {
        let address = device.pool().allocate_apart(BYTES as usize)?;
        let hip = device.hip();
        // SAFETY: so many bytes were just allocated; the stream's launches come after this.
        let status =
            unsafe { (hip.hipMemsetAsync)(address as *mut _, 0xff, BYTES as usize, stream.raw()) };
        hip.check(status, || "setting what splits of k hand over to nothing")?;
        Ok(address)
    };
    let memory = of_device(device).get_or_make(stream, ones, Ok)?;
    Ok(*memory)
}
