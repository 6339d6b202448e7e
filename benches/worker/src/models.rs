//! Language models of the LLaMA architecture with random weights, the same in every worker.

use std::io::{Read, Seek, SeekFrom};
use std::time::Instant;

use anyhow::{ensure, Context, Result};
use candle_core::quantized::gguf_file::{Content, TensorInfo, Value, VersionedMagic};
use candle_core::quantized::GgmlDType;
use candle_core::{DType, Device, Shape, Tensor, D};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::VarBuilder;
use candle_rocm_bench_protocol::{Case, ModelSpeeds, Settings};
use candle_rocm_testing::random::Random;
use candle_transformers::models::{llama, quantized_llama};
use half::f16;

use crate::data::{Block, Range};
use crate::gpu::Gpu;
use crate::products;

/// A shape of model.
struct Size {
    name: &'static str,
    hidden: usize,
    inner: usize,
    layers: usize,
    heads: usize,
    kv_heads: usize,
    vocabulary: usize,
    tied: bool,
}

/// Llama 3.2's 1B, Llama 3's 8B, four layers of the latter for small memories, and one for tests.
const SIZES: &[Size] = &[
    Size {
        name: "llama-1b",
        hidden: 2048,
        inner: 8192,
        layers: 16,
        heads: 32,
        kv_heads: 8,
        vocabulary: 128_256,
        tied: true,
    },
    Size {
        name: "llama-8b",
        hidden: 4096,
        inner: 14_336,
        layers: 32,
        heads: 32,
        kv_heads: 8,
        vocabulary: 128_256,
        tied: false,
    },
    Size {
        name: "llama-8b-4-layers",
        hidden: 4096,
        inner: 14_336,
        layers: 4,
        heads: 32,
        kv_heads: 8,
        vocabulary: 128_256,
        tied: false,
    },
    Size {
        name: "llama-tiny",
        hidden: 256,
        inner: 256,
        layers: 1,
        heads: 4,
        kv_heads: 2,
        vocabulary: 97,
        tied: false,
    },
];

const EPSILON: f64 = 1e-5;
const ROPE_THETA: f32 = 500_000.;

/// A model and what it keeps of the tokens so far.
pub struct Model {
    network: Network,
    vocabulary: usize,
    /// What the first run decoded.
    tokens: Vec<u32>,
}

enum Network {
    Plain {
        model: llama::Llama,
        /// With no tokens in it yet.
        empty: Box<llama::Cache>,
        cache: Box<llama::Cache>,
    },
    Quantized(Box<quantized_llama::ModelWeights>),
    /// candle-rocm-transformers' model of either.
    #[cfg(feature = "session")]
    Session(Box<candle_rocm_transformers::Session>),
}

/// The dtype of models in bf16 whose products are in FP8.
pub const FP8: &str = "f8e4m3";

/// Tokens of a sequence at most: `CANDLE_ROCM_BENCH_CONTEXT`, or 4,096.
fn context() -> Result<usize> {
    match std::env::var("CANDLE_ROCM_BENCH_CONTEXT") {
        Ok(tokens) => tokens.parse().context("CANDLE_ROCM_BENCH_CONTEXT"),
        Err(_) => Ok(4096),
    }
}

/// Whether candle-transformers' code is measured, where there is another's.
#[cfg(feature = "session")]
fn candles_code() -> bool {
    std::env::var("CANDLE_ROCM_BENCH_MODELS").is_ok_and(|code| code == "candle")
}

#[cfg(feature = "session")]
fn session(mut model: candle_rocm_transformers::Transformer) -> Result<Network> {
    if let Ok(dtype) = std::env::var("CANDLE_ROCM_BENCH_CACHE") {
        let dtype = dtype.parse().context("CANDLE_ROCM_BENCH_CACHE")?;
        model = model.with_cache_dtype(dtype)?;
    }
    let session = candle_rocm_transformers::Session::new(model, 1, context()?)?;
    Ok(Network::Session(Box::new(session)))
}

/// Makes the model of a case.
///
/// # Errors
/// No model has this name; the dtype is neither plain nor `q4_K`; Candle's.
pub fn prepare(gpu: &Gpu, case: &Case) -> Result<Model> {
    let size = SIZES.iter().find(|size| size.name == case.op);
    let size = size.with_context(|| format!("no model is called {}", case.op))?;
    let network = match case.dtype.as_str() {
        "q4_K" => quantized(gpu, size)?,
        FP8 => plain(gpu, size, DType::BF16, true)?,
        dtype => plain(gpu, size, dtype.parse()?, false)?,
    };
    Ok(Model {
        network,
        vocabulary: size.vocabulary,
        tokens: Vec::new(),
    })
}

/// Weights of variance `1 / columns`.
struct RandomWeights<'a>(&'a Block);

/// A number for a name, the same everywhere.
pub fn seed_of(name: &str) -> usize {
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    (name.bytes().fold(0xcbf2_9ce4_8422_2325, hash) >> 20) as usize
}

impl SimpleBackend for RandomWeights<'_> {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        _: candle_nn::Init,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Tensor> {
        match shape.dims() {
            [_] => Tensor::ones(shape, dtype, device),
            // A uniform distribution from -1 to 1 has a variance of 1/3.
            [.., columns] => {
                let scale = (3. / *columns as f64).sqrt();
                self.0
                    .tensor(shape, dtype, Range::Signed, seed_of(name), scale)
            }
            [] => candle_core::bail!("{name} has no dimensions"),
        }
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> candle_core::Result<Tensor> {
        candle_core::bail!("{name} has no shape of its own")
    }

    fn contains_tensor(&self, _: &str) -> bool {
        true
    }
}

/// `in_fp8` is for our code alone.
fn plain(gpu: &Gpu, size: &Size, dtype: DType, in_fp8: bool) -> Result<Network> {
    let config = llama::Config {
        hidden_size: size.hidden,
        intermediate_size: size.inner,
        vocab_size: size.vocabulary,
        num_hidden_layers: size.layers,
        num_attention_heads: size.heads,
        num_key_value_heads: size.kv_heads,
        use_flash_attn: false,
        rms_norm_eps: EPSILON,
        rope_theta: ROPE_THETA,
        bos_token_id: None,
        eos_token_id: None,
        rope_scaling: None,
        max_position_embeddings: context()?,
        tie_word_embeddings: size.tied,
    };
    let weights = RandomWeights(&gpu.block);
    let weights: Box<dyn SimpleBackend + '_> = Box::new(weights);
    let builder = VarBuilder::from_backend(weights, dtype, gpu.device.clone());
    #[cfg(feature = "session")]
    if !candles_code() {
        let model = candle_rocm_transformers::models::llama::load(builder, &config)?;
        return session(if in_fp8 { model.to_fp8()? } else { model });
    }
    ensure!(!in_fp8, "candle-transformers' code has no FP8");
    let model = llama::Llama::load(builder, &config)?;
    let empty = Box::new(llama::Cache::new(true, dtype, &config, &gpu.device)?);
    Ok(Network::Plain {
        model,
        cache: empty.clone(),
        empty,
    })
}

/// A GGUF file that is nowhere: what it holds is made when it is read.
struct Weights {
    /// Quantised blocks, again and again from each tensor's start.
    blocks: Vec<u8>,
    /// Where each tensor starts and ends, and whether it is quantised or f32 ones.
    tensors: Vec<(u64, u64, bool)>,
    position: u64,
}

impl Read for Weights {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let after = self
            .tensors
            .partition_point(|(_, end, _)| *end <= self.position);
        let Some(&(start, end, quantized)) = self.tensors.get(after) else {
            return Ok(0);
        };
        let count = (end - self.position).min(out.len() as u64) as usize;
        let within = (self.position - start) as usize;
        let pattern: &[u8] = if quantized {
            &self.blocks
        } else {
            &[0, 0, 0x80, 0x3f]
        };
        let mut done = 0;
        while done < count {
            let from = (within + done) % pattern.len();
            let part = (pattern.len() - from).min(count - done);
            out[done..done + part].copy_from_slice(&pattern[from..from + part]);
            done += part;
        }
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for Weights {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        let end = self.tensors.last().map_or(0, |(_, end, _)| *end);
        let place = match to {
            SeekFrom::Start(place) => Some(place),
            SeekFrom::End(offset) => end.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = place.ok_or(std::io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

/// Blocks of q4_K whose 256 values are at random and whose scales are those of quantised random numbers of variance
/// `1 / columns`.
fn q4_k_blocks(columns: usize) -> Result<Vec<u8>> {
    // A prime, so that rows of a vocabulary differ.
    const BLOCKS: usize = 131_071;
    // Two f16 of scales, twelve bytes of smaller scales, then four bits a value.
    const HEADER: usize = 16;
    let template = products::blocks(GgmlDType::Q4K)?;
    let size = GgmlDType::Q4K.type_size();
    let factor = (3. / columns as f32).sqrt();
    let mut random = Random::new(0);
    let mut blocks = Vec::with_capacity(BLOCKS * size);
    for block in template.chunks_exact(size).cycle().take(BLOCKS) {
        for scale in block[..4].chunks_exact(2) {
            let scale = f16::from_le_bytes([scale[0], scale[1]]).to_f32() * factor;
            blocks.extend(f16::from_f32(scale).to_le_bytes());
        }
        blocks.extend(&block[4..HEADER]);
        for _ in 0..(size - HEADER) / 8 {
            blocks.extend(random.bits().to_le_bytes());
        }
    }
    Ok(blocks)
}

fn quantized(gpu: &Gpu, size: &Size) -> Result<Network> {
    let (hidden, inner) = (size.hidden, size.inner);
    let kv = hidden / size.heads * size.kv_heads;
    let mut tensors = vec![
        (
            "token_embd.weight".to_owned(),
            vec![size.vocabulary, hidden],
        ),
        ("output_norm.weight".to_owned(), vec![hidden]),
    ];
    if !size.tied {
        tensors.push(("output.weight".to_owned(), vec![size.vocabulary, hidden]));
    }
    for layer in 0..size.layers {
        let parts = [
            ("attn_q", vec![hidden, hidden]),
            ("attn_k", vec![kv, hidden]),
            ("attn_v", vec![kv, hidden]),
            ("attn_output", vec![hidden, hidden]),
            ("ffn_gate", vec![inner, hidden]),
            ("ffn_down", vec![hidden, inner]),
            ("ffn_up", vec![inner, hidden]),
            ("attn_norm", vec![hidden]),
            ("ffn_norm", vec![hidden]),
        ];
        for (part, dims) in parts {
            tensors.push((format!("blk.{layer}.{part}.weight"), dims));
        }
    }
    let mut content = Content {
        magic: VersionedMagic::GgufV3,
        metadata: metadata(size),
        tensor_infos: Default::default(),
        tensor_data_offset: 0,
    };
    let mut weights = Weights {
        blocks: q4_k_blocks(hidden)?,
        tensors: Vec::new(),
        position: 0,
    };
    let mut offset = 0;
    for (name, dims) in tensors {
        let quantized = dims.len() == 2;
        let format = if quantized {
            GgmlDType::Q4K
        } else {
            GgmlDType::F32
        };
        let shape = Shape::from(dims);
        let bytes = (shape.elem_count() / format.block_size() * format.type_size()) as u64;
        weights.tensors.push((offset, offset + bytes, quantized));
        let info = TensorInfo {
            ggml_dtype: format,
            shape,
            offset,
        };
        content.tensor_infos.insert(name, info);
        offset += bytes;
    }
    #[cfg(feature = "session")]
    if !candles_code() {
        use candle_rocm_transformers::models::quantized_llama::from_gguf;
        return session(from_gguf(&content, &mut weights, &gpu.device)?);
    }
    let model = quantized_llama::ModelWeights::from_gguf(content, &mut weights, &gpu.device)?;
    Ok(Network::Quantized(Box::new(model)))
}

fn metadata(size: &Size) -> std::collections::HashMap<String, Value> {
    let number = |n: usize| Value::U32(n as u32);
    let entries = [
        ("general.architecture", Value::String("llama".into())),
        ("llama.attention.head_count", number(size.heads)),
        ("llama.attention.head_count_kv", number(size.kv_heads)),
        ("llama.block_count", number(size.layers)),
        ("llama.embedding_length", number(size.hidden)),
        (
            "llama.rope.dimension_count",
            number(size.hidden / size.heads),
        ),
        ("llama.rope.freq_base", Value::F32(ROPE_THETA)),
        (
            "llama.attention.layer_norm_rms_epsilon",
            Value::F32(EPSILON as f32),
        ),
    ];
    entries.map(|(key, value)| (key.to_owned(), value)).into()
}

impl Network {
    /// Forgets the tokens so far.
    fn reset(&mut self) {
        match self {
            Self::Plain { empty, cache, .. } => *cache = empty.clone(),
            Self::Quantized(model) => model.clear_kv_cache(),
            #[cfg(feature = "session")]
            Self::Session(session) => session.reset(),
        }
    }

    /// The most likely tokens after these, one after another.
    fn greedy(
        &mut self,
        mut token: u32,
        position: usize,
        count: usize,
        device: &Device,
    ) -> Result<Vec<u32>> {
        #[cfg(feature = "session")]
        if let Self::Session(session) = self {
            session.greedy(count)?;
            return Ok(session.last(count)?.concat());
        }
        let mut tokens = Vec::with_capacity(count);
        for i in 0..count {
            // Each token is read back, so that the GPU is waited for.
            token = self.next(&[token], position + i, device)?;
            tokens.push(token);
            #[cfg(feature = "session")]
            crate::memory::note(device, position + i + 1)?;
        }
        Ok(tokens)
    }

    /// The most likely token after these.
    fn next(&mut self, tokens: &[u32], position: usize, device: &Device) -> Result<u32> {
        let tokens = Tensor::new(tokens, device)?.unsqueeze(0)?;
        let logits = match self {
            Self::Plain { model, cache, .. } => model.forward(&tokens, position, cache)?,
            Self::Quantized(model) => model.forward(&tokens, position)?,
            #[cfg(feature = "session")]
            Self::Session(session) => session.prompt(&tokens)?,
        };
        Ok(logits.flatten_all()?.argmax(D::Minus1)?.to_scalar()?)
    }
}

impl Model {
    /// Reads a prompt and decodes greedily after it, once for each sample, and once before the first.
    ///
    /// # Errors
    /// Candle's.
    pub fn measure(&mut self, gpu: &Gpu, settings: &Settings) -> Result<ModelSpeeds> {
        let prompt: Vec<u32> = (0..settings.prompt)
            .map(|i| (i * 7919 % self.vocabulary) as u32)
            .collect();
        if self.tokens.is_empty() {
            // Loads kernels and fills pools.
            self.tokens = self.run(gpu, &prompt, settings.decode)?.tokens;
        }
        let mut speeds = ModelSpeeds {
            tokens: self.tokens.clone(),
            repeatable: true,
            ..ModelSpeeds::default()
        };
        for _ in 0..settings.samples {
            let run = self.run(gpu, &prompt, settings.decode)?;
            speeds.prefill.push(prompt.len() as f64 / run.prefill_s);
            speeds.decode.push(settings.decode as f64 / run.decode_s);
            speeds.repeatable &= run.tokens == self.tokens;
        }
        Ok(speeds)
    }

    fn run(&mut self, gpu: &Gpu, prompt: &[u32], decode: usize) -> Result<Run> {
        self.network.reset();
        gpu.cuda_sync()?;
        let began = Instant::now();
        let token = self.network.next(prompt, 0, &gpu.device)?;
        let prefill_s = began.elapsed().as_secs_f64();
        let began = Instant::now();
        let rest = self
            .network
            .greedy(token, prompt.len(), decode, &gpu.device)?;
        let tokens = [vec![token], rest].concat();
        Ok(Run {
            prefill_s,
            decode_s: began.elapsed().as_secs_f64(),
            tokens,
        })
    }
}

/// A prompt read and tokens decoded once.
struct Run {
    prefill_s: f64,
    decode_s: f64,
    tokens: Vec<u32>,
}
