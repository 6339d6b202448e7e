//! Conversions between all pairs of dtypes.

use anyhow::{ensure, Result};
use candle_core::DType;
use candle_rocm_tests::device;

use super::compare::{check_floats, check_integers, ensure_refused};
use super::inputs::*;

/// Rust's `as`: towards zero, saturating, NaN to 0. i64 keeps all bits of an integer.
fn to_integer(value: f64, dtype: DType) -> i64 {
    match dtype {
        DType::U8 => i64::from(value as u8),
        DType::U32 => i64::from(value as u32),
        _ => value as i64,
    }
}

#[test]
fn all_pairs_in_every_layout() -> Result<()> {
    let gpu = device()?;
    for from in all_dtypes() {
        let long = numbers(from, 31)?;
        for (layout, make) in LAYOUTS {
            let [cpu, tensor] = pair(make, &long, &gpu)?;
            for to in all_dtypes() {
                let what = format!("{from:?} to {to:?}, {layout}");
                if matches!(to, DType::I16 | DType::I32) && to != from {
                    // Refused by Candle's host code on CUDA, see docs/user/candle-host-bugs.md.
                    ensure_refused(
                        &what,
                        tensor.to_dtype(to),
                        "i16,i32 dtypes are not supported",
                    )?;
                    continue;
                }
                let found = tensor.to_dtype(to)?;
                ensure!(found.dtype() == to && found.dims() == cpu.dims(), "{what}");
                match (from.is_int(), to.is_int()) {
                    (true, true) => {
                        let expected: Vec<i64> = integers(&cpu)?
                            .into_iter()
                            .map(|value| wrap(value, to))
                            .collect();
                        check_integers(&what, &found, &expected)?;
                    }
                    (true, false) => {
                        // One rounding to nearest: from i64 to f32 and the halves not by way of f64.
                        let expected: Vec<f64> = integers(&cpu)?
                            .into_iter()
                            .map(|value| nearest(value, to))
                            .collect();
                        check_floats(&what, &found, &expected, |i| {
                            // The halves may be rounded by way of f32.
                            let by_way_of_f32 = if matches!(to, DType::F32 | DType::F64) {
                                0.0
                            } else {
                                2.0 * super::inputs::rounding(to)
                            };
                            by_way_of_f32 * expected[i].abs()
                        })?;
                    }
                    (false, true) => {
                        let expected: Vec<i64> = floats(&cpu)?
                            .into_iter()
                            .map(|value| to_integer(value, to))
                            .collect();
                        check_integers(&what, &found, &expected)?;
                    }
                    (false, false) => {
                        let expected = floats(&from_floats(&floats(&cpu)?, to)?)?;
                        check_floats(&what, &found, &expected, |_| 0.0)?;
                    }
                }
            }
        }
    }
    Ok(())
}

/// Rust's conversions round to nearest, ties to even.
fn nearest(value: i64, dtype: DType) -> f64 {
    match dtype {
        DType::F32 => f64::from(value as f32),
        _ => value as f64,
    }
}

/// Ties, denormals, infinities, NaN, and what is too large.
#[test]
fn special_floats() -> Result<()> {
    let gpu = device()?;
    let mut values = vec![
        0.0,
        1.0 + 2f64.powi(-11),
        1.0 + 3.0 * 2f64.powi(-11),
        1.0 + 2f64.powi(-8),
        1.0 + 3.0 * 2f64.powi(-8),
        1.0 + 2f64.powi(-24),
        1.0 + 3.0 * 2f64.powi(-24),
        1.0625,
        1.1875,
        447.0,
        448.0,
        464.0,
        480.0,
        65_504.0,
        65_519.0,
        65_520.0,
        70_000.0,
        2f64.powi(-24),
        2f64.powi(-25),
        1.5 * 2f64.powi(-24),
        2f64.powi(-10),
        3.0 * 2f64.powi(-11),
        1e-30,
        1e-45,
        1e-310,
        1e30,
        1e39,
        1e300,
        127.5,
        128.5,
        254.9,
        255.5,
        256.0,
        2_147_483_647.0,
        4_294_967_295.0,
        4_294_967_296.0,
        9.3e18,
        1.9e19,
        f64::INFINITY,
        f64::NAN,
    ];
    values.extend(values.clone().into_iter().map(|value| -value));
    for from in WIDE_FLOATS {
        let cpu = from_floats(&values, from)?;
        let held = floats(&cpu)?;
        let tensor = cpu.to_device(&gpu)?;
        for to in FLOATS {
            let what = format!("special {from:?} to {to:?}");
            let expected = floats(&from_floats(&held, to)?)?;
            check_floats(&what, &tensor.to_dtype(to)?, &expected, |_| 0.0)?;
        }
        for to in INDICES {
            let what = format!("special {from:?} to {to:?}");
            let expected: Vec<i64> = held.iter().map(|&value| to_integer(value, to)).collect();
            check_integers(&what, &tensor.to_dtype(to)?, &expected)?;
        }
    }
    // Every 8-bit float.
    let every: Vec<float8::F8E4M3> = (0..=255).map(float8::F8E4M3::from_bits).collect();
    let cpu = candle_core::Tensor::from_vec(every, 256, &candle_core::Device::Cpu)?;
    let held = floats(&cpu)?;
    let tensor = cpu.to_device(&gpu)?;
    for to in FLOATS {
        let what = format!("every F8E4M3 to {to:?}");
        check_floats(&what, &tensor.to_dtype(to)?, &held, |_| 0.0)?;
    }
    Ok(())
}
