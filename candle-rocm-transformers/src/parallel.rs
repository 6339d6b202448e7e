//! A model in parts: each rank, a GPU, has some heads of every layer, some elements between the products of the gated layer,
//! and some tokens of the vocabulary.
//!
//! "Megatron-LM" (Shoeybi et al., 2019): rows of the first products and columns of the second, so that a layer has two sums
//! over the ranks.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{bail, Result, Tensor, D};
use candle_rocm_backend::communication::{Rank, ReduceOp};

/// What a rank has of each layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    /// Heads of queries.
    pub heads: Range<usize>,
    /// The heads of keys and values that these read; ranks that share one have it each.
    pub kv_heads: Range<usize>,
    /// Elements between the products of the gated layer.
    pub inner: Range<usize>,
    /// Tokens.
    pub vocabulary: Range<usize>,
}

/// What is divided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole {
    pub heads: usize,
    pub kv_heads: usize,
    pub inner: usize,
    pub vocabulary: usize,
    /// Neighbouring heads that stay together, and elements of the gated layer: formats of GGUF have blocks.
    pub head_unit: usize,
    pub inner_unit: usize,
}

impl Whole {
    /// The parts of rank `number` of `ranks`, which differ by a unit at most.
    ///
    /// # Errors
    /// There are more ranks than units of something.
    pub fn of(&self, number: usize, ranks: usize) -> Result<Parts> {
        let (kv_heads, group) = (self.kv_heads, self.heads / self.kv_heads.max(1));
        // Heads of keys where there are enough; else each rank has one of them, and some of its queries.
        let (heads, of_keys) = if kv_heads >= ranks {
            let whole_units = |keys: &usize| (keys * group).is_multiple_of(self.head_unit.max(1));
            let unit = (1..=kv_heads).find(whole_units).unwrap_or(kv_heads);
            let keys = cut("heads of keys", kv_heads, unit, number, ranks)?;
            (keys.start * group..keys.end * group, keys)
        } else {
            let key = (0..kv_heads)
                .rev()
                .find(|key| (key * ranks).div_ceil(kv_heads) <= number)
                .unwrap_or(0);
            let first = (key * ranks).div_ceil(kv_heads);
            let end = ((key + 1) * ranks).div_ceil(kv_heads);
            let what = "heads of queries that read one of keys";
            let of_key = cut(what, group, self.head_unit, number - first, end - first)?;
            let heads = key * group + of_key.start..key * group + of_key.end;
            (heads, key..key + 1)
        };
        let inner = "elements of the gated layer";
        Ok(Parts {
            heads,
            kv_heads: of_keys,
            inner: cut(inner, self.inner, self.inner_unit, number, ranks)?,
            vocabulary: cut("tokens", self.vocabulary, 1, number, ranks)?,
        })
    }
}

/// Part `number` of `parts` of so many things, which go together by `unit`.
fn cut(what: &str, count: usize, unit: usize, number: usize, parts: usize) -> Result<Range<usize>> {
    let unit = unit.max(1);
    let units = count / unit;
    if units * unit != count || units < parts {
        bail!(
            "{count} {what}, which go together by {unit}, cannot be divided among {parts} ranks: take fewer GPUs"
        );
    }
    Ok(number * units / parts * unit..(number + 1) * units / parts * unit)
}

/// A rank of a model.
#[derive(Clone, Debug)]
pub(crate) struct Parallel {
    rank: Arc<Rank>,
    /// The tokens whose embeddings and logits this rank has.
    vocabulary: Vec<Range<usize>>,
    /// The first of them, how many there are, and a row that is none; u32 of shape (1).
    first: Tensor,
    count: Tensor,
    absent: Tensor,
}

impl Parallel {
    /// Of a vocabulary that is divided as [`Whole`] says.
    pub fn new(rank: Arc<Rank>, vocabulary: usize) -> Result<Self> {
        let ranks = rank.ranks();
        let all: Vec<Range<usize>> = (0..ranks)
            .map(|number| cut("tokens", vocabulary, 1, number, ranks))
            .collect::<Result<_>>()?;
        let own = all[rank.number()].clone();
        let device = rank.device();
        let number = |number: usize| Tensor::new(&[number as u32], &device);
        Ok(Self {
            first: number(own.start)?,
            count: number(own.len())?,
            absent: Tensor::new(&[u32::MAX], &device)?,
            vocabulary: all,
            rank,
        })
    }

    /// Its communicator.
    pub fn rank(&self) -> &Rank {
        &self.rank
    }

    fn own(&self) -> &Range<usize> {
        &self.vocabulary[self.rank.number()]
    }

    /// Rows of the embedding, of which this rank has its part, for tokens (u32, one dimension).
    pub fn embed(&self, part: &Tensor, tokens: &Tensor) -> Result<Tensor> {
        // Wraps where the token is another rank's, as does the index that reads zeros.
        let own = tokens.broadcast_sub(&self.first)?;
        let is_own = own.broadcast_lt(&self.count)?;
        let own = is_own.where_cond(&own, &self.absent.broadcast_as(own.shape())?)?;
        self.sum(&part.index_select(&own, 0)?)
    }

    /// The ranks' results of a product over parts of k, added up.
    pub fn sum(&self, part: &Tensor) -> Result<Tensor> {
        self.rank.all_reduce(part, ReduceOp::Sum)
    }

    /// The logits of all tokens, (batch, vocabulary), of this rank's (batch, part).
    pub fn logits(&self, part: &Tensor) -> Result<Tensor> {
        let most = self.vocabulary.iter().map(Range::len).max().unwrap_or(0);
        let padded = part.pad_with_zeros(1, 0, most - self.own().len())?;
        let gathered = self.rank.all_gather(&padded)?;
        let of_rank =
            |(number, part): (usize, &Range<usize>)| gathered.get(number)?.narrow(1, 0, part.len());
        let parts = self.vocabulary.iter().enumerate().map(of_rank);
        Tensor::cat(&parts.collect::<Result<Vec<_>>>()?, 1)
    }

    /// The likeliest token of each row, u32 of shape (batch), by this rank's logits (batch, part). Of equals it is the first.
    pub fn likeliest(&self, part: &Tensor) -> Result<Tensor> {
        let of_part = part.argmax(D::Minus1)?.broadcast_add(&self.first)?;
        let tokens = self.rank.all_gather(&of_part)?;
        let logits = self.rank.all_gather(&part.max(D::Minus1)?)?;
        let best = logits.t()?.contiguous()?.argmax_keepdim(D::Minus1)?;
        tokens.t()?.contiguous()?.gather(&best, 1)?.squeeze(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LLAMA_3_8B: Whole = Whole {
        heads: 32,
        kv_heads: 8,
        inner: 14_336,
        vocabulary: 128_256,
        head_unit: 1,
        inner_unit: 1,
    };

    /// All that is divided is had by one rank, but for heads of keys, of which each rank has those that its queries read.
    #[test]
    fn ranks_have_all_of_it() {
        for ranks in 1..=32 {
            let parts: Vec<Parts> = (0..ranks)
                .map(|number| LLAMA_3_8B.of(number, ranks).unwrap())
                .collect();
            for (of, count) in [
                ((|it| &it.heads) as fn(&Parts) -> &Range<usize>, 32),
                (|it| &it.inner, 14_336),
                (|it| &it.vocabulary, 128_256),
            ] {
                let mut end = 0;
                for part in parts.iter().map(of) {
                    assert_eq!(part.start, end, "{ranks} ranks");
                    assert!(!part.is_empty(), "{ranks} ranks");
                    end = part.end;
                }
                assert_eq!(end, count, "{ranks} ranks");
            }
            for part in &parts {
                let keys = part.heads.start / 4..(part.heads.end - 1) / 4 + 1;
                assert_eq!(part.kv_heads, keys, "{ranks} ranks");
                assert!(part.heads.len().is_multiple_of(keys.len()), "{ranks} ranks");
            }
        }
    }

    #[test]
    fn units_stay_together() {
        let quantised = Whole {
            head_unit: 4,
            inner_unit: 256,
            ..LLAMA_3_8B
        };
        let part = quantised.of(1, 3).unwrap();
        assert!(part.inner.start.is_multiple_of(256) && part.inner.end.is_multiple_of(256));
        let error = quantised.of(0, 16).unwrap_err().to_string();
        assert!(error.contains("cannot be divided among 2 ranks"), "{error}");
    }
}
