//! Execution: grids, workgroups, wavefronts, and what each instruction does.
//!
//! [`dispatch`] runs a kernel. A kernel's code is decoded and lowered once into a `program` of operations with
//! resolved operands; workgroups run on a pool of threads, each workgroup's wavefronts in turn on one thread.
//! Vector arithmetic is in [`valu`]; everything that touches memory, LDS, control flow or scalars is here.

mod counters;
mod memory;
mod program;
mod run;
mod scalar;
mod simd;
mod watch;
mod wave;

pub mod valu;

use std::io::Write;

use parking_lot::Mutex;

pub use counters::{Class, Counters};
pub use program::{unload, unsupported};
pub use run::dispatch;
pub use watch::{lds_cycles, line_bytes, InstructionProfile, Profile, COVERAGE_VARIABLE};
pub use wave::{Mode, Row, Wave, LANES};

use crate::codeobject::LoadedKernel;

/// First address of the flat aperture onto LDS; no host address reaches it.
pub const SHARED_APERTURE: u64 = 1 << 48;
/// First address of the flat aperture onto scratch.
pub const PRIVATE_APERTURE: u64 = 2 << 48;
/// Bytes that an aperture spans.
pub const APERTURE_BYTES: u64 = 1 << 32;

/// Most LDS bytes that a workgroup may have on any target the emulator knows.
pub const MAX_LDS: u32 = 64 << 10;
/// Most work-items in a workgroup.
pub const MAX_WORKGROUP: u32 = 1024;

/// A kernel and what it is launched with.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The kernel, in the memory that it is dispatched on.
    pub kernel: &'a LoadedKernel,
    /// Workgroups along x, y and z.
    pub grid: [u32; 3],
    /// Work-items of a workgroup along x, y and z.
    pub block: [u32; 3],
    /// LDS bytes beyond the kernel's own.
    pub dynamic_lds: u32,
    /// The explicit arguments, laid out as the metadata says; dispatch adds the hidden ones.
    pub kernarg: &'a [u8],
}

/// How a launch is run.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Threads to use at most; 0 means all cores.
    pub threads: usize,
    /// Instructions that one wavefront may execute before the launch counts as hung.
    pub max_instructions: u64,
    /// Write down what one wavefront does.
    pub trace: Option<Trace<'a>>,
    /// Count what each instruction does, and add it to this; takes several times as long.
    pub profile: Option<&'a Mutex<Profile>>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            threads: 0,
            max_instructions: 1 << 34,
            trace: None,
            profile: None,
        }
    }
}

/// Which wavefront to trace, and where to.
#[derive(Clone, Copy)]
pub struct Trace<'a> {
    /// Receives one line an instruction: offset, disassembly, registers that changed.
    pub out: &'a Mutex<dyn Write + Send>,
    /// Workgroup coordinates.
    pub workgroup: [u32; 3],
    /// Wavefront within the workgroup.
    pub wave: u32,
}
