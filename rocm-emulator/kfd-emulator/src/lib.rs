//! rocm-emulator under AMD's own HIP and ROCr: the amdgpu driver's commands, answered in the process.
//!
//! The library is loaded before a program's others (`LD_PRELOAD`). AMD's runtime then opens `/dev/kfd`, reads the
//! kernel's topology, allocates memory, makes queues and writes packets into them, as it does on a machine with GPUs; the
//! kernels that the packets name run on the emulated GPUs that `ROCM_EMU_ARCH` names.
//!
//! From the bottom up:
//!
//! - `abi`: the driver's structures; `file`: the file in memory that stands for its devices; `clock`; `ending`;
//! - `host_ranges`, `counts`, `gpu`: what kernels reach, counting what they execute, and launching them;
//! - `topology`, `events`, `buffers`, `queue`: what commands are about;
//! - `driver`: the commands; `render`: what AMD's runtime asks of libdrm;
//! - `interpose`: the functions that programs call in place of the C library's and libdrm's.

// Who calls most of it, `interpose`, is not in test programs.
#![cfg_attr(test, allow(dead_code))]

mod abi;
mod buffers;
mod clock;
mod counts;
mod driver;
mod ending;
mod events;
mod file;
mod gpu;
mod host_ranges;
// Test programs keep the C library's own functions.
#[cfg(not(test))]
mod interpose;
mod queue;
mod render;
mod topology;
