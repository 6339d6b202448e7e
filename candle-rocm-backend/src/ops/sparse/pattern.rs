//! Where a sparse matrix has its numbers.

use std::sync::OnceLock;

use candle_core::{bail, Result, Tensor};

pub(super) const NAME: &str = "sparse";

/// Rows of stored numbers, one row's after another's. All indices are u32 and contiguous.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) rows: usize,
    /// Rows of what the matrix is multiplied by.
    pub(super) inner: usize,
    pub(super) stored: usize,
    /// Stored numbers of each row, where there are no offsets.
    pub(super) width: usize,
    pub(super) columns: Tensor,
    /// Where rows begin, and the last one's end.
    pub(super) offsets: Option<Tensor>,
    /// The places of the stored numbers among the values, where they are in another order.
    pub(super) places: Option<Tensor>,
    /// Made for the first gradient that needs it.
    pub(super) turned: OnceLock<Box<Pattern>>,
}

impl Pattern {
    pub(super) fn new(shape: (usize, usize), stored: usize, columns: Tensor) -> Result<Self> {
        let (rows, inner) = shape;
        // The largest u32 is no index.
        if [rows, inner, stored]
            .iter()
            .any(|&size| size >= u32::MAX as usize)
        {
            bail!("{NAME}: a matrix of {rows} x {inner} with {stored} numbers: none may reach 2^32 - 1");
        }
        Ok(Self {
            rows,
            inner,
            stored,
            width: 0,
            columns,
            offsets: None,
            places: None,
            turned: OnceLock::new(),
        })
    }

    /// The rows of the stored numbers, of a pattern on the CPU.
    pub(super) fn rows_on_host(&self) -> Result<Vec<u32>> {
        let Some(offsets) = &self.offsets else {
            let rows = 0..self.rows as u32;
            return Ok(rows
                .flat_map(|row| std::iter::repeat_n(row, self.width))
                .collect());
        };
        let offsets = offsets.to_vec1::<u32>()?;
        let of_row =
            |(row, ends): (u32, &[u32])| std::iter::repeat_n(row, (ends[1] - ends[0]) as usize);
        Ok((0..).zip(offsets.windows(2)).flat_map(of_row).collect())
    }
}
