//! `published-mistralrs FOLDER [GGUF]`: mistral.rs continues a prompt with a LLaMA, greedily, on the GPU and on the CPU.
//!
//! The folder is one of Hugging Face's, with `truth.json`: prompts, and the tokens with which PyTorch continues them. With a
//! GGUF file, which then is the model, the folder gives the tokenizer, and mistral.rs on the CPU is the only truth.

use std::path::Path;

use anyhow::{ensure, Context, Error, Result};
use mistralrs::{GgufModelBuilder, Model, ModelDType, RequestBuilder, TextMessageRole, TextModelBuilder};
use serde_json::Value;
use tokenizers::Tokenizer;

/// Tokens that are asked for.
const LENGTH: usize = 40;
/// Makes of a request its first message alone.
const TEMPLATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/prompt.jinja");

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().context("a model's folder")?;
    let gguf = arguments.next();
    let truth: Value = serde_json::from_slice(&std::fs::read(Path::new(&folder).join("truth.json"))?)?;
    let case = &truth["cases"][0];
    let prompt = case["prompt"].as_str().context("a prompt")?;

    let gpu = answer(&load(&folder, gguf.as_deref(), false).await?, prompt).await?;
    println!("on the GPU: {prompt}|{gpu}");
    let cpu = answer(&load(&folder, gguf.as_deref(), true).await?, prompt).await?;
    ensure!(gpu == cpu, "on the CPU: {prompt}|{cpu}");
    if gguf.is_none() {
        let tokens: Vec<u32> = serde_json::from_value(case["tokens"].clone())?;
        let tokenizer = Tokenizer::from_file(Path::new(&folder).join("tokenizer.json")).map_err(Error::msg)?;
        let truth = tokenizer.decode(&tokens[..LENGTH], true).map_err(Error::msg)?;
        ensure!(gpu == truth, "by PyTorch: {prompt}|{truth}");
        println!("as on the CPU, and as PyTorch");
    } else {
        println!("as on the CPU");
    }
    Ok(())
}

async fn load(folder: &str, gguf: Option<&str>, cpu: bool) -> Result<Model> {
    let Some(file) = gguf else {
        let mut builder = TextModelBuilder::new(folder).with_dtype(ModelDType::F32).with_jinja_explicit(TEMPLATE.into());
        if cpu {
            builder = builder.with_force_cpu();
        }
        return builder.build().await;
    };
    let file = Path::new(file);
    let name = file.file_name().context("a file")?.to_string_lossy();
    let place = file.parent().context("a file in a folder")?.to_string_lossy();
    let mut builder = GgufModelBuilder::new(place, vec![name])
        .with_tokenizer_json(Path::new(folder).join("tokenizer.json").to_string_lossy())
        .with_jinja_explicit(TEMPLATE.into());
    if cpu {
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
    println!("{} tokens of the prompt, {} of the answer", usage.prompt_tokens, usage.completion_tokens);
    let choice = response.choices.first().context("an answer")?;
    choice.message.content.clone().context("a text")
}
