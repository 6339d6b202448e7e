//! The segments of a pool: memory as the driver gave it, and which of it holds nothing.

use std::collections::BTreeSet;

/// Small blocks are multiples of this: HIP aligns allocations to 256 bytes, and 512 keeps the remainders useful.
pub(super) const GRANULE: usize = 512;
/// Requests below this share segments of [`SMALL_SEGMENT`] bytes.
pub(super) const SMALL: usize = 1 << 20;
const SMALL_SEGMENT: usize = 8 << 20;
/// Requests from this on get a segment each; those below share segments of [`SHARED`] bytes.
const OWN: usize = 16 << 20;
/// The least and the largest size of a shared segment: a sixteenth of what the pool holds lies between.
const SHARED: [usize; 2] = [32 << 20, 64 << 20];
/// The driver's page: segments are multiples of it, and no block is rounded up by more.
const PAGE: usize = 2 << 20;
/// Large blocks are rounded up by at most one part in so many, so that a buffer that grows finds what its predecessors
/// left.
const STEPS: usize = 32;

/// What shares segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Small,
    Large,
}

impl Kind {
    #[inline]
    pub fn of(bytes: usize) -> Self {
        match bytes < SMALL {
            true => Kind::Small,
            false => Kind::Large,
        }
    }

    /// The smallest rest of a block that is worth a block of its own.
    pub fn least_rest(self) -> usize {
        match self {
            Kind::Small => GRANULE,
            Kind::Large => SMALL,
        }
    }
}

/// How many bytes a block for so many has.
#[inline]
pub(super) fn block_size(bytes: usize) -> usize {
    let step = match Kind::of(bytes) {
        Kind::Small => GRANULE,
        Kind::Large => (1 << bytes.ilog2()).min(STEPS * PAGE) / STEPS,
    };
    // A request near the address space's end stays as it is: the driver refuses it.
    bytes.checked_next_multiple_of(step).unwrap_or(bytes)
}

/// How many bytes to ask the driver for, for a request, where the pool holds `reserved` bytes.
pub(super) fn segment_size(bytes: usize, reserved: usize) -> usize {
    match Kind::of(bytes) {
        Kind::Small => SMALL_SEGMENT,
        Kind::Large if bytes < OWN => {
            let [least, most] = SHARED;
            (reserved / 16).next_power_of_two().clamp(least, most)
        }
        Kind::Large => bytes.checked_next_multiple_of(PAGE).unwrap_or(bytes),
    }
}

/// The number of a segment.
pub(super) type Id = u32;

/// Memory as the driver gave it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub ptr: u64,
    pub size: usize,
    pub kind: Kind,
    /// Blocks in use.
    used: usize,
    /// When the last block was freed, counted in such events.
    emptied: u64,
}

impl Segment {
    pub fn is_idle(&self) -> bool {
        self.used == 0
    }

    /// Whether a block of so many bytes should rather not be the first of this segment: what it leaves could not be
    /// given back as long as that lives.
    pub fn is_wasted_on(&self, size: usize) -> bool {
        self.is_idle() && self.size > SHARED[1] && self.size / 8 > size
    }
}

/// All segments.
#[derive(Default)]
pub(super) struct Segments {
    all: Vec<Option<Segment>>,
    /// Numbers without a segment.
    vacant: Vec<Id>,
    /// Segments without a block in use, the one emptied first at the front.
    idle: BTreeSet<(u64, Id)>,
    idle_bytes: usize,
    clock: u64,
    /// What the clock was when [`Segments::idle_since_then`] was last asked.
    then: u64,
}

impl Segments {
    /// The segment of this number, which is one.
    #[inline]
    pub fn get(&self, id: Id) -> &Segment {
        self.all[id as usize].as_ref().expect("a segment's number")
    }

    /// Notes a segment with one block in use.
    pub fn add(&mut self, ptr: u64, size: usize, kind: Kind) -> Id {
        let segment = Segment {
            ptr,
            size,
            kind,
            used: 1,
            emptied: 0,
        };
        if let Some(id) = self.vacant.pop() {
            self.all[id as usize] = Some(segment);
            return id;
        }
        self.all.push(Some(segment));
        (self.all.len() - 1) as Id
    }

    pub fn remove(&mut self, id: Id) -> Option<Segment> {
        let segment = self.all[id as usize].take()?;
        if segment.is_idle() && self.idle.remove(&(segment.emptied, id)) {
            self.idle_bytes -= segment.size;
        }
        self.vacant.push(id);
        Some(segment)
    }

    /// A block of the segment is in use from now on.
    #[inline]
    pub fn note_taken(&mut self, id: Id) {
        let segment = self.all[id as usize].as_mut().expect("a segment's number");
        if segment.used == 0 {
            self.idle.remove(&(segment.emptied, id));
            self.idle_bytes -= segment.size;
        }
        segment.used += 1;
    }

    /// A block of the segment is in use no more.
    #[inline]
    pub fn note_freed(&mut self, id: Id) {
        let segment = self.all[id as usize].as_mut().expect("a segment's number");
        segment.used -= 1;
        if segment.used == 0 {
            self.clock += 1;
            segment.emptied = self.clock;
            self.idle.insert((self.clock, id));
            self.idle_bytes += segment.size;
        }
    }

    /// Bytes of segments without a block in use.
    #[inline]
    pub fn idle_bytes(&self) -> usize {
        self.idle_bytes
    }

    /// Bytes of idle segments that were emptied since this was last asked.
    pub fn idle_since_then(&mut self) -> usize {
        let then = std::mem::replace(&mut self.then, self.clock);
        let since = self.idle.range((then + 1, 0)..);
        since.map(|&(_, id)| self.get(id).size).sum()
    }

    /// The idle segment that was emptied first.
    pub fn first_idle(&self) -> Option<Id> {
        self.idle.first().map(|&(_, id)| id)
    }
}
