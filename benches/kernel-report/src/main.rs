//! Writes the page of what code objects and the emulator tell of the kernels.

use std::path::PathBuf;

use anyhow::{Context, Result};
use candle_rocm_kernel_report::page;
use clap::Parser;

/// What code objects and the emulator tell of the kernels' speed, without a GPU.
#[derive(Parser)]
struct Cli {
    /// The architectures, separated by commas.
    #[arg(long, value_delimiter = ',', default_values = page::ARCHITECTURES)]
    arch: Vec<String>,
    /// Leave out what is executed, which takes minutes.
    #[arg(long)]
    compiled: bool,
    /// Only predicted times, of GPUs that have a model of time.
    #[arg(long, conflicts_with = "compiled")]
    times: bool,
    /// Only predicted times of products and attention, of GPUs that have a model of time.
    #[arg(long, conflicts_with_all = ["compiled", "times"])]
    products: bool,
    /// Only what a token would take, of GPUs that have a model of time.
    #[arg(long, conflicts_with_all = ["compiled", "times", "products"])]
    tokens: bool,
    /// Only what prompts would take in f16, of GPUs that have a model of time.
    #[arg(long, conflicts_with_all = ["compiled", "times", "products", "tokens"])]
    prompts: bool,
    /// Of tokens and prompts, those of models alone whose name has this in it.
    #[arg(long, default_value = "")]
    model: String,
    /// Where to write the page; default: standard output.
    #[arg(long)]
    out: Option<PathBuf>,
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let page = if cli.compiled {
        page::write_compiled(&cli.arch)?
    } else if cli.products {
        page::write_products(&cli.arch, |row| eprintln!("{row}"))?
    } else if cli.tokens {
        page::write_tokens(&cli.arch, &cli.model, |sum| eprintln!("{sum}"))?
    } else if cli.prompts {
        page::write_prompts(&cli.arch, &cli.model)?
    } else if cli.times {
        page::write_times(&cli.arch)?
    } else {
        page::write(&cli.arch, |done| eprintln!("{done}"))?
    };
    match cli.out {
        Some(path) => {
            std::fs::write(&path, page).with_context(|| format!("writing {}", path.display()))
        }
        None => {
            print!("{page}");
            Ok(())
        }
    }
}
