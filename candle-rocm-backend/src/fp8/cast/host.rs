//! The same in plain Rust and by Candle's own operators, for other devices.

use candle_core::{DType, Result, Tensor, D};
use float8::F8E4M3;

use crate::fp8::matrix::{factor_of, Fp8Matrix, ScaleFormat, Share};

/// e4m3's largest number.
const LARGEST: f32 = 448.;
/// What a largest magnitude is taken as at least.
const LEAST_LARGEST: f32 = 1e-4;

/// The rows that are named, by Candle's own operators.
pub(crate) fn gathered(x: &Tensor, source: &Tensor, share: usize) -> Result<Tensor> {
    let source = source.to_dtype(DType::I64)?.to_vec1::<i64>()?;
    let zeros = Tensor::zeros((1, x.dims()[1]), x.dtype(), x.device())?;
    // A row of zeros after the others, for those of nobody.
    let nobody = x.dims()[0] as u32;
    let rows: Vec<u32> = source
        .iter()
        .map(|&from| u32::try_from(from).map_or(nobody, |from| from / share.max(1) as u32))
        .collect();
    let rows = Tensor::new(rows, x.device())?;
    Tensor::cat(&[x, &zeros], 0)?.index_select(&rows, 0)
}

/// The cast matrix.
pub(super) fn cast(
    x: &Tensor,
    share_rows: Share,
    share_k: Share,
    format: ScaleFormat,
) -> Result<Fp8Matrix> {
    let (batch, rows, k) = match *x.dims() {
        [batch, rows, k] => (batch, rows, k),
        _ => (1, x.dims()[0], x.dims()[1]),
    };
    let values = x.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?;
    let (of_rows, of_k) = (share_rows.factors(rows), share_k.factors(k));
    let of = |at: usize| factor_of(at, [rows, k], [share_rows, share_k]);
    let mut largest = vec![0f32; batch * of_rows * of_k];
    for (at, x) in values.iter().enumerate() {
        let most = &mut largest[of(at)];
        // A NaN stays.
        if x.abs() > *most || !x.is_finite() {
            *most = if x.is_finite() && !most.is_nan() {
                x.abs()
            } else {
                f32::NAN
            };
        }
    }
    let scales: Vec<(f32, f32)> = largest
        .into_iter()
        .map(|largest| scale(largest, format))
        .collect();
    let data = values.iter().enumerate().map(|(at, x)| {
        let (_, inverse) = scales[of(at)];
        let y = if inverse == 0. { 0. } else { x * inverse };
        let y = F8E4M3::from_f32(y);
        if y.to_bits() == 0x80 {
            F8E4M3::from_bits(0)
        } else {
            y
        }
    });
    let data = Tensor::from_vec(data.collect::<Vec<_>>(), x.shape(), x.device())?;
    let factors: Vec<f32> = scales.into_iter().map(|(scale, _)| scale).collect();
    let mut shape = vec![of_rows, of_k];
    if x.rank() == 3 {
        shape.insert(0, batch);
    }
    let mut matrix = Fp8Matrix {
        data,
        scales: Tensor::from_vec(factors, shape.clone(), x.device())?,
        packed: false,
        of_rows: share_rows,
        of_k: share_k,
    };
    if format == ScaleFormat::PackedPowersOfTwo {
        let bytes: Vec<u8> = matrix
            .scales
            .pad_with_zeros(D::Minus1, 0, of_k.next_multiple_of(4) - of_k)?
            .flatten_all()?
            .to_vec1::<f32>()?
            .into_iter()
            .map(|scale| (scale.to_bits() >> 23) as u8)
            .collect();
        let words: Vec<u32> = bytes
            .chunks_exact(4)
            .map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
            .collect();
        if let Some(last) = shape.last_mut() {
            *last = of_k.div_ceil(4);
        }
        matrix.scales = Tensor::from_vec(words, shape, x.device())?;
        matrix.packed = true;
    }
    Ok(matrix)
}

/// A factor and its inverse.
fn scale(largest: f32, format: ScaleFormat) -> (f32, f32) {
    if largest.is_nan() {
        return (f32::NAN, 0.);
    }
    let largest = largest.max(LEAST_LARGEST);
    let scale = largest / LARGEST;
    if format == ScaleFormat::F32 {
        return (scale, LARGEST / largest);
    }
    let exponent = (scale.to_bits() + 0x7f_ffff) >> 23;
    (
        f32::from_bits(exponent << 23),
        f32::from_bits((254 - exponent) << 23),
    )
}
