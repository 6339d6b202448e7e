//! The kernels of the modules `gemm` and `matmul`: their names, tiles and workgroups.

use candle_rocm_kernels::{matmul, skinny, Processor};

pub use candle_rocm_kernels::gemm::Tile;

use super::problem::{GemmDtype, Transpose};

/// A kernel of the modules `gemm` and `matmul`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Tiles of `rows` x `columns` of C by the vector units: `gemm_*`.
    Tile {
        /// The tile.
        tile: Tile,
        /// What op does to A.
        op_a: Transpose,
        /// What op does to B.
        op_b: Transpose,
    },
    /// Tiles by the matrix units: `matmul_*`.
    Matrix {
        /// The tile.
        tile: MatrixTile,
        /// What op does to A.
        op_a: Transpose,
        /// What op does to B.
        op_b: Transpose,
    },
    /// Skinny GEMM: `skinny_*`.
    Skinny(SkinnyKernel),
}

/// A skinny kernel, and how it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkinnyKernel {
    /// What op does to A: `skinny_t_*` has k together, `skinny_n_*` rows.
    pub op_a: Transpose,
    /// What a workgroup makes.
    pub shape: skinny::Shape,
    /// 2^this many of a workgroup's warps divide k.
    pub log2_slice_k: u32,
}

impl SkinnyKernel {
    /// Rows of C that a workgroup makes.
    pub fn rows(&self) -> u32 {
        self.shape.rows_of_workgroup(self.log2_slice_k)
    }

    /// Elements of k that the warps which share rows take together at each step.
    pub fn round(&self) -> u32 {
        self.shape.step << self.log2_slice_k
    }
}

/// The shape of a tile of the matrix units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixTile {
    /// Rows of C.
    pub rows: u32,
    /// Columns of C.
    pub columns: u32,
    /// Work-items of a workgroup.
    pub threads: u32,
    /// Elements of k in a step, of which splits of k are multiples.
    pub depth: u32,
    /// Bytes of LDS that a launch asks for, beside the kernel's own.
    pub dynamic_lds: u32,
    /// Whether its kernels read whole lines of memory, and other work stands behind matrix instructions.
    pub(super) whole_cache_lines: bool,
    /// Steps whose operands are on their way at once.
    pub(super) prefetch: u32,
    /// Whether workgroups reduce the sums of their splits of k.
    pub(super) reduces_in_kernel: bool,
}

impl MatrixTile {
    /// Those that module `matmul` has for this processor and type.
    pub fn all(processor: Processor, dtype: GemmDtype) -> impl Iterator<Item = Self> {
        let of = dtype.of_kernels();
        matmul::TILES
            .into_iter()
            .filter(move |tile| matmul::exists(processor, of, *tile))
            .map(move |tile| Self {
                rows: tile.rows,
                columns: tile.columns,
                threads: matmul::threads(processor, tile),
                depth: of.depth(),
                dynamic_lds: matmul::dynamic_lds(processor, of, tile),
                whole_cache_lines: matmul::reads_whole_cache_lines(processor, of, tile),
                prefetch: matmul::prefetch_depth(processor, of, tile),
                reduces_in_kernel: matmul::reduces_in_kernel(of, tile),
            })
    }
}

impl Kernel {
    /// The kernel's name in its module.
    pub fn name(&self, dtype: GemmDtype) -> String {
        let dtype = dtype.operands().name();
        let tile = |module: &str, rows, columns, op_a: &Transpose, op_b: &Transpose| {
            let ops = [op_a.letter(), op_b.letter()];
            format!("{module}_{dtype}_{rows}x{columns}_{}{}", ops[0], ops[1])
        };
        match self {
            Self::Tile {
                tile: Tile { rows, columns, .. },
                op_a,
                op_b,
            } => tile("gemm", rows, columns, op_a, op_b),
            Self::Matrix {
                tile: MatrixTile { rows, columns, .. },
                op_a,
                op_b,
            } => tile("matmul", rows, columns, op_a, op_b),
            Self::Skinny(SkinnyKernel { op_a, shape, .. }) => {
                let columns = shape.columns;
                format!("skinny_{}_{dtype}_n{columns}", op_a.letter())
            }
        }
    }

    /// The kernel and how it is used.
    pub(super) fn described(&self, dtype: GemmDtype, is_transposed: bool, splits: u32) -> String {
        let transposed = if is_transposed { " transposed" } else { "" };
        let warps = match self {
            Self::Skinny(skinny) => format!(" slice-K {}", 1 << skinny.log2_slice_k),
            _ => String::new(),
        };
        format!("{}{transposed}{warps} splits {splits}", self.name(dtype))
    }

    /// The module that it is in.
    pub fn module(&self) -> &'static candle_rocm_kernels::Module {
        match self {
            Self::Matrix { .. } => &candle_rocm_kernels::MATMUL,
            _ => &candle_rocm_kernels::GEMM,
        }
    }

    /// Work-items of a workgroup.
    pub fn threads(&self) -> u32 {
        match self {
            Self::Tile { tile, .. } => tile.threads,
            Self::Matrix { tile, .. } => tile.threads,
            Self::Skinny(skinny) => skinny.shape.threads(skinny.log2_slice_k),
        }
    }

    /// Bytes of LDS that a launch asks for, beside the kernel's own.
    pub fn dynamic_lds(&self) -> u32 {
        match self {
            Self::Tile { .. } => 0,
            Self::Matrix { tile, .. } => tile.dynamic_lds,
            Self::Skinny(skinny) => skinny.shape.dynamic_lds,
        }
    }

    /// Whether it does what [`Epilogue`](super::epilogue::Epilogue) says. After the others a pass over C does. Unrolled over the 64 sums of a
    /// work-item, three functions would make their code a hundred times larger.
    pub fn does_epilogue(&self) -> bool {
        !matches!(self, Self::Tile { .. })
    }

    /// Rows and columns of C that a workgroup computes.
    pub fn tile(&self) -> (u64, u64) {
        match *self {
            Self::Tile { tile, .. } => (tile.rows.into(), tile.columns.into()),
            Self::Matrix { tile, .. } => (tile.rows.into(), tile.columns.into()),
            Self::Skinny(skinny) => (skinny.rows().into(), skinny.shape.columns.into()),
        }
    }
}
