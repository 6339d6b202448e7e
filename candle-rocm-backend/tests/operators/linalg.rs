//! Decompositions of small matrices, and solves.

use candle_core::{DType, Device, Result, Tensor, D};
use candle_rocm_backend::ops::linalg::{self, Triangle};

use crate::common::numbers;
use crate::{
    assert_close, central_differences, devices, dot, normal, rounding, variable, weighted_sum,
};

const DTYPES: [DType; 2] = [DType::F32, DType::F64];
const SIZES: [usize; 8] = [1, 2, 5, 8, 17, 32, 33, 64];

/// Rounded in each of n steps, of numbers that grow little.
fn bound(n: usize, dtype: DType) -> f64 {
    16.0 * n as f64 * rounding(dtype)
}

/// (rows, inner) x (inner, columns), in f64.
fn product(a: &[f64], b: &[f64], inner: usize, columns: usize) -> Vec<f64> {
    let mut result = Vec::new();
    for row in a.chunks(inner) {
        for column in 0..columns {
            result.push((0..inner).map(|k| row[k] * b[k * columns + column]).sum());
        }
    }
    result
}

fn transposed(a: &[f64], n: usize) -> Vec<f64> {
    (0..n * n).map(|i| a[i % n * n + i / n]).collect()
}

/// Some elements of a matrix, 0 elsewhere, and 1 on the diagonal if it is `unit`.
fn triangle(a: &[f64], n: usize, upper: bool, unit: bool) -> Vec<f64> {
    let of = |i: usize| {
        let (row, column) = (i / n, i % n);
        match (row == column, (row < column) == upper) {
            (true, _) if unit => 1.0,
            (true, _) | (_, true) => a[i],
            _ => 0.0,
        }
    };
    (0..n * n).map(of).collect()
}

/// Symmetric matrices whose eigenvalues are 1 and above.
fn positive(seed: u64, batch: usize, n: usize, dtype: DType, device: &Device) -> Result<Tensor> {
    let a = (normal(seed, &[batch, n, n], DType::F64, &Device::Cpu)? * (n as f64).powf(-0.5))?;
    let a = a.matmul(&a.transpose(1, 2)?.contiguous()?)?;
    let one = Tensor::eye(n, DType::F64, &Device::Cpu)?;
    a.broadcast_add(&one)?.to_dtype(dtype)?.to_device(device)
}

#[test]
fn lu_gives_the_rows_in_order() -> Result<()> {
    for device in devices() {
        for dtype in DTYPES {
            for n in SIZES {
                let a = normal(n as u64, &[3, n, n], dtype, &device)?;
                let (lu, rows) = linalg::lu(&a)?;
                assert_eq!((lu.dims(), rows.dims()), (&[3, n, n][..], &[3, n][..]));
                let (lu, rows, a) = (numbers(&lu)?, rows.to_vec2::<u32>()?, numbers(&a)?);
                for (i, rows) in rows.iter().enumerate() {
                    let (lu, a) = (&lu[i * n * n..][..n * n], &a[i * n * n..][..n * n]);
                    let lower = triangle(lu, n, false, true);
                    assert!(
                        lower.iter().all(|x| x.abs() <= 1.0),
                        "{dtype:?} {n}: pivots"
                    );
                    let found = product(&lower, &triangle(lu, n, true, false), n, n);
                    let expected: Vec<f64> = rows
                        .iter()
                        .flat_map(|&row| a[row as usize * n..][..n].to_vec())
                        .collect();
                    let found = Tensor::new(found, &Device::Cpu)?;
                    assert_close(
                        &found,
                        &expected,
                        bound(n, dtype),
                        &format!("{dtype:?} {n}"),
                    )?;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn systems_are_solved() -> Result<()> {
    for device in devices() {
        for (n, columns) in [(3, 1), (20, 5)] {
            let a = positive(1, 2, n, DType::F64, &device)?;
            let x = normal(2, &[2, n, columns], DType::F64, &device)?;
            let b = a.matmul(&x)?;
            let (lu, rows) = linalg::lu(&a)?;
            let found = linalg::lu_solve(&lu, &rows, &b)?;
            // The matrices' condition is below 10.
            let bound = 10.0 * bound(n, DType::F64);
            assert_close(&found, &numbers(&x)?, bound, &format!("{n} by {columns}"))?;
        }
    }
    Ok(())
}

#[test]
fn roots_of_positive_matrices_are_found() -> Result<()> {
    for device in devices() {
        for dtype in DTYPES {
            for n in SIZES {
                let a = positive(n as u64, 5, n, dtype, &device)?;
                let l = numbers(&linalg::cholesky(&a)?)?;
                let a = numbers(&a)?;
                for (l, a) in l.chunks(n * n).zip(a.chunks(n * n)) {
                    assert_eq!(l, triangle(l, n, false, false), "{dtype:?} {n}: a triangle");
                    let found = Tensor::new(product(l, &transposed(l, n), n, n), &Device::Cpu)?;
                    assert_close(&found, a, bound(n, dtype), &format!("{dtype:?} {n}"))?;
                }
            }
        }
        let negative = Tensor::new(&[[1f32, 2.], [2., 1.]], &device)?;
        assert!(numbers(&linalg::cholesky(&negative)?)?[3].is_nan());
    }
    Ok(())
}

/// Each of the eight kinds.
fn triangles() -> impl Iterator<Item = Triangle> {
    (0..8).map(|bits| Triangle {
        upper: bits & 1 != 0,
        transposed: bits & 2 != 0,
        unit: bits & 4 != 0,
    })
}

/// What is solved: the triangle as it is meant, in f64.
fn meant(a: &[f64], n: usize, of: Triangle) -> Vec<f64> {
    let part = triangle(a, n, of.upper, of.unit);
    match of.transposed {
        true => transposed(&part, n),
        false => part,
    }
}

#[test]
fn triangles_are_solved() -> Result<()> {
    for device in devices() {
        for dtype in DTYPES {
            for (n, columns, batch) in [(1, 1, 3), (5, 3, 9), (17, 1, 2), (33, 40, 2), (64, 7, 1)] {
                // What is beyond the triangle is large, and the rest small beside the diagonal.
                let one = Tensor::eye(n, dtype, &device)?;
                let small = (normal(3, &[batch, n, n], dtype, &device)? * (0.3 / n as f64))?;
                let a = small.broadcast_add(&one)?;
                let b = normal(4, &[batch, n, columns], dtype, &device)?;
                for of in triangles() {
                    let x = linalg::triangular_solve(&a, &b, of)?;
                    assert_eq!((x.dtype(), x.dims()), (dtype, b.dims()));
                    let (a, x) = (numbers(&a)?, numbers(&x)?);
                    let each = a.chunks(n * n).zip(x.chunks(n * columns));
                    let found = each.flat_map(|(a, x)| product(&meant(a, n, of), x, n, columns));
                    let found = Tensor::new(found.collect::<Vec<f64>>(), &Device::Cpu)?;
                    let what = format!("{dtype:?} {n} by {columns}: {of:?}");
                    assert_close(&found, &numbers(&b)?, bound(n, dtype), &what)?;
                }
            }
        }
        // Neither is contiguous.
        let a = positive(5, 3, 4, DType::F32, &device)?
            .transpose(1, 2)?
            .narrow(0, 1, 2)?;
        let b = normal(6, &[2, 5, 4], DType::F32, &device)?.transpose(1, 2)?;
        let x = linalg::triangular_solve(&a, &b, Triangle::default())?;
        let copies = (a.force_contiguous()?, b.force_contiguous()?);
        let expected = linalg::triangular_solve(&copies.0, &copies.1, Triangle::default())?;
        assert_eq!(numbers(&x)?, numbers(&expected)?);
    }
    Ok(())
}

#[test]
fn gradients_of_solves() -> Result<()> {
    let (n, columns) = (4, 2);
    for device in devices() {
        let a = numbers(&positive(7, 1, n, DType::F64, &device)?)?;
        let b = numbers(&normal(8, &[1, n, columns], DType::F64, &device)?)?;
        let by = numbers(&normal(9, &[1, n, columns], DType::F64, &device)?)?;
        for of in triangles() {
            let solved = |a: &[f64], b: &[f64]| -> f64 {
                let solve = || {
                    let a = Tensor::from_slice(a, (1, n, n), &Device::Cpu)?;
                    let b = Tensor::from_slice(b, (1, n, columns), &Device::Cpu)?;
                    numbers(&linalg::triangular_solve(&a, &b, of)?)
                };
                dot(&solve().expect("the CPU's, which other tests hold"), &by)
            };
            let vars = [
                variable(&a, &[1, n, n], DType::F64, &device)?,
                variable(&b, &[1, n, columns], DType::F64, &device)?,
            ];
            let x = linalg::triangular_solve(&vars[0], &vars[1], of)?;
            let gradients = weighted_sum(&x, &by)?.backward()?;
            let exact = [
                central_differences(&a, |a| solved(a, &b)),
                central_differences(&b, |b| solved(&a, b)),
            ];
            for (var, exact) in vars.iter().zip(&exact) {
                let found = gradients.get(var).expect("a gradient");
                assert_close(found, exact, 1e-7, &format!("{of:?}"))?;
            }
        }
    }
    Ok(())
}

/// A number and its mirrored one are changed together: the gradient is the sum of both.
#[test]
fn gradients_of_roots() -> Result<()> {
    let n = 4;
    for device in devices() {
        let a = numbers(&positive(10, 1, n, DType::F64, &device)?)?;
        let by = numbers(&normal(11, &[1, n, n], DType::F64, &device)?)?;
        let var = variable(&a, &[1, n, n], DType::F64, &device)?;
        let l = linalg::cholesky(&var)?;
        let gradients = weighted_sum(&l, &by)?.backward()?;
        let found = gradients.get(&var).expect("a gradient");
        let turned = found.transpose(D::Minus1, D::Minus2)?;
        let both = (found + &turned)?;
        // The lower triangle is read: what is changed there is changed in both.
        let exact = central_differences(&a, |a| {
            let root = || {
                let a = Tensor::from_slice(a, (1, n, n), &Device::Cpu)?;
                numbers(&linalg::cholesky(&a)?)
            };
            dot(&root().expect("the CPU's, which other tests hold"), &by)
        });
        let both = numbers(&both)?;
        for row in 0..n {
            for column in 0..=row {
                let times = if row == column { 0.5 } else { 1.0 };
                let (found, exact) = (times * both[row * n + column], exact[row * n + column]);
                assert!(
                    (found - exact).abs() < 1e-7,
                    "{row}, {column}: {found} for {exact}"
                );
            }
        }
    }
    Ok(())
}

#[test]
fn nothing_and_bad_operands() -> Result<()> {
    for device in devices() {
        let nothing = Tensor::zeros((0, 3, 3), DType::F32, &device)?;
        assert_eq!(linalg::cholesky(&nothing)?.dims(), [0, 3, 3]);
        assert_eq!(linalg::lu(&nothing)?.1.dims(), [0, 3]);
        for (dims, dtype) in [
            (vec![2, 3], DType::F32),
            (vec![65, 65], DType::F32),
            (vec![4], DType::F32),
            (vec![3, 3], DType::F16),
        ] {
            let bad = Tensor::zeros(&dims[..], dtype, &device)?;
            let error = linalg::cholesky(&bad).unwrap_err().to_string();
            assert!(
                error.contains("cholesky: ") && error.contains(&format!("{dims:?}")),
                "{error}"
            );
        }
        let a = Tensor::zeros((2, 3, 3), DType::F32, &device)?;
        let b = Tensor::zeros((3, 3, 1), DType::F32, &device)?;
        let error = linalg::triangular_solve(&a, &b, Triangle::default()).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("triangular_solve: b has shape [3, 3, 1]"),
            "{error}"
        );
    }
    Ok(())
}
