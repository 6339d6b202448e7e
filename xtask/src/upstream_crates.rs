//! `cargo xtask upstream-crates`: published crates that bring CUDA kernels of their own, unmodified, with their own tests.
//!
//! Their build scripts call an `nvcc`, which is ours, or cudaforge and bindgen_cuda, which are patched; what they link
//! launches through the runtime, and reaches the emulator as it would reach a GPU: through `libamdhip64.so`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{ensure, Result};

use crate::cargo;
use crate::conformance::{self, Outcome, Through};
use crate::nvcc;
use crate::published;
use crate::setup::ensure_toolchain;
use crate::ARCHITECTURES;

/// A published crate.
struct Crate {
    name: &'static str,
    version: &'static str,
    /// How many tests it has.
    tests: usize,
}

/// Those that are run.
const CRATES: [Crate; 1] = [
    // Calls nvcc for an object and a library, and links cudart.
    Crate {
        name: "candle-index-select-cu",
        version: "0.0.1",
        tests: 21,
    },
];

/// On which GPUs.
#[derive(clap::Args)]
pub struct Args {
    /// The GPUs to emulate, separated by commas.
    #[arg(long, value_delimiter = ',', default_values = ARCHITECTURES)]
    arch: Vec<String>,
}

/// Fetches the crates, builds their tests, runs them on each GPU, prints the table. An error if a test fails or is missing.
pub fn run(args: &Args) -> Result<()> {
    ensure_toolchain()?;
    let through = Through::ours()?;
    let toolkit = nvcc::lay_out(&cargo::target_folder().join("nvcc"))?;
    let mut search = vec![toolkit.join("bin")];
    search.extend(std::env::split_paths(
        &std::env::var_os("PATH").unwrap_or_default(),
    ));
    let mut replaced = published::replaced()?;
    for name in ["cudaforge", "bindgen_cuda"] {
        replaced.push((
            name,
            cargo::root().join("compat").join(name).canonicalize()?,
        ));
    }
    let mut report = Vec::new();
    for one in &CRATES {
        let folder = published::copy_of(one.name, one.version)?;
        let target = cargo::target_folder().join("upstream-crates");
        let mut command = conformance::build_command(&[], &replaced, &target);
        command
            .env("PATH", std::env::join_paths(&search)?)
            .envs(nvcc::variables(&toolkit))
            // What `-lcudart` finds, as where CUDA is installed for all.
            .env("LIBRARY_PATH", toolkit.join("lib64"))
            .current_dir(&folder);
        let programs = test_programs(&mut command)?;
        for arch in &args.arch {
            eprintln!("\n{} on {arch}", one.name);
            let mut outcomes: BTreeMap<bool, Outcome> = BTreeMap::new();
            for program in &programs {
                conformance::run_program(
                    program,
                    &folder,
                    arch,
                    &through,
                    false,
                    &[],
                    &mut outcomes,
                )?;
            }
            // All of them use the GPU, whatever their names.
            let all = outcomes
                .into_values()
                .fold(Outcome::default(), Outcome::and);
            let ran = all.ran();
            ensure!(
                ran == one.tests,
                "{} has {} tests, of which {ran} ran on {arch}",
                one.name,
                one.tests
            );
            report.push((one.name, arch, all, Outcome::default()));
        }
    }
    conformance::print(&report)
}

/// Builds; the programs among what was built that are tests.
fn test_programs(command: &mut Command) -> Result<Vec<PathBuf>> {
    let messages = cargo::messages(command)?;
    let tests = messages
        .iter()
        .filter(|message| message["profile"]["test"] == true);
    let programs = tests.filter_map(|message| message["executable"].as_str());
    Ok(programs.map(PathBuf::from).collect())
}
