//! cuBLAS, NVIDIA's library.

use std::ffi::{c_int, c_longlong, c_void};

use super::vendor::{function, Failure, Handle, Handles, Scalar, Status, Vendor};
use crate::base::cuda_names::cublasComputeType_t as Compute;
use crate::base::dynamic_library::Search;
use crate::base::hip::types::hipStream_t;
use crate::gemm::choice::LIBRARY_VARIABLE;
use crate::gemm::problem::{GemmDtype, GemmProblem, Transpose};

pub(super) const SEARCH: Search = Search {
    variable: LIBRARY_VARIABLE,
    roots: &[
        ("CUDA_HOME", &["lib64", "lib"]),
        ("CUDA_PATH", &["lib64", "lib"]),
    ],
    rocm: &[],
    folders: &["/usr/local/cuda/lib64"],
    names: &["libcublas.so.13", "libcublas.so.12", "libcublas.so"],
};

/// `CUBLAS_GEMM_DEFAULT_TENSOR_OP`: the library chooses. It is what Candle asks for.
const ALGORITHM: c_int = 99;

/// `CUBLAS_STATUS_NOT_SUPPORTED`.
const NOT_SUPPORTED: Status = 15;

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
    c_longlong,
    *const c_void,
    c_int,
    c_int,
    c_longlong,
    *const c_void,
    *mut c_void,
    c_int,
    c_int,
    c_longlong,
    c_int,
    c_int,
    c_int,
) -> Status;

/// cuBLAS's functions.
pub(super) struct Cublas {
    handles: Handles,
    version: unsafe extern "C" fn(*mut c_void, *mut c_int) -> Status,
    set_workspace: unsafe extern "C" fn(*mut c_void, *mut c_void, usize) -> Status,
    gemm: GemmStridedBatchedEx,
}

impl Cublas {
    /// The functions of a library, or the name of one that it lacks.
    pub fn of(library: &'static libloading::Library) -> Result<Self, &'static str> {
        // SAFETY: the types are those that cuBLAS's documentation gives for these names.
        unsafe {
            Ok(Self {
                handles: Handles::of(
                    library,
                    ["cublasCreate_v2", "cublasDestroy_v2", "cublasSetStream_v2"],
                )?,
                version: function(library, "cublasGetVersion_v2")?,
                set_workspace: function(library, "cublasSetWorkspace_v2")?,
                gemm: function(library, "cublasGemmStridedBatchedEx")?,
            })
        }
    }
}

/// `cudaDataType_t` of A and B, or of C; integers are not asked for.
fn data_type(dtype: GemmDtype) -> Option<c_int> {
    match dtype {
        GemmDtype::F16 => Some(2),
        GemmDtype::BF16 => Some(14),
        GemmDtype::F32 => Some(0),
        GemmDtype::F64 => Some(1),
        GemmDtype::I8 | GemmDtype::F16ToF32 | GemmDtype::BF16ToF32 => None,
    }
}

/// `cublasComputeType_t`, and how it takes a factor.
fn compute_type(compute: Compute) -> (c_int, fn(f64) -> Scalar) {
    match compute {
        Compute::CUBLAS_COMPUTE_16F => (64, Scalar::half),
        Compute::CUBLAS_COMPUTE_16F_PEDANTIC => (65, Scalar::half),
        Compute::CUBLAS_COMPUTE_32F => (68, Scalar::single),
        Compute::CUBLAS_COMPUTE_32F_PEDANTIC => (69, Scalar::single),
        Compute::CUBLAS_COMPUTE_32F_FAST_16F => (74, Scalar::single),
        Compute::CUBLAS_COMPUTE_32F_FAST_16BF => (75, Scalar::single),
        Compute::CUBLAS_COMPUTE_32F_FAST_TF32 => (77, Scalar::single),
        Compute::CUBLAS_COMPUTE_64F => (70, Scalar::double),
        Compute::CUBLAS_COMPUTE_64F_PEDANTIC => (71, Scalar::double),
        Compute::CUBLAS_COMPUTE_32I => (72, Scalar::whole),
        Compute::CUBLAS_COMPUTE_32I_PEDANTIC => (73, Scalar::whole),
    }
}

/// `cublasOperation_t`.
fn operation(transpose: Transpose) -> c_int {
    match transpose {
        Transpose::No => 0,
        Transpose::Yes => 1,
    }
}

impl Vendor for Cublas {
    fn name(&self) -> &'static str {
        "cuBLAS"
    }

    fn handles(&self) -> &Handles {
        &self.handles
    }

    unsafe fn version(&self, handle: &Handle) -> Option<String> {
        let mut version = 0;
        // SAFETY: the caller's handle; the output is writable.
        let status = unsafe { (self.version)(handle.0, &mut version) };
        // 130002 is 13.0.2.
        (status == 0).then(|| {
            format!(
                "{}.{}.{}",
                version / 10_000,
                version / 100 % 100,
                version % 100
            )
        })
    }

    unsafe fn set_stream(
        &self,
        handle: &Handle,
        stream: hipStream_t,
        workspace: *mut c_void,
        bytes: usize,
    ) -> Status {
        // SAFETY: the caller's promise. Setting the stream takes the workspace away, so it comes after.
        unsafe {
            match self.handles.set_stream(handle, stream) {
                0 => (self.set_workspace)(handle.0, workspace, bytes),
                status => status,
            }
        }
    }

    /// What the library would allocate itself.
    fn workspace(&self, arch: &str) -> usize {
        let number = arch.strip_prefix("sm_").and_then(|n| n.parse().ok());
        if number.unwrap_or(0) >= 90 {
            32 << 20
        } else {
            8 << 20
        }
    }

    unsafe fn gemm(&self, handle: &Handle, problem: &GemmProblem) -> Status {
        let (compute, scalar) = compute_type(problem.compute);
        let (alpha, beta) = (scalar(problem.alpha), scalar(problem.beta));
        let types = [problem.dtype.operands(), problem.dtype.result()].map(data_type);
        let [Some(of_operands), Some(of_c)] = types else {
            return NOT_SUPPORTED;
        };
        // SAFETY: the caller's promise; the sizes were checked to fit.
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
                problem.c as *mut c_void,
                of_c,
                problem.ldc as c_int,
                problem.stride_c,
                problem.batch as c_int,
                compute,
                ALGORITHM,
            )
        }
    }

    fn failure(&self, status: Status) -> (Failure, &'static str) {
        match status {
            1 => (Failure::Other, "CUBLAS_STATUS_NOT_INITIALIZED"),
            3 => (Failure::OutOfMemory, "CUBLAS_STATUS_ALLOC_FAILED"),
            7 => (Failure::Other, "CUBLAS_STATUS_INVALID_VALUE"),
            8 => (Failure::NotSupported, "CUBLAS_STATUS_ARCH_MISMATCH"),
            11 => (Failure::Other, "CUBLAS_STATUS_MAPPING_ERROR"),
            13 => (Failure::Other, "CUBLAS_STATUS_EXECUTION_FAILED"),
            14 => (Failure::Other, "CUBLAS_STATUS_INTERNAL_ERROR"),
            NOT_SUPPORTED => (Failure::NotSupported, "CUBLAS_STATUS_NOT_SUPPORTED"),
            16 => (Failure::Other, "CUBLAS_STATUS_LICENSE_ERROR"),
            _ => (Failure::Other, "an unknown status"),
        }
    }
}
