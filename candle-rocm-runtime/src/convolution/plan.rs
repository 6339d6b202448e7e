//! Which kernel makes a convolution, and in how many splits of k.

use candle_rocm_kernels::convolution::{
    self, Gather, HaloWeights, LinesShape, Shape, LINE_CHUNK, MOST_BYTES, THREADS,
};
use candle_rocm_kernels::matmul::Dtype;
use candle_rocm_kernels::split::{filling, Split, Splits};
use rocm_gpus::costs;

use super::arguments::ConvolutionArguments;
use super::description::{Convolution, Epilogue, Operands, Operation};
use super::halo;
use super::lines;
use super::transpose::Transpose;
use crate::plan::gpu::Gpu;
use crate::plan::roofline::{memory_cycles, overlapped, Roofline};

/// Multiply-adds of an element of the result below which a product's tile would be filled by nothing: groups of so few
/// channels have the kernel without products.
const FEW_CHANNELS: usize = 4;
/// Multiply-adds of a place of the result and channels of it, in a group, up to which groups have the kernel that makes no
/// product: a tile's columns would be filled by a quarter.
const GROUPED_CHANNELS: [u32; 2] = [32, 16];
/// What every GPU takes in a grid's third dimension.
pub(super) const MOST_MATRICES: u64 = 65_535;
/// Bytes of partial sums: no convolution takes more workspace for them.
pub const MOST_WORKSPACE: u64 = 64 << 20;
/// Workgroups for each compute unit of kernels along lines, at most, if their splits have that many.
const MOST_ROUNDS: u64 = 4;
/// Workgroups for each compute unit of a convolution, or of its gradient of the data, whose k is split.
const FORWARD_ROUNDS: u64 = 2;
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
    /// Tiles of which halves of the wavefronts make every second K-block each, where few are to be made.
    Sliced {
        /// The tile.
        shape: Shape,
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
    /// Gradients of weights, of which both operands are read along lines.
    Lines {
        /// The tile, and how lines are read.
        lines: LinesShape,
        /// Splits of k.
        splits: u32,
        /// Places of k in each but the last.
        k_per_split: u32,
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
    /// Groups of few channels: lines of neighbours of some of a group's a work-item.
    Grouped {
        /// Along each of two axes.
        taps: u32,
        /// Between places of the image, along both.
        stride: u32,
    },
    /// Gradients of the data of groups of one channel, where places are `stride` apart: lines of neighbours a work-item.
    DepthwiseData {
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
    /// Gradients of the weights of groups of one channel: a line of taps a work-item.
    DepthwiseWeights {
        /// Along each of two axes.
        taps: u32,
        /// Between places of the image, along x.
        stride: u32,
        /// Splits of k.
        splits: u32,
        /// Places of k in each but the last.
        k_per_split: u32,
    },
}

/// What a workgroup holds and reads.
#[derive(Clone, Copy)]
struct Work {
    shape: Shape,
    splits: u32,
    k_per_split: u32,
    /// Bytes of LDS.
    lds: u32,
    /// Cycles from a load of a K-block to its use.
    latency: f64,
    /// Reads of single elements, or of vectors, for each element of k.
    reads: f64,
    /// Registers of all its work-items, where these are what few workgroups have; else 0.
    registers: u64,
}

/// How a gradient of the weights of groups of one channel divides k: each work-item shall have some chunks.
const DEPTHWISE_SPLIT: Split = Split {
    step: LINE_CHUNK as u64,
    least_steps: 256,
    most: SPLITS[SPLITS.len() - 1],
};
/// Its workgroups for each compute unit, if k has as many splits.
const DEPTHWISE_ROUNDS: u64 = 8;

/// How k is divided.
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
        let without_product =
            of_one_channel(of, arguments, gpu).or_else(|| grouped(of, arguments, gpu));
        if let Some(kernel) = without_product.filter(|_| is_within) {
            return kernel;
        }
        if !is_gradient_of_weights && of.groups > 1 && inputs.max(outputs) < FEW_CHANNELS {
            return Self::Direct;
        }
        let all = Self::all(of, arguments, gpu, is_within);
        // The others read as many pixels again for each tap.
        let has_halo = all.iter().any(|kernel| matches!(kernel, Self::Halo { .. }));
        let is_candidate = |kernel: &Self| !has_halo || matches!(kernel, Self::Halo { .. });
        let all = all.into_iter().filter(is_candidate);
        let gather = gather_of(of, arguments);
        let timed = all.map(|kernel| (kernel, kernel.cycles(of, arguments, gather, gpu)));
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
        let without_product = [
            of_one_channel(of, arguments, gpu),
            grouped(of, arguments, gpu),
        ];
        all.extend(without_product.into_iter().flatten().filter(|_| is_within));
        // Tiles do not go backwards in memory.
        let is_backwards =
            of.operation == Operation::Data && of.axes.iter().any(|axis| axis.is_flipped);
        if is_within && !is_backwards {
            let gather = gather_of(of, arguments);
            for shape in convolution::shapes(gpu.processor, of.dtype, gather) {
                let depth = arguments.depth.into();
                let most = Self::most_splits(of, arguments, (&shape, depth), gpu);
                let wanted = SPLITS.iter().take_while(|wanted| **wanted <= most);
                all.extend(wanted.map(|wanted| {
                    let Splits { count, elements } = split(of.dtype).into_splits(depth, *wanted);
                    Self::Tile {
                        shape,
                        splits: count as u32,
                        k_per_split: elements as u32,
                    }
                }));
            }
            if gather == Gather::Masked && of.operation != Operation::Weights {
                let shapes = convolution::sliced_shapes(gpu.processor, of.dtype);
                all.extend(shapes.map(|shape| Self::Sliced { shape }));
            }
            all.extend(along_lines(of, arguments, gpu));
            all.extend(halos(of, arguments, gpu));
        }
        all
    }

    /// Most splits of so many elements of k, by workgroups that make such tiles. A convolution and its gradient of the data
    /// have them where tiles leave compute units without work, and as many as give each its workgroups.
    fn most_splits(
        of: &Convolution,
        arguments: &ConvolutionArguments,
        (shape, depth): (&Shape, u64),
        gpu: Gpu,
    ) -> u64 {
        let bytes = u128::from(plane(arguments)) * u128::from(sum_bytes(of.dtype));
        let most = split(of.dtype)
            .most_within(depth, bytes, MOST_WORKSPACE)
            .max(1);
        if of.operation == Operation::Weights {
            return most;
        }
        // Partial sums have no phases.
        let has_phases = arguments.matrices() != u64::from(arguments.groups.value);
        let tiles: u64 = Self::tiles(shape, arguments).iter().product();
        let workgroups = (tiles * arguments.matrices()).max(1);
        match has_phases || workgroups >= gpu.units() {
            true => 1,
            false => most.min(gpu.units() * FORWARD_ROUNDS / workgroups),
        }
    }

    /// The tile that a workgroup makes, if it makes one.
    pub(super) fn shape(&self) -> Option<&Shape> {
        match self {
            Self::Tile { shape, .. } | Self::Halo { shape, .. } | Self::Sliced { shape } => {
                Some(shape)
            }
            Self::Lines { lines, .. } => Some(&lines.shape),
            Self::Direct
            | Self::Depthwise { .. }
            | Self::DepthwiseData { .. }
            | Self::DepthwiseLast { .. }
            | Self::DepthwiseWeights { .. }
            | Self::Grouped { .. } => None,
        }
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
            Self::Tile { splits, .. }
            | Self::Lines { splits, .. }
            | Self::DepthwiseWeights { splits, .. }
                if *splits > 1 =>
            {
                u64::from(*splits) * plane(arguments) * sum_bytes(dtype)
            }
            _ => 0,
        }
    }

    /// What a workgroup of it holds and reads.
    fn work(
        &self,
        of: &Convolution,
        arguments: &ConvolutionArguments,
        gather: Gather,
    ) -> Option<Work> {
        let shape = *self.shape()?;
        let bytes = of.dtype.bytes();
        let (rows, columns) = (shape.tile.rows, shape.tile.columns);
        let vector = f64::from(16 / bytes);
        let (of_rows, of_columns) = (f64::from(rows), f64::from(columns));
        // By elements or by vectors.
        let reads = match gather {
            Gather::Vectors => (of_rows + of_columns) / vector,
            Gather::Masked | Gather::Compared => of_rows + of_columns / vector,
            Gather::Elements | Gather::AlongK => of_rows + of_columns,
        };
        let all = Work {
            shape,
            splits: 1,
            k_per_split: arguments.depth,
            lds: 0,
            latency: costs::LATENCY.value,
            reads: 0.0,
            registers: 0,
        };
        // Two buffers of a K-block, or what the launch asks for.
        let gathered = Work {
            lds: match shape.dynamic_lds {
                0 => 2 * (rows + columns) * bytes * shape.depth * 5 / 4,
                lds => lds,
            },
            latency: match gather {
                Gather::Vectors => costs::LATENCY.value / f64::from(shape.prefetch),
                _ => costs::GATHER_LATENCY.value,
            },
            reads,
            ..all
        };
        Some(match self {
            Self::Tile {
                splits,
                k_per_split,
                ..
            } => Work {
                splits: *splits,
                k_per_split: (*k_per_split).min(arguments.depth),
                ..gathered
            },
            Self::Sliced { .. } => gathered,
            // What halo.cuh has in LDS: pixels, weights, and where results begin.
            Self::Halo { .. } => Work {
                lds: 32 * convolution::halo_places(rows) + 378 * columns + 4 * rows,
                ..all
            },
            Self::Lines {
                lines,
                splits,
                k_per_split,
            } => Work {
                splits: *splits,
                k_per_split: (*k_per_split).min(lines::depth(arguments)?),
                lds: (rows + columns) * bytes * shape.depth * 5 / 4,
                reads: f64::from(rows / lines.taps + columns) / f64::from(lines.unit),
                // Sums, and half as much again as they are.
                registers: u64::from(rows * columns) * 5 / 2,
                ..all
            },
            Self::Direct
            | Self::Depthwise { .. }
            | Self::DepthwiseData { .. }
            | Self::DepthwiseLast { .. }
            | Self::DepthwiseWeights { .. }
            | Self::Grouped { .. } => return None,
        })
    }

    /// The estimated cycles, which only rank plans: a K-block takes what its multiply-adds do, or what the cache passes, or what
    /// its reads of single elements take.
    fn cycles(
        &self,
        of: &Convolution,
        arguments: &ConvolutionArguments,
        gather: Gather,
        gpu: Gpu,
    ) -> f64 {
        let Some(work) = self.work(of, arguments, gather) else {
            return f64::INFINITY;
        };
        let (shape, splits, dtype) = (&work.shape, work.splits, of.dtype);
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
        let passed = (rows + columns) * bytes / costs::CACHE_RATE.value;
        let read = work.reads / costs::ELEMENT_RATE.value;
        let of_k = overlapped(rows * columns / rate, passed.max(read));
        let [tiles_m, tiles_n] = Self::tiles(shape, arguments);
        let of_registers = unit.registers.checked_div(work.registers);
        let resident = (unit.lds / u64::from(work.lds))
            .min(unit.threads / u64::from(shape.threads) / 2)
            .min(of_registers.unwrap_or(u64::MAX))
            .max(1);
        let sums = plane(arguments) as f64 * sum_bytes(dtype) as f64;
        let depth = f64::from(work.k_per_split).max(1.0);
        let launch = Roofline {
            workgroups: tiles_m * tiles_n * arguments.matrices() * u64::from(splits),
            units: gpu.units(),
            resident,
            // One buffer in LDS: a workgroup that is alone waits as long as another would compute.
            whole_rounds: matches!(self, Self::Lines { .. }),
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
        let latency = work.latency * depth / f64::from(shape.depth);
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
            Self::Sliced { shape } => (convolution::sliced_name(dtype, shape.tile), shape.threads),
            Self::Halo {
                shape,
                unit,
                weights,
            } => (
                convolution::halo_name(dtype, shape.tile, *unit, *weights),
                shape.threads,
            ),
            Self::Lines { lines, .. } => {
                (convolution::lines_name(dtype, lines), lines.shape.threads)
            }
            Self::Direct => (convolution::direct_name(dtype), THREADS),
            Self::Depthwise { taps, stride } => {
                (convolution::depthwise_name(dtype, *taps, *stride), THREADS)
            }
            Self::Grouped { taps, stride } => {
                (convolution::grouped_name(dtype, *taps, *stride), THREADS)
            }
            Self::DepthwiseData { taps, stride } => (
                convolution::depthwise_data_name(dtype, *taps, *stride),
                THREADS,
            ),
            Self::DepthwiseWeights { taps, stride, .. } => (
                convolution::depthwise_weights_name(dtype, *taps, *stride),
                THREADS,
            ),
            Self::DepthwiseLast { taps, stride } => (
                convolution::depthwise_last_name(dtype, *taps, *stride),
                THREADS,
            ),
        }
    }
}

/// How tiles read their operands, after the transposition of weights where there is one.
fn gather_of(of: &Convolution, arguments: &ConvolutionArguments) -> Gather {
    let vector = u64::from(16 / of.dtype.bytes());
    let gather = { *arguments }.choose_gather(vector);
    if gather != Gather::Elements || !Transpose::is_possible(of, vector) {
        return gather;
    }
    let there = Operands {
        inputs: arguments.result,
        weights: 0,
        outputs: arguments.image,
    };
    let turned = Transpose::turned(of);
    ConvolutionArguments::new(&turned, &there, &Epilogue::default()).choose_gather(vector)
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

/// Those along lines that can make it, with the most neighbours at once that it has.
fn along_lines(of: &Convolution, arguments: &ConvolutionArguments, gpu: Gpu) -> Vec<Kernel> {
    if of.operation != Operation::Weights {
        return Vec::new();
    }
    let all = convolution::lines_shapes(gpu.processor, of.dtype);
    let taken: Vec<_> = all.filter(|of| lines::takes(arguments, of)).collect();
    let depth = u64::from(lines::depth(arguments).unwrap_or_default());
    let with_splits = |lines: LinesShape| {
        let most = Kernel::most_splits(of, arguments, (&lines.shape, depth), gpu);
        // As many as fill all units some times.
        let [m, n] = Kernel::tiles(&lines.shape, arguments);
        let tiles = (m * n * arguments.matrices()).max(1);
        (1..=MOST_ROUNDS).map(move |rounds| {
            let wanted = (gpu.units() * rounds / tiles).clamp(1, most);
            let Splits { count, elements } = split(of.dtype).into_splits(depth, wanted);
            Kernel::Lines {
                lines,
                splits: count as u32,
                k_per_split: elements as u32,
            }
        })
    };
    let mut all: Vec<_> = taken.into_iter().flat_map(with_splits).collect();
    all.dedup();
    all
}

/// The kernel for groups of one channel, where there is one.
fn of_one_channel(of: &Convolution, arguments: &ConvolutionArguments, gpu: Gpu) -> Option<Kernel> {
    if of.groups < 2 || of.of_group() != [1, 1] {
        return None;
    }
    match of.operation {
        Operation::Forward => depthwise(of, arguments, gpu),
        Operation::Data => {
            depthwise(of, arguments, gpu).or_else(|| depthwise_data(of, arguments, gpu))
        }
        Operation::Weights => depthwise_weights(of, arguments, gpu),
    }
}

/// Of a convolution or a gradient of the data without phases: lines of image and result follow one another, or channels do.
fn depthwise(of: &Convolution, arguments: &ConvolutionArguments, gpu: Gpu) -> Option<Kernel> {
    let (y, x) = (&arguments.y, &arguments.x);
    let [taps, stride] = square_taps(arguments)?;
    if !convolution::is_depthwise(gpu.processor, of.dtype, taps, stride) {
        return None;
    }
    if are_lines(arguments) {
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

/// Taps and stride along each of two axes, where these are alike, of a convolution or a gradient of the data without phases.
fn square_taps(arguments: &ConvolutionArguments) -> Option<[u32; 2]> {
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
    are_alike.then_some([taps, stride])
}

/// Whether lanes that are neighbours along x are neighbours in image and result, and taps do not go backwards in memory.
fn are_lines(arguments: &ConvolutionArguments) -> bool {
    let (y, x) = (&arguments.y, &arguments.x);
    x.image == 1 && x.result == 1 && x.matrix.min(y.matrix) >= 0
}

/// The kernel for groups of few channels, where there is one, of lines that follow one another.
fn grouped(of: &Convolution, arguments: &ConvolutionArguments, gpu: Gpu) -> Option<Kernel> {
    let [most_k, most_columns] = GROUPED_CHANNELS;
    let are_few = arguments.columns <= most_columns && arguments.k_outers.value <= most_k;
    let groups = u64::from(arguments.groups.value);
    if of.operation == Operation::Weights || !are_few || !(2..=MOST_MATRICES).contains(&groups) {
        return None;
    }
    let [taps, stride] = square_taps(arguments)?;
    let exists = convolution::is_grouped(gpu.processor, of.dtype, taps, stride);
    (exists && are_lines(arguments)).then_some(Kernel::Grouped { taps, stride })
}

/// Likewise of a gradient of the data with strides, of lines that follow one another.
fn depthwise_data(of: &Convolution, arguments: &ConvolutionArguments, gpu: Gpu) -> Option<Kernel> {
    let [z, y, x] = &of.axes;
    let (taps, stride) = (u32::try_from(x.kernel).ok()?, u32::try_from(x.stride).ok()?);
    let is_flat = [z.input, z.output, z.kernel] == [1; 3] && z.padding == 0;
    let are_alike = [y.kernel, y.stride, y.dilation] == [x.kernel, x.stride, 1]
        && x.dilation == 1
        && !(x.is_flipped || y.is_flipped);
    let are_lines = [arguments.x.image, arguments.x.place] == [1; 2];
    let exists = stride > 1 && convolution::is_depthwise(gpu.processor, of.dtype, taps, stride);
    (is_flat && are_alike && are_lines && exists).then_some(Kernel::DepthwiseData { taps, stride })
}

/// Likewise of a gradient of the weights, of lines that follow one another.
fn depthwise_weights(
    of: &Convolution,
    arguments: &ConvolutionArguments,
    gpu: Gpu,
) -> Option<Kernel> {
    let (z, y, x) = (&arguments.z, &arguments.y, &arguments.x);
    let (taps, stride) = (x.rows.value, u32::try_from(x.k_step).ok()?);
    let is_flat = [z.rows.value, z.taps.value] == [1, 1] && z.size == 1 && z.first == 0;
    let are_lines = [x.image, x.matrix, x.row_step.into()] == [1; 3];
    let exists = convolution::is_depthwise(gpu.processor, of.dtype, taps, stride);
    let depth = lines::depth(arguments).filter(|depth| *depth < 1 << 31)?;
    let groups = u64::from(arguments.groups.value);
    if !(is_flat && are_lines && exists && y.rows.value == taps) || groups > MOST_MATRICES {
        return None;
    }
    let most = DEPTHWISE_SPLIT.most(depth.into());
    let wanted = filling(gpu.units() * DEPTHWISE_ROUNDS, groups, most);
    let Splits { count, elements } = DEPTHWISE_SPLIT.into_splits(depth.into(), wanted);
    Some(Kernel::DepthwiseWeights {
        taps,
        stride,
        splits: count as u32,
        k_per_split: elements as u32,
    })
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
