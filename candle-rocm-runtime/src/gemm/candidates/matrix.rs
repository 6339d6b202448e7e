//! Plans by the tiles of matrix units: k whole, and where C has too few tiles for the GPU, in splits.

use candle_rocm_kernels::split::Split;

use crate::gemm::cost::{MathPipe, Work};
use crate::gemm::kernel::{Kernel, MatrixTile};
use crate::gemm::plan::{Plan, MAX_GRID_YZ, MAX_REDUCED_IN_KERNEL, MAX_SPLITS, MAX_WORKSPACE};
use crate::gemm::product::Product;
use crate::plan::gpu::Gpu;

/// Fewest steps of a split of k: the sums of a split cost as much as a few.
const LEAST_STEPS: u64 = 4;

/// Calls `visit` with each plan by one tile and the cycles that it may take.
pub(super) fn plans(
    product: &Product,
    tile: MatrixTile,
    gpu: Gpu,
    visit: &mut impl FnMut(Plan, f64),
) {
    let work = work_of(&tile);
    let tiles = [
        product.m.div_ceil(work.rows),
        product.n.div_ceil(work.columns),
    ];
    let concurrent = gpu.concurrent(&work, product.dtype);
    let (group, xcds) = gpu.grouped([tile.rows, tile.columns], tiles, concurrent);
    let kernel = Kernel::Matrix {
        tile,
        op_a: product.a.op,
        op_b: product.b.op,
    };
    let whole = Plan {
        group,
        xcds,
        ..Plan::simple(kernel, *product)
    };
    let mut tried = 0;
    for splits in likely_splits(product, &tile, tiles, concurrent, gpu) {
        let plan = whole.in_splits(&split_of(&tile), splits);
        if plan.splits <= tried {
            continue;
        }
        tried = plan.splits;
        let plan = with_splits_per_xcd(plan, tiles, gpu);
        let sums = plan.split_k_reduction(plan.may_wait());
        visit(plan, gpu.cycles(product, &work, plan.splits.into(), sums));
    }
}

/// What a workgroup of this tile does.
fn work_of(tile: &MatrixTile) -> Work {
    Work {
        rows: tile.rows.into(),
        columns: tile.columns.into(),
        depth: tile.depth.into(),
        threads: tile.threads.into(),
        pipe: MathPipe::Matrix,
        dynamic_lds: tile.dynamic_lds.into(),
        whole_cache_lines: tile.whole_cache_lines,
        prefetch: tile.prefetch,
    }
}

/// How k is divided.
fn split_of(tile: &MatrixTile) -> Split {
    Split {
        step: tile.depth.into(),
        least_steps: LEAST_STEPS,
        most: MAX_SPLITS,
    }
}

/// In how many splits k may be worth dividing where so many workgroups run at once, the fewest first.
fn likely_splits(
    product: &Product,
    tile: &MatrixTile,
    [tiles_m, tiles_n]: [u64; 2],
    concurrent: u64,
    gpu: Gpu,
) -> impl Iterator<Item = u64> {
    let sums = product.m as u128 * product.n as u128 * u128::from(product.batch);
    let of_a_split = sums * product.dtype.sum_bytes() as u128;
    let workgroups = tiles_m
        .saturating_mul(tiles_n)
        .saturating_mul(product.batch);
    let most = split_of(tile).most_within(product.k, of_a_split, MAX_WORKSPACE);
    let filling = concurrent / workgroups;
    let one_each = gpu.units() / workgroups;
    // As many as are reduced in the kernel.
    let in_kernel = match tile.reduces_in_kernel {
        true => 1 + MAX_REDUCED_IN_KERNEL / u64::from(tile.rows * tile.columns),
        false => 1,
    };
    // Of a multiple of the second-level caches each may have splits of its own.
    let caches = u64::from(gpu.xcds());
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
        in_kernel.min(filling),
    ];
    likely.sort_unstable();
    likely
        .into_iter()
        .map(move |splits| splits.min(most).max(1))
}

/// The plan, whose second-level caches get whole splits of k where they are as many as that takes.
fn with_splits_per_xcd(plan: Plan, [tiles_m, tiles_n]: [u64; 2], gpu: Gpu) -> Plan {
    let caches = u64::from(gpu.xcds());
    let splits_per_xcd = caches > 1
        && u64::from(plan.splits).is_multiple_of(caches)
        && !plan.may_wait()
        && tiles_m.saturating_mul(tiles_n) <= MAX_GRID_YZ;
    Plan {
        splits_per_xcd,
        ..plan
    }
}
