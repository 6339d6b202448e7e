//! Points in a stream's work that others can wait for.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::context::Context;
use super::queue::{Stream, StreamId};
use crate::base::cuda_names::CUevent_flags;
use crate::base::error::{Error, Result};
use crate::base::hip::types::*;
use crate::pool::allocator::Waited;

/// A point in the work of a stream.
pub struct Event {
    raw: hipEvent_t,
    context: Arc<Context>,
}

// SAFETY: HIP's events may be used from any thread.
unsafe impl Send for Event {}
// SAFETY: as above; HIP locks its own state.
unsafe impl Sync for Event {}

impl Context {
    /// An event with nothing recorded. Without flags it orders work and measures no time.
    pub fn new_event(self: &Arc<Self>, flags: Option<CUevent_flags>) -> Result<Event> {
        let flags = flags.map_or(EVENT_DISABLE_TIMING, |flags| flags as u32);
        self.bind_to_thread()?;
        let mut raw = std::ptr::null_mut();
        let hip = self.device().hip();
        // SAFETY: `raw` is writable.
        let status = unsafe { (hip.hipEventCreateWithFlags)(&mut raw, flags) };
        hip.check(status, || "creating an event")?;
        Ok(Event {
            raw,
            context: self.clone(),
        })
    }
}

impl Stream {
    /// A new stream whose work starts after what this one has been given so far.
    pub fn fork(&self) -> Result<Arc<Self>> {
        let stream = self.context().new_stream()?;
        stream.join(self)?;
        Ok(stream)
    }

    /// A new event set to what the stream has been given so far.
    pub fn record_event(&self, flags: Option<CUevent_flags>) -> Result<Event> {
        let event = self.context().new_event(flags)?;
        event.record(self)?;
        Ok(event)
    }

    /// Makes the stream's further work wait for the event.
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.enter()?;
        let device = self.context().device();
        let hip = device.hip();
        let stream = self.handle();
        device.streams().wait(hip, stream, || {
            // SAFETY: both handles are alive; HIP keeps what it needs of the event.
            let status = unsafe { (hip.hipStreamWaitEvent)(stream.raw, event.raw, 0) };
            hip.check(status, || "making a stream wait for an event")
        })
    }

    /// Makes the stream's further work wait for what `other` has been given so far.
    pub fn join(&self, other: &Stream) -> Result<()> {
        self.wait(&other.record_event(None)?)
    }
}

impl Event {
    /// HIP's handle. It belongs to this object.
    pub fn raw(&self) -> hipEvent_t {
        self.raw
    }

    /// HIP's handle, under cudarc's name.
    pub fn cu_event(&self) -> hipEvent_t {
        self.raw
    }

    /// The context it was created in.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Sets the event to the work that `stream` has been given so far. Earlier waits are not affected.
    ///
    /// # Errors
    /// The stream is on another GPU.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        if self.context != *stream.context() {
            return Err(Error::invalid(
                "an event can be recorded only on a stream of the GPU it was created on",
            ));
        }
        stream.enter()?;
        let hip = self.context.device().hip();
        // SAFETY: both handles are alive.
        let status = unsafe { (hip.hipEventRecord)(self.raw, stream.raw()) };
        hip.check(status, || "recording an event")
    }

    /// Waits until the work before the event is done.
    pub fn synchronize(&self) -> Result<()> {
        self.context.bind_to_thread()?;
        let hip = self.context.device().hip();
        // SAFETY: the handle is alive.
        let status = hip.relaxed(|| unsafe { (hip.hipEventSynchronize)(self.raw) });
        hip.check(status, || "waiting for an event")?;
        self.context.after_synchronisation(Waited::Event)
    }

    /// Milliseconds from this event to `end`, after waiting for both.
    ///
    /// # Errors
    /// One of them was created without timing or never recorded.
    pub fn elapsed_ms(&self, end: &Self) -> Result<f32> {
        if self.context != end.context {
            return Err(Error::invalid(
                "elapsed_ms: the events are on different GPUs",
            ));
        }
        self.synchronize()?;
        end.synchronize()?;
        let mut milliseconds = 0.0;
        let hip = self.context.device().hip();
        // SAFETY: the handles are alive and the output is writable.
        let status = unsafe { (hip.hipEventElapsedTime)(&mut milliseconds, self.raw, end.raw) };
        hip.check(status, || "measuring the time between two events")?;
        Ok(milliseconds)
    }

    /// Whether the work before the event is done; false on an error too.
    pub fn is_complete(&self) -> bool {
        self.try_is_complete().unwrap_or(false)
    }

    /// Whether the work before the event is done; true if nothing was ever recorded.
    pub fn try_is_complete(&self) -> Result<bool> {
        let hip = self.context.device().hip();
        // SAFETY: the handle is alive.
        match hip.relaxed(|| unsafe { (hip.hipEventQuery)(self.raw) }) {
            HIP_ERROR_NOT_READY => Ok(false),
            status => hip.check(status, || "querying an event").map(|()| true),
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let hip = self.context.device().hip();
        // SAFETY: the handle is alive, and nobody uses it after this.
        let status = unsafe { (hip.hipEventDestroy)(self.raw) };
        self.context
            .record_err(hip.check(status, || "destroying an event"));
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({:p})", self.raw)
    }
}

/// The last reads or the last write of a buffer, one for each stream: several may read at once, and none of
/// them says anything of the others. The events are created when they are first recorded: with a single
/// stream, which is how Candle runs, a buffer costs no event.
#[derive(Debug, Default)]
pub struct UseMark(Mutex<Vec<(StreamId, Event)>>);

// A mark is changed in whole steps, so that a panic leaves none half changed.
impl std::panic::RefUnwindSafe for UseMark {}

impl UseMark {
    /// Makes `stream` wait for the uses on other streams: its own it runs in order.
    #[inline]
    pub(crate) fn wait(&self, stream: &Stream) -> Result<()> {
        let (id, uses) = (stream.id(), self.0.lock());
        let others = uses.iter().filter(|(by, _)| *by != id);
        others
            .map(|(_, event)| event)
            .try_for_each(|event| stream.wait(event))
    }

    /// Sets the mark of this stream to the work that it has been given so far.
    pub(crate) fn record(&self, stream: &Stream) -> Result<()> {
        let (id, mut uses) = (stream.id(), self.0.lock());
        if let Some((_, event)) = uses.iter().find(|(by, _)| *by == id) {
            return event.record(stream);
        }
        let event = stream.context().new_event(None)?;
        event.record(stream)?;
        uses.push((id, event));
        Ok(())
    }
}
