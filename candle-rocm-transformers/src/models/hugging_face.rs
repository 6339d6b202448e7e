//! Decoders from Hugging Face's files, whose weights have the same names in all families.

use candle_core::{bail, Result, Tensor};
use candle_nn::{Activation, VarBuilder};
use candle_rocm_backend::ops::HeadNorms;

use crate::linear::Linear;
use crate::rotary::Frequencies;
use crate::transformer::Transformer;
use crate::weights::{Layer, Shape};

/// What the families differ in.
pub(super) struct Decoder {
    pub shape: Shape,
    /// Elements between the gated layer's products.
    pub inner: usize,
    pub layers: usize,
    /// Whether the embedding makes the logits, too.
    pub tied: bool,
    pub frequencies: Frequencies,
    /// Whether the products of queries, keys and values add biases, and whether the output's does.
    pub biases: [bool; 2],
    /// Whether each head of queries and keys is normed.
    pub head_norms: bool,
    /// The first layer that sees a window, and of how many keys.
    pub window: Option<(usize, usize)>,
}

impl Decoder {
    /// Reads the weights (`model.layers.0.self_attn.q_proj.weight`, ...).
    pub fn load(self, weights: VarBuilder) -> Result<Transformer> {
        let Shape {
            hidden, vocabulary, ..
        } = self.shape;
        let embedding = weights.get((vocabulary, hidden), "model.embed_tokens.weight")?;
        let head = match self.tied {
            true => embedding.clone(),
            false => weights.get((vocabulary, hidden), "lm_head.weight")?,
        };
        let layers = weights.pp("model.layers");
        let layers = (0..self.layers).map(|n| self.layer(n, &layers.pp(n)));
        Transformer::new(
            self.shape,
            embedding,
            layers.collect::<Result<_>>()?,
            weights.get(hidden, "model.norm.weight")?,
            Linear::dense(&[head])?,
            self.frequencies.clone(),
        )
    }

    fn layer(&self, n: usize, weights: &VarBuilder) -> Result<Layer> {
        let Shape {
            heads,
            kv_heads,
            head_dim,
            hidden,
            ..
        } = self.shape;
        let (queries, keys, inner) = (heads * head_dim, kv_heads * head_dim, self.inner);
        let norm = |name: &str, size: usize| weights.get(size, &format!("{name}.weight"));
        // Each of so many rows, with biases if `biased`.
        let product = |parts: &[(&str, usize)], columns: usize, biased: bool| -> Result<Linear> {
            let all = |what: &str, shape: &dyn Fn(usize) -> Vec<usize>| -> Result<Vec<Tensor>> {
                let parts = parts.iter();
                parts
                    .map(|(name, rows)| weights.get(shape(*rows), &format!("{name}.{what}")))
                    .collect()
            };
            let biases = match biased {
                true => all("bias", &|rows| vec![rows])?,
                false => Vec::new(),
            };
            Linear::dense(&all("weight", &|rows| vec![rows, columns])?)?.with_biases(&biases)
        };
        let qkv = [
            ("self_attn.q_proj", queries),
            ("self_attn.k_proj", keys),
            ("self_attn.v_proj", keys),
        ];
        let gate_up = [("mlp.gate_proj", inner), ("mlp.up_proj", inner)];
        let head_norm = |name: &str| norm(&format!("self_attn.{name}"), head_dim);
        Ok(Layer {
            attention_norm: norm("input_layernorm", hidden)?,
            qkv: vec![product(&qkv, hidden, self.biases[0])?],
            head_norms: match self.head_norms {
                true => Some(HeadNorms {
                    queries: head_norm("q_norm")?,
                    keys: head_norm("k_norm")?,
                    epsilon: self.shape.epsilon,
                }),
                false => None,
            },
            window: self
                .window
                .filter(|(first, _)| n >= *first)
                .map(|(_, keys)| keys),
            output: product(&[("self_attn.o_proj", hidden)], queries, self.biases[1])?,
            gated_norm: norm("post_attention_layernorm", hidden)?,
            gate_up: vec![product(&gate_up, hidden, false)?],
            down: product(&[("mlp.down_proj", hidden)], inner, false)?,
        })
    }
}

/// Elements of a head, where a configuration leaves them to the others.
pub(super) fn head_dim(hidden: usize, heads: usize, kv_heads: usize) -> Result<usize> {
    if heads == 0
        || kv_heads == 0
        || !hidden.is_multiple_of(heads)
        || !heads.is_multiple_of(kv_heads)
    {
        bail!("{hidden} elements in {heads} heads, with {kv_heads} of keys: each must divide the one before it");
    }
    Ok(hidden / heads)
}

/// The gate's function is SiLU in all of them.
pub(super) fn check_activation(activation: Activation) -> Result<()> {
    match activation {
        Activation::Silu | Activation::Swiglu => Ok(()),
        other => bail!("hidden_act {other:?}: the gated layers here are by SiLU"),
    }
}
