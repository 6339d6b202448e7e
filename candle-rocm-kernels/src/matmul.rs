//! What the kernels of [`MATMUL`](crate::MATMUL) are: their tiles, workgroups, slices, and which of them an architecture
//! has. The host chooses among them by this table.
//!
//! A kernel's name is `matmul_<dtype>_<rows>x<columns>_<ops>`, with `nn`, `nt`, `tn` or `tt` for op(A) and op(B), `n` as
//! stored column-major; `matmul_sum_<dtype>` adds up the parts of k.

use rocm_gpus::{Architecture, MatrixUnit};

use crate::processor::Processor;

/// Element types of A and B; C has the same, but for `I8`, whose C is i32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// IEEE half precision, summed in f32.
    F16,
    /// bfloat16, summed in f32.
    BF16,
    /// Signed bytes, summed in i32, which wraps.
    I8,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
}

impl Dtype {
    /// All of them.
    pub const ALL: [Dtype; 5] = [Dtype::F16, Dtype::BF16, Dtype::I8, Dtype::F32, Dtype::F64];

    /// As kernels' names spell it.
    pub fn name(self) -> &'static str {
        match self {
            Dtype::F16 => "f16",
            Dtype::BF16 => "bf16",
            Dtype::I8 => "i8",
            Dtype::F32 => "f32",
            Dtype::F64 => "f64",
        }
    }

    /// Bytes of an element of A and B.
    pub fn bytes(self) -> u32 {
        match self {
            Dtype::I8 => 1,
            Dtype::F16 | Dtype::BF16 => 2,
            Dtype::F32 => 4,
            Dtype::F64 => 8,
        }
    }

    /// Elements of k by which kernels proceed: where a product is summed in parts, a part is a multiple of them.
    pub fn depth(self) -> u32 {
        128 / self.bytes()
    }
}

/// The part of C that a workgroup makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Rows of C.
    pub rows: u32,
    /// Columns of C.
    pub columns: u32,
}

/// Every tile, largest first.
pub const TILES: [Tile; 6] = [
    Tile {
        rows: 256,
        columns: 256,
    },
    Tile {
        rows: 224,
        columns: 256,
    },
    Tile {
        rows: 256,
        columns: 128,
    },
    Tile {
        rows: 128,
        columns: 128,
    },
    Tile {
        rows: 64,
        columns: 64,
    },
    Tile {
        rows: 128,
        columns: 32,
    },
];

/// Whether products are dot products of wavefronts of 64 lanes (Vega 20), whose workgroups hold twice the registers.
fn is_wide_dot(architecture: Architecture) -> bool {
    let unit = architecture.unit();
    unit.matrix_unit == MatrixUnit::Dot && unit.wavefront == 64
}

/// Whether the largest tiles of `dtype` read whole lines of memory (kernels/matmul/matmul_lines.cuh): where sums may be in
/// any of the registers, and both operands' lines fit the LDS.
fn has_whole_lines(architecture: Architecture, dtype: Dtype) -> bool {
    let types = [Dtype::F16, Dtype::BF16, Dtype::F32];
    let unit = architecture.unit().matrix_unit;
    unit == MatrixUnit::Mfma && architecture != Architecture::Cdna1 && types.contains(&dtype)
}

/// Whether the kernels of `dtype` with `tile` on a processor read whole lines of memory, in an order that has something to
/// multiply behind everything else.
pub fn reads_whole_lines(processor: Processor, dtype: Dtype, tile: Tile) -> bool {
    let architecture = processor.architecture();
    let has = architecture.is_some_and(|of| has_whole_lines(of, dtype));
    has && tile.rows >= 128 && tile.columns >= 128
}

/// Panels of 128 bytes of k that a workgroup of the kernels of `dtype` with `tile` has on their way at once, where sums leave
/// registers for two (`AHEAD` in kernels/matmul/matmul_lines.cuh).
pub fn panels_ahead(processor: Processor, dtype: Dtype, tile: Tile) -> u32 {
    let few_sums = tile.rows * tile.columns <= 128 * 128;
    1 + u32::from(few_sums && reads_whole_lines(processor, dtype, tile))
}

/// Threads of a workgroup of the tile's kernels.
pub fn threads(processor: Processor, tile: Tile) -> u32 {
    if processor.multiprocessor().is_some() {
        // A warp makes at most 64 x 64 sums.
        return (tile.rows * tile.columns / (64 * 64)).max(4) * 32;
    }
    let architecture = processor.architecture();
    let sums = tile.rows * tile.columns;
    let waves = match sums >= 128 * 128 {
        true if architecture.is_some_and(is_wide_dot) => 8,
        true if tile.columns == 256 => 8,
        // Vector registers that cannot stand in for accumulation registers have no room for four wavefronts' operands.
        true if architecture == Some(Architecture::Cdna1) && sums > 128 * 128 => 8,
        true => return 256,
        false => 4,
    };
    waves * architecture.map_or(32, |architecture| architecture.unit().wavefront)
}

/// Whether a processor has the kernels of `dtype` with `tile`, for all four pairs of
/// operations.
///
/// The tiles of 256 columns, and not the one of 256 x 128, are of types whose large tiles read whole lines; that of 224
/// rows of those with 16 bits.
/// f32 and f64 have matrix instructions on CDNA alone (f64 since CDNA2); elsewhere [`GEMM`](crate::GEMM) multiplies them.
/// Tiles of more than 128 x 128 have sums that in f64 would be all of a wavefront's registers, and too many of Vega 20's
/// in every type.
/// NVIDIA's GPUs have those whose type they have instructions for, with tiles whose slices their LDS holds.
pub fn exists(processor: Processor, dtype: Dtype, tile: Tile) -> bool {
    if let Some(unit) = processor.multiprocessor() {
        let has = match dtype {
            Dtype::F16 | Dtype::BF16 => {
                dynamic_lds(processor, dtype, tile) <= unit.lds_bytes_of_workgroup
            }
            Dtype::I8 => true,
            Dtype::F32 => false,
            Dtype::F64 => unit.matrix.f64 > 0 && tile.rows == tile.columns && tile.rows == 64,
        };
        return has && TILES.contains(&tile) && tile.columns <= 128;
    }
    let architecture = processor.architecture();
    let Some(architecture) = architecture.filter(|_| TILES.contains(&tile)) else {
        return false;
    };
    let mfma = architecture.unit().matrix_unit == MatrixUnit::Mfma;
    let large = tile.rows * tile.columns > 128 * 128;
    if large && (tile.columns > 128) != has_whole_lines(architecture, dtype) {
        return false;
    }
    if tile.rows == 224 && dtype.bytes() != 2 {
        return false;
    }
    match dtype {
        Dtype::F16 | Dtype::BF16 | Dtype::I8 => !large || !is_wide_dot(architecture),
        Dtype::F32 => mfma,
        Dtype::F64 => mfma && !large && architecture != Architecture::Cdna1,
    }
}

/// Bytes of LDS that a launch has to ask for, beside what the kernel has of its own: on NVIDIA's GPUs, where operands of
/// 16 bits are copied straight to LDS, that of the slices which are there or on their way (`Direct*` in
/// kernels/matmul/matmul.cu).
pub fn dynamic_lds(processor: Processor, dtype: Dtype, tile: Tile) -> u32 {
    if processor.multiprocessor().is_none() || dtype.bytes() != 2 {
        return 0;
    }
    let slices = if tile.rows * tile.columns >= 128 * 128 {
        3
    } else {
        4
    };
    slices * (tile.rows + tile.columns) * dtype.depth() * dtype.bytes()
}

/// What becomes of the sums of parts of k (kernels/matmul/matmul_problem.cuh).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SumsOfParts {
    /// Another launch adds them up.
    AddedUp = 0,
    /// The last part's workgroups wait for the others'.
    HandedOver = 1,
    /// As the first; and the grid's x counts parts, its y tiles, so that each second-level cache gets whole parts.
    OfChiplets = 2,
}

/// Whether workgroups that have parts of k hand their sums over to the last part's, within the launch (`HANDS_OVER` in
/// kernels/matmul/matmul_wave.cuh): if these are f32. Of larger tiles few workgroups would read all parts' sums.
pub fn hands_over(dtype: Dtype, tile: Tile) -> bool {
    let sums_are_f32 = !matches!(dtype, Dtype::I8 | Dtype::F64);
    sums_are_f32 && tile.rows * tile.columns <= 128 * 128
}

/// The name of a kernel; `transposed` is of A and of B.
pub fn kernel_name(dtype: Dtype, tile: Tile, transposed: [bool; 2]) -> String {
    let [a, b] = transposed.map(|transposed| if transposed { 't' } else { 'n' });
    format!(
        "matmul_{}_{}x{}_{a}{b}",
        dtype.name(),
        tile.rows,
        tile.columns
    )
}
