//! What the kernels of [`GEMM`](crate::GEMM) for any product are: `gemm_<dtype>_<rows>x<columns>_<ops>`, with operations as
//! those of [`MATMUL`](crate::MATMUL) have them. The list is that of `kernels/matmul/gemm_kernels.cuh`;
//! [`skinny`](crate::skinny) has those for few columns.

use crate::by_architecture::Lists;
use crate::matmul::Dtype;
use crate::processor::Processor;

/// The part of C that a workgroup makes by vector units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Rows of C.
    pub rows: u32,
    /// Columns of C.
    pub columns: u32,
    /// Work-items of a workgroup.
    pub threads: u32,
    /// Steps of k whose operands have room in LDS: of two, one is read while the other is written. Workgroups of one stay in
    /// one compute unit of RDNA's pairs.
    pub stages: u32,
}

/// The kernels of a type and a tile, for all four pairs of operations: a row of the list, which says what the columns are.
#[derive(Clone, Copy, Debug)]
struct Kernel {
    dtype: Dtype,
    rows: u32,
    columns: u32,
    thread_rows: u32,
    thread_columns: u32,
    stages: u32,
}

include!(concat!(env!("OUT_DIR"), "/gemm_tiles.rs"));

/// The tiles of a processor for elements of a type, largest first. i8 has none.
pub fn tiles(processor: Processor, dtype: Dtype) -> impl Iterator<Item = Tile> {
    let kernels = KERNELS.of(processor).iter();
    kernels
        .filter(move |kernel| kernel.dtype == dtype)
        .map(|kernel| Tile {
            rows: kernel.rows,
            columns: kernel.columns,
            threads: kernel.rows * kernel.columns / (kernel.thread_rows * kernel.thread_columns),
            stages: kernel.stages,
        })
}
