//! What captures of streams into graphs ask of a pool.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use super::allocator::{Capture, Kept, Pool};
use super::blocks::Held;
use super::origin::Origin;
use crate::base::error::Result;
use crate::device::gpu::Device;
use crate::order::key::{StreamHandle, StreamKey};

/// A graph's claim on memory: dropped with the graph, it returns what the graph's capture freed, and drops what it kept.
#[derive(Debug)]
pub(crate) struct GraphMemory {
    device: Arc<Device>,
    id: u64,
}

impl Drop for GraphMemory {
    fn drop(&mut self) {
        if let Some(pool) = self.device.existing_pool() {
            if let Err(error) = pool.release_graph(self.id) {
                self.device.sticky().set(error);
            }
        }
    }
}

impl Pool {
    /// A capture begins on this stream.
    pub(crate) fn begin_capture(&self, stream: StreamHandle) -> u64 {
        let mut state = self.state.lock();
        // What was freed last is found by all again: who may take it is decided block by block now.
        state.blocks.settle();
        let id = state.next_graph;
        state.next_graph += 1;
        state.captures.insert(
            id,
            Capture {
                stream: stream.key(),
                legacy_waits: stream.waits_for_legacy,
                active: true,
                held: Vec::new(),
                kept: Vec::new(),
            },
        );
        self.active_captures.fetch_add(1, Ordering::Relaxed);
        id
    }

    /// Whether the capture in progress that this stream is a part of began there.
    pub(crate) fn is_capture_begun_on(&self, stream: StreamKey) -> bool {
        self.state.lock().capture_on(stream).is_some()
    }

    /// If this stream is being captured, `what` lives as long as the graph that comes of it.
    pub(crate) fn keep(&self, stream: StreamKey, what: Kept) {
        if !self.is_any_capturing() {
            return;
        }
        let mut state = self.state.lock();
        let mut captures = state.captures.values_mut();
        if let Some(capture) = captures.find(|it| it.active && it.stream == stream) {
            if !capture.kept.iter().any(|kept| Arc::ptr_eq(kept, &what)) {
                capture.kept.push(what);
            }
        }
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

    fn release_graph(&self, id: u64) -> Result<()> {
        // Dropped after the lock: it may give memory back.
        let _kept;
        let mut state = self.state.lock();
        let state = &mut *state;
        let Some(mut capture) = state.captures.remove(&id) else {
            return Ok(());
        };
        _kept = std::mem::take(&mut capture.kept);
        // The graph may have been launched on its stream until just now, which therefore waits for the others, too. Where
        // it cannot, as it is captured again or some thread's own, the host does.
        let captures = &state.captures;
        let waits = !capture.stream.is_per_thread()
            && !captures.values().any(|other| other.covers(capture.stream));
        for Held { ptr, after } in capture.held {
            if let Some(event) = after {
                self.device.bind()?;
                if waits {
                    event.wait_on(self.hip, capture.stream.raw())?;
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
