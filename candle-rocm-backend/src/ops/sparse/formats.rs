//! The formats in which a sparse matrix is given: checks, and rows in order.

use candle_core::{bail, DType, Result, Tensor};

use super::super::operands::{check_device, check_float, on_gpu};
use super::super::sort::argsort;
use super::kernel;
use super::pattern::{Pattern, NAME};

impl Pattern {
    pub(super) fn from_csr(
        shape: (usize, usize),
        offsets: &Tensor,
        columns: &Tensor,
        values: &Tensor,
    ) -> Result<Self> {
        check_float(NAME, values)?;
        check_index("offsets", offsets, values)?;
        check_index("columns", columns, values)?;
        let stored = vector(values)?;
        check_count("columns", columns, stored)?;
        check_count("offsets", offsets, shape.0 + 1)?;
        let first = number(&offsets.narrow(0, 0, 1)?)?;
        let last = number(&offsets.narrow(0, shape.0, 1)?)?;
        if first != 0 || last != stored as i64 || !is_sorted(offsets)? {
            bail!(
                "{NAME}: offsets from {first} to {last} of {stored} values: they must rise from 0 to the number of values"
            );
        }
        check_below("columns", columns, shape.1)?;
        let mut pattern = Self::new(shape, stored, plain_index(columns)?)?;
        pattern.offsets = Some(plain_index(offsets)?);
        Ok(pattern)
    }

    pub(super) fn from_coo(
        shape: (usize, usize),
        rows: &Tensor,
        columns: &Tensor,
        values: &Tensor,
    ) -> Result<Self> {
        check_float(NAME, values)?;
        check_index("rows", rows, values)?;
        check_index("columns", columns, values)?;
        let stored = vector(values)?;
        check_count("rows", rows, stored)?;
        check_count("columns", columns, stored)?;
        check_below("rows", rows, shape.0)?;
        check_below("columns", columns, shape.1)?;
        let (mut rows, columns) = (plain_index(rows)?, plain_index(columns)?);
        let mut pattern = Self::new(shape, stored, columns)?;
        if !is_sorted(&rows)? {
            let places = argsort(&rows, true)?;
            rows = rows.index_select(&places, 0)?;
            pattern.columns = pattern.columns.index_select(&places, 0)?;
            pattern.places = Some(places);
        }
        pattern.offsets = Some(offsets_of(&rows, shape.0)?);
        Ok(pattern)
    }

    pub(super) fn from_ell(
        shape: (usize, usize),
        columns: &Tensor,
        values: &Tensor,
    ) -> Result<Self> {
        check_float(NAME, values)?;
        check_index("columns", columns, values)?;
        let &[rows, width] = values.dims() else {
            bail!(
                "{NAME}: values of shape {:?}, and rows of as many numbers need two dimensions",
                values.shape()
            );
        };
        if rows != shape.0 || columns.dims() != values.dims() {
            bail!(
                "{NAME}: columns of shape {:?} and values of shape {:?} for {} rows",
                columns.shape(),
                values.shape(),
                shape.0
            );
        }
        let stored = values.elem_count();
        let index = columns.detach().flatten_all()?;
        let padding = match index.dtype() {
            DType::I64 => index.eq(-1i64)?,
            _ => index.eq(u32::MAX)?,
        };
        if stored > 0 {
            let there = padding.where_cond(&index.zeros_like()?, &index)?;
            check_below("columns", &there, shape.1.max(1))?;
        }
        // Candle wraps around: -1 is the largest u32.
        let mut pattern = Self::new(shape, stored, plain_index(&index)?)?;
        pattern.width = width;
        Ok(pattern)
    }
}

/// Whether indices are of a dtype that Candle has for them.
fn check_index(name: &str, index: &Tensor, values: &Tensor) -> Result<()> {
    if !matches!(index.dtype(), DType::U32 | DType::I64) {
        bail!(
            "{NAME}: {name} of shape {:?} are {:?}, and must be u32 or i64",
            index.shape(),
            index.dtype()
        );
    }
    check_device(NAME, name, index, values)
}

/// Elements of a vector of values.
fn vector(values: &Tensor) -> Result<usize> {
    match *values.dims() {
        [count] => Ok(count),
        _ => bail!(
            "{NAME}: values of shape {:?}, and must have one dimension",
            values.shape()
        ),
    }
}

fn check_count(name: &str, index: &Tensor, count: usize) -> Result<()> {
    if index.dims() != [count] {
        bail!(
            "{NAME}: {name} have shape {:?}, and must have [{count}]",
            index.shape()
        );
    }
    Ok(())
}

/// The one number of a tensor of indices.
fn number(index: &Tensor) -> Result<i64> {
    index
        .flatten_all()?
        .to_dtype(DType::I64)?
        .get(0)?
        .to_scalar()
}

/// Whether all indices are below `bound`, and none below 0.
fn check_below(name: &str, index: &Tensor, bound: usize) -> Result<()> {
    if index.elem_count() == 0 {
        return Ok(());
    }
    let (least, most) = (number(&index.min_all()?)?, number(&index.max_all()?)?);
    if least < 0 || most >= bound as i64 {
        bail!("{NAME}: {name} from {least} to {most}: they must be from 0 to below {bound}");
    }
    Ok(())
}

/// Whether no index is below the one before.
fn is_sorted(index: &Tensor) -> Result<bool> {
    let count = index.elem_count();
    if count < 2 {
        return Ok(true);
    }
    let falls = index
        .narrow(0, 1, count - 1)?
        .lt(&index.narrow(0, 0, count - 1)?)?;
    Ok(number(&falls.max_all()?)? == 0)
}

/// Indices as kernels take them.
fn plain_index(index: &Tensor) -> Result<Tensor> {
    index.detach().to_dtype(DType::U32)?.contiguous()
}

/// Where each of so many rows begins among stored numbers of these rows, which are in order; and the last one's end.
fn offsets_of(rows: &Tensor, count: usize) -> Result<Tensor> {
    if on_gpu(rows) {
        return kernel::offsets(rows, count);
    }
    let numbers = rows.to_vec1::<u32>()?;
    let begins = (0..=count).map(|row| numbers.partition_point(|&of| (of as usize) < row) as u32);
    Tensor::new(begins.collect::<Vec<u32>>(), rows.device())
}
