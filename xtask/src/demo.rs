//! `cargo xtask demo`: a story and five sums, by the shipped models on an emulated GPU.

use anyhow::Result;

use crate::cargo::{self, cargo};
use crate::setup::ensure_toolchain;

/// Options of the demonstration.
#[derive(clap::Args)]
pub struct Args {
    /// The GPU to emulate.
    #[arg(long, default_value = "gfx1100")]
    arch: String,
    /// How the story begins.
    #[arg(long, default_value = "Once upon a time, there was a little fox")]
    prompt: String,
    /// Length of the story in tokens.
    #[arg(long, default_value_t = 120)]
    max_tokens: usize,
}

const SUMS: [&str; 5] = ["12+34=", "47+85=", "99+99=", "8+67=", "56+29="];

/// Set up, build, and write.
pub fn run(args: &Args) -> Result<()> {
    ensure_toolchain()?;
    // Only the emulated architecture's kernels: the demonstration runs no other.
    let build = |bin: &str| {
        let mut command = cargo(&["run", "--release", "--quiet"]);
        command
            .args(["--package", "candle-rocm-examples", "--features", "rocm"])
            .args(["--bin", bin, "--"])
            .args(["--device", "rocm"])
            .env("ROCM_EMU_ARCH", &args.arch);
        command
    };
    eprintln!("\nLLaMA architecture, models/llama-stories:");
    let max_tokens = args.max_tokens.to_string();
    cargo::run(
        build("llama")
            .args(["--prompt", &args.prompt])
            .args(["--max-tokens", &max_tokens])
            .args(["--temperature", "0.7", "--seed", "1"]),
    )?;
    eprintln!("\nGPT-2 architecture, models/gpt2-sums:");
    for sum in SUMS {
        cargo::run(build("gpt2").args(["--prompt", sum, "--temperature", "0"]))?;
    }
    Ok(())
}
