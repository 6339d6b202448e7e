//! `cargo xtask upstream-crates`: published crates that bring CUDA kernels of their own, or models, unmodified: their own
//! tests, an example, and programs of ours that use them (`tests/published/`).
//!
//! Their build scripts call an `nvcc`, which is ours, or cudaforge and bindgen_cuda, which are patched; what they link
//! launches through the runtime, and reaches the emulator as it would reach a GPU: through `libamdhip64.so`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{ensure, Context, Result};

use crate::cargo;
use crate::conformance::{self, Outcome, Through};
use crate::nvcc;
use crate::published;
use crate::setup::ensure_toolchain;
use crate::ARCHITECTURES;

/// What is run.
struct Row {
    /// The published package, or the folder of the program.
    name: &'static str,
    run: Run,
}

/// What of it.
enum Run {
    /// All tests of this version of the package, so many.
    Tests(&'static str, usize),
    /// This version's example of this name: the numbers that it prints, beside those of `--cpu`.
    Example(&'static str, &'static str),
    /// Programs of ours, which compare with the CPU by themselves, and what they are told: files of the project.
    Programs(&'static [(&'static str, &'static [&'static str])]),
}

/// Those that are run.
const ROWS: [Row; 3] = [
    // Calls nvcc for an object and a library, and links cudart.
    Row {
        name: "candle-index-select-cu",
        run: Run::Tests("0.0.1", 21),
    },
    // Its build script compiles this example's kernel by cudaforge, for whichever example is built.
    Row {
        name: "candle-examples",
        run: Run::Example("0.11.1", "custom-ops"),
    },
    // fastembed 7.5.0 and candle-mi 0.2.2.
    Row {
        name: "models",
        run: Run::Programs(&[
            ("fastembed", &["models/llama-stories/tokenizer.json"]),
            ("candle-mi", &[]),
        ]),
    },
];

/// How far an example's number may be from the CPU's: they are printed with four digits after the point.
const TOLERANCE: f64 = 1.5e-4;

/// On which GPUs.
#[derive(clap::Args)]
pub struct Args {
    /// The GPUs to emulate, separated by commas.
    #[arg(long, value_delimiter = ',', default_values = ARCHITECTURES)]
    arch: Vec<String>,
    /// Only those whose names hold this.
    #[arg(long, default_value = "")]
    only: String,
}

/// What their builds find.
struct Site {
    /// The crates in place of published ones.
    replaced: Vec<(&'static str, PathBuf)>,
    /// Where nvcc is.
    toolkit: PathBuf,
    through: Through,
}

impl Site {
    fn new() -> Result<Self> {
        let mut replaced = published::replaced()?;
        replaced.extend(published::replaced_builders()?);
        Ok(Self {
            replaced,
            toolkit: nvcc::lay_out(&cargo::target_folder().join("nvcc"))?,
            through: Through::ours()?,
        })
    }

    /// A cargo command that builds in `folder`.
    fn build(&self, kind: &[&str], folder: &Path) -> Result<Command> {
        let mut search = vec![self.toolkit.join("bin")];
        let path = std::env::var_os("PATH").unwrap_or_default();
        search.extend(std::env::split_paths(&path));
        let target = cargo::target_folder().join("upstream-crates");
        let mut command = conformance::cargo_command(kind, &self.replaced, &target);
        command
            .env("PATH", std::env::join_paths(&search)?)
            .envs(nvcc::variables(&self.toolkit))
            // What `-lcudart` finds, as where CUDA is installed for all.
            .env("LIBRARY_PATH", self.toolkit.join("lib64"))
            .current_dir(folder);
        Ok(command)
    }
}

/// Fetches the crates, builds what is run of them, runs it on each GPU, prints the table. An error if something fails or
/// is missing.
pub fn run(args: &Args) -> Result<()> {
    ensure_toolchain()?;
    let rows: Vec<&Row> = ROWS
        .iter()
        .filter(|row| row.name.contains(&args.only))
        .collect();
    ensure!(!rows.is_empty(), "nothing here is so named");
    let site = Site::new()?;
    let mut report = Vec::new();
    for row in rows {
        match row.run {
            Run::Tests(version, count) => {
                let folder = published::copy_of(row.name, version)?;
                for (arch, outcome) in tests(&site, row.name, &folder, count, &args.arch)? {
                    report.push((row.name, arch, outcome, Outcome::default()));
                }
            }
            Run::Example(version, example) => {
                let folder = published::copy_of(row.name, version)?;
                let kind = ["build", "--features", "cuda", "--example", example];
                let built = cargo::build(&mut site.build(&kind, &folder)?)?;
                let (_, program) = built.first().context("cargo built no example")?;
                for arch in &args.arch {
                    compare(&site.through, program, arch)
                        .with_context(|| format!("{example} on {arch}"))?;
                }
            }
            Run::Programs(programs) => {
                let folder = published::program(row.name)?;
                let built = cargo::build(&mut site.build(&["build", "--bins"], &folder)?)?;
                let built: BTreeMap<String, PathBuf> = built.into_iter().collect();
                for (name, files) in programs {
                    let program = built.get(*name).with_context(|| format!("no {name}"))?;
                    for arch in &args.arch {
                        eprintln!("\n{name} on {arch}");
                        let mut command = site.through.command(program, arch);
                        command.args(files.iter().map(|file| cargo::root().join(file)));
                        cargo::run_quietly(&mut command)?;
                    }
                }
            }
        }
    }
    conformance::print(&report)
}

/// Runs a package's tests on each GPU.
fn tests<'a>(
    site: &Site,
    name: &str,
    folder: &Path,
    count: usize,
    archs: &'a [String],
) -> Result<Vec<(&'a String, Outcome)>> {
    let kind = ["test", "--lib", "--tests", "--no-run"];
    let programs = test_programs(&mut site.build(&kind, folder)?)?;
    let mut all = Vec::new();
    for arch in archs {
        eprintln!("\n{name} on {arch}");
        let mut outcomes: BTreeMap<bool, Outcome> = BTreeMap::new();
        for program in &programs {
            conformance::run_program(
                program,
                folder,
                arch,
                &site.through,
                false,
                &[],
                &mut outcomes,
            )?;
        }
        // All of them use the GPU, whatever their names.
        let outcomes = outcomes.into_values();
        let outcome = outcomes.fold(Outcome::default(), Outcome::and);
        let ran = outcome.ran();
        ensure!(
            ran == count,
            "{name} has {count} tests, of which {ran} ran on {arch}"
        );
        all.push((arch, outcome));
    }
    Ok(all)
}

/// Runs an example on the GPU and by `--cpu`: an error if it prints other numbers.
fn compare(through: &Through, program: &Path, arch: &str) -> Result<()> {
    let gpu = cargo::output(&mut through.command(program, arch))?;
    let cpu = cargo::output(through.command(program, arch).arg("--cpu"))?;
    let worst = apart(&cpu, &gpu)?;
    ensure!(worst <= TOLERANCE, "by {worst:.1e} off the CPU's:\n{gpu}");
    eprintln!("\n{}{arch}: at most {worst:.1e} off the CPU's", gpu);
    Ok(())
}

/// The largest difference of the numbers in two texts, which are the same but for these and the device's name.
fn apart(cpu: &str, gpu: &str) -> Result<f64> {
    let numbers = |text: &str| {
        let words = text.split(|c: char| c.is_whitespace() || "[],".contains(c));
        words
            .filter_map(|word| word.parse().ok())
            .collect::<Vec<f64>>()
    };
    let (cpu, gpu) = (numbers(cpu), numbers(gpu));
    ensure!(!cpu.is_empty(), "it prints no numbers");
    ensure!(
        cpu.len() == gpu.len(),
        "{} numbers, and {} on the CPU",
        gpu.len(),
        cpu.len()
    );
    let all = cpu.iter().chain(&gpu);
    ensure!(all.copied().all(f64::is_finite), "a number is not finite");
    Ok(cpu
        .iter()
        .zip(&gpu)
        .map(|(cpu, gpu)| (cpu - gpu).abs())
        .fold(0.0, f64::max))
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

#[cfg(test)]
mod tests {
    use super::apart;

    #[test]
    fn numbers_in_texts_are_compared() {
        let cpu = "[[0., 1.],\n [2., 3.5]]\nTensor[[2, 2], f32]\n";
        let gpu = "Running\n[[0., 1.],\n [2., 3.25]]\nTensor[[2, 2], f32, cuda:0]\n";
        assert_eq!(apart(cpu, gpu).unwrap(), 0.25);
        assert!(apart(cpu, "[[0., 1.]]").is_err());
        assert!(apart("[1.]", "[NaN]").is_err());
        assert!(apart("nothing", "nothing").is_err());
    }
}
