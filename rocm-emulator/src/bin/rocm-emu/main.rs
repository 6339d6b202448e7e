//! `rocm-emu`: look into AMD code objects, and run or trace their kernels without a GPU.

mod args;
mod launch;
mod listing;
mod source;
mod values;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use args::{LaunchArgs, SourceArgs};

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
