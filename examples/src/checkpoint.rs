//! Weights by name: from safetensors files of the Hugging Face layout, or from [`crate::gguf`].

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};
use candle_core::safetensors::Load as _;
use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use indicatif::{ProgressBar, ProgressStyle};
use safetensors::SafeTensors;

/// Shows how far loading is.
pub struct Progress(ProgressBar);

impl Progress {
    /// On standard error, if that is a terminal.
    pub fn shown() -> Self {
        let bar = ProgressBar::no_length();
        // The template is a constant; were it wrong, the default style would do.
        if let Ok(style) = ProgressStyle::with_template(
            "Loading {msg} [{bar:40}] {bytes}/{total_bytes} {bytes_per_sec}",
        ) {
            bar.set_style(style.progress_chars("=> "));
        }
        Self(bar)
    }

    /// Not at all.
    pub fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// Another file of so many bytes begins.
    pub(crate) fn add_file(&self, path: &Path, bytes: u64) {
        let name = path.file_name().unwrap_or(path.as_os_str());
        self.0.set_message(name.to_string_lossy().into_owned());
        self.0.inc_length(bytes);
        self.0.enable_steady_tick(Duration::from_millis(100));
    }

    pub(crate) fn advance(&self, bytes: u64) {
        self.0.inc(bytes);
    }

    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

/// Tensors by name, converted to one dtype, on one device.
pub struct Weights {
    origin: PathBuf,
    tensors: HashMap<String, Tensor>,
    dtype: DType,
    device: Device,
}

impl Weights {
    /// Of tensors already loaded; `origin` is the file or folder that errors name.
    pub fn new(
        origin: &Path,
        tensors: HashMap<String, Tensor>,
        dtype: DType,
        device: &Device,
    ) -> Self {
        Self {
            origin: origin.to_path_buf(),
            tensors,
            dtype,
            device: device.clone(),
        }
    }

    /// From a folder with `model.safetensors`, or with shards and `model.safetensors.index.json`.
    ///
    /// # Errors
    /// A file is missing, truncated or malformed, or a weight has a dtype that is no float of 16, 32 or 64
    /// bits. The text names the file.
    pub fn from_folder(
        folder: &Path,
        dtype: DType,
        device: &Device,
        progress: &Progress,
    ) -> Result<Self> {
        let mut tensors = HashMap::new();
        for file in weight_files(folder)? {
            load_safetensors(&file, dtype, device, progress, &mut tensors)
                .with_context(|| file.display().to_string())?;
        }
        progress.finish();
        Ok(Self::new(folder, tensors, dtype, device))
    }

    /// Whether there is a tensor of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// The tensor of this name.
    ///
    /// # Errors
    /// There is none, or it has another shape.
    pub fn get(&self, name: &str, shape: &[usize]) -> Result<Tensor> {
        let Some(tensor) = self.tensors.get(name) else {
            bail!(
                "{}: has no tensor `{name}`, which config.json asks for",
                self.origin.display()
            );
        };
        ensure!(
            tensor.dims() == shape,
            "{}: `{name}` has shape {:?}, and config.json asks for {shape:?}",
            self.origin.display(),
            tensor.dims()
        );
        Ok(tensor.clone())
    }

    /// For candle's model constructors.
    pub fn into_var_builder(self) -> VarBuilder<'static> {
        VarBuilder::from_tensors(self.tensors, self.dtype, &self.device)
    }
}

pub(crate) fn weight_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let single = folder.join("model.safetensors");
    if single.is_file() {
        return Ok(vec![single]);
    }
    let index = folder.join("model.safetensors.index.json");
    ensure!(
        index.is_file(),
        "{}: no such file, and no model.safetensors.index.json for shards either",
        single.display()
    );
    let json = read_json(&index)?;
    let map = json["weight_map"]
        .as_object()
        .with_context(|| format!("{}: has no `weight_map`", index.display()))?;
    let names = map
        .values()
        .map(|file| {
            file.as_str()
                .with_context(|| format!("{}: `weight_map` holds {file}", index.display()))
        })
        .collect::<Result<BTreeSet<_>>>()?;
    Ok(names.into_iter().map(|name| folder.join(name)).collect())
}

fn load_safetensors(
    file: &Path,
    dtype: DType,
    device: &Device,
    progress: &Progress,
    tensors: &mut HashMap<String, Tensor>,
) -> Result<()> {
    let bytes = std::fs::read(file)?;
    progress.add_file(file, bytes.len() as u64);
    let file = SafeTensors::deserialize(&bytes).context("truncated, or no safetensors file")?;
    for (name, view) in file.tensors() {
        use safetensors::Dtype;
        let size = view.data().len() as u64;
        match view.dtype() {
            Dtype::F16 | Dtype::BF16 | Dtype::F32 | Dtype::F64 => {
                let tensor = view
                    .load(&Device::Cpu)
                    // Converted before it travels: what the device needs to hold and copy is the smaller form.
                    .and_then(|t| t.to_dtype(dtype)?.to_device(device))
                    .with_context(|| format!("tensor `{name}`"))?;
                tensors.insert(name, tensor);
            }
            // Old checkpoints of GPT-2 and LLaMA store masks and frequencies among the weights.
            _ if is_buffer(&name) => {}
            other => bail!("tensor `{name}` is {other:?}; weights must be F16, BF16, F32 or F64"),
        }
        progress.advance(size);
    }
    Ok(())
}

/// Buffers that are recomputed, never loaded.
fn is_buffer(name: &str) -> bool {
    [".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"]
        .iter()
        .any(|suffix| name.ends_with(suffix))
}

/// A JSON file.
///
/// # Errors
/// It is missing or malformed; the text names the file.
pub fn read_json(path: &Path) -> Result<serde_json::Value> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| format!("{}: not JSON", path.display()))
}

/// The `config.json` of a folder.
///
/// # Errors
/// `path` is not a folder, or the file is missing or malformed, or is of another `model_type`.
pub fn read_config(path: &Path, model_type: &str) -> Result<serde_json::Value> {
    let config = read_any_config(path)?;
    let file = path.join("config.json");
    if let Some(found) = config["model_type"].as_str() {
        ensure!(
            found == model_type,
            "{}: the model is of type `{found}`; this example runs `{model_type}`",
            file.display()
        );
    }
    Ok(config)
}

/// A folder's `config.json`, of whichever model.
///
/// # Errors
/// It is missing or no object of JSON. The text names it.
pub fn read_any_config(path: &Path) -> Result<serde_json::Value> {
    ensure!(
        path.is_dir(),
        "{}: not a folder with config.json, tokenizer.json and model.safetensors",
        path.display()
    );
    let file = path.join("config.json");
    let config = read_json(&file)?;
    ensure!(config.is_object(), "{}: not a JSON object", file.display());
    Ok(config)
}

/// The tokens that end a text, from `config` and, if there is one, the folder's `generation_config.json`.
///
/// # Errors
/// An `eos_token_id` is neither a token, a list of tokens nor null.
pub fn end_of_text(folder: &Path, config: &serde_json::Value) -> Result<Vec<u32>> {
    let mut tokens =
        eos_ids(config).with_context(|| folder.join("config.json").display().to_string())?;
    let path = folder.join("generation_config.json");
    if path.is_file() {
        let more = eos_ids(&read_json(&path)?).with_context(|| path.display().to_string())?;
        tokens.extend(more);
    }
    tokens.sort_unstable();
    tokens.dedup();
    Ok(tokens)
}

fn eos_ids(config: &serde_json::Value) -> Result<Vec<u32>> {
    let one = |v: &serde_json::Value| {
        v.as_u64()
            .and_then(|id| u32::try_from(id).ok())
            .with_context(|| format!("eos_token_id is {v}"))
    };
    match &config["eos_token_id"] {
        serde_json::Value::Null => Ok(Vec::new()),
        serde_json::Value::Array(ids) => ids.iter().map(one).collect(),
        id => Ok(vec![one(id)?]),
    }
}
