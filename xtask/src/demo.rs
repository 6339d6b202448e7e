//! `cargo xtask demo`: a story and five sums, by the shipped models on an emulated GPU.

use std::process::Command;

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
    /// Length of the story in tokens, at most.
    #[arg(long, default_value_t = 250)]
    max_tokens: usize,
}

const SUMS: [&str; 5] = ["12+34=", "47+85=", "99+99=", "8+67=", "56+29="];
const PACKAGE: [&str; 4] = ["--package", "candle-rocm-examples", "--features", "rocm"];

/// Set up, build, and write.
pub fn run(args: &Args) -> Result<()> {
    ensure_toolchain()?;
    cargo::run(cargo(&["build", "--release"]).args(PACKAGE))?;
    let example = |bin: &str| -> Command {
        let mut command = cargo(&["run", "--release", "--quiet"]);
        command
            .args(PACKAGE)
            .args(["--bin", bin, "--", "--device", "rocm"])
            .env("ROCM_EMU_ARCH", &args.arch);
        command
    };
    eprintln!("\nA story, by models/llama-stories (LLaMA architecture):\n");
    let max_tokens = args.max_tokens.to_string();
    cargo::run_quietly(
        example("llama")
            .args(["--prompt", &args.prompt])
            .args(["--max-tokens", &max_tokens])
            .args(["--temperature", "0.7", "--seed", "1"]),
    )?;
    eprintln!("\nFive sums, by models/gpt2-sums (GPT-2 architecture):\n");
    for sum in SUMS {
        cargo::run_quietly(example("gpt2").args(["--prompt", sum, "--temperature", "0"]))?;
    }
    Ok(())
}
