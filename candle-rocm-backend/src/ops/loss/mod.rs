//! Cross-entropy of logits, and of the product that makes them.

mod composed;
mod kernel;
mod linear;
mod rows;

use candle_core::{bail, DType, Result, Tensor};

use super::operands::{check_device, check_float, on_gpu};
use rows::LogitRows;

pub use linear::{linear_cross_entropy, linear_cross_entropy_with_lse};

/// What becomes of the rows' losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduction {
    /// Their mean over the rows whose targets are not ignored; NaN where there is none.
    #[default]
    Mean,
    /// Their sum.
    Sum,
    /// Each is a result; those of rows that are ignored are 0.
    None,
}

/// What [`cross_entropy`] and [`linear_cross_entropy`] compute besides. The default is the mean of plain losses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CrossEntropyOptions {
    /// Rows with this target have no loss and no gradient. PyTorch's is -100, which an i64 can be.
    pub ignore_index: Option<i64>,
    /// How much of the target's probability is spread over all columns, from 0 to 1 (Szegedy et al.: "Rethinking the
    /// Inception architecture for computer vision", CVPR 2016).
    pub label_smoothing: f64,
    /// Logits become `cap * tanh(logit / cap)` first, as in Gemma 2.
    pub softcap: Option<f64>,
    /// This times the square of each row's log-sum-exp is added to its loss (Chowdhery et al.: "PaLM", JMLR 2023).
    pub z_loss: f64,
    /// What becomes of the rows' losses.
    pub reduction: Reduction,
}

impl CrossEntropyOptions {
    fn check(&self, name: &str) -> Result<()> {
        if !(0.0..=1.0).contains(&self.label_smoothing) {
            bail!(
                "{name}: a label smoothing of {}: it must be from 0 to 1",
                self.label_smoothing
            );
        }
        if let Some(cap) = self.softcap {
            if !(cap > 0.0 && cap.is_finite()) {
                bail!("{name}: a softcap of {cap}: it must be above 0, or None");
            }
        }
        if !self.z_loss.is_finite() {
            bail!("{name}: a z-loss of {}: it must be a number", self.z_loss);
        }
        Ok(())
    }

    /// The factors of (lse - logit of the target), of (columns * lse - sum of logits) and of lse^2.
    fn weights(&self, columns: usize) -> [f64; 3] {
        [
            1.0 - self.label_smoothing,
            self.label_smoothing / columns as f64,
            self.z_loss,
        ]
    }
}

/// The cross-entropy of logits and the columns that are right: `log(sum(e^logit)) - logit of the target`.
///
/// `logits` are (..., columns): f16, bf16, f32 or f64, of less than 2^31 columns, whose rows may be strided. `targets`
/// are the dimensions before the last: u8, u32 or i64. The result is a scalar, or of the targets' shape without a
/// reduction; it is f32, of f64 logits f64. The gradient has the logits' dtype.
///
/// On a GPU the logits are read once, and once more for the gradient, which is then written; f16 and bf16 are computed
/// in f32. Results and gradients are the same in every run.
///
/// # Errors
/// Other dtypes, shapes or devices, options that make no sense, or a failed launch; each names the operator. A target
/// that is no column, and not the ignored one, is an error that names it and its position: of this call on the CPU, on
/// a GPU of the next that waits for it.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{Device, Tensor};
/// use candle_rocm_backend::ops::{cross_entropy, CrossEntropyOptions};
///
/// let device = Device::new_cuda(0)?;
/// let logits = Tensor::zeros((3, 4), candle_core::DType::F32, &device)?;
/// let targets = Tensor::new(&[1i64, 3, -100], &device)?;
/// let options = CrossEntropyOptions {
///     ignore_index: Some(-100),
///     ..Default::default()
/// };
/// let loss = cross_entropy(&logits, &targets, &options)?.to_scalar::<f32>()?;
/// assert!((loss - 4f32.ln()).abs() < 1e-6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn cross_entropy(
    logits: &Tensor,
    targets: &Tensor,
    options: &CrossEntropyOptions,
) -> Result<Tensor> {
    Ok(compute(logits, targets, options, false)?.0)
}

/// [`cross_entropy`], and each row's `log(sum(e^logit))`, of the targets' shape, ignored rows' too. Both have gradients.
///
/// # Errors
/// As [`cross_entropy`].
pub fn cross_entropy_with_lse(
    logits: &Tensor,
    targets: &Tensor,
    options: &CrossEntropyOptions,
) -> Result<(Tensor, Tensor)> {
    compute(logits, targets, options, true)
}

fn compute(
    logits: &Tensor,
    targets: &Tensor,
    options: &CrossEntropyOptions,
    every_lse: bool,
) -> Result<(Tensor, Tensor)> {
    const NAME: &str = "cross_entropy";
    check_float(NAME, logits)?;
    let rows = match logits.dims().split_last() {
        Some((_, rows)) => rows,
        None => bail!("{NAME}: the logits are a scalar, and need a last dimension"),
    };
    check(NAME, "logits", logits, rows, targets, options)?;
    let columns = logits.dims()[rows.len()];
    if targets.elem_count() == 0 {
        return nothing(logits, targets, options);
    }
    if columns == 0 {
        bail!(
            "{NAME}: logits of shape {:?} have no columns",
            logits.shape()
        );
    }
    if !on_gpu(logits) {
        return composed::cross_entropy(NAME, logits, targets, options);
    }
    LogitRows::of(logits, targets, options, every_lse)?.results()
}

/// Refuses what neither operator takes.
fn check(
    name: &str,
    what: &str,
    x: &Tensor,
    rows: &[usize],
    targets: &Tensor,
    options: &CrossEntropyOptions,
) -> Result<()> {
    if !matches!(targets.dtype(), DType::U8 | DType::U32 | DType::I64) {
        bail!(
            "{name}: the targets are {:?}, and must be u8, u32 or i64: convert them with to_dtype",
            targets.dtype()
        );
    }
    if targets.dims() != rows {
        bail!(
            "{name}: targets of shape {:?}, and {what} of shape {:?}: they must have {rows:?}",
            targets.shape(),
            x.shape()
        );
    }
    check_device(name, "a target", targets, x)?;
    options.check(name)
}

/// The dtype of losses of logits of this one.
fn loss_dtype(dtype: DType) -> DType {
    match dtype {
        DType::F64 => DType::F64,
        _ => DType::F32,
    }
}

/// The results for no rows.
fn nothing(
    x: &Tensor,
    targets: &Tensor,
    options: &CrossEntropyOptions,
) -> Result<(Tensor, Tensor)> {
    let dtype = loss_dtype(x.dtype());
    let losses = Tensor::zeros(targets.shape(), dtype, x.device())?;
    let total = match options.reduction {
        Reduction::None => losses.clone(),
        Reduction::Sum => Tensor::zeros((), dtype, x.device())?,
        Reduction::Mean => Tensor::full(f32::NAN, (), x.device())?.to_dtype(dtype)?,
    };
    Ok((total, losses))
}
