//! The grids that kernels are launched with.
//!
//! Candle's host code asks for what suits its own CUDA kernels: workgroups of 1024 with one element a thread,
//! 32 threads for a row of any length. Ours compute the same on other grids, and faster: a vector of 16 bytes a
//! thread, several rows a workgroup, no more workgroups than fill the GPU a few times. So a launch's geometry is
//! the kernel's own, made here from what was asked for.

use crate::dtypes;

/// What a kernel can be launched with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Geometry {
    /// The grid asked for and no other: workgroups have roles.
    AsAsked,
    /// Any one-dimensional grid: the kernel loops over its elements in steps of the grid.
    AnyGrid {
        /// How many of the threads asked for one thread stands for in a grid that does not fill the GPU.
        elements: u32,
    },
    /// A workgroup asked for is a row. With more rows to a workgroup, one of its dimensions is their number, so that
    /// workgroups of equal size have exactly the rows asked for.
    Rows {
        /// Which dimension: 0 (x) or 1 (y); the other has the threads of a row.
        axis: usize,
        /// Which of the kernel's arguments is the number of a row's elements.
        length: usize,
        /// How much of a row a thread holds.
        held: Held,
    },
    /// A workgroup asked for is an output, its threads a power of two and no fewer than half of the output's elements, up
    /// to 1024. Any one-dimensional grid will do: teams of threads take outputs in steps of the grid.
    Outputs {
        /// Which of the kernel's arguments is the number of an output's elements.
        length: usize,
    },
}

/// What a thread of a kernel of rows holds at most. A row that its threads hold together is read once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Vectors of 16 bytes of a row that is as many for each thread exactly; of others, and of f64, four.
    pub vectors: u32,
    /// Elements of a row that does not divide into vectors; of f64 half as many.
    pub elements: u32,
    /// Threads of a workgroup at most.
    pub threads: u32,
}

/// What a workgroup asked for reads, where [`Geometry::length_argument`] says that it counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Elements of a row or an output; 0 elsewhere.
    pub elements: u64,
    /// Bytes of an element.
    pub element_bytes: u64,
}

/// What [`Geometry::plan`] must know of a GPU, and of the kernel as compiled for it.
#[derive(Clone, Copy, Debug)]
pub struct Gpu {
    /// Compute units (multiprocessors).
    pub compute_units: u32,
    /// Work-items of the largest workgroup that the kernel was compiled for, [`LEAST_WORKGROUP`] or more: 512 where a
    /// lane of a workgroup of 1024 would have too few registers (Vega 20).
    pub largest_workgroup: u32,
}

/// A grid: workgroups, and work-items of each, in x, y, z.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Workgroups.
    pub workgroups: [u32; 3],
    /// Work-items of a workgroup.
    pub threads: [u32; 3],
}

/// The work-items of a workgroup, where the choice is ours.
const THREADS: u32 = 256;
/// What the largest workgroup of every kernel with a geometry of its own holds at least.
pub const LEAST_WORKGROUP: u32 = THREADS;
/// Workgroups of [`THREADS`] for a compute unit: twice the 2048 work-items that it holds at most, so that those that
/// end first are replaced.
const WORKGROUPS_PER_UNIT: u32 = 16;
/// The largest wavefront.
const WAVEFRONT: u32 = 64;
/// Rows that a workgroup makes at most: as many as 32 work-items can hold, of 16 bytes each.
const MOST_ROWS: u32 = 32;

/// (module, beginning of the kernel's name, geometry); the first that matches holds.
const GEOMETRIES: &[(&str, &str, Geometry)] = &[
    ("affine", "", Geometry::AnyGrid { elements: 4 }),
    ("binary", "", Geometry::AnyGrid { elements: 4 }),
    ("cast", "", Geometry::AnyGrid { elements: 4 }),
    ("fill", "", Geometry::AnyGrid { elements: 4 }),
    ("ternary", "", Geometry::AnyGrid { elements: 4 }),
    ("unary", "", Geometry::AnyGrid { elements: 4 }),
    // Outputs of these cost more than a load and a store.
    ("indexing", "", Geometry::AnyGrid { elements: 1 }),
    ("conv", "", Geometry::AnyGrid { elements: 1 }),
    ("reduce", "rope", Geometry::AnyGrid { elements: 1 }),
    (
        "reduce",
        "fast_sum_small_",
        Geometry::AnyGrid { elements: 1 },
    ),
    ("reduce", "fast_", Geometry::Outputs { length: 1 }),
    ("reduce", "softmax_", rows_of(0, 2, 8, 16)),
    ("reduce", "rmsnorm_", rows_of(1, 3, 8, 16)),
    ("reduce", "layernorm_", rows_of(1, 4, 4, 16)),
    ("fused", "log_softmax_", rows_of(1, 2, 4, 16)),
    // Those that hold two numbers for an element, or read two.
    ("fused", "scaled_softmax_", rows_of(1, 2, 4, 8)),
    ("fused", "masked_softmax_", rows_of(1, 2, 4, 8)),
    ("fused", "flagged_softmax_", rows_of(1, 2, 4, 8)),
    ("fused", "backward_softmax_", two_rows(3)),
    ("fused", "backward_log_softmax_", two_rows(3)),
    ("fused", "add_rmsnorm_", rows_of(1, 5, 4, 8)),
    ("fused", "add_layernorm_", rows_of(1, 6, 4, 8)),
    ("fused", "backward_rmsnorm_", two_rows(5)),
    ("fused", "backward_layernorm_", two_rows(5)),
];

const fn rows_of(axis: usize, length: usize, vectors: u32, elements: u32) -> Geometry {
    Geometry::Rows {
        axis,
        length,
        held: Held {
            vectors,
            elements,
            threads: 1024,
        },
    }
}

/// Gradients, which hold two rows and the sums of both.
const fn two_rows(length: usize) -> Geometry {
    Geometry::Rows {
        axis: 1,
        length,
        held: Held {
            vectors: 4,
            elements: 8,
            threads: 512,
        },
    }
}

impl Geometry {
    /// That of a kernel of an embedded module, both by name.
    pub fn of(module: &str, kernel: &str) -> Self {
        GEOMETRIES
            .iter()
            .find(|(of, prefix, _)| *of == module && kernel.starts_with(prefix))
            .map_or(Self::AsAsked, |(_, _, geometry)| *geometry)
    }

    /// The kernel's argument, of four bytes or more, that the plan depends on.
    pub fn length_argument(self) -> Option<usize> {
        match self {
            Self::AsAsked | Self::AnyGrid { .. } => None,
            Self::Rows { length, .. } | Self::Outputs { length } => Some(length),
        }
    }

    /// How many rows were asked for, a workgroup for each, if that is how the kernel is launched.
    pub fn rows(self, asked: Grid) -> Option<u32> {
        match (self, asked.workgroups) {
            (Self::Rows { axis, .. }, [count, 1, 1])
                if asked.threads[axis] == 1 && asked.threads[2] == 1 =>
            {
                Some(count)
            }
            _ => None,
        }
    }

    /// The grid to launch where `asked` was asked for.
    pub fn plan(self, asked: Grid, row: Row, gpu: Gpu) -> Grid {
        match self {
            Self::AsAsked => asked,
            Self::AnyGrid { elements } => any_grid(asked, elements, gpu),
            Self::Rows { axis, held, .. } => match self.rows(asked) {
                Some(count) => rows(count, axis, row, held, gpu),
                None => asked,
            },
            Self::Outputs { .. } => outputs(asked, row, gpu),
        }
    }
}

/// Bytes of the elements that a kernel reads, by the end of its name (`softmax_f16`); 1 where it names no dtype.
pub fn element_bytes(kernel: &str) -> u64 {
    let end = kernel.rsplit('_').next().unwrap_or_default();
    dtypes::find(end).map_or(1, |dtype| dtype.bytes)
}

impl Grid {
    fn line(workgroups: u64, threads: u32) -> Self {
        Self {
            workgroups: [workgroups.try_into().unwrap_or(u32::MAX), 1, 1],
            threads: [threads, 1, 1],
        }
    }

    fn is_line(&self) -> bool {
        let is_line = |sizes: [u32; 3]| sizes[1] == 1 && sizes[2] == 1;
        is_line(self.workgroups) && is_line(self.threads)
    }
}

impl Row {
    /// Whether it is read 16 bytes at a time, as the kernels do where pointers allow it.
    pub fn divides(self) -> bool {
        (self.elements * self.element_bytes).is_multiple_of(16)
    }

    /// Loads that it takes.
    fn loads(self) -> u64 {
        if self.divides() {
            self.elements * self.element_bytes / 16
        } else {
            self.elements
        }
    }

    /// Threads that have so many of them each: a power of two, from `least` to 1024.
    fn threads(self, loads: u64, least: u32) -> u32 {
        let threads = self.loads().div_ceil(loads).clamp(1, 1024) as u32;
        threads.next_power_of_two().max(least)
    }

    /// The fewest threads that hold it, a power of two, of which `usual` may be enough.
    fn holders(self, held: Held, usual: u32) -> u64 {
        let large = self.element_bytes == 8;
        let each = if !self.divides() {
            if large {
                held.elements / 2
            } else {
                held.elements
            }
        } else if !large && self.loads() == u64::from(held.vectors * usual) {
            held.vectors
        } else {
            4
        };
        self.loads().div_ceil(each.into()).next_power_of_two()
    }
}

impl Gpu {
    /// The largest workgroup, as a power of two of work-items.
    fn threads(self) -> u32 {
        1 << self.largest_workgroup.max(LEAST_WORKGROUP).ilog2()
    }

    /// Workgroups of [`THREADS`] beyond which more are of no use.
    fn most(self) -> u64 {
        u64::from(self.compute_units.max(1)) * u64::from(WORKGROUPS_PER_UNIT)
    }
}

fn any_grid(asked: Grid, elements: u32, gpu: Gpu) -> Grid {
    if !asked.is_line() {
        return asked;
    }
    let threads = u64::from(asked.workgroups[0]) * u64::from(asked.threads[0]);
    // An element a thread as long as a workgroup for each compute unit is enough for that.
    let singly = threads.div_ceil(u64::from(THREADS));
    let workgroups = if singly <= u64::from(gpu.compute_units) {
        singly
    } else {
        threads.div_ceil(u64::from(THREADS * elements))
    };
    Grid::line(workgroups.min(gpu.most()), THREADS)
}

fn outputs(asked: Grid, row: Row, gpu: Gpu) -> Grid {
    let (count, threads) = (asked.workgroups[0], asked.threads[0]);
    // One thread may mean outputs of no elements, whose number the kernel has from the grid.
    if !asked.is_line() || threads <= 1 {
        return asked;
    }
    // Few outputs of many elements have use for large workgroups: of threads that hold four vectors each, and of the
    // largest, which take longer to agree, for very many.
    if threads >= 1024 && count < gpu.compute_units {
        let threads = if row.loads() > 4096 { 1024 } else { 512 };
        let threads = row.threads(4, THREADS).min(threads).min(gpu.threads());
        return Grid::line(count.into(), threads);
    }
    let elements = u64::from(count) * u64::from(threads);
    Grid::line(
        elements.div_ceil(4 * u64::from(THREADS)).min(gpu.most()),
        THREADS,
    )
}

/// As many rows to a workgroup as leave enough workgroups, and divide their number.
fn rows(count: u32, axis: usize, row: Row, held: Held, gpu: Gpu) -> Grid {
    let of_row = row.threads(1, 1);
    let limit = held.threads.min(gpu.threads());
    let mut together = 1;
    let enough = |together: u32| {
        let workgroups = count / together;
        // Short rows make small workgroups, of which fewer do.
        u64::from(workgroups) >= gpu.most()
            || together * of_row <= THREADS && workgroups >= gpu.compute_units
    };
    while together < MOST_ROWS && count.is_multiple_of(2 * together) && enough(2 * together) {
        together *= 2;
    }
    let usual = if count <= gpu.compute_units {
        1024
    } else if row.element_bytes > 2 {
        // A thread holds 64 bytes, so that these hold a row of 8192.
        2 * THREADS
    } else {
        THREADS
    };
    let most = usual.min(limit);
    // As many threads as it takes to read a row once, if there can be so many.
    let holders = row.holders(held, most);
    let most = if holders <= limit.into() {
        most.max(holders as u32)
    } else {
        most
    };
    let all = (together * of_row).clamp(WAVEFRONT, most);
    let mut threads = [all / together; 3];
    threads[axis] = together;
    threads[2] = 1;
    Grid {
        workgroups: [count / together, 1, 1],
        threads,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPU: Gpu = Gpu {
        compute_units: 100,
        largest_workgroup: 1024,
    };

    fn asked(workgroups: u32, threads: u32) -> Grid {
        Grid {
            workgroups: [workgroups, 1, 1],
            threads: [threads, 1, 1],
        }
    }

    fn row_of((elements, element_bytes): (u64, u64)) -> Row {
        Row {
            elements,
            element_bytes,
        }
    }

    #[test]
    fn elementwise_grids_cover_small_tensors_and_end_at_a_full_gpu() {
        let plan = |workgroups| {
            let geometry = Geometry::of("unary", "uexp_f32");
            geometry.plan(asked(workgroups, 1024), Row::default(), GPU)
        };
        assert_eq!(plan(1), asked(4, 256));
        assert_eq!(plan(25), asked(100, 256));
        assert_eq!(plan(300), asked(300, 256));
        assert_eq!(plan(u32::MAX), asked(1600, 256));
    }

    #[test]
    fn no_workgroup_is_larger_than_the_kernel_was_compiled_for() {
        for largest_workgroup in [256, 512, 896, 1024] {
            let gpu = Gpu {
                compute_units: 60,
                largest_workgroup,
            };
            for count in [1, 7, 64, 5000] {
                for elements in [1, 333, 4096, 100_000] {
                    let row = row_of((elements, 2));
                    for (module, kernel) in [
                        ("reduce", "softmax_f16"),
                        ("reduce", "fast_sum_f16"),
                        ("fused", "backward_rmsnorm_f16"),
                        ("unary", "usin_f16"),
                    ] {
                        let threads = match Geometry::of(module, kernel) {
                            Geometry::Rows { axis: 0, .. } => [1, 32, 1],
                            Geometry::Rows { .. } => [32, 1, 1],
                            _ => [1024, 1, 1],
                        };
                        let asked = Grid {
                            workgroups: [count, 1, 1],
                            threads,
                        };
                        let grid = Geometry::of(module, kernel).plan(asked, row, gpu);
                        let all = grid.threads.iter().product::<u32>();
                        assert!(
                            all <= largest_workgroup && all.is_power_of_two(),
                            "{kernel} {grid:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn grids_of_more_dimensions_stay() {
        let grid = Grid {
            workgroups: [3, 2, 1],
            threads: [64, 1, 1],
        };
        let geometry = Geometry::AnyGrid { elements: 4 };
        assert_eq!(geometry.plan(grid, Row::default(), GPU), grid);
        assert_eq!(Geometry::of("sort", "asort_asc_f32"), Geometry::AsAsked);
    }

    #[test]
    fn workgroups_have_exactly_the_rows_asked_for() {
        for count in [1, 2, 3, 33, 1000, 6400, 70_001, 1 << 20] {
            for (axis, threads) in [(0, [1, 32, 1]), (1, [32, 1, 1]), (1, [1024, 1, 1])] {
                for row in [(1, 2), (7, 4), (64, 4), (64, 8), (1024, 2), (8192, 4)] {
                    let asked = Grid {
                        workgroups: [count, 1, 1],
                        threads,
                    };
                    let geometry = rows_of(axis, 2, 8, 16);
                    let grid = geometry.plan(asked, row_of(row), GPU);
                    let together = grid.threads[axis];
                    assert_eq!(grid.workgroups[0] * together, count);
                    let all = grid.threads.iter().product::<u32>();
                    assert!(together.is_power_of_two() && all.is_power_of_two());
                    assert!((64..=if count <= 100 { 1024 } else { 512 }).contains(&all));
                    assert!(grid.workgroups[0] >= count.min(100));
                }
            }
        }
        let plan = |count, row| {
            let asked = Grid {
                workgroups: [count, 1, 1],
                threads: [1, 32, 1],
            };
            let geometry = rows_of(0, 2, 8, 16);
            let grid = geometry.plan(asked, row_of(row), GPU);
            (grid.workgroups[0], grid.threads)
        };
        assert_eq!(plan(1 << 20, (64, 2)), (1 << 15, [32, 8, 1]));
        // Few: short rows share workgroups, long ones have large ones.
        assert_eq!(plan(1024, (64, 4)), (128, [8, 16, 1]));
        assert_eq!(plan(1024, (1024, 4)), (1024, [1, 256, 1]));
        assert_eq!(plan(1, (4096, 4)), (1, [1, 1024, 1]));
        assert_eq!(plan(1, (8, 4)), (1, [1, 64, 1]));
        // Many: as many threads as hold the row, if 1024 do.
        assert_eq!(plan(1 << 20, (8192, 2)).1, [32, 8, 1]);
        assert_eq!(plan(1 << 20, (16_384, 2)).1, [32, 8, 1]);
        assert_eq!(plan(1 << 20, (12_000, 2)).1, [32, 16, 1]);
        assert_eq!(plan(1 << 20, (16_383, 2)).1, [32, 32, 1]);
        assert_eq!(plan(1 << 20, (32_776, 2)).1, [32, 8, 1]);
        // Rows that 16 bytes do not divide are read by elements.
        assert_eq!(plan(1024, (63, 4)), (256, [4, 64, 1]));
    }

    #[test]
    fn outputs_share_workgroups() {
        let plan = |count, threads, elements| {
            let geometry = Geometry::Outputs { length: 1 };
            geometry.plan(asked(count, threads), row_of((elements, 4)), GPU)
        };
        assert_eq!(plan(1 << 17, 64, 64), asked(1600, 256));
        assert_eq!(plan(512, 1024, 1024), asked(512, 256));
        // Few and long; and none that have elements.
        assert_eq!(plan(3, 1024, 1 << 20), asked(3, 1024));
        assert_eq!(plan(3, 1024, 8192), asked(3, 512));
        assert_eq!(plan(3, 1024, 16384), asked(3, 512));
        assert_eq!(plan(3, 1024, 1000), asked(3, 256));
        assert_eq!(plan(1 << 17, 1, 1), asked(1 << 17, 1));
    }
}
