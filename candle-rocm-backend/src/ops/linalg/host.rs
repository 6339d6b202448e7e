//! Small matrices on the CPU, in f64.

use candle_core::{CpuStorage, DType, Result, Tensor};

use super::call::{Call, Triangle};

/// The elements of a tensor.
fn numbers(x: &Tensor) -> Result<Vec<f64>> {
    x.flatten_all()?.to_dtype(DType::F64)?.to_vec1()
}

/// Elements of a dtype, one of both.
fn stored(numbers: Vec<f64>, dtype: DType) -> CpuStorage {
    match dtype {
        DType::F64 => CpuStorage::F64(numbers),
        _ => CpuStorage::F32(numbers.into_iter().map(|x| x as f32).collect()),
    }
}

/// Decompositions, and the rows' order.
pub(super) fn lu(call: &Call, a: &Tensor) -> Result<(CpuStorage, CpuStorage)> {
    let n = call.n;
    let mut all = numbers(a)?;
    let mut rows = Vec::with_capacity(call.batch * n);
    for matrix in all.chunks_mut(n * n) {
        let mut order: Vec<u32> = (0..n as u32).collect();
        for step in 0..n {
            let size = |row: usize| matrix[row * n + step].abs();
            let larger = |best: usize, row: usize| if size(row) > size(best) { row } else { best };
            let pivot = (step + 1..n).fold(step, larger);
            order.swap(step, pivot);
            for column in 0..n {
                matrix.swap(step * n + column, pivot * n + column);
            }
            for row in step + 1..n {
                let factor = matrix[row * n + step] / matrix[step * n + step];
                matrix[row * n + step] = factor;
                for column in step + 1..n {
                    matrix[row * n + column] -= factor * matrix[step * n + column];
                }
            }
        }
        rows.extend(order);
    }
    Ok((stored(all, a.dtype()), CpuStorage::U32(rows)))
}

pub(super) fn cholesky(call: &Call, a: &Tensor) -> Result<CpuStorage> {
    let n = call.n;
    let mut all = numbers(a)?;
    for matrix in all.chunks_mut(n * n) {
        for row in 0..n {
            for column in 0..=row {
                let dot = |k: usize| matrix[row * n + k] * matrix[column * n + k];
                let rest = matrix[row * n + column] - (0..column).map(dot).sum::<f64>();
                matrix[row * n + column] = match row == column {
                    true => rest.sqrt(),
                    false => rest / matrix[column * n + column],
                };
            }
            matrix[row * n + row + 1..(row + 1) * n].fill(0.0);
        }
    }
    Ok(stored(all, a.dtype()))
}

pub(super) fn triangular(
    call: &Call,
    a: &Tensor,
    b: &Tensor,
    triangle: Triangle,
) -> Result<CpuStorage> {
    let (n, columns) = (call.n, call.columns);
    let (matrices, mut all) = (numbers(a)?, numbers(b)?);
    for (matrix, x) in matrices.chunks(n * n).zip(all.chunks_mut(n * columns)) {
        let of = |row: usize, column: usize| match triangle.transposed {
            true => matrix[column * n + row],
            false => matrix[row * n + column],
        };
        let is_forward = triangle.upper == triangle.transposed;
        for i in 0..n {
            let step = if is_forward { i } else { n - 1 - i };
            let before = if is_forward { 0..step } else { step + 1..n };
            for column in 0..columns {
                let dot = |k: usize| of(step, k) * x[k * columns + column];
                let rest = x[step * columns + column] - before.clone().map(dot).sum::<f64>();
                x[step * columns + column] = match triangle.unit {
                    true => rest,
                    false => rest / of(step, step),
                };
            }
        }
    }
    Ok(stored(all, b.dtype()))
}
