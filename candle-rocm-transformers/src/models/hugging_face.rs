//! Decoders from Hugging Face's files, whose weights have the same names in all families.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{bail, Result, Tensor};
use candle_nn::Activation;
use candle_rocm_backend::communication::Rank;
use candle_rocm_backend::ops::HeadNorms;

use crate::linear::Linear;
use crate::parallel::{Parts, Whole};
use crate::pipeline::{Memory, Shares, Stage};
use crate::rotary::Frequencies;
use crate::source::{Part, Source};
use crate::transformer::Transformer;
use crate::weights::{Head, Layer, Shape, Weights};

/// The functions of a family that read weights from elsewhere than a `VarBuilder`: its module has `Config` and `decoder`.
macro_rules! loaders {
    () => {
        /// Reads the weights from another [`Source`](crate::Source), such as a [`Checkpoint`](crate::Checkpoint).
        ///
        /// # Errors
        /// As [`load`].
        pub fn load_source(
            weights: &dyn crate::Source,
            config: &Config,
        ) -> Result<crate::Transformer> {
            decoder(config)?.load(weights)
        }

        /// Reads the part of the weights that a rank has: [`Session`](crate::Session)s of all ranks, which make the same
        /// calls, are one model's.
        ///
        /// # Errors
        /// As [`load`]; the model cannot be divided among so many ranks, or the weights come to another device.
        pub fn load_rank(
            weights: &dyn crate::Source,
            config: &Config,
            rank: &std::sync::Arc<candle_rocm_backend::communication::Rank>,
        ) -> Result<crate::Transformer> {
            decoder(config)?.load_rank(weights, rank)
        }

        /// Reads the layers that a stage of a pipeline has, the embedding if it is the first and the head if it is the last:
        /// [`Session`](crate::Session)s of all ranks, which make the same calls, are one model's.
        ///
        /// # Errors
        /// As [`load`]; the shares are not of this model and these ranks, or ranks are given different ones; the weights come
        /// to another device.
        pub fn load_stage(
            weights: &dyn crate::Source,
            config: &Config,
            rank: &std::sync::Arc<candle_rocm_backend::communication::Rank>,
            shares: &crate::Shares,
        ) -> Result<crate::Transformer> {
            decoder(config)?.load_stage(weights, rank, shares)
        }
    };
}
pub(super) use loaders;

/// What the families differ in.
pub(super) struct Decoder {
    pub shape: Shape,
    /// Elements between the gated layer's products.
    pub inner: usize,
    pub layers: usize,
    /// Whether the embedding makes the logits, too. Where nobody says, it does so without `lm_head.weight`.
    pub tied: Option<bool>,
    pub frequencies: Frequencies,
    /// Whether the products of queries, keys and values add biases, and whether the output's does.
    pub biases: [bool; 2],
    /// Whether each head of queries and keys is normed.
    pub head_norms: bool,
    /// The first layer that sees a window, and of how many keys.
    pub window: Option<(usize, usize)>,
}

/// The embedding's name, which may be the last product's, too.
const EMBEDDING: &str = "model.embed_tokens.weight";

impl Decoder {
    /// Reads the weights (`model.layers.0.self_attn.q_proj.weight`, ...).
    pub fn load(self, weights: &dyn Source) -> Result<Transformer> {
        let whole = self.whole().of(0, 1)?;
        self.part(weights, &whole, None, true)
    }

    /// Reads a rank's part of them.
    pub fn load_rank(self, weights: &dyn Source, rank: &Arc<Rank>) -> Result<Transformer> {
        check_device(weights, rank)?;
        let parts = self.whole().of(rank.number(), rank.ranks())?;
        let vocabulary = self.shape.vocabulary;
        self.part(weights, &parts, None, rank.number() == 0)?
            .of_rank(rank.clone(), vocabulary)
    }

    /// Reads what a stage has of them.
    pub fn load_stage(
        self,
        weights: &dyn Source,
        rank: &Arc<Rank>,
        shares: &Shares,
    ) -> Result<Transformer> {
        check_device(weights, rank)?;
        let stage = Stage::new(rank, shares, &self.memory())?;
        let whole = self.whole().of(0, 1)?;
        let model = self.part(weights, &whole, Some(&stage), true)?;
        Ok(model.of_stage(stage))
    }

    /// In elements, as keys and values are of the weights' type.
    fn memory(&self) -> Memory {
        let Shape {
            heads,
            kv_heads,
            head_dim,
            hidden,
            vocabulary,
            ..
        } = self.shape;
        let rows = (2 * heads + 2 * kv_heads) * head_dim + 3 * self.inner;
        Memory {
            layers: vec![(rows * hidden) as u64; self.layers],
            token: (2 * kv_heads * head_dim) as u64,
            embedding: (vocabulary * hidden) as u64,
            head: (vocabulary * hidden) as u64,
        }
    }

    fn whole(&self) -> Whole {
        Whole {
            heads: self.shape.heads,
            kv_heads: self.shape.kv_heads,
            inner: self.inner,
            vocabulary: self.shape.vocabulary,
            head_unit: 1,
            inner_unit: 1,
        }
    }

    /// These parts of the model, or of a stage's layers. The biases of what is added up over ranks are the first one's.
    fn part(
        &self,
        weights: &dyn Source,
        parts: &Parts,
        stage: Option<&Stage>,
        is_first: bool,
    ) -> Result<Transformer> {
        let Shape {
            hidden, vocabulary, ..
        } = self.shape;
        let tokens = |name: &str| {
            let rows = Part::Rows(parts.vocabulary.clone());
            weights.get(&[vocabulary, hidden], name, &rows)
        };
        let embedding = match stage.is_none_or(Stage::is_first) {
            true => Some(tokens(EMBEDDING)?),
            false => None,
        };
        let has_head = || weights.contains("lm_head.weight");
        let is_tied = self.tied.unwrap_or_else(|| !has_head());
        let head = || -> Result<Head> {
            let product = match (&embedding, is_tied) {
                (Some(embedding), true) => embedding.clone(),
                (None, true) => tokens(EMBEDDING)?,
                (_, false) => tokens("lm_head.weight")?,
            };
            Ok(Head {
                norm: weights.get(&[hidden], "model.norm.weight", &Part::Whole)?,
                product: Linear::dense(&[product])?,
            })
        };
        let layers = stage.map_or(0..self.layers, Stage::layers);
        let layers = layers.map(|n| self.layer(n, weights, parts, is_first));
        Transformer::of(Weights {
            shape: Shape {
                heads: parts.heads.len(),
                kv_heads: parts.kv_heads.len(),
                vocabulary: parts.vocabulary.len(),
                ..self.shape
            },
            layers: layers.collect::<Result<_>>()?,
            head: match stage.is_none_or(Stage::is_last) {
                true => Some(head()?),
                false => None,
            },
            embedding,
            frequencies: self.frequencies.clone(),
        })
    }

    /// How many keys a query of layer `n` sees, if not all.
    fn window_of(&self, n: usize) -> Option<usize> {
        let (first, keys) = self.window?;
        (n >= first).then_some(keys)
    }

    fn layer(
        &self,
        n: usize,
        weights: &dyn Source,
        parts: &Parts,
        is_first: bool,
    ) -> Result<Layer> {
        let Shape {
            heads,
            kv_heads,
            head_dim,
            hidden,
            ..
        } = self.shape;
        let (queries, keys) = (heads * head_dim, kv_heads * head_dim);
        let of_heads = |heads: &Range<usize>| heads.start * head_dim..heads.end * head_dim;
        let (own_queries, own_keys) = (of_heads(&parts.heads), of_heads(&parts.kv_heads));
        let get = |name: &str, shape: &[usize], part: &Part| {
            weights.get(shape, &format!("model.layers.{n}.{name}"), part)
        };
        let norm = |name: &str, size: usize| get(&format!("{name}.weight"), &[size], &Part::Whole);
        // Rows of each, with biases if `biased`.
        let rows = |of: &[(&str, usize, &Range<usize>)], biased: bool| -> Result<Linear> {
            let all = |what: &str, columns: &[usize]| -> Result<Vec<Tensor>> {
                let of = of.iter();
                of.map(|(name, count, rows)| {
                    let shape = [&[*count], columns].concat();
                    get(
                        &format!("{name}.{what}"),
                        &shape,
                        &Part::Rows((*rows).clone()),
                    )
                })
                .collect()
            };
            let biases = match biased {
                true => all("bias", &[])?,
                false => Vec::new(),
            };
            Linear::dense(&all("weight", &[hidden])?)?.with_biases(&biases)
        };
        // Columns, whose products are added up over the ranks, and a bias once.
        let columns = |name: &str, of: usize, own: &Range<usize>, biased: bool| -> Result<Linear> {
            let own = Part::Columns(own.clone());
            let weight = get(&format!("{name}.weight"), &[hidden, of], &own)?;
            let biases = match biased && is_first {
                true => vec![get(&format!("{name}.bias"), &[hidden], &Part::Whole)?],
                false => Vec::new(),
            };
            Linear::dense(&[weight])?.with_biases(&biases)
        };
        let qkv = [
            ("self_attn.q_proj", queries, &own_queries),
            ("self_attn.k_proj", keys, &own_keys),
            ("self_attn.v_proj", keys, &own_keys),
        ];
        let gate_up = [
            ("mlp.gate_proj", self.inner, &parts.inner),
            ("mlp.up_proj", self.inner, &parts.inner),
        ];
        let head_norm = |name: &str| norm(&format!("self_attn.{name}"), head_dim);
        Ok(Layer {
            attention_norm: norm("input_layernorm", hidden)?,
            qkv: vec![rows(&qkv, self.biases[0])?],
            head_norms: match self.head_norms {
                true => Some(HeadNorms {
                    queries: head_norm("q_norm")?,
                    keys: head_norm("k_norm")?,
                    epsilon: self.shape.epsilon,
                }),
                false => None,
            },
            window: self.window_of(n),
            output: columns("self_attn.o_proj", queries, &own_queries, self.biases[1])?,
            gated_norm: norm("post_attention_layernorm", hidden)?,
            gate_up: vec![rows(&gate_up, false)?],
            down: columns("mlp.down_proj", self.inner, &parts.inner, false)?,
        })
    }
}

/// That a rank's weights come to its GPU.
fn check_device(weights: &dyn Source, rank: &Rank) -> Result<()> {
    if weights.device().same_device(&rank.device()) {
        return Ok(());
    }
    bail!(
        "weights come to {:?}, and {rank:?} is on {:?}",
        weights.device().location(),
        rank.device().location()
    );
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
