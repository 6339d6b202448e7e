//! What the skinny kernels of [`GEMM`](crate::GEMM) are: for how many columns, and what a workgroup of them
//! makes. The host chooses among them by the list of `kernels/matmul/gemm_kernels.cuh`.
//!
//! `skinny_t_<dtype>_n<columns>` is for matrices whose k is together, `skinny_n_<dtype>_n<columns>` for those whose rows are.
//! A workgroup has several warps, of which 2^`log2_slice_k`, an argument, share rows and divide k.

use std::ops::Range;

use rocm_gpus::costs::{self, Cost};

use crate::by_architecture::Lists;
use crate::matmul::Dtype;
use crate::processor::Processor;

/// Threads of a workgroup, if it is not one of twice as many ([`Shape::is_doubled`]).
pub const THREADS: u32 = 256;
/// Fewest steps of each warp in a split of k.
pub const LEAST_ROUNDS: u64 = costs::SKINNY_STEPS_OF_SPLIT.value as u64;
/// Workgroups of each unit by [`Shape::shares_long_rows`].
pub const OF_LONG_ROWS: u64 = costs::SKINNY_SPLITS_OF_LONG_ROWS.value as u64;

/// A kernel's measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Lanes of a warp.
    pub lanes: u32,
    /// Warps of a workgroup, a power of two.
    pub warps: u32,
    /// Whether a workgroup may have twice as many, if all of them share rows.
    pub doubles: bool,
    /// Rows of C that a warp makes.
    pub rows: u32,
    /// Elements of k in a step of a warp, a power of two.
    pub step: u32,
    /// Columns of C that it makes at most, a power of two of at most 16.
    pub columns: u32,
    /// Whether lanes multiply and add, and no matrix instructions.
    pub lanes_multiply: bool,
    /// Whether B is as much to read as A, on NVIDIA's GPUs: rows that a workgroup has beside each other read it together.
    pub reads_b: bool,
    /// Whether its workgroups are small, so that many share a compute unit.
    pub small: bool,
    /// Bytes of LDS that a launch asks for, beside the kernel's own: lines of A are transposed there.
    pub dynamic_lds: u32,
}

impl Shape {
    /// Rows of C that a workgroup makes with 2^log2_slice_k warps to a row.
    pub fn rows_of_workgroup(&self, log2_slice_k: u32) -> u32 {
        self.rows * (self.warps_of(log2_slice_k) >> log2_slice_k)
    }

    /// Warps of a workgroup with 2^`log2_slice_k` to a row.
    fn warps_of(&self, log2_slice_k: u32) -> u32 {
        self.warps.max(1 << log2_slice_k)
    }

    /// Threads of a workgroup with 2^log2_slice_k warps to a row.
    pub fn threads(&self, log2_slice_k: u32) -> u32 {
        self.lanes * self.warps_of(log2_slice_k)
    }

    /// Whether a workgroup is one of twice as many warps.
    pub fn is_doubled(&self, log2_slice_k: u32) -> bool {
        self.warps_of(log2_slice_k) > self.warps
    }

    /// Whether lines of A, whose rows are together, are transposed in LDS, and the next are on their way there.
    pub fn transposes_lines(&self) -> bool {
        self.dynamic_lds > 0
    }

    /// Workgroups that so many rows are for with 2^log2_slice_k warps to a row.
    pub fn workgroups(&self, rows: u64, log2_slice_k: u32) -> u64 {
        rows.div_ceil(self.rows_of_workgroup(log2_slice_k).into())
            .max(1)
    }

    /// The most warps that so many `k` are worth, as the power of two.
    pub fn max_log2_slice_k(&self, k: u64) -> u32 {
        let steps = k.div_ceil(self.step.into()).max(1);
        // Where sums are soon added up, a warp without a step costs less than one with two.
        let log2_slice_k = match self.lanes_multiply && self.columns > 1 {
            true => steps.ilog2(),
            false => steps.next_power_of_two().ilog2(),
        };
        (self.warps.ilog2() + u32::from(self.doubles)).min(log2_slice_k)
    }

    /// How many warps to a row are best, as the power of two and by [`costs`]: as many as it takes to fill the GPU's `units` with
    /// the workgroups of `rows` rows. Of matrix instructions, whose sums are soon brought together, it may be as many as have
    /// some hundred elements of k each. Twice as many warps are for what fills most of the GPU once. `most` is from
    /// [`Shape::max_log2_slice_k`].
    pub fn log2_slice_k(&self, rows: u64, k: u64, mut most: u32, units: u64) -> u32 {
        const LEAST: u64 = costs::SKINNY_SLICE.value as u64;
        const LEAST_OF_DOUBLED: u64 = costs::SKINNY_SLICE_OF_DOUBLED.value as u64;
        if self.is_doubled(most) {
            let workgroups = self.workgroups(rows, most);
            if workgroups <= units && 2 * workgroups > units && k >> most >= LEAST_OF_DOUBLED {
                return most;
            }
            most -= 1;
        }
        if self.small {
            // Between half the units and all of them: fewer warps to a row, and k in splits that are long enough.
            let all = self.workgroups(rows, most);
            if most > 0 && all < units && 2 * all > units {
                let places = costs::SKINNY_SPLITS.value as u64 * units;
                let splits = places / self.workgroups(rows, most - 1);
                if k >> (most - 1) >= u64::from(self.step) * LEAST_ROUNDS * splits {
                    return most - 1;
                }
            }
            if let Some(log2_slice_k) = self.shares_long_rows(rows, k, units) {
                return log2_slice_k;
            }
            let filling = match self.columns > 8 {
                true => costs::SKINNY_FILLING,
                false => costs::SKINNY_FILLING_SMALL,
            };
            return self.least_that_fills(rows, 1..most, filling, units);
        }
        if self.transposes_lines() {
            // All at once.
            let most_at_once = costs::SKINNY_AT_ONCE.value as u64 * units;
            let at_once = |&log2_slice_k: &u32| self.workgroups(rows, log2_slice_k) <= most_at_once;
            return (0..=most).rev().find(at_once).unwrap_or(0);
        }
        if self.reads_b {
            // Where splits of k fill the GPU, fewer warps to a row read B the less often.
            let is_split = !self.doubles && self.workgroups(rows, most) < units;
            let most = most.saturating_sub(is_split.into());
            return self.least_that_fills(rows, 0..most, costs::SKINNY_FILLING_READS_B, units);
        }
        let enough = match self.lanes_multiply {
            true => 0,
            false => (k / LEAST).max(1).ilog2(),
        };
        self.least_that_fills(rows, enough..most, costs::SKINNY_FILLING, units)
    }

    /// How many warps share rows, as the power of two, where all of them would make one or two small workgroups for each unit,
    /// and k is so long that parts of it fill the GPU [`OF_LONG_ROWS`] times with two: each reads B for more rows.
    pub fn shares_long_rows(&self, rows: u64, k: u64, units: u64) -> Option<u32> {
        const LOG2_SLICE_K: u32 = 1;
        let all = self.workgroups(rows, self.max_log2_slice_k(k));
        let splits = OF_LONG_ROWS * units / self.workgroups(rows, LOG2_SLICE_K);
        let rounds = (k >> LOG2_SLICE_K) / u64::from(self.step);
        let suits = self.small && self.columns <= 8 && (units..2 * units).contains(&all);
        (suits && rounds >= LEAST_ROUNDS * splits).then_some(LOG2_SLICE_K)
    }

    /// [`Shape::log2_slice_k`] of products that norm their columns first, which each workgroup does: the more rows it
    /// has, the seldomer.
    pub fn log2_slice_k_of_normed(&self, rows: u64, most: u32, units: u64) -> u32 {
        self.least_that_fills(rows, 1..most, costs::SKINNY_FILLING_NORMED, units)
    }

    /// The first of `log2_slices` by which there are so many workgroups for each of the units, or the end.
    fn least_that_fills(
        &self,
        rows: u64,
        mut log2_slices: Range<u32>,
        of_unit: Cost,
        units: u64,
    ) -> u32 {
        let most = log2_slices.end;
        let enough = of_unit.value * units as f64;
        let fills = |&log2: &u32| self.workgroups(rows, log2) as f64 >= enough;
        log2_slices.find(fills).unwrap_or(most)
    }
}

/// What lists of skinny kernels have in common: kernels/matmul/gemm_kernels.cuh says what the columns are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measures {
    pub columns: u32,
    pub lanes_multiply: bool,
    pub lanes: u32,
    pub threads: u32,
    pub rows: u32,
    pub step: u32,
}

/// A kernel of [`GEMM`](crate::GEMM) for few columns: a row of kernels/matmul/gemm_kernels.cuh.
#[derive(Clone, Copy, Debug)]
struct Skinny {
    rows_together: bool,
    dtype: Dtype,
    measures: Measures,
    lds_kib: u32,
}

include!(concat!(env!("OUT_DIR"), "/gemm_kernels.rs"));

/// A row of kernels/matmul/normed_kernels.cuh, or of kernels/matmul/weights_kernels.cuh.
#[derive(Clone, Copy, Debug)]
struct Normed {
    dtype: Dtype,
    measures: Measures,
}

/// A row of kernels/matmul/weights_kernels.cuh, of kernels that take a column alone.
#[derive(Clone, Copy, Debug)]
struct Streamed {
    dtype: Dtype,
    rows: u32,
    gated_rows: u32,
    round: u32,
    lds_kib: u32,
    resident: u32,
    most: u32,
    normed_most: u32,
}

/// What kernels of [`FP8_WEIGHTS`](crate::FP8_WEIGHTS) that take a column alone are launched with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Rows of the result that a workgroup makes at a time. It goes from tile to tile.
    pub rows: u32,
    /// Workgroups of a compute unit, beyond which more bring nothing.
    pub resident: u32,
    /// Bytes of LDS to ask for.
    pub dynamic_lds: u32,
}

impl Stream {
    /// Bytes of LDS that the kernels have of their own at most.
    const OWN_LDS: u32 = 2 << 10;
}

include!(concat!(env!("OUT_DIR"), "/normed_kernels.rs"));
include!(concat!(env!("OUT_DIR"), "/weights_kernels.rs"));

impl Measures {
    /// Of a kernel for elements of so many bytes, without LDS that a launch asks for.
    pub fn shape(self, processor: Processor, bytes: u32, rows_together: bool) -> Shape {
        let is_nvidia = processor.is_nvidia();
        Shape {
            lanes: self.lanes,
            warps: THREADS / self.lanes,
            doubles: self.threads > THREADS,
            rows: self.rows,
            step: self.step,
            columns: self.columns,
            lanes_multiply: self.lanes_multiply,
            reads_b: is_nvidia && bytes >= 4 && self.columns >= 8,
            small: is_nvidia && !self.lanes_multiply && !rows_together && bytes == 2,
            dynamic_lds: 0,
        }
    }
}

/// The columns that kernels of the type are for at most, least first, where A has k together or rows; none of `I8`.
pub fn columns(processor: Processor, dtype: Dtype, rows_together: bool) -> &'static [u32] {
    let mut lists = SKINNY_COLUMNS.of(processor).iter();
    let found = lists.find(|(rows, of, _)| (*rows, *of) == (rows_together, dtype));
    found.map_or(&[], |(_, _, columns)| columns)
}

/// The measures of the kernels of [`SKINNY_NORMED`](crate::SKINNY_NORMED); none of `F64` and `I8`.
pub fn normed(processor: Processor, dtype: Dtype) -> Option<Shape> {
    shape_of(NORMED_KERNELS.of(processor), processor, dtype)
}

/// The measures of the kernels of [`FP8_WEIGHTS`](crate::FP8_WEIGHTS) whose columns are few and of the type, `F16` or `Bf16`,
/// and normed on their way or not.
pub fn of_fp8_weights(processor: Processor, dtype: Dtype, norms: bool) -> Option<Shape> {
    let kernels = match norms {
        true => NORMED_WEIGHT_KERNELS.of(processor),
        false => WEIGHT_KERNELS.of(processor),
    };
    shape_of(kernels, processor, dtype)
}

/// How kernels of [`FP8_WEIGHTS`](crate::FP8_WEIGHTS) take a column alone of so many elements, `F16` or `Bf16`, normed on
/// its way or not, by rows of which half may be gates: on NVIDIA's GPUs whose LDS has room for it.
pub fn stream_of_fp8_weights(
    processor: Processor,
    dtype: Dtype,
    elements: u32,
    (norms, gated): (bool, bool),
) -> Option<Stream> {
    let mut kernels = STREAMED_KERNELS.of(processor).iter();
    let of = kernels.find(|kernel| kernel.dtype == dtype)?;
    let most = if norms { of.normed_most } else { of.most };
    if elements > most {
        return None;
    }
    let column = elements.next_multiple_of(of.round) * dtype.bytes();
    let dynamic_lds = (of.lds_kib << 10) + column;
    let unit = processor.multiprocessor()?;
    (dynamic_lds + Stream::OWN_LDS <= unit.lds_bytes_of_workgroup).then_some(Stream {
        rows: if gated { of.gated_rows } else { of.rows },
        resident: of.resident,
        dynamic_lds,
    })
}

fn shape_of(kernels: &[Normed], processor: Processor, dtype: Dtype) -> Option<Shape> {
    let kernel = kernels.iter().find(|kernel| kernel.dtype == dtype)?;
    let shape = kernel.measures.shape(processor, dtype.bytes(), false);
    Some(shape)
}

/// The measures of the kernel for so many columns.
///
/// # Panics
/// If [`columns`] does not list them.
pub fn shape(processor: Processor, dtype: Dtype, columns: u32, rows_together: bool) -> Shape {
    let wanted = (rows_together, dtype, columns);
    let mut kernels = SKINNY.of(processor).iter();
    let kernel = kernels.find(|of| (of.rows_together, of.dtype, of.measures.columns) == wanted);
    let Some(kernel) = kernel else {
        panic!("no skinny kernel of {dtype:?} for {columns} columns: skinny::columns lists them");
    };
    Shape {
        dynamic_lds: kernel.lds_kib << 10,
        ..kernel
            .measures
            .shape(processor, dtype.bytes(), rows_together)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_streamed_where_lds_has_room_for_it() {
        let of = |arch, elements, norms, gated| {
            let processor = Processor::of(arch);
            stream_of_fp8_weights(processor, Dtype::BF16, elements, (norms, gated))
        };
        let stream = |rows, kib: u32| {
            Some(Stream {
                rows,
                resident: 2,
                dynamic_lds: kib << 10,
            })
        };
        assert_eq!(of("sm_90", 4096, true, false), stream(16, 72));
        assert_eq!(of("sm_90", 4096, true, true), stream(8, 72));
        assert_eq!(of("sm_90", 14_336, false, false), stream(16, 92));
        assert_eq!(of("sm_89", 14_336, false, false), stream(16, 92));
        // A round that is not whole takes as much.
        assert_eq!(of("sm_90", 16, false, false), stream(16, 68));
        // More than a workgroup holds, or less LDS than it takes.
        assert_eq!(of("sm_90", 8208, true, false), None);
        assert_eq!(of("sm_90", 16_400, false, false), None);
        assert_eq!(of("sm_90", 16_384, false, false), stream(16, 96));
        assert_eq!(of("sm_89", 16_384, false, false), stream(16, 96));
        assert_eq!(of("sm_75", 4096, true, false), None);
        for arch in ["gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"] {
            assert_eq!(of(arch, 4096, true, false), None);
        }
        let f32 = stream_of_fp8_weights(Processor::of("sm_90"), Dtype::F32, 64, (false, false));
        assert_eq!(f32, None);
    }

    #[test]
    fn steps_of_rows_with_k_together_are_whole_lines() {
        for arch in ["gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201", "sm_90"] {
            let processor = Processor::of(arch);
            for dtype in Dtype::ALL {
                for rows_together in [false, true] {
                    for &columns in columns(processor, dtype, rows_together) {
                        let shape = shape(processor, dtype, columns, rows_together);
                        let line = if rows_together {
                            shape.rows
                        } else {
                            shape.step
                        };
                        // The second-level cache fetches both halves of what is transposed in LDS.
                        let least = if shape.transposes_lines() { 64 } else { 128 };
                        assert_eq!(line * dtype.bytes() % least, 0, "{arch} {dtype:?}");
                        assert!(shape.warps.is_power_of_two() && shape.step.is_power_of_two());
                    }
                }
            }
        }
    }
}
