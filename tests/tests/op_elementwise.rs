//! Operators on single elements: every operator x dtype x layout against the definition in f64, or in wrapping
//! integers.

use anyhow::{ensure, Context as _, Result};
use candle_core::{DType, Device, Tensor};
use candle_rocm_tests::device;

/// F8E4M3 is in the kernels' own tests: Candle's CPU backend converts to it too slowly for these.
const FLOATS: [DType; 4] = [DType::F64, DType::F32, DType::F16, DType::BF16];
const INTEGERS: [DType; 5] = [DType::U8, DType::U32, DType::I16, DType::I32, DType::I64];

/// Makes a tensor of one layout out of a long one.
type Make = fn(&Tensor) -> candle_core::Result<Tensor>;

/// Elements that a layout is made of.
const ELEMENTS: usize = 10_006;

const LAYOUTS: [(&str, Make); 14] = [
    ("contiguous", |x| x.narrow(0, 0, 385)?.reshape((5, 7, 11))),
    ("transposed", |x| {
        x.narrow(0, 0, 385)?.reshape((5, 7, 11))?.transpose(0, 2)
    }),
    ("broadcast", |x| {
        x.narrow(0, 0, 55)?
            .reshape((5, 1, 11))?
            .broadcast_as((5, 7, 11))
    }),
    ("scalar, broadcast", |x| {
        x.narrow(0, 3, 1)?.broadcast_as((3, 4))
    }),
    ("rows from an offset", |x| {
        x.narrow(0, 0, 693)?.reshape((9, 7, 11))?.narrow(0, 3, 5)
    }),
    ("columns from an offset", |x| {
        x.narrow(0, 0, 693)?.reshape((7, 9, 11))?.narrow(2, 4, 5)
    }),
    ("an odd offset", |x| x.narrow(0, 1, 1030)),
    ("no elements", |x| x.narrow(0, 0, 0)?.reshape((0, 7, 11))),
    ("one element", |x| x.narrow(0, 5, 1)),
    ("no dimensions", |x| x.narrow(0, 5, 1)?.reshape(())),
    ("a prime length", |x| x.narrow(0, 0, 1031)),
    ("six dimensions", |x| {
        x.narrow(0, 0, 432)?.reshape((2, 3, 2, 3, 3, 4))
    }),
    ("six dimensions, permuted", |x| {
        x.narrow(0, 0, 432)?
            .reshape((2, 3, 2, 3, 3, 4))?
            .permute((5, 0, 3, 1, 4, 2))
    }),
    ("long rows", |x| {
        x.narrow(0, 0, 10_006)?
            .reshape((2, 5003))?
            .narrow(1, 1, 5002)
    }),
];

/// Half the distance of neighbours of order one, times two: a result is rounded once from f32 or f64, and f32 and f64
/// functions are within a few such distances.
fn relative_tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-14,
        DType::F32 => 1e-6,
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        DType::F8E4M3 => 2f64.powi(-3),
        _ => 0.0,
    }
}

/// Below this the numbers are evenly spaced, or nearly zero by cancellation.
fn absolute_tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-15,
        DType::F32 => 2e-7,
        DType::F16 => 1e-6,
        DType::BF16 => 1e-6,
        DType::F8E4M3 => 2f64.powi(-9),
        _ => 0.0,
    }
}

/// Reproducible numbers: for floats of magnitude 0.25 to 3, for integers over the whole range.
fn numbers(dtype: DType, seed: u64) -> Result<Tensor> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        // Constants of Knuth's MMIX generator; the upper bits are good enough here.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state >> 11
    };
    let cpu = &Device::Cpu;
    Ok(match dtype {
        DType::U8 => Tensor::from_vec(
            (0..ELEMENTS).map(|_| next() as u8).collect::<Vec<_>>(),
            ELEMENTS,
            cpu,
        )?,
        DType::U32 => Tensor::from_vec(
            (0..ELEMENTS).map(|_| next() as u32).collect::<Vec<_>>(),
            ELEMENTS,
            cpu,
        )?,
        DType::I16 => Tensor::from_vec(
            (0..ELEMENTS).map(|_| next() as i16).collect::<Vec<_>>(),
            ELEMENTS,
            cpu,
        )?,
        DType::I32 => Tensor::from_vec(
            (0..ELEMENTS).map(|_| next() as i32).collect::<Vec<_>>(),
            ELEMENTS,
            cpu,
        )?,
        DType::I64 => Tensor::from_vec(
            (0..ELEMENTS)
                .map(|_| (next() << 11) as i64)
                .collect::<Vec<_>>(),
            ELEMENTS,
            cpu,
        )?,
        float => {
            let values: Vec<f64> = (0..ELEMENTS)
                .map(|_| {
                    let unit = next() as f64 / (1u64 << 53) as f64 * 2.0 - 1.0;
                    unit * 2.75 + 0.25f64.copysign(unit)
                })
                .collect();
            Tensor::from_vec(values, ELEMENTS, cpu)?.to_dtype(float)?
        }
    })
}

fn floats(tensor: &Tensor) -> Result<Vec<f64>> {
    Ok(tensor
        .to_device(&Device::Cpu)?
        .to_dtype(DType::F64)?
        .flatten_all()?
        .to_vec1()?)
}

fn integers(tensor: &Tensor) -> Result<Vec<i64>> {
    let tensor = tensor.to_device(&Device::Cpu)?.flatten_all()?;
    Ok(match tensor.dtype() {
        DType::U8 => tensor.to_vec1::<u8>()?.into_iter().map(i64::from).collect(),
        DType::U32 => tensor
            .to_vec1::<u32>()?
            .into_iter()
            .map(i64::from)
            .collect(),
        DType::I16 => tensor
            .to_vec1::<i16>()?
            .into_iter()
            .map(i64::from)
            .collect(),
        DType::I32 => tensor
            .to_vec1::<i32>()?
            .into_iter()
            .map(i64::from)
            .collect(),
        _ => tensor.to_vec1::<i64>()?,
    })
}

/// The lowest bits of a number, as the dtype has them.
fn wrap(value: i64, dtype: DType) -> i64 {
    match dtype {
        DType::U8 => i64::from(value as u8),
        DType::U32 => i64::from(value as u32),
        DType::I16 => i64::from(value as i16),
        DType::I32 => i64::from(value as i32),
        _ => value,
    }
}

fn check_floats(what: &str, dtype: DType, found: &Tensor, expected: &[f64]) -> Result<()> {
    let found = floats(found)?;
    ensure!(
        found.len() == expected.len(),
        "{what}: {} elements",
        found.len()
    );
    let (relative, absolute) = (relative_tolerance(dtype), absolute_tolerance(dtype));
    for (i, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let close = (found - expected).abs() <= absolute + relative * expected.abs();
        let same = found == expected || (found.is_nan() && expected.is_nan());
        ensure!(
            close || same,
            "{what}: element {i} is {found}, not {expected}"
        );
    }
    Ok(())
}

fn check_integers(what: &str, found: &Tensor, expected: &[i64]) -> Result<()> {
    let found = integers(found)?;
    ensure!(
        found.len() == expected.len(),
        "{what}: {} elements",
        found.len()
    );
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        ensure!(
            found == expected,
            "{what}: element {i} is {found}, not {expected}"
        );
    }
    Ok(())
}

/// The same tensor on the CPU and the device, in a layout.
fn pair(make: Make, long: &Tensor, gpu: &Device) -> Result<[Tensor; 2]> {
    Ok([make(long)?, make(&long.to_device(gpu)?)?])
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
    (
        "gelu",
        Tensor::gelu,
        |x| {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
            0.5 * x * (1.0 + inner.tanh())
        },
        false,
    ),
    (
        "gelu_erf",
        Tensor::gelu_erf,
        |x| 0.5 * x * (1.0 + libm::erf(x / std::f64::consts::SQRT_2)),
        false,
    ),
    ("erf", Tensor::erf, libm::erf, false),
    ("silu", Tensor::silu, |x| x / (1.0 + (-x).exp()), false),
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
        |x| 1.0 / (1.0 + (-x).exp()),
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
        let positive = any.to_dtype(DType::F64)?.abs()?.to_dtype(dtype)?;
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
                check_floats(&what, dtype, &found, &expected)?;
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
    (
        "div",
        Tensor::div,
        |a, b| a / b,
        |a, b| if b == 0 { 0 } else { a.wrapping_div(b) },
    ),
    ("minimum", |a, b| a.minimum(b), f64::min, i64::min),
    ("maximum", |a, b| a.maximum(b), f64::max, i64::max),
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

#[test]
fn functions_of_two_elements() -> Result<()> {
    let gpu = device()?;
    for dtype in FLOATS.into_iter().chain(INTEGERS) {
        let long = [numbers(dtype, 3)?, numbers(dtype, 4)?];
        // Where half of the elements are equal, comparisons have something to say.
        let mixed = Tensor::cat(
            &[
                long[0].narrow(0, 0, 7)?,
                long[1].narrow(0, 7, ELEMENTS - 7)?,
            ],
            0,
        )?;
        for operands in operands([&long[0], &mixed], &gpu)? {
            let layouts = operands.layouts;
            let ([a, b], [x, y]) = (operands.cpu, operands.gpu);
            if dtype.is_float() {
                let (a, b) = (floats(&a)?, floats(&b)?);
                for (name, operator, definition, _) in BINARY {
                    let what = format!("{name} of {dtype:?}, {layouts}");
                    let expected: Vec<f64> =
                        a.iter().zip(&b).map(|(&a, &b)| definition(a, b)).collect();
                    check_floats(&what, dtype, &operator(&x, &y)?, &expected)?;
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
                    if name == "div" && b.contains(&0) {
                        // Division by zero has no value on any of Candle's backends.
                        continue;
                    }
                    let what = format!("{name} of {dtype:?}, {layouts}");
                    let pairs = a.iter().zip(&b);
                    let expected: Vec<i64> = pairs
                        .map(|(&a, &b)| wrap(definition(a, b), dtype))
                        .collect();
                    check_integers(&what, &operator(&x, &y)?, &expected)?;
                }
                for (name, operator, _, definition) in COMPARISONS {
                    if matches!(dtype, DType::I16 | DType::I32) {
                        // Refused by Candle's host code, see docs/candle-host-bugs.md.
                        ensure!(operator(&x, &y).is_err(), "{name} of {dtype:?} works now");
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
                    check_floats(&what, dtype, &found, &expected)?;
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
