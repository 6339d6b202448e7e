//! The workspace's tests, in the parts in which they are run. All note the kernels that run.

use std::process::Command;

use anyhow::Result;

use crate::cargo::{self, cargo};
use crate::executed;
use crate::packages::{self, Tests};

/// Those of the packages whose tests run once.
pub fn once() -> Result<()> {
    cargo::run(&mut tests_of(&packages::names(Tests::Once)?))
}

/// Those that run on each emulated GPU, on this one.
pub fn on(arch: &str) -> Result<()> {
    let packages = packages::names(Tests::PerDevice)?;
    cargo::run(
        emulating(arch, &mut tests_of(&packages)).args(["--features", "candle-rocm-examples/rocm"]),
    )
}

/// Those of the kernels, which run on all emulated GPUs by themselves.
pub fn kernels() -> Result<()> {
    cargo::run(tests_of(&["candle-rocm-kernels"]).args(["--test", "execution"]))
}

/// Those of the runtime's own kernels, matrix products and random numbers, on this one.
pub fn products(arch: &str) -> Result<()> {
    cargo::run(
        emulating(arch, &mut tests_of(&["candle-rocm-runtime"]))
            .args(["--test", "gemm", "--test", "random"]),
    )
}

fn tests_of(packages: &[impl AsRef<str>]) -> Command {
    let mut command = cargo(&["test"]);
    for package in packages {
        command.args(["--package", package.as_ref()]);
    }
    command.env(executed::VARIABLE, executed::file());
    command
}

fn emulating<'a>(arch: &str, command: &'a mut Command) -> &'a mut Command {
    let command = command.env("ROCM_EMU_ARCH", arch);
    command.env("CANDLE_ROCM_RUNTIME", "emulator")
}
