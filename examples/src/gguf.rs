//! LLaMA from GGUF files: llama.cpp's names and row order turned into Hugging Face's.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use anyhow::{bail, ensure, Context, Result};
use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::{DType, Device, Tensor};
use candle_transformers::models::llama::{Config, Llama3RopeConfig, Llama3RopeType, LlamaEosToks};

use crate::checkpoint::{Progress, Weights};
use crate::llama_config;

/// Names of a block's tensors in GGUF and in a Hugging Face checkpoint.
const BLOCK_TENSORS: [(&str, &str); 9] = [
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
    ("attn_norm", "input_layernorm"),
    ("ffn_norm", "post_attention_layernorm"),
];
/// Names of the tensors outside the blocks.
const TENSORS: [(&str, &str); 3] = [
    ("token_embd.weight", "model.embed_tokens.weight"),
    ("output_norm.weight", "model.norm.weight"),
    ("output.weight", "lm_head.weight"),
];
/// Divisors of the rotary frequencies, which llama.cpp writes for Llama 3's scaling.
pub(crate) const ROPE_DIVISORS: &str = "rope_freqs.weight";

/// Configuration, tokens that end a text, and weights. Quantised tensors are dequantised to `dtype`.
///
/// # Errors
/// The file is no GGUF, truncated, of another architecture, or lacks a tensor or a value. The text names it.
pub fn load(
    path: &Path,
    dtype: DType,
    device: &Device,
    progress: &Progress,
) -> Result<(Config, Vec<u32>, Weights)> {
    read(path, dtype, device, progress).with_context(|| path.display().to_string())
}

fn read(
    path: &Path,
    dtype: DType,
    device: &Device,
    progress: &Progress,
) -> Result<(Config, Vec<u32>, Weights)> {
    let (mut file, content) = open(path)?;
    progress.add_file(path, file.get_ref().metadata()?.len());
    let mut config = config(&content)?;
    if content.tensor_infos.contains_key(ROPE_DIVISORS) {
        let divisors = content.tensor(&mut file, ROPE_DIVISORS, &Device::Cpu)?;
        let divisors: Vec<f32> = divisors
            .dequantize(&Device::Cpu)?
            .flatten_all()?
            .to_vec1()?;
        config.rope_scaling = Some(scaling_of(&divisors, &config)?);
    }
    llama_config::check(&config)?;

    let mut tensors = HashMap::new();
    for (name, info) in &content.tensor_infos {
        let Some(hf_name) = hugging_face_name(name) else {
            if name == ROPE_DIVISORS {
                continue;
            }
            bail!("tensor `{name}` is none of the LLaMA architecture's");
        };
        let load = || -> Result<Tensor> {
            let tensor = content
                .tensor(&mut file, name, &Device::Cpu)?
                .dequantize(&Device::Cpu)?;
            let tensor = match name.rsplit('.').nth(1) {
                Some("attn_q") => halves_from_pairs(&tensor, config.num_attention_heads)?,
                Some("attn_k") => halves_from_pairs(&tensor, config.num_key_value_heads)?,
                _ => tensor,
            };
            Ok(tensor.to_dtype(dtype)?.to_device(device)?)
        };
        let mut load = load;
        tensors.insert(hf_name, load().with_context(|| format!("tensor `{name}`"))?);
        let (block, size) = (info.ggml_dtype.block_size(), info.ggml_dtype.type_size());
        progress.advance((info.shape.elem_count() / block * size) as u64);
    }
    progress.finish();
    let end_of_text = match &config.eos_token_id {
        Some(LlamaEosToks::Single(token)) => vec![*token],
        Some(LlamaEosToks::Multiple(tokens)) => tokens.clone(),
        None => Vec::new(),
    };
    Ok((
        config,
        end_of_text,
        Weights::new(path, tensors, dtype, device),
    ))
}

/// Opens a GGUF file and reads what precedes its tensors.
///
/// # Errors
/// It is missing, has another extension, is truncated or no GGUF file, or uses a format that candle has not.
/// The text does not name the file: the caller's context does.
pub(crate) fn open(path: &Path) -> Result<(BufReader<File>, Content)> {
    let extension = path.extension().unwrap_or_default();
    ensure!(
        extension == "gguf",
        "not a .gguf file; for safetensors give the folder that holds config.json"
    );
    let mut file = BufReader::new(File::open(path)?);
    let content = read_content(&mut file)?;
    Ok((file, content))
}

/// What precedes the tensors.
pub(crate) fn read_content<R: Read + Seek>(reader: &mut R) -> Result<Content> {
    Content::read(reader)
        .context("truncated, or no GGUF file, or with tensors in a format that candle has not")
}

/// The name in a Hugging Face checkpoint, if it is a tensor of LLaMA.
pub(crate) fn hugging_face_name(name: &str) -> Option<String> {
    if let Some((_, hf)) = TENSORS.iter().find(|(gguf, _)| *gguf == name) {
        return Some(hf.to_string());
    }
    let (block, rest) = name.strip_prefix("blk.")?.split_once('.')?;
    let block: usize = block.parse().ok()?;
    let rest = rest.strip_suffix(".weight")?;
    let (_, hf) = BLOCK_TENSORS.iter().find(|(gguf, _)| *gguf == rest)?;
    Some(format!("model.layers.{block}.{hf}.weight"))
}

/// The name in a GGUF file of a tensor of a Hugging Face checkpoint, if it is one of LLaMA's.
pub(crate) fn gguf_name(name: &str) -> Option<String> {
    if let Some((gguf, _)) = TENSORS.iter().find(|(_, hf)| *hf == name) {
        return Some(gguf.to_string());
    }
    let (block, rest) = name.strip_prefix("model.layers.")?.split_once('.')?;
    let block: usize = block.parse().ok()?;
    let rest = rest.strip_suffix(".weight")?;
    let (gguf, _) = BLOCK_TENSORS.iter().find(|(_, hf)| *hf == rest)?;
    Some(format!("blk.{block}.{gguf}.weight"))
}

/// Sizes and rotary positions from the metadata; the scaling that [`ROPE_DIVISORS`] tells is not in it.
pub(crate) fn config(content: &Content) -> Result<Config> {
    let get = |key: &str| content.metadata.get(key);
    let architecture = get("general.architecture")
        .context("has no `general.architecture`")?
        .to_string()?;
    ensure!(
        architecture == "llama",
        "the architecture is `{architecture}`; this example runs `llama`"
    );
    let integer = |key: &str| -> Result<Option<usize>> {
        get(key)
            .map(|v| integer(v).with_context(|| format!("`{key}` is {v:?}, not a count")))
            .transpose()
    };
    let need =
        |key: &str| -> Result<usize> { integer(key)?.with_context(|| format!("has no `{key}`")) };
    let float = |key: &str| -> Result<Option<f32>> { Ok(get(key).map(Value::to_f32).transpose()?) };
    if let Some(kind) = get("llama.rope.scaling.type") {
        let kind = kind.to_string()?;
        ensure!(
            kind == "none",
            "rotary positions scaled by `{kind}`: candle's LLaMA has Llama 3's scaling only"
        );
    }
    let heads = need("llama.attention.head_count")?;
    let embedding = content
        .tensor_infos
        .get("token_embd.weight")
        .context("has no tensor `token_embd.weight`")?;
    let (vocab_size, hidden_size) = embedding.shape.dims2()?;
    let token =
        |key: &str| -> Result<Option<u32>> { Ok(integer(key)?.map(u32::try_from).transpose()?) };
    Ok(Config {
        hidden_size,
        vocab_size,
        intermediate_size: need("llama.feed_forward_length")?,
        num_hidden_layers: need("llama.block_count")?,
        num_attention_heads: heads,
        num_key_value_heads: integer("llama.attention.head_count_kv")?.unwrap_or(heads),
        use_flash_attn: false,
        rms_norm_eps: float("llama.attention.layer_norm_rms_epsilon")?
            .context("has no `llama.attention.layer_norm_rms_epsilon`")?
            .into(),
        rope_theta: float("llama.rope.freq_base")?.unwrap_or(10_000.),
        bos_token_id: token("tokenizer.ggml.bos_token_id")?,
        eos_token_id: token("tokenizer.ggml.eos_token_id")?.map(LlamaEosToks::Single),
        rope_scaling: None,
        max_position_embeddings: need("llama.context_length")?,
        tie_word_embeddings: !content.tensor_infos.contains_key("output.weight"),
    })
}

/// GGUF writers use integers of any width and sign.
pub(crate) fn integer(value: &Value) -> Option<usize> {
    match value {
        Value::U8(v) => Some((*v).into()),
        Value::U16(v) => Some((*v).into()),
        Value::U32(v) => usize::try_from(*v).ok(),
        Value::U64(v) => usize::try_from(*v).ok(),
        Value::I8(v) => usize::try_from(*v).ok(),
        Value::I16(v) => usize::try_from(*v).ok(),
        Value::I32(v) => usize::try_from(*v).ok(),
        Value::I64(v) => usize::try_from(*v).ok(),
        _ => None,
    }
}

/// llama.cpp stores the rows of queries and keys so that the two that rotate together are neighbours;
/// Hugging Face, and candle with it, has one in each half of the head.
fn halves_from_pairs(weight: &Tensor, heads: usize) -> Result<Tensor> {
    let (rows, columns) = weight.dims2()?;
    ensure!(
        heads > 0 && rows % (2 * heads) == 0,
        "{rows} rows do not divide into {heads} heads of pairs"
    );
    let permuted = weight
        .reshape((heads, rows / heads / 2, 2, columns))?
        .transpose(1, 2)?
        .contiguous()?;
    Ok(permuted.reshape((rows, columns))?)
}

/// The inverse of [`halves_from_pairs`], for writing GGUF: both halves of a head, row by row in turn.
pub(crate) fn pairs_from_halves(weight: &Tensor, heads: usize) -> Result<Tensor> {
    let (rows, columns) = weight.dims2()?;
    ensure!(
        heads > 0 && rows % (2 * heads) == 0,
        "{rows} rows do not divide into {heads} heads of halves"
    );
    let permuted = weight
        .reshape((heads, 2, rows / heads / 2, columns))?
        .transpose(1, 2)?
        .contiguous()?;
    Ok(permuted.reshape((rows, columns))?)
}

/// GGUF holds the outcome of Llama 3's scaling, one divisor a frequency, and candle wants its parameters.
/// Llama 3.1 to 3.3 share all but the factor; whatever they do not explain is refused.
fn scaling_of(divisors: &[f32], config: &Config) -> Result<Llama3RopeConfig> {
    let scaling = Llama3RopeConfig {
        factor: divisors.iter().copied().fold(1., f32::max),
        low_freq_factor: 1.,
        high_freq_factor: 4.,
        original_max_position_embeddings: 8192,
        rope_type: Llama3RopeType::Llama3,
    };
    let head_dim = config.hidden_size / config.num_attention_heads.max(1);
    let expected = llama3_divisors(&scaling, config.rope_theta, head_dim);
    let same = expected.len() == divisors.len()
        && expected
            .iter()
            .zip(divisors)
            .all(|(e, d)| (e - d).abs() <= 1e-3 * e);
    ensure!(same, "`{ROPE_DIVISORS}` is not the scaling of Llama 3.1 to 3.3, which is all that candle's LLaMA has");
    Ok(scaling)
}

/// What Llama 3's scaling divides each rotary frequency by: nothing for short wavelengths, `factor` for
/// long ones, and between them a blend of the two frequencies.
pub fn llama3_divisors(scaling: &Llama3RopeConfig, theta: f32, head_dim: usize) -> Vec<f32> {
    let original = scaling.original_max_position_embeddings as f32;
    (0..head_dim)
        .step_by(2)
        .map(|i| {
            let frequency = theta.powf(-(i as f32) / head_dim as f32);
            let turns = original * frequency / (2. * std::f32::consts::PI);
            let (low, high) = (scaling.low_freq_factor, scaling.high_freq_factor);
            let blend = ((turns - low) / (high - low)).clamp(0., 1.);
            1. / ((1. - blend) / scaling.factor + blend)
        })
        .collect()
}
