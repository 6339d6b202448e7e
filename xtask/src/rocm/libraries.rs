//! `cargo xtask rocm --libraries`: AMD's libraries over its own HIP, on the emulated GPUs, beside ours.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::counts;
use super::packages::LIBRARIES;
use super::parts::Parts;
use super::programs::{Programs, Runner};
use super::root::Root;
use crate::cargo::{self, cargo};

/// A test program of the runtime's that runs with a library of AMD's.
struct Run {
    /// The program, and what it is given.
    program: &'static str,
    arguments: &'static [&'static str],
    /// Set while it runs.
    variables: &'static [(&'static str, &'static str)],
    /// Names the library to it.
    variable: &'static str,
    library: &'static str,
}

/// All tests of a program, which show what they computed.
const ALL: &[&str] = &["--include-ignored", "--nocapture", "--test-threads=1"];

/// rocBLAS multiplies 200 drawn cases of each type and precision (shapes, transposes, strides, factors, places,
/// epilogues), and our kernels the same numbers; rocRAND's generators write what their host forms and papers say; hiprtc
/// compiles the CUDA source that programs bring as strings; the others' results are held against the host's, and so are
/// cuBLASLt's products over hipBLASLt (where that has no kernels, over rocBLAS, which is found beside it).
const RUNS: [Run; 7] = [
    Run {
        program: "gemm",
        arguments: &[
            "chosen_",
            "--skip",
            "chosen_i8",
            "--nocapture",
            "--test-threads=1",
        ],
        variables: &[("CANDLE_ROCM_GEMM", "library")],
        variable: "CANDLE_ROCM_BLAS_LIBRARY",
        library: "librocblas.so.5",
    },
    Run {
        program: "rocrand",
        arguments: ALL,
        variables: &[],
        variable: "CANDLE_ROCM_TEST_ROCRAND",
        library: "librocrand.so.1",
    },
    Run {
        program: "compiled",
        arguments: &["--test-threads=1"],
        variables: &[("CANDLE_ROCM_CUDA_COMPILER", "hiprtc")],
        variable: "CANDLE_ROCM_HIPRTC_LIBRARY",
        library: "libhiprtc.so.7",
    },
    Run {
        program: "hiprtc",
        arguments: ALL,
        variables: &[],
        variable: "CANDLE_ROCM_TEST_HIPRTC",
        library: "libhiprtc.so.7",
    },
    Run {
        program: "rocsparse",
        arguments: ALL,
        variables: &[],
        variable: "CANDLE_ROCM_TEST_ROCSPARSE",
        library: "librocsparse.so.1",
    },
    Run {
        program: "hipblaslt",
        arguments: ALL,
        variables: &[],
        variable: "CANDLE_ROCM_TEST_HIPBLASLT",
        library: "libhipblaslt.so.1",
    },
    Run {
        program: "blas_lt",
        arguments: &["amds_hipblaslt", "--ignored", "--nocapture"],
        variables: &[("CANDLE_ROCM_GEMM", "library")],
        variable: "CANDLE_ROCM_BLASLT_LIBRARY",
        library: "libhipblaslt.so.1",
    },
];

/// The example that calls rocFFT through the crate rocm-rs, and the package it is of.
const FFT: (&str, &str) = ("candle-rocm-backend", "rocfft");

/// All of them on one GPU.
pub fn run(
    root: &Root,
    programs: &Programs,
    runner: &Runner,
    arch: &str,
    parts: &mut Parts,
) -> Result<()> {
    for run in &RUNS {
        let mut command = programs.test(runner, run.program, arch)?;
        command
            .args(run.arguments)
            .envs(run.variables.iter().copied())
            .env(run.variable, root.libraries(&LIBRARIES).join(run.library));
        let part = format!("{}: {} on {arch}", run.library, run.program);
        parts.run(&part, || cargo::run_quietly(&mut command));
    }
    if arch == counts::ARCH {
        let part = format!("counts of rocBLAS' kernel and ours on {arch}");
        let library = root.libraries(&LIBRARIES).join(RUNS[0].library);
        parts.run(&part, || counts::run(&library, programs, runner));
        let part = format!("times of rocBLAS' products of LLaMA's layers on {arch}");
        parts.run(&part, || counts::run_layers(&library, programs, runner));
    }
    let fft = build_fft(root)?;
    let part = format!("librocfft.so.0: example {} on {arch}", FFT.1);
    let mut command = runner.through().command(&fft, arch);
    parts.run(&part, || cargo::run_quietly(&mut command));
    Ok(())
}

/// The example, linked to AMD's libraries, whose C library is newer than this machine's.
fn build_fft(root: &Root) -> Result<PathBuf> {
    let (package, example) = FFT;
    let mut command = cargo(&["rustc", "--package", package, "--features", "rocm-rs"]);
    command
        .env(
            "ROCM_PATH",
            root.for_linkers(&LIBRARIES, &["librocfft.so.0"])?,
        )
        .args(["--example", example]);
    // What cargo is asked for comes before what the compiler is.
    command.arg(cargo::MESSAGES);
    command.args(["--", "-C", "link-arg=-Wl,--allow-shlib-undefined"]);
    let programs = cargo::programs(&mut command)?.into_iter();
    let mut files = programs.filter(|(name, _)| name == example);
    let (_, file) = files.next().context("cargo built no example rocfft")?;
    Ok(file)
}
