//! `candle-rocm-hipify`: which CUDA sources compile for which AMD GPU, and why others do not.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use candle_rocm_hipify::{hip, report};
use clap::Parser;
use rocm_nvcc::Options;

/// Says file by file which CUDA sources compile for which AMD GPU, and what stands in the way of the others.
#[derive(Parser)]
#[command(name = "candle-rocm-hipify", version)]
struct Cli {
    /// `.cu` files, and folders that have some, such as a crate's.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// The GPUs or generic targets, separated by commas.
    #[arg(long, value_delimiter = ',', required = true)]
    arch: Vec<String>,
    /// Check syntax, types and PTX without compiling: seconds in place of minutes, but too much shared memory is not found.
    #[arg(long)]
    syntax_only: bool,
    /// How many reasons are told of a file.
    #[arg(long, default_value_t = 5)]
    reasons: usize,
    /// Write each file with HIP's names in place of CUDA's to this folder, to leave CUDA for good.
    #[arg(long)]
    write: Option<PathBuf>,
    /// Options of nvcc that the files need, such as -I and -D.
    #[arg(last = true)]
    nvcc: Vec<String>,
}

fn main() -> Result<ExitCode> {
    let cli = Cli::parse();
    let files = report::files(&cli.paths)?;
    let trial = report::Trial {
        options: Options::from_nvcc(&cli.nvcc, &std::env::current_dir()?)?,
        archs: cli.arch,
        syntax_only: cli.syntax_only,
    };
    let (outcomes, notices) = report::try_all(&files, &trial)?;
    for notice in &notices {
        eprintln!("{notice}");
    }
    print!("{}", report::text(&outcomes, &trial.archs, cli.reasons));
    if let Some(folder) = &cli.write {
        for path in &cli.paths {
            write(path, folder, &files)?;
        }
    }
    Ok(match outcomes.iter().all(report::Outcome::compiles) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Writes the files in `path` as HIP, where they lie below it.
fn write(path: &PathBuf, folder: &std::path::Path, files: &[PathBuf]) -> Result<()> {
    for file in files.iter().filter(|file| file.starts_with(path)) {
        let inside = match file == path {
            true => PathBuf::from(file.file_name().context("a file has a name")?),
            false => file.strip_prefix(path)?.to_owned(),
        };
        let to = folder.join(inside).with_extension("hip");
        let cuda = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        fs::create_dir_all(to.parent().context("a file is in a folder")?)?;
        fs::write(&to, hip::source(&cuda)).with_context(|| to.display().to_string())?;
        println!("wrote {}", to.display());
    }
    Ok(())
}
