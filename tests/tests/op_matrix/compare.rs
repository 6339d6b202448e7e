//! What the device computed, held to the truth.

use anyhow::{bail, ensure, Context as _, Result};
use candle_core::{DType, Tensor};

use super::inputs::{exact, floats, integers, rounding, wrap};

/// How near to the truth a result must be.
#[derive(Clone, Copy, Debug)]
pub enum Nearness {
    /// Picked from the inputs, or computed exactly.
    Same,
    /// Sums of products: one rounding of the result, and of the sum of magnitudes (the same operator on absolute
    /// values) 64 roundings of f32, or of f64 for f64, and this many of the dtype, where parts are stored in it.
    Sum(f64),
    /// A smooth function: this many roundings, of the element and of the largest element.
    Smooth(f64),
}

/// Half the distance of the dtype's smallest numbers, which are evenly spaced.
fn smallest_rounding(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 0.0,
        DType::F32 | DType::BF16 => 2f64.powi(-126),
        DType::F16 => 2f64.powi(-25),
        DType::F8E4M3 => 2f64.powi(-10),
        _ => 0.0,
    }
}

/// What the dtype holds of a number beyond its largest.
fn saturated(value: f64, dtype: DType) -> f64 {
    match dtype {
        DType::F8E4M3 if value.abs() > 448.0 => 448f64.copysign(value),
        DType::F16 if value.abs() >= 65_520.0 => f64::INFINITY.copysign(value),
        _ => value,
    }
}

/// Holds what Candle's host code refuses to the words with which it does: another error is no refusal.
pub fn ensure_refused(what: &str, result: candle_core::Result<Tensor>, words: &str) -> Result<()> {
    let Err(error) = result else {
        bail!("{what} works now");
    };
    let text = error.to_string();
    ensure!(
        text.contains(words),
        "{what} is not refused, but fails: {text}"
    );
    Ok(())
}

/// Holds floats to expected ones: element `i` within `limit(i)`; NaN and infinities are themselves.
pub fn check_floats(
    what: &str,
    found: &Tensor,
    expected: &[f64],
    limit: impl Fn(usize) -> f64,
) -> Result<()> {
    let dtype = found.dtype();
    let found = floats(found)?;
    ensure!(
        found.len() == expected.len(),
        "{what}: {} elements, not {}",
        found.len(),
        expected.len()
    );
    for (i, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let expected = saturated(expected, dtype);
        let good = if expected.is_nan() {
            found.is_nan()
        } else if expected.is_infinite() {
            found == expected
        } else {
            (found - expected).abs() <= limit(i) + smallest_rounding(dtype)
        };
        ensure!(
            good,
            "{what}: element {i} is {found}, not {expected} within {:e}",
            limit(i)
        );
    }
    Ok(())
}

pub fn check_integers(what: &str, found: &Tensor, expected: &[i64]) -> Result<()> {
    let found = integers(found)?;
    ensure!(
        found.len() == expected.len(),
        "{what}: {} elements, not {}",
        found.len(),
        expected.len()
    );
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        ensure!(
            found == expected,
            "{what}: element {i} is {found}, not {expected}"
        );
    }
    Ok(())
}

/// An operator of one tensor or several.
pub type Operator<'a> = &'a dyn Fn(&[Tensor]) -> candle_core::Result<Tensor>;

/// Runs an operator on the device's tensors, and `truth` on the same numbers on the CPU in f64 or i64.
pub fn check_against(
    what: &str,
    inputs: &[Tensor],
    nearness: Nearness,
    operator: Operator,
    truth: Operator,
) -> Result<()> {
    let context = || what.to_string();
    let found = operator(inputs).with_context(context)?;
    let numbers = inputs.iter().map(exact).collect::<Result<Vec<_>>>()?;
    let expected = truth(&numbers).with_context(context)?;
    ensure!(
        found.dims() == expected.dims(),
        "{what}: the shape is {:?}, not {:?}",
        found.dims(),
        expected.dims()
    );
    let dtype = found.dtype();
    if dtype.is_int() {
        let expected: Vec<i64> = integers(&expected)?
            .into_iter()
            .map(|value| wrap(value, dtype))
            .collect();
        return check_integers(what, &found, &expected);
    }
    let expected = floats(&expected)?;
    let once = rounding(dtype);
    match nearness {
        Nearness::Same => check_floats(what, &found, &expected, |_| 0.0),
        Nearness::Sum(parts) => {
            let magnitudes = numbers
                .iter()
                .map(Tensor::abs)
                .collect::<candle_core::Result<Vec<_>>>()?;
            let magnitudes = floats(&truth(&magnitudes).with_context(context)?)?;
            let sum = if dtype == DType::F64 {
                once
            } else {
                rounding(DType::F32)
            };
            check_floats(what, &found, &expected, |i| {
                once * expected[i].abs() + (64.0 * sum + parts * once) * magnitudes[i]
            })
        }
        Nearness::Smooth(roundings) => {
            let finite = expected.iter().filter(|value| value.is_finite());
            let largest = finite.fold(0f64, |largest, value| largest.max(value.abs()));
            check_floats(what, &found, &expected, |i| {
                // f32 inside, whatever the dtype: the largest element's error is f32's or f64's.
                let inside = if dtype == DType::F64 {
                    once
                } else {
                    rounding(DType::F32)
                };
                once * expected[i].abs() + roundings * inside * (largest + expected[i].abs())
            })
        }
    }
}

/// [`check_against`], the truth being the same operator.
pub fn check(what: &str, inputs: &[Tensor], nearness: Nearness, operator: Operator) -> Result<()> {
    check_against(what, inputs, nearness, operator, operator)
}
