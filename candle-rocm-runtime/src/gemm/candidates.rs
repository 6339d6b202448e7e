//! Which kernel computes a product, and with which grid: a function of shapes, element type, architecture and the
//! number of compute units.

use super::epilogue::Epilogue;
use super::hardware::{Gpu, Units, Work};
use super::kernel::{Kernel, MatrixTile, TILES};
use super::plan::{Plan, MAX_WORKSPACE};
use super::problem::{GemmDtype, GemmProblem, Transpose};
use super::product::{Operand, Product};

#[cfg(test)]
mod tests;

/// Most columns for which the kernels for few columns are best wherever there are matrix units, and most that they take
/// of the types that matrix units always have. A row of A is then read once for so few multiply-adds that vector units
/// keep up. For 16 columns of f16 a gfx942 needs 642 instructions in a wavefront for 4 KiB of A, 2568 cycles: a compute
/// unit takes 6.4 bytes a cycle, less than its share of the memory's 8, where its matrix units take 64.
const BEST_VECTOR_COLUMNS: u64 = 8;
/// Most columns that they take of other types.
const VECTOR_COLUMNS: u64 = 16;
/// Elements of k in a step of the vector units' tiles (`Shape::K` in kernels/matmul/gemm.cu).
const TILE_DEPTH: u64 = 16;
/// Bytes that the 32-bit offsets within a workgroup's part of A may span.
const MAX_OFFSET: u64 = 1 << 31;
/// Fewest steps of a part of k: the sums of a part cost as much as a few.
const LEAST_STEPS: u64 = 4;
/// Most parts of k.
const MAX_PARTS: u64 = 64;

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
