//! Tells by the emulator's model of time how long a launch of a kernel would take: of any code object, so that others'
//! kernels can be put beside ours.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{bail, ensure, Context, Result};
use candle_rocm_kernel_report::device::{Arg, Device, Kept};
use clap::Parser;
use rocm_emulator::isa::Target;
use rocm_gpus::Sustained;

/// How long a launch of a kernel would take, by the emulator's model of time. What memory holds is zeros.
#[derive(Parser)]
struct Cli {
    /// The code object, of the architecture that it is to run on.
    code: PathBuf,
    /// The architecture.
    #[arg(long)]
    arch: String,
    /// The kernel; default: the only one.
    #[arg(long)]
    kernel: Option<String>,
    /// Workgroups: x, or x,y,z.
    #[arg(long, value_delimiter = ',', required = true)]
    grid: Vec<u32>,
    /// Work-items of a workgroup.
    #[arg(long)]
    threads: u32,
    /// Bytes of LDS that the launch asks for, beside the kernel's own.
    #[arg(long, default_value_t = 0)]
    lds: u32,
    /// The arguments as they lie in memory: room:BYTES is the address of so much memory, u64:N, u32:N and f32:X are numbers.
    #[arg(long = "args", value_delimiter = ',')]
    words: Vec<Word>,
    /// The launch's operands lie in the Infinity Cache, as when it is repeated.
    #[arg(long)]
    repeated: bool,
    /// The kernel's code lies in the caches, as when launches of it follow one another.
    #[arg(long)]
    code_kept: bool,
    /// What the launch computes, of which TFLOP/s are made.
    #[arg(long)]
    flop: Option<f64>,
    /// Tell the time at the engine clock that a product keeps up, too: MI300X or MI325X, a colon, and bf16, f16 or f8e4m3.
    #[arg(long, requires = "flop")]
    sustained: Option<String>,
}

/// A word of the arguments.
#[derive(Clone, Debug)]
enum Word {
    /// The address of memory of so many bytes.
    Room(u64),
    Number(Arg),
}

impl FromStr for Word {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Word> {
        let (kind, value) = text.split_once(':').context("no colon")?;
        Ok(match kind {
            "room" => Word::Room(value.parse()?),
            "u64" => Word::Number(Arg::U64(value.parse()?)),
            "u32" => Word::Number(Arg::U32(value.parse()?)),
            "f32" => Word::Number(Arg::F32(value.parse()?)),
            _ => bail!("{kind} is none of room, u64, u32, f32"),
        })
    }
}

fn main() -> Result<()> {
    const MODULE: &str = "code";
    let cli = Cli::parse();
    let target: Target = cli.arch.parse()?;
    let sustained = cli.sustained.as_ref().map(|text| {
        let (product, elements) = text.split_once(':').context("no colon in --sustained")?;
        Sustained::of(product, elements).with_context(|| format!("nothing is known of {text}"))
    });
    let sustained = sustained.transpose()?;
    let code =
        std::fs::read(&cli.code).with_context(|| format!("reading {}", cli.code.display()))?;
    let mut device = Device::new(target);
    device.load_code(MODULE, &code)?;
    let names: Vec<_> = device.kernels(MODULE)?.collect();
    let kernel = match (cli.kernel.as_deref(), names.as_slice()) {
        (Some(name), _) | (None, &[name]) => name,
        (None, names) => bail!("which kernel of {names:?}? Give --kernel"),
    };
    let mut grid = [1; 3];
    ensure!(
        (1..=3).contains(&cli.grid.len()),
        "a grid of one to three numbers"
    );
    grid[..cli.grid.len()].copy_from_slice(&cli.grid);

    let mut kernarg = Vec::new();
    for word in cli.words {
        let arg = match word {
            Word::Room(bytes) => Arg::U64(device.room(bytes)?),
            Word::Number(arg) => arg,
        };
        kernarg.extend(arg.bytes());
    }
    let kept = Kept {
        operands: cli.repeated,
        code: cli.code_kept,
    };
    let grid = [grid, [cli.threads, 1, 1]];
    let time = device.time_raw(MODULE, kernel, grid, cli.lds, &kernarg, kept)?;
    print!("{kernel}: {:.1} us", time.microseconds);
    if let Some(flop) = cli.flop {
        let teraflops = |microseconds: f64| flop / microseconds / 1e6;
        print!(", {:.0} TFLOP/s", teraflops(time.microseconds));
        if let Some(sustained) = sustained {
            let microseconds = sustained.microseconds(flop, time.microseconds);
            print!(
                "; sustained {microseconds:.1} us, {:.0} TFLOP/s",
                teraflops(microseconds)
            );
        }
    }
    println!(
        ", {} workgroups, {} at once on a compute unit; busy: matrix unit {:.1} %, vector unit {:.1} %, LDS {:.1} %, \
         memory or Infinity Cache {:.1} %",
        time.workgroups,
        time.held,
        100.0 * time.matrix,
        100.0 * time.vector,
        100.0 * time.lds,
        100.0 * time.memory
    );
    Ok(())
}
