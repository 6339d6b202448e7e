//! Grouped products of f32 by Candle's own operators, group by group.

use candle_core::{DType, Result, Tensor};

use super::groups::RowGroups;

/// Places that are i32 or u32, on the host.
fn places(x: &Tensor) -> Result<Vec<usize>> {
    let places = x.to_dtype(DType::I64)?.to_vec1::<i64>()?;
    Ok(places
        .into_iter()
        .map(|place| place.max(0) as usize)
        .collect())
}

/// a times the transpose of b.
fn product(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    a.contiguous()?.matmul(&b.contiguous()?.t()?)
}

/// Rows with their groups' matrices, b's of (groups, n, k).
pub(crate) fn by_rows(a: &Tensor, b: &Tensor, groups: &RowGroups) -> Result<Tensor> {
    let starts = places(groups.starts())?;
    let mut splits = Vec::new();
    let mut at = 0;
    let zeros = |rows: usize| Tensor::zeros((rows, b.dims()[1]), a.dtype(), a.device());
    for (group, pair) in starts.windows(2).enumerate() {
        if pair[0] > at {
            splits.push(zeros(pair[0] - at)?);
        }
        if pair[1] > pair[0] {
            let rows = a.narrow(0, pair[0], pair[1] - pair[0])?;
            splits.push(product(&rows, &b.get(group)?)?);
        }
        at = pair[1];
    }
    if groups.rows() > at || splits.is_empty() {
        splits.push(zeros(groups.rows() - at)?);
    }
    Tensor::cat(&splits, 0)
}

/// Each matrix's rows in use; the others are 0.
pub(crate) fn each_in_use(a: &Tensor, b: &Tensor, in_use: &Tensor) -> Result<Tensor> {
    let rows = a.dims()[1];
    let mut all = Vec::new();
    for (group, used) in places(in_use)?.into_iter().enumerate() {
        let used = used.min(rows);
        let made = product(&a.get(group)?.narrow(0, 0, used)?, &b.get(group)?)?;
        all.push(made.pad_with_zeros(0, 0, rows - used)?);
    }
    Tensor::stack(&all, 0)
}

/// Each group's k by itself.
pub(crate) fn each_k(a: &Tensor, b: &Tensor, starts: &Tensor) -> Result<Tensor> {
    let mut all = Vec::new();
    for pair in places(starts)?.windows(2) {
        let part = |x: &Tensor| x.narrow(1, pair[0], pair[1] - pair[0]);
        all.push(match pair[1] - pair[0] {
            0 => Tensor::zeros((a.dims()[0], b.dims()[0]), DType::F32, a.device())?,
            _ => product(&part(a)?, &part(b)?)?,
        });
    }
    Tensor::stack(&all, 0)
}
