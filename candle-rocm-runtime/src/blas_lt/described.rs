//! What cuBLASLt's objects hold.

use std::ffi::c_int;

use crate::base::cuda_names::{cublasComputeType_t, cudaDataType_t};
use crate::base::error::{BlasError, Error};

/// What a matrix's object holds.
#[derive(Clone, Copy, Debug)]
pub struct Matrix {
    pub(super) dtype: cudaDataType_t,
    pub(super) rows: u64,
    pub(super) columns: u64,
    pub(super) ld: i64,
    pub(super) batch: c_int,
    pub(super) stride: i64,
}

/// What a product's object holds.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    pub(super) compute: cublasComputeType_t,
    pub(super) scale: cudaDataType_t,
    pub(super) transa: bool,
    pub(super) transb: bool,
    /// As [`sys::cublasLtEpilogue_t`]'s numbers are.
    pub(super) epilogue: u32,
    pub(super) bias: u64,
    pub(super) bias_stride: i64,
}

pub(super) fn refused(what: impl Into<String>) -> BlasError {
    BlasError(Error::unsupported(what))
}

/// Matrices and factors of a product: A, B, C and D.
pub(super) struct Operands {
    pub(super) alpha: f64,
    pub(super) beta: f64,
    pub(super) addresses: [u64; 4],
    pub(super) matrices: [Matrix; 4],
}
