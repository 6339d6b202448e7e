//! Matrix products through Candle.

use anyhow::{ensure, Result};
use candle_core::Tensor;
use candle_rocm_tests::device;

use super::compare::{check, Nearness};
use super::inputs::*;

/// Batches, rows, columns, and the length of the sums.
const SIZES: [(usize, [usize; 3]); 12] = [
    (1, [1, 1, 1]),
    (1, [1, 17, 64]),
    (3, [5, 7, 11]),
    (2, [16, 16, 16]),
    (1, [31, 33, 37]),
    (2, [64, 65, 13]),
    (1, [129, 3, 70]),
    (1, [2, 300, 515]),
    (4, [1, 1, 257]),
    (2, [0, 5, 3]),
    (2, [4, 5, 0]),
    (0, [4, 5, 6]),
];

#[test]
fn products_in_every_layout() -> Result<()> {
    let gpu = device()?;
    for dtype in WIDE_FLOATS {
        let long = [
            many_numbers(dtype, 51, 200_000)?.to_device(&gpu)?,
            many_numbers(dtype, 52, 200_000)?.to_device(&gpu)?,
        ];
        for (batch, [m, n, k]) in SIZES {
            let straight = |long: &Tensor, rows, columns| {
                long.narrow(0, 1, batch * rows * columns)?
                    .reshape((batch, rows, columns))
            };
            let turned = |long: &Tensor, rows, columns| {
                long.narrow(0, 1, batch * rows * columns)?
                    .reshape((batch, columns, rows))?
                    .transpose(1, 2)
            };
            // Batches inside: (rows, batch, columns), as attention has its heads.
            let woven = |long: &Tensor, rows, columns| {
                long.narrow(0, 1, batch * rows * columns)?
                    .reshape((rows, batch, columns))?
                    .transpose(0, 1)
            };
            // Rows that are further apart than they are long.
            let spaced = |long: &Tensor, rows, columns: usize| {
                long.narrow(0, 0, batch * rows * (columns + 3))?
                    .reshape((batch, rows, columns + 3))?
                    .narrow(2, 2, columns)
            };
            type Layout<'a> = &'a dyn Fn(&Tensor, usize, usize) -> candle_core::Result<Tensor>;
            let layouts: [(&str, Layout); 4] = [
                ("straight", &straight),
                ("transposed", &turned),
                ("batches inside", &woven),
                ("columns narrowed", &spaced),
            ];
            for (left_name, left) in layouts {
                for (right_name, right) in layouts {
                    let inputs = [left(&long[0], m, k)?, right(&long[1], k, n)?];
                    let what = format!(
                        "matmul of {dtype:?}, {batch} x {m} x {n} x {k}, {left_name} by {right_name}"
                    );
                    let contiguous: Vec<Tensor> = inputs
                        .iter()
                        .map(Tensor::force_contiguous)
                        .collect::<candle_core::Result<_>>()?;
                    match inputs[0].matmul(&inputs[1]) {
                        Ok(_) => {
                            check(&what, &inputs, Nearness::Sum(0.0), &|x| x[0].matmul(&x[1]))?
                        }
                        Err(error) => {
                            // Candle's host code refuses strides that a BLAS cannot have, and says so.
                            let error = error.to_string();
                            ensure!(
                                error.contains("matmul is only supported"),
                                "{what}: {error}"
                            );
                            check(&what, &contiguous, Nearness::Sum(0.0), &|x| {
                                x[0].matmul(&x[1])
                            })?;
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

#[test]
fn batches_are_broadcast() -> Result<()> {
    let gpu = device()?;
    for dtype in WIDE_FLOATS {
        let long = numbers(dtype, 53)?.to_device(&gpu)?;
        let left = long.narrow(0, 0, 2 * 3 * 5 * 7)?.reshape((2, 3, 5, 7))?;
        let right = long.narrow(0, 500, 7 * 11)?.reshape((7, 11))?;
        let what = format!("broadcast_matmul of {dtype:?}");
        check(&what, &[left, right], Nearness::Sum(0.0), &|x| {
            x[0].broadcast_matmul(&x[1])
        })?;
        let matrix = long.narrow(0, 700, 63)?.reshape((9, 7))?;
        let vector = long.narrow(0, 900, 7)?;
        let what = format!("mv of {dtype:?}");
        check(&what, &[matrix, vector], Nearness::Sum(0.0), &|x| {
            x[0].mv(&x[1])
        })?;
    }
    Ok(())
}
