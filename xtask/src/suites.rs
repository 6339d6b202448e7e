//! The workspace's tests: built all at once, so that no crate is compiled twice for other features, and run in parts. All
//! note the kernels that run.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use anyhow::{bail, ensure, Context, Result};
use serde_json::Value;

use crate::cargo::{self, cargo};
use crate::conformance::Through;
use crate::executed;
use crate::jobs::{self, Ended, Job};
use crate::packages::{self, Package, Tests};
use crate::spent::Spent;

/// What is built: everything, with the GPU's backend.
pub const EVERYTHING: [&str; 3] = ["--workspace", "--features", "candle-rocm-examples/rocm"];

/// Names the emulator as a `libamdhip64.so` for tests, which build it otherwise.
const HIP_LIBRARY: &str = "CANDLE_ROCM_TESTS_HIP_LIBRARY";

/// Packages and programs of tests that run with the memory pool on, too.
const POOLED: [(&str, &str); 5] = [
    ("candle-rocm-runtime", "buffers"),
    ("candle-rocm-runtime", "graphs"),
    ("candle-rocm-runtime", "streams"),
    ("candle-rocm-tests", "stress"),
    ("candle-rocm-tests", "training"),
];

/// A program of tests.
#[derive(Debug)]
struct Program {
    package: String,
    /// Cargo's name of the target: a file of tests, a crate or a binary.
    target: String,
    file: PathBuf,
    /// The package's folder, where its tests run.
    folder: PathBuf,
    tests: Tests,
    /// What the names of tests have for which one GPU is enough.
    of_one_device: Vec<String>,
}

/// The workspace's tests, built.
pub struct Suites {
    programs: Vec<Program>,
    /// `coverage` of candle-rocm-tests, which reads the note of what ran.
    coverage: PathBuf,
    /// What failed so far.
    failed: RefCell<Vec<String>>,
    /// Variables that all tests get, beside those that name the GPU.
    environment: RefCell<Vec<(&'static str, String)>>,
    /// How long each program took.
    spent: Rc<Spent>,
}

impl Suites {
    /// Builds all tests, whose times `spent` gets.
    pub fn build(spent: &Rc<Spent>) -> Result<Self> {
        let packages = packages::all()?;
        let messages = cargo::messages(cargo(&["test", "--no-run"]).args(EVERYTHING))?;
        // The emulator's libraries, on which no test depends. Without the tests beside them cargo would choose other features,
        // and compile Candle again.
        cargo::run(cargo(&["build", "--lib", "--tests"]).args(EVERYTHING))?;
        let mut programs = Vec::new();
        let mut coverage = None;
        for message in &messages {
            let Some(file) = message["executable"].as_str() else {
                continue;
            };
            if message["profile"]["test"] == true {
                programs.push(program(message, Path::new(file), &packages)?);
            } else if message["target"]["name"] == "coverage" {
                coverage = Some(PathBuf::from(file));
            }
        }
        for package in &packages {
            let has_tests = programs
                .iter()
                .any(|program| program.package == package.name);
            ensure!(has_tests, "cargo built no tests of {}", package.name);
        }
        Ok(Self {
            programs,
            coverage: coverage.context("cargo built no program `coverage`")?,
            failed: RefCell::default(),
            environment: RefCell::default(),
            spent: spent.clone(),
        })
    }

    /// Those of the packages whose tests run once, and the examples in the documentation of all.
    pub fn once(&self, arch: &str) -> Result<()> {
        self.run(None, |program| program.tests == Tests::Once)?;
        let mut examples = cargo(&["test", "--doc"]);
        emulating(arch, examples.args(EVERYTHING));
        cargo::run(&mut examples)
    }

    /// Those that run on each emulated GPU, on this one; with those for which one is enough, if this is it.
    pub fn on(&self, arch: &str, is_the_one: bool) -> Result<()> {
        let chosen = self.programs.iter().filter(|program| {
            program.tests == Tests::PerDevice || is_the_one && program.tests == Tests::OneDevice
        });
        let job = |program: &Program| {
            let left_out = match is_the_one {
                true => &[][..],
                false => &program.of_one_device,
            };
            let left_out = left_out.iter().flat_map(|part| ["--skip", part]);
            self.job(program, Some(arch), &left_out.collect::<Vec<_>>())
        };
        self.run_jobs(chosen.map(job).collect())
    }

    /// Those of the kernels, which run on all emulated GPUs by themselves.
    pub fn kernels(&self) -> Result<()> {
        self.run(None, |program| {
            program.package == "candle-rocm-kernels" && program.target == "execution"
        })
    }

    /// A few of those of the kernels: the tests whose names begin so.
    pub fn some_kernels(&self, names: &[&str]) -> Result<()> {
        let execution = |program: &Program| {
            program.package == "candle-rocm-kernels" && program.target == "execution"
        };
        self.run_with(None, names, execution)
    }

    /// Those of the operator matrix, on this GPU.
    pub fn operators(&self, arch: &str) -> Result<()> {
        self.run(Some(arch), |program| {
            program.package == "candle-rocm-tests" && program.target == "op_matrix"
        })
    }

    /// Those of kernels whose workgroups finish what others of the launch began, on this GPU.
    pub fn handovers(&self, arch: &str) -> Result<()> {
        self.run(Some(arch), |program| {
            program.package == "candle-rocm-backend"
                && ["kv_cache", "normed_linear", "quantized_vectors"]
                    .contains(&program.target.as_str())
        })
    }

    /// Those of products whose parts of k are handed over, on this GPU: the tests with `parts` in their names.
    pub fn parts(&self, arch: &str) -> Result<()> {
        self.run_with(Some(arch), &["parts"], |program| {
            program.package == "candle-rocm-runtime" && program.target == "gemm"
        })
    }

    /// Those of streams, graphs and many threads with the memory pool on, which on emulated GPUs is off, on this one.
    pub fn pooled(&self, arch: &str) -> Result<()> {
        self.set_environment(vec![("CANDLE_ROCM_POOL", "1".to_owned())]);
        let ran = self.run(Some(arch), |program| {
            POOLED.contains(&(program.package.as_str(), program.target.as_str()))
        });
        self.set_environment(Vec::new());
        ran
    }

    /// Those of FP8, grouped products and mixtures of experts, on this GPU.
    pub fn grouped(&self, arch: &str) -> Result<()> {
        self.run(Some(arch), |program| {
            program.package == "candle-rocm-backend"
                && ["fp8", "grouped", "experts"].contains(&program.target.as_str())
        })
    }

    /// Run what follows with these variables, and none of earlier calls.
    pub fn set_environment(&self, environment: Vec<(&'static str, String)>) {
        self.environment.replace(environment);
    }

    /// Those of the runtime's own kernels, matrix products and random numbers, on this one.
    pub fn products(&self, arch: &str) -> Result<()> {
        self.run(Some(arch), |program| {
            program.package == "candle-rocm-runtime"
                && ["gemm", "random"].contains(&program.target.as_str())
        })
    }

    /// An error that names the programs that failed, if any did.
    pub fn passed(&self) -> Result<()> {
        match self.failed.borrow().as_slice() {
            [] => Ok(()),
            failed => bail!("tests failed:\n{}", failed.join("\n")),
        }
    }

    /// Print which kernels ran; an error if one did not on one of `archs`.
    pub fn report(&self, archs: &[String]) -> Result<()> {
        cargo::run(
            Command::new(&self.coverage)
                .arg(executed::file())
                .args(archs),
        )
    }

    /// Runs what is `chosen`, and notes what fails, for [`Suites::passed`]: one run shows all that is wrong.
    fn run(&self, arch: Option<&str>, chosen: impl Fn(&Program) -> bool) -> Result<()> {
        self.run_with(arch, &[], chosen)
    }

    /// Runs what is `chosen` with `arguments` for each program.
    fn run_with(
        &self,
        arch: Option<&str>,
        arguments: &[&str],
        chosen: impl Fn(&Program) -> bool,
    ) -> Result<()> {
        let chosen = self.programs.iter().filter(|program| chosen(program));
        let job = |program| self.job(program, arch, arguments);
        self.run_jobs(chosen.map(job).collect())
    }

    fn run_jobs(&self, jobs: Vec<Job>) -> Result<()> {
        ensure!(!jobs.is_empty(), "no tests were chosen");
        jobs::run(jobs, |ended| {
            let Ended {
                name,
                took,
                printed,
                result,
            } = ended;
            eprintln!("\n{name}\n{printed}  done in {:.0} s", took.as_secs_f32());
            self.spent.program(&name, took);
            if let Err(error) = result {
                eprintln!("{error:#}");
                self.failed.borrow_mut().push(name);
            }
        })
    }

    fn job(&self, program: &Program, arch: Option<&str>, arguments: &[&str]) -> Job {
        let mut command = Command::new(&program.file);
        command
            .current_dir(&program.folder)
            .args(arguments)
            .envs(self.environment.borrow().iter().cloned())
            .env(executed::VARIABLE, executed::file())
            .env(HIP_LIBRARY, Through::built().library);
        if let Some(arch) = arch {
            emulating(arch, &mut command);
        }
        let on = arch.map_or_else(String::new, |arch| format!(" on {arch}"));
        Job {
            name: format!("{}: {}{on}", program.package, program.target),
            command,
        }
    }
}

/// The program of tests of which cargo's message tells.
fn program(message: &Value, file: &Path, packages: &[Package]) -> Result<Program> {
    let target = message["target"]["name"].as_str();
    let target = target.context("a target without a name")?;
    let manifest = message["manifest_path"].as_str().map(Path::new);
    let folder = manifest.and_then(Path::parent);
    let folder = folder.with_context(|| format!("{target}: cargo names no manifest"))?;
    let package = packages.iter().find(|package| package.folder == folder);
    let package = package.with_context(|| format!("{target}: of no package of the workspace"))?;
    Ok(Program {
        package: package.name.clone(),
        target: target.to_owned(),
        file: file.to_owned(),
        folder: folder.to_owned(),
        tests: package.tests_of(target),
        of_one_device: package.tests_of_one_device(target),
    })
}

fn emulating(arch: &str, command: &mut Command) {
    command
        .env("ROCM_EMU_ARCH", arch)
        .env("CANDLE_ROCM_RUNTIME", "emulator");
}
