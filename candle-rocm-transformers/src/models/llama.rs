//! LLaMA 1 to 3 from Hugging Face files: the model of `candle_transformers::models::llama`, with its configuration.

use std::f32::consts::PI;

use candle_core::{bail, Result};
use candle_nn::VarBuilder;
use candle_rocm_backend::ops::Pairs;
pub use candle_transformers::models::llama::{
    Config, Llama3RopeConfig, Llama3RopeType, LlamaConfig, LlamaEosToks,
};

use crate::linear::Linear;
use crate::rotary::Frequencies;
use crate::transformer::{Layer, Shape, Transformer};

/// Reads the weights under their names in Hugging Face's files (`model.layers.0.self_attn.q_proj.weight`, ...).
///
/// `use_flash_attn` and the limits of the configuration are not looked at: a [`crate::Session`] has its own capacity.
///
/// # Errors
/// A tensor is missing or has another shape, heads do not divide, or the device has not the memory.
pub fn load(weights: VarBuilder, config: &Config) -> Result<Transformer> {
    let shape = shape(config)?;
    let (hidden, inner) = (config.hidden_size, config.intermediate_size);
    let (queries, keys) = (
        shape.heads * shape.head_dim,
        shape.kv_heads * shape.head_dim,
    );
    let layer = |n: usize| -> Result<Layer> {
        let weights = weights.pp("model.layers").pp(n);
        let matrix = |name: &str, rows: usize, columns: usize| {
            weights.get((rows, columns), &format!("{name}.weight"))
        };
        let norm = |name: &str| weights.get(hidden, &format!("{name}.weight"));
        let qkv = [
            matrix("self_attn.q_proj", queries, hidden)?,
            matrix("self_attn.k_proj", keys, hidden)?,
            matrix("self_attn.v_proj", keys, hidden)?,
        ];
        let gate_up = [
            matrix("mlp.gate_proj", inner, hidden)?,
            matrix("mlp.up_proj", inner, hidden)?,
        ];
        Ok(Layer {
            attention_norm: norm("input_layernorm")?,
            qkv: vec![Linear::dense(&qkv)?],
            output: Linear::dense(&[matrix("self_attn.o_proj", hidden, queries)?])?,
            gated_norm: norm("post_attention_layernorm")?,
            gate_up: vec![Linear::dense(&gate_up)?],
            down: Linear::dense(&[matrix("mlp.down_proj", hidden, inner)?])?,
        })
    };
    let embedding = weights.get((config.vocab_size, hidden), "model.embed_tokens.weight")?;
    let head = if config.tie_word_embeddings {
        embedding.clone()
    } else {
        weights.get((config.vocab_size, hidden), "lm_head.weight")?
    };
    Transformer::new(
        shape,
        embedding,
        (0..config.num_hidden_layers)
            .map(layer)
            .collect::<Result<_>>()?,
        weights.get(hidden, "model.norm.weight")?,
        Linear::dense(&[head])?,
        frequencies(config, shape.head_dim),
    )
}

fn shape(config: &Config) -> Result<Shape> {
    let (heads, kv_heads, hidden) = (
        config.num_attention_heads,
        config.num_key_value_heads,
        config.hidden_size,
    );
    if heads == 0
        || kv_heads == 0
        || !hidden.is_multiple_of(heads)
        || !heads.is_multiple_of(kv_heads)
    {
        bail!("{hidden} elements in {heads} heads, with {kv_heads} of keys: each must divide the one before it");
    }
    Ok(Shape {
        heads,
        kv_heads,
        head_dim: hidden / heads,
        hidden,
        vocabulary: config.vocab_size,
        epsilon: config.rms_norm_eps,
    })
}

/// LLaMA 3.1's slow pairs turn slower still, which stretches its context.
fn frequencies(config: &Config, dim: usize) -> Frequencies {
    let mut all = Frequencies::of_base(config.rope_theta, dim, Pairs::Halves);
    let Some(scaling) = &config.rope_scaling else {
        return all;
    };
    if matches!(scaling.rope_type, Llama3RopeType::Default) {
        return all;
    }
    let context = scaling.original_max_position_embeddings as f32;
    let (longest, shortest) = (
        context / scaling.low_freq_factor,
        context / scaling.high_freq_factor,
    );
    for frequency in &mut all.of_pair {
        let wavelength = 2. * PI / *frequency;
        if wavelength > longest {
            *frequency /= scaling.factor;
        } else if wavelength >= shortest {
            let share = (context / wavelength - scaling.low_freq_factor)
                / (scaling.high_freq_factor - scaling.low_freq_factor);
            *frequency = (1. - share) * *frequency / scaling.factor + share * *frequency;
        }
    }
    all
}
