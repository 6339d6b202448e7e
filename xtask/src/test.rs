//! `cargo xtask test`: everything that must hold, in the order in which failures are cheapest.

use std::rc::Rc;

use anyhow::Result;
use rocm_toolchain::variables;

use crate::cargo::{self, cargo};
use crate::conformance::Through;
use crate::setup::ensure_toolchain;
use crate::spent::Spent;
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
    let spent = Rc::new(Spent::default());
    spent.stage("setup", || {
        disk::room_for_tests()?;
        ensure_toolchain()
    })?;
    if !args.tests_only {
        check(&spent)?;
    }
    executed::start()?;
    let (fully, partly) = match &args.arch {
        Some(chosen) => (chosen.clone(), Vec::new()),
        None => {
            let others = crate::emulated::ARCHITECTURES
                .iter()
                .filter(|a| !FULLY.contains(a));
            (
                FULLY.map(str::to_owned).to_vec(),
                others.map(|arch| (*arch).to_owned()).collect(),
            )
        }
    };
    let suites = spent.stage("building the tests", || Suites::build(&spent))?;
    run_suites(&suites, &spent, &fully, &partly)?;
    spent.stage("a few tests under all checks", || checks::few(&suites, 0))?;
    spent.stage("AMD's own HIP", || rocm::run_short(&fully[0]))?;
    spent.stage("Candle's own tests", || {
        let archs = [fully.clone(), partly.clone()].concat();
        conformance::run_through(&Through::built(), &archs, false, &[])
    })?;
    eprintln!("\nAll tests passed on {}.", fully.join(" and "));
    if !partly.is_empty() {
        eprintln!(
            "The kernels' tests, those of matrix products, of random numbers and Candle's own GPU tests passed on {} too.",
            partly.join(", ")
        );
    }
    Ok(())
}

/// The workspace's tests, and which kernels they ran.
fn run_suites(suites: &Suites, spent: &Spent, fully: &[String], partly: &[String]) -> Result<()> {
    spent.stage("tests that run once", || suites.once(&fully[0]))?;
    // The last is the one for what one GPU is enough for: it has so many compute units that large tensors cost least.
    let last = fully.last();
    for arch in fully {
        let is_the_one = Some(arch) == last;
        spent.stage(&format!("tests on {arch}"), || suites.on(arch, is_the_one))?;
    }
    spent.stage("tests with the memory pool", || suites.pooled(&fully[0]))?;
    for arch in partly {
        let stage = format!("matrix products on {arch}");
        spent.stage(&stage, || suites.products(arch))?;
    }
    suites.passed()?;
    suites.report(fully)
}

fn check(spent: &Spent) -> Result<()> {
    spent.stage("formatting", || {
        cargo::run(&mut cargo(&["fmt", "--all", "--check"]))?;
        kernel_format::check()
    })?;
    spent.stage("the recipes of README and book", recipes::resolve)?;
    // As a user without a GPU builds: no feature, no GPU toolchain. The test is of such builds alone, whose programs compute
    // nothing: what no other build of this run has with these features is not optimised.
    spent.stage("a build without a GPU", || {
        let unoptimised = ["candle-core", "candle-nn"]
            .map(|package| format!("profile.dev.package.{package}.opt-level=0"));
        let mut build = cargo(&["test", "--package", "candle-rocm-examples"]);
        for setting in &unoptimised {
            build.args(["--config", setting]);
        }
        cargo::run(
            build
                .args(["--test", "cli", "a_build_without_gpu_says_how_to_get_one"])
                .env(variables::SKIP_KERNELS, "1"),
        )
    })?;
    spent.stage("lints", || {
        cargo::run(
            cargo(&["clippy", "--all-targets"])
                .args(EVERYTHING)
                .args(["--", "-D", "warnings"]),
        )
    })?;
    spent.stage("documentation", || {
        cargo::run(
            cargo(&["doc", "--no-deps"])
                .args(EVERYTHING)
                .env("RUSTDOCFLAGS", "-D warnings"),
        )
    })
}
