//! Sorts, the largest elements and sums along a dimension, by candle_rocm_backend's operators.

use candle_core::{Result, Tensor, D};
use candle_rocm_backend::ops;

use crate::data::Range;
use crate::operator::{Maker, Operator};

type Run = fn(&Tensor) -> Result<Tensor>;

/// Of one matrix. Those with two results time both.
const OPERATORS: [(&str, Run); 4] = [
    ("sort_pairs", |x| Ok(ops::sort(x, true)?.0)),
    ("topk_50", |x| Ok(ops::topk(x, 50, true)?.0)),
    ("cumsum_last", |x| ops::cumsum(x, D::Minus1)),
    ("cumsum_first", |x| ops::cumsum(x, 0)),
];

/// Their names.
#[cfg(test)]
pub fn names() -> impl Iterator<Item = &'static str> {
    OPERATORS.iter().map(|(name, _)| *name)
}

/// The operator of this name on the case's matrix.
pub fn make(op: &str, maker: &Maker) -> Option<anyhow::Result<Operator>> {
    let (_, run) = *OPERATORS.iter().find(|(name, _)| *name == op)?;
    let x = maker.values(maker.dims, Range::Signed, 0);
    Some(x.map(|x| Operator::new([x], move |x| run(&x[0]))))
}
