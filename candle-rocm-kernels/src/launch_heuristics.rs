//! The grids that kernels are launched with.
//!
//! Candle's host code asks for what suits its own CUDA kernels: workgroups of 1024 with one element a thread,
//! 32 threads for a row of any length. Ours compute the same on other grids, and faster: a vector of 16 bytes a
//! thread, several rows a workgroup, no more workgroups than fill the GPU a few times. So a launch's geometry is
//! the kernel's own, made here from what was asked for.
//!
//! A kernel file says how its kernels are launched, in the list `LAUNCHES(X, EVERY)`: X(kernel, how) of kernels by their names
//! without types, EVERY(how) of the others.
//!
//! | how | here |
//! |---|---|
//! | AnyGrid, elements, Sizes \| Words \| Shared \| Narrow, arguments... | [`LaunchHeuristic::AnyGrid`] with that [`Count`] |
//! | AnyGrid, elements, Longest | likewise |
//! | Mapped, elements, argument | likewise, with the count of argument 0 and that argument for its `layout` |
//! | Outputs, total, length | [`LaunchHeuristic::Outputs`] |
//! | Sorted, length | [`LaunchHeuristic::Sorted`] |
//! | LoopsOverY, AsAsked | those |
//!
//! Without one, kernels are launched as they are asked for; those of rows are listed in `kernels/norms/row_kernels.cuh`.
//!
//! Candle computes grids in 32 bits, so that one for 2^32 elements is empty and one for 1,024 more has one workgroup.
//! The kernel's arguments have the count in 64 bits: [`LaunchHeuristic::meant`] finds the grid that was meant, or says
//! why there is none.

use crate::dtypes;

/// What a kernel can be launched with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchHeuristic {
    /// The grid asked for and no other: workgroups have roles.
    AsAsked,
    /// Any one-dimensional grid: the kernel loops over its elements in steps of the grid.
    AnyGrid {
        /// How many of the threads asked for one thread stands for in a grid that does not fill the GPU.
        elements: u32,
        /// How many elements the kernel loops over.
        count: Count,
        /// Which of the kernel's arguments, a pointer, is null where all inputs are contiguous; `None` where they always are.
        layout: Option<usize>,
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
    /// to 1024. Any one-dimensional grid will do: groups of threads take outputs in steps of the grid.
    Outputs {
        /// Which of the kernel's arguments, of 8 bytes, is the number of all outputs' elements.
        total: usize,
        /// Which of the kernel's arguments, of 8 bytes, is the number of an output's elements, below 2^32.
        length: usize,
    },
    /// The grid asked for: a workgroup sorts a row.
    Sorted {
        /// Which of the kernel's arguments is the number of a row's elements.
        length: usize,
    },
    /// The grid asked for, of which the second dimension may be cut: workgroups loop along it in steps of the grid.
    LoopsOverY,
}

/// How many elements a kernel is told to loop over: what a grid that wrapped around in 32 bits does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// The product of these arguments, of 8 bytes each.
    Sizes(&'static [usize]),
    /// The product of these arguments, of 4 bytes each.
    Words(&'static [usize]),
    /// As [`Count::Sizes`], by a kernel that shares them among more threads than were asked for, one for each.
    Shared(&'static [usize]),
    /// As [`Count::Words`], by a kernel that counts in 32 bits itself.
    Narrow(&'static [usize]),
    /// The kernel computes it from what is in device memory; no more than the longest of its buffers has.
    Longest,
}

/// What a launch says beside its grid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Elements that the kernel loops over, or outputs that it makes; `None` where no argument says it.
    pub count: Option<u64>,
    /// Elements of a row or an output; 0 elsewhere.
    pub row: u64,
    /// Elements of the longest buffer among the arguments.
    pub longest: u64,
    /// Inputs are not contiguous.
    pub strided: bool,
}

/// An argument of a kernel: its number, and its bytes, 4 or 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its number, from 0.
    pub number: usize,
    /// Its bytes.
    pub bytes: usize,
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

/// What a workgroup asked for reads, where [`LaunchHeuristic::told`] finds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Elements of a row or an output; 0 elsewhere.
    pub elements: u64,
    /// Bytes of an element.
    pub element_bytes: u64,
    /// Inputs are not contiguous: they are read an element at a time.
    pub strided: bool,
}

/// What [`LaunchHeuristic::plan`] must know of a GPU, and of the kernel as compiled for it.
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

/// Workgroups of [`THREADS`] that a compute unit holds at once, of kernels that may have 64 registers a thread. Where these
/// take everything in a few steps, no second generation of workgroups reads the shape anew and waits for its first loads
/// (docs/log/2026-11-30-one-generation-of-workgroups.md).
const RESIDENT_PER_UNIT: u32 = 4;

/// Turns of four vectors a thread from which on a reduction has more workgroups than are there at once: on an H200 128 MiB
/// are 16 turns, and faster without, 1 GiB are 124, and slower.
const MANY_TURNS: u64 = 32;

/// Vectors of 16 bytes that a thread of an elementwise kernel has, where there are more than fill the GPU: as many as it
/// takes in two strips. Two and eight are slower on an H200 (docs/log/2026-11-30-grids-of-large-tensors.md).
const VECTORS_PER_THREAD: u32 = 4;

/// Workgroups of [`THREADS`] in one dimension: HIP counts work-items in 32 bits.
const MOST_OF_LINE: u64 = (u32::MAX / THREADS) as u64;
/// The largest wavefront.
const WAVEFRONT: u32 = 64;
/// Work-items of a workgroup whose row is not as many vectors for each exactly: on an NVIDIA H200 rows of 20,000 f16
/// take 1.5 times as long with 1024, which hold them, as with 512, whose rest is read from the cache.
const MOST_INEXACT: u32 = 512;
/// Rows that a workgroup makes at most: as many as 32 work-items can hold, of 16 bytes each.
const MOST_ROWS: u32 = 32;
/// Workgroups that every GPU allows along the second dimension of a grid, and along the third.
pub const MAX_GRID_YZ: u32 = 65_535;
/// What 32 bits count, in which Candle computes grids.
pub const MOST_COUNTED: u64 = u32::MAX as u64;
/// What 31 bits count, in which Candle passes the columns to sort.
const MOST_SORTED: u64 = i32::MAX as u64;

/// How the kernels of a module are launched, as its file lists them, or `kernels/norms/row_kernels.cuh`.
struct Launches {
    module: &'static str,
    /// Of those that are not named.
    every: Option<LaunchHeuristic>,
    /// By the kernel's name without types.
    of: &'static [(&'static str, LaunchHeuristic)],
}

const LAUNCHES: &[Launches] = include!(concat!(env!("OUT_DIR"), "/launches.rs"));

/// Every kernel that a list names, as its module and its name without types.
pub fn named() -> impl Iterator<Item = (&'static str, &'static str)> {
    let of_module =
        |of: &'static Launches| of.of.iter().map(move |(kernel, _)| (of.module, *kernel));
    LAUNCHES.iter().flat_map(of_module)
}

const fn loops(elements: u32, count: Count) -> LaunchHeuristic {
    LaunchHeuristic::AnyGrid {
        elements,
        count,
        layout: None,
    }
}

const fn maps(elements: u32, layout: usize) -> LaunchHeuristic {
    LaunchHeuristic::AnyGrid {
        elements,
        count: Count::Sizes(&[0]),
        layout: Some(layout),
    }
}

/// Elements that a thread holds at most of a row that does not divide into vectors, if it holds a number for each
/// (`MOST_ELEMENTS` in kernels/rows/rows.cuh).
const MOST_ELEMENTS: u32 = 16;

const fn rows_of(
    axis: usize,
    length: usize,
    vectors: u32,
    numbers: u32,
    threads: u32,
) -> LaunchHeuristic {
    LaunchHeuristic::Rows {
        axis,
        length,
        held: Held {
            vectors,
            elements: MOST_ELEMENTS / numbers,
            threads,
        },
    }
}

impl LaunchHeuristic {
    /// That of a kernel of an embedded module, both by name.
    pub fn of(module: &str, kernel: &str) -> Self {
        let Some(launches) = LAUNCHES.iter().find(|of| of.module == module) else {
            return Self::AsAsked;
        };
        let untyped = untyped(kernel);
        let found = launches.of.iter().find(|(name, _)| *name == untyped);
        let found = found.map(|(_, heuristic)| *heuristic);
        found.or(launches.every).unwrap_or(Self::AsAsked)
    }

    /// Which of the kernel's arguments, a pointer, is null where all inputs are contiguous, if one tells.
    pub fn layout(self) -> Option<usize> {
        match self {
            Self::AnyGrid { layout, .. } => layout,
            _ => None,
        }
    }

    /// What a launch says, of whose buffers the longest has so many elements. `read` gives an argument's value.
    pub fn told(self, longest: u64, read: impl Fn(Parameter) -> u64) -> Told {
        let read = |number, bytes| read(Parameter { number, bytes });
        let product = |numbers: &[usize], bytes| {
            let values = numbers.iter().map(|&number| read(number, bytes));
            Some(values.fold(1, u64::saturating_mul))
        };
        let (count, row) = match self {
            Self::AsAsked | Self::LoopsOverY => (None, 0),
            Self::AnyGrid { count, .. } => match count {
                Count::Sizes(numbers) | Count::Shared(numbers) => (product(numbers, 8), 0),
                Count::Words(numbers) | Count::Narrow(numbers) => (product(numbers, 4), 0),
                // Smaller ones are not what a wrapped grid was for.
                Count::Longest => ((longest > MOST_COUNTED).then_some(longest), 0),
            },
            Self::Rows { length, .. } | Self::Sorted { length } => (None, read(length, 4)),
            Self::Outputs { total, length } => {
                let of_each = read(length, 8);
                (read(total, 8).checked_div(of_each), of_each)
            }
        };
        let strided = self.layout().is_some_and(|layout| read(layout, 8) != 0);
        Told {
            count,
            row,
            longest,
            strided,
        }
    }

    /// The grid that `asked` was meant to be, which Candle computes in 32 bits. The empty grid of an empty tensor stays.
    ///
    /// # Errors
    /// Why the kernel cannot do all that it is told to do, with the count and what to do instead.
    pub fn meant(self, asked: Grid, told: Told) -> Result<Grid, String> {
        if let Some(reason) = self.overrun(asked, told) {
            return Err(reason);
        }
        let count = match self {
            Self::AnyGrid { .. } | Self::Outputs { .. } if asked.is_line() => told.count,
            _ => None,
        };
        let shares = matches!(
            self,
            Self::AnyGrid {
                count: Count::Shared(_),
                ..
            }
        );
        Ok(match count {
            Some(count) if count > MOST_COUNTED || (count > 0 && shares) => {
                Grid::line(count.div_ceil(THREADS.into()), THREADS)
            }
            Some(count) if count > 0 && asked.workgroups[0] == 0 => {
                let threads = asked.threads[0].max(1);
                let of_each = match self {
                    Self::Outputs { .. } => 1,
                    _ => threads.into(),
                };
                Grid::line(count.div_ceil(of_each), threads)
            }
            _ => asked,
        })
    }

    /// Why the kernel cannot do all that it is told to do, if so.
    fn overrun(self, asked: Grid, told: Told) -> Option<String> {
        let Told {
            count,
            row,
            longest,
            ..
        } = told;
        let rows = longest.checked_div(row).unwrap_or(0);
        let groups = u64::from(asked.workgroups[0]);
        match self {
            Self::AnyGrid {
                count: Count::Narrow(_),
                ..
            } => count.filter(|count| *count > MOST_COUNTED).map(|count| {
                format!("it counts its {count} elements in 32 bits: give it fewer at a time")
            }),
            Self::Outputs { .. } if row > MOST_COUNTED => Some(format!(
                "it counts the {row} elements of an output in 32 bits: reduce in two steps, of fewer elements each"
            )),
            Self::Rows { .. } if rows > MOST_COUNTED => Some(format!(
                "a grid counts rows in 32 bits, and {longest} elements are {rows} rows: give it fewer at a time"
            )),
            Self::Sorted { .. }
                if row > MOST_SORTED
                    || longest > MOST_SORTED && groups.saturating_mul(row) < longest =>
            {
                Some(format!(
                    "rows are counted in 32 bits and columns in 31: {groups} rows of {row} are not what {longest} \
                     elements are; give it fewer at a time"
                ))
            }
            _ => None,
        }
    }

    /// How many rows or outputs were asked for, a workgroup for each, if that is how the kernel is launched.
    pub fn rows(self, asked: Grid) -> Option<u32> {
        match (self, asked.workgroups) {
            // One thread may mean outputs of no elements.
            (Self::Outputs { .. }, [count, 1, 1]) if asked.is_line() && asked.threads[0] > 1 => {
                Some(count)
            }
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
            Self::AsAsked | Self::Sorted { .. } => asked,
            Self::LoopsOverY => {
                let [x, y, z] = asked.workgroups;
                Grid {
                    workgroups: [x, y.min(MAX_GRID_YZ), z],
                    ..asked
                }
            }
            Self::AnyGrid {
                elements, count, ..
            } => {
                // Each vector of rows between pitches has a place of its own to find.
                let strided = row.strided || matches!(count, Count::Words(_));
                any_grid(asked, elements, Row { strided, ..row }, gpu)
            }
            Self::Rows { axis, held, .. } => match self.rows(asked) {
                Some(count) => rows(count, axis, row, held, gpu),
                None => asked,
            },
            Self::Outputs { .. } => outputs(asked, row, gpu),
        }
    }
}

/// A kernel's name without the types that it ends with: `softmax` of `softmax_f16`, `where` of `where_u8_f32`.
pub fn untyped(kernel: &str) -> &str {
    match kernel.rsplit_once('_') {
        Some((name, end)) if dtypes::find(end).is_some() => untyped(name),
        _ => kernel,
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

    /// Whether it has no workgroup.
    pub fn is_empty(&self) -> bool {
        self.workgroups.contains(&0)
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

    /// The threads that read it once, a power of two from `usual` to `limit`, or as much of it as is worth it.
    fn holders(self, held: Held, usual: u32, limit: u32) -> u32 {
        let large = self.element_bytes == 8;
        let fewest = |each: u32| {
            let holders = self.loads().div_ceil(each.into()).next_power_of_two();
            holders.clamp(usual.into(), limit.into()) as u32
        };
        if !self.divides() {
            return fewest(held.elements / if large { 2 } else { 1 });
        }
        let each = if large { 4 } else { held.vectors };
        let is_exact = |threads: &u32| self.loads() == u64::from(each * threads);
        let powers = std::iter::successors(Some(usual), |threads| Some(2 * threads));
        match powers
            .take_while(|&threads| threads <= limit)
            .find(is_exact)
        {
            Some(threads) => threads,
            None => fewest(4).min(usual.max(MOST_INEXACT)),
        }
    }
}

impl Gpu {
    /// The largest workgroup, as a power of two of work-items.
    fn threads(self) -> u32 {
        1 << self.largest_workgroup.max(LEAST_WORKGROUP).ilog2()
    }

    /// Workgroups of [`THREADS`] that it holds at once.
    fn resident(self) -> u64 {
        u64::from(self.compute_units.max(1)) * u64::from(RESIDENT_PER_UNIT)
    }

    /// Workgroups of [`THREADS`] beyond which more are of no use.
    fn most(self) -> u64 {
        u64::from(self.compute_units.max(1)) * u64::from(WORKGROUPS_PER_UNIT)
    }
}

fn any_grid(asked: Grid, elements: u32, row: Row, gpu: Gpu) -> Grid {
    if !asked.is_line() {
        return asked;
    }
    let threads = u64::from(asked.workgroups[0]) * u64::from(asked.threads[0]);
    // An element a thread as long as a workgroup for each compute unit is enough for that.
    let singly = threads.div_ceil(u64::from(THREADS));
    let spread = threads.div_ceil(u64::from(THREADS * elements));
    let vectors = match elements {
        4.. => threads * row.element_bytes / 16,
        _ => 0,
    };
    let workgroups = if singly <= u64::from(gpu.compute_units) {
        singly
    } else if vectors == 0 || row.strided {
        let of_few = vectors.div_ceil(u64::from(THREADS * VECTORS_PER_THREAD));
        spread.min(gpu.most().max(of_few))
    } else {
        of_vectors(vectors, spread, gpu)
    };
    Grid::line(workgroups.min(MOST_OF_LINE), THREADS)
}

/// Workgroups that take so many vectors, of which `spread` would take a few elements a thread.
fn of_vectors(vectors: u64, spread: u64, gpu: Gpu) -> u64 {
    let of_one = vectors.div_ceil(THREADS.into());
    let resident = gpu.resident();
    if of_one <= resident {
        return of_one.max(spread.min(2 * u64::from(gpu.compute_units)));
    }
    // A strip of two for each thread, or as many strips as there are for the workgroups that are there at once.
    let of_strip = of_one.div_ceil(2);
    if of_strip <= resident {
        return of_strip;
    }
    // Threads that have many vectors each drift apart, over more of memory than its pages serve well.
    let of_few = of_one.div_ceil(VECTORS_PER_THREAD.into());
    if of_few <= gpu.most() {
        resident
    } else {
        of_few
    }
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
    // Four vectors a thread, or four elements as long as few workgroups take them.
    let four = |loads: u64| (u64::from(count) * loads).div_ceil(4 * u64::from(THREADS));
    let of_elements = four(threads.into());
    let few = of_elements.min(2 * u64::from(gpu.compute_units));
    let of_vectors = four(row.loads());
    // Of very long launches those that end first are replaced.
    let most = match of_vectors < MANY_TURNS * gpu.resident() {
        true => gpu.resident(),
        false => gpu.most(),
    };
    Grid::line(of_vectors.max(few).min(of_elements).min(most), THREADS)
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
    let most = row.holders(held, most, limit);
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
            strided: false,
        }
    }

    #[test]
    fn elementwise_grids_cover_small_tensors_and_fill_the_gpu_with_four_vectors_a_thread() {
        let plan = |workgroups| {
            let heuristic = LaunchHeuristic::of("unary", "uexp_f32");
            heuristic.plan(asked(workgroups, 1024), row_of((0, 4)), GPU)
        };
        assert_eq!(plan(1), asked(4, 256));
        assert_eq!(plan(25), asked(100, 256));
        assert_eq!(plan(300), asked(300, 256));
        // Two vectors a thread, then those workgroups alone that are there at once.
        assert_eq!(plan(700), asked(350, 256));
        assert_eq!([plan(900), plan(6400)], [asked(400, 256); 2]);
        assert_eq!(plan(1 << 18), asked(1 << 16, 256));
        assert_eq!(plan(u32::MAX), asked(u32::MAX / 256, 256));
        // A tensor that is read an element at a time.
        let strided = Row {
            strided: true,
            ..row_of((0, 4))
        };
        let unary = LaunchHeuristic::of("unary", "uexp_f32");
        assert_eq!(
            unary.plan(asked(6400, 1024), strided, GPU),
            asked(1600, 256)
        );
        let copies = LaunchHeuristic::of("fill", "copy2d_f32");
        assert_eq!(
            copies.plan(asked(6400, 1024), row_of((0, 4)), GPU),
            asked(1600, 256)
        );
        // A cast to a type of half the size, which is as many vectors of what it reads.
        let cast = LaunchHeuristic::of("cast", "cast_f32_f16");
        assert_eq!(
            cast.plan(asked(160, 1024), row_of((0, 2)), GPU),
            asked(160, 256)
        );
        // Single elements.
        let gather = LaunchHeuristic::of("indexing", "gather_u32_f32");
        let grid = gather.plan(asked(1 << 18, 1024), row_of((0, 4)), GPU);
        assert_eq!(grid, asked(1600, 256));
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
                        ("fused_operators", "backward_rmsnorm_f16"),
                        ("unary", "usin_f16"),
                    ] {
                        let threads = match LaunchHeuristic::of(module, kernel) {
                            LaunchHeuristic::Rows { axis: 0, .. } => [1, 32, 1],
                            LaunchHeuristic::Rows { .. } => [32, 1, 1],
                            _ => [1024, 1, 1],
                        };
                        let asked = Grid {
                            workgroups: [count, 1, 1],
                            threads,
                        };
                        let grid = LaunchHeuristic::of(module, kernel).plan(asked, row, gpu);
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

    /// A module, a kernel, and the arguments whose product is the number of elements that it loops over, with their bytes.
    type Counted = (&'static str, &'static str, &'static [(usize, usize)]);

    const COUNTED: [Counted; 22] = [
        ("affine", "affine_f32", &[(0, 8)]),
        ("binary", "badd_f32", &[(0, 8)]),
        ("binary", "eq_u8", &[(0, 8)]),
        ("cast", "cast_u8_f32", &[(0, 8)]),
        ("fill", "const_set_u8", &[(0, 8)]),
        ("fill", "copy2d_u8", &[(2, 4), (3, 4)]),
        ("ternary", "where_u8_f32", &[(0, 8)]),
        ("unary", "uexp_f32", &[(0, 8)]),
        ("unary", "ucopy_u8", &[(0, 8)]),
        ("indexing", "is_u32_f32", &[(0, 8)]),
        ("indexing", "gather_u32_f32", &[(0, 8)]),
        ("indexing", "ia_u32_f32", &[(1, 8), (4, 8), (7, 8)]),
        ("indexing", "s_u32_f32", &[(3, 8), (4, 8), (6, 8)]),
        ("indexing", "sa_u32_f32", &[(3, 8), (4, 8), (6, 8)]),
        ("reduce", "fast_sum_small_f32", &[(0, 8)]),
        ("conv", "avg_pool2d_f32", &[]),
        ("conv", "max_pool2d_u8", &[]),
        ("conv", "conv1d_f32", &[]),
        ("conv", "conv2d_f32", &[]),
        ("conv", "im2col_f32", &[]),
        ("conv", "upsample_nearest2d_f32", &[]),
        ("conv", "upsample_bilinear2d_f32", &[]),
    ];

    /// The arguments of a launch whose count is made of these, the first of which has all but what others can hold.
    fn told_of(heuristic: LaunchHeuristic, parameters: &[(usize, usize)], count: u64) -> Told {
        let values = match parameters.len() {
            2 => vec![count / 1024, 1024],
            3 => vec![count / 1024, 32, 32],
            _ => vec![count],
        };
        heuristic.told(count, |parameter| {
            if heuristic.layout() == Some(parameter.number) {
                return 0;
            }
            let wanted = (parameter.number, parameter.bytes);
            let place = parameters.iter().position(|given| *given == wanted);
            values[place.unwrap_or_else(|| panic!("{parameter:?} says nothing of the count"))]
        })
    }

    /// The grid that Candle asks for.
    fn as_candle_asks(count: u64) -> Grid {
        asked((count as u32).div_ceil(1024), 1024)
    }

    #[test]
    fn grids_that_wrapped_around_are_made_from_the_count() {
        for (module, kernel, parameters) in COUNTED {
            let heuristic = LaunchHeuristic::of(module, kernel);
            for count in [1 << 32, (1 << 32) + 1024, 1 << 33] {
                let told = told_of(heuristic, parameters, count);
                let meant = heuristic.meant(as_candle_asks(count), told);
                let meant = meant.unwrap_or_else(|reason| panic!("{kernel}: {reason}"));
                let plan = heuristic.plan(meant, Row::default(), GPU);
                assert_eq!(plan, asked(1600, 256), "{kernel}, {count} elements");
            }
            // What did not wrap around is launched as asked; nothing is made of nothing.
            for count in [0, 1024, (1 << 32) - 1024] {
                let grid = as_candle_asks(count);
                let told = told_of(heuristic, parameters, count);
                // Updates by index share elements among more threads than Candle asks for.
                let shares = parameters.len() == 3 && count > 0;
                let meant = match shares {
                    true => asked((count / u64::from(THREADS)) as u32, THREADS),
                    false => grid,
                };
                assert_eq!(heuristic.meant(grid, told), Ok(meant), "{kernel}, {count}");
            }
        }
        // An empty grid that no conversion made.
        for (kernel, count, expected) in [("uexp_f32", 5000, (5, 1024)), ("uexp_f32", 0, (0, 1024))]
        {
            let heuristic = LaunchHeuristic::of("unary", kernel);
            let meant = heuristic.meant(asked(0, 1024), told_of(heuristic, &[(0, 8)], count));
            assert_eq!(meant, Ok(asked(expected.0, expected.1)));
        }
    }

    #[test]
    fn outputs_are_counted_in_64_bits_and_their_elements_in_32() {
        let heuristic = LaunchHeuristic::of("reduce", "fast_max_f32");
        let meant = |outputs: u64, of_each: u64| {
            let threads = of_each.min(1024).next_power_of_two() as u32;
            let told = heuristic.told(0, |parameter| match (parameter.number, parameter.bytes) {
                (0, 8) => outputs * of_each,
                (1, 8) => of_each,
                _ => panic!("{parameter:?}"),
            });
            let grid = heuristic.meant(asked(outputs as u32, threads), told)?;
            Ok::<_, String>(heuristic.plan(grid, row_of((of_each, 4)), GPU))
        };
        for outputs in [1 << 32, (1 << 32) + 1024, 1 << 33] {
            for of_each in [1, 2, 64, 1000] {
                assert_eq!(
                    meant(outputs, of_each),
                    Ok(asked(1600, 256)),
                    "{outputs} {of_each}"
                );
            }
        }
        // 1024 work-items for each of 5,000,000 are more than 32 bits count, and fewer are launched.
        assert_eq!(meant(5_000_000, 1024), Ok(asked(1600, 256)));
        assert_eq!(meant(0, 0), Ok(asked(0, 1)));
        for of_each in [1 << 32, (1 << 32) + 1024, 1 << 33] {
            let reason = meant(2, of_each).unwrap_err();
            assert!(reason.contains(&of_each.to_string()), "{reason}");
        }
        assert!(meant(2, (1 << 32) - 1).is_ok());
    }

    #[test]
    fn what_no_grid_can_be_made_of_is_refused_with_the_count() {
        let refused = |module, kernel, grid: Grid, longest: u64, value: u64| {
            let heuristic = LaunchHeuristic::of(module, kernel);
            heuristic
                .meant(grid, heuristic.told(longest, |_| value))
                .err()
        };
        let four = 1u64 << 32;
        // Rows of 64 whose number wrapped around.
        for rows in [four, four + 1024] {
            let reason = refused(
                "reduce",
                "softmax_f32",
                asked(rows as u32, 32),
                64 * rows,
                64,
            );
            assert!(reason.unwrap().contains(&rows.to_string()));
            let reason = refused(
                "sort",
                "asort_asc_f32",
                asked(rows as u32, 64),
                64 * rows,
                64,
            );
            assert!(reason.unwrap().contains(&(64 * rows).to_string()));
        }
        assert_eq!(
            refused("reduce", "softmax_f32", asked(1 << 26, 32), four, 64),
            None
        );
        assert_eq!(
            refused("sort", "asort_asc_f32", asked(1 << 26, 64), four, 64),
            None
        );
        // Columns that wrapped around, as rows of 5 or as a negative number.
        for columns in [5, 1 << 31] {
            assert!(refused("sort", "asort_asc_f32", asked(1, 1024), four + 5, columns).is_some());
        }
        assert!(refused("sort", "asort_asc_f32", asked(1, 1024), 1 << 31, 1 << 31).is_some());
        // Rotary embeddings count in 32 bits themselves: 2^17 times 2^15, and two more of 1.
        let product = |kernel, values: [u64; 4]| {
            let heuristic = LaunchHeuristic::of("reduce", kernel);
            let told = heuristic.told(0, |parameter| values[parameter.number - 4]);
            heuristic.meant(asked(0, 1024), told).err()
        };
        for kernel in ["rope_f32", "rope_i_f32", "rope_thd_f32"] {
            let reason = product(kernel, [1 << 17, 1 << 15, 1, 1]).unwrap();
            assert!(reason.contains(&four.to_string()), "{kernel}: {reason}");
            assert_eq!(product(kernel, [1 << 16, 1 << 15, 1, 1]), None);
        }
    }

    #[test]
    fn workgroups_along_the_second_dimension_are_no_more_than_allowed() {
        let heuristic = LaunchHeuristic::of("quantized", "indexed_moe_forward_q4k_q8_1");
        let grid = |tokens| Grid {
            workgroups: [7, tokens, 2],
            threads: [32, 4, 1],
        };
        for (tokens, launched) in [
            (1, 1),
            (65_535, 65_535),
            (65_536, 65_535),
            (1 << 20, 65_535),
        ] {
            let plan = heuristic.plan(grid(tokens), Row::default(), GPU);
            assert_eq!(plan, grid(launched));
        }
    }

    #[test]
    fn grids_of_more_dimensions_stay() {
        let grid = Grid {
            workgroups: [3, 2, 1],
            threads: [64, 1, 1],
        };
        for heuristic in [
            loops(4, Count::Sizes(&[0])),
            LaunchHeuristic::of("sort", "asort_asc_f32"),
        ] {
            assert_eq!(heuristic.plan(grid, Row::default(), GPU), grid);
        }
        assert_eq!(
            LaunchHeuristic::of("radix_sort", "radix_rows_32"),
            LaunchHeuristic::AsAsked
        );
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
                    let heuristic = rows_of(axis, 2, 8, 1, 1024);
                    let grid = heuristic.plan(asked, row_of(row), GPU);
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
            let heuristic = rows_of(0, 2, 8, 1, 1024);
            let grid = heuristic.plan(asked, row_of(row), GPU);
            (grid.workgroups[0], grid.threads)
        };
        assert_eq!(plan(1 << 20, (64, 2)), (1 << 15, [32, 8, 1]));
        // Few: short rows share workgroups, long ones have large ones.
        assert_eq!(plan(1024, (64, 4)), (128, [8, 16, 1]));
        assert_eq!(plan(1024, (1024, 4)), (1024, [1, 256, 1]));
        assert_eq!(plan(1, (4096, 4)), (1, [1, 1024, 1]));
        assert_eq!(plan(1, (8, 4)), (1, [1, 64, 1]));
        // Many: as many threads as hold the row exactly, or up to 512, or 1024 where it is read by elements.
        assert_eq!(plan(1 << 20, (8192, 2)).1, [32, 8, 1]);
        assert_eq!(plan(1 << 20, (16_384, 2)).1, [32, 8, 1]);
        assert_eq!(plan(1 << 20, (12_000, 2)).1, [32, 16, 1]);
        assert_eq!(plan(1 << 20, (16_383, 2)).1, [32, 32, 1]);
        assert_eq!(plan(1 << 20, (32_768, 2)).1, [32, 16, 1]);
        assert_eq!(plan(1 << 20, (65_536, 2)).1, [32, 32, 1]);
        assert_eq!(plan(1 << 20, (32_776, 2)).1, [32, 16, 1]);
        // Rows that 16 bytes do not divide are read by elements.
        assert_eq!(plan(1024, (63, 4)), (256, [4, 64, 1]));
    }

    #[test]
    fn outputs_share_workgroups() {
        let plan = |count, threads, elements| {
            let heuristic = LaunchHeuristic::of("reduce", "fast_max_f32");
            heuristic.plan(asked(count, threads), row_of((elements, 4)), GPU)
        };
        // Those that are there at once; four vectors a thread, but two workgroups for each compute unit.
        assert_eq!(plan(1 << 17, 64, 64), asked(400, 256));
        assert_eq!(plan(1024, 1024, 1024), asked(256, 256));
        assert_eq!(plan(512, 1024, 1024), asked(200, 256));
        assert_eq!(plan(150, 1024, 1024), asked(150, 256));
        // Few and long; and none that have elements.
        assert_eq!(plan(3, 1024, 1 << 20), asked(3, 1024));
        assert_eq!(plan(3, 1024, 8192), asked(3, 512));
        assert_eq!(plan(3, 1024, 16384), asked(3, 512));
        assert_eq!(plan(3, 1024, 1000), asked(3, 256));
        assert_eq!(plan(1 << 17, 1, 1), asked(1 << 17, 1));
    }
}
