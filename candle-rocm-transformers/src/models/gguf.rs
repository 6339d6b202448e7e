//! Decoders from GGUF files, whose tensors have the same names in all families.

use std::io::{Read, Seek};

use candle_core::quantized::gguf_file::Content;
use candle_core::quantized::QTensor;
use candle_core::{bail, Device, Result, Tensor};
use candle_rocm_backend::ops::HeadNorms;
use candle_rocm_backend::ops::Pairs;

use crate::linear::Linear;
use crate::rotary::Frequencies;
use crate::transformer::Transformer;
use crate::weights::{Layer, Shape};

/// What the families differ in.
pub(super) struct Architecture {
    /// Stands before the names of the file's numbers.
    pub name: &'static str,
    /// Which elements of a head turn together, as the weights were written.
    pub pairs: Pairs,
    /// The number that says how many elements a head has, where the others do not.
    pub head_dim: Option<&'static str>,
    /// Whether queries, keys and values have biases.
    pub biases: bool,
    /// Whether each head of queries and keys is normed.
    pub head_norms: bool,
}

/// What the file says of an architecture.
struct Metadata<'a>(&'a Content, &'static str);

impl Metadata<'_> {
    fn number(&self, name: &str) -> Result<usize> {
        let Self(content, architecture) = self;
        match content.metadata.get(&format!("{architecture}.{name}")) {
            Some(value) => Ok(value.to_u32()? as usize),
            None => bail!("the file lacks `{architecture}.{name}`"),
        }
    }

    fn float(&self, name: &str, otherwise: Option<f32>) -> Result<f32> {
        let Self(content, architecture) = self;
        let value = content.metadata.get(&format!("{architecture}.{name}"));
        match (value, otherwise) {
            (Some(value), _) => value.to_f32(),
            (None, Some(value)) => Ok(value),
            (None, None) => bail!("the file lacks `{architecture}.{name}`"),
        }
    }
}

/// Reads a model whose activations are f32, as Candle's are.
///
/// # Errors
/// The file is of another architecture or has experts, a tensor is missing, or the device has not the memory.
pub(super) fn load<R: Read + Seek>(
    architecture: &Architecture,
    content: &Content,
    reader: &mut R,
    device: &Device,
) -> Result<Transformer> {
    let metadata = Metadata(content, architecture.name);
    if metadata
        .number("expert_count")
        .is_ok_and(|experts| experts > 1)
    {
        bail!("the file is of a mixture of experts, which candle_transformers::models has and this crate not yet");
    }
    let sizes = sizes(architecture, &metadata)?;
    let mut file = File {
        content,
        reader,
        device,
    };
    let embedding = file.read("token_embd.weight")?;
    let vocabulary = embedding.shape().dims2()?.0;
    let mut layers = Vec::new();
    for n in 0..metadata.number("block_count")? {
        layers.push(layer(&mut file, architecture, n, sizes.epsilon)?);
    }
    let norm = file.read("output_norm.weight")?.dequantize(device)?;
    let rows: Tensor = embedding.dequantize(device)?;
    let head = if content.tensor_infos.contains_key("output.weight") {
        file.read("output.weight")?
    } else {
        embedding
    };
    let shape = Shape {
        vocabulary,
        ..sizes
    };
    let theta = metadata.float("rope.freq_base", Some(10_000.))?;
    let frequencies = Frequencies::of_base(theta, shape.head_dim, architecture.pairs);
    Transformer::new(
        shape,
        rows,
        layers,
        norm,
        Linear::quantized(vec![head], device)?,
        frequencies,
    )
}

/// What the file's numbers say; the vocabulary is its embedding's.
fn sizes(architecture: &Architecture, metadata: &Metadata) -> Result<Shape> {
    let (heads, kv_heads) = (
        metadata.number("attention.head_count")?,
        metadata.number("attention.head_count_kv")?,
    );
    let hidden = metadata.number("embedding_length")?;
    let epsilon = f64::from(metadata.float("attention.layer_norm_rms_epsilon", None)?);
    if heads == 0 || kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
        bail!("{heads} heads, with {kv_heads} of keys, which must divide them");
    }
    Ok(Shape {
        heads,
        kv_heads,
        head_dim: match architecture.head_dim {
            Some(name) => metadata.number(name)?,
            None => hidden / heads,
        },
        hidden,
        vocabulary: 0,
        epsilon,
    })
}

/// A file whose tensors go to a device.
struct File<'a, R> {
    content: &'a Content,
    reader: &'a mut R,
    device: &'a Device,
}

impl<R: Read + Seek> File<'_, R> {
    fn read(&mut self, name: &str) -> Result<QTensor> {
        self.content.tensor(self.reader, name, self.device)
    }

    /// Those of one product, which are put together on the CPU, and travel once.
    fn parts(&mut self, layer: usize, names: &[&str], what: &str) -> Result<Vec<QTensor>> {
        let names = names
            .iter()
            .map(|name| format!("blk.{layer}.{name}.{what}"));
        names
            .map(|name| self.content.tensor(self.reader, &name, &Device::Cpu))
            .collect()
    }
}

/// The weights of layer `n`.
fn layer<R: Read + Seek>(
    file: &mut File<R>,
    architecture: &Architecture,
    n: usize,
    epsilon: f64,
) -> Result<Layer> {
    let device = file.device;
    let names = ["attn_q", "attn_k", "attn_v"];
    let qkv = file.parts(n, &names, "weight")?;
    let biases = match architecture.biases {
        true => file.parts(n, &names, "bias")?,
        false => Vec::new(),
    };
    let gate_up = file.parts(n, &["ffn_gate", "ffn_up"], "weight")?;
    let mut of = |name: &str| file.read(&format!("blk.{n}.{name}.weight"));
    let mut head_norm = |name: &str| of(name)?.dequantize(device);
    let head_norms = match architecture.head_norms {
        true => Some(HeadNorms {
            queries: head_norm("attn_q_norm")?,
            keys: head_norm("attn_k_norm")?,
            epsilon,
        }),
        false => None,
    };
    Ok(Layer {
        attention_norm: of("attn_norm")?.dequantize(device)?,
        qkv: products(qkv, &biases, device)?,
        head_norms,
        window: None,
        output: Linear::quantized(vec![of("attn_output")?], device)?,
        gated_norm: of("ffn_norm")?.dequantize(device)?,
        gate_up: products(gate_up, &[], device)?,
        down: Linear::quantized(vec![of("ffn_down")?], device)?,
    })
}

/// One product for neighbours of one format: of queries and keys, and of values, in files of mixed formats (`Q4_K_M`).
fn products(weights: Vec<QTensor>, biases: &[QTensor], device: &Device) -> Result<Vec<Linear>> {
    let biases: Vec<Tensor> = biases
        .iter()
        .map(|bias| bias.dequantize(device)?.to_device(device))
        .collect::<Result<_>>()?;
    let mut groups: Vec<Vec<QTensor>> = Vec::new();
    for weight in weights {
        match groups.last_mut() {
            Some(group) if group[0].dtype() == weight.dtype() => group.push(weight),
            _ => groups.push(vec![weight]),
        }
    }
    let mut first = 0;
    let mut product = |group: Vec<QTensor>| {
        let of_group = first..first + group.len();
        first = of_group.end;
        let biases = biases.get(of_group).unwrap_or_default();
        Linear::quantized(group, device)?.with_biases(biases)
    };
    groups.into_iter().map(&mut product).collect()
}
