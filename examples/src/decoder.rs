//! LLaMA's kin from a Hugging Face folder, by what its `config.json` calls the model: LLaMA itself, and Mistral, Qwen 2 and
//! Qwen 3, which candle-rocm-transformers alone runs here.

use std::path::Path;

use anyhow::{bail, Result};
use candle_core::{DType, Device};

use crate::checkpoint::{read_any_config, Progress};
use crate::generate::AnyModel;
use crate::llama;
use crate::model_code::ModelArgs;

/// `model_type` of those that are not LLaMA.
pub const FAMILIES: [&str; 3] = ["mistral", "qwen2", "qwen3"];

/// Loads from a Hugging Face folder; or a LLaMA from a GGUF file.
///
/// # Errors
/// As [`llama::load_as`]; a model of another family, and a build without `rocm` or `--model-code candle`.
pub fn load(
    path: &Path,
    args: &ModelArgs,
    dtype: DType,
    device: &Device,
    progress: &Progress,
) -> Result<AnyModel> {
    if path.is_dir() {
        let config = read_any_config(path)?;
        if let Some(family) = config["model_type"]
            .as_str()
            .filter(|of| FAMILIES.contains(of))
        {
            #[cfg(feature = "rocm")]
            return Ok(Box::new(sessions::load(
                path,
                family,
                config.clone(),
                args,
                dtype,
                device,
                progress,
            )?));
            #[cfg(not(feature = "rocm"))]
            bail!(
                "{}: a model of type `{family}`: build with `--features rocm`",
                path.display()
            );
        }
    }
    Ok(Box::new(llama::load_as(
        path, args, dtype, device, progress,
    )?))
}

#[cfg(feature = "rocm")]
mod sessions {
    use std::sync::Arc;

    use anyhow::Context as _;
    use candle_core::Tensor;
    use candle_rocm_transformers::models::{mistral, qwen2, qwen3};
    use serde::de::DeserializeOwned;
    use serde_json::Value;

    use super::*;
    use crate::checkpoint::{end_of_text, Weights};
    use crate::generate::{LanguageModel, Limits};
    use crate::launches::Launches;
    use crate::llama_config;
    use crate::model_code::ModelCode;
    use crate::{parallel, session};

    /// A model and its cache.
    pub struct Decoder {
        session: session::Sequence,
        limits: Limits,
    }

    pub fn load(
        path: &Path,
        family: &str,
        mut json: Value,
        args: &ModelArgs,
        dtype: DType,
        device: &Device,
        progress: &Progress,
    ) -> Result<Decoder> {
        if args.model_code == Some(ModelCode::Candle) {
            bail!("--model-code candle: this example runs `{family}` by candle-rocm-transformers alone");
        }
        let file = path.join("config.json").display().to_string();
        let end_of_text = end_of_text(path, &json)?;
        let number = |json: &Value, name: &str| {
            let number = json[name].as_u64().map(|number| number as usize);
            number.with_context(|| format!("{file}: `{name}` is {}", json[name]))
        };
        let context = number(&json, "max_position_embeddings")?;
        let head = match json["head_dim"].as_u64() {
            Some(dim) => dim as usize,
            None => number(&json, "hidden_size")? / number(&json, "num_attention_heads")?.max(1),
        };
        let ours = ModelArgs {
            model_code: Some(ModelCode::Rocm),
            ..args.clone()
        };
        let asked = ours.session(context, head, dtype, device)?;
        let asked = asked.context("candle-rocm-transformers runs it")?;
        normalise(&mut json, context).with_context(|| file.clone())?;
        let vocabulary = number(&json, "vocab_size")?;
        let capacity = asked.capacity;
        let session = match asked.sharing.clone() {
            Some(sharing) => {
                let (folder, family) = (path.to_path_buf(), family.to_owned());
                let load: parallel::LoadRank = Arc::new(move |rank, shares| {
                    let weights = &parallel::checkpoint(&folder, dtype, &rank.device())?;
                    macro_rules! load {
                        ($family:ident) => {
                            match shares {
                                Some(shares) => {
                                    $family::load_stage(weights, &config(&json)?, rank, shares)
                                }
                                None => $family::load_rank(weights, &config(&json)?, rank),
                            }
                        };
                    }
                    let model = match &*family {
                        "mistral" => load!(mistral),
                        "qwen2" => load!(qwen2),
                        "qwen3" => load!(qwen3),
                        other => bail!("{file}: a model of type `{other}`"),
                    };
                    model.with_context(|| folder.display().to_string())
                });
                parallel::sequence(&sharing, device, asked, &load)?
            }
            None => {
                let weights = Weights::from_folder(path, dtype, device, progress)?;
                let weights = weights.into_var_builder();
                let model = match family {
                    "mistral" => mistral::load(weights, &config(&json)?),
                    "qwen2" => qwen2::load(weights, &config(&json)?),
                    "qwen3" => qwen3::load(weights, &config(&json)?),
                    other => bail!("{file}: a model of type `{other}`"),
                };
                session::Sequence::new(model.with_context(|| path.display().to_string())?, &asked)?
            }
        };
        Ok(Decoder {
            session,
            limits: Limits {
                context: capacity,
                vocabulary,
                end_of_text,
            },
        })
    }

    fn config<C: DeserializeOwned>(json: &Value) -> Result<C> {
        serde_json::from_value(json.clone()).context("config.json")
    }

    /// What files leave out or write in another way, as the configurations have it.
    fn normalise(json: &mut Value, context: usize) -> Result<()> {
        llama_config::normalise_rope(json)?;
        if !json["rope_scaling"].is_null() {
            bail!("`rope_scaling`: of LLaMA's kin, LLaMA alone has it here");
        }
        for (name, value) in [
            ("use_sliding_window", Value::Bool(false)),
            ("max_window_layers", Value::from(0)),
            ("attention_bias", Value::Bool(false)),
            ("tie_word_embeddings", Value::Bool(false)),
        ] {
            if json[name].is_null() {
                json[name] = value;
            }
        }
        // Where no window is used its size may be null, which Qwen 2's configuration has no room for.
        if json["model_type"] == "qwen2" && json["sliding_window"].is_null() {
            json["sliding_window"] = Value::from(context);
        }
        Ok(())
    }

    impl LanguageModel for Decoder {
        fn forward(&mut self, tokens: &[u32], position: usize) -> Result<Tensor> {
            self.session.forward(tokens, position)
        }

        fn reset(&mut self) -> Result<()> {
            self.session.reset();
            Ok(())
        }

        fn limits(&self) -> &Limits {
            &self.limits
        }

        fn speaks(&self) -> bool {
            self.session.speaks()
        }

        fn captured(&self) -> Option<&Launches> {
            self.session.captured()
        }
    }
}
