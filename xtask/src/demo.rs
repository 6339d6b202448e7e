//! `cargo xtask demo`: a story and five sums, by the shipped models on an emulated GPU.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use rocm_toolchain::{architectures, variables};

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
/// Set up, build, and write.
pub fn run(args: &Args) -> Result<()> {
    let toolchain = ensure_toolchain()?;
    let target = architectures::serving(&args.arch, &toolchain.processors)
        .with_context(|| format!("--arch {}: no kernel serves this GPU", args.arch))?;
    let [llama, gpt2] = build(&target)?;
    let example = |program: &Path| -> Command {
        let mut command = Command::new(program);
        command
            .args(["--device", "rocm"])
            .current_dir(cargo::root())
            .env("ROCM_EMU_ARCH", &args.arch);
        command
    };
    eprintln!("\nA story, by models/llama-stories (LLaMA architecture):\n");
    let max_tokens = args.max_tokens.to_string();
    cargo::run_quietly(
        example(&llama)
            .args(["--prompt", &args.prompt])
            .args(["--max-tokens", &max_tokens])
            .args(["--temperature", "0.7", "--seed", "1"]),
    )?;
    eprintln!("\nFive sums, by models/gpt2-sums (GPT-2 architecture):\n");
    for sum in SUMS {
        cargo::run_quietly(example(&gpt2).args(["--prompt", sum, "--temperature", "0"]))?;
    }
    Ok(())
}

/// The examples `llama` and `gpt2`, with the code objects of one `target` alone, in the profile that compiles fast.
fn build(target: &str) -> Result<[PathBuf; 2]> {
    eprintln!("\nBuilding the examples, and the kernels for {target}:");
    let mut command = cargo(&["build", "--profile", "quick"]);
    command
        .args(["--package", "candle-rocm-examples", "--features", "rocm"])
        .args(["--bin", "llama", "--bin", "gpt2"])
        .env(variables::ARCHS, target);
    let programs = cargo::build(&mut command)?;
    let file = |name: &str| {
        let found = programs.iter().find(|(target, _)| target == name);
        found
            .map(|(_, file)| file.clone())
            .with_context(|| format!("cargo built no {name}"))
    };
    Ok([file("llama")?, file("gpt2")?])
}
