//! The products and rows that are measured: always the same.

use candle_rocm_runtime::gemm::{GemmDtype, Transpose};

/// What a product stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// n x n by n x n.
    Squares,
    /// One to sixteen tokens through layers of a model of 8 billion parameters.
    Decode,
    /// The same and more layers with every plan and a copy, launched as graphs ([`crate::few`]).
    Few,
    /// Quantised matrices by one to eight vectors, launched as graphs ([`crate::quantized`]).
    Quantized,
    /// A prompt through the same.
    Prefill,
    /// Softmax and normalisations, reduced in two ways.
    Rows,
}

/// A product of column-major matrices that lie close.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Problem {
    /// What it stands for.
    pub group: Group,
    /// Type of the elements.
    pub dtype: GemmDtype,
    /// Rows of C: a layer's outputs.
    pub m: usize,
    /// Columns of C: tokens.
    pub n: usize,
    /// Columns of A: a layer's inputs.
    pub k: usize,
    /// What is done to A and to B.
    pub ops: [Transpose; 2],
}

/// As a linear layer multiplies: inputs lie together in both matrices.
const TN: [Transpose; 2] = [Transpose::Yes, Transpose::No];
const NN: [Transpose; 2] = [Transpose::No, Transpose::No];
const NT: [Transpose; 2] = [Transpose::No, Transpose::Yes];

/// (outputs, inputs) of a layer: attention, and feed-forward of LLaMA 2 7B and of LLaMA 3 8B.
const LAYERS: [[usize; 2]; 3] = [[4096, 4096], [11008, 4096], [14336, 4096]];

/// Every problem, in order.
pub fn all() -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut add = |group, dtype, [m, n, k]: [usize; 3], ops| {
        problems.push(Problem {
            group,
            dtype,
            m,
            n,
            k,
            ops,
        });
    };
    for dtype in GemmDtype::ALL {
        for size in [512, 1024, 2048, 4096, 8192] {
            add(Group::Squares, dtype, [size; 3], TN);
        }
    }
    for dtype in [GemmDtype::F16, GemmDtype::BF16] {
        for ops in [NN, NT] {
            add(Group::Squares, dtype, [4096; 3], ops);
        }
    }
    for dtype in [
        GemmDtype::F16,
        GemmDtype::BF16,
        GemmDtype::F32,
        GemmDtype::I8,
    ] {
        for [outputs, inputs] in LAYERS {
            for tokens in [1, 2, 4, 8, 16] {
                add(Group::Decode, dtype, [outputs, tokens, inputs], TN);
            }
        }
        for [outputs, inputs] in LAYERS {
            for tokens in [128, 512, 2048] {
                add(Group::Prefill, dtype, [outputs, tokens, inputs], TN);
            }
        }
    }
    problems
}

/// Small and odd ones, of which each element is checked.
pub fn small() -> Vec<Problem> {
    let mut problems = Vec::new();
    for dtype in GemmDtype::ALL {
        for [m, n, k] in [[64, 64, 64], [130, 67, 200], [256, 1, 512], [96, 16, 256]] {
            for ops in [TN, NN, NT] {
                problems.push(Problem {
                    group: Group::Squares,
                    dtype,
                    m,
                    n,
                    k,
                    ops,
                });
            }
        }
    }
    problems
}

/// A row kernel on a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Candle's name of the kernel, without the dtype.
    pub kernel: &'static str,
    /// Vectors of weights.
    pub weights: usize,
    /// `f16` or `f32`.
    pub half: bool,
    /// Rows.
    pub rows: usize,
    /// Their length.
    pub columns: usize,
}

/// Every row problem; `rows` many rows, or as many as are measured.
pub fn rows(rows: Option<usize>) -> Vec<Rows> {
    let mut problems = Vec::new();
    for (kernel, weights) in [("softmax", 0), ("rmsnorm", 1), ("layernorm", 2)] {
        for half in [true, false] {
            for columns in [1024, 4096, 8192] {
                problems.push(Rows {
                    kernel,
                    weights,
                    half,
                    rows: rows.unwrap_or(8192),
                    columns,
                });
            }
        }
    }
    problems
}
