//! The blocks of a pool: which addresses exist, which are free, and after which work.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::order::key::StreamKey;
use crate::order::raw_event::RawEvent;

/// Sizes are multiples of this: HIP aligns allocations to 256 bytes, and 512 keeps the remainders useful.
const GRANULE: usize = 512;
/// Requests below this are cut from shared segments of [`SMALL_SEGMENT`] bytes.
const SMALL: usize = 1 << 20;
const SMALL_SEGMENT: usize = 8 << 20;
/// Larger requests get segments of their own, in multiples of the driver's page.
const PAGE: usize = 2 << 20;

/// How many bytes to get from the driver for a request.
pub(super) fn segment_size(bytes: usize) -> usize {
    if bytes < SMALL {
        SMALL_SEGMENT
    } else {
        // A request near the address space's end stays as it is: the driver refuses it.
        bytes.checked_next_multiple_of(PAGE).unwrap_or(bytes)
    }
}

fn block_size(bytes: usize) -> usize {
    bytes.checked_next_multiple_of(GRANULE).unwrap_or(bytes)
}

/// After which work a free block may be used.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    /// None: fresh from the driver.
    Idle,
    /// What this stream had been given when the block was freed.
    Stream(StreamKey),
    /// What the event stands for; its stream is gone.
    Event(Arc<RawEvent>),
}

impl Origin {
    fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Origin::Idle, Origin::Idle) => true,
            (Origin::Stream(a), Origin::Stream(b)) => a == b,
            (Origin::Event(a), Origin::Event(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

/// A block that was freed during a capture.
pub(super) struct Held {
    pub ptr: u64,
    /// What another stream than the captured one had been given by then, whose work on the block the graph is not
    /// ordered with.
    pub after: Option<Arc<RawEvent>>,
}

struct Block {
    size: usize,
    /// The address of its segment.
    segment: u64,
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

/// Small blocks of one size, freed last on one stream. Elsewhere they count as in use.
struct Recent {
    stream: StreamKey,
    size: usize,
    count: usize,
    blocks: [u64; Recent::MOST],
}

impl Recent {
    /// Blocks of one size.
    const MOST: usize = 8;
    /// Sizes and streams; those that fall on the same place share it by turns.
    const PLACES: usize = 64;

    const EMPTY: Self = Self {
        stream: StreamKey { raw: 0, thread: 0 },
        size: 0,
        count: 0,
        blocks: [0; Self::MOST],
    };

    fn place(stream: StreamKey, size: usize) -> usize {
        let granules = size / GRANULE;
        // Sizes of a model differ in many bits or in few, streams by their address and thread.
        (granules ^ granules >> 6 ^ stream.raw >> 4 ^ stream.thread as usize) % Self::PLACES
    }
}

/// All blocks of a pool, by address, and the free ones by size.
#[derive(Default)]
pub(super) struct Blocks {
    recent: Vec<Recent>,
    all: BTreeMap<u64, Block>,
    free: BTreeSet<(usize, u64)>,
    /// By address.
    segments: HashMap<u64, Segment>,
}

#[derive(Clone, Copy)]
struct Segment {
    size: usize,
    /// Shared by requests below [`SMALL`].
    small: bool,
}

impl Blocks {
    pub(super) fn size_of(&self, ptr: u64) -> Option<usize> {
        self.all.get(&ptr).map(|block| block.size)
    }

    /// Size and capture of a block in use.
    pub(super) fn size_and_graph(&self, ptr: u64) -> Option<(usize, Option<u64>)> {
        let block = self.all.get(&ptr)?;
        block.free.is_none().then_some((block.size, block.graph))
    }

    /// The smallest fitting free block: one that `stream` may use at once if there is one of at most
    /// twice the smallest size. Inside a capture only blocks that need no waiting are taken, and no block is taken
    /// that would need waiting for a stream that is `captured`.
    pub(super) fn take(
        &mut self,
        bytes: usize,
        stream: StreamKey,
        graph: Option<u64>,
        captured: impl Fn(StreamKey) -> bool,
    ) -> Option<Found> {
        let size = block_size(bytes);
        let ready = |blocks: &Self, ptr: u64| match &blocks.all[&ptr].free {
            Some(Origin::Idle) => true,
            Some(Origin::Stream(key)) => *key == stream,
            _ => false,
        };
        // A small request must not eat a large segment, nor a large one be cut to pieces: each keeps to
        // its own kind.
        let fitting = |blocks: &Self, ptr: u64| {
            blocks.segments[&blocks.all[&ptr].segment].small == (bytes < SMALL)
        };
        let mut fallback = None;
        let mut chosen = None;
        for &(have, ptr) in self.free.range((size, 0)..) {
            if !fitting(self, ptr) {
                continue;
            }
            if ready(self, ptr) {
                chosen = Some(ptr);
                break;
            }
            let can_wait = |blocks: &Self, ptr: u64| match &blocks.all[&ptr].free {
                Some(Origin::Stream(key)) => !captured(*key),
                _ => true,
            };
            if fallback.is_none() && graph.is_none() && can_wait(self, ptr) {
                fallback = Some((have, ptr));
            }
            if fallback.is_some_and(|(smallest, _)| have > 2 * smallest) {
                break;
            }
        }
        let ptr = chosen.or(fallback.map(|(_, ptr)| ptr))?;
        let block = self.all.get_mut(&ptr)?;
        self.free.remove(&(block.size, ptr));
        let origin = block.free.take()?;
        block.graph = graph;
        let size = self.split(ptr, size, &origin);
        Some(Found { ptr, size, origin })
    }

    /// A block of just the size for a request, freed last on this very stream; its address and size.
    #[inline]
    pub(super) fn take_recent(&mut self, bytes: usize, stream: StreamKey) -> Option<(u64, usize)> {
        if bytes >= SMALL {
            return None;
        }
        let size = block_size(bytes);
        let recent = self.recent.get_mut(Recent::place(stream, size))?;
        if recent.count == 0 || recent.size != size || recent.stream != stream {
            return None;
        }
        recent.count -= 1;
        Some((recent.blocks[recent.count], size))
    }

    /// Keeps a block that is being freed as it is, if it is small and there is room.
    #[inline]
    pub(super) fn keep_recent(&mut self, ptr: u64, size: usize, stream: StreamKey) -> bool {
        // Larger blocks are worth joining at once. So is the rest of a cut, which no request has the size of.
        if size >= SMALL || size % GRANULE != 0 {
            return false;
        }
        if self.recent.is_empty() {
            self.recent.resize_with(Recent::PLACES, || Recent::EMPTY);
        }
        let recent = &mut self.recent[Recent::place(stream, size)];
        if recent.count == 0 {
            (recent.stream, recent.size) = (stream, size);
        } else if recent.count == Recent::MOST || recent.size != size || recent.stream != stream {
            return false;
        }
        let Some(block) = self.all.get_mut(&ptr) else {
            return false;
        };
        block.graph = None;
        recent.blocks[recent.count] = ptr;
        recent.count += 1;
        true
    }

    /// Makes the blocks freed last free for all: to be joined, cut, taken by another stream or given back.
    pub(super) fn settle(&mut self) {
        let mut all = std::mem::take(&mut self.recent);
        for recent in &mut all {
            for &ptr in &recent.blocks[..recent.count] {
                self.give_back(ptr, Origin::Stream(recent.stream));
            }
            recent.count = 0;
        }
        self.recent = all;
    }

    /// Cuts the block to `size` bytes if the rest is worth keeping; returns what it has afterwards.
    fn split(&mut self, ptr: u64, size: usize, origin: &Origin) -> usize {
        let Some(block) = self.all.get_mut(&ptr) else {
            return 0;
        };
        let rest = block.size - size;
        let worth = if self.segments[&block.segment].small {
            GRANULE
        } else {
            SMALL
        };
        if rest < worth {
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
        self.free.insert((rest, next));
        size
    }

    /// A new segment, the first block of which is in use with at least `bytes`; returns its size.
    pub(super) fn add_segment(
        &mut self,
        ptr: u64,
        segment: usize,
        bytes: usize,
        cut: bool,
        graph: Option<u64>,
    ) -> usize {
        let small = bytes < SMALL;
        self.segments.insert(
            ptr,
            Segment {
                size: segment,
                small,
            },
        );
        self.all.insert(
            ptr,
            Block {
                size: segment,
                segment: ptr,
                free: None,
                graph,
            },
        );
        if cut {
            self.split(ptr, block_size(bytes).min(segment), &Origin::Idle)
        } else {
            segment
        }
    }

    /// Frees a block and joins it with free neighbours of the same origin.
    pub(super) fn give_back(&mut self, ptr: u64, origin: Origin) {
        let Some(block) = self.all.get_mut(&ptr) else {
            return;
        };
        block.free = Some(origin);
        block.graph = None;
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
        self.free.insert((size, start));
    }

    /// Joins two neighbouring free blocks into the first, which is then in no free list.
    fn join(&mut self, first: u64, second: u64) -> bool {
        let (Some(a), Some(b)) = (self.all.get(&first), self.all.get(&second)) else {
            return false;
        };
        let joinable = a.segment == b.segment
            && first + a.size as u64 == second
            && matches!((&a.free, &b.free), (Some(x), Some(y)) if x.same(y));
        if !joinable {
            return false;
        }
        let (first_size, second_size) = (a.size, b.size);
        self.free.remove(&(first_size, first));
        self.free.remove(&(second_size, second));
        self.all.remove(&second);
        if let Some(a) = self.all.get_mut(&first) {
            a.size += second_size;
        }
        true
    }

    /// Reuses a block that the same capture freed: of at least `bytes` and at most twice that, or, where
    /// sizes are exact, of just `bytes`.
    pub(super) fn reuse_held(
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

    /// Forgets a block that is a whole segment.
    pub(super) fn remove(&mut self, ptr: u64) {
        self.all.remove(&ptr);
        self.segments.remove(&ptr);
    }

    /// Whether a free block waits for this stream's work.
    pub(super) fn any_from(&self, stream: StreamKey) -> bool {
        self.all
            .values()
            .any(|block| matches!(block.free, Some(Origin::Stream(key)) if key == stream))
    }

    /// Puts another origin in the place of a stream.
    pub(super) fn replace_origin(&mut self, stream: StreamKey, new: impl Fn() -> Origin) {
        for block in self.all.values_mut() {
            if matches!(block.free, Some(Origin::Stream(key)) if key == stream) {
                block.free = Some(new());
            }
        }
    }

    /// Takes out the segments of which nothing is in use. The device is idle, so that neighbours of
    /// different origins can be joined first.
    pub(super) fn take_whole_segments(&mut self) -> Vec<(u64, usize)> {
        let unused = |blocks: &Self, segment: u64, size: usize| {
            blocks
                .all
                .range(segment..segment + size as u64)
                .all(|(_, block)| block.free.is_some())
        };
        let whole: Vec<(u64, usize)> = self
            .segments
            .iter()
            .map(|(&ptr, segment)| (ptr, segment.size))
            .filter(|&(ptr, size)| unused(self, ptr, size))
            .collect();
        for &(segment, size) in &whole {
            let addresses: Vec<u64> = self
                .all
                .range(segment..segment + size as u64)
                .map(|(&ptr, _)| ptr)
                .collect();
            for ptr in addresses {
                if let Some(block) = self.all.remove(&ptr) {
                    self.free.remove(&(block.size, ptr));
                }
            }
            self.segments.remove(&segment);
        }
        whole
    }
}
