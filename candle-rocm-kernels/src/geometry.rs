//! The grids that kernels are launched with.
//!
//! Candle's host code asks for what suits its own CUDA kernels: workgroups of 1024 with one element a thread,
//! 32 threads for a row of any length. Ours compute the same on other grids, and faster: a vector of 16 bytes a
//! thread, several rows a workgroup, no more workgroups than fill the GPU a few times. So a launch's geometry is
//! the kernel's own, made here from what was asked for.

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
    /// A workgroup asked for is a row. The kernel takes one argument more than its caller passes, the number of
    /// rows (u32), and workgroups of (threads of a row, rows).
    Rows {
        /// The argument that holds the row's length.
        columns: usize,
        /// How many bytes that argument has: 4 for an i32, 8 for a usize.
        columns_bytes: usize,
    },
}

/// What [`Geometry::plan`] must know of a GPU.
#[derive(Clone, Copy, Debug)]
pub struct Gpu {
    /// Compute units (multiprocessors).
    pub compute_units: u32,
    /// Lanes of a wavefront.
    pub wavefront: u32,
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
/// Workgroups of [`THREADS`] that a compute unit can hold at most: 2048 work-items.
const WORKGROUPS_PER_UNIT: u32 = 8;
/// Bytes that one load moves.
const VECTOR: u64 = 16;
/// Vectors that a thread keeps of its row.
const VECTORS_PER_THREAD: u64 = 4;
/// The largest workgroup.
const MOST_THREADS: u64 = 1024;

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
];

impl Geometry {
    /// That of a kernel of an embedded module, both by name.
    pub fn of(module: &str, kernel: &str) -> Self {
        GEOMETRIES
            .iter()
            .find(|(of, prefix, _)| *of == module && kernel.starts_with(prefix))
            .map_or(Self::AsAsked, |(_, _, geometry)| *geometry)
    }

    /// The grid to launch where `asked` was asked for. `columns` and `element_bytes` are a row's, for
    /// [`Geometry::Rows`], whose grid has at most as many workgroups as rows.
    pub fn plan(self, asked: Grid, columns: u64, element_bytes: u64, gpu: Gpu) -> Grid {
        match self {
            Self::AsAsked => asked,
            Self::AnyGrid { elements } => any_grid(asked, elements, gpu),
            Self::Rows { .. } => rows(asked, columns * element_bytes, gpu),
        }
    }
}

/// Bytes of the elements that a kernel reads, by the end of its name (`softmax_f16`); 1 where it names no dtype.
pub fn element_bytes(kernel: &str) -> u64 {
    match kernel.rsplit('_').next() {
        Some("f64" | "i64") => 8,
        Some("f32" | "u32" | "i32") => 4,
        Some("f16" | "bf16" | "i16") => 2,
        _ => 1,
    }
}

fn any_grid(asked: Grid, elements: u32, gpu: Gpu) -> Grid {
    let one_dimensional = |sizes: [u32; 3]| sizes[1] == 1 && sizes[2] == 1;
    if !one_dimensional(asked.workgroups) || !one_dimensional(asked.threads) {
        return asked;
    }
    let threads = u64::from(asked.workgroups[0]) * u64::from(asked.threads[0]);
    let most = u64::from(gpu.compute_units.max(1) * WORKGROUPS_PER_UNIT);
    let needed = threads.div_ceil(u64::from(THREADS * elements));
    // A grid that leaves compute units idle gains by more workgroups, down to one element a thread.
    let spread = threads
        .div_ceil(u64::from(THREADS))
        .min(u64::from(gpu.compute_units));
    Grid {
        workgroups: [needed.max(spread).min(most) as u32, 1, 1],
        threads: [THREADS, 1, 1],
    }
}

fn rows(asked: Grid, row_bytes: u64, gpu: Gpu) -> Grid {
    let rows = u64::from(asked.workgroups[0]);
    let vectors = row_bytes.div_ceil(VECTOR).max(1);
    let widest = vectors.next_power_of_two().min(MOST_THREADS);
    let mut lanes = vectors
        .div_ceil(VECTORS_PER_THREAD)
        .next_power_of_two()
        .min(MOST_THREADS);
    // Few rows: more threads for each, while the GPU has room for them.
    let room = u64::from(gpu.compute_units) * MOST_THREADS;
    while lanes < widest && rows * lanes * 2 <= room {
        lanes *= 2;
    }
    // Rows share a workgroup where each has at most a wavefront: they then need no barrier.
    let together = if lanes <= u64::from(gpu.wavefront) {
        (u64::from(THREADS) / lanes).max(1)
    } else {
        1
    };
    Grid {
        workgroups: [rows.div_ceil(together) as u32, 1, 1],
        threads: [lanes as u32, together as u32, 1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPU: Gpu = Gpu {
        compute_units: 100,
        wavefront: 32,
    };

    fn asked(workgroups: u32, threads: u32) -> Grid {
        Grid {
            workgroups: [workgroups, 1, 1],
            threads: [threads, 1, 1],
        }
    }

    #[test]
    fn elementwise_grids_cover_small_tensors_and_end_at_a_full_gpu() {
        let plan = |workgroups| {
            let geometry = Geometry::of("unary", "uexp_f32");
            geometry.plan(asked(workgroups, 1024), 0, 0, GPU)
        };
        assert_eq!(plan(1), asked(4, 256));
        assert_eq!(plan(25), asked(100, 256));
        assert_eq!(plan(300), asked(300, 256));
        assert_eq!(plan(u32::MAX), asked(800, 256));
    }

    #[test]
    fn grids_of_more_dimensions_stay() {
        let grid = Grid {
            workgroups: [3, 2, 1],
            threads: [64, 1, 1],
        };
        let geometry = Geometry::AnyGrid { elements: 4 };
        assert_eq!(geometry.plan(grid, 0, 0, GPU), grid);
        assert_eq!(Geometry::of("sort", "asort_asc_f32"), Geometry::AsAsked);
    }

    #[test]
    fn every_row_has_threads_and_no_workgroup_is_too_large() {
        let geometry = Geometry::Rows {
            columns: 2,
            columns_bytes: 4,
        };
        for count in [1, 2, 3, 33, 1000, 70_001, 1 << 20] {
            for columns in [0, 1, 7, 64, 100, 1024, 8192, 131_072, 1 << 30] {
                for bytes in [2, 4, 8] {
                    for wavefront in [32, 64] {
                        let gpu = Gpu { wavefront, ..GPU };
                        let grid = geometry.plan(asked(count, 32), columns, bytes, gpu);
                        let [lanes, together, _] = grid.threads;
                        assert!(lanes.is_power_of_two() && lanes * together <= 1024);
                        assert!(
                            u64::from(grid.workgroups[0]) * u64::from(together) >= count.into()
                        );
                        assert!((grid.workgroups[0] - 1) * together < count);
                        assert!(together == 1 || lanes <= wavefront);
                    }
                }
            }
        }
        // 64 halves are 8 vectors: 2 threads a row, 128 rows a workgroup.
        let grid = geometry.plan(asked(1 << 20, 32), 64, 2, GPU);
        assert_eq!(grid.threads, [2, 128, 1]);
        // One row of 4096 has a thread for each vector.
        let grid = geometry.plan(asked(1, 32), 4096, 2, GPU);
        assert_eq!((grid.workgroups, grid.threads), ([1, 1, 1], [512, 1, 1]));
    }
}
