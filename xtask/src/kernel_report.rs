//! `cargo xtask kernel-report`: what code objects and the emulator tell of the kernels' speed, or what AMD's profiler
//! measured of it.

use std::path::PathBuf;

use anyhow::{ensure, Context, Result};

use crate::cargo::{self, cargo};
use crate::setup::ensure_toolchain;

/// What to write.
#[derive(clap::Args)]
pub struct Args {
    /// The architectures, separated by commas; without it, one of each family with matrix instructions, and gfx1030. With
    /// --measured: the GPU of all launches; without it, what agent_info.csv says.
    #[arg(long, value_delimiter = ',')]
    arch: Vec<String>,
    /// Instead of docs/evidence/kernel-report.md, a page of what was measured, beside our code objects: files of
    /// `rocprofv3 --output-format csv`, or folders with them.
    #[arg(long, num_args = 1.., value_name = "PATH")]
    measured: Vec<PathBuf>,
    /// With --measured: a row for each kernel, also for those with less than 0.1 % of the time.
    #[arg(long, requires = "measured")]
    all: bool,
    /// With --measured: where to write the page; default: standard output.
    #[arg(long, requires = "measured")]
    out: Option<PathBuf>,
}

/// Write `docs/evidence/kernel-report.md`, or the page of what was measured.
pub fn run(args: &Args) -> Result<()> {
    ensure_toolchain()?;
    let mut command = cargo(&["run", "--release", "--package", "candle-rocm-kernel-report"]);
    if !args.measured.is_empty() {
        return measured(args, command.args(["--bin", "kernel-measured"]));
    }
    command.arg("--");
    if !args.arch.is_empty() {
        command.arg("--arch").arg(args.arch.join(","));
    }
    cargo::run(command.arg("--out").arg("docs/evidence/kernel-report.md"))
}

fn measured(args: &Args, command: &mut std::process::Command) -> Result<()> {
    ensure!(
        args.arch.len() <= 1,
        "--arch {}: with --measured it is one GPU, that of all launches",
        args.arch.join(",")
    );
    command.arg("--");
    for arch in &args.arch {
        command.args(["--arch", arch]);
    }
    if args.all {
        command.arg("--all");
    }
    // The program runs in the workspace's root.
    let absolute = |path: &PathBuf| {
        std::path::absolute(path).with_context(|| format!("where is {}?", path.display()))
    };
    if let Some(out) = &args.out {
        command.arg("--out").arg(absolute(out)?);
    }
    for path in &args.measured {
        command.arg(absolute(path)?);
    }
    cargo::run(command)
}
