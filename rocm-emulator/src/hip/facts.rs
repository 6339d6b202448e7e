//! What the emulated products report about themselves, from AMD's data sheets and ISA manuals.

use crate::isa::{Family, Target};

/// Numbers that differ between the products.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Compute units; on RDNA HIP counts workgroup processors, two compute units each.
    pub multiprocessors: u32,
    /// Engine clock in kHz.
    pub clock_khz: u32,
    /// Memory clock in kHz.
    pub memory_clock_khz: u32,
    /// Memory bus width in bits.
    pub memory_bus_bits: u32,
    /// Bytes of L2 cache.
    pub l2_bytes: u32,
    /// PCI device id.
    pub pci_chip: u32,
}

/// LDS bytes that one workgroup can have.
pub const LDS_PER_BLOCK: u32 = 64 << 10;
/// Work-items in the largest workgroup.
pub const MAX_THREADS_PER_BLOCK: u32 = 1024;
/// Largest grid: work-items along a dimension are a 32-bit number.
pub const MAX_GRID: [i32; 3] = [i32::MAX, 65535, 65535];

/// The facts of a target.
pub fn of(target: Target) -> Facts {
    let (multiprocessors, clock, memory_clock, bus, l2_mib, pci_chip) = match target {
        Target::Gfx90a => (110, 1_700, 1_600, 4096, 8, 0x7408),
        Target::Gfx942 => (304, 2_100, 1_300, 8192, 4, 0x74a1),
        Target::Gfx1030 => (40, 2_250, 1_000, 256, 4, 0x73bf),
        Target::Gfx1100 => (48, 2_500, 1_250, 384, 6, 0x744c),
        Target::Gfx1101 => (30, 2_430, 1_219, 256, 4, 0x747e),
        Target::Gfx1102 => (16, 2_655, 1_125, 128, 2, 0x7480),
        Target::Gfx1200 => (16, 3_130, 1_258, 128, 4, 0x7590),
        Target::Gfx1201 => (32, 2_970, 1_258, 256, 8, 0x7550),
    };
    Facts {
        multiprocessors,
        clock_khz: clock * 1000,
        memory_clock_khz: memory_clock * 1000,
        memory_bus_bits: bus,
        l2_bytes: l2_mib << 20,
        pci_chip,
    }
}

/// `major` and `minor`: the digits of the processor's name, as HIP gives them.
pub fn version(target: Target) -> (i32, i32) {
    match target.family() {
        Family::Cdna if target == Target::Gfx942 => (9, 4),
        Family::Cdna => (9, 0),
        Family::Rdna2 => (10, 3),
        Family::Rdna3 => (11, 0),
        Family::Rdna4 => (12, 0),
    }
}

/// `gcnArchName`: the processor with its feature qualifiers.
pub fn arch_name(target: Target) -> String {
    match target.family() {
        Family::Cdna => format!("{target}:sramecc+:xnack-"),
        _ => target.name().to_string(),
    }
}

/// Vector registers (32-bit, per lane) of one SIMD, and SIMDs in what HIP counts as a multiprocessor.
pub fn register_file(target: Target) -> (u32, u32) {
    match target.family() {
        Family::Cdna => (512, 4),
        Family::Rdna2 => (1024, 4),
        Family::Rdna3 if target == Target::Gfx1102 => (1024, 4),
        Family::Rdna3 | Family::Rdna4 => (1536, 4),
    }
}

/// Work-items that a multiprocessor can hold: waves per SIMD times SIMDs times lanes.
pub fn threads_per_multiprocessor(target: Target) -> u32 {
    let waves_per_simd = if target.family() == Family::Cdna {
        8
    } else {
        16
    };
    waves_per_simd * register_file(target).1 * target.wavefront_size()
}
