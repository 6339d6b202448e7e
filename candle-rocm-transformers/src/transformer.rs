//! The decoder that LLaMA and its descendants are: norms before attention and before a gated layer, both added to what
//! they read.

use candle_core::{bail, DType, Device, Result, Tensor};
use candle_rocm_backend::ops::{self, AttentionOptions, KvCache, Rotary, Scores};

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
    /// (hidden, heads * head_dim).
    pub output: Linear,
    /// Of the norm before the gated layer, (hidden).
    pub gated_norm: Tensor,
    /// Gate and what it gates, (2 * inner, hidden): one product, or one for each.
    pub gate_up: Vec<Linear>,
    /// (hidden, inner).
    pub down: Linear,
}

/// A model's weights.
#[derive(Clone, Debug)]
pub struct Transformer {
    pub(crate) shape: Shape,
    pub(crate) embedding: Tensor,
    pub(crate) layers: Vec<Layer>,
    pub(crate) norm: Tensor,
    pub(crate) head: Linear,
    pub(crate) frequencies: Frequencies,
}

/// Keys and values of each layer, and the angles of the positions that they have room for.
#[derive(Clone, Debug)]
pub struct Cache {
    layers: Vec<KvCache>,
    rotary: Rotary,
}

/// Where the queries of a step are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// Where the device's numbers say.
    OnDevice,
    /// All sequences at this position, which is known on the host.
    At(usize),
}

impl Transformer {
    /// A model of these weights.
    ///
    /// # Errors
    /// There is no layer, or the embedding is not (vocabulary, hidden).
    pub fn new(
        shape: Shape,
        embedding: Tensor,
        layers: Vec<Layer>,
        norm: Tensor,
        head: Linear,
        frequencies: Frequencies,
    ) -> Result<Self> {
        if layers.is_empty() {
            bail!("a model without layers");
        }
        if embedding.dims() != [shape.vocabulary, shape.hidden] {
            bail!(
                "an embedding of shape {:?}, for {} tokens of {} elements",
                embedding.shape(),
                shape.vocabulary,
                shape.hidden
            );
        }
        Ok(Self {
            shape,
            embedding,
            layers,
            norm,
            head,
            frequencies,
        })
    }

    /// Sizes.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Where the weights are.
    pub fn device(&self) -> &Device {
        self.embedding.device()
    }

    /// The activations' type.
    pub fn dtype(&self) -> DType {
        self.embedding.dtype()
    }

    /// Memory for `capacity` tokens of each of `batch` sequences.
    ///
    /// # Errors
    /// As [`KvCache::new`].
    pub fn cache(&self, batch: usize, capacity: usize) -> Result<Cache> {
        let Shape {
            kv_heads, head_dim, ..
        } = self.shape;
        let sizes = (batch, kv_heads, capacity, head_dim);
        let layer = |_| KvCache::new(sizes, self.dtype(), self.device());
        Ok(Cache {
            layers: (0..self.layers.len()).map(layer).collect::<Result<_>>()?,
            rotary: self
                .frequencies
                .table(capacity, self.dtype(), self.device())?,
        })
    }

    /// The logits after the last of `tokens`, (batch, steps) of u32: (batch, vocabulary) of f32. `position`, u32 of shape
    /// (batch), is how many tokens came before.
    pub(crate) fn forward(
        &self,
        tokens: &Tensor,
        position: &Tensor,
        place: Place,
        cache: &Cache,
    ) -> Result<Tensor> {
        let (batch, steps) = tokens.dims2()?;
        let Shape {
            hidden, epsilon, ..
        } = self.shape;
        let mut x = self.embedding.index_select(&tokens.flatten_all()?, 0)?;
        let mut normed = ops::rms_norm(&x, &self.layers[0].attention_norm, epsilon)?;
        for (n, layer) in self.layers.iter().enumerate() {
            let qkv = together(&layer.qkv, &normed)?.reshape((batch, steps, ()))?;
            let attention =
                self.attention(&qkv, position, place, &cache.layers[n], &cache.rotary)?;
            let attention = layer
                .output
                .forward(&attention.reshape((batch * steps, ()))?)?;
            (x, normed) = ops::add_rms_norm(&attention, &x, &layer.gated_norm, epsilon)?;
            let gated = ops::swiglu_packed(&together(&layer.gate_up, &normed)?)?;
            let gated = layer.down.forward(&gated)?;
            let next = self
                .layers
                .get(n + 1)
                .map_or(&self.norm, |next| &next.attention_norm);
            (x, normed) = ops::add_rms_norm(&gated, &x, next, epsilon)?;
        }
        let last = normed
            .reshape((batch, steps, hidden))?
            .narrow(1, steps - 1, 1)?;
        let logits = self.head.forward(&last.reshape((batch, hidden))?)?;
        logits.to_dtype(DType::F32)
    }

    /// (batch, steps, heads, head_dim).
    fn attention(
        &self,
        qkv: &Tensor,
        position: &Tensor,
        place: Place,
        cache: &KvCache,
        rotary: &Rotary,
    ) -> Result<Tensor> {
        let queries = cache.append(qkv, rotary, position)?;
        let scale = 1. / (self.shape.head_dim as f64).sqrt();
        match place {
            Place::At(first) if queries.dim(1)? > 1 => {
                // (batch, tokens, kv_heads, head_dim), where they are.
                let tokens = first + queries.dim(1)?;
                let keys = cache.keys(tokens)?.transpose(1, 2)?;
                let values = cache.values(tokens)?.transpose(1, 2)?;
                let options = AttentionOptions {
                    scale: Some(scale as f32),
                    causal: true,
                    ..AttentionOptions::default()
                };
                ops::attention(&queries, &keys, &values, &options)
            }
            _ => cache.attend(&queries, position, &Scores::scaled(scale)),
        }
    }
}

/// The results of products with the same input, one after another in each row.
fn together(products: &[Linear], x: &Tensor) -> Result<Tensor> {
    match products {
        [one] => one.forward(x),
        several => {
            let results: Vec<Tensor> = several
                .iter()
                .map(|product| product.forward(x))
                .collect::<Result<_>>()?;
            Tensor::cat(&results, 1)
        }
    }
}
