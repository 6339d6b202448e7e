//! Sums and extrema over each dimension and over several.

use anyhow::{ensure, Result};
use candle_core::{DType, Tensor, D};
use candle_rocm_tests::device;

use super::compare::{check, check_against, check_floats, check_integers, Nearness};
use super::inputs::*;

type Reduce = fn(&Tensor, usize) -> candle_core::Result<Tensor>;

const OVER_ONE: [(&str, Nearness, Reduce); 9] = [
    ("sum", Nearness::Sum(0.0), |x, dim| x.sum(dim)),
    ("sum_keepdim", Nearness::Sum(0.0), |x, dim| {
        x.sum_keepdim(dim)
    }),
    ("min", Nearness::Same, |x, dim| x.min(dim)),
    ("min_keepdim", Nearness::Same, |x, dim| x.min_keepdim(dim)),
    ("max", Nearness::Same, |x, dim| x.max(dim)),
    ("max_keepdim", Nearness::Same, |x, dim| x.max_keepdim(dim)),
    // Indices are u32 on every backend, the first of equals.
    ("argmin", Nearness::Same, |x, dim| x.argmin(dim)),
    ("argmax", Nearness::Same, |x, dim| x.argmax(dim)),
    ("argmax_keepdim", Nearness::Same, |x, dim| {
        x.argmax_keepdim(dim)
    }),
];

/// All of them but sums, over the last of two dimensions.
fn check_extrema(what: &str, matrix: &Tensor) -> Result<()> {
    for (name, nearness, operator) in OVER_ONE {
        if name.starts_with("sum") {
            continue;
        }
        let what = format!("{name} {what}");
        check(&what, std::slice::from_ref(matrix), nearness, &|x| {
            operator(&x[0], 1)
        })?;
    }
    Ok(())
}

/// Sums of i64 stay below 2^63: the CPU backend, whose sums are the truth, has overflow checks in tests.
fn summable(dtype: DType, seed: u64, count: usize) -> Result<Tensor> {
    let long = many_numbers(dtype, seed, count)?;
    if dtype != DType::I64 {
        return Ok(long);
    }
    let values: Vec<i64> = integers(&long)?
        .into_iter()
        .map(|value| value >> 20)
        .collect();
    from_integers(&values, dtype)
}

fn check_all(what: &str, tensor: &Tensor) -> Result<()> {
    (0..tensor.rank()).try_for_each(|dim| check_over(what, tensor, dim))
}

fn check_over(what: &str, tensor: &Tensor, dim: usize) -> Result<()> {
    for (name, nearness, operator) in OVER_ONE {
        let what = format!(
            "{name} of {:?}, {what}, over dimension {dim}",
            tensor.dtype()
        );
        let operator = |x: &[Tensor]| operator(&x[0], dim);
        check(&what, std::slice::from_ref(tensor), nearness, &operator)?;
    }
    Ok(())
}

#[test]
fn over_each_dimension() -> Result<()> {
    let gpu = device()?;
    for dtype in all_dtypes() {
        for (values, long) in [
            ("whole range", summable(dtype, 11, ELEMENTS)?),
            ("ties", ties(dtype, 12, ELEMENTS)?),
        ] {
            for (layout, make) in LAYOUTS {
                let [_, tensor] = pair(make, &long, &gpu)?;
                if tensor.elem_count() == 0 {
                    continue;
                }
                check_all(&format!("{layout}, {values}"), &tensor)?;
            }
        }
    }
    Ok(())
}

#[test]
fn over_several_dimensions() -> Result<()> {
    let gpu = device()?;
    for dtype in all_dtypes() {
        let long = summable(dtype, 13, ELEMENTS)?;
        for (layout, make) in LAYOUTS {
            let [_, tensor] = pair(make, &long, &gpu)?;
            let what = format!("of {dtype:?}, {layout}");
            let inputs = [tensor.clone()];
            let nearness = Nearness::Sum(0.0);
            check(&format!("sum_all {what}"), &inputs, nearness, &|x| {
                x[0].sum_all()
            })?;
            // Candle's host code divides by a result's number of elements, see docs/user/candle-host-bugs.md.
            if tensor.rank() >= 3 && tensor.elem_count() > 0 {
                check(&format!("sum of 0, 2 {what}"), &inputs, nearness, &|x| {
                    x[0].sum((0, 2))
                })?;
                check(&format!("sum of 2, 1 {what}"), &inputs, nearness, &|x| {
                    x[0].sum_keepdim((2, 1))
                })?;
            }
            if dtype.is_float() && dtype != DType::F8E4M3 && tensor.elem_count() > 0 {
                // The quotient is rounded once more; in f16 and bf16 so is the sum.
                let nearness = Nearness::Sum(2.0);
                check(&format!("mean_all {what}"), &inputs, nearness, &|x| {
                    x[0].mean_all()
                })?;
            }
        }
    }
    Ok(())
}

/// Rows longer than one workgroup can hold, along and across memory; more rows than 65,535.
#[test]
fn long_rows_and_many_rows() -> Result<()> {
    let gpu = device()?;
    for dtype in all_dtypes() {
        // Sums of 8-bit floats would saturate at 448.
        let spread = if dtype == DType::F8E4M3 { 16 } else { 1 };
        for (rows, columns) in [(3, 5003), (2, 20_011), (70_001, 3)] {
            let (rows, columns) = (rows, (columns / spread).max(1));
            let long = summable(dtype, 14, rows * columns)?.to_device(&gpu)?;
            let matrix = long.reshape((rows, columns))?;
            check_all(&format!("{rows} x {columns}"), &matrix)?;
        }
        let across = summable(dtype, 15, 1237 * 5)?.to_device(&gpu)?;
        check_all("transposed", &across.reshape((1237, 5))?.t()?)?;
    }
    Ok(())
}

/// Few outputs of 128 KiB and more, which several workgroups share: along memory, across it by columns, by neither; with an
/// element too many for vectors, and at an offset.
#[test]
fn few_long_outputs() -> Result<()> {
    let gpu = device()?;
    for dtype in all_dtypes() {
        // Sums of so many other 8-bit floats would saturate at 448.
        let n = (132 << 10) / dtype.size_in_bytes();
        let count = 5 * (n + 3);
        let long = match dtype {
            DType::F8E4M3 => from_floats(&vec![0.001_953_125; count], dtype)?,
            _ => summable(dtype, 18, count)?,
        };
        let long = long.to_device(&gpu)?;
        let all = long.narrow(0, 1, n + 1)?;
        check_over("all", &all, 0)?;
        check_over("two rows", &long.narrow(0, 0, 2 * n)?.reshape((2, n))?, 1)?;
        let columns = long.reshape((n + 3, 5))?;
        check_over("five columns", &columns, 0)?;
        check_over("three of five columns", &columns.narrow(1, 1, 3)?, 0)?;
        let middle = long.narrow(0, 0, n)?.reshape((n / 64, 4, 16))?;
        check("over 2, 0", &[middle], Nearness::Sum(0.0), &|x| {
            x[0].sum((2, 0))
        })?;
        // Sums of equal numbers err in one direction on the CPU too; those of these are exact.
        let two = match dtype.is_int() {
            true => from_integers(&[1, 0], dtype)?,
            false => from_floats(&[0.001_953_125, 0.0], dtype)?,
        };
        let two = two.to_device(&gpu)?;
        let broadcast = two.reshape((2, 1))?.broadcast_as((2, n))?;
        check_over("broadcast", &broadcast, 1)?;
    }
    Ok(())
}

/// The first of equal extrema counts wherever parts meet; a NaN loses unless it comes first.
#[test]
fn extrema_of_few_long_outputs() -> Result<()> {
    let gpu = device()?;
    let n = 70_001;
    for dtype in WIDE_FLOATS {
        let mut values = vec![0.0; 3 * n];
        for (row, place, value) in [
            (0, 60_000, 7.0),
            (0, 40_000, 7.0),
            (0, 50_000, -7.0),
            (0, 69_999, -7.0),
            (1, 0, f64::NAN),
            (1, 1, 5.0),
            (2, 35_000, f64::NAN),
            (2, 70_000, -1.0),
        ] {
            values[row * n + place] = value;
        }
        let matrix = from_floats(&values, dtype)?.to_device(&gpu)?;
        let matrix = matrix.reshape((3, n))?;
        check_extrema(&format!("of {dtype:?}"), &matrix)?;
    }
    Ok(())
}

/// Sums of nothing are zero; extrema of nothing are an error on every backend.
#[test]
fn nothing_to_reduce() -> Result<()> {
    let gpu = device()?;
    for dtype in all_dtypes() {
        let empty = Tensor::zeros((4, 0), dtype, &gpu)?;
        let sum = empty.sum(1)?;
        ensure!(sum.dims() == [4], "{dtype:?}: {:?}", sum.dims());
        if dtype.is_int() {
            check_integers(&format!("sum of no {dtype:?}"), &sum, &[0; 4])?;
        } else {
            check_floats(&format!("sum of no {dtype:?}"), &sum, &[0.0; 4], |_| 0.0)?;
        }
        for (name, result) in [("min", empty.min(1)), ("argmax", empty.argmax(1))] {
            let Err(error) = result else {
                anyhow::bail!("{name} of no {dtype:?} has a value");
            };
            ensure!(error.to_string().contains("empty"), "{name}: {error}");
        }
    }
    Ok(())
}

/// Integers wrap: the truth is the sum of the lowest bits.
#[test]
fn integer_sums_wrap() -> Result<()> {
    let gpu = device()?;
    for dtype in INTEGERS {
        let long = numbers(dtype, 16)?;
        let values = integers(&long)?;
        let sum = values
            .iter()
            .fold(0i64, |sum, &value| sum.wrapping_add(value));
        let found = long.to_device(&gpu)?.sum(0)?;
        check_integers(&format!("sum of {dtype:?}"), &found, &[wrap(sum, dtype)])?;
    }
    Ok(())
}

/// As on Candle's CPU backend: a NaN loses against all numbers, unless it comes first. A sum with one is one.
#[test]
fn nan_among_numbers() -> Result<()> {
    let gpu = device()?;
    for dtype in WIDE_FLOATS {
        let columns = 517;
        let mut values = floats(&many_numbers(dtype, 17, 6 * columns)?)?;
        for (row, place) in [(0, 0), (1, 300), (2, columns - 1), (3, 5), (3, 6)] {
            values[row * columns + place] = f64::NAN;
        }
        values[4 * columns..5 * columns].fill(f64::NAN);
        values[5 * columns + 100] = f64::NEG_INFINITY;
        values[5 * columns + 101] = f64::INFINITY;
        let matrix = from_floats(&values, dtype)?.to_device(&gpu)?;
        let matrix = matrix.reshape((6, columns))?;
        check_extrema(&format!("with NaN of {dtype:?}"), &matrix)?;
        let what = format!("sum with NaN of {dtype:?}");
        check_against(
            &what,
            &[matrix.narrow(0, 0, 5)?],
            // Magnitudes are NaN too, where it matters.
            Nearness::Smooth(0.0),
            &|x| x[0].sum(D::Minus1),
            &|_| Tensor::full(f64::NAN, 5, &candle_core::Device::Cpu),
        )?;
    }
    Ok(())
}
