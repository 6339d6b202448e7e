//! What computes a product: a kernel, and the grids that cover C.

use candle_rocm_kernels::matmul::SumsOfParts;
use candle_rocm_kernels::split::{Parts, Split};

use super::handover;
use super::problem::Transpose;
use super::product::Product;

pub use super::kernel::{Kernel, MatrixTile, SkinnyKernel, Tile, TILES};

/// Most workgroups in x: with workgroups of 256, a grid may have 2^32 - 1 work-items in x.
const MAX_GRID_X: u64 = 1 << 23;
/// Most workgroups in y and in z.
pub(super) const MAX_GRID_YZ: u64 = 65_535;
/// Most sums that are handed over to a tile's workgroup, which reads those of all other parts.
pub(super) const MOST_HANDED_OVER: u64 = rocm_gpus::costs::MOST_HANDED_OVER.value as u64;
/// Most parts of k.
pub(super) const MAX_PARTS: u64 = 64;
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
    /// Parts into which k is divided. Where there are more than one, their sums are handed over to the last part's
    /// workgroups, or go to a workspace and are added by a kernel of their own.
    pub parts: u32,
    /// Elements of k in each part but the last.
    pub part_k: u32,
    /// Rows of tiles that follow one another before the next column of tiles.
    pub group: u32,
    /// Second-level caches of the GPU, each of which gets a connected part of C.
    pub chiplets: u32,
    /// Whether each of them gets whole parts of k instead, and so their share of the operands: their number is a multiple of
    /// the caches', and their sums are not handed over.
    pub deals_parts: bool,
}

/// One launch of a plan: a part of C that a grid can cover.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// The part, as a product of its own.
    pub product: Product,
    /// Workgroups.
    pub grid: (u32, u32, u32),
}

impl Plan {
    /// A plan with one part and no order of its tiles.
    pub(super) fn simple(kernel: Kernel, product: Product) -> Self {
        Self {
            kernel,
            product,
            b_along_k: product.b.op == Transpose::No,
            parts: 1,
            part_k: product.k as u32,
            group: 1,
            chiplets: 1,
            deals_parts: false,
        }
    }

    /// The plan with k in about so many parts.
    pub(super) fn in_parts(self, split: &Split, wanted: u64) -> Self {
        let Parts { count, elements } = split.into_parts(self.product.k, wanted);
        Self {
            parts: count as u32,
            part_k: elements.min(u64::from(u32::MAX)) as u32,
            ..self
        }
    }

    /// What tells it from the others for the same problem.
    pub fn description(&self) -> String {
        let product = &self.product;
        self.kernel
            .described(product.dtype, product.is_transposed, self.parts)
    }

    /// The launches that cover C. There is more than one only where C exceeds the limits of a grid.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        let product = &self.product;
        let (rows, columns) = self.kernel.tile();
        let chunks = |size: u64, step: u64| {
            (0..size)
                .step_by(usize::try_from(step).unwrap_or(usize::MAX))
                .map(move |start| (start, step.min(size - start)))
        };
        // A grid of matrix units' tiles has them all in x, and the parts of k in y.
        let in_x = matches!(self.kernel, Kernel::Matrix { .. });
        let columns_at_once = columns * MAX_GRID_YZ;
        let tiles_at_once = match in_x {
            // Of these C has no more.
            true if self.deals_parts => MAX_GRID_YZ,
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
                        true if self.deals_parts => (self.parts, tiles_m * tiles_n),
                        true => (tiles_m * tiles_n, self.parts),
                        // Those for few columns have one tile of them.
                        false => (tiles_m, tiles_n * self.parts),
                    };
                    Piece {
                        product: product.part(m, n, batch),
                        grid: (x, y, batch.1 as u32),
                    }
                })
            })
        })
    }

    /// Whether workgroups of one part of k wait for those of others, which hand their sums over, if the stream lets them.
    pub fn may_wait(&self) -> bool {
        self.handover_bytes().is_some()
    }

    /// What becomes of the sums of its parts, if they are handed over or not.
    pub(super) fn sums_of_parts(&self, hands_over: bool) -> SumsOfParts {
        match (hands_over, self.deals_parts) {
            (true, _) => SumsOfParts::HandedOver,
            (false, true) => SumsOfParts::OfChiplets,
            (false, false) => SumsOfParts::AddedUp,
        }
    }

    /// Bytes that a piece's sums take which parts hand over; `None` where they do not, or there are too many.
    pub(super) fn handover_bytes(&self) -> Option<u64> {
        let others = self.parts - 1;
        let (hands_over, whole_tiles) = match self.kernel {
            Kernel::Skinny(_) => (true, false),
            Kernel::Matrix { tile, .. } => {
                let of_tile = u64::from(tile.rows * tile.columns);
                let fits = of_tile * u64::from(others) <= MOST_HANDED_OVER;
                (tile.hands_over && fits, true)
            }
            Kernel::Tile { .. } => (false, false),
        };
        if others == 0 || !hands_over {
            return None;
        }
        let bytes = self.part_bytes(whole_tiles) * u64::from(others);
        (bytes <= handover::BYTES).then_some(bytes)
    }

    /// Bytes that a piece's partial sums take where a launch adds them up; 0 where k is in one part.
    pub fn workspace_bytes(&self) -> u64 {
        match self.parts {
            1 => 0,
            parts => self.part_bytes(false) * u64::from(parts),
        }
    }

    /// Bytes of a piece's sums of one part: of whole tiles, or of the elements of C alone.
    fn part_bytes(&self, whole_tiles: bool) -> u64 {
        let (rows, columns) = match whole_tiles {
            true => self.kernel.tile(),
            false => (1, 1),
        };
        let bytes = |piece: Piece| {
            let product = piece.product;
            let (m, n) = (
                product.m.next_multiple_of(rows),
                product.n.next_multiple_of(columns),
            );
            m * n * product.batch * product.dtype.sum_bytes() as u64
        };
        // The first piece is the largest.
        self.pieces().next().map_or(0, bytes)
    }
}
