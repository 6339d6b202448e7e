//! Decompositions of small matrices, and solves with them.

use candle_core::{DType, Result, Tensor};
use candle_rocm_backend::ops::linalg::{self, Triangle};
use parity::case::Input;
use parity::numbers::Numbers;

use crate::results::ladder::{any, Kind, Ladders};
use crate::results::lawful::TRANSCENDENTAL;

/// Matrices of a case.
const BATCH: usize = 3;
/// Columns that are solved for.
const COLUMNS: usize = 5;

const KIND: Kind = Kind {
    // The largest that a workgroup holds has 64 rows.
    top: 63,
    least: 1,
    // Divisions and roots.
    lawful: Some(TRANSCENDENTAL),
    // Sums of up to 63 products, each rounded, of matrices whose pivots are larger than all beside them.
    tolerance: Some([2., 2., 64.]),
};

/// Matrices in whose row r the number of column r + `shift` is larger than all others of the row together, so that no two
/// rows are near to be chosen as a pivot; symmetric ones where they are asked for, which then are positive definite.
fn dominant(dtype: DType, seed: u64, n: usize, shift: usize, symmetric: bool) -> Result<Input> {
    let Numbers::Floats(mut all) = Numbers::any(dtype, seed, BATCH * n * n) else {
        candle_core::bail!("{dtype:?} is no type of floats");
    };
    for matrix in all.chunks_exact_mut(n * n) {
        for row in 0..n {
            if symmetric {
                for column in 0..row {
                    matrix[column * n + row] = matrix[row * n + column];
                }
            }
            matrix[row * n + (row + shift) % n] += 4.0 * n as f64;
        }
    }
    let tensor = Numbers::Floats(all).tensor(dtype, &[BATCH, n, n])?;
    Ok(Input::Number(tensor))
}

pub(super) fn add(ladders: &mut Ladders) {
    for dtype in [DType::F32, DType::F64] {
        let of = |name: &str| format!("{name} {}", dtype.as_str());
        let general = move |n: usize| {
            Ok(vec![
                dominant(dtype, 101, n, n / 3, false)?,
                any(dtype, 102, &[BATCH, n, COLUMNS])?,
            ])
        };
        ladders.add(KIND, of("lu"), general, |x| Ok(linalg::lu(&x[0])?.0));
        ladders.add(KIND, of("lu, solve"), general, |x| {
            let (lu, rows) = linalg::lu(&x[0])?;
            linalg::lu_solve(&lu, &rows, &x[1])
        });
        let definite = move |n: usize| Ok(vec![dominant(dtype, 103, n, 0, true)?]);
        ladders.add(KIND, of("cholesky"), definite, |x| linalg::cholesky(&x[0]));
        let triangle = move |n: usize| {
            Ok(vec![
                dominant(dtype, 104, n, 0, false)?,
                any(dtype, 105, &[BATCH, n, COLUMNS])?,
            ])
        };
        ladders.add(KIND, of("lower triangle"), triangle, |x| {
            linalg::triangular_solve(&x[0], &x[1], Triangle::default())
        });
        ladders.add(
            KIND,
            of("upper triangle, transposed"),
            triangle,
            |x: &[Tensor]| {
                let upper = Triangle {
                    upper: true,
                    transposed: true,
                    unit: false,
                };
                linalg::triangular_solve(&x[0], &x[1], upper)
            },
        );
    }
}
