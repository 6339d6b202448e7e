//! The operands of grouped products, and their factors.

use candle_core::{bail, Result, Tensor};
use candle_rocm_kernels::grouped::{COLUMNS, DEPTH};

/// The factors of an operand, which are f32, or packed by four along k as exponents in words.
#[derive(Clone, Debug)]
pub(crate) struct Scales {
    pub values: Tensor,
    /// Between matrices, rows and 128 k: in factors or words.
    pub steps: [usize; 3],
    /// 2^this many rows share one.
    pub row_shift: u32,
    pub packed: bool,
}

impl Scales {
    /// Whether all rows of a block have one.
    pub(super) fn rows_share(&self) -> bool {
        self.row_shift == DEPTH.ilog2() || self.steps[1] == 0
    }

    /// Whether the factors of a tile's columns are within 32 bits of each other.
    pub(super) fn columns_are_near(&self) -> bool {
        self.steps[1] * COLUMNS * size_of::<f32>() < 1 << 32
    }
}

/// An operand: a matrix of rows and k for each of a batch, or one for all.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    pub values: Tensor,
    pub rows: usize,
    pub k: usize,
    /// Elements between matrices, rows and k: of the last two one is 1, unless there is but one row or k.
    pub steps: [usize; 3],
    pub scales: Option<Scales>,
}

impl Operand {
    /// A tensor (rows, k) or (batch, rows, k), copied where neither rows nor k are together.
    pub fn of(x: &Tensor, what: &str) -> Result<Self> {
        let (rows, k, batch_step) = match *x.dims() {
            [rows, k] => (rows, k, false),
            [_, rows, k] => (rows, k, true),
            _ => bail!(
                "{what} of shape {:?} is no matrix, nor a batch of them",
                x.shape()
            ),
        };
        let steps = |x: &Tensor| match *x.stride() {
            [row, k] => [0, row, k],
            [batch, row, k] if batch_step => [batch, row, k],
            _ => [0, 0, 0],
        };
        let mut operand = Self {
            values: x.clone(),
            rows,
            k,
            steps: steps(x),
            scales: None,
        };
        if operand.order().is_none() {
            operand.values = x.contiguous()?;
            operand.steps = steps(&operand.values);
        }
        Ok(operand)
    }

    /// Whether k is together, and the elements between rows, or, where rows are together, between k.
    pub(super) fn order(&self) -> Option<(bool, usize)> {
        let [_, row, along] = self.steps;
        let together = |step: usize, count: usize, next: usize, others: usize| {
            let fits = (step == 1 || count <= 1) && (others <= 1 || next >= count);
            fits.then_some(if others <= 1 { count.max(1) } else { next })
        };
        let along_k = together(along, self.k, row, self.rows).map(|ld| (true, ld));
        along_k.or_else(|| together(row, self.rows, along, self.k).map(|ld| (false, ld)))
    }
}
