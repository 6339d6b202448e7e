//! A wavefront that is played back.

use super::instruction::Instruction;
use super::record::WaveRecord;
use crate::exec::check::{Counter, REGISTERS};
use crate::isa::Target;

/// A wavefront on its SIMD.
pub(super) struct Wave<'a> {
    pub record: &'a WaveRecord,
    pub next: usize,
    pub group: usize,
    pub unit: usize,
    pub simd: usize,
    pub priority: u8,
    /// Barriers at which it has arrived.
    pub arrivals: u64,
    /// When what each counter counts is done, in order.
    counters: [Vec<u64>; 4],
    /// When each register can be read, and when by the addend of a matrix instruction.
    ready: Box<[[u64; 2]; REGISTERS]>,
    /// The line of code that it is in, and when that is there.
    pub code: (u64, u64),
}

impl<'a> Wave<'a> {
    /// At its first instruction.
    pub fn new(record: &'a WaveRecord, group: usize, unit: usize, simd: usize) -> Wave<'a> {
        Wave {
            record,
            next: 0,
            group,
            unit,
            simd,
            priority: 0,
            arrivals: 0,
            counters: Default::default(),
            ready: Box::new([[0; 2]; REGISTERS]),
            code: (u64::MAX, 0),
        }
    }

    /// What an instruction writes can be read then; by the addend of a matrix instruction at the second time.
    pub fn write(&mut self, of: &Instruction, ready: [u64; 2]) {
        for register in of.writes.iter().flat_map(|span| span.registers()) {
            self.ready[register] = ready;
        }
    }

    /// Something that these counters count is done then, or with what was before: they come back in order.
    pub fn count(&mut self, counters: &[Counter], done: u64) {
        for counter in counters {
            let counted = &mut self.counters[*counter as usize];
            let last = counted.last().copied().unwrap_or(0);
            counted.push(done.max(last));
        }
    }

    /// When all is done that is counted.
    pub fn last_done(&self) -> u64 {
        let counters = self.counters.iter().filter_map(|counted| counted.last());
        counters.copied().max().unwrap_or(0)
    }

    /// Nothing that it waits for is left.
    pub fn settle(&mut self) {
        self.counters = Default::default();
    }

    /// The first cycle in which its registers and what it waits for let it issue, if its units are free then.
    pub fn can_issue(&self, of: &Instruction, free: u64, target: Target) -> u64 {
        let mut can = free;
        let addend = of.matrix.and_then(|matrix| matrix.addend);
        for span in &of.reads {
            let as_addend = usize::from(addend == Some(*span));
            let registers = span
                .registers()
                .map(|register| self.ready[register][as_addend]);
            can = can.max(registers.max().unwrap_or(0));
        }
        for counter in Counter::ALL {
            let pending = &self.counters[counter as usize];
            let most = match of.wait[counter as usize] {
                Some(most) => most as usize,
                // One more must fit.
                None if of.counts.contains(&counter) => counter.most(target) - 1,
                None => continue,
            };
            if let Some(last) = pending.len().checked_sub(most + 1) {
                can = can.max(pending[last]);
            }
        }
        can
    }
}
