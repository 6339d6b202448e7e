//! The pool itself: allocating and freeing in stream order.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use parking_lot::Mutex;

use super::blocks::{Asker, Blocks, Held};
use super::driver::Driver;
use super::origin::Origin;
use super::parameters::Parameters;
use super::release::{self, Release};
use super::segments;
use super::statistics::PoolStatistics;
use crate::base::error::Result;
use crate::base::hip::table::HipTable;
use crate::device::gpu::Device;
use crate::device::per_device::PerDevice;
use crate::order::key::StreamKey;
use crate::order::raw_event::RawEvent;

/// The variable that turns the pool off when it is `0`, and on, on the emulator as well, when it is `1`.
pub const POOL_VARIABLE: &str = candle_rocm_variables::POOL.name;

/// The pool of each GPU.
static POOLS: PerDevice<Pool> = PerDevice::new();

/// The memory pool of one GPU.
pub struct Pool {
    pub(super) device: Arc<Device>,
    pub(super) hip: &'static HipTable,
    driver: Driver,
    pub(super) caching: bool,
    pub(super) active_captures: AtomicUsize,
    pub(super) state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    pub blocks: Blocks,
    pub parameters: Parameters,
    pub captures: HashMap<u64, Capture>,
    pub next_graph: u64,
    pub statistics: PoolStatistics,
    pub release: Release,
}

/// What the host has waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waited {
    /// All work on the GPU.
    Gpu,
    /// All that a stream had been given.
    Stream(StreamKey),
    /// What came before an event, which may not be the last of its stream.
    Event,
}

/// A capture in progress, or the graph that came of it.
pub(super) struct Capture {
    pub stream: StreamKey,
    /// The legacy default stream waits for that stream, and may not be named meanwhile.
    pub legacy_waits: bool,
    pub active: bool,
    /// Freed blocks that the graph goes on using, or may.
    pub held: Vec<Held>,
    /// What else its launches use.
    pub kept: Vec<Kept>,
}

/// Something that lives as long as a graph.
pub(crate) type Kept = Arc<dyn Any + Send + Sync>;

impl Capture {
    /// Whether events on this stream would be a part of the capture in progress, or end it. For per-thread streams
    /// they are recorded on the legacy default stream, which is ordered with those of all threads.
    pub fn covers(&self, stream: StreamKey) -> bool {
        let by_legacy = stream.raw == 0 || stream.is_per_thread();
        self.active && (self.stream == stream || self.legacy_waits && by_legacy)
    }
}

impl Device {
    /// Its memory pool.
    #[inline]
    pub fn pool(self: &Arc<Self>) -> &'static Pool {
        POOLS.get_or_init(self, || {
            // Blocks freed on a stream must not name it when it is no more.
            self.streams().at_end(forget_stream);
            Pool::new(self)
        })
    }

    /// The pool, if anything was ever allocated from it.
    #[inline]
    pub(crate) fn existing_pool(&self) -> Option<&'static Pool> {
        POOLS.get(self)
    }
}

fn forget_stream(device: &Arc<Device>, stream: StreamKey) -> Result<()> {
    device
        .existing_pool()
        .map_or(Ok(()), |pool| pool.forget_stream(stream))
}

impl Pool {
    pub(crate) fn new(device: &Arc<Device>) -> Self {
        let asked = std::env::var(POOL_VARIABLE).ok();
        let state = State {
            release: Release::new(release::threshold_of_environment()),
            ..State::default()
        };
        Self {
            device: device.clone(),
            hip: device.hip(),
            driver: Driver::of(device),
            caching: match asked.as_deref().map(str::trim) {
                Some("0") => false,
                Some("1") => true,
                // See the module's documentation for why not on the emulator.
                _ => !device.is_emulated(),
            },
            active_captures: AtomicUsize::new(0),
            state: Mutex::new(state),
        }
    }

    /// A pool that caches whatever the runtime is, to test the caching itself on the emulator.
    #[doc(hidden)]
    pub fn new_caching(device: &Arc<Device>) -> Self {
        Self {
            caching: true,
            ..Self::new(device)
        }
    }

    /// Whether freed memory is kept.
    pub fn is_caching(&self) -> bool {
        self.caching
    }

    /// What the pool holds.
    pub fn statistics(&self) -> PoolStatistics {
        self.state.lock().statistics
    }

    /// `bytes` bytes (not 0), usable by the work that the stream of this key is given from now on. The GPU is made
    /// current on this thread if the driver is called.
    ///
    /// # Errors
    /// Out of memory, with what is in use; HIP refuses to order the streams.
    pub fn allocate(&self, bytes: usize, stream: StreamKey) -> Result<u64> {
        debug_assert_ne!(bytes, 0);
        let mut state = self.state.lock();
        let state = &mut *state;
        if self.caching && !self.is_any_capturing() {
            if let Some((ptr, size)) = state.blocks.take_recent(bytes, stream) {
                state.statistics.cached -= size;
                state.note_allocation(size);
                return Ok(ptr);
            }
        }
        let graph = state.capture_on(stream);
        // Inside a capture, the stream first reuses what it freed inside the same capture.
        if let Some(ptr) = graph.and_then(|id| state.reuse_held(bytes, self.caching, id)) {
            return Ok(ptr);
        }
        if self.caching {
            if let Some(ptr) = self.take_cached(state, bytes, stream, graph)? {
                return Ok(ptr);
            }
        }
        self.allocate_segment(state, bytes, graph)
    }

    /// A free block, once the stream has been made to wait for the work before its freeing.
    fn take_cached(
        &self,
        state: &mut State,
        bytes: usize,
        stream: StreamKey,
        graph: Option<u64>,
    ) -> Result<Option<u64>> {
        // A stream being captured cannot wait for work outside of the capture. Nor can another wait for it: an
        // event recorded on it now would be a part of the capture, and whoever waits would be captured too.
        let captures = &state.captures;
        let asker = Asker {
            stream,
            graph,
            captured: &|origin| captures.values().any(|capture| capture.covers(origin)),
        };
        let blocks = &mut state.blocks;
        let found = blocks.take(bytes, asker).or_else(|| {
            // Perhaps what was freed last fits, for another stream or joined with its neighbours.
            blocks.settle();
            blocks
                .take(bytes, asker)
                .or_else(|| blocks.take_joined(bytes, asker))
        });
        let Some(found) = found else {
            return Ok(None);
        };
        match self.order(&found.origin, stream) {
            Ok(()) => {
                state.statistics.cached -= found.size;
                state.note_allocation(found.size);
                Ok(Some(found.ptr))
            }
            Err(error) => {
                state.blocks.give_back(found.ptr, found.origin);
                Err(error)
            }
        }
    }

    /// A block of a new segment.
    fn allocate_segment(&self, state: &mut State, bytes: usize, graph: Option<u64>) -> Result<u64> {
        let asked = match self.caching {
            true => segments::segment_size(bytes, state.statistics.reserved),
            false => bytes,
        };
        let most = state
            .release
            .most_held(state.statistics.in_use.saturating_add(asked));
        self.give_back_idle(state, most.saturating_sub(asked), 0)?;
        state.release.note_driver_allocation();
        let (ptr, segment) = self.driver_allocate_or_flush(state, bytes, asked)?;
        let size = state
            .blocks
            .add_segment(ptr, segment, bytes, self.caching, graph);
        state.statistics.note_segment(segment);
        state.statistics.cached += segment - size;
        state.note_allocation(size);
        tracing::trace!(bytes, segment, ptr, "device memory allocated");
        Ok(ptr)
    }

    /// Returns memory, free for use in the order of the stream of this key. Memory that is not the pool's goes to
    /// `hipFree`.
    ///
    /// # Errors
    /// HIP refuses.
    pub fn free(&self, ptr: u64, stream: StreamKey) -> Result<()> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let Some((size, graph)) = state.blocks.size_and_graph(ptr) else {
            return self.driver.free(ptr);
        };
        // During a capture any free may be of memory that the graph names: the capture on the same
        // stream holds it, or, to be safe, whichever is in progress.
        let capture = match graph.filter(|id| state.captures.contains_key(id)) {
            Some(id) => Some(id),
            None => state
                .captures
                .iter()
                .filter(|(_, capture)| capture.active)
                .min_by_key(|(_, capture)| capture.stream != stream)
                .map(|(id, _)| *id),
        };
        if let Some(capture) = capture.and_then(|id| state.captures.get_mut(&id)) {
            let after = if capture.stream == stream {
                None
            } else {
                self.device.bind()?;
                let streams = self.device.streams();
                streams.event_unless_captured(self.hip, stream.raw())?
            };
            capture.held.push(Held { ptr, after });
            state.statistics.in_use -= size;
            state.statistics.held_by_graphs += size;
            return Ok(());
        }
        state.statistics.in_use -= size;
        self.cache_or_release(state, ptr, size, Origin::Stream(stream))
    }

    pub(super) fn cache_or_release(
        &self,
        state: &mut State,
        ptr: u64,
        size: usize,
        origin: Origin,
    ) -> Result<()> {
        if self.caching {
            state.statistics.cached += size;
            let recent = match &origin {
                Origin::Stream(key) if !self.is_any_capturing() => {
                    state.blocks.keep_recent(ptr, size, *key)
                }
                _ => false,
            };
            if !recent {
                state.blocks.give_back(ptr, origin);
            }
            return Ok(());
        }
        state.blocks.remove(ptr);
        state.statistics.reserved -= size;
        self.driver.free(ptr)
    }

    /// Makes `stream` wait for the work after which a block is free.
    fn order(&self, origin: &Origin, stream: StreamKey) -> Result<()> {
        match origin {
            Origin::Idle => Ok(()),
            Origin::All(all) => all.iter().try_for_each(|one| self.order(one, stream)),
            Origin::Stream(freed_on) if *freed_on == stream => Ok(()),
            Origin::Stream(freed_on) => {
                self.device.bind()?;
                // Recorded now, which is later than the freeing: it covers at least the work before it.
                self.event_of(*freed_on)?.wait_on(self.hip, stream.raw())
            }
            Origin::Event(event) => {
                self.device.bind()?;
                event.wait_on(self.hip, stream.raw())
            }
        }
    }

    /// What a stream has been given until now.
    fn event_of(&self, stream: StreamKey) -> Result<RawEvent> {
        // Another thread's own stream cannot be named from here, but the legacy default stream waits for the
        // per-thread streams of all threads.
        let source = if stream.is_per_thread() {
            std::ptr::null_mut()
        } else {
            stream.raw()
        };
        RawEvent::record(self.hip, source)
    }

    /// Called before a stream is destroyed: blocks freed on it get an event in place of its name.
    fn forget_stream(&self, stream: StreamKey) -> Result<()> {
        let mut state = self.state.lock();
        state.settle(|key| key == stream);
        if !state.blocks.any_from(stream) {
            return Ok(());
        }
        let event = Arc::new(RawEvent::record(self.hip, stream.raw())?);
        state.blocks.replace_origin(stream, &event);
        Ok(())
    }

    /// From the driver; if it has none, after giving the cache back. Returns the address and the size.
    fn driver_allocate_or_flush(
        &self,
        state: &mut State,
        bytes: usize,
        segment: usize,
    ) -> Result<(u64, usize)> {
        let block = match self.caching {
            true => segments::block_size(bytes).min(segment),
            false => bytes,
        };
        let mut flushed = false;
        loop {
            // Perhaps what the segment has beyond the block, or its rounding, is what does not fit.
            let mut sizes = vec![segment, block, bytes];
            sizes.dedup();
            for size in sizes {
                match self.driver.allocate(size) {
                    Err(error) if error.is_out_of_memory() => {}
                    other => return other.map(|ptr| (ptr, size)),
                }
            }
            if std::mem::replace(&mut flushed, true) {
                break;
            }
            self.flush_locked(state)?;
        }
        Err(self.driver.out_of_memory(bytes, state.statistics))
    }

    /// Memory of the driver's that is not the pool's, after giving the cache back if need be.
    pub(crate) fn allocate_apart(&self, bytes: usize) -> Result<u64> {
        let (ptr, _) = self.driver_allocate_or_flush(&mut self.state.lock(), bytes, bytes)?;
        Ok(ptr)
    }

    /// Whether this address was given out here, to [`Pool::free`] or elsewhere.
    pub(crate) fn gave(&self, ptr: u64) -> bool {
        self.state.lock().blocks.size_of(ptr).is_some()
    }

    /// Returns memory of [`Pool::allocate_apart`].
    pub(crate) fn free_apart(&self, ptr: u64) -> Result<()> {
        self.driver.free(ptr)
    }

    /// Gives the whole cache back to the driver, after waiting for the device.
    pub fn flush(&self) -> Result<()> {
        self.flush_locked(&mut self.state.lock())
    }

    fn flush_locked(&self, state: &mut State) -> Result<()> {
        state.statistics.flushes += 1;
        if state.statistics.cached == 0 {
            return Ok(());
        }
        state.settle(|_| true);
        self.device.synchronize()?;
        while self.give_back_one(state)? {}
        Ok(())
    }

    /// Gives idle segments back, those idle for longest first, until the pool holds `most` bytes or idle segments have
    /// no more than `keep`.
    fn give_back_idle(&self, state: &mut State, most: usize, keep: usize) -> Result<()> {
        // The driver waits for the GPU before it frees, which no capture allows.
        while state.statistics.reserved > most
            && state.blocks.idle_bytes() > keep
            && !self.is_any_capturing()
            && self.give_back_one(state)?
        {}
        Ok(())
    }

    /// Gives the segment back that is idle for longest, if there is one.
    fn give_back_one(&self, state: &mut State) -> Result<bool> {
        let Some((ptr, size)) = state.blocks.take_idle_segment() else {
            return Ok(false);
        };
        state.statistics.cached -= size;
        state.statistics.reserved -= size;
        self.driver.free(ptr)?;
        Ok(true)
    }

    /// The host has waited: idle memory beyond the threshold goes back, unless a stream is still at work, for which the
    /// driver would wait as well.
    ///
    /// # Errors
    /// HIP refuses.
    pub(crate) fn after_synchronisation(&self, waited: Waited) -> Result<()> {
        if !self.caching {
            return Ok(());
        }
        let mut state = self.state.lock();
        let state = &mut *state;
        let temporary = state.blocks.idle_since_then();
        let in_use = state.statistics.in_use;
        let decision = state.release.at_synchronisation(in_use, temporary);
        let threshold = state.release.threshold();
        if self.is_any_capturing() || state.statistics.reserved <= threshold {
            return Ok(());
        }
        if decision.settle {
            state.settle(|_| true);
        }
        if state.blocks.idle_bytes() <= decision.keep {
            return Ok(());
        }
        let streams = self.device.streams();
        let is_idle = match waited {
            Waited::Gpu => true,
            Waited::Stream(stream) => streams.are_idle(self.hip, Some(stream)),
            Waited::Event => streams.are_idle(self.hip, None),
        };
        if !is_idle {
            return Ok(());
        }
        let held = state.statistics.reserved;
        self.give_back_idle(state, threshold, decision.keep)?;
        if state.statistics.reserved < held {
            state.release.note_given_back();
        }
        Ok(())
    }

    /// Gives idle memory back until the pool holds no more than so many bytes, as far as whole segments are idle.
    ///
    /// # Errors
    /// HIP refuses.
    pub(crate) fn trim_to(&self, keep: usize) -> Result<()> {
        let mut state = self.state.lock();
        if state.statistics.reserved <= keep {
            return Ok(());
        }
        state.settle(|_| true);
        self.give_back_idle(&mut state, keep, 0)
    }

    /// Counts the peaks of the statistics from now on.
    pub(crate) fn forget_peaks(&self) {
        let statistics = &mut self.state.lock().statistics;
        statistics.peak_in_use = statistics.in_use;
        statistics.peak_reserved = statistics.reserved;
    }

    /// Bytes that may stay with the pool after a synchronisation.
    pub fn release_threshold(&self) -> usize {
        self.state.lock().release.threshold()
    }

    /// Sets [`Pool::release_threshold`]: at first it is what `CANDLE_ROCM_POOL_THRESHOLD` says, or 0 as CUDA's.
    pub fn set_release_threshold(&self, bytes: usize) {
        self.state.lock().release.set_threshold(bytes);
    }

    /// Whether any stream of the GPU is being captured.
    #[inline]
    pub(crate) fn is_any_capturing(&self) -> bool {
        self.active_captures.load(Ordering::Relaxed) != 0
    }
}

impl State {
    /// The capture in progress on this stream.
    pub(super) fn capture_on(&self, stream: StreamKey) -> Option<u64> {
        self.captures
            .iter()
            .find_map(|(id, capture)| (capture.active && capture.stream == stream).then_some(*id))
    }

    /// A block that this capture freed.
    fn reuse_held(&mut self, bytes: usize, rounding: bool, graph: u64) -> Option<u64> {
        let held = &mut self.captures.get_mut(&graph)?.held;
        let ptr = self.blocks.reuse_held(bytes, rounding, held, graph)?;
        let size = self.blocks.size_of(ptr).unwrap_or(bytes);
        self.statistics.held_by_graphs -= size;
        self.note_allocation(size);
        Some(ptr)
    }

    /// A block of so many bytes was given out.
    #[inline]
    pub(super) fn note_allocation(&mut self, size: usize) {
        self.statistics.note_allocation(size);
        self.release.note_in_use(self.statistics.in_use);
    }

    /// Makes all that is kept for a purpose free as any other block; of parameters, those of the streams that `of`
    /// names.
    fn settle(&mut self, of: impl Fn(StreamKey) -> bool) {
        self.blocks.settle();
        for freed in self.parameters.give_up(of) {
            self.blocks
                .give_back(freed.ptr, Origin::Stream(freed.stream));
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Pool(GPU {}: {})",
            self.device.ordinal(),
            self.statistics()
        )
    }
}
