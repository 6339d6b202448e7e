//! What can be wrong with a code object.

use crate::isa::Target;

/// Why a code object cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeObjectError {
    /// Neither an ELF file nor an offload bundle.
    #[error("not a code object: expected an ELF file or a clang offload bundle, found bytes {0}")]
    NotElf(String),
    /// An ELF file for something else, such as a host executable.
    #[error("not an AMDGPU code object: {0}")]
    NotAmdgpu(String),
    /// A processor that the emulator does not have.
    #[error("code object for an AMDGPU processor unknown to the emulator (e_flags {0:#x})")]
    UnknownProcessor(u32),
    /// A generic target in a code object that cannot be for one.
    #[error(
        "code object of version {version} for {generic}, version {generic_version}: generic targets need code object \
         version 6 and a version of their own from 1 on"
    )]
    GenericVersion {
        /// The generic target.
        generic: &'static str,
        /// The code object's version.
        version: u32,
        /// The generic target's, from the header's flags.
        generic_version: u32,
    },
    /// Compiled for another processor than the device's.
    #[error("code object is for {found}, the device is {expected}; compile it with --offload-arch={expected}")]
    WrongTarget {
        /// The device's target.
        expected: Target,
        /// What the code object was compiled for.
        found: String,
    },
    /// A bundle without an entry for the device.
    #[error("offload bundle has no entry for {expected}; it holds: {entries}")]
    NotInBundle {
        /// The device's target.
        expected: Target,
        /// The bundle's entries, separated by commas.
        entries: String,
    },
    /// A bundle whose compression the emulator cannot undo.
    #[error("compressed offload bundle: {0}")]
    Compression(String),
    /// The bytes end too early.
    #[error("truncated code object: {what} needs {need} bytes, {have} are there")]
    Truncated {
        /// What was being read.
        what: String,
        /// Bytes it needs.
        need: u64,
        /// Bytes there are.
        have: u64,
    },
    /// A field that makes no sense.
    #[error("malformed code object: {0}")]
    Malformed(String),
    /// No AMDGPU metadata note.
    #[error("code object has no AMDGPU metadata note (NT_AMDGPU_METADATA); code object versions before 3 are not supported")]
    NoMetadata,
    /// A symbol that the metadata or a relocation names and the symbol table lacks.
    #[error("code object has no symbol {0:?}")]
    MissingSymbol(String),
    /// A relocation that the loader cannot apply.
    #[error("relocation {kind} at {offset:#x}: {reason}")]
    Relocation {
        /// Name of the relocation type.
        kind: String,
        /// Virtual address that it patches.
        offset: u64,
        /// Why not.
        reason: String,
    },
    /// The device's memory refused.
    #[error("loading the code object: {0}")]
    Memory(String),
}
