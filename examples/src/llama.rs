//! The LLaMA architecture, from a Hugging Face folder or a GGUF file: candle-rocm-transformers' model, or
//! candle-transformers'.

use std::path::Path;

use anyhow::{ensure, Context, Result};
use candle_core::{DType, Device, Tensor};
use candle_transformers::models::llama as candle_llama;
use serde_json::{json, Value};

use crate::checkpoint::{end_of_text, read_config, Progress, Weights};
use crate::generate::{LanguageModel, Limits};
use crate::gguf;
use crate::launches::Launches;
use crate::model_code::{ModelArgs, SessionArgs};
#[cfg(feature = "rocm")]
use crate::session;

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
        let (config, end_of_text, weights) = gguf::load(path, dtype, device, progress)?;
        return Llama::new(config, end_of_text, weights, args, dtype, device);
    }
    let json = read_config(path, "llama")?;
    let file = path.join("config.json");
    let end_of_text = end_of_text(path, &json)?;
    let config = parse_config(&json).with_context(|| file.display().to_string())?;
    let weights = Weights::from_folder(path, dtype, device, progress)?;
    Llama::new(config, end_of_text, weights, args, dtype, device)
}

/// A `config.json` as candle's LLaMA takes it. Both ways in which transformers writes rotary positions are
/// understood: `rope_theta` and `rope_scaling` (before version 5), `rope_parameters` (since).
///
/// # Errors
/// A field is missing or malformed, or asks for what candle's LLaMA has not.
pub fn parse_config(json: &Value) -> Result<candle_llama::Config> {
    let mut json = json.clone();
    normalise_rope(&mut json)?;
    let is_set = |name: &str| json[name].as_bool() == Some(true);
    for name in ["attention_bias", "mlp_bias"] {
        ensure!(
            !is_set(name),
            "`{name}` is true: candle's LLaMA has no such bias"
        );
    }
    if let Some(activation) = json["hidden_act"].as_str() {
        ensure!(
            activation == "silu",
            "`hidden_act` is `{activation}`: candle's LLaMA has silu only"
        );
    }
    let head_dim = json["head_dim"].as_u64();
    let config: candle_llama::LlamaConfig = serde_json::from_value(json)?;
    let config = config.into_config(false);
    check(&config)?;
    if let Some(head_dim) = head_dim {
        let implied = config.hidden_size / config.num_attention_heads;
        ensure!(
            head_dim == implied as u64,
            "`head_dim` is {head_dim}: candle's LLaMA has hidden_size / num_attention_heads = {implied} only"
        );
    }
    Ok(config)
}

/// That sizes divide, so that nothing panics later.
pub(crate) fn check(c: &candle_llama::Config) -> Result<()> {
    for (name, value) in [
        ("vocab_size", c.vocab_size),
        ("hidden_size", c.hidden_size),
        ("num_attention_heads", c.num_attention_heads),
        ("num_key_value_heads", c.num_key_value_heads),
        ("max_position_embeddings", c.max_position_embeddings),
    ] {
        ensure!(value > 0, "`{name}` is 0");
    }
    ensure!(
        c.hidden_size.is_multiple_of(2 * c.num_attention_heads),
        "`hidden_size` {} is not an even multiple of `num_attention_heads` {}",
        c.hidden_size,
        c.num_attention_heads
    );
    ensure!(
        c.num_attention_heads.is_multiple_of(c.num_key_value_heads),
        "`num_attention_heads` {} is not a multiple of `num_key_value_heads` {}",
        c.num_attention_heads,
        c.num_key_value_heads
    );
    Ok(())
}

/// Rewrites rotary positions as candle reads them: `rope_theta`, and `rope_scaling` for Llama 3 or null.
pub(crate) fn normalise_rope(json: &mut Value) -> Result<()> {
    if json["rope_parameters"].is_object() {
        let rope = json["rope_parameters"].clone();
        if !rope["rope_theta"].is_null() {
            json["rope_theta"] = rope["rope_theta"].clone();
        }
        json["rope_scaling"] = rope;
    }
    let scaling = &json["rope_scaling"];
    if scaling.is_null() {
        return Ok(());
    }
    // Older files call the field `type`.
    let kind = ["rope_type", "type"]
        .iter()
        .find_map(|key| scaling[key].as_str());
    json["rope_scaling"] = match kind {
        None | Some("default") => Value::Null,
        Some("llama3") => json!({
            "rope_type": "llama3",
            "factor": scaling["factor"],
            "low_freq_factor": scaling["low_freq_factor"],
            "high_freq_factor": scaling["high_freq_factor"],
            "original_max_position_embeddings": scaling["original_max_position_embeddings"],
        }),
        Some(other) => {
            anyhow::bail!("rotary positions of type `{other}`: candle's LLaMA has `default` and `llama3` only")
        }
    };
    Ok(())
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
        // candle's constructor panics on a missing tensor of a layer; this reports it.
        for (name, shape) in expected_tensors(&config) {
            weights.get(&name, &shape)?;
        }
        let session = args.session(
            config.max_position_embeddings,
            config.hidden_size / config.num_attention_heads,
            dtype,
            device,
        )?;
        let limits = Limits {
            context: session.map_or(config.max_position_embeddings, |session| session.capacity),
            vocabulary: config.vocab_size,
            end_of_text,
        };
        Ok(Self {
            network: network(&config, weights, session, dtype, device)?,
            config,
            device: device.clone(),
            limits,
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
    session: Option<SessionArgs>,
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
    ensure!(session.is_none(), "this build has no code of a session");
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

    fn captured(&self) -> Option<&Launches> {
        match &self.network {
            Network::Candle { .. } => None,
            #[cfg(feature = "rocm")]
            Network::Session(session) => session.captured(),
        }
    }
}
