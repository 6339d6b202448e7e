//! What the wavefronts of a workgroup reach beyond their registers: memory, LDS, scratch; and whether an access
//! stays inside.

use std::time::Instant;

use super::access::{Access, Outcome, Violation};
use crate::exec::counters::{Class, Counters};
use crate::fault::FaultKind;
use crate::memory::{Memory, Snapshot};

/// A range of addresses that an instruction's last access lay in: first, and first after.
pub(crate) type Window = (u64, u64);

/// One thread's view of a launch.
pub(crate) struct Context<'a> {
    pub memory: &'a Memory,
    pub snapshot: &'a Snapshot,
    /// Kernel arguments and dispatch packet, which no allocation holds.
    pub arguments: Window,
    /// The last window of each memory instruction, by its `site`: most go to one allocation for ever.
    pub windows: Vec<Window>,
    /// The workgroup's LDS.
    pub lds: *mut u8,
    pub lds_size: u32,
    /// The running wavefront's scratch: lane after lane, `scratch_stride` bytes apart.
    pub scratch: *mut u8,
    pub scratch_size: u32,
    pub scratch_stride: u32,
    /// Bytes past an allocation's end that loads may read.
    pub read_past_end: u64,
    pub counters: Counters,
    pub start: Instant,
}

impl Context<'_> {
    /// Whether `first..first + bytes` is inside one allocation; remembers which for the instruction `site`.
    #[inline(always)]
    pub fn reaches(&mut self, site: u32, first: u64, bytes: u64) -> bool {
        let (low, end) = self.windows[site as usize];
        if first >= low && first < end && bytes <= end - first {
            return true;
        }
        self.reaches_slowly(site, first, bytes)
    }

    #[cold]
    #[inline(never)]
    fn reaches_slowly(&mut self, site: u32, first: u64, bytes: u64) -> bool {
        let inside = |(low, end): Window| first >= low && first < end && bytes <= end - first;
        let found = self.snapshot.find(first).filter(|&window| inside(window));
        match found.or_else(|| inside(self.arguments).then_some(self.arguments)) {
            Some(window) => {
                self.windows[site as usize] = window;
                true
            }
            None => false,
        }
    }

    /// Whether one element may be accessed.
    ///
    /// # Errors
    /// That it is out of bounds.
    #[inline(always)]
    pub fn check(
        &mut self,
        site: u32,
        access: Access,
        address: u64,
        bytes: u32,
        lane: Option<u32>,
    ) -> Outcome {
        if self.reaches(site, address, bytes.into()) {
            return Ok(());
        }
        self.check_past_end(access, address, bytes, lane)
    }

    #[cold]
    #[inline(never)]
    fn check_past_end(
        &self,
        access: Access,
        address: u64,
        bytes: u32,
        lane: Option<u32>,
    ) -> Outcome {
        let readable = access == Access::Load
            && self
                .snapshot
                .is_just_past(address, bytes.into(), self.read_past_end);
        match readable {
            true => Ok(()),
            false => Err(self.out_of_bounds(access, address, bytes, lane)),
        }
    }

    fn out_of_bounds(
        &self,
        access: Access,
        address: u64,
        bytes: u32,
        lane: Option<u32>,
    ) -> Box<Violation> {
        let nearest = self.memory.nearest(address);
        let kind = FaultKind::OutOfBounds {
            access: access.name(),
            address,
            bytes,
            nearest,
        };
        Box::new(Violation { kind, lane })
    }

    /// Whether a range lies in one allocation, or among the arguments; for those who check what a kernel does.
    pub fn holds(&self, first: u64, bytes: u64) -> bool {
        let inside = |(low, end): Window| first >= low && first < end && bytes <= end - first;
        self.snapshot.find(first).is_some_and(inside) || inside(self.arguments)
    }

    #[inline(always)]
    pub fn count(&mut self, class: Class) {
        self.counters.instructions[class as usize] += 1;
    }
}
