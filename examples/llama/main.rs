//! A LLaMA model, or one of its kin, writes text: `cargo run --release --features rocm --bin llama -- --prompt "Once upon a time"`.

use std::process::ExitCode;

use candle_rocm_examples::model_code::ModelArgs;
use candle_rocm_examples::{cli, decoder, shipped_model};
use clap::Parser as _;

/// Continue a text with LLaMA, Mistral, Qwen 2 or Qwen 3, on an AMD GPU (real or emulated) or the CPU.
#[derive(clap::Parser)]
#[command(name = "llama", version)]
struct Llama {
    #[command(flatten)]
    common: cli::Args,
    #[command(flatten)]
    model: ModelArgs,
}

fn main() -> ExitCode {
    let args = Llama::parse();
    cli::main(
        &args.common,
        &shipped_model("llama-stories"),
        |path, dtype, device, progress| decoder::load(path, &args.model, dtype, device, progress),
    )
}
