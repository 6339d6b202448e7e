//! The GPUs the emulator can be: those of the table in `rocm-gpus`.

pub use rocm_gpus::{Accumulation, Architecture, Family, Gpu as Target};

/// Whether it has what LLVM calls gfx940's instructions: CDNA3 and later.
pub(crate) fn is_gfx940(target: Target) -> bool {
    matches!(
        target.architecture(),
        Architecture::Cdna3 | Architecture::Cdna4
    )
}

/// Whether it has what LLVM calls gfx90a's instructions and one file for all vector registers: CDNA2 and later.
pub(crate) fn is_gfx90a(target: Target) -> bool {
    target.unit().accumulation == Accumulation::Unified
}

/// Whether a load into half a register keeps the other half. Registers with ECC are written whole, and LLVM lets such
/// loads be where a GPU may have that (`d16PreservesUnusedBits`).
pub(crate) fn d16_loads_keep_half(target: Target) -> bool {
    !target.facts().qualifiers.contains("sramecc+")
}

/// Whether memory that all workgroups share can be addressed as the LDS is.
pub(crate) fn has_gds(target: Target) -> bool {
    !is_gfx90a(target)
}
