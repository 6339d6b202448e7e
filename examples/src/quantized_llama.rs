//! The LLaMA architecture with its weights kept quantised, from a GGUF file, or from a Hugging Face folder that is quantised
//! on loading: candle-rocm-transformers' model, or candle-transformers' `quantized_llama`.

#[cfg(feature = "rocm")]
use std::fs::File;
#[cfg(feature = "rocm")]
use std::io::BufReader;
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{bail, ensure, Context, Result};
use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::quantized::GgmlDType;
use candle_core::{DType, Device, Tensor};
#[cfg(feature = "rocm")]
use candle_rocm_backend::communication::Rank;
#[cfg(feature = "rocm")]
use candle_rocm_transformers::{Shares, Transformer};
use candle_transformers::models::llama::{Config, LlamaEosToks};
use candle_transformers::models::quantized_llama::{ModelWeights, MAX_SEQ_LEN};

use crate::checkpoint::{end_of_text, read_config, Progress};
use crate::generate::{LanguageModel, Limits};
use crate::gguf::{self, gguf_name, hugging_face_name, ROPE_DIVISORS};
use crate::gguf_write::{convert, Format};
use crate::launches::Launches;
use crate::llama::expected_tensors;
use crate::llama_config;
use crate::model_code::{ModelArgs, SessionArgs};
#[cfg(feature = "rocm")]
use crate::{parallel, session};

/// What a Hugging Face folder is quantised to unless told otherwise: the nearest to the original.
pub const DEFAULT_FORMAT: Format = Format::Q8_0;

/// A LLaMA model of quantised weights, with its cache.
pub struct QuantizedLlama {
    network: Network,
    config: Config,
    device: Device,
    limits: Limits,
}

enum Network {
    Candle(Box<ModelWeights>),
    #[cfg(feature = "rocm")]
    Session(Box<session::Sequence>),
}

/// Loads from a GGUF file as it is, or from a Hugging Face folder quantised to [`DEFAULT_FORMAT`].
///
/// # Errors
/// As [`load_as`].
pub fn load(
    path: &Path,
    dtype: DType,
    device: &Device,
    progress: &Progress,
) -> Result<QuantizedLlama> {
    load_as(path, None, &ModelArgs::default(), dtype, device, progress)
}

/// Loads from a GGUF file as it is, or from a Hugging Face folder quantised to `format`; by the code and with the context
/// asked for.
///
/// # Errors
/// A file is missing, truncated or malformed; the model is no LLaMA, or needs what candle's has not; `dtype`
/// is not f32; a format is asked of a file that has one. The text names the file, and the tensor if it is one.
pub fn load_as(
    path: &Path,
    format: Option<Format>,
    args: &ModelArgs,
    dtype: DType,
    device: &Device,
    progress: &Progress,
) -> Result<QuantizedLlama> {
    check_options(path, format, dtype)?;
    if path.is_file() {
        let named = || path.display().to_string();
        let (mut file, content) = gguf::open(path).with_context(named)?;
        let bytes = file.get_ref().metadata().with_context(named)?.len();
        progress.add_file(path, bytes);
        let from = Origin::File(path.to_path_buf());
        let model = QuantizedLlama::new(content, &mut file, from, args, device);
        let model = model.with_context(named)?;
        progress.finish();
        return Ok(model);
    }
    let mut bytes = Cursor::new(Vec::new());
    convert(path, format.unwrap_or(DEFAULT_FORMAT), progress)?.write(&mut bytes)?;
    let bytes: Arc<[u8]> = bytes.into_inner().into();
    let mut reader = Cursor::new(bytes.clone());
    let content = gguf::read_content(&mut reader)?;
    let from = Origin::Memory(bytes);
    let mut model = QuantizedLlama::new(content, &mut reader, from, args, device)
        .with_context(|| path.display().to_string())?;
    // A folder may name more than the one that GGUF has room for.
    model.limits.end_of_text = end_of_text(path, &read_config(path, "llama")?)?;
    Ok(model)
}

/// Where the bytes of a GGUF file are, for ranks that read their parts.
#[cfg_attr(not(feature = "rocm"), allow(dead_code))]
enum Origin {
    File(PathBuf),
    Memory(Arc<[u8]>),
}

/// That the options fit each other, before anything is read.
fn check_options(path: &Path, format: Option<Format>, dtype: DType) -> Result<()> {
    ensure!(
        dtype == DType::F32,
        "--dtype {}: this model computes in f32 from quantised weights: leave --dtype out, or run the example `llama`",
        dtype.as_str()
    );
    if let (Some(format), true) = (format, path.is_file()) {
        bail!(
            "--format {format}: {} is run in the formats it has: leave --format out, or give a Hugging Face folder",
            path.display()
        );
    }
    Ok(())
}

impl QuantizedLlama {
    fn new<R: Read + Seek>(
        mut content: Content,
        reader: &mut R,
        from: Origin,
        args: &ModelArgs,
        device: &Device,
    ) -> Result<Self> {
        let config = gguf::config(&content)?;
        llama_config::check(&config)?;
        check_tensors(&content, &config, reader)?;
        if cfg!(debug_assertions) && device.is_cpu() {
            check_pairs_of_blocks(&content)?;
        }
        fill_in(&mut content, &config)?;
        let end_of_text = match &config.eos_token_id {
            Some(LlamaEosToks::Single(token)) => vec![*token],
            Some(LlamaEosToks::Multiple(tokens)) => tokens.clone(),
            None => Vec::new(),
        };
        let session = args.session(
            config.max_position_embeddings,
            config.hidden_size / config.num_attention_heads,
            DType::F32,
            device,
        )?;
        let limits = Limits {
            // candle's table of rotary positions is of fixed length.
            context: session
                .as_ref()
                .map_or(config.max_position_embeddings.min(MAX_SEQ_LEN), |session| {
                    session.capacity
                }),
            vocabulary: config.vocab_size,
            end_of_text,
        };
        Ok(Self {
            network: network(content, reader, from, session, device)?,
            config,
            device: device.clone(),
            limits,
        })
    }

    /// Sizes, rotary positions, and so on.
    pub fn config(&self) -> &Config {
        &self.config
    }
}

/// The weights, with a `session` by our code, or by candle's without.
fn network<R: Read + Seek>(
    content: Content,
    reader: &mut R,
    from: Origin,
    session: Option<SessionArgs>,
    device: &Device,
) -> Result<Network> {
    #[cfg(feature = "rocm")]
    if let Some(args) = session {
        use candle_rocm_transformers::models::quantized_llama::from_gguf;
        if let Some(sharing) = args.sharing.clone() {
            let load: parallel::LoadRank = Arc::new(move |rank, shares| match &from {
                Origin::File(path) => {
                    let mut file = BufReader::new(File::open(path)?);
                    of_rank(&content, &mut file, rank, shares)
                }
                Origin::Memory(bytes) => {
                    of_rank(&content, &mut Cursor::new(bytes.clone()), rank, shares)
                }
            });
            let sequence = parallel::sequence(&sharing, device, args, &load)?;
            return Ok(Network::Session(Box::new(sequence)));
        }
        let model = from_gguf(&content, reader, device)?;
        return Ok(Network::Session(Box::new(session::Sequence::new(
            model, &args,
        )?)));
    }
    #[cfg(not(feature = "rocm"))]
    ensure!(session.is_none(), "this build has no code of a session");
    drop(from);
    let model = ModelWeights::from_gguf(content, reader, device)?;
    Ok(Network::Candle(Box::new(model)))
}

/// What a rank has of the weights.
#[cfg(feature = "rocm")]
fn of_rank<R: Read + Seek>(
    content: &Content,
    reader: &mut R,
    rank: &Arc<Rank>,
    shares: Option<&Shares>,
) -> Result<Transformer> {
    use candle_rocm_transformers::models::quantized_llama::{rank_from_gguf, stage_from_gguf};
    Ok(match shares {
        Some(shares) => stage_from_gguf(content, reader, rank, shares)?,
        None => rank_from_gguf(content, reader, rank)?,
    })
}

/// That every tensor is there, whole, of the right shape and in blocks that fill its rows: candle's loader
/// names no tensor in most of its errors, and takes the embedding in place of an output that it cannot read.
fn check_tensors<R: Seek>(content: &Content, config: &Config, reader: &mut R) -> Result<()> {
    let end = reader.seek(SeekFrom::End(0))?;
    for (hf_name, shape) in expected_tensors(config) {
        let name = gguf_name(&hf_name).context("a tensor without a name in GGUF")?;
        let info = content
            .tensor_infos
            .get(&name)
            .with_context(|| format!("has no tensor `{name}`, which its metadata ask for"))?;
        ensure!(
            info.shape.dims() == shape,
            "tensor `{name}` has shape {:?}, and the metadata ask for {shape:?}",
            info.shape.dims()
        );
    }
    for (name, info) in &content.tensor_infos {
        // Left out, the text would be wrong from the first token on, and nothing would say so.
        ensure!(
            name != ROPE_DIVISORS,
            "tensor `{name}`: candle's quantised LLaMA has no scaled rotary positions: run the example `llama`, which has"
        );
        ensure!(
            hugging_face_name(name).is_some(),
            "tensor `{name}` is none of the LLaMA architecture's"
        );
        let (block, size) = (info.ggml_dtype.block_size(), info.ggml_dtype.type_size());
        let columns = info.shape.dims().last().copied().unwrap_or(1);
        ensure!(
            columns % block == 0,
            "tensor `{name}`: rows of {columns} do not divide into blocks of {block}"
        );
        let bytes = (info.shape.elem_count() / block * size) as u64;
        let stop = [content.tensor_data_offset, info.offset, bytes]
            .into_iter()
            .fold(0u64, u64::saturating_add);
        ensure!(
            stop <= end,
            "truncated: tensor `{name}` ends at byte {stop}, and the file has {end}"
        );
    }
    Ok(())
}

/// That none of candle's debug assertions about CPU products would end the program in the middle of a text:
/// they want rows of an even number of blocks, which the products themselves do not.
fn check_pairs_of_blocks(content: &Content) -> Result<()> {
    for (name, info) in &content.tensor_infos {
        let (dtype, columns) = (info.ggml_dtype, info.shape.dims().last().copied());
        let paired = matches!(dtype, GgmlDType::Q4_1 | GgmlDType::Q5_0 | GgmlDType::Q5_1);
        let blocks = columns.unwrap_or(1) / dtype.block_size();
        ensure!(
            !paired || blocks % 2 == 0,
            "tensor `{name}`: candle's debug builds refuse rows of {blocks} blocks of {dtype:?} on the CPU: build with --release"
        );
    }
    Ok(())
}

/// candle wants these in the metadata, as u32; writers may leave them out or use other integers.
fn fill_in(content: &mut Content, config: &Config) -> Result<()> {
    let head_dim = config.hidden_size / config.num_attention_heads;
    let rotated = "llama.rope.dimension_count";
    if let Some(value) = content.metadata.get(rotated) {
        ensure!(
            gguf::integer(value) == Some(head_dim),
            "`{rotated}` is {value:?}: candle's LLaMA rotates whole heads, {head_dim} here"
        );
    }
    for (key, value) in [
        (rotated, head_dim),
        ("llama.attention.head_count", config.num_attention_heads),
        ("llama.attention.head_count_kv", config.num_key_value_heads),
        ("llama.block_count", config.num_hidden_layers),
        ("llama.embedding_length", config.hidden_size),
    ] {
        let value = u32::try_from(value).with_context(|| format!("`{key}` is {value}"))?;
        content.metadata.insert(key.to_string(), Value::U32(value));
    }
    Ok(())
}

impl LanguageModel for QuantizedLlama {
    fn forward(&mut self, tokens: &[u32], position: usize) -> Result<Tensor> {
        match &mut self.network {
            Network::Candle(model) => {
                let input = Tensor::new(tokens, &self.device)?.unsqueeze(0)?;
                Ok(model.forward(&input, position)?.squeeze(0)?)
            }
            #[cfg(feature = "rocm")]
            Network::Session(session) => session.forward(tokens, position),
        }
    }

    fn reset(&mut self) -> Result<()> {
        match &mut self.network {
            Network::Candle(model) => model.clear_kv_cache(),
            #[cfg(feature = "rocm")]
            Network::Session(session) => session.reset(),
        }
        Ok(())
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn speaks(&self) -> bool {
        match &self.network {
            Network::Candle(_) => true,
            #[cfg(feature = "rocm")]
            Network::Session(session) => session.speaks(),
        }
    }

    fn captured(&self) -> Option<&Launches> {
        match &self.network {
            Network::Candle(_) => None,
            #[cfg(feature = "rocm")]
            Network::Session(session) => session.captured(),
        }
    }
}
