//! Windows with ranges of keys that they do not hide, as a mask.

use candle_core::{bail, DType, Result, Tensor};
use candle_rocm_backend::ops::{AttentionOptions, Packed};

use crate::signed;

/// What to add to scores in the windows' stead: 0 where a query sees a key, and minus infinity elsewhere, of
/// (sequences, 1, longest queries, longest keys). Made on the GPU, which nothing waits for.
pub(crate) fn mask(
    ranges: &Tensor,
    packed: &Packed,
    windows: &AttentionOptions,
    dtype: DType,
) -> Result<Tensor> {
    let device = ranges.device();
    let sequences = packed.starts_q.elem_count() - 1;
    match ranges.dims() {
        &[of, _, 2] if of == sequences && ranges.dtype() == DType::I32 => {}
        _ => bail!(
            "flash-attn-varlen: mm_prefix_ranges is {:?} of {:?}, and must be i32 of ({sequences}, most ranges, 2)",
            ranges.dtype(),
            ranges.shape()
        ),
    }
    // Places are whole numbers, which f32 has exactly up to 2^24.
    let count = |most: usize| Tensor::arange(0u32, most as u32, device)?.to_dtype(DType::F32);
    let lengths = |starts: &Tensor| -> Result<Tensor> {
        let starts = starts.to_dtype(DType::I64)?;
        let lengths = (starts.narrow(0, 1, sequences)? - starts.narrow(0, 0, sequences)?)?;
        lengths.to_dtype(DType::F32)
    };
    let before = (lengths(packed.starts_k)? - lengths(packed.starts_q)?)?;
    let places = count(packed.longest_q)?
        .unsqueeze(0)?
        .broadcast_add(&before.unsqueeze(1)?)?;
    let keys = count(packed.longest_k)?
        .unsqueeze(0)?
        .repeat((sequences, 1))?;

    let ahead = keys.unsqueeze(1)?.broadcast_sub(&places.unsqueeze(2)?)?;
    let mut sees = ahead.ones_like()?.to_dtype(DType::U8)?;
    if let Some(left) = windows.window_left {
        sees = (sees * ahead.ge(-(left as f64))?)?;
    }
    if let Some(right) = windows.window_right {
        sees = (sees * ahead.le(right as f64)?)?;
    }
    if ranges.elem_count() > 0 {
        // How many ranges a query and a key are both in, as a product over ranges.
        let ranges = signed::to_f32(ranges)?;
        let (first, end) = (ranges.narrow(2, 0, 1)?, ranges.narrow(2, 1, 1)?);
        let inside = |at: &Tensor| -> Result<Tensor> {
            let at = at.unsqueeze(1)?;
            let inside = (at.broadcast_ge(&first)? * at.broadcast_lt(&end)?)?;
            inside.to_dtype(DType::F32)
        };
        let shared = inside(&places)?.transpose(1, 2)?.matmul(&inside(&keys)?)?;
        sees = sees.maximum(&shared.gt(0f64)?)?;
    }
    let zeros = Tensor::zeros((), dtype, device)?.broadcast_as(sees.shape())?;
    let hidden = Tensor::full(f32::NEG_INFINITY, (), device)?.to_dtype(dtype)?;
    let mask = sees.where_cond(&zeros, &hidden.broadcast_as(sees.shape())?)?;
    mask.unsqueeze(1)
}
