//! Normalisation of groups of channels.

use candle_core::{bail, CudaDevice, CudaStorage, DType, IndexOp as _, Result, Tensor, D};
use candle_rocm_kernels::GROUP_NORM;
use candle_rocm_runtime::DeviceRepr;

use super::launch::{allocate, compute_units, grid, int, launch_of, Arg, THREADS};
use super::node::{plain, result_of};
use super::operands::{check_alike, empty, gpu, is_wide, on_gpu, row_float, wide, width};

const NAME: &str = "group_norm";
/// Work-items of a workgroup that holds a group, or a large part of one.
const MOST_THREADS: u32 = 1024;
/// Workgroups for a compute unit up to which parts of groups are small.
const FILLED: usize = 4;
/// Vectors of a thread where gradients are made.
const AT_ONCE: usize = 8;

candle_rocm_kernels::kernel_argument! { GROUP_NORM_PROBLEM,
    /// `GroupNormProblem` of kernels/norms/group_norm.cuh.
    #[derive(Clone, Copy, Debug, Default)]
    struct Problem {
        x: u64,
        gradient: u64,
        weight: u64,
        bias: u64,
        result: u64,
        stats: u64,
        moments: u64,
        sums: u64,
        rows: u64,
        length: u32,
        spatial: u32,
        part: u32,
        parts: u32,
        groups: u32,
        channels: u32,
        threads: u32,
        wide: u32,
        epsilon: f32,
        unused: u32,
    }
}

// SAFETY: numbers, laid out by C's rules and without padding, as the kernels' parameter.
unsafe impl DeviceRepr for Problem {}

/// (x - mean) / sqrt(variance + eps) * weight + bias, with the mean and the variance of each group of channels.
///
/// `x` has shape (samples, channels, ...) and is f32, f16 or bf16; `groups` divides the channels. `weight` and `bias` have a
/// number for each channel, of x's dtype. `eps` is rounded to f32. On a GPU a group that a workgroup holds (131,072 bytes
/// of x) is read once; a larger one, or one of few, is split over several workgroups and read twice.
///
/// # Errors
/// Operands of other dtypes, shapes or devices, channels that `groups` does not divide, or a failed launch; each names the
/// operator and what was found.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{DType, Device, Tensor};
/// let device = Device::new_cuda(0)?;
/// let x = Tensor::randn(0f32, 1., (2, 8, 5, 5), &device)?;
/// let weight = Tensor::ones(8, DType::F32, &device)?;
/// let y = candle_rocm_backend::ops::group_norm(&x, 4, &weight, None, 1e-5)?;
/// let means = y.reshape((2, 4, 50))?.mean(2)?.flatten_all()?.to_vec1::<f32>()?;
/// assert!(means.iter().all(|mean| mean.abs() < 1e-5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn group_norm(
    x: &Tensor,
    groups: usize,
    weight: &Tensor,
    bias: Option<&Tensor>,
    eps: f64,
) -> Result<Tensor> {
    row_float(NAME, x)?;
    let &[samples, channels, ..] = x.dims() else {
        bail!(
            "{NAME}: x has shape {:?}, and needs samples and channels",
            x.shape()
        );
    };
    if groups == 0 || !channels.is_multiple_of(groups) {
        bail!(
            "{NAME}: {groups} groups do not divide the {channels} channels of x of shape {:?}",
            x.shape()
        );
    }
    for (name, vector) in [("the weight", Some(weight)), ("the bias", bias)] {
        let Some(vector) = vector else { continue };
        check_alike(NAME, name, vector, x)?;
        if vector.dims() != [channels] {
            bail!(
                "{NAME}: {name} has shape {:?}, and x of shape {:?} needs [{channels}]",
                vector.shape(),
                x.shape()
            );
        }
    }
    if x.elem_count() == 0 {
        return empty(x, x.shape());
    }
    let norm = Norm {
        samples,
        groups,
        channels: channels / groups,
        spatial: x.dims()[2..].iter().product(),
        eps: eps as f32,
    };
    if !on_gpu(x) {
        return norm.composed(x, weight, bias);
    }
    norm.by_kernels(x, weight, bias)
}

#[derive(Clone, Copy)]
struct Norm {
    samples: usize,
    groups: usize,
    /// Of a group.
    channels: usize,
    spatial: usize,
    eps: f32,
}

/// Who has which elements of a group.
struct Split {
    wide: bool,
    threads: u32,
    part: usize,
    parts: usize,
}

impl Norm {
    fn length(&self) -> usize {
        self.channels * self.spatial
    }

    fn all_groups(&self) -> usize {
        self.samples * self.groups
    }

    /// Whether vectors of 16 bytes lie within a channel, and are aligned.
    fn is_wide(&self, tensors: &[&Tensor]) -> bool {
        is_wide(self.spatial, tensors)
    }

    /// The parts of the groups of a forward pass (`GROUP_NORM_VECTORS` of the kernels).
    fn split(&self, device: &CudaDevice, x: &Tensor) -> Split {
        let wide = self.is_wide(&[x]);
        let of_thread = match wide {
            true => 8 * 16 / x.dtype().size_in_bytes(),
            false => 16,
        };
        let [small, large] = [THREADS, MOST_THREADS].map(|threads| threads as usize * of_thread);
        let (length, units) = (self.length(), compute_units(device));
        let fills = 2 * self.all_groups() >= units;
        let small_splits = self.all_groups() * length.div_ceil(small);
        let is_small = length <= small || !fills && small_splits <= FILLED * units;
        let (threads, held) = if is_small {
            (THREADS, small)
        } else {
            (MOST_THREADS, large)
        };
        let parts = length.div_ceil(held);
        Split {
            wide,
            threads,
            part: held.min(length),
            parts,
        }
    }

    /// What all kernels are told.
    fn problem(&self, wide: bool) -> Result<Problem> {
        let number = |what, value| int(NAME, what, value);
        Ok(Problem {
            rows: (self.samples * self.groups * self.channels) as u64,
            length: number("elements of a group", self.length())?,
            spatial: number("elements of a channel", self.spatial)?,
            groups: number("groups", self.groups)?,
            channels: number("channels of a group", self.channels)?,
            wide: u32::from(wide),
            epsilon: self.eps,
            ..Problem::default()
        })
    }

    fn by_kernels(self, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        let x = x.contiguous()?;
        let (normed, stats) = self.forward(&x, weight, bias)?;
        let stats = plain(stats, &(self.all_groups(), 2).into());
        let backward = move |operands: &[&Tensor], _: &Tensor, dy: &Tensor| {
            self.backward(operands, dy, &stats)
        };
        let operands: Vec<&Tensor> = [&x, weight].into_iter().chain(bias).collect();
        result_of(NAME, &operands, normed, x.shape(), Box::new(backward))
    }

    /// The result, and each group's (mean, 1 / deviation).
    fn forward(
        &self,
        x: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
    ) -> Result<(CudaStorage, CudaStorage)> {
        let device = gpu(NAME, x)?;
        let split = self.split(device, x);
        let problem = Problem {
            part: int(NAME, "elements of a part", split.part)?,
            parts: int(NAME, "parts", split.parts)?,
            ..self.problem(split.wide)?
        };
        let weight = weight.contiguous()?;
        let bias = bias.map(Tensor::contiguous).transpose()?;
        let workgroups = self.all_groups() * split.parts;
        let mut normed = allocate(device, x.dtype(), x.elem_count())?;
        let mut stats = allocate(device, DType::F32, 2 * self.all_groups())?;
        let mut moments = None;
        let config = grid(workgroups, 1, split.threads)?;
        if split.parts > 1 {
            let mut to = allocate(device, DType::F32, 2 * workgroups)?;
            let kernel = format!("group_norm_moments_{}", row_float(NAME, x)?);
            let memory = [Arg::Read(Some(x)), Arg::Write(&mut to)];
            let argument = |[x, moments]: [u64; 2]| Problem {
                x,
                moments,
                ..problem
            };
            // SAFETY: the kernel's argument; each part leaves two numbers.
            unsafe { launch_of(device, &GROUP_NORM, &kernel, config, memory, argument) }?;
            moments = Some(to);
        }
        let kernel = format!("group_norm_{}", row_float(NAME, x)?);
        let memory = [
            Arg::Read(Some(x)),
            Arg::Read(Some(&weight)),
            Arg::Read(bias.as_ref()),
            moments.as_ref().map_or(Arg::Null, Arg::Left),
            Arg::Write(&mut normed),
            Arg::Write(&mut stats),
        ];
        let argument = |[x, weight, bias, moments, result, stats]: [u64; 6]| Problem {
            x,
            weight,
            bias,
            moments,
            result,
            stats,
            ..problem
        };
        // SAFETY: the kernel's argument; the result has x's elements, weight and bias a number for each channel.
        unsafe { launch_of(device, &GROUP_NORM, &kernel, config, memory, argument) }?;
        Ok((normed, stats))
    }

    /// The gradients of x, weight and bias.
    fn backward(
        &self,
        operands: &[&Tensor],
        dy: &Tensor,
        stats: &Tensor,
    ) -> Result<Vec<Option<Tensor>>> {
        let [x, weight, ..] = operands else {
            bail!("{NAME}: the graph has lost its operands");
        };
        let wide = self.is_wide(&[x, dy]);
        let sums = self.channel_sums(x, dy, stats, wide)?;
        let dx = match x.track_op() {
            true => Some(self.gradient(x, dy, weight, stats, &sums, wide)?),
            false => None,
        };
        let of_channels = sums.sum(1)?;
        let of = |number: usize, operand: Option<&&Tensor>| match operand {
            Some(operand) if operand.track_op() => {
                of_channels.i(number)?.to_dtype(operand.dtype()).map(Some)
            }
            _ => Ok(None),
        };
        Ok(vec![dx, of(0, Some(weight))?, of(1, operands.get(2))?])
    }

    /// (2, samples, channels): the sums of dy * normed x, and of dy.
    fn channel_sums(&self, x: &Tensor, dy: &Tensor, stats: &Tensor, wide: bool) -> Result<Tensor> {
        let device = gpu(NAME, x)?;
        let width = width(x.dtype(), wide);
        // Four vectors a thread before there are more threads.
        let threads = self.spatial.div_ceil(4 * width).next_power_of_two();
        let threads = threads.min(THREADS as usize);
        let rows = self.samples * self.groups * self.channels;
        let problem = Problem {
            threads: threads as u32,
            ..self.problem(wide)?
        };
        let mut sums = allocate(device, DType::F32, 2 * rows)?;
        let memory = [
            Arg::Read(Some(x)),
            Arg::Read(Some(dy)),
            Arg::Read(Some(stats)),
            Arg::Write(&mut sums),
        ];
        let argument = |[x, gradient, stats, sums]: [u64; 4]| Problem {
            x,
            gradient,
            stats,
            sums,
            ..problem
        };
        let kernel = format!("group_norm_sums_{}", row_float(NAME, x)?);
        let config = grid(rows.div_ceil(THREADS as usize / threads), 1, THREADS)?;
        // SAFETY: the kernel's argument; each channel of each sample leaves two numbers.
        unsafe { launch_of(device, &GROUP_NORM, &kernel, config, memory, argument) }?;
        let shape = (2, self.samples, self.groups * self.channels);
        Ok(plain(sums, &shape.into()))
    }

    /// The gradient of x.
    fn gradient(
        &self,
        x: &Tensor,
        dy: &Tensor,
        weight: &Tensor,
        stats: &Tensor,
        sums: &Tensor,
        wide: bool,
    ) -> Result<Tensor> {
        let device = gpu(NAME, x)?;
        let part = THREADS as usize * AT_ONCE * width(x.dtype(), wide);
        let parts = self.length().div_ceil(part);
        let problem = Problem {
            part: int(NAME, "elements of a part", part)?,
            parts: int(NAME, "parts", parts)?,
            ..self.problem(wide)?
        };
        let weight = weight.contiguous()?;
        let mut dx = allocate(device, x.dtype(), x.elem_count())?;
        let memory = [
            Arg::Read(Some(x)),
            Arg::Read(Some(dy)),
            Arg::Read(Some(&weight)),
            Arg::Read(Some(stats)),
            Arg::Read(Some(sums)),
            Arg::Write(&mut dx),
        ];
        let argument = |[x, gradient, weight, stats, sums, result]: [u64; 6]| Problem {
            x,
            gradient,
            weight,
            stats,
            sums,
            result,
            ..problem
        };
        let kernel = format!("group_norm_gradient_{}", row_float(NAME, x)?);
        let config = grid(self.all_groups() * parts, 1, THREADS)?;
        // SAFETY: the kernel's argument; the gradient has x's elements.
        unsafe { launch_of(device, &GROUP_NORM, &kernel, config, memory, argument) }?;
        Ok(plain(dx, x.shape()))
    }

    /// The same of Candle's operators.
    fn composed(&self, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        let grouped = wide(x)?.reshape((self.all_groups(), self.length()))?;
        let centred = grouped.broadcast_sub(&grouped.mean_keepdim(D::Minus1)?)?;
        let variance = centred.sqr()?.mean_keepdim(D::Minus1)?;
        let scale = (variance + f64::from(self.eps))?.sqrt()?;
        let normed = centred.broadcast_div(&scale)?;
        let channels = self.groups * self.channels;
        let normed = normed.reshape((self.samples, channels, self.spatial))?;
        let of_channel = |vector: &Tensor| wide(vector)?.reshape((1, channels, 1));
        let mut y = normed.broadcast_mul(&of_channel(weight)?)?;
        if let Some(bias) = bias {
            y = y.broadcast_add(&of_channel(bias)?)?;
        }
        y.reshape(x.shape())?.to_dtype(x.dtype())
    }
}
