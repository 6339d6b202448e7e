//! What is done to heads of queries and keys before they attend and are kept.

use candle_core::{DType, Result, Tensor, D};

/// Which elements of a head rotary embedding turns together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairs {
    /// i and dim / 2 + i, as Hugging Face's models have them (`rope` in candle-nn).
    Halves,
    /// 2i and 2i + 1, as GGUF's LLaMA has them (`rope_i`).
    Neighbours,
}

impl Pairs {
    /// (..., steps, dim) turned by the angles of its steps, (steps, dim / 2), in f32.
    pub(super) fn rotate(self, x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
        let (wide, half) = (x.to_dtype(DType::F32)?, x.dim(D::Minus1)? / 2);
        let mut dims = x.dims().to_vec();
        let (along, pairs) = match self {
            Self::Halves => (dims.len() - 1, wide),
            Self::Neighbours => {
                dims.pop();
                dims.extend([half, 2]);
                (dims.len() - 1, wide.contiguous()?.reshape(dims)?)
            }
        };
        let of = |which: usize| match self {
            Self::Halves => pairs.narrow(along, which * half, half),
            Self::Neighbours => pairs.narrow(along, which, 1)?.squeeze(along),
        };
        let (a, b) = (of(0)?, of(1)?);
        let (cos, sin) = (cos.to_dtype(DType::F32)?, sin.to_dtype(DType::F32)?);
        let first = (a.broadcast_mul(&cos)? - b.broadcast_mul(&sin)?)?;
        let second = (a.broadcast_mul(&sin)? + b.broadcast_mul(&cos)?)?;
        let rotated = match self {
            Self::Halves => Tensor::cat(&[first, second], D::Minus1)?,
            Self::Neighbours => Tensor::stack(&[first, second], D::Minus1)?,
        };
        rotated.reshape(x.shape())?.to_dtype(x.dtype())
    }
}

/// Rotary embedding's angles by position: cosines and sines, both contiguous, of shape (positions, dim / 2).
#[derive(Clone, Debug)]
pub struct Rotary {
    /// Cosines, in the model's dtype.
    pub cos: Tensor,
    /// Sines.
    pub sin: Tensor,
    /// Which elements are a pair.
    pub pairs: Pairs,
}

/// Norms of each head of queries and of keys before their rotary embedding, as Qwen 3 has them.
#[derive(Clone, Debug)]
pub struct HeadNorms {
    /// The weight of the queries' root-mean-square norm, (dim), in the model's dtype.
    pub queries: Tensor,
    /// Of the keys'.
    pub keys: Tensor,
    /// What the norms add to the mean of squares.
    pub epsilon: f64,
}
