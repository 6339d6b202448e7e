//! LLaMA's kin by the example's loader: the shipped story teller under their names writes PyTorch's tokens, since a Mistral
//! without a window is a LLaMA, and so is a Qwen 2 whose biases are zero.

#![cfg(feature = "rocm")]

mod common;

use std::collections::HashMap;
use std::path::Path;

use anyhow::{ensure, Context as _, Result};
use candle_core::{DType, Device, Tensor};
use candle_rocm_examples::checkpoint::Progress;
use candle_rocm_examples::decoder;
use candle_rocm_examples::device::Choice;
use candle_rocm_examples::generate::{generate, AnyModel, Options};
use candle_rocm_examples::model_code::{ModelArgs, ModelCode};
use candle_rocm_examples::shipped_model;
use serde_json::{json, Value};

const TOKENS: usize = 16;

/// The story teller in another folder, with its configuration and weights changed.
fn renamed(
    folder: &Path,
    changes: Value,
    add: impl Fn(&str, &Tensor) -> Result<Option<(String, Tensor)>>,
) -> Result<()> {
    let shipped = shipped_model("llama-stories");
    let text = std::fs::read_to_string(shipped.join("config.json"))?;
    let mut config: Value = serde_json::from_str(&text)?;
    for (name, value) in changes.as_object().context("an object")? {
        config[name] = value.clone();
    }
    std::fs::write(folder.join("config.json"), config.to_string())?;
    let mut weights: HashMap<String, Tensor> =
        candle_core::safetensors::load(shipped.join("model.safetensors"), &Device::Cpu)?;
    let mut added = Vec::new();
    for (name, weight) in &weights {
        added.extend(add(name, weight)?);
    }
    weights.extend(added);
    candle_core::safetensors::save(&weights, folder.join("model.safetensors"))?;
    Ok(())
}

fn load(folder: &Path, args: &ModelArgs, device: &Device) -> Result<AnyModel> {
    decoder::load(folder, args, DType::F32, device, &Progress::hidden())
}

#[test]
fn the_story_teller_writes_pytorchs_tokens_under_other_names() -> Result<()> {
    let (case, _) = common::truth(&shipped_model("llama-stories"))?
        .into_iter()
        .next()
        .context("no recorded case")?;
    let options = Options {
        max_tokens: TOKENS,
        ignore_end_of_text: true,
        ..Options::default()
    };
    for choice in [Choice::Rocm, Choice::Cpu] {
        let device = common::open(choice)?;
        for changes in [
            json!({"model_type": "mistral", "sliding_window": null}),
            json!({"model_type": "qwen2", "sliding_window": null, "use_sliding_window": false}),
        ] {
            let folder = tempfile::tempdir()?;
            let biased = changes["model_type"] == "qwen2";
            renamed(folder.path(), changes.clone(), |name, weight| {
                let of = ["q_proj", "k_proj", "v_proj"];
                if !biased || !of.iter().any(|of| name.contains(of)) {
                    return Ok(None);
                }
                let zeros = Tensor::zeros(weight.dim(0)?, weight.dtype(), &Device::Cpu)?;
                Ok(Some((name.replace("weight", "bias"), zeros)))
            })?;
            let mut model = load(folder.path(), &ModelArgs::default(), &device)?;
            let written = generate(&mut model, &case.prompt_tokens, &options, &mut |_| Ok(()))?;
            ensure!(
                written.tokens == case.tokens[..TOKENS],
                "{changes} on {:?}: wrote {:?}, not {:?}",
                device.location(),
                written.tokens,
                &case.tokens[..TOKENS]
            );
            ensure!(
                model.captured().is_some() == device.is_cuda(),
                "{changes}: a captured step"
            );
        }
    }
    Ok(())
}

#[test]
fn what_a_family_has_not_is_named() -> Result<()> {
    let device = Device::Cpu;
    let candle = ModelArgs {
        model_code: Some(ModelCode::Candle),
        context: None,
        fp8: false,
        cache_dtype: None,
        ..ModelArgs::default()
    };
    let scaled = json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16});
    for (changes, args, expected) in [
        (
            json!({"model_type": "mistral"}),
            &candle,
            "--model-code candle",
        ),
        (
            json!({"model_type": "qwen3", "head_dim": 32}),
            &ModelArgs::default(),
            "q_norm",
        ),
        (
            json!({"model_type": "qwen2", "rope_parameters": scaled}),
            &ModelArgs::default(),
            "rope_scaling",
        ),
        (
            json!({"model_type": "qwen2", "max_position_embeddings": "?"}),
            &ModelArgs::default(),
            "max_position_embeddings",
        ),
        (
            json!({"model_type": "gemma"}),
            &ModelArgs::default(),
            "type `gemma`",
        ),
    ] {
        let folder = tempfile::tempdir()?;
        renamed(folder.path(), changes.clone(), |_, _| Ok(None))?;
        let error = load(folder.path(), args, &device)
            .err()
            .context("it loaded")?;
        let text = format!("{error:#}");
        ensure!(
            text.contains(expected),
            "{changes}: `{text}` lacks `{expected}`"
        );
    }
    Ok(())
}
