//! `cargo xtask test`: everything that must hold, in the order in which failures are cheapest.

use anyhow::Result;

use crate::cargo::{self, cargo};
use crate::setup::ensure_toolchain;
use crate::suites::{Suites, EVERYTHING};
use crate::{checks, conformance, disk, executed, kernel_format, recipes, rocm};

/// What to test.
#[derive(clap::Args)]
pub struct Args {
    /// The GPUs to emulate, separated by commas: all tests run on each. Without it, all on gfx1100 and gfx942
    /// (wavefronts of 32 and of 64), and on the other three those of the kernels, of matrix products, of random numbers and
    /// Candle's own.
    #[arg(long, value_delimiter = ',')]
    arch: Option<Vec<String>>,
    /// Run the tests alone, without formatting, lints and documentation.
    #[arg(long)]
    tests_only: bool,
}

/// The GPUs on which everything runs when nobody chooses.
const FULLY: [&str; 2] = ["gfx1100", "gfx942"];
/// Set up, check, and test.
pub fn run(args: &Args) -> Result<()> {
    disk::room_for_tests()?;
    ensure_toolchain()?;
    if !args.tests_only {
        check()?;
    }
    executed::start()?;
    let (fully, partly) = match &args.arch {
        Some(chosen) => (chosen.clone(), Vec::new()),
        None => {
            let others = crate::ARCHITECTURES.iter().filter(|a| !FULLY.contains(a));
            (
                FULLY.map(str::to_owned).to_vec(),
                others.map(|arch| (*arch).to_owned()).collect(),
            )
        }
    };
    let suites = Suites::build()?;
    suites.once(&fully[0])?;
    for arch in &fully {
        suites.on(arch)?;
    }
    suites.pooled(&fully[0])?;
    for arch in &partly {
        suites.products(arch)?;
    }
    suites.passed()?;
    suites.report(&fully)?;
    checks::few(&suites, 0)?;
    rocm::run_short(&fully[0])?;
    conformance::run_tests(&[fully.clone(), partly.clone()].concat(), false, &[])?;
    eprintln!("\nAll tests passed on {}.", fully.join(" and "));
    if !partly.is_empty() {
        eprintln!(
            "The kernels' tests, those of matrix products, of random numbers and Candle's own GPU tests passed on {} too.",
            partly.join(", ")
        );
    }
    Ok(())
}

fn check() -> Result<()> {
    cargo::run(&mut cargo(&["fmt", "--all", "--check"]))?;
    kernel_format::check()?;
    recipes::resolve()?;
    // As a user without a GPU builds: no feature, no GPU toolchain. The test is of such builds alone.
    cargo::run(
        cargo(&["test", "--package", "candle-rocm-examples", "--test", "cli"])
            .arg("a_build_without_gpu_says_how_to_get_one")
            .env("CANDLE_ROCM_SKIP_KERNELS", "1"),
    )?;
    cargo::run(
        cargo(&["clippy", "--all-targets"])
            .args(EVERYTHING)
            .args(["--", "-D", "warnings"]),
    )?;
    cargo::run(
        cargo(&["doc", "--no-deps"])
            .args(EVERYTHING)
            .env("RUSTDOCFLAGS", "-D warnings"),
    )
}
