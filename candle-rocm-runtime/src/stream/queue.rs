//! Streams: queues of work on a GPU.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use parking_lot::Mutex;

use super::capture;
use super::context::Context;
use crate::base::cuda_names::CUstreamCaptureStatus;
use crate::base::error::{Error, Result};
use crate::base::hip::calls::optional;
use crate::base::hip::types::*;
use crate::base::thread::thread_number;
use crate::device::gpu::Device;
use crate::device::per_device::PerDevice;
use crate::order::key::{StreamHandle, StreamKey};
use crate::order::thread_streams;
use crate::pool::allocator::Waited;
use crate::runtime::RuntimeKind;

/// A queue of work on a GPU. Work is asynchronous to the host and ordered within the stream.
pub struct Stream {
    raw: hipStream_t,
    context: Arc<Context>,
    origin: Origin,
    /// Which object this is: HIP gives a destroyed stream's handle to a new one.
    number: u64,
}

/// Whose a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// HIP's default streams', or another library's.
    Borrowed,
    /// Created here, with this priority if one was asked for.
    Created(Option<i32>),
}

/// Streams that nobody has any more, for those who ask for a new one. They are not destroyed: AMD's HIP asks the stream of
/// an event about that event, also when the stream is gone, and events outlive streams in CUDA's interface.
static SPARE: PerDevice<Mutex<Vec<Spare>>> = PerDevice::new();

struct Spare {
    raw: hipStream_t,
    priority: Option<i32>,
}

// SAFETY: HIP's streams may be used from any thread.
unsafe impl Send for Spare {}

/// A queue of work whose own order is enough for two uses of a buffer. No later stream has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamId {
    /// The legacy default stream.
    Default,
    /// The default stream of the thread with this number.
    Thread(u64),
    /// A created or borrowed stream.
    Object(u64),
}

fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

// SAFETY: HIP's streams may be used from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above; HIP locks its own state.
unsafe impl Sync for Stream {}

impl Context {
    fn borrowed(self: &Arc<Self>, raw: hipStream_t) -> Arc<Stream> {
        self.device().streams().add(raw);
        Arc::new(Stream {
            raw,
            context: self.clone(),
            origin: Origin::Borrowed,
            number: next_number(),
        })
    }

    /// The legacy default stream, which waits for all blocking streams of the GPU and they for it.
    pub fn default_stream(self: &Arc<Self>) -> Arc<Stream> {
        self.borrowed(std::ptr::null_mut())
    }

    /// The calling thread's default stream; another thread that uses this object uses its own.
    ///
    /// When a second thread comes, buffers start to track their use as between created streams, so that
    /// passing tensors between threads is safe.
    pub fn per_thread_stream(self: &Arc<Self>) -> Arc<Stream> {
        self.borrowed(STREAM_PER_THREAD)
    }

    /// A stream that another library owns; dropping the result does not destroy it.
    ///
    /// # Safety
    /// `raw` is a stream of this GPU, its owner keeps it alive while the result is used, and the caller
    /// orders the work of both.
    pub unsafe fn wrap_borrowed_stream(self: &Arc<Self>, raw: hipStream_t) -> Arc<Stream> {
        self.borrowed(raw)
    }

    /// A new stream, not ordered with the legacy default stream. From the first one on, buffers track
    /// their use.
    pub fn new_stream(self: &Arc<Self>) -> Result<Arc<Stream>> {
        self.create_stream(None, |raw| {
            let hip = self.device().hip();
            // SAFETY: `raw` is writable.
            let status = unsafe { (hip.hipStreamCreateWithFlags)(raw, STREAM_NON_BLOCKING) };
            hip.check(status, || "creating a stream")
        })
    }

    /// A new stream of this priority; lower numbers go first.
    pub fn new_stream_with_priority(self: &Arc<Self>, priority: i32) -> Result<Arc<Stream>> {
        self.create_stream(Some(priority), |raw| {
            let hip = self.device().hip();
            let create = optional!(hip, hipStreamCreateWithPriority)?;
            // SAFETY: `raw` is writable.
            let status = unsafe { create(raw, STREAM_NON_BLOCKING, priority) };
            hip.check(status, || {
                format!("creating a stream of priority {priority}")
            })
        })
    }

    fn create_stream(
        self: &Arc<Self>,
        priority: Option<i32>,
        create: impl FnOnce(&mut hipStream_t) -> Result<()>,
    ) -> Result<Arc<Stream>> {
        self.bind_to_thread()?;
        let raw = match take_spare(self.device(), priority) {
            Some(raw) => raw,
            None => {
                let mut raw = std::ptr::null_mut();
                self.device().hip().relaxed(|| create(&mut raw))?;
                raw
            }
        };
        self.device().streams().add(raw);
        // Owned from here on: whatever fails below, the stream is kept for others.
        let stream = Arc::new(Stream {
            raw,
            context: self.clone(),
            origin: Origin::Created(priority),
            number: next_number(),
        });
        self.turn_to_many_streams()?;
        Ok(stream)
    }
}

fn spares(device: &Device) -> &'static Mutex<Vec<Spare>> {
    SPARE.get_or_init(device, Mutex::default)
}

/// A stream of this priority that nobody has any more.
fn take_spare(device: &Device, priority: Option<i32>) -> Option<hipStream_t> {
    let mut spares = spares(device).lock();
    let place = spares.iter().position(|spare| spare.priority == priority)?;
    Some(spares.swap_remove(place).raw)
}

impl Stream {
    /// HIP's handle. It belongs to this object, to the library that lent it or, on AMD's HIP, to the calling thread.
    #[inline]
    pub fn raw(&self) -> hipStream_t {
        let device = self.context.device();
        if self.is_per_thread() && device.runtime().kind() == RuntimeKind::Amd {
            thread_streams::of_this_thread(device)
        } else {
            self.raw
        }
    }

    /// HIP's handle, under cudarc's name.
    pub fn cu_stream(&self) -> hipStream_t {
        self.raw()
    }

    /// The context that the stream belongs to.
    #[inline]
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Whose work this is, for the memory pool: the per-thread handle stands for another stream on each
    /// thread.
    #[inline]
    pub fn key(&self) -> StreamKey {
        StreamKey::of(self.raw())
    }

    /// What the layers below need to know of it. One that was created here is not ordered with the legacy default
    /// stream; of a borrowed one nobody knows.
    #[inline]
    pub(crate) fn handle(&self) -> StreamHandle {
        StreamHandle {
            raw: self.raw(),
            waits_for_legacy: self.origin == Origin::Borrowed,
        }
    }

    /// Whether all work of the stream is given by objects of ours, or by the default streams' other users: not that of
    /// another library's stream.
    pub(crate) fn is_ordered_here(&self) -> bool {
        self.origin != Origin::Borrowed || self.raw.is_null() || self.is_per_thread()
    }

    /// Whether this object is another queue on each thread.
    #[inline]
    pub(crate) fn is_per_thread(&self) -> bool {
        self.raw == STREAM_PER_THREAD
    }

    /// Which queue this is on the calling thread.
    pub(crate) fn id(&self) -> StreamId {
        if self.raw.is_null() {
            StreamId::Default
        } else if self.is_per_thread() {
            StreamId::Thread(thread_number())
        } else {
            StreamId::Object(self.number)
        }
    }

    /// Makes the GPU current on this thread; every call that gives the stream work starts with it.
    #[inline]
    pub(crate) fn enter(&self) -> Result<()> {
        self.note_use()?;
        self.context.device().bind()
    }

    /// What [`Stream::enter`] does where HIP is not called: returns an error that is waiting, and notes who uses
    /// the per-thread stream.
    #[inline]
    pub(crate) fn note_use(&self) -> Result<()> {
        if self.is_per_thread() {
            self.context.enter_per_thread_stream()?;
        }
        self.context.check_err()
    }

    /// Waits until the stream is idle, and returns an error that its work left.
    pub fn synchronize(&self) -> Result<()> {
        self.enter()?;
        if self.is_capturing()? {
            // HIP would refuse as well, and end the capture.
            return Err(Error::invalid(
                "a stream that is being captured runs nothing that could be waited for: end the capture first",
            ));
        }
        let hip = self.context.device().hip();
        // SAFETY: the handle is alive.
        let status = hip.relaxed(|| unsafe { (hip.hipStreamSynchronize)(self.raw()) });
        hip.check(status, || "waiting for a stream")?;
        self.context
            .after_synchronisation(Waited::Stream(self.key()))?;
        self.context.check_err()
    }

    /// Waits until what the stream was given has run; of one that is being captured, what it was given before.
    pub(crate) fn finish(&self) -> Result<()> {
        if !self.is_capturing()? {
            return self.synchronize();
        }
        let device = self.context.device();
        device
            .streams()
            .wait_for_work_before_capture(device.hip(), self.key())
    }

    /// Whether the stream's work is being captured.
    pub fn capture_status(&self) -> Result<CUstreamCaptureStatus> {
        self.enter()?;
        capture::status(self.context.device().hip(), self.raw())
    }

    /// Whether this very stream is being captured; asks HIP only while some capture is in progress.
    pub(crate) fn is_capturing(&self) -> Result<bool> {
        if !capture::is_any(self.context.device()) {
            return Ok(false);
        }
        Ok(self.capture_status()? != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }

    /// Ends a capture that nobody ended; what it freed is free.
    fn abandon_capture(&self) -> Result<()> {
        let device = self.context.device();
        let abandoned = self.is_capturing().and_then(|is_capturing| {
            if is_capturing {
                capture::abandon(device.hip(), self.raw)
            } else {
                Ok(())
            }
        });
        drop(capture::ended(device, self.key()));
        abandoned
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let device = self.context.device();
        let Origin::Created(priority) = self.origin else {
            device.streams().remove(self.raw);
            return;
        };
        self.context.record_err(device.bind());
        let abandoned = self.abandon_capture();
        let usable = abandoned.is_ok();
        self.context.record_err(abandoned);
        for end in device.streams().ends() {
            self.context.record_err(end(device, self.key()));
        }
        let hip = device.hip();
        let noted = device.streams().note_last_work(hip, self.raw);
        self.context.record_err(noted);
        device.streams().remove(self.raw);
        if usable {
            let raw = self.raw;
            spares(device).lock().push(Spare { raw, priority });
            return;
        }
        // It may be a part of a capture for ever.
        // SAFETY: the handle is alive and ours; HIP finishes the queued work first.
        let status = hip.relaxed(|| unsafe { (hip.hipStreamDestroy)(self.raw) });
        self.context
            .record_err(hip.check(status, || "destroying a stream"));
    }
}

impl PartialEq for Stream {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw && self.context == other.context
    }
}

impl Eq for Stream {}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({:p} on {:?})", self.raw, self.context.device())
    }
}
