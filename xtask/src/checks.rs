//! `cargo xtask checks`: the kernels' tests under the checks that no hardware has, and what those find.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{bail, Context, Result};

use crate::setup::ensure_toolchain;
use crate::suites::Suites;
use crate::{cargo, executed};

/// The emulator's variables.
const CHECK: &str = "ROCM_EMU_CHECK";
const SEED: &str = "ROCM_EMU_SEED";
const FINDINGS: &str = "ROCM_EMU_FINDINGS";
/// Names the GPUs that tests of kernels run on.
const TESTS_ON: &str = "CANDLE_ROCM_TESTS_ON";

/// The checks, each with a run of its own, so that what one costs does not multiply.
const CHECKS: [&str; 5] = ["waits", "races", "order", "caches", "uninitialised"];
/// A GPU of each kind, and tests with LDS and barriers: what there is always time for, beside handovers.
const FEW_GPUS: [&str; 2] = ["gfx942", "gfx1100"];
const FEW_TESTS: [&str; 2] = ["folds::", "sorting::"];

/// What to check.
#[derive(clap::Args)]
pub struct Args {
    /// The GPUs to emulate, separated by commas.
    #[arg(long, value_delimiter = ',', default_values = crate::emulated::ARCHITECTURES)]
    arch: Vec<String>,
    /// The checks, separated by commas.
    #[arg(long, value_delimiter = ',', default_values = CHECKS)]
    check: Vec<String>,
    /// What the checks of order and of caches draw from.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// A few of the kernels' tests and those of handovers alone, on two GPUs, under all checks at once.
    #[arg(long)]
    few: bool,
}

fn findings_file() -> PathBuf {
    cargo::target_folder().join("findings.tsv")
}

/// Run the tests that launch kernels under each check; an error if one finds anything.
pub fn run(args: &Args) -> Result<()> {
    for check in &args.check {
        if !CHECKS.contains(&check.as_str()) {
            bail!(
                "no check is named {check:?}; there are {}",
                CHECKS.join(", ")
            );
        }
    }
    ensure_toolchain()?;
    let suites = Suites::build(&Rc::default())?;
    if args.few {
        return few(&suites, args.seed);
    }
    let mut found = Vec::new();
    for check in &args.check {
        begin(&suites, check, args.seed, &args.arch.join(","))?;
        suites.kernels()?;
        for arch in &args.arch {
            suites.products(arch)?;
            suites.operators(arch)?;
            suites.handovers(arch)?;
            suites.grouped(arch)?;
        }
        found.extend(report(check)?);
    }
    end(&suites, &found)
}

/// A part of it, for those who have built the tests and read what ran.
pub fn few(suites: &Suites, seed: u64) -> Result<()> {
    eprintln!("\nA few of the kernels' tests under all checks");
    begin(suites, &CHECKS.join(","), seed, &FEW_GPUS.join(","))?;
    suites.some_kernels(&FEW_TESTS)?;
    for arch in FEW_GPUS {
        suites.handovers(arch)?;
        suites.parts(arch)?;
    }
    suites.set_environment(Vec::new());
    let found = report(&CHECKS.join(","))?;
    end(suites, &found)
}

fn begin(suites: &Suites, checks: &str, seed: u64, archs: &str) -> Result<()> {
    executed::start()?;
    let file = findings_file();
    fs::write(&file, "").with_context(|| format!("writing {}", file.display()))?;
    suites.set_environment(vec![
        (CHECK, checks.to_owned()),
        (SEED, seed.to_string()),
        (FINDINGS, file.display().to_string()),
        (TESTS_ON, archs.to_owned()),
    ]);
    Ok(())
}

/// Print how many kernels ran and what was found; gives that.
fn report(checks: &str) -> Result<Vec<String>> {
    let read = |file: PathBuf| {
        fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))
    };
    let ran = read(executed::file())?;
    let ran: BTreeSet<&str> = ran.lines().collect();
    let findings = read(findings_file())?;
    // Kernels that the same instruction condemns on many inputs are one finding.
    let findings: BTreeSet<String> = findings.lines().map(str::to_owned).collect();
    println!(
        "{checks}: {} kernels ran to their end, {} findings",
        ran.len(),
        findings.len()
    );
    findings.iter().for_each(|finding| println!("  {finding}"));
    Ok(findings.into_iter().collect())
}

fn end(suites: &Suites, found: &[String]) -> Result<()> {
    if !found.is_empty() {
        bail!("the checks found {} faults", found.len());
    }
    suites.passed()
}
