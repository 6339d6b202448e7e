//! `cargo xtask conformance`: Candle's own tests, from its published sources, on the emulated GPU.
//!
//! The sources are copied from cargo's registry into the target folder and built there with Candle's `cuda`
//! feature on our crates. They reach the emulator as they would reach a GPU: through `libamdhip64.so`.
//!
//! Candle's tests of convolutions are built a second time, with its `cudnn`: the feature replaces the way by `im2col`,
//! which the first build keeps tested. No other test meets what it changes, so the second build has these alone; of the
//! crates it compiles candle-core and cudarc anew.
//!
//! Of candle-flash-attn, whose sources are CUTLASS's, the tests alone are taken: into a package that is written for
//! them and depends on ours ([`published::tests_of`]).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{bail, ensure, Context, Result};

use crate::cargo::{self, cargo};
use crate::published;
use crate::setup::ensure_toolchain;

/// What to run.
#[derive(clap::Args)]
pub struct Args {
    /// The GPUs to emulate, separated by commas.
    #[arg(long, value_delimiter = ',', default_values = crate::emulated::ARCHITECTURES)]
    arch: Vec<String>,
    /// Only the tests that use a GPU, by their names; the others run on the CPU alone.
    #[arg(long)]
    gpu_only: bool,
    /// Candle 0.10.2's tests, on the second candle-kernels.
    #[arg(long)]
    older: bool,
    /// Only the packages whose names, with what they are built with, hold this: `cudnn`, `candle-nn`.
    #[arg(long, default_value = "")]
    only: String,
    /// Passed on to the tests, such as part of a name.
    #[arg(last = true)]
    tests: Vec<String>,
}

/// What cargo builds of a package.
#[derive(Clone, Copy)]
struct Built {
    /// Said beside the package's name.
    with: &'static str,
    arguments: &'static [&'static str],
}

/// All tests, as users build for a GPU.
const ALL: Built = Built {
    with: "",
    arguments: &["--lib", "--tests", "--features", "cuda"],
};

/// The tests of convolutions, with Candle's `cudnn`.
const CONVOLUTIONS: Built = Built {
    with: ", cudnn",
    arguments: &["--test", "conv_tests", "--features", "cudnn"],
};

/// One of Candle's packages.
#[derive(Clone, Copy)]
struct Package {
    name: &'static str,
    built: Built,
    /// How many of its tests use a GPU. Fewer found means that they are not recognised any more.
    gpu_tests: usize,
    /// Where its tests are, as a workspace of its own.
    fetch: fn(&str) -> Result<PathBuf>,
}

/// Candle's packages with GPU tests, of the locked version 0.11.1: 83 made by `test_device!` and 30 of quantised
/// tensors in the first, 10 in the second; 9 of convolutions; all 6 of flash attention. No test of candle-nn convolves
/// on a GPU.
const PACKAGES: [Package; 4] = [
    Package {
        name: "candle-core",
        built: ALL,
        gpu_tests: 113,
        fetch: published::source_of,
    },
    Package {
        name: "candle-nn",
        built: ALL,
        gpu_tests: 10,
        fetch: published::source_of,
    },
    Package {
        name: "candle-core",
        built: CONVOLUTIONS,
        gpu_tests: 9,
        fetch: published::source_of,
    },
    Package {
        name: "candle-flash-attn",
        built: ALL,
        gpu_tests: 6,
        fetch: published::tests_of,
    },
];

/// The same of Candle 0.10.2, whose flash attention we have none for.
const OLDER: [Package; 3] = [
    Package {
        name: "candle-core",
        built: ALL,
        gpu_tests: 101,
        fetch: |name| published::copy_of(name, "0.10.2"),
    },
    Package {
        name: "candle-nn",
        built: ALL,
        gpu_tests: 9,
        fetch: |name| published::copy_of(name, "0.10.2"),
    },
    Package {
        name: "candle-core",
        built: CONVOLUTIONS,
        gpu_tests: 8,
        fetch: |name| published::copy_of(name, "0.10.2"),
    },
];

impl Package {
    /// Its name, and what it is built with where that is not the rule.
    fn title(&self) -> String {
        format!("{}{}", self.name, self.built.with)
    }
}

/// A test by Candle's naming: `test_device!` makes `x_gpu`, others have `cuda` in their names; all of flash attention
/// do.
fn uses_gpu(test: &str) -> bool {
    test.ends_with("_gpu") || test.contains("cuda") || test.starts_with("flash_attn")
}

/// How the tests of one package went on one GPU.
#[derive(Default)]
pub struct Outcome {
    passed: usize,
    ignored: usize,
    failed: Vec<String>,
}

impl Outcome {
    /// How many tests ran.
    pub fn ran(&self) -> usize {
        self.passed + self.failed.len()
    }

    /// The tests of both.
    pub fn and(mut self, other: Self) -> Self {
        self.passed += other.passed;
        self.ignored += other.ignored;
        self.failed.extend(other.failed);
        self
    }
}

/// Build and run them; an error if a test fails.
pub fn run(args: &Args) -> Result<()> {
    ensure_toolchain()?;
    let (packages, on) = match args.older {
        true => {
            let replaced = published::replaced_for_older()?;
            let folder = "conformance/build-older";
            (&OLDER[..], On { replaced, folder })
        }
        false => (&PACKAGES[..], On::ours()?),
    };
    let wanted = packages.iter().copied();
    let wanted: Vec<Package> = wanted
        .filter(|package| package.title().contains(&args.only))
        .collect();
    ensure!(!wanted.is_empty(), "no package is called {}", args.only);
    let through = Through::ours()?;
    run_packages(
        &wanted,
        &on,
        &through,
        &args.arch,
        args.gpu_only,
        &args.tests,
    )
}

/// The way to a GPU.
pub struct Through {
    /// HIP's library.
    pub library: PathBuf,
    /// What starts programs, which cannot be started by themselves, with their paths and arguments.
    pub runner: Option<PathBuf>,
}

impl Through {
    /// The emulator's own HIP, built.
    pub fn ours() -> Result<Self> {
        cargo::run(&mut cargo(&["build", "--package", "amdhip64"]))?;
        Ok(Self::built())
    }

    /// The emulator's own HIP, where it was built with the workspace.
    pub fn built() -> Self {
        Self {
            library: cargo::target_folder().join("debug/libamdhip64.so"),
            runner: None,
        }
    }

    /// The command that runs a program on this emulated GPU.
    pub fn command(&self, program: &Path, arch: &str) -> Command {
        let mut command = match &self.runner {
            Some(runner) => {
                let mut command = Command::new(runner);
                // Test programs start themselves once more by it.
                command.arg(program).env("CANDLE_ROCM_TEST_RUNNER", runner);
                command
            }
            None => Command::new(program),
        };
        command
            .env("CANDLE_ROCM_RUNTIME", "amd")
            .env("CANDLE_ROCM_HIP_LIBRARY", &self.library)
            .env("ROCM_EMU_ARCH", arch);
        command
    }
}

/// Candle 0.11.1's, for those who have a toolchain. Tests that do not use the GPU run once, with the first one's.
pub fn run_through(
    through: &Through,
    archs: &[String],
    gpu_only: bool,
    filters: &[String],
) -> Result<()> {
    run_packages(&PACKAGES, &On::ours()?, through, archs, gpu_only, filters)
}

/// The tests of candle-core and candle-nn that use a GPU, with candle-kernels' own kernels in place of ours
/// ([`published::upstream_kernels`]).
pub fn run_on_upstream_kernels(archs: &[String]) -> Result<()> {
    let through = Through::ours()?;
    let on = On {
        replaced: published::upstream_kernels()?,
        folder: "conformance/build-upstream",
    };
    run_packages(&PACKAGES[..2], &on, &through, archs, true, &[])
}

/// What Candle's packages are built on.
struct On {
    /// Crates in place of published ones.
    replaced: Vec<(&'static str, PathBuf)>,
    /// Where they are built, below cargo's target folder.
    folder: &'static str,
}

impl On {
    /// Our crates.
    fn ours() -> Result<Self> {
        Ok(Self {
            replaced: published::replaced()?,
            // With the workspace, of whose crates and theirs most are the same.
            folder: "",
        })
    }
}

fn run_packages(
    packages: &[Package],
    on: &On,
    through: &Through,
    archs: &[String],
    gpu_only: bool,
    filters: &[String],
) -> Result<()> {
    let mut report = Vec::new();
    let titles = packages.iter().map(Package::title).collect::<Vec<_>>();
    for (package, title) in packages.iter().zip(&titles) {
        let folder = (package.fetch)(package.name)?;
        let programs = build(&folder, on, package.built)?;
        for (number, arch) in archs.iter().enumerate() {
            let gpu_only = gpu_only || number > 0;
            eprintln!("\n{title} on {arch}");
            let start = Instant::now();
            let mut outcomes: BTreeMap<bool, Outcome> = BTreeMap::new();
            for program in &programs {
                run_program(
                    program,
                    &folder,
                    arch,
                    through,
                    gpu_only,
                    filters,
                    &mut outcomes,
                )?;
            }
            eprintln!("  done in {:.0} s", start.elapsed().as_secs_f32());
            let gpu = outcomes.remove(&true).unwrap_or_default();
            if filters.is_empty() && gpu.ran() < package.gpu_tests {
                bail!(
                    "{title} has {} tests that use a GPU, and only {} ran on {arch}",
                    package.gpu_tests,
                    gpu.ran()
                );
            }
            let others = outcomes.remove(&false).unwrap_or_default();
            report.push((title.as_str(), arch, gpu, others));
        }
    }
    print(&report)
}

/// The table of counts; an error if a test failed.
pub fn print(report: &[(&str, &String, Outcome, Outcome)]) -> Result<()> {
    eprintln!("\nTests (passed of run)\n");
    eprintln!(
        "{:<23} {:<8} {:>11} {:>11} {:>8}",
        "package", "GPU", "GPU tests", "others", "ignored"
    );
    let mut failed = Vec::new();
    for (package, arch, gpu, others) in report {
        let count = |outcome: &Outcome| format!("{} of {}", outcome.passed, outcome.ran());
        eprintln!(
            "{package:<23} {arch:<8} {:>11} {:>11} {:>8}",
            count(gpu),
            count(others),
            gpu.ignored + others.ignored
        );
        let names = gpu.failed.iter().chain(&others.failed);
        failed.extend(names.map(|test| format!("{package} on {arch}: {test}")));
    }
    if !failed.is_empty() {
        bail!("{} tests failed:\n{}", failed.len(), failed.join("\n"));
    }
    Ok(())
}

/// Has cargo optimise candle-core a little: as much as the workspace does takes longer to compile than its tests to run.
const A_LITTLE: &str = "profile.dev.package.candle-core.opt-level=1";

/// The package's test programs, built on our crates.
fn build(folder: &Path, on: &On, built: Built) -> Result<Vec<PathBuf>> {
    let target = cargo::target_folder().join(on.folder);
    let mut command = build_command(built.arguments, &on.replaced, &target);
    let programs = cargo::build(command.current_dir(folder))?.into_iter();
    let programs: Vec<PathBuf> = programs.map(|(_, file)| file).collect();
    if programs.is_empty() {
        bail!("no test programs in {}", folder.display());
    }
    Ok(programs)
}

/// A command that builds a package's test programs with these crates in place of published ones.
fn build_command(arguments: &[&str], replaced: &[(&str, PathBuf)], target: &Path) -> Command {
    let tests = ["test", "--no-run", "--config", A_LITTLE];
    let kind = [&tests, arguments].concat();
    cargo_command(&kind, replaced, target)
}

/// A cargo command for a published package, with these crates in place of published ones.
pub fn cargo_command(arguments: &[&str], replaced: &[(&str, PathBuf)], target: &Path) -> Command {
    let mut command = cargo(arguments);
    for (name, path) in replaced {
        command.args(["--config", &format!("patch.crates-io.{name}.path={path:?}")]);
    }
    command
        .arg("--target-dir")
        .arg(target)
        // As this project's are built, wherever the target folder is.
        .arg("--config")
        .arg(cargo::root().join(".cargo/config.toml"))
        // Nobody edits what is published: nothing is compiled twice.
        .env("CARGO_INCREMENTAL", "0");
    command
}

/// Run one of them, in the order of its own choice; what a failed test printed is shown.
pub fn run_program(
    program: &Path,
    folder: &Path,
    arch: &str,
    through: &Through,
    gpu_only: bool,
    filters: &[String],
    outcomes: &mut BTreeMap<bool, Outcome>,
) -> Result<()> {
    let name = program
        .file_name()
        .context("a program has a name")?
        .to_string_lossy();
    let list = cargo::output(
        Command::new(program)
            .args(["--list", "--format", "terse"])
            .args(filters),
    )?;
    let tests = list.lines().filter_map(|line| line.strip_suffix(": test"));
    let tests: Vec<&str> = tests.filter(|test| !gpu_only || uses_gpu(test)).collect();
    if tests.is_empty() {
        return Ok(());
    }
    let output = through
        .command(program, arch)
        .arg("--exact")
        .args(&tests)
        .current_dir(folder)
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut seen = 0;
    for line in text.lines() {
        let Some((test, result)) = line
            .strip_prefix("test ")
            .and_then(|line| line.rsplit_once(" ... "))
        else {
            continue;
        };
        // A test that must panic has a note behind its name.
        let test = test.split(" - ").next().unwrap_or(test);
        let outcome = outcomes.entry(uses_gpu(test)).or_default();
        match result {
            "ok" => outcome.passed += 1,
            result if result.starts_with("ignored") => outcome.ignored += 1,
            _ => outcome.failed.push(format!("{name} {test}")),
        }
        seen += 1;
    }
    if !output.status.success() {
        eprintln!("{text}{}", String::from_utf8_lossy(&output.stderr));
    }
    if seen != tests.len() {
        // The process ended before all tests had: the missing ones failed.
        let outcome = outcomes.entry(true).or_default();
        outcome.failed.push(format!(
            "{name}: {seen} of {} tests reported, {}",
            tests.len(),
            output.status
        ));
    }
    eprintln!("  {name}: {seen} tests");
    Ok(())
}
