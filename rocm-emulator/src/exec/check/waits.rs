//! `waits`: registers and LDS that are used before the wait that makes them valid.
//!
//! A model of the counters: what raises which, and what a wait leaves outstanding. Operations of one kind complete in
//! order, so that a wait for `n` means that all but the last `n` of each kind are done; scalar loads complete in any
//! order, so that only a wait for 0 says anything of them, and so do accesses to flat addresses on CDNA (LLVM,
//! SIInsertWaitcnts: `counterOutOfOrder`, `hasFlatLgkmVMemCountInOrder`). A load of a flat address raises the LDS'
//! counter, too, which is to be waited for where a lane reads the LDS (the same, `mayAccessLDSThroughFlat`). Stores read
//! their data when they are issued, on all GPUs here; `expcnt` is for GDS and exports alone.

use std::collections::VecDeque;
use std::sync::Arc;

use super::facts::{Counter, Facts, Wait};
use super::hazards::{Hazards, Roles};
use super::registers::{self, REGISTERS};
use super::Place;
use crate::exec::memory::{Access, LdsOp};
use crate::exec::wave::Wave;
use crate::isa::{Family, Target};

/// Ranges of LDS offsets: first, and first after.
type Ranges = Vec<(u32, u32)>;

/// Something that an instruction has begun.
struct Operation {
    /// Its number among the wavefront's.
    id: u64,
    pc: u64,
    facts: Arc<Facts>,
    /// Its registers are written before this counter falls; else by another's.
    fills: bool,
    /// What it writes in the LDS.
    ranges: Ranges,
}

impl Operation {
    fn writes(&self, register: usize) -> bool {
        self.fills && writes(&self.facts, register)
    }

    /// What it writes before this counter falls.
    fn registers(&self) -> impl Iterator<Item = usize> + '_ {
        let spans = self.facts.writes.iter().filter(|_| self.fills);
        spans.flat_map(|span| span.registers())
    }

    fn kind(&self) -> Kind {
        match self.facts.unit {
            _ if self.facts.unordered => Kind::Unordered,
            _ if self.facts.flat => Kind::Flat,
            _ => Kind::Plain,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Flat,
    Unordered,
}

/// A write of the LDS that was outstanding as its wavefront arrived at a barrier.
struct Late {
    wave: u32,
    id: u64,
    pc: u64,
    ranges: Ranges,
    done: bool,
}

/// What a workgroup's wavefronts share.
#[derive(Default)]
pub(super) struct GroupWaits {
    late: Vec<Late>,
}

/// One wavefront's outstanding operations.
pub(super) struct Waits {
    queues: [VecDeque<Operation>; 4],
    /// For each register, the operations that will write it.
    pending: Box<[u8; REGISTERS]>,
    /// Any register has some.
    outstanding: u32,
    next: u64,
    hazards: Hazards,
}

impl Waits {
    pub fn new() -> Waits {
        Waits {
            queues: Default::default(),
            pending: Box::new([0; REGISTERS]),
            outstanding: 0,
            next: 0,
            hazards: Hazards::default(),
        }
    }

    /// Look at an instruction that is about to be executed; gives what is wrong with it.
    pub fn before(
        &mut self,
        group: &mut GroupWaits,
        place: &Place,
        (facts, roles): (&Arc<Facts>, Roles),
        (lds, flat_in_lds): (Option<&LdsOp>, bool),
        wave: &Wave,
    ) -> Option<String> {
        let target = wave.target;
        if let Some(wait) = &facts.wait {
            self.wait(target, wait, group, place.wave);
        }
        if let Some(wrong) = self.used_too_early(wave, facts, place) {
            return Some(wrong);
        }
        if let Some(broken) = self.hazards.issue(target, facts, roles, place.pc) {
            return Some(format!(
                "{} after {}",
                broken.text,
                place.instruction(broken.pc)
            ));
        }
        let mut ranges = Ranges::new();
        if let Some(lds) = lds {
            if let Some(wrong) = touches_late(lds, wave, group, place) {
                return Some(wrong);
            }
            ranges = written(lds, wave);
        }
        let fills = |counter| !facts.flat || flat_in_lds || counter != Counter::Lds.on(target);
        self.begin(target, facts, place, ranges, group, fills);
        None
    }

    fn used_too_early(&self, wave: &Wave, facts: &Facts, place: &Place) -> Option<String> {
        if self.outstanding == 0 {
            return None;
        }
        let used = |written: bool| {
            let spans = if written { &facts.writes } else { &facts.reads };
            let registers = spans.iter().flat_map(|span| span.registers());
            registers.into_iter().find(|at| self.pending[*at] != 0)
        };
        if let Some(register) = used(false) {
            return Some(self.early(wave, register, "read", place));
        }
        let register = used(true)?;
        if self.writes_in_order(facts, register) {
            return None;
        }
        Some(self.early(wave, register, "overwritten", place))
    }

    /// Loads of one kind write their registers in the order in which they were issued.
    fn writes_in_order(&self, facts: &Facts, register: usize) -> bool {
        let [counter] = facts.counts[..] else {
            return false;
        };
        let writes = |operation: &&Operation| operation.writes(register);
        let mut others = self.queues.iter().enumerate().flat_map(|(at, queue)| {
            queue
                .iter()
                .filter(writes)
                .map(move |operation| (at, operation))
        });
        !facts.unordered
            && others.all(|(at, it)| at == counter as usize && it.kind() == Kind::Plain)
    }

    fn early(&self, wave: &Wave, register: usize, how: &str, place: &Place) -> String {
        let mut found = Counter::ALL.into_iter().filter_map(|counter| {
            let queue = &self.queues[counter as usize];
            let at = queue.iter().rposition(|it| it.writes(register))?;
            Some((counter, &queue[at], queue.len() - 1 - at))
        });
        let Some((counter, operation, later)) = found.next() else {
            return String::new();
        };
        let needed = match operation.kind() {
            Kind::Plain => later,
            _ => 0,
        };
        format!(
            "{} is {how} before a wait for {}({needed}): {} will write it",
            registers::name(register, wave),
            counter.name(wave.target),
            place.instruction(operation.pc)
        )
    }

    fn begin(
        &mut self,
        target: Target,
        facts: &Arc<Facts>,
        place: &Place,
        ranges: Ranges,
        group: &mut GroupWaits,
        fills: impl Fn(Counter) -> bool,
    ) {
        for counter in &facts.counts {
            let operation = Operation {
                id: self.next,
                pc: place.pc,
                facts: Arc::clone(facts),
                fills: fills(*counter),
                ranges: ranges.clone(),
            };
            self.next += 1;
            for register in operation.registers() {
                self.pending[register] = self.pending[register].saturating_add(1);
                self.outstanding += 1;
            }
            self.queues[*counter as usize].push_back(operation);
            let most = counter.most(target);
            if self.queues[*counter as usize].len() > most {
                self.wait_for(target, *counter, most as u32, group, place.wave);
            }
        }
    }

    fn wait(&mut self, target: Target, wait: &Wait, group: &mut GroupWaits, wave: u32) {
        for counter in Counter::ALL {
            if let Some(left) = wait[counter as usize] {
                self.wait_for(target, counter, left, group, wave);
            }
        }
    }

    /// What is known to be done when so many are left.
    fn wait_for(
        &mut self,
        target: Target,
        counter: Counter,
        left: u32,
        group: &mut GroupWaits,
        wave: u32,
    ) {
        let left = left as usize;
        let flat_in_order = target.family() != Family::Cdna;
        let kind = |operation: &Operation| match operation.kind() {
            Kind::Flat if flat_in_order => Kind::Plain,
            other => other,
        };
        let queue = &mut self.queues[counter as usize];
        if queue.is_empty() {
            return;
        }
        let plain = queue.iter().filter(|it| kind(it) == Kind::Plain).count();
        let mut done = plain.saturating_sub(left);
        let mut kept = VecDeque::with_capacity(queue.len());
        for operation in queue.drain(..) {
            let finished = match kind(&operation) {
                _ if left == 0 => true,
                Kind::Plain if done > 0 => {
                    done -= 1;
                    true
                }
                _ => false,
            };
            if !finished {
                kept.push_back(operation);
                continue;
            }
            for register in operation.registers() {
                self.pending[register] = self.pending[register].saturating_sub(1);
                self.outstanding = self.outstanding.saturating_sub(1);
            }
            for late in &mut group.late {
                late.done |= late.wave == wave && late.id == operation.id;
            }
        }
        *queue = kept;
    }

    /// The wavefront arrives at the workgroup's barrier.
    pub fn arrive(&mut self, group: &mut GroupWaits, wave: u32) {
        // What was waited for since the last one is published by this one.
        group.late.retain(|late| late.wave != wave || !late.done);
        for operation in self.queues.iter().flatten() {
            let known = |late: &Late| late.wave == wave && late.id == operation.id;
            if !operation.ranges.is_empty() && !group.late.iter().any(known) {
                group.late.push(Late {
                    wave,
                    id: operation.id,
                    pc: operation.pc,
                    ranges: operation.ranges.clone(),
                    done: false,
                });
            }
        }
    }
}

fn writes(facts: &Facts, register: usize) -> bool {
    facts
        .writes
        .iter()
        .any(|span| span.registers().contains(&register))
}

/// What an instruction writes in the LDS.
fn written(lds: &LdsOp, wave: &Wave) -> Ranges {
    let mut ranges = Ranges::new();
    lds.footprints(wave, |footprint| {
        if footprint.access == Access::Load {
            return;
        }
        for lane in footprint.active(u64::MAX) {
            let first = footprint.places[lane] as u32;
            match ranges.last_mut() {
                Some(range) if range.1 == first => range.1 += footprint.bytes,
                _ => ranges.push((first, first + footprint.bytes)),
            }
        }
    });
    ranges
}

/// Whether an instruction touches what another wavefront had not finished writing as it came to a barrier.
fn touches_late(lds: &LdsOp, wave: &Wave, group: &GroupWaits, place: &Place) -> Option<String> {
    if group.late.is_empty() {
        return None;
    }
    let mut found = None;
    lds.footprints(wave, |footprint| {
        for lane in footprint.active(u64::MAX) {
            let (first, end) = (
                footprint.places[lane],
                footprint.places[lane] + u64::from(footprint.bytes),
            );
            let overlaps = |range: &&(u32, u32)| u64::from(range.0) < end && first < range.1.into();
            for late in group.late.iter().filter(|late| late.wave != place.wave) {
                if let Some(range) = late.ranges.iter().find(overlaps) {
                    found.get_or_insert((first.max(range.0.into()), lane, late));
                }
            }
        }
    });
    let (at, lane, late) = found?;
    Some(format!(
        "LDS at {at:#x} (lane {lane}): wavefront {} came to a barrier without a wait for its {}",
        late.wave,
        place.instruction(late.pc)
    ))
}
