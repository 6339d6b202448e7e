//! Layers of convolutional networks and their gradients: by candle_rocm_backend's operators, or, in the worker on Candle's own
//! backend, by Candle's.
//!
//! Dimensions are (batch, channels, size, outputs, kernel, stride, groups), padding is half of the kernel, but for patches, whose
//! stride is the kernel; of transposed layers a quarter of the kernel.

use anyhow::Result;
use candle_core::{Tensor, Var};

use crate::data::Range;
use crate::operator::{Maker, Operator};

type Make = fn(&Maker) -> Result<Operator>;

/// By name.
pub const ALL: [(&str, Make); 7] = [
    ("convolution", |m| forward(m, 2, false)),
    ("convolution_nhwc", |m| forward(m, 2, true)),
    ("convolution_1d", |m| forward(m, 1, false)),
    ("convolution_data", |m| backward(m, true)),
    ("convolution_weights", |m| backward(m, false)),
    ("convolution_up", |m| transposed(m, 2)),
    ("convolution_up_1d", |m| transposed(m, 1)),
];

/// What a case says, of so many axes.
#[derive(Clone, Copy)]
struct Layer {
    axes: usize,
    batch: usize,
    channels: usize,
    size: usize,
    outputs: usize,
    kernel: usize,
    stride: usize,
    groups: usize,
}

impl Layer {
    fn of(m: &Maker, axes: usize) -> Result<Self> {
        let [batch, channels, size, outputs, kernel, stride, groups] = m.dims()?;
        Ok(Self {
            axes,
            batch,
            channels,
            size,
            outputs,
            kernel,
            stride,
            groups,
        })
    }

    fn padding(&self) -> usize {
        match self.stride == self.kernel {
            true => 0,
            false => self.kernel / 2,
        }
    }

    /// The input, and a weight whose first two dimensions are these.
    fn operands(&self, m: &Maker, of_weight: [usize; 2]) -> Result<[Tensor; 2]> {
        let all = |first: [usize; 2], size: usize| {
            let rest = std::iter::repeat_n(size, self.axes);
            first.into_iter().chain(rest).collect::<Vec<_>>()
        };
        let x = all([self.batch, self.channels], self.size);
        let weight = all(of_weight, self.kernel);
        Ok([
            m.values(&x, Range::Signed, 0)?,
            m.values(&weight, Range::Signed, 1)?,
        ])
    }

    /// Multiplications and additions, if each place along an axis, of so many, meets all taps.
    fn flops(&self, places: usize) -> u64 {
        let of_place =
            self.channels / self.groups * self.outputs * self.kernel.pow(self.axes as u32);
        (2 * self.batch * places.pow(self.axes as u32) * of_place) as u64
    }

    fn places(&self) -> usize {
        (self.size + 2 * self.padding() - self.kernel) / self.stride + 1
    }

    fn convolve(&self, x: &Tensor, weight: &Tensor) -> candle_core::Result<Tensor> {
        let (padding, stride, groups) = (self.padding(), self.stride, self.groups);
        match self.axes {
            1 => by::conv1d(x, weight, padding, stride, groups),
            _ => by::conv2d(x, weight, padding, stride, groups),
        }
    }
}

/// By ours.
#[cfg(feature = "session")]
mod by {
    use candle_core::{Result, Tensor};
    use candle_rocm_backend::ops::{self, ConvOptions, ConvTransposeOptions};

    fn options<const N: usize>(
        padding: usize,
        stride: usize,
        groups: usize,
    ) -> ConvOptions<'static, N> {
        ConvOptions {
            stride: [stride; N],
            padding: [[padding; 2]; N],
            groups,
            ..ConvOptions::default()
        }
    }

    fn transposed<const N: usize>(
        padding: usize,
        stride: usize,
    ) -> ConvTransposeOptions<'static, N> {
        ConvTransposeOptions {
            stride: [stride; N],
            padding: [padding; N],
            ..ConvTransposeOptions::default()
        }
    }

    pub fn conv1d(
        x: &Tensor,
        weight: &Tensor,
        padding: usize,
        stride: usize,
        groups: usize,
    ) -> Result<Tensor> {
        ops::conv1d(x, weight, &options(padding, stride, groups))
    }

    pub fn conv2d(
        x: &Tensor,
        weight: &Tensor,
        padding: usize,
        stride: usize,
        groups: usize,
    ) -> Result<Tensor> {
        ops::conv2d(x, weight, &options(padding, stride, groups))
    }

    pub fn conv_transpose1d(
        x: &Tensor,
        weight: &Tensor,
        padding: usize,
        stride: usize,
    ) -> Result<Tensor> {
        ops::conv_transpose1d(x, weight, &transposed(padding, stride))
    }

    pub fn conv_transpose2d(
        x: &Tensor,
        weight: &Tensor,
        padding: usize,
        stride: usize,
    ) -> Result<Tensor> {
        ops::conv_transpose2d(x, weight, &transposed(padding, stride))
    }
}

/// By Candle's.
#[cfg(not(feature = "session"))]
mod by {
    use candle_core::{Result, Tensor};

    pub fn conv1d(
        x: &Tensor,
        weight: &Tensor,
        padding: usize,
        stride: usize,
        groups: usize,
    ) -> Result<Tensor> {
        x.conv1d(weight, padding, stride, 1, groups)
    }

    pub fn conv2d(
        x: &Tensor,
        weight: &Tensor,
        padding: usize,
        stride: usize,
        groups: usize,
    ) -> Result<Tensor> {
        x.conv2d(weight, padding, stride, 1, groups)
    }

    pub fn conv_transpose1d(
        x: &Tensor,
        weight: &Tensor,
        padding: usize,
        stride: usize,
    ) -> Result<Tensor> {
        x.conv_transpose1d(weight, padding, 0, stride, 1, 1)
    }

    pub fn conv_transpose2d(
        x: &Tensor,
        weight: &Tensor,
        padding: usize,
        stride: usize,
    ) -> Result<Tensor> {
        x.conv_transpose2d(weight, padding, 0, stride, 1)
    }
}

fn forward(m: &Maker, axes: usize, is_last: bool) -> Result<Operator> {
    let layer = Layer::of(m, axes)?;
    let mut operands = layer.operands(m, [layer.outputs, layer.channels / layer.groups])?;
    if is_last {
        let last = |x: &Tensor| x.permute((0, 2, 3, 1))?.contiguous()?.permute((0, 3, 1, 2));
        operands = [last(&operands[0])?, last(&operands[1])?];
    }
    let operator = Operator::new(operands, move |x| layer.convolve(&x[0], &x[1]));
    Ok(Operator {
        flops: layer.flops(layer.places()),
        ..operator
    })
}

/// Backward alone, of a result that was made once. Candle adds each gradient to zeros, which is timed with it.
fn backward(m: &Maker, of_data: bool) -> Result<Operator> {
    let layer = Layer::of(m, 2)?;
    let [x, weight] = layer.operands(m, [layer.outputs, layer.channels / layer.groups])?;
    let var = Var::from_tensor(if of_data { &x } else { &weight })?;
    let result = match of_data {
        true => layer.convolve(&var, &weight)?,
        false => layer.convolve(&x, &var)?,
    };
    let operator = Operator::new([x, weight], move |_| {
        let gradients = result.backward()?;
        match gradients.get(&var) {
            Some(gradient) => Ok(gradient.clone()),
            None => candle_core::bail!("a convolution left an operand without a gradient"),
        }
    });
    Ok(Operator {
        flops: layer.flops(layer.places()),
        ..operator
    })
}

fn transposed(m: &Maker, axes: usize) -> Result<Operator> {
    let layer = Layer::of(m, axes)?;
    let operands = layer.operands(m, [layer.channels, layer.outputs])?;
    let (padding, stride) = (layer.kernel / 4, layer.stride);
    let operator = Operator::new(operands, move |x| match axes {
        1 => by::conv_transpose1d(&x[0], &x[1], padding, stride),
        _ => by::conv_transpose2d(&x[0], &x[1], padding, stride),
    });
    Ok(Operator {
        flops: layer.flops(layer.size),
        ..operator
    })
}
