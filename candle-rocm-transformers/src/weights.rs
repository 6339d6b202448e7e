//! What a model is made of: sizes, and the tensors of its layers.

use candle_core::{DType, Device, Tensor};
use candle_rocm_backend::ops::HeadNorms;

use crate::linear::Linear;
use crate::rotary::Frequencies;

/// Sizes that all layers share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values, each for as many of the queries'.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
    /// Elements of the state between layers.
    pub hidden: usize,
    /// Tokens there are.
    pub vocabulary: usize,
    /// What the norms add to the mean of squares.
    pub epsilon: f64,
}

/// One layer's weights.
#[derive(Clone, Debug)]
pub struct Layer {
    /// Of the norm before attention, (hidden).
    pub attention_norm: Tensor,
    /// Queries, keys and values, ((heads + 2 kv_heads) * head_dim, hidden): one product, or one for each.
    pub qkv: Vec<Linear>,
    /// Of each head of queries and of keys before their rotary embedding; Qwen 3 has them.
    pub head_norms: Option<HeadNorms>,
    /// How many keys a query sees, its own position's included; all before it, if not set.
    pub window: Option<usize>,
    /// (hidden, heads * head_dim).
    pub output: Linear,
    /// Of the norm before the gated layer, (hidden).
    pub gated_norm: Tensor,
    /// Gate and what it gates, (2 * inner, hidden): one product, or one for each.
    pub gate_up: Vec<Linear>,
    /// (hidden, inner).
    pub down: Linear,
}

/// What makes logits of the state after the last layer.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    /// Of the norm, (hidden).
    pub(crate) norm: Tensor,
    /// (vocabulary, hidden).
    pub(crate) product: Linear,
}

/// A model's sizes and tensors, or those of a stage.
#[derive(Clone, Debug)]
pub(crate) struct Weights {
    pub(crate) shape: Shape,
    /// (vocabulary, hidden); of a pipeline the first stage has it.
    pub(crate) embedding: Option<Tensor>,
    /// At least one.
    pub(crate) layers: Vec<Layer>,
    /// Of a pipeline the last stage has it.
    pub(crate) head: Option<Head>,
    pub(crate) frequencies: Frequencies,
}

impl Weights {
    /// Where they are.
    pub(crate) fn device(&self) -> &Device {
        self.layers[0].attention_norm.device()
    }

    /// The activations' type.
    pub(crate) fn dtype(&self) -> DType {
        self.layers[0].attention_norm.dtype()
    }

    /// The norm before layer `n`, or after the last; none at the end of a stage that another follows.
    pub(crate) fn norm_before(&self, n: usize) -> Option<&Tensor> {
        match self.layers.get(n) {
            Some(layer) => Some(&layer.attention_norm),
            None => self.head.as_ref().map(|head| &head.norm),
        }
    }
}
