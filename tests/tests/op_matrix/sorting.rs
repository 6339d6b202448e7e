//! Argument sort of the last dimension.

use std::cmp::Ordering;

use anyhow::{ensure, Result};
use candle_core::{DType, Tensor};
use candle_rocm_tests::device;

use super::compare::check_integers;
use super::inputs::*;

/// Stable; a NaN is larger than all numbers.
fn order<T: PartialOrd>(a: &T, b: &T) -> Ordering {
    let is_nan = |value: &T| value.partial_cmp(value).is_none();
    a.partial_cmp(b)
        .unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)))
}

fn sorted<T: PartialOrd>(rows: &[T], columns: usize, ascending: bool) -> Vec<i64> {
    let mut indices = Vec::with_capacity(rows.len());
    for row in rows.chunks(columns) {
        let mut places: Vec<usize> = (0..columns).collect();
        places.sort_by(|&a, &b| {
            let order = order(&row[a], &row[b]);
            if ascending {
                order
            } else {
                order.reverse()
            }
        });
        indices.extend(places.into_iter().map(|place| place as i64));
    }
    indices
}

fn check_sorted(what: &str, tensor: &Tensor) -> Result<()> {
    let columns = tensor.dims()[tensor.rank() - 1];
    for ascending in [true, false] {
        let what = format!("{what} of {:?}, ascending {ascending}", tensor.dtype());
        let found = tensor.arg_sort_last_dim(ascending)?;
        ensure!(
            found.dtype() == DType::U32 && found.dims() == tensor.dims(),
            "{what}"
        );
        let expected = if tensor.dtype().is_int() {
            sorted(&integers(tensor)?, columns, ascending)
        } else {
            sorted(&floats(tensor)?, columns, ascending)
        };
        check_integers(&what, &found, &expected)?;
    }
    Ok(())
}

#[test]
fn rows_of_every_length() -> Result<()> {
    let gpu = device()?;
    for dtype in all_dtypes() {
        for (rows, columns) in [
            (1, 1),
            (5, 2),
            (3, 3),
            (7, 31),
            (3, 32),
            (2, 33),
            (3, 64),
            (2, 127),
            (1, 1024),
            (1, 1025),
            (1, 2503),
        ] {
            for (values, long) in [
                ("different", many_numbers(dtype, 41, rows * columns + 3)?),
                ("ties", ties(dtype, 42, rows * columns + 3)?),
            ] {
                // From an offset, too.
                let matrix = long.to_device(&gpu)?.narrow(0, 3, rows * columns)?;
                let matrix = matrix.reshape((rows, columns))?;
                check_sorted(&format!("{rows} x {columns} {values}"), &matrix)?;
            }
        }
    }
    // More than a grid's second dimension takes, whatever the type.
    let many = ties(DType::F16, 43, 66_000 * 3)?.to_device(&gpu)?;
    check_sorted("66,000 rows", &many.reshape((66_000, 3))?)
}

#[test]
fn nan_infinities_and_zeroes() -> Result<()> {
    let gpu = device()?;
    for dtype in WIDE_FLOATS {
        let mut values = floats(&many_numbers(dtype, 44, 300)?)?;
        for (place, value) in [
            (0, f64::NAN),
            (17, f64::NAN),
            (18, f64::INFINITY),
            (100, f64::NEG_INFINITY),
            (150, 0.0),
            (151, -0.0),
            (152, 0.0),
            (200, -f64::NAN),
            (250, f64::INFINITY),
            (299, f64::NAN),
        ] {
            values[place] = value;
        }
        let matrix = from_floats(&values, dtype)?
            .to_device(&gpu)?
            .reshape((3, 100))?;
        check_sorted("special values", &matrix)?;
    }
    Ok(())
}

/// Candle's kernel sorts a row in LDS, at four bytes a column and padded: longer rows are sorted in memory.
#[test]
fn rows_that_do_not_fit_lds() -> Result<()> {
    let gpu = device()?;
    for dtype in all_dtypes() {
        // Runs are of 1,024: the last one is of one column, whole, or of all but one.
        for (rows, columns, values) in [
            (2, 16_385, many_numbers as fn(_, _, _) -> _),
            (1, 17_408, ties),
            (1, 17_407, many_numbers),
        ] {
            let long: Tensor = values(dtype, 45, rows * columns + 3)?;
            let matrix = long.to_device(&gpu)?.narrow(0, 3, rows * columns)?;
            let matrix = matrix.reshape((rows, columns))?;
            check_sorted(&format!("{rows} x {columns}"), &matrix)?;
        }
    }
    Ok(())
}

/// More rows than are sorted together, and a row of many merges.
#[test]
fn many_and_very_long_rows() -> Result<()> {
    let gpu = device()?;
    for (rows, columns) in [(60, 20_011), (1, 300_000)] {
        let matrix = ties(DType::F32, 47, rows * columns)?.to_device(&gpu)?;
        let matrix = matrix.reshape((rows, columns))?;
        check_sorted(&format!("{rows} x {columns}"), &matrix)?;
        let (values, places) = matrix.sort_last_dim(false)?;
        ensure!(values.dims() == matrix.dims() && places.dims() == matrix.dims());
        let mut expected = floats(&matrix)?;
        for row in expected.chunks_mut(columns) {
            row.sort_by(|a, b| order(b, a));
        }
        ensure!(floats(&values)? == expected, "{rows} x {columns}: values");
    }
    Ok(())
}

#[test]
fn special_values_in_rows_that_do_not_fit_lds() -> Result<()> {
    let gpu = device()?;
    const SPECIAL: [f64; 7] = [
        f64::NAN,
        -f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -0.0,
        1.0,
    ];
    for dtype in WIDE_FLOATS {
        let mut values = floats(&ties(dtype, 48, 17_000)?)?;
        for (place, value) in values
            .iter_mut()
            .enumerate()
            .filter(|(place, _)| place % 3 == 0)
        {
            *value = SPECIAL[place / 3 % SPECIAL.len()];
        }
        let matrix = from_floats(&values, dtype)?.to_device(&gpu)?;
        check_sorted("special values", &matrix.reshape((1, 17_000))?)?;
    }
    Ok(())
}
