//! The blocks of a pool: which addresses exist, which are free, and after which work.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::origin::Origin;
use super::recent::RecentBlocks;
use super::segments::{block_size, Id, Kind, Segments};
use crate::order::key::StreamKey;
use crate::order::raw_event::RawEvent;

/// A block that was freed during a capture.
pub(super) struct Held {
    pub ptr: u64,
    /// What another stream than the captured one had been given by then, whose work on the block the graph is not
    /// ordered with.
    pub after: Option<Arc<RawEvent>>,
}

struct Block {
    size: usize,
    segment: Id,
    /// `None` while in use.
    free: Option<Origin>,
    /// The capture in which it was allocated.
    graph: Option<u64>,
}

/// A block taken from the free ones.
pub(super) struct Found {
    pub ptr: u64,
    pub size: usize,
    pub origin: Origin,
}

/// Who asks for a block.
#[derive(Clone, Copy)]
pub(super) struct Asker<'a> {
    pub stream: StreamKey,
    /// The capture in progress on the stream: only blocks that need no waiting are taken.
    pub graph: Option<u64>,
    /// Whether a stream is a part of a capture: no block that would need waiting for it is taken.
    pub captured: &'a dyn Fn(StreamKey) -> bool,
}

impl Asker<'_> {
    /// Whether it could use a block of this origin, perhaps after waiting.
    fn may_use(&self, origin: &Origin) -> bool {
        origin.is_ready(self.stream) || self.graph.is_none() && !origin.waits_for(self.captured)
    }
}

/// All blocks of a pool, by address, and the free ones by size.
#[derive(Default)]
pub(super) struct Blocks {
    recent: RecentBlocks,
    all: BTreeMap<u64, Block>,
    /// Size and address of the free blocks of each [`Kind`].
    free: [BTreeSet<(usize, u64)>; 2],
    segments: Segments,
}

impl Blocks {
    pub fn size_of(&self, ptr: u64) -> Option<usize> {
        self.all.get(&ptr).map(|block| block.size)
    }

    /// Size and capture of a block in use.
    pub fn size_and_graph(&self, ptr: u64) -> Option<(usize, Option<u64>)> {
        let block = self.all.get(&ptr)?;
        block.free.is_none().then_some((block.size, block.graph))
    }

    /// The smallest fitting free block: one that the stream may use at once if there is one of at most twice the
    /// smallest size.
    pub fn take(&mut self, bytes: usize, asker: Asker) -> Option<Found> {
        let size = block_size(bytes);
        let mut fallback = None;
        let mut chosen = None;
        for &(have, ptr) in self.free[Kind::of(bytes) as usize].range((size, 0)..) {
            let block = &self.all[&ptr];
            let Some(origin) = &block.free else {
                continue;
            };
            if self.segments.get(block.segment).is_wasted_on(size) {
                continue;
            }
            if fallback.is_some_and(|(smallest, _)| have > 2 * smallest) {
                break;
            }
            if origin.is_ready(asker.stream) {
                chosen = Some(ptr);
                break;
            }
            if fallback.is_none() && asker.may_use(origin) {
                fallback = Some((have, ptr));
            }
        }
        let ptr = chosen.or(fallback.map(|(_, ptr)| ptr))?;
        self.take_block(ptr, size, asker.graph)
    }

    /// Neighbouring free blocks of several origins that are large enough together, the lowest in memory. What is fresh
    /// from the driver is joined with what a stream freed no earlier than here, since another stream could use it without
    /// waiting.
    pub fn take_joined(&mut self, bytes: usize, asker: Asker) -> Option<Found> {
        let size = block_size(bytes);
        // First block and bytes of the run of usable neighbours that ends at the block before.
        let mut run: Option<(u64, u64, Id)> = None;
        let mut found = None;
        for (&ptr, block) in &self.all {
            let segment = self.segments.get(block.segment);
            let usable = segment.kind == Kind::of(bytes)
                && !segment.is_wasted_on(size)
                && block
                    .free
                    .as_ref()
                    .is_some_and(|origin| asker.may_use(origin));
            if !usable {
                run = None;
                continue;
            }
            let end = ptr + block.size as u64;
            let start = match run {
                Some((start, until, id)) if until == ptr && id == block.segment => start,
                _ => ptr,
            };
            run = Some((start, end, block.segment));
            if end - start >= size as u64 {
                found = Some((start, end));
                break;
            }
        }
        let (start, end) = found?;
        while let Some(next) = self.all.get(&start).map(|block| start + block.size as u64) {
            if next >= end {
                break;
            }
            let origin = |ptr| self.all[ptr].free.as_ref();
            let both = origin(&start)?.and(origin(&next)?);
            self.merge(start, next, both);
            let size = self.all[&start].size;
            self.free[Kind::of(bytes) as usize].insert((size, start));
        }
        self.take_block(start, size, asker.graph)
    }

    fn take_block(&mut self, ptr: u64, size: usize, graph: Option<u64>) -> Option<Found> {
        let block = self.all.get_mut(&ptr)?;
        let (have, segment) = (block.size, block.segment);
        let origin = block.free.take()?;
        block.graph = graph;
        let kind = self.segments.get(segment).kind;
        self.free[kind as usize].remove(&(have, ptr));
        self.segments.note_taken(segment);
        let size = self.split(ptr, size, &origin);
        Some(Found { ptr, size, origin })
    }

    /// A block of just the size for a request, freed last on this very stream; its address and size.
    #[inline]
    pub fn take_recent(&mut self, bytes: usize, stream: StreamKey) -> Option<(u64, usize)> {
        if Kind::of(bytes) != Kind::Small {
            return None;
        }
        let size = block_size(bytes);
        Some((self.recent.take(size, stream)?, size))
    }

    /// Keeps a block that is being freed as it is, if it is small and there is room.
    #[inline]
    pub fn keep_recent(&mut self, ptr: u64, size: usize, stream: StreamKey) -> bool {
        if !self.recent.keep(ptr, size, stream) {
            return false;
        }
        if let Some(block) = self.all.get_mut(&ptr) {
            block.graph = None;
        }
        true
    }

    /// Makes the blocks freed last free for all: to be joined, cut, taken by another stream or given back.
    pub fn settle(&mut self) {
        for (ptr, stream) in self.recent.drain() {
            self.give_back(ptr, Origin::Stream(stream));
        }
    }

    /// Cuts the block to `size` bytes if the rest is worth keeping; returns what it has afterwards.
    fn split(&mut self, ptr: u64, size: usize, origin: &Origin) -> usize {
        let Some(block) = self.all.get_mut(&ptr) else {
            return 0;
        };
        let kind = self.segments.get(block.segment).kind;
        let rest = block.size - size;
        if rest < kind.least_rest() {
            return block.size;
        }
        block.size = size;
        let (segment, next) = (block.segment, ptr + size as u64);
        self.all.insert(
            next,
            Block {
                size: rest,
                segment,
                free: Some(origin.clone()),
                graph: None,
            },
        );
        self.free[kind as usize].insert((rest, next));
        size
    }

    /// A new segment, the first block of which is in use with at least `bytes`; returns its size.
    pub fn add_segment(
        &mut self,
        ptr: u64,
        segment: usize,
        bytes: usize,
        cut: bool,
        graph: Option<u64>,
    ) -> usize {
        let id = self.segments.add(ptr, segment, Kind::of(bytes));
        self.all.insert(
            ptr,
            Block {
                size: segment,
                segment: id,
                free: None,
                graph,
            },
        );
        match cut {
            true => self.split(ptr, block_size(bytes).min(segment), &Origin::Idle),
            false => segment,
        }
    }

    /// Frees a block and joins it with free neighbours of the same origin.
    pub fn give_back(&mut self, ptr: u64, origin: Origin) {
        let Some(block) = self.all.get_mut(&ptr) else {
            return;
        };
        block.free = Some(origin);
        block.graph = None;
        let segment = block.segment;
        let mut start = ptr;
        if let Some((&previous, _)) = self.all.range(..ptr).next_back() {
            if self.join(previous, ptr) {
                start = previous;
            }
        }
        if let Some((&next, _)) = self.all.range(start + 1..).next() {
            self.join(start, next);
        }
        let size = self.all[&start].size;
        let kind = self.segments.get(segment).kind;
        self.free[kind as usize].insert((size, start));
        self.segments.note_freed(segment);
    }

    /// Joins two neighbouring free blocks into the first, which is then in no free list.
    fn join(&mut self, first: u64, second: u64) -> bool {
        let (Some(a), Some(b)) = (self.all.get(&first), self.all.get(&second)) else {
            return false;
        };
        if a.segment != b.segment || first + a.size as u64 != second {
            return false;
        }
        let (Some(x), Some(y)) = (&a.free, &b.free) else {
            return false;
        };
        if !x.is(y) {
            return false;
        }
        let origin = x.clone();
        self.merge(first, second, origin);
        true
    }

    fn merge(&mut self, first: u64, second: u64, origin: Origin) {
        let Some(b) = self.all.remove(&second) else {
            return;
        };
        let free = &mut self.free[self.segments.get(b.segment).kind as usize];
        free.remove(&(b.size, second));
        if let Some(a) = self.all.get_mut(&first) {
            free.remove(&(a.size, first));
            a.size += b.size;
            a.free = Some(origin);
        }
    }

    /// Reuses a block that the same capture freed: of at least `bytes` and at most twice that, or, where
    /// sizes are exact, of just `bytes`.
    pub fn reuse_held(
        &mut self,
        bytes: usize,
        rounding: bool,
        held: &mut Vec<Held>,
        graph: u64,
    ) -> Option<u64> {
        let most = if rounding {
            2 * block_size(bytes)
        } else {
            bytes
        };
        let (position, _) = held
            .iter()
            .enumerate()
            .filter(|(_, held)| held.after.is_none())
            .filter_map(|(i, held)| Some((i, self.all.get(&held.ptr)?.size)))
            .filter(|&(_, size)| size >= bytes && size <= most)
            .min_by_key(|&(_, size)| size)?;
        let Held { ptr, .. } = held.swap_remove(position);
        self.all.get_mut(&ptr)?.graph = Some(graph);
        Some(ptr)
    }

    /// Forgets a block in use that is a whole segment.
    pub fn remove(&mut self, ptr: u64) {
        if let Some(block) = self.all.remove(&ptr) {
            self.segments.remove(block.segment);
        }
    }

    /// Whether a free block waits for this stream's work.
    pub fn any_from(&self, stream: StreamKey) -> bool {
        let waits = |origin: &Origin| origin.waits_for(|key| key == stream);
        self.all
            .values()
            .any(|block| block.free.as_ref().is_some_and(waits))
    }

    /// Puts an event in the place of a stream.
    pub fn replace_origin(&mut self, stream: StreamKey, event: &Arc<RawEvent>) {
        for block in self.all.values_mut() {
            match &mut block.free {
                Some(origin) if origin.waits_for(|key| key == stream) => {
                    *origin = origin.replaced(stream, event);
                }
                _ => {}
            }
        }
    }

    /// Bytes of segments of which nothing is in use.
    #[inline]
    pub fn idle_bytes(&self) -> usize {
        self.segments.idle_bytes()
    }

    /// Bytes of idle segments that were in use since this was last asked.
    pub fn idle_since_then(&mut self) -> usize {
        self.segments.idle_since_then()
    }

    /// Takes out the idle segment that was emptied first, for the driver: its address and size.
    pub fn take_idle_segment(&mut self) -> Option<(u64, usize)> {
        let id = self.segments.first_idle()?;
        let segment = self.segments.remove(id)?;
        let end = segment.ptr + segment.size as u64;
        let blocks: Vec<(u64, usize)> = self
            .all
            .range(segment.ptr..end)
            .map(|(&ptr, block)| (ptr, block.size))
            .collect();
        for (ptr, size) in blocks {
            self.all.remove(&ptr);
            self.free[segment.kind as usize].remove(&(size, ptr));
        }
        Some((segment.ptr, segment.size))
    }
}
