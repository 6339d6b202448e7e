//! Targets whose code runs on several GPUs.

use std::fmt;

/// Bits of `e_flags` with `EF_AMDGPU_MACH`.
pub(crate) const ELF_MACHINE: u32 = 0xff;

/// A target whose code runs on several GPUs. Sources: LLVM 20's AMDGPUUsage, "AMDGPU Generic Processors".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Generic {
    Gfx9,
    Gfx9_4,
    Gfx10_3,
    Gfx11,
    Gfx12,
}

impl Generic {
    /// Every one.
    pub const ALL: [Generic; 5] = [
        Generic::Gfx9,
        Generic::Gfx9_4,
        Generic::Gfx10_3,
        Generic::Gfx11,
        Generic::Gfx12,
    ];

    /// The name, and `EF_AMDGPU_MACH`.
    fn row(self) -> (&'static str, u32) {
        match self {
            Generic::Gfx9 => ("gfx9-generic", 0x51),
            Generic::Gfx9_4 => ("gfx9-4-generic", 0x5f),
            Generic::Gfx10_3 => ("gfx10-3-generic", 0x53),
            Generic::Gfx11 => ("gfx11-generic", 0x54),
            Generic::Gfx12 => ("gfx12-generic", 0x59),
        }
    }

    /// LLVM's name, such as `gfx11-generic`.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// `EF_AMDGPU_MACH` in the ELF header's flags.
    pub fn elf_machine(self) -> u32 {
        self.row().1
    }

    /// The target that an ELF header's `e_flags` name, if it is generic.
    pub fn from_elf_flags(flags: u32) -> Option<Generic> {
        let machine = flags & ELF_MACHINE;
        Generic::ALL
            .into_iter()
            .find(|generic| generic.elf_machine() == machine)
    }
}

impl fmt::Display for Generic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
