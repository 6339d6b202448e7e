//! What a matrix product is, and which ones make sense.

use std::fmt;

use candle_rocm_kernels::matmul;

use crate::base::cuda_names::cublasComputeType_t;
use crate::base::error::{Error, Result};

/// Whether a matrix is used as it is stored or transposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transpose {
    /// As it is stored.
    No,
    /// Transposed.
    Yes,
}

impl Transpose {
    /// `n` or `t`, as in the kernels' names.
    pub fn letter(self) -> char {
        match self {
            Self::No => 'n',
            Self::Yes => 't',
        }
    }

    /// The other one.
    pub fn flipped(self) -> Self {
        match self {
            Self::No => Self::Yes,
            Self::Yes => Self::No,
        }
    }
}

/// The type of the elements of A and B, and of C except where it says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GemmDtype {
    /// IEEE half precision, summed in f32.
    F16,
    /// bfloat16, summed in f32.
    BF16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
    /// 8-bit integers, whose products are summed in i32, which is also the type of C. Sums wrap.
    I8,
    /// IEEE half precision, summed in f32, which is also the type of C. Nothing follows the product.
    F16ToF32,
    /// bfloat16, summed in f32, which is also the type of C. Nothing follows the product.
    BF16ToF32,
}

impl GemmDtype {
    /// Every type of A and B.
    pub const ALL: [Self; 5] = [Self::F16, Self::BF16, Self::F32, Self::F64, Self::I8];

    /// The type of A and B alone: what kernels are named after, and libraries are told of them.
    pub(super) fn operands(self) -> Self {
        match self {
            Self::F16ToF32 => Self::F16,
            Self::BF16ToF32 => Self::BF16,
            other => other,
        }
    }

    /// Whether C is f32 where A and B have 16 bits.
    pub(super) fn upcasts(self) -> bool {
        self != self.operands()
    }

    /// The type of C as libraries are told of it, which do not multiply integers for us.
    pub(crate) fn result(self) -> Self {
        match self.upcasts() {
            true => Self::F32,
            false => self,
        }
    }

    /// Bytes of an element of A and B.
    pub fn bytes(self) -> usize {
        self.of_kernels().bytes() as usize
    }

    /// Bytes of an element of C, and of a bias and a residual.
    pub fn output_bytes(self) -> usize {
        match self {
            Self::I8 | Self::F16ToF32 | Self::BF16ToF32 => 4,
            _ => self.bytes(),
        }
    }

    /// Bytes of a sum.
    pub fn sum_bytes(self) -> usize {
        match self {
            Self::F64 => 8,
            _ => 4,
        }
    }

    /// Sums of full precision: f64 for f64, i32 for i8, else f32.
    pub fn compute(self) -> cublasComputeType_t {
        match self {
            Self::F16 | Self::BF16 | Self::F32 | Self::F16ToF32 | Self::BF16ToF32 => {
                cublasComputeType_t::CUBLAS_COMPUTE_32F
            }
            Self::F64 => cublasComputeType_t::CUBLAS_COMPUTE_64F,
            Self::I8 => cublasComputeType_t::CUBLAS_COMPUTE_32I,
        }
    }

    /// The type of A and B as in the kernels' names, and that of C where it is f32 and they have 16 bits.
    pub fn name(self) -> &'static str {
        match self {
            Self::F16ToF32 => "f16 into f32",
            Self::BF16ToF32 => "bf16 into f32",
            _ => self.of_kernels().name(),
        }
    }

    /// The type as the kernels' crate has it.
    pub(super) fn of_kernels(self) -> matmul::Dtype {
        match self {
            Self::F16 | Self::F16ToF32 => matmul::Dtype::F16,
            Self::BF16 | Self::BF16ToF32 => matmul::Dtype::BF16,
            Self::F32 => matmul::Dtype::F32,
            Self::F64 => matmul::Dtype::F64,
            Self::I8 => matmul::Dtype::I8,
        }
    }
}

/// `C = alpha * op(A) * op(B) + beta * C`, `batch` times, column-major.
///
/// op(A) is m x k, op(B) is k x n, C is m x n. `ld*` are the distances between columns, in elements, and
/// `stride_*` those between matrices of the batch. C is not read if `beta` is 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GemmProblem {
    /// What op does to A.
    pub transa: Transpose,
    /// What op does to B.
    pub transb: Transpose,
    /// Rows of C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// Columns of op(A).
    pub k: usize,
    /// Factor of the product. Rounded to f32 unless the elements are f64; an integer of 32 bits if they are i8.
    pub alpha: f64,
    /// Device address of A.
    pub a: u64,
    /// Leading dimension of A.
    pub lda: usize,
    /// Elements from one A to the next.
    pub stride_a: i64,
    /// Device address of B.
    pub b: u64,
    /// Leading dimension of B.
    pub ldb: usize,
    /// Elements from one B to the next.
    pub stride_b: i64,
    /// Factor of the old C. Rounded to f32 unless the elements are f64; an integer of 32 bits if they are i8.
    pub beta: f64,
    /// Device address of C.
    pub c: u64,
    /// Leading dimension of C.
    pub ldc: usize,
    /// Elements from one C to the next.
    pub stride_c: i64,
    /// Number of products.
    pub batch: usize,
    /// Type of the elements.
    pub dtype: GemmDtype,
    /// How a vendor's library is to sum. Our own kernels sum with at least this precision.
    pub compute: cublasComputeType_t,
}

/// Largest m, n, k and batch: what cuBLAS's `int` holds.
const MAX_SIZE: usize = i32::MAX as usize;

impl GemmProblem {
    /// `C = op(A) * op(B)` of `[m, n, k]`, once: what is done to A and to B, and where A, B and C are, each of whose columns
    /// follows the one before.
    pub fn packed(
        dtype: GemmDtype,
        [transa, transb]: [Transpose; 2],
        [m, n, k]: [usize; 3],
        [a, b, c]: [u64; 3],
    ) -> Self {
        let ld = |op, along, across| if op == Transpose::No { along } else { across };
        Self {
            transa,
            transb,
            m,
            n,
            k,
            alpha: 1.0,
            a,
            lda: ld(transa, m, k),
            stride_a: 0,
            b,
            ldb: ld(transb, k, n),
            stride_b: 0,
            beta: 0.0,
            c,
            ldc: m,
            stride_c: 0,
            batch: 1,
            dtype,
            compute: dtype.compute(),
        }
    }

    /// Whether there is no element of C.
    pub(super) fn is_empty(&self) -> bool {
        self.m == 0 || self.n == 0 || self.batch == 0
    }

    /// Whether A and B matter to the result.
    pub(super) fn has_sum(&self) -> bool {
        self.k != 0 && self.alpha != 0.0
    }

    /// Whether a library that counts in C's `int` can take it; the other sizes are checked to.
    pub(super) fn fits_c_ints(&self) -> bool {
        [self.lda, self.ldb, self.ldc]
            .into_iter()
            .all(|ld| ld <= MAX_SIZE)
    }

    /// Bytes, at most 16, at whose multiples all columns of A, B and C begin.
    pub(super) fn alignments(&self) -> [u64; 3] {
        let (bytes, output) = (self.dtype.bytes(), self.dtype.output_bytes());
        let aligned = |address: u64, ld: usize, stride: i64, bytes: usize| {
            let distances = (ld as u64 | stride.unsigned_abs()) * bytes as u64;
            1 << (address | distances | 16).trailing_zeros()
        };
        [
            aligned(self.a, self.lda, self.stride_a, bytes),
            aligned(self.b, self.ldb, self.stride_b, bytes),
            aligned(self.c, self.ldc, self.stride_c, output),
        ]
    }

    /// Checks that the sizes make sense together.
    ///
    /// # Errors
    /// A size above 2^31 - 1; a leading dimension below the rows of its matrix as stored; products of a
    /// batch that all write one C; matrices larger than an address space; a factor of integers that is none.
    /// Each names the problem.
    pub fn check(&self) -> Result<()> {
        let refuse = |reason: String| Err(self.refused(reason));
        for (name, size) in [
            ("m", self.m),
            ("n", self.n),
            ("k", self.k),
            ("batch", self.batch),
        ] {
            if size > MAX_SIZE {
                return refuse(format!("{name} is {size}, and can be at most {MAX_SIZE}"));
            }
        }
        // Rows and columns as stored.
        let stored = |transpose, rows, columns| match transpose {
            Transpose::No => (rows, columns),
            Transpose::Yes => (columns, rows),
        };
        let matrices = [
            (
                "A",
                stored(self.transa, self.m, self.k),
                self.lda,
                self.stride_a,
            ),
            (
                "B",
                stored(self.transb, self.k, self.n),
                self.ldb,
                self.stride_b,
            ),
            ("C", (self.m, self.n), self.ldc, self.stride_c),
        ];
        for (name, (rows, columns), ld, stride) in matrices {
            self.check_matrix(name, (rows, columns), ld, stride)?;
        }
        if self.dtype == GemmDtype::I8 {
            for (name, factor) in [("alpha", self.alpha), ("beta", self.beta)] {
                if f64::from(factor as i32) != factor {
                    return refuse(format!(
                        "{name} is {factor}, and must be an integer of 32 bits where sums are i32"
                    ));
                }
            }
        }
        if self.stride_c == 0 && self.batch > 1 && self.m > 0 && self.n > 0 {
            return refuse(
                "the stride of C is 0, so that all products write the same C".to_owned(),
            );
        }
        Ok(())
    }

    /// Checks that one of the matrices can be as it is said to be.
    pub(super) fn check_matrix(
        &self,
        name: &str,
        (rows, columns): (usize, usize),
        ld: usize,
        stride: i64,
    ) -> Result<()> {
        if ld < rows.max(1) {
            return Err(self.refused(format!(
                "the leading dimension of {name} is {ld}, below its {} rows as stored",
                rows.max(1)
            )));
        }
        let matrix = columns.saturating_sub(1) as u128 * ld as u128 + rows as u128;
        let batch =
            self.batch.saturating_sub(1) as u128 * u128::from(stride.unsigned_abs()) + matrix;
        let bytes = self.dtype.bytes().max(self.dtype.output_bytes());
        if batch * bytes as u128 > i64::MAX as u128 {
            return Err(self.refused(format!(
                "{name}, with leading dimension {ld} and stride {stride}, is larger than an address space"
            )));
        }
        Ok(())
    }

    pub(super) fn refused(&self, reason: impl fmt::Display) -> Error {
        Error::invalid(format!("{self}: {reason}"))
    }
}

impl fmt::Display for GemmProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} matrix product {}{} of {} x {} by {} x {}, batch {}",
            self.dtype.name(),
            self.transa.letter(),
            self.transb.letter(),
            self.m,
            self.k,
            self.k,
            self.n,
            self.batch
        )
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::gemm) fn valid() -> GemmProblem {
        GemmProblem {
            transa: Transpose::Yes,
            transb: Transpose::No,
            m: 5,
            n: 3,
            k: 7,
            alpha: 1.0,
            a: 0,
            lda: 7,
            stride_a: 0,
            b: 0,
            ldb: 7,
            stride_b: 21,
            beta: 0.0,
            c: 0,
            ldc: 5,
            stride_c: 15,
            batch: 4,
            dtype: GemmDtype::F32,
            compute: GemmDtype::F32.compute(),
        }
    }

    #[test]
    fn sensible_problems_pass() {
        valid().check().unwrap();
        let interleaved = GemmProblem {
            ldc: 20,
            stride_c: 5,
            ..valid()
        };
        interleaved.check().unwrap();
        let empty = GemmProblem {
            m: 0,
            n: 0,
            k: 0,
            batch: 0,
            lda: 1,
            ldb: 1,
            ldc: 1,
            ..valid()
        };
        empty.check().unwrap();
    }

    #[test]
    fn senseless_problems_are_named() {
        let cases = [
            (
                GemmProblem { lda: 6, ..valid() },
                "leading dimension of A is 6, below its 7",
            ),
            (
                GemmProblem {
                    transb: Transpose::Yes,
                    ldb: 2,
                    ..valid()
                },
                "leading dimension of B is 2, below its 3",
            ),
            (
                GemmProblem { ldc: 4, ..valid() },
                "leading dimension of C is 4, below its 5",
            ),
            (
                GemmProblem {
                    k: 0,
                    lda: 0,
                    ..valid()
                },
                "leading dimension of A is 0, below its 1",
            ),
            (
                GemmProblem {
                    stride_c: 0,
                    ..valid()
                },
                "the stride of C is 0",
            ),
            (
                GemmProblem {
                    m: 1 << 31,
                    ldc: 1 << 31,
                    ..valid()
                },
                "m is 2147483648",
            ),
            (
                GemmProblem {
                    dtype: GemmDtype::I8,
                    alpha: 0.5,
                    ..valid()
                },
                "alpha is 0.5, and must be an integer",
            ),
            (
                GemmProblem {
                    dtype: GemmDtype::I8,
                    beta: 3e9,
                    ..valid()
                },
                "beta is 3000000000, and must be an integer",
            ),
            (
                GemmProblem {
                    stride_a: i64::MIN,
                    ..valid()
                },
                "A, with leading dimension 7",
            ),
        ];
        for (problem, expected) in cases {
            let message = problem.check().unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
            assert!(message.contains("matrix product"), "{message}");
        }
    }
}
