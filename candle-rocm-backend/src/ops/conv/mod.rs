//! Convolutions of one to three axes, and transposed ones, with what follows them and with gradients.

mod call;
mod composed;
mod kernel;

use candle_core::{Device, Result, Tensor};

use super::activation::Activation;
use call::{Call, Steps};

/// How a convolution of N axes goes, and what follows it: activation(sum + bias) + residual.
#[derive(Clone, Copy, Debug)]
pub struct ConvOptions<'a, const N: usize> {
    /// Places of x from one result to the next, along each axis.
    pub stride: [usize; N],
    /// Zeros before and after x, along each axis.
    pub padding: [[usize; 2]; N],
    /// Places of x from one tap to the next, along each axis.
    pub dilation: [usize; N],
    /// Groups of channels, each with weights of its own.
    pub groups: usize,
    /// An element for each channel of the result.
    pub bias: Option<&'a Tensor>,
    /// Applied after the bias.
    pub activation: Activation,
    /// A tensor of the result's shape, added last.
    pub residual: Option<&'a Tensor>,
}

impl<const N: usize> Default for ConvOptions<'_, N> {
    fn default() -> Self {
        Self {
            stride: [1; N],
            padding: [[0; 2]; N],
            dilation: [1; N],
            groups: 1,
            bias: None,
            activation: Activation::None,
            residual: None,
        }
    }
}

/// How a transposed convolution of N axes goes, and what follows it: activation(sum + bias) + residual.
#[derive(Clone, Copy, Debug)]
pub struct ConvTransposeOptions<'a, const N: usize> {
    /// Places of the result from one of x to the next, along each axis.
    pub stride: [usize; N],
    /// Places that are cut off before and after the result, along each axis.
    pub padding: [usize; N],
    /// Places that the result has more, at its end.
    pub output_padding: [usize; N],
    /// Places of the result from one tap to the next, along each axis.
    pub dilation: [usize; N],
    /// Groups of channels, each with weights of its own.
    pub groups: usize,
    /// An element for each channel of the result.
    pub bias: Option<&'a Tensor>,
    /// Applied after the bias.
    pub activation: Activation,
    /// A tensor of the result's shape, added last.
    pub residual: Option<&'a Tensor>,
}

impl<const N: usize> Default for ConvTransposeOptions<'_, N> {
    fn default() -> Self {
        Self {
            stride: [1; N],
            padding: [0; N],
            output_padding: [0; N],
            dilation: [1; N],
            groups: 1,
            bias: None,
            activation: Activation::None,
            residual: None,
        }
    }
}

/// A convolution along one axis: x (batch, channels, length), weight (output channels, channels / groups, taps), result
/// (batch, output channels, length'). See [`conv2d`].
///
/// # Errors
/// As [`conv2d`].
pub fn conv1d(x: &Tensor, weight: &Tensor, options: &ConvOptions<1>) -> Result<Tensor> {
    convolved("conv1d", x, weight, options)
}

/// A convolution along two axes: x (batch, channels, height, width), weight (output channels, channels / groups, taps along
/// height, taps along width), result (batch, output channels, height', width').
///
/// On a GPU x may lie in memory in any order and with gaps; where its channels are neighbours (NHWC, permuted), so are the
/// result's. No patches are written to memory. The gradients of x, weight and bias are kernels, too; that of the weights sums
/// in an order that the shapes and the GPU's compute units fix. All tensors are of one dtype, f16, bf16, f32 or f64; f16 and
/// bf16 are summed in f32 and rounded once.
///
/// # Errors
/// Operands of other dtypes, shapes or devices, a stride of 0, or a failed launch; each names the operator and what was found.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{DType, Device, Tensor};
/// use candle_rocm_backend::ops::{conv2d, Activation, ConvOptions};
///
/// let device = Device::new_cuda(0)?;
/// let x = Tensor::randn(0f32, 1., (1, 8, 9, 9), &device)?;
/// let weight = Tensor::randn(0f32, 0.1, (16, 8, 3, 3), &device)?;
/// let bias = Tensor::zeros(16, DType::F32, &device)?;
/// let options = ConvOptions {
///     stride: [2, 2],
///     padding: [[1, 1], [0, 1]],
///     bias: Some(&bias),
///     activation: Activation::Silu,
///     ..ConvOptions::default()
/// };
/// let y = conv2d(&x, &weight, &options)?;
/// assert_eq!(y.dims(), [1, 16, 5, 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn conv2d(x: &Tensor, weight: &Tensor, options: &ConvOptions<2>) -> Result<Tensor> {
    convolved("conv2d", x, weight, options)
}

/// A convolution along three axes: x (batch, channels, depth, height, width), weight (output channels, channels / groups, taps
/// along each axis), result (batch, output channels, depth', height', width'). See [`conv2d`].
///
/// # Errors
/// As [`conv2d`].
pub fn conv3d(x: &Tensor, weight: &Tensor, options: &ConvOptions<3>) -> Result<Tensor> {
    convolved("conv3d", x, weight, options)
}

/// A transposed convolution along one axis: x (batch, channels, length), weight (channels, output channels / groups, taps).
/// See [`conv_transpose2d`].
///
/// # Errors
/// As [`conv2d`].
pub fn conv_transpose1d(
    x: &Tensor,
    weight: &Tensor,
    options: &ConvTransposeOptions<1>,
) -> Result<Tensor> {
    transposed("conv_transpose1d", x, weight, options)
}

/// A transposed convolution along two axes: x (batch, channels, height, width), weight (channels, output channels / groups,
/// taps along height, taps along width). Along an axis the result has (size - 1) * stride + dilation * (taps - 1) + 1 +
/// output_padding - 2 * padding places. Memory, gradients and types as [`conv2d`].
///
/// # Errors
/// As [`conv2d`]; output padding that neither stride nor dilation exceeds.
pub fn conv_transpose2d(
    x: &Tensor,
    weight: &Tensor,
    options: &ConvTransposeOptions<2>,
) -> Result<Tensor> {
    transposed("conv_transpose2d", x, weight, options)
}

fn convolved<const N: usize>(
    name: &'static str,
    x: &Tensor,
    weight: &Tensor,
    options: &ConvOptions<N>,
) -> Result<Tensor> {
    let steps = std::array::from_fn::<_, N, _>(|i| Steps {
        stride: options.stride[i],
        dilation: options.dilation[i],
        padding: options.padding[i],
        output_padding: 0,
    });
    let call = Call::new(name, x, weight, options.groups, &steps, false)?;
    made(&call.followed_by(options.bias, options.activation, options.residual)?)
}

fn transposed<const N: usize>(
    name: &'static str,
    x: &Tensor,
    weight: &Tensor,
    options: &ConvTransposeOptions<N>,
) -> Result<Tensor> {
    let steps = std::array::from_fn::<_, N, _>(|i| Steps {
        stride: options.stride[i],
        dilation: options.dilation[i],
        padding: [options.padding[i]; 2],
        output_padding: options.output_padding[i],
    });
    let call = Call::new(name, x, weight, options.groups, &steps, true)?;
    made(&call.followed_by(options.bias, options.activation, options.residual)?)
}

fn made(call: &Call) -> Result<Tensor> {
    match call.x.device() {
        Device::Cuda(device) => kernel::launched(call, device),
        _ => composed::composed(call),
    }
}
