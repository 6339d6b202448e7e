//! `rocm-emu`: look into AMD code objects, and run or trace their kernels without a GPU.

mod launch;
mod listing;
mod source;
mod values;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use rocm_emulator::isa::Target;

/// Look into AMD code objects, and run or trace their kernels on the emulated GPU.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the kernels with their registers, LDS, scratch, spills, arguments and workgroup limits.
    Kernels(SourceArgs),
    /// Disassemble, with addresses and instruction words.
    Disassemble {
        #[command(flatten)]
        source: SourceArgs,
        /// Only this kernel; its mangled name or the unmistakable part of it.
        #[arg(long)]
        kernel: Option<String>,
    },
    /// Launch a kernel and print its buffers afterwards.
    Run(LaunchArgs),
    /// Launch a kernel and write down what one wavefront executes, then print the buffers.
    Trace {
        #[command(flatten)]
        launch: LaunchArgs,
        /// Workgroup to trace: x, or x,y,z.
        #[arg(long, default_value = "0", value_parser = values::coordinates)]
        workgroup: [u32; 3],
        /// Wavefront of the workgroup to trace.
        #[arg(long, default_value_t = 0)]
        wave: u32,
    },
}

/// Where the code is.
#[derive(Args)]
struct SourceArgs {
    /// A code object (HSACO), an offload bundle, or a HIP program that embeds one.
    file: PathBuf,
    /// The processor to take out of a bundle of several, such as gfx1100.
    #[arg(long)]
    arch: Option<Target>,
}

/// A launch.
#[derive(Args)]
struct LaunchArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// The kernel; its mangled name or the unmistakable part of it.
    kernel: String,
    /// Workgroups: x, or x,y,z.
    #[arg(long, default_value = "1", value_parser = values::dimensions)]
    grid: [u32; 3],
    /// Work-items of a workgroup: x, or x,y,z.
    #[arg(long, default_value = "64", value_parser = values::dimensions)]
    block: [u32; 3],
    /// Bytes of dynamic LDS.
    #[arg(long, default_value_t = 0)]
    dynamic_lds: u32,
    /// An argument of the kernel, in order. A number: `u32=5`, `f32=0.5`. A buffer, printed afterwards:
    /// `f32[16]=iota`, `=zero`, `=random`, one value for all, a list `1,2,3`, or `@file` for raw bytes. `null`.
    #[arg(long = "arg", value_name = "TYPE=VALUE", value_parser = values::argument)]
    arguments: Vec<values::Argument>,
    /// Elements of each buffer to print.
    #[arg(long, default_value_t = 64)]
    print: usize,
    /// Threads; 0 means all cores.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Instructions that one wavefront may execute.
    #[arg(long)]
    max_instructions: Option<u64>,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Kernels(source) => listing::kernels(&source),
        Command::Disassemble { source, kernel } => listing::disassemble(&source, kernel.as_deref()),
        Command::Run(launch) => launch::run(&launch, None),
        Command::Trace {
            launch,
            workgroup,
            wave,
        } => launch::run(&launch, Some((workgroup, wave))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("rocm-emu: {message}");
            ExitCode::FAILURE
        }
    }
}
