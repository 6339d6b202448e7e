//! Tells by the emulator's model of time how long a product would take by each of its plans, so that the estimate by which one
//! is chosen can be held to it.

use anyhow::{bail, ensure, Context, Result};
use candle_rocm_kernel_report::device::Kept;
use candle_rocm_kernel_report::products::{Gpus, Shape, OPERATIONS};
use candle_rocm_runtime::gemm::{GemmDtype, Transpose};
use clap::Parser;

/// How long a product would take by each of its plans, by the emulator's model of time. The first is the one that is chosen.
#[derive(Parser)]
struct Cli {
    /// Rows of C.
    m: usize,
    /// Columns of C.
    n: usize,
    /// Columns of A.
    k: usize,
    /// The architecture.
    #[arg(long)]
    arch: String,
    /// Type of the elements.
    #[arg(long, default_value = "bf16")]
    dtype: String,
    /// What is done to A and to B, `n` or `t` each: nn, nt, tn or tt.
    #[arg(long, default_value = "tn")]
    ops: String,
    /// Plans at most, in the order in which they are thought to be fast.
    #[arg(long, default_value_t = 8)]
    most: usize,
    /// Operands come from memory, and not from the Infinity Cache where that holds them, as when the product is repeated.
    #[arg(long)]
    cold: bool,
    /// The kernel's code lies in the caches, as when launches of it follow one another.
    #[arg(long)]
    code_kept: bool,
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let named = |dtype: &GemmDtype| dtype.name() == cli.dtype;
    let dtype = GemmDtype::ALL.into_iter().find(named);
    let dtype = dtype.with_context(|| format!("no products are of {}", cli.dtype))?;
    let letters = |ops: &[Transpose; 2]| String::from_iter(ops.map(Transpose::letter));
    let Some(ops) = OPERATIONS.into_iter().find(|ops| letters(ops) == cli.ops) else {
        bail!("{} is none of nn, nt, tn, tt", cli.ops);
    };
    let sizes = [cli.m, cli.n, cli.k];
    ensure!(!sizes.contains(&0), "an empty product");
    let gpus = Gpus::start(std::slice::from_ref(&cli.arch))?;
    let kept = Kept {
        operands: !cli.cold,
        code: cli.code_kept,
    };
    let shape = Shape::new(dtype, sizes, ops);
    for (plan, microseconds) in gpus.time_plans(&cli.arch, &shape, kept, cli.most)? {
        println!("{microseconds:8.1} us  {plan}");
    }
    Ok(())
}
