//! Writes a page of what AMD's profiler measured, beside what our code objects say of the same kernels.

use std::path::PathBuf;

use anyhow::{Context, Result};
use candle_rocm_kernel_report::measured::{files, Embedded, Measured};
use clap::Parser;
use rocm_gpus::Gpu;

/// A page of what rocprofv3 measured, beside what our code objects say of the same kernels.
#[derive(Parser)]
struct Cli {
    /// Files of `rocprofv3 --output-format csv`, or folders with them: kernel_trace, counter_collection, agent_info.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// The GPU of all launches, by LLVM's name, such as gfx1100. Default: what agent_info says.
    #[arg(long)]
    arch: Option<Gpu>,
    /// A row for each kernel, also for those with less than 0.1 % of the time.
    #[arg(long)]
    all: bool,
    /// Where to write the page; default: standard output.
    #[arg(long)]
    out: Option<PathBuf>,
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let measured = Measured::read(&files(&cli.paths)?)?;
    let arch = cli.arch.map(Gpu::name);
    let page = measured.page(arch, &mut Embedded::default(), cli.all)?;
    match cli.out {
        Some(path) => {
            std::fs::write(&path, page).with_context(|| format!("writing {}", path.display()))
        }
        None => {
            print!("{page}");
            Ok(())
        }
    }
}
