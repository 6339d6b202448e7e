//! The streams of a GPU, to wait for all of them while some stream is being captured into a graph.
//!
//! Asked to wait for a whole GPU during a capture, whichever thread began it and in whichever mode, HIP and CUDA refuse
//! and end the capture. So streams that are not captured are waited for by events, and of those that are what they had
//! been given before. Work on streams that nothing here knows (another library's that do not wait for the legacy default
//! stream, or, while a stream that does is captured, another thread's default stream) cannot be waited for meanwhile.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use super::key::{StreamHandle, StreamKey};
use super::raw_event::RawEvent;
use crate::base::error::Result;
use crate::base::hip::table::HipTable;
use crate::base::hip::types::*;
use crate::base::thread::thread_number;
use crate::device::gpu::Device;
use crate::device::per_device::PerDevice;

/// Captures in progress that this process began here: HIP's rules are not about one GPU alone.
static CAPTURES: AtomicUsize = AtomicUsize::new(0);
/// Written while a capture begins, read while a whole GPU is waited for.
static BEGINNING: RwLock<()> = RwLock::new(());

/// The streams of each GPU.
static STREAMS: PerDevice<LiveStreams> = PerDevice::new();

/// What is done before a created stream is destroyed, while its handle is alive.
pub(crate) type StreamEnd = fn(&Arc<Device>, StreamKey) -> Result<()>;

/// The streams of one GPU.
#[derive(Default)]
pub(crate) struct LiveStreams {
    state: Mutex<State>,
    ends: Mutex<Vec<StreamEnd>>,
}

#[derive(Default)]
struct State {
    /// Handles of created and borrowed streams, each as often as there are objects of it.
    handles: Vec<usize>,
    captured: Vec<Captured>,
    /// The last work of streams that were destroyed before it had run.
    gone: Vec<Arc<RawEvent>>,
}

/// A stream that became a part of a capture, by beginning it or by waiting for another.
struct Captured {
    stream: StreamKey,
    /// What it had been given before.
    before: Arc<RawEvent>,
    /// What the legacy default stream had been given before: it may not be named while a stream that waits for it is
    /// captured. `None` if this stream does not.
    legacy: Option<Arc<RawEvent>>,
}

/// Whether the stream behind this handle is captured; of the per-thread one, the calling thread's.
pub(super) fn is_captured(hip: &HipTable, stream: hipStream_t) -> bool {
    let mut status = CAPTURE_STATUS_NONE;
    // SAFETY: the stream is alive, as an object of it is; the output is writable.
    hip.hipStreamIsCapturing.is_some_and(|query| unsafe {
        query(stream, &mut status) == HIP_SUCCESS && status != CAPTURE_STATUS_NONE
    })
}

impl State {
    /// Forgets captured streams that are so no more. What another thread's own is, only that thread could ask.
    fn prune(&mut self, hip: &HipTable) {
        self.captured.retain(|captured| {
            let stream = captured.stream;
            let unknown = stream.is_per_thread() && stream.thread != thread_number();
            unknown || is_captured(hip, stream.raw())
        });
    }

    /// What the legacy default stream had been given, if it may not be named now.
    fn legacy(&self) -> Option<Arc<RawEvent>> {
        self.captured
            .iter()
            .find_map(|captured| captured.legacy.clone())
    }

    /// A stream that is about to be captured; `None` if it is already.
    fn note(&mut self, hip: &HipTable, stream: StreamHandle) -> Result<Option<Captured>> {
        self.prune(hip);
        if is_captured(hip, stream.raw) {
            return Ok(None);
        }
        let legacy = match self.legacy() {
            _ if !stream.waits_for_legacy => None,
            Some(event) => Some(event),
            None => Some(Arc::new(RawEvent::record(hip, std::ptr::null_mut())?)),
        };
        Ok(Some(Captured {
            stream: stream.key(),
            before: Arc::new(RawEvent::record(hip, stream.raw)?),
            legacy,
        }))
    }
}

impl LiveStreams {
    /// A stream's object was made. The default streams need none.
    pub(crate) fn add(&self, stream: hipStream_t) {
        if !stream.is_null() && stream != STREAM_PER_THREAD {
            self.state.lock().handles.push(stream as usize);
        }
    }

    /// A stream's object is being dropped. From now on the handle may be dead.
    pub(crate) fn remove(&self, stream: hipStream_t) {
        if stream.is_null() || stream == STREAM_PER_THREAD {
            return;
        }
        let (mut state, stream) = (self.state.lock(), stream as usize);
        if let Some(place) = state.handles.iter().position(|handle| *handle == stream) {
            state.handles.swap_remove(place);
        }
        if !state.handles.contains(&stream) {
            state
                .captured
                .retain(|captured| captured.stream.raw != stream);
        }
    }

    /// From now on `end` is called before a created stream is destroyed.
    pub(crate) fn at_end(&self, end: StreamEnd) {
        self.ends.lock().push(end);
    }

    /// What is to be done before a created stream is destroyed, in the order in which it was asked for.
    pub(crate) fn ends(&self) -> Vec<StreamEnd> {
        self.ends.lock().clone()
    }

    /// A stream of this process is about to be destroyed, which need not wait for its work.
    pub(crate) fn note_last_work(&self, hip: &HipTable, stream: hipStream_t) -> Result<()> {
        let last = self.event_unless_captured(hip, stream)?;
        let mut state = self.state.lock();
        state.gone.retain(|event| !event.is_complete(hip));
        state.gone.extend(last);
        Ok(())
    }

    /// Begins a capture on `stream` by calling `begin`.
    pub(crate) fn begin_capture(
        &self,
        hip: &HipTable,
        stream: StreamHandle,
        begin: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let _nobody_waits_for_a_gpu = BEGINNING.write();
        let mut state = self.state.lock();
        let captured = state.note(hip, stream)?;
        begin()?;
        CAPTURES.fetch_add(1, Ordering::Relaxed);
        state.captured.extend(captured);
        Ok(())
    }

    /// The capture that began on this stream is over.
    pub(crate) fn end_capture(&self, stream: StreamKey) {
        CAPTURES.fetch_sub(1, Ordering::Relaxed);
        let mut state = self.state.lock();
        state.captured.retain(|captured| captured.stream != stream);
    }

    /// Makes `stream` wait for an event by calling `wait`, which may make it a part of a capture in progress.
    #[inline]
    pub(crate) fn wait(
        &self,
        hip: &HipTable,
        stream: StreamHandle,
        wait: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if CAPTURES.load(Ordering::Relaxed) == 0 {
            return wait();
        }
        let mut state = self.state.lock();
        let captured = state.note(hip, stream)?;
        wait()?;
        if is_captured(hip, stream.raw) {
            state.captured.extend(captured);
        }
        Ok(())
    }

    /// An event after what `stream` has been given until now; `None` if that is being captured.
    pub(crate) fn event_unless_captured(
        &self,
        hip: &HipTable,
        stream: hipStream_t,
    ) -> Result<Option<Arc<RawEvent>>> {
        // No capture takes the stream in while this is locked.
        let mut state = self.state.lock();
        if stream.is_null() {
            state.prune(hip);
            if let Some(event) = state.legacy() {
                return Ok(Some(event));
            }
        } else if is_captured(hip, stream) {
            return Ok(None);
        }
        Ok(Some(Arc::new(RawEvent::record(hip, stream)?)))
    }

    /// Waits for what a captured stream had been given before.
    pub(crate) fn wait_for_work_before_capture(
        &self,
        hip: &HipTable,
        stream: StreamKey,
    ) -> Result<()> {
        let before = self
            .state
            .lock()
            .captured
            .iter()
            .find_map(|captured| (captured.stream == stream).then(|| captured.before.clone()));
        before.map_or(Ok(()), |event| event.synchronize(hip))
    }

    /// Whether no stream but perhaps this one has work that has not run. False while a stream is captured.
    pub(crate) fn are_idle(&self, hip: &HipTable, but_for: Option<StreamKey>) -> bool {
        if CAPTURES.load(Ordering::Relaxed) != 0 {
            return false;
        }
        let state = self.state.lock();
        let mut others: Vec<usize> = state.handles.clone();
        // The legacy default stream has no object.
        others.push(0);
        others.sort_unstable();
        others.dedup();
        others.retain(|&handle| but_for.is_none_or(|stream| handle != stream.raw));
        let is_idle = |&handle: &usize| {
            // SAFETY: the stream's object is alive as long as its handle is in the list, which is locked.
            hip.relaxed(|| unsafe { (hip.hipStreamQuery)(handle as hipStream_t) }) == HIP_SUCCESS
        };
        state.gone.iter().all(|event| event.is_complete(hip)) && others.iter().all(is_idle)
    }

    /// Events after all that the streams have been given, but for what is being captured.
    fn events(&self, hip: &HipTable) -> Result<Vec<Arc<RawEvent>>> {
        let mut state = self.state.lock();
        state.prune(hip);
        let mut streams = state.handles.clone();
        streams.sort_unstable();
        streams.dedup();
        let mut events = state.gone.clone();
        match state.legacy() {
            Some(event) => events.push(event),
            // It waits for the default streams of all threads, too.
            None => streams.push(0),
        }
        for stream in streams {
            let stream = stream as hipStream_t;
            if !is_captured(hip, stream) {
                events.push(Arc::new(RawEvent::record(hip, stream)?));
            }
        }
        let before = |captured: &Captured| captured.before.clone();
        events.extend(state.captured.iter().map(before));
        Ok(events)
    }
}

impl Device {
    /// Its streams.
    pub(crate) fn streams(&self) -> &'static LiveStreams {
        STREAMS.get_or_init(self, LiveStreams::default)
    }

    /// Waits for all work on this GPU. Of streams that are being captured into graphs that is what they had been given
    /// before; the captures go on.
    pub fn synchronize(&self) -> Result<()> {
        self.bind()?;
        let hip = self.hip();
        let what = || format!("waiting for the work on GPU {}", self.ordinal());
        {
            let _no_capture_begins = BEGINNING.read();
            if CAPTURES.load(Ordering::Relaxed) == 0 {
                // SAFETY: no arguments.
                return hip.check(unsafe { (hip.hipDeviceSynchronize)() }, what);
            }
        }
        let events = self.streams().events(hip);
        events
            .and_then(|events| events.iter().try_for_each(|event| event.synchronize(hip)))
            .map_err(|error| error.context(what()))
    }
}
