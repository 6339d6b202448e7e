//! A product in the form that the kernels take: any part of it, and its transpose, is one too.

use super::epilogue::{Activation, Epilogue};
use super::problem::{GemmDtype, GemmProblem, Transpose};

/// An operand: element (row, column) of op(X) lies at `row * row_step + column * column_step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// Device address.
    pub address: u64,
    /// What op does.
    pub op: Transpose,
    /// Leading dimension.
    pub ld: i64,
    /// Elements from one matrix of the batch to the next.
    pub stride: i64,
}

impl Operand {
    fn row_step(&self) -> i64 {
        match self.op {
            Transpose::No => 1,
            Transpose::Yes => self.ld,
        }
    }

    fn column_step(&self) -> i64 {
        match self.op {
            Transpose::No => self.ld,
            Transpose::Yes => 1,
        }
    }

    fn transposed(self) -> Self {
        Self {
            op: self.op.flipped(),
            ..self
        }
    }
}

/// An [`Epilogue`] as kernels take it. Rows and columns are those of C as the caller has it, whichever way the
/// product is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProductEpilogue {
    /// Device address of the bias; 0 for none.
    pub bias: u64,
    /// The function.
    pub activation: Activation,
    /// Device address of the residual; 0 for none.
    pub residual: u64,
    /// Elements between columns of the residual.
    pub ld_residual: i64,
    /// Elements from one residual to the next.
    pub stride_residual: i64,
}

impl ProductEpilogue {
    fn new(epilogue: &Epilogue) -> Self {
        let residual = epilogue.residual;
        Self {
            bias: epilogue.bias.unwrap_or(0),
            activation: epilogue.activation,
            residual: residual.map_or(0, |residual| residual.address),
            ld_residual: residual.map_or(0, |residual| residual.ld as i64),
            stride_residual: residual.map_or(0, |residual| residual.stride),
        }
    }

    /// Whether it changes nothing.
    pub fn is_none(&self) -> bool {
        self.bias == 0 && self.residual == 0 && self.activation == Activation::None
    }
}

/// What a product has that no plan depends on, with A and B as the caller has them: addresses, 0 for no bias or residual, and
/// factors, of which plans know whether they are 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Values {
    pub a: u64,
    pub b: u64,
    pub c: u64,
    pub bias: u64,
    pub residual: u64,
    pub alpha: f64,
    pub beta: f64,
}

impl Values {
    /// Of a problem with its epilogue.
    pub fn of(problem: &GemmProblem, epilogue: &Epilogue) -> Self {
        Self {
            a: problem.a,
            b: problem.b,
            c: problem.c,
            bias: epilogue.bias.unwrap_or(0),
            residual: epilogue.residual.map_or(0, |residual| residual.address),
            alpha: problem.alpha,
            beta: problem.beta,
        }
    }

    /// With A and B as the product's kernel has them, or as the caller has those of a kernel.
    pub fn swapped(&self, is_transposed: bool) -> Self {
        match is_transposed {
            true => Self {
                a: self.b,
                b: self.a,
                ..*self
            },
            false => *self,
        }
    }
}

/// A product in the form that the kernels take: C's rows may be apart, which transposes the whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Product {
    /// Rows of C.
    pub m: u64,
    /// Columns of C.
    pub n: u64,
    /// Columns of op(A).
    pub k: u64,
    /// The left operand, m x k.
    pub a: Operand,
    /// The right operand, k x n.
    pub b: Operand,
    /// Device address of C.
    pub c: u64,
    /// Elements between rows of C.
    pub row_c: i64,
    /// Elements between columns of C.
    pub column_c: i64,
    /// Elements from one C to the next.
    pub stride_c: i64,
    /// Number of products.
    pub batch: u64,
    /// Factor of the product.
    pub alpha: f64,
    /// Factor of the old C.
    pub beta: f64,
    /// Type of the elements.
    pub dtype: GemmDtype,
    /// Whether rows and columns of C have changed places.
    pub is_transposed: bool,
    /// What is done to each element.
    pub epilogue: ProductEpilogue,
}

impl Product {
    /// Of a problem that passed its check. A batch that folds is one product.
    pub(super) fn new(problem: &GemmProblem, epilogue: &Epilogue) -> Self {
        let product = Self {
            m: problem.m as u64,
            n: problem.n as u64,
            // Nothing of A and B is wanted then, not even their NaNs.
            k: if problem.alpha == 0.0 {
                0
            } else {
                problem.k as u64
            },
            a: Operand {
                address: problem.a,
                op: problem.transa,
                ld: problem.lda as i64,
                stride: problem.stride_a,
            },
            b: Operand {
                address: problem.b,
                op: problem.transb,
                ld: problem.ldb as i64,
                stride: problem.stride_b,
            },
            c: problem.c,
            row_c: 1,
            column_c: problem.ldc as i64,
            stride_c: problem.stride_c,
            batch: problem.batch as u64,
            alpha: problem.alpha,
            beta: problem.beta,
            dtype: problem.dtype,
            is_transposed: false,
            epilogue: ProductEpilogue::new(epilogue),
        };
        product.folded()
    }

    /// What no plan depends on.
    pub(super) fn values(&self) -> Values {
        let values = Values {
            a: self.a.address,
            b: self.b.address,
            c: self.c,
            bias: self.epilogue.bias,
            residual: self.epilogue.residual,
            alpha: self.alpha,
            beta: self.beta,
        };
        values.swapped(self.is_transposed)
    }

    /// This product of other matrices.
    pub(super) fn with_values(&self, values: &Values) -> Self {
        let values = values.swapped(self.is_transposed);
        Self {
            a: Operand {
                address: values.a,
                ..self.a
            },
            b: Operand {
                address: values.b,
                ..self.b
            },
            c: values.c,
            alpha: values.alpha,
            beta: values.beta,
            epilogue: ProductEpilogue {
                bias: values.bias,
                residual: values.residual,
                ..self.epilogue
            },
            ..*self
        }
    }

    /// This product taken as C^T = op(B)^T * op(A)^T.
    pub(super) fn transposed(self) -> Self {
        Self {
            m: self.n,
            n: self.m,
            a: self.b.transposed(),
            b: self.a.transposed(),
            row_c: self.column_c,
            column_c: self.row_c,
            is_transposed: !self.is_transposed,
            ..self
        }
    }

    /// Rows, columns and matrices given as (first, number).
    pub(super) fn sub_product(&self, m: (u64, u64), n: (u64, u64), batch: (u64, u64)) -> Self {
        let (bytes, output_bytes) = (self.dtype.bytes(), self.dtype.output_bytes());
        let at = |address: u64, elements: i64, bytes: usize| match address {
            // No bias, no residual.
            0 => 0,
            _ => address.wrapping_add_signed(elements * bytes as i64),
        };
        let (row, column, matrix) = (m.0 as i64, n.0 as i64, batch.0 as i64);
        // As the caller has them.
        let (row_outside, column_outside) = match self.is_transposed {
            true => (column, row),
            false => (row, column),
        };
        let outside = &self.epilogue;
        Self {
            m: m.1,
            n: n.1,
            batch: batch.1,
            a: Operand {
                address: at(
                    self.a.address,
                    row * self.a.row_step() + matrix * self.a.stride,
                    bytes,
                ),
                ..self.a
            },
            b: Operand {
                address: at(
                    self.b.address,
                    column * self.b.column_step() + matrix * self.b.stride,
                    bytes,
                ),
                ..self.b
            },
            c: at(
                self.c,
                row * self.row_c + column * self.column_c + matrix * self.stride_c,
                output_bytes,
            ),
            epilogue: ProductEpilogue {
                bias: at(outside.bias, row_outside, output_bytes),
                residual: at(
                    outside.residual,
                    row_outside
                        + column_outside * outside.ld_residual
                        + matrix * outside.stride_residual,
                    output_bytes,
                ),
                ..self.epilogue
            },
            ..*self
        }
    }

    /// A batch that shares A, and whose B, C and residual follow one another, is one product with more columns.
    fn folded(self) -> Self {
        let columns = self.n as i64;
        let follows = |ld: i64, stride: i64| ld.checked_mul(columns) == Some(stride);
        let folds = self.batch > 1
            && self.a.stride == 0
            && self.b.op == Transpose::No
            && follows(self.b.ld, self.b.stride)
            && follows(self.column_c, self.stride_c)
            && (self.epilogue.residual == 0
                || follows(self.epilogue.ld_residual, self.epilogue.stride_residual))
            && self.n * self.batch <= i32::MAX as u64;
        match folds {
            true => Self {
                n: self.n * self.batch,
                batch: 1,
                ..self
            },
            false => self,
        }
    }
}
