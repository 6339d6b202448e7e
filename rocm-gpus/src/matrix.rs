//! AMD's published latencies of matrix instructions.

use crate::Architecture;

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

/// AMD's "CDNA4" instruction set manual: as CDNA3, of which it has instructions of twice the depth, but for f64.
const CDNA4: Cycles = &[
    ("f64_16x16x4", 64),
    ("f64_4x4x4", 16),
    ("4x4", 8),
    ("_2b_", 64),
    ("_4b_", 32),
    ("32x32x2_f32", 64),
    ("16x16x4_f32", 32),
    ("32x32", 32),
    ("16x16", 16),
];

/// AMD Matrix Instruction Calculator, for wavefronts of 32: 32 cycles, which are the 512 FLOP that a compute unit of
/// two SIMDs is specified to do in a cycle; integers of 4 bits 16.
const RDNA3: Cycles = &[("iu4", 16), ("wmma", 32)];

/// From AMD's table of operations per cycle and compute unit (GPUOpen, "Using the Matrix Cores of AMD RDNA 4
/// architecture GPUs"): 1,024 in f16 and bf16, 2,048 in 8 bits, 4,096 in 4 bits. Sparse ones take as long as dense ones
/// of half their depth.
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

impl Architecture {
    /// Cycles for which a matrix instruction occupies its SIMD's matrix unit; `None` where `name` (LLVM's) is none that
    /// the architecture has.
    pub fn matrix_cycles(self, name: &str) -> Option<u64> {
        let is_matrix = ["v_mfma_", "v_smfmac_", "v_wmma_", "v_swmmac_"]
            .iter()
            .any(|prefix| name.starts_with(prefix));
        let table = match self {
            Architecture::Vega20 | Architecture::Rdna2 => return None,
            Architecture::Cdna1 | Architecture::Cdna2 => CDNA2,
            Architecture::Cdna3 => CDNA3,
            Architecture::Cdna4 => CDNA4,
            Architecture::Rdna3 | Architecture::Rdna3_5 => RDNA3,
            Architecture::Rdna4 => RDNA4,
        };
        let row = table.iter().find(|(part, _)| name.contains(part));
        row.filter(|_| is_matrix).map(|(_, cycles)| *cycles)
    }
}
