//! Cross-entropy of Candle's operators, for devices without kernels of ours.

use candle_core::{bail, DType, Result, Tensor, D};

use super::super::operands::wide;
use super::options::{CrossEntropyOptions, Reduction};

/// Losses and log-sum-exps.
pub(super) fn cross_entropy(
    name: &str,
    logits: &Tensor,
    targets: &Tensor,
    options: &CrossEntropyOptions,
) -> Result<(Tensor, Tensor)> {
    let columns = logits.dim(D::Minus1)?;
    let mut logits = wide(&logits.reshape(((), columns))?)?;
    if let Some(cap) = options.softcap {
        logits = ((logits / cap)?.tanh()? * cap)?;
    }
    let (places, counted) = check_targets(name, targets, columns, options)?;
    // Subtracting the largest changes nothing but rounding, its gradient included.
    let largest = logits.detach().max_keepdim(D::Minus1)?;
    let sum = logits
        .broadcast_sub(&largest)?
        .exp()?
        .sum_keepdim(D::Minus1)?;
    let lse = (sum.log()? + largest)?.squeeze(D::Minus1)?;
    let of_target = logits.gather(&places.unsqueeze(1)?, 1)?.squeeze(1)?;
    let [target_weight, each_weight, z_loss] = options.weights(columns);
    let mut losses = ((&lse - of_target)? * target_weight)?;
    if each_weight != 0.0 {
        let each = ((&lse * columns as f64)? - logits.sum(D::Minus1)?)?;
        losses = (losses + (each * each_weight)?)?;
    }
    if z_loss != 0.0 {
        losses = (losses + (lse.sqr()? * z_loss)?)?;
    }
    let losses = counted.where_cond(&losses, &losses.zeros_like()?)?;
    let count = counted
        .to_dtype(DType::F64)?
        .sum_all()?
        .to_scalar::<f64>()?;
    let total = match options.reduction {
        Reduction::None => losses.reshape(targets.shape())?,
        Reduction::Sum => losses.sum_all()?,
        // Zeros have no gradient, and divided by themselves are no number.
        Reduction::Mean => (losses.sum_all()? / count)?,
    };
    Ok((total, lse.reshape(targets.shape())?))
}

/// The columns (u32) that are right, 0 for those that are ignored, and which ones are not (u8).
fn check_targets(
    name: &str,
    targets: &Tensor,
    columns: usize,
    options: &CrossEntropyOptions,
) -> Result<(Tensor, Tensor)> {
    let values: Vec<i64> = targets.to_dtype(DType::I64)?.flatten_all()?.to_vec1()?;
    let (mut places, mut counted) = (Vec::new(), Vec::new());
    for (position, &value) in values.iter().enumerate() {
        let ignored = options.ignore_index == Some(value);
        if !ignored && !(0..columns as i64).contains(&value) {
            bail!(
                "{name}: index {value} at position {position} is outside of a dimension of {columns} (ids: {})",
                targets.dtype().as_str()
            );
        }
        places.push(if ignored { 0 } else { value as u32 });
        counted.push(u8::from(!ignored));
    }
    let count = values.len();
    Ok((
        Tensor::from_vec(places, count, targets.device())?,
        Tensor::from_vec(counted, count, targets.device())?,
    ))
}
