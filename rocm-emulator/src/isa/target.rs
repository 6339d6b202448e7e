//! The GPUs the emulator can be: name, family and the facts that differ between them.

use std::fmt;
use std::str::FromStr;

/// A family of instruction sets that share their encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// GFX9 with accumulation registers: CDNA2 (gfx90a) and CDNA3 (gfx942).
    Cdna,
    /// GFX10.3 (gfx1030).
    Rdna2,
    /// GFX11 (gfx1100 to gfx1102).
    Rdna3,
    /// GFX12 (gfx1200, gfx1201).
    Rdna4,
}

/// One GPU architecture, by LLVM's name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Target {
    Gfx90a,
    Gfx942,
    Gfx1030,
    Gfx1100,
    Gfx1101,
    Gfx1102,
    Gfx1200,
    Gfx1201,
}

/// The table of targets: (target, LLVM name, family, ELF machine flag `EF_AMDGPU_MACH`, wavefront, marketing name).
const TARGETS: &[(Target, &str, Family, u32, u32, &str)] = &[
    (
        Target::Gfx90a,
        "gfx90a",
        Family::Cdna,
        0x3f,
        64,
        "AMD Instinct MI250X (emulated)",
    ),
    (
        Target::Gfx942,
        "gfx942",
        Family::Cdna,
        0x4c,
        64,
        "AMD Instinct MI300X (emulated)",
    ),
    (
        Target::Gfx1030,
        "gfx1030",
        Family::Rdna2,
        0x36,
        32,
        "AMD Radeon RX 6900 XT (emulated)",
    ),
    (
        Target::Gfx1100,
        "gfx1100",
        Family::Rdna3,
        0x41,
        32,
        "AMD Radeon RX 7900 XTX (emulated)",
    ),
    (
        Target::Gfx1101,
        "gfx1101",
        Family::Rdna3,
        0x46,
        32,
        "AMD Radeon RX 7800 XT (emulated)",
    ),
    (
        Target::Gfx1102,
        "gfx1102",
        Family::Rdna3,
        0x47,
        32,
        "AMD Radeon RX 7600 (emulated)",
    ),
    (
        Target::Gfx1200,
        "gfx1200",
        Family::Rdna4,
        0x48,
        32,
        "AMD Radeon RX 9060 XT (emulated)",
    ),
    (
        Target::Gfx1201,
        "gfx1201",
        Family::Rdna4,
        0x4e,
        32,
        "AMD Radeon RX 9070 XT (emulated)",
    ),
];

impl Target {
    fn row(self) -> &'static (Target, &'static str, Family, u32, u32, &'static str) {
        &TARGETS[self as usize]
    }

    /// Every target, in the order of the table.
    pub fn all() -> impl Iterator<Item = Target> {
        TARGETS.iter().map(|row| row.0)
    }

    /// LLVM's processor name, such as `gfx1100`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The instruction-set family.
    pub fn family(self) -> Family {
        self.row().2
    }

    /// `EF_AMDGPU_MACH` in the ELF header's flags.
    pub fn elf_machine(self) -> u32 {
        self.row().3
    }

    /// Lanes in a wavefront as our kernels are compiled: 64 on CDNA, 32 on RDNA.
    pub fn wavefront_size(self) -> u32 {
        self.row().4
    }

    /// The product name reported by `hipGetDeviceProperties`.
    pub fn marketing_name(self) -> &'static str {
        self.row().5
    }

    /// The target of an ELF header's `e_flags`, if the emulator knows it.
    pub fn from_elf_flags(flags: u32) -> Option<Target> {
        TARGETS
            .iter()
            .find(|row| row.3 == flags & 0xff)
            .map(|row| row.0)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is not the emulator's.
#[derive(Debug, thiserror::Error)]
#[error("unknown architecture {0:?}; the emulator knows {known}", known = TARGETS.iter().map(|row| row.1).collect::<Vec<_>>().join(", "))]
pub struct UnknownTarget(String);

impl FromStr for Target {
    type Err = UnknownTarget;

    fn from_str(name: &str) -> Result<Self, UnknownTarget> {
        let base = name.split(':').next().unwrap_or(name);
        TARGETS
            .iter()
            .find(|row| row.1 == base)
            .map(|row| row.0)
            .ok_or_else(|| UnknownTarget(name.to_string()))
    }
}
