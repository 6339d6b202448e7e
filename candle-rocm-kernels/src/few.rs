//! What the kernels for few columns of [`GEMM`](crate::GEMM) are: for how many columns, and what a workgroup of them
//! makes. The host chooses among them by this table, which says what `kernels/matmul/few/unit.cuh` does.
//!
//! `gemv_t_<dtype>_c<columns>` is for matrices whose k is together, `gemv_n_<dtype>_c<columns>` for those whose rows are.
//! A workgroup has several teams of lanes, of which 2^`sharing`, an argument, share rows and divide k.

use std::ops::Range;

use rocm_gpus::{Architecture, MatrixUnit};

use crate::matmul::Dtype;
use crate::processor::Processor;

/// Threads of a workgroup, if it is not one of twice as many ([`Shape::is_doubled`]).
pub const THREADS: u32 = 256;
/// Vectors of 16 bytes that a lane loads of the matrix at a time.
const VECTORS: u32 = 8;
/// Fewest steps of each team in a part of k.
pub const LEAST_ROUNDS: u64 = 2;
/// Workgroups of each unit by [`Shape::shares_long_rows`], as timed on an H200.
pub const OF_LONG_ROWS: u64 = 3;
/// Steps whose lines are in LDS or on their way there (kernels/matmul/few/turned.cuh).
const STEPS_IN_LDS: u32 = 2;

/// A kernel's measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Lanes of a team.
    pub lanes: u32,
    /// Teams of a workgroup, a power of two.
    pub teams: u32,
    /// Whether a workgroup may have twice as many, if all of them share rows.
    pub doubles: bool,
    /// Rows of C that a team makes.
    pub rows: u32,
    /// Elements of k in a step of a team, a power of two.
    pub step: u32,
    /// Columns of C that it makes at most, a power of two of at most 16.
    pub columns: u32,
    /// Whether lanes multiply and add, and no matrix instructions.
    pub lanes_multiply: bool,
    /// Whether B is as much to read as A, on NVIDIA's GPUs: rows that a workgroup has beside each other read it together.
    pub reads_b: bool,
    /// Whether its workgroups are small, so that many share a compute unit.
    pub small: bool,
    /// Bytes of LDS that a launch asks for, beside the kernel's own: lines of A are turned over there.
    pub dynamic_lds: u32,
}

impl Shape {
    /// Rows of C that a workgroup makes with 2^`sharing` teams to a row.
    pub fn rows_of_workgroup(&self, sharing: u32) -> u32 {
        self.rows * (self.teams_of(sharing) >> sharing)
    }

    /// Teams of a workgroup with 2^`sharing` to a row.
    fn teams_of(&self, sharing: u32) -> u32 {
        self.teams.max(1 << sharing)
    }

    /// Threads of a workgroup with 2^`sharing` teams to a row.
    pub fn threads(&self, sharing: u32) -> u32 {
        self.lanes * self.teams_of(sharing)
    }

    /// Whether a workgroup is one of twice as many teams.
    pub fn is_doubled(&self, sharing: u32) -> bool {
        self.teams_of(sharing) > self.teams
    }

    /// Whether lines of A, whose rows are together, are turned over in LDS, and the next are on their way there.
    pub fn turns_lines(&self) -> bool {
        self.dynamic_lds > 0
    }

    /// Workgroups that so many rows are for with 2^`sharing` teams to a row.
    pub fn workgroups(&self, rows: u64, sharing: u32) -> u64 {
        rows.div_ceil(self.rows_of_workgroup(sharing).into()).max(1)
    }

    /// The most teams that so many `k` are worth, as the power of two.
    pub fn most_sharing(&self, k: u64) -> u32 {
        let steps = k.div_ceil(self.step.into()).max(1);
        // Where sums are soon added up, a team without a step costs less than one with two.
        let sharing = match self.lanes_multiply && self.columns > 1 {
            true => steps.ilog2(),
            false => steps.next_power_of_two().ilog2(),
        };
        (self.teams.ilog2() + u32::from(self.doubles)).min(sharing)
    }

    /// How many teams to a row are best, as the power of two and as timed on an H200: as many as it takes to fill the GPU's
    /// `units` with the workgroups of `rows` rows. Of matrix instructions, whose sums are soon brought together, it may be
    /// as many as have some hundred elements of k each. Twice as many teams are for what fills most of the GPU once. `most`
    /// is from [`Shape::most_sharing`].
    pub fn sharing(&self, rows: u64, k: u64, mut most: u32, units: u64) -> u32 {
        /// Elements of k of a team.
        const LEAST: u64 = 512;
        const LEAST_OF_DOUBLED: u64 = 128;
        if self.is_doubled(most) {
            let workgroups = self.workgroups(rows, most);
            if workgroups <= units && 2 * workgroups > units && k >> most >= LEAST_OF_DOUBLED {
                return most;
            }
            most -= 1;
        }
        if self.small {
            // Between half the units and all of them: fewer teams to a row, and k in parts that are long enough.
            let all = self.workgroups(rows, most);
            if most > 0 && all < units && 2 * all > units {
                let parts = 2 * units / self.workgroups(rows, most - 1);
                if k >> (most - 1) >= u64::from(self.step) * LEAST_ROUNDS * parts {
                    return most - 1;
                }
            }
            if let Some(sharing) = self.shares_long_rows(rows, k, units) {
                return sharing;
            }
            let halves = if self.columns > 8 { 3 } else { 4 };
            return self.least_that_fills(rows, 1..most, halves * units, 2);
        }
        if self.turns_lines() {
            // All at once.
            let at_once = |&sharing: &u32| self.workgroups(rows, sharing) <= 2 * units;
            return (0..=most).rev().find(at_once).unwrap_or(0);
        }
        if self.reads_b {
            // Where parts of k fill the GPU, fewer teams to a row read B the less often.
            let in_parts = !self.doubles && self.workgroups(rows, most) < units;
            let most = most.saturating_sub(in_parts.into());
            return self.least_that_fills(rows, 0..most, units, 1);
        }
        let enough = match self.lanes_multiply {
            true => 0,
            false => (k / LEAST).max(1).ilog2(),
        };
        self.least_that_fills(rows, enough..most, 3 * units, 2)
    }

    /// How many teams share rows, as the power of two, where all of them would make one or two small workgroups for each unit,
    /// and k is so long that parts of it fill the GPU [`OF_LONG_ROWS`] times with two: each reads B for more rows.
    pub fn shares_long_rows(&self, rows: u64, k: u64, units: u64) -> Option<u32> {
        const SHARING: u32 = 1;
        let all = self.workgroups(rows, self.most_sharing(k));
        let parts = OF_LONG_ROWS * units / self.workgroups(rows, SHARING);
        let rounds = (k >> SHARING) / u64::from(self.step);
        let suits = self.small && self.columns <= 8 && (units..2 * units).contains(&all);
        (suits && rounds >= LEAST_ROUNDS * parts).then_some(SHARING)
    }

    /// The same of products that norm their columns first, which each workgroup does: the more rows it has, the seldomer.
    pub fn sharing_of_normed(&self, rows: u64, most: u32, units: u64) -> u32 {
        self.least_that_fills(rows, 1..most, 5 * units, 4)
    }

    /// The first of `sharings` by which `times` the workgroups are `enough`, or the end.
    fn least_that_fills(
        &self,
        rows: u64,
        mut sharings: Range<u32>,
        enough: u64,
        times: u64,
    ) -> u32 {
        let most = sharings.end;
        let fills = sharings.find(|&sharing| times * self.workgroups(rows, sharing) >= enough);
        fills.unwrap_or(most)
    }
}

/// What multiplies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Multiply-adds or dot products of lanes.
    Lanes,
    /// NVIDIA's `mma.sync`.
    MmaSync,
    /// CDNA's 16 x 16 MFMA.
    Mfma,
    /// WMMA, of which so many groups of lanes hold different k.
    Wmma { k_lanes: u32 },
}

fn unit(processor: Processor, dtype: Dtype, columns: u32) -> Unit {
    match (dtype, matrix_unit(processor)) {
        (Dtype::F16 | Dtype::BF16, unit) => unit,
        // As TF32 and the rest.
        (Dtype::F32, Unit::MmaSync) if columns == 16 => Unit::MmaSync,
        _ => Unit::Lanes,
    }
}

/// What multiplies elements that matrix units take.
pub(crate) fn matrix_unit(processor: Processor) -> Unit {
    let architecture = match processor {
        Processor::Amd(target) => target.architecture(),
        Processor::Nvidia(_) => return Unit::MmaSync,
        Processor::Unknown => return Unit::Lanes,
    };
    match (architecture.unit().matrix_unit, architecture) {
        (MatrixUnit::Dot, _) => Unit::Lanes,
        (MatrixUnit::Mfma, _) => Unit::Mfma,
        (MatrixUnit::Wmma, Architecture::Rdna4) => Unit::Wmma { k_lanes: 2 },
        (MatrixUnit::Wmma, _) => Unit::Wmma { k_lanes: 1 },
    }
}

/// The columns that kernels of the type are for at most, least first, where A has k together or rows; none of `I8`.
pub fn columns(processor: Processor, dtype: Dtype, rows_together: bool) -> &'static [u32] {
    match (dtype, matrix_unit(processor)) {
        (Dtype::I8, _) => &[],
        (Dtype::F64, _) => &[1, 4, 16],
        (Dtype::F32, Unit::MmaSync) if rows_together => &[1, 2, 4, 16],
        (Dtype::F32, _) | (_, Unit::Lanes) => &[1, 2, 4, 8, 16],
        (_, Unit::MmaSync) => &[8, 16],
        (_, Unit::Mfma | Unit::Wmma { .. }) => &[16],
    }
}

/// The measures of the kernels of [`NORMED`](crate::NORMED); none of `I8`.
pub fn normed(processor: Processor, dtype: Dtype) -> Option<Shape> {
    let &columns = columns(processor, dtype, false).first()?;
    let shape = shape(processor, dtype, columns, false);
    // More rows for each workgroup, since all of them norm the columns.
    let rows = match unit(processor, dtype, columns) {
        Unit::MmaSync => 2 * shape.rows,
        _ => shape.rows,
    };
    Some(Shape { rows, ..shape })
}

/// The measures of the kernel for so many columns, which [`columns`] lists.
pub fn shape(processor: Processor, dtype: Dtype, columns: u32, rows_together: bool) -> Shape {
    let unit = unit(processor, dtype, columns);
    let is_nvidia = processor.is_nvidia();
    Shape {
        reads_b: is_nvidia && dtype.bytes() >= 4 && columns >= 8,
        doubles: is_nvidia && dtype == Dtype::F32 && rows_together,
        ..measures(unit, dtype.bytes(), columns, rows_together)
    }
}

/// The same by what multiplies elements of so many bytes.
pub(crate) fn measures(unit: Unit, bytes: u32, columns: u32, rows_together: bool) -> Shape {
    let vector = 16 / bytes;
    // Lanes of a team, those that hold different rows, and different k.
    let (lanes, row_lanes, k_lanes) = match unit {
        Unit::Lanes => {
            let row_lanes = if rows_together { 8 } else { 1 };
            (32, row_lanes, 32 / row_lanes / columns.div_ceil(4))
        }
        Unit::MmaSync => (32, 8, 4),
        Unit::Mfma => (64, 16, 4),
        Unit::Wmma { k_lanes } => (32, 16, k_lanes),
    };
    // Rows in a lane, and vectors along k of each.
    let turns_lines = unit == Unit::MmaSync && rows_together && bytes == 2;
    let (tiles, vectors) = match (rows_together, unit) {
        _ if turns_lines => (4, VECTORS / 4),
        // RDNA3's instructions take two vectors.
        (true, Unit::Wmma { k_lanes: 1 }) => (vector, 2 * VECTORS / vector),
        (true, _) => (vector, VECTORS / vector),
        (false, Unit::Lanes) => (VECTORS, 1),
        (false, Unit::MmaSync) => (columns / 8, VECTORS / 2),
        (false, Unit::Mfma | Unit::Wmma { .. }) => (1, VECTORS),
    };
    Shape {
        lanes,
        teams: THREADS / lanes,
        doubles: false,
        rows: row_lanes * tiles,
        step: k_lanes * vector * vectors,
        columns,
        lanes_multiply: unit == Unit::Lanes,
        reads_b: false,
        small: unit == Unit::MmaSync && !rows_together && bytes == 2,
        dynamic_lds: if turns_lines {
            STEPS_IN_LDS * VECTORS * 16 * THREADS
        } else {
            0
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
                        // The second-level cache fetches both halves of what is turned over in LDS.
                        let least = if shape.turns_lines() { 64 } else { 128 };
                        assert_eq!(line * dtype.bytes() % least, 0, "{arch} {dtype:?}");
                        assert!(shape.teams.is_power_of_two() && shape.step.is_power_of_two());
                    }
                }
            }
        }
    }
}
