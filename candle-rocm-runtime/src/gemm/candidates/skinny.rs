//! Plans by the kernels of skinny GEMM.

use candle_rocm_kernels::skinny;
use candle_rocm_kernels::split::{filling, Split};
use rocm_gpus::costs;

use crate::gemm::kernel::{Kernel, SkinnyKernel};
use crate::gemm::plan::{Plan, MAX_SPLITS, MAX_WORKSPACE};
use crate::gemm::problem::Transpose;
use crate::gemm::product::{Operand, Product};
use crate::plan::gpu::Gpu;

/// Bytes that the 32-bit offsets within a workgroup's part of A may span.
const MAX_OFFSET: u64 = 1 << 31;

/// Those by a skinny kernel, if C has few columns, or few rows and is taken transposed; the best first.
pub(super) fn plans(product: &Product, gpu: Gpu) -> Vec<Plan> {
    let suits = [*product, product.transposed()]
        .into_iter()
        .filter_map(|candidate| as_skinny(candidate, gpu))
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
    let Kernel::Skinny(skinny) = best.kernel else {
        return vec![best];
    };
    let mut plans = Vec::new();
    let units = gpu.units().div_ceil(best.product.batch.max(1));
    let best_log2_slice_k =
        skinny
            .shape
            .log2_slice_k(best.product.m, best.product.k, skinny.log2_slice_k, units);
    let others = (0..=skinny.log2_slice_k)
        .rev()
        .filter(|&n| n != best_log2_slice_k);
    for log2_slice_k in std::iter::once(best_log2_slice_k).chain(others) {
        let skinny = SkinnyKernel {
            log2_slice_k,
            ..skinny
        };
        for splits in splits_of(&best.product, &skinny, gpu) {
            // Whole rounds, so that no split begins within one.
            let plan = Plan {
                kernel: Kernel::Skinny(skinny),
                ..best.in_splits(&split_of(&skinny, 1), splits)
            };
            if fits(&plan.product, &skinny) && !plans.contains(&plan) {
                plans.push(plan);
            }
        }
    }
    plans
}

/// In how many splits k may be worth dividing, the best first: several where much of the GPU would have nothing to do.
/// Adding them up takes time, which what reads much of B outweighs sooner.
fn splits_of(product: &Product, skinny: &SkinnyKernel, gpu: Gpu) -> [u64; 2] {
    let workgroups = skinny.shape.workgroups(product.m, skinny.log2_slice_k) * product.batch.max(1);
    let sums = product.m as u128 * product.n as u128 * u128::from(product.batch);
    let of_a_split = sums * product.dtype.sum_bytes() as u128;
    let half_busy = 2 * workgroups > gpu.units();
    let is_nvidia = gpu.processor.multiprocessor().is_some();
    let transposes_lines = skinny.shape.transposes_lines();
    let lines = is_nvidia && skinny.op_a == Transpose::No;
    // Where splits could but double the speed, or the next step's lines are on their way, they must be longer.
    let least_rounds = match transposes_lines {
        true if 4 * workgroups >= gpu.units() => 2 * skinny::LEAST_ROUNDS,
        true => 1,
        false => skinny::LEAST_ROUNDS << (u32::from(half_busy) + u32::from(half_busy && lines)),
    };
    let most = split_of(skinny, least_rounds).most_within(product.k, of_a_split, MAX_WORKSPACE);
    // Such workgroups fill a unit, or all of memory's way to it.
    let alone = skinny.shape.is_doubled(skinny.log2_slice_k)
        || (transposes_lines && skinny.shape.columns > 8);
    let of_unit = match skinny
        .shape
        .shares_long_rows(product.m, product.k, gpu.units())
    {
        Some(_) => costs::SKINNY_SPLITS_OF_LONG_ROWS,
        None if alone => costs::SKINNY_SPLITS_ALONE,
        None => costs::SKINNY_SPLITS,
    };
    let seats = of_unit.value as u64 * gpu.units();
    let filling = filling(seats, workgroups, most);
    // Such kernels have the next step's vectors on their way (PREFETCH in skinny/product.cuh).
    let prefetch = skinny.op_a == Transpose::Yes && product.dtype.bytes() == 2 && !is_nvidia;
    let busy = if transposes_lines {
        half_busy
    } else if skinny.shape.reads_b || lines {
        workgroups >= gpu.units()
    } else if prefetch {
        costs::SKINNY_BUSY_BY_PREFETCH.value as u64 * workgroups >= gpu.units()
    } else {
        half_busy
    };
    match busy {
        false => [filling, 1],
        true => [1, filling],
    }
}

/// How k is divided, into splits of so many rounds at least.
fn split_of(skinny: &SkinnyKernel, least_rounds: u64) -> Split {
    Split {
        step: skinny.round().into(),
        least_steps: least_rounds,
        most: MAX_SPLITS,
    }
}

/// The plan with as many warps to a row as have something to do.
fn as_skinny(mut product: Product, gpu: Gpu) -> Option<Plan> {
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
    let columns = skinny::columns(gpu.processor, dtype, rows_together)
        .iter()
        .copied()
        .find(|&columns| product.n <= u64::from(columns))?;
    let shape = skinny::shape(gpu.processor, dtype, columns, rows_together);
    let skinny = SkinnyKernel {
        op_a: product.a.op,
        shape,
        log2_slice_k: shape.max_log2_slice_k(product.k),
    };
    fits(&product, &skinny).then_some(Plan {
        b_along_k: product.b.op == Transpose::No || product.b.ld == 1,
        ..Plan::simple(Kernel::Skinny(skinny), product)
    })
}

/// Whether what a workgroup reads at a time is within the reach of 32-bit offsets.
fn fits(product: &Product, skinny: &SkinnyKernel) -> bool {
    let lines = match skinny.op_a {
        Transpose::Yes => product.m.min(skinny.rows().into()),
        Transpose::No => product.k.min(skinny.round().into()),
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
