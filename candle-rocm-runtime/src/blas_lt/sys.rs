//! Types under cuBLASLt's own names.
#![allow(non_camel_case_types, non_snake_case, missing_docs)]

use super::described::{Description, Matrix};
pub use crate::base::cuda_names::{
    cublasComputeType_t, cublasStatus_t, cudaDataType_t, cudaDataType_t as cudaDataType,
};
use crate::base::hip::types::hipStream_t;

/// A library, of which there is nothing to know.
pub type cublasLtHandle_t = *mut u8;
/// A matrix.
pub type cublasLtMatrixLayout_t = *mut Matrix;
/// What is multiplied and how.
pub type cublasLtMatmulDesc_t = *mut Description;
/// What a choice of algorithms prefers, which nothing here is guided by.
pub type cublasLtMatmulPreference_t = *mut u8;
/// A stream's handle.
pub type cudaStream_t = hipStream_t;

/// An algorithm, of which there is nothing to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct cublasLtMatmulAlgo_t {
    pub data: [u64; 8],
}

/// What a product is computed by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct cublasLtMatmulHeuristicResult_t {
    pub algo: cublasLtMatmulAlgo_t,
    pub workspaceSize: usize,
    pub state: cublasStatus_t,
    pub wavesCount: f32,
    pub reserved: [i32; 4],
}

/// What can be said of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum cublasLtMatrixLayoutAttribute_t {
    CUBLASLT_MATRIX_LAYOUT_TYPE,
    CUBLASLT_MATRIX_LAYOUT_ORDER,
    CUBLASLT_MATRIX_LAYOUT_ROWS,
    CUBLASLT_MATRIX_LAYOUT_COLS,
    CUBLASLT_MATRIX_LAYOUT_LD,
    CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
    CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
    CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET,
}

/// What can be said of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum cublasLtMatmulDescAttributes_t {
    CUBLASLT_MATMUL_DESC_COMPUTE_TYPE,
    CUBLASLT_MATMUL_DESC_SCALE_TYPE,
    CUBLASLT_MATMUL_DESC_POINTER_MODE,
    CUBLASLT_MATMUL_DESC_TRANSA,
    CUBLASLT_MATMUL_DESC_TRANSB,
    CUBLASLT_MATMUL_DESC_TRANSC,
    CUBLASLT_MATMUL_DESC_FILL_MODE,
    CUBLASLT_MATMUL_DESC_EPILOGUE,
    CUBLASLT_MATMUL_DESC_BIAS_POINTER,
    CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE,
    CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET,
    CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
    CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
    CUBLASLT_MATMUL_DESC_C_SCALE_POINTER,
    CUBLASLT_MATMUL_DESC_D_SCALE_POINTER,
    CUBLASLT_MATMUL_DESC_AMAX_D_POINTER,
    CUBLASLT_MATMUL_DESC_FAST_ACCUM,
    CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
}

/// What follows a product. The numbers are cuBLASLt's, as they are handed over as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum cublasLtEpilogue_t {
    CUBLASLT_EPILOGUE_DEFAULT = 1,
    CUBLASLT_EPILOGUE_RELU = 2,
    CUBLASLT_EPILOGUE_BIAS = 4,
    CUBLASLT_EPILOGUE_RELU_BIAS = 6,
    CUBLASLT_EPILOGUE_GELU = 32,
    CUBLASLT_EPILOGUE_GELU_BIAS = 36,
    CUBLASLT_EPILOGUE_RELU_AUX = 130,
    CUBLASLT_EPILOGUE_RELU_AUX_BIAS = 134,
    CUBLASLT_EPILOGUE_DRELU = 136,
    CUBLASLT_EPILOGUE_DRELU_BGRAD = 152,
    CUBLASLT_EPILOGUE_GELU_AUX = 160,
    CUBLASLT_EPILOGUE_GELU_AUX_BIAS = 164,
    CUBLASLT_EPILOGUE_DGELU = 192,
    CUBLASLT_EPILOGUE_DGELU_BGRAD = 208,
    CUBLASLT_EPILOGUE_BGRADA = 256,
    CUBLASLT_EPILOGUE_BGRADB = 512,
}

/// What can be said of preferences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum cublasLtMatmulPreferenceAttributes_t {
    CUBLASLT_MATMUL_PREF_SEARCH_MODE,
    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
    CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
    CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT,
    CUBLASLT_MATMUL_PREF_IMPL_MASK,
}
