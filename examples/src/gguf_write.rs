//! GGUF files from Hugging Face folders of the LLaMA architecture: what `gguf-convert` does.

use std::fs::File;
use std::io::{BufWriter, Seek, Write};
use std::path::Path;

use anyhow::{ensure, Context, Result};
use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Tensor};
use candle_transformers::models::llama::Config;

use crate::checkpoint::{end_of_text, read_config, Progress, Weights};
use crate::gguf::{gguf_name, llama3_divisors, pairs_from_halves, ROPE_DIVISORS};
use crate::gguf_tokenizer::{self, Described};
use crate::llama::{expected_tensors, parse_config};

/// How matrices are stored, by GGUF's names: bits a weight, and `K` for scales of scales over 256 weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[allow(missing_docs, reason = "the names are GGUF's")]
pub enum Format {
    #[value(name = "f32")]
    F32,
    #[value(name = "f16")]
    F16,
    #[value(name = "q8_0")]
    Q8_0,
    #[value(name = "q4_0")]
    Q4_0,
    #[value(name = "q4_1")]
    Q4_1,
    #[value(name = "q5_0")]
    Q5_0,
    #[value(name = "q5_1")]
    Q5_1,
    #[value(name = "q2_K")]
    Q2K,
    #[value(name = "q3_K")]
    Q3K,
    #[value(name = "q4_K")]
    Q4K,
    #[value(name = "q5_K")]
    Q5K,
    #[value(name = "q6_K")]
    Q6K,
}

impl Format {
    /// As candle calls it.
    pub fn dtype(self) -> GgmlDType {
        match self {
            Self::F32 => GgmlDType::F32,
            Self::F16 => GgmlDType::F16,
            Self::Q8_0 => GgmlDType::Q8_0,
            Self::Q4_0 => GgmlDType::Q4_0,
            Self::Q4_1 => GgmlDType::Q4_1,
            Self::Q5_0 => GgmlDType::Q5_0,
            Self::Q5_1 => GgmlDType::Q5_1,
            Self::Q2K => GgmlDType::Q2K,
            Self::Q3K => GgmlDType::Q3K,
            Self::Q4K => GgmlDType::Q4K,
            Self::Q5K => GgmlDType::Q5K,
            Self::Q6K => GgmlDType::Q6K,
        }
    }

    /// llama.cpp's number for a file whose matrices are mostly of this format; of the K ones, the "small" mix.
    fn file_type(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q4_0 => 2,
            Self::Q4_1 => 3,
            Self::Q8_0 => 7,
            Self::Q5_0 => 8,
            Self::Q5_1 => 9,
            Self::Q2K => 10,
            Self::Q3K => 11,
            Self::Q4K => 14,
            Self::Q5K => 16,
            Self::Q6K => 18,
        }
    }

    /// This, or the nearest format of no fewer bits whose blocks divide a row: a block does not span rows.
    pub fn for_rows_of(self, columns: usize) -> Self {
        if columns.is_multiple_of(self.dtype().block_size()) {
            return self;
        }
        let smaller_blocks = match self {
            Self::Q2K | Self::Q3K => Self::Q4_0,
            Self::Q4K => Self::Q5_0,
            Self::Q5K => Self::Q5_1,
            Self::Q6K => Self::Q8_0,
            _ => Self::F16,
        };
        smaller_blocks.for_rows_of(columns)
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Every variant has a name; were one hidden, its Rust name would do.
        match clap::ValueEnum::to_possible_value(self) {
            Some(value) => f.write_str(value.get_name()),
            None => write!(f, "{self:?}"),
        }
    }
}

/// A tensor as it is to be written.
pub struct Entry {
    /// Its name in GGUF.
    pub name: String,
    /// What it was converted to.
    pub format: Format,
    /// Its blocks.
    pub tensor: QTensor,
    /// Whether its rows did not allow the format that was asked for.
    pub fell_back: bool,
}

/// A GGUF file, not yet written.
pub struct Gguf {
    metadata: Vec<(String, Value)>,
    /// In the order of the model.
    pub entries: Vec<Entry>,
    /// What could not be carried over, a line each.
    pub notes: Vec<String>,
}

/// Converts a Hugging Face folder of the LLaMA architecture; matrices become `format`, vectors (the norms)
/// stay f32.
///
/// # Errors
/// A file is missing, truncated or malformed, the model is not a LLaMA, or tensors do not match the
/// configuration. The text names the file, and the tensor if it is one.
pub fn convert(folder: &Path, format: Format, progress: &Progress) -> Result<Gguf> {
    let json = read_config(folder, "llama")?;
    let file = folder.join("config.json");
    let config = parse_config(&json).with_context(|| file.display().to_string())?;
    let ends = end_of_text(folder, &json)?;
    let mut notes = Vec::new();
    let metadata = metadata(folder, &config, &ends, format, &mut notes)?;

    let weights = Weights::from_folder(folder, DType::F32, &Device::Cpu, progress)?;
    let mut entries = Vec::new();
    for (hf_name, shape) in expected_tensors(&config) {
        let weight = weights.get(&hf_name, &shape)?;
        let entry = entry(&hf_name, &weight, &config, format)
            .with_context(|| format!("{}: tensor `{hf_name}`", folder.display()))?;
        entries.push(entry);
    }
    if let Some(scaling) = &config.rope_scaling {
        let head_dim = config.hidden_size / config.num_attention_heads;
        let divisors = llama3_divisors(scaling, config.rope_theta, head_dim);
        let divisors = Tensor::new(divisors, &Device::Cpu)?;
        entries.push(Entry {
            name: ROPE_DIVISORS.to_string(),
            format: Format::F32,
            tensor: QTensor::quantize(&divisors, GgmlDType::F32)?,
            fell_back: false,
        });
    }
    Ok(Gguf {
        metadata,
        entries,
        notes,
    })
}

fn entry(hf_name: &str, weight: &Tensor, config: &Config, format: Format) -> Result<Entry> {
    let name = gguf_name(hf_name).context("is none of the LLaMA architecture's")?;
    let weight = match name.rsplit('.').nth(1) {
        Some("attn_q") => pairs_from_halves(weight, config.num_attention_heads)?,
        Some("attn_k") => pairs_from_halves(weight, config.num_key_value_heads)?,
        _ => weight.clone(),
    };
    let used = match *weight.dims() {
        [_, columns] => format.for_rows_of(columns),
        // As llama.cpp: a vector costs little, and scales everything that passes it.
        _ => Format::F32,
    };
    Ok(Entry {
        fell_back: weight.rank() == 2 && used != format,
        format: used,
        tensor: QTensor::quantize(&weight, used.dtype())?,
        name,
    })
}

fn metadata(
    folder: &Path,
    config: &Config,
    ends: &[u32],
    format: Format,
    notes: &mut Vec<String>,
) -> Result<Vec<(String, Value)>> {
    let count = |n: usize| -> Result<Value> {
        Ok(Value::U32(u32::try_from(n).with_context(|| {
            format!("{}: a size of {n}", folder.display())
        })?))
    };
    // `.` and the like have no name of their own.
    let name = folder.canonicalize().ok();
    let name = name.as_deref().and_then(Path::file_name);
    let name = name.unwrap_or(folder.as_os_str()).to_string_lossy();
    let text = |text: &str| Value::String(text.to_string());
    let metadata = [
        ("general.architecture", text("llama")),
        ("general.name", text(&name)),
        ("general.file_type", Value::U32(format.file_type())),
        ("general.quantization_version", Value::U32(2)),
        ("llama.block_count", count(config.num_hidden_layers)?),
        (
            "llama.context_length",
            count(config.max_position_embeddings)?,
        ),
        ("llama.embedding_length", count(config.hidden_size)?),
        (
            "llama.feed_forward_length",
            count(config.intermediate_size)?,
        ),
        (
            "llama.attention.head_count",
            count(config.num_attention_heads)?,
        ),
        (
            "llama.attention.head_count_kv",
            count(config.num_key_value_heads)?,
        ),
        (
            "llama.attention.layer_norm_rms_epsilon",
            Value::F32(config.rms_norm_eps as f32),
        ),
        ("llama.rope.freq_base", Value::F32(config.rope_theta)),
        (
            "llama.rope.dimension_count",
            count(config.hidden_size / config.num_attention_heads)?,
        ),
        ("llama.vocab_size", count(config.vocab_size)?),
    ];
    let mut metadata: Vec<(String, Value)> = metadata
        .into_iter()
        .map(|(key, value)| (key.to_string(), value))
        .collect();
    if let [end, others @ ..] = ends {
        if !others.is_empty() {
            notes.push(format!(
                "GGUF has room for one token that ends a text: {end} is written, {others:?} left out"
            ));
        }
    }
    let file = folder.join("tokenizer.json");
    let (bos, eos) = (config.bos_token_id, ends.first().copied());
    match gguf_tokenizer::to_metadata(&file, config.vocab_size, bos, eos)? {
        Described::Metadata(more) => metadata.extend(more),
        Described::Other(why) => {
            notes.push(format!(
                "{}: {why}, so the file has no tokenizer: keep tokenizer.json beside it",
                file.display()
            ));
            // The end of a text is the model's, whatever the tokenizer.
            metadata
                .extend(eos.map(|id| ("tokenizer.ggml.eos_token_id".to_string(), Value::U32(id))));
        }
    }
    Ok(metadata)
}

impl Gguf {
    /// Writes it.
    ///
    /// # Errors
    /// Writing fails.
    pub fn write<W: Write + Seek>(&self, writer: &mut W) -> Result<()> {
        let metadata: Vec<(&str, &Value)> =
            self.metadata.iter().map(|(k, v)| (k.as_str(), v)).collect();
        let tensors: Vec<(&str, &QTensor)> = self
            .entries
            .iter()
            .map(|e| (e.name.as_str(), &e.tensor))
            .collect();
        gguf_file::write(writer, &metadata, &tensors)?;
        writer.flush()?;
        Ok(())
    }

    /// Writes it to a file, which has its name only once it is whole.
    ///
    /// # Errors
    /// Writing fails, or the name does not end in `.gguf`. The text names the file.
    pub fn write_file(&self, path: &Path) -> Result<()> {
        check_name(path)?;
        let partial = path.with_extension("gguf.partial");
        let write = || -> Result<()> {
            self.write(&mut BufWriter::new(File::create(&partial)?))?;
            Ok(std::fs::rename(&partial, path)?)
        };
        write()
            .inspect_err(|_| {
                // The first error is the one to report.
                std::fs::remove_file(&partial).ok();
            })
            .with_context(|| format!("{}: cannot be written", path.display()))
    }
}

/// That a file of this name would be read as GGUF.
///
/// # Errors
/// It would not.
pub fn check_name(path: &Path) -> Result<()> {
    ensure!(
        path.extension().unwrap_or_default() == "gguf",
        "{}: the name must end in .gguf",
        path.display()
    );
    Ok(())
}
