//! `cargo xtask nvidia`: the same stack on an NVIDIA GPU, beside Candle's own CUDA backend.
//!
//! Builds the programs, puts them into a folder with `run.sh`, and runs that. With `--build-only` the folder can be taken
//! to a machine that has a GPU and no cargo.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, ensure, Context, Result};
use clap::ValueEnum;
use rocm_toolchain::nvidia as cuda;

use crate::cargo::{self, cargo};
use crate::setup::ensure_toolchain;

/// What runs on the machine with the GPU.
const SCRIPT: &str = include_str!("nvidia.sh");

/// What to run.
#[derive(clap::Args)]
pub struct Args {
    /// Which parts.
    #[arg(value_enum, default_values_t = [Part::All])]
    parts: Vec<Part>,
    /// Build, and put the programs and `run.sh` into this folder, to be run on a machine with a GPU and without cargo.
    #[arg(long, value_name = "FOLDER")]
    build_only: Option<PathBuf>,
    /// The GPU's architecture, such as sm_90. Default: that of this machine's GPU.
    #[arg(long)]
    arch: Option<String>,
}

/// A part of the run.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Everything below.
    All,
    /// The operator matrix, stress and training tests, and those of the runtime and the backend.
    Tests,
    /// Small CUDA programs as NVIDIA's compilers have them, and C++ that launches its own kernels, on our runtime.
    Programs,
    /// NVIDIA's memory and race checkers over the operator matrix.
    Sanitize,
    /// Every operator beside stock Candle's CUDA backend, case by case.
    Parity,
    /// Kernels, host cost and models beside stock Candle and PyTorch.
    Bench,
    /// candle-rocm-card, in a minute: results, graphs, streams, memory, what the GPU can do and how fast operators are.
    Card,
}

impl Part {
    /// Its name on `run.sh`'s command line.
    fn name(self) -> String {
        let value = self.to_possible_value().expect("no value is skipped");
        value.get_name().to_owned()
    }

    fn includes(self, part: Self) -> bool {
        self == part || self == Self::All
    }
}

/// Whose Candle a program is built on.
#[derive(Clone, Copy, PartialEq)]
enum Candle {
    /// Our own.
    Ours,
    /// Stock Candle with its CUDA backend: the workspace in `stock/`.
    Stock,
}

/// A program that the run needs.
struct Program {
    parts: &'static [Part],
    candle: Candle,
    package: &'static str,
    /// The cargo target, and whether it is a test or a program.
    target: &'static str,
    is_test: bool,
    /// Feature `nvidia` of the package.
    nvidia: bool,
    /// Feature `cudnn` of the package: of ours our convolutions, of stock Candle's cuDNN.
    cudnn: bool,
    /// Its file in the folder.
    file: &'static str,
}

const fn test(package: &'static str, target: &'static str, file: &'static str) -> Program {
    Program {
        parts: &[Part::Tests],
        candle: Candle::Ours,
        package,
        target,
        is_test: true,
        nvidia: true,
        cudnn: false,
        file,
    }
}

const fn program(
    part: &'static [Part],
    candle: Candle,
    package: &'static str,
    target: &'static str,
    file: &'static str,
) -> Program {
    Program {
        parts: part,
        candle,
        package,
        target,
        is_test: false,
        nvidia: matches!(candle, Candle::Ours),
        cudnn: false,
        file,
    }
}

const fn cuda_program(package: &'static str, target: &'static str, file: &'static str) -> Program {
    Program {
        parts: &[Part::Programs],
        ..test(package, target, file)
    }
}

const fn with_cudnn(program: Program, file: &'static str) -> Program {
    Program {
        cudnn: true,
        file,
        ..program
    }
}

const OUR_WORKER: Program = program(
    &[Part::Bench],
    Candle::Ours,
    "candle-rocm-bench-worker",
    "candle-rocm-bench-worker",
    "candle-rocm-bench-worker",
);

const STOCK_WORKER: Program = program(
    &[Part::Bench],
    Candle::Stock,
    "stock-bench-worker",
    "stock-bench-worker",
    "stock-bench-worker",
);

const PROGRAMS: [Program; 29] = [
    Program {
        parts: &[Part::Tests, Part::Sanitize],
        ..test("candle-rocm-tests", "op_matrix", "tests/op_matrix")
    },
    Program {
        parts: &[Part::Tests, Part::Sanitize],
        ..test("candle-rocm-tests", "stress", "tests/stress")
    },
    test("candle-rocm-tests", "training", "tests/training"),
    test("candle-rocm-backend", "tensors", "tests/tensors"),
    test("candle-rocm-backend", "moe", "tests/moe"),
    test("candle-rocm-backend", "kv_cache", "tests/kv_cache"),
    test("candle-rocm-backend", "attention", "tests/attention"),
    test(
        "candle-rocm-backend",
        "normed_linear",
        "tests/normed_linear",
    ),
    test(
        "candle-rocm-backend",
        "quantized_vectors",
        "tests/quantized_vectors",
    ),
    test("candle-rocm-backend", "fp8", "tests/fp8"),
    test("candle-rocm-backend", "grouped", "tests/grouped"),
    test("candle-rocm-backend", "experts", "tests/experts"),
    test("candle-rocm-backend", "fused_operators", "tests/fused"),
    test("candle-rocm-backend", "split_rows", "tests/split_rows"),
    test(
        "candle-rocm-backend",
        "quantized_products",
        "tests/quantized_products",
    ),
    test("candle-rocm-runtime", "gemm", "tests/gemm"),
    cuda_program("candle-rocm-runtime", "programs", "programs/programs"),
    cuda_program("candle-rocm-runtime", "nvrtc", "programs/nvrtc"),
    cuda_program("candle-rocm-linked", "launches", "programs/launches"),
    cuda_program(
        "candle-rocm-linked",
        "whole_arrays",
        "programs/whole_arrays",
    ),
    program(
        &[Part::Parity],
        Candle::Ours,
        "candle-rocm-parity",
        "parity",
        "parity",
    ),
    program(
        &[Part::Parity],
        Candle::Stock,
        "stock-parity",
        "parity",
        "stock-parity",
    ),
    Program {
        // The driver has no GPU of its own.
        nvidia: false,
        ..program(
            &[Part::Bench],
            Candle::Ours,
            "candle-rocm-benches",
            "compare",
            "compare",
        )
    },
    OUR_WORKER,
    with_cudnn(OUR_WORKER, "candle-rocm-bench-worker-cudnn"),
    program(
        &[Part::Bench],
        Candle::Ours,
        "candle-rocm-gpu-mm",
        "gpu_mm",
        "gpu_mm",
    ),
    STOCK_WORKER,
    with_cudnn(STOCK_WORKER, "stock-bench-worker-cudnn"),
    program(
        &[Part::Card],
        Candle::Ours,
        "candle-rocm-card",
        "candle-rocm-card",
        "candle-rocm-card",
    ),
];

/// Build, collect, and run unless only the build was asked for.
pub fn run(args: &Args) -> Result<()> {
    let wanted = |part: Part| args.parts.iter().any(|chosen| chosen.includes(part));
    let arch = architecture(args)?;
    check_tools(&arch, args.build_only.is_none(), wanted)?;
    ensure_toolchain()?;
    let folder = match &args.build_only {
        Some(folder) => std::env::current_dir()?.join(folder),
        None => cargo::target_folder().join("nvidia"),
    };
    let cudnn = library("libcudnn.so");
    for program in &PROGRAMS {
        if !program.parts.iter().any(|part| wanted(*part)) {
            continue;
        }
        if let (Candle::Stock, true, Err(error)) = (program.candle, program.cudnn, &cudnn) {
            eprintln!("\n{} is left out: {error}", program.file);
            continue;
        }
        let built = build(program, &arch)
            .with_context(|| format!("building {} of {}", program.target, program.package))?;
        collect(&built, &folder.join(program.file))?;
    }
    let script = folder.join("run.sh");
    fs::write(&script, SCRIPT).with_context(|| format!("writing {}", script.display()))?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    if args.build_only.is_some() {
        eprintln!(
            "\nTake {} to a machine with an NVIDIA GPU ({arch}) and run run.sh there.",
            folder.display()
        );
        return Ok(());
    }
    cargo::run(Command::new(script).args(args.parts.iter().map(|part| part.name())))
}

/// That of the command line, or of this machine's GPU: compute capability 9.0 is sm_90.
fn architecture(args: &Args) -> Result<String> {
    if let Some(arch) = &args.arch {
        ensure!(
            cuda::is_nvidia(arch),
            "--arch {arch}: an NVIDIA architecture is expected, such as sm_90"
        );
        return Ok(arch.clone());
    }
    let query = ["--query-gpu=compute_cap", "--format=csv,noheader"];
    let output = Command::new("nvidia-smi").args(query).output();
    let text = match output {
        Ok(output) if output.status.success() => String::from_utf8(output.stdout)?,
        _ => bail!(
            "no NVIDIA GPU here: nvidia-smi is missing or reports an error. To build for another machine: cargo xtask \
             nvidia --arch sm_90 --build-only FOLDER"
        ),
    };
    let capability = text.lines().next().context("nvidia-smi lists no GPU")?;
    Ok(format!("sm_{}", capability.trim().replace('.', "")))
}

/// What the build, and the run if there is one, need of the CUDA toolkit; an error that lists all that is missing.
fn check_tools(arch: &str, runs: bool, wanted: impl Fn(Part) -> bool) -> Result<()> {
    let mut missing = Vec::new();
    let mut tool = |what: &str, why: &str, found: Result<PathBuf, String>| match found {
        Ok(path) => eprintln!("{what}: {}", path.display()),
        Err(error) => missing.push(format!("{what}, {why}: {error}")),
    };
    let libdevice = cuda::libdevice().map_err(|error| error.to_string());
    tool("libdevice", "which our kernels link", libdevice);
    if wanted(Part::Programs) {
        let nvcc = cuda::nvcc().ok_or(
            "not found; install the CUDA toolkit, or set CUDA_HOME to where it is, or leave out programs"
                .to_owned(),
        );
        tool("nvcc", "which compiles CUDA as NVIDIA has it", nvcc);
    }
    if wanted(Part::Parity) || wanted(Part::Bench) {
        let nvcc = which::which("nvcc").map_err(|_| {
            "not on the PATH; install the CUDA toolkit, or leave out parity and bench".to_owned()
        });
        tool("nvcc", "which compiles stock Candle", nvcc);
        tool(
            "libcuda.so",
            "which stock Candle's programs are linked with",
            library("libcuda.so").map_err(|error| {
                format!("{error}; install NVIDIA's driver or the toolkit, or leave out parity and bench")
            }),
        );
        let workspace = stock_folder();
        let found = workspace.join("Cargo.toml").is_file();
        tool(
            "stock Candle's programs",
            "to compare with",
            found
                .then(|| workspace.clone())
                .ok_or(format!("{} has no Cargo.toml", workspace.display())),
        );
    }
    if runs && wanted(Part::Sanitize) {
        let found = which::which("compute-sanitizer")
            .or_else(|_| which::which("/usr/local/cuda/bin/compute-sanitizer"))
            .map_err(|_| "not on the PATH; it is part of the CUDA toolkit".to_owned());
        tool("compute-sanitizer", "which checks memory and races", found);
    }
    ensure!(
        missing.is_empty(),
        "for {arch} this machine lacks:\n  {}",
        missing.join("\n  ")
    );
    Ok(())
}

/// A library that stock Candle is linked with: the system's, the toolkit's, or its stand-in for the driver's, which is
/// enough to link.
fn library(name: &str) -> Result<PathBuf, String> {
    let toolkit = cuda::toolkit().map(|toolkit| toolkit.join("lib64"));
    let stubs = toolkit.iter().map(|lib| lib.join("stubs"));
    let system = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
    ];
    let searched = std::env::var_os("LIBRARY_PATH").unwrap_or_default();
    let folders = system.iter().map(PathBuf::from);
    let mut found = folders
        .chain(std::env::split_paths(&searched))
        .chain(toolkit.iter().cloned())
        .chain(stubs)
        .map(|folder| folder.join(name));
    found.find(|path| path.is_file()).ok_or_else(|| {
        format!("{name} is not in the system's folders, LIBRARY_PATH, or lib64 and lib64/stubs of the CUDA toolkit")
    })
}

fn stock_folder() -> PathBuf {
    cargo::root().join("stock")
}

/// The path of a program's file, as cargo reports it.
fn build(program: &Program, arch: &str) -> Result<PathBuf> {
    let mut command = cargo(&[if program.is_test { "test" } else { "build" }]);
    command.args(["--package", program.package]);
    if program.is_test {
        // Tests check more than release builds do; the kernels are the same.
        command.args(["--no-run", "--test", program.target]);
    } else {
        command.args(["--release", "--bin", program.target]);
    }
    for (is_on, feature) in [(program.nvidia, "nvidia"), (program.cudnn, "cudnn")] {
        if is_on {
            command.args(["--features", feature]);
        }
    }
    match program.candle {
        Candle::Ours => command.env("CANDLE_ROCM_ARCHS", arch),
        Candle::Stock => command
            .current_dir(stock_folder())
            .env("CUDA_COMPUTE_CAP", arch.trim_start_matches("sm_"))
            .env("CARGO_TARGET_DIR", cargo::target_folder().join("stock")),
    };
    eprintln!("\nbuilding {} of {}", program.target, program.package);
    let programs = cargo::build(&mut command)?;
    let found = programs
        .into_iter()
        .find(|(name, _)| name == program.target);
    found.map(|(_, file)| file).context("cargo named no file")
}

/// Copies a program without what only a debugger reads.
fn collect(from: &Path, to: &Path) -> Result<()> {
    let folder = to.parent().context("a file in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    fs::copy(from, to)
        .with_context(|| format!("copying {} to {}", from.display(), to.display()))?;
    if which::which("strip").is_ok() {
        cargo::run_quietly(Command::new("strip").arg(to))?;
    }
    Ok(())
}
