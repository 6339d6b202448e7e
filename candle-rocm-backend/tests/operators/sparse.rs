//! Sparse matrices.

use candle_core::{DType, Device, IndexOp as _, Result, Tensor, Var};
use candle_rocm_backend::ops::sparse::SparseMatrix;

use crate::common::{numbers, Random};
use crate::{
    assert_close, central_differences, devices, dot, gradient_bound, normal, rounding, variable,
    weighted_sum,
};

const DTYPES: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];

/// Where a matrix has numbers: (row, column), by rows.
struct Places {
    rows: usize,
    columns: usize,
    at: Vec<(usize, usize)>,
}

impl Places {
    /// Some of a matrix, with empty rows, long ones, and one place twice.
    fn new(seed: u64, rows: usize, columns: usize) -> Self {
        let mut random = Random::new(seed);
        let mut at = Vec::new();
        for row in 0..rows {
            let of = [0, 2, columns / 2, columns][random.below(4)];
            at.extend(
                (0..columns)
                    .filter(|_| random.below(columns) < of)
                    .map(|c| (row, c)),
            );
        }
        at.push((rows - 1, 0));
        at.push((rows - 1, 0));
        Self { rows, columns, at }
    }

    fn shape(&self) -> (usize, usize) {
        (self.rows, self.columns)
    }

    /// Numbers of the places as indices of a dtype.
    fn index(
        &self,
        of: impl Fn(&(usize, usize)) -> usize,
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor> {
        let numbers: Vec<u32> = self.at.iter().map(|at| of(at) as u32).collect();
        Tensor::new(numbers, device)?.to_dtype(dtype)
    }

    fn csr(&self, values: &Tensor, index: DType) -> Result<SparseMatrix> {
        let begin = |row: usize| self.at.iter().filter(|at| at.0 < row).count() as u32;
        let offsets: Vec<u32> = (0..=self.rows).map(begin).collect();
        let offsets = Tensor::new(offsets, values.device())?.to_dtype(index)?;
        let columns = self.index(|at| at.1, index, values.device())?;
        SparseMatrix::from_csr(self.shape(), &offsets, &columns, values)
    }

    fn coo(&self, values: &Tensor, index: DType) -> Result<SparseMatrix> {
        let rows = self.index(|at| at.0, index, values.device())?;
        let columns = self.index(|at| at.1, index, values.device())?;
        SparseMatrix::from_coo(self.shape(), &rows, &columns, values)
    }

    /// The product with a matrix of so many columns, in f64.
    fn product(&self, values: &[f64], dense: &[f64], across: usize) -> Vec<f64> {
        let mut result = vec![0.0; self.rows * across];
        for (&(row, column), value) in self.at.iter().zip(values) {
            for j in 0..across {
                result[row * across + j] += value * dense[column * across + j];
            }
        }
        result
    }
}

/// Results round once, and sums of 64 products in f32 some 64 times more.
fn bound(dtype: DType) -> f64 {
    rounding(dtype)
        + 64.0
            * rounding(if dtype == DType::F64 {
                dtype
            } else {
                DType::F32
            })
}

#[test]
fn compressed_rows_are_multiplied() -> Result<()> {
    let places = Places::new(1, 37, 50);
    for device in devices() {
        for dtype in DTYPES {
            let values = normal(2, &[places.at.len()], dtype, &device)?;
            let index = if dtype == DType::F16 {
                DType::I64
            } else {
                DType::U32
            };
            let matrix = places.csr(&values, index)?;
            // By elements and by vectors, few and many.
            for across in [1, 3, 8, 70] {
                let dense = normal(3, &[50, across], dtype, &device)?;
                let expected = places.product(&numbers(&values)?, &numbers(&dense)?, across);
                let found = matrix.matmul(&dense)?;
                assert_eq!((found.dtype(), found.dims()), (dtype, &[37, across][..]));
                assert_close(
                    &found,
                    &expected,
                    bound(dtype),
                    &format!("{dtype:?} by {across}"),
                )?;
            }
            let vector = normal(4, &[50], dtype, &device)?;
            let expected = places.product(&numbers(&values)?, &numbers(&vector)?, 1);
            let found = matrix.matmul(&vector)?;
            assert_eq!(found.dims(), [37]);
            assert_close(
                &found,
                &expected,
                bound(dtype),
                &format!("{dtype:?} by a vector"),
            )?;
        }
        // A view of a larger matrix, in another order.
        let values = normal(5, &[places.at.len() + 3], DType::F32, &device)?.i(3..)?;
        let dense = normal(6, &[9, 52], DType::F32, &device)?.t()?.i(1..51)?;
        let expected = places.product(&numbers(&values)?, &numbers(&dense)?, 9);
        let found = places.csr(&values, DType::U32)?.matmul(&dense)?;
        assert_close(&found, &expected, bound(DType::F32), "views")?;
    }
    Ok(())
}

#[test]
fn rows_and_columns_in_any_order_are_multiplied() -> Result<()> {
    for device in devices() {
        let mut places = Places::new(7, 20, 30);
        for is_sorted in [true, false] {
            if !is_sorted {
                let mut random = Random::new(8);
                for i in 1..places.at.len() {
                    places.at.swap(i, random.below(i + 1));
                }
            }
            for index in [DType::U32, DType::I64] {
                let values = normal(9, &[places.at.len()], DType::F32, &device)?;
                let dense = normal(10, &[30, 4], DType::F32, &device)?;
                let expected = places.product(&numbers(&values)?, &numbers(&dense)?, 4);
                let found = places.coo(&values, index)?.matmul(&dense)?;
                assert_close(
                    &found,
                    &expected,
                    bound(DType::F32),
                    &format!("{is_sorted}"),
                )?;
            }
        }
    }
    Ok(())
}

#[test]
fn rows_of_one_length_are_multiplied() -> Result<()> {
    let (rows, width, inner) = (11, 3, 9);
    for device in devices() {
        for index in [DType::U32, DType::I64] {
            let mut random = Random::new(11);
            // A place of four is padding, whose value is no number.
            let padded: Vec<Option<usize>> = (0..rows * width)
                .map(|_| (random.below(4) > 0).then(|| random.below(inner)))
                .collect();
            let columns: Vec<i64> = padded
                .iter()
                .map(|at| at.map_or(-1, |at| at as i64))
                .collect();
            let columns = match index {
                DType::I64 => Tensor::new(columns, &device)?,
                _ => {
                    let columns: Vec<u32> = columns.into_iter().map(|at| at as u32).collect();
                    Tensor::new(columns, &device)?
                }
            };
            let columns = columns.reshape((rows, width))?;
            let mut values = numbers(&normal(12, &[rows * width], DType::F32, &device)?)?;
            let there = |values: &[f64]| {
                let both = padded.iter().zip(values);
                both.map(|(at, &value)| at.map_or(0.0, |_| value))
                    .collect::<Vec<f64>>()
            };
            let at = padded.iter().enumerate();
            let places = Places {
                rows,
                columns: inner,
                at: at.map(|(i, at)| (i / width, at.unwrap_or(0))).collect(),
            };
            let exact = there(&values);
            for (value, at) in values.iter_mut().zip(&padded) {
                if at.is_none() {
                    *value = f64::NAN;
                }
            }
            let values = variable(&values, &[rows, width], DType::F32, &device)?;
            let dense = normal(13, &[inner, 2], DType::F32, &device)?;
            let matrix = SparseMatrix::from_ell((rows, inner), &columns, &values)?;
            let found = matrix.matmul(&dense)?;
            let expected = places.product(&exact, &numbers(&dense)?, 2);
            assert_close(&found, &expected, bound(DType::F32), &format!("{index:?}"))?;
            // Padding has a gradient of 0.
            let gradients = found.sum_all()?.backward()?;
            let found = numbers(gradients.get(&values).expect("a gradient"))?;
            for (found, at) in found.iter().zip(&padded) {
                assert_eq!(*found == 0.0, at.is_none(), "{index:?}");
            }
        }
    }
    Ok(())
}

#[test]
fn gradients_are_those_of_central_differences() -> Result<()> {
    let mut places = Places::new(14, 7, 9);
    for device in devices() {
        for (across, dtype) in [
            (1, DType::F32),
            (3, DType::F64),
            (4, DType::F32),
            (4, DType::F16),
            (2, DType::BF16),
        ] {
            // Sorted on one device, and not on the other.
            places.at.reverse();
            let count = places.at.len();
            let values = numbers(&normal(15, &[count], dtype, &device)?)?;
            let dense = numbers(&normal(16, &[9, across], dtype, &device)?)?;
            let by = numbers(&normal(17, &[7, across], dtype, &device)?)?;
            let vars: [Var; 2] = [
                variable(&values, &[count], dtype, &device)?,
                variable(&dense, &[9, across], dtype, &device)?,
            ];
            let result = places
                .coo(vars[0].as_tensor(), DType::U32)?
                .matmul(&vars[1])?;
            let gradients = weighted_sum(&result, &by)?.backward()?;
            let exact = [
                central_differences(&values, |values| {
                    dot(&places.product(values, &dense, across), &by)
                }),
                central_differences(&dense, |dense| {
                    dot(&places.product(&values, dense, across), &by)
                }),
            ];
            for ((var, exact), what) in vars.iter().zip(&exact).zip(["values", "dense"]) {
                let found = gradients.get(var).expect("a gradient");
                let what = format!("{dtype:?} {across}: {what}");
                assert_close(found, exact, gradient_bound(dtype), &what)?;
            }
        }
    }
    Ok(())
}

#[test]
fn nothing_and_bad_operands() -> Result<()> {
    for device in devices() {
        let values = Tensor::new(&[1f32, 2.], &device)?;
        let columns = Tensor::new(&[0u32, 2], &device)?;
        let matrix = |offsets: &[u32], columns: &Tensor, inner: usize| {
            let offsets = Tensor::new(offsets, &device)?;
            SparseMatrix::from_csr((2, inner), &offsets, columns, &values)
        };
        for (bad, says) in [
            (matrix(&[0, 1, 2], &columns, 2), "columns from 0 to 2"),
            (matrix(&[0, 1], &columns, 3), "offsets have shape [2]"),
            (matrix(&[0, 2, 1], &columns, 3), "offsets from 0 to 1"),
            (matrix(&[0, 3, 2], &columns, 3), "must rise"),
            (matrix(&[0, 1, 2], &values, 3), "must be u32 or i64"),
        ] {
            let error = bad.unwrap_err().to_string();
            assert!(
                error.contains("sparse: ") && error.contains(says),
                "{error}"
            );
        }
        let good = matrix(&[0, 1, 2], &columns, 3)?;
        let error = good.matmul(&values).unwrap_err().to_string();
        assert!(
            error.contains("sparse: a matrix of 2 x 3 by x of shape [2]"),
            "{error}"
        );
        let dense = Tensor::zeros((3, 0), DType::F32, &device)?;
        assert_eq!(good.matmul(&dense)?.dims(), [2, 0]);
        let none = Tensor::zeros(0, DType::U32, &device)?;
        let empty = Tensor::zeros(0, DType::F32, &device)?;
        let offsets = Tensor::zeros(4, DType::U32, &device)?;
        let empty = SparseMatrix::from_csr((3, 2), &offsets, &none, &empty)?;
        assert_eq!(numbers(&empty.matmul(&values)?)?, [0.0; 3]);
    }
    Ok(())
}
