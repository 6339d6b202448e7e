//! Launching the kernels of module `cross_entropy`.

use candle_core::{bail, CudaDevice, CudaStorage, DType, Result, Tensor};
use candle_rocm_kernels::CROSS_ENTROPY;
use candle_rocm_runtime::{DeviceRepr, LaunchConfig};

use super::super::launch::{
    allocate, compute_units, element_grid, grid, launch, launch_of, Arg, THREADS,
};
use super::super::node::plain;
use super::options::{loss_dtype, CrossEntropyOptions, Reduction};

candle_rocm_kernels::kernel_argument! { CROSS_ENTROPY_PROBLEM,
    /// `CrossEntropyProblem` of kernels/losses/problem.cuh.
    #[derive(Clone, Copy, Debug, Default)]
    pub(super) struct Problem {
        logits: u64,
        targets: u64,
        losses: u64,
        lse: u64,
        partial: u64,
        slope: u64,
        scale: u64,
        gradient: u64,
        total: u64,
        total_scale: u64,
        rows: u64,
        stride: u64,
        first_row: u64,
        ignored: i64,
        target_weight: f64,
        each_weight: f64,
        z_loss: f64,
        softcap: f64,
        columns: u32,
        threads: u32,
        splits: u32,
        target_bytes: u32,
        has_ignored: u32,
        slope_of_row: u32,
        every_lse: u32,
        mean: u32,
    }
}

// SAFETY: numbers, laid out by C's rules and without padding, as the kernels' parameter.
unsafe impl DeviceRepr for Problem {}

/// Workgroups for a compute unit that rows are split for.
const SPLIT_FOR: usize = 4;
/// Workgroups for a compute unit beyond which they loop over rows.
const MOST_WORKGROUPS: usize = 64;
/// Vectors that a thread takes at once (kernels/losses/cross_entropy.cuh).
const AT_ONCE: usize = 4;

/// What the rows of a call have in common.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) device: &'a CudaDevice,
    pub(super) dtype: DType,
    pub(super) columns: u32,
    pub(super) targets: &'a Tensor,
    pub(super) options: &'a CrossEntropyOptions,
    pub(super) every_lse: bool,
}

/// Some of the rows: their logits, of which a row is in one piece, and their number among all.
#[derive(Clone, Copy)]
pub(super) struct Logits<'a> {
    pub(super) of: &'a Tensor,
    pub(super) stride: usize,
    pub(super) rows: usize,
    pub(super) first_row: usize,
}

/// What the loss's gradient is.
#[derive(Clone, Copy)]
pub(super) struct Slope<'a> {
    pub(super) of: Option<&'a Tensor>,
    pub(super) scale: Option<&'a Tensor>,
    /// Of log-sum-exps, whose slope is one for each row.
    pub(super) of_lse: bool,
}

/// What a forward pass leaves of each row.
pub(super) struct OfRows {
    pub(super) losses: CudaStorage,
    pub(super) lse: CudaStorage,
}

impl OfRows {
    pub(super) fn new(rows: &Rows) -> Result<Self> {
        let room = || allocate(rows.device, rows.loss_dtype(), rows.targets.elem_count());
        Ok(Self {
            losses: room()?,
            lse: room()?,
        })
    }
}

impl Rows<'_> {
    pub(super) fn loss_dtype(&self) -> DType {
        loss_dtype(self.dtype)
    }

    fn problem(&self) -> Problem {
        let [target_weight, each_weight, z_loss] = self.options.weights(self.columns as usize);
        Problem {
            rows: self.targets.elem_count() as u64,
            ignored: self.options.ignore_index.unwrap_or_default(),
            has_ignored: u32::from(self.options.ignore_index.is_some()),
            target_weight,
            each_weight,
            z_loss,
            softcap: self.options.softcap.unwrap_or_default(),
            columns: self.columns,
            target_bytes: self.targets.dtype().size_in_bytes() as u32,
            every_lse: u32::from(self.every_lse),
            mean: u32::from(self.options.reduction == Reduction::Mean),
            splits: 1,
            ..Problem::default()
        }
    }

    /// The problem of some of the rows, and its grid.
    fn of(&self, logits: &Logits) -> Result<(Problem, LaunchConfig)> {
        let vectors = self.columns as usize * self.dtype.size_in_bytes() / 16;
        let threads = vectors.div_ceil(AT_ONCE).next_power_of_two();
        let threads = threads.clamp(1, THREADS as usize);
        let units = compute_units(self.device);
        let mut splits = 1;
        if threads == THREADS as usize {
            let wanted = (SPLIT_FOR * units) / logits.rows;
            splits = wanted.min(vectors / (AT_ONCE * threads)).max(1);
        }
        let workgroups = (logits.rows * splits).div_ceil(THREADS as usize / threads);
        let problem = Problem {
            rows: logits.rows as u64,
            stride: logits.stride as u64,
            first_row: logits.first_row as u64,
            threads: threads as u32,
            splits: splits as u32,
            ..self.problem()
        };
        Ok((
            problem,
            grid(workgroups.min(MOST_WORKGROUPS * units), 1, THREADS)?,
        ))
    }

    fn name(&self, kernel: &str) -> String {
        format!("cross_entropy_{kernel}_{}", self.dtype.as_str())
    }

    /// Each row's loss and log-sum-exp.
    pub(super) fn forward(&self, logits: &Logits, to: &mut OfRows) -> Result<()> {
        let (problem, config) = self.of(logits)?;
        let splits = problem.splits as usize;
        let count = if splits == 1 {
            0
        } else {
            3 * logits.rows * splits
        };
        let mut partial = allocate(self.device, self.loss_dtype(), count.max(1))?;
        let mut run = |kernel: &str, config| {
            let memory = [
                Arg::Within(logits.of),
                Arg::Read(Some(self.targets)),
                Arg::Write(&mut to.losses),
                Arg::Write(&mut to.lse),
                Arg::Write(&mut partial),
            ];
            let argument = |[logits, targets, losses, lse, partial]: [u64; 5]| Problem {
                logits,
                targets,
                losses,
                lse,
                partial,
                ..problem
            };
            // SAFETY: the kernel's argument; rows are as many as were counted, and each split leaves three numbers.
            unsafe {
                let name = self.name(kernel);
                launch_of(self.device, &CROSS_ENTROPY, &name, config, memory, argument)
            }
        };
        run("rows", config)?;
        if splits > 1 {
            let workgroups = logits.rows.div_ceil(THREADS as usize);
            run("finish", grid(workgroups, 1, THREADS)?)?;
        }
        Ok(())
    }

    /// The sum or mean of all losses, and what its gradient is multiplied by for each row.
    pub(super) fn total(&self, losses: &CudaStorage) -> Result<[CudaStorage; 2]> {
        let mut total = allocate(self.device, self.loss_dtype(), 1)?;
        let mut scale = allocate(self.device, self.loss_dtype(), 1)?;
        let memory = [
            Arg::Read(Some(self.targets)),
            Arg::Left(losses),
            Arg::Write(&mut total),
            Arg::Write(&mut scale),
        ];
        let argument = |[targets, losses, total, total_scale]: [u64; 4]| Problem {
            targets,
            losses,
            total,
            total_scale,
            ..self.problem()
        };
        let name = format!("cross_entropy_sum_{}", self.loss_dtype().as_str());
        // SAFETY: the kernel's argument; there are as many losses as targets.
        unsafe {
            let config = grid(1, 1, 1024)?;
            launch_of(self.device, &CROSS_ENTROPY, &name, config, memory, argument)
        }?;
        Ok([total, scale])
    }

    /// The logits' gradient, to `to`, or in the place of the logits.
    pub(super) fn backward(
        &self,
        logits: &Logits,
        lse: Arg,
        slope: &Slope,
        to: Option<&mut CudaStorage>,
    ) -> Result<()> {
        let (mut problem, config) = self.of(logits)?;
        problem.slope_of_row = u32::from(slope.of_lse || self.options.reduction == Reduction::None);
        if slope.of_lse {
            problem.target_bytes = 0;
        }
        let in_place = to.is_none();
        let memory = [
            Arg::Within(logits.of),
            Arg::Read(Some(self.targets)),
            lse,
            Arg::Read(slope.of),
            Arg::Read(slope.scale),
            to.map_or(Arg::Null, Arg::Write),
        ];
        let argument = |[logits, targets, lse, slope, scale, gradient]: [u64; 6]| Problem {
            logits,
            targets,
            lse,
            slope,
            scale,
            gradient: if in_place { logits } else { gradient },
            ..problem
        };
        let name = self.name("backward");
        // SAFETY: the kernel's argument; the gradient has as many rows as there are, of all columns.
        unsafe { launch_of(self.device, &CROSS_ENTROPY, &name, config, memory, argument) }
    }
}

/// x times two numbers that are on the device.
pub(super) fn scaled(x: &Tensor, slope: &Tensor, scale: &Tensor) -> Result<Tensor> {
    let candle_core::Device::Cuda(device) = x.device() else {
        bail!("linear_cross_entropy: a gradient is not on a GPU");
    };
    let mut to = allocate(device, x.dtype(), x.elem_count())?;
    let args = vec![
        Arg::Read(Some(x)),
        Arg::Write(&mut to),
        Arg::Read(Some(slope)),
        Arg::Read(Some(scale)),
        Arg::Long(x.elem_count()),
    ];
    let name = format!("cross_entropy_scale_{}", x.dtype().as_str());
    let config = element_grid(device, x.elem_count(), x.dtype())?;
    // SAFETY: the kernel's arguments; the result has x's elements.
    unsafe { launch(device, &CROSS_ENTROPY, &name, config, args) }?;
    Ok(plain(to, x.shape()))
}
