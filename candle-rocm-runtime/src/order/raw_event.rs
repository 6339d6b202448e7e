//! Events that belong to no context.

use crate::base::error::Result;
use crate::base::hip::table::HipTable;
use crate::base::hip::types::*;

/// An event without an owner context, for the order between streams.
#[derive(Debug)]
pub(crate) struct RawEvent {
    raw: hipEvent_t,
    destroy: unsafe extern "C" fn(hipEvent_t) -> hipError_t,
}

// SAFETY: HIP's events may be used from any thread.
unsafe impl Send for RawEvent {}
// SAFETY: as above.
unsafe impl Sync for RawEvent {}

impl RawEvent {
    pub(crate) fn record(hip: &HipTable, stream: hipStream_t) -> Result<Self> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is writable.
        let status = unsafe { (hip.hipEventCreateWithFlags)(&mut raw, EVENT_DISABLE_TIMING) };
        hip.check(status, || "creating an event for the memory pool")?;
        let event = Self {
            raw,
            destroy: hip.hipEventDestroy,
        };
        // SAFETY: the stream is alive: its blocks are told before it is destroyed.
        let status = unsafe { (hip.hipEventRecord)(raw, stream) };
        hip.check(status, || "recording an event for the memory pool")?;
        Ok(event)
    }

    /// Blocks the calling thread until then.
    pub(crate) fn synchronize(&self, hip: &HipTable) -> Result<()> {
        // SAFETY: the event is alive.
        let status = hip.relaxed(|| unsafe { (hip.hipEventSynchronize)(self.raw) });
        hip.check(status, || "waiting for an event")
    }

    /// Whether that is so already; false on an error too.
    pub(crate) fn is_complete(&self, hip: &HipTable) -> bool {
        // SAFETY: the event is alive.
        hip.relaxed(|| unsafe { (hip.hipEventQuery)(self.raw) }) == HIP_SUCCESS
    }

    pub(crate) fn wait_on(&self, hip: &HipTable, stream: hipStream_t) -> Result<()> {
        // SAFETY: both are alive; HIP keeps what it needs of the event.
        let status = unsafe { (hip.hipStreamWaitEvent)(stream, self.raw, 0) };
        hip.check(status, || "ordering memory between streams")
    }
}

impl Drop for RawEvent {
    fn drop(&mut self) {
        // SAFETY: created by this object and destroyed once. The status has nobody to go to, and a
        // failure only leaks the event.
        unsafe { (self.destroy)(self.raw) };
    }
}
