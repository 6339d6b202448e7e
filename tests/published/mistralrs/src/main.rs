//! `published-mistralrs [--paged] FOLDER [GGUF]`: mistral.rs continues a prompt with a LLaMA, greedily, on the GPU and
//! on the CPU.
//!
//! The folder is one of Hugging Face's, with `truth.json`: prompts, and the tokens with which PyTorch continues them.
//! With a GGUF file, which then is the model, the folder gives the tokenizer, and mistral.rs on the CPU is the only
//! truth.
//!
//! `--paged`: by paged attention on the GPU. That has kernels for heads of 64 and more elements, so the heads get as
//! many, without another result.

mod wide;

use std::path::Path;

use anyhow::{ensure, Context, Error, Result};
use mistralrs::{
    GgufModelBuilder, MemoryGpuConfig, Model, ModelDType, PagedAttentionMetaBuilder,
    RequestBuilder, TextMessageRole, TextModelBuilder,
};
use serde_json::Value;
use tempfile::TempDir;
use tokenizers::Tokenizer;

/// Tokens that are asked for.
const LENGTH: usize = 40;
/// Makes of a request its first message alone.
const TEMPLATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/prompt.jinja");

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let paged = arguments.first().is_some_and(|first| first == "--paged");
    let mut arguments = arguments.drain(usize::from(paged)..);
    let folder = arguments.next().context("a model's folder")?;
    let gguf = arguments.next();
    ensure!(
        !paged || gguf.is_none(),
        "--paged is for Hugging Face's files"
    );
    let truth: Value =
        serde_json::from_slice(&std::fs::read(Path::new(&folder).join("truth.json"))?)?;
    let case = &truth["cases"][0];
    let prompt = case["prompt"].as_str().context("a prompt")?;

    let older = with_older_configuration(Path::new(&folder))?;
    let folder = older.path().to_string_lossy();
    if paged {
        wide::widen(older.path())?;
    }
    let gpu = answer(
        &load(&folder, gguf.as_deref(), Place::Gpu { paged }).await?,
        prompt,
    )
    .await?;
    println!("on the GPU: {prompt}|{gpu}");
    let cpu = answer(&load(&folder, gguf.as_deref(), Place::Cpu).await?, prompt).await?;
    ensure!(gpu == cpu, "on the CPU: {prompt}|{cpu}");
    if gguf.is_none() {
        let tokens: Vec<u32> = serde_json::from_value(case["tokens"].clone())?;
        let tokenizer =
            Tokenizer::from_file(older.path().join("tokenizer.json")).map_err(Error::msg)?;
        let truth = tokenizer
            .decode(&tokens[..LENGTH], true)
            .map_err(Error::msg)?;
        // mistral.rs leaves out the space with which the answer begins.
        ensure!(gpu == truth.trim_start(), "by PyTorch: {prompt}|{truth}");
        println!("as on the CPU, and as PyTorch");
    } else {
        println!("as on the CPU");
    }
    Ok(())
}

/// The model as transformers 4 saved it, as mistral.rs 0.8.1 reads it: the base of rotary positions has another place.
fn with_older_configuration(folder: &Path) -> Result<TempDir> {
    let older = tempfile::tempdir()?;
    for name in [
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "generation_config.json",
    ] {
        std::fs::copy(folder.join(name), older.path().join(name))
            .with_context(|| name.to_owned())?;
    }
    let mut config: Value = serde_json::from_slice(&std::fs::read(folder.join("config.json"))?)?;
    config["rope_theta"] = config["rope_parameters"]["rope_theta"].clone();
    std::fs::write(older.path().join("config.json"), config.to_string())?;
    Ok(older)
}

/// Where a model runs.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Cpu,
    Gpu { paged: bool },
}

async fn load(folder: &str, gguf: Option<&str>, place: Place) -> Result<Model> {
    let Some(file) = gguf else {
        let mut builder = TextModelBuilder::new(folder)
            .with_dtype(ModelDType::F32)
            .with_jinja_explicit(TEMPLATE.into());
        match place {
            Place::Cpu => builder = builder.with_force_cpu(),
            Place::Gpu { paged: false } => {}
            Place::Gpu { paged: true } => {
                let pages = MemoryGpuConfig::ContextSize(256);
                let pages = PagedAttentionMetaBuilder::default()
                    .with_gpu_memory(pages)
                    .build()?;
                builder = builder.with_paged_attn(pages);
            }
        }
        return builder.build().await;
    };
    let file = Path::new(file);
    let name = file.file_name().context("a file")?.to_string_lossy();
    let beside = file
        .parent()
        .context("a file in a folder")?
        .to_string_lossy();
    let mut builder = GgufModelBuilder::new(beside, vec![name])
        .with_tokenizer_json(Path::new(folder).join("tokenizer.json").to_string_lossy())
        .with_jinja_explicit(TEMPLATE.into());
    if place == Place::Cpu {
        builder = builder.with_force_cpu();
    }
    builder.build().await
}

async fn answer(model: &Model, prompt: &str) -> Result<String> {
    let request = RequestBuilder::new()
        .set_deterministic_sampler()
        .set_sampler_max_len(LENGTH)
        .add_message(TextMessageRole::User, prompt);
    let response = model.send_chat_request(request).await?;
    let usage = &response.usage;
    println!(
        "{} tokens of the prompt, {} of the answer",
        usage.prompt_tokens, usage.completion_tokens
    );
    let choice = response.choices.first().context("an answer")?;
    choice.message.content.clone().context("a text")
}
