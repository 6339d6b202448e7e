//! A LLaMA model of quantised weights writes text:
//! `cargo run --release --features rocm --bin quantized-llama -- --prompt "Once upon a time"`.

use std::process::ExitCode;

use candle_rocm_examples::gguf_write::Format;
use candle_rocm_examples::model_code::ModelArgs;
use candle_rocm_examples::{cli, quantized_llama, shipped_model};
use clap::Parser as _;

/// Continue a text with a model of the LLaMA architecture whose weights stay quantised, on an AMD GPU (real or
/// emulated) or the CPU.
#[derive(clap::Parser)]
#[command(name = "quantized-llama", version)]
struct QuantizedLlama {
    #[command(flatten)]
    common: cli::Args,
    #[command(flatten)]
    model: ModelArgs,
    /// What to quantise a Hugging Face folder to [default: q8_0]; a .gguf file is run as it is
    #[arg(long, value_enum, value_name = "FORMAT", ignore_case = true)]
    format: Option<Format>,
}

fn main() -> ExitCode {
    let args = QuantizedLlama::parse();
    let format = args.format;
    cli::main(
        &args.common,
        &shipped_model("llama-stories"),
        |path, dtype, device, progress| {
            let model =
                quantized_llama::load_as(path, format, &args.model, dtype, device, progress)?;
            if path.is_dir() {
                let format = format.unwrap_or(quantized_llama::DEFAULT_FORMAT);
                eprintln!(
                    "Quantised {} to {format} in memory; `gguf-convert` makes a file of it once for all.",
                    path.display()
                );
            }
            Ok(model)
        },
    )
}
