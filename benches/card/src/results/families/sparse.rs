//! Sparse matrices by vectors and by dense matrices: of small integers, whose sums are exact in whatever order.

use candle_core::{Device, Result, Tensor};
use candle_rocm_backend::ops::sparse::SparseMatrix;
use parity::case::Input;
use parity::numbers::WIDE_FLOATS;

use crate::results::ladder::{indices, small, Kind, Ladders};

const EXACT: Kind = Kind {
    top: 1027,
    least: 1,
    lawful: None,
    tolerance: Some([0., 0., 0.]),
};

/// The numbers of the longest row: sums of as many products of small integers are exact in f16.
const LONGEST: usize = 40;
/// The numbers of a row in ELL.
const WIDTH: usize = 9;
/// Columns of the dense matrix.
const ACROSS: usize = 9;

/// Columns of a matrix of so many rows.
fn inner(rows: usize) -> usize {
    rows / 2 + 3
}

/// Where rows of 0 to 12 numbers begin, and one of [`LONGEST`] in the middle; and how many numbers there are.
fn offsets(rows: usize) -> Result<(Input, usize)> {
    let mut offsets = vec![0u32];
    let mut stored = 0;
    for row in 0..rows {
        stored += if row == rows / 2 {
            LONGEST
        } else {
            row % 7 * 2
        };
        offsets.push(stored as u32);
    }
    let offsets = Tensor::new(offsets, &Device::Cpu)?;
    Ok((Input::Fixed(offsets), stored))
}

/// Columns of ELL, of which every third is padding.
fn padded(rows: usize, seed: u64) -> Result<Input> {
    let Input::Fixed(columns) = indices(inner(rows), seed, &[rows * WIDTH])? else {
        candle_core::bail!("indices are fixed");
    };
    let mut columns = columns.to_vec1::<u32>()?;
    columns
        .iter_mut()
        .step_by(3)
        .for_each(|column| *column = u32::MAX);
    let columns = Tensor::from_vec(columns, (rows, WIDTH), &Device::Cpu)?;
    Ok(Input::Fixed(columns))
}

pub(super) fn add(ladders: &mut Ladders) {
    for dtype in WIDE_FLOATS {
        let of = |name: &str| format!("{name} {}", dtype.as_str());
        let csr = move |rows: usize, dense: &[usize]| {
            let (offsets, stored) = offsets(rows)?;
            Ok(vec![
                offsets,
                indices(inner(rows), 111, &[stored])?,
                small(dtype, 112, &[stored])?,
                small(dtype, 113, dense)?,
            ])
        };
        let by_csr = |x: &[Tensor]| {
            let shape = (x[0].elem_count() - 1, x[3].dims()[0]);
            SparseMatrix::from_csr(shape, &x[0], &x[1], &x[2])?.matmul(&x[3])
        };
        let vector = move |rows: usize| csr(rows, &[inner(rows)]);
        ladders.add(EXACT, of("csr by a vector"), vector, by_csr);
        let matrix = move |rows: usize| csr(rows, &[inner(rows), ACROSS]);
        ladders.add(EXACT, of("csr by a matrix"), matrix, by_csr);
        let coo = move |rows: usize| {
            let stored = 3 * rows + 1;
            Ok(vec![
                indices(rows, 114, &[stored])?,
                indices(inner(rows), 115, &[stored])?,
                small(dtype, 116, &[stored])?,
                small(dtype, 117, &[inner(rows), ACROSS])?,
            ])
        };
        ladders.add(EXACT, of("coo by a matrix"), coo, |x| {
            // As many rows as the triples were drawn for.
            let shape = ((x[0].elem_count() - 1) / 3, x[3].dims()[0]);
            SparseMatrix::from_coo(shape, &x[0], &x[1], &x[2])?.matmul(&x[3])
        });
        let ell = move |rows: usize| {
            Ok(vec![
                padded(rows, 118)?,
                small(dtype, 119, &[rows, WIDTH])?,
                small(dtype, 120, &[inner(rows)])?,
            ])
        };
        ladders.add(EXACT, of("ell by a vector"), ell, |x| {
            let shape = (x[0].dims()[0], x[2].dims()[0]);
            SparseMatrix::from_ell(shape, &x[0], &x[1])?.matmul(&x[2])
        });
    }
}
