//! GGUF files, written here from the shipped model, give what the safetensors give.

mod common;

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use anyhow::{ensure, Context, Result};
use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Tensor};
use candle_rocm_examples::checkpoint::Progress;
use candle_rocm_examples::generate::{first_step_logits, LanguageModel as _};
use candle_rocm_examples::gguf::llama3_divisors;
use candle_rocm_examples::{llama, shipped_model};
use candle_transformers::models::llama::{Llama3RopeConfig, Llama3RopeType};

use common::{relative_error, truth};

const PROJECTIONS: [(&str, &str); 9] = [
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
    ("input_layernorm", "attn_norm"),
    ("post_attention_layernorm", "ffn_norm"),
];

/// llama.cpp's order of rows, row by row as its converter describes it: of head `h`, row `2 i + j` is
/// Hugging Face's row `i + j * (head / 2)`.
fn pairs_from_halves(weight: &Tensor, heads: usize) -> Result<Tensor> {
    let rows = weight.dims2()?.0;
    let head = rows / heads;
    let order: Vec<u32> = (0..rows)
        .map(|row| (row / head * head + row % head / 2 + row % 2 * (head / 2)) as u32)
        .collect();
    Ok(weight.index_select(&Tensor::new(order, &Device::Cpu)?, 0)?)
}

/// The shipped model as GGUF; `divisors` becomes `rope_freqs.weight`.
fn write_gguf(path: &Path, dtype: GgmlDType, divisors: Option<Vec<f32>>) -> Result<()> {
    let folder = shipped_model("llama-stories");
    let tensors = candle_core::safetensors::load(folder.join("model.safetensors"), &Device::Cpu)?;
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("config.json"))?)?;
    let c = llama::parse_config(&json)?;
    let mut out: Vec<(String, QTensor)> = Vec::new();
    for (name, tensor) in &tensors {
        let name = name.strip_suffix(".weight").context("not a weight")?;
        let (gguf, tensor) = match name {
            "model.embed_tokens" => ("token_embd".to_string(), tensor.clone()),
            "model.norm" => ("output_norm".to_string(), tensor.clone()),
            _ => {
                let rest = name
                    .strip_prefix("model.layers.")
                    .context("not in a layer")?;
                let (layer, rest) = rest.split_once('.').context("no layer number")?;
                let (_, gguf) = PROJECTIONS
                    .iter()
                    .find(|(hf, _)| *hf == rest)
                    .context("unknown tensor")?;
                let tensor = match *gguf {
                    "attn_q" => pairs_from_halves(tensor, c.num_attention_heads)?,
                    "attn_k" => pairs_from_halves(tensor, c.num_key_value_heads)?,
                    _ => tensor.clone(),
                };
                (format!("blk.{layer}.{gguf}"), tensor)
            }
        };
        // llama.cpp keeps vectors in f32.
        let dtype = if tensor.rank() == 1 {
            GgmlDType::F32
        } else {
            dtype
        };
        let tensor = QTensor::quantize(&tensor.to_dtype(DType::F32)?, dtype)?;
        out.push((format!("{gguf}.weight"), tensor));
    }
    if let Some(divisors) = divisors {
        let tensor = QTensor::quantize(&Tensor::new(divisors, &Device::Cpu)?, GgmlDType::F32)?;
        out.push(("rope_freqs.weight".to_string(), tensor));
    }
    let count = |n: usize| Value::U32(n as u32);
    let metadata = [
        ("general.architecture", Value::String("llama".to_string())),
        ("llama.block_count", count(c.num_hidden_layers)),
        ("llama.context_length", count(c.max_position_embeddings)),
        ("llama.embedding_length", count(c.hidden_size)),
        ("llama.feed_forward_length", count(c.intermediate_size)),
        ("llama.attention.head_count", count(c.num_attention_heads)),
        (
            "llama.attention.head_count_kv",
            count(c.num_key_value_heads),
        ),
        (
            "llama.attention.layer_norm_rms_epsilon",
            Value::F32(c.rms_norm_eps as f32),
        ),
        ("llama.rope.freq_base", Value::F32(c.rope_theta)),
        ("tokenizer.ggml.eos_token_id", Value::U32(1)),
    ];
    let metadata: Vec<(&str, &Value)> = metadata.iter().map(|(k, v)| (*k, v)).collect();
    let out: Vec<(&str, &QTensor)> = out.iter().map(|(k, v)| (k.as_str(), v)).collect();
    gguf_file::write(&mut BufWriter::new(File::create(path)?), &metadata, &out)?;
    Ok(())
}

/// The largest error of the first logits over the recorded prompts.
fn error_of(path: &Path) -> Result<f32> {
    let mut model = llama::load(path, DType::F32, &Device::Cpu, &Progress::hidden())?;
    ensure!(
        model.limits().end_of_text == [1],
        "end of text {:?}",
        model.limits().end_of_text
    );
    let mut worst = 0f32;
    for (case, expected) in truth(&shipped_model("llama-stories"))? {
        let logits = first_step_logits(&mut model, &case.prompt_tokens)?;
        worst = worst.max(relative_error(&logits, &expected));
    }
    Ok(worst)
}

#[test]
fn gguf_gives_what_the_safetensors_give() -> Result<()> {
    let folder = tempfile::tempdir()?;
    // bf16 weights are exact in f32, and lose only their smallest values in f16. Q8_0 keeps 8 bits.
    for (dtype, bound) in [
        (GgmlDType::F32, 1e-4),
        (GgmlDType::F16, 1e-3),
        (GgmlDType::Q8_0, 3e-2),
    ] {
        let path = folder.path().join(format!("{dtype:?}.gguf"));
        write_gguf(&path, dtype, None)?;
        let error = error_of(&path)?;
        ensure!(error <= bound, "{dtype:?}: logits differ by {error:e}");
    }
    Ok(())
}

#[test]
fn llama3_scaling_is_recognised_in_a_gguf() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("scaled.gguf");
    let scaling = Llama3RopeConfig {
        factor: 8.,
        low_freq_factor: 1.,
        high_freq_factor: 4.,
        original_max_position_embeddings: 8192,
        rope_type: Llama3RopeType::Llama3,
    };
    write_gguf(
        &path,
        GgmlDType::F32,
        Some(llama3_divisors(&scaling, 10_000., 32)),
    )?;
    let model = llama::load(&path, DType::F32, &Device::Cpu, &Progress::hidden())?;
    let found = model
        .config()
        .rope_scaling
        .clone()
        .context("no scaling was found")?;
    ensure!(
        found.factor == 8. && found.original_max_position_embeddings == 8192,
        "{found:?}"
    );

    write_gguf(
        &path,
        GgmlDType::F32,
        Some((1..=16).map(|i| i as f32).collect()),
    )?;
    let error = llama::load(&path, DType::F32, &Device::Cpu, &Progress::hidden()).err();
    let error = format!("{:#}", error.context("unknown divisors were accepted")?);
    ensure!(
        error.contains("rope_freqs.weight") && error.contains("scaled.gguf"),
        "{error}"
    );
    Ok(())
}

#[test]
fn a_truncated_gguf_is_an_error_that_names_it() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("cut.gguf");
    write_gguf(&path, GgmlDType::F16, None)?;
    let bytes = std::fs::read(&path)?;
    for keep in [0, 3, 20, 300, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..keep])?;
        let error = llama::load(&path, DType::F32, &Device::Cpu, &Progress::hidden()).err();
        let error = format!(
            "{:#}",
            error.with_context(|| format!("{keep} bytes were accepted"))?
        );
        ensure!(error.contains("cut.gguf"), "{keep} bytes: {error}");
    }
    Ok(())
}
