//! The decoder that LLaMA and its descendants are: norms before attention and before a gated layer, both added to what
//! they read.

use std::sync::Arc;

use candle_core::{bail, DType, Device, Result, Tensor};
use candle_rocm_backend::communication::Rank;
use candle_rocm_backend::ops::{CompletionCounters, KvCache, Rotary, Scores};
use candle_rocm_backend::profile;

use crate::cache::Cache;
use crate::chained;
use crate::linear::{Gated, Linear, Norm, State};
use crate::parallel::Parallel;
use crate::pipeline::Stage;
use crate::ranks::Ranks;
use crate::rotary::Frequencies;
use crate::weights::{Head, Layer, Shape, Weights};

/// A model's weights.
#[derive(Clone, Debug)]
pub struct Transformer {
    weights: Weights,
    /// Whether a token alone goes from product to product as a quantised vector.
    chained: bool,
    /// Of keys and values.
    cache_dtype: DType,
    /// Whether the weights are all of the model, or a rank's.
    ranks: Ranks,
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
    /// There is no layer, a window is empty, or the embedding is not (vocabulary, hidden).
    pub fn new(
        shape: Shape,
        embedding: Tensor,
        layers: Vec<Layer>,
        norm: Tensor,
        head: Linear,
        frequencies: Frequencies,
    ) -> Result<Self> {
        Self::of(Weights {
            shape,
            embedding: Some(embedding),
            layers,
            head: Some(Head {
                norm,
                product: head,
            }),
            frequencies,
        })
    }

    /// A model of these weights, all of which are here.
    ///
    /// # Errors
    /// As [`Transformer::new`].
    pub(crate) fn of(weights: Weights) -> Result<Self> {
        let Weights { shape, layers, .. } = &weights;
        if layers.is_empty() {
            bail!("a model without layers");
        }
        if layers.iter().any(|layer| layer.window == Some(0)) {
            bail!("a window of 0 keys: a query sees itself at least");
        }
        let expected = [shape.vocabulary, shape.hidden];
        let embedding = weights.embedding.as_ref();
        if let Some(embedding) = embedding.filter(|it| it.dims() != expected) {
            bail!(
                "an embedding of shape {:?}, for {} tokens of {} elements",
                embedding.shape(),
                shape.vocabulary,
                shape.hidden
            );
        }
        Ok(Self {
            chained: chained::is_possible(&weights),
            cache_dtype: default_cache_dtype(&weights),
            weights,
            ranks: Ranks::One,
        })
    }

    /// The same as a rank's part of a model of so many tokens.
    pub(crate) fn of_rank(self, rank: Arc<Rank>, vocabulary: usize) -> Result<Self> {
        let shape = Shape {
            vocabulary,
            ..self.weights.shape
        };
        Ok(Self {
            ranks: Ranks::Parts(Parallel::new(rank, vocabulary)?),
            weights: Weights {
                shape,
                ..self.weights
            },
            ..self
        })
    }

    /// The same as a stage of a pipeline.
    pub(crate) fn of_stage(self, stage: Stage) -> Self {
        let ranks = Ranks::Layers(stage);
        Self { ranks, ..self }
    }

    /// The same model with its products in FP8, the last one too: weights with a factor for each 128 x 128. Activations of few
    /// rows stay as they are, those of a prompt are cast by 128 of a row where the GPU multiplies FP8. Embedding and norms
    /// stay as they are.
    ///
    /// # Errors
    /// As [`Linear::to_fp8`].
    pub fn to_fp8(&self) -> Result<Self> {
        let all = |products: &[Linear]| -> Result<Vec<Linear>> {
            products.iter().map(Linear::to_fp8).collect()
        };
        let layer = |layer: &Layer| -> Result<Layer> {
            Ok(Layer {
                qkv: all(&layer.qkv)?,
                output: layer.output.to_fp8()?,
                gate_up: all(&layer.gate_up)?,
                down: layer.down.to_fp8()?,
                ..layer.clone()
            })
        };
        let weights = &self.weights;
        let head = |head: &Head| -> Result<Head> {
            Ok(Head {
                norm: head.norm.clone(),
                product: head.product.to_fp8()?,
            })
        };
        let layers = weights.layers.iter().map(layer);
        Ok(Self {
            chained: false,
            cache_dtype: self.cache_dtype,
            ranks: self.ranks.clone(),
            weights: Weights {
                layers: layers.collect::<Result<_>>()?,
                head: weights.head.as_ref().map(head).transpose()?,
                ..weights.clone()
            },
        })
    }

    /// Sizes; of a rank the vocabulary's is the model's, and heads are its own.
    pub fn shape(&self) -> &Shape {
        &self.weights.shape
    }

    /// How many layers are here: of a stage of a pipeline its own.
    pub fn layers(&self) -> usize {
        self.weights.layers.len()
    }

    /// Where the weights are.
    pub fn device(&self) -> &Device {
        self.weights.device()
    }

    /// The activations' type.
    pub fn dtype(&self) -> DType {
        self.weights.dtype()
    }

    /// The type of keys and values in a [`Cache`]: the activations', but f16 where weights are quantised, activations f32 and the
    /// model on a GPU, where attention then reads half the bytes. [`Transformer::with_cache_dtype`] sets another.
    pub fn cache_dtype(&self) -> DType {
        self.cache_dtype
    }

    /// The same model with keys and values of this type in caches that are made from now on: the activations', or, of f32, f16 or
    /// bf16, to which keys and values are rounded once ([`KvCache`] says how).
    ///
    /// # Errors
    /// Another type.
    pub fn with_cache_dtype(self, dtype: DType) -> Result<Self> {
        let of_f32 = self.dtype() == DType::F32 && matches!(dtype, DType::F16 | DType::BF16);
        if dtype != self.dtype() && !of_f32 {
            bail!(
                "Transformer::with_cache_dtype: keys and values of {dtype:?}, and activations of {:?}: the cache has their type, \
                 or F16 or BF16 where they are F32",
                self.dtype()
            );
        }
        Ok(Self {
            cache_dtype: dtype,
            ..self
        })
    }

    /// Memory for `capacity` tokens of each of `batch` sequences, of [`Transformer::cache_dtype`].
    ///
    /// # Errors
    /// As [`KvCache::new`].
    pub fn cache(&self, batch: usize, capacity: usize) -> Result<Cache> {
        let Shape {
            kv_heads, head_dim, ..
        } = self.weights.shape;
        let sizes = (batch, kv_heads, capacity, head_dim);
        let layer = |_| KvCache::new(sizes, self.cache_dtype, self.device());
        Ok(Cache {
            layers: (0..self.weights.layers.len())
                .map(layer)
                .collect::<Result<_>>()?,
            completion: CompletionCounters::new(self.longest_vector(), self.device())?,
            rotary: self
                .weights
                .frequencies
                .table(capacity, self.dtype(), self.device())?,
        })
    }

    /// Elements of the longest vector that a chained step makes.
    fn longest_vector(&self) -> usize {
        let inner = |layer: &Layer| layer.down.of_vectors()?.0.shape().dims().last().copied();
        let layers = self.weights.layers.iter();
        layers.filter_map(inner).max().unwrap_or(0)
    }

    /// The logits after the last of `tokens`, (batch, steps) of u32: (batch, vocabulary) of f32, of a rank those of its part
    /// of the vocabulary; of a stage that another follows the state, (batch, hidden). `position`, u32 of shape (batch), is how
    /// many tokens came before.
    pub(crate) fn forward(
        &self,
        tokens: &Tensor,
        position: &Tensor,
        place: Place,
        cache: &Cache,
    ) -> Result<Tensor> {
        let (batch, steps) = tokens.dims2()?;
        let (weights, ranks) = (&self.weights, &self.ranks);
        let mut state = ranks.enter(weights, &tokens.flatten_all()?)?;
        if self.chained && batch * steps == 1 {
            let found = chained::forward(weights, ranks, state, position, cache)?;
            ranks.hand_on(&found)?;
            return Ok(found);
        }
        for (n, layer) in weights.layers.iter().enumerate() {
            let _range = profile::range_with(|| format!("layer {n}"));
            let qkv = state.products(self.norm_of(&layer.attention_norm), &layer.qkv)?;
            let qkv = qkv.reshape((batch, steps, ()))?;
            let keys = (&cache.layers[n], &cache.rotary);
            let attention = self.attention(layer, &qkv, position, place, keys)?;
            let attention = Gated::Activated(attention.reshape((batch * steps, ()))?);
            let gated_norm = self.norm_of(&layer.gated_norm);
            state = ranks.add(&layer.output, &state, attention, Some(gated_norm))?;
            let gated = state.gated(gated_norm, &layer.gate_up)?;
            let next = weights.norm_before(n + 1).map(|norm| self.norm_of(norm));
            state = ranks.add(&layer.down, &state, gated, next)?;
        }
        ranks.hand_on(&state.x)?;
        let last = |x: Tensor| {
            let last = x
                .reshape((batch, steps, weights.shape.hidden))?
                .narrow(1, steps - 1, 1)?;
            last.reshape((batch, weights.shape.hidden))?.contiguous()
        };
        let state = State {
            x: last(state.x)?,
            normed: state.normed.map(last).transpose()?,
        };
        let Some(Head { norm, product }) = &weights.head else {
            return Ok(state.x);
        };
        let logits = state.products(self.norm_of(norm), std::slice::from_ref(product))?;
        logits.to_dtype(DType::F32)
    }

    /// The logits of all tokens, of what [`Transformer::forward`] gives.
    pub(crate) fn all_logits(&self, found: Tensor) -> Result<Tensor> {
        self.ranks.all_logits(found, self.weights.shape.vocabulary)
    }

    /// How GPUs share it.
    pub(crate) fn ranks(&self) -> &Ranks {
        &self.ranks
    }

    fn norm_of<'a>(&self, weight: &'a Tensor) -> Norm<'a> {
        Norm {
            weight,
            epsilon: self.weights.shape.epsilon,
        }
    }

    /// Of all heads, (batch, steps, heads * head_dim), whose keys and values it keeps: (batch, steps, heads, head_dim).
    fn attention(
        &self,
        layer: &Layer,
        qkv: &Tensor,
        position: &Tensor,
        place: Place,
        (cache, rotary): (&KvCache, &Rotary),
    ) -> Result<Tensor> {
        let scale = 1. / (self.weights.shape.head_dim as f64).sqrt();
        let norms = layer.head_norms.as_ref();
        let scores = Scores {
            window: layer.window,
            ..Scores::scaled(scale)
        };
        match place {
            Place::At(first) if qkv.dim(1)? > 1 => {
                let position = (position, first);
                cache.append_and_attend_prompt(qkv, norms, rotary, position, &scores)
            }
            _ => cache.append_and_attend(qkv, norms, rotary, position, &scores),
        }
    }
}

/// Of keys and values, where nobody asked for another: quantised weights have f32 activations, of which a GPU keeps 16 bits. The
/// CPU would widen all keys for each token.
fn default_cache_dtype(weights: &Weights) -> DType {
    let quantised = |layer: &Layer| layer.qkv.iter().any(Linear::is_quantised);
    match (weights.dtype(), weights.device()) {
        (DType::F32, Device::Cuda(_)) if weights.layers.iter().any(quantised) => DType::F16,
        (dtype, _) => dtype,
    }
}
