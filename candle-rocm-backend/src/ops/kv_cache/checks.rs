//! What a cache takes, or the error that says why not.

use candle_core::{bail, DType, Result, Tensor};

use super::heads::{HeadNorms, Rotary};
use super::memory::KvCache;
use super::scores::Scores;
use crate::ops::operands::check_device;

impl KvCache {
    pub(super) fn check_packed(&self, packed: &Tensor) -> Result<(usize, usize)> {
        check_device("append", "the packed heads", packed, &self.both)?;
        let fits = |width: usize| {
            let all = width / self.dim;
            (width.is_multiple_of(self.dim) && all > 2 * self.kv_heads)
                .then(|| all - 2 * self.kv_heads)
        };
        match packed.dims() {
            [batch, steps, width] if *batch == self.batch && self.takes(packed.dtype()) => {
                if let Some(heads) =
                    fits(*width).filter(|heads| heads.is_multiple_of(self.kv_heads))
                {
                    return Ok((*steps, heads));
                }
            }
            _ => {}
        }
        bail!(
            "append: packed heads of shape {:?} and {:?}, and {}: they must be \
             (batch, steps, (heads + 2 kv_heads) * dim), of the cache's dtype or F32, heads a multiple of kv_heads",
            packed.shape(),
            packed.dtype(),
            self.described()
        )
    }

    pub(super) fn check_rotary(&self, rotary: &Rotary, dtype: DType) -> Result<()> {
        for (name, table) in [("cosines", &rotary.cos), ("sines", &rotary.sin)] {
            check_device("append", name, table, &self.both)?;
            let fits = matches!(table.dims(), [positions, half] if *positions >= self.capacity && half * 2 == self.dim);
            if !fits || table.dtype() != dtype || !table.is_contiguous() {
                bail!(
                    "append: the {name} have shape {:?} and {:?}{}, and must be contiguous, of at least {} positions and {} \
                     columns, and {dtype:?}, as the packed heads",
                    table.shape(),
                    table.dtype(),
                    if table.is_contiguous() { "" } else { ", strided" },
                    self.capacity,
                    self.dim / 2
                );
            }
        }
        Ok(())
    }

    pub(super) fn check_position(&self, operator: &str, position: &Tensor) -> Result<()> {
        check_device(operator, "the position", position, &self.both)?;
        if position.dims() != [self.batch]
            || position.dtype() != DType::U32
            || !position.is_contiguous()
        {
            bail!(
                "{operator}: the position has shape {:?} and {:?}, and must be contiguous, [{}] and U32",
                position.shape(),
                position.dtype(),
                self.batch
            );
        }
        Ok(())
    }

    pub(super) fn check_norms(&self, norms: Option<&HeadNorms>, dtype: DType) -> Result<()> {
        let both = norms.map(|norms| [("queries'", &norms.queries), ("keys'", &norms.keys)]);
        for (whose, weight) in both.into_iter().flatten() {
            check_device("append_and_attend", "a norm", weight, &self.both)?;
            let fits = weight.dims() == [self.dim] && weight.dtype() == dtype;
            if !fits || !weight.is_contiguous() {
                bail!(
                    "append_and_attend: the {whose} norm has shape {:?} and {:?}, and must be contiguous, [{}] and {dtype:?}, \
                     as the packed heads",
                    weight.shape(),
                    weight.dtype(),
                    self.dim
                );
            }
        }
        Ok(())
    }

    pub(super) fn check_queries(&self, queries: &Tensor) -> Result<(usize, usize)> {
        check_device("attend", "queries", queries, &self.both)?;
        match queries.dims() {
            [batch, steps, heads, dim]
                if *batch == self.batch
                    && *dim == self.dim
                    && heads.is_multiple_of(self.kv_heads)
                    && self.takes(queries.dtype()) =>
            {
                Ok((*steps, *heads))
            }
            _ => bail!(
                "attend: queries of shape {:?} and {:?}, and {}: they must be \
                 (batch, steps, heads, dim), of the cache's dtype or F32, heads a multiple of the cache's",
                queries.shape(),
                queries.dtype(),
                self.described()
            ),
        }
    }

    pub(super) fn check_scores(&self, scores: &Scores, heads: usize) -> Result<()> {
        if let Some(slopes) = &scores.slopes {
            check_device("attend", "the slopes", slopes, &self.both)?;
            if slopes.dims() != [heads] || slopes.dtype() != DType::F32 {
                bail!(
                    "attend: the slopes have shape {:?} and {:?}, and must have [{heads}] and F32",
                    slopes.shape(),
                    slopes.dtype()
                );
            }
        }
        if scores.window == Some(0) {
            bail!("attend: a window of 0 keys: a query sees itself at least");
        }
        Ok(())
    }
}
