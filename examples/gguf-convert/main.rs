//! A Hugging Face LLaMA becomes a GGUF file:
//! `cargo run --release --bin gguf-convert -- --model DIR --to q4_K --out FILE.gguf`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{ensure, Result};
use candle_rocm_examples::checkpoint::Progress;
use candle_rocm_examples::gguf_write::{check_name, convert, Format};
use clap::Parser as _;

/// Convert a model of the LLaMA architecture from Hugging Face's files to GGUF, quantised if asked for.
#[derive(clap::Parser)]
#[command(name = "gguf-convert", version)]
struct Args {
    /// Folder with config.json, tokenizer.json and model.safetensors (one file or shards)
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// What to store matrices in; those whose rows do not divide into its blocks get a larger format
    #[arg(long, value_enum, value_name = "FORMAT", ignore_case = true)]
    to: Format,
    /// The file to write
    #[arg(long, value_name = "FILE.gguf")]
    out: PathBuf,
}

fn run(args: &Args) -> Result<()> {
    check_name(&args.out)?;
    ensure!(
        args.model.exists(),
        "{}: no such folder",
        args.model.display()
    );
    let gguf = convert(&args.model, args.to, &Progress::shown())?;
    gguf.write_file(&args.out)?;
    for entry in &gguf.entries {
        let shape = entry.tensor.shape().dims();
        let why = match shape {
            [_, columns] if entry.fell_back => {
                format!(
                    " (rows of {columns} do not divide into blocks of {})",
                    args.to
                )
            }
            _ => String::new(),
        };
        println!("{}: {} {shape:?}{why}", entry.name, entry.format);
    }
    for note in &gguf.notes {
        eprintln!("{note}");
    }
    let size = std::fs::metadata(&args.out)?.len();
    println!("{}: {size} bytes", args.out.display());
    Ok(())
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}
