//! From a program's bytes to a code object.

use super::error::CodeObjectError;
use super::object::CodeObject;
use super::{bundle, elf};
use crate::isa::Target;

impl CodeObject {
    /// Read an ELF code object for whichever GPU it is.
    ///
    /// # Errors
    /// Names what is wrong: not ELF, not AMDGPU, an unknown processor, truncation, a missing symbol.
    pub fn parse(bytes: &[u8]) -> Result<CodeObject, CodeObjectError> {
        elf::parse(bytes, None)
    }

    /// Read the code object for `target` out of an ELF file or an offload bundle.
    ///
    /// # Errors
    /// As [`CodeObject::parse`], and when the object or every bundle entry is for another GPU.
    pub fn parse_for(bytes: &[u8], target: Target) -> Result<CodeObject, CodeObjectError> {
        elf::parse(&bundle::select(bytes, target)?, Some(target))
    }
}
