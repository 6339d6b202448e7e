//! A step of a model: its keys and values are kept, and its queries attend.

use candle_core::{bail, DType, Device, Result, Shape, Tensor};
use candle_rocm_kernels::mmvq;

use super::attend::Heads;
use super::heads::{HeadNorms, Rotary};
use super::memory::KvCache;
use super::scores::Scores;
use crate::ops::attention::attention;
use crate::ops::node::plain;
use crate::ops::quantized::Q8_1Activations;

impl KvCache {
    /// [`KvCache::normed`], if there are norms, [`KvCache::append`] and [`KvCache::attend`]: of a step of one token, which
    /// is what decoding waits for, in one launch.
    ///
    /// # Errors
    /// As those.
    pub fn append_and_attend(
        &self,
        packed: &Tensor,
        norms: Option<&HeadNorms>,
        rotary: &Rotary,
        position: &Tensor,
        scores: &Scores,
    ) -> Result<Tensor> {
        let (steps, heads) = self.check_packed(packed)?;
        let (Device::Cuda(device), 1) = (self.both.device(), steps) else {
            let queries = match norms {
                Some(norms) => self.append(&self.normed(packed, norms)?, rotary, position)?,
                None => self.append(packed, rotary, position)?,
            };
            return self.attend(&queries, position, scores);
        };
        self.check_step((norms, rotary, packed.dtype()), position, scores, heads)?;
        let packed = packed.contiguous()?;
        let from = Heads::Packed(&packed, rotary, norms);
        let attend = self.attend_launch(device, from, position, scores, (steps, heads), false)?;
        self.both.inplace_op1(&attend)?;
        let shape = (self.batch, steps, heads, self.dim);
        Ok(plain(attend.result.into_inner(), &Shape::from(shape)))
    }

    /// The same of a prompt, whose sequences are all at `first`: the host knows what `position` holds, so that [`attention`] reads
    /// keys once for many queries. (batch, steps, heads, dim), of `packed`'s dtype.
    ///
    /// Beside a cache of 16 bits f32 is attention in 16 bits, by the kernels for these: results are rounded to the cache's dtype
    /// before they are f32.
    ///
    /// # Errors
    /// As [`KvCache::append`] and [`attention`]; the prompt does not fit the capacity.
    pub fn append_and_attend_prompt(
        &self,
        packed: &Tensor,
        norms: Option<&HeadNorms>,
        rotary: &Rotary,
        (position, first): (&Tensor, usize),
        scores: &Scores,
    ) -> Result<Tensor> {
        let (steps, heads) = self.check_packed(packed)?;
        self.check_scores(scores, heads)?;
        let tokens = first.saturating_add(steps);
        if tokens > self.capacity {
            bail!(
                "append_and_attend_prompt: {steps} tokens after {first}, and {}, which has room for {}",
                self.described(),
                self.capacity
            );
        }
        let normed = norms.map(|norms| self.normed(packed, norms)).transpose()?;
        let normed = normed.as_ref().unwrap_or(packed);
        let queries = self.append_as(normed, rotary, position, true)?;
        // (batch, tokens, kv_heads, dim), where they are.
        let keys = self.keys(tokens)?.transpose(1, 2)?;
        let values = self.values(tokens)?.transpose(1, 2)?;
        attention(&queries, &keys, &values, &scores.options())?.to_dtype(packed.dtype())
    }

    /// [`KvCache::append_and_attend`] of one token of one sequence, as the vector of heads * dim that a quantised product takes:
    /// of whole groups of 256 in f32 it is in the same launch.
    ///
    /// # Errors
    /// As that; several sequences or tokens; not f32; not on a GPU.
    pub fn append_and_attend_vector(
        &self,
        packed: &Tensor,
        norms: Option<&HeadNorms>,
        rotary: &Rotary,
        position: &Tensor,
        scores: &Scores,
    ) -> Result<Q8_1Activations> {
        let (steps, heads) = self.check_packed(packed)?;
        if self.batch * steps != 1 {
            bail!("append_and_attend_vector: {steps} tokens of {} sequences, and one is what it takes", self.batch);
        }
        let elements = heads * self.dim;
        let whole = elements.is_multiple_of(mmvq::TOGETHER as usize)
            && self.dim.is_multiple_of(mmvq::BLOCK as usize);
        if let (Device::Cuda(device), true, DType::F32) =
            (self.both.device(), whole, packed.dtype())
        {
            self.check_step((norms, rotary, packed.dtype()), position, scores, heads)?;
            let packed = packed.contiguous()?;
            let from = Heads::Packed(&packed, rotary, norms);
            let attend =
                self.attend_launch(device, from, position, scores, (steps, heads), true)?;
            self.both.inplace_op1(&attend)?;
            let result = attend.result.into_inner();
            return match attend.quantized {
                true => Ok(Q8_1Activations::from_memory(result, elements)),
                false => Q8_1Activations::of(&plain(result, &Shape::from(elements))),
            };
        }
        let result = self.append_and_attend(packed, norms, rotary, position, scores)?;
        Q8_1Activations::of(&result.flatten_all()?)
    }

    fn check_step(
        &self,
        (norms, rotary, dtype): (Option<&HeadNorms>, &Rotary, DType),
        position: &Tensor,
        scores: &Scores,
        heads: usize,
    ) -> Result<()> {
        self.check_norms(norms, dtype)?;
        self.check_rotary(rotary, dtype)?;
        self.check_position("append", position)?;
        self.check_scores(scores, heads)
    }
}
