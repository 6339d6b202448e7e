//! Matrix products in cuBLAS's terms: column-major, strided batches.

use crate::error::{Error, Result};
use crate::stream::Stream;

/// Whether a matrix is used as it is stored or transposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transpose {
    /// As it is stored.
    No,
    /// Transposed.
    Yes,
}

/// The type of the elements of A, B and C.
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
    /// Factor of the product.
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
    /// Factor of the old C.
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
}

/// Gives the products to the stream.
///
/// # Safety
/// The addresses are those of device memory that holds the matrices as described.
pub unsafe fn gemm_strided_batched(_stream: &Stream, problem: &GemmProblem) -> Result<()> {
    Err(Error::unsupported(format!(
        "matrix products are not in this release: {problem:?}"
    )))
}
