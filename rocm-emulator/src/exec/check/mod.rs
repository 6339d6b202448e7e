//! Checks that no hardware has: of what a kernel's instructions do to each other.
//!
//! A [`Checker`] belongs to a thread and looks at each instruction before and after it is executed. What it knows of a
//! wavefront and of a workgroup lies with them, as threads may hand workgroups on.

mod cache;
mod caches;
mod checker;
mod facts;
mod flight;
mod hazards;
mod hierarchy;
mod kinds;
mod known;
mod matrix;
mod order;
mod policy;
mod races;
mod registers;
mod shadow;
mod uninitialised;
mod waits;

pub(crate) use checker::{Checker, GroupChecks, WaveChecks};
pub(crate) use facts::{Counter, Facts, Unit};
pub use kinds::Checks;
pub(crate) use order::Draw;
pub(crate) use registers::{Span, REGISTERS};

use crate::codeobject::LoadedKernel;
use crate::exec::program;

/// Where a wavefront is.
struct Place<'a> {
    pub kernel: &'a LoadedKernel,
    pub pc: u64,
    /// Within the workgroup.
    pub wave: u32,
    /// The workgroup's place in the grid's order.
    pub group: u64,
}

impl Place<'_> {
    /// An instruction of the kernel as text, with its offset.
    pub fn instruction(&self, pc: u64) -> String {
        let offset = pc.wrapping_sub(self.kernel.entry) as i64;
        let sign = if offset < 0 { '-' } else { '+' };
        let text = program::text_at(self.kernel, pc);
        format!("[pc {sign}{:#x}: {text}]", offset.unsigned_abs())
    }
}
