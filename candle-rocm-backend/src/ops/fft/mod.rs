//! Fourier transforms along the last dimension, of f32 and f64.
//!
//! Complex numbers are a last dimension of 2: the real and the imaginary part. Lengths are any up to 65,536. On a GPU
//! lengths whose prime factors are 2, 3, 5 and 7 are transformed by passes in LDS, those beyond 2,048 (f64: 1,024) in two
//! steps, and all others as convolutions with a chirp, of a power of two: Bluestein, "A linear filtering approach to the
//! computation of discrete Fourier transform", 1970. The CPU computes in f64. Where an inverse is meant, it divides by the
//! length, so that it gives back what was transformed.

mod call;
mod host;
mod kernel;

use candle_core::{bail, DType, Device, Result, Storage, Tensor};

use self::call::{Call, MOST};
use super::node::{plain_in, result_in};
use super::operands::empty;

/// The transform of complex `x`, of shape (..., n, 2): sums of `x[j] e^(-2 pi i j k / n)`.
///
/// # Errors
/// Another dtype than f32 and f64, a shape that is not complex, more than 65,536 elements along the dimension, no memory,
/// or a failed launch; each names the operator and what was found.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{Device, Tensor};
/// let x = Tensor::new(&[[1f32, 0.], [0., 0.], [0., 0.]], &Device::new_cuda(0)?)?;
/// let y = candle_rocm_backend::ops::fft::fft(&x)?;
/// assert_eq!(y.to_vec2::<f32>()?, [[1., 0.], [1., 0.], [1., 0.]]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn fft(x: &Tensor) -> Result<Tensor> {
    complex("fft", x, false)
}

/// What [`fft`] made complex `x`, of shape (..., n, 2), of: sums of `x[k] e^(2 pi i j k / n) / n`.
///
/// # Errors
/// As [`fft`].
pub fn ifft(x: &Tensor) -> Result<Tensor> {
    complex("ifft", x, true)
}

/// The transform of real `x`, of shape (..., n): the first n / 2 + 1 complex numbers, of shape (..., n / 2 + 1, 2). The
/// others are conjugates of these.
///
/// # Errors
/// As [`fft`]; a dimension of no elements.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{Device, Tensor};
/// use candle_rocm_backend::ops::fft;
///
/// let x = Tensor::new(&[1f32, 2., 3., 4.], &Device::new_cuda(0)?)?;
/// let y = fft::rfft(&x)?;
/// assert_eq!(y.to_vec2::<f32>()?, [[10., 0.], [-2., 2.], [-2., 0.]]);
/// assert_eq!(fft::irfft(&y, 4)?.to_vec1::<f32>()?, [1., 2., 3., 4.]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn rfft(x: &Tensor) -> Result<Tensor> {
    const NAME: &str = "rfft";
    let Some((&length, rest)) = x.dims().split_last() else {
        bail!("{NAME}: x is a scalar, and needs a last dimension");
    };
    let forward = Call {
        real_source: true,
        half_result: true,
        ..Call::of(NAME, x, rest, length)?
    };
    let backward = Call {
        half_source: true,
        real_result: true,
        inverse: true,
        ..Call::of(NAME, x, rest, length)?
    };
    let shape = [rest, &[length / 2 + 1, 2]].concat();
    in_graph(forward, backward, x, &shape)
}

/// The `length` real numbers of which [`rfft`] made complex `x`, of shape (..., length / 2 + 1, 2).
///
/// The imaginary parts of the first number and, where the length is even, of the last one are not read.
///
/// # Errors
/// As [`fft`]; another shape.
pub fn irfft(x: &Tensor, length: usize) -> Result<Tensor> {
    const NAME: &str = "irfft";
    let (rest, count) = complex_dims(NAME, x)?;
    if length == 0 || count != length / 2 + 1 {
        bail!(
            "{NAME}: x has shape {:?}, and {length} numbers need [..., {}, 2]",
            x.shape(),
            length / 2 + 1
        );
    }
    let scale = 1.0 / length as f64;
    let forward = Call {
        half_source: true,
        load_doubled: true,
        real_result: true,
        inverse: true,
        scale,
        ..Call::of(NAME, x, rest, length)?
    };
    let backward = Call {
        real_source: true,
        half_result: true,
        store_doubled: true,
        scale,
        ..Call::of(NAME, x, rest, length)?
    };
    in_graph(forward, backward, x, &[rest, &[length]].concat())
}

fn complex(name: &'static str, x: &Tensor, inverse: bool) -> Result<Tensor> {
    let (rest, length) = complex_dims(name, x)?;
    if length == 0 {
        return empty(x, x.shape());
    }
    let scale = if inverse { 1.0 / length as f64 } else { 1.0 };
    let forward = Call {
        inverse,
        scale,
        ..Call::of(name, x, rest, length)?
    };
    let backward = Call {
        inverse: !inverse,
        ..forward
    };
    in_graph(forward, backward, x, x.dims())
}

/// The dimensions before the last, and complex numbers along that.
fn complex_dims<'a>(name: &str, x: &'a Tensor) -> Result<(&'a [usize], usize)> {
    match x.dims() {
        [rest @ .., length, 2] => Ok((rest, *length)),
        _ => bail!(
            "{name}: x has shape {:?}, and complex numbers need [..., n, 2]",
            x.shape()
        ),
    }
}

/// A transform, and that of its gradient.
fn in_graph(forward: Call, backward: Call, x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    if x.elem_count() == 0 {
        return empty(x, &shape.into());
    }
    let x = x.contiguous()?;
    let result = transformed(&forward, &x)?;
    let backward = move |operands: &[&Tensor], _: &Tensor, gradient: &Tensor| {
        let shape = operands.first().map_or(gradient.shape(), |x| x.shape());
        let gradient = transformed(&backward, gradient)?;
        Ok(vec![Some(plain_in(gradient, shape))])
    };
    let (name, shape) = (forward.name, shape.into());
    result_in(name, &[&x], result, &shape, Box::new(backward))
}

/// What a call makes of a contiguous tensor.
fn transformed(call: &Call, x: &Tensor) -> Result<Storage> {
    match x.device() {
        Device::Cuda(device) => Ok(Storage::Cuda(kernel::transformed(call, device, x)?)),
        _ => Ok(Storage::Cpu(host::transformed(call, x)?)),
    }
}

impl Call {
    /// A forward transform of complex numbers.
    fn of(name: &'static str, x: &Tensor, rest: &[usize], length: usize) -> Result<Self> {
        if !matches!(x.dtype(), DType::F32 | DType::F64) {
            bail!(
                "{name}: x of shape {:?} is {:?}, and must be f32 or f64: convert it with to_dtype",
                x.shape(),
                x.dtype()
            );
        }
        if length == 0 || length > MOST {
            bail!(
                "{name}: x of shape {:?} has transforms of {length} numbers: they must have 1 to {MOST}",
                x.shape()
            );
        }
        Ok(Self {
            name,
            batch: rest.iter().product(),
            length,
            scale: 1.0,
            ..Self::default()
        })
    }
}
