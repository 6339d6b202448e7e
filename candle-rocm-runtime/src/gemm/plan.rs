//! Which kernel computes a product, and with which grid: a function of shapes, element type and the
//! number of compute units.

use super::problem::{GemmDtype, GemmProblem, Transpose};

/// Most columns that the kernels for few columns take.
const VECTOR_COLUMNS: usize = 8;
/// Work-items of a workgroup of those kernels (`GEMV_*_THREADS` in kernels/gemm_vector.cuh).
const VECTOR_THREADS: u32 = 128;
/// Bytes that the 32-bit offsets within a workgroup's part of A may span.
const MAX_OFFSET: u64 = 1 << 31;
/// Most workgroups in x: with workgroups of 256, a grid may have 2^32 - 1 work-items in x.
const MAX_GRID_X: u64 = 1 << 23;
/// Most workgroups in y and in z.
const MAX_GRID_YZ: u64 = 65_535;

/// An operand: element (row, column) of op(X) lies at `row * row_step + column * column_step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// Device address.
    pub address: u64,
    /// What op does.
    pub op: Transpose,
    /// Leading dimension.
    pub ld: i64,
    /// Elements from one matrix of the batch to the next.
    pub stride: i64,
}

impl Operand {
    fn row_step(&self) -> i64 {
        match self.op {
            Transpose::No => 1,
            Transpose::Yes => self.ld,
        }
    }

    fn column_step(&self) -> i64 {
        match self.op {
            Transpose::No => self.ld,
            Transpose::Yes => 1,
        }
    }

    fn transposed(self) -> Self {
        Self {
            op: self.op.flipped(),
            ..self
        }
    }
}

/// A product in the form that the kernels take: C's rows may be apart, which transposes the whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Product {
    /// Rows of C.
    pub m: u64,
    /// Columns of C.
    pub n: u64,
    /// Columns of op(A).
    pub k: u64,
    /// The left operand, m x k.
    pub a: Operand,
    /// The right operand, k x n.
    pub b: Operand,
    /// Device address of C.
    pub c: u64,
    /// Elements between rows of C.
    pub row_c: i64,
    /// Elements between columns of C.
    pub column_c: i64,
    /// Elements from one C to the next.
    pub stride_c: i64,
    /// Number of products.
    pub batch: u64,
    /// Factor of the product.
    pub alpha: f64,
    /// Factor of the old C.
    pub beta: f64,
    /// Type of the elements.
    pub dtype: GemmDtype,
}

/// A kernel of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Tiles of `rows` x `columns` of C: `gemm_*`.
    Tile {
        /// The tile.
        tile: Tile,
        /// What op does to A.
        op_a: Transpose,
        /// What op does to B.
        op_b: Transpose,
    },
    /// Few columns, A's k together: `gemv_t_*`.
    VectorT {
        /// Columns, a power of two of at most 8.
        columns: u32,
        /// Lanes that share a row: 8, or 32 for long rows.
        width: u32,
    },
    /// Few columns, A's rows together: `gemv_n_*`.
    VectorN {
        /// Columns, a power of two of at most 8.
        columns: u32,
    },
}

/// The shape of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Rows of C.
    pub rows: u32,
    /// Columns of C.
    pub columns: u32,
    /// Work-items of a workgroup.
    pub threads: u32,
    /// Time for an element of C, in relation to the other tiles: larger ones read less for each.
    cost: u64,
    /// Whether it exists for f64.
    f64: bool,
}

/// The tiles that kernels/gemm.cu instantiates. The costs are estimates from the operand bytes read
/// from LDS for each multiply-add; nobody has timed these kernels on a GPU.
pub const TILES: [Tile; 3] = [
    Tile {
        rows: 128,
        columns: 128,
        threads: 256,
        cost: 4,
        f64: false,
    },
    Tile {
        rows: 64,
        columns: 64,
        threads: 256,
        cost: 5,
        f64: true,
    },
    Tile {
        rows: 32,
        columns: 32,
        threads: 64,
        cost: 6,
        f64: true,
    },
];

impl Kernel {
    /// The kernel's name in the module.
    pub fn name(&self, dtype: GemmDtype) -> String {
        let dtype = dtype.name();
        match self {
            Self::Tile { tile, op_a, op_b } => format!(
                "gemm_{dtype}_{}x{}_{}{}",
                tile.rows,
                tile.columns,
                op_a.letter(),
                op_b.letter()
            ),
            Self::VectorT { columns, width } => format!("gemv_t_{dtype}_w{width}_c{columns}"),
            Self::VectorN { columns } => format!("gemv_n_{dtype}_c{columns}"),
        }
    }

    /// Work-items of a workgroup.
    pub fn threads(&self) -> u32 {
        match self {
            Self::Tile { tile, .. } => tile.threads,
            Self::VectorT { .. } | Self::VectorN { .. } => VECTOR_THREADS,
        }
    }

    /// Rows and columns of C that a workgroup computes.
    pub fn tile(&self, dtype: GemmDtype) -> (u64, u64) {
        match *self {
            Self::Tile { tile, .. } => (tile.rows.into(), tile.columns.into()),
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
    /// The plan for a problem that passed [`GemmProblem::check`] on a device with so many compute units;
    /// none if C is empty.
    pub fn new(problem: &GemmProblem, compute_units: u32) -> Option<Self> {
        if problem.m == 0 || problem.n == 0 || problem.batch == 0 {
            return None;
        }
        let product = fold_batch(Product::new(problem));
        let compute_units = u64::from(compute_units.max(1));
        Some(
            vector_plan(&product, compute_units).unwrap_or_else(|| Self {
                kernel: Kernel::Tile {
                    tile: choose_tile(&product, compute_units),
                    op_a: product.a.op,
                    op_b: product.b.op,
                },
                product,
                b_along_k: product.b.op == Transpose::No,
            }),
        )
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
        let (rows_at_once, columns_at_once) = (rows * MAX_GRID_X, columns * MAX_GRID_YZ);
        chunks(product.batch, MAX_GRID_YZ).flat_map(move |batch| {
            chunks(product.n, columns_at_once).flat_map(move |n| {
                chunks(product.m, rows_at_once).map(move |m| Piece {
                    product: product.part(m, n, batch),
                    grid: (
                        m.1.div_ceil(rows) as u32,
                        n.1.div_ceil(columns) as u32,
                        batch.1 as u32,
                    ),
                })
            })
        })
    }
}

impl Product {
    fn new(problem: &GemmProblem) -> Self {
        Self {
            m: problem.m as u64,
            n: problem.n as u64,
            // Nothing of A and B is wanted then, not even their NaNs.
            k: if problem.alpha == 0.0 {
                0
            } else {
                problem.k as u64
            },
            a: Operand {
                address: problem.a,
                op: problem.transa,
                ld: problem.lda as i64,
                stride: problem.stride_a,
            },
            b: Operand {
                address: problem.b,
                op: problem.transb,
                ld: problem.ldb as i64,
                stride: problem.stride_b,
            },
            c: problem.c,
            row_c: 1,
            column_c: problem.ldc as i64,
            stride_c: problem.stride_c,
            batch: problem.batch as u64,
            alpha: problem.alpha,
            beta: problem.beta,
            dtype: problem.dtype,
        }
    }

    /// The same product as C^T = op(B)^T * op(A)^T.
    fn transposed(self) -> Self {
        Self {
            m: self.n,
            n: self.m,
            a: self.b.transposed(),
            b: self.a.transposed(),
            row_c: self.column_c,
            column_c: self.row_c,
            ..self
        }
    }

    /// Rows, columns and matrices given as (first, number).
    fn part(&self, m: (u64, u64), n: (u64, u64), batch: (u64, u64)) -> Self {
        let bytes = self.dtype.bytes() as i64;
        let at = |address: u64, elements: i64| address.wrapping_add_signed(elements * bytes);
        let (row, column, matrix) = (m.0 as i64, n.0 as i64, batch.0 as i64);
        Self {
            m: m.1,
            n: n.1,
            batch: batch.1,
            a: Operand {
                address: at(
                    self.a.address,
                    row * self.a.row_step() + matrix * self.a.stride,
                ),
                ..self.a
            },
            b: Operand {
                address: at(
                    self.b.address,
                    column * self.b.column_step() + matrix * self.b.stride,
                ),
                ..self.b
            },
            c: at(
                self.c,
                row * self.row_c + column * self.column_c + matrix * self.stride_c,
            ),
            ..*self
        }
    }
}

/// A batch that shares A, and whose B and C follow one another, is one product with more columns.
fn fold_batch(product: Product) -> Product {
    let columns = product.n as i64;
    let follows = |ld: i64, stride: i64| ld.checked_mul(columns) == Some(stride);
    let folds = product.batch > 1
        && product.a.stride == 0
        && product.b.op == Transpose::No
        && follows(product.b.ld, product.b.stride)
        && follows(product.column_c, product.stride_c)
        && product.n * product.batch <= i32::MAX as u64;
    match folds {
        true => Product {
            n: product.n * product.batch,
            batch: 1,
            ..product
        },
        false => product,
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
    if product.n > VECTOR_COLUMNS as u64 {
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
    (span < u128::from(MAX_OFFSET)).then_some(Plan {
        kernel,
        product,
        b_along_k: product.b.op == Transpose::No || product.b.ld == 1,
    })
}

/// The tile with the least estimated time: rounds of workgroups over the compute units, times a
/// workgroup's work. Large tiles read less; small ones waste less at the edges and fill more units.
fn choose_tile(product: &Product, compute_units: u64) -> Tile {
    let time = |tile: &Tile| {
        let rows = product.m.div_ceil(tile.rows.into());
        let columns = product.n.div_ceil(tile.columns.into());
        let workgroups = u128::from(rows) * u128::from(columns) * u128::from(product.batch);
        workgroups.div_ceil(compute_units.into())
            * u128::from(u64::from(tile.rows) * u64::from(tile.columns) * tile.cost)
    };
    TILES
        .into_iter()
        .filter(|tile| tile.f64 || product.dtype != GemmDtype::F64)
        .min_by_key(time)
        .unwrap_or(TILES[1])
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

    fn kernel_of(problem: &GemmProblem, compute_units: u32) -> String {
        let plan = Plan::new(problem, compute_units).unwrap();
        plan.kernel.name(problem.dtype)
    }

    #[test]
    fn decoding_uses_the_kernels_for_few_columns() {
        assert_eq!(
            kernel_of(&row_major(1, 512, 256, true), 96),
            "gemv_t_f32_w8_c1"
        );
        assert_eq!(
            kernel_of(&row_major(1, 512, 256, false), 96),
            "gemv_n_f32_c1"
        );
        assert_eq!(
            kernel_of(&row_major(3, 512, 256, true), 96),
            "gemv_t_f32_w8_c4"
        );
        assert_eq!(
            kernel_of(&row_major(8, 512, 256, false), 96),
            "gemv_n_f32_c8"
        );
        // Long rows that would leave units idle are shared by more lanes.
        assert_eq!(
            kernel_of(&row_major(1, 512, 4096, true), 96),
            "gemv_t_f32_w32_c1"
        );
        assert_eq!(
            kernel_of(&row_major(1, 65536, 4096, true), 96),
            "gemv_t_f32_w8_c1"
        );
    }

    #[test]
    fn few_rows_are_few_columns_of_the_transpose() {
        let plan = Plan::new(&row_major(1000, 1, 64, false), 96).unwrap();
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
        let plan = Plan::new(&row_major(1000, 4, 64, false), 96).unwrap();
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
            kernel_of(&row_major(20, 256, 256, true), 96),
            "gemm_f32_32x32_tn"
        );
        assert_eq!(
            kernel_of(&row_major(1024, 640, 256, false), 96),
            "gemm_f32_64x64_nn"
        );
        assert_eq!(
            kernel_of(&row_major(4096, 4096, 256, true), 96),
            "gemm_f32_128x128_tn"
        );
        let double = GemmProblem {
            dtype: GemmDtype::F64,
            compute: GemmDtype::F64.compute(),
            ..row_major(4096, 4096, 256, true)
        };
        assert_eq!(kernel_of(&double, 96), "gemm_f64_64x64_tn");
    }

    #[test]
    fn far_apart_rows_go_to_tiles() {
        let far = GemmProblem {
            lda: 1 << 30,
            ..row_major(1, 512, 256, true)
        };
        assert_eq!(kernel_of(&far, 96), "gemm_f32_32x32_tn");
        // One row only: its distance to the next does not matter.
        let single = GemmProblem {
            lda: 1 << 30,
            ..row_major(1, 1, 256, true)
        };
        assert!(kernel_of(&single, 96).starts_with("gemv_t"));
    }

    #[test]
    fn a_shared_a_folds_the_batch() {
        let problem = GemmProblem {
            stride_a: 0,
            batch: 10,
            ..row_major(20, 256, 64, true)
        };
        let plan = Plan::new(&problem, 96).unwrap();
        assert_eq!((plan.product.n, plan.product.batch), (200, 1));
        let apart = GemmProblem {
            stride_c: (20 * 256 + 1) as i64,
            ..problem
        };
        let plan = Plan::new(&apart, 96).unwrap();
        assert_eq!((plan.product.n, plan.product.batch), (20, 10));
    }

    #[test]
    fn alpha_zero_reads_no_operand() {
        let problem = GemmProblem {
            alpha: 0.0,
            ..row_major(20, 30, 40, false)
        };
        assert_eq!(Plan::new(&problem, 96).unwrap().product.k, 0);
    }

    #[test]
    fn an_empty_c_needs_no_plan() {
        for (m, n) in [(0, 5), (5, 0)] {
            assert_eq!(Plan::new(&row_major(m, n, 4, false), 96), None);
        }
    }

    /// Every piece keeps to a grid's limits, and together they cover each element of C once.
    #[test]
    fn pieces_cover_c() {
        let huge_batch = GemmProblem {
            batch: 200_000,
            ..row_major(20, 20, 16, false)
        };
        let wide = row_major(5_000_000, 40, 16, false);
        let tall = GemmProblem {
            lda: 16,
            ..row_major(1, i32::MAX as usize, 16, true)
        };
        for problem in [huge_batch, wide, tall] {
            let plan = Plan::new(&problem, 96).unwrap();
            let pieces: Vec<Piece> = plan.pieces().collect();
            assert!(pieces.len() > 1, "{problem}");
            let (rows, columns) = plan.kernel.tile(problem.dtype);
            let mut area = 0u128;
            for Piece { product, grid } in &pieces {
                assert!(
                    u64::from(grid.0) * u64::from(plan.kernel.threads()) <= u64::from(u32::MAX)
                );
                assert!(grid.1 <= 65_535 && grid.2 <= 65_535);
                assert_eq!(u64::from(grid.0), product.m.div_ceil(rows));
                assert_eq!(u64::from(grid.1), product.n.div_ceil(columns));
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
            let step = |now: u64, before: u64| (now - before) / 4;
            if first.batch < plan.product.batch {
                assert_eq!(step(second.a.address, first.a.address), 65_535 * 320);
                assert_eq!(step(second.c, first.c), 65_535 * 400);
            } else if first.n < plan.product.n {
                assert_eq!(step(second.b.address, first.b.address), first.n * 16);
                assert_eq!(step(second.c, first.c), first.n * 40);
            } else {
                assert_eq!(step(second.a.address, first.a.address), first.m * 16);
                assert_eq!(step(second.c, first.c), first.m);
            }
        }
    }
}
