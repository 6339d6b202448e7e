//! Few long rows: two kernels instead of one, so that several workgroups share each row.
//!
//! A workgroup for each row would leave most of the GPU idle. The kernels that `kernels/norms/split_kernels.cuh` lists can be
//! replaced by a pair of another module or their own, on grids of (splits, rows) workgroups of [`THREADS`]: those of the first leave what each found in
//! its split of a row, those of the second combine what all splits of their row found, and write their own split. Of a
//! reduction a row is what one output is made of, and the second kernel writes the output.

use rocm_gpus::costs;

use crate::launch_heuristics::{untyped, Row, MAX_GRID_YZ};
use crate::numbers;
use crate::split::Split;
use crate::Module;

/// Work-items of a workgroup of either kernel.
pub const THREADS: u32 = 256;

/// Outputs that a workgroup of the first kernel makes splits of at once.
const COLUMNS: u32 = 1 << numbers::long_fold::MOST_COLUMNS;

/// How the bytes of a row are divided.
const BYTES: Split = Split {
    step: costs::PART_OF_ROW.value as u64,
    least_steps: 1,
    most: u32::MAX as u64,
};

/// How a kernel of rows is replaced.
#[derive(Clone, Copy, Debug)]
pub struct SplitRows {
    /// Which of the kernel's arguments are pointers that both kernels of the pair read or write in vectors, if all are at
    /// multiples of 16 bytes.
    pub pointers: &'static [usize],
    /// What a split leaves for the second kernel: so many numbers of 8 bytes for rows of such elements, of 4 for
    /// others.
    pub numbers: u32,
    /// Whether the second kernel reads no more than what the splits left.
    pub reads_once: bool,
    /// The module of the pair.
    pub module: &'static Module,
    /// The pair.
    pub kernels: [SplitKernel; 2],
}

/// A kernel of the pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitKernel {
    /// Its name without the dtype.
    pub prefix: &'static str,
    /// Its arguments, in order.
    pub arguments: &'static [SplitArgument],
}

/// An argument of a kernel of the pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitArgument {
    /// That of this number of the replaced kernel.
    Given(usize),
    /// A pointer to what the splits leave.
    Partial,
    /// The number of a row's splits, u32.
    Splits,
    /// u32, 1 where rows and pointers allow vectors of 16 bytes, else 0: both kernels must cut rows alike.
    Wide,
    /// A factor of the logits that changes nothing, f64.
    One,
    /// A null pointer.
    Null,
}

/// (module, the kernel's name without types, how it is replaced): the list of kernels/norms/split_kernels.cuh.
const SPLITS: &[(&str, &str, SplitRows)] = include!(concat!(env!("OUT_DIR"), "/split_rows.rs"));

impl SplitRows {
    /// That of a kernel of an embedded module, both by name; `None` for kernels that are never replaced.
    pub fn of(module: &str, kernel: &str) -> Option<Self> {
        let wanted = (module, untyped(kernel));
        let found = SPLITS.iter().find(|(of, name, _)| (*of, *name) == wanted);
        found.map(|(_, _, split)| *split)
    }

    /// The names of the pair, in its module, for the replaced kernel of this name.
    pub fn names(&self, kernel: &str) -> [String; 2] {
        let dtype = kernel.rsplit('_').next().unwrap_or_default();
        self.kernels.map(|of| format!("{}_{dtype}", of.prefix))
    }

    /// Bytes of what all splits leave.
    pub fn partial_bytes(&self, rows: u32, splits: u32, row: Row) -> u64 {
        let number = if row.element_bytes == 8 { 8 } else { 4 };
        u64::from(self.numbers) * number * u64::from(rows) * u64::from(splits)
    }
}

/// How many workgroups should share each of so many rows, if the pair should replace the kernel.
///
/// Rows of [`costs::LONG_ROW`] and more, at most one for two compute units, are cut into as many splits as give each compute
/// unit its workgroups, but of no less than [`costs::PART_OF_ROW`]. On an NVIDIA H200 shorter rows take as long or longer in
/// splits, as do more rows, if they are read twice. Of those that are read once [`costs::MANY_LONG_ROWS`] of any number are
/// shared, since these may be columns, of which a workgroup then takes 32 instead of as few as leave work for all.
pub fn splits(rows: u32, row: Row, compute_units: u32, reads_once: bool) -> Option<u32> {
    let bytes = row.elements * row.element_bytes;
    let units = compute_units.max(1);
    if bytes < costs::LONG_ROW.value as u64 || rows == 0 {
        return None;
    }
    let of_unit = match reads_once {
        true => costs::WORKGROUPS_OF_ROWS_READ_ONCE,
        false => costs::WORKGROUPS_OF_ROWS_READ_TWICE,
    };
    let wanted = (units * of_unit.value as u32).div_ceil(rows);
    if rows <= units / 2 {
        let splits = u64::from(wanted).min(BYTES.most(bytes));
        return (splits > 1).then_some(splits as u32);
    }
    let is_worth_it = bytes * u64::from(rows) >= costs::MANY_LONG_ROWS.value as u64;
    (reads_once && rows <= MAX_GRID_YZ && is_worth_it).then_some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch_heuristics::{Grid, LaunchHeuristic};

    #[test]
    fn few_long_rows_are_cut() {
        let of = |rows, elements, element_bytes, compute_units| {
            let row = Row {
                elements,
                element_bytes,
                strided: false,
            };
            splits(rows, row, compute_units, false)
        };
        // As many as two for each compute unit, or as there are 16 KiB.
        assert_eq!(of(1, 100_003, 4, 96), Some(24));
        assert_eq!(of(1, 1 << 30, 4, 96), Some(192));
        assert_eq!(of(3, 1 << 20, 8, 96), Some(64));
        assert_eq!(of(48, 1 << 20, 4, 96), Some(4));
        // Short, many, none; a GPU of one compute unit.
        assert_eq!(of(1, 32_767, 4, 96), None);
        assert_eq!(of(1, 65_536, 2, 96), Some(8));
        assert_eq!(of(49, 1 << 20, 4, 96), None);
        assert_eq!(of(0, 1 << 20, 4, 96), None);
        assert_eq!(of(1, 1 << 20, 4, 1), None);
        assert_eq!(of(1, 1 << 20, 4, 0), None);
    }

    #[test]
    fn many_rows_that_are_read_once_are_shared() {
        let of = |rows, elements| {
            let row = Row {
                elements,
                element_bytes: 4,
                strided: false,
            };
            splits(rows, row, 96, true)
        };
        assert_eq!(of(1, 1 << 25), Some(768));
        assert_eq!(of(1024, 1 << 15), Some(1));
        assert_eq!(of(100, 1 << 18), Some(8));
        // Short rows, little memory, more rows than a grid has in y.
        assert_eq!(of(1024, 32_767), None);
        assert_eq!(of(49, 1 << 15), None);
        assert_eq!(of(65_536, 1 << 15), None);
    }

    #[test]
    fn what_is_replaced_is_launched_with_a_workgroup_for_a_row() {
        for (module, name, split) in SPLITS {
            let kernel = format!("{name}_bf16");
            let heuristic = LaunchHeuristic::of(module, &kernel);
            let threads = match heuristic {
                LaunchHeuristic::Rows { axis: 0, .. } => [1, 32, 1],
                _ => [32, 1, 1],
            };
            let asked = Grid {
                workgroups: [5, 1, 1],
                threads,
            };
            assert_eq!(heuristic.rows(asked), Some(5), "{kernel}");
            assert_eq!(
                SplitRows::of(module, &kernel).map(|of| of.kernels),
                Some(split.kernels)
            );
            for name in split.names(&kernel) {
                assert_eq!(
                    LaunchHeuristic::of(split.module.name(), &name),
                    LaunchHeuristic::AsAsked
                );
                assert!(SplitRows::of(split.module.name(), &name).is_none());
                assert!(name.ends_with("_bf16") && name.starts_with("long_"));
            }
        }
        assert!(SplitRows::of("reduce", "fast_sum_small_f32").is_none());
        assert!(SplitRows::of("elsewhere", "softmax_f32").is_none());
    }
}
