//! Bias, activation and residual; gated activations.

use candle_core::{bail, CudaDevice, Device, Result, Shape, Tensor};
use candle_rocm_kernels::{activations, FUSED_OPERATORS};

use super::launch::{allocate, element_grid, launch, Arg};
use super::node::{plain, result_of};
use super::norm::column_sums;
use super::operands::{check_float, check_same_shape, check_vector, empty, on_gpu, wide, Rows};

/// A function of each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Activation {
    /// The element itself.
    #[default]
    None,
    /// GELU in its tanh form, Candle's `gelu`.
    Gelu,
    /// GELU with the error function, Candle's `gelu_erf`.
    GeluErf,
    /// x / (1 + e^-x).
    Silu,
    /// max(x, 0).
    Relu,
}

impl Activation {
    /// The ends of the kernels' names.
    fn name(self) -> &'static str {
        match self {
            Self::None => activations::NONE,
            Self::Gelu => activations::GELU,
            Self::GeluErf => activations::GELU_ERF,
            Self::Silu => activations::SILU,
            Self::Relu => activations::RELU,
        }
        .name
    }

    pub(super) fn composed(self, x: Tensor) -> Result<Tensor> {
        match self {
            Self::None => Ok(x),
            Self::Gelu => x.gelu(),
            Self::GeluErf => x.gelu_erf(),
            Self::Silu => x.silu(),
            Self::Relu => x.relu(),
        }
    }
}

/// activation(x + bias) + residual.
///
/// `x` has rank 1 or more, and is f16, bf16, f32 or f64; `bias` is a vector of the last dimension's size, `residual` has
/// x's shape, and both are of x's dtype.
///
/// # Errors
/// Operands of other dtypes, shapes or devices, or a failed launch; each names the operator and what was found.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{DType, Device, Tensor};
/// use candle_rocm_backend::ops::{bias_activation, Activation};
///
/// let device = Device::new_cuda(0)?;
/// let x = Tensor::randn(0f32, 1., (8, 512), &device)?;
/// let bias = Tensor::zeros(512, DType::F32, &device)?;
/// let y = bias_activation(&x, Some(&bias), Activation::Gelu, None)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn bias_activation(
    x: &Tensor,
    bias: Option<&Tensor>,
    activation: Activation,
    residual: Option<&Tensor>,
) -> Result<Tensor> {
    const NAME: &str = "bias_activation";
    check_float(NAME, x)?;
    let rows = Rows::of(NAME, x)?;
    if let Some(bias) = bias {
        check_vector(NAME, "the bias", bias, x)?;
    }
    if let Some(residual) = residual {
        check_same_shape(NAME, "the residual", residual, x)?;
    }
    if x.elem_count() == 0 {
        return empty(x, x.shape());
    }
    let Device::Cuda(device) = x.device() else {
        return composed(x, bias, activation, residual);
    };
    if activation == Activation::None && bias.is_none() && residual.is_none() {
        return Ok(x.clone());
    }
    let x = x.contiguous()?;
    let bias = bias.map(Tensor::contiguous).transpose()?;
    let residual = residual.map(Tensor::contiguous).transpose()?;
    let mut result = allocate(device, x.dtype(), x.elem_count())?;
    let [count, columns] = matrix(&x, rows, bias.is_some());
    let args = vec![
        Arg::Read(Some(&x)),
        Arg::Read(bias.as_ref()),
        Arg::Read(residual.as_ref()),
        Arg::Write(&mut result),
        count,
        columns,
    ];
    let kernel = format!("activate_{}_{}", activation.name(), x.dtype().as_str());
    let config = element_grid(device, x.elem_count(), x.dtype())?;
    // SAFETY: the kernel's arguments; result and residual have x's elements, bias a row's.
    unsafe { launch(device, &FUSED_OPERATORS, &kernel, config, args) }?;

    let (with_bias, with_residual) = (bias.is_some(), residual.is_some());
    let backward = move |operands: &[&Tensor], _: &Tensor, dy: &Tensor| {
        let x = operands[0];
        let bias = with_bias.then(|| operands[1]);
        let of_bias = bias.is_some_and(Tensor::track_op);
        let inner = if x.track_op() || of_bias {
            Some(slope(x, bias, activation, rows, dy)?)
        } else {
            None
        };
        let mut dbias = None;
        if let (true, Some(inner)) = (of_bias, &inner) {
            (_, dbias) = column_sums(NAME, inner, rows, None, true)?;
        }
        let mut gradients = vec![inner.filter(|_| x.track_op())];
        if with_bias {
            gradients.push(dbias);
        }
        if with_residual {
            gradients.push(Some(dy.clone()));
        }
        Ok(gradients)
    };
    let operands: Vec<&Tensor> = std::iter::once(&x)
        .chain(bias.as_ref())
        .chain(residual.as_ref())
        .collect();
    result_of(NAME, &operands, result, x.shape(), Box::new(backward))
}

/// Rows and columns as the kernels take them: without a bias all is one row.
fn matrix<'a>(x: &Tensor, rows: Rows, with_bias: bool) -> [Arg<'a>; 2] {
    match with_bias {
        true => [Arg::Long(rows.count), Arg::Long(rows.columns)],
        false => [Arg::Long(1), Arg::Long(x.elem_count())],
    }
}

/// dy times the activation's derivative at x + bias.
fn slope(
    x: &Tensor,
    bias: Option<&Tensor>,
    activation: Activation,
    rows: Rows,
    dy: &Tensor,
) -> Result<Tensor> {
    if activation == Activation::None {
        return Ok(dy.clone());
    }
    let device = gpu(x)?;
    let mut dx = allocate(device, x.dtype(), x.elem_count())?;
    let [count, columns] = matrix(x, rows, bias.is_some());
    let args = vec![
        Arg::Read(Some(x)),
        Arg::Read(bias),
        Arg::Read(Some(dy)),
        Arg::Write(&mut dx),
        count,
        columns,
    ];
    let kernel = format!("backward_{}_{}", activation.name(), x.dtype().as_str());
    let config = element_grid(device, x.elem_count(), x.dtype())?;
    // SAFETY: the kernel's arguments; dy and dx have x's elements, bias a row's.
    unsafe { launch(device, &FUSED_OPERATORS, &kernel, config, args) }?;
    Ok(plain(dx, x.shape()))
}

fn gpu(x: &Tensor) -> Result<&CudaDevice> {
    match x.device() {
        Device::Cuda(device) => Ok(device),
        other => bail!("an operand is on {:?}, not on a GPU", other.location()),
    }
}

fn composed(
    x: &Tensor,
    bias: Option<&Tensor>,
    activation: Activation,
    residual: Option<&Tensor>,
) -> Result<Tensor> {
    let mut y = wide(x)?;
    if let Some(bias) = bias {
        y = y.broadcast_add(&wide(bias)?)?;
    }
    y = activation.composed(y)?;
    if let Some(residual) = residual {
        y = (y + wide(residual)?)?;
    }
    y.to_dtype(x.dtype())
}

/// silu(gate) * up, the gated activation of LLaMA's feed-forward layers.
///
/// `gate` and `up` have one shape, of any rank, and one dtype: f16, bf16, f32 or f64.
///
/// # Errors
/// Operands of other dtypes, shapes or devices, or a failed launch; each names the operator and what was found.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{Device, Tensor};
/// let device = Device::new_cuda(0)?;
/// let gate = Tensor::randn(0f32, 1., (8, 512), &device)?;
/// let up = Tensor::randn(0f32, 1., (8, 512), &device)?;
/// let y = candle_rocm_backend::ops::swiglu(&gate, &up)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn swiglu(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    const NAME: &str = "swiglu";
    check_float(NAME, gate)?;
    check_same_shape(NAME, "up", up, gate)?;
    if gate.elem_count() == 0 {
        return empty(gate, gate.shape());
    }
    if !on_gpu(gate) {
        return (wide(gate)?.silu()? * wide(up)?)?.to_dtype(gate.dtype());
    }
    let (gate, up) = (gate.contiguous()?, up.contiguous()?);
    let one = Rows {
        count: 1,
        columns: gate.elem_count(),
    };
    gated(NAME, Gated::Two(&gate, &up), one, gate.shape())
}

/// [`swiglu`] of one tensor, whose last dimension has the gate in its first half and up in its second: what one product
/// with both matrices gives. The result's last dimension is half as large.
///
/// # Errors
/// As [`swiglu`]; a last dimension of odd size.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{Device, Tensor};
/// let both = Tensor::randn(0f32, 1., (8, 1024), &Device::new_cuda(0)?)?;
/// let y = candle_rocm_backend::ops::swiglu_packed(&both)?;
/// assert_eq!(y.dims(), [8, 512]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn swiglu_packed(x: &Tensor) -> Result<Tensor> {
    const NAME: &str = "swiglu_packed";
    check_float(NAME, x)?;
    let Rows { count, columns } = Rows::of(NAME, x)?;
    if columns % 2 != 0 {
        bail!(
            "{NAME}: x has shape {:?}, whose last dimension has no halves",
            x.shape()
        );
    }
    let columns = columns / 2;
    let mut dims = x.dims().to_vec();
    dims.pop();
    dims.push(columns);
    let shape = Shape::from(dims);
    if x.elem_count() == 0 {
        return empty(x, &shape);
    }
    if !on_gpu(x) {
        let last = x.rank() - 1;
        let (gate, up) = (
            x.narrow(last, 0, columns)?,
            x.narrow(last, columns, columns)?,
        );
        return (wide(&gate)?.silu()? * wide(&up)?)?.to_dtype(x.dtype());
    }
    let x = x.contiguous()?;
    gated(NAME, Gated::Packed(&x), Rows { count, columns }, &shape)
}

/// Where gate and up are.
#[derive(Clone, Copy)]
enum Gated<'a> {
    Two(&'a Tensor, &'a Tensor),
    Packed(&'a Tensor),
}

impl<'a> Gated<'a> {
    fn first(self) -> &'a Tensor {
        match self {
            Self::Two(gate, _) => gate,
            Self::Packed(both) => both,
        }
    }

    /// Gate, up, and the elements between two rows of either.
    fn args(self, rows: Rows) -> ([Arg<'a>; 2], Arg<'a>) {
        match self {
            Self::Two(gate, up) => (
                [Arg::Read(Some(gate)), Arg::Read(Some(up))],
                Arg::Long(rows.columns),
            ),
            Self::Packed(both) => (
                [Arg::Read(Some(both)), Arg::ReadFrom(both, rows.columns)],
                Arg::Long(2 * rows.columns),
            ),
        }
    }
}

fn gated(name: &'static str, operands: Gated, rows: Rows, shape: &Shape) -> Result<Tensor> {
    let first = operands.first();
    let device = gpu(first)?;
    let dtype = first.dtype();
    let count = rows.count * rows.columns;
    let mut result = allocate(device, dtype, count)?;
    let ([gate, up], stride) = operands.args(rows);
    let args = vec![
        gate,
        up,
        Arg::Write(&mut result),
        Arg::Long(rows.count),
        Arg::Long(rows.columns),
        stride,
    ];
    let kernel = format!("swiglu_{}", dtype.as_str());
    // SAFETY: the kernel's arguments; rows of gate and up lie `stride` elements apart, within their tensors.
    unsafe {
        launch(
            device,
            &FUSED_OPERATORS,
            &kernel,
            element_grid(device, count, dtype)?,
            args,
        )
    }?;
    let backward = move |operands: &[&Tensor], _: &Tensor, dy: &Tensor| match operands {
        [both] => gated_gradients(Gated::Packed(both), rows, dy),
        [gate, up, ..] => gated_gradients(Gated::Two(gate, up), rows, dy),
        [] => bail!("{name}: the graph has lost its operands"),
    };
    let tensors = match operands {
        Gated::Two(gate, up) => vec![gate, up],
        Gated::Packed(both) => vec![both],
    };
    result_of(name, &tensors, result, shape, Box::new(backward))
}

fn gated_gradients(operands: Gated, rows: Rows, dy: &Tensor) -> Result<Vec<Option<Tensor>>> {
    let first = operands.first();
    let device = gpu(first)?;
    let dtype = first.dtype();
    let mut dfirst = allocate(device, dtype, first.elem_count())?;
    let mut dsecond = match operands {
        Gated::Two(_, up) => Some(allocate(device, dtype, up.elem_count())?),
        Gated::Packed(_) => None,
    };
    let ([gate, up], stride) = operands.args(rows);
    let args = vec![
        gate,
        up,
        Arg::Read(Some(dy)),
        Arg::Write(&mut dfirst),
        match &mut dsecond {
            Some(dsecond) => Arg::Write(dsecond),
            None => Arg::Beyond(3, rows.columns * dtype.size_in_bytes()),
        },
        Arg::Long(rows.count),
        Arg::Long(rows.columns),
        stride,
    ];
    let kernel = format!("backward_swiglu_{}", dtype.as_str());
    let config = element_grid(device, rows.count * rows.columns, dtype)?;
    // SAFETY: the kernel's arguments; gradients are laid out as gate and up are.
    unsafe { launch(device, &FUSED_OPERATORS, &kernel, config, args) }?;
    let mut gradients = vec![Some(plain(dfirst, first.shape()))];
    if let Gated::Two(_, up) = operands {
        gradients.push(dsecond.map(|dsecond| plain(dsecond, up.shape())));
    }
    let tracked = match operands {
        Gated::Two(gate, up) => [gate.track_op(), up.track_op()],
        Gated::Packed(both) => [both.track_op(); 2],
    };
    let wanted = gradients.into_iter().zip(tracked);
    Ok(wanted
        .map(|(gradient, tracked)| gradient.filter(|_| tracked))
        .collect())
}
