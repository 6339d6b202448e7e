//! What was given to GPUs between pairs of events, until the events are read.

use std::collections::btree_map::{BTreeMap, Entry};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::report::{Report, Section};
use super::settings::Wanted;
use super::trace::{GpuSlice, HostSlice, Trace};
use super::work::Work;
use crate::base::error::Result;
use crate::base::hip::types::*;
use crate::base::thread::thread_number;
use crate::device::gpu::Device;
use crate::stream::context::Context;
use crate::stream::queue::Stream;

/// Most pairs of a GPU's events that wait to be read: then the thread that gives it work waits.
const MOST_PENDING: usize = 2048;
/// How long a thread rests before it looks again. Nobody waits with the recorder locked: a GPU may wait for what another
/// thread gives to another GPU, and that thread for the recorder.
const REST: Duration = Duration::from_micros(50);
/// Of so many, those that are done are read: a program that is ended loses few.
const READ_EACH: usize = 64;
/// Events that measure time.
const TIMING: u32 = 0;

static RECORDER: Mutex<Recorder> = Mutex::new(Recorder::new());

/// Given to a stream, and not read yet.
struct Pending {
    /// How many were given before.
    number: u64,
    context: Arc<Context>,
    /// Which queue of the GPU.
    queue: u64,
    name: String,
    bytes: usize,
    grid: Option<[(u32, u32, u32); 2]>,
    events: Events,
    given: Instant,
    took: Duration,
    thread: u64,
}

/// Before and after it.
#[derive(Clone, Copy)]
struct Events {
    start: hipEvent_t,
    end: hipEvent_t,
}

/// A GPU's events.
struct OfGpu {
    spare: Vec<hipEvent_t>,
    /// One whose time is known, from which others are measured. HIP tells times as f32, so that it must not lie far back.
    origin: hipEvent_t,
    /// The origin's, since the recorder's first use.
    microseconds: f64,
}

struct Recorder {
    /// By GPU.
    pending: BTreeMap<usize, VecDeque<Pending>>,
    /// How many were given so far.
    given: u64,
    /// Since what is done was read.
    unread: usize,
    gpus: BTreeMap<usize, OfGpu>,
    /// Of the environment's table.
    process: Option<Section>,
    /// Of [`begin_section`].
    section: Option<Section>,
    trace: Option<Trace>,
    began: Option<Instant>,
}

// SAFETY: HIP's events may be used from any thread.
unsafe impl Send for Recorder {}

/// Runs `give`, which gives `work` to the stream, between two events.
#[cold]
#[inline(never)]
pub(super) fn record<R>(stream: &Stream, work: &Work, give: impl FnOnce() -> R) -> R {
    // An event of a capture has no time.
    if stream.is_capturing().unwrap_or(true) {
        RECORDER
            .lock()
            .each_section(|section| section.captured += 1);
        return give();
    }
    let events = RECORDER.lock().events(stream);
    // Not with the recorder locked: a full queue makes whoever gives it more wait.
    let begun = events.and_then(|events| record_event(stream, events.start).map(|()| events));
    let Ok(events) = begun else {
        RECORDER.lock().each_section(|section| section.lost += 1);
        return give();
    };
    let given = Instant::now();
    let result = give();
    let took = given.elapsed();
    let ended = record_event(stream, events.end);
    let mut recorder = RECORDER.lock();
    if ended.is_err() {
        recorder.each_section(|section| section.lost += 1);
        return result;
    }
    let gpu = stream.context().device().ordinal();
    let number = recorder.given;
    recorder.given += 1;
    recorder.pending.entry(gpu).or_default().push_back(Pending {
        number,
        context: stream.context().clone(),
        queue: stream.key().raw as u64,
        name: work.name().into_owned(),
        bytes: work.bytes(),
        grid: work.grid(),
        events,
        given,
        took,
        thread: thread_number(),
    });
    recorder.unread += 1;
    if recorder.unread < READ_EACH && !recorder.is_full(gpu) {
        return result;
    }
    drop(recorder);
    read_until(|recorder| !recorder.is_full(gpu));
    // Reading made the events' GPU current. An error is the next call's, which makes its own current again.
    let _ = stream.context().device().bind();
    result
}

/// What the environment asks for begins.
pub(super) fn begin_process(wanted: &Wanted) {
    let mut recorder = RECORDER.lock();
    recorder.process = wanted.table.as_ref().map(|_| Section::default());
    recorder.trace = wanted.trace.as_deref().and_then(Trace::create);
}

/// Reads what is done, until it is enough.
fn read_until(is_enough: impl Fn(&Recorder) -> bool) {
    loop {
        let mut recorder = RECORDER.lock();
        recorder.read_done();
        if is_enough(&recorder) {
            return;
        }
        drop(recorder);
        std::thread::sleep(REST);
    }
}

/// Waits for what was given so far, and reads it.
fn read_given() {
    let end = RECORDER.lock().given;
    read_until(|recorder| recorder.has_read_to(end));
}

/// The table of the whole process, and the end of its trace.
pub(super) fn end_process() -> Report {
    read_given();
    let mut recorder = RECORDER.lock();
    if let Some(trace) = recorder.trace.take() {
        trace.finish();
    }
    recorder.process.take().unwrap_or_default().report()
}

/// A table of its own begins.
pub(super) fn begin_section() {
    read_given();
    RECORDER.lock().section = Some(Section::default());
}

/// The table of what [`begin_section`] began, and whether anything else is still recorded.
pub(super) fn end_section() -> (Report, bool) {
    read_given();
    let mut recorder = RECORDER.lock();
    let section = recorder.section.take().unwrap_or_default();
    let goes_on = recorder.process.is_some() || recorder.trace.is_some();
    (section.report(), goes_on)
}

/// A slice of the host's own, in the trace if there is one.
pub(super) fn host_slice(name: &str, began: Instant) {
    let mut recorder = RECORDER.lock();
    let start = recorder.since_first_use(began);
    if let Some(trace) = &mut recorder.trace {
        trace.host(&HostSlice {
            name,
            category: "range",
            thread: thread_number(),
            start,
            took: began.elapsed(),
        });
    }
}

fn record_event(stream: &Stream, event: hipEvent_t) -> Result<()> {
    let hip = stream.context().device().hip();
    // SAFETY: both handles are alive.
    let status = unsafe { (hip.hipEventRecord)(event, stream.raw()) };
    hip.check(status, || "recording an event of a profile")
}

fn new_event(device: &Device) -> Result<hipEvent_t> {
    let (hip, mut event) = (device.hip(), std::ptr::null_mut());
    // SAFETY: `event` is writable.
    let status = hip.relaxed(|| unsafe { (hip.hipEventCreateWithFlags)(&mut event, TIMING) });
    hip.check(status, || "creating an event of a profile")?;
    Ok(event)
}

fn wait_for(device: &Device, event: hipEvent_t) -> Result<()> {
    let hip = device.hip();
    // SAFETY: the handle is alive.
    let status = hip.relaxed(|| unsafe { (hip.hipEventSynchronize)(event) });
    hip.check(status, || "waiting for an event of a profile")
}

/// Whether an event has happened, or never will.
fn is_done(device: &Device, event: hipEvent_t) -> bool {
    let hip = device.hip();
    // SAFETY: the handle is alive.
    hip.relaxed(|| unsafe { (hip.hipEventQuery)(event) }) != HIP_ERROR_NOT_READY
}

/// Between two events that have happened.
fn microseconds(device: &Device, from: hipEvent_t, to: hipEvent_t) -> Result<f64> {
    let (hip, mut milliseconds) = (device.hip(), 0f32);
    // SAFETY: the handles are alive and the output is writable.
    let status = unsafe { (hip.hipEventElapsedTime)(&mut milliseconds, from, to) };
    hip.check(status, || "reading an event of a profile")?;
    Ok(f64::from(milliseconds) * 1e3)
}

impl Recorder {
    const fn new() -> Self {
        Self {
            pending: BTreeMap::new(),
            given: 0,
            unread: 0,
            gpus: BTreeMap::new(),
            process: None,
            section: None,
            trace: None,
            began: None,
        }
    }

    fn each_section(&mut self, mut change: impl FnMut(&mut Section)) {
        let sections = self.process.iter_mut().chain(&mut self.section);
        sections.for_each(&mut change);
    }

    fn since_first_use(&mut self, at: Instant) -> Duration {
        at.saturating_duration_since(*self.began.get_or_insert(at))
    }

    /// A pair of events.
    fn events(&mut self, stream: &Stream) -> Result<Events> {
        let device = stream.context().device();
        let of_gpu = match self.gpus.entry(device.ordinal()) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(place) => {
                let origin = new_event(device)?;
                record_event(stream, origin)?;
                wait_for(device, origin)?;
                let now = Instant::now();
                let began = *self.began.get_or_insert(now);
                place.insert(OfGpu {
                    spare: Vec::new(),
                    origin,
                    microseconds: now.saturating_duration_since(began).as_secs_f64() * 1e6,
                })
            }
        };
        let mut take = || match of_gpu.spare.pop() {
            Some(event) => Ok(event),
            None => new_event(device),
        };
        Ok(Events {
            start: take()?,
            end: take()?,
        })
    }

    /// Whether a GPU has so many events to be read that nobody may give it more.
    fn is_full(&self, gpu: usize) -> bool {
        let pending = self.pending.get(&gpu);
        pending.is_some_and(|pending| pending.len() >= MOST_PENDING)
    }

    /// Whether all that were given before this number have been read.
    fn has_read_to(&self, end: u64) -> bool {
        let mut first = self.pending.values().filter_map(VecDeque::front);
        first.all(|pending| pending.number >= end)
    }

    /// Adds what is done to the tables and to the trace, each GPU's in the order in which it was given.
    fn read_done(&mut self) {
        let gpus: Vec<usize> = self.pending.keys().copied().collect();
        for gpu in gpus {
            while let Some(pending) = self.first_done(gpu) {
                // An error of the work itself is another call's to return.
                if self.read_one(&pending).is_err() {
                    self.each_section(|section| section.lost += 1);
                }
            }
        }
        self.unread = 0;
        if let Some(trace) = &mut self.trace {
            trace.flush();
        }
    }

    /// The first that a GPU was given, if it is done.
    fn first_done(&mut self, gpu: usize) -> Option<Pending> {
        let pending = self.pending.get_mut(&gpu)?;
        let first = pending.front()?;
        match is_done(first.context.device(), first.events.end) {
            true => pending.pop_front(),
            false => None,
        }
    }

    fn read_one(&mut self, pending: &Pending) -> Result<()> {
        let device = pending.context.device();
        let Events { start, end } = pending.events;
        device.bind()?;
        let took = microseconds(device, start, end)?;
        let mut begin = 0.0;
        if let Some(of_gpu) = self.gpus.get_mut(&device.ordinal()) {
            begin = of_gpu.microseconds + microseconds(device, of_gpu.origin, start)?;
            let before = std::mem::replace(&mut of_gpu.origin, end);
            of_gpu.microseconds = begin + took;
            of_gpu.spare.extend([start, before]);
        }
        self.each_section(|section| section.add(&pending.name, took, pending.bytes));
        let given = self.since_first_use(pending.given);
        if let Some(trace) = &mut self.trace {
            trace.host(&HostSlice {
                name: &pending.name,
                category: "given",
                thread: pending.thread,
                start: given,
                took: pending.took,
            });
            trace.gpu(&GpuSlice {
                name: &pending.name,
                gpu: device.ordinal(),
                queue: pending.queue,
                start: begin,
                took,
                bytes: pending.bytes,
                grid: pending.grid,
            });
            if let Some(pool) = device.existing_pool() {
                trace.memory(device.ordinal(), begin, pool.statistics().in_use);
            }
        }
        Ok(())
    }
}
