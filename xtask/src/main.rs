//! The project's own commands.
//!
//! `cargo xtask demo` writes a story and five sums on an emulated AMD GPU; `cargo xtask test` runs
//! every test. Both first install what the machine lacks, and say so.

mod cargo;
mod conformance;
mod demo;
mod setup;
mod test;

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
    /// Run Candle's own tests, from its published sources, on an emulated AMD GPU.
    Conformance(conformance::Args),
    /// Check formatting and lints, build the documentation and run all tests.
    Test(test::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Setup => setup::ensure_toolchain(),
        Command::Demo(args) => demo::run(&args),
        Command::Conformance(args) => conformance::run(&args),
        Command::Test(args) => test::run(&args),
    }
}
