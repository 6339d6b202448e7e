//! `cargo xtask kernel-report`: what code objects and the emulator tell of the kernels' speed.

use anyhow::Result;

use crate::cargo::{self, cargo};
use crate::setup::ensure_toolchain;

/// What to write.
#[derive(clap::Args)]
pub struct Args {
    /// The architectures, separated by commas; without it, one of each family with matrix instructions, and gfx1030.
    #[arg(long, value_delimiter = ',')]
    arch: Vec<String>,
}

/// Write `docs/evidence/kernel-report.md`.
pub fn run(args: &Args) -> Result<()> {
    ensure_toolchain()?;
    let mut command = cargo(&["run", "--release", "--package", "candle-rocm-kernel-report"]);
    command.arg("--");
    if !args.arch.is_empty() {
        command.arg("--arch").arg(args.arch.join(","));
    }
    cargo::run(command.arg("--out").arg("docs/evidence/kernel-report.md"))
}
