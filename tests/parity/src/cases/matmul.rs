//! Matrix products.

use candle_core::{Result, Tensor};

use super::{any, name, List};
use crate::numbers::WIDE_FLOATS;

/// Batch, rows, columns, length of the sums.
const SIZES: [(usize, [usize; 3]); 8] = [
    (1, [1, 1, 1]),
    (1, [1, 17, 64]),
    (3, [5, 7, 11]),
    (2, [16, 16, 16]),
    (1, [31, 33, 37]),
    (1, [65, 3, 70]),
    (1, [2, 30, 515]),
    (4, [1, 1, 257]),
];

type Make = fn(&Tensor, [usize; 3]) -> Result<Tensor>;

/// Of a vector, with batch, rows and columns.
const LAYOUTS: [(&str, Make); 4] = [
    ("straight", |x, [b, m, n]| {
        x.narrow(0, 0, b * m * n)?.reshape((b, m, n))
    }),
    ("transposed", |x, [b, m, n]| {
        let turned = x.narrow(0, 0, b * m * n)?.reshape((b, n, m))?;
        turned.transpose(1, 2)
    }),
    // As attention has its heads.
    ("batches inside", |x, [b, m, n]| {
        let woven = x.narrow(0, 0, b * m * n)?.reshape((m, b, n))?;
        woven.transpose(0, 1)
    }),
    ("columns narrowed, odd offset", |x, [b, m, n]| {
        let wide = x.narrow(0, 1, b * m * (n + 3))?;
        wide.reshape((b, m, n + 3))?.narrow(2, 2, n)
    }),
];

/// What cuBLAS has no strides for, Candle's host code refuses: it is copied first, as its message asks.
fn product(left: &Tensor, right: &Tensor) -> Result<Tensor> {
    match left.matmul(right) {
        Err(error) if error.to_string().contains("matmul is only supported") => {
            left.contiguous()?.matmul(&right.contiguous()?)
        }
        result => result,
    }
}

pub(super) fn add(list: &mut List) -> Result<()> {
    for dtype in WIDE_FLOATS {
        for (batch, [m, n, k]) in SIZES {
            for (left_name, left) in LAYOUTS {
                for (right_name, right) in LAYOUTS {
                    let what = format!(
                        "{} {batch} x {m} x {n} x {k}, {left_name} by {right_name}",
                        name(dtype)
                    );
                    let inputs = vec![
                        any(dtype, 51, &[batch * m * (k + 3) + 1])?,
                        any(dtype, 52, &[batch * k * (n + 3) + 1])?,
                    ];
                    list.add("matmul", what, inputs, move |x| {
                        product(&left(&x[0], [batch, m, k])?, &right(&x[1], [batch, k, n])?)
                    });
                }
            }
        }
        let inputs = vec![any(dtype, 53, &[2, 3, 5, 7])?, any(dtype, 54, &[7, 11])?];
        list.add(
            "matmul",
            format!("{}, broadcast", name(dtype)),
            inputs,
            |x| x[0].broadcast_matmul(&x[1]),
        );
        let inputs = vec![any(dtype, 55, &[9, 7])?, any(dtype, 56, &[7])?];
        let what = format!("{}, matrix by vector", name(dtype));
        list.add("matmul", what, inputs, |x| x[0].mv(&x[1]));
        let inputs = vec![any(dtype, 57, &[2, 4, 33])?, any(dtype, 58, &[19, 33])?];
        list.add("matmul", format!("{}, linear", name(dtype)), inputs, |x| {
            candle_core::Module::forward(&candle_nn::Linear::new(x[1].clone(), None), &x[0])
        });
    }
    Ok(())
}
