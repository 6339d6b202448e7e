//! Rows are sorted by the kernels of module `radix_sort`, also where Candle launches its own, [`RadixSort`] by name.
//!
//! The kernels know elements by their bits: `<BITS>` below is 8, 16, 32 or 64, and [`SortedDtype`] says what the bits are.
//! Rows of at most `short_columns` elements take one launch of `radix_rows_<BITS>`, few of them of `radix_rank_<BITS>`,
//! which compares each element with each other one ([`RankedRows`]). Longer ones take, for each digit of
//! [`DIGIT_BITS`] bits from the lowest on, a launch of `radix_count_<BITS>`, which counts each tile's elements of each digit,
//! of [`SCAN_TILES`], of [`SCAN_CHUNKS`] where a row has several chunks of tiles, and of `radix_move_<BITS>`, which moves
//! keys and columns to where they belong. All sorts are stable.
//!
//! The first elements in order of a long row take, for each digit from the highest on, a launch of `radix_select_<BITS>`,
//! which finds the next digit of the last one's key; a launch of `radix_take_<BITS>`, which collects them; and a sort of
//! what was collected.

use crate::dtypes::{self, Kind};
use crate::scan;

/// Bits of a digit.
pub const DIGIT_BITS: u32 = 8;
/// Values of a digit.
const DIGITS: u64 = 1 << DIGIT_BITS;
/// Elements of a tile, which a workgroup of [`THREADS`] counts or moves.
pub const TILE: u32 = 4096;
/// Tiles of a chunk, whose counts one workgroup scans.
pub const CHUNK: u32 = 64;
/// Work-items of the workgroups of all kernels but `radix_rows_<BITS>`, which has as many at most where wavefronts have
/// rows of their own.
pub const THREADS: u32 = 256;
/// Work-items of a workgroup that sorts a short row, at most.
pub const MOST_THREADS: u32 = 512;
/// Elements of a short row that a work-item sorts at most.
const MOST_ITEMS: u32 = 16;
/// Elements that are as many as a wavefront should sort.
const OF_WAVEFRONT: u32 = 512;
/// LDS bytes of a wavefront's counters, and of a row's sums.
const COUNTER_BYTES: u32 = 512;
const SUM_BYTES: u32 = 64;
/// Bytes of a column's number, and of a count.
pub const INDEX_BYTES: u64 = 4;
/// Elements that are sorted together at most, unless one row has more: what is beyond fills no GPU better, and takes memory.
const TOGETHER: u64 = 1 << 24;

/// Scans tiles' counts: arguments counts, starts, columns (u32). A workgroup for each chunk of a row's tiles.
pub const SCAN_TILES: &str = "radix_scan_tiles";
/// Scans chunks' counts: arguments starts, chunks of a row (u32). A workgroup for each row.
pub const SCAN_CHUNKS: &str = "radix_scan_chunks";

/// What the kernels are told of a dtype, and the kernels of its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortedDtype {
    /// Bits of an element.
    pub bits: u32,
    /// The bits of infinity, or of the largest number where there is none; 0 of integers.
    pub infinity: u64,
    /// What elements are, and whether the largest come first: `SORT_*` of kernels/sort/keys.cuh.
    pub order: u32,
    /// Sorts short rows: elements, numbers of the columns or null, columns written, elements written, rows (u32), columns (u32), columns kept (u32),
    /// work-items of a row (u32), infinity (u64), order (u32).
    pub rows: &'static str,
    /// Ranks the elements of few short rows: elements, numbers of the columns or null, columns written, elements written,
    /// columns (u32), columns kept (u32), workgroups of a row (u32), order (u32), infinity (u64).
    pub rank: &'static str,
    /// Counts a tile's digits: elements or keys, counts, columns (u32), shift (u32), infinity (u64), order (u32).
    pub count: &'static str,
    /// Moves a tile: elements or keys, their columns, keys written, columns written, elements written, elements, counts,
    /// starts, columns (u32), columns kept (u32), infinity (u64), shift (u32), order of what is read (u32), order (u32).
    pub moved: &'static str,
    /// Finds a digit of the last selected key: elements, selections, columns (u32), columns kept (u32), workgroups of a
    /// row (u32), shift (u32), infinity (u64), order (u32).
    pub select: &'static str,
    /// Collects what was selected: elements, selections, words, elements written, columns written, columns (u32), columns
    /// kept (u32), tiles of a group (u32), order (u32), infinity (u64).
    pub take: &'static str,
}

/// Kernels by the bits of an element: rows, rank, count, move, select, take.
const KERNELS: [(u32, [&str; 6]); 4] = {
    macro_rules! kernels {
        ($($bits:literal)*) => {
            [$((
                $bits,
                [
                    concat!("radix_rows_", $bits),
                    concat!("radix_rank_", $bits),
                    concat!("radix_count_", $bits),
                    concat!("radix_move_", $bits),
                    concat!("radix_select_", $bits),
                    concat!("radix_take_", $bits),
                ],
            )),*]
        };
    }
    kernels!(8 16 32 64)
};

/// Bytes of what is known of a row while its first elements are selected.
const SELECTION_BYTES: u64 = 16 + DIGITS * INDEX_BYTES;
/// Elements that a workgroup reads at once while it counts them.
const READ_AT_ONCE: u64 = 8 * THREADS as u64;
/// Workgroups for a compute unit that count a row's elements together.
const COUNTING_WORKGROUPS: u64 = 8;

/// The order of keys themselves: unsigned integers.
pub const ORDER_OF_KEYS: u32 = 0;
const SIGNED: u32 = 1;
const FLOATS: u32 = 2;
const DESCENDING: u32 = 4;

impl SortedDtype {
    /// That of a dtype by its name, such as `bf16`.
    pub fn of(dtype: &str, ascending: bool) -> Option<Self> {
        let found = dtypes::find(dtype)?;
        let bits = 8 * found.bytes as u32;
        let (_, [rows, rank, count, moved, select, take]) =
            *KERNELS.iter().find(|(of, _)| *of == bits)?;
        let (kind, infinity) = match (found.kind, dtype) {
            (Kind::Integer, _) if dtype.starts_with('u') => (0, 0),
            (Kind::Integer, _) => (SIGNED, 0),
            (_, "f8e4m3") => (FLOATS, 0x7e),
            (_, "f16") => (FLOATS, 0x7c00),
            (_, "bf16") => (FLOATS, 0x7f80),
            (_, "f32") => (FLOATS, 0x7f80_0000),
            (_, "f64") => (FLOATS, 0x7ff0_0000_0000_0000),
            _ => return None,
        };
        Some(Self {
            bits,
            infinity,
            order: kind | if ascending { 0 } else { DESCENDING },
            rows,
            rank,
            count,
            moved,
            select,
            take,
        })
    }

    /// Bytes of an element.
    pub fn bytes(&self) -> u64 {
        u64::from(self.bits / 8)
    }

    /// The shifts of the digits, from the lowest on.
    pub fn shifts(&self) -> impl Iterator<Item = u32> {
        (0..self.bits).step_by(DIGIT_BITS as usize)
    }

    /// Columns of a row that a workgroup sorts in LDS at most.
    pub fn short_columns(&self) -> u32 {
        match self.bits {
            8 | 16 => 8192,
            _ => 4096,
        }
    }

    /// Whether so few of a row's elements are wanted that they are selected first.
    pub fn selects(&self, columns: u64, kept: u64) -> bool {
        kept <= self.short_columns().into() && 2 * kept <= columns
    }

    /// [`SortedDtype::selects`] of rows that fit a workgroup, each of which would be sorted whole by one: where so many elements
    /// outweigh the launches. On an H200 the 50 first of 4,096 rows of 4,096 f32 took 233 us for 539, of 256 rows 111 for 34, of
    /// 32,768 rows of 1,024 1,263 for 1,121.
    pub fn selects_of_short(&self, rows: u32, columns: u64, kept: u64) -> bool {
        const LEAST_COLUMNS: u64 = 2048;
        const LEAST_ELEMENTS: u64 = 4 << 20;
        columns >= LEAST_COLUMNS
            && u64::from(rows) * columns >= LEAST_ELEMENTS
            && self.selects(columns, kept)
    }

    /// LDS bytes of a short row that so many work-items sort.
    pub fn row_lds_bytes(&self, columns: u32, threads: u32, wavefront: u32) -> u32 {
        let keys = (columns * self.bits / 8).next_multiple_of(8);
        keys + (2 * columns).next_multiple_of(8) + threads / wavefront * COUNTER_BYTES + SUM_BYTES
    }
}

/// How short rows are launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortRows {
    /// Work-items that sort a row.
    pub threads: u32,
    /// Rows that a workgroup sorts at once.
    pub together: u32,
    /// LDS bytes of a workgroup.
    pub lds_bytes: u32,
}

impl ShortRows {
    /// That of rows of so many columns, no more than [`SortedDtype::short_columns`], on wavefronts of so many lanes: a
    /// wavefront for each row that is short enough for one.
    pub fn of(dtype: &SortedDtype, columns: u32, wavefront: u32) -> Self {
        let waves = columns.div_ceil(OF_WAVEFRONT).next_power_of_two();
        let threads = (waves * wavefront).min(MOST_THREADS);
        debug_assert!(columns <= threads * MOST_ITEMS);
        let together = match waves {
            1 => THREADS / wavefront,
            _ => 1,
        };
        Self {
            threads,
            together,
            lds_bytes: together * dtype.row_lds_bytes(columns, threads, wavefront),
        }
    }
}

/// How few short rows are launched, whose elements are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankedRows {
    /// Work-items of a workgroup, each of which ranks an element.
    pub threads: u32,
    /// Workgroups that share a row.
    pub parts: u32,
    /// LDS bytes of a workgroup.
    pub lds_bytes: u32,
}

impl RankedRows {
    /// Comparisons for a compute unit beyond which a sort by digits is faster: some 7 us, where a radix sort's passes take
    /// 20 to 30 however few rows there are (`compare --filter '^argsort'` on an H200).
    const MOST_COMPARISONS: u64 = 1 << 19;
    /// Workgroups for a compute unit beyond which rows fill the GPU by themselves.
    const MOST_WORKGROUPS: u64 = 8;
    /// Work-items of a workgroup.
    const THREADS: u32 = 128;
    /// The keys in LDS are as many as a multiple of this, which every size of keys is read by.
    const PADDED: u32 = 32;

    /// That of so many rows of so many columns, no more than [`SortedDtype::short_columns`], on so many compute units;
    /// `None` where there are too many to compare each with each.
    pub fn of(dtype: &SortedDtype, rows: u32, columns: u32, compute_units: u32) -> Option<Self> {
        let (units, of_rows, of_row) = (
            u64::from(compute_units.max(1)),
            u64::from(rows),
            u64::from(columns),
        );
        let parts = columns.div_ceil(Self::THREADS).max(1);
        let is_few = of_rows * of_row * of_row <= units * Self::MOST_COMPARISONS
            && of_rows * u64::from(parts) <= units * Self::MOST_WORKGROUPS;
        is_few.then(|| Self {
            threads: Self::THREADS,
            parts,
            lds_bytes: columns.next_multiple_of(Self::PADDED) * dtype.bits / 8,
        })
    }
}

/// Tiles of a row.
pub fn tiles(columns: u32) -> u32 {
    columns.div_ceil(TILE)
}

/// Chunks of a row's tiles.
pub fn chunks(columns: u32) -> u32 {
    tiles(columns).div_ceil(CHUNK)
}

/// Bytes of the counts of so many tiles, or of the starts of so many chunks.
pub fn counts_bytes(tiles: u64) -> u64 {
    tiles * DIGITS * INDEX_BYTES
}

/// What kernels that select are told, of rows of so many columns on so many compute units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selecting {
    /// Workgroups that count a row's elements together.
    pub parts: u32,
    /// Tiles of a group, whose numbers the workgroups of a launch leave each other.
    pub of_group: u32,
    /// Bytes of the rows' selections, and of the words behind them: all are 0 before the first launch.
    pub selection_bytes: u64,
    /// Bytes of both.
    pub zero_bytes: u64,
}

impl Selecting {
    /// That of so many rows.
    pub fn of(rows: u32, columns: u32, compute_units: u32) -> Self {
        let (rows, tiles) = (u64::from(rows), u64::from(tiles(columns)));
        let wanted = (u64::from(compute_units) * COUNTING_WORKGROUPS).div_ceil(rows.max(1));
        let most = u64::from(columns).div_ceil(READ_AT_ONCE);
        let selection_bytes = rows * SELECTION_BYTES;
        Self {
            parts: wanted.clamp(1, most.max(1)) as u32,
            of_group: scan::group(tiles) as u32,
            selection_bytes,
            zero_bytes: selection_bytes + scan::word_bytes(rows, tiles, 2),
        }
    }
}

/// Rows that are sorted together, of so many.
pub fn rows_together(rows: u32, columns: u32) -> u32 {
    let together = (TOGETHER / u64::from(columns.max(1))).max(1);
    together.min(rows.into()) as u32
}

/// What replaces a kernel of Candle's: a sort of its dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RadixSort {
    /// The dtype and the direction.
    pub dtype: SortedDtype,
}

impl RadixSort {
    /// That of a kernel of an embedded module, both by name; `None` for kernels that are never replaced.
    pub fn of(module: &str, kernel: &str) -> Option<Self> {
        let order = kernel.strip_prefix("asort_").filter(|_| module == "sort")?;
        let (order, dtype) = order.split_once('_')?;
        let ascending = match order {
            "asc" => true,
            "desc" => false,
            _ => return None,
        };
        SortedDtype::of(dtype, ascending).map(|dtype| Self { dtype })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_of_candle_is_sorted_both_ways() {
        for dtype in dtypes::ALL {
            for (order, flag) in [("asc", 0), ("desc", DESCENDING)] {
                let kernel = format!("asort_{order}_{}", dtype.name);
                let sort = RadixSort::of("sort", &kernel).expect(&kernel).dtype;
                assert_eq!(sort.bytes(), dtype.bytes, "{kernel}");
                assert_eq!(sort.order & DESCENDING, flag, "{kernel}");
                assert_eq!(sort.shifts().count() as u64, dtype.bytes, "{kernel}");
                assert_eq!(sort.infinity != 0, dtype.kind != Kind::Integer, "{kernel}");
            }
        }
        let order = |dtype| SortedDtype::of(dtype, true).map(|dtype| dtype.order);
        assert_eq!(
            ["u8", "i64", "f16"].map(order),
            [Some(ORDER_OF_KEYS), Some(SIGNED), Some(FLOATS)]
        );
        for kernel in [
            "asort_keys_f32",
            "asort_up_f32",
            "asort_asc_f33",
            "softmax_f32",
        ] {
            assert_eq!(RadixSort::of("sort", kernel), None);
        }
        assert_eq!(RadixSort::of("elsewhere", "asort_asc_u8"), None);
    }

    /// What every launch may have in LDS, NVIDIA's GPUs without asking for more.
    #[test]
    fn short_rows_fit_a_workgroup() {
        for dtype in dtypes::ALL {
            let sort = SortedDtype::of(dtype.name, true).unwrap();
            for wavefront in [32, 64] {
                let of = |columns| ShortRows::of(&sort, columns, wavefront);
                for columns in 1..=sort.short_columns() {
                    let rows = of(columns);
                    assert!(rows.lds_bytes <= 48 << 10, "{}: {columns}", dtype.name);
                    assert!(columns <= rows.threads * MOST_ITEMS);
                    assert!(rows.threads * rows.together <= MOST_THREADS);
                    assert!(rows.together == 1 || rows.threads == wavefront);
                }
                assert_eq!(of(1).together, 256 / wavefront);
                assert_eq!(of(512).threads, wavefront);
                assert_eq!(of(513).threads, 2 * wavefront);
            }
        }
    }

    #[test]
    fn few_short_rows_are_ranked() {
        let sort = SortedDtype::of("f64", true).unwrap();
        let of = |rows, columns| RankedRows::of(&sort, rows, columns, 132);
        let parts = |rows, columns| of(rows, columns).map(|plan| plan.parts);
        assert_eq!([parts(1, 1), parts(64, 1024)], [Some(1), Some(8)]);
        assert_eq!([parts(1056, 100), parts(1057, 100)], [Some(1), None]);
        assert_eq!([parts(4, 4096), parts(5, 4096)], [Some(32), None]);
        assert_eq!(of(1, 4096).map(|plan| plan.lds_bytes), Some(32 << 10));
        assert_eq!(of(1, 33).map(|plan| plan.lds_bytes), Some(64 * 8));
    }

    #[test]
    fn long_rows_are_cut_into_tiles_and_chunks() {
        assert_eq!([4097, 8192, 262_144, 262_145].map(tiles), [2, 2, 64, 65]);
        assert_eq!([4097, 8192, 262_144, 262_145].map(chunks), [1, 1, 1, 2]);
        assert_eq!(counts_bytes(3), 3 << 10);
        assert_eq!(rows_together(100, 1 << 30), 1);
        assert_eq!(rows_together(100, 1 << 20), 16);
        assert_eq!(rows_together(3, 1 << 16), 3);
    }

    #[test]
    fn few_elements_are_selected_by_workgroups_that_fill_the_gpu() {
        let sort = SortedDtype::of("f32", false).unwrap();
        assert!(
            sort.selects(8192, 4096) && !sort.selects(8191, 4096) && !sort.selects(1 << 20, 4097)
        );
        assert!(sort.selects_of_short(1024, 4096, 50) && !sort.selects_of_short(1024, 4096, 4096));
        assert!(
            !sort.selects_of_short(1023, 4096, 50) && !sort.selects_of_short(1 << 20, 1024, 50)
        );
        let of = |rows, columns| Selecting::of(rows, columns, 100);
        assert_eq!(of(1, 1 << 24).parts, 800);
        assert_eq!(of(1, 1 << 15).parts, 16);
        assert_eq!(of(1000, 1 << 24).parts, 1);
        // A selection of 1,040 bytes; three tiles of two words of 8 bytes.
        assert_eq!(of(2, 8193).selection_bytes, 2 * 1040);
        assert_eq!(of(2, 8193).zero_bytes, 2 * (1040 + 3 * 16));
    }
}
