//! `cargo xtask rocm`: AMD's own HIP and ROCr, unmodified, on the emulated GPUs.
//!
//! Debian's packages of them are unpacked into a private folder, the library `kfd-emulator` takes the amdgpu driver's
//! place, and our tests of devices, the examples and Candle's own tests run through AMD's `libamdhip64`.

mod collectives;
mod counts;
mod libraries;
mod packages;
mod parts;
mod programs;
mod root;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;

use crate::conformance;
use crate::setup::ensure_toolchain;
use parts::Parts;
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
    /// AMD's rocBLAS, rocRAND, rocFFT, hiprtc, rocSPARSE and hipBLASLt alone: 983 MB to fetch, and 2.8 GB unpacked.
    #[arg(long, conflicts_with = "short")]
    libraries: bool,
    /// AMD's RCCL over two emulated GPUs alone: 370 MB to fetch, and 390 MB unpacked.
    #[arg(long, conflicts_with_all = ["short", "libraries"])]
    rccl: bool,
    /// A folder that has the packages; otherwise they come from this machine's own mirror of Debian. The variable
    /// CANDLE_ROCM_AMD_PACKAGES says the same.
    #[arg(long)]
    packages: Option<PathBuf>,
}

/// Fetch, build and run. The exit status is [`GONE`] where a package is not to be had.
pub fn run(args: &Args) -> Result<ExitCode> {
    let more = match (args.libraries, args.rccl) {
        (true, _) => Some(&packages::LIBRARIES),
        (_, true) => Some(&packages::COLLECTIVES),
        _ => None,
    };
    let Some(root) = root(args.packages.clone(), args.short, more)? else {
        return Ok(ExitCode::from(GONE));
    };
    ensure_toolchain()?;
    let all = if args.short {
        vec![crate::emulated::ONE_ARCHITECTURE.to_owned()]
    } else {
        crate::emulated::ARCHITECTURES.map(str::to_owned).to_vec()
    };
    let archs = args.arch.clone().unwrap_or(all);
    if args.libraries {
        run_with(&packages::LIBRARIES, libraries::run, &root, &archs)?;
    } else if args.rccl {
        run_with(&packages::COLLECTIVES, collectives::run, &root, &archs)?;
    } else {
        run_on(&root, &archs, args.short)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The short part on one GPU, for those who have a toolchain. Where a package is not to be had, a line says so, and
/// nothing runs.
pub fn run_short(arch: &str) -> Result<()> {
    match root(None, true, None)? {
        Some(root) => run_on(&root, &[arch.to_owned()], true),
        None => Ok(()),
    }
}

/// The folder with AMD's packages; nothing, and a line that names it, where one is not to be had.
fn root(given: Option<PathBuf>, short: bool, more: Option<&packages::Set>) -> Result<Option<Root>> {
    let named = std::env::var_os(PACKAGES_VARIABLE).filter(|folder| !folder.is_empty());
    let given = given.or(named.map(PathBuf::from));
    let mut ready = Root::ready(given.as_deref(), short.then_some(SHORT_PATIENCE));
    if let Some(set) = more {
        ready = ready.and_then(|root| root.with(set, given.as_deref()));
    }
    match ready {
        Ok(root) => Ok(Some(root)),
        Err(error) if error.is::<Gone>() => {
            eprintln!("Nothing ran on AMD's own HIP: {error}");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn run_on(root: &Root, archs: &[String], short: bool) -> Result<()> {
    let programs = Programs::build()?;
    let runner = Runner::new(root, &[&packages::RUNTIME], &programs.model)?;
    let mut parts = Parts::default();
    for arch in archs {
        programs.tests(&runner, arch, short, &mut parts)?;
        programs.examples(&runner, arch, short, &mut parts)?;
    }
    if !short {
        parts.run(
            &format!("Candle's own tests on {}", archs.join(", ")),
            || conformance::run_through(&runner.through(), archs, true, &[]),
        );
    }
    programs::print_left_out();
    parts.print();
    parts.passed()
}

/// What some of AMD's libraries compute, in one of their sets beside the runtime's.
type Run = fn(&Root, &Programs, &Runner, &str, &mut Parts) -> Result<()>;

fn run_with(set: &packages::Set, run: Run, root: &Root, archs: &[String]) -> Result<()> {
    let programs = Programs::build()?;
    let runner = Runner::new(root, &[&packages::RUNTIME, set], &programs.model)?;
    let mut parts = Parts::default();
    for arch in archs {
        run(root, &programs, &runner, arch, &mut parts)?;
    }
    parts.print();
    parts.passed()
}
