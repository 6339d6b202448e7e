//! `cargo xtask rocm`: AMD's own HIP and ROCr, unmodified, on the emulated GPUs.
//!
//! Debian's packages of them are unpacked into a private folder, the library `hsakmt-model` takes the amdgpu driver's
//! place, and our tests of devices, the examples and Candle's own tests run through AMD's `libamdhip64`.

mod packages;
mod programs;
mod root;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{bail, Result};

use crate::conformance;
use crate::setup::ensure_toolchain;
use programs::{Programs, Runner};
use root::{Gone, Root};

/// The exit status that says that a package is not to be had, and nothing of the tests.
pub const GONE: u8 = 3;
/// Names a folder of packages.
const PACKAGES_VARIABLE: &str = "CANDLE_ROCM_AMD_PACKAGES";
/// How long the short part waits for packages.
const SHORT_PATIENCE: Duration = Duration::from_secs(120);

/// What to run.
#[derive(clap::Args)]
pub struct Args {
    /// The GPUs to emulate, separated by commas.
    #[arg(long, value_delimiter = ',')]
    arch: Option<Vec<String>>,
    /// The runtime's tests and one example alone, on one GPU (gfx1100).
    #[arg(long)]
    short: bool,
    /// A folder that has the packages; otherwise they come from this machine's own mirror of Debian. The variable
    /// CANDLE_ROCM_AMD_PACKAGES says the same.
    #[arg(long)]
    packages: Option<PathBuf>,
}

/// Fetch, build and run. The exit status is [`GONE`] where a package is not to be had.
pub fn run(args: &Args) -> Result<ExitCode> {
    let patience = args.short.then_some(SHORT_PATIENCE);
    let root = match root(args.packages.clone(), patience) {
        Ok(root) => root,
        Err(error) if error.is::<Gone>() => {
            eprintln!("{error}");
            return Ok(ExitCode::from(GONE));
        }
        Err(error) => return Err(error),
    };
    ensure_toolchain()?;
    let all = if args.short {
        vec![crate::ONE_ARCHITECTURE.to_owned()]
    } else {
        crate::ARCHITECTURES.map(str::to_owned).to_vec()
    };
    let archs = args.arch.clone().unwrap_or(all);
    run_on(&root, &archs, args.short)?;
    Ok(ExitCode::SUCCESS)
}

fn root(given: Option<PathBuf>, patience: Option<Duration>) -> Result<Root> {
    let named = std::env::var_os(PACKAGES_VARIABLE).filter(|folder| !folder.is_empty());
    let given = given.or(named.map(PathBuf::from));
    Root::ready(given.as_deref(), patience)
}

fn run_on(root: &Root, archs: &[String], short: bool) -> Result<()> {
    let programs = Programs::build()?;
    let runner = Runner::new(root, &programs.model)?;
    let mut failed = Vec::new();
    for arch in archs {
        programs.tests(&runner, arch, short, &mut failed)?;
        programs.examples(&runner, arch, short, &mut failed)?;
    }
    programs::print_left_out();
    if !failed.is_empty() {
        bail!("on AMD's own HIP failed:\n{}", failed.join("\n"));
    }
    if !short {
        conformance::run_through(&runner.through(), archs, true, &[])?;
    }
    eprintln!(
        "\nAll of that passed on AMD's own HIP, on {}.",
        archs.join(", ")
    );
    Ok(())
}
