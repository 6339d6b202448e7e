//! LLaMA, Mistral and their like from GGUF files: the model of `candle_transformers::models::quantized_llama`.

use std::io::{Read, Seek};

use candle_core::quantized::gguf_file::Content;
use candle_core::quantized::QTensor;
use candle_core::{bail, Device, Result, Tensor};
use candle_rocm_backend::ops::Pairs;

use crate::linear::Linear;
use crate::rotary::Frequencies;
use crate::transformer::{Layer, Shape, Transformer};

/// What the file says under `llama.`.
struct Metadata<'a>(&'a Content);

impl Metadata<'_> {
    fn number(&self, name: &str) -> Result<usize> {
        match self.0.metadata.get(&format!("llama.{name}")) {
            Some(value) => Ok(value.to_u32()? as usize),
            None => bail!("the file lacks `llama.{name}`"),
        }
    }

    fn float(&self, name: &str, otherwise: Option<f32>) -> Result<f32> {
        match (self.0.metadata.get(&format!("llama.{name}")), otherwise) {
            (Some(value), _) => value.to_f32(),
            (None, Some(value)) => Ok(value),
            (None, None) => bail!("the file lacks `llama.{name}`"),
        }
    }
}

/// Reads a model whose activations are f32, as Candle's are.
///
/// # Errors
/// The file is of another architecture or has experts, a tensor is missing, or the device has not the memory.
pub fn from_gguf<R: Read + Seek>(
    content: &Content,
    reader: &mut R,
    device: &Device,
) -> Result<Transformer> {
    let metadata = Metadata(content);
    if metadata
        .number("expert_count")
        .is_ok_and(|experts| experts > 1)
    {
        bail!("the file is of a mixture of experts: candle_transformers::models::quantized_llama has these");
    }
    let (heads, kv_heads) = (
        metadata.number("attention.head_count")?,
        metadata.number("attention.head_count_kv")?,
    );
    let hidden = metadata.number("embedding_length")?;
    let head_dim = metadata.number("rope.dimension_count")?;
    if heads == 0 || kv_heads == 0 || head_dim * heads != hidden || !heads.is_multiple_of(kv_heads)
    {
        bail!("{hidden} elements in {heads} heads of {head_dim}, with {kv_heads} of keys");
    }
    let mut read = |name: &str, to: &Device| content.tensor(reader, &format!("{name}.weight"), to);
    let embedding = read("token_embd", device)?;
    let vocabulary = embedding.shape().dims2()?.0;
    let mut layers = Vec::new();
    for n in 0..metadata.number("block_count")? {
        // Those of one product are put together here, and travel once.
        let mut part = |name: &str| read(&format!("blk.{n}.{name}"), &Device::Cpu);
        let qkv = vec![part("attn_q")?, part("attn_k")?, part("attn_v")?];
        let gate_up = vec![part("ffn_gate")?, part("ffn_up")?];
        let mut of = |name: &str| read(&format!("blk.{n}.{name}"), device);
        layers.push(Layer {
            attention_norm: of("attn_norm")?.dequantize(device)?,
            qkv: products(qkv, device)?,
            output: Linear::quantized(vec![of("attn_output")?], device)?,
            gated_norm: of("ffn_norm")?.dequantize(device)?,
            gate_up: products(gate_up, device)?,
            down: Linear::quantized(vec![of("ffn_down")?], device)?,
        });
    }
    let norm = read("output_norm", device)?.dequantize(device)?;
    let rows: Tensor = embedding.dequantize(device)?;
    let head = if content.tensor_infos.contains_key("output.weight") {
        read("output", device)?
    } else {
        embedding
    };
    let shape = Shape {
        heads,
        kv_heads,
        head_dim,
        hidden,
        vocabulary,
        epsilon: f64::from(metadata.float("attention.layer_norm_rms_epsilon", None)?),
    };
    let theta = metadata.float("rope.freq_base", Some(10_000.))?;
    let frequencies = Frequencies::of_base(theta, head_dim, Pairs::Neighbours);
    Transformer::new(
        shape,
        rows,
        layers,
        norm,
        Linear::quantized(vec![head], device)?,
        frequencies,
    )
}

/// One product, where all weights have one format, as files of mixed formats (`Q4_K_M`) have not.
fn products(weights: Vec<QTensor>, device: &Device) -> Result<Vec<Linear>> {
    if weights
        .windows(2)
        .all(|two| two[0].dtype() == two[1].dtype())
    {
        return Ok(vec![Linear::quantized(weights, device)?]);
    }
    weights
        .into_iter()
        .map(|weight| Linear::quantized(vec![weight], device))
        .collect()
}
