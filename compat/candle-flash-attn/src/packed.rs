//! Sequences of different lengths, one after another, with keys and values alike or in pages.

use candle_core::{bail, DType, Result, Tensor};
use candle_rocm_backend::ops::{attention_paged, attention_varlen, Packed};

use crate::checks;
use crate::prefix;
use crate::signed;
use crate::FlashAttn;

const NAME: &str = "flash-attn-varlen";

/// Where sequences start, and the rows of the longest: of queries and of keys.
#[derive(Clone, Copy)]
pub(crate) struct Lengths<'a> {
    starts: [&'a Tensor; 2],
    longest: [usize; 2],
}

/// Where keys and values are.
#[derive(Clone, Copy)]
pub(crate) struct Pages<'a> {
    /// Numbers of pages, of (sequences, most of one).
    pub table: &'a Tensor,
    /// Rows of a page.
    pub rows: usize,
    /// Keys that see each other whatever windows hide, of (sequences, most ranges, 2).
    pub ranges: Option<&'a Tensor>,
}

impl<'a> Lengths<'a> {
    pub(crate) fn new(starts: [&'a Tensor; 2], longest: [usize; 2]) -> Self {
        Self { starts, longest }
    }

    /// How many sequences there are.
    fn check(&self, q: &Tensor) -> Result<usize> {
        for (what, starts) in ["seqlens_q", "seqlens_k"].into_iter().zip(self.starts) {
            checks::same_gpu(NAME, what, starts, q)?;
            if starts.dtype() != DType::U32 || starts.rank() != 1 || !starts.is_contiguous() {
                bail!(
                    "{NAME}: {what} is {:?} of {:?} and strides {:?}, and must be contiguous u32 of one dimension",
                    starts.dtype(),
                    starts.shape(),
                    starts.stride()
                );
            }
        }
        match self.starts.map(Tensor::elem_count) {
            [of_q, of_k] if of_q == of_k && of_q >= 2 => Ok(of_q - 1),
            [of_q, of_k] => bail!(
                "{NAME}: seqlens_q has {of_q} elements and seqlens_k {of_k}: they must have as many, and at least 2"
            ),
        }
    }

    fn packed(&self) -> Packed<'a> {
        let ([starts_q, starts_k], [longest_q, longest_k]) = (self.starts, self.longest);
        Packed {
            starts_q,
            starts_k,
            longest_q,
            longest_k,
        }
    }
}

impl FlashAttn {
    /// Of (rows, heads, elements).
    pub(crate) fn of_packed(&self, [q, k, v]: [&Tensor; 3], lengths: Lengths) -> Result<Tensor> {
        checks::operands(NAME, [q, k, v], [3, 3])?;
        checks::heads(NAME, q, k, v)?;
        let sequences = lengths.check(q)?;
        checks::slopes(NAME, self.alibi_slopes.as_ref(), q, sequences)?;
        let options = self.options(lengths.longest[1]);
        attention_varlen(q, k, v, lengths.packed(), &options)
    }

    /// Of queries as in [`FlashAttn::of_packed`], and keys and values of (pages, rows, heads, elements).
    pub(crate) fn of_pages(
        &self,
        [q, k, v]: [&Tensor; 3],
        mut lengths: Lengths,
        pages: Pages,
    ) -> Result<Tensor> {
        checks::operands(NAME, [q, k, v], [3, 4])?;
        checks::heads(NAME, q, k, v)?;
        let sequences = lengths.check(q)?;
        let table = pages.numbers(q, k, sequences)?;
        let mut options = self.options(lengths.longest[1]);
        // No sequence has more keys than its row of the table has pages for.
        lengths.longest[1] = lengths.longest[1].min(table.dim(1)? * pages.rows);
        if let Some(ranges) = pages.ranges {
            checks::same_gpu(NAME, "mm_prefix_ranges", ranges, q)?;
            let mask = prefix::mask(ranges, &lengths.packed(), &options, q.dtype())?;
            options.mask = Some(mask);
            (options.window_left, options.window_right) = (None, None);
        }
        attention_paged(q, k, v, &table, lengths.packed(), &options)
    }
}

impl Pages<'_> {
    /// The table, checked, in u32.
    fn numbers(&self, q: &Tensor, k: &Tensor, sequences: usize) -> Result<Tensor> {
        let rows = k.dim(1)?;
        if self.rows != rows || rows == 0 || !rows.is_multiple_of(32) {
            bail!(
                "{NAME}: page_block_size is {}, and k of shape {:?} has pages of {rows} rows: they must be the same, \
                 and a multiple of 32",
                self.rows,
                k.shape()
            );
        }
        checks::same_gpu(NAME, "block_table", self.table, q)?;
        match self.table.dims() {
            [of, _] if *of == sequences => {}
            _ => bail!(
                "{NAME}: block_table has shape {:?}, and must be of ({sequences}, most pages of a sequence)",
                self.table.shape()
            ),
        }
        match self.table.dtype() {
            DType::U32 => Ok(self.table.clone()),
            DType::I32 => signed::bits(self.table),
            other => bail!("{NAME}: block_table is {other:?}, and must be u32 or i32"),
        }
    }
}
