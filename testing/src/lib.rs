//! What the tests of candle-rocm's crates share.
//!
//! - [`random`]: numbers that look random and are the same everywhere.
//! - [`numbers`]: whether numbers are those expected.
//! - [`activations`]: what they are by definition.
//! - [`needs`]: what a test cannot run without.
//! - [`process`]: a test in a process of its own, and how that ended.
//! - [`sources`]: the files of the repository.
//! - [`stand_in`]: the emulator's `libamdhip64.so`.
//! - [`layers`]: the order in which a crate's files may import one another.
//! - [`toolchain`], [`hip`], [`llvm`]: the compiler for GPUs, HIP sources compiled with it, LLVM's tools.
//! - `no_gpu`: HIP in which nothing happens, and what the host takes above it.
//! - [`gpu`], [`listing`]: kernels on the emulator alone; its disassembly beside LLVM's.

pub mod needs;
pub mod numbers;
pub mod process;
pub mod random;
pub mod sources;
pub mod stand_in;

#[cfg(feature = "activations")]
pub mod activations;

#[cfg(feature = "layers")]
pub mod layers;

#[cfg(feature = "no-gpu")]
pub mod no_gpu;

#[cfg(feature = "tools")]
pub mod hip;
#[cfg(feature = "tools")]
pub mod llvm;
#[cfg(feature = "tools")]
pub use rocm_toolchain::toolchain;

#[cfg(feature = "emulator")]
pub mod gpu;
#[cfg(feature = "emulator")]
pub mod listing;
