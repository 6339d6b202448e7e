//! rocBLAS, AMD's library. Nobody has run it under this runtime yet: its tests are with a stand-in of the same
//! functions.

use std::ffi::{c_char, c_int, c_void, CStr};

use super::vendor::{function, Failure, Handle, Handles, Scalar, Status, Vendor};
use crate::base::cuda_names::cublasComputeType_t as Compute;
use crate::base::dynamic_library::Search;
use crate::gemm::choice::LIBRARY_VARIABLE;
use crate::gemm::problem::{GemmDtype, GemmProblem, Transpose};

pub(super) const SEARCH: Search = Search {
    variable: LIBRARY_VARIABLE,
    roots: &[],
    rocm: &["lib"],
    folders: &[],
    names: &["librocblas.so.5", "librocblas.so.4", "librocblas.so"],
};

type GemmStridedBatchedEx = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const c_void,
    *const c_void,
    c_int,
    c_int,
    i64,
    *const c_void,
    c_int,
    c_int,
    i64,
    *const c_void,
    *const c_void,
    c_int,
    c_int,
    i64,
    *mut c_void,
    c_int,
    c_int,
    i64,
    c_int,
    c_int,
    c_int,
    i32,
    u32,
) -> Status;

/// rocBLAS's functions.
pub(super) struct Rocblas {
    handles: Handles,
    version: unsafe extern "C" fn(*mut c_char, usize) -> Status,
    gemm: GemmStridedBatchedEx,
}

impl Rocblas {
    /// The functions of a library, or the name of one that it lacks.
    pub fn of(library: &'static libloading::Library) -> Result<Self, &'static str> {
        // SAFETY: the types are those that rocBLAS's documentation gives for these names.
        unsafe {
            Ok(Self {
                handles: Handles::of(
                    library,
                    [
                        "rocblas_create_handle",
                        "rocblas_destroy_handle",
                        "rocblas_set_stream",
                    ],
                )?,
                version: function(library, "rocblas_get_version_string")?,
                gemm: function(library, "rocblas_gemm_strided_batched_ex")?,
            })
        }
    }
}

const F16: c_int = 150;
const F32: c_int = 151;
const F64: c_int = 152;
const BF16: c_int = 168;

/// `rocblas_status_not_implemented`.
const NOT_IMPLEMENTED: Status = 2;

/// `rocblas_datatype` of the sum, and how it takes a factor.
fn compute_type(compute: Compute) -> (c_int, fn(f64) -> Scalar) {
    match compute {
        Compute::CUBLAS_COMPUTE_16F | Compute::CUBLAS_COMPUTE_16F_PEDANTIC => (F16, Scalar::half),
        Compute::CUBLAS_COMPUTE_64F | Compute::CUBLAS_COMPUTE_64F_PEDANTIC => (F64, Scalar::double),
        // No product of integers is asked for. The fast ones permit less precision and do not ask for it.
        _ => (F32, Scalar::single),
    }
}

/// `rocblas_datatype` of A and B, or of C; integers are not asked for.
fn data_type(dtype: GemmDtype) -> Option<c_int> {
    match dtype {
        GemmDtype::F16 => Some(F16),
        GemmDtype::BF16 => Some(BF16),
        GemmDtype::F32 => Some(F32),
        GemmDtype::F64 => Some(F64),
        GemmDtype::I8 | GemmDtype::F16ToF32 | GemmDtype::BF16ToF32 => None,
    }
}

/// `rocblas_operation`.
fn operation(transpose: Transpose) -> c_int {
    match transpose {
        Transpose::No => 111,
        Transpose::Yes => 112,
    }
}

impl Vendor for Rocblas {
    fn name(&self) -> &'static str {
        "rocBLAS"
    }

    fn handles(&self) -> &Handles {
        &self.handles
    }

    unsafe fn version(&self, _: &Handle) -> Option<String> {
        let mut text = [0; 128];
        // SAFETY: the function writes at most so many bytes, and ends them with a NUL.
        let status = unsafe { (self.version)(text.as_mut_ptr(), text.len()) };
        if status != 0 {
            return None;
        }
        // SAFETY: as above; the buffer began as zeros.
        let text = unsafe { CStr::from_ptr(text.as_ptr()) };
        Some(text.to_string_lossy().into_owned())
    }

    fn workspace(&self, _arch: &str) -> usize {
        0
    }

    unsafe fn gemm(&self, handle: &Handle, problem: &GemmProblem) -> Status {
        let (compute, scalar) = compute_type(problem.compute);
        let (alpha, beta) = (scalar(problem.alpha), scalar(problem.beta));
        let types = [problem.dtype.operands(), problem.dtype.result()].map(data_type);
        let [Some(of_operands), Some(of_c)] = types else {
            return NOT_IMPLEMENTED;
        };
        let (standard_algorithm, solution, flags) = (0, 0, 0);
        // SAFETY: the caller's promise; the sizes were checked to fit. The result replaces C.
        unsafe {
            (self.gemm)(
                handle.0,
                operation(problem.transa),
                operation(problem.transb),
                problem.m as c_int,
                problem.n as c_int,
                problem.k as c_int,
                alpha.as_ptr(),
                problem.a as *const c_void,
                of_operands,
                problem.lda as c_int,
                problem.stride_a,
                problem.b as *const c_void,
                of_operands,
                problem.ldb as c_int,
                problem.stride_b,
                beta.as_ptr(),
                problem.c as *const c_void,
                of_c,
                problem.ldc as c_int,
                problem.stride_c,
                problem.c as *mut c_void,
                of_c,
                problem.ldc as c_int,
                problem.stride_c,
                problem.batch as c_int,
                compute,
                standard_algorithm,
                solution,
                flags,
            )
        }
    }

    fn failure(&self, status: Status) -> (Failure, &'static str) {
        match status {
            1 => (Failure::Other, "rocblas_status_invalid_handle"),
            NOT_IMPLEMENTED => (Failure::NotSupported, "rocblas_status_not_implemented"),
            3 => (Failure::Other, "rocblas_status_invalid_pointer"),
            4 => (Failure::Other, "rocblas_status_invalid_size"),
            5 => (Failure::OutOfMemory, "rocblas_status_memory_error"),
            6 => (Failure::Other, "rocblas_status_internal_error"),
            11 => (Failure::Other, "rocblas_status_invalid_value"),
            14 => (Failure::NotSupported, "rocblas_status_excluded_from_build"),
            15 => (Failure::NotSupported, "rocblas_status_arch_mismatch"),
            _ => (Failure::Other, "an unknown status"),
        }
    }
}
