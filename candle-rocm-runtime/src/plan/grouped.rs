//! Grouped products, in bf16 and FP8: which kernel makes one, and in how many splits of K.

use std::fmt;

use candle_rocm_kernels::grouped::{self, Element, ALONG_K, DEPTH, TILES};
use candle_rocm_kernels::launch_heuristics::MAX_GRID_YZ;
use candle_rocm_kernels::matmul::Tile;
use candle_rocm_kernels::skinny;
use candle_rocm_kernels::split::{filling, Split, Splits};
use candle_rocm_kernels::Processor;
use rocm_gpus::costs::{self, GroupedPace};

use super::roofline::{memory_cycles, Roofline};

/// Workgroups of the largest tile that a compute unit holds at least.
pub const RESIDENT: u64 = costs::GROUPED.resident[0];

/// Splits of K that are tried.
const SPLITS: [u64; 5] = [1, 2, 4, 8, 16];
/// How tiles divide K.
const OF_TILES: Split = Split {
    step: DEPTH as u64,
    least_steps: 4,
    most: SPLITS[SPLITS.len() - 1],
};
/// Most splits of K of a skinny product.
const MOST_SPLITS: u64 = 64;

/// What a plan is made for: C is m x n for each of a batch, as kernels have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Size {
    /// Rows of C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// Of both operands.
    pub k: usize,
    /// Matrices.
    pub batch: usize,
    /// Whether k may be summed in splits.
    pub divides: bool,
    /// Columns of a group in use, on average, where not all are.
    pub usual: Option<usize>,
    /// Matrices, or blocks of columns, that skinny kernels take by themselves.
    pub matrices: usize,
}

/// A kernel, and the splits of k, each of so many elements but the last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// The kernel.
    pub kernel: Kernel,
    /// Splits of K.
    pub splits: usize,
    /// Elements of K in each part but the last.
    pub k_per_split: usize,
}

/// As results of timings name it.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kernel {
            Kernel::Tile(tile) => write!(f, "{}x{}", tile.rows, tile.columns)?,
            Kernel::Skinny {
                columns,
                log2_slice_k,
                ..
            } => write!(f, "skinny {columns} slice-K {}", 1 << log2_slice_k)?,
        }
        write!(f, " splits {}", self.splits)
    }
}

/// What multiplies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kernel {
    /// Tiles.
    Tile(Tile),
    /// A skinny product.
    Skinny {
        /// Columns at a time.
        columns: u32,
        /// What a workgroup makes.
        shape: skinny::Shape,
        /// 2^this many of a workgroup's teams share rows.
        log2_slice_k: u32,
    },
}

/// What may be worth a try on a GPU of so many compute units, the most promising first. Skinny kernels, which read
/// k by vectors, and the tile for that are among it if both operands have it together.
pub fn plans(
    element: Element,
    size: Size,
    along_k: bool,
    processor: Processor,
    units: usize,
) -> Vec<Plan> {
    let skinny = skinny_plan(element, size, processor, units).filter(|_| along_k);
    let pace = match along_k && processor.is_nvidia() {
        true => &costs::GROUPED_BY_ROWS,
        false => &costs::GROUPED,
    };
    let mut tiles = Vec::new();
    for tile in TILES.into_iter().chain(along_k.then_some(ALONG_K)) {
        for splits in SPLITS {
            let most = match size.divides {
                true => OF_TILES.most((size.k as u64).next_multiple_of(OF_TILES.step)),
                false => 1,
            };
            if splits > most.max(1) {
                break;
            }
            let plan = divided(Kernel::Tile(tile), size.k, splits, &OF_TILES);
            let cycles = cycles(element, size, tile, &plan, pace, (processor, units));
            tiles.push((plan, cycles));
        }
    }
    tiles.sort_by(|(_, x), (_, y)| x.total_cmp(y));
    skinny
        .into_iter()
        .chain(tiles.into_iter().map(|(plan, _)| plan))
        .collect()
}

/// The most promising of [`plans`].
#[cfg(test)]
fn plan(element: Element, size: Size, along_k: bool, name: &str, units: usize) -> Plan {
    plans(element, size, along_k, Processor::of(name), units)[0]
}

/// A plan with about so many splits of K.
fn divided(kernel: Kernel, k: usize, wanted: u64, split: &Split) -> Plan {
    let Splits { count, elements } = split.into_splits(k as u64, wanted);
    Plan {
        kernel,
        splits: count as usize,
        k_per_split: elements as usize,
    }
}

/// The plan by a skinny kernel, where there are few, or few of each group are in use: reading A is the work.
fn skinny_plan(element: Element, size: Size, processor: Processor, units: usize) -> Option<Plan> {
    let usual = size.usual.unwrap_or(size.n).max(1);
    let mut all = grouped::skinny_columns(processor).iter().copied();
    let columns = all.find(|&columns| usual <= columns as usize)?;
    let matrices = size.matrices;
    // They are the grid's third dimension.
    if matrices > MAX_GRID_YZ as usize {
        return None;
    }
    let shape = grouped::skinny_shape(processor, element, columns);
    let (m, k) = (size.m as u64, size.k as u64);
    let units_of_one = (units.div_ceil(matrices.max(1))) as u64;
    let log2_slice_k = shape.log2_slice_k(m, k, shape.max_log2_slice_k(k), units_of_one);
    let workgroups = size
        .m
        .div_ceil(shape.rows_of_workgroup(log2_slice_k) as usize)
        * matrices;
    let split = Split {
        step: (shape.step << log2_slice_k).into(),
        least_steps: skinny::LEAST_ROUNDS,
        most: MOST_SPLITS,
    };
    // Several splits where much of the GPU would have nothing to do.
    let splits = match size.divides {
        true if 2 * workgroups <= units => {
            filling(2 * units as u64, workgroups as u64, split.most(k))
        }
        _ => 1,
    };
    let kernel = Kernel::Skinny {
        columns,
        shape,
        log2_slice_k,
    };
    Some(divided(kernel, size.k, splits, &split))
}

/// The estimated cycles of a plan.
fn cycles(
    element: Element,
    size: Size,
    tile: Tile,
    plan: &Plan,
    pace: &GroupedPace,
    (processor, units): (Processor, usize),
) -> f64 {
    let (rows, columns) = (f64::from(tile.rows), f64::from(tile.columns));
    let (m, n, k) = (size.m as f64, size.n as f64, size.k as f64);
    let (batch, bytes) = (size.batch as f64, f64::from(element.bytes()));
    let step = (rows * columns / f64::from(grouped::rate(processor, element)))
        .max((rows + columns) * bytes / costs::CACHE_RATE.value);
    let place = match tile.columns {
        0..=32 => 2,
        33..=64 => 1,
        _ => 0,
    };
    let step = step * pace.steps[place];
    // Tiles whose columns only fill groups up pass over.
    let matrices = size.matrices.max(1);
    let of_matrix = (size.n * size.batch).div_ceil(matrices);
    let in_use = size.usual.unwrap_or(of_matrix).clamp(1, of_matrix.max(1));
    let tiles_n = matrices * in_use.div_ceil(tile.columns as usize);
    let tiles = size.m.div_ceil(tile.rows as usize) * tiles_n;
    let units = units.max(1);
    let memory = |bytes: f64| memory_cycles(bytes, units as f64);
    let launch = Roofline {
        workgroups: (tiles * plan.splits) as u64,
        units: units as u64,
        resident: pace.resident[place],
        whole_rounds: true,
        first: 0.0,
        memory: memory((m + n) * k * batch * bytes + 2.0 * m * n * batch),
        reduction: match plan.splits {
            1 => 0.0,
            splits => memory(8.0 * m * n * batch * splits as f64) + costs::GROUPED_LAUNCH.value,
        },
    };
    let k_per_split = plan.k_per_split.min(size.k) as f64;
    launch.time(|workgroups| workgroups as f64 * step * k_per_split + pace.ends)
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
        assert_eq!(of(4096, 7168, true).splits, 1);
        assert_eq!(of(24, 7168, true).kernel, Kernel::Tile(TILES[1]));
        assert_eq!(of(8, 7168, false).kernel, Kernel::Tile(TILES[1]));
        assert!(of(24, 7168, true).splits > 1);
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
            assert_eq!(
                matches!(plan.kernel, Kernel::Skinny { .. }),
                expected,
                "{n}"
            );
        }
    }

    #[test]
    fn parts_are_whole_blocks_and_cover_k() {
        for k in [0, 1, 127, 128, 129, 1000, 7168] {
            for along_k in [false, true] {
                let plan = of(1, k, along_k);
                assert_eq!(plan.k_per_split % DEPTH, 0, "{k}");
                assert!(plan.splits * plan.k_per_split >= k, "{k}");
                assert!((plan.splits - 1) * plan.k_per_split < k.max(1), "{k}");
            }
        }
    }
}
