//! candle-nn's operators on rows: softmax, norms, rotary embeddings.

use anyhow::Result;
use candle_core::{DType, Tensor, D};
use candle_nn::{ops, rotary_emb};
use candle_rocm_tests::device;

use super::compare::{check_against, Nearness};
use super::inputs::*;

/// Rows and columns: shorter than a wave, odd, longer than a workgroup, many.
const SHAPES: [(usize, usize); 14] = [
    (1, 1),
    (3, 2),
    (5, 7),
    (2, 31),
    (3, 32),
    (2, 33),
    (4, 64),
    (3, 65),
    (2, 1000),
    (2, 1024),
    (2, 1025),
    (3, 5003),
    (2, 20_011),
    (66_000, 3),
];
const EPSILON: f32 = 1e-5;

/// f32 inside: sums of a row, an exponential, a square root and a quotient.
const NEARNESS: Nearness = Nearness::Smooth(64.0);

fn rows(
    dtype: DType,
    seed: u64,
    rows: usize,
    columns: usize,
    gpu: &candle_core::Device,
) -> Result<Tensor> {
    Ok(many_numbers(dtype, seed, rows * columns)?
        .reshape((rows, columns))?
        .to_device(gpu)?)
}

#[test]
fn softmax() -> Result<()> {
    let gpu = device()?;
    for dtype in WIDE_FLOATS {
        for (count, columns) in SHAPES {
            let input = [rows(dtype, 61, count, columns, &gpu)?];
            let what = format!("of {dtype:?}, {count} x {columns}");
            check_against(
                &format!("softmax_last_dim {what}"),
                &input,
                NEARNESS,
                &|x| ops::softmax_last_dim(&x[0]),
                &|x| ops::softmax(&x[0], D::Minus1),
            )?;
            // Not from an operator of its own: every step rounds to the dtype, and the logarithm of the sum is added to
            // each element.
            let steps = if matches!(dtype, DType::F16) {
                4.0 * 8192.0
            } else {
                4.0 * 65_536.0
            };
            let steps = if matches!(dtype, DType::F32 | DType::F64) {
                64.0
            } else {
                steps
            };
            check_against(
                &format!("log_softmax {what}"),
                &input,
                Nearness::Smooth(steps),
                &|x| ops::log_softmax(&x[0], D::Minus1),
                &|x| ops::log_softmax(&x[0], D::Minus1),
            )?;
        }
    }
    Ok(())
}

#[test]
fn norms() -> Result<()> {
    let gpu = device()?;
    for dtype in WIDE_FLOATS {
        for (count, columns) in SHAPES {
            let alpha = many_numbers(dtype, 63, columns)?.to_device(&gpu)?;
            let beta = many_numbers(dtype, 64, columns)?.to_device(&gpu)?;
            let inputs = [rows(dtype, 62, count, columns, &gpu)?, alpha, beta];
            let what = format!("of {dtype:?}, {count} x {columns}");
            // Among many rows of three numbers are some of nearly equal ones, whose differences have few digits.
            let nearness = if count > 1000 {
                Nearness::Smooth(4096.0)
            } else {
                NEARNESS
            };
            check_against(
                &format!("rms_norm {what}"),
                &inputs,
                NEARNESS,
                &|x| ops::rms_norm(&x[0], &x[1], EPSILON),
                &|x| {
                    let mean = x[0].sqr()?.mean_keepdim(1)?;
                    let root = mean.affine(1.0, f64::from(EPSILON))?.sqrt()?;
                    x[0].broadcast_div(&root)?.broadcast_mul(&x[1])
                },
            )?;
            check_against(
                &format!("layer_norm {what}"),
                &inputs,
                nearness,
                &|x| ops::layer_norm(&x[0], &x[1], &x[2], EPSILON),
                &|x| {
                    let centred = x[0].broadcast_sub(&x[0].mean_keepdim(1)?)?;
                    let variance = centred.sqr()?.mean_keepdim(1)?;
                    let root = variance.affine(1.0, f64::from(EPSILON))?.sqrt()?;
                    centred
                        .broadcast_div(&root)?
                        .broadcast_mul(&x[1])?
                        .broadcast_add(&x[2])
                },
            )?;
        }
    }
    Ok(())
}

/// Batch, heads, positions, and numbers of a head; rows start at an offset.
#[test]
fn rotary_embeddings() -> Result<()> {
    let gpu = device()?;
    for dtype in WIDE_FLOATS {
        for (b, h, t, d) in [
            (1, 1, 1, 2),
            (2, 3, 5, 8),
            (1, 2, 7, 64),
            (2, 1, 33, 18),
            (1, 5, 3, 130),
        ] {
            let long = many_numbers(dtype, 65, 1 + b * h * t * d)?.to_device(&gpu)?;
            let x = long.narrow(0, 1, b * h * t * d)?.reshape((b, h, t, d))?;
            let cos = many_numbers(dtype, 66, t * d / 2)?
                .to_device(&gpu)?
                .reshape((t, d / 2))?;
            let sin = many_numbers(dtype, 67, t * d / 2)?
                .to_device(&gpu)?
                .reshape((t, d / 2))?;
            let what = format!("of {dtype:?}, {b} x {h} x {t} x {d}");
            let inputs = [x, cos, sin];
            check_against(
                &format!("rope {what}"),
                &inputs,
                NEARNESS,
                &|x| rotary_emb::rope(&x[0], &x[1], &x[2]),
                &|x| rotary_emb::rope_slow(&x[0], &x[1], &x[2]),
            )?;
            check_against(
                &format!("rope_i {what}"),
                &inputs,
                NEARNESS,
                &|x| rotary_emb::rope_i(&x[0], &x[1], &x[2]),
                &|x| rotary_emb::rope_i_slow(&x[0], &x[1], &x[2]),
            )?;
            let [x, cos, sin] = inputs;
            check_against(
                &format!("rope_thd {what}"),
                &[x.transpose(1, 2)?.contiguous()?, cos, sin],
                NEARNESS,
                &|x| rotary_emb::rope_thd(&x[0], &x[1], &x[2]),
                &|x| {
                    let heads_first = x[0].transpose(1, 2)?.contiguous()?;
                    rotary_emb::rope_slow(&heads_first, &x[1], &x[2])?
                        .transpose(1, 2)?
                        .contiguous()
                },
            )?;
        }
    }
    Ok(())
}
