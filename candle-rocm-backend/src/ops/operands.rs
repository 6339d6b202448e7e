//! What operators ask of their operands.

use candle_core::{bail, CudaDevice, DType, Device, Result, Shape, Tensor};

/// Rows of the last dimension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub count: usize,
    pub columns: usize,
}

impl Rows {
    pub fn of(operator: &str, x: &Tensor) -> Result<Self> {
        match x.dims().split_last() {
            None => bail!("{operator}: x is a scalar, and needs a last dimension"),
            Some((&columns, rest)) => Ok(Self {
                count: rest.iter().product(),
                columns,
            }),
        }
    }
}

/// The one shape in which a vector goes with the last dimension of x.
pub(crate) fn check_vector(operator: &str, name: &str, vector: &Tensor, x: &Tensor) -> Result<()> {
    check_alike(operator, name, vector, x)?;
    let columns = x.dims().last().copied().unwrap_or(0);
    if vector.dims() != [columns] {
        bail!(
            "{operator}: {name} has shape {:?}, and x of shape {:?} needs [{columns}]",
            vector.shape(),
            x.shape()
        );
    }
    Ok(())
}

pub(super) fn check_same_shape(
    operator: &str,
    name: &str,
    other: &Tensor,
    x: &Tensor,
) -> Result<()> {
    check_alike(operator, name, other, x)?;
    if other.shape() != x.shape() {
        bail!(
            "{operator}: {name} has shape {:?}, and x {:?}: they must be the same",
            other.shape(),
            x.shape()
        );
    }
    Ok(())
}

/// One dtype and one device.
pub(super) fn check_alike(operator: &str, name: &str, other: &Tensor, x: &Tensor) -> Result<()> {
    if other.dtype() != x.dtype() {
        bail!(
            "{operator}: {name} is {:?}, and x {:?}: convert one with to_dtype",
            other.dtype(),
            x.dtype()
        );
    }
    check_device(operator, name, other, x)
}

pub(crate) fn check_device(operator: &str, name: &str, other: &Tensor, x: &Tensor) -> Result<()> {
    if !other.device().same_device(x.device()) {
        bail!(
            "{operator}: {name} is on {:?}, and x on {:?}: move one with to_device",
            other.device().location(),
            x.device().location()
        );
    }
    Ok(())
}

pub(crate) fn check_float(operator: &str, x: &Tensor) -> Result<()> {
    match x.dtype() {
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 => Ok(()),
        other => bail!(
            "{operator}: x of shape {:?} is {other:?}, and must be f16, bf16, f32 or f64",
            x.shape()
        ),
    }
}

pub(super) fn empty(x: &Tensor, shape: &Shape) -> Result<Tensor> {
    Tensor::zeros(shape, x.dtype(), x.device())
}

/// Whether kernels compute, as against Candle's own operators.
pub(super) fn on_gpu(x: &Tensor) -> bool {
    matches!(x.device(), Device::Cuda(_))
}

/// The type in which Candle's own operators compute what kernels compute of this one.
pub(super) fn wide(x: &Tensor) -> Result<Tensor> {
    match x.dtype() {
        DType::F16 | DType::BF16 => x.to_dtype(DType::F32),
        _ => Ok(x.clone()),
    }
}

/// The sum of `x` over the dimensions along which a tensor of this shape was repeated.
pub(super) fn sum_to(x: &Tensor, shape: &Shape) -> Result<Tensor> {
    let missing = x.rank() - shape.rank();
    let repeated: Vec<usize> = (0..x.rank())
        .filter(|&d| d < missing || shape.dims()[d - missing] != x.dims()[d])
        .collect();
    if repeated.is_empty() {
        return x.reshape(shape);
    }
    x.sum_keepdim(repeated)?.reshape(shape)
}

/// The name, in kernels' names, of a dtype of those that have f32, f16 and bf16.
pub(crate) fn row_float(operator: &str, x: &Tensor) -> Result<&'static str> {
    match x.dtype() {
        dtype @ (DType::F32 | DType::F16 | DType::BF16) => Ok(dtype.as_str()),
        other => bail!("{operator}: x is {other:?}: it must be f32, f16 or bf16"),
    }
}

/// The GPU of an operand that [`on_gpu`] says is on one.
pub(super) fn gpu<'a>(name: &str, x: &'a Tensor) -> Result<&'a CudaDevice> {
    match x.device() {
        Device::Cuda(device) => Ok(device),
        other => bail!("{name}: x is on {:?}, not on a GPU", other.location()),
    }
}

/// Whether rows of so many elements are read by 16 bytes in all of these.
pub(super) fn is_wide(row: usize, tensors: &[&Tensor]) -> bool {
    let aligned = |tensor: &&Tensor| {
        let size = tensor.dtype().size_in_bytes();
        (row * size).is_multiple_of(16)
            && (tensor.layout().start_offset() * size).is_multiple_of(16)
    };
    tensors.iter().all(aligned)
}

/// Elements that a thread reads at once.
pub(super) fn width(dtype: DType, wide: bool) -> usize {
    if wide {
        16 / dtype.size_in_bytes()
    } else {
        1
    }
}
