//! How long a plan may take.
//!
//! The estimates are only to rank plans: nobody has timed these kernels on AMD hardware. What was timed, by `tune`, comes
//! before them.

use candle_rocm_kernels::matmul::SplitKReduction;
use rocm_gpus::{costs, Rates};

use super::problem::GemmDtype;
use super::product::Product;
use crate::plan::gpu::{ComputeUnit, Gpu, RESERVED_LDS};
use crate::plan::roofline::{memory_cycles, overlapped, Roofline};

/// Wavefronts' places where one of a SIMD's two multiplies while the other waits: a unit's SIMDs, twice.
const TWO_A_SIMD: u64 = 8;

fn rate(rates: &Rates, dtype: GemmDtype) -> f64 {
    f64::from(match dtype {
        GemmDtype::F16 | GemmDtype::F16ToF32 => rates.f16,
        GemmDtype::BF16 | GemmDtype::BF16ToF32 => rates.bf16,
        GemmDtype::I8 => rates.i8,
        GemmDtype::F32 => rates.f32,
        GemmDtype::F64 => rates.f64,
    })
}

/// Whose multiply-adds a kernel uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MathPipe {
    Matrix,
    Vector {
        /// Steps whose operands have room in LDS.
        stages: u32,
    },
}

/// What a workgroup does, as far as its time goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// Rows and columns of its tile of C.
    pub rows: u64,
    pub columns: u64,
    /// Elements of k in a step.
    pub depth: u64,
    pub threads: u64,
    pub pipe: MathPipe,
    /// Bytes of LDS that a launch asks for, where operands go straight to it; else 0.
    pub dynamic_lds: u64,
    /// Whether it reads whole lines, in an order that was asked for.
    pub whole_cache_lines: bool,
    /// Steps whose operands are on their way at once.
    pub prefetch: u32,
}

impl Work {
    /// Bytes of an element in LDS: vector units get them upcast.
    fn lds_element(&self, dtype: GemmDtype) -> f64 {
        match self.pipe {
            MathPipe::Matrix => dtype.bytes() as f64,
            MathPipe::Vector { .. } => dtype.sum_bytes() as f64,
        }
    }

    /// Bytes of LDS that it moves in a step: each operand is written once; waves of matrix units form a square and
    /// each read what its side needs, work-items of vector units the rows and columns of their own sums.
    fn lds_traffic(&self, unit: &ComputeUnit, dtype: GemmDtype) -> f64 {
        let edges = (self.rows + self.columns) as f64;
        let reads = match self.pipe {
            MathPipe::Matrix => edges * (self.threads as f64 / unit.wavefront as f64).sqrt(),
            MathPipe::Vector { .. } => {
                let sums = (self.rows * self.columns) as f64 / self.threads as f64;
                2.0 * sums.sqrt() * self.threads as f64 * unit.shown_lds_reads
            }
        };
        (reads + edges) * self.depth as f64 * self.lds_element(dtype)
    }

    /// Cycles of a unit for a step, if it waits for nothing, with so many workgroups at once.
    fn step(&self, unit: &ComputeUnit, dtype: GemmDtype, workgroups: u64) -> f64 {
        let rates = match self.pipe {
            MathPipe::Matrix => &unit.matrix,
            MathPipe::Vector { .. } => &unit.vector,
        };
        let edges = (self.rows + self.columns) as f64;
        let bound = [
            (self.rows * self.columns * self.depth) as f64 / rate(rates, dtype),
            self.lds_traffic(unit, dtype) / costs::LDS_RATE.value,
            edges * self.depth as f64 * dtype.bytes() as f64 / costs::CACHE_RATE.value,
        ];
        let most = bound.into_iter().fold(0.0, f64::max);
        let wavefronts = workgroups * self.threads / unit.wavefront;
        let not_hidden = match self.whole_cache_lines && wavefronts >= TWO_A_SIMD {
            true => costs::NOT_HIDDEN_SCHEDULED.value,
            false => costs::NOT_HIDDEN.value,
        };
        most + not_hidden * (bound.into_iter().sum::<f64>() - most)
    }

    /// How many of them a compute unit holds, by LDS, registers and work-items; at least 1.
    fn resident(&self, unit: &ComputeUnit, dtype: GemmDtype) -> u64 {
        let edges = (self.rows + self.columns) * self.depth;
        // Matrix units have one step's operands in stages, with room between rows where they are not whole lines.
        let buffers = match self.pipe {
            MathPipe::Matrix if self.whole_cache_lines => 1.0,
            MathPipe::Matrix => 1.28,
            MathPipe::Vector { stages } => stages.into(),
        };
        let (lds, on_its_way) = match self.dynamic_lds {
            0 => (
                (buffers * edges as f64 * self.lds_element(dtype)) as u64,
                edges * dtype.bytes() as u64 / 4 / self.threads,
            ),
            bytes => (bytes + RESERVED_LDS, 0),
        };
        let sums = self.rows * self.columns / self.threads * dtype.sum_bytes() as u64 / 4;
        // And addresses and fragments.
        let registers = sums + on_its_way + 56;
        (unit.lds / lds.max(1))
            .min(unit.registers / (registers * self.threads))
            .min(unit.threads / self.threads)
            .max(1)
    }

    /// Cycles of a unit for a round of so many workgroups, each of so many steps of k.
    fn round(
        &self,
        unit: &ComputeUnit,
        dtype: GemmDtype,
        workgroups: u64,
        [steps, end]: [f64; 2],
    ) -> f64 {
        let step = self.step(unit, dtype, workgroups);
        // Of two on a unit one multiplies while the other waits.
        let prefetch = f64::from(self.prefetch - 1) / if workgroups == 1 { 2.0 } else { 4.0 };
        let latency = costs::LATENCY.value * (1.0 - prefetch);
        steps * overlapped(workgroups as f64 * step, latency) + end
    }
}

impl Gpu {
    /// Workgroups that run at once.
    pub(super) fn concurrent(&self, work: &Work, dtype: GemmDtype) -> u64 {
        self.units() * work.resident(&self.unit(), dtype)
    }

    /// Rows of A and columns of B that all second-level caches together read: of k as much as the product has, if each gets a
    /// connected part of C, or if each gets the same share of k.
    fn read_by_caches(&self, product: &Product, work: &Work, share_k: bool) -> [f64; 2] {
        let caches = u64::from(self.xcds());
        if caches == 1 || share_k {
            return [product.m, product.n].map(|all| all as f64);
        }
        let of = [work.rows, work.columns];
        let tiles = [(product.m, of[0]), (product.n, of[1])].map(|(all, of)| all.div_ceil(of));
        let of_cache = (tiles[0] * tiles[1]).div_ceil(caches);
        let (group, _) = self.grouped(
            of.map(|of| of as u32),
            tiles,
            self.concurrent(work, product.dtype),
        );
        let rows = of_cache.div_ceil(tiles[1]).max(u64::from(group));
        let columns = of_cache.div_ceil(rows);
        [rows * of[0], columns * of[1]].map(|of_cache| (caches * of_cache) as f64)
    }

    /// The estimated time of a product in tiles, in cycles, with k in so many splits, of whose sums there becomes this.
    pub(super) fn cycles(
        &self,
        product: &Product,
        work: &Work,
        splits: u64,
        split_k_reduction: SplitKReduction,
    ) -> f64 {
        let dtype = product.dtype;
        let (unit, units) = match work.pipe {
            // Such workgroups stay in one compute unit of a pair.
            MathPipe::Vector { stages: 1 } => (self.unit().half(), 2 * self.units()),
            _ => (self.unit(), self.units()),
        };
        let steps = product.k.div_ceil(splits).div_ceil(work.depth).max(1) as f64;
        let tiles = product.m.div_ceil(work.rows) * product.n.div_ceil(work.columns);
        // Those that are handed to others are counted with the reduction.
        let elements = match work.whole_cache_lines && splits == 1 {
            true => (work.rows * work.columns) as f64,
            false => 0.0,
        };
        let end = costs::ENDS.value + costs::END_OF_ELEMENT.value * elements;
        let launch = Roofline {
            workgroups: tiles * product.batch * splits,
            units,
            resident: work.resident(&unit, dtype),
            whole_rounds: false,
            first: match work.whole_cache_lines {
                true => costs::FIRST_CODE.value,
                false => 0.0,
            },
            memory: self.memory(self.bytes(product, work, split_k_reduction)),
            reduction: self.reduction(product, work, splits, split_k_reduction),
        };
        launch.time(|workgroups| work.round(&unit, dtype, workgroups, [steps, end]))
    }

    fn memory(&self, bytes: f64) -> f64 {
        memory_cycles(bytes, self.units() as f64)
    }

    /// Bytes of operands and result that memory passes.
    fn bytes(&self, product: &Product, work: &Work, split_k_reduction: SplitKReduction) -> f64 {
        let (m, n, k) = (product.m as f64, product.n as f64, product.k as f64);
        let batch = product.batch as f64;
        let matrices = |stride: i64| if stride == 0 { 1.0 } else { batch };
        let share_k = split_k_reduction == SplitKReduction::PerXcd;
        let [rows, columns] = self.read_by_caches(product, work, share_k);
        let elements = |rows: f64, columns: f64| {
            k * (rows * matrices(product.a.stride) + columns * matrices(product.b.stride))
        };
        let inputs = elements(m, n).max(costs::READ_AGAIN.value * elements(rows, columns));
        let output = m * n * batch * product.dtype.output_bytes() as f64;
        inputs * product.dtype.bytes() as f64 + output
    }

    /// Cycles of what becomes of the splits' sums.
    fn reduction(&self, product: &Product, work: &Work, splits: u64, of: SplitKReduction) -> f64 {
        if splits == 1 {
            return 0.0;
        }
        let (m, n, batch) = (product.m as f64, product.n as f64, product.batch as f64);
        let sums = m * n * batch * splits as f64 * product.dtype.sum_bytes() as f64;
        let elements = (work.rows * work.columns) as f64;
        let written = self.memory(costs::SHOWN_OF_PARTIAL_SUMS.value * sums);
        written
            + match of {
                SplitKReduction::InKernel => {
                    let further =
                        costs::IN_KERNEL_REDUCTION_OF_FURTHER_SPLIT.value * (splits - 2) as f64;
                    costs::IN_KERNEL_REDUCTION.value
                        + elements * (costs::IN_KERNEL_REDUCTION_OF_ELEMENT.value + further)
                }
                SplitKReduction::SeparateKernel | SplitKReduction::PerXcd => {
                    self.memory(sums) + costs::LAUNCH.value
                }
            }
    }
}
