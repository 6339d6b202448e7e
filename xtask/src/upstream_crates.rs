//! `cargo xtask upstream-crates`: published crates that bring CUDA kernels of their own, or models, unmodified: their
//! own tests, an example, and programs of ours that use them (`tests/published/`). And the README's recipes, built.
//!
//! Their build scripts call an `nvcc`, which is ours, or cudaforge and bindgen_cuda, which are patched; what they link
//! launches through the runtime, and reaches the emulator as it would reach a GPU: through `libamdhip64.so`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{ensure, Context, Result};
use rocm_toolchain::variables;

use crate::cargo;
use crate::conformance::{self, Outcome, Through};
use crate::emulated::ARCHITECTURES;
use crate::nvcc;
use crate::published;
use crate::recipes;
use crate::setup::ensure_toolchain;

/// What is run.
struct Row {
    /// The published package, or the folder of the program.
    name: &'static str,
    /// On Candle 0.10, and its second candle-kernels.
    older: bool,
    /// Of the GPUs that are asked for, those that it runs on: compiling many kernels for one takes minutes.
    archs: &'static [&'static str],
    run: Run,
}

/// What of it.
enum Run {
    /// All tests of this version of the package, so many.
    Tests(&'static str, usize),
    /// This version's example of this name: the numbers that it prints, beside those of `--cpu`.
    Example(&'static str, &'static str),
    /// Programs of ours, which compare with the CPU by themselves, and the files that they are told of.
    Programs(&'static [(&'static str, &'static [Input])]),
}

/// A file or folder that a program reads.
enum Input {
    /// No file, but what it is told.
    Word(&'static str),
    /// Of the project.
    Ours(&'static str),
    /// A model of the project in this format of GGUF.
    Gguf(&'static str, &'static str),
}

/// Those that are run.
const ROWS: [Row; 4] = [
    // Calls nvcc for an object and a library, and links cudart.
    Row {
        name: "candle-index-select-cu",
        older: false,
        archs: &ARCHITECTURES,
        run: Run::Tests("0.0.1", 21),
    },
    // Its build script compiles this example's kernel by cudaforge, for whichever example is built.
    Row {
        name: "candle-examples",
        older: false,
        archs: &ARCHITECTURES,
        run: Run::Example("0.11.1", "custom-ops"),
    },
    // fastembed 7.5.0 and candle-mi 0.2.2.
    Row {
        name: "models",
        older: false,
        archs: &ARCHITECTURES,
        run: Run::Programs(&[
            (
                "fastembed",
                &[Input::Ours("models/llama-stories/tokenizer.json")],
            ),
            ("candle-mi", &[]),
        ]),
    },
    // mistral.rs 0.8.1, with mistralrs-quant, mistralrs-paged-attn and mistralrs-core: 46 files of kernels.
    Row {
        name: "mistralrs",
        older: true,
        archs: &["gfx942", "gfx1100"],
        run: Run::Programs(&[
            (MISTRALRS, &[Input::Ours(STORIES)]),
            (MISTRALRS, &[Input::Word("--paged"), Input::Ours(STORIES)]),
            (
                MISTRALRS,
                &[Input::Ours(STORIES), Input::Gguf(STORIES, "q4_0")],
            ),
        ]),
    },
];

const MISTRALRS: &str = "published-mistralrs";
const STORIES: &str = "models/llama-stories";

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
    /// Where nvcc is.
    toolkit: PathBuf,
    through: Through,
}

impl Site {
    fn new() -> Result<Self> {
        Ok(Self {
            toolkit: nvcc::lay_out(&cargo::target_folder().join("nvcc"))?,
            through: Through::ours()?,
        })
    }

    /// A cargo command that builds in `folder` for these GPUs.
    fn build(&self, row: &Row, kind: &[&str], folder: &Path, archs: &[&String]) -> Result<Command> {
        let mut replaced = match row.older {
            true => published::replaced_for_older()?,
            false => published::replaced()?,
        };
        replaced.extend(published::replaced_builders()?);
        let target = cargo::target_folder().join("upstream-crates");
        let mut command = conformance::cargo_command(kind, &replaced, &target);
        if row.archs.len() < ARCHITECTURES.len() {
            let targets: Vec<&str> = archs.iter().map(|arch| compiled_for(arch)).collect();
            command.env(variables::ARCHS, targets.join(","));
        }
        command
            .env("PATH", self.search()?)
            .envs(nvcc::variables(&self.toolkit))
            // What `-lcudart` finds, as where CUDA is installed for all.
            .env("LIBRARY_PATH", self.toolkit.join("lib64"))
            .current_dir(folder);
        Ok(command)
    }

    /// Where programs are found.
    fn search(&self) -> Result<OsString> {
        let mut search = vec![self.toolkit.join("bin")];
        let path = std::env::var_os("PATH").unwrap_or_default();
        search.extend(std::env::split_paths(&path));
        Ok(std::env::join_paths(&search)?)
    }
}

/// Fetches the crates, builds what is run of them, runs it on each GPU, prints the table. An error if something fails
/// or is missing.
pub fn run(args: &Args) -> Result<()> {
    let recipes = recipes::NAME.contains(&args.only);
    if recipes {
        recipes::check()?;
    }
    let rows: Vec<&Row> = ROWS
        .iter()
        .filter(|row| row.name.contains(&args.only))
        .collect();
    if rows.is_empty() {
        ensure!(recipes, "nothing here is so named");
        return Ok(());
    }
    ensure_toolchain()?;
    let site = Site::new()?;
    let mut report = Vec::new();
    for row in rows {
        let archs = args.arch.iter();
        let archs: Vec<&String> = archs
            .filter(|arch| row.archs.contains(&arch.as_str()))
            .collect();
        if archs.is_empty() {
            eprintln!("\n{}: runs on {} alone", row.name, row.archs.join(", "));
            continue;
        }
        match row.run {
            Run::Tests(version, count) => {
                let folder = published::copy_of(row.name, version)?;
                for (arch, outcome) in tests(&site, row, &folder, count, &archs)? {
                    report.push((row.name, arch, outcome, Outcome::default()));
                }
            }
            Run::Example(version, example) => {
                let folder = published::copy_of(row.name, version)?;
                let kind = ["build", "--features", "cuda", "--example", example];
                let built = cargo::build(&mut site.build(row, &kind, &folder, &archs)?)?;
                let (_, program) = built.first().context("cargo built no example")?;
                for arch in archs {
                    compare(&site.through, program, arch)
                        .with_context(|| format!("{example} on {arch}"))?;
                }
            }
            Run::Programs(programs) => {
                let folder = published::program(row.name)?;
                let mut command = site.build(row, &["build", "--bins"], &folder, &archs)?;
                let built = cargo::build(&mut command)?;
                let built: BTreeMap<String, PathBuf> = built.into_iter().collect();
                for (name, inputs) in programs {
                    let program = built.get(*name).with_context(|| format!("no {name}"))?;
                    let inputs = inputs.iter().map(Input::path);
                    let inputs = inputs.collect::<Result<Vec<_>>>()?;
                    for arch in &archs {
                        eprintln!("\n{name} on {arch}");
                        let mut command = site.through.command(program, arch);
                        // Some ask `nvidia-smi` what the GPU can.
                        cargo::run_timed(command.args(&inputs).env("PATH", site.search()?))?;
                    }
                }
            }
        }
    }
    if report.is_empty() {
        return Ok(());
    }
    conformance::print(&report)
}

impl Input {
    /// Where it is; made, if need be.
    fn path(&self) -> Result<PathBuf> {
        match self {
            Self::Word(word) => Ok(PathBuf::from(word)),
            Self::Ours(path) => Ok(cargo::root().join(path).canonicalize()?),
            Self::Gguf(model, format) => {
                let file = format!("{}-{format}.gguf", model.replace('/', "-"));
                let file = cargo::target_folder().join("published").join(file);
                let mut command = cargo::cargo(&["run", "--quiet", "--profile", "quick"]);
                command
                    .args(["--package", "candle-rocm-examples", "--bin", "gguf-convert"])
                    .args(["--", "--model", model, "--to", format, "--out"]);
                cargo::run(command.arg(&file))?;
                Ok(file)
            }
        }
    }
}

/// The default target whose code the GPU runs: our own kernels are in the cache for that.
fn compiled_for(arch: &str) -> &str {
    match arch {
        "gfx1030" => "gfx10-3-generic",
        "gfx1100" => "gfx11-generic",
        "gfx1201" => "gfx12-generic",
        own => own,
    }
}

/// Runs a package's tests on each GPU.
fn tests<'a>(
    site: &Site,
    row: &Row,
    folder: &Path,
    count: usize,
    archs: &[&'a String],
) -> Result<Vec<(&'a String, Outcome)>> {
    let name = row.name;
    let kind = ["test", "--lib", "--tests", "--no-run"];
    let programs = test_programs(&mut site.build(row, &kind, folder, archs)?)?;
    let mut all = Vec::new();
    for &arch in archs {
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
