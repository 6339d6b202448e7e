//! How products of module `mmq` are shared out: in strips of rows, tiles of columns and splits of k.

use candle_rocm_kernels::mmq::TILE_ROWS;
use candle_rocm_kernels::split::Split;
use rocm_gpus::costs::{self, QuantizedPace};

use crate::plan::roofline::Roofline;

/// Splits of the inner dimension are multiples of so many elements: the largest block.
const SPLIT_STEP: u32 = 256;
/// How the inner dimension is divided; the room for results bounds the splits.
const SPLIT: Split = Split {
    step: SPLIT_STEP as u64,
    least_steps: 1,
    most: u32::MAX as u64,
};

/// Times that differ by less are equal: their sums were rounded.
const ROUNDING: f64 = 1e-9;

/// Rows that are multiplied in tiles of one width.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Strip {
    /// The first of them.
    pub first: u32,
    /// How many.
    pub rows: u32,
    /// Vectors of a tile, as in the kernel's name.
    pub tile: u32,
    /// Elements of the inner dimension that a workgroup adds up, a multiple of [`SPLIT_STEP`]. Where that is not all, the
    /// splits' results go through the workspace.
    pub k_per_split: u32,
}

/// Splits of the inner dimension at most; one if it has no elements.
fn blocks_of(k: u32) -> u32 {
    k.div_ceil(SPLIT_STEP).max(1)
}

/// Tiles of one width, and how their workgroups get on.
struct Tile {
    rows: u32,
    pace: &'static QuantizedPace,
}

const TILES: [Tile; 3] = [
    tile(TILE_ROWS, &costs::QUANTIZED[0]),
    tile(TILE_ROWS, &costs::QUANTIZED[1]),
    // Two workgroups together make one where the matrix instructions make tiles so high.
    tile(2 * TILE_ROWS, &costs::QUANTIZED[2]),
];

const fn tile(rows: u32, pace: &'static QuantizedPace) -> Tile {
    Tile { rows, pace }
}

impl Tile {
    fn count(&self, rows: u32, columns: u32) -> u64 {
        u64::from(rows.div_ceil(self.rows)) * u64::from(columns.div_ceil(self.pace.columns))
    }

    /// Microseconds for all rows in so many splits.
    fn time(&self, k: u32, rows: u32, columns: u32, splits: u32, units: u64) -> f64 {
        let results = u64::from(rows) * u64::from(columns) * u64::from(splits);
        let sum = costs::QUANTIZED_SUM_MILLION.value * results as f64 * 1e-6;
        let launch = Roofline {
            workgroups: self.count(rows, columns) * u64::from(splits),
            units,
            resident: self.pace.resident,
            whole_rounds: false,
            first: 0.0,
            // Part of the pace.
            memory: 0.0,
            reduction: match splits {
                1 => 0.0,
                _ => costs::QUANTIZED_SUM.value + sum,
            },
        };
        let steps = f64::from(blocks_of(k).div_ceil(splits));
        let QuantizedPace { alone, more, .. } = *self.pace;
        launch.time(|workgroups| steps * (alone + more * (workgroups - 1) as f64))
    }
}

/// The fastest way to multiply `rows` from `first` on in one kind of tiles, and its time.
fn strip(k: u32, first: u32, rows: u32, columns: u32, units: u64, room: u64) -> (f64, Strip) {
    let blocks = blocks_of(k);
    let results = u64::from(rows) * u64::from(columns);
    let mut best = (f64::INFINITY, None);
    for tile in &TILES {
        // More would only wait.
        let most = (tile.pace.resident * units).div_ceil(tile.count(rows, columns));
        for splits in 1..=u64::from(blocks).min(most) as u32 {
            if splits > 1 && results * u64::from(splits) > room {
                break;
            }
            let time = tile.time(k, rows, columns, splits, units);
            if time < best.0 {
                best = (time, Some((tile.pace.columns, splits)));
            }
        }
    }
    let (tile, splits) = best.1.expect("one part of some tile");
    let strip = Strip {
        first,
        rows,
        tile,
        k_per_split: SPLIT.into_splits(k.max(1).into(), splits.into()).elements as u32,
    };
    (best.0, strip)
}

/// How to multiply, with so many compute units and results' room in the workspace: in tiles of one kind, or in whole
/// rounds of the widest, which are the fastest where they keep all units busy, and the rest in others.
pub(super) fn plan(k: u32, rows: u32, columns: u32, units: u32, room: u64) -> Vec<Strip> {
    let units = u64::from(units);
    let (time, all) = strip(k, 0, rows, columns, units, room);
    let wide = &TILES[2];
    let across = u64::from(columns.div_ceil(wide.pace.columns));
    let rounds = wide.count(rows, columns) / units;
    let wide_rows = (rounds * units / across) as u32 * wide.rows;
    if wide_rows == 0 || wide_rows >= rows {
        return vec![all];
    }
    let (rest_time, rest) = strip(k, wide_rows, rows - wide_rows, columns, units, room);
    // One launch where both take as long.
    let in_two = wide.time(k, wide_rows, columns, 1, units) + rest_time;
    if in_two < time * (1.0 - ROUNDING) {
        let wide = Strip {
            first: 0,
            rows: wide_rows,
            tile: wide.pace.columns,
            k_per_split: SPLIT.into_splits(k.max(1).into(), 1).elements as u32,
        };
        return vec![wide, rest];
    }
    vec![all]
}

#[cfg(test)]
mod tests {
    use super::{plan, SPLIT_STEP, TILES};

    const WORKSPACE: u64 = 1 << 22;

    /// The strips follow each other, hold all rows, and their splits fit into the workspace.
    #[test]
    fn strips_hold_all_rows() {
        for k in [0, 32, 256, 288, 4096, 14_336] {
            for rows in [1, 63, 200, 4096, 14_336, 128_256] {
                for columns in [1, 9, 16, 64, 100, 512, 5000] {
                    for units in [1, 96, 132, 304, i32::MAX as u32] {
                        for room in [0, 100_000, WORKSPACE] {
                            let strips = plan(k, rows, columns, units, room);
                            let what = format!("{k} {rows} {columns} {units} {room}: {strips:?}");
                            let mut next = 0;
                            for strip in strips {
                                assert_eq!(strip.first, next, "{what}");
                                next += strip.rows;
                                assert!(strip.rows > 0, "{what}");
                                assert!(
                                    TILES.iter().any(|t| t.pace.columns == strip.tile),
                                    "{what}"
                                );
                                let splits = k.div_ceil(strip.k_per_split);
                                let results = u64::from(strip.rows) * u64::from(columns);
                                let fits = results * u64::from(splits) <= room;
                                assert!(
                                    splits == 1 || (fits && strip.k_per_split % SPLIT_STEP == 0),
                                    "{what}"
                                );
                            }
                            assert_eq!(next, rows, "{what}");
                        }
                    }
                }
            }
        }
    }

    /// As `tests/plans.rs` has it of the other families: an FNV-1a hash of all numbers of strips.
    #[test]
    fn strips_are_the_recorded_ones() {
        const RECORDED: u64 = 0x0248_6c79_262b_97d5;
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        for k in [256, 2048, 4096, 14_336] {
            for rows in [1, 200, 1024, 4096, 14_336, 128_256] {
                for columns in [9, 16, 33, 64, 100, 512, 1000, 5000] {
                    for units in [32, 48, 104, 132, 304] {
                        for room in [0, WORKSPACE] {
                            for strip in plan(k, rows, columns, units, room) {
                                for number in
                                    [strip.first, strip.rows, strip.tile, strip.k_per_split]
                                {
                                    let mixed = hash ^ u64::from(number);
                                    hash = mixed.wrapping_mul(0x0100_0000_01b3);
                                }
                            }
                        }
                    }
                }
            }
        }
        assert_eq!(
            hash, RECORDED,
            "other strips: if that is meant, say which: {hash:#x}"
        );
    }

    #[test]
    fn few_tiles_are_shared_out() {
        let splits = |rows, columns, room| {
            let strips = plan(4096, rows, columns, 132, room);
            strips.iter().map(|s| 4096u32.div_ceil(s.k_per_split)).max()
        };
        assert!(splits(1024, 16, WORKSPACE) > Some(4));
        assert_eq!(splits(1024, 16, 0), Some(1));
        assert!(splits(1024, 16, 4 * 1024 * 16) <= Some(4));
        // As many tiles as units.
        assert_eq!(splits(4096, 512, WORKSPACE), Some(1));
    }
}
