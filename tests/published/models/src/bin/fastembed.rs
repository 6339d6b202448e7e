//! fastembed's text models: Qwen 3, and Nomic's mixture of experts.
//!
//! `fastembed TOKENIZER`: a file whose words are numbered up to [`VOCABULARY`].

use anyhow::{Context, Error, Result};
use fastembed::{
    NomicBertModel, NomicConfig, NomicV2MoeTextEmbedding, Qwen3Config, Qwen3Model,
    Qwen3TextEmbedding,
};
use published_models::{apart, hold, on_both};
use serde_json::json;
use tokenizers::Tokenizer;

const VOCABULARY: usize = 1280;
/// Elements of vectors whose length is 1.
const TOLERANCE: f32 = 1e-5;

fn main() -> Result<()> {
    let file = std::env::args().nth(1).context("the tokenizer's file")?;
    let tokenizer = Tokenizer::from_file(file).map_err(Error::msg)?;
    // Of unequal lengths: the shorter one is filled up.
    let mut padded = tokenizer.clone();
    padded.with_padding(Some(Default::default()));
    let texts = [
        "Once upon a time there was a little dog.",
        "The sun went down over the green hills",
    ];

    let config: Qwen3Config = serde_json::from_value(json!({
        "attention_bias": false, "attention_dropout": 0.0, "head_dim": 32, "hidden_act": "silu", "hidden_size": 128,
        "intermediate_size": 256, "max_position_embeddings": 512, "num_attention_heads": 4, "num_hidden_layers": 3,
        "num_key_value_heads": 2, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": true,
        "vocab_size": VOCABULARY,
    }))?;
    let (cpu, gpu) = on_both(|weights, _| Ok(Qwen3Model::new(config.clone(), weights)?))?;
    let embed = |model| Qwen3TextEmbedding::new(model, padded.clone()).embed(&texts);
    hold(
        "fastembed, Qwen 3",
        apart(&embed(cpu)?.concat(), &embed(gpu)?.concat())?,
        TOLERANCE,
    )?;

    let config: NomicConfig = serde_json::from_value(json!({
        "hidden_size": 128, "num_attention_heads": 4, "intermediate_size": 256, "num_hidden_layers": 4,
        "max_position_embeddings": 512, "vocab_size": VOCABULARY, "num_experts": 8, "moe_top_k": 2,
    }))?;
    let (cpu, gpu) = on_both(|weights, _| Ok(NomicBertModel::new(config.clone(), weights)?))?;
    let embed =
        |model| NomicV2MoeTextEmbedding::new(model, padded.clone(), config.clone()).embed(&texts);
    hold(
        "fastembed, Nomic's experts",
        apart(&embed(cpu)?.concat(), &embed(gpu)?.concat())?,
        TOLERANCE,
    )
}
