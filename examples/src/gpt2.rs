//! The GPT-2 architecture, which candle-transformers lacks: learned positions, layer norm before each block,
//! GELU, a head that shares the embedding's weights, and a cache of keys and values.

use std::path::Path;

use anyhow::{bail, ensure, Context, Result};
use candle_core::{DType, Device, Tensor, D};
use candle_nn::{LayerNorm, Module as _};
use serde::Deserialize;

use crate::checkpoint::{end_of_text, read_config, Progress, Weights};
use crate::generate::{LanguageModel, Limits};

/// The part of `config.json` that inference needs, under Hugging Face's names.
#[derive(Clone, Debug, Deserialize)]
pub struct Config {
    /// Tokens there are.
    pub vocab_size: usize,
    /// Tokens that a sequence can have.
    pub n_positions: usize,
    /// Width.
    pub n_embd: usize,
    /// Blocks.
    pub n_layer: usize,
    /// Attention heads a block.
    pub n_head: usize,
    /// Width of the feed-forward part; four times the width if absent.
    pub n_inner: Option<usize>,
    /// Added to the variance in layer norm.
    #[serde(default = "default_epsilon")]
    pub layer_norm_epsilon: f64,
    /// The feed-forward part's activation.
    #[serde(default)]
    pub activation_function: Activation,
    /// Whether attention scores are divided by the root of the head's width.
    #[serde(default = "yes")]
    pub scale_attn_weights: bool,
    /// Whether they are divided by the block's number, from 1, too.
    #[serde(default)]
    pub scale_attn_by_inverse_layer_idx: bool,
}

/// Activations that GPT-2 checkpoints name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// GELU by its tanh approximation, GPT-2's own.
    #[default]
    #[serde(alias = "gelu_pytorch_tanh", alias = "gelu_fast")]
    GeluNew,
    /// GELU by the error function.
    Gelu,
    /// The positive part.
    Relu,
    /// x times its sigmoid.
    #[serde(alias = "swish")]
    Silu,
}

fn default_epsilon() -> f64 {
    1e-5
}

fn yes() -> bool {
    true
}

impl Activation {
    fn forward(self, x: &Tensor) -> candle_core::Result<Tensor> {
        match self {
            Self::GeluNew => x.gelu(),
            Self::Gelu => x.gelu_erf(),
            Self::Relu => x.relu(),
            Self::Silu => x.silu(),
        }
    }
}

/// A matrix of shape (in, out), as GPT-2's checkpoints store it, and a bias.
struct Conv1d {
    weight: Tensor,
    bias: Tensor,
}

impl Conv1d {
    fn load(weights: &Weights, name: &str, input: usize, output: usize) -> Result<Self> {
        Ok(Self {
            weight: weights.get(&format!("{name}.weight"), &[input, output])?,
            bias: weights.get(&format!("{name}.bias"), &[output])?,
        })
    }

    /// (tokens, in) to (tokens, out).
    fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        x.matmul(&self.weight)?.broadcast_add(&self.bias)
    }
}

struct Block {
    norm_1: LayerNorm,
    qkv: Conv1d,
    out: Conv1d,
    norm_2: LayerNorm,
    up: Conv1d,
    down: Conv1d,
    activation: Activation,
    heads: usize,
    /// Of the attention scores.
    scale: f64,
    /// Keys and values read so far, each (heads, tokens, head's width).
    cache: Option<(Tensor, Tensor)>,
}

impl Block {
    fn load(weights: &Weights, name: &str, layer: usize, config: &Config) -> Result<Self> {
        let width = config.n_embd;
        let inner = config.n_inner.unwrap_or(4 * width);
        let mut scale = 1.0;
        if config.scale_attn_weights {
            scale /= ((width / config.n_head) as f64).sqrt();
        }
        if config.scale_attn_by_inverse_layer_idx {
            scale /= (layer + 1) as f64;
        }
        Ok(Self {
            norm_1: layer_norm(weights, &format!("{name}.ln_1"), config)?,
            qkv: Conv1d::load(weights, &format!("{name}.attn.c_attn"), width, 3 * width)?,
            out: Conv1d::load(weights, &format!("{name}.attn.c_proj"), width, width)?,
            norm_2: layer_norm(weights, &format!("{name}.ln_2"), config)?,
            up: Conv1d::load(weights, &format!("{name}.mlp.c_fc"), width, inner)?,
            down: Conv1d::load(weights, &format!("{name}.mlp.c_proj"), inner, width)?,
            activation: config.activation_function,
            heads: config.n_head,
            scale,
            cache: None,
        })
    }

    /// (tokens, width) to (tokens, width); `mask` is (tokens, tokens read and new), added to the scores.
    fn forward(&mut self, x: &Tensor, mask: Option<&Tensor>) -> candle_core::Result<Tensor> {
        let x = (x + self.attention(&self.norm_1.forward(x)?, mask)?)?;
        let h = self.up.forward(&self.norm_2.forward(&x)?)?;
        &x + self.down.forward(&self.activation.forward(&h)?)?
    }

    fn attention(&mut self, x: &Tensor, mask: Option<&Tensor>) -> candle_core::Result<Tensor> {
        let (count, width) = x.dims2()?;
        let qkv = self.qkv.forward(x)?;
        let part = |i: usize| {
            qkv.narrow(1, i * width, width)?
                .reshape((count, self.heads, width / self.heads))?
                .transpose(0, 1)?
                .contiguous()
        };
        let (q, mut k, mut v) = (part(0)?, part(1)?, part(2)?);
        if let Some((old_k, old_v)) = &self.cache {
            k = Tensor::cat(&[old_k, &k], 1)?;
            v = Tensor::cat(&[old_v, &v], 1)?;
        }
        // Scores and their softmax in f32, as half precision would lose small probabilities.
        let scores = q
            .to_dtype(DType::F32)?
            .matmul(&k.to_dtype(DType::F32)?.t()?)?;
        let mut scores = (scores * self.scale)?;
        if let Some(mask) = mask {
            scores = scores.broadcast_add(mask)?;
        }
        let weights = candle_nn::ops::softmax_last_dim(&scores)?;
        let y = weights
            .matmul(&v.to_dtype(DType::F32)?)?
            .to_dtype(x.dtype())?
            .transpose(0, 1)?
            .reshape((count, width))?;
        self.cache = Some((k, v));
        self.out.forward(&y)
    }
}

fn layer_norm(weights: &Weights, name: &str, config: &Config) -> Result<LayerNorm> {
    Ok(LayerNorm::new(
        weights.get(&format!("{name}.weight"), &[config.n_embd])?,
        weights.get(&format!("{name}.bias"), &[config.n_embd])?,
        config.layer_norm_epsilon,
    ))
}

/// A GPT-2 model with its cache.
pub struct Gpt2 {
    token_embedding: Tensor,
    position_embedding: Tensor,
    blocks: Vec<Block>,
    norm: LayerNorm,
    /// (vocabulary, width): the embedding's, unless the checkpoint has another.
    head: Tensor,
    device: Device,
    limits: Limits,
}

/// Loads from a Hugging Face folder.
///
/// # Errors
/// A file is missing, truncated or malformed, or tensors do not match the configuration. The text names the
/// file.
pub fn load(path: &Path, dtype: DType, device: &Device, progress: &Progress) -> Result<Gpt2> {
    let json = read_config(path, "gpt2")?;
    let file = path.join("config.json");
    let tied = json["tie_word_embeddings"].as_bool().unwrap_or(true);
    let end_of_text = end_of_text(path, &json)?;
    let config: Config =
        serde_json::from_value(json).with_context(|| file.display().to_string())?;
    check(&config).with_context(|| file.display().to_string())?;
    let weights = Weights::from_folder(path, dtype, device, progress)?;
    Gpt2::new(&config, tied, end_of_text, &weights, device)
}

fn check(config: &Config) -> Result<()> {
    for (name, value) in [
        ("vocab_size", config.vocab_size),
        ("n_positions", config.n_positions),
        ("n_embd", config.n_embd),
        ("n_head", config.n_head),
    ] {
        ensure!(value > 0, "`{name}` is 0");
    }
    if !config.n_embd.is_multiple_of(config.n_head) {
        bail!(
            "`n_embd` {} is not a multiple of `n_head` {}",
            config.n_embd,
            config.n_head
        );
    }
    Ok(())
}

impl Gpt2 {
    fn new(
        config: &Config,
        tied: bool,
        end_of_text: Vec<u32>,
        weights: &Weights,
        device: &Device,
    ) -> Result<Self> {
        // Files saved from the bare model have no `transformer.` before the names.
        let prefix = if weights.contains("wte.weight") {
            ""
        } else {
            "transformer."
        };
        let width = config.n_embd;
        let embedding_shape = [config.vocab_size, width];
        let token_embedding = weights.get(&format!("{prefix}wte.weight"), &embedding_shape)?;
        let head = if tied {
            token_embedding.clone()
        } else {
            weights.get("lm_head.weight", &embedding_shape)?
        };
        Ok(Self {
            position_embedding: weights
                .get(&format!("{prefix}wpe.weight"), &[config.n_positions, width])?,
            blocks: (0..config.n_layer)
                .map(|layer| Block::load(weights, &format!("{prefix}h.{layer}"), layer, config))
                .collect::<Result<_>>()?,
            norm: layer_norm(weights, &format!("{prefix}ln_f"), config)?,
            token_embedding,
            head,
            device: device.clone(),
            limits: Limits {
                context: config.n_positions,
                vocabulary: config.vocab_size,
                end_of_text,
            },
        })
    }
}

impl LanguageModel for Gpt2 {
    fn forward(&mut self, tokens: &[u32], position: usize) -> Result<Tensor> {
        let count = tokens.len();
        let input = Tensor::new(tokens, &self.device)?;
        let positions = self.position_embedding.narrow(0, position, count)?;
        let mut x = (self.token_embedding.embedding(&input)? + positions)?;
        // A single token sees everything before it.
        let mask = (count > 1)
            .then(|| -> candle_core::Result<Tensor> {
                let mask = candle_transformers::utils::build_additive_causal_mask(
                    count,
                    position,
                    None,
                    &self.device,
                    DType::F32,
                )?;
                mask.squeeze(0)
            })
            .transpose()?;
        for block in &mut self.blocks {
            x = block.forward(&x, mask.as_ref())?;
        }
        let last = x.narrow(0, count - 1, 1)?.contiguous()?;
        let logits = self.norm.forward(&last)?.matmul(&self.head.t()?)?;
        Ok(logits.squeeze(D::Minus2)?.to_dtype(DType::F32)?)
    }

    fn reset(&mut self) -> Result<()> {
        for block in &mut self.blocks {
            block.cache = None;
        }
        Ok(())
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }
}
