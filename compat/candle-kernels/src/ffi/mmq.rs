//! Products of quantised matrices with matrices (prompts): module `mmq`, or where there are many vectors, in bf16, `widen` and `matmul`.
//!
//! The activations are first quantised to blocks of 128 elements in 144 bytes: 16 bytes of scales, then 128 signed
//! bytes. Block `c` of column `i` is number `c * columns + i`. The scales' layout follows from the weights' format:
//!
//! - `D4`: four f32, each the scale of 32 elements;
//! - `DS4`: four pairs of f16, the scale and the sum of 32 elements;
//! - `D2S6`: two f16, the scales of 64 elements, then six, the sums of 16 elements of the first 96.
//!
//! The products read the scales and add up the bytes themselves, so a sum beyond f16 does no harm; a scale below
//! f16's range (activations all smaller than 4e-6, in `DS4` and `D2S6`) loses its elements, as on CUDA. An infinite
//! or NaN activation makes its column's results NaN.

use core::ffi::c_void;

use candle_rocm_kernels::MMQ;
use candle_rocm_runtime::{Error, Result, Stream};

use super::launch::{address, blocks, count, launch, on_stream};
use super::mmq_wide;

/// Elements of a block of activations.
const CHUNK: u32 = 128;
/// Bytes of a block of activations.
const BLOCK_BYTES: u64 = 144;
/// Threads of every workgroup here.
const THREADS: u32 = 256;
/// Rows of weights to a workgroup.
const TILE_ROWS: u32 = 64;
/// Parts of the inner dimension are multiples of so many elements: the largest block.
const PART: u32 = 256;
/// Results that there is room for in the workspace.
const WORKSPACE: u64 = 1 << 22;
/// Workgroups in a direction in which kernels go on in steps of the grid.
const MOST_WORKGROUPS: u32 = 1 << 15;

/// A quantised format.
struct Format {
    /// As in the kernels' names.
    name: &'static str,
    /// Elements of a block.
    elements: u32,
    /// Bytes of a block.
    bytes: u64,
    /// The layout of the activations' scales, as in the kernels' names.
    layout: &'static str,
}

/// What `launch_mmq_quantize_q8_1_*` does.
fn quantize(
    stream: &Stream,
    kernel: &str,
    [source, target]: [*const c_void; 2],
    ids: *const i32,
    [ne00, s01, s02, s03]: [i64; 4],
    [ne0, ne1, ne2, ne3]: [i64; 4],
) -> Result<()> {
    let columns = u64::from(count("ne00", ne00)?);
    let padded = count("ne0", ne0)?;
    let rows = u64::from(count("ne1", ne1)?);
    let planes_2 = u64::from(count("ne2", ne2)?);
    let planes = planes_2 * u64::from(count("ne3", ne3)?);
    if u64::from(padded) < columns {
        return Err(Error::invalid(format!(
            "ne0 is {padded}, and the rows of ne00 = {columns} elements are padded to it"
        )));
    }
    let chunks = u64::from(padded.div_ceil(CHUNK));
    // The next plane starts where rows padded to 512 would have ended.
    let plane_blocks = chunks.next_multiple_of(4) * rows;
    let count = chunks
        .checked_mul(rows)
        .and_then(|blocks| blocks.checked_mul(planes))
        .filter(|&blocks| blocks < u64::MAX / BLOCK_BYTES)
        .ok_or_else(|| Error::invalid("ne0 * ne1 * ne2 * ne3 is beyond any memory".to_string()))?;
    if count == 0 {
        return Ok(());
    }
    let source = address("x", source)?;
    let target = blocks("vy", target, BLOCK_BYTES)?;
    let ids = ids as u64;
    // 32 threads make a block.
    let workgroups = count
        .div_ceil(u64::from(THREADS / 32))
        .min(MOST_WORKGROUPS.into()) as u32;
    launch!(
        stream,
        &MMQ,
        kernel,
        (workgroups, 1, 1),
        THREADS,
        [
            source,
            ids,
            target,
            columns,
            s01,
            s02,
            s03,
            chunks,
            rows,
            planes_2,
            plane_blocks,
            count
        ]
    )
}

/// What `launch_mmq_gguf_*` does.
fn multiply(
    stream: &Stream,
    format: &Format,
    [weights, activations, output]: [*const c_void; 3],
    [k, rows, columns, row_blocks, dst_rows]: [i64; 5],
    workspace: *mut c_void,
    units: i32,
) -> Result<()> {
    let k = count("ncols_x", k)?;
    let rows = count("nrows_x", rows)?;
    let columns = count("ncols_y", columns)?;
    let row_blocks = u64::from(count("stride_row_x", row_blocks)?);
    let dst_rows = u64::from(count("stride_col_dst", dst_rows)?);
    if k % format.elements != 0 {
        return Err(Error::invalid(format!(
            "ncols_x is {k}, and a row of {} has a multiple of {} elements",
            format.name, format.elements
        )));
    }
    if row_blocks < u64::from(k / format.elements) && rows > 1 {
        return Err(Error::invalid(format!(
            "stride_row_x is {row_blocks} blocks, and {k} elements take {}",
            k / format.elements
        )));
    }
    if dst_rows < u64::from(rows) && columns > 1 {
        return Err(Error::invalid(format!(
            "stride_col_dst is {dst_rows}, and a column has {rows} elements"
        )));
    }
    if rows == 0 || columns == 0 {
        return Ok(());
    }
    let weights = blocks("x", weights, format.bytes)?;
    let activations = blocks("y", activations, BLOCK_BYTES)?;
    let output = address("dst", output)?;
    let row_bytes = row_blocks * format.bytes;
    if k > 0 && mmq_wide::pays(&stream.context().info().arch, columns) {
        let product = mmq_wide::Product {
            format: format.name,
            layout: format.layout,
            weights,
            activations,
            output,
            k,
            rows,
            columns,
            row_bytes,
            dst_rows,
        };
        if mmq_wide::multiply(stream, &product)? {
            return Ok(());
        }
    }
    let units = u32::try_from(units).unwrap_or(0).max(1);
    let room = if workspace.is_null() { 0 } else { WORKSPACE };
    for strip in plan(k, rows, columns, units, room) {
        let name = format!("mmq_{}_{}", format.name, strip.tile);
        let parts = k.div_ceil(strip.part).max(1);
        let grid = (
            strip.rows.div_ceil(TILE_ROWS),
            columns.div_ceil(strip.tile).min(MOST_WORKGROUPS),
            parts,
        );
        let weights = weights + u64::from(strip.first) * row_bytes;
        let output = output + 4 * u64::from(strip.first);
        let results = u64::from(strip.rows) * u64::from(columns);
        let (target, target_rows) = if parts > 1 {
            (workspace as u64, u64::from(strip.rows))
        } else {
            (output, dst_rows)
        };
        launch!(
            stream,
            &MMQ,
            &name,
            grid,
            THREADS,
            [
                weights,
                activations,
                target,
                k,
                strip.rows,
                columns,
                row_bytes,
                target_rows,
                strip.part,
                results
            ]
        )?;
        if parts > 1 {
            let grid = (results.div_ceil(THREADS.into()) as u32, 1, 1);
            launch!(
                stream,
                &MMQ,
                "mmq_sum",
                grid,
                THREADS,
                [target, output, strip.rows, columns, dst_rows, parts, results]
            )?;
        }
    }
    Ok(())
}

/// Rows that are multiplied in tiles of one width.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Strip {
    /// The first of them.
    first: u32,
    /// How many.
    rows: u32,
    /// Vectors of a tile, as in the kernel's name.
    tile: u32,
    /// Elements of the inner dimension that a workgroup adds up, a multiple of [`PART`]. Where that is not all, the
    /// parts' results go through the workspace.
    part: u32,
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
fn plan(k: u32, rows: u32, columns: u32, units: u32, room: u64) -> Vec<Strip> {
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

macro_rules! quantizers {
    ($($name:ident $kernel:literal;)*) => {$(
        /// Quantises f32 matrices to blocks of 128 in `vy`, for the products below; the layout is in the name.
        ///
        /// Element (i3, i2, i1, i0) of `ne3` x `ne2` x `ne1` x `ne00` is at `i3 * s03 + i2 * s02 + r * s01 + i0` of
        /// `x`, in elements, where r is `ids[i1]`, or i1 if `ids` is null. Rows are padded with zeros to `ne0`
        /// elements and on to a multiple of 128. Planes (i3, i2) follow each other, each as long as if rows were
        /// padded to a multiple of 512. `vy` starts at a multiple of 16 bytes. `type_x` means nothing. An error
        /// waits in the GPU.
        ///
        /// # Safety
        /// The pointers are to memory of the current GPU that holds what is said above and that nothing else uses
        /// until the stream has come so far; `stream` is a stream of that GPU, or null.
        pub unsafe extern "C" fn $name(
            x: *const c_void,
            ids: *const i32,
            vy: *mut c_void,
            type_x: i32,
            ne00: i64,
            s01: i64,
            s02: i64,
            s03: i64,
            ne0: i64,
            ne1: i64,
            ne2: i64,
            ne3: i64,
            stream: *mut c_void,
        ) {
            let _ = type_x;
            // SAFETY: the caller's promise.
            unsafe {
                on_stream(stringify!($name), stream, |stream| {
                    let (source, sizes) = ([ne00, s01, s02, s03], [ne0, ne1, ne2, ne3]);
                    quantize(stream, $kernel, [x, vy.cast_const()], ids, source, sizes)
                });
            }
        }
    )*};
}

quantizers! {
    launch_mmq_quantize_q8_1_D4 "mmq_quantize_q8_1_D4";
    launch_mmq_quantize_q8_1_DS4 "mmq_quantize_q8_1_DS4";
    launch_mmq_quantize_q8_1_D2S6 "mmq_quantize_q8_1_D2S6";
}

macro_rules! products {
    ($($name:ident $format:literal $elements:literal $bytes:literal $layout:literal;)*) => {$(
        #[doc = concat!("`dst` (`ncols_y` x `stride_col_dst`, f32) = the matrix `x` (`nrows_x` x `ncols_x`, ", $format,
            ") times `ncols_y` columns of blocks of layout `", $layout, "`.")]
        ///
        /// Rows of `x` are `stride_row_x` blocks apart; the first `nrows_x` of each `stride_col_dst` results are
        /// written. `ncols_x` is a multiple of the format's block. `x` and `y` start at a multiple of the power of two
        /// that divides the size of their blocks, 16 at most. `tmp_fixup` is room for 2^22 f32, or null, with which
        /// few tiles take longer. `nsm` is the number of the GPU's compute units, which decides about tiles; `cc`,
        /// `smpbo` and `warp_size` mean nothing. An error waits in the GPU.
        ///
        /// # Safety
        /// The pointers are to memory of the current GPU that holds what is said above and that nothing else uses
        /// until the stream has come so far; `stream` is a stream of that GPU, or null.
        pub unsafe extern "C" fn $name(
            tmp_fixup: *mut c_void,
            x: *const c_void,
            y: *const c_void,
            dst: *mut c_void,
            ncols_x: i64,
            nrows_x: i64,
            ncols_y: i64,
            stride_row_x: i64,
            stride_col_dst: i64,
            cc: i32,
            nsm: i32,
            smpbo: i64,
            warp_size: i32,
            stream: *mut c_void,
        ) {
            let _ = (cc, smpbo, warp_size);
            let format = Format { name: $format, elements: $elements, bytes: $bytes, layout: $layout };
            let sizes = [ncols_x, nrows_x, ncols_y, stride_row_x, stride_col_dst];
            // SAFETY: the caller's promise.
            unsafe {
                on_stream(stringify!($name), stream, |stream| {
                    multiply(stream, &format, [x, y, dst.cast_const()], sizes, tmp_fixup, nsm)
                });
            }
        }
    )*};
}

products! {
    launch_mmq_gguf_q4_0 "q4_0" 32 18 "DS4";
    launch_mmq_gguf_q4_1 "q4_1" 32 20 "DS4";
    launch_mmq_gguf_q5_0 "q5_0" 32 22 "D4";
    launch_mmq_gguf_q5_1 "q5_1" 32 24 "DS4";
    launch_mmq_gguf_q8_0 "q8_0" 32 34 "D4";
    launch_mmq_gguf_q2_k "q2_k" 256 84 "D2S6";
    launch_mmq_gguf_q3_k "q3_k" 256 110 "D4";
    launch_mmq_gguf_q4_k "q4_k" 256 144 "DS4";
    launch_mmq_gguf_q5_k "q5_k" 256 176 "DS4";
    launch_mmq_gguf_q6_k "q6_k" 256 210 "D4";
}

#[cfg(test)]
mod tests {
    use super::{plan, PART, TILES, WORKSPACE};

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
