//! AMD's published latencies: cycles for which a matrix instruction occupies its SIMD's matrix unit, and what any other
//! instruction takes of its wavefront's issue slots.

use rocm_emulator::isa::{Family, Target};

/// (part of the instruction's name, cycles); the first that occurs in a name holds.
type Cycles = &'static [(&'static str, u64)];

/// A pass of the matrix unit takes 4 cycles; AMD's "MI200" instruction set manual has passes, and the AMD Matrix
/// Instruction Calculator cycles: 64, 32 and 8 for every 32x32, 16x16 and 4x4 instruction but those of f64.
const CDNA2: Cycles = &[
    ("f64_16x16x4", 32),
    ("f64_4x4x4", 16),
    ("32x32", 64),
    ("16x16", 32),
    ("4x4", 8),
];

/// AMD's "MI300" instruction set manual, table of passes of the MFMA and SMFMAC instructions: half of CDNA2's but for
/// f32 and for instructions of several blocks.
const CDNA3: Cycles = &[
    ("f64_16x16x4", 32),
    ("f64_4x4x4", 16),
    ("4x4", 8),
    ("_2b_", 64),
    ("_4b_", 32),
    ("32x32x2_f32", 64),
    ("16x16x4_f32", 32),
    ("32x32", 32),
    ("16x16", 16),
];

/// AMD Matrix Instruction Calculator, for wavefronts of 32: 32 cycles, which are the 512 FLOP that a compute unit of two
/// SIMDs is specified to do in a cycle; integers of 4 bits 16.
const RDNA3: Cycles = &[("iu4", 16), ("wmma", 32)];

/// From AMD's table of operations per cycle and compute unit (GPUOpen, "Using the Matrix Cores of AMD RDNA 4
/// architecture GPUs"): 1,024 in f16 and bf16, 2,048 in 8 bits, 4,096 in 4 bits. Sparse ones take as long as dense ones of
/// half their depth.
const RDNA4: Cycles = &[
    ("16x16x64_iu4", 8),
    ("swmmac_i32_16x16x32_iu4", 4),
    ("16x16x32_iu4", 8),
    ("iu4", 4),
    ("iu8", 8),
    ("fp8", 8),
    ("bf8", 8),
    ("wmma", 16),
    ("swmmac", 16),
];

/// Cycles for which a matrix instruction occupies its SIMD's matrix unit; `None` where `name` is none.
pub fn matrix_cycles(target: Target, name: &str) -> Option<u64> {
    let is_matrix = ["v_mfma_", "v_smfmac_", "v_wmma_", "v_swmmac_"]
        .iter()
        .any(|prefix| name.starts_with(prefix));
    let table = match (target.family(), target) {
        (Family::Cdna, Target::Gfx90a) => CDNA2,
        (Family::Cdna, _) => CDNA3,
        (Family::Rdna2, _) => return None,
        (Family::Rdna3, _) => RDNA3,
        (Family::Rdna4, _) => RDNA4,
    };
    let row = table.iter().find(|(part, _)| name.contains(part));
    row.filter(|_| is_matrix).map(|(_, cycles)| *cycles)
}

/// Cycles between two instructions that a wavefront can issue: a SIMD of CDNA has 16 lanes for its wavefronts of 64, and
/// each SIMD has its turn every fourth cycle; RDNA issues one a cycle.
pub fn slot_cycles(target: Target) -> u64 {
    match target.family() {
        Family::Cdna => 4,
        Family::Rdna2 | Family::Rdna3 | Family::Rdna4 => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Operations per cycle and compute unit that AMD publishes, which must follow from the cycles.
    #[test]
    fn peaks_follow_from_the_cycles() {
        // (target, instruction, operations of one, SIMDs of a compute unit, operations per cycle)
        let published = [
            (Target::Gfx90a, "v_mfma_f32_32x32x8bf16_1k", 16384, 4, 1024),
            (Target::Gfx90a, "v_mfma_f32_16x16x16f16", 8192, 4, 1024),
            (Target::Gfx90a, "v_mfma_i32_32x32x8i8", 16384, 4, 1024),
            (Target::Gfx90a, "v_mfma_f32_32x32x2f32", 4096, 4, 256),
            (Target::Gfx90a, "v_mfma_f64_16x16x4f64", 2048, 4, 256),
            (Target::Gfx942, "v_mfma_f32_32x32x8_bf16", 16384, 4, 2048),
            (Target::Gfx942, "v_mfma_f32_16x16x16_f16", 8192, 4, 2048),
            (Target::Gfx942, "v_mfma_i32_32x32x16_i8", 32768, 4, 4096),
            (Target::Gfx942, "v_mfma_f32_32x32x2_f32", 4096, 4, 256),
            (Target::Gfx942, "v_mfma_f32_16x16x4_f32", 2048, 4, 256),
            (Target::Gfx942, "v_mfma_f64_16x16x4_f64", 2048, 4, 256),
            (Target::Gfx1100, "v_wmma_f32_16x16x16_bf16", 8192, 2, 512),
            (Target::Gfx1100, "v_wmma_i32_16x16x16_iu8", 8192, 2, 512),
            (Target::Gfx1201, "v_wmma_f32_16x16x16_f16", 8192, 2, 1024),
            (Target::Gfx1201, "v_wmma_i32_16x16x16_iu8", 8192, 2, 2048),
        ];
        for (target, name, operations, simds, peak) in published {
            let cycles = matrix_cycles(target, name).expect("a matrix instruction");
            assert_eq!(operations * simds / cycles, peak, "{target} {name}");
        }
        assert_eq!(matrix_cycles(Target::Gfx942, "v_fma_f32"), None);
        assert_eq!(matrix_cycles(Target::Gfx1030, "v_dot4_i32_i8"), None);
    }
}
