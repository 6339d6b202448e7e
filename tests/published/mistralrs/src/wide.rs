//! A LLaMA with heads of 32 elements, made one with heads of 64 that computes the same.

use std::path::Path;

use anyhow::{ensure, Context, Result};
use candle_core::{safetensors, DType, Device, Tensor};
use serde_json::Value;

const OLD: usize = 32;
const NEW: usize = 64;

/// Rewrites weights and configuration in this folder. Such a model is Mistral's architecture: LLaMA's, in mistral.rs,
/// has no size of heads of its own.
pub fn widen(folder: &Path) -> Result<()> {
    let file = folder.join("config.json");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&file)?)?;
    ensure!(
        config["head_dim"] == OLD,
        "the model's heads have another size"
    );
    config["architectures"] = vec!["MistralForCausalLM"].into();
    config["model_type"] = "mistral".into();
    config["head_dim"] = NEW.into();
    config["sliding_window"] = Value::Null;
    std::fs::write(&file, config.to_string())?;

    let file = folder.join("model.safetensors");
    let mut weights = safetensors::load(&file, &Device::Cpu)?;
    for (name, weight) in &mut weights {
        *weight = weight.to_dtype(DType::F32)?;
        let projection = name
            .strip_suffix("_proj.weight")
            .and_then(|name| name.rsplit_once("self_attn."));
        match projection.map(|(_, projection)| projection) {
            // Scores are divided by the root of the heads' new size.
            Some("q") => *weight = (rows(weight)? * (NEW as f64 / OLD as f64).sqrt())?,
            Some("k" | "v") => *weight = rows(weight)?,
            Some("o") => *weight = rows(&weight.t()?)?.t()?.contiguous()?,
            _ => {}
        }
    }
    safetensors::save(&weights, &file).context("saving the weights")
}

/// Zeros behind each row of a head. So each pair of elements keeps its frequency of rotation: that of a pair's number
/// over the heads' size.
fn rows(weight: &Tensor) -> Result<Tensor> {
    let (all, columns) = weight.dims2()?;
    let each = weight.reshape((all, 1, columns))?;
    let both = Tensor::cat(&[&each, &each.zeros_like()?], 1)?;
    Ok(both.reshape((all * NEW / OLD, columns))?)
}
