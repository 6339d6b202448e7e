//! Rows that do not fit LDS are sorted in memory, by kernels of module `sort` other than those that Candle launches.
//!
//! `asort_keys_*` makes a key of 64 bits of each element; [`RUNS`] sorts runs of [`RUN`] keys with their columns; [`MERGE`]
//! makes runs twice as long, until one is the row. The last merge writes columns alone.

use crate::launch_heuristics::untyped;
use crate::numbers::sort;

/// Columns that a workgroup of [`RUNS`] sorts in LDS.
pub const RUN: u32 = sort::RUN;
/// Work-items of a workgroup of each of these kernels.
pub const THREADS: u32 = sort::RUN_THREADS;
/// Sorts runs: arguments keys, columns, rows (u32), columns of a row (u32).
pub const RUNS: &str = "asort_runs";
/// Merges runs: arguments keys, columns, keys and columns written, elements (u64), columns of a row (u32), run (u32).
pub const MERGE: &str = "asort_merge";

/// Bytes of a key.
pub const KEY_BYTES: u64 = 8;
/// Bytes of a column's number.
pub const INDEX_BYTES: u64 = 4;
/// Elements that are sorted together at most, unless one row has more. They fill a GPU, and what passes leave each other,
/// 20 bytes an element, stays in its last cache.
const TOGETHER: u64 = 1 << 20;

/// How a kernel that sorts rows in LDS is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongSort {
    /// The kernel that makes keys: arguments elements, keys, their number (u64), what each key is xored with (u64).
    pub keys: String,
    /// What each key is xored with.
    pub flip: u64,
}

impl LongSort {
    /// That of a kernel of an embedded module, both by name; `None` for kernels that are never replaced.
    pub fn of(module: &str, kernel: &str) -> Option<Self> {
        let (_, dtype) = kernel.rsplit_once('_')?;
        let flip = match (module, untyped(kernel)) {
            ("sort", "asort_asc") => 0,
            ("sort", "asort_desc") => u64::MAX,
            _ => return None,
        };
        Some(Self {
            keys: format!("asort_keys_{dtype}"),
            flip,
        })
    }

    /// The kernels that replace it, in order.
    pub fn kernels(&self) -> [&str; 3] {
        [&self.keys, RUNS, MERGE]
    }
}

/// Whether a row of so many columns, padded to a power of two, has more indices than fit so many bytes of LDS.
pub fn is_long(columns: u64, lds_bytes: u64) -> bool {
    columns.next_power_of_two() * INDEX_BYTES > lds_bytes
}

/// The lengths of the runs that are merged, in order.
pub fn merges(columns: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(RUN), |run| run.checked_mul(2)).take_while(move |run| *run < columns)
}

/// Rows that are sorted together, of so many.
pub fn rows_together(rows: u32, columns: u32) -> u32 {
    let together = (TOGETHER / u64::from(columns.max(1))).max(1);
    together.min(rows.into()) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_found_by_name() {
        let of = |kernel| LongSort::of("sort", kernel);
        let sort = of("asort_desc_f8e4m3").unwrap();
        assert_eq!(sort.kernels(), ["asort_keys_f8e4m3", RUNS, MERGE]);
        assert_eq!(sort.flip, u64::MAX);
        assert_eq!(of("asort_asc_u8").unwrap().flip, 0);
        for kernel in ["asort_keys_f32", RUNS, MERGE, "softmax_f32"] {
            assert_eq!(of(kernel), None);
        }
        assert_eq!(LongSort::of("elsewhere", "asort_asc_u8"), None);
    }

    #[test]
    fn runs_double_until_one_is_the_row() {
        let of = |columns| merges(columns).collect::<Vec<_>>();
        assert_eq!(of(1024), []);
        assert_eq!(of(1025), [1024]);
        assert_eq!(of(16_385), [1024, 2048, 4096, 8192, 16_384]);
        assert_eq!(of(i32::MAX as u32).last(), Some(&(1 << 30)));
    }

    #[test]
    fn long_rows_are_those_that_do_not_fit() {
        let is_long = |columns| is_long(columns, 64 << 10);
        assert_eq!([16_384, 16_385, 1 << 30].map(is_long), [false, true, true]);
        assert_eq!(rows_together(100, 1 << 30), 1);
        assert_eq!(rows_together(100, 1 << 16), 16);
        assert_eq!(rows_together(3, 1 << 16), 3);
    }
}
