//! What the tests of models share: devices, random weights under their names, as tensors and in GGUF files, and
//! comparisons.
#![allow(dead_code)]

pub mod configs;

use std::collections::HashMap;
use std::io::Cursor;

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Result, Tensor, D};
use candle_rocm_backend::{runtime, DeviceExt as _, RuntimeKind};
use candle_rocm_testing::random::Random;

/// A GPU, on a stream that can be captured, and the CPU.
pub fn devices() -> Result<[Device; 2]> {
    if std::env::var_os("CANDLE_ROCM_RUNTIME").is_none() {
        runtime::select(RuntimeKind::Emulator).expect("the emulator starts");
    }
    Ok([Device::new_rocm_with_stream(0)?, Device::Cpu])
}

/// What a model's weights are.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub hidden: usize,
    pub inner: usize,
    pub vocabulary: usize,
    pub layers: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    /// Of queries, keys and values.
    pub biases: bool,
    /// Of queries and keys.
    pub head_norms: bool,
}

pub type Weights = HashMap<String, Tensor>;

/// Random weights of variance 1 / columns, under Hugging Face's names; norms are near 1.
pub fn weights(sizes: &Sizes, device: &Device) -> Result<Weights> {
    let mut random = Random::new(11);
    let mut all = HashMap::new();
    let mut put = |name: &str, shape: &[usize], around: f64| -> Result<()> {
        let scale = 1. / (*shape.last().unwrap() as f64).sqrt();
        let values: Vec<f32> = (0..shape.iter().product::<usize>())
            .map(|_| (random.normal() * scale + around) as f32)
            .collect();
        all.insert(name.to_owned(), Tensor::from_vec(values, shape, device)?);
        Ok(())
    };
    let Sizes {
        hidden,
        inner,
        vocabulary,
        head_dim,
        ..
    } = *sizes;
    let (queries, keys) = (sizes.heads * head_dim, sizes.kv_heads * head_dim);
    put("model.embed_tokens.weight", &[vocabulary, hidden], 0.)?;
    put("lm_head.weight", &[vocabulary, hidden], 0.)?;
    put("model.norm.weight", &[hidden], 1.)?;
    for n in 0..sizes.layers {
        let mut put = |name: &str, shape: &[usize], around: f64| {
            put(&format!("model.layers.{n}.{name}"), shape, around)
        };
        for (name, rows) in [("q_proj", queries), ("k_proj", keys), ("v_proj", keys)] {
            put(&format!("self_attn.{name}.weight"), &[rows, hidden], 0.)?;
            if sizes.biases {
                put(&format!("self_attn.{name}.bias"), &[rows], 0.)?;
            }
        }
        put("self_attn.o_proj.weight", &[hidden, queries], 0.)?;
        put("mlp.gate_proj.weight", &[inner, hidden], 0.)?;
        put("mlp.up_proj.weight", &[inner, hidden], 0.)?;
        put("mlp.down_proj.weight", &[hidden, inner], 0.)?;
        put("input_layernorm.weight", &[hidden], 1.)?;
        put("post_attention_layernorm.weight", &[hidden], 1.)?;
        if sizes.head_norms {
            put("self_attn.q_norm.weight", &[head_dim], 1.)?;
            put("self_attn.k_norm.weight", &[head_dim], 1.)?;
        }
    }
    Ok(all)
}

/// The bytes of a GGUF file of an architecture, with weights of these formats: of queries, keys and outputs; of values; of
/// the rest. `more` are numbers that only some architectures have.
pub fn gguf(
    sizes: &Sizes,
    architecture: &str,
    more: &[(&str, Value)],
    formats: [GgmlDType; 3],
) -> Result<Vec<u8>> {
    let weights = weights(sizes, &Device::Cpu)?;
    let [attention, values, rest] = formats;
    let vector = GgmlDType::F32;
    let mut tensors = Vec::new();
    let mut put = |name: String, from: &str, format: GgmlDType| -> Result<()> {
        if let Some(weight) = weights.get(from) {
            tensors.push((name, QTensor::quantize(weight, format)?));
        }
        Ok(())
    };
    let embedding = "model.embed_tokens.weight";
    put("token_embd.weight".into(), embedding, rest)?;
    put("output.weight".into(), "lm_head.weight", rest)?;
    put("output_norm.weight".into(), "model.norm.weight", vector)?;
    for n in 0..sizes.layers {
        for (name, from, format) in [
            ("attn_q.weight", "self_attn.q_proj.weight", attention),
            ("attn_k.weight", "self_attn.k_proj.weight", attention),
            ("attn_v.weight", "self_attn.v_proj.weight", values),
            ("attn_q.bias", "self_attn.q_proj.bias", vector),
            ("attn_k.bias", "self_attn.k_proj.bias", vector),
            ("attn_v.bias", "self_attn.v_proj.bias", vector),
            ("attn_q_norm.weight", "self_attn.q_norm.weight", vector),
            ("attn_k_norm.weight", "self_attn.k_norm.weight", vector),
            ("attn_output.weight", "self_attn.o_proj.weight", attention),
            ("ffn_gate.weight", "mlp.gate_proj.weight", rest),
            ("ffn_up.weight", "mlp.up_proj.weight", rest),
            ("ffn_down.weight", "mlp.down_proj.weight", rest),
            ("attn_norm.weight", "input_layernorm.weight", vector),
            ("ffn_norm.weight", "post_attention_layernorm.weight", vector),
        ] {
            let from = format!("model.layers.{n}.{from}");
            put(format!("blk.{n}.{name}"), &from, format)?;
        }
    }
    let number = |n: usize| Value::U32(n as u32);
    let numbers = [
        ("attention.head_count", number(sizes.heads)),
        ("attention.head_count_kv", number(sizes.kv_heads)),
        ("block_count", number(sizes.layers)),
        ("embedding_length", number(sizes.hidden)),
        ("context_length", number(64)),
        ("attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
    ];
    let named = |(name, value): &(&str, Value)| (format!("{architecture}.{name}"), value.clone());
    let mut metadata: Vec<(String, Value)> = numbers.iter().chain(more).map(named).collect();
    let architecture = Value::String(architecture.into());
    metadata.push(("general.architecture".into(), architecture));
    // f32, to those that ask.
    metadata.push(("general.dtype".into(), Value::U32(0)));
    let metadata: Vec<(&str, &Value)> = metadata
        .iter()
        .map(|(name, value)| (name.as_str(), value))
        .collect();
    let tensors: Vec<(&str, &QTensor)> = tensors
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor))
        .collect();
    let mut file = Cursor::new(Vec::new());
    gguf_file::write(&mut file, &metadata, &tensors)?;
    Ok(file.into_inner())
}

fn numbers(x: &Tensor) -> Result<Vec<f32>> {
    x.to_device(&Device::Cpu)?.flatten_all()?.to_vec1()
}

/// Logits near each other: both sum in f32, in another order.
pub fn assert_near(found: &Tensor, expected: &Tensor, what: &str) -> Result<()> {
    assert_within(found, expected, 1e-4, what)
}

/// Logits no further apart than `most`.
pub fn assert_within(found: &Tensor, expected: &Tensor, most: f32, what: &str) -> Result<()> {
    let (found, expected) = (numbers(found)?, numbers(expected)?);
    assert_eq!(found.len(), expected.len(), "{what}");
    for (n, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert!(
            (found - expected).abs() < most,
            "{what}, token {n}: {found} instead of {expected}"
        );
    }
    Ok(())
}

/// Whether any number differs.
pub fn differ(x: &Tensor, y: &Tensor) -> Result<bool> {
    Ok(numbers(x)? != numbers(y)?)
}

pub fn prompt(batch: usize, steps: usize, vocabulary: usize) -> Vec<Vec<u32>> {
    let token =
        |sequence: usize, step: usize| ((sequence * 31 + step * 17 + 5) % vocabulary) as u32;
    (0..batch)
        .map(|sequence| (0..steps).map(|step| token(sequence, step)).collect())
        .collect()
}

/// What a model decodes after a prompt of one sequence, and the logits of each step. `forward` takes tokens, (1, steps), and
/// how many came before.
pub fn decoded(
    mut forward: impl FnMut(&Tensor, usize) -> Result<Tensor>,
    prompt: &[u32],
    count: usize,
    device: &Device,
) -> Result<(Vec<u32>, Vec<Tensor>)> {
    let (mut read, mut position) = (prompt.to_vec(), 0);
    let (mut tokens, mut all) = (Vec::new(), Vec::new());
    while tokens.len() < count {
        let logits = forward(&Tensor::new(&read[..], device)?.unsqueeze(0)?, position)?;
        position += read.len();
        read = vec![logits.flatten_all()?.argmax(D::Minus1)?.to_scalar()?];
        tokens.extend(&read);
        all.push(logits.flatten_all()?.unsqueeze(0)?);
    }
    Ok((tokens, all))
}
