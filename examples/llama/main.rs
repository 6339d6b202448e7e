//! A LLaMA model writes text: `cargo run --release --features rocm --bin llama -- --prompt "Once upon a time"`.

use std::process::ExitCode;

use candle_rocm_examples::model_code::ModelArgs;
use candle_rocm_examples::{cli, llama, shipped_model};
use clap::Parser as _;

/// Continue a text with a model of the LLaMA architecture, on an AMD GPU (real or emulated) or the CPU.
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
        |path, dtype, device, progress| llama::load_as(path, &args.model, dtype, device, progress),
    )
}
