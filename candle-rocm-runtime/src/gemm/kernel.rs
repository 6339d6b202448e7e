//! The kernels of the modules `gemm` and `matmul`: their names, tiles and workgroups.

use candle_rocm_kernels::matmul;

use super::problem::{GemmDtype, Transpose};

/// Work-items of a workgroup of the kernels for few columns (`GEMV_*_THREADS` in kernels/matmul/gemm_vector.cuh).
const VECTOR_THREADS: u32 = 128;

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
    /// Few columns, A's k together: `gemv_t_*`.
    VectorT {
        /// Columns, a power of two of at most 16.
        columns: u32,
        /// Lanes that share a row: 8, or 32 for long rows.
        width: u32,
    },
    /// Few columns, A's rows together: `gemv_n_*`.
    VectorN {
        /// Columns, a power of two of at most 16.
        columns: u32,
    },
}

/// The shape of a tile of the vector units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Rows of C.
    pub rows: u32,
    /// Columns of C.
    pub columns: u32,
    /// Work-items of a workgroup.
    pub threads: u32,
    /// Whether it exists for f64.
    pub(super) f64: bool,
}

/// The tiles that kernels/matmul/gemm.cu instantiates.
pub const TILES: [Tile; 3] = [
    Tile {
        rows: 128,
        columns: 128,
        threads: 256,
        f64: false,
    },
    Tile {
        rows: 64,
        columns: 64,
        threads: 256,
        f64: true,
    },
    Tile {
        rows: 32,
        columns: 32,
        threads: 64,
        f64: true,
    },
];

/// The shape of a tile of the matrix units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixTile {
    /// Rows of C.
    pub rows: u32,
    /// Columns of C.
    pub columns: u32,
    /// Work-items of a workgroup.
    pub threads: u32,
    /// Elements of k in a step, of which parts of k are multiples.
    pub depth: u32,
}

impl MatrixTile {
    /// Those that module `matmul` has for this architecture and type.
    pub fn all(arch: &str, dtype: GemmDtype) -> impl Iterator<Item = Self> + '_ {
        let of = match dtype {
            GemmDtype::F16 => matmul::Dtype::F16,
            GemmDtype::BF16 => matmul::Dtype::BF16,
            GemmDtype::F32 => matmul::Dtype::F32,
            GemmDtype::F64 => matmul::Dtype::F64,
            GemmDtype::I8 => matmul::Dtype::I8,
        };
        matmul::TILES
            .into_iter()
            .filter(move |tile| matmul::exists(arch, of, *tile))
            .map(move |tile| Self {
                rows: tile.rows,
                columns: tile.columns,
                threads: matmul::threads(arch, tile),
                depth: of.depth(),
            })
    }
}

impl Kernel {
    /// The kernel's name in its module.
    pub fn name(&self, dtype: GemmDtype) -> String {
        let dtype = dtype.name();
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
            Self::VectorT { columns, width } => format!("gemv_t_{dtype}_w{width}_c{columns}"),
            Self::VectorN { columns } => format!("gemv_n_{dtype}_c{columns}"),
        }
    }

    /// The kernel and how it is used.
    pub(super) fn described(&self, dtype: GemmDtype, is_transposed: bool, parts: u32) -> String {
        let turned = if is_transposed { " turned" } else { "" };
        format!("{}{turned} parts {parts}", self.name(dtype))
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
            Self::VectorT { .. } | Self::VectorN { .. } => VECTOR_THREADS,
        }
    }

    /// Whether it does what [`Epilogue`](super::epilogue::Epilogue) says. After the others a pass over C does. Unrolled over the 64 sums of a
    /// work-item, three functions would make their code a hundred times larger.
    pub fn does_epilogue(&self) -> bool {
        !matches!(self, Self::Tile { .. })
    }

    /// Rows and columns of C that a workgroup computes.
    pub fn tile(&self, dtype: GemmDtype) -> (u64, u64) {
        match *self {
            Self::Tile { tile, .. } => (tile.rows.into(), tile.columns.into()),
            Self::Matrix { tile, .. } => (tile.rows.into(), tile.columns.into()),
            Self::VectorT { columns, width } => {
                let rows_of_a_group = if columns <= 2 { 4 } else { 2 };
                (
                    u64::from(VECTOR_THREADS / width * rows_of_a_group),
                    columns.into(),
                )
            }
            Self::VectorN { columns } => (8 * (16 / dtype.bytes() as u64), columns.into()),
        }
    }
}
