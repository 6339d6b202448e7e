//! cuBLASLt's shape over [`crate::gemm`]: matrices and products described by objects, and what follows a product.
//!
//! The functions of [`result`] take pointers to them, as those of cudarc's module of this name do.

use std::ffi::c_void;

use crate::base::cuda_names::{cublasComputeType_t, cudaDataType_t};
use crate::base::error::{BlasError, Error, Result};
use crate::base::hip::types::hipStream_t;
use crate::blas::{dtype_of, read_factor};
use crate::foreign::current_device;
use crate::gemm::{gemm_with_epilogue, Activation, Epilogue, GemmProblem, Transpose};
use crate::stream::context::Context;

/// What a handle points to: nothing has to be kept.
#[derive(Debug)]
pub struct Handle(());

/// How a matrix lies in memory, or each of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    dtype: cudaDataType_t,
    rows: u64,
    columns: u64,
    ld: i64,
    batch: i32,
    stride: i64,
}

/// What is done with two matrices.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    compute: cublasComputeType_t,
    transa: bool,
    transb: bool,
    epilogue: u32,
    bias: u64,
    bias_stride: i64,
}

/// What a search for a kernel may use. None is made.
#[derive(Debug)]
pub struct Preference(());

/// Types under cuBLASLt's own names. Enumerations have C's size, by which callers say how large an attribute is;
/// nothing depends on the numbers but for [`cublasLtEpilogue_t`](sys::cublasLtEpilogue_t)'s.
#[allow(non_camel_case_types, non_snake_case, missing_docs)]
pub mod sys {
    pub use crate::base::cuda_names::{
        cublasComputeType_t, cudaDataType_t, cudaDataType_t as cudaDataType,
    };
    pub use crate::base::hip::types::hipStream_t as cudaStream_t;

    pub type cublasLtHandle_t = *mut super::Handle;
    pub type cublasLtMatrixLayout_t = *mut super::Layout;
    pub type cublasLtMatmulDesc_t = *mut super::Description;
    pub type cublasLtMatmulPreference_t = *mut super::Preference;

    /// What a matrix has besides.
    #[repr(u32)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum cublasLtMatrixLayoutAttribute_t {
        CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
        CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
    }

    /// What a product has besides.
    #[repr(u32)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum cublasLtMatmulDescAttributes_t {
        CUBLASLT_MATMUL_DESC_TRANSA,
        CUBLASLT_MATMUL_DESC_TRANSB,
        CUBLASLT_MATMUL_DESC_TRANSC,
        CUBLASLT_MATMUL_DESC_EPILOGUE,
        CUBLASLT_MATMUL_DESC_BIAS_POINTER,
        CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE,
        CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
        CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
        CUBLASLT_MATMUL_DESC_C_SCALE_POINTER,
        CUBLASLT_MATMUL_DESC_D_SCALE_POINTER,
    }

    /// What follows a product.
    #[repr(u32)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum cublasLtEpilogue_t {
        CUBLASLT_EPILOGUE_DEFAULT = 1,
        CUBLASLT_EPILOGUE_RELU = 2,
        CUBLASLT_EPILOGUE_BIAS = 4,
        CUBLASLT_EPILOGUE_RELU_BIAS = 6,
        CUBLASLT_EPILOGUE_GELU = 32,
        CUBLASLT_EPILOGUE_GELU_BIAS = 36,
    }

    /// What a search may use.
    #[repr(u32)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum cublasLtMatmulPreferenceAttributes_t {
        CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
    }

    /// Which kernel: the runtime chooses when it multiplies.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct cublasLtMatmulAlgo_t(());

    /// What a search found.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct cublasLtMatmulHeuristicResult_t {
        pub algo: cublasLtMatmulAlgo_t,
        pub workspaceSize: usize,
    }
}

/// Functions that return a result. Objects are made by one, and given back to another.
#[allow(clippy::too_many_arguments)]
pub mod result {
    use super::*;
    use sys::cublasLtMatmulDescAttributes_t as Of;

    pub use crate::base::error::BlasError as CublasError;

    /// A handle, for [`matmul`].
    ///
    /// # Errors
    /// None.
    pub fn create_handle() -> Result<sys::cublasLtHandle_t, CublasError> {
        Ok(Box::into_raw(Box::new(Handle(()))))
    }

    /// Takes a handle back.
    ///
    /// # Safety
    /// It is one of [`create_handle`]'s, and used no more.
    pub unsafe fn destroy_handle(handle: sys::cublasLtHandle_t) -> Result<(), CublasError> {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(handle) });
        Ok(())
    }

    /// A matrix of `rows` rows, whose columns begin `ld` elements after each other.
    ///
    /// # Errors
    /// None.
    pub fn create_matrix_layout(
        matrix_type: sys::cudaDataType,
        rows: u64,
        cols: u64,
        ld: i64,
    ) -> Result<sys::cublasLtMatrixLayout_t, CublasError> {
        Ok(Box::into_raw(Box::new(Layout {
            dtype: matrix_type,
            rows,
            columns: cols,
            ld,
            batch: 1,
            stride: 0,
        })))
    }

    /// Sets what a matrix has besides.
    ///
    /// # Safety
    /// The layout is live, and `buf` holds the attribute's value of `buf_size` bytes.
    ///
    /// # Errors
    /// The value has another size.
    pub unsafe fn set_matrix_layout_attribute(
        matrix_layout: sys::cublasLtMatrixLayout_t,
        attr: sys::cublasLtMatrixLayoutAttribute_t,
        buf: *const c_void,
        buf_size: usize,
    ) -> Result<(), CublasError> {
        use sys::cublasLtMatrixLayoutAttribute_t as Of;
        // SAFETY: the caller's promise.
        unsafe {
            let layout = &mut *matrix_layout;
            match attr {
                Of::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT => {
                    layout.batch = value(attr, buf, buf_size)?
                }
                Of::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET => {
                    layout.stride = value(attr, buf, buf_size)?;
                }
            }
        }
        Ok(())
    }

    /// Takes a layout back.
    ///
    /// # Safety
    /// It is one of [`create_matrix_layout`]'s, and used no more.
    pub unsafe fn destroy_matrix_layout(
        matrix_layout: sys::cublasLtMatrixLayout_t,
    ) -> Result<(), CublasError> {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(matrix_layout) });
        Ok(())
    }

    /// A product without anything besides, summed in this type. Factors have the type of the sums.
    ///
    /// # Errors
    /// None.
    pub fn create_matmul_desc(
        compute_type: sys::cublasComputeType_t,
        _scale_type: sys::cudaDataType,
    ) -> Result<sys::cublasLtMatmulDesc_t, CublasError> {
        Ok(Box::into_raw(Box::new(Description {
            compute: compute_type,
            transa: false,
            transb: false,
            epilogue: sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_DEFAULT as u32,
            bias: 0,
            bias_stride: 0,
        })))
    }

    /// Sets what a product has besides.
    ///
    /// # Safety
    /// The description is live, and `buf` holds the attribute's value of `buf_size` bytes.
    ///
    /// # Errors
    /// The value has another size, or the attribute is not there: C transposed, and scales on the GPU.
    pub unsafe fn set_matmul_desc_attribute(
        matmul_desc: sys::cublasLtMatmulDesc_t,
        attr: sys::cublasLtMatmulDescAttributes_t,
        buf: *const c_void,
        buf_size: usize,
    ) -> Result<(), CublasError> {
        // SAFETY: the caller's promise.
        unsafe {
            let description = &mut *matmul_desc;
            match attr {
                Of::CUBLASLT_MATMUL_DESC_TRANSA => {
                    description.transa = value::<i32>(attr, buf, buf_size)? != 0;
                }
                Of::CUBLASLT_MATMUL_DESC_TRANSB => {
                    description.transb = value::<i32>(attr, buf, buf_size)? != 0;
                }
                Of::CUBLASLT_MATMUL_DESC_EPILOGUE => {
                    description.epilogue = value(attr, buf, buf_size)?;
                }
                Of::CUBLASLT_MATMUL_DESC_BIAS_POINTER => {
                    description.bias = value(attr, buf, buf_size)?;
                }
                Of::CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE => {
                    description.bias_stride = value(attr, buf, buf_size)?;
                }
                Of::CUBLASLT_MATMUL_DESC_TRANSC if value::<i32>(attr, buf, buf_size)? == 0 => {}
                _ => {
                    return Err(
                        Error::unsupported(format!("a matrix product with {attr:?}")).into(),
                    )
                }
            }
        }
        Ok(())
    }

    /// Takes a description back.
    ///
    /// # Safety
    /// It is one of [`create_matmul_desc`]'s, and used no more.
    pub unsafe fn destroy_matmul_desc(
        matmul_desc: sys::cublasLtMatmulDesc_t,
    ) -> Result<(), CublasError> {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(matmul_desc) });
        Ok(())
    }

    /// What a search may use.
    ///
    /// # Errors
    /// None.
    pub fn create_matmul_pref() -> Result<sys::cublasLtMatmulPreference_t, CublasError> {
        Ok(Box::into_raw(Box::new(Preference(()))))
    }

    /// Changes nothing: memory beside the matrices is the runtime's own.
    ///
    /// # Safety
    /// None is needed; cudarc's function is unsafe.
    ///
    /// # Errors
    /// None.
    pub unsafe fn set_matmul_pref_attribute(
        _matmul_pref: sys::cublasLtMatmulPreference_t,
        _attr: sys::cublasLtMatmulPreferenceAttributes_t,
        _buf: *const c_void,
        _buf_size: usize,
    ) -> Result<(), CublasError> {
        Ok(())
    }

    /// Takes a preference back.
    ///
    /// # Safety
    /// It is one of [`create_matmul_pref`]'s, and used no more.
    pub unsafe fn destroy_matmul_pref(
        matmul_pref: sys::cublasLtMatmulPreference_t,
    ) -> Result<(), CublasError> {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(matmul_pref) });
        Ok(())
    }

    /// Whether there is a way to multiply such matrices: which one, [`matmul`] decides.
    ///
    /// # Safety
    /// Description and layouts are live.
    ///
    /// # Errors
    /// There is none.
    pub unsafe fn get_matmul_algo_heuristic(
        _handle: sys::cublasLtHandle_t,
        matmul_desc: sys::cublasLtMatmulDesc_t,
        a_layout: sys::cublasLtMatrixLayout_t,
        b_layout: sys::cublasLtMatrixLayout_t,
        _c_layout: sys::cublasLtMatrixLayout_t,
        d_layout: sys::cublasLtMatrixLayout_t,
        _matmul_pref: sys::cublasLtMatmulPreference_t,
    ) -> Result<sys::cublasLtMatmulHeuristicResult_t, CublasError> {
        // SAFETY: the caller's promise.
        let (description, [a, b, d]) =
            unsafe { (&*matmul_desc, [*a_layout, *b_layout, *d_layout]) };
        description
            .problem([&a, &b, &d], [0; 3], [1.0, 0.0])?
            .check()?;
        description.activation()?;
        Ok(Default::default())
    }

    /// `D = epilogue(alpha * op(A) * op(B) + beta * C)`, given to the stream of the current GPU.
    ///
    /// # Safety
    /// Description and layouts are live, and the addresses are those of device memory which holds such matrices; D
    /// overlaps neither A nor B. The factors have the type of the sums. The stream is the current GPU's, or null.
    ///
    /// # Errors
    /// The matrices' types, or what is to follow, are not there; C is added, and not D itself; a size is negative;
    /// and those of [`gemm_with_epilogue`].
    pub unsafe fn matmul(
        _handle: sys::cublasLtHandle_t,
        matmul_desc: sys::cublasLtMatmulDesc_t,
        alpha: *const c_void,
        beta: *const c_void,
        a: *const c_void,
        a_layout: sys::cublasLtMatrixLayout_t,
        b: *const c_void,
        b_layout: sys::cublasLtMatrixLayout_t,
        c: *const c_void,
        _c_layout: sys::cublasLtMatrixLayout_t,
        d: *mut c_void,
        d_layout: sys::cublasLtMatrixLayout_t,
        _algo: *const sys::cublasLtMatmulAlgo_t,
        _workspace: *mut c_void,
        _workspace_size: usize,
        stream: sys::cudaStream_t,
    ) -> Result<(), CublasError> {
        // SAFETY: the caller's promise.
        let (description, [la, lb, ld]) =
            unsafe { (&*matmul_desc, [*a_layout, *b_layout, *d_layout]) };
        // SAFETY: the computation's type, by the caller's promise.
        let factors = unsafe {
            [
                read_factor(alpha, description.compute),
                read_factor(beta, description.compute),
            ]
        };
        if factors[1] != 0.0 && c != d.cast_const() {
            let what = "a matrix product that adds another matrix than the one it writes";
            return Err(Error::unsupported(what).into());
        }
        let addresses = [a as u64, b as u64, d as u64];
        let problem = description.problem([&la, &lb, &ld], addresses, factors)?;
        // SAFETY: the caller's promise.
        unsafe { super::multiply(description, problem, stream) }.map_err(BlasError)
    }

    /// An attribute's value.
    ///
    /// # Safety
    /// `buf` is readable for `size` bytes, and any bits are a `T`.
    unsafe fn value<T: Copy>(
        name: impl std::fmt::Debug,
        buf: *const c_void,
        size: usize,
    ) -> Result<T, CublasError> {
        if size != size_of::<T>() {
            let message = format!("{name:?} has {} bytes, not {size}", size_of::<T>());
            return Err(Error::invalid(message).into());
        }
        // SAFETY: the caller's promise.
        Ok(unsafe { buf.cast::<T>().read_unaligned() })
    }
}

impl Description {
    /// The product of A and B into D.
    fn problem(
        &self,
        [a, b, d]: [&Layout; 3],
        addresses: [u64; 3],
        factors: [f64; 2],
    ) -> Result<GemmProblem, BlasError> {
        let dtype = dtype_of(a.dtype, b.dtype, d.dtype)?;
        let size = |name: &str, value: i64| {
            let size = usize::try_from(value);
            size.map_err(|_| Error::invalid(format!("matrix product: {name} is {value}")))
        };
        let turned = |turned, layout: &Layout| match turned {
            true => (layout.columns, layout.rows),
            false => (layout.rows, layout.columns),
        };
        let (m, k) = turned(self.transa, a);
        let (other_k, n) = turned(self.transb, b);
        if (m, n, k) != (d.rows, d.columns, other_k) || a.batch != d.batch || b.batch != d.batch {
            let message = format!("{a:?} and {b:?} do not multiply to {d:?} by {self:?}");
            return Err(Error::invalid(message).into());
        }
        let transpose = |turned| match turned {
            true => Transpose::Yes,
            false => Transpose::No,
        };
        Ok(GemmProblem {
            transa: transpose(self.transa),
            transb: transpose(self.transb),
            m: m as usize,
            n: n as usize,
            k: k as usize,
            alpha: factors[0],
            a: addresses[0],
            lda: size("lda", a.ld)?,
            stride_a: a.stride,
            b: addresses[1],
            ldb: size("ldb", b.ld)?,
            stride_b: b.stride,
            beta: factors[1],
            c: addresses[2],
            ldc: size("ldc", d.ld)?,
            stride_c: d.stride,
            batch: size("batch size", d.batch.into())?,
            dtype,
            compute: self.compute,
        })
    }

    /// What follows, beside the bias.
    fn activation(&self) -> Result<Activation> {
        use sys::cublasLtEpilogue_t as Known;
        const GELU: [u32; 2] = [
            Known::CUBLASLT_EPILOGUE_GELU as u32,
            Known::CUBLASLT_EPILOGUE_GELU_BIAS as u32,
        ];
        const NONE: [u32; 2] = [
            Known::CUBLASLT_EPILOGUE_DEFAULT as u32,
            Known::CUBLASLT_EPILOGUE_BIAS as u32,
        ];
        match self.epilogue {
            epilogue if NONE.contains(&epilogue) => Ok(Activation::None),
            // cuBLASLt's is the one by the hyperbolic tangent.
            epilogue if GELU.contains(&epilogue) => Ok(Activation::GeluTanh),
            other => Err(Error::unsupported(format!(
                "what follows a matrix product by cuBLASLt's number {other}: there are a bias (4) and GELU (32)"
            ))),
        }
    }

    fn has_bias(&self) -> bool {
        self.epilogue & sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS as u32 != 0
    }
}

/// # Safety
/// As [`result::matmul`].
unsafe fn multiply(
    description: &Description,
    problem: GemmProblem,
    stream: hipStream_t,
) -> Result<()> {
    let activation = description.activation()?;
    let context = Context::new(current_device()?.ordinal())?;
    // SAFETY: a stream of the current GPU, by the caller's promise.
    let stream = unsafe { context.wrap_borrowed_stream(stream) };
    let epilogue = |number: i64| Epilogue {
        bias: description.has_bias().then(|| {
            let bytes = problem.dtype.output_bytes() as i64;
            description
                .bias
                .wrapping_add_signed(number * description.bias_stride * bytes)
        }),
        activation,
        residual: None,
    };
    if !description.has_bias() || description.bias_stride == 0 {
        // SAFETY: the caller's promise.
        return unsafe { gemm_with_epilogue(&stream, &problem, &epilogue(0)) };
    }
    // Each has a bias of its own.
    let bytes = problem.dtype.bytes() as i64;
    let output_bytes = problem.dtype.output_bytes() as i64;
    for number in 0..problem.batch as i64 {
        let moved = |address: u64, by: i64| address.wrapping_add_signed(number * by);
        let one = GemmProblem {
            a: moved(problem.a, problem.stride_a * bytes),
            b: moved(problem.b, problem.stride_b * bytes),
            c: moved(problem.c, problem.stride_c * output_bytes),
            batch: 1,
            ..problem
        };
        // SAFETY: the caller's promise.
        unsafe { gemm_with_epilogue(&stream, &one, &epilogue(number)) }?;
    }
    Ok(())
}
