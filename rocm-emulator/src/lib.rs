//! An AMD GPU in software.
//!
//! The crate loads HSACO code objects, the very bytes that ship, and executes their instructions on
//! the CPU. It is functional, not cycle-accurate. From the bottom up:
//!
//! - [`isa`]: instruction words of each GFX family to [`isa::Inst`] and back to assembly text;
//! - [`codeobject`]: ELF, AMDGPU metadata, kernel descriptors, clang's offload bundles;
//! - [`memory`]: the device's address space and the check of every access against live allocations;
//! - [`exec`]: wavefronts, workgroups and grids, and what each instruction does;
//! - [`fault`]: what ends a launch, in one message;
//! - [`hip`]: the HIP runtime API over all of this, also exported as a `libamdhip64.so`.

pub mod codeobject;
pub mod exec;
pub mod fault;
pub mod hip;
pub mod isa;
pub mod memory;
