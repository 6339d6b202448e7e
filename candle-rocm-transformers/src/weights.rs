//! What a model is made of: sizes, and the tensors of its layers.

use candle_core::Tensor;
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

/// A model's sizes and tensors.
#[derive(Clone, Debug)]
pub(crate) struct Weights {
    pub(crate) shape: Shape,
    /// (vocabulary, hidden).
    pub(crate) embedding: Tensor,
    pub(crate) layers: Vec<Layer>,
    /// Of the norm after the last layer, (hidden).
    pub(crate) norm: Tensor,
    /// (vocabulary, hidden).
    pub(crate) head: Linear,
    pub(crate) frequencies: Frequencies,
}
