//! Counts by instruction.

use std::collections::BTreeMap;
use std::ops::{Add, AddAssign, Range};

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

    /// Add to the counts of the instruction at an offset.
    pub(crate) fn count(&mut self, offset: i64, counted: InstructionProfile) {
        *self.instructions.entry(offset).or_default() += counted;
    }

    pub(crate) fn add(&mut self, other: &Profile) {
        for (&offset, row) in &other.instructions {
            self.count(offset, *row);
        }
    }
}
