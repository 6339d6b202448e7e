//! What computes a product: a kernel, and the grids that cover C.

use candle_rocm_kernels::launch_heuristics;
use candle_rocm_kernels::matmul::SplitKReduction;
use candle_rocm_kernels::split::{Split, Splits};

use super::problem::Transpose;
use super::product::Product;
use super::split_k_workspace;

pub use super::kernel::{Kernel, MatrixTile, SkinnyKernel, Tile};

/// Most workgroups in x: with workgroups of 256, a grid may have 2^32 - 1 work-items in x.
const MAX_GRID_X: u64 = 1 << 23;
/// Most workgroups in y and in z.
pub(super) const MAX_GRID_YZ: u64 = launch_heuristics::MAX_GRID_YZ as u64;
/// Most sums that are reduced in the kernel by a tile's workgroup, which reads those of all other splits.
pub(super) const MAX_REDUCED_IN_KERNEL: u64 = rocm_gpus::costs::MAX_REDUCED_IN_KERNEL.value as u64;
/// Most splits of k.
pub(super) const MAX_SPLITS: u64 = 64;
/// Most bytes of partial sums where k is divided.
pub const MAX_WORKSPACE: u64 = 96 << 20;

/// A kernel, and what to compute with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// The kernel.
    pub kernel: Kernel,
    /// The product, transposed where the kernel wants it so.
    pub product: Product,
    /// Whether B's columns have k together, which the skinny kernels ask for.
    pub b_along_k: bool,
    /// Splits into which k is divided. Where there are more than one, their sums are reduced in the kernel by the last
    /// split's workgroups, or go to a workspace and are added by a kernel of their own.
    pub splits: u32,
    /// Elements of k in each split but the last.
    pub k_per_split: u32,
    /// Rows of tiles that follow one another before the next column of tiles.
    pub group: u32,
    /// Second-level caches of the GPU, each of which gets a connected part of C.
    pub xcds: u32,
    /// Whether each of them gets whole splits of k instead, and so their share of the operands: their number is a multiple
    /// of the caches', and their sums are not reduced in the kernel.
    pub splits_per_xcd: bool,
}

/// One launch of a plan: a part of C that a grid can cover.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SubGrid {
    /// The part, as a product of its own.
    pub product: Product,
    /// Workgroups.
    pub grid: (u32, u32, u32),
}

impl Plan {
    /// A plan with one split and no order of its tiles.
    pub(super) fn simple(kernel: Kernel, product: Product) -> Self {
        Self {
            kernel,
            product,
            b_along_k: product.b.op == Transpose::No,
            splits: 1,
            k_per_split: product.k as u32,
            group: 1,
            xcds: 1,
            splits_per_xcd: false,
        }
    }

    /// The plan with k in about so many splits.
    pub(super) fn in_splits(self, split: &Split, wanted: u64) -> Self {
        let Splits { count, elements } = split.into_splits(self.product.k, wanted);
        Self {
            splits: count as u32,
            k_per_split: elements.min(u64::from(u32::MAX)) as u32,
            ..self
        }
    }

    /// What tells it from the others for the same problem.
    pub fn description(&self) -> String {
        let product = &self.product;
        self.kernel
            .described(product.dtype, product.is_transposed, self.splits)
    }

    /// The launches that cover C. There is more than one only where C exceeds the limits of a grid.
    pub fn sub_grids(&self) -> impl Iterator<Item = SubGrid> + '_ {
        let product = &self.product;
        let (rows, columns) = self.kernel.tile();
        let chunks = |size: u64, step: u64| {
            (0..size)
                .step_by(usize::try_from(step).unwrap_or(usize::MAX))
                .map(move |start| (start, step.min(size - start)))
        };
        // A grid of matrix units' tiles has them all in x, and the splits of k in y.
        let in_x = matches!(self.kernel, Kernel::Matrix { .. });
        let columns_at_once = columns * MAX_GRID_YZ;
        let tiles_at_once = match in_x {
            // Of these C has no more.
            true if self.splits_per_xcd => MAX_GRID_YZ,
            true => MAX_GRID_X / product.n.min(columns_at_once).div_ceil(columns),
            false => MAX_GRID_X,
        };
        let rows_at_once = rows * tiles_at_once;
        chunks(product.batch, MAX_GRID_YZ).flat_map(move |batch| {
            chunks(product.n, columns_at_once).flat_map(move |n| {
                chunks(product.m, rows_at_once).map(move |m| {
                    let tiles_m = m.1.div_ceil(rows) as u32;
                    let tiles_n = n.1.div_ceil(columns) as u32;
                    let (x, y) = match in_x {
                        true if self.splits_per_xcd => (self.splits, tiles_m * tiles_n),
                        true => (tiles_m * tiles_n, self.splits),
                        // Those for few columns have one tile of them.
                        false => (tiles_m, tiles_n * self.splits),
                    };
                    SubGrid {
                        product: product.sub_product(m, n, batch),
                        grid: (x, y, batch.1 as u32),
                    }
                })
            })
        })
    }

    /// Whether workgroups of one split of k wait for others' sums, if the stream lets them.
    pub fn may_wait(&self) -> bool {
        self.in_kernel_workspace_bytes().is_some()
    }

    /// What becomes of the sums of the splits, if they are reduced in the kernel or not.
    pub(super) fn split_k_reduction(&self, reduces_in_kernel: bool) -> SplitKReduction {
        match (reduces_in_kernel, self.splits_per_xcd) {
            (true, _) => SplitKReduction::InKernel,
            (false, true) => SplitKReduction::PerXcd,
            (false, false) => SplitKReduction::SeparateKernel,
        }
    }

    /// Bytes that a sub-grid's sums take that are reduced in the kernel; `None` where they do not, or there are too
    /// many.
    pub(super) fn in_kernel_workspace_bytes(&self) -> Option<u64> {
        let others = self.splits - 1;
        let (reduces_in_kernel, whole_tiles) = match self.kernel {
            Kernel::Skinny(_) => (true, false),
            Kernel::Matrix { tile, .. } => {
                let of_tile = u64::from(tile.rows * tile.columns);
                let fits = of_tile * u64::from(others) <= MAX_REDUCED_IN_KERNEL;
                (tile.reduces_in_kernel && fits, true)
            }
            Kernel::Tile { .. } => (false, false),
        };
        if others == 0 || !reduces_in_kernel {
            return None;
        }
        let bytes = self.split_bytes(whole_tiles) * u64::from(others);
        (bytes <= split_k_workspace::BYTES).then_some(bytes)
    }

    /// Bytes that a sub-grid's partial sums take where a launch adds them up; 0 where k is in one split.
    pub fn workspace_bytes(&self) -> u64 {
        match self.splits {
            1 => 0,
            splits => self.split_bytes(false) * u64::from(splits),
        }
    }

    /// Bytes of a sub-grid's sums of one split: of whole tiles, or of the elements of C alone.
    fn split_bytes(&self, whole_tiles: bool) -> u64 {
        let (rows, columns) = match whole_tiles {
            true => self.kernel.tile(),
            false => (1, 1),
        };
        let bytes = |sub_grid: SubGrid| {
            let product = sub_grid.product;
            let (m, n) = (
                product.m.next_multiple_of(rows),
                product.n.next_multiple_of(columns),
            );
            m * n * product.batch * product.dtype.sum_bytes() as u64
        };
        // The first sub-grid is the largest.
        self.sub_grids().next().map_or(0, bytes)
    }
}
