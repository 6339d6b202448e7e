//! What each instruction of a kernel did, counted: executions, LDS cycles, cache lines.
//!
//! Nothing here runs unless [`Options::profile`](crate::exec::Options::profile) asks for it. The counts are exact for the
//! addresses that the lanes had; what the hardware makes of them is a model, in [`lds_cycles`](crate::exec::lds_cycles) and [`line_bytes`](crate::exec::line_bytes).

use std::collections::BTreeMap;
use std::ops::{Add, AddAssign, Range};

use crate::exec::memory::Access;
use crate::exec::memory::Places;
use crate::exec::program::{Op, Program};
use crate::exec::{Wave, LANES};
use crate::isa::Target;

use super::banks;
use super::lines;

/// What one instruction did, over all wavefronts that executed it; or several instructions together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InstructionProfile {
    /// Wavefronts that executed it.
    pub executions: u64,
    /// Their active lanes.
    pub lanes: u64,
    /// Cycles in which the LDS served it, by the model of [`lds_cycles`](crate::exec::lds_cycles).
    pub lds_cycles: u64,
    /// Of those, cycles that bank conflicts added.
    pub lds_conflicts: u64,
    /// Bytes that the active lanes moved from or to global memory; what several lanes read counts for each.
    pub global_bytes: u64,
    /// Cache lines of [`line_bytes`](crate::exec::line_bytes) that a wavefront's accesses touched, summed over the wavefronts.
    pub lines: u64,
    /// Lines that as many bytes would fill if they lay together and began a line.
    pub least_lines: u64,
}

impl Add for InstructionProfile {
    type Output = InstructionProfile;

    fn add(self, other: InstructionProfile) -> InstructionProfile {
        InstructionProfile {
            executions: self.executions + other.executions,
            lanes: self.lanes + other.lanes,
            lds_cycles: self.lds_cycles + other.lds_cycles,
            lds_conflicts: self.lds_conflicts + other.lds_conflicts,
            global_bytes: self.global_bytes + other.global_bytes,
            lines: self.lines + other.lines,
            least_lines: self.least_lines + other.least_lines,
        }
    }
}

impl AddAssign for InstructionProfile {
    fn add_assign(&mut self, other: InstructionProfile) {
        *self = *self + other;
    }
}

/// What the instructions of one kernel did, by their distance in bytes from the kernel's first.
///
/// Launches of the same kernel add up in one profile; a profile for several kernels has no meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    instructions: BTreeMap<i64, InstructionProfile>,
}

impl Profile {
    /// The instructions that were executed, in order. Functions that the kernel calls may lie before it.
    pub fn instructions(&self) -> impl Iterator<Item = (i64, &InstructionProfile)> {
        self.instructions.iter().map(|(&offset, row)| (offset, row))
    }

    /// What the instruction at an offset did; nothing where none was executed.
    pub fn at(&self, offset: i64) -> InstructionProfile {
        self.instructions.get(&offset).copied().unwrap_or_default()
    }

    /// The sum over the instructions whose offsets lie in a range, such as a loop's.
    pub fn within(&self, offsets: Range<i64>) -> InstructionProfile {
        self.instructions
            .range(offsets)
            .fold(InstructionProfile::default(), |sum, (_, row)| sum + *row)
    }

    /// The sum over all instructions.
    pub fn total(&self) -> InstructionProfile {
        self.instructions
            .values()
            .fold(InstructionProfile::default(), |sum, row| sum + *row)
    }

    pub(crate) fn add(&mut self, other: &Profile) {
        for (&offset, row) in &other.instructions {
            *self.instructions.entry(offset).or_default() += *row;
        }
    }
}

/// What an access does to the LDS or to memory, lane by lane.
pub(crate) struct Footprint<'a> {
    pub access: Access,
    /// Bytes of each lane.
    pub bytes: u32,
    /// LDS offsets or addresses; inactive lanes hold anything.
    pub places: &'a Places,
    /// The lanes that access.
    pub lanes: u64,
}

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
            Op::Buffer(op) => op.footprint(wave, |access| lines::count(row, target, &access)),
            _ => {}
        }
    }

    /// Before steps are numbered anew, or at the end: keep the counts by address.
    pub fn keep(&mut self, program: &Program) {
        for (step, row) in program.steps.iter().zip(&mut self.steps) {
            if row.executions != 0 {
                let offset = step.pc.wrapping_sub(self.entry) as i64;
                *self.finished.instructions.entry(offset).or_default() += std::mem::take(row);
            }
        }
    }

    pub fn finish(self) -> Profile {
        self.finished
    }
}

/// The active lanes of a mask.
pub(crate) fn active(mask: u64) -> impl Iterator<Item = usize> {
    (0..LANES).filter(move |lane| mask >> lane & 1 != 0)
}
