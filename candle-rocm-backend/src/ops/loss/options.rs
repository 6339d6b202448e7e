//! What losses take besides logits and targets, and what they ask of both.

use candle_core::{bail, DType, Result, Tensor};

use super::super::operands::check_device;

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

/// What [`cross_entropy`](super::cross_entropy) and [`linear_cross_entropy`](super::linear_cross_entropy) compute besides.
/// The default is the mean of plain losses.
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
        if let Some(cap) = self.softcap
            && !(cap > 0.0 && cap.is_finite())
        {
            bail!("{name}: a softcap of {cap}: it must be above 0, or None");
        }
        if !self.z_loss.is_finite() {
            bail!("{name}: a z-loss of {}: it must be a number", self.z_loss);
        }
        Ok(())
    }

    /// The factors of (lse - logit of the target), of (columns * lse - sum of logits) and of lse^2.
    pub(super) fn weights(&self, columns: usize) -> [f64; 3] {
        [
            1.0 - self.label_smoothing,
            self.label_smoothing / columns as f64,
            self.z_loss,
        ]
    }
}

/// Refuses what neither operator takes.
pub(super) fn check(
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
pub(super) fn loss_dtype(dtype: DType) -> DType {
    match dtype {
        DType::F64 => DType::F64,
        _ => DType::F32,
    }
}

/// The results for no rows.
pub(super) fn nothing(
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
