//! The project's own commands.
//!
//! `cargo xtask demo` writes a story and five sums on an emulated AMD GPU; `cargo xtask test` runs
//! every test. Both first install what the machine lacks, and say so.

mod cards;
mod cargo;
mod checks;
mod conformance;
mod coverage;
mod demo;
mod disk;
mod doctor;
mod emulated;
mod executed;
mod jobs;
mod kernel_format;
mod kernel_report;
mod kernel_times;
mod nvcc;
mod nvidia;
mod packages;
mod published;
mod recipes;
mod rocm;
mod setup;
mod spent;
mod suites;
mod test;
mod upstream_crates;
mod upstream_kernels;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "candle-rocm's own commands")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install the GPU compiler if none is found (apt packages on Debian and Ubuntu).
    Setup,
    /// Write a short story and solve five sums on an emulated AMD GPU.
    Demo(demo::Args),
    /// Say what is wrong with this machine's driver, GPUs, permissions, libraries, compiler and caches, and what to do.
    Doctor(doctor::Args),
    /// Make a page of files that candle-rocm-card wrote: results, and measured beside predicted times.
    Cards(cards::Args),
    /// Run the kernels' tests under the emulator's checks: races, values that nothing wrote, missing waits, drawn orders,
    /// caches that are not coherent.
    Checks(checks::Args),
    /// Run Candle's own tests, from its published sources, on an emulated AMD GPU.
    Conformance(conformance::Args),
    /// Show which kernels the tests ran on which emulated GPU.
    Coverage(coverage::Args),
    /// Write docs/evidence/kernel-report.md: registers, loops, bytes, bank conflicts of the kernels, without a GPU; or a page
    /// of what rocprofv3 measured, beside the code objects.
    KernelReport(kernel_report::Args),
    /// Compile all kernels without any cache, and say which take how long.
    KernelTimes(kernel_times::Args),
    /// Lay out a folder with an `nvcc` that compiles for AMD GPUs, for build scripts that call one.
    Nvcc(nvcc::Args),
    /// Run tests, NVIDIA's checkers, parity and benchmarks on an NVIDIA GPU, beside Candle's own CUDA backend.
    Nvidia(nvidia::Args),
    /// Run tests and examples on AMD's own HIP and ROCr, over the emulated GPUs.
    Rocm(rocm::Args),
    /// Check formatting and lints, build the documentation and run all tests.
    Test(test::Args),
    /// Run the tests of published crates that bring CUDA kernels of their own, on emulated AMD GPUs; build the README's recipes.
    UpstreamCrates(upstream_crates::Args),
    /// Compile Candle's own CUDA kernels, as candle-kernels publishes them, for the emulated AMD GPUs.
    UpstreamKernels(upstream_kernels::Args),
}

fn main() -> anyhow::Result<ExitCode> {
    match Cli::parse().command {
        Command::Setup => setup::ensure_toolchain().map(|_| ())?,
        Command::Demo(args) => demo::run(&args)?,
        Command::Doctor(args) => return doctor::run(&args),
        Command::Cards(args) => cards::run(&args)?,
        Command::Checks(args) => checks::run(&args)?,
        Command::Conformance(args) => conformance::run(&args)?,
        Command::Coverage(args) => coverage::run(&args)?,
        Command::KernelReport(args) => kernel_report::run(&args)?,
        Command::KernelTimes(args) => kernel_times::run(&args)?,
        Command::Nvcc(args) => nvcc::run(&args)?,
        Command::Nvidia(args) => nvidia::run(&args)?,
        Command::Rocm(args) => return rocm::run(&args),
        Command::Test(args) => test::run(&args)?,
        Command::UpstreamCrates(args) => upstream_crates::run(&args)?,
        Command::UpstreamKernels(args) => upstream_kernels::run(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}
