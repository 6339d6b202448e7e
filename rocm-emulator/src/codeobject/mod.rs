//! Code objects: ELF, AMDGPU metadata, kernel descriptors, clang's offload bundles.
//!
//! [`bundle::select`] finds the ELF file for a device in whatever the program registered,
//! [`CodeObject::parse`] reads it, [`CodeObject::load`] puts it into a device's memory. [`LoadedKernel::placed`] is a kernel
//! that another runtime has put there.

pub mod bundle;
mod descriptor;
mod elf;
mod error;
mod load;
mod metadata;
mod object;
mod placed;
mod read;

pub use descriptor::KernelDescriptor;
pub use error::CodeObjectError;
pub use load::{LoadedCodeObject, LoadedKernel};
pub use metadata::{ArgKind, KernelArg, PrintfFormats};
pub use object::{CodeObject, Global, Kernel, Relocation, RelocationKind, Segment};
pub use placed::{kernel_name, placed_code_object, Placed};
