//! How GPUs share a model, as far as its forward pass differs by it.

use candle_core::quantized::QTensor;
use candle_core::{bail, Result, Tensor, D};
use candle_rocm_backend::communication::{Rank, ReduceOp};
use candle_rocm_backend::ops::{self, CompletionCounters, Q8_1Activations, RmsNorm};

use crate::linear::{Gated, Linear, Norm, State};
use crate::parallel::Parallel;
use crate::pipeline::{Stage, CHUNK};
use crate::weights::Weights;

/// What of a model this GPU has.
#[derive(Clone, Debug)]
pub(crate) enum Ranks {
    /// All of it.
    One,
    /// A part of each layer.
    Parts(Parallel),
    /// Some layers.
    Layers(Stage),
}

impl Ranks {
    /// The state (rows, hidden) before the first layer here, of these tokens (u32, one dimension).
    pub fn enter(&self, weights: &Weights, tokens: &Tensor) -> Result<State> {
        let x = match (self, &weights.embedding) {
            (Self::Parts(parallel), Some(part)) => parallel.embed(part, tokens)?,
            (_, Some(embedding)) => embedding.index_select(tokens, 0)?,
            (Self::Layers(stage), None) => {
                let (rows, hidden) = (tokens.elem_count(), weights.shape.hidden);
                return self.between(weights, stage.receive(rows, hidden, weights.dtype())?);
            }
            _ => bail!("a model without an embedding"),
        };
        Ok(State { x, normed: None })
    }

    /// The state that another stage made.
    fn between(&self, weights: &Weights, x: Tensor) -> Result<State> {
        let first = &weights.layers[0];
        let norm = Norm {
            weight: &first.attention_norm,
            epsilon: weights.shape.epsilon,
        };
        State::of_stage(x, &first.down, norm)
    }

    /// The state and a product with `input`, which of parts is a sum over them, and the `next` norm.
    pub fn add(
        &self,
        product: &Linear,
        state: &State,
        input: Gated,
        next: Option<Norm>,
    ) -> Result<State> {
        match self {
            Self::Parts(parallel) => {
                let (rank, part) = (parallel.rank(), product.of_gated(input)?);
                match next.filter(|_| !product.leaves_norm(&part)) {
                    Some(Norm { weight, epsilon }) => {
                        let made = rank.sum_add_rms_norm(&part, &state.x, weight, epsilon)?;
                        let (x, normed) = (made.0, Some(made.1));
                        Ok(State { x, normed })
                    }
                    None => {
                        let x = rank.sum_add(&part, &state.x)?;
                        Ok(State { x, normed: None })
                    }
                }
            }
            Self::One | Self::Layers(_) => product.add_gated_to(&state.x, input, next),
        }
    }

    /// The state `x`, (1, hidden), and a quantised vector's product, which of parts is a sum over them; and the norm of that
    /// as the next vector.
    pub fn add_vector(
        &self,
        product: &QTensor,
        input: &Q8_1Activations,
        x: &Tensor,
        next: RmsNorm,
        completion: &CompletionCounters,
    ) -> Result<(Tensor, Q8_1Activations)> {
        let Self::Parts(parallel) = self else {
            return ops::quantized_add_norm(product, input, x, next, completion);
        };
        let part = ops::quantized_linears(&[(product, None)], input)?;
        let rank = parallel.rank();
        let (x, normed) = rank.sum_add_rms_norm(&part, x, next.weight, next.epsilon)?;
        Ok((x, Q8_1Activations::of(&normed)?))
    }

    /// The state after the last layer here, to who reads it next.
    pub fn hand_on(&self, state: &Tensor) -> Result<()> {
        match self {
            Self::Layers(stage) => stage.hand_on(state),
            Self::One | Self::Parts(_) => Ok(()),
        }
    }

    /// The logits of all of a vocabulary's tokens, of what the forward pass gave here.
    pub fn all_logits(&self, found: Tensor, vocabulary: usize) -> Result<Tensor> {
        match self {
            Self::One => Ok(found),
            Self::Parts(parallel) => parallel.logits(&found),
            Self::Layers(stage) => stage.logits(&found, vocabulary),
        }
    }

    /// The likeliest tokens, u32 of shape (batch), of what the forward pass gave here.
    pub fn likeliest(&self, found: &Tensor) -> Result<Tensor> {
        match self {
            Self::One => found.argmax(D::Minus1),
            Self::Parts(parallel) => parallel.likeliest(found),
            Self::Layers(stage) => stage.likeliest(found),
        }
    }

    /// Whether something holds here and at all other ranks. Waits for the GPU, if there are others.
    pub fn holds_everywhere(&self, holds: bool) -> Result<bool> {
        let Some(rank) = self.rank() else {
            return Ok(holds);
        };
        let here = Tensor::new(&[u32::from(holds)], &rank.device())?;
        let everywhere = rank.all_reduce(&here, ReduceOp::Min)?;
        Ok(everywhere.to_vec1::<u32>()? == [1])
    }

    /// Tokens of a prompt that are read together, of `all`.
    pub fn chunk(&self, all: usize) -> usize {
        match self {
            Self::Layers(_) => CHUNK,
            Self::One | Self::Parts(_) => all.max(1),
        }
    }

    fn rank(&self) -> Option<&Rank> {
        match self {
            Self::One => None,
            Self::Parts(parallel) => Some(parallel.rank()),
            Self::Layers(stage) => Some(stage.rank()),
        }
    }
}
