//! Small models of LLaMA's kin.

use candle_nn::Activation;
use candle_rocm_transformers::models::{mistral, qwen2, qwen3};

use super::Sizes;

pub const SIZES: Sizes = Sizes {
    hidden: 96,
    inner: 160,
    vocabulary: 77,
    layers: 2,
    heads: 6,
    kv_heads: 2,
    head_dim: 16,
    biases: false,
    head_norms: false,
};

pub fn mistral_config(sizes: &Sizes, window: Option<usize>) -> mistral::Config {
    mistral::Config {
        vocab_size: sizes.vocabulary,
        hidden_size: sizes.hidden,
        intermediate_size: sizes.inner,
        num_hidden_layers: sizes.layers,
        num_attention_heads: sizes.heads,
        head_dim: Some(sizes.head_dim),
        num_key_value_heads: sizes.kv_heads,
        hidden_act: Activation::Silu,
        max_position_embeddings: 64,
        rms_norm_eps: 1e-5,
        rope_theta: 10_000.,
        sliding_window: window,
        use_flash_attn: false,
    }
}

pub fn qwen2_config(sizes: &Sizes, tied: bool) -> qwen2::Config {
    qwen2::Config {
        vocab_size: sizes.vocabulary,
        hidden_size: sizes.hidden,
        intermediate_size: sizes.inner,
        num_hidden_layers: sizes.layers,
        num_attention_heads: sizes.heads,
        num_key_value_heads: sizes.kv_heads,
        max_position_embeddings: 64,
        sliding_window: 64,
        max_window_layers: 1,
        tie_word_embeddings: tied,
        rope_theta: 1e6,
        rms_norm_eps: 1e-6,
        use_sliding_window: false,
        hidden_act: Activation::Silu,
    }
}

pub fn qwen3_config(sizes: &Sizes) -> qwen3::Config {
    qwen3::Config {
        vocab_size: sizes.vocabulary,
        hidden_size: sizes.hidden,
        intermediate_size: sizes.inner,
        num_hidden_layers: sizes.layers,
        num_attention_heads: sizes.heads,
        head_dim: sizes.head_dim,
        attention_bias: false,
        num_key_value_heads: sizes.kv_heads,
        max_position_embeddings: 64,
        sliding_window: None,
        max_window_layers: 0,
        tie_word_embeddings: false,
        rope_theta: 1e6,
        rms_norm_eps: 1e-6,
        use_sliding_window: false,
        hidden_act: Activation::Silu,
    }
}
