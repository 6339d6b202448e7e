//! Qwen 3 from Hugging Face files: the model of `candle_transformers::models::qwen3`, with its configuration.

use candle_core::{bail, Result};
use candle_nn::VarBuilder;
use candle_rocm_backend::ops::Pairs;
pub use candle_transformers::models::qwen3::Config;

use super::hugging_face::{check_activation, loaders, Decoder};
use crate::rotary::Frequencies;
use crate::transformer::Transformer;
use crate::weights::Shape;

/// Reads the weights, as [`super::llama::load`]; each head of queries and keys is normed before its rotary embedding.
///
/// With `use_sliding_window` the layers from `max_window_layers` on see `sliding_window` keys, which candle-transformers'
/// model refuses.
///
/// # Errors
/// As [`super::llama::load`]; `hidden_act` is not SiLU; a window is used, and its size is missing.
pub fn load(weights: VarBuilder, config: &Config) -> Result<Transformer> {
    load_source(&weights, config)
}

loaders!();

fn decoder(config: &Config) -> Result<Decoder> {
    check_activation(config.hidden_act)?;
    let (heads, kv_heads) = (config.num_attention_heads, config.num_key_value_heads);
    if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
        bail!("{heads} heads, with {kv_heads} of keys, which must divide them");
    }
    let window = match (config.use_sliding_window, config.sliding_window) {
        (false, _) => None,
        (true, Some(keys)) => Some((config.max_window_layers, keys)),
        (true, None) => bail!("use_sliding_window without sliding_window"),
    };
    Ok(Decoder {
        shape: Shape {
            heads,
            kv_heads,
            head_dim: config.head_dim,
            hidden: config.hidden_size,
            vocabulary: config.vocab_size,
            epsilon: config.rms_norm_eps,
        },
        inner: config.intermediate_size,
        layers: config.num_hidden_layers,
        tied: Some(config.tie_word_embeddings),
        frequencies: Frequencies::of_base(config.rope_theta as f32, config.head_dim, Pairs::Halves),
        biases: [config.attention_bias; 2],
        head_norms: true,
        window,
    })
}
