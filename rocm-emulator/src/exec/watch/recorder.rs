//! What each instruction of a kernel did, counted: executions, LDS cycles, cache lines.
//!
//! Nothing here runs unless [`Options::profile`](crate::exec::Options::profile) asks for it. The counts are exact for the
//! addresses that the lanes had; what the hardware makes of them is a model, in `banks` and `lines`.

use super::profile::{InstructionProfile, Profile};
use super::{banks, lines};
use crate::exec::program::{Op, Program};
use crate::exec::wave::Wave;
use crate::isa::Target;

/// One thread's counts, by the steps of the program.
pub(crate) struct Recorder {
    target: Target,
    entry: u64,
    steps: Vec<InstructionProfile>,
    finished: Profile,
}

impl Recorder {
    pub fn new(target: Target, entry: u64) -> Recorder {
        Recorder {
            target,
            entry,
            steps: Vec::new(),
            finished: Profile::default(),
        }
    }

    /// Count a step that a wavefront is about to execute.
    pub fn note(&mut self, at: u32, op: &Op, wave: &Wave) {
        let at = at as usize;
        if self.steps.len() <= at {
            self.steps.resize(at + 1, InstructionProfile::default());
        }
        let target = self.target;
        let row = &mut self.steps[at];
        row.executions += 1;
        row.lanes += u64::from(wave.exec().count_ones());
        match op {
            Op::Lds(op) => op.footprints(wave, |access| {
                let (cycles, conflicts) = banks::cycles(target, wave.lanes, &access);
                row.lds_cycles += cycles;
                row.lds_conflicts += conflicts;
            }),
            Op::Memory(op) => op.footprint(wave, |access| lines::count(row, target, &access)),
            Op::Buffer(op) => op.footprints(wave, |access| lines::count(row, target, &access)),
            _ => {}
        }
    }

    /// Before steps are numbered anew, or at the end: keep the counts by address.
    pub fn keep(&mut self, program: &Program) {
        for (step, row) in program.steps.iter().zip(&mut self.steps) {
            if row.executions != 0 {
                let offset = step.pc.wrapping_sub(self.entry) as i64;
                self.finished.count(offset, std::mem::take(row));
            }
        }
    }

    pub fn finish(self) -> Profile {
        self.finished
    }
}
