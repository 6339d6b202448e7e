//! `cargo xtask coverage`: which kernels ran on which emulated GPU while the tests did.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::cargo::{self, cargo};
use crate::setup::ensure_toolchain;
use crate::test;

/// The variable by which the emulator is told where to write what ran.
pub const VARIABLE: &str = "ROCM_EMU_COVERAGE";

/// What to run.
#[derive(clap::Args)]
pub struct Args {
    /// The GPUs to emulate, separated by commas.
    #[arg(long, value_delimiter = ',', default_values = crate::ARCHITECTURES)]
    arch: Vec<String>,
}

/// Run the tests that launch kernels, then print the table; an error if a kernel did not run.
pub fn run(args: &Args) -> Result<()> {
    ensure_toolchain()?;
    start()?;
    test::kernel_tests()?;
    for arch in &args.arch {
        test::device_tests(arch)?;
    }
    report(&args.arch)
}

/// The file in which what runs from now on is noted.
pub fn file() -> PathBuf {
    cargo::target_folder().join("coverage.tsv")
}

/// Forget what ran before.
pub fn start() -> Result<()> {
    let file = file();
    fs::create_dir_all(cargo::target_folder())?;
    fs::write(&file, "").with_context(|| format!("writing {}", file.display()))
}

/// Print the table; an error if a kernel did not run on one of `archs`.
pub fn report(archs: &[String]) -> Result<()> {
    cargo::run(
        cargo(&["run", "--package", "candle-rocm-tests", "--bin", "coverage"])
            .arg("--")
            .arg(file())
            .args(archs),
    )
}
