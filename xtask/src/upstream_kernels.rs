//! `cargo xtask upstream-kernels`: Candle's own CUDA kernels, as candle-kernels publishes them, through our compiler for
//! AMD GPUs: which compile for which GPU, in how long, and why others do not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};

use crate::cargo;
use crate::conformance;
use crate::emulated::ARCHITECTURES;
use crate::nvcc;
use crate::published;
use crate::setup::ensure_toolchain;

/// What its build script tells nvcc.
const ARGUMENTS: [&str; 4] = ["--ptx", "--expt-relaxed-constexpr", "-std=c++17", "-O3"];
/// The package.
const PACKAGE: &str = "candle-kernels";

/// Which files, for which GPUs.
#[derive(clap::Args)]
pub struct Args {
    /// The GPUs to compile for, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = ARCHITECTURES.map(str::to_owned))]
    arch: Vec<String>,
    /// Run Candle's own tests on those kernels, too: the GPU tests of candle-core and candle-nn.
    #[arg(long)]
    test: bool,
    /// Only files whose names hold this.
    #[arg(long, default_value = "")]
    only: String,
}

/// A file for all GPUs, or for one.
struct Outcome {
    seconds: Duration,
    /// What the compiler said where it failed.
    failure: Option<String>,
}

/// Fetches the package, compiles each file, prints the table. An error if a file does not compile for a GPU.
pub fn run(args: &Args) -> Result<()> {
    ensure_toolchain()?;
    let program = nvcc::program()?;
    let source = published::registry_source(PACKAGE)?.join("src");
    let out = cargo::target_folder().join("upstream-kernels");
    fs::create_dir_all(&out)?;
    let mut files = Vec::new();
    collect(&source, &mut files)?;
    files.retain(|file| file.to_string_lossy().contains(&args.only));
    files.sort();
    ensure!(
        !files.is_empty(),
        "no .cu file in {} is so named",
        source.display()
    );
    println!("| file | {} | seconds |", args.arch.join(" | "));
    println!("|---|{}---|", "---|".repeat(args.arch.len()));
    let (mut compiled, mut reasons) = (0, Vec::new());
    for file in &files {
        let name = file.strip_prefix(&source)?.display().to_string();
        let all = compile(&program, file, &args.arch.join(","), &out)?;
        // One by one where it does not compile for all.
        let each: Vec<bool> = match &all.failure {
            None => vec![true; args.arch.len()],
            Some(_) => {
                let mut each = Vec::new();
                for arch in &args.arch {
                    let one = compile(&program, file, arch, &out)?;
                    each.push(one.failure.is_none());
                    reasons.extend(one.failure.map(|why| format!("{name} for {arch}: {why}")));
                }
                each
            }
        };
        compiled += each.iter().filter(|compiles| **compiles).count();
        let marks: Vec<&str> = each
            .iter()
            .map(|&compiles| if compiles { "yes" } else { "no" })
            .collect();
        println!(
            "| {name} | {} | {:.1} |",
            marks.join(" | "),
            all.seconds.as_secs_f32()
        );
    }
    let wanted = files.len() * args.arch.len();
    println!(
        "\n{compiled} of {wanted} compile: {} files for {} GPUs.",
        files.len(),
        args.arch.len()
    );
    if !reasons.is_empty() {
        bail!("{}", reasons.join("\n"));
    }
    if args.test {
        conformance::run_on_upstream_kernels(&args.arch)?;
    }
    Ok(())
}

fn compile(nvcc: &Path, file: &Path, archs: &str, out: &Path) -> Result<Outcome> {
    let started = Instant::now();
    let output = Command::new(nvcc)
        .args(ARGUMENTS)
        .arg("--output-directory")
        .arg(out)
        .arg(file)
        .env("CANDLE_ROCM_ARCHS", archs)
        .output()
        .with_context(|| nvcc.display().to_string())?;
    let failure = (!output.status.success()).then(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        let errors = said
            .lines()
            .filter(|line| line.contains("error") || line.contains("PTX"));
        errors.take(3).collect::<Vec<_>>().join("\n  ")
    });
    Ok(Outcome {
        seconds: started.elapsed(),
        failure,
    })
}

/// The `.cu` files in `folder` and below.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|end| end == "cu") {
            files.push(path);
        }
    }
    Ok(())
}
