//! Decoders from GGUF files, whose tensors have the same names in all families.

use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::Arc;

use candle_core::quantized::gguf_file::{Content, TensorInfo};
use candle_core::quantized::{QStorage, QTensor};
use candle_core::{bail, DType, Device, Result, Tensor};
use candle_rocm_backend::communication::Rank;
use candle_rocm_backend::ops::{HeadNorms, Pairs};

use crate::linear::Linear;
use crate::parallel::{Parts, Whole};
use crate::pipeline::{Memory, Shares, Stage};
use crate::rotary::Frequencies;
use crate::source::Part;
use crate::transformer::Transformer;
use crate::weights::{Head, Layer, Shape, Weights};

/// The embedding's name, and the last product's, which some files have in one.
const EMBEDDING: &str = "token_embd.weight";
const HEAD: &str = "output.weight";

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
    let sizes = sizes(architecture, content)?;
    let parts = whole(content, &sizes)?.of(0, 1)?;
    let file = File {
        content,
        reader,
        device,
    };
    part(architecture, file, sizes, &parts, None)
}

/// Reads a rank's part, and nothing else of the file's tensors.
///
/// # Errors
/// As [`load`]; the model cannot be divided among so many ranks.
pub(super) fn load_rank<R: Read + Seek>(
    architecture: &Architecture,
    content: &Content,
    reader: &mut R,
    rank: &Arc<Rank>,
) -> Result<Transformer> {
    let sizes = sizes(architecture, content)?;
    let parts = whole(content, &sizes)?.of(rank.number(), rank.ranks())?;
    let file = File {
        content,
        reader,
        device: &rank.device(),
    };
    part(architecture, file, sizes, &parts, None)?.of_rank(rank.clone(), sizes.vocabulary)
}

/// Reads what a stage of a pipeline has, and nothing else of the file's tensors.
///
/// # Errors
/// As [`load`]; the shares are not of this model and these ranks.
pub(super) fn load_stage<R: Read + Seek>(
    architecture: &Architecture,
    content: &Content,
    reader: &mut R,
    rank: &Arc<Rank>,
    shares: &Shares,
) -> Result<Transformer> {
    let sizes = sizes(architecture, content)?;
    let parts = whole(content, &sizes)?.of(0, 1)?;
    let stage = Stage::new(rank, shares, &memory(architecture, content, &sizes)?)?;
    let file = File {
        content,
        reader,
        device: &rank.device(),
    };
    let model = part(architecture, file, sizes, &parts, Some(&stage))?;
    Ok(model.of_stage(stage))
}

/// In bytes: the embedding is f32 in memory, keys and values are f16.
fn memory(architecture: &Architecture, content: &Content, sizes: &Shape) -> Result<Memory> {
    let bytes = |name: &str| match content.tensor_infos.get(name) {
        Some(TensorInfo {
            ggml_dtype, shape, ..
        }) => (shape.elem_count() / ggml_dtype.block_size() * ggml_dtype.type_size()) as u64,
        None => 0,
    };
    let layer = |n: usize| {
        let of_layer = format!("blk.{n}.");
        let names = content.tensor_infos.keys();
        let names = names.filter(|name| name.starts_with(&of_layer));
        names.map(|name| bytes(name)).sum()
    };
    let layers = Metadata(content, architecture.name).number("block_count")?;
    let head = match content.tensor_infos.contains_key(HEAD) {
        true => bytes(HEAD),
        false => bytes(EMBEDDING),
    };
    Ok(Memory {
        layers: (0..layers).map(layer).collect(),
        token: (2 * sizes.kv_heads * sizes.head_dim * DType::F16.size_in_bytes()) as u64,
        embedding: (sizes.vocabulary * sizes.hidden * DType::F32.size_in_bytes()) as u64,
        head,
    })
}

/// What is divided among ranks. Columns are divided where blocks of the formats end.
fn whole(content: &Content, sizes: &Shape) -> Result<Whole> {
    let block = |end: &str| {
        let of = content.tensor_infos.iter();
        let of = of.filter(|(name, _)| name.ends_with(end));
        of.map(|(_, info)| info.ggml_dtype.block_size()).max()
    };
    let of_heads = block("attn_output.weight").unwrap_or(1);
    let whole_blocks = |heads: &usize| (heads * sizes.head_dim).is_multiple_of(of_heads);
    let inner = info(content, "blk.0.ffn_down.weight")?.shape.dims2()?.1;
    Ok(Whole {
        heads: sizes.heads,
        kv_heads: sizes.kv_heads,
        inner,
        vocabulary: sizes.vocabulary,
        head_unit: (1..=sizes.heads).find(whole_blocks).unwrap_or(sizes.heads),
        inner_unit: block("ffn_down.weight").unwrap_or(1),
    })
}

/// These parts of a model, or of a stage's layers.
fn part<R: Read + Seek>(
    architecture: &Architecture,
    mut file: File<R>,
    sizes: Shape,
    parts: &Parts,
    stage: Option<&Stage>,
) -> Result<Transformer> {
    let (content, device) = (file.content, file.device);
    let metadata = Metadata(content, architecture.name);
    let tokens = Part::Rows(parts.vocabulary.clone());
    let (has_embedding, has_head) = (
        stage.is_none_or(Stage::is_first),
        stage.is_none_or(Stage::is_last),
    );
    let is_tied = !content.tensor_infos.contains_key(HEAD);
    let rows = match has_embedding || (has_head && is_tied) {
        true => Some(file.read(EMBEDDING, &tokens, device)?),
        false => None,
    };
    let embedding = match rows.as_ref().filter(|_| has_embedding) {
        Some(rows) => Some(rows.dequantize(device)?),
        None => None,
    };
    let mut layers = Vec::new();
    for n in stage.map_or(0..metadata.number("block_count")?, Stage::layers) {
        layers.push(layer(&mut file, architecture, n, &sizes, parts)?);
    }
    let head = match (has_head, rows) {
        (false, _) => None,
        (true, Some(rows)) if is_tied => Some(rows),
        (true, _) => Some(file.read(HEAD, &tokens, device)?),
    };
    let mut with_norm = |product: QTensor| -> Result<Head> {
        let norm = file.read("output_norm.weight", &Part::Whole, device)?;
        Ok(Head {
            norm: norm.dequantize(device)?,
            product: Linear::quantized(vec![product], device)?,
        })
    };
    let head = head.map(&mut with_norm).transpose()?;
    let theta = metadata.float("rope.freq_base", Some(10_000.))?;
    let shape = Shape {
        heads: parts.heads.len(),
        kv_heads: parts.kv_heads.len(),
        vocabulary: parts.vocabulary.len(),
        ..sizes
    };
    Transformer::of(Weights {
        shape,
        embedding,
        layers,
        head,
        frequencies: Frequencies::of_base(theta, shape.head_dim, architecture.pairs),
    })
}

/// What the file's numbers say, and its embedding.
fn sizes(architecture: &Architecture, content: &Content) -> Result<Shape> {
    let metadata = &Metadata(content, architecture.name);
    if metadata
        .number("expert_count")
        .is_ok_and(|experts| experts > 1)
    {
        bail!("the file is of a mixture of experts, which candle_transformers::models has and this crate not yet");
    }
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
        vocabulary: info(content, EMBEDDING)?.shape.dims2()?.0,
        epsilon,
    })
}

/// A file whose tensors go to a device.
struct File<'a, R> {
    content: &'a Content,
    reader: &'a mut R,
    device: &'a Device,
}

/// What the file says of a tensor.
fn info<'a>(content: &'a Content, name: &str) -> Result<&'a TensorInfo> {
    match content.tensor_infos.get(name) {
        Some(info) => Ok(info),
        None => bail!("the file has no tensor `{name}`"),
    }
}

impl<R: Read + Seek> File<'_, R> {
    /// A part of a tensor, of which nothing else is read.
    fn read(&mut self, name: &str, part: &Part, device: &Device) -> Result<QTensor> {
        let info = info(self.content, name)?;
        let dims = info.shape.dims();
        let (Some(&columns), Some(&rows)) = (dims.last(), dims.first()) else {
            bail!("{name} has no dimension");
        };
        let (block, size) = (info.ggml_dtype.block_size(), info.ggml_dtype.type_size());
        let (pieces, of_row, skipped) = match part {
            Part::Columns(own) if own.len() < columns => (rows, own.clone(), columns),
            // Of a vector rows are elements.
            Part::Rows(own) if dims.len() == 1 => (1, own.clone(), columns),
            Part::Rows(own) if own.len() < rows => {
                let row: usize = dims[1..].iter().product();
                (1, own.start * row..own.end * row, 0)
            }
            _ => return self.content.tensor(self.reader, name, device),
        };
        if [of_row.start, of_row.end, skipped]
            .iter()
            .any(|at| !at.is_multiple_of(block))
        {
            bail!("{name}: {of_row:?} of {dims:?} do not end with blocks of {block}");
        }
        let bytes = |elements: usize| elements / block * size;
        let mut data = vec![0; bytes(of_row.len()) * pieces];
        let first = self.content.tensor_data_offset + info.offset + bytes(of_row.start) as u64;
        self.reader.seek(SeekFrom::Start(first))?;
        let mut pieces = data.chunks_exact_mut(bytes(of_row.len())).peekable();
        while let Some(piece) = pieces.next() {
            self.reader.read_exact(piece)?;
            if pieces.peek().is_some() {
                // A reader's buffer is kept, which holds several rows.
                self.reader
                    .seek_relative((bytes(skipped) - piece.len()) as i64)?;
            }
        }
        let storage = QStorage::from_data(data.into(), device, info.ggml_dtype)?;
        QTensor::new(storage, part.shape(dims))
    }

    /// Rows of those of one product, which are put together on the CPU, and travel once.
    fn rows(
        &mut self,
        layer: usize,
        of: &[(&str, &Range<usize>)],
        what: &str,
    ) -> Result<Vec<QTensor>> {
        let of = of.iter();
        of.map(|(name, rows)| {
            let name = format!("blk.{layer}.{name}.{what}");
            self.read(&name, &Part::Rows((*rows).clone()), &Device::Cpu)
        })
        .collect()
    }
}

/// The weights of layer `n`.
fn layer<R: Read + Seek>(
    file: &mut File<R>,
    architecture: &Architecture,
    n: usize,
    sizes: &Shape,
    parts: &Parts,
) -> Result<Layer> {
    let (device, dim) = (file.device, sizes.head_dim);
    let of_heads = |heads: &Range<usize>| heads.start * dim..heads.end * dim;
    let (queries, keys) = (of_heads(&parts.heads), of_heads(&parts.kv_heads));
    let of_attention = [("attn_q", &queries), ("attn_k", &keys), ("attn_v", &keys)];
    let qkv = file.rows(n, &of_attention, "weight")?;
    let biases = match architecture.biases {
        true => file.rows(n, &of_attention, "bias")?,
        false => Vec::new(),
    };
    let of_gates = [("ffn_gate", &parts.inner), ("ffn_up", &parts.inner)];
    let gate_up = file.rows(n, &of_gates, "weight")?;
    let mut of =
        |name: &str, part: Part| file.read(&format!("blk.{n}.{name}.weight"), &part, device);
    let mut norm = |name: &str| of(name, Part::Whole)?.dequantize(device);
    let head_norms = match architecture.head_norms {
        true => Some(HeadNorms {
            queries: norm("attn_q_norm")?,
            keys: norm("attn_k_norm")?,
            epsilon: sizes.epsilon,
        }),
        false => None,
    };
    let (attention_norm, gated_norm) = (norm("attn_norm")?, norm("ffn_norm")?);
    let output = of("attn_output", Part::Columns(queries))?;
    let down = of("ffn_down", Part::Columns(parts.inner.clone()))?;
    Ok(Layer {
        attention_norm,
        qkv: products(qkv, &biases, device)?,
        head_norms,
        window: None,
        output: Linear::quantized(vec![output], device)?,
        gated_norm,
        gate_up: products(gate_up, &[], device)?,
        down: Linear::quantized(vec![down], device)?,
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
