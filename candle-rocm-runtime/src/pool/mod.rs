//! The memory pool of a GPU: allocating and freeing in stream order, mostly without calling the driver.
//!
//! `hipMalloc` and `hipFree` wait for the whole device, and Candle allocates each result. The pool keeps
//! what is freed and gives it out again:
//!
//! - Memory comes from the driver in *segments*, which are cut into *blocks*. A request takes the
//!   smallest free block that fits (its own stream's first); what is left over becomes a block again, and
//!   free neighbours are joined.
//! - A freed block carries the stream it was freed on. On that stream it can be used at once: the stream
//!   runs in order. Another stream is first made to wait for that stream. So a program with one stream
//!   calls the driver neither to allocate, nor to free, nor to order.
//! - Small blocks freed last are kept as they are, by stream and size: an operator's result mostly takes the place
//!   of one freed just before.
//! - Freed parameters of kernels keep their words, so that they need not be copied again (see `parameters`).
//! - While a stream is being captured into a graph, what is freed is kept aside and belongs to the graph
//!   until the graph is destroyed, because each launch of the graph uses those addresses again. Within
//!   the capture the same stream may reuse them: the graph keeps that order. What other streams free meanwhile is
//!   kept as well, since the graph may name it, and reused by nobody.
//! - If the driver has no memory left, the cache is given back after waiting for the device, and the
//!   request is tried once more. Then the error says what is in use.
//!
//! `CANDLE_ROCM_POOL=0` turns all of that off: each allocation is a `hipMalloc`, each free a `hipFree`.
//! On the emulator the pool is always off. There, each allocation must be its own, of its exact size and
//! with nothing mapped beside it, so that an access one element past its end, or after its freeing, is
//! caught; and `hipMalloc` costs little.

mod blocks;
mod parameters;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::hip::table::HipTable;
use crate::base::hip::types::*;
use crate::device::Device;
use crate::stream::context::thread_number;
use crate::stream::queue::Stream;
pub(crate) use blocks::RawEvent;
use blocks::{Blocks, Origin};
use parameters::{Parameters, MOST_WORDS};

/// The variable that turns the pool off when it is `0`.
pub const POOL_VARIABLE: &str = "CANDLE_ROCM_POOL";

/// A stream, as far as the order of its work goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamKey {
    pub(crate) raw: usize,
    /// The thread, for the handle that means another stream on each thread; else 0.
    pub(crate) thread: u64,
}

impl StreamKey {
    /// Of this handle on the calling thread.
    pub(crate) fn of(raw: hipStream_t) -> Self {
        let thread = if raw == STREAM_PER_THREAD {
            thread_number()
        } else {
            0
        };
        Self {
            raw: raw as usize,
            thread,
        }
    }

    pub(crate) fn is_per_thread(self) -> bool {
        self.raw == STREAM_PER_THREAD as usize
    }
}

/// What a pool holds, in bytes, and what it has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStatistics {
    /// Given out and not freed.
    pub in_use: usize,
    /// The most that was ever in use.
    pub peak_in_use: usize,
    /// Kept for further requests.
    pub cached: usize,
    /// Kept for graphs, which use it at each launch.
    pub held_by_graphs: usize,
    /// Got from the driver and not given back: the sum of the three above.
    pub reserved: usize,
    /// Requests served.
    pub allocations: u64,
    /// Requests for which the driver was called.
    pub driver_allocations: u64,
    /// How often the cache was given back because memory ran out.
    pub flushes: u64,
}

impl fmt::Display for PoolStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes in use, {} cached, {} held by graphs",
            self.in_use, self.cached, self.held_by_graphs
        )
    }
}

/// A graph's claim on memory: dropped with the graph, it returns what the graph's capture freed.
#[derive(Debug)]
pub(crate) struct GraphMemory {
    device: Weak<Device>,
    id: u64,
}

impl Drop for GraphMemory {
    fn drop(&mut self) {
        if let Some(device) = self.device.upgrade() {
            if let Some(pool) = device.existing_pool() {
                if let Err(error) = pool.release_graph(self.id) {
                    device.sticky().set(error);
                }
            }
        }
    }
}

/// A buffer's claim that the pool knows the words in it.
#[derive(Debug)]
pub(crate) struct KnownParameters {
    place: u16,
    /// Someone other than our kernels has the address, and may have written there.
    exposed: AtomicBool,
}

impl KnownParameters {
    fn at(place: u16) -> Self {
        Self {
            place,
            exposed: AtomicBool::new(false),
        }
    }

    #[inline]
    pub(crate) fn expose(&self) {
        self.exposed.store(true, Ordering::Relaxed);
    }
}

/// The memory pool of one GPU.
pub struct Pool {
    device: Weak<Device>,
    ordinal: usize,
    total_memory: usize,
    hip: &'static HipTable,
    caching: bool,
    active_captures: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    blocks: Blocks,
    parameters: Parameters,
    captures: HashMap<u64, Capture>,
    next_graph: u64,
    statistics: PoolStatistics,
}

/// A capture in progress, or the graph that came of it.
struct Capture {
    stream: StreamKey,
    /// The legacy default stream waits for that stream, and may not be named meanwhile.
    legacy_waits: bool,
    active: bool,
    /// Freed blocks that the graph goes on using, or may.
    held: Vec<Held>,
}

/// A block that was freed during a capture.
struct Held {
    ptr: u64,
    /// What another stream than the captured one had been given by then, whose work on the block the graph is not
    /// ordered with.
    after: Option<Arc<RawEvent>>,
}

impl Capture {
    /// Whether events on this stream would be a part of the capture in progress, or end it. For per-thread streams
    /// they are recorded on the legacy default stream, which is ordered with those of all threads.
    fn covers(&self, stream: StreamKey) -> bool {
        let by_legacy = stream.raw == 0 || stream.is_per_thread();
        self.active && (self.stream == stream || self.legacy_waits && by_legacy)
    }
}

impl Pool {
    pub(crate) fn new(device: &Arc<Device>) -> Self {
        let off = std::env::var(POOL_VARIABLE).is_ok_and(|value| value.trim() == "0");
        Self {
            device: Arc::downgrade(device),
            ordinal: device.ordinal(),
            total_memory: device.info().total_memory,
            hip: device.hip(),
            // See the module's documentation for why never on the emulator.
            caching: !off && !device.is_emulated(),
            active_captures: AtomicUsize::new(0),
            state: Mutex::default(),
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

    /// `bytes` bytes (not 0), usable by the work that `stream` is given from now on. The GPU is made current
    /// on this thread if the driver is called.
    pub fn allocate(&self, bytes: usize, stream: &Stream) -> Result<u64> {
        debug_assert_ne!(bytes, 0);
        let key = stream.key();
        let mut state = self.state.lock();
        let state = &mut *state;
        if self.caching && !self.is_any_capturing() {
            if let Some((ptr, size)) = state.blocks.take_recent(bytes, key) {
                state.statistics.cached -= size;
                state.statistics.note_allocation(size);
                return Ok(ptr);
            }
        }
        let capture = state.captures.iter_mut().find_map(|(id, capture)| {
            (capture.active && capture.stream == key).then_some((*id, capture))
        });
        let graph = match capture {
            // Inside a capture, the stream first reuses what it freed inside the same capture.
            Some((id, capture)) => {
                if let Some(ptr) =
                    state
                        .blocks
                        .reuse_held(bytes, self.caching, &mut capture.held, id)
                {
                    let size = state.blocks.size_of(ptr).unwrap_or(bytes);
                    state.statistics.held_by_graphs -= size;
                    state.statistics.note_allocation(size);
                    return Ok(ptr);
                }
                Some(id)
            }
            None => None,
        };
        if self.caching {
            // A stream being captured cannot wait for work outside of the capture. Nor can another wait for it: an
            // event recorded on it now would be a part of the capture, and whoever waits would be captured too.
            let captures = &state.captures;
            let captured =
                |origin: StreamKey| captures.values().any(|capture| capture.covers(origin));
            let found = state.blocks.take(bytes, key, graph, captured).or_else(|| {
                // Perhaps what was freed last fits, for another stream or joined with its neighbours.
                state.blocks.settle();
                state.blocks.take(bytes, key, graph, captured)
            });
            if let Some(found) = found {
                state.statistics.cached -= found.size;
                match self.order(&found.origin, key) {
                    Ok(()) => {
                        state.statistics.note_allocation(found.size);
                        return Ok(found.ptr);
                    }
                    Err(error) => {
                        state.statistics.cached += found.size;
                        state.blocks.give_back(found.ptr, found.origin);
                        return Err(error);
                    }
                }
            }
        }
        let segment = if self.caching {
            blocks::segment_size(bytes)
        } else {
            bytes
        };
        let ptr = self.driver_allocate_or_flush(state, bytes, segment)?;
        let size = state
            .blocks
            .add_segment(ptr.0, ptr.1, bytes, self.caching, graph);
        state.statistics.driver_allocations += 1;
        state.statistics.reserved += ptr.1;
        state.statistics.cached += ptr.1 - size;
        state.statistics.note_allocation(size);
        tracing::trace!(
            bytes,
            segment = ptr.1,
            ptr = ptr.0,
            "device memory allocated"
        );
        Ok(ptr.0)
    }

    /// The address of a block for these words, for work given to `stream` from now on, and whether it holds them.
    pub(crate) fn lend_parameters(
        &self,
        words: &[usize],
        stream: &Stream,
    ) -> Option<(u64, KnownParameters, bool)> {
        if !self.knows_parameters(words) {
            return None;
        }
        let mut state = self.state.lock();
        let lent = state.parameters.lend(words, stream.key())?;
        state.statistics.cached -= lent.size;
        state.statistics.note_allocation(lent.size);
        Some((lent.ptr, KnownParameters::at(lent.place), lent.holds))
    }

    /// Notes that these words were copied to an allocation of `stream`'s.
    pub(crate) fn know_parameters(
        &self,
        words: &[usize],
        ptr: u64,
        stream: &Stream,
    ) -> Option<KnownParameters> {
        if !self.knows_parameters(words) {
            return None;
        }
        let mut state = self.state.lock();
        // What was allocated in a capture is the graph's.
        let (size, None) = state.blocks.size_and_graph(ptr)? else {
            return None;
        };
        let (place, before) = state.parameters.note(words, stream.key(), ptr, size)?;
        if let Some(before) = before {
            state
                .blocks
                .give_back(before.ptr, Origin::Stream(before.stream));
        }
        Some(KnownParameters::at(place))
    }

    /// Takes memory back for the sake of its words. If they are not known for certain it is as any other, and still
    /// to be freed: then the result is false.
    pub(crate) fn return_parameters(&self, parameters: &KnownParameters, stream: &Stream) -> bool {
        // What is freed during a capture may be the graph's.
        let intact = !parameters.exposed.load(Ordering::Relaxed) && !self.is_any_capturing();
        let mut state = self.state.lock();
        let kept = state
            .parameters
            .take_back(parameters.place, stream.key(), intact);
        let Some(size) = kept else {
            return false;
        };
        state.statistics.in_use -= size;
        state.statistics.cached += size;
        true
    }

    fn knows_parameters(&self, words: &[usize]) -> bool {
        self.caching && (1..=MOST_WORDS).contains(&words.len()) && !self.is_any_capturing()
    }

    /// Returns memory, free for use in `stream`'s order. Memory that is not the pool's goes to `hipFree`.
    pub fn free(&self, ptr: u64, stream: &Stream) -> Result<()> {
        self.free_keyed(ptr, stream.key())
    }

    fn free_keyed(&self, ptr: u64, key: StreamKey) -> Result<()> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let Some((size, graph)) = state.blocks.size_and_graph(ptr) else {
            return self.driver_free(ptr);
        };
        // During a capture any free may be of memory that the graph names: the capture on the same
        // stream holds it, or, to be safe, whichever is in progress.
        let capture = match graph.filter(|id| state.captures.contains_key(id)) {
            Some(id) => Some(id),
            None => state
                .captures
                .iter()
                .filter(|(_, capture)| capture.active)
                .min_by_key(|(_, capture)| capture.stream != key)
                .map(|(id, _)| *id),
        };
        if let Some(capture) = capture.and_then(|id| state.captures.get_mut(&id)) {
            let after = match self.device.upgrade() {
                Some(device) if capture.stream != key => {
                    self.hip.select(self.ordinal)?;
                    let stream = key.raw as hipStream_t;
                    device.streams().event_unless_captured(self.hip, stream)?
                }
                _ => None,
            };
            capture.held.push(Held { ptr, after });
            state.statistics.in_use -= size;
            state.statistics.held_by_graphs += size;
            return Ok(());
        }
        state.statistics.in_use -= size;
        self.cache_or_release(state, ptr, size, Origin::Stream(key))
    }

    fn cache_or_release(
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
        // `hipFree` waits for the work that may use the memory.
        self.driver_free(ptr)
    }

    /// Makes `stream` wait for the work after which a block is free.
    fn order(&self, origin: &Origin, stream: StreamKey) -> Result<()> {
        match origin {
            Origin::Idle => Ok(()),
            Origin::Stream(freed_on) if *freed_on == stream => Ok(()),
            Origin::Stream(freed_on) => {
                self.hip.select(self.ordinal)?;
                // Recorded now, which is later than the freeing: it covers at least the work before it.
                self.event_of(*freed_on)?
                    .wait_on(self.hip, stream.raw as hipStream_t)
            }
            Origin::Event(event) => {
                self.hip.select(self.ordinal)?;
                event.wait_on(self.hip, stream.raw as hipStream_t)
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
            stream.raw as hipStream_t
        };
        RawEvent::record(self.hip, source)
    }

    /// Called before a stream is destroyed: blocks freed on it get an event in place of its name.
    pub(crate) fn forget_stream(&self, stream: StreamKey) -> Result<()> {
        let mut state = self.state.lock();
        state.settle(|key| key == stream);
        if !state.blocks.any_from(stream) {
            return Ok(());
        }
        let event = Arc::new(RawEvent::record(self.hip, stream.raw as hipStream_t)?);
        state
            .blocks
            .replace_origin(stream, || Origin::Event(event.clone()));
        Ok(())
    }

    /// From the driver; if it has none, after giving the cache back. Returns the address and the size.
    fn driver_allocate_or_flush(
        &self,
        state: &mut State,
        bytes: usize,
        segment: usize,
    ) -> Result<(u64, usize)> {
        match self.driver_allocate(segment) {
            Err(error) if error.is_out_of_memory() => {}
            other => return other.map(|ptr| (ptr, segment)),
        }
        self.flush_locked(state)?;
        // Perhaps the rounding was what did not fit.
        for size in [segment, bytes] {
            match self.driver_allocate(size) {
                Err(error) if error.is_out_of_memory() => {}
                other => return other.map(|ptr| (ptr, size)),
            }
        }
        let (mut free, mut total) = (0, self.total_memory);
        // SAFETY: both outputs are writable. A failure leaves what is known already.
        unsafe { (self.hip.hipMemGetInfo)(&mut free, &mut total) };
        let pool = state.statistics;
        Err(Error::new(
            ErrorKind::OutOfMemory,
            format!(
                "out of device memory on GPU {}: {bytes} bytes asked for; this process has {pool}; the driver \
                 reports {free} bytes free of {total}; drop tensors that are not needed, or use smaller batches or a \
                 narrower dtype",
                self.ordinal
            ),
        ))
    }

    /// Memory of the driver's that is not the pool's, after giving the cache back if need be.
    pub(crate) fn allocate_apart(&self, bytes: usize) -> Result<u64> {
        let (ptr, _) = self.driver_allocate_or_flush(&mut self.state.lock(), bytes, bytes)?;
        Ok(ptr)
    }

    /// Returns memory of [`Pool::allocate_apart`].
    pub(crate) fn free_apart(&self, ptr: u64) -> Result<()> {
        self.driver_free(ptr)
    }

    fn driver_allocate(&self, bytes: usize) -> Result<u64> {
        let mut ptr = std::ptr::null_mut();
        self.hip.select(self.ordinal)?;
        self.hip.relaxed(|| {
            // SAFETY: `ptr` is writable.
            let status = unsafe { (self.hip.hipMalloc)(&mut ptr, bytes) };
            self.hip.check(status, || {
                format!("allocating {bytes} bytes of device memory")
            })
        })?;
        Ok(ptr as u64)
    }

    fn driver_free(&self, ptr: u64) -> Result<()> {
        // The thread that drops a buffer may be one that never used the GPU.
        self.hip.select(self.ordinal)?;
        self.hip.relaxed(|| {
            // SAFETY: the address came from `hipMalloc` and is given back once.
            let status = unsafe { (self.hip.hipFree)(ptr as *mut _) };
            self.hip
                .check(status, || format!("freeing device memory at {ptr:#x}"))
        })
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
        self.hip.select(self.ordinal)?;
        state.settle(|_| true);
        if let Some(device) = self.device.upgrade() {
            device.synchronize()?;
        }
        for (ptr, size) in state.blocks.take_whole_segments() {
            state.statistics.cached -= size;
            state.statistics.reserved -= size;
            self.driver_free(ptr)?;
        }
        Ok(())
    }

    /// A capture begins on this stream.
    pub(crate) fn begin_capture(&self, stream: &Stream) -> u64 {
        let mut state = self.state.lock();
        // What was freed last is found by all again: who may take it is decided block by block now.
        state.blocks.settle();
        let id = state.next_graph;
        state.next_graph += 1;
        state.captures.insert(
            id,
            Capture {
                stream: stream.key(),
                legacy_waits: !stream.is_created(),
                active: true,
                held: Vec::new(),
            },
        );
        self.active_captures.fetch_add(1, Ordering::Relaxed);
        id
    }

    /// A capture that did not begin after all.
    pub(crate) fn cancel_capture(&self, id: u64) -> Result<()> {
        self.active_captures.fetch_sub(1, Ordering::Relaxed);
        self.release_graph(id)
    }

    /// The capture on this stream ended, well or badly; what it freed belongs to the result. `None` if
    /// no capture was begun there.
    pub(crate) fn end_capture(&self, stream: StreamKey) -> Option<GraphMemory> {
        let mut state = self.state.lock();
        let (id, capture) = state
            .captures
            .iter_mut()
            .find(|(_, capture)| capture.active && capture.stream == stream)?;
        capture.active = false;
        self.active_captures.fetch_sub(1, Ordering::Relaxed);
        Some(GraphMemory {
            device: self.device.clone(),
            id: *id,
        })
    }

    /// Whether any stream of the GPU is being captured.
    pub(crate) fn is_any_capturing(&self) -> bool {
        self.active_captures.load(Ordering::Relaxed) != 0
    }

    fn release_graph(&self, id: u64) -> Result<()> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let Some(capture) = state.captures.remove(&id) else {
            return Ok(());
        };
        // The graph may have been launched on its stream until just now, which therefore waits for the others, too. Where
        // it cannot, as it is captured again or some thread's own, the host does.
        let captures = &state.captures;
        let waits = !capture.stream.is_per_thread()
            && !captures.values().any(|other| other.covers(capture.stream));
        for Held { ptr, after } in capture.held {
            if let Some(event) = after {
                self.hip.select(self.ordinal)?;
                if waits {
                    event.wait_on(self.hip, capture.stream.raw as hipStream_t)?;
                } else {
                    event.synchronize(self.hip)?;
                }
            }
            let size = state.blocks.size_of(ptr).unwrap_or(0);
            state.statistics.held_by_graphs -= size;
            self.cache_or_release(state, ptr, size, Origin::Stream(capture.stream))?;
        }
        Ok(())
    }
}

impl State {
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

impl PoolStatistics {
    fn note_allocation(&mut self, size: usize) {
        self.allocations += 1;
        self.in_use += size;
        self.peak_in_use = self.peak_in_use.max(self.in_use);
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool(GPU {}: {})", self.ordinal, self.statistics())
    }
}

#[cfg(all(test, feature = "emulator"))]
mod tests {
    use std::sync::Arc;

    use super::Pool;
    use crate::stream::queue::Stream;
    use crate::{runtime, Context, RuntimeKind};

    /// A caching pool of its own, and streams.
    fn pool_and_streams<const N: usize>() -> (Pool, [Arc<Stream>; N]) {
        runtime::select(RuntimeKind::Emulator).unwrap();
        let context = Context::new(0).unwrap();
        let streams = [(); N].map(|()| context.new_stream().unwrap());
        (Pool::new_caching(context.device()), streams)
    }

    #[test]
    fn parameters_keep_their_block_until_the_cache_is_given_back() {
        let (pool, [stream]) = pool_and_streams();
        let words = [4, 4, 1, 4];
        assert!(pool.lend_parameters(&words, &stream).is_none());
        let ptr = pool.allocate(32, &stream).unwrap();
        let known = pool.know_parameters(&words, ptr, &stream).unwrap();
        assert!(pool.return_parameters(&known, &stream));
        assert_eq!(pool.statistics().in_use, 0);
        assert_ne!(pool.allocate(32, &stream).unwrap(), ptr);
        let (lent, known, holds) = pool.lend_parameters(&words, &stream).unwrap();
        assert!(holds);
        assert_eq!((lent, pool.statistics().in_use), (ptr, 1024));
        // A graph that is being captured may go on using what is freed meanwhile.
        pool.begin_capture(&stream);
        assert!(pool.lend_parameters(&[1], &stream).is_none());
        assert!(!pool.return_parameters(&known, &stream));
        pool.free(ptr, &stream).unwrap();
        assert_eq!(pool.statistics().held_by_graphs, 512);
        drop(pool.end_capture(stream.key()));
        assert!(pool.lend_parameters(&words, &stream).is_none());
    }

    #[test]
    fn kept_parameters_are_given_back_with_the_cache() {
        let (pool, [stream]) = pool_and_streams();
        let ptr = pool.allocate(8, &stream).unwrap();
        let known = pool.know_parameters(&[7], ptr, &stream).unwrap();
        assert!(pool.return_parameters(&known, &stream));
        pool.flush().unwrap();
        assert_eq!(pool.statistics().reserved, 0);
        assert!(pool.lend_parameters(&[7], &stream).is_none());
    }

    #[test]
    fn what_others_free_during_a_capture_is_not_the_graphs() {
        let (pool, [captured, other]) = pool_and_streams();
        let ptr = pool.allocate(1000, &other).unwrap();
        pool.begin_capture(&captured);
        pool.free(ptr, &other).unwrap();
        // The graph would write there before the other stream is done with it.
        assert_ne!(pool.allocate(1000, &captured).unwrap(), ptr);
        assert_eq!(pool.statistics().held_by_graphs, 1024);
        drop(pool.end_capture(captured.key()));
    }

    #[test]
    fn what_a_captured_stream_freed_before_is_not_given_to_others() {
        let (pool, [captured, other]) = pool_and_streams();
        let ptr = pool.allocate(1000, &captured).unwrap();
        pool.free(ptr, &captured).unwrap();
        pool.begin_capture(&captured);
        let meanwhile = pool.allocate(1000, &other).unwrap();
        assert_ne!(meanwhile, ptr);
        // The captured stream itself may have it.
        assert_eq!(pool.allocate(1000, &captured).unwrap(), ptr);
        pool.free(ptr, &captured).unwrap();
        assert_eq!(pool.statistics().held_by_graphs, 1024);
    }
}
