//! A GPT-2 model writes text: `cargo run --release --features rocm --bin gpt2 -- --prompt 47+85=`.

use std::process::ExitCode;

use candle_rocm_examples::{cli, gpt2, shipped_model};
use clap::Parser as _;

/// Continue a text with a model of the GPT-2 architecture, on an AMD GPU (real or emulated) or the CPU.
#[derive(clap::Parser)]
#[command(name = "gpt2", version)]
struct Gpt2 {
    #[command(flatten)]
    common: cli::Args,
}

fn main() -> ExitCode {
    cli::main(
        &Gpt2::parse().common,
        &shipped_model("gpt2-sums"),
        gpt2::load,
    )
}
