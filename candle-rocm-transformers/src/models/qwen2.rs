//! Qwen 2 and 2.5 from Hugging Face files: the model of `candle_transformers::models::qwen2`, with its configuration.

use candle_core::Result;
use candle_nn::VarBuilder;
use candle_rocm_backend::ops::Pairs;
pub use candle_transformers::models::qwen2::Config;

use super::hugging_face::{check_activation, head_dim, loaders, Decoder};
use crate::rotary::Frequencies;
use crate::transformer::Transformer;
use crate::weights::Shape;

/// Reads the weights, as [`super::llama::load`]; the products of queries, keys and values have biases.
///
/// With `use_sliding_window` the layers from `max_window_layers` on see `sliding_window` keys, as in Hugging Face's own model;
/// without it, all see all keys (candle-transformers' hides those beyond the window in prompts, be it used or not).
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
        frequencies: Frequencies::of_base(config.rope_theta as f32, head_dim, Pairs::Halves),
        biases: [true, false],
        head_norms: false,
        window: config
            .use_sliding_window
            .then_some((config.max_window_layers, config.sliding_window)),
    })
}
