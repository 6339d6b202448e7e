//! Models of text: decoders, which read a prompt and then a token, and encoders.

use candle_core::{Module as _, Result, Tensor};
use candle_transformers::models::*;
use serde_json::{json, Value};

use crate::harness::{config, Maker};
use crate::Case;

/// What most decoders ask for, by Hugging Face's names.
fn decoder() -> Value {
    json!({
        "vocab_size": 96, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "hidden_act": "silu",
        "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "layer_norm_eps": 1e-5, "norm_epsilon": 1e-5,
        "rope_theta": 10000.0, "tie_word_embeddings": false, "attention_bias": false, "sliding_window": null,
        "max_window_layers": 2, "use_sliding_window": false, "use_flash_attn": false, "bos_token_id": 1,
        "eos_token_id": 2, "partial_rotary_factor": 0.5, "use_cache": true, "mlp_bias": false, "bias": false,
    })
}

/// What most encoders ask for.
fn encoder() -> Value {
    json!({
        "vocab_size": 96, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "hidden_act": "gelu", "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0, "max_position_embeddings": 64, "type_vocab_size": 2,
        "initializer_range": 0.02, "layer_norm_eps": 1e-5, "pad_token_id": 0,
        "position_embedding_type": "absolute",
    })
}

/// The logits after a prompt, and after one token more, of what gives them for tokens and how many came before.
fn decoded(
    maker: &Maker,
    mut forward: impl FnMut(&Tensor, usize) -> Result<Tensor>,
) -> Result<Vec<Tensor>> {
    let prompt = forward(&maker.tokens(0, 7)?, 0)?;
    let next = forward(&maker.tokens(7, 1)?, 7)?;
    Ok(vec![prompt, next])
}

/// Decoders whose models are made and called alike.
macro_rules! decoders {
    ($($module:ident: $model:ident $differs:tt)+) => {
        &[$(Case::new(stringify!($module), |maker| {
            let config: $module::Config = config(&decoder(), json!($differs))?;
            let mut model = $module::$model::new(&config, maker.weights())?;
            decoded(maker, |tokens, before| model.forward(tokens, before))
        })),+]
    };
}

/// Models without a cache that is told how many tokens came before: of a prompt alone.
fn read(maker: &Maker, mut forward: impl FnMut(&Tensor) -> Result<Tensor>) -> Result<Vec<Tensor>> {
    Ok(vec![forward(&maker.tokens(0, 7)?)?])
}

/// A model of RWKV, which keeps a state from one token to the next.
macro_rules! recurrent {
    ($module:ident) => {
        Case::new(stringify!($module), |maker| {
            let shape = json!({
                "vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 2, "attention_hidden_size": 64,
                "num_attention_heads": 8, "head_size": 8, "intermediate_size": null, "layer_norm_epsilon": 1e-5,
                "rescale_every": 6,
            });
            let config = config(&shape, json!({}))?;
            let model = $module::Model::new(&config, maker.weights())?;
            let mut state = $module::State::new(1, &config, &maker.device)?;
            let mut found = Vec::new();
            for n in 0..3 {
                found.push(model.forward(&maker.tokens(n, 1)?, &mut state)?);
            }
            Ok(found)
        })
    };
}

/// In any type.
pub const ALIKE: &[Case] = decoders! {
    mistral: Model {"head_dim": null}
    phi3: Model {}
    qwen2: ModelForCausalLM {"sliding_window": 8}
    qwen2_moe: Model {
        "sliding_window": 8, "decoder_sparse_step": 1, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 48,
        "num_experts_per_tok": 2, "num_experts": 4, "norm_topk_prob": true
    }
    starcoder2: Model {"use_bias": true}
    stable_lm: Model {}
    olmo: Model {}
    olmo2: Model {}
    helium: Model {}
};

/// In f32 alone: Candle weighs its experts in f32, and multiplies 16 bits by that.
pub const MIXTRAL: &[Case] = decoders! {
    mixtral: Model {"sliding_window": 4, "num_experts_per_tok": 2, "num_local_experts": 4}
};

/// In 16 bits alone: with `flash-attn`, which the workspace has on, Candle asks for it on a GPU, and it takes no f32.
pub const QWEN_3: &[Case] = decoders! {
    qwen3: ModelForCausalLM {}
};

pub const DECODERS: &[Case] = &[
    Case::new("gemma", |maker| {
        let differs = json!({"hidden_act": null, "hidden_activation": "gelu_pytorch_tanh"});
        let config = config(&decoder(), differs)?;
        let mut model = gemma::Model::new(false, &config, maker.weights())?;
        decoded(maker, |tokens, before| model.forward(tokens, before))
    }),
    Case::new("gemma2", |maker| {
        let differs = json!({
            "hidden_activation": "gelu_pytorch_tanh", "final_logit_softcapping": 30.0, "attn_logit_softcapping": 50.0,
            "query_pre_attn_scalar": 16, "sliding_window": 4,
        });
        let config = config(&decoder(), differs)?;
        let mut model = gemma2::Model::new(false, &config, maker.weights())?;
        decoded(maker, |tokens, before| model.forward(tokens, before))
    }),
    Case::new("falcon", |maker| {
        let differs = json!({
            "layer_norm_epsilon": 1e-5, "initializer_range": 0.02, "hidden_dropout": 0.0, "attention_dropout": 0.0,
            "n_head_kv": null, "alibi": false, "new_decoder_architecture": false, "multi_query": true,
            "parallel_attn": true,
        });
        let config = config(&decoder(), differs)?;
        let mut model = falcon::Falcon::load(maker.weights(), config)?;
        decoded(maker, |tokens, _| model.forward(tokens))
    }),
    Case::new("phi", |maker| {
        let config = config(
            &decoder(),
            json!({"hidden_act": "gelu_new", "qk_layernorm": false}),
        )?;
        let mut model = phi::Model::new(&config, maker.weights())?;
        decoded(maker, |tokens, _| model.forward(tokens))
    }),
    Case::new("glm4", |maker| {
        let differs = json!({
            "num_layers": 2, "padded_vocab_size": 96, "ffn_hidden_size": 96, "kv_channels": 16, "seq_length": 64,
            "layernorm_epsilon": 1e-5, "rmsnorm": true, "apply_residual_connection_post_layernorm": false,
            "post_layer_norm": true, "add_bias_linear": false, "add_qkv_bias": true, "bias_dropout_fusion": true,
            "multi_query_attention": true, "multi_query_group_num": 2, "apply_query_key_layer_scaling": true,
            "attention_softmax_in_fp32": true, "fp32_residual_connection": false, "eos_token_id": null,
        });
        let config = config(&decoder(), differs)?;
        let mut model = glm4::Model::new(&config, maker.weights())?;
        decoded(maker, |tokens, _| model.forward(tokens))
    }),
    Case::new("deepseek2", |maker| {
        let differs = json!({
            "moe_intermediate_size": 32, "n_shared_experts": 1, "n_routed_experts": 4, "num_experts_per_tok": 2,
            "first_k_dense_replace": 1, "qk_rope_head_dim": 8, "kv_lora_rank": 16, "v_head_dim": 16,
            "qk_nope_head_dim": 16, "n_group": 1, "topk_group": 1, "q_lora_rank": null, "rope_scaling": null,
        });
        let config: deepseek2::DeepSeekV2Config = config(&decoder(), differs)?;
        let mut model = deepseek2::DeepSeekV2::new(&config, maker.weights())?;
        decoded(maker, |tokens, before| model.forward(tokens, before))
    }),
    Case::new("granite", |maker| {
        let config: granite::GraniteConfig = config(&decoder(), json!({}))?;
        let config = config.into_config(false);
        let mut cache = granite::Cache::new(true, maker.dtype, &config, &maker.device)?;
        let model = granite::Granite::load(maker.weights(), &config)?;
        decoded(maker, |tokens, before| {
            model.forward(tokens, before, &mut cache)
        })
    }),
    Case::new("smollm3", |maker| {
        let config = config(&decoder(), json!({"no_rope_layer_interval": 2}))?;
        let mut model = smol::smollm3::ModelForCausalLM::new(&config, maker.weights())?;
        decoded(maker, |tokens, before| model.forward(tokens, before))
    }),
    Case::new("recurrent_gemma", |maker| {
        let differs = json!({
            "lru_width": 64, "attention_window_size": 4, "conv1d_width": 4, "logits_soft_cap": 30.0,
            "hidden_activation": "gelu_pytorch_tanh", "num_key_value_heads": 1,
            "block_types": ["recurrent", "attention"],
        });
        let config = config(&decoder(), differs)?;
        let mut model = recurrent_gemma::Model::new(&config, maker.weights())?;
        decoded(maker, |tokens, before| model.forward(tokens, before))
    }),
    Case::new("mamba", |maker| {
        let shape =
            json!({"d_model": 64, "n_layer": 2, "vocab_size": 96, "pad_vocab_size_multiple": 8});
        let config = config(&shape, json!({}))?;
        let model = mamba::Model::new(&config, maker.weights())?;
        let mut state = mamba::State::new(1, &config, maker.dtype, &maker.device)?;
        let mut found = Vec::new();
        for n in 0..4 {
            found.push(model.forward(&maker.tokens(n, 1)?.squeeze(0)?, &mut state)?);
        }
        Ok(found)
    }),
    Case::new("mamba2", |maker| {
        let shape = json!({
            "d_model": 64, "n_layer": 2, "vocab_size": 96, "d_state": 16, "expand": 2, "headdim": 16, "ngroups": 1,
            "pad_vocab_size_multiple": 8,
        });
        let config = config(&shape, json!({}))?;
        let model = mamba2::Model::new(&config, maker.weights())?;
        let mut state = mamba2::State::new(1, &config, maker.dtype, &maker.device)?;
        let prompt = model.forward_prefill(&maker.tokens(0, 8)?, &mut state, 4)?;
        let next = model.forward(&maker.tokens(8, 1)?.squeeze(0)?, &mut state)?;
        Ok(vec![prompt, next])
    }),
    recurrent!(rwkv_v5),
    recurrent!(rwkv_v6),
    Case::new("bigcode", |maker| {
        let config = bigcode::Config {
            vocab_size: 96,
            max_position_embeddings: 64,
            num_hidden_layers: 2,
            hidden_size: 64,
            layer_norm_epsilon: 1e-5,
            n_inner: Some(96),
            num_attention_heads: 4,
            multi_query: true,
            use_cache: true,
        };
        let mut model = bigcode::GPTBigCode::load(maker.weights(), config)?;
        decoded(maker, |tokens, before| model.forward(tokens, before))
    }),
];

pub const ENCODERS: &[Case] = &[
    Case::new("bert", |maker| {
        let config = config(&encoder(), json!({}))?;
        let model = bert::BertModel::load(maker.weights(), &config)?;
        let tokens = maker.tokens(0, 7)?;
        Ok(vec![model.forward(&tokens, &tokens.zeros_like()?, None)?])
    }),
    Case::new("distilbert", |maker| {
        let differs =
            json!({"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 96, "activation": "gelu"});
        let config = config(&encoder(), differs)?;
        let model = distilbert::DistilBertModel::load(maker.weights(), &config)?;
        let mask: Vec<u8> = (0..49).map(|n| u8::from(n % 7 > n / 7)).collect();
        let mask = Tensor::from_vec(mask, (7, 7), &maker.device)?;
        read(maker, |tokens| model.forward(tokens, &mask))
    }),
    Case::new("modernbert", |maker| {
        let differs = json!({
            "global_attn_every_n_layers": 2, "global_rope_theta": 10000.0, "local_attention": 4,
            "local_rope_theta": 10000.0,
        });
        let config = config(&encoder(), differs)?;
        let model = modernbert::ModernBert::load(maker.weights(), &config)?;
        let mask = Tensor::ones((1, 7), candle_core::DType::U32, &maker.device)?;
        read(maker, |tokens| model.forward(tokens, &mask))
    }),
    Case::new("debertav2", |maker| {
        let differs = json!({
            "relative_attention": true, "max_relative_positions": -1, "position_biased_input": false,
            "pos_att_type": ["p2c", "c2p"], "position_buckets": 8, "share_att_key": true, "norm_rel_ebd": "layer_norm",
        });
        let config = config(&encoder(), differs)?;
        let model = debertav2::DebertaV2Model::load(maker.weights(), &config)?;
        read(maker, |tokens| model.forward(tokens, None, None))
    }),
    Case::new("xlm_roberta", |maker| {
        let config = config(&encoder(), json!({}))?;
        let model = xlm_roberta::XLMRobertaModel::new(&config, maker.weights())?;
        let tokens = maker.tokens(0, 7)?;
        let (mask, kinds) = (tokens.ones_like()?, tokens.zeros_like()?);
        Ok(vec![
            model.forward(&tokens, &mask, &kinds, None, None, None)?
        ])
    }),
    Case::new("nomic_bert", |maker| {
        let differs = json!({
            "n_embd": 64, "n_head": 4, "n_layer": 2, "n_inner": 96, "n_positions": 64, "layer_norm_epsilon": 1e-5,
            "rotary_emb_fraction": 1.0, "rotary_emb_base": 1000.0, "rotary_emb_interleaved": false,
            "qkv_proj_bias": false, "mlp_fc1_bias": false, "mlp_fc2_bias": false, "activation_function": "swiglu",
            "prenorm": false,
        });
        let config = config(&encoder(), differs)?;
        let model = nomic_bert::NomicBertModel::load(maker.weights(), &config)?;
        read(maker, |tokens| model.forward(tokens, None, None))
    }),
    Case::new("jina_bert", |maker| {
        let act = candle_nn::Activation::Gelu;
        let place = jina_bert::PositionEmbeddingType::Alibi;
        let config = jina_bert::Config::new(96, 64, 2, 4, 96, act, 64, 2, 0.02, 1e-5, 0, place);
        let model = jina_bert::BertModel::new(maker.weights(), &config)?;
        read(maker, |tokens| model.forward(tokens))
    }),
    Case::new("marian", |maker| {
        let config = marian::Config {
            vocab_size: 96,
            encoder_layers: 2,
            encoder_ffn_dim: 96,
            encoder_attention_heads: 4,
            decoder_layers: 2,
            decoder_ffn_dim: 96,
            decoder_attention_heads: 4,
            d_model: 64,
            max_position_embeddings: 64,
            decoder_vocab_size: Some(96),
            ..marian::Config::opus_mt_fr_en()
        };
        let mut model = marian::MTModel::new(&config, maker.weights())?;
        let read = model.encoder().forward(&maker.tokens(0, 7)?, 0)?;
        let prompt = model.decode(&maker.tokens(7, 3)?, &read, 0)?;
        Ok(vec![prompt, model.decode(&maker.tokens(10, 1)?, &read, 3)?])
    }),
    Case::new("t5", |maker| {
        let shape = json!({
            "vocab_size": 96, "d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4,
            "relative_attention_num_buckets": 8, "relative_attention_max_distance": 16, "dropout_rate": 0.0,
            "layer_norm_epsilon": 1e-5, "initializer_factor": 1.0, "feed_forward_proj": "gated-gelu",
            "tie_word_embeddings": false, "is_encoder_decoder": true, "pad_token_id": 0, "eos_token_id": 1,
        });
        let config = config(&shape, json!({}))?;
        let mut model = t5::T5ForConditionalGeneration::load(maker.weights(), &config)?;
        Ok(vec![
            model.forward(&maker.tokens(0, 7)?, &maker.tokens(7, 3)?)?
        ])
    }),
];
