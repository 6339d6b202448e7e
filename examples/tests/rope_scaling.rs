//! Rotary positions of configurations: Llama 3's scaling against an independent computation, and every form
//! in which transformers writes them.

use anyhow::{ensure, Context, Result};
use candle_core::{DType, Device, Tensor};
use candle_rocm_examples::checkpoint::Progress;
use candle_rocm_examples::generate::first_step_logits;
use candle_rocm_examples::{llama, shipped_model};
use serde_json::{json, Value};

const ROWS: usize = 64;
const THETA: f64 = 500_000.;

fn base() -> Value {
    json!({
        "model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "vocab_size": ROWS, "num_hidden_layers": 1,
        "num_attention_heads": 1, "num_key_value_heads": 1, "rms_norm_eps": 1e-5, "max_position_embeddings": 4096,
        "tie_word_embeddings": true, "hidden_act": "silu", "eos_token_id": [1, 2],
    })
}

fn scaling() -> Value {
    json!({"rope_type": "llama3", "rope_theta": THETA, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 128})
}

/// Llama 3's rule in f64, as Meta states it by wavelengths: short ones stay, those longer than the original
/// context are stretched, and between them the two are blended.
fn frequency(i: usize, head: usize) -> f64 {
    let plain = THETA.powf(-(2. * i as f64) / head as f64);
    let wavelength = 2. * std::f64::consts::PI / plain;
    let (original, factor, low, high) = (128., 8., 1., 4.);
    if wavelength < original / high {
        plain
    } else if wavelength > original / low {
        plain / factor
    } else {
        let smooth = (original / wavelength - low) / (high - low);
        (1. - smooth) * plain / factor + smooth * plain
    }
}

/// A one-layer, one-head model whose queries, keys and values are its normalised input: attention is then
/// simple enough to write down in f64.
fn write_model(folder: &std::path::Path, config: &Value) -> Result<Vec<Vec<f64>>> {
    let hidden = 64;
    let eye = Tensor::eye(hidden, DType::F32, &Device::Cpu)?;
    let embedding: Vec<f32> = (0..ROWS * hidden)
        .map(|i| ((i * 7919 % 211) as f32 - 105.) / 100.)
        .collect();
    let rows = embedding
        .chunks(hidden)
        .map(|r| r.iter().map(|&x| x.into()).collect())
        .collect();
    let embedding = Tensor::from_vec(embedding, (ROWS, hidden), &Device::Cpu)?;
    let ones = Tensor::ones(hidden, DType::F32, &Device::Cpu)?;
    let mut tensors = std::collections::HashMap::from([
        ("model.embed_tokens.weight".to_string(), embedding),
        ("model.norm.weight".to_string(), ones.clone()),
    ]);
    for name in ["q_proj", "k_proj", "v_proj", "o_proj"] {
        tensors.insert(
            format!("model.layers.0.self_attn.{name}.weight"),
            eye.clone(),
        );
    }
    for name in ["gate_proj", "up_proj"] {
        let zero = Tensor::zeros((96, hidden), DType::F32, &Device::Cpu)?;
        tensors.insert(format!("model.layers.0.mlp.{name}.weight"), zero);
    }
    let zero = Tensor::zeros((hidden, 96), DType::F32, &Device::Cpu)?;
    tensors.insert("model.layers.0.mlp.down_proj.weight".to_string(), zero);
    for name in ["input_layernorm", "post_attention_layernorm"] {
        tensors.insert(format!("model.layers.0.{name}.weight"), ones.clone());
    }
    candle_core::safetensors::save(&tensors, folder.join("model.safetensors"))?;
    std::fs::write(folder.join("config.json"), config.to_string())?;
    Ok(rows)
}

fn normalised(x: &[f64]) -> Vec<f64> {
    let mean = x.iter().map(|v| v * v).sum::<f64>() / x.len() as f64;
    x.iter().map(|v| v / (mean + 1e-5).sqrt()).collect()
}

fn rotated(x: &[f64], position: usize) -> Vec<f64> {
    let half = x.len() / 2;
    let mut y = vec![0.; x.len()];
    for i in 0..half {
        let (sin, cos) = (position as f64 * frequency(i, x.len())).sin_cos();
        y[i] = x[i] * cos - x[i + half] * sin;
        y[i + half] = x[i + half] * cos + x[i] * sin;
    }
    y
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn llama3_scaling_matches_an_independent_computation() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut config = base();
    config["rope_parameters"] = scaling();
    let rows = write_model(folder.path(), &config)?;
    let mut model = llama::load(folder.path(), DType::F32, &Device::Cpu, &Progress::hidden())?;
    // Longer than the original context, so that every wavelength matters.
    let prompt: Vec<u32> = (0..200).map(|i| (i * 37 % ROWS) as u32).collect();
    let logits = first_step_logits(&mut model, &prompt)?;

    let inputs: Vec<Vec<f64>> = prompt
        .iter()
        .map(|&t| normalised(&rows[t as usize]))
        .collect();
    let last = prompt.len() - 1;
    let query = rotated(&inputs[last], last);
    let scores: Vec<f64> = inputs
        .iter()
        .enumerate()
        .map(|(p, x)| (dot(&query, &rotated(x, p)) / 8.).exp())
        .collect();
    let total: f64 = scores.iter().sum();
    let mut out = rows[prompt[last] as usize].clone();
    for (score, x) in scores.iter().zip(&inputs) {
        for (o, v) in out.iter_mut().zip(x) {
            *o += score / total * v;
        }
    }
    let out = normalised(&out);
    for (row, logit) in rows.iter().zip(&logits) {
        let expected = dot(row, &out);
        // f32 angles of up to 200 radians carry an error of about 1e-5, and the logits are of the order of 10.
        ensure!(
            (expected - f64::from(*logit)).abs() < 2e-3,
            "logit {logit}, expected {expected}"
        );
    }
    Ok(())
}

#[test]
fn old_and_new_forms_of_the_configuration_agree() -> Result<()> {
    let mut new = base();
    new["rope_parameters"] = scaling();
    let mut old = base();
    old["rope_theta"] = json!(THETA);
    old["rope_scaling"] = scaling();
    for json in [new, old] {
        let config = llama::parse_config(&json)?;
        ensure!(
            config.rope_theta == THETA as f32,
            "theta {}",
            config.rope_theta
        );
        let scaling = config.rope_scaling.context("no scaling")?;
        ensure!(
            scaling.factor == 8. && scaling.high_freq_factor == 4.,
            "{scaling:?}"
        );
    }
    let mut plain = base();
    plain["rope_scaling"] = json!({"type": "default"});
    ensure!(llama::parse_config(&plain)?.rope_scaling.is_none());
    Ok(())
}

#[test]
fn what_candle_has_not_is_refused_by_name() -> Result<()> {
    for (field, value) in [
        ("rope_scaling", json!({"type": "linear", "factor": 2.0})),
        (
            "rope_scaling",
            json!({"rope_type": "llama3", "factor": 2.0}),
        ),
        ("attention_bias", json!(true)),
        ("mlp_bias", json!(true)),
        ("hidden_act", json!("gelu")),
        ("head_dim", json!(128)),
        ("num_key_value_heads", json!(0)),
        ("hidden_size", json!(63)),
        ("hidden_size", json!("large")),
        ("vocab_size", Value::Null),
    ] {
        let mut json = base();
        json[field] = value.clone();
        ensure!(
            llama::parse_config(&json).is_err(),
            "{field}: {value} was accepted"
        );
    }
    ensure!(llama::parse_config(&base()).is_ok());
    Ok(())
}

#[test]
fn the_shipped_configuration_is_read() -> Result<()> {
    let text = std::fs::read_to_string(shipped_model("llama-stories").join("config.json"))?;
    let config = llama::parse_config(&serde_json::from_str(&text)?)?;
    ensure!(
        config.num_key_value_heads < config.num_attention_heads,
        "the shipped model shows grouped queries"
    );
    ensure!(config.tie_word_embeddings && config.rope_theta == 10_000.);
    Ok(())
}
