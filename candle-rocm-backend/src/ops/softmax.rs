//! Softmax over the last dimension: plain, logarithmic, scaled and masked.

use candle_core::{bail, CudaStorage, DType, Device, Result, Tensor, D};
use candle_rocm_kernels::{FUSED_OPERATORS, REDUCE};

use super::launch::{allocate, int, launch, row_grid, Arg};
use super::node::{plain, result_of};
use super::operands::{check_device, check_float, empty, on_gpu, sum_to, wide, Rows};

/// e^x / sum(e^x) over the last dimension.
///
/// `x` has rank 1 or more, and is f16, bf16, f32 or f64; the result has its shape and dtype. A row of nothing but
/// -infinity is NaN, as in Candle.
///
/// # Errors
/// Another dtype, a scalar, or a failed launch; each names the operator.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{Device, Tensor};
/// let x = Tensor::randn(0f32, 1., (4, 1000), &Device::new_cuda(0)?)?;
/// let y = candle_rocm_backend::ops::softmax(&x)?;
/// assert_eq!(y.dims(), x.dims());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn softmax(x: &Tensor) -> Result<Tensor> {
    compute("softmax", Kind::Plain, x, 1.0, None)
}

/// x - log(sum(e^x)) over the last dimension, exact also where the softmax is too small for its dtype.
///
/// Shapes, dtypes and errors are those of [`softmax`].
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{Device, Tensor};
/// let logits = Tensor::randn(0f32, 1., (2, 8_000), &Device::new_cuda(0)?)?;
/// let log_probabilities = candle_rocm_backend::ops::log_softmax(&logits)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn log_softmax(x: &Tensor) -> Result<Tensor> {
    compute("log_softmax", Kind::Log, x, 1.0, None)
}

/// The softmax of x * scale + mask over the last dimension.
///
/// `mask` has a shape that broadcasts to x's, such as (rows, columns) for attention weights of (batch, heads, rows,
/// columns). It is of x's dtype and added, or u8: a zero there hides the element, whatever it is. Where a mask hides all of
/// a row, the row is zeros, and so is its gradient. A mask of x's dtype has a gradient too.
///
/// # Errors
/// As [`softmax`]; a mask of another dtype, device, or of a shape that does not broadcast.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{Device, Tensor};
/// let device = Device::new_cuda(0)?;
/// let weights = Tensor::randn(0f32, 1., (2, 4, 32, 32), &device)?;
/// let causal = Tensor::tril2(32, candle_core::DType::U8, &device)?;
/// let attention = candle_rocm_backend::ops::scaled_masked_softmax(&weights, 0.125, Some(&causal))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn scaled_masked_softmax(x: &Tensor, scale: f64, mask: Option<&Tensor>) -> Result<Tensor> {
    const NAME: &str = "scaled_masked_softmax";
    if let Some(mask) = mask {
        if mask.dtype() != DType::U8 && mask.dtype() != x.dtype() {
            bail!(
                "{NAME}: the mask is {:?}; it must be u8 or, as x, {:?}",
                mask.dtype(),
                x.dtype()
            );
        }
        check_device(NAME, "the mask", mask, x)?;
        if mask.broadcast_as(x.shape()).is_err() {
            bail!(
                "{NAME}: a mask of shape {:?} does not broadcast to x of shape {:?}",
                mask.shape(),
                x.shape()
            );
        }
    }
    let kind = match mask.map(Tensor::dtype) {
        None => Kind::Scaled,
        Some(DType::U8) => Kind::Flagged,
        Some(_) => Kind::Masked,
    };
    compute(NAME, kind, x, scale, mask)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Log,
    Scaled,
    Masked,
    Flagged,
}

impl Kind {
    /// The name of the kernel.
    fn kernel(self) -> &'static str {
        match self {
            Self::Plain => "softmax",
            Self::Log => "log_softmax",
            Self::Scaled => "scaled_softmax",
            Self::Masked => "masked_softmax",
            Self::Flagged => "flagged_softmax",
        }
    }
}

fn compute(
    name: &'static str,
    kind: Kind,
    x: &Tensor,
    scale: f64,
    mask: Option<&Tensor>,
) -> Result<Tensor> {
    check_float(name, x)?;
    let rows = Rows::of(name, x)?;
    if x.elem_count() == 0 {
        return empty(x, x.shape());
    }
    if !on_gpu(x) {
        return composed(kind, x, scale, mask);
    }
    let x = x.contiguous()?;
    let result = forward(name, kind, &x, rows, scale, mask)?;
    let mask_shape = mask.map(|mask| mask.shape().clone());
    let backward = move |operands: &[&Tensor], y: &Tensor, dy: &Tensor| {
        let gradient_of_logits = |scale: f64| backward(kind, y, dy, rows, scale);
        let dx = operands[0].track_op().then(|| gradient_of_logits(scale));
        let dmask = match (operands.get(1), &mask_shape, kind) {
            (Some(mask), Some(shape), Kind::Masked) if mask.track_op() => {
                Some(sum_to(&gradient_of_logits(1.0)?, shape)?)
            }
            _ => None,
        };
        Ok(vec![dx.transpose()?, dmask])
    };
    let operands: Vec<&Tensor> = std::iter::once(&x).chain(mask).collect();
    result_of(name, &operands, result, x.shape(), Box::new(backward))
}

fn forward(
    name: &str,
    kind: Kind,
    x: &Tensor,
    rows: Rows,
    scale: f64,
    mask: Option<&Tensor>,
) -> Result<CudaStorage> {
    let Device::Cuda(device) = x.device() else {
        bail!("{name}: x is not on a GPU");
    };
    let dtype = x.dtype();
    let columns = int(name, "columns", rows.columns)?;
    let mut result = allocate(device, dtype, x.elem_count())?;
    let kernel = format!("{}_{}", kind.kernel(), dtype.as_str());
    let mask = mask.map(|mask| MaskRows::of(name, mask, x)).transpose()?;
    let mut args = vec![
        Arg::Read(Some(x)),
        Arg::Write(&mut result),
        Arg::Int(columns),
    ];
    let mut config = row_grid(rows.count)?;
    let module = if kind == Kind::Plain {
        // Candle's own kernel has the rows of a workgroup in x.
        config.block_dim = (1, 32, 1);
        &REDUCE
    } else {
        &FUSED_OPERATORS
    };
    if !matches!(kind, Kind::Plain | Kind::Log) {
        args.push(Arg::Double(scale));
        args.extend(mask.iter().flat_map(MaskRows::args));
    }
    // SAFETY: the kernels' arguments (tests/contract.rs); `result` has x's elements, and a mask's rows were counted.
    unsafe { launch(device, module, &kernel, config, args) }?;
    Ok(result)
}

/// The gradient of the logits, times `scale`.
fn backward(kind: Kind, y: &Tensor, dy: &Tensor, rows: Rows, scale: f64) -> Result<Tensor> {
    let Device::Cuda(device) = y.device() else {
        bail!("softmax: its result is not on a GPU");
    };
    let dtype = y.dtype();
    let mut dx = allocate(device, dtype, y.elem_count())?;
    let mut args = vec![
        Arg::Read(Some(y)),
        Arg::Read(Some(dy)),
        Arg::Write(&mut dx),
        Arg::Int(int("softmax", "columns", rows.columns)?),
    ];
    let kernel = if kind == Kind::Log {
        "backward_log_softmax"
    } else {
        args.push(Arg::Double(scale));
        "backward_softmax"
    };
    let kernel = format!("{kernel}_{}", dtype.as_str());
    // SAFETY: the kernel's arguments; all three have y's elements.
    unsafe {
        launch(
            device,
            &FUSED_OPERATORS,
            &kernel,
            row_grid(rows.count)?,
            args,
        )
    }?;
    Ok(plain(dx, y.shape()))
}

/// A mask as kernels find its rows: x's rows are numbered in three dimensions, and the mask has a stride in each, of 0
/// where it is repeated.
struct MaskRows {
    mask: Tensor,
    /// Sizes of the last two.
    sizes: [u32; 2],
    strides: [usize; 3],
}

impl MaskRows {
    fn of(name: &str, mask: &Tensor, x: &Tensor) -> Result<Self> {
        let mask = mask.detach();
        let (&columns, leading) = x.dims().split_last().unwrap_or((&1, &[]));
        // A row of the mask must be one of memory.
        let own_row = match (mask.dims().last(), mask.stride().last()) {
            (Some(&size), Some(&stride)) => size == columns && (stride == 1 || columns == 1),
            _ => false,
        };
        let mask = if own_row {
            mask
        } else {
            let mut dims = mask.dims().to_vec();
            dims.pop();
            dims.push(columns);
            mask.broadcast_as(dims)?.contiguous()?
        };
        let repeated = mask.broadcast_as(x.shape())?;
        // Dimensions that are one in memory, or repeated together, are numbered as one.
        let mut merged: Vec<(usize, usize)> = Vec::new();
        for (&size, &stride) in leading.iter().zip(repeated.stride()) {
            if size == 1 {
                continue;
            }
            match merged.last_mut() {
                Some((of, by)) if *by == stride * size => (*of, *by) = (*of * size, stride),
                _ => merged.push((size, stride)),
            }
        }
        if merged.len() > 3 {
            return Self::of(name, &repeated.contiguous()?, x);
        }
        while merged.len() < 3 {
            merged.insert(0, (1, 0));
        }
        Ok(Self {
            sizes: [
                int(name, "rows", merged[1].0)?,
                int(name, "rows", merged[2].0)?,
            ],
            strides: [merged[0].1, merged[1].1, merged[2].1],
            mask,
        })
    }

    fn args(&self) -> Vec<Arg<'_>> {
        let [middle, inner] = self.sizes.map(Arg::Int);
        let [outer_stride, middle_stride, inner_stride] = self.strides.map(Arg::Long);
        vec![
            Arg::Within(&self.mask),
            middle,
            inner,
            outer_stride,
            middle_stride,
            inner_stride,
        ]
    }
}

/// The same of Candle's operators.
fn composed(kind: Kind, x: &Tensor, scale: f64, mask: Option<&Tensor>) -> Result<Tensor> {
    let dtype = x.dtype();
    let x = wide(x)?;
    let logits = if scale == 1.0 { x } else { (x * scale)? };
    let logits = match (kind, mask) {
        (Kind::Masked, Some(mask)) => logits.broadcast_add(&wide(mask)?)?,
        (Kind::Flagged, Some(mask)) => {
            let hidden = Tensor::full(f32::NEG_INFINITY, logits.shape(), logits.device())?
                .to_dtype(logits.dtype())?;
            let mask = mask.broadcast_as(logits.shape())?.contiguous()?;
            mask.where_cond(&logits, &hidden)?
        }
        _ => logits,
    };
    // Subtracting the largest changes nothing but rounding, its gradient included.
    let largest = logits.detach().max_keepdim(D::Minus1)?;
    if mask.is_none() {
        let shifted = logits.broadcast_sub(&largest)?;
        let exponentials = shifted.exp()?;
        let sum = exponentials.sum_keepdim(D::Minus1)?;
        return match kind {
            Kind::Log => shifted.broadcast_sub(&sum.log()?)?,
            _ => exponentials.broadcast_div(&sum)?,
        }
        .to_dtype(dtype);
    }
    // Rows that are hidden as a whole have no largest, and are divided by one.
    let ones = largest.ones_like()?;
    let nothing = largest.eq(&(&ones * f64::NEG_INFINITY)?)?;
    let largest = nothing.where_cond(&largest.zeros_like()?, &largest)?;
    let exponentials = logits.broadcast_sub(&largest)?.exp()?;
    let sum = exponentials.sum_keepdim(D::Minus1)?;
    let sum = nothing.where_cond(&ones, &sum)?;
    exponentials.broadcast_div(&sum)?.to_dtype(dtype)
}
