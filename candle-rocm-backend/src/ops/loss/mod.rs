//! Cross-entropy of logits, and of the product that makes them.

mod composed;
mod kernel;
mod linear;
mod options;
mod rows;

use candle_core::{bail, Result, Tensor};

use super::operands::{check_float, on_gpu};
use options::{check, nothing};
use rows::LogitRows;

pub use linear::{linear_cross_entropy, linear_cross_entropy_with_lse};
pub use options::{CrossEntropyOptions, Reduction};

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
