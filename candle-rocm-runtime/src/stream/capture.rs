//! Captures of a stream's work, by its handle.

use std::sync::Arc;

use crate::base::cuda_names::{CUstreamCaptureMode, CUstreamCaptureStatus};
use crate::base::error::Result;
use crate::base::hip::calls::optional;
use crate::base::hip::table::HipTable;
use crate::base::hip::types::*;
use crate::device::gpu::Device;
use crate::order::key::{StreamHandle, StreamKey};
use crate::pool::captures::GraphMemory;

/// Begins a capture on a stream of this GPU, which is current on this thread.
pub(crate) fn begin(
    device: &Arc<Device>,
    stream: StreamHandle,
    mode: CUstreamCaptureMode,
) -> Result<()> {
    let hip = device.hip();
    let begin = optional!(hip, hipStreamBeginCapture)?;
    // First, so that from the capture's begin on no other thread takes this stream's blocks and waits for them.
    let pool = device.pool();
    let capture = pool.begin_capture(stream);
    let begun = device.streams().begin_capture(hip, stream, || {
        // SAFETY: the stream is alive.
        let status = unsafe { begin(stream.raw, mode as u32) };
        hip.check(status, || "beginning to capture a graph")
    });
    if begun.is_err() {
        if let Err(error) = pool.cancel_capture(capture) {
            device.sticky().set(error);
        }
    }
    begun
}

/// Whether any stream of this GPU is being captured.
#[inline]
pub(super) fn is_any(device: &Device) -> bool {
    device
        .existing_pool()
        .is_some_and(|pool| pool.is_any_capturing())
}

/// Whether the work of the stream behind this handle is being captured.
pub(crate) fn status(hip: &HipTable, stream: hipStream_t) -> Result<CUstreamCaptureStatus> {
    let Some(query) = hip.hipStreamIsCapturing else {
        return Ok(CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE);
    };
    let mut capture = CAPTURE_STATUS_NONE;
    // SAFETY: the stream is alive and the output is writable.
    let status = unsafe { query(stream, &mut capture) };
    hip.check(status, || "asking whether a stream is captured")?;
    Ok(match capture {
        CAPTURE_STATUS_NONE => CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE,
        1 => CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE,
        _ => CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_INVALIDATED,
    })
}

/// Notes that the capture which began on this stream is over; returns what it freed. `None` if none began.
pub(crate) fn ended(device: &Device, stream: StreamKey) -> Option<GraphMemory> {
    let memory = device.existing_pool()?.end_capture(stream)?;
    device.streams().end_capture(stream);
    Some(memory)
}

/// Ends the capture on this stream, which nobody wants any more. Until then an event recorded on the stream would be a
/// part of the capture, for which no other stream can wait.
pub(super) fn abandon(hip: &HipTable, stream: hipStream_t) -> Result<()> {
    let (end, destroy) = (
        optional!(hip, hipStreamEndCapture)?,
        optional!(hip, hipGraphDestroy)?,
    );
    let mut graph = std::ptr::null_mut();
    // SAFETY: the stream is alive, the output is writable, and the graph is destroyed once. A capture that
    // an error ended already has none.
    unsafe {
        if end(stream, &mut graph) == HIP_SUCCESS && !graph.is_null() {
            destroy(graph);
        }
    }
    Ok(())
}
