//! Products for which the same choice is made.

use std::fmt;

use crate::base::cuda_names::cublasComputeType_t;
use crate::gemm::epilogue::{Activation, Epilogue};
use crate::gemm::problem::{GemmDtype, GemmProblem, Transpose};

/// Products for which the same choice is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    pub dtype: GemmDtype,
    compute: cublasComputeType_t,
    ops: [Transpose; 2],
    /// m, n, k and batch, rounded.
    sizes: [usize; 4],
    /// [`GemmProblem::alignments`].
    alignments: [u64; 3],
    /// Whether all products of a batch share A, and B.
    shared: [bool; 2],
    reads_c: bool,
    has_bias: bool,
    activation: Activation,
    has_residual: bool,
}

impl Shape {
    pub fn new(problem: &GemmProblem, epilogue: &Epilogue) -> Self {
        Self {
            dtype: problem.dtype,
            compute: problem.compute,
            ops: [problem.transa, problem.transb],
            sizes: [problem.m, problem.n, problem.k, problem.batch].map(rounded),
            alignments: problem.alignments(),
            shared: [problem.stride_a, problem.stride_b].map(|stride| stride == 0),
            reads_c: problem.beta != 0.0,
            has_bias: epilogue.bias.is_some(),
            activation: epilogue.activation,
            has_residual: epilogue.residual.is_some(),
        }
    }
}

/// Sizes from 17 on to four binary digits, upwards.
pub(super) fn rounded(size: usize) -> usize {
    match size {
        0..=16 => size,
        _ => size.next_multiple_of(1 << ((size - 1).ilog2() - 3)),
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [m, n, k, batch] = self.sizes;
        let [a, b, c] = self.alignments;
        write!(
            f,
            "{} {}{} {m}x{n}x{k} batch {batch} {:?} aligned {a} {b} {c}",
            self.dtype.name(),
            self.ops[0].letter(),
            self.ops[1].letter(),
            self.compute,
        )?;
        for (word, holds) in [
            (" shared_a", self.shared[0]),
            (" shared_b", self.shared[1]),
            (" beta", self.reads_c),
            (" bias", self.has_bias),
            (" residual", self.has_residual),
        ] {
            if holds {
                f.write_str(word)?;
            }
        }
        match self.activation {
            Activation::None => Ok(()),
            activation => write!(f, " {activation:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn sizes_are_rounded_to_four_digits() {
        let expected = [
            (0, 0),
            (1, 1),
            (16, 16),
            (17, 18),
            (31, 32),
            (33, 36),
            (64, 64),
            (65, 72),
            (4096, 4096),
            (4097, 4608),
        ];
        for (size, bucket) in expected {
            assert_eq!(rounded(size), bucket, "{size}");
        }
        for size in 17..5000 {
            assert!(
                rounded(size) >= size && rounded(size) * 8 <= size * 9 + 8,
                "{size}"
            );
            assert_eq!(rounded(rounded(size)), rounded(size));
        }
    }
}
