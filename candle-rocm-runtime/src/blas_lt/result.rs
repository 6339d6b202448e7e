//! Functions that return a result, one for each of cuBLASLt's.

use super::described::{refused, Description, Matrix, Operands};
use super::product;
use super::sys::{
    cublasComputeType_t, cublasLtHandle_t, cublasLtMatmulAlgo_t, cublasLtMatmulDescAttributes_t,
    cublasLtMatmulDesc_t, cublasLtMatmulHeuristicResult_t, cublasLtMatmulPreferenceAttributes_t,
    cublasLtMatmulPreference_t, cublasLtMatrixLayoutAttribute_t, cublasLtMatrixLayout_t,
    cublasStatus_t, cudaDataType, cudaStream_t,
};
pub use crate::base::error::BlasError as CublasError;
use crate::base::error::Error;
use crate::foreign::current_device;
use crate::stream::context::Context;
use std::ffi::c_void;

/// A value of the type that an attribute has.
///
/// # Safety
/// `buf` points to so many bytes.
unsafe fn value<T: Copy>(
    attribute: &dyn std::fmt::Debug,
    buf: *const c_void,
    bytes: usize,
) -> Result<T, CublasError> {
    if buf.is_null() || bytes < std::mem::size_of::<T>() {
        let message = format!("{attribute:?} is given by {bytes} bytes, which are too few");
        return Err(CublasError(Error::invalid(message)));
    }
    // SAFETY: there are as many bytes as the type has, and any bytes are a number.
    Ok(unsafe { buf.cast::<T>().read_unaligned() })
}

/// A handle.
///
/// # Errors
/// None.
pub fn create_handle() -> Result<cublasLtHandle_t, CublasError> {
    Ok(std::ptr::NonNull::dangling().as_ptr())
}

/// Gives a handle back.
///
/// # Safety
/// None is needed; cudarc's is unsafe, too.
///
/// # Errors
/// None.
pub unsafe fn destroy_handle(_handle: cublasLtHandle_t) -> Result<(), CublasError> {
    Ok(())
}

/// A matrix of one column after the other.
///
/// # Errors
/// None.
pub fn create_matrix_layout(
    matrix_type: cudaDataType,
    rows: u64,
    cols: u64,
    ld: i64,
) -> Result<cublasLtMatrixLayout_t, CublasError> {
    Ok(Box::into_raw(Box::new(Matrix {
        dtype: matrix_type,
        rows,
        columns: cols,
        ld,
        batch: 1,
        stride: 0,
    })))
}

/// Says something of a matrix.
///
/// # Safety
/// The matrix is alive and nobody else uses it; `buf` points to `buf_size` bytes.
///
/// # Errors
/// Too few bytes, or something that no product here can heed: rows one after the other, planes.
pub unsafe fn set_matrix_layout_attribute(
    matrix_layout: cublasLtMatrixLayout_t,
    attr: cublasLtMatrixLayoutAttribute_t,
    buf: *const c_void,
    buf_size: usize,
) -> Result<(), CublasError> {
    use cublasLtMatrixLayoutAttribute_t as Attribute;
    // SAFETY: the caller's promises.
    unsafe {
        let matrix = &mut *matrix_layout;
        match attr {
            Attribute::CUBLASLT_MATRIX_LAYOUT_ROWS => matrix.rows = value(&attr, buf, buf_size)?,
            Attribute::CUBLASLT_MATRIX_LAYOUT_COLS => matrix.columns = value(&attr, buf, buf_size)?,
            Attribute::CUBLASLT_MATRIX_LAYOUT_LD => matrix.ld = value(&attr, buf, buf_size)?,
            Attribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT => {
                matrix.batch = value(&attr, buf, buf_size)?
            }
            Attribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET => {
                matrix.stride = value(&attr, buf, buf_size)?
            }
            // 0 is one column after the other.
            Attribute::CUBLASLT_MATRIX_LAYOUT_ORDER if value::<i32>(&attr, buf, buf_size)? == 0 => {
            }
            _ => {
                return Err(refused(format!(
                    "a matrix with {attr:?} is not multiplied here: store one column after the other, or its transpose, and \
                     say so by TRANSA and TRANSB"
                )))
            }
        }
    }
    Ok(())
}

/// Ends a matrix.
///
/// # Safety
/// It is of [`create_matrix_layout`], and nobody uses it afterwards.
///
/// # Errors
/// None.
pub unsafe fn destroy_matrix_layout(
    matrix_layout: cublasLtMatrixLayout_t,
) -> Result<(), CublasError> {
    // SAFETY: made by `Box::into_raw`, ended once.
    drop(unsafe { Box::from_raw(matrix_layout) });
    Ok(())
}

/// A product.
///
/// # Errors
/// None.
pub fn create_matmul_desc(
    compute_type: cublasComputeType_t,
    scale_type: cudaDataType,
) -> Result<cublasLtMatmulDesc_t, CublasError> {
    Ok(Box::into_raw(Box::new(Description {
        compute: compute_type,
        scale: scale_type,
        transa: false,
        transb: false,
        epilogue: 1,
        bias: 0,
        bias_stride: 0,
    })))
}

/// Says something of a product.
///
/// # Safety
/// The product is alive and nobody else uses it; `buf` points to `buf_size` bytes.
///
/// # Errors
/// Too few bytes, or something that no product here can heed, such as scales.
pub unsafe fn set_matmul_desc_attribute(
    matmul_desc: cublasLtMatmulDesc_t,
    attr: cublasLtMatmulDescAttributes_t,
    buf: *const c_void,
    buf_size: usize,
) -> Result<(), CublasError> {
    use cublasLtMatmulDescAttributes_t as Attribute;
    // SAFETY: the caller's promises.
    unsafe {
        let description = &mut *matmul_desc;
        match attr {
            // 0 is as it is, 1 transposed, 2 conjugated besides.
            Attribute::CUBLASLT_MATMUL_DESC_TRANSA => {
                description.transa = value::<i32>(&attr, buf, buf_size)? != 0
            }
            Attribute::CUBLASLT_MATMUL_DESC_TRANSB => {
                description.transb = value::<i32>(&attr, buf, buf_size)? != 0
            }
            Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE => {
                description.epilogue = value(&attr, buf, buf_size)?
            }
            Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER => {
                description.bias = value(&attr, buf, buf_size)?
            }
            Attribute::CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE => {
                description.bias_stride = value(&attr, buf, buf_size)?
            }
            Attribute::CUBLASLT_MATMUL_DESC_TRANSC
            | Attribute::CUBLASLT_MATMUL_DESC_POINTER_MODE
                if value::<i32>(&attr, buf, buf_size)? == 0 => {}
            // Hints.
            Attribute::CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET
            | Attribute::CUBLASLT_MATMUL_DESC_FAST_ACCUM => {}
            _ => {
                return Err(refused(format!(
                    "a product with {attr:?} is not computed here: transposes, an epilogue and its bias can be said of one; \
                     products of FP8 with scales are candle_rocm_backend::fp8's"
                )))
            }
        }
    }
    Ok(())
}

/// Ends a product.
///
/// # Safety
/// It is of [`create_matmul_desc`], and nobody uses it afterwards.
///
/// # Errors
/// None.
pub unsafe fn destroy_matmul_desc(matmul_desc: cublasLtMatmulDesc_t) -> Result<(), CublasError> {
    // SAFETY: made by `Box::into_raw`, ended once.
    drop(unsafe { Box::from_raw(matmul_desc) });
    Ok(())
}

/// Preferences.
///
/// # Errors
/// None.
pub fn create_matmul_pref() -> Result<cublasLtMatmulPreference_t, CublasError> {
    Ok(std::ptr::NonNull::dangling().as_ptr())
}

/// Says something of preferences, by which nothing here is guided.
///
/// # Safety
/// None is needed; cudarc's is unsafe, too.
///
/// # Errors
/// None.
pub unsafe fn set_matmul_pref_attribute(
    _matmul_pref: cublasLtMatmulPreference_t,
    _attr: cublasLtMatmulPreferenceAttributes_t,
    _buf: *const c_void,
    _buf_size: usize,
) -> Result<(), CublasError> {
    Ok(())
}

/// Ends preferences.
///
/// # Safety
/// None is needed; cudarc's is unsafe, too.
///
/// # Errors
/// None.
pub unsafe fn destroy_matmul_pref(
    _matmul_pref: cublasLtMatmulPreference_t,
) -> Result<(), CublasError> {
    Ok(())
}

/// What the product is computed by: the only answer, where it can be computed.
///
/// # Safety
/// The objects are alive.
///
/// # Errors
/// It cannot be computed: see [`matmul`].
pub unsafe fn get_matmul_algo_heuristic(
    _handle: cublasLtHandle_t,
    matmul_desc: cublasLtMatmulDesc_t,
    a_layout: cublasLtMatrixLayout_t,
    b_layout: cublasLtMatrixLayout_t,
    c_layout: cublasLtMatrixLayout_t,
    d_layout: cublasLtMatrixLayout_t,
    _matmul_pref: cublasLtMatmulPreference_t,
) -> Result<cublasLtMatmulHeuristicResult_t, CublasError> {
    // SAFETY: they are alive, by the caller's promise.
    let (description, [a, b, c, d]) = unsafe {
        let matrices = [a_layout, b_layout, c_layout, d_layout];
        (&*matmul_desc, matrices.map(|matrix| *matrix))
    };
    product::problem(description, &a, &b, &c, &d)?;
    product::epilogue(description)?;
    Ok(cublasLtMatmulHeuristicResult_t {
        algo: cublasLtMatmulAlgo_t::default(),
        workspaceSize: 0,
        state: cublasStatus_t::CUBLAS_STATUS_SUCCESS,
        wavesCount: 1.0,
        reserved: [0; 4],
    })
}

/// `D = activation(alpha * op(A) * op(B) + beta * C + bias)` on a stream of the thread's current GPU. The workspace
/// and the algorithm are not needed.
///
/// # Safety
/// The objects are alive and describe the matrices, which are device memory; `alpha` and `beta` point to the scale's
/// type; the stream is alive.
///
/// # Errors
/// Matrices that are not all f16, bf16, f32 or f64, or whose sizes do not go together; an epilogue that is not a bias,
/// ReLU, GELU, or a bias and one of them; a C that is not D, unless `beta` is 0, or 1 and nothing but a bias follows;
/// or the product fails.
#[allow(clippy::too_many_arguments)]
pub unsafe fn matmul(
    _handle: cublasLtHandle_t,
    matmul_desc: cublasLtMatmulDesc_t,
    alpha: *const c_void,
    beta: *const c_void,
    a: *const c_void,
    a_layout: cublasLtMatrixLayout_t,
    b: *const c_void,
    b_layout: cublasLtMatrixLayout_t,
    c: *const c_void,
    c_layout: cublasLtMatrixLayout_t,
    d: *mut c_void,
    d_layout: cublasLtMatrixLayout_t,
    _algo: *const cublasLtMatmulAlgo_t,
    _workspace: *mut c_void,
    _workspace_size: usize,
    stream: cudaStream_t,
) -> Result<(), CublasError> {
    // SAFETY: they are alive, by the caller's promise.
    let (description, matrices) = unsafe {
        let matrices = [a_layout, b_layout, c_layout, d_layout];
        (&*matmul_desc, matrices.map(|matrix| *matrix))
    };
    let factor = |factor: *const c_void| match description.scale {
        // SAFETY: the scale's type, by the caller's promise.
        cudaDataType::CUDA_R_64F => Ok(unsafe { factor.cast::<f64>().read() }),
        // SAFETY: as above.
        cudaDataType::CUDA_R_32F => Ok(unsafe { factor.cast::<f32>().read() }.into()),
        // SAFETY: as above.
        cudaDataType::CUDA_R_16F => Ok(unsafe { factor.cast::<half::f16>().read() }.to_f64()),
        other => Err(refused(format!(
            "a product's factors are not {other:?} here: give them as f16, f32 or f64"
        ))),
    };
    let operands = Operands {
        alpha: factor(alpha)?,
        beta: factor(beta)?,
        addresses: [a as u64, b as u64, c as u64, d as u64],
        matrices,
    };
    let context = Context::new(current_device()?.ordinal())?;
    // SAFETY: alive, by the caller's promise.
    let stream = unsafe { context.wrap_borrowed_stream(stream) };
    // SAFETY: the caller's promises.
    unsafe { product::run(&stream, description, &operands) }
}
