//! What is watched while a kernel runs: counts by instruction, traces, which kernels ran.

mod banks;
pub(crate) mod coverage;
mod lines;
mod recorder;
mod trace;

pub use banks::lds_cycles;
pub use coverage::COVERAGE_VARIABLE;
pub use lines::line_bytes;
pub(crate) use recorder::{Footprint, Recorder};
pub use recorder::{InstructionProfile, Profile};
pub(crate) use trace::Tracer;
