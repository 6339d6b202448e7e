//! Streams. Work runs as it is enqueued, on the thread that enqueues it, or with the check of order later; while a
//! stream captures, it is recorded instead.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};
use std::thread::ThreadId;

use parking_lot::{Mutex, ReentrantMutex};

use super::capture::{refuse_during_capture, Capture, MODE_RELAXED};
use super::error::{Code, HipError, Result};
use super::event::{Event, Record};
use super::graph_faults;
use super::handles::{Kind, Table};
use super::late::{late, Lane};
use super::operation::Operation;
use super::state::{runtime, Device, PerDevice, Runtime};

/// Does not wait for the legacy default stream, nor it for this one.
pub const NON_BLOCKING: u32 = 1;

/// Where a stream comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// The default stream that all threads share.
    Legacy,
    /// `hipStreamPerThread`.
    PerThread,
    /// `hipStreamCreate`.
    Created,
}

/// A stream.
pub struct Stream {
    /// Its device.
    pub device: usize,
    /// Where it comes from.
    pub kind: StreamKind,
    /// `hipStreamCreateWithFlags`.
    pub flags: u32,
    /// `hipStreamCreateWithPriority`; changes nothing here.
    pub priority: i32,
    /// Held while work of this stream runs. Re-entrant, so that a host function that calls HIP against the rules
    /// does not hang.
    busy: ReentrantMutex<()>,
    capture: Mutex<Option<StreamCapture>>,
    /// Ends with the stream: events know by it that theirs is gone.
    life: Arc<()>,
    /// No other stream has, or had, it.
    number: u64,
    /// Late work that the next must wait for: events.
    waits: Mutex<Vec<u64>>,
}

/// Streams that the program created.
pub static STREAMS: LazyLock<Table<Stream>> = LazyLock::new(|| Table::new(Kind::Stream));

/// The legacy default stream of each device.
static DEFAULT_STREAMS: PerDevice<Arc<Stream>> =
    PerDevice::new(|device| Arc::new(Stream::new(device.index, StreamKind::Legacy, 0, 0)));

static ALL_PER_THREAD: Mutex<Vec<Weak<Stream>>> = Mutex::new(Vec::new());

thread_local! {
    static PER_THREAD_STREAMS: RefCell<BTreeMap<usize, Arc<Stream>>> = const { RefCell::new(BTreeMap::new()) };
}

impl Runtime {
    /// The stream that a handle names, for the calling thread.
    ///
    /// # Errors
    /// `hipErrorInvalidHandle` when there is none (HIP says `hipErrorContextIsDestroyed` for some of these).
    pub fn stream(&self, handle: *const c_void) -> Result<Arc<Stream>> {
        match handle as usize {
            // hipStreamLegacy has a number of its own beside null.
            0 | 1 => Ok(DEFAULT_STREAMS.of(self, self.current()).clone()),
            2 => Ok(self.per_thread_stream()),
            _ => STREAMS.get(handle),
        }
    }

    fn per_thread_stream(&self) -> Arc<Stream> {
        let device = self.current().index;
        PER_THREAD_STREAMS.with_borrow_mut(|streams| {
            streams
                .entry(device)
                .or_insert_with(|| {
                    let stream = Arc::new(Stream::new(device, StreamKind::PerThread, 0, 0));
                    ALL_PER_THREAD.lock().push(Arc::downgrade(&stream));
                    stream
                })
                .clone()
        })
    }

    /// Every live stream of a device, default and per-thread ones included.
    pub fn streams_of(&self, device: &Device) -> Vec<Arc<Stream>> {
        let mut per_thread = ALL_PER_THREAD.lock();
        per_thread.retain(|stream| stream.strong_count() > 0);
        std::iter::once(DEFAULT_STREAMS.of(self, device).clone())
            .chain(per_thread.iter().filter_map(Weak::upgrade))
            .chain(STREAMS.all())
            .filter(|stream| stream.device == device.index)
            .collect()
    }
}

/// A stream's part in a capture.
struct StreamCapture {
    capture: Arc<Capture>,
    /// The nodes that the stream's next node depends on.
    frontier: Vec<usize>,
    /// Began the capture, and must end it.
    origin: bool,
}

/// What `hipStreamGetCaptureInfo` tells.
pub struct CaptureInfo {
    /// 1: active, 2: invalidated.
    pub status: u32,
    /// The capture's id.
    pub id: u64,
}

impl Stream {
    /// A stream that does nothing yet.
    pub fn new(device: usize, kind: StreamKind, flags: u32, priority: i32) -> Stream {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        Stream {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            waits: Mutex::default(),
            device,
            kind,
            flags,
            priority,
            busy: ReentrantMutex::new(()),
            capture: Mutex::new(None),
            life: Arc::new(()),
        }
    }

    /// Whether it is ordered with the legacy default stream.
    fn blocking(&self) -> bool {
        self.flags & NON_BLOCKING == 0
    }

    fn lane(&self) -> Lane {
        Lane {
            stream: self.number,
            device: self.device,
            legacy: self.kind == StreamKind::Legacy,
            blocking: self.blocking(),
        }
    }

    /// Run an operation after the stream's earlier work, or record it.
    ///
    /// # Errors
    /// The operation's own, the device's pending fault, or that the capture forbids it.
    pub fn submit(&self, runtime: &Runtime, operation: Operation) -> Result {
        if let Some(capture) = &mut *self.capture.lock() {
            let before = std::mem::take(&mut capture.frontier);
            let node = capture.capture.push(operation, before)?;
            capture.frontier = vec![node];
            return Ok(());
        }
        if self.kind == StreamKind::Legacy {
            self.refuse_implicit_dependency(runtime)?;
        }
        self.run(runtime, &operation)
    }

    /// Run an operation at once: also that of a synchronous function, which no capture can record.
    pub fn run(&self, runtime: &Runtime, operation: &Operation) -> Result {
        let device = &runtime.devices[self.device];
        device.healthy()?;
        if let Some(late) = late(runtime) {
            let waits = std::mem::take(&mut *self.waits.lock());
            late.enqueue(runtime, self.lane(), waits, operation.clone());
            return Ok(());
        }
        let _stream = self.busy.lock();
        // A host function may enqueue on another stream of this device; it holds no order meanwhile.
        let ordered = !matches!(operation, Operation::Host { .. });
        let _all = (ordered && self.kind == StreamKind::Legacy).then(|| device.order.write());
        let _one = (ordered && self.kind != StreamKind::Legacy && self.blocking())
            .then(|| device.order.read());
        graph_faults::run(runtime, device, operation)
    }

    /// Wait for work that another thread runs on this stream.
    ///
    /// # Errors
    /// `hipErrorStreamCaptureUnsupported` while it captures (which ends that capture), or the device's fault.
    pub fn synchronize(&self, runtime: &Runtime) -> Result {
        self.refuse_capture()?;
        self.refuse_others_capture()?;
        self.finish(runtime)
    }

    /// Wait for its work, whatever is captured.
    ///
    /// # Errors
    /// The device's fault.
    pub fn finish(&self, runtime: &Runtime) -> Result {
        if let Some(late) = late(runtime) {
            let waits = self.waits.lock().clone();
            late.synchronize(runtime, self.lane(), &waits);
        }
        drop(self.busy.lock());
        runtime.devices[self.device].healthy()
    }

    /// Whether all work is done.
    ///
    /// # Errors
    /// `hipErrorNotReady` if not; otherwise as [`Stream::synchronize`].
    pub fn query(&self, runtime: &Runtime) -> Result {
        self.refuse_capture()?;
        self.refuse_others_capture()?;
        if late(runtime).is_some_and(|late| !late.is_idle(runtime, self.lane())) {
            return Err(Code::NotReady.into());
        }
        match self.busy.try_lock() {
            Some(_) => runtime.devices[self.device].healthy(),
            None => Err(Code::NotReady.into()),
        }
    }

    /// Record an event.
    ///
    /// # Errors
    /// `hipErrorInvalidHandle` when the event is of another device.
    pub fn record(&self, runtime: &Runtime, event: &Arc<Event>) -> Result {
        if event.device != self.device {
            return Err(HipError::new(
                Code::InvalidHandle,
                format!(
                    "event of device {} recorded in a stream of device {}",
                    event.device, self.device
                ),
            ));
        }
        if let Some(capture) = &*self.capture.lock() {
            capture.capture.check()?;
            *event.state.lock() = Record::Captured {
                capture: capture.capture.id,
                nodes: capture.frontier.clone(),
            };
            return Ok(());
        }
        runtime.devices[self.device].healthy()?;
        let created = self.kind == StreamKind::Created;
        *event.stream.lock() = created.then(|| Arc::downgrade(&self.life));
        if let Some(late) = late(runtime) {
            let waits = std::mem::take(&mut *self.waits.lock());
            late.record(runtime, self.lane(), waits, event);
            return Ok(());
        }
        let _stream = self.busy.lock();
        *event.state.lock() = Record::Reached(std::time::Instant::now());
        Ok(())
    }

    /// Make later work wait for an event. Recorded events are complete, but those of late streams: otherwise only captures
    /// have anything to do.
    ///
    /// # Errors
    /// What HIP says of waits that would mix captured and other work.
    pub fn wait(&self, runtime: &Runtime, event: &Event) -> Result {
        let record = event.state.lock().clone();
        let mut own = self.capture.lock();
        match (record, &mut *own) {
            (Record::Captured { capture, nodes }, Some(mine)) => {
                if capture != mine.capture.id {
                    mine.capture.invalidate();
                    return Err(Code::StreamCaptureMerge.into());
                }
                mine.capture.check()?;
                mine.frontier.extend(nodes);
                mine.frontier.sort_unstable();
                mine.frontier.dedup();
                Ok(())
            }
            (Record::Captured { capture, nodes }, None) => {
                let capture = Capture::active(capture).ok_or(Code::CapturedEvent)?;
                if self.kind == StreamKind::Legacy {
                    capture.invalidate();
                    return Err(Code::StreamCaptureImplicit.into());
                }
                // The fork of a capture into this stream.
                *own = Some(StreamCapture {
                    capture,
                    frontier: nodes,
                    origin: false,
                });
                Ok(())
            }
            (Record::Reached(_) | Record::Pending(_), Some(mine)) => {
                mine.capture.invalidate();
                Err(Code::StreamCaptureIsolation.into())
            }
            (Record::Never, Some(_)) => Ok(()),
            (Record::Pending(id), None) => {
                self.waits.lock().push(id);
                runtime.devices[self.device].healthy()
            }
            (_, None) => runtime.devices[self.device].healthy(),
        }
    }

    /// Begin a capture.
    ///
    /// # Errors
    /// `hipErrorStreamCaptureUnsupported` for the legacy stream, `hipErrorIllegalState` when it captures already.
    pub fn begin_capture(&self, runtime: &Runtime, mode: u32) -> Result {
        if mode > MODE_RELAXED {
            return Err(HipError::new(
                Code::InvalidValue,
                format!("capture mode {mode}"),
            ));
        }
        if self.kind == StreamKind::Legacy {
            return Err(Code::StreamCaptureUnsupported.into());
        }
        runtime.devices[self.device].healthy()?;
        let mut own = self.capture.lock();
        if own.is_some() {
            return Err(Code::IllegalState.into());
        }
        *own = Some(StreamCapture {
            capture: Capture::begin(mode, self.device),
            frontier: Vec::new(),
            origin: true,
        });
        Ok(())
    }

    /// End the capture that began here, and take its nodes.
    ///
    /// # Errors
    /// That the stream does not capture, did not begin the capture, or that forked work was not joined.
    pub fn end_capture(&self, runtime: &Runtime) -> Result<Arc<Capture>> {
        let mut own = self.capture.lock();
        let Some(mine) = &*own else {
            return Err(Code::IllegalState.into());
        };
        if !mine.origin {
            return Err(Code::StreamCaptureUnmatched.into());
        }
        let thread: ThreadId = std::thread::current().id();
        if mine.capture.mode != MODE_RELAXED && mine.capture.thread != thread {
            return Err(Code::StreamCaptureWrongThread.into());
        }
        let Some(mine) = own.take() else {
            return Err(Code::IllegalState.into());
        };
        drop(own);
        mine.end(runtime);
        mine.capture.check()?;
        if !mine.capture.reaches_all(&mine.frontier) {
            return Err(Code::StreamCaptureUnjoined.into());
        }
        Ok(mine.capture)
    }

    /// Free memory in the stream's order, while it captures.
    ///
    /// # Errors
    /// As [`Stream::submit`].
    pub fn free_captured(&self, runtime: &Runtime, address: u64) -> Result {
        let owned = {
            let own = self.capture.lock();
            own.as_ref()
                .is_some_and(|mine| mine.capture.allocated(address))
        };
        // What the graph allocated has its address for as long as the graph lives.
        let operation = if owned {
            Operation::Empty
        } else {
            Operation::Free(address)
        };
        self.submit(runtime, operation)
    }

    /// Forget a capture: the stream is destroyed, or its device reset.
    pub fn abandon_capture(&self) {
        // Ending the capture visits this stream again: the lock must be free by then.
        let taken = self.capture.lock().take();
        if let Some(mine) = taken {
            mine.capture.invalidate();
            if let Ok(runtime) = runtime() {
                if mine.origin {
                    mine.end(runtime);
                }
            }
        }
    }

    fn leave(&self, id: u64) {
        let mut own = self.capture.lock();
        if own
            .as_ref()
            .is_some_and(|mine| mine.capture.id == id && !mine.origin)
        {
            *own = None;
        }
    }

    /// The capture under way, if any.
    pub fn capture_info(&self) -> Option<CaptureInfo> {
        let own = self.capture.lock();
        own.as_ref().map(|mine| CaptureInfo {
            status: if mine.capture.check().is_ok() { 1 } else { 2 },
            id: mine.capture.id,
        })
    }

    /// A function that waits cannot be captured; calling it ends the capture.
    fn refuse_capture(&self) -> Result {
        match &*self.capture.lock() {
            Some(mine) => {
                mine.capture.invalidate();
                Err(Code::StreamCaptureUnsupported.into())
            }
            None => Ok(()),
        }
    }

    /// Waiting for a created or a per-thread stream counts as disturbing what is captured elsewhere.
    fn refuse_others_capture(&self) -> Result {
        match self.kind {
            StreamKind::Legacy => Ok(()),
            _ => refuse_during_capture(),
        }
    }

    /// Work on the legacy stream would wait for every blocking stream, hence for those that capture.
    fn refuse_implicit_dependency(&self, runtime: &Runtime) -> Result {
        for stream in runtime.streams_of(&runtime.devices[self.device]) {
            if stream.kind == StreamKind::Legacy || !stream.blocking() {
                continue;
            }
            if let Some(mine) = &*stream.capture.lock() {
                mine.capture.invalidate();
                return Err(Code::StreamCaptureImplicit.into());
            }
        }
        Ok(())
    }
}

impl StreamCapture {
    fn end(&self, runtime: &Runtime) {
        self.capture.finish();
        for stream in runtime.streams_of(&runtime.devices[self.capture.device]) {
            stream.leave(self.capture.id);
        }
    }
}
