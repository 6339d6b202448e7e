//! Which kernel computes a product, and with which grid: a function of shapes, element type, architecture and the
//! number of compute units.

mod matrix;
mod skinny;

use candle_rocm_kernels::gemm;
use candle_rocm_kernels::matmul::SplitKReduction;

use super::cost::{MathPipe, Work};
use super::epilogue::Epilogue;
use super::kernel::{Kernel, MatrixTile};
use super::plan::Plan;
use super::problem::GemmProblem;
use super::product::Product;
use crate::plan::gpu::Gpu;

#[cfg(test)]
mod tests;

/// Elements of k in a step of the vector units' tiles (`Shape::K` in kernels/matmul/gemm.cu).
const TILE_DEPTH: u64 = 16;

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

    /// The plan with this kernel whose splits are nearest to so many; none if the kernel does not suit this problem.
    pub(super) fn similar(
        problem: &GemmProblem,
        epilogue: &Epilogue,
        gpu: Gpu,
        kernel: Kernel,
        is_transposed: bool,
        splits: u32,
    ) -> Option<Self> {
        let mut nearest: Option<Self> = None;
        each_candidate(problem, epilogue, gpu, Which::All, |plan, _| {
            let distance = |plan: &Self| plan.splits.abs_diff(splits);
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
    let skinny = match product.dtype.upcasts() {
        true => Vec::new(),
        false => skinny::plans(&product, gpu),
    };
    for (number, plan) in skinny.into_iter().enumerate() {
        visit(plan, number as f64);
        if which == Which::Likely {
            return;
        }
    }
    let (op_a, op_b) = (product.a.op, product.b.op);
    let by_vector_units = match product.dtype.upcasts() {
        true => None,
        false => Some(gemm::tiles(gpu.processor, product.dtype.of_kernels())),
    };
    for tile in by_vector_units.into_iter().flatten() {
        let work = Work {
            rows: tile.rows.into(),
            columns: tile.columns.into(),
            depth: TILE_DEPTH,
            threads: tile.threads.into(),
            pipe: MathPipe::Vector {
                stages: tile.stages,
            },
            dynamic_lds: 0,
            whole_cache_lines: false,
            prefetch: 1,
        };
        let plan = Plan::simple(Kernel::Tile { tile, op_a, op_b }, product);
        visit(
            plan,
            gpu.cycles(&product, &work, 1, SplitKReduction::SeparateKernel),
        );
    }
    for tile in MatrixTile::all(gpu.processor, product.dtype) {
        matrix::plans(&product, tile, gpu, &mut visit);
    }
}
