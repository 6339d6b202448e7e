//! What is asked of a convolution, checked, for one to three axes alike.

use candle_core::{bail, Result, Tensor};
use candle_rocm_runtime::convolution::Axis;

use super::super::activation::Activation;
use super::super::operands::{check_device, check_float};

/// A convolution of tensors: x (batch, channels, axes), weight (output channels, input channels of a group, axes), or, of a
/// transposed one, (input channels, output channels of a group, axes).
pub(super) struct Call<'a> {
    pub name: &'static str,
    pub x: &'a Tensor,
    pub weight: &'a Tensor,
    pub bias: Option<&'a Tensor>,
    pub activation: Activation,
    pub residual: Option<&'a Tensor>,
    pub groups: usize,
    /// As many as the tensors have. Of a transposed convolution its outputs are the axes' inputs.
    pub axes: Vec<Axis>,
    pub is_transposed: bool,
}

/// How an axis is gone along.
#[derive(Clone, Copy)]
pub(super) struct Steps {
    pub stride: usize,
    pub dilation: usize,
    /// Before and after; of a transposed convolution both are the same.
    pub padding: [usize; 2],
    pub output_padding: usize,
}

impl<'a> Call<'a> {
    /// Without what follows it.
    pub fn new(
        name: &'static str,
        x: &'a Tensor,
        weight: &'a Tensor,
        groups: usize,
        steps: &[Steps],
        is_transposed: bool,
    ) -> Result<Self> {
        let rank = steps.len() + 2;
        check_float(name, x)?;
        if x.rank() != rank || weight.rank() != rank || weight.dtype() != x.dtype() {
            bail!(
                "{name}: x of shape {:?} and {:?}, weight of shape {:?} and {:?}: both must have {rank} dimensions and one dtype",
                x.shape(),
                x.dtype(),
                weight.shape(),
                weight.dtype()
            );
        }
        check_device(name, "the weight", weight, x)?;
        let channels = x.dims()[1];
        let of_weight = match is_transposed {
            false => weight.dims()[1].checked_mul(groups),
            true => Some(weight.dims()[0]),
        };
        let divides = groups > 0
            && channels.is_multiple_of(groups)
            && (is_transposed || weight.dims()[0].is_multiple_of(groups));
        if of_weight != Some(channels) || !divides {
            bail!(
                "{name}: x has {channels} channels, the weight {:?}, and there are {groups} groups: {}",
                weight.shape(),
                match is_transposed {
                    false => "the weight must be (output channels, channels / groups, ...), and groups divide both",
                    true => "the weight must be (channels, output channels / groups, ...), and groups divide both",
                }
            );
        }
        let axis = |(i, steps): (usize, &Steps)| -> Result<Axis> {
            let (size, kernel) = (x.dims()[i + 2], weight.dims()[i + 2]);
            let Steps {
                stride,
                dilation,
                padding,
                output_padding,
            } = *steps;
            if stride == 0 || dilation == 0 || kernel == 0 {
                bail!("{name}: axis {i} has stride {stride}, dilation {dilation} and {kernel} taps: none may be 0");
            }
            if !is_transposed {
                return Ok(Axis::new(size, kernel, stride, dilation, padding));
            }
            if output_padding >= stride.max(dilation) {
                bail!("{name}: axis {i} has output padding {output_padding}, which must be below stride or dilation");
            }
            let [before, _] = padding;
            Ok(Axis::transposed(
                size,
                kernel,
                stride,
                dilation,
                before,
                output_padding,
            ))
        };
        let axes = steps.iter().enumerate().map(axis).collect::<Result<_>>()?;
        Ok(Self {
            name,
            x,
            weight,
            bias: None,
            activation: Activation::None,
            residual: None,
            groups,
            axes,
            is_transposed,
        })
    }

    /// The same with what follows it.
    pub fn followed_by(
        self,
        bias: Option<&'a Tensor>,
        activation: Activation,
        residual: Option<&'a Tensor>,
    ) -> Result<Self> {
        let dims = self.dims();
        for (what, operand, expected) in [
            ("bias", bias, &dims[1..2]),
            ("residual", residual, &dims[..]),
        ] {
            let Some(operand) = operand else { continue };
            if operand.dims() != expected || operand.dtype() != self.x.dtype() {
                bail!(
                    "{}: the {what} has shape {:?} and {:?}, and must have {expected:?} and {:?}",
                    self.name,
                    operand.shape(),
                    operand.dtype(),
                    self.x.dtype()
                );
            }
            check_device(self.name, what, operand, self.x)?;
        }
        Ok(Self {
            bias,
            activation,
            residual,
            ..self
        })
    }

    /// Channels of the result.
    pub fn channels(&self) -> usize {
        match self.is_transposed {
            false => self.weight.dims()[0],
            true => self.weight.dims()[1] * self.groups,
        }
    }

    /// The result's dimensions.
    pub fn dims(&self) -> Vec<usize> {
        let mut dims = vec![self.x.dims()[0], self.channels()];
        let size = |axis: &Axis| match self.is_transposed {
            false => axis.output,
            true => axis.input,
        };
        dims.extend(self.axes.iter().map(size));
        dims
    }

    /// Whether somebody wants a gradient.
    pub fn is_tracked(&self) -> bool {
        let operands = [Some(self.x), Some(self.weight), self.bias, self.residual];
        operands.iter().flatten().any(|operand| operand.track_op())
    }
}

/// activation(y + bias) + residual, by Candle's own operators.
pub(super) fn follow(
    y: Tensor,
    bias: Option<&Tensor>,
    activation: Activation,
    residual: Option<&Tensor>,
) -> Result<Tensor> {
    let mut y = y;
    if let Some(bias) = bias {
        let mut dims = vec![1; y.rank()];
        dims[1] = bias.elem_count();
        y = y.broadcast_add(&bias.reshape(dims)?)?;
    }
    y = activation.composed(y)?;
    match residual {
        Some(residual) => y + residual,
        None => Ok(y),
    }
}
