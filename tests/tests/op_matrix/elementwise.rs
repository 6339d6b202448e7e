//! Operators on single elements: every operator x dtype x layout against the definition in f64, or in wrapping
//! integers.

use anyhow::{ensure, Context as _, Result};
use candle_core::{DType, Device, Tensor};
use candle_rocm_testing::activations;
use candle_rocm_tests::device;

use super::compare::{check_floats, check_integers, ensure_refused};
use super::inputs::*;

/// Two roundings of an operator that is computed in f32 or f64 with functions that are within a few units in the last
/// place; near zero, where terms cancel, the rounding of a term of 1.
fn tolerance(dtype: DType, expected: f64) -> f64 {
    let inside = if dtype == DType::F64 {
        DType::F64
    } else {
        DType::F32
    };
    let functions = if dtype == inside { 16.0 } else { 2.0 };
    functions * rounding(dtype) * expected.abs() + 4.0 * rounding(inside)
}

type Unary = fn(&Tensor) -> candle_core::Result<Tensor>;

/// Name, operator, definition, and whether it takes positive numbers only.
#[allow(clippy::type_complexity)]
const UNARY: [(&str, Unary, fn(f64) -> f64, bool); 25] = [
    ("exp", Tensor::exp, f64::exp, false),
    ("log", Tensor::log, f64::ln, true),
    ("sin", Tensor::sin, f64::sin, false),
    ("cos", Tensor::cos, f64::cos, false),
    ("tanh", Tensor::tanh, f64::tanh, false),
    ("neg", Tensor::neg, |x| -x, false),
    ("recip", Tensor::recip, |x| 1.0 / x, false),
    ("sqr", Tensor::sqr, |x| x * x, false),
    ("sqrt", Tensor::sqrt, f64::sqrt, true),
    ("gelu", Tensor::gelu, activations::gelu, false),
    ("gelu_erf", Tensor::gelu_erf, activations::gelu_erf, false),
    ("erf", Tensor::erf, libm::erf, false),
    ("silu", Tensor::silu, activations::silu, false),
    ("abs", Tensor::abs, f64::abs, false),
    ("ceil", Tensor::ceil, f64::ceil, false),
    ("floor", Tensor::floor, f64::floor, false),
    ("round", Tensor::round, f64::round, false),
    ("relu", Tensor::relu, |x| x.max(0.0), false),
    (
        "sign",
        Tensor::sign,
        |x| f64::from(i8::from(x > 0.0) - i8::from(x < 0.0)),
        false,
    ),
    (
        "sigmoid",
        candle_nn::ops::sigmoid,
        activations::sigmoid,
        false,
    ),
    (
        "elu",
        |x| x.elu(0.5),
        |x| if x > 0.0 { x } else { 0.5 * x.exp_m1() },
        false,
    ),
    ("powf", |x| x.powf(1.5), |x| x.powf(1.5), true),
    (
        "affine",
        |x| x.affine(1.5, -0.25),
        |x| x * 1.5 - 0.25,
        false,
    ),
    ("copy", Tensor::copy, |x| x, false),
    ("contiguous", Tensor::force_contiguous, |x| x, false),
];

#[test]
fn functions_of_one_element() -> Result<()> {
    let gpu = device()?;
    for dtype in FLOATS {
        let any = numbers(dtype, 1)?;
        let magnitudes: Vec<f64> = floats(&any)?.into_iter().map(f64::abs).collect();
        let positive = from_floats(&magnitudes, dtype)?;
        for (layout, make) in LAYOUTS {
            let any = pair(make, &any, &gpu)?;
            let positive = pair(make, &positive, &gpu)?;
            for (name, operator, definition, takes_positive) in UNARY {
                let what = format!("{name} of {dtype:?}, {layout}");
                let [cpu, gpu] = if takes_positive { &positive } else { &any };
                let found = operator(gpu).with_context(|| what.clone())?;
                ensure!(
                    found.dtype() == dtype && found.dims() == cpu.dims(),
                    "{what}"
                );
                let expected: Vec<f64> = floats(cpu)?.into_iter().map(definition).collect();
                check_floats(&what, &found, &expected, |i| tolerance(dtype, expected[i]))?;
            }
        }
    }
    Ok(())
}

#[test]
fn integers_scaled_and_copied() -> Result<()> {
    let gpu = device()?;
    for dtype in INTEGERS {
        let long = numbers(dtype, 2)?;
        for (layout, make) in LAYOUTS {
            let [cpu, gpu] = pair(make, &long, &gpu)?;
            let values = integers(&cpu)?;
            let what = format!("copy of {dtype:?}, {layout}");
            check_integers(&what, &gpu.force_contiguous()?, &values)?;
            let what = format!("affine of {dtype:?}, {layout}");
            let expected: Vec<i64> = values
                .iter()
                .map(|value| wrap(value.wrapping_mul(3).wrapping_add(7), dtype))
                .collect();
            check_integers(&what, &gpu.affine(3.0, 7.0)?, &expected)?;
        }
    }
    Ok(())
}

type Binary = fn(&Tensor, &Tensor) -> candle_core::Result<Tensor>;

/// Name, operator, and its definitions in f64 and wrapping integers.
#[allow(clippy::type_complexity)]
const BINARY: [(&str, Binary, fn(f64, f64) -> f64, fn(i64, i64) -> i64); 6] = [
    ("add", Tensor::add, |a, b| a + b, i64::wrapping_add),
    ("sub", Tensor::sub, |a, b| a - b, i64::wrapping_sub),
    ("mul", Tensor::mul, |a, b| a * b, i64::wrapping_mul),
    ("div", Tensor::div, |a, b| a / b, i64::wrapping_div),
    // As Candle's CPU backend: where a comparison with a NaN is false, the left operand stays.
    (
        "minimum",
        |a, b| a.minimum(b),
        |a, b| if a > b { b } else { a },
        i64::min,
    ),
    (
        "maximum",
        |a, b| a.maximum(b),
        |a, b| if a < b { b } else { a },
        i64::max,
    ),
];

#[allow(clippy::type_complexity)]
const COMPARISONS: [(&str, Binary, fn(f64, f64) -> bool, fn(i64, i64) -> bool); 6] = [
    ("eq", |a, b| a.eq(b), |a, b| a == b, |a, b| a == b),
    ("ne", |a, b| a.ne(b), |a, b| a != b, |a, b| a != b),
    ("lt", |a, b| a.lt(b), |a, b| a < b, |a, b| a < b),
    ("le", |a, b| a.le(b), |a, b| a <= b, |a, b| a <= b),
    ("gt", |a, b| a.gt(b), |a, b| a > b, |a, b| a > b),
    ("ge", |a, b| a.ge(b), |a, b| a >= b, |a, b| a >= b),
];

/// The operands of an operator in one layout or two.
struct Operands {
    layouts: String,
    /// Makes the layout of those that are not contiguous.
    make: Make,
    cpu: [Tensor; 2],
    gpu: [Tensor; 2],
}

/// Left and right in every layout, the other one contiguous or in the same.
fn operands(long: [&Tensor; 2], gpu: &Device) -> Result<Vec<Operands>> {
    let mut all = Vec::new();
    for (layout, make) in LAYOUTS {
        let [left_cpu, left] = pair(make, long[0], gpu)?;
        let [right_cpu, right] = pair(make, long[1], gpu)?;
        let contiguous = [left.force_contiguous()?, right.force_contiguous()?];
        for (side, gpu) in [
            ("both", [left.clone(), right.clone()]),
            ("left", [left.clone(), contiguous[1].clone()]),
            ("right", [contiguous[0].clone(), right]),
        ] {
            all.push(Operands {
                layouts: format!("{side} {layout}"),
                make,
                cpu: [left_cpu.clone(), right_cpu.clone()],
                gpu,
            });
        }
    }
    Ok(all)
}

/// Elements of the second tensor, every third one replaced by the first's, so that comparisons have something to say.
/// Zeroes become ones: division by an integer zero is in out_of_range.rs.
fn sometimes_equal(first: &Tensor, second: &Tensor) -> Result<Tensor> {
    let dtype = first.dtype();
    if dtype.is_int() {
        let pairs = integers(first)?.into_iter().zip(integers(second)?);
        let mixed = pairs
            .enumerate()
            .map(|(i, (a, b))| if i % 3 == 0 { a } else { b });
        let mixed: Vec<i64> = mixed
            .map(|value| if value == 0 { 1 } else { value })
            .collect();
        return from_integers(&mixed, dtype);
    }
    let pairs = floats(first)?.into_iter().zip(floats(second)?);
    let mixed: Vec<f64> = pairs
        .enumerate()
        .map(|(i, (a, b))| if i % 3 == 0 { a } else { b })
        .collect();
    from_floats(&mixed, dtype)
}

#[test]
fn functions_of_two_elements() -> Result<()> {
    let gpu = device()?;
    for dtype in FLOATS.into_iter().chain(INTEGERS) {
        let long = [numbers(dtype, 3)?, numbers(dtype, 4)?];
        let mixed = sometimes_equal(&long[0], &long[1])?;
        for operands in operands([&long[0], &mixed], &gpu)? {
            let layouts = operands.layouts;
            let ([a, b], [x, y]) = (operands.cpu, operands.gpu);
            if dtype.is_float() {
                let (a, b) = (floats(&a)?, floats(&b)?);
                for (name, operator, definition, _) in BINARY {
                    let what = format!("{name} of {dtype:?}, {layouts}");
                    let expected: Vec<f64> =
                        a.iter().zip(&b).map(|(&a, &b)| definition(a, b)).collect();
                    check_floats(&what, &operator(&x, &y)?, &expected, |i| {
                        tolerance(dtype, expected[i])
                    })?;
                }
                for (name, operator, definition, _) in COMPARISONS {
                    let what = format!("{name} of {dtype:?}, {layouts}");
                    let pairs = a.iter().zip(&b);
                    let expected: Vec<i64> =
                        pairs.map(|(&a, &b)| definition(a, b).into()).collect();
                    check_integers(&what, &operator(&x, &y)?, &expected)?;
                }
            } else {
                let (a, b) = (integers(&a)?, integers(&b)?);
                for (name, operator, _, definition) in BINARY {
                    let what = format!("{name} of {dtype:?}, {layouts}");
                    let pairs = a.iter().zip(&b);
                    let expected: Vec<i64> = pairs
                        .map(|(&a, &b)| wrap(definition(a, b), dtype))
                        .collect();
                    check_integers(&what, &operator(&x, &y)?, &expected)?;
                }
                for (name, operator, _, definition) in COMPARISONS {
                    if matches!(dtype, DType::I16 | DType::I32) {
                        // Refused by Candle's host code, see docs/user/candle-host-bugs.md.
                        let what = format!("{name} of {dtype:?}");
                        ensure_refused(&what, operator(&x, &y), "dtype mismatch in binary op")?;
                        continue;
                    }
                    let what = format!("{name} of {dtype:?}, {layouts}");
                    let pairs = a.iter().zip(&b);
                    let expected: Vec<i64> =
                        pairs.map(|(&a, &b)| definition(a, b).into()).collect();
                    check_integers(&what, &operator(&x, &y)?, &expected)?;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn choices_by_a_condition() -> Result<()> {
    let gpu = device()?;
    for condition in [DType::U8, DType::U32, DType::I64] {
        let chooses = numbers(DType::U8, 5)?
            .to_dtype(DType::F32)?
            .ge(100f32)?
            .to_dtype(condition)?;
        for dtype in FLOATS.into_iter().chain(INTEGERS) {
            let long = [numbers(dtype, 6)?, numbers(dtype, 7)?];
            for operands in operands([&long[0], &long[1]], &gpu)? {
                let layouts = operands.layouts;
                let ([a, b], [x, y]) = (operands.cpu, operands.gpu);
                let [flags, on_gpu] = pair(operands.make, &chooses, &gpu)?;
                let what = format!("where {condition:?} chooses from {dtype:?}, {layouts}");
                let found = on_gpu.where_cond(&x, &y)?;
                let flags = integers(&flags)?;
                if dtype.is_float() {
                    let both = floats(&a)?.into_iter().zip(floats(&b)?);
                    let expected: Vec<f64> = flags
                        .iter()
                        .zip(both)
                        .map(|(&flag, (a, b))| if flag != 0 { a } else { b })
                        .collect();
                    check_floats(&what, &found, &expected, |i| tolerance(dtype, expected[i]))?;
                } else {
                    let both = integers(&a)?.into_iter().zip(integers(&b)?);
                    let expected: Vec<i64> = flags
                        .iter()
                        .zip(both)
                        .map(|(&flag, (a, b))| if flag != 0 { a } else { b })
                        .collect();
                    check_integers(&what, &found, &expected)?;
                }
            }
        }
    }
    Ok(())
}

/// Infinities, NaN, both zeroes, the largest and the smallest numbers, each with each.
#[test]
fn special_values() -> Result<()> {
    let gpu = device()?;
    for (dtype, largest, smallest) in [
        (DType::F64, f64::MAX, 5e-324),
        (DType::F32, f64::from(f32::MAX), 2f64.powi(-149)),
        (DType::F16, 65_504.0, 2f64.powi(-24)),
        (
            DType::BF16,
            2f64.powi(127) * (2.0 - 2f64.powi(-7)),
            2f64.powi(-133),
        ),
    ] {
        let mut values = vec![f64::NAN, 0.0, 1.0, f64::INFINITY, largest, smallest];
        values.extend(values.clone().into_iter().map(|value| -value));
        let count = values.len();
        let pairs = (0..count * count).map(|i| (values[i / count], values[i % count]));
        let (a, b): (Vec<f64>, Vec<f64>) = pairs.unzip();
        let x = from_floats(&a, dtype)?.to_device(&gpu)?;
        let y = from_floats(&b, dtype)?.to_device(&gpu)?;
        for (name, operator, definition, _) in BINARY {
            let what = format!("{name} of special {dtype:?}");
            let expected: Vec<f64> = a.iter().zip(&b).map(|(&a, &b)| definition(a, b)).collect();
            let expected = floats(&from_floats(&expected, dtype)?)?;
            check_floats(&what, &operator(&x, &y)?, &expected, |i| {
                2.0 * rounding(dtype) * expected[i].abs()
            })?;
        }
        for (name, operator, definition, _) in COMPARISONS {
            let what = format!("{name} of special {dtype:?}");
            let pairs = a.iter().zip(&b);
            let expected: Vec<i64> = pairs.map(|(&a, &b)| definition(a, b).into()).collect();
            check_integers(&what, &operator(&x, &y)?, &expected)?;
        }
        let x = from_floats(&values, dtype)?.to_device(&gpu)?;
        for (name, operator, definition, _) in UNARY {
            let what = format!("{name} of special {dtype:?}");
            let expected: Vec<f64> = values.iter().map(|&value| definition(value)).collect();
            let expected = floats(&from_floats(&expected, dtype)?)?;
            check_floats(&what, &operator(&x)?, &expected, |i| {
                tolerance(dtype, expected[i])
            })?;
        }
    }
    Ok(())
}

/// More workgroups than one dimension of some grids could hold: 65,536 of 1024.
#[test]
fn more_than_65535_workgroups() -> Result<()> {
    let gpu = device()?;
    let count = (65_536 << 10) + 5;
    let ones = Tensor::ones(count, DType::U8, &gpu)?;
    let threes = ones.affine(2.0, 1.0)?;
    let sum = threes.narrow(0, count - 9, 9)?.to_vec1::<u8>()?;
    ensure!(sum == [3; 9], "the last elements are {sum:?}");
    let added = (&threes + &ones)?.narrow(0, 65_535 << 10, 7)?;
    ensure!(added.to_vec1::<u8>()? == [4; 7]);
    Ok(())
}
