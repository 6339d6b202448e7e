//! A program's code objects as text: what stands where build scripts embed PTX. The format is `rocm-toolchain`'s, whose
//! reader programs have without this crate.

pub use rocm_toolchain::text::{decode, is_encoded, Decoded};

use crate::program::Program;

/// The text of a program.
pub fn encode(program: &Program) -> String {
    let objects = program.objects.iter();
    let objects = objects.map(|object| (object.arch.as_str(), object.frame.as_slice()));
    rocm_toolchain::text::encode(&program.name, objects)
}
