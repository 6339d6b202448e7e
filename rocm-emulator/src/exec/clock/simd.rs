//! A SIMD's units: what is issued to them, and until when they are busy.

use rocm_gpus::Timing;

use super::instruction::{Class, Instruction, BANKS};
use super::wave::Wave;

/// Operands are gathered from so many cycles before the issue on. LLVM says that they are; how many is assumed.
const GATHERED_AHEAD: u64 = 1;

#[derive(Clone, Default)]
pub(super) struct Simd {
    /// When it can issue the next instruction of each class.
    pub issue: [u64; Class::COUNT],
    pub vector_free: u64,
    pub transcendental_free: u64,
    pub matrix_free: u64,
    pub vector_busy: u64,
    pub matrix_busy: u64,
    pub wavefronts: u32,
    /// When each bank of registers has given what was asked of it.
    banks_free: [u64; BANKS],
}

impl Simd {
    /// When the units that an instruction needs are free.
    pub fn free(&self, of: &Instruction) -> u64 {
        let mut free = match of.class {
            Class::Internal => 0,
            class => self.issue[class as usize],
        };
        if of.class == Class::Vector {
            free = free.max(self.vector_free);
        }
        if of.transcendental > 0 {
            free = free.max(self.transcendental_free);
        }
        if of.matrix.is_some() {
            free = free.max(self.matrix_free);
        }
        free
    }

    /// Issue an instruction: the SIMD's units are busy, and the wavefront's registers have what it writes later.
    pub fn issue(&mut self, wave: &mut Wave, of: &Instruction, timing: &Timing, at: u64) {
        if of.class != Class::Internal {
            self.issue[of.class as usize] = at + of.issue;
        }
        let ready = match of.matrix {
            Some(matrix) => {
                self.matrix_free = at + matrix.cycles;
                self.matrix_busy += matrix.cycles;
                let held = if timing.matrix_unit {
                    of.issue
                } else {
                    matrix.cycles
                };
                self.occupy(at, held);
                let result = at + matrix.cycles;
                [result + u64::from(timing.matrix_result), result]
            }
            None if of.class == Class::Vector => {
                let occupies = of.occupies + self.conflicts(of, at);
                self.occupy(at, occupies);
                self.transcendental_free = self.transcendental_free.max(at + of.transcendental);
                [at + of.latency; 2]
            }
            None if of.class == Class::Scalar => [at + of.latency; 2],
            // What is loaded is waited for by counters.
            None => return,
        };
        wave.write(of, ready);
    }

    fn occupy(&mut self, at: u64, cycles: u64) {
        self.vector_free = at + cycles;
        self.vector_busy += cycles;
    }

    /// Cycles for which the next vector instruction waits as operands of this one lie in the same bank.
    fn conflicts(&mut self, of: &Instruction, at: u64) -> u64 {
        let mut last = 0;
        for (free, reads) in self.banks_free.iter_mut().zip(of.banks) {
            if reads > 0 {
                *free = (*free).max(at.saturating_sub(GATHERED_AHEAD)) + u64::from(reads);
                last = last.max(*free);
            }
        }
        last.saturating_sub(at + of.occupies)
    }
}
