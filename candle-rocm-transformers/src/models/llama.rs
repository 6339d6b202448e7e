//! LLaMA 1 to 3 from Hugging Face files: the model of `candle_transformers::models::llama`, with its configuration.

use candle_core::Result;
use candle_nn::VarBuilder;
use candle_rocm_backend::ops::Pairs;
pub use candle_transformers::models::llama::{
    Config, Llama3RopeConfig, Llama3RopeType, LlamaConfig, LlamaEosToks,
};
use std::f32::consts::PI;

use super::hugging_face::{head_dim, loaders, Decoder};
use crate::rotary::Frequencies;
use crate::transformer::Transformer;
use crate::weights::Shape;

/// Reads the weights under their names in Hugging Face's files (`model.layers.0.self_attn.q_proj.weight`, ...).
///
/// `use_flash_attn` and the limits of the configuration are not looked at: a [`crate::Session`] has its own capacity.
///
/// # Errors
/// A tensor is missing or has another shape, heads do not divide, or the device has not the memory.
pub fn load(weights: VarBuilder, config: &Config) -> Result<Transformer> {
    load_source(&weights, config)
}

loaders!();

fn decoder(config: &Config) -> Result<Decoder> {
    let (heads, kv_heads, hidden) = (
        config.num_attention_heads,
        config.num_key_value_heads,
        config.hidden_size,
    );
    let head_dim = head_dim(hidden, heads, kv_heads)?;
    Ok(Decoder {
        shape: Shape {
            heads,
            kv_heads,
            head_dim,
            hidden,
            vocabulary: config.vocab_size,
            epsilon: config.rms_norm_eps,
        },
        inner: config.intermediate_size,
        layers: config.num_hidden_layers,
        tied: Some(config.tie_word_embeddings),
        frequencies: frequencies(config, head_dim),
        biases: [false; 2],
        head_norms: false,
        window: None,
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
