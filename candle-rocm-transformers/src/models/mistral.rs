//! Mistral from Hugging Face files: the model of `candle_transformers::models::mistral`, with its configuration.

use candle_core::Result;
use candle_nn::VarBuilder;
use candle_rocm_backend::ops::Pairs;
pub use candle_transformers::models::mistral::Config;

use super::hugging_face::{check_activation, head_dim, loaders, Decoder};
use crate::rotary::Frequencies;
use crate::transformer::Transformer;
use crate::weights::Shape;

/// Reads the weights, as [`super::llama::load`].
///
/// A query sees `sliding_window` keys, its own position's included, as Hugging Face's own model has it, while it decodes, too:
/// candle-transformers' sees one more, and all of them while it decodes. Without `lm_head.weight` the embedding makes the
/// logits.
///
/// # Errors
/// As [`super::llama::load`]; `hidden_act` is not SiLU.
pub fn load(weights: VarBuilder, config: &Config) -> Result<Transformer> {
    load_source(&weights, config)
}

loaders!();

fn decoder(config: &Config) -> Result<Decoder> {
    check_activation(config.hidden_act)?;
    let (heads, kv_heads, hidden) = (
        config.num_attention_heads,
        config.num_key_value_heads,
        config.hidden_size,
    );
    let head_dim = match config.head_dim {
        Some(dim) => dim,
        None => head_dim(hidden, heads, kv_heads)?,
    };
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
        // The configuration does not say.
        tied: None,
        frequencies: Frequencies::of_base(config.rope_theta as f32, head_dim, Pairs::Halves),
        biases: [false; 2],
        head_norms: false,
        window: config.sliding_window.map(|keys| (0, keys)),
    })
}
