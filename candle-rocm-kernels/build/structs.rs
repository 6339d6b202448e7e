//! Structs that kernels are told, and parts of them: the headers declare them, and the host's are held to their layouts.

use std::path::Path;

use rocm_toolchain::headers::structs;
use rocm_toolchain::Result;

use crate::save;

/// A header, and those of its structs that are arguments or parts of them.
const STRUCTS: &[(&str, &[&str])] = &[
    ("matmul/gemm_problem.cuh", &["GemmProblem"]),
    (
        "matmul/matmul_problem.cuh",
        &["Divisor", "TileOrder", "MatmulProblem"],
    ),
    (
        "matmul/grouped/problem.cuh",
        &["OperandScales", "GroupedProblem"],
    ),
    (
        "convolution/problem.cuh",
        &["ConvolutionAxis", "ConvolutionProblem"],
    ),
    (
        "dnn/problem.cuh",
        &["DnnDirection", "DnnProblem", "DnnAxis", "DnnPooling"],
    ),
    (
        "attention/problem.cuh",
        &["AttentionTensor", "AttentionProblem"],
    ),
    ("attention/backward.cuh", &["AttentionGradients"]),
    ("attention/decode_problem.cuh", &["AttendProblem"]),
    ("indexing/cat.cuh", &["CatInputs"]),
    ("sparse/sparse.cuh", &["SparseProblem"]),
    ("linalg/linalg.cuh", &["LinalgProblem"]),
    ("fft/fft.cuh", &["FftProblem"]),
    ("losses/problem.cuh", &["CrossEntropyProblem"]),
    (
        "communication/problem.cuh",
        &["CommunicationProblem", "AllReduceProblem"],
    ),
    ("norms/group_norm.cuh", &["GroupNormProblem"]),
    (
        "optimizers/tensors.cuh",
        &["OptimizerTensor", "OptimizerStep"],
    ),
];

/// Writes `arguments.rs` to `out`: a constant for each struct.
///
/// # Errors
/// A header cannot be read, lacks a struct, or has one with something else than fields; or the file cannot be written.
pub fn write(kernels: &Path, out: &Path) -> Result<()> {
    save(&out.join("arguments.rs"), &structs::rust(kernels, STRUCTS)?)
}
