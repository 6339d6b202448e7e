//! A convolution composed of Candle's own operators: a product for each tap.

use candle_core::{Result, Tensor};
use candle_rocm_runtime::convolution::Axis;

use super::super::operands::{empty, wide};
use super::call::{follow, Call};

/// The result of a call, in f32 for f16 and bf16.
pub(super) fn composed(call: &Call) -> Result<Tensor> {
    let dims = call.dims();
    let shape = dims.clone().into();
    if dims.contains(&0) {
        return empty(call.x, &shape);
    }
    // Candle's CPU selects by index from contiguous tensors alone.
    let x = wide(call.x)?.contiguous()?;
    let weight = wide(call.weight)?.contiguous()?;
    let y = match call.is_transposed {
        false => correlate(&x, &weight, &call.axes, call.groups, &dims)?,
        true => transposed(&x, &weight, call, &dims)?,
    };
    let [bias, residual] = [call.bias, call.residual].map(|operand| operand.map(wide).transpose());
    let y = follow(y, bias?.as_ref(), call.activation, residual?.as_ref())?;
    y.to_dtype(call.x.dtype())
}

/// Indices as Candle takes them.
fn indices(x: &Tensor, all: impl Iterator<Item = usize>) -> Result<Tensor> {
    let all: Vec<u32> = all.map(|index| index as u32).collect();
    let count = all.len();
    Tensor::from_vec(all, count, x.device())
}

/// y[o] = sum over taps of x[o * stride + tap * dilation - padding] times the tap's weights.
fn correlate(
    x: &Tensor,
    weight: &Tensor,
    axes: &[Axis],
    groups: usize,
    dims: &[usize],
) -> Result<Tensor> {
    let places: usize = dims[2..].iter().product();
    let (batch, inputs) = (dims[0], weight.dims()[1]);
    let outputs = dims[1] / groups;
    // A row of zeros behind the inputs of each axis stands for all that are outside.
    let mut padded = x.clone();
    for d in 2..x.rank() {
        padded = padded.pad_with_zeros(d, 0, 1)?;
    }
    let mut sum: Option<Tensor> = None;
    let count: usize = axes.iter().map(|axis| axis.kernel).product();
    for number in 0..count {
        let (mut rest, mut taken, mut of_tap) = (number, padded.clone(), weight.clone());
        for (i, axis) in axes.iter().enumerate().rev() {
            let tap = rest % axis.kernel;
            rest /= axis.kernel;
            let inside = |o: usize| {
                let at = (o * axis.stride + tap * axis.dilation).checked_sub(axis.padding);
                at.filter(|at| *at < axis.input).unwrap_or(axis.input)
            };
            taken = taken.index_select(&indices(x, (0..axis.output).map(inside))?, i + 2)?;
            of_tap = of_tap.narrow(i + 2, tap, 1)?;
        }
        let taken = taken.reshape((batch, groups, inputs, places))?;
        let of_tap = of_tap.contiguous()?.reshape((1, groups, outputs, inputs))?;
        let product = of_tap.broadcast_matmul(&taken)?;
        sum = Some(match sum {
            Some(sum) => (sum + product)?,
            None => product,
        });
    }
    match sum {
        Some(sum) => sum.reshape(dims),
        None => Tensor::zeros(dims, x.dtype(), x.device()),
    }
}

/// A transposed convolution is a convolution of x with stride - 1 zeros between its places and the taps in reverse.
fn transposed(x: &Tensor, weight: &Tensor, call: &Call, dims: &[usize]) -> Result<Tensor> {
    let (groups, inputs) = (call.groups, call.x.dims()[1] / call.groups);
    let outputs = weight.dims()[1];
    let (mut spread, mut reversed) = (x.clone(), weight.clone());
    let mut axes = Vec::new();
    for (i, axis) in call.axes.iter().enumerate() {
        let d = i + 2;
        let (places, reach) = (axis.output, (axis.kernel - 1) * axis.dilation);
        // Where the zeros stand that are taken.
        let zero = places;
        let between = |at: usize| {
            if at.is_multiple_of(axis.stride) {
                at / axis.stride
            } else {
                zero
            }
        };
        let length = (places - 1) * axis.stride + 1;
        // Padding beyond what the taps reach cuts places off.
        let (before, cut) = (
            reach.saturating_sub(axis.padding),
            axis.padding.saturating_sub(reach),
        );
        let taken = indices(x, (cut.min(length)..length).map(between))?;
        let left = length.saturating_sub(cut);
        spread = spread.pad_with_zeros(d, 0, 1)?.index_select(&taken, d)?;
        reversed = reversed.index_select(&indices(x, (0..axis.kernel).rev())?, d)?;
        axes.push(Axis {
            input: left,
            kernel: axis.kernel,
            output: axis.input,
            stride: 1,
            dilation: axis.dilation,
            padding: before,
            is_flipped: false,
        });
    }
    // (groups * inputs, outputs, taps) to (groups * outputs, inputs, taps).
    let taps: usize = weight.dims()[2..].iter().product();
    let reversed = reversed
        .contiguous()?
        .reshape((groups, inputs, outputs, taps))?;
    let mut of_weight = vec![groups * outputs, inputs];
    of_weight.extend(&weight.dims()[2..]);
    let reversed = reversed.transpose(1, 2)?.contiguous()?.reshape(of_weight)?;
    correlate(&spread, &reversed, &axes, groups, dims)
}
