//! The LLaMA architecture, from a Hugging Face folder or a GGUF file: candle-rocm-transformers' model, or
//! candle-transformers'.

use std::path::Path;
#[cfg(feature = "rocm")]
use std::sync::Arc;

use anyhow::{ensure, Context, Result};
use candle_core::{DType, Device, Tensor};
use candle_transformers::models::llama as candle_llama;

use crate::checkpoint::{end_of_text, read_config, Progress, Weights};
use crate::generate::{LanguageModel, Limits};
use crate::gguf;
use crate::launches::Launches;
use crate::model_code::{ModelArgs, SessionArgs};
#[cfg(feature = "rocm")]
use crate::{model_code::Sharing, parallel, session};

pub use crate::llama_config::parse_config;

/// A LLaMA model with its cache.
pub struct Llama {
    network: Network,
    config: candle_llama::Config,
    device: Device,
    limits: Limits,
}

enum Network {
    Candle {
        model: candle_llama::Llama,
        /// Before anything was read: cloning it forgets, at no cost, since tensors share their memory.
        empty_cache: Box<candle_llama::Cache>,
        cache: Box<candle_llama::Cache>,
    },
    #[cfg(feature = "rocm")]
    Session(Box<session::Sequence>),
}

/// Loads from a Hugging Face folder, or from a GGUF file.
///
/// # Errors
/// A file is missing, truncated or malformed; the model needs what candle's LLaMA has not; tensors do not
/// match the configuration. The text names the file.
pub fn load(path: &Path, dtype: DType, device: &Device, progress: &Progress) -> Result<Llama> {
    load_as(path, &ModelArgs::default(), dtype, device, progress)
}

/// The same, by the code and with the context asked for.
///
/// # Errors
/// As [`load`]; the options do not fit the model.
pub fn load_as(
    path: &Path,
    args: &ModelArgs,
    dtype: DType,
    device: &Device,
    progress: &Progress,
) -> Result<Llama> {
    if path.is_file() {
        ensure!(
            args.sharing().is_none(),
            "{}: --gpus: the example `quantized-llama` runs such files on several",
            path.display()
        );
        let (config, end_of_text, weights) = gguf::load(path, dtype, device, progress)?;
        return Llama::new(config, end_of_text, weights, args, dtype, device);
    }
    let json = read_config(path, "llama")?;
    let file = path.join("config.json");
    let end_of_text = end_of_text(path, &json)?;
    let config = parse_config(&json).with_context(|| file.display().to_string())?;
    let sizes = Sizes::of(&config, end_of_text, args, dtype, device)?;
    #[cfg(feature = "rocm")]
    if let Some((session, sharing)) = sizes.shared() {
        let (folder, of_rank) = (path.to_path_buf(), config.clone());
        let load: parallel::LoadRank = Arc::new(move |rank, shares| {
            use candle_rocm_transformers::models::llama::{load_rank, load_stage};
            let weights = parallel::checkpoint(&folder, dtype, &rank.device())?;
            Ok(match shares {
                Some(shares) => load_stage(&weights, &of_rank, rank, shares)?,
                None => load_rank(&weights, &of_rank, rank)?,
            })
        });
        let sequence = parallel::sequence(&sharing, device, session, &load)?;
        return Ok(Llama {
            network: Network::Session(Box::new(sequence)),
            config,
            device: device.clone(),
            limits: sizes.limits,
        });
    }
    let weights = Weights::from_folder(path, dtype, device, progress)?;
    Llama::of(config, sizes, weights, dtype, device)
}

/// What a session is to be, and what the model allows.
struct Sizes {
    session: Option<SessionArgs>,
    limits: Limits,
}

impl Sizes {
    /// The session and the GPUs that share it, where several do.
    #[cfg(feature = "rocm")]
    fn shared(&self) -> Option<(SessionArgs, Sharing)> {
        let session = self.session.as_ref()?;
        Some((session.clone(), session.sharing.clone()?))
    }

    fn of(
        config: &candle_llama::Config,
        end_of_text: Vec<u32>,
        args: &ModelArgs,
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        let session = args.session(
            config.max_position_embeddings,
            config.hidden_size / config.num_attention_heads,
            dtype,
            device,
        )?;
        let context = session.as_ref();
        let context = context.map_or(config.max_position_embeddings, |session| session.capacity);
        Ok(Self {
            session,
            limits: Limits {
                context,
                vocabulary: config.vocab_size,
                end_of_text,
            },
        })
    }
}

impl Llama {
    pub(crate) fn new(
        config: candle_llama::Config,
        end_of_text: Vec<u32>,
        weights: Weights,
        args: &ModelArgs,
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        let sizes = Sizes::of(&config, end_of_text, args, dtype, device)?;
        Self::of(config, sizes, weights, dtype, device)
    }

    fn of(
        config: candle_llama::Config,
        sizes: Sizes,
        weights: Weights,
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        // candle's constructor panics on a missing tensor of a layer; this reports it.
        for (name, shape) in expected_tensors(&config) {
            weights.get(&name, &shape)?;
        }
        Ok(Self {
            network: network(&config, weights, sizes.session.as_ref(), dtype, device)?,
            config,
            device: device.clone(),
            limits: sizes.limits,
        })
    }

    /// Sizes, rotary positions, and so on.
    pub fn config(&self) -> &candle_llama::Config {
        &self.config
    }
}

/// The weights, with a `session` by our code, or by candle's without.
fn network(
    config: &candle_llama::Config,
    weights: Weights,
    session: Option<&SessionArgs>,
    dtype: DType,
    device: &Device,
) -> Result<Network> {
    #[cfg(feature = "rocm")]
    if let Some(args) = session {
        let weights = weights.into_var_builder();
        let model = candle_rocm_transformers::models::llama::load(weights, config)?;
        return Ok(Network::Session(Box::new(session::Sequence::new(
            model, args,
        )?)));
    }
    #[cfg(not(feature = "rocm"))]
    anyhow::ensure!(session.is_none(), "this build has no code of a session");
    let empty_cache = Box::new(candle_llama::Cache::new(true, dtype, config, device)?);
    Ok(Network::Candle {
        model: candle_llama::Llama::load(weights.into_var_builder(), config)?,
        cache: empty_cache.clone(),
        empty_cache,
    })
}

/// Every tensor of the model: name, shape.
pub fn expected_tensors(c: &candle_llama::Config) -> Vec<(String, Vec<usize>)> {
    let (hidden, inner) = (c.hidden_size, c.intermediate_size);
    let kv = hidden / c.num_attention_heads * c.num_key_value_heads;
    let mut tensors = vec![
        (
            "model.embed_tokens.weight".to_string(),
            vec![c.vocab_size, hidden],
        ),
        ("model.norm.weight".to_string(), vec![hidden]),
    ];
    if !c.tie_word_embeddings {
        tensors.push(("lm_head.weight".to_string(), vec![c.vocab_size, hidden]));
    }
    for layer in 0..c.num_hidden_layers {
        for (name, shape) in [
            ("self_attn.q_proj", vec![hidden, hidden]),
            ("self_attn.k_proj", vec![kv, hidden]),
            ("self_attn.v_proj", vec![kv, hidden]),
            ("self_attn.o_proj", vec![hidden, hidden]),
            ("mlp.gate_proj", vec![inner, hidden]),
            ("mlp.up_proj", vec![inner, hidden]),
            ("mlp.down_proj", vec![hidden, inner]),
            ("input_layernorm", vec![hidden]),
            ("post_attention_layernorm", vec![hidden]),
        ] {
            tensors.push((format!("model.layers.{layer}.{name}.weight"), shape));
        }
    }
    tensors
}

impl LanguageModel for Llama {
    fn forward(&mut self, tokens: &[u32], position: usize) -> Result<Tensor> {
        match &mut self.network {
            Network::Candle { model, cache, .. } => {
                let input = Tensor::new(tokens, &self.device)?.unsqueeze(0)?;
                Ok(model.forward(&input, position, cache)?.squeeze(0)?)
            }
            #[cfg(feature = "rocm")]
            Network::Session(session) => session.forward(tokens, position),
        }
    }

    fn reset(&mut self) -> Result<()> {
        match &mut self.network {
            Network::Candle {
                empty_cache, cache, ..
            } => *cache = empty_cache.clone(),
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
            Network::Candle { .. } => true,
            #[cfg(feature = "rocm")]
            Network::Session(session) => session.speaks(),
        }
    }

    fn captured(&self) -> Option<&Launches> {
        match &self.network {
            Network::Candle { .. } => None,
            #[cfg(feature = "rocm")]
            Network::Session(session) => session.captured(),
        }
    }
}
