//! Giving a convolution to a stream.

use candle_rocm_kernels::convolution::{Gather, DEPTHWISE_LAST_PLACES};
use candle_rocm_kernels::{convolution, CONVOLUTION};

use super::arguments::ConvolutionArguments;
use super::description::{Activation, Convolution, Epilogue, Operands, Operation};
use super::fold::folded;
use super::halo;
use super::library;
use super::lines;
use super::plan::{is_within, Kernel, MOST_MATRICES};
use super::product;
use super::transpose::Transpose;
use crate::base::error::{Error, Result};
use crate::gemm::gemm_with_epilogue;
use crate::kernels::ready::ReadyLaunch;
use crate::kernels::submit::LaunchConfig;
use crate::memory::workspace::Workspace;
use crate::plan::gpu::Gpu;
use crate::plan_cache;
use crate::stream::queue::Stream;

/// Workgroups for a compute unit of the kernels that go on in steps of their grid.
const WORKGROUPS_PER_UNIT: u64 = 16;
/// Likewise of those whose workgroups first read all taps of their channels.
const WORKGROUPS_OF_TAPS_PER_UNIT: u64 = 4;

/// All that a plan depends on beside the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    of: Convolution,
    /// Whether vectors begin at the operands' addresses: inputs, weights, outputs, addend, residual.
    aligned: [bool; 5],
}

/// Kernels that were found, and their arguments but for values.
#[derive(Debug)]
struct Prepared {
    arguments: ConvolutionArguments,
    first: ReadyLaunch,
    sum: Option<ReadyLaunch>,
    transpose: Option<Transpose>,
    workspace: u64,
}

plan_cache!(
    /// The plans of all GPUs' convolutions.
    static PLANS: Key => Prepared
);

/// Gives a convolution, or a gradient of one, to the stream, and what follows it.
///
/// # Safety
/// The addresses are those of device memory that holds the tensors as described; the result overlaps no operand.
///
/// # Errors
/// [`Convolution::check`]'s; a bias or an activation for a gradient of weights; more groups than a launch takes; the module is not embedded for
/// this device; HIP refuses the launch; there is no memory for partial sums. Each names the convolution.
pub unsafe fn convolve(
    stream: &Stream,
    of: &Convolution,
    operands: &Operands,
    epilogue: &Epilogue,
) -> Result<()> {
    let give = || {
        let is_aligned = |address: u64| address.is_multiple_of(16);
        let key = Key {
            of: *of,
            aligned: [
                operands.inputs,
                operands.weights,
                operands.outputs,
                epilogue.addend.unwrap_or(0),
                epilogue.residual.unwrap_or(0),
            ]
            .map(is_aligned),
        };
        check_epilogue(of, epilogue)?;
        let device = stream.context().device();
        if PLANS.get(device, &key).is_none() {
            of.check()?;
        }
        if of.is_empty() {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        let own = || unsafe { by_own_kernels(stream, &key, operands, epilogue) };
        if let Some(library) = library::of(device)? {
            // SAFETY: the caller's promise.
            if unsafe { library.convolve(stream, of, operands, epilogue, &own) }? {
                return Ok(());
            }
        }
        own()
    };
    give().map_err(|error: Error| error.context(of))
}

/// Sums of a gradient of weights are taken as they are.
fn check_epilogue(of: &Convolution, epilogue: &Epilogue) -> Result<()> {
    let is_plain = epilogue.bias.is_none() && epilogue.activation == Activation::None;
    match of.operation == Operation::Weights && !is_plain {
        false => Ok(()),
        true => Err(Error::invalid(
            "a gradient of weights has no bias and no activation",
        )),
    }
}

/// A checked convolution by our own kernels: as a product, or by the plan for it.
///
/// # Safety
/// As [`convolve`].
unsafe fn by_own_kernels(
    stream: &Stream,
    key: &Key,
    operands: &Operands,
    epilogue: &Epilogue,
) -> Result<()> {
    let of = &key.of;
    if let Some((problem, follows)) = product::of(of, operands, epilogue) {
        // SAFETY: the caller's promise: the matrices are the tensors.
        return unsafe { gemm_with_epilogue(stream, &problem, &follows) };
    }
    let make = || prepare(stream, of, operands, epilogue, None);
    let plan = PLANS.get_or_make(stream.context().device(), key, make)?;
    // SAFETY: the caller's promise, of the same shapes and alignments.
    unsafe { plan.launch(stream, of, operands, epilogue) }
}

/// Gives a convolution to the stream by this kernel, one of [`kernels`].
///
/// # Safety
/// As [`convolve`].
///
/// # Errors
/// As [`convolve`].
pub unsafe fn convolve_by(
    stream: &Stream,
    of: &Convolution,
    operands: &Operands,
    epilogue: &Epilogue,
    kernel: Kernel,
) -> Result<()> {
    of.check()?;
    check_epilogue(of, epilogue)?;
    if of.is_empty() {
        return Ok(());
    }
    let plan = prepare(stream, of, operands, epilogue, Some(kernel))?;
    // SAFETY: the caller's promise.
    unsafe { plan.launch(stream, of, operands, epilogue) }
}

/// The kernels that can make a checked convolution on a GPU, and in how many splits.
pub fn kernels(of: &Convolution, operands: &Operands, gpu: Gpu) -> Vec<Kernel> {
    let of = &folded(of, operands).unwrap_or(*of);
    let arguments = ConvolutionArguments::new(of, operands, &Epilogue::default());
    Kernel::all(of, &arguments, gpu, is_within(of))
}

/// The one of [`kernels`] that is chosen.
pub fn chosen(of: &Convolution, operands: &Operands, gpu: Gpu) -> Kernel {
    let of = &folded(of, operands).unwrap_or(*of);
    let arguments = ConvolutionArguments::new(of, operands, &Epilogue::default());
    Kernel::new(of, &arguments, gpu, is_within(of))
}

/// Workgroups for so many elements, an element a thread, as many at most as fill the GPU some times.
fn on_units(elements: u64, gpu: Gpu) -> u32 {
    let most = gpu.units() * WORKGROUPS_PER_UNIT;
    let all = elements.div_ceil(convolution::THREADS.into());
    all.clamp(1, most) as u32
}

/// A grid along x alone.
fn line(workgroups: u32, threads: u32) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (workgroups, 1, 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes: 0,
    }
}

/// The grid of tiles, whose order the arguments get.
fn tiled(
    shape: &convolution::Shape,
    arguments: &mut ConvolutionArguments,
    gpu: Gpu,
    (threads, splits): (u32, u32),
) -> Result<LaunchConfig> {
    let tiles = Kernel::tiles(shape, arguments);
    let too_many = || Error::unsupported("it has more tiles than a launch");
    let [Ok(_), Ok(_)] = tiles.map(i32::try_from) else {
        return Err(too_many());
    };
    let of_tile = [shape.tile.rows, shape.tile.columns];
    arguments.order = gpu.order(of_tile, tiles, gpu.units() * 2);
    let all = i32::try_from(tiles[0] * tiles[1]).map_err(|_| too_many())?;
    Ok(LaunchConfig {
        grid_dim: (all as u32, splits, arguments.matrices() as u32),
        shared_mem_bytes: shape.dynamic_lds,
        ..line(1, threads)
    })
}

/// The grid of a kernel whose work-items make so many places along x and y of all images and groups.
fn by_lines(
    arguments: &ConvolutionArguments,
    [x, y]: [u64; 2],
    [of_x, of_y]: [u64; 2],
) -> Result<LaunchConfig> {
    let planes = u64::from(arguments.row_outers.value) * u64::from(arguments.groups.value);
    let all = workgroups_of_lines(x.div_ceil(of_x) * y.div_ceil(of_y) * planes)?;
    Ok(line(all, convolution::THREADS))
}

/// Workgroups whose work-items make a line, or some, of so many.
fn workgroups_of_lines(lines: u64) -> Result<u32> {
    let all = u32::try_from(lines.div_ceil(convolution::THREADS.into())).ok();
    all.filter(|all| *all < 1 << 23)
        .ok_or_else(|| Error::unsupported("it has more lines than a launch"))
}

/// The grid of a kernel; tiles get their order and splits.
fn grid(
    kernel: Kernel,
    arguments: &mut ConvolutionArguments,
    gpu: Gpu,
    (threads, vector): (u32, u64),
) -> Result<LaunchConfig> {
    let matrices = arguments.matrices();
    let elements = u64::from(arguments.rows) * u64::from(arguments.columns);
    Ok(match kernel {
        Kernel::Tile {
            shape,
            splits,
            k_per_split,
        } => {
            (arguments.splits, arguments.k_per_split) = (splits, k_per_split);
            tiled(&shape, arguments, gpu, (threads, splits))?
        }
        Kernel::Halo { shape, .. } | Kernel::Sliced { shape } => {
            tiled(&shape, arguments, gpu, (threads, 1))?
        }
        Kernel::Lines {
            lines: of,
            splits,
            k_per_split,
        } => {
            lines::tell(arguments);
            (arguments.splits, arguments.k_per_split) = (splits, k_per_split);
            tiled(&of.shape, arguments, gpu, (threads, splits))?
        }
        Kernel::DepthwiseWeights {
            splits,
            k_per_split,
            ..
        } => {
            lines::tell(arguments);
            (arguments.splits, arguments.k_per_split) = (splits, k_per_split);
            LaunchConfig {
                grid_dim: (1, splits, matrices as u32),
                ..line(1, threads)
            }
        }
        Kernel::Direct => {
            let phases = matrices / u64::from(arguments.groups.value.max(1));
            LaunchConfig {
                grid_dim: (
                    on_units(elements * matrices / phases, gpu),
                    1,
                    phases as u32,
                ),
                ..line(1, threads)
            }
        }
        Kernel::Depthwise { .. } => {
            let places = [&arguments.x, &arguments.y].map(|axis| axis.rows.value.into());
            by_lines(
                arguments,
                places,
                [vector, convolution::DEPTHWISE_LINES.into()],
            )?
        }
        Kernel::Grouped { .. } => of_groups(arguments, (threads, vector))?,
        Kernel::DepthwiseData { stride, .. } => {
            let places = arguments.x.places();
            // Lines are counted with the zeros before the first.
            let lines = arguments.y.places() + arguments.y.zeros_before();
            let of_item = convolution::depthwise_data_lines(stride);
            by_lines(arguments, [places, lines], [vector, of_item.into()])?
        }
        Kernel::DepthwiseLast { .. } => of_channels(arguments, gpu, (threads, vector))?,
    })
}

/// The grid of groups of few channels: a work-item makes a line's neighbours of some columns.
fn of_groups(
    arguments: &ConvolutionArguments,
    (threads, vector): (u32, u64),
) -> Result<LaunchConfig> {
    let lines = u64::from(arguments.row_outers.value) * u64::from(arguments.y.rows.value);
    let all = workgroups_of_lines(lines * u64::from(arguments.x.rows.value).div_ceil(vector))?;
    let of_columns = arguments.columns.div_ceil(convolution::GROUPED_COLUMNS);
    Ok(LaunchConfig {
        grid_dim: (all, of_columns, arguments.matrices() as u32),
        ..line(1, threads)
    })
}

/// The grid of depthwise convolutions whose channels are neighbours.
fn of_channels(
    arguments: &ConvolutionArguments,
    gpu: Gpu,
    (threads, vector): (u32, u64),
) -> Result<LaunchConfig> {
    let vectors = u64::from(arguments.groups.value) / vector;
    let of_workgroup = vectors
        .next_power_of_two()
        .min(convolution::DEPTHWISE_LAST_VECTORS);
    let parts = vectors.div_ceil(of_workgroup);
    let of_x = u64::from(arguments.x.rows.value).div_ceil(DEPTHWISE_LAST_PLACES);
    let places = u64::from(arguments.row_outers.value) * u64::from(arguments.y.rows.value) * of_x;
    let wanted = places.div_ceil(u64::from(threads) / of_workgroup);
    let most = (gpu.units() * WORKGROUPS_OF_TAPS_PER_UNIT).div_ceil(parts);
    let all = u32::try_from(parts * wanted.clamp(1, most)).ok();
    let all = all.filter(|_| i32::try_from(places).is_ok());
    let all = all.ok_or_else(|| Error::unsupported("it has more places than a launch"))?;
    Ok(line(all, threads))
}

/// Finds the kernels for a checked convolution: this one, or the best.
fn prepare(
    stream: &Stream,
    of: &Convolution,
    operands: &Operands,
    epilogue: &Epilogue,
    kernel: Option<Kernel>,
) -> Result<Prepared> {
    let context = stream.context();
    let gpu = Gpu::from(context.info());
    let vector = u64::from(16 / of.dtype.bytes());
    let of = &folded(of, operands).unwrap_or(*of);
    let mut arguments = ConvolutionArguments::new(of, operands, epilogue);
    let mut gather = arguments.choose_gather(vector);
    arguments.choose_store(vector);
    let best = || Kernel::new(of, &arguments, gpu, is_within(of));
    let kernel = kernel.unwrap_or_else(best);
    let transpose = match kernel {
        Kernel::Tile { .. } | Kernel::Sliced { .. } if gather == Gather::Elements => {
            Transpose::of(stream, of, vector)?
        }
        Kernel::Halo { .. } if halo::weights(&arguments).is_none() => {
            Transpose::of(stream, of, vector)?
        }
        _ => None,
    };
    if let Some(transpose) = &transpose {
        // A workspace begins where vectors do.
        let there = Operands {
            weights: 0,
            ..*operands
        };
        arguments = ConvolutionArguments::new(&Transpose::turned(of), &there, epilogue);
        transpose.set_groups(&mut arguments);
        gather = arguments.choose_gather(vector);
        arguments.choose_store(vector);
    }
    let (name, threads) = kernel.name(of.dtype, gather);
    let matrices = arguments.matrices();
    let is_tile = kernel.shape().is_some();
    if is_tile && matrices > MOST_MATRICES {
        return Err(Error::unsupported(format!(
            "{matrices} groups and phases of strides are more than the {MOST_MATRICES} of a launch"
        )));
    }
    let first = grid(kernel, &mut arguments, gpu, (threads, vector))?;
    let workspace = kernel.workspace(of.dtype, &arguments);
    let sum = match workspace {
        0 => None,
        _ => {
            let elements = u64::from(arguments.rows) * u64::from(arguments.columns);
            let config = line(on_units(elements * matrices, gpu), convolution::THREADS);
            let name = convolution::sum_name(of.dtype);
            Some(ReadyLaunch::of(context, &CONVOLUTION, &name, config)?)
        }
    };
    Ok(Prepared {
        first: ReadyLaunch::of(context, &CONVOLUTION, &name, first)?,
        arguments,
        sum,
        transpose,
        workspace,
    })
}

impl Prepared {
    /// # Safety
    /// As [`convolve`], of a convolution that this was made for.
    unsafe fn launch(
        &self,
        stream: &Stream,
        of: &Convolution,
        operands: &Operands,
        epilogue: &Epilogue,
    ) -> Result<()> {
        let workspace = Workspace::new(stream, self.workspace)?;
        let weights = self
            .transpose
            .as_ref()
            .map_or(0, |transpose| transpose.bytes);
        let weights = Workspace::new(stream, weights)?;
        let mut operands = *operands;
        if let Some(transpose) = &self.transpose {
            // SAFETY: the caller's promise; the workspace has as many bytes.
            unsafe { transpose.launch(stream, operands.weights, weights.address()) }?;
            operands.weights = weights.address();
        }
        let values = ConvolutionArguments::new(of, &operands, epilogue);
        let arguments = ConvolutionArguments {
            image: values.image,
            matrix: values.matrix,
            result: values.result,
            addend: values.addend,
            bias: values.bias,
            residual: values.residual,
            alpha: values.alpha,
            beta: values.beta,
            activation: values.activation,
            partial: workspace.address(),
            ..self.arguments
        };
        // SAFETY: the caller's promise; the workspace has what the plan says.
        unsafe {
            self.first.launch_with(stream, &arguments)?;
            if let Some(sum) = &self.sum {
                sum.launch_with(stream, &arguments)?;
            }
        }
        weights.free()?;
        workspace.free()
    }
}
