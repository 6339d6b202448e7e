//! Constants and random numbers.

use anyhow::{ensure, Result};
use candle_core::scalar::Scalar;
use candle_core::{DType, Tensor};
use candle_rocm_tests::device;

use super::compare::{check_floats, check_integers};
use super::inputs::*;

fn check_constant(what: &str, tensor: &Tensor, value: i64) -> Result<()> {
    let count = tensor.elem_count();
    if tensor.dtype().is_int() {
        check_integers(what, tensor, &vec![value; count])
    } else {
        check_floats(what, tensor, &vec![value as f64; count], |_| 0.0)
    }
}

/// Sizes around the widths of vectors, waves and workgroups.
#[test]
fn new_tensors() -> Result<()> {
    let gpu = device()?;
    for dtype in all_dtypes() {
        for count in [0, 1, 2, 3, 15, 16, 17, 63, 65, 1023, 1025, 70_001] {
            let what = format!("{count} of {dtype:?}");
            let zeros = Tensor::zeros(count, dtype, &gpu)?;
            check_constant(&format!("zeros: {what}"), &zeros, 0)?;
            let ones = Tensor::ones(count, dtype, &gpu)?;
            check_constant(&format!("ones: {what}"), &ones, 1)?;
        }
    }
    Ok(())
}

/// `const_set` writes the elements of a view and no other.
#[test]
fn views_are_set_alone() -> Result<()> {
    let gpu = device()?;
    for dtype in all_dtypes() {
        for (layout, make) in LAYOUTS {
            let what = format!("const_set of {dtype:?}, {layout}");
            let long = Tensor::ones(ELEMENTS, dtype, &gpu)?;
            let view = make(&long)?;
            let same_elements = view.storage_and_layout().1.stride().contains(&0);
            if same_elements {
                continue;
            }
            let three = match dtype {
                DType::U8 => Scalar::from(3u8),
                DType::U32 => Scalar::from(3u32),
                DType::I16 => Scalar::from(3i16),
                DType::I32 => Scalar::from(3i32),
                DType::I64 => Scalar::from(3i64),
                DType::BF16 => Scalar::from(half::bf16::from_f64(3.0)),
                DType::F16 => Scalar::from(half::f16::from_f64(3.0)),
                DType::F32 => Scalar::from(3f32),
                DType::F64 => Scalar::from(3f64),
                _ => Scalar::from(float8::F8E4M3::from_f64(3.0)),
            };
            view.const_set(three)?;
            check_constant(&what, &view, 3)?;
            // A reshape of what is contiguous shares memory; else the long tensor would still be all ones.
            let sum: f64 = if dtype.is_int() {
                integers(&long)?.iter().sum::<i64>() as f64
            } else {
                floats(&long)?.iter().sum()
            };
            let expected = ELEMENTS + 2 * view.elem_count();
            ensure!(
                sum == expected as f64,
                "{what}: the sum of all is {sum}, not {expected}"
            );
        }
    }
    Ok(())
}

#[test]
fn random_numbers_fill_any_size() -> Result<()> {
    let gpu = device()?;
    for count in [0, 1, 2, 3, 255, 257, 10_007] {
        for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
            let like = Tensor::zeros(count, dtype, &gpu)?;
            let uniform = floats(&like.rand_like(-2.0, 6.0)?)?;
            ensure!(uniform.len() == count);
            ensure!(
                uniform.iter().all(|value| (-2.0..=6.0).contains(value)),
                "{count} of {dtype:?}: outside -2..6"
            );
            let normal = floats(&like.randn_like(1.0, 3.0)?)?;
            ensure!(normal.iter().all(|value| value.is_finite()));
            if count > 10_000 {
                // Five standard errors.
                let mean = |values: &[f64]| values.iter().sum::<f64>() / count as f64;
                let root = (count as f64).sqrt();
                let uniform_mean = mean(&uniform);
                ensure!(
                    (uniform_mean - 2.0).abs() < 5.0 * 2.31 / root,
                    "mean {uniform_mean}"
                );
                let normal_mean = mean(&normal);
                ensure!(
                    (normal_mean - 1.0).abs() < 5.0 * 3.0 / root,
                    "mean {normal_mean}"
                );
                let squares: Vec<f64> = normal.iter().map(|v| (v - 1.0).powi(2)).collect();
                let variance = mean(&squares);
                ensure!(
                    (variance / 9.0 - 1.0).abs() < 5.0 * 1.42 / root,
                    "variance {variance}"
                );
            }
        }
    }
    Ok(())
}

#[test]
fn ranges() -> Result<()> {
    let gpu = device()?;
    let found = Tensor::arange(-3i64, 1000, &gpu)?;
    check_integers("arange", &found, &(-3..1000).collect::<Vec<_>>())
}
