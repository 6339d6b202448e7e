//! `cargo xtask coverage`: which kernels ran on which emulated GPU while the tests did.

use std::rc::Rc;

use anyhow::Result;

use crate::executed;
use crate::setup::ensure_toolchain;
use crate::suites::Suites;

/// What to run.
#[derive(clap::Args)]
pub struct Args {
    /// The GPUs to emulate, separated by commas.
    #[arg(long, value_delimiter = ',', default_values = crate::emulated::ARCHITECTURES)]
    arch: Vec<String>,
}

/// Run the tests that launch kernels, then print the table; an error if a kernel did not run.
pub fn run(args: &Args) -> Result<()> {
    ensure_toolchain()?;
    executed::start()?;
    let suites = Suites::build(&Rc::default())?;
    suites.kernels()?;
    for arch in &args.arch {
        suites.on(arch, Some(arch) == args.arch.last())?;
    }
    suites.passed()?;
    suites.report(&args.arch)
}
