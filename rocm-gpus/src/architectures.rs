//! What all GPUs of an architecture have in common.

/// A family of instruction sets that share their encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// GFX9: CDNA, and Vega 20 before it, which has no accumulation registers.
    Cdna,
    /// GFX10.3.
    Rdna2,
    /// GFX11, and GFX11.5, which has a few instructions more.
    Rdna3,
    /// GFX12.
    Rdna4,
}

/// AMD's name for a generation of GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Architecture {
    /// GCN 5.1: gfx906.
    Vega20,
    /// gfx908.
    Cdna1,
    /// gfx90a.
    Cdna2,
    /// gfx942.
    Cdna3,
    /// gfx950.
    Cdna4,
    /// gfx1030 to gfx1036.
    Rdna2,
    /// gfx1100 to gfx1103.
    Rdna3,
    /// gfx1150 to gfx1153.
    Rdna3_5,
    /// gfx1200 and gfx1201.
    Rdna4,
}

/// Multiply-adds in a cycle of a [`Unit`], by type of the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// IEEE half precision.
    pub f16: u32,
    /// bfloat16.
    pub bf16: u32,
    /// Signed bytes.
    pub i8: u32,
    /// Single precision.
    pub f32: u32,
    /// Double precision.
    pub f64: u32,
}

/// Registers for the sums of matrix instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accumulation {
    /// There are none: sums are in vector registers.
    None,
    /// As many again as there are vector registers, in a file of their own.
    Separate,
    /// Part of the vector registers.
    Unified,
}

/// What multiplies matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatrixUnit {
    /// Dot products of the vector unit.
    Dot,
    /// CDNA's matrix cores.
    Mfma,
    /// RDNA's.
    Wmma,
}

/// What HIP counts as a multiprocessor: a compute unit of GCN and CDNA; a workgroup processor of RDNA, which is two
/// compute units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Compute units in it.
    pub compute_units: u32,
    /// Its SIMDs.
    pub simds: u32,
    /// Work-items of a wavefront as our kernels are compiled.
    pub wavefront: u32,
    /// Wavefronts that a SIMD can hold.
    pub waves_per_simd: u32,
    /// Cycles between two instructions that a wavefront can issue: a SIMD of GFX9 has 16 lanes for its wavefronts of
    /// 64, and each SIMD has its turn every fourth cycle; RDNA issues one a cycle.
    pub issue_cycles: u32,
    /// Registers for sums.
    pub accumulation: Accumulation,
    /// Bytes of LDS.
    pub lds_bytes: u32,
    /// Bytes of LDS that a workgroup can have.
    pub lds_bytes_of_workgroup: u32,
    /// Whether the LDS serves lanes 0 to 3 with 20 to 23, and so on, in reads of 12 and 16 bytes, instead of
    /// neighbours.
    pub lds_pairs_wide_reads: bool,
    /// KiB of the cache that vector memory instructions go through, of each compute unit: L1 of CDNA, L0 of RDNA.
    pub vector_cache_kib: u32,
    /// Bytes of a line of that cache.
    pub line_bytes: u32,
    /// What multiplies matrices.
    pub matrix_unit: MatrixUnit,
    /// Of the matrix units, or dot products where there are none.
    pub matrix: Rates,
    /// Of the vector units, on operands widened to the type of the sums.
    pub vector: Rates,
}

// Sources. Units, SIMDs, LDS and caches: AMD's "GPU specifications" (ROCm documentation, reference), the white papers
// of CDNA, CDNA 2, CDNA 3, CDNA 4 and RDNA, and the instruction set manuals. Wavefronts of a SIMD: LLVM's
// AMDGPUBaseInfo (getMaxWavesPerEU). Lines: the white papers of CDNA 2 (64 bytes), CDNA 3 and RDNA (128). Groups of
// lanes in the LDS: AMD's "Avoiding LDS Bank Conflicts on AMD GPUs Using CK-Tile Framework" (ROCm blogs, 2025) for
// CDNA; measurements on an MI300X, a W7900 and an RX 9070 XT in nod-ai/amd-shark-ai, docs/empirical-lds. Nobody
// published those of the others, which are taken to be as their neighbours. Rates: peaks of AMD's data sheets, divided
// by units, clock and 2.

/// Vega 20's peaks: MI60, 29.5 TFLOPS in f16, 14.7 in f32, 7.4 in f64, 59 TOPS in i8, at 1.8 GHz.
const VEGA20: Unit = Unit {
    compute_units: 1,
    simds: 4,
    wavefront: 64,
    waves_per_simd: 10,
    issue_cycles: 4,
    accumulation: Accumulation::None,
    lds_bytes: 64 << 10,
    lds_bytes_of_workgroup: 64 << 10,
    lds_pairs_wide_reads: true,
    vector_cache_kib: 16,
    line_bytes: 64,
    matrix_unit: MatrixUnit::Dot,
    matrix: Rates {
        f16: 128,
        bf16: 64,
        i8: 256,
        f32: 64,
        f64: 32,
    },
    vector: Rates {
        f16: 64,
        bf16: 64,
        i8: 64,
        f32: 64,
        f64: 32,
    },
};
/// MI100, 184.6 TFLOPS in f16, 92.3 in bf16, 46.1 in f32, 184.6 TOPS in i8; f64 by the vector unit alone.
const CDNA1: Unit = Unit {
    accumulation: Accumulation::Separate,
    matrix_unit: MatrixUnit::Mfma,
    matrix: Rates {
        f16: 512,
        bf16: 256,
        i8: 512,
        f32: 128,
        f64: 32,
    },
    ..VEGA20
};
/// MI250X, 383 TFLOPS in f16 and bf16, 95.7 in f32 and f64, 383 TOPS in i8.
const CDNA2: Unit = Unit {
    waves_per_simd: 8,
    accumulation: Accumulation::Unified,
    matrix: Rates {
        f16: 512,
        bf16: 512,
        i8: 512,
        f32: 128,
        f64: 128,
    },
    vector: Rates {
        f16: 64,
        bf16: 64,
        i8: 64,
        f32: 64,
        f64: 64,
    },
    ..CDNA1
};
/// MI300X, 1,307 TFLOPS in f16 and bf16, 163 in f32 and f64, 2,615 TOPS in i8.
const CDNA3: Unit = Unit {
    vector_cache_kib: 32,
    line_bytes: 128,
    matrix: Rates {
        f16: 1024,
        bf16: 1024,
        i8: 2048,
        f32: 128,
        f64: 128,
    },
    ..CDNA2
};
/// MI355X, 2,517 TFLOPS in f16 and bf16, 157 in f32, 79 in f64, 5,033 TOPS in i8.
const CDNA4: Unit = Unit {
    lds_bytes: 160 << 10,
    lds_bytes_of_workgroup: 160 << 10,
    matrix: Rates {
        f16: 2048,
        bf16: 2048,
        i8: 4096,
        f32: 128,
        f64: 64,
    },
    ..CDNA3
};
const RDNA2: Unit = Unit {
    compute_units: 2,
    simds: 4,
    wavefront: 32,
    waves_per_simd: 16,
    issue_cycles: 1,
    accumulation: Accumulation::None,
    lds_bytes: 128 << 10,
    lds_bytes_of_workgroup: 64 << 10,
    lds_pairs_wide_reads: true,
    vector_cache_kib: 16,
    line_bytes: 128,
    matrix_unit: MatrixUnit::Dot,
    matrix: Rates {
        f16: 256,
        bf16: 128,
        i8: 512,
        f32: 128,
        f64: 8,
    },
    vector: Rates {
        f16: 128,
        bf16: 128,
        i8: 128,
        f32: 128,
        f64: 8,
    },
};
const RDNA3: Unit = Unit {
    vector_cache_kib: 32,
    matrix_unit: MatrixUnit::Wmma,
    matrix: Rates {
        f16: 512,
        bf16: 512,
        i8: 512,
        f32: 128,
        f64: 4,
    },
    vector: Rates {
        f16: 128,
        bf16: 128,
        i8: 128,
        f32: 128,
        f64: 4,
    },
    ..RDNA2
};
/// AMD's table of operations per cycle and compute unit: GPUOpen, "Using the Matrix Cores of AMD RDNA 4 architecture
/// GPUs".
const RDNA4: Unit = Unit {
    lds_pairs_wide_reads: false,
    matrix: Rates {
        f16: 1024,
        bf16: 1024,
        i8: 2048,
        f32: 128,
        f64: 4,
    },
    ..RDNA3
};

impl Architecture {
    /// Every one, oldest first.
    pub const ALL: [Architecture; 9] = [
        Architecture::Vega20,
        Architecture::Cdna1,
        Architecture::Cdna2,
        Architecture::Cdna3,
        Architecture::Cdna4,
        Architecture::Rdna2,
        Architecture::Rdna3,
        Architecture::Rdna3_5,
        Architecture::Rdna4,
    ];

    /// Name, encodings, and what HIP counts as a multiprocessor.
    fn row(self) -> (&'static str, Family, &'static Unit) {
        match self {
            Architecture::Vega20 => ("Vega 20", Family::Cdna, &VEGA20),
            Architecture::Cdna1 => ("CDNA", Family::Cdna, &CDNA1),
            Architecture::Cdna2 => ("CDNA2", Family::Cdna, &CDNA2),
            Architecture::Cdna3 => ("CDNA3", Family::Cdna, &CDNA3),
            Architecture::Cdna4 => ("CDNA4", Family::Cdna, &CDNA4),
            Architecture::Rdna2 => ("RDNA2", Family::Rdna2, &RDNA2),
            Architecture::Rdna3 => ("RDNA3", Family::Rdna3, &RDNA3),
            Architecture::Rdna3_5 => ("RDNA3.5", Family::Rdna3, &RDNA3),
            Architecture::Rdna4 => ("RDNA4", Family::Rdna4, &RDNA4),
        }
    }

    /// As AMD writes it.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// Its instruction encodings.
    pub fn family(self) -> Family {
        self.row().1
    }

    /// What HIP counts as one of its multiprocessors.
    pub fn unit(self) -> &'static Unit {
        self.row().2
    }
}

impl Unit {
    /// Work-items that it holds at most.
    pub fn threads(&self) -> u32 {
        self.simds * self.waves_per_simd * self.wavefront
    }
}
