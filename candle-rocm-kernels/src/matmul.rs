//! What the kernels of [`MATMUL`](crate::MATMUL) are: their tiles, workgroups, stages, and which of them an architecture
//! has. The host chooses among them by this table.
//!
//! A kernel's name is `matmul_<dtype>_<rows>x<columns>_<ops>`, with `nn`, `nt`, `tn` or `tt` for op(A) and op(B), `n` as
//! stored column-major; `matmul_sum_<dtype>` adds up the splits of k.

use crate::by_architecture::Lists;
use crate::numbers::matmul::{SPLIT_K_IN_KERNEL, SPLIT_K_PER_XCD, SPLIT_K_SEPARATE_KERNEL};
use crate::nvidia::Multiprocessor;
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

    /// Elements of k by which kernels proceed: where a product is summed in splits, a split is a multiple of them.
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

/// What makes a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Schedule {
    /// Operands go through registers to LDS (kernels/matmul/main_loop/tile.cuh).
    Tile,
    /// By whole lines of memory (kernels/matmul/main_loop/pipelined.cuh).
    Pipelined,
    /// Operands are copied straight to LDS (kernels/matmul/main_loop/direct.cuh).
    Direct,
}

/// The kernels of a type and a tile, for all four pairs of operations: a row of kernels/matmul/matmul_kernels.cuh, which says what the
/// columns are.
#[derive(Clone, Copy, Debug)]
struct Kernel {
    dtype: Dtype,
    schedule: Schedule,
    rows: u32,
    columns: u32,
    waves_m: u32,
    waves_n: u32,
    prefetch: u32,
    lds_kib: u32,
    in_kernel_reduction: bool,
}

include!(concat!(env!("OUT_DIR"), "/matmul_kernels.rs"));

impl Kernel {
    /// That of a processor; none of NVIDIA's that plans know nothing of.
    fn of(processor: Processor, dtype: Dtype, tile: Tile) -> Option<&'static Self> {
        of_processor(processor).find(|kernel| kernel.dtype == dtype && kernel.tile() == tile)
    }

    fn tile(&self) -> Tile {
        Tile {
            rows: self.rows,
            columns: self.columns,
        }
    }
}

fn of_processor(processor: Processor) -> impl Iterator<Item = &'static Kernel> {
    let is_known = processor != Processor::Nvidia(None);
    KERNELS.of(processor).iter().filter(move |_| is_known)
}

/// Whether the kernels of `dtype` with `tile` on a processor read whole lines of memory, in an order that has something to
/// multiply behind everything else.
pub fn reads_whole_cache_lines(processor: Processor, dtype: Dtype, tile: Tile) -> bool {
    let kernel = Kernel::of(processor, dtype, tile);
    kernel.is_some_and(|kernel| kernel.schedule == Schedule::Pipelined)
}

/// K-blocks of 128 bytes of k that a workgroup of the kernels of `dtype` with `tile` has on their way at once: two where
/// sums leave registers for them. 1 where there is no such kernel.
pub fn prefetch_depth(processor: Processor, dtype: Dtype, tile: Tile) -> u32 {
    Kernel::of(processor, dtype, tile).map_or(1, |kernel| kernel.prefetch)
}

/// Threads of a workgroup of the tile's kernels, which all types have as many of. 0 where there is none.
pub fn threads(processor: Processor, tile: Tile) -> u32 {
    let wavefront = processor.wavefront();
    let kernel = of_processor(processor).find(|kernel| kernel.tile() == tile);
    kernel.map_or(0, |kernel| kernel.waves_m * kernel.waves_n * wavefront)
}

/// Whether a processor has the kernels of `dtype` with `tile`, for all four pairs of operations.
///
/// f32 and f64 have matrix instructions on CDNA alone (f64 since CDNA2); elsewhere [`GEMM`](crate::GEMM) multiplies them. Of
/// NVIDIA's GPUs some have less LDS than a launch would ask for, or no f64 that is faster than other instructions.
pub fn exists(processor: Processor, dtype: Dtype, tile: Tile) -> bool {
    let fits = |unit: Multiprocessor| {
        let has_lds = dynamic_lds(processor, dtype, tile) <= unit.lds_bytes_of_workgroup;
        has_lds && (dtype != Dtype::F64 || unit.matrix.f64 > 0)
    };
    Kernel::of(processor, dtype, tile).is_some() && processor.multiprocessor().is_none_or(fits)
}

/// Bytes of LDS that a launch has to ask for, beside what the kernel has of its own: on NVIDIA's GPUs, where operands of
/// 16 bits are copied straight to LDS, that of the stages which are there or on their way. 0 where there is no such kernel.
pub fn dynamic_lds(processor: Processor, dtype: Dtype, tile: Tile) -> u32 {
    Kernel::of(processor, dtype, tile).map_or(0, |kernel| kernel.lds_kib << 10)
}

/// What becomes of the sums of splits of k (kernels/matmul/matmul_problem.cuh).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SplitKReduction {
    /// Another launch adds them up.
    SeparateKernel = SPLIT_K_SEPARATE_KERNEL,
    /// The last split's workgroups wait for the others'.
    InKernel = SPLIT_K_IN_KERNEL,
    /// As the first; and the grid's x counts splits, its y tiles, so that each second-level cache gets whole splits.
    PerXcd = SPLIT_K_PER_XCD,
}

/// Whether the sums of splits of k are reduced in the kernel, by the last split's workgroups: if these are f32. Of
/// larger tiles few workgroups would read all splits' sums. It is the same wherever there is such a kernel.
pub fn reduces_in_kernel(dtype: Dtype, tile: Tile) -> bool {
    let of = |kernel: &&Kernel| kernel.dtype == dtype && kernel.tile() == tile;
    let kernel = KERNELS.lists().into_iter().flatten().find(of);
    kernel.is_some_and(|kernel| kernel.in_kernel_reduction)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// What [`threads`] and [`reduces_in_kernel`] say of a tile holds of all its rows.
    #[test]
    fn rows_of_a_tile_agree() {
        for list in KERNELS.lists() {
            let mut waves = BTreeMap::new();
            for kernel in list {
                let tile = kernel.tile();
                assert!(TILES.contains(&tile), "{kernel:?}");
                let of_tile = kernel.waves_m * kernel.waves_n;
                let earlier = waves.insert((tile.rows, tile.columns), of_tile);
                assert!(earlier.is_none_or(|waves| waves == of_tile), "{kernel:?}");
                let reduces_in_kernel = reduces_in_kernel(kernel.dtype, tile);
                assert_eq!(kernel.in_kernel_reduction, reduces_in_kernel, "{kernel:?}");
                let count = |other: &&Kernel| other.dtype == kernel.dtype && other.tile() == tile;
                assert_eq!(list.iter().filter(count).count(), 1, "{kernel:?}");
            }
        }
    }
}
