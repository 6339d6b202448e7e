//! What the kernels of [`GEMM`](crate::GEMM) for any product are: `gemm_<dtype>_<rows>x<columns>_<ops>`, with operations as
//! those of [`MATMUL`](crate::MATMUL) have them. The list is that of `kernels/matmul/gemm_kernels.cuh`, the same for all
//! architectures; [`skinny`](crate::skinny) has those for few columns.

/// The part of C that a workgroup makes by vector units, of f16, bf16 and f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Rows of C.
    pub rows: u32,
    /// Columns of C.
    pub columns: u32,
    /// Work-items of a workgroup.
    pub threads: u32,
    /// Whether it exists for f64.
    pub f64: bool,
}

include!(concat!(env!("OUT_DIR"), "/gemm_tiles.rs"));
