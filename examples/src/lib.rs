//! LLaMA and GPT-2 on AMD GPUs with Candle: what the examples share.
//!
//! `llama/main.rs`, `quantized-llama/main.rs`, `gguf-convert/main.rs` and `gpt2/main.rs` are a screen each; the
//! rooms are here:
//!
//! - [`cli`]: options, and running an example from start to statistics;
//! - [`device`]: which device, and falling back to the emulator with a line that says so;
//! - [`checkpoint`]: weights from safetensors (one file or shards) and [`gguf`];
//! - [`llama`], and [`quantized_llama`], whose weights stay as a GGUF file has them: by candle-rocm-transformers or, unmodified,
//!   by candle-transformers, as [`model_code`] says; [`gpt2`], which candle-transformers has not;
//! - [`gguf_write`], which makes such files, and [`gguf_tokenizer`], the tokenizer in them;
//! - [`text`]: tokenizer, prompt, and text that streams token by token;
//! - [`generate`](mod@generate): the loop, which waits for the device once a token; [`launches`], counted.
//!
//! The tests, here and in the workspace's `tests/`, use the same entry points as the examples:
//! [`load`](llama::load), [`generate()`](generate::generate), [`first_step_logits`](generate::first_step_logits).

pub mod checkpoint;
pub mod cli;
pub mod decoder;
pub mod device;
#[cfg(feature = "rocm")]
mod follower;
pub mod generate;
pub mod gguf;
pub mod gguf_tokenizer;
pub mod gguf_write;
pub mod gpt2;
pub mod launches;
pub mod llama;
mod llama_config;
pub mod model_code;
#[cfg(feature = "rocm")]
mod parallel;
mod precision;
pub mod quantized_llama;
#[cfg(feature = "rocm")]
mod session;
pub mod text;

use std::path::PathBuf;

/// A folder of the repository's `models/`, such as `llama-stories`.
pub fn shipped_model(name: &str) -> PathBuf {
    // The manifest's folder always has a parent: the workspace.
    let workspace = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    workspace
        .unwrap_or(std::path::Path::new("."))
        .join("models")
        .join(name)
}
