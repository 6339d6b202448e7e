//! Which kernel makes a product, and in how many parts of k.

use candle_rocm_kernels::grouped::{self, Element, DEPTH, TILES};
use candle_rocm_kernels::matmul::Tile;

/// Bytes in a cycle of a compute unit: of the second-level cache, and its share of the memory's. About the same on all GPUs.
const CACHE_RATE: f64 = 48.0;
const MEMORY_RATE: f64 = 8.0;
/// Cycles of a workgroup before its first multiply-add and after its last, and of one more launch.
const ENDS: f64 = 2500.0;
const LAUNCH: f64 = 6000.0;
/// Workgroups that a compute unit holds at least.
const RESIDENT: u64 = 2;
/// Parts of k that are tried, and the fewest steps in one.
const PARTS: [usize; 5] = [1, 2, 4, 8, 16];
const LEAST_STEPS: usize = 4;

/// What a plan is made for: C is m x n for each of a batch, as kernels have it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub batch: usize,
    /// Whether k may be summed in parts.
    pub divides: bool,
    /// Columns of a group in use, on average, where not all are.
    pub usual: Option<usize>,
}

/// A kernel's tile, and the parts of k, each of so many elements but the last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Plan {
    pub tile: Tile,
    pub parts: usize,
    pub part_k: usize,
}

/// The plan with the shortest estimate, on a GPU of so many compute units.
pub(super) fn plan(element: Element, size: Size, arch: &str, units: usize) -> Plan {
    let mut best: Option<(Plan, f64)> = None;
    // Where most columns only fill groups up, narrow tiles pass those over.
    let few = size
        .usual
        .is_some_and(|usual| usual <= TILES[1].columns as usize);
    for tile in TILES.into_iter().skip(usize::from(few)) {
        for parts in PARTS {
            let steps = size.k.div_ceil(DEPTH);
            let most = if size.divides { steps / LEAST_STEPS } else { 1 };
            if parts > most.max(1) {
                break;
            }
            let part_k = steps.div_ceil(parts) * DEPTH;
            let plan = Plan {
                tile,
                parts: size.k.div_ceil(part_k.max(1)).max(1),
                part_k,
            };
            let cycles = cycles(element, size, &plan, arch, units.max(1) as f64);
            if best.is_none_or(|(_, least)| cycles < least) {
                best = Some((plan, cycles));
            }
        }
    }
    best.expect("there are tiles").0
}

/// The estimated cycles of a plan.
fn cycles(element: Element, size: Size, plan: &Plan, arch: &str, units: f64) -> f64 {
    let (rows, columns) = (f64::from(plan.tile.rows), f64::from(plan.tile.columns));
    let (m, n, k) = (size.m as f64, size.n as f64, size.k as f64);
    let (batch, bytes) = (size.batch as f64, f64::from(element.bytes()));
    let step = (rows * columns / f64::from(grouped::rate(arch, element)))
        .max((rows + columns) * bytes / CACHE_RATE);
    let workgroups = (m / rows).ceil() * (n / columns).ceil() * batch * plan.parts as f64;
    let of_unit = (workgroups / units).ceil();
    let ends = (of_unit / RESIDENT as f64).ceil() * ENDS;
    let computing = of_unit * step * plan.part_k.min(size.k) as f64 + ends;
    let memory = |bytes: f64| bytes / (MEMORY_RATE * units);
    let all = memory((m + n) * k * batch * bytes + 2.0 * m * n * batch);
    let sums = match plan.parts {
        1 => 0.0,
        parts => memory(8.0 * m * n * batch * parts as f64) + LAUNCH,
    };
    computing.max(all) + 0.3 * computing.min(all) + sums
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(n: usize, k: usize) -> Plan {
        let size = Size {
            m: 4096,
            n,
            k,
            batch: 1,
            divides: true,
            usual: None,
        };
        plan(Element::F8e4m3, size, "gfx942", 304)
    }

    #[test]
    fn few_columns_take_narrow_tiles_and_parts_that_fill_the_gpu() {
        assert_eq!(of(4096, 7168).tile, TILES[0]);
        assert_eq!(of(4096, 7168).parts, 1);
        assert_eq!(of(8, 7168).tile, TILES[1]);
        assert!(of(8, 7168).parts > 1);
    }

    #[test]
    fn parts_are_whole_blocks_and_cover_k() {
        for k in [0, 1, 127, 128, 129, 1000, 7168] {
            let plan = of(1, k);
            assert_eq!(plan.part_k % DEPTH, 0, "{k}");
            assert!(plan.parts * plan.part_k >= k, "{k}");
            assert!((plan.parts - 1) * plan.part_k < k.max(1), "{k}");
        }
    }
}
