//! The HIP runtime API over the emulator.
//!
//! [`abi`] has HIP's C functions. Devices are what `ROCM_EMU_ARCH` lists (default `gfx1100`), each with
//! the bytes of `ROCM_EMU_MEMORY` (default 16 GiB, taken from the host as they are touched), but for those that
//! `ROCR_VISIBLE_DEVICES`, `HIP_VISIBLE_DEVICES` or `CUDA_VISIBLE_DEVICES` hide. `HSA_OVERRIDE_GFX_VERSION` makes them
//! pass for another processor.
//!
//! Work runs when it is enqueued, on the calling thread, before the function returns, but with the check of order, where
//! it runs later; streams and events keep
//! HIP's rules of order between threads and of capture. A launch that faults returns the error itself
//! (`hipErrorIllegalAddress`, `hipErrorLaunchFailure`, ...), prints one line to standard error, and the device
//! gives that error from every later call that needs it, as HIP does, until `hipDeviceReset` frees what the device
//! holds. Frees still work in between. `rocmEmuGetLastFault` gives the text.

pub mod abi;
mod allocate;
mod capture;
mod copy;
mod error;
mod event;
mod facts;
mod graph;
mod graph_faults;
mod handles;
mod host;
mod host_memory;
mod late;
mod launch;
mod module;
mod operation;
mod profile;
mod registry;
mod reset;
mod settings;
mod state;
mod stream;
mod visible;

pub use error::{Code, HipError};
pub use launch::{statistics, KernelStatistics};
pub use profile::{profiled, timed, KernelProfile, KernelTime};
pub use settings::{
    GraphFault, GraphFaultKind, Settings, ARCH_VARIABLE, CHECK_VARIABLE, GRAPH_FAULT_VARIABLE,
    HIP_VERSION_VARIABLE, INSTRUCTIONS_VARIABLE, MEMORY_VARIABLE, PEERS_VARIABLE,
    READ_PAST_END_VARIABLE, SEED_VARIABLE, THREADS_VARIABLE,
};
pub use state::{cards, Card};

/// Compute units of an emulated GPU, as its properties have them; on RDNA workgroup processors.
pub fn compute_units(target: crate::isa::Target) -> u32 {
    target.multiprocessors()
}

/// The account of what ended the calling thread's last failed HIP call, else of the current device's pending
/// fault: the text behind `rocmEmuGetLastFault`.
pub fn last_fault() -> Option<String> {
    // SAFETY: takes no pointers.
    let text = unsafe { abi::rocmEmuGetLastFault() };
    if text.is_null() {
        return None;
    }
    // SAFETY: not null, hence a string that this thread keeps until its next failed call.
    let text = unsafe { std::ffi::CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}
