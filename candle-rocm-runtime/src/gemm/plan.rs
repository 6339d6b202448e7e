//! Which kernel computes a product, and with which grid: a function of shapes, element type, architecture and the
//! number of compute units.

use candle_rocm_kernels::matmul;

use super::epilogue::Epilogue;
use super::hardware::{Gpu, Units, Work};
use super::problem::{GemmDtype, GemmProblem, Transpose};
use super::product::{Operand, Product};

/// Most columns for which the kernels for few columns are best wherever there are matrix units, and most that they take
/// of the types that matrix units always have. A row of A is then read once for so few multiply-adds that vector units
/// keep up. For 16 columns of f16 a gfx942 needs 642 instructions in a wavefront for 4 KiB of A, 2568 cycles: a compute
/// unit takes 6.4 bytes a cycle, less than its share of the memory's 8, where its matrix units take 64.
const BEST_VECTOR_COLUMNS: u64 = 8;
/// Most columns that they take of other types.
const VECTOR_COLUMNS: u64 = 16;
/// Work-items of a workgroup of those kernels (`GEMV_*_THREADS` in kernels/matmul/gemm_vector.cuh).
const VECTOR_THREADS: u32 = 128;
/// Elements of k in a step of the vector units' tiles (`Shape::K` in kernels/matmul/gemm.cu).
const TILE_DEPTH: u64 = 16;
/// Bytes that the 32-bit offsets within a workgroup's part of A may span.
const MAX_OFFSET: u64 = 1 << 31;
/// Most workgroups in x: with workgroups of 256, a grid may have 2^32 - 1 work-items in x.
const MAX_GRID_X: u64 = 1 << 23;
/// Most workgroups in y and in z.
const MAX_GRID_YZ: u64 = 65_535;
/// Most bytes of partial sums where k is divided.
pub const MAX_WORKSPACE: u64 = 64 << 20;
/// Fewest steps of a part of k: the sums of a part cost as much as a few.
const LEAST_STEPS: u64 = 4;
/// Most parts of k.
const MAX_PARTS: u64 = 64;

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
    f64: bool,
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

    /// Whether it does what [`Epilogue`] says. After the others a pass over C does. Unrolled over the 64 sums of a
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

/// A kernel, and what to compute with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// The kernel.
    pub kernel: Kernel,
    /// The product, transposed where the kernel wants it so.
    pub product: Product,
    /// Whether B's columns have k together, which the kernels for few columns ask for.
    pub b_along_k: bool,
    /// Parts into which k is divided. Where there are more than one, their sums go to a workspace and are added by a
    /// kernel of their own.
    pub parts: u32,
    /// Elements of k in each part but the last.
    pub part_k: u32,
    /// Rows of tiles that follow one another before the next column of tiles.
    pub group: u32,
    /// Second-level caches of the GPU, each of which gets a connected part of C.
    pub chiplets: u32,
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
    /// The plan for a problem that passed [`GemmProblem::check`] on this GPU; none if C is empty, or no kernel
    /// multiplies this type there.
    pub fn new(problem: &GemmProblem, epilogue: &Epilogue, gpu: Gpu) -> Option<Self> {
        let mut best: Option<(Self, f64)> = None;
        each_candidate(problem, epilogue, gpu, Which::Likely, |plan, cycles| {
            if best.is_none_or(|(_, least)| cycles < least) {
                best = Some((plan, cycles));
            }
        });
        best.map(|(plan, _)| plan)
    }

    /// All plans that may be worth a try, the one that [`Plan::new`] gives first.
    pub fn candidates(problem: &GemmProblem, epilogue: &Epilogue, gpu: Gpu) -> Vec<Self> {
        let mut all = Vec::new();
        each_candidate(problem, epilogue, gpu, Which::All, |plan, cycles| {
            all.push((plan, cycles));
        });
        all.sort_by(|(_, one), (_, other)| one.total_cmp(other));
        all.into_iter().map(|(plan, _)| plan).collect()
    }

    /// The plan with this kernel whose parts are nearest to so many; none if the kernel does not suit this problem.
    pub(super) fn similar(
        problem: &GemmProblem,
        epilogue: &Epilogue,
        gpu: Gpu,
        kernel: Kernel,
        is_transposed: bool,
        parts: u32,
    ) -> Option<Self> {
        let mut nearest: Option<Self> = None;
        each_candidate(problem, epilogue, gpu, Which::All, |plan, _| {
            let distance = |plan: &Self| plan.parts.abs_diff(parts);
            let suits = plan.kernel == kernel && plan.product.is_transposed == is_transposed;
            if suits && nearest.is_none_or(|nearest| distance(&plan) < distance(&nearest)) {
                nearest = Some(plan);
            }
        });
        nearest
    }

    /// A plan with one part and no order of its tiles.
    fn simple(kernel: Kernel, product: Product) -> Self {
        Self {
            kernel,
            product,
            b_along_k: product.b.op == Transpose::No,
            parts: 1,
            part_k: product.k as u32,
            group: 1,
            chiplets: 1,
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
        let (rows, columns) = self.kernel.tile(product.dtype);
        let chunks = |size: u64, step: u64| {
            (0..size)
                .step_by(usize::try_from(step).unwrap_or(usize::MAX))
                .map(move |start| (start, step.min(size - start)))
        };
        // A grid of matrix units' tiles has them all in x, and the parts of k in y.
        let in_x = matches!(self.kernel, Kernel::Matrix { .. });
        let columns_at_once = columns * MAX_GRID_YZ;
        let tiles_at_once = match in_x {
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
                        true => (tiles_m * tiles_n, self.parts),
                        false => (tiles_m, tiles_n),
                    };
                    Piece {
                        product: product.part(m, n, batch),
                        grid: (x, y, batch.1 as u32),
                    }
                })
            })
        })
    }

    /// Bytes that a piece's partial sums take; 0 where k is in one part.
    pub fn workspace_bytes(&self) -> u64 {
        let bytes = |piece: Piece| {
            let product = piece.product;
            product.m * product.n * product.batch * product.dtype.sum_bytes() as u64
        };
        match self.parts {
            1 => 0,
            // The first piece is the largest.
            parts => self.pieces().next().map_or(0, bytes) * u64::from(parts),
        }
    }
}

/// Which plans to look at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    /// Those of which one may be the best.
    Likely,
    All,
}

/// Calls `visit` with each plan and the cycles that it may take.
fn each_candidate(
    problem: &GemmProblem,
    epilogue: &Epilogue,
    gpu: Gpu,
    which: Which,
    mut visit: impl FnMut(Plan, f64),
) {
    if problem.m == 0 || problem.n == 0 || problem.batch == 0 {
        return;
    }
    let product = Product::new(problem, epilogue);
    let has_matrix_units = MatrixTile::all(gpu.arch, product.dtype).next().is_some();
    if let Some(plan) = vector_plan(&product, gpu.units()) {
        let best = plan.product.n <= BEST_VECTOR_COLUMNS || !has_matrix_units;
        visit(plan, if best { 0.0 } else { f64::MAX });
        if best && which == Which::Likely {
            return;
        }
    }
    let (op_a, op_b) = (product.a.op, product.b.op);
    for tile in TILES {
        let exists = match product.dtype {
            GemmDtype::I8 => false,
            GemmDtype::F64 => tile.f64,
            _ => true,
        };
        if exists {
            let work = Work {
                rows: tile.rows.into(),
                columns: tile.columns.into(),
                depth: TILE_DEPTH,
                threads: tile.threads.into(),
                units: Units::Vector,
            };
            let plan = Plan::simple(Kernel::Tile { tile, op_a, op_b }, product);
            visit(plan, gpu.cycles(&product, &work, 1));
        }
    }
    for tile in MatrixTile::all(gpu.arch, product.dtype) {
        matrix_plans(&product, tile, gpu, &mut visit);
    }
}

/// The plans with one tile of the matrix units: k whole, and where C has too few tiles for the GPU, in parts.
fn matrix_plans(product: &Product, tile: MatrixTile, gpu: Gpu, visit: &mut impl FnMut(Plan, f64)) {
    let work = Work {
        rows: tile.rows.into(),
        columns: tile.columns.into(),
        depth: tile.depth.into(),
        threads: tile.threads.into(),
        units: Units::Matrix,
    };
    let (tiles_m, tiles_n) = (
        product.m.div_ceil(work.rows),
        product.n.div_ceil(work.columns),
    );
    let concurrent = gpu.concurrent(&work, product.dtype);
    // Workgroups that share a cache read the fewest operands if what they cover is square.
    let chiplets = u64::from(gpu.chiplets());
    let sharing = (concurrent / chiplets).max(1) as f64;
    let square = (sharing * work.columns as f64 / work.rows as f64).sqrt();
    let group = (square.round() as u64).clamp(1, tiles_m);
    let chiplets = match tiles_m.saturating_mul(tiles_n) {
        // Each would get one or two, wherever they lie.
        tiles if tiles < 2 * chiplets => 1,
        _ => chiplets,
    };
    let kernel = Kernel::Matrix {
        tile,
        op_a: product.a.op,
        op_b: product.b.op,
    };
    let sums = product.m as u128 * product.n as u128 * u128::from(product.batch);
    let of_a_part = sums * product.dtype.sum_bytes() as u128;
    let workgroups = tiles_m
        .saturating_mul(tiles_n)
        .saturating_mul(product.batch);
    let most = (product.k / (LEAST_STEPS * work.depth))
        .min((u128::from(MAX_WORKSPACE) / of_a_part.max(1)) as u64)
        .min(MAX_PARTS);
    let filling = concurrent / workgroups;
    let one_each = gpu.units() / workgroups;
    let mut tried = 0;
    for parts in [1, one_each / 2, one_each, filling / 2, filling] {
        let parts = parts.min(most).max(1);
        let part_k = product.k.div_ceil(parts).next_multiple_of(work.depth);
        let parts = product.k.div_ceil(part_k.max(1)).max(1);
        if parts <= tried {
            continue;
        }
        tried = parts;
        let plan = Plan {
            parts: parts as u32,
            part_k: part_k.min(u64::from(u32::MAX)) as u32,
            group: group as u32,
            chiplets: chiplets as u32,
            ..Plan::simple(kernel, *product)
        };
        visit(plan, gpu.cycles(product, &work, parts));
    }
}

/// A kernel for few columns, if C has few columns, or few rows and is taken transposed.
fn vector_plan(product: &Product, compute_units: u64) -> Option<Plan> {
    [*product, product.transposed()]
        .into_iter()
        .filter_map(|candidate| as_vector(candidate, compute_units))
        // The first of those that suit best: B read by vectors, then more rows to share out.
        .reduce(|best, other| {
            let rank = |plan: &Plan| (plan.b_along_k, plan.product.m);
            if rank(&other) > rank(&best) {
                other
            } else {
                best
            }
        })
}

fn as_vector(mut product: Product, compute_units: u64) -> Option<Plan> {
    let most = match product.dtype {
        GemmDtype::F32 | GemmDtype::F64 => VECTOR_COLUMNS,
        GemmDtype::F16 | GemmDtype::BF16 => BEST_VECTOR_COLUMNS,
        GemmDtype::I8 => 0,
    };
    if product.n > most {
        return None;
    }
    // One row at distance 1 is one column.
    if product.m == 1 && product.a.op == Transpose::No && product.a.ld == 1 {
        product.a = Operand {
            op: Transpose::Yes,
            ld: product.k.max(1) as i64,
            ..product.a
        };
    }
    let columns = product.n.next_power_of_two() as u32;
    let bytes = product.dtype.bytes() as u64;
    let (kernel, lines) = match product.a.op {
        Transpose::Yes => {
            let narrow = Kernel::VectorT { columns, width: 8 };
            let wide = Kernel::VectorT { columns, width: 32 };
            let workgroups = product.m.div_ceil(narrow.tile(product.dtype).0) * product.batch;
            let kernel = if product.k >= 1024 && workgroups < compute_units {
                wide
            } else {
                narrow
            };
            (kernel, product.m.min(kernel.tile(product.dtype).0))
        }
        // 64 elements of k are read at a time.
        Transpose::No => (Kernel::VectorN { columns }, product.k.min(64)),
    };
    let span = lines.saturating_sub(1) as u128 * product.a.ld as u128 * u128::from(bytes) + 4096;
    // With more columns B's are at offsets, too.
    let span_b = match product.n > BEST_VECTOR_COLUMNS {
        true => u128::from(product.n) * product.b.ld as u128 * u128::from(bytes),
        false => 0,
    };
    (span.max(span_b) < u128::from(MAX_OFFSET)).then_some(Plan {
        b_along_k: product.b.op == Transpose::No || product.b.ld == 1,
        ..Plan::simple(kernel, product)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Candle's product of m x k by k x n, row-major, contiguous: the operands in BLAS's order.
    fn row_major(m: usize, n: usize, k: usize, weight_transposed: bool) -> GemmProblem {
        GemmProblem {
            transa: if weight_transposed {
                Transpose::Yes
            } else {
                Transpose::No
            },
            transb: Transpose::No,
            m: n,
            n: m,
            k,
            alpha: 1.0,
            a: 0x1000,
            lda: if weight_transposed { k } else { n },
            stride_a: (k * n) as i64,
            b: 0x2000,
            ldb: k,
            stride_b: (m * k) as i64,
            beta: 0.0,
            c: 0x3000,
            ldc: n,
            stride_c: (m * n) as i64,
            batch: 1,
            dtype: GemmDtype::F32,
            compute: GemmDtype::F32.compute(),
        }
    }

    /// f32 is the vector units' on it.
    const RX_7900_XTX: Gpu = Gpu {
        arch: "gfx1100",
        compute_units: 48,
    };
    const MI300X: Gpu = Gpu {
        arch: "gfx942",
        compute_units: 304,
    };
    /// Every GPU of the table, as large as its largest product.
    fn gpus() -> impl Iterator<Item = Gpu<'static>> {
        rocm_gpus::Gpu::all().map(|gpu| Gpu {
            arch: gpu.name(),
            compute_units: gpu.multiprocessors(),
        })
    }

    fn plan_on(problem: &GemmProblem, gpu: Gpu) -> Option<Plan> {
        Plan::new(problem, &Epilogue::default(), gpu)
    }

    fn plan_for(problem: &GemmProblem) -> Plan {
        plan_on(problem, RX_7900_XTX).unwrap()
    }

    fn kernel_of(problem: &GemmProblem) -> String {
        plan_for(problem).kernel.name(problem.dtype)
    }

    fn of_type(dtype: GemmDtype, problem: GemmProblem) -> GemmProblem {
        GemmProblem {
            dtype,
            compute: dtype.compute(),
            ..problem
        }
    }

    #[test]
    fn decoding_uses_the_kernels_for_few_columns() {
        assert_eq!(kernel_of(&row_major(1, 512, 256, true)), "gemv_t_f32_w8_c1");
        assert_eq!(kernel_of(&row_major(1, 512, 256, false)), "gemv_n_f32_c1");
        assert_eq!(kernel_of(&row_major(3, 512, 256, true)), "gemv_t_f32_w8_c4");
        assert_eq!(kernel_of(&row_major(8, 512, 256, false)), "gemv_n_f32_c8");
        // Long rows that would leave units idle are shared by more lanes.
        assert_eq!(
            kernel_of(&row_major(1, 512, 4096, true)),
            "gemv_t_f32_w32_c1"
        );
        assert_eq!(
            kernel_of(&row_major(1, 65536, 4096, true)),
            "gemv_t_f32_w8_c1"
        );
    }

    #[test]
    fn few_rows_are_few_columns_of_the_transpose() {
        let plan = plan_for(&row_major(1000, 1, 64, false));
        assert_eq!(
            plan.kernel,
            Kernel::VectorT {
                columns: 1,
                width: 8
            }
        );
        assert!(plan.b_along_k);
        assert_eq!((plan.product.m, plan.product.n), (1000, 1));
        assert_eq!((plan.product.row_c, plan.product.column_c), (1, 1));
        assert_eq!(plan.product.a.address, 0x2000);
        let plan = plan_for(&row_major(1000, 4, 64, false));
        assert_eq!(
            plan.kernel,
            Kernel::VectorT {
                columns: 4,
                width: 8
            }
        );
        assert!(!plan.b_along_k);
        assert_eq!((plan.product.row_c, plan.product.column_c), (4, 1));
    }

    #[test]
    fn tiles_grow_with_the_product() {
        assert_eq!(
            kernel_of(&row_major(20, 256, 256, true)),
            "gemm_f32_32x32_tn"
        );
        assert_eq!(
            kernel_of(&row_major(1024, 512, 256, false)),
            "gemm_f32_64x64_nn"
        );
        assert_eq!(
            kernel_of(&row_major(4096, 4096, 256, true)),
            "gemm_f32_128x128_tn"
        );
        let double = of_type(GemmDtype::F64, row_major(4096, 4096, 256, true));
        assert_eq!(kernel_of(&double), "gemm_f64_64x64_tn");
    }

    /// Sizes of models' products: decoding, prompts of several lengths, long sums.
    fn products() -> impl Iterator<Item = GemmProblem> {
        const SIZES: [usize; 9] = [1, 16, 32, 64, 128, 512, 4096, 14336, 128_256];
        SIZES.into_iter().flat_map(|m| {
            SIZES.into_iter().flat_map(move |n| {
                [64, 512, 4096, 28672]
                    .into_iter()
                    .map(move |k| row_major(m, n, k, true))
            })
        })
    }

    #[test]
    fn each_tile_is_chosen_for_some_product() {
        for gpu in gpus() {
            for dtype in GemmDtype::ALL {
                let tiles: Vec<_> = MatrixTile::all(gpu.arch, dtype).collect();
                let mut chosen = Vec::new();
                for problem in products() {
                    let plan = plan_on(&of_type(dtype, problem), gpu).unwrap();
                    if let Kernel::Matrix { tile, .. } = plan.kernel {
                        chosen.push(tile);
                    }
                }
                for tile in tiles {
                    assert!(
                        chosen.contains(&tile),
                        "{} {tile:?} on {gpu:?}",
                        dtype.name()
                    );
                }
            }
        }
    }

    /// Memory is the limit whichever tile it is, so that what a tile does besides must still count.
    #[test]
    fn sixteen_columns_take_the_narrowest_tile() {
        let problem = of_type(GemmDtype::F16, row_major(16, 4096, 4096, true));
        for gpu in gpus() {
            let name = plan_on(&problem, gpu).unwrap().kernel.name(problem.dtype);
            assert_eq!(name, "matmul_f16_128x32_tn", "{gpu:?}");
        }
    }

    #[test]
    fn rdna_multiplies_f32_and_f64_by_vector_units() {
        let rdna = |gpu: &Gpu| gpu.unit().wavefront() == 32;
        for gpu in gpus().filter(rdna) {
            for dtype in [GemmDtype::F32, GemmDtype::F64] {
                for problem in products() {
                    let plan = plan_on(&of_type(dtype, problem), gpu).unwrap();
                    assert_eq!(plan.kernel.module().name(), "gemm", "{problem}");
                }
            }
        }
    }

    #[test]
    fn up_to_16_columns_are_a_vector_product_where_there_are_no_matrix_units() {
        for (columns, dtype, gpu, expected) in [
            (9, GemmDtype::F32, RX_7900_XTX, "gemv_t_f32_w8_c16"),
            (16, GemmDtype::F64, RX_7900_XTX, "gemv_t_f64_w8_c16"),
            (17, GemmDtype::F32, RX_7900_XTX, "gemm_f32_32x32_tn"),
            (8, GemmDtype::F16, RX_7900_XTX, "gemv_t_f16_w8_c8"),
            (9, GemmDtype::F16, RX_7900_XTX, "matmul_f16_128x32_tn"),
            (16, GemmDtype::F32, MI300X, "matmul_f32_64x64_tn"),
            (1, GemmDtype::I8, RX_7900_XTX, "matmul_i8_128x32_tn"),
        ] {
            let problem = of_type(dtype, row_major(columns, 4096, 512, true));
            let plan = plan_on(&problem, gpu).unwrap();
            assert_eq!(plan.kernel.name(dtype), expected);
        }
    }

    #[test]
    fn no_kernel_multiplies_integers_elsewhere() {
        let other = Gpu {
            arch: "sm_90",
            compute_units: 132,
        };
        let problem = row_major(100, 100, 100, false);
        assert_eq!(plan_on(&of_type(GemmDtype::I8, problem), other), None);
        assert!(plan_on(&of_type(GemmDtype::F16, problem), other).is_some());
    }

    #[test]
    fn long_sums_of_few_elements_are_divided() {
        for gpu in gpus() {
            let problem = of_type(GemmDtype::F16, row_major(64, 64, 28672, true));
            let plan = plan_on(&problem, gpu).unwrap();
            assert!(plan.parts > 4, "{gpu:?}: {}", plan.description());
            // As many elements of C as fill the GPU: no parts.
            let problem = of_type(GemmDtype::F16, row_major(8192, 8192, 4096, true));
            assert_eq!(plan_on(&problem, gpu).unwrap().parts, 1, "{gpu:?}");
        }
    }

    #[test]
    fn parts_cover_k_within_the_workspace() {
        for gpu in gpus() {
            for dtype in GemmDtype::ALL {
                for problem in products() {
                    let problem = of_type(dtype, problem);
                    for plan in Plan::candidates(&problem, &Epilogue::default(), gpu) {
                        assert!(plan.workspace_bytes() <= MAX_WORKSPACE);
                        let Kernel::Matrix { tile, .. } = plan.kernel else {
                            assert_eq!(plan.parts, 1);
                            continue;
                        };
                        let (parts, part_k) = (u64::from(plan.parts), u64::from(plan.part_k));
                        assert_eq!(part_k % u64::from(tile.depth), 0);
                        assert!(parts * part_k >= plan.product.k);
                        assert!((parts - 1) * part_k < plan.product.k);
                        assert!(plan.group >= 1 && plan.chiplets >= 1);
                    }
                }
            }
        }
    }

    #[test]
    fn the_first_candidate_is_the_plan() {
        for gpu in gpus() {
            for problem in products() {
                let problem = of_type(GemmDtype::BF16, problem);
                let candidates = Plan::candidates(&problem, &Epilogue::default(), gpu);
                assert_eq!(candidates.first().copied(), plan_on(&problem, gpu));
            }
        }
    }

    #[test]
    fn tiles_are_dealt_to_chiplets() {
        let problem = of_type(GemmDtype::F16, row_major(8192, 8192, 4096, true));
        let chiplets = |compute_units| {
            let gpu = Gpu {
                compute_units,
                ..MI300X
            };
            plan_on(&problem, gpu).unwrap().chiplets
        };
        // MI300X, MI300A, and one of an MI300X's eight.
        assert_eq!([304, 228, 38].map(chiplets), [8, 6, 1]);
        assert_eq!(plan_on(&problem, RX_7900_XTX).unwrap().chiplets, 1);
    }

    #[test]
    fn an_epilogue_goes_with_its_part_of_c() {
        let epilogue = Epilogue {
            bias: Some(0x10_0000),
            residual: Some(super::super::Residual {
                address: 0x20_0000,
                ld: 6_000_000,
                stride: 0,
            }),
            ..Epilogue::default()
        };
        // A product with one row is taken transposed: its bias and residual are not.
        let tall = GemmProblem {
            lda: 16,
            ..row_major(1, i32::MAX as usize, 16, true)
        };
        let turned = row_major(i32::MAX as usize, 1, 16, false);
        for (problem, step_of_bias, step_of_residual) in [(tall, 1, 1), (turned, 0, 6_000_000)] {
            let plan = Plan::new(&problem, &epilogue, RX_7900_XTX).unwrap();
            let pieces: Vec<Piece> = plan.pieces().collect();
            let (first, second) = (&pieces[0].product, &pieces[1].product);
            assert_eq!(first.epilogue.bias, 0x10_0000);
            let moved = |one: u64, other: u64| (other - one) / 4;
            assert_eq!(
                moved(first.epilogue.bias, second.epilogue.bias),
                first.m * step_of_bias
            );
            assert_eq!(
                moved(first.epilogue.residual, second.epilogue.residual),
                first.m * step_of_residual
            );
        }
    }

    #[test]
    fn far_apart_rows_go_to_tiles() {
        let far = GemmProblem {
            lda: 1 << 30,
            ..row_major(1, 512, 256, true)
        };
        assert_eq!(kernel_of(&far), "gemm_f32_32x32_tn");
        // One row only: its distance to the next does not matter.
        let single = GemmProblem {
            lda: 1 << 30,
            ..row_major(1, 1, 256, true)
        };
        assert!(kernel_of(&single).starts_with("gemv_t"));
    }

    #[test]
    fn a_shared_a_folds_the_batch() {
        let problem = GemmProblem {
            stride_a: 0,
            batch: 10,
            ..row_major(20, 256, 64, true)
        };
        let plan = plan_for(&problem);
        assert_eq!((plan.product.n, plan.product.batch), (200, 1));
        let apart = GemmProblem {
            stride_c: (20 * 256 + 1) as i64,
            ..problem
        };
        let plan = plan_for(&apart);
        assert_eq!((plan.product.n, plan.product.batch), (20, 10));
    }

    #[test]
    fn alpha_zero_reads_no_operand() {
        let problem = GemmProblem {
            alpha: 0.0,
            ..row_major(20, 30, 40, false)
        };
        assert_eq!(plan_for(&problem).product.k, 0);
    }

    #[test]
    fn an_empty_c_needs_no_plan() {
        for (m, n) in [(0, 5), (5, 0)] {
            assert_eq!(plan_on(&row_major(m, n, 4, false), MI300X), None);
        }
    }

    /// Every piece keeps to a grid's limits, and together they cover each element of C once.
    #[test]
    fn pieces_cover_c() {
        let huge_batch = GemmProblem {
            batch: 200_000,
            ..row_major(20, 20, 16, false)
        };
        let wide = row_major(9_000_000, 40, 16, false);
        let tall = GemmProblem {
            lda: 16,
            ..row_major(1, i32::MAX as usize, 16, true)
        };
        let both = of_type(
            GemmDtype::F16,
            GemmProblem {
                lda: 64,
                ldb: 64,
                ..row_major(5_000_000, 3_000_000, 64, true)
            },
        );
        for problem in [huge_batch, wide, tall, both] {
            let plan = plan_for(&problem);
            let pieces: Vec<Piece> = plan.pieces().collect();
            assert!(pieces.len() > 1, "{problem}");
            let (rows, columns) = plan.kernel.tile(problem.dtype);
            let mut area = 0u128;
            for Piece { product, grid } in &pieces {
                assert!(
                    u64::from(grid.0) * u64::from(plan.kernel.threads()) <= u64::from(u32::MAX)
                );
                assert!(grid.1 <= 65_535 && grid.2 <= 65_535);
                let tiles = [product.m.div_ceil(rows), product.n.div_ceil(columns)];
                match plan.kernel {
                    Kernel::Matrix { .. } => {
                        assert_eq!(u64::from(grid.0), tiles[0] * tiles[1]);
                        assert_eq!(grid.1, plan.parts);
                    }
                    _ => assert_eq!([grid.0, grid.1].map(u64::from), tiles),
                }
                assert_eq!(u64::from(grid.2), product.batch);
                area += u128::from(product.m) * u128::from(product.n) * u128::from(product.batch);
            }
            let all = problem.m as u128 * problem.n as u128 * problem.batch as u128;
            assert_eq!(area, all, "{problem}");
            let mut starts: Vec<u64> = pieces.iter().map(|piece| piece.product.c).collect();
            starts.dedup();
            assert_eq!(starts.len(), pieces.len());
            // The second piece begins where the first ends.
            let (first, second) = (&pieces[0].product, &pieces[1].product);
            let bytes = problem.dtype.bytes() as u64;
            let step = |now: u64, before: u64| (now - before) / bytes;
            if first.batch < plan.product.batch {
                assert_eq!(step(second.a.address, first.a.address), 65_535 * 320);
                assert_eq!(step(second.c, first.c), 65_535 * 400);
            } else if first.n < plan.product.n {
                assert_eq!(step(second.b.address, first.b.address), first.n * 16);
                assert_eq!(step(second.c, first.c), first.n * 40);
            } else {
                assert_eq!(
                    step(second.a.address, first.a.address),
                    first.m * problem.k as u64
                );
                assert_eq!(step(second.c, first.c), first.m);
            }
        }
    }
}
