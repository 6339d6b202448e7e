//! `cargo xtask test`: everything that must hold, in the order in which failures are cheapest.

use anyhow::Result;

use crate::cargo::{self, cargo};
use crate::setup::ensure_toolchain;

/// What to test.
#[derive(clap::Args)]
pub struct Args {
    /// The GPUs to emulate, separated by commas: the tests that use a device run once on each.
    #[arg(long, value_delimiter = ',', default_values = ["gfx1100", "gfx942"])]
    arch: Vec<String>,
    /// Run the tests alone, without formatting, lints and documentation.
    #[arg(long)]
    tests_only: bool,
}

/// Packages whose tests do not depend on which GPU is emulated.
const DEVICE_INDEPENDENT: [&str; 4] = ["rocm-emulator", "amdhip64", "candle-rocm-kernels", "xtask"];
/// Packages whose tests run on each emulated GPU.
const PER_DEVICE: [&str; 4] = [
    "candle-rocm-runtime",
    "candle-rocm-backend",
    "candle-rocm-examples",
    "candle-rocm-tests",
];

/// Set up, check, and test.
pub fn run(args: &Args) -> Result<()> {
    ensure_toolchain()?;
    if !args.tests_only {
        check()?;
    }
    cargo::run(&mut tests_of(&DEVICE_INDEPENDENT))?;
    for arch in &args.arch {
        cargo::run(
            tests_of(&PER_DEVICE)
                .args(["--features", "candle-rocm-examples/rocm"])
                .env("ROCM_EMU_ARCH", arch)
                .env("CANDLE_ROCM_RUNTIME", "emulator"),
        )?;
    }
    eprintln!("\nAll tests passed on {}.", args.arch.join(" and "));
    Ok(())
}

fn check() -> Result<()> {
    cargo::run(&mut cargo(&["fmt", "--all", "--check"]))?;
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

fn tests_of(packages: &[&str]) -> std::process::Command {
    let mut command = cargo(&["test"]);
    for package in packages {
        command.args(["--package", package]);
    }
    command
}
