//! How products of module `mmq` are shared out: in strips of rows, tiles of columns and parts of k.

use candle_rocm_kernels::mmq::TILE_ROWS;

/// Parts of the inner dimension are multiples of so many elements: the largest block.
const PART: u32 = 256;

/// Rows that are multiplied in tiles of one width.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Strip {
    /// The first of them.
    pub first: u32,
    /// How many.
    pub rows: u32,
    /// Vectors of a tile, as in the kernel's name.
    pub tile: u32,
    /// Elements of the inner dimension that a workgroup adds up, a multiple of [`PART`]. Where that is not all, the
    /// parts' results go through the workspace.
    pub part: u32,
}

/// Parts of the inner dimension at most; one if it has no elements.
fn blocks_of(k: u32) -> u32 {
    k.div_ceil(PART).max(1)
}

/// Tiles of one width, and the time of a step of [`PART`] elements.
///
/// The times are of q4_k on an NVIDIA H200, in microseconds, fitted to some hundred products; what counts is how they
/// compare. No AMD GPU was timed.
struct Tile {
    columns: u32,
    rows: u32,
    /// Workgroups that a compute unit holds.
    together: u64,
    /// With one of them on a unit, and more for each further one.
    alone: f32,
    more: f32,
}

const TILES: [Tile; 3] = [
    Tile {
        columns: 16,
        rows: TILE_ROWS,
        together: 2,
        alone: 1.6,
        more: 0.5,
    },
    Tile {
        columns: 64,
        rows: TILE_ROWS,
        together: 2,
        alone: 2.65,
        more: 1.6,
    },
    // Two workgroups together make one where the matrix instructions make tiles so high.
    Tile {
        columns: 128,
        rows: 2 * TILE_ROWS,
        together: 1,
        alone: 6.4,
        more: 0.0,
    },
];
/// Microseconds of adding up parts: of the launch, and of a million results of each part.
const SUM: f32 = 4.5;
const SUM_MILLION: f32 = 1.7;

impl Tile {
    fn count(&self, rows: u32, columns: u32) -> u64 {
        u64::from(rows.div_ceil(self.rows)) * u64::from(columns.div_ceil(self.columns))
    }

    /// Microseconds for all rows in so many parts.
    fn time(&self, k: u32, rows: u32, columns: u32, parts: u32, units: u64) -> f32 {
        let on_a_unit = (self.count(rows, columns) * u64::from(parts)).div_ceil(units);
        let (rounds, rest) = (on_a_unit / self.together, on_a_unit % self.together);
        let round = |workgroups: u64| match workgroups {
            0 => 0.0,
            more => self.alone + self.more * (more - 1) as f32,
        };
        let steps = blocks_of(k).div_ceil(parts) as f32;
        let products = steps * (rounds as f32 * round(self.together) + round(rest));
        if parts == 1 {
            return products;
        }
        let results = u64::from(rows) * u64::from(columns) * u64::from(parts);
        products + SUM + SUM_MILLION * results as f32 * 1e-6
    }
}

/// The fastest way to multiply `rows` from `first` on in one kind of tiles, and its time.
fn strip(k: u32, first: u32, rows: u32, columns: u32, units: u64, room: u64) -> (f32, Strip) {
    let blocks = blocks_of(k);
    let results = u64::from(rows) * u64::from(columns);
    let mut best = (f32::INFINITY, None);
    for tile in &TILES {
        // More would only wait.
        let most = (tile.together * units).div_ceil(tile.count(rows, columns));
        for parts in 1..=u64::from(blocks).min(most) as u32 {
            if parts > 1 && results * u64::from(parts) > room {
                break;
            }
            let time = tile.time(k, rows, columns, parts, units);
            if time < best.0 {
                best = (time, Some((tile.columns, parts)));
            }
        }
    }
    let (tile, parts) = best.1.expect("one part of some tile");
    let strip = Strip {
        first,
        rows,
        tile,
        part: blocks.div_ceil(parts) * PART,
    };
    (best.0, strip)
}

/// How to multiply, with so many compute units and results' room in the workspace: in tiles of one kind, or in whole
/// rounds of the widest, which are the fastest where they keep all units busy, and the rest in others.
pub(super) fn plan(k: u32, rows: u32, columns: u32, units: u32, room: u64) -> Vec<Strip> {
    let units = u64::from(units);
    let (time, all) = strip(k, 0, rows, columns, units, room);
    let wide = &TILES[2];
    let across = u64::from(columns.div_ceil(wide.columns));
    let rounds = wide.count(rows, columns) / units;
    let wide_rows = (rounds * units / across) as u32 * wide.rows;
    if wide_rows == 0 || wide_rows >= rows {
        return vec![all];
    }
    let (rest_time, rest) = strip(k, wide_rows, rows - wide_rows, columns, units, room);
    if wide.time(k, wide_rows, columns, 1, units) + rest_time < time {
        let wide = Strip {
            first: 0,
            rows: wide_rows,
            tile: wide.columns,
            part: blocks_of(k) * PART,
        };
        return vec![wide, rest];
    }
    vec![all]
}

#[cfg(test)]
mod tests {
    use super::{plan, PART, TILES};

    const WORKSPACE: u64 = 1 << 22;

    /// The strips follow each other, hold all rows, and their parts fit into the workspace.
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
                                assert!(TILES.iter().any(|t| t.columns == strip.tile), "{what}");
                                let parts = k.div_ceil(strip.part);
                                let results = u64::from(strip.rows) * u64::from(columns);
                                let fits = results * u64::from(parts) <= room;
                                assert!(parts == 1 || (fits && strip.part % PART == 0), "{what}");
                            }
                            assert_eq!(next, rows, "{what}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn few_tiles_are_shared_out() {
        let parts = |rows, columns, room| {
            let strips = plan(4096, rows, columns, 132, room);
            strips.iter().map(|s| 4096u32.div_ceil(s.part)).max()
        };
        assert!(parts(1024, 16, WORKSPACE) > Some(4));
        assert_eq!(parts(1024, 16, 0), Some(1));
        assert!(parts(1024, 16, 4 * 1024 * 16) <= Some(4));
        // As many tiles as units.
        assert_eq!(parts(4096, 512, WORKSPACE), Some(1));
    }
}
