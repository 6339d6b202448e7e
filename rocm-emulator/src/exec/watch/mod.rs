//! What is watched while a kernel runs: counts by instruction, traces, which kernels ran, what checks found.

mod banks;
pub(crate) mod coverage;
pub(crate) mod findings;
mod lines;
mod notes;
mod profile;
mod recorder;
mod trace;

pub(crate) use banks::cycles as lds_service;
pub use banks::lds_cycles;
pub use coverage::COVERAGE_VARIABLE;
pub use findings::FINDINGS_VARIABLE;
pub use lines::line_bytes;
pub use profile::{InstructionProfile, Profile};
pub(crate) use recorder::Recorder;
pub use trace::Trace;
pub(crate) use trace::Tracer;
