//! Execution: grids, workgroups, wavefronts, and what each instruction does.
//!
//! [`dispatch`] runs a kernel. Its rooms, each above those it uses:
//!
//! - `wave`, `counters`, `simd`: a wavefront's registers, what is counted, loops compiled for the CPU that runs;
//! - [`valu`] and `scalar`: vector and scalar arithmetic;
//! - `memory`: instructions that reach memory, LDS and scratch, and the check of every access;
//! - `program`: a kernel's code, decoded and lowered once into operations with resolved operands;
//! - `check`: races, values that nothing wrote, waits that are missing, drawn orders, caches;
//! - `watch`: counts by instruction with models of LDS banks and cache lines, traces, which kernels ran;
//! - `clock`: how long a launch would take on the GPU;
//! - `services`: what the host does for a kernel while it runs, such as `printf`;
//! - `run`: grids on a pool of threads, each workgroup's wavefronts in turn on one thread.

mod check;
mod clock;
mod counters;
mod memory;
mod program;
mod run;
mod scalar;
mod services;
mod simd;
mod watch;
mod wave;

pub mod valu;

pub use check::Checks;
pub(crate) use check::Draw;
pub use clock::{Cycles, LaunchTime, Sampling, Untimed};
pub use counters::{Class, Counters};
pub use program::{unload, unsupported};
pub use run::{
    dispatch, workgroups_per_multiprocessor, DispatchPacket, Launch, Options, MAX_WORKGROUP,
    PACKET_BYTES,
};
pub use services::{Output, PrintStream};
pub use watch::{
    lds_cycles, line_bytes, InstructionProfile, Profile, Trace, COVERAGE_VARIABLE,
    FINDINGS_VARIABLE,
};
pub use wave::{Mode, Row, Wave, APERTURE_BYTES, LANES, PRIVATE_APERTURE, SHARED_APERTURE};
