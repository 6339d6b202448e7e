//! Which kernel computes a product, and with which grid: a function of shapes, element type, architecture and the
//! number of compute units.

use super::epilogue::Epilogue;
use super::hardware::{Gpu, Units, Work};
use super::kernel::{FewKernel, Kernel, MatrixTile, TILES};
use super::plan::{Plan, MAX_GRID_YZ, MAX_WORKSPACE, MOST_HANDED_OVER};
use super::problem::{GemmDtype, GemmProblem, Transpose};
use super::product::{Operand, Product};
use candle_rocm_kernels::few;
use candle_rocm_kernels::matmul::SumsOfParts;
use candle_rocm_kernels::nvidia::Multiprocessor;

#[cfg(test)]
mod tests;

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
    // Where these can multiply, reading A is the work, and nobody reads it with less ado.
    let few = match product.dtype.widens() {
        true => Vec::new(),
        false => few_plans(&product, gpu),
    };
    for (number, plan) in few.into_iter().enumerate() {
        visit(plan, number as f64);
        if which == Which::Likely {
            return;
        }
    }
    let (op_a, op_b) = (product.a.op, product.b.op);
    for tile in TILES {
        let exists = match product.dtype {
            GemmDtype::I8 | GemmDtype::F16ToF32 | GemmDtype::BF16ToF32 => false,
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
                dynamic_lds: 0,
                whole_lines: false,
                ahead: 1,
            };
            let plan = Plan::simple(Kernel::Tile { tile, op_a, op_b }, product);
            visit(plan, gpu.cycles(&product, &work, 1, SumsOfParts::AddedUp));
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
        dynamic_lds: tile.dynamic_lds.into(),
        whole_lines: tile.whole_lines,
        ahead: tile.ahead,
    };
    let (tiles_m, tiles_n) = (
        product.m.div_ceil(work.rows),
        product.n.div_ceil(work.columns),
    );
    let concurrent = gpu.concurrent(&work, product.dtype);
    let (group, chiplets) = gpu.grouped([tile.rows, tile.columns], [tiles_m, tiles_n], concurrent);
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
    // As many as hand their sums over.
    let handing = match tile.hands_over {
        true => 1 + MOST_HANDED_OVER / u64::from(tile.rows * tile.columns),
        false => 1,
    };
    // Of a multiple of the second-level caches each may have parts of its own.
    let caches = u64::from(gpu.chiplets());
    let two_thirds = 2 * filling;
    let mut likely = [
        1,
        one_each / 2,
        one_each,
        one_each / caches * caches,
        filling / 2,
        two_thirds / 3,
        two_thirds.div_ceil(3),
        filling,
        filling / caches * caches,
        handing.min(filling),
    ];
    likely.sort_unstable();
    let mut tried = 0;
    for parts in likely {
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
            group,
            chiplets,
            ..Plan::simple(kernel, *product)
        };
        let deals_parts = caches > 1
            && parts.is_multiple_of(caches)
            && !plan.may_wait()
            && tiles_m.saturating_mul(tiles_n) <= MAX_GRID_YZ;
        let plan = Plan {
            deals_parts,
            ..plan
        };
        let sums = plan.sums_of_parts(plan.may_wait());
        visit(plan, gpu.cycles(product, &work, parts, sums));
    }
}

/// Those by a kernel for few columns, if C has few columns, or few rows and is taken transposed; the best first.
fn few_plans(product: &Product, gpu: Gpu) -> Vec<Plan> {
    let suits = [*product, product.transposed()]
        .into_iter()
        .filter_map(|candidate| as_few(candidate, gpu))
        // The first of those that suit best: B read by vectors, then more rows to share out.
        .reduce(|best, other| {
            let rank = |plan: &Plan| (plan.b_along_k, plan.product.m);
            if rank(&other) > rank(&best) {
                other
            } else {
                best
            }
        });
    let Some(best) = suits else { return Vec::new() };
    let Kernel::Few(few) = best.kernel else {
        return vec![best];
    };
    let mut plans = Vec::new();
    let units = gpu.units().div_ceil(best.product.batch.max(1));
    let best_sharing = few
        .shape
        .sharing(best.product.m, best.product.k, few.sharing, units);
    let others = (0..=few.sharing).rev().filter(|&n| n != best_sharing);
    for sharing in std::iter::once(best_sharing).chain(others) {
        let few = FewKernel { sharing, ..few };
        for parts in parts_of(&best.product, &few, gpu) {
            // Whole rounds, so that no part begins within one.
            let part_k = (best.product.k.div_ceil(parts)).next_multiple_of(few.round().into());
            let parts = best.product.k.div_ceil(part_k.max(1)).max(1) as u32;
            let plan = Plan {
                kernel: Kernel::Few(few),
                parts,
                part_k: part_k.min(u64::from(u32::MAX)) as u32,
                ..best
            };
            if fits(&plan.product, &few) && !plans.contains(&plan) {
                plans.push(plan);
            }
        }
    }
    plans
}

/// In how many parts k may be worth dividing, the best first: several where much of the GPU would have nothing to do.
/// Adding them up takes time, which what reads much of B outweighs sooner.
fn parts_of(product: &Product, few: &FewKernel, gpu: Gpu) -> [u64; 2] {
    let workgroups = few.shape.workgroups(product.m, few.sharing) * product.batch.max(1);
    let sums = product.m as u128 * product.n as u128 * u128::from(product.batch);
    let of_a_part = sums * product.dtype.sum_bytes() as u128;
    let half_busy = 2 * workgroups > gpu.units();
    let is_nvidia = Multiprocessor::of(gpu.arch).is_some();
    let turns_lines = few.shape.turns_lines();
    let lines = is_nvidia && few.op_a == Transpose::No;
    // Where parts could but double the speed, or the next step's lines are on their way, they must be longer.
    let least_rounds = match turns_lines {
        true if 4 * workgroups >= gpu.units() => 2 * few::LEAST_ROUNDS,
        true => 1,
        false => few::LEAST_ROUNDS << (u32::from(half_busy) + u32::from(half_busy && lines)),
    };
    let most = (product.k / (least_rounds * u64::from(few.round())))
        .min((u128::from(MAX_WORKSPACE) / of_a_part.max(1)) as u64)
        .min(MAX_PARTS);
    // Such workgroups fill a unit, or all of memory's way to it.
    let alone = few.shape.is_doubled(few.sharing) || (turns_lines && few.shape.columns > 8);
    let of_unit = match few
        .shape
        .shares_long_rows(product.m, product.k, gpu.units())
    {
        Some(_) => few::OF_LONG_ROWS,
        None if alone => 1,
        None => 2,
    };
    let filling = (of_unit * gpu.units() / workgroups).clamp(1, most.max(1));
    // Such kernels have the next step's vectors on their way (AHEAD in few/product.cuh): by the emulator's clock of an MI300X
    // a fifth of its units is busy enough.
    let ahead = few.op_a == Transpose::Yes && product.dtype.bytes() == 2 && !is_nvidia;
    let busy = if turns_lines {
        half_busy
    } else if few.shape.reads_b || lines {
        workgroups >= gpu.units()
    } else if ahead {
        5 * workgroups >= gpu.units()
    } else {
        half_busy
    };
    match busy {
        false => [filling, 1],
        true => [1, filling],
    }
}

/// The plan with as many teams to a row as have something to do.
fn as_few(mut product: Product, gpu: Gpu) -> Option<Plan> {
    // One row at distance 1 is one column.
    if product.m == 1 && product.a.op == Transpose::No && product.a.ld == 1 {
        product.a = Operand {
            op: Transpose::Yes,
            ld: product.k.max(1) as i64,
            ..product.a
        };
    }
    let dtype = product.dtype.of_kernels();
    let rows_together = product.a.op == Transpose::No;
    let columns = few::columns(gpu.arch, dtype, rows_together)
        .iter()
        .copied()
        .find(|&columns| product.n <= u64::from(columns))?;
    let shape = few::shape(gpu.arch, dtype, columns, rows_together);
    let few = FewKernel {
        op_a: product.a.op,
        shape,
        sharing: shape.most_sharing(product.k),
    };
    fits(&product, &few).then_some(Plan {
        b_along_k: product.b.op == Transpose::No || product.b.ld == 1,
        ..Plan::simple(Kernel::Few(few), product)
    })
}

/// Whether what a workgroup reads at a time is within the reach of 32-bit offsets.
fn fits(product: &Product, few: &FewKernel) -> bool {
    let lines = match few.op_a {
        Transpose::Yes => product.m.min(few.rows().into()),
        Transpose::No => product.k.min(few.round().into()),
    };
    let bytes = product.dtype.bytes() as u128;
    let span = |lines: u64, ld: i64| u128::from(lines.saturating_sub(1)) * ld as u128 * bytes;
    // Beside the lines' distances: a round of k, or the rows.
    const WITHIN: u128 = 1 << 16;
    let column_b = match product.b.op {
        Transpose::No => product.b.ld,
        Transpose::Yes => 1,
    };
    span(lines, product.a.ld).max(span(product.n, column_b)) + WITHIN < u128::from(MAX_OFFSET)
}
