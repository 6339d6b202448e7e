//! How the kernels of module `cumsum` are launched: inclusive sums along a dimension of a contiguous tensor.
//!
//! The tensor is (outer, count, inner), summed along the middle. `cumsum_rows_<dtype>` takes those whose `inner` is 1,
//! `cumsum_columns_<dtype>` others. Where a sum takes several tiles, the workgroups of the launch leave each other theirs in
//! words that the launch finds to be 0.

use crate::dtypes::Dtype;

/// Work-items of a workgroup.
pub const THREADS: u32 = 256;
/// Flag of a launch: sums from the last element on.
pub const REVERSED: u32 = 1;
/// Flag of a launch: each row begins at a multiple of 16 bytes.
pub const WIDE: u32 = 2;

/// Bytes of a vector.
const VECTOR: u64 = 16;
/// Most lanes along the last dimension of a workgroup that sums columns.
const MOST_COLUMN_LANES: u64 = 32;
/// Wavefronts that a GPU shall have before one of them sums several rows at once.
const ENOUGH_WAVEFRONTS: u64 = 1 << 13;
/// Tiles of a group at least: as many sums as workgroups read at once.
const LEAST_GROUP: u64 = 8;
/// Bytes of a word of a sum's 32 bits.
const WORD: u64 = 8;
/// Workgroups of a launch: 2^32 work-items are more than a grid has.
const MOST_WORKGROUPS: u64 = (1 << 24) - 1;

/// A launch of either kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Workgroups.
    pub workgroups: u32,
    /// Work-items that sum a tile: a workgroup's, or a row: a wavefront's or a part of its lanes. Of columns, lanes side by
    /// side along the last dimension.
    pub threads: u32,
    /// Rows that they sum at once, where each is a tile; 1 of columns.
    pub together: u32,
    /// Tiles of a sum.
    pub tiles: u32,
    /// Workgroups side by side; 1 of rows.
    pub blocks: u32,
    /// Tiles of a group.
    pub of_group: u32,
    /// Bytes of the words, which are 0 before the launch.
    pub word_bytes: u64,
}

/// Elements of a vector.
fn width(dtype: Dtype) -> u64 {
    VECTOR / dtype.bytes
}

/// Vectors that a work-item holds of rows: `SCAN_VECTORS` of kernels/scan/sums.cuh.
fn vectors(dtype: Dtype) -> u64 {
    (64 / width(dtype)).min(8)
}

/// Rows of a strip's columns: `COLUMN_ROWS` of kernels/scan/sums.cuh.
fn column_rows(dtype: Dtype) -> u64 {
    if dtype.bytes == 2 {
        16
    } else {
        8
    }
}

/// Tiles of a group of so many: the fewer sums are read, the nearer both numbers are.
pub fn group(tiles: u64) -> u64 {
    tiles.isqrt().next_power_of_two().max(LEAST_GROUP)
}

/// Bytes of the words of so many scans of so many tiles, whose sums have 4 bytes (1) or 8 (2).
pub fn word_bytes(scans: u64, tiles: u64, halves: u64) -> u64 {
    scans * (tiles + tiles / group(tiles)) * halves * WORD
}

impl Scan {
    /// Of `rows` rows of `count` elements, on wavefronts of so many lanes; `None` of more than a grid has.
    pub fn rows(dtype: Dtype, rows: u64, count: u64, wavefront: u32) -> Option<Self> {
        let (width, vectors) = (width(dtype), vectors(dtype));
        let lanes = u64::from(wavefront);
        // Of rows that are a tile, so many are summed at once as a work-item holds and leave enough wavefronts.
        let together = |threads: u64, used: u64| {
            let wavefronts = (rows * threads).div_ceil(lanes);
            (wavefronts / ENOUGH_WAVEFRONTS).clamp(1, vectors / used)
        };
        if count > lanes * width * vectors {
            let threads = u64::from(THREADS);
            let tiles = count.div_ceil(threads * width * vectors);
            let together = match tiles {
                1 => together(threads, count.div_ceil(threads * width)),
                _ => 1,
            };
            let units = (rows * tiles).div_ceil(together);
            return Self::of(dtype, units, [THREADS, together as u32], tiles, 1, rows);
        }
        let threads = count.div_ceil(width).max(1).next_power_of_two().min(lanes);
        let together = together(threads, count.div_ceil(threads * width).max(1));
        let units = rows.div_ceil(u64::from(THREADS) / threads * together);
        Self::of(dtype, units, [threads as u32, together as u32], 1, 1, rows)
    }

    /// Of `outer` matrices of `count` rows of `inner` elements; `None` of more than a grid has.
    pub fn columns(dtype: Dtype, outer: u64, count: u64, inner: u64) -> Option<Self> {
        let width = width(dtype);
        let lanes = inner.div_ceil(width).max(1).next_power_of_two();
        let lanes = lanes.min(MOST_COLUMN_LANES);
        let tiles = count.div_ceil(u64::from(THREADS) / lanes * column_rows(dtype));
        let blocks = inner.div_ceil(lanes * width);
        let units = outer * tiles * blocks;
        Self::of(
            dtype,
            units,
            [lanes as u32, 1],
            tiles,
            blocks,
            outer * inner,
        )
    }

    fn of(
        dtype: Dtype,
        units: u64,
        [threads, together]: [u32; 2],
        tiles: u64,
        blocks: u64,
        scans: u64,
    ) -> Option<Self> {
        // Where workgroups wait for each other, each has one tile.
        if tiles > 1 && units > MOST_WORKGROUPS {
            return None;
        }
        let of_group = group(tiles);
        // Elements of 8 bytes are summed in as many, others in four.
        let halves = if dtype.bytes == 8 { 2 } else { 1 };
        Some(Self {
            workgroups: units.min(MOST_WORKGROUPS) as u32,
            threads,
            together,
            tiles: tiles.try_into().ok()?,
            blocks: blocks.try_into().ok()?,
            of_group: of_group as u32,
            word_bytes: match tiles {
                1 => 0,
                _ => word_bytes(scans, tiles, halves),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtypes;

    #[test]
    fn short_rows_are_a_wavefronts_and_long_ones_are_cut() {
        let of = |dtype: &str, rows, count, wavefront| {
            Scan::rows(dtypes::find(dtype).unwrap(), rows, count, wavefront).unwrap()
        };
        let scan = of("f32", 9, 1024, 32);
        assert_eq!((scan.threads, scan.tiles, scan.workgroups), (32, 1, 2));
        assert_eq!((scan.word_bytes, scan.blocks, scan.together), (0, 1, 1));
        let scan = of("f32", 9, 1025, 32);
        assert_eq!((scan.threads, scan.tiles, scan.workgroups), (256, 1, 9));
        assert_eq!(of("f32", 9, 2048, 64).threads, 64);
        let scan = of("f64", 2, 4097, 64);
        assert_eq!((scan.tiles, scan.workgroups, scan.of_group), (2, 4, 8));
        // Two halves of each of two rows' two tiles, which make no whole group.
        assert_eq!(scan.word_bytes, 8 * WORD);
        let scan = of("bf16", 1, 1 << 27, 32);
        assert_eq!((scan.tiles, scan.of_group), (1 << 13, 128));
        assert_eq!(scan.word_bytes, ((1 << 13) + 64) * WORD);
        assert!(Scan::rows(dtypes::ALL[0], 1 << 40, 1, 64).is_some());
        assert!(Scan::rows(dtypes::ALL[0], 1 << 40, 1 << 20, 64).is_none());
    }

    #[test]
    fn many_short_rows_share_a_wavefront() {
        let of = |rows, count, wavefront| {
            let scan = Scan::rows(dtypes::find("bf16").unwrap(), rows, count, wavefront).unwrap();
            [scan.threads, scan.together, scan.workgroups]
        };
        // Two vectors of a lane for each row, of eight.
        assert_eq!(of(32_768, 512, 32), [32, 4, 1024]);
        assert_eq!(of(16_384, 512, 32), [32, 2, 1024]);
        assert_eq!(of(9, 512, 32), [32, 1, 2]);
        assert_eq!(of(1000, 20, 64), [4, 1, 16]);
        assert_eq!(of(1 << 20, 8, 64), [1, 2, 2048]);
        assert_eq!(of(0, 8, 64), [1, 1, 0]);
        // Two vectors of each work-item of a workgroup.
        assert_eq!(of(4096, 4096, 32), [256, 4, 1024]);
        assert_eq!(of(1025, 4096, 32), [256, 1, 1025]);
    }

    #[test]
    fn columns_are_cut_both_ways() {
        let of = |dtype: &str, outer, count, inner| {
            Scan::columns(dtypes::find(dtype).unwrap(), outer, count, inner).unwrap()
        };
        let scan = of("f32", 1, 4096, 4096);
        assert_eq!((scan.tiles, scan.blocks, scan.of_group), (64, 32, 8));
        assert_eq!((scan.workgroups, scan.word_bytes), (2048, 4096 * 72 * WORD));
        let scan = of("u8", 3, 16, 513);
        assert_eq!((scan.threads, scan.tiles, scan.blocks), (32, 1, 2));
        assert_eq!((scan.workgroups, scan.word_bytes), (6, 0));
        // Two lanes have sixteen columns.
        let scan = of("bf16", 1, 1 << 20, 16);
        assert_eq!((scan.threads, scan.tiles, scan.blocks), (2, 512, 1));
    }
}
