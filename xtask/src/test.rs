//! `cargo xtask test`: everything that must hold, in the order in which failures are cheapest.

use anyhow::Result;

use crate::cargo::{self, cargo};
use crate::setup::ensure_toolchain;
use crate::{conformance, coverage, kernel_format};

/// What to test.
#[derive(clap::Args)]
pub struct Args {
    /// The GPUs to emulate, separated by commas: all tests run on each. Without it, all on gfx1100 and gfx942
    /// (wavefronts of 32 and of 64), and on the other three those of the kernels, of matrix products and Candle's own.
    #[arg(long, value_delimiter = ',')]
    arch: Option<Vec<String>>,
    /// Run the tests alone, without formatting, lints and documentation.
    #[arg(long)]
    tests_only: bool,
}

/// The GPUs on which everything runs when nobody chooses.
const FULLY: [&str; 2] = ["gfx1100", "gfx942"];
/// Packages whose tests do not depend on which GPU is emulated. Those of the kernels, their report and gpu_mm run on all
/// by themselves.
const DEVICE_INDEPENDENT: [&str; 6] = [
    "rocm-emulator",
    "amdhip64",
    "candle-rocm-kernels",
    "candle-rocm-kernel-report",
    "candle-rocm-gpu-mm",
    "xtask",
];
/// Packages whose tests run on each emulated GPU.
const PER_DEVICE: [&str; 5] = [
    "candle-rocm-runtime",
    "candle-rocm-backend",
    "candle-rocm-examples",
    "candle-rocm-tests",
    "candle-rocm-parity",
];

/// Set up, check, and test.
pub fn run(args: &Args) -> Result<()> {
    ensure_toolchain()?;
    if !args.tests_only {
        check()?;
    }
    coverage::start()?;
    cargo::run(&mut tests_of(&DEVICE_INDEPENDENT))?;
    let (fully, partly) = match &args.arch {
        Some(chosen) => (chosen.clone(), Vec::new()),
        None => {
            let others = crate::ARCHITECTURES.iter().filter(|a| !FULLY.contains(a));
            (
                FULLY.map(str::to_owned).to_vec(),
                others.map(|arch| (*arch).to_owned()).collect(),
            )
        }
    };
    for arch in &fully {
        device_tests(arch)?;
    }
    for arch in &partly {
        product_tests(arch)?;
    }
    coverage::report(&fully)?;
    conformance::run_tests(&[fully.clone(), partly.clone()].concat(), false, &[])?;
    eprintln!("\nAll tests passed on {}.", fully.join(" and "));
    if !partly.is_empty() {
        eprintln!(
            "The kernels' tests, those of matrix products and Candle's own GPU tests passed on {} too.",
            partly.join(", ")
        );
    }
    Ok(())
}

/// The tests that launch kernels on all emulated GPUs by themselves.
pub fn kernel_tests() -> Result<()> {
    cargo::run(tests_of(&["candle-rocm-kernels"]).args(["--test", "execution"]))
}

/// The tests that run on one emulated GPU.
pub fn device_tests(arch: &str) -> Result<()> {
    cargo::run(
        tests_of(&PER_DEVICE)
            .args(["--features", "candle-rocm-examples/rocm"])
            .env("ROCM_EMU_ARCH", arch)
            .env("CANDLE_ROCM_RUNTIME", "emulator"),
    )
}

/// Those of matrix products, whose kernels differ most between GPUs.
fn product_tests(arch: &str) -> Result<()> {
    cargo::run(
        tests_of(&["candle-rocm-runtime"])
            .args(["--test", "gemm"])
            .env("ROCM_EMU_ARCH", arch)
            .env("CANDLE_ROCM_RUNTIME", "emulator"),
    )
}

fn check() -> Result<()> {
    cargo::run(&mut cargo(&["fmt", "--all", "--check"]))?;
    kernel_format::check()?;
    // As a user without a GPU builds: no feature, no GPU toolchain.
    cargo::run(
        cargo(&["check", "--package", "candle-rocm-examples"]).env("CANDLE_ROCM_SKIP_KERNELS", "1"),
    )?;
    let all = ["--workspace", "--features", "candle-rocm-examples/rocm"];
    cargo::run(
        cargo(&["clippy", "--all-targets"])
            .args(all)
            .args(["--", "-D", "warnings"]),
    )?;
    cargo::run(
        cargo(&["doc", "--no-deps"])
            .args(all)
            .env("RUSTDOCFLAGS", "-D warnings"),
    )
}

/// The tests of these packages, which note the kernels that run.
fn tests_of(packages: &[&str]) -> std::process::Command {
    let mut command = cargo(&["test"]);
    for package in packages {
        command.args(["--package", package]);
    }
    command.env(coverage::VARIABLE, coverage::file());
    command
}
