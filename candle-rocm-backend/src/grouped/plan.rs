//! Which kernel makes a product, and in how many parts of k.

use std::fmt;

use candle_rocm_kernels::few;
use candle_rocm_kernels::grouped::{self, Element, ALONG_K, DEPTH, TILES};
use candle_rocm_kernels::matmul::Tile;
use candle_rocm_kernels::Processor;
use candle_rocm_runtime::gemm::estimate::{
    memory_cycles, overlapped, CACHE_RATE, ENDS, GROUPED_LAUNCH,
};

/// Workgroups of the largest tile that a compute unit holds at least.
pub(super) const RESIDENT: u64 = 2;

/// How workgroups get on.
struct Pace {
    /// Cycles before the first multiply-add and after the last.
    ends: f64,
    /// Of tiles of 128, 64 and 32 columns: those that keep a compute unit busy (one that is alone waits for memory most of
    /// the time), and what their multiply-adds take of the time at the unit's rate.
    resident: [u64; 3],
    steps: [f64; 3],
}
const PACE: Pace = Pace {
    ends: ENDS,
    resident: [RESIDENT, 3, 3],
    steps: [1.0; 3],
};
/// Where tiles of 64 and 32 columns have a schedule of their own (kernels/matmul/matmul_rows.cuh). (By timings on an H200: of
/// 24 products in FP8 and bf16 with 24 to 4,096 rows this finds the fastest tile of 23; it was
/// fitted to them.)
const PACE_BY_ROWS: Pace = Pace {
    ends: 4000.0,
    resident: [RESIDENT, 3, 2],
    steps: [1.5, 1.0, 1.8],
};

/// Parts of k that are tried, and the fewest steps in one.
const PARTS: [usize; 5] = [1, 2, 4, 8, 16];
const LEAST_STEPS: usize = 4;
/// Fewest rounds of a workgroup for few columns in a part of k, and most parts.
const LEAST_ROUNDS: usize = 2;
const MOST_PARTS: usize = 64;
/// Most blocks of columns that are a grid's third dimension.
const MOST_BLOCKS: usize = 65_535;

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
    /// Matrices, or blocks of columns, that kernels for few columns take by themselves.
    pub matrices: usize,
}

/// A kernel, and the parts of k, each of so many elements but the last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Plan {
    pub kernel: Kernel,
    pub parts: usize,
    pub part_k: usize,
}

/// As results of timings name it.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kernel {
            Kernel::Tile(tile) => write!(f, "{}x{}", tile.rows, tile.columns)?,
            Kernel::Few {
                columns, sharing, ..
            } => write!(f, "few {columns} sharing {sharing}")?,
        }
        write!(f, " parts {}", self.parts)
    }
}

/// What multiplies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kernel {
    Tile(Tile),
    /// So many columns at a time, of which 2^sharing teams of a workgroup share rows.
    Few {
        columns: u32,
        shape: few::Shape,
        sharing: u32,
    },
}

/// What may be worth a try on a GPU of so many compute units, the most promising first. Kernels for few columns, which read
/// k by vectors, and the tile for that are among it if both operands have it together.
pub(super) fn plans(
    element: Element,
    size: Size,
    along_k: bool,
    processor: Processor,
    units: usize,
) -> Vec<Plan> {
    let few = few_plan(element, size, processor, units).filter(|_| along_k);
    let pace = match along_k && processor.is_nvidia() {
        true => &PACE_BY_ROWS,
        false => &PACE,
    };
    let mut tiles = Vec::new();
    for tile in TILES.into_iter().chain(along_k.then_some(ALONG_K)) {
        for parts in PARTS {
            let steps = size.k.div_ceil(DEPTH);
            let most = if size.divides { steps / LEAST_STEPS } else { 1 };
            if parts > most.max(1) {
                break;
            }
            let plan = divided(Kernel::Tile(tile), size.k, parts, DEPTH);
            let cycles = cycles(
                element,
                size,
                tile,
                &plan,
                pace,
                (processor, units.max(1) as f64),
            );
            tiles.push((plan, cycles));
        }
    }
    tiles.sort_by(|(_, x), (_, y)| x.total_cmp(y));
    few.into_iter()
        .chain(tiles.into_iter().map(|(plan, _)| plan))
        .collect()
}

/// The most promising of [`plans`].
#[cfg(test)]
fn plan(element: Element, size: Size, along_k: bool, name: &str, units: usize) -> Plan {
    plans(element, size, along_k, Processor::of(name), units)[0]
}

/// A plan with about so many parts of k, each of whole steps.
fn divided(kernel: Kernel, k: usize, parts: usize, step: usize) -> Plan {
    let part_k = k.div_ceil(step).div_ceil(parts) * step;
    Plan {
        kernel,
        parts: k.div_ceil(part_k.max(1)).max(1),
        part_k,
    }
}

/// The plan by a kernel for few columns, where there are few, or few of each group are in use: reading A is the work.
fn few_plan(element: Element, size: Size, processor: Processor, units: usize) -> Option<Plan> {
    let usual = size.usual.unwrap_or(size.n).max(1);
    let mut all = grouped::few_columns(processor).iter().copied();
    let columns = all.find(|&columns| usual <= columns as usize)?;
    let matrices = size.matrices;
    if matrices > MOST_BLOCKS {
        return None;
    }
    let shape = grouped::few_shape(processor, element, columns);
    let (m, k) = (size.m as u64, size.k as u64);
    let units_of_one = (units.div_ceil(matrices.max(1))) as u64;
    let sharing = shape.sharing(m, k, shape.most_sharing(k), units_of_one);
    let workgroups = size.m.div_ceil(shape.rows_of_workgroup(sharing) as usize) * matrices;
    let round = (shape.step << sharing) as usize;
    // Several parts where much of the GPU would have nothing to do.
    let parts = match size.divides {
        true if 2 * workgroups <= units => {
            let most = (size.k / (LEAST_ROUNDS * round)).clamp(1, MOST_PARTS);
            (2 * units / workgroups.max(1)).clamp(1, most)
        }
        _ => 1,
    };
    let kernel = Kernel::Few {
        columns,
        shape,
        sharing,
    };
    Some(divided(kernel, size.k, parts, round))
}

/// The estimated cycles of a plan.
fn cycles(
    element: Element,
    size: Size,
    tile: Tile,
    plan: &Plan,
    pace: &Pace,
    (processor, units): (Processor, f64),
) -> f64 {
    let (rows, columns) = (f64::from(tile.rows), f64::from(tile.columns));
    let (m, n, k) = (size.m as f64, size.n as f64, size.k as f64);
    let (batch, bytes) = (size.batch as f64, f64::from(element.bytes()));
    let step = (rows * columns / f64::from(grouped::rate(processor, element)))
        .max((rows + columns) * bytes / CACHE_RATE);
    let place = match tile.columns {
        0..=32 => 2,
        33..=64 => 1,
        _ => 0,
    };
    let (resident, step) = (pace.resident[place] as f64, step * pace.steps[place]);
    // Tiles whose columns only fill groups up pass over.
    let matrices = size.matrices.max(1);
    let of_matrix = (size.n * size.batch).div_ceil(matrices);
    let in_use = size.usual.unwrap_or(of_matrix).clamp(1, of_matrix.max(1));
    let tiles = (m / rows).ceil() * (matrices * in_use.div_ceil(tile.columns as usize)) as f64;
    let workgroups = tiles * plan.parts as f64;
    let rounds = ((workgroups / units).ceil() / resident).ceil();
    let computing = rounds * (resident * step * plan.part_k.min(size.k) as f64 + pace.ends);
    let memory = |bytes: f64| memory_cycles(bytes, units);
    let all = memory((m + n) * k * batch * bytes + 2.0 * m * n * batch);
    let sums = match plan.parts {
        1 => 0.0,
        parts => memory(8.0 * m * n * batch * parts as f64) + GROUPED_LAUNCH,
    };
    overlapped(computing, all) + sums
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn plans_differ_and_have_names_of_their_own() {
        let all = plans(
            Element::F8e4m3,
            size(8, 7168),
            true,
            Processor::of("gfx942"),
            304,
        );
        assert!(all.len() > 5, "{all:?}");
        let names: BTreeSet<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(names.len(), all.len(), "{names:?}");
    }

    fn size(n: usize, k: usize) -> Size {
        Size {
            m: 4096,
            n,
            k,
            batch: 1,
            divides: true,
            usual: None,
            matrices: 1,
        }
    }

    fn of(n: usize, k: usize, along_k: bool) -> Plan {
        plan(Element::F8e4m3, size(n, k), along_k, "gfx942", 304)
    }

    #[test]
    fn few_columns_take_narrow_tiles_and_parts_that_fill_the_gpu() {
        assert_eq!(of(4096, 7168, true).kernel, Kernel::Tile(TILES[0]));
        assert_eq!(of(4096, 7168, true).parts, 1);
        assert_eq!(of(24, 7168, true).kernel, Kernel::Tile(TILES[1]));
        assert_eq!(of(8, 7168, false).kernel, Kernel::Tile(TILES[1]));
        assert!(of(24, 7168, true).parts > 1);
    }

    /// As timed on an H200.
    #[test]
    fn tiles_of_sixty_four_columns_are_for_as_many() {
        for (m, n, k, tile) in [
            (7168, 32, 16_384, TILES[1]),
            (7168, 64, 16_384, ALONG_K),
            (7168, 128, 16_384, ALONG_K),
            (4096, 128, 7168, ALONG_K),
            (4096, 4096, 7168, ALONG_K),
        ] {
            let size = Size { m, ..size(n, k) };
            let plan = plan(Element::F8e4m3, size, true, "sm_90", 132);
            assert_eq!(plan.kernel, Kernel::Tile(tile), "{n} x {m} x {k}");
        }
    }

    #[test]
    fn large_tiles_are_not_for_groups_that_have_few_columns_in_use() {
        for arch in ["gfx942", "gfx90a", "gfx1100", "sm_90"] {
            for usual in [20, 32] {
                let groups = Size {
                    usual: Some(usual),
                    matrices: 32,
                    ..size(4096, 7168)
                };
                let plan = plan(Element::F8e4m3, groups, true, arch, 132);
                assert_ne!(plan.kernel, Kernel::Tile(TILES[0]), "{arch} {usual}");
            }
        }
    }

    #[test]
    fn up_to_sixteen_columns_have_kernels_of_their_own_where_k_is_together() {
        for (n, expected) in [(1, true), (16, true), (17, false)] {
            let plan = of(n, 7168, true);
            assert_eq!(matches!(plan.kernel, Kernel::Few { .. }), expected, "{n}");
        }
    }

    #[test]
    fn parts_are_whole_blocks_and_cover_k() {
        for k in [0, 1, 127, 128, 129, 1000, 7168] {
            for along_k in [false, true] {
                let plan = of(1, k, along_k);
                assert_eq!(plan.part_k % DEPTH, 0, "{k}");
                assert!(plan.parts * plan.part_k >= k, "{k}");
                assert!((plan.parts - 1) * plan.part_k < k.max(1), "{k}");
            }
        }
    }
}
