//! Casts to FP8.

mod gpu;
mod host;
mod request;

use candle_core::{bail, Device, Result, Tensor};

use super::matrix::{Fp8Matrix, ScaleFormat, Share};
use crate::ops::operands::row_float;
use request::{Cast, Source};

pub(crate) use host::gathered;

/// Each 128 of a row by a factor of their own, as activations are cast: x is (rows, k) or (batch, rows, k) of f32, f16 or
/// bf16.
///
/// A factor is the largest magnitude (1e-4 at least) / 448, or as `format` says; elements are multiplied with its inverse and
/// rounded to nearest even. Where one is NaN or infinite, the factor is NaN and those that share it are 0.
///
/// # Errors
/// Another dtype or rank.
pub fn cast_per_token(x: &Tensor, format: ScaleFormat) -> Result<Fp8Matrix> {
    cast(
        "fp8::cast_per_token",
        x,
        Share::One,
        Share::Block,
        format,
        Source::AsItIs,
    )
}

/// Each 128 x 128 by a factor of their own, as weights are cast; the rest as [`cast_per_token`].
///
/// # Errors
/// As [`cast_per_token`].
pub fn cast_per_block(x: &Tensor, format: ScaleFormat) -> Result<Fp8Matrix> {
    cast(
        "fp8::cast_per_block",
        x,
        Share::Block,
        Share::Block,
        format,
        Source::AsItIs,
    )
}

/// Each row by a factor of its own; the rest as [`cast_per_token`].
///
/// # Errors
/// As [`cast_per_token`], and packed factors: there is nothing to pack.
pub fn cast_per_channel(x: &Tensor, format: ScaleFormat) -> Result<Fp8Matrix> {
    cast(
        "fp8::cast_per_channel",
        x,
        Share::One,
        Share::All,
        format,
        Source::AsItIs,
    )
}

/// Each matrix by one factor; the rest as [`cast_per_token`].
///
/// # Errors
/// As [`cast_per_channel`].
pub fn cast_per_tensor(x: &Tensor, format: ScaleFormat) -> Result<Fp8Matrix> {
    cast(
        "fp8::cast_per_tensor",
        x,
        Share::All,
        Share::All,
        format,
        Source::AsItIs,
    )
}

/// silu(gate) * up, cast as by [`cast_per_token`], in one kernel: x is (rows, 2 k) or (batch, rows, 2 k), gates first. Computed
/// in f32 and rounded to x's dtype once before it is cast, as [`swiglu_packed`](crate::ops::swiglu_packed) does.
///
/// # Errors
/// As [`cast_per_token`], and an odd last dimension.
pub fn swiglu_cast_per_token(x: &Tensor, format: ScaleFormat) -> Result<Fp8Matrix> {
    cast(
        "fp8::swiglu_cast_per_token",
        x,
        Share::One,
        Share::Block,
        format,
        Source::Gated,
    )
}

/// Rows of x, each cast as by [`cast_per_token`] to `top` rows of the result that `place` (i32) names, none where it is
/// negative; where `source` is, the result's row is nobody's, and zeros.
pub(crate) fn cast_scattered(
    name: &'static str,
    x: &Tensor,
    [place, source]: [&Tensor; 2],
    top: usize,
    format: ScaleFormat,
) -> Result<Fp8Matrix> {
    let scattered = Source::Scattered { place, source, top };
    cast(name, x, Share::One, Share::Block, format, scattered)
}

fn cast(
    name: &'static str,
    x: &Tensor,
    of_rows: Share,
    of_k: Share,
    format: ScaleFormat,
    source: Source,
) -> Result<Fp8Matrix> {
    row_float(name, x)?;
    if !matches!(x.rank(), 2 | 3) {
        bail!(
            "{name}: x of {:?} has not two dimensions or three",
            x.shape()
        );
    }
    let packed = format == ScaleFormat::PackedPowersOfTwo;
    if packed && of_k == Share::All {
        bail!("{name}: one factor of k is not packed: ask for PowersOfTwo");
    }
    let mut dims = x.dims().to_vec();
    let last = dims.len() - 1;
    match source {
        Source::AsItIs => {}
        Source::Gated if !dims[last].is_multiple_of(2) => {
            bail!("{name}: x of {:?} has no two halves", x.shape())
        }
        Source::Gated => dims[last] /= 2,
        Source::Scattered { source, .. } => dims[0] = source.elem_count(),
    }
    let x = x.contiguous()?;
    let Device::Cuda(device) = x.device() else {
        let x = match source {
            Source::AsItIs => x,
            Source::Gated => crate::ops::swiglu_packed(&x)?,
            Source::Scattered { source, top, .. } => gathered(&x, source, top)?,
        };
        return host::cast(&x, of_rows, of_k, format);
    };
    let cast = Cast {
        name,
        dims: &dims,
        of_rows,
        of_k,
        format,
        source,
    };
    gpu::cast(&cast, device, &x)
}
