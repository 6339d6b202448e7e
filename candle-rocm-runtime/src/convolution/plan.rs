//! Which kernel makes a convolution, and in how many splits of k.

use candle_rocm_kernels::convolution::{self, Gather, HaloWeights, Shape, MOST_BYTES, THREADS};
use candle_rocm_kernels::matmul::Dtype;
use candle_rocm_kernels::split::{Split, Splits};
use rocm_gpus::costs;

use super::arguments::ConvolutionArguments;
use super::description::{Convolution, Operation};
use super::halo;
use super::transpose::Transpose;
use crate::plan::gpu::Gpu;
use crate::plan::roofline::{memory_cycles, overlapped, Roofline};

/// Multiply-adds of an element of the result below which a product's tile would be filled by nothing: groups of so few
/// channels have the kernel without products.
const FEW_CHANNELS: usize = 4;
/// Bytes of partial sums: a gradient of weights takes no more workspace.
pub const MOST_WORKSPACE: u64 = 64 << 20;
/// Splits of k that are tried.
const SPLITS: [u64; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// What makes a convolution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kernel {
    /// Tiles, with k in so many splits, each of so many elements but the last.
    Tile {
        /// The tile.
        shape: Shape,
        /// Splits of k.
        splits: u32,
        /// Elements of k in each but the last.
        k_per_split: u32,
    },
    /// Tiles of 3 x 3 taps, of which a K-block has all, for each line of which each pixel is read once.
    Halo {
        /// The tile.
        shape: Shape,
        /// Neighbours of a line that are read at once.
        unit: u32,
        /// How the kernel reads weights, transposed or as they are.
        weights: HaloWeights,
    },
    /// An element a work-item.
    Direct,
    /// Groups of one channel: lines of neighbours a work-item.
    Depthwise {
        /// Along each of two axes.
        taps: u32,
        /// Between places of the image, along both.
        stride: u32,
    },
    /// Groups of one channel whose channels are neighbours in memory: some channels of some places a work-item.
    DepthwiseLast {
        /// Along each of two axes.
        taps: u32,
        /// Between places of the image, along both.
        stride: u32,
    },
}

/// How a gradient of weights divides k.
fn split(dtype: Dtype) -> Split {
    Split {
        step: dtype.depth().into(),
        least_steps: 4,
        most: SPLITS[SPLITS.len() - 1],
    }
}

impl Kernel {
    /// The best for a checked convolution, as kernels are told it; `is_within` says whether 32 bits reach its tensors.
    pub(super) fn new(
        of: &Convolution,
        arguments: &ConvolutionArguments,
        gpu: Gpu,
        is_within: bool,
    ) -> Self {
        let [inputs, outputs] = of.of_group();
        let is_gradient_of_weights = of.operation == Operation::Weights;
        if let Some(depthwise) = depthwise(of, arguments, gpu).filter(|_| is_within) {
            return depthwise;
        }
        if !is_gradient_of_weights && of.groups > 1 && inputs.max(outputs) < FEW_CHANNELS {
            return Self::Direct;
        }
        let all = Self::all(of, arguments, gpu, is_within);
        // The others read as many pixels again for each tap.
        let has_halo = all.iter().any(|kernel| matches!(kernel, Self::Halo { .. }));
        let is_candidate = |kernel: &Self| !has_halo || matches!(kernel, Self::Halo { .. });
        let all = all.into_iter().filter(is_candidate);
        let timed = all.map(|kernel| (kernel, kernel.cycles(of.dtype, arguments, gpu)));
        let best = timed.min_by(|(_, one), (_, other)| one.total_cmp(other));
        best.map_or(Self::Direct, |(kernel, _)| kernel)
    }

    /// All that can make it.
    pub(super) fn all(
        of: &Convolution,
        arguments: &ConvolutionArguments,
        gpu: Gpu,
        is_within: bool,
    ) -> Vec<Self> {
        let mut all = vec![Self::Direct];
        all.extend(depthwise(of, arguments, gpu).filter(|_| is_within));
        // Tiles do not go backwards in memory.
        let is_backwards =
            of.operation == Operation::Data && of.axes.iter().any(|axis| axis.is_flipped);
        if is_within && !is_backwards {
            for shape in convolution::shapes(gpu.processor, of.dtype) {
                let of_shape = SPLITS
                    .iter()
                    .map_while(|wanted| Self::with(of, arguments, shape, *wanted));
                all.extend(of_shape);
            }
            all.extend(halos(of, arguments, gpu));
        }
        all
    }

    /// Tiles with k in about so many splits; `None` if there cannot be as many.
    fn with(
        of: &Convolution,
        arguments: &ConvolutionArguments,
        shape: Shape,
        wanted: u64,
    ) -> Option<Self> {
        let depth = u64::from(arguments.depth);
        let split = split(of.dtype);
        let most = match of.operation {
            Operation::Weights => {
                let bytes = u128::from(plane(arguments)) * u128::from(sum_bytes(of.dtype));
                split.most_within(depth, bytes, MOST_WORKSPACE).max(1)
            }
            Operation::Forward | Operation::Data => 1,
        };
        if wanted > most {
            return None;
        }
        let Splits { count, elements } = split.into_splits(depth, wanted);
        Some(Self::Tile {
            shape,
            splits: count as u32,
            k_per_split: elements as u32,
        })
    }

    /// Tiles along rows and along columns.
    pub(super) fn tiles(shape: &Shape, arguments: &ConvolutionArguments) -> [u64; 2] {
        [
            u64::from(arguments.rows).div_ceil(shape.tile.rows.into()),
            u64::from(arguments.columns).div_ceil(shape.tile.columns.into()),
        ]
    }

    /// Bytes of partial sums.
    pub(super) fn workspace(&self, dtype: Dtype, arguments: &ConvolutionArguments) -> u64 {
        match self {
            Self::Tile { splits, .. } if *splits > 1 => {
                u64::from(*splits) * plane(arguments) * sum_bytes(dtype)
            }
            _ => 0,
        }
    }

    /// The estimated cycles, which only rank plans: a K-block takes what its multiply-adds do, or what the cache passes.
    fn cycles(&self, dtype: Dtype, arguments: &ConvolutionArguments, gpu: Gpu) -> f64 {
        let (shape, splits, k_per_split, lds) = match self {
            Self::Tile {
                shape,
                splits,
                k_per_split,
            } => {
                let of_k = (shape.tile.rows + shape.tile.columns) * dtype.bytes();
                (shape, *splits, *k_per_split, 2 * of_k * shape.depth * 5 / 4)
            }
            // What halo.cuh has in LDS: pixels, weights, and where results begin.
            Self::Halo { shape, .. } => {
                let image = 32 * convolution::halo_places(shape.tile.rows);
                let lds = image + 378 * shape.tile.columns + 4 * shape.tile.rows;
                (shape, 1, arguments.depth, lds)
            }
            _ => return f64::INFINITY,
        };
        let unit = gpu.unit();
        let rates = match dtype {
            Dtype::F16 => [unit.matrix.f16, unit.vector.f16],
            Dtype::BF16 => [unit.matrix.bf16, unit.vector.bf16],
            Dtype::F32 | Dtype::I8 => [unit.matrix.f32, unit.vector.f32],
            Dtype::F64 => [unit.matrix.f64, unit.vector.f64],
        };
        let rate = f64::from(rates[0].max(rates[1]).max(1));
        let (rows, columns) = (f64::from(shape.tile.rows), f64::from(shape.tile.columns));
        let bytes = f64::from(dtype.bytes());
        let of_k = overlapped(
            rows * columns / rate,
            (rows + columns) * bytes / costs::CACHE_RATE.value,
        );
        let [tiles_m, tiles_n] = Self::tiles(shape, arguments);
        let resident = (unit.lds / u64::from(lds))
            .min(unit.threads / u64::from(shape.threads) / 2)
            .max(1);
        let sums = plane(arguments) as f64 * sum_bytes(dtype) as f64;
        let depth = f64::from(k_per_split.min(arguments.depth)).max(1.0);
        let launch = Roofline {
            workgroups: tiles_m * tiles_n * arguments.matrices() * u64::from(splits),
            units: gpu.units(),
            resident,
            whole_rounds: false,
            first: 0.0,
            memory: memory_cycles(sums, gpu.units() as f64),
            reduction: match splits {
                1 => 0.0,
                splits => {
                    memory_cycles(2.0 * sums * f64::from(splits), gpu.units() as f64)
                        + costs::LAUNCH.value
                }
            },
        };
        let latency = costs::LATENCY.value * depth / f64::from(shape.depth);
        launch
            .time(|workgroups| (workgroups as f64 * of_k * depth).max(latency) + costs::ENDS.value)
    }

    /// The kernel's name and its work-items.
    pub(super) fn name(&self, dtype: Dtype, gather: Gather) -> (String, u32) {
        match self {
            Self::Tile { shape, .. } => (
                convolution::kernel_name(dtype, shape.tile, gather),
                shape.threads,
            ),
            Self::Halo {
                shape,
                unit,
                weights,
            } => (
                convolution::halo_name(dtype, shape.tile, *unit, *weights),
                shape.threads,
            ),
            Self::Direct => (convolution::direct_name(dtype), THREADS),
            Self::Depthwise { taps, stride } => {
                (convolution::depthwise_name(dtype, *taps, *stride), THREADS)
            }
            Self::DepthwiseLast { taps, stride } => (
                convolution::depthwise_last_name(dtype, *taps, *stride),
                THREADS,
            ),
        }
    }
}

/// The tiles of 3 x 3 taps that can make it.
fn halos(of: &Convolution, arguments: &ConvolutionArguments, gpu: Gpu) -> Vec<Kernel> {
    let transposed = || {
        let vector = u64::from(16 / of.dtype.bytes());
        Transpose::is_possible(of, vector).then_some(HaloWeights::Channels)
    };
    let is_gradient_of_weights = of.operation == Operation::Weights;
    let Some(weights) = halo::weights(arguments)
        .or_else(transposed)
        .filter(|_| !is_gradient_of_weights)
    else {
        return Vec::new();
    };
    convolution::halo_shapes(gpu.processor, of.dtype)
        .filter(|(shape, unit)| halo::takes(arguments, shape.tile.rows, *unit))
        .map(|(shape, unit)| Kernel::Halo {
            shape,
            unit,
            weights,
        })
        .collect()
}

/// The kernel for groups of one channel, where there is one: lines of image and result follow one another, or channels do.
fn depthwise(of: &Convolution, arguments: &ConvolutionArguments, gpu: Gpu) -> Option<Kernel> {
    let [inputs, outputs] = of.of_group();
    let (z, y, x) = (&arguments.z, &arguments.y, &arguments.x);
    let (taps, stride) = (x.taps.value, u32::try_from(x.row_step).ok()?);
    let are_alike = y.taps.value == taps
        && y.row_step == x.row_step
        && x.k_step == y.k_step
        && x.k_step.abs() == 1
        && [x, y, z].iter().all(|axis| axis.phases.value == 1)
        && [z.rows.value, z.taps.value] == [1, 1]
        && z.size == 1
        // As the phase's: a gradient of the data begins before its first turn.
        && i64::from(z.first) == i64::from(z.shift / z.phases.value);
    let is_one = of.operation != Operation::Weights && of.groups > 1 && [inputs, outputs] == [1, 1];
    let exists = convolution::is_depthwise(gpu.processor, of.dtype, taps, stride);
    if !(is_one && are_alike && exists) {
        return None;
    }
    // Lanes are neighbours along x.
    let is_first = x.image == 1 && x.result == 1 && x.matrix.min(y.matrix) >= 0;
    if is_first {
        return Some(Kernel::Depthwise { taps, stride });
    }
    let vector = i64::from(16 / of.dtype.bytes());
    let distances = [
        arguments.groups.value.into(),
        arguments.image_row,
        arguments.result_row,
        y.image,
        x.image,
        y.result,
        x.result,
    ];
    let addresses = [
        arguments.image,
        arguments.result,
        arguments.addend,
        arguments.residual,
    ];
    let is_last = [arguments.image_group, arguments.result_group] == [1, 1]
        && distances.iter().all(|distance| distance % vector == 0)
        && addresses.iter().all(|address| address.is_multiple_of(16));
    is_last.then_some(Kernel::DepthwiseLast { taps, stride })
}

/// Elements of the result, in all groups.
fn plane(arguments: &ConvolutionArguments) -> u64 {
    u64::from(arguments.rows) * u64::from(arguments.columns) * arguments.matrices()
}

pub(super) fn sum_bytes(dtype: Dtype) -> u64 {
    match dtype {
        Dtype::F64 => 8,
        _ => 4,
    }
}

/// Whether 32 bits reach all of a convolution's tensors. Taps are turned by no more.
pub(super) fn is_within(of: &Convolution) -> bool {
    let bytes = u64::from(of.dtype.bytes());
    let extents = of.extents().into_iter().flatten();
    extents
        .into_iter()
        .all(|elements| elements.saturating_mul(bytes) <= MOST_BYTES)
}
