//! candle-mi's transformer, with what its hooks capture on the way.

use anyhow::{Context, Result};
use candle_core::{DType, Tensor};
use candle_mi::backend::MIBackend;
use candle_mi::config::TransformerConfig;
use candle_mi::{GenericTransformer, HookPoint, HookSpec};
use published_models::{apart, hold, on_both};
use serde_json::json;

/// Of logits, and of activations between layers.
const TOLERANCE: f32 = 1e-4;

fn main() -> Result<()> {
    let llama = json!({
        "model_type": "llama", "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "max_position_embeddings": 512, "vocab_size": 1280, "tie_word_embeddings": false,
    });
    let mut gemma = llama.clone();
    gemma["model_type"] = "gemma2".into();
    gemma["head_dim"] = 32.into();
    gemma["tie_word_embeddings"] = true.into();
    gemma["sliding_window"] = 8.into();
    gemma["query_pre_attn_scalar"] = 32.into();
    gemma["attn_logit_softcapping"] = 50.0.into();
    gemma["final_logit_softcapping"] = 30.0.into();
    for config in [llama, gemma] {
        let what = format!(
            "candle-mi, {}",
            config["model_type"].as_str().context("a name")?
        );
        let config = TransformerConfig::from_hf_config(&config)?;
        let (cpu, gpu) = on_both(|weights, device| {
            let model = GenericTransformer::load(config.clone(), device, DType::F32, weights)?;
            Ok((model, device.clone()))
        })?;
        hold(&what, apart(&run(&cpu)?, &run(&gpu)?)?, TOLERANCE)?;
    }
    Ok(())
}

/// The logits of two rows of tokens, and each layer's results and attention.
fn run((model, device): &(GenericTransformer, candle_core::Device)) -> Result<Vec<f32>> {
    let mut hooks = HookSpec::new();
    let mut points = Vec::new();
    for layer in 0..model.num_layers() {
        points.extend([HookPoint::ResidPost(layer), HookPoint::AttnPattern(layer)]);
    }
    for point in &points {
        hooks.capture(point.clone());
    }
    let tokens: Vec<u32> = (0..40u32).map(|number| number * 977 % 1280).collect();
    let tokens = Tensor::from_vec(tokens, (2, 20), device)?;
    let cache = model.forward(&tokens, &hooks)?;
    let mut values = cache.output().flatten_all()?.to_vec1::<f32>()?;
    for point in &points {
        values.extend(cache.require(point)?.flatten_all()?.to_vec1::<f32>()?);
    }
    Ok(values)
}
