//! What a convolution is, and which ones make sense.

use std::fmt;

use candle_rocm_kernels::matmul::Dtype;
use candle_rocm_kernels::{activations, convolution};

use crate::base::error::{Error, Result};

/// Most of what a size may be: kernels count in 31 bits.
const MOST: usize = (1 << 31) - 1;

/// One spatial axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Axis {
    /// Inputs along it.
    pub input: usize,
    /// Taps of the kernel.
    pub kernel: usize,
    /// Outputs along it. How much padding stands behind the inputs follows from these.
    pub output: usize,
    /// Inputs from one output to the next.
    pub stride: usize,
    /// Inputs from one tap to the next.
    pub dilation: usize,
    /// Zeros before the first input.
    pub padding: usize,
    /// Whether the taps are turned round: a convolution as mathematics has it, where others are correlations.
    pub is_flipped: bool,
}

impl Axis {
    /// An axis that is not there.
    pub const NONE: Self = Self {
        input: 1,
        kernel: 1,
        output: 1,
        stride: 1,
        dilation: 1,
        padding: 0,
        is_flipped: false,
    };

    /// That of so many inputs and taps, with zeros before and after the inputs. Where the kernel is larger than the inputs with
    /// their padding, there are no outputs; nor if a stride is 0.
    pub fn new(
        input: usize,
        kernel: usize,
        stride: usize,
        dilation: usize,
        [before, after]: [usize; 2],
    ) -> Self {
        let reach = reach(kernel, dilation);
        let padded = input.saturating_add(before).saturating_add(after);
        let output = match padded.checked_sub(reach) {
            Some(rest) if kernel > 0 => rest.checked_div(stride).map_or(0, |steps| steps + 1),
            _ => 0,
        };
        Self {
            input,
            kernel,
            output,
            stride,
            dilation,
            padding: before,
            is_flipped: false,
        }
    }

    /// That of a transposed convolution, the data's gradient: of so many *outputs* of the convolution it makes the inputs, of
    /// which `more` are those that a division by the stride lost (output padding).
    pub fn transposed(
        output: usize,
        kernel: usize,
        stride: usize,
        dilation: usize,
        padding: usize,
        more: usize,
    ) -> Self {
        let steps = output.saturating_sub(1).saturating_mul(stride);
        let whole = steps
            .saturating_add(reach(kernel, dilation))
            .saturating_add(more);
        let input = match output {
            0 => 0,
            _ => whole.saturating_sub(padding.saturating_mul(2)),
        };
        Self {
            input,
            kernel,
            output,
            stride,
            dilation,
            padding,
            is_flipped: false,
        }
    }
}

/// Inputs that a kernel covers.
fn reach(kernel: usize, dilation: usize) -> usize {
    kernel
        .saturating_sub(1)
        .saturating_mul(dilation)
        .saturating_add(1)
}

/// Distances in memory, in elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Strides {
    /// Between images of the batch; of weights between output channels.
    pub batch: usize,
    /// Between channels; of weights between input channels.
    pub channel: usize,
    /// Between neighbours along the axes.
    pub axes: [usize; 3],
}

impl Strides {
    /// Channels first (NCHW), without gaps, of so many channels and these sizes.
    pub fn channels_first(channels: usize, [z, y, x]: [usize; 3]) -> Self {
        let channel = z.saturating_mul(y).saturating_mul(x);
        Self {
            batch: channels.saturating_mul(channel),
            channel,
            axes: [y.saturating_mul(x), x, 1],
        }
    }

    /// Channels last (NHWC), likewise.
    pub fn channels_last(channels: usize, [z, y, x]: [usize; 3]) -> Self {
        let line = x.saturating_mul(channels);
        let plane = y.saturating_mul(line);
        Self {
            batch: z.saturating_mul(plane),
            channel: 1,
            axes: [plane, line, channels],
        }
    }

    /// Elements from the first to the last, of such a tensor, and one more; 0 if it is empty. `None` beyond 64 bits.
    pub(super) fn extent(&self, batch: usize, channels: usize, axes: [usize; 3]) -> Option<u64> {
        let of = [
            (batch, self.batch),
            (channels, self.channel),
            (axes[0], self.axes[0]),
            (axes[1], self.axes[1]),
            (axes[2], self.axes[2]),
        ];
        if of.iter().any(|(count, _)| *count == 0) {
            return Some(0);
        }
        let steps = of.into_iter().map(|(count, stride)| {
            let steps = u64::try_from(count - 1).ok()?;
            steps.checked_mul(u64::try_from(stride).ok()?)
        });
        let last = steps
            .into_iter()
            .try_fold(0_u64, |sum, steps| sum.checked_add(steps?))?;
        last.checked_add(1)
    }
}

/// What is computed of a convolution: its result, or a gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Outputs, from inputs and weights.
    Forward,
    /// The gradient of the inputs, from that of the outputs and the weights: a transposed convolution.
    Data,
    /// The gradient of the weights, from the inputs and the gradient of the outputs.
    Weights,
}

/// A function applied to each element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activation {
    /// None.
    #[default]
    None,
    /// max(x, 0), 0 of a NaN.
    Relu,
    /// max(x, 0), NaN of a NaN.
    ReluOfNan,
    /// x / (1 + exp(-x)), Candle's `silu`.
    Silu,
    /// GELU by the hyperbolic tangent, Candle's `gelu`.
    GeluTanh,
    /// GELU by the error function, Candle's `gelu_erf`.
    GeluErf,
}

impl Activation {
    /// What the kernels call it.
    pub(super) fn number(self) -> u32 {
        match self {
            Self::ReluOfNan => return convolution::RELU_OF_NAN,
            Self::None => activations::NONE,
            Self::Relu => activations::RELU,
            Self::Silu => activations::SILU,
            Self::GeluTanh => activations::GELU,
            Self::GeluErf => activations::GELU_ERF,
        }
        .number
    }
}

/// A convolution, or one of its gradients. Inputs are (batch, input channel, axes), weights (output channel, input channel of
/// a group, axes), outputs (batch, output channel, axes), each in any order of memory.
///
/// f16 and bf16 are summed in f32 and rounded once; f32 and f64 in their own type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Convolution {
    /// What is computed.
    pub operation: Operation,
    /// Of all tensors: f16, bf16, f32 or f64.
    pub dtype: Dtype,
    /// Images.
    pub batch: usize,
    /// Groups of channels, each with weights of its own.
    pub groups: usize,
    /// Input channels of all groups.
    pub in_channels: usize,
    /// Output channels of all groups.
    pub out_channels: usize,
    /// From the outermost; those that are not there are [`Axis::NONE`].
    pub axes: [Axis; 3],
    /// Where inputs lie, or their gradient.
    pub inputs: Strides,
    /// Where weights lie, or their gradient.
    pub weights: Strides,
    /// Where outputs lie, or their gradient.
    pub outputs: Strides,
}

impl fmt::Display for Convolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operation = match self.operation {
            Operation::Forward => "convolution",
            Operation::Data => "convolution's gradient of the data",
            Operation::Weights => "convolution's gradient of the weights",
        };
        let Self {
            batch,
            groups,
            in_channels,
            out_channels,
            ..
        } = self;
        let of = |f: fn(&Axis) -> usize| {
            let sizes = self.axes.iter().map(|axis| f(axis).to_string());
            sizes.collect::<Vec<_>>().join("x")
        };
        write!(
            f,
            "{operation} of {} {batch}x{in_channels}x{} to {out_channels} channels of {}, kernel {}, stride {}, dilation {}, \
             padding {}, {groups} groups",
            self.dtype.name(),
            of(|axis| axis.input),
            of(|axis| axis.output),
            of(|axis| axis.kernel),
            of(|axis| axis.stride),
            of(|axis| axis.dilation),
            of(|axis| axis.padding),
        )
    }
}

impl Convolution {
    /// A contiguous convolution, channels first.
    pub fn contiguous(
        dtype: Dtype,
        batch: usize,
        [in_channels, out_channels]: [usize; 2],
        groups: usize,
        axes: [Axis; 3],
    ) -> Self {
        let of_group = in_channels / groups.max(1);
        Self {
            operation: Operation::Forward,
            dtype,
            batch,
            groups,
            in_channels,
            out_channels,
            axes,
            inputs: Strides::channels_first(in_channels, axes.map(|axis| axis.input)),
            weights: Strides::channels_first(of_group, axes.map(|axis| axis.kernel)),
            outputs: Strides::channels_first(out_channels, axes.map(|axis| axis.output)),
        }
    }

    /// Input and output channels of a group.
    pub(super) fn of_group(&self) -> [usize; 2] {
        let groups = self.groups.max(1);
        [self.in_channels / groups, self.out_channels / groups]
    }

    /// Whether the result has no elements.
    pub fn is_empty(&self) -> bool {
        let [inputs, outputs] = self.of_group();
        let none = |f: fn(&Axis) -> usize| self.axes.iter().any(|axis| f(axis) == 0);
        self.groups == 0
            || match self.operation {
                Operation::Forward => outputs == 0 || self.batch == 0 || none(|axis| axis.output),
                Operation::Data => inputs == 0 || self.batch == 0 || none(|axis| axis.input),
                Operation::Weights => inputs == 0 || outputs == 0 || none(|axis| axis.kernel),
            }
    }

    /// Checks that it makes sense.
    ///
    /// # Errors
    /// Channels that groups do not divide, strides or dilations of 0, sizes beyond 2^31 - 1, tensors beyond 64 bits; each names
    /// the convolution.
    pub fn check(&self) -> Result<()> {
        let refuse = |what: String| Err(Error::invalid(format!("{self}: {what}")));
        if self.dtype == Dtype::I8 {
            return refuse("no convolution has i8: f16, bf16, f32 and f64 have".to_owned());
        }
        for (what, channels) in [("input", self.in_channels), ("output", self.out_channels)] {
            if self.groups == 0 || channels % self.groups != 0 {
                return refuse(format!(
                    "{channels} {what} channels are not divided by {} groups",
                    self.groups
                ));
            }
        }
        let sizes = [self.batch, self.in_channels, self.out_channels];
        for axis in &self.axes {
            if axis.stride == 0 || axis.dilation == 0 {
                return refuse("a stride or dilation is 0, and must be 1 at least".to_owned());
            }
            let furthest = reach(axis.kernel, axis.dilation)
                .saturating_add(axis.output.saturating_mul(axis.stride))
                .saturating_add(axis.padding);
            if furthest.max(axis.input) > MOST / 2 {
                return refuse(format!("{axis:?} reaches beyond 2^30 places"));
            }
        }
        let product = |f: fn(&Axis) -> usize, others: [usize; 2]| {
            let of_axes = self.axes.iter().map(f);
            of_axes.chain(others).try_fold(1_usize, usize::checked_mul)
        };
        let [inputs, outputs] = self.of_group();
        let counts = [
            ("inputs", product(|axis| axis.input, [self.batch, 1])),
            ("outputs", product(|axis| axis.output, [self.batch, 1])),
            ("taps of a group", product(|axis| axis.kernel, [inputs, 1])),
            ("taps of a group", product(|axis| axis.kernel, [outputs, 1])),
        ];
        for (what, count) in counts {
            if count.is_none_or(|count| count > MOST) {
                return refuse(format!(
                    "a channel has more than 2^31 - 1 {what}; split the batch"
                ));
            }
        }
        if sizes.iter().any(|size| *size > MOST) || self.extents().is_none() {
            return refuse("its tensors are beyond what 64 bits address".to_owned());
        }
        Ok(())
    }

    /// Elements of inputs, weights and outputs, from the first to the last.
    pub(super) fn extents(&self) -> Option<[u64; 3]> {
        let [of_group, _] = self.of_group();
        Some([
            self.inputs.extent(
                self.batch,
                self.in_channels,
                self.axes.map(|axis| axis.input),
            )?,
            self.weights.extent(
                self.out_channels,
                of_group,
                self.axes.map(|axis| axis.kernel),
            )?,
            self.outputs.extent(
                self.batch,
                self.out_channels,
                self.axes.map(|axis| axis.output),
            )?,
        ])
    }
}

/// Addresses on the device of the tensors' first elements; the operation says which is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operands {
    /// (batch, input channel, axes), or their gradient.
    pub inputs: u64,
    /// (output channel, input channel of a group, axes), or their gradient.
    pub weights: u64,
    /// (batch, output channel, axes), or their gradient.
    pub outputs: u64,
}

/// `activation(alpha * sum + beta * addend + bias) + residual`, in the type of sums, rounded once. The addend is not read if
/// `beta` is 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Epilogue {
    /// Of the sums.
    pub alpha: f64,
    /// Of the addend.
    pub beta: f64,
    /// Address of a tensor of the result's shape, type and strides; the result as it is before, if there is none.
    pub addend: Option<u64>,
    /// Address of an element for each channel of the result, of its type. Gradients of weights have none.
    pub bias: Option<u64>,
    /// Applied after the bias.
    pub activation: Activation,
    /// Address of a tensor of the result's shape, type and strides.
    pub residual: Option<u64>,
}

impl Default for Epilogue {
    fn default() -> Self {
        Self {
            alpha: 1.0,
            beta: 0.0,
            addend: None,
            bias: None,
            activation: Activation::None,
            residual: None,
        }
    }
}
