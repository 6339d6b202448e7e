//! What a launch did, counted.

use std::ops::{Add, AddAssign};

/// Kinds of instructions that are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// SALU, scalar loads, branches; waits and no-ops are not counted.
    Scalar,
    /// VALU.
    Vector,
    /// FLAT, GLOBAL, SCRATCH and buffer instructions.
    Memory,
    /// DS instructions.
    Lds,
    /// MFMA and WMMA.
    Matrix,
}

impl Class {
    /// Number of classes.
    pub const COUNT: usize = 5;
}

/// What a launch, or several, executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Kernel launches.
    pub launches: u64,
    /// Workgroups.
    pub workgroups: u64,
    /// Wavefronts.
    pub wavefronts: u64,
    /// Instructions by [`Class`], one for each wavefront that executes one.
    pub instructions: [u64; Class::COUNT],
    /// Active lanes summed over vector, memory, LDS and matrix instructions.
    pub lane_operations: u64,
    /// Bytes that vector memory instructions loaded (global, scratch and flat; LDS not included).
    pub bytes_loaded: u64,
    /// Bytes that vector memory instructions stored; atomics count as stores.
    pub bytes_stored: u64,
}

impl Counters {
    /// Instructions of a class.
    pub fn of(&self, class: Class) -> u64 {
        self.instructions[class as usize]
    }

    /// Instructions of all classes.
    pub fn total_instructions(&self) -> u64 {
        self.instructions.iter().sum()
    }
}

impl Add for Counters {
    type Output = Counters;

    fn add(self, other: Counters) -> Counters {
        let mut instructions = self.instructions;
        for (sum, count) in instructions.iter_mut().zip(other.instructions) {
            *sum += count;
        }
        Counters {
            launches: self.launches + other.launches,
            workgroups: self.workgroups + other.workgroups,
            wavefronts: self.wavefronts + other.wavefronts,
            instructions,
            lane_operations: self.lane_operations + other.lane_operations,
            bytes_loaded: self.bytes_loaded + other.bytes_loaded,
            bytes_stored: self.bytes_stored + other.bytes_stored,
        }
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Counters) {
        *self = *self + other;
    }
}
