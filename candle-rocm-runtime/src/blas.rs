//! cuBLAS's shape over [`crate::gemm`]: what Candle calls to multiply matrices.

use std::ffi::{c_int, c_longlong, c_void};
use std::sync::Arc;

use crate::base::cuda_names::{
    cublasComputeType_t, cublasGemmAlgo_t, cublasOperation_t, cudaDataType_t,
};
use crate::base::error::{BlasError, Error};
use crate::gemm::multiply;
use crate::gemm::problem::{GemmDtype, GemmProblem, Transpose};
use crate::memory::access::{DevicePtr, DevicePtrMut, SyncOnDrop};
use crate::stream::queue::Stream;

/// A stream on which matrices are multiplied.
#[derive(Debug)]
pub struct Blas {
    state: Box<BlasState>,
}

/// What a [`BlasHandle`] points to.
#[derive(Debug)]
pub struct BlasState {
    stream: Arc<Stream>,
}

/// A copyable name of a [`Blas`], as cuBLAS's functions take it. Valid as long as the [`Blas`] lives.
pub type BlasHandle = *const BlasState;

impl Blas {
    /// Multiplies on this stream.
    pub fn new(stream: Arc<Stream>) -> Result<Self, BlasError> {
        Ok(Self {
            state: Box::new(BlasState { stream }),
        })
    }

    /// The handle for [`gemm_strided_batched_ex`].
    pub fn handle(&self) -> &BlasHandle {
        // A `Box` is a pointer to its content, and `BlasHandle` is that pointer's type.
        let state: *const Box<BlasState> = &self.state;
        // SAFETY: `Box<T>` for a sized `T` is laid out as `*const T`, and lives as long as `self`.
        unsafe { &*state.cast::<BlasHandle>() }
    }

    /// The stream that products are given to.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.state.stream
    }

    /// Multiplies on another stream from now on.
    ///
    /// # Safety
    /// The caller orders the work of both streams.
    pub unsafe fn set_stream(&mut self, stream: Arc<Stream>) -> Result<(), BlasError> {
        self.state.stream = stream;
        Ok(())
    }
}

/// One product, column-major: `C = alpha * op(A) * op(B) + beta * C`.
#[derive(Clone, Copy, Debug)]
pub struct GemmConfig<T> {
    /// What op does to A.
    pub transa: cublasOperation_t,
    /// What op does to B.
    pub transb: cublasOperation_t,
    /// Rows of op(A) and C.
    pub m: c_int,
    /// Columns of op(B) and C.
    pub n: c_int,
    /// Columns of op(A), rows of op(B).
    pub k: c_int,
    /// Factor of the product.
    pub alpha: T,
    /// Elements between columns of A.
    pub lda: c_int,
    /// Elements between columns of B.
    pub ldb: c_int,
    /// Factor of the old C.
    pub beta: T,
    /// Elements between columns of C.
    pub ldc: c_int,
}

/// A batch of products at regular distances.
#[derive(Clone, Copy, Debug)]
pub struct StridedBatchedConfig<T> {
    /// Each product.
    pub gemm: GemmConfig<T>,
    /// Number of products.
    pub batch_size: c_int,
    /// Elements from one A to the next; 0 uses the same A.
    pub stride_a: c_longlong,
    /// Elements from one B to the next; 0 uses the same B.
    pub stride_b: c_longlong,
    /// Elements from one C to the next.
    pub stride_c: c_longlong,
}

/// Matrix products of elements of type `T`.
pub trait Gemm<T> {
    /// One product.
    ///
    /// # Safety
    /// The configuration describes matrices that lie within the buffers.
    unsafe fn gemm<A: DevicePtr<T>, B: DevicePtr<T>, C: DevicePtrMut<T>>(
        &self,
        cfg: GemmConfig<T>,
        a: &A,
        b: &B,
        c: &mut C,
    ) -> Result<(), BlasError>;

    /// A batch of products.
    ///
    /// # Safety
    /// The configuration describes matrices that lie within the buffers.
    unsafe fn gemm_strided_batched<A: DevicePtr<T>, B: DevicePtr<T>, C: DevicePtrMut<T>>(
        &self,
        cfg: StridedBatchedConfig<T>,
        a: &A,
        b: &B,
        c: &mut C,
    ) -> Result<(), BlasError>;
}

/// A type that matrices can have.
trait Element: Copy {
    const DTYPE: GemmDtype;
    fn to_f64(self) -> f64;
}

macro_rules! elements {
    ($($type:ty, $dtype:ident, $value:ident => $to_f64:expr;)*) => {
        $(
            impl Element for $type {
                const DTYPE: GemmDtype = GemmDtype::$dtype;
                fn to_f64(self) -> f64 {
                    let $value = self;
                    $to_f64
                }
            }
        )*
    };
}
elements! {
    half::f16, F16, x => x.to_f64();
    half::bf16, BF16, x => x.to_f64();
    f32, F32, x => f64::from(x);
    f64, F64, x => x;
}

impl<T: Element> Gemm<T> for Blas {
    unsafe fn gemm<A: DevicePtr<T>, B: DevicePtr<T>, C: DevicePtrMut<T>>(
        &self,
        cfg: GemmConfig<T>,
        a: &A,
        b: &B,
        c: &mut C,
    ) -> Result<(), BlasError> {
        let cfg = StridedBatchedConfig {
            gemm: cfg,
            batch_size: 1,
            stride_a: 0,
            stride_b: 0,
            stride_c: 0,
        };
        // SAFETY: the caller's promise.
        unsafe { self.gemm_strided_batched(cfg, a, b, c) }
    }

    unsafe fn gemm_strided_batched<A: DevicePtr<T>, B: DevicePtr<T>, C: DevicePtrMut<T>>(
        &self,
        cfg: StridedBatchedConfig<T>,
        a: &A,
        b: &B,
        c: &mut C,
    ) -> Result<(), BlasError> {
        let stream = self.stream();
        let (a, use_of_a) = a.device_ptr(stream);
        let (b, use_of_b) = b.device_ptr(stream);
        let (c, use_of_c) = c.device_ptr_mut(stream);
        let gemm = cfg.gemm;
        let problem = GemmProblem {
            transa: transpose(gemm.transa),
            transb: transpose(gemm.transb),
            m: size("m", gemm.m)?,
            n: size("n", gemm.n)?,
            k: size("k", gemm.k)?,
            alpha: gemm.alpha.to_f64(),
            a,
            lda: size("lda", gemm.lda)?,
            stride_a: cfg.stride_a,
            b,
            ldb: size("ldb", gemm.ldb)?,
            stride_b: cfg.stride_b,
            beta: gemm.beta.to_f64(),
            c,
            ldc: size("ldc", gemm.ldc)?,
            stride_c: cfg.stride_c,
            batch: size("batch size", cfg.batch_size)?,
            dtype: T::DTYPE,
            compute: T::DTYPE.compute(),
        };
        // SAFETY: the caller's promise.
        let given = unsafe { multiply::gemm_strided_batched(stream, &problem) };
        SyncOnDrop::end_all([use_of_a, use_of_b, use_of_c], stream);
        given.map_err(BlasError)
    }
}

/// `cublasGemmStridedBatchedEx`: a batch of products whose element type is known at run time.
///
/// # Safety
/// The handle is a live [`Blas`]'s; `alpha` and `beta` point to a value of the computation's type (f16,
/// f32, f64 or i32); the addresses are those of device memory that holds the matrices as described.
///
/// # Errors
/// The three matrices are not all f16, bf16, f32 or f64, nor two of f16 or bf16 and one of f32, nor i8, i8 and i32; or a
/// size is negative.
#[allow(clippy::too_many_arguments)]
pub unsafe fn gemm_strided_batched_ex(
    handle: BlasHandle,
    transa: cublasOperation_t,
    transb: cublasOperation_t,
    m: c_int,
    n: c_int,
    k: c_int,
    alpha: *const c_void,
    a: *const c_void,
    a_type: cudaDataType_t,
    lda: c_int,
    stride_a: c_longlong,
    b: *const c_void,
    b_type: cudaDataType_t,
    ldb: c_int,
    stride_b: c_longlong,
    beta: *const c_void,
    c: *mut c_void,
    c_type: cudaDataType_t,
    ldc: c_int,
    stride_c: c_longlong,
    batch: c_int,
    compute: cublasComputeType_t,
    _algorithm: cublasGemmAlgo_t,
) -> Result<(), BlasError> {
    let dtype = dtype_of(a_type, b_type, c_type)?;
    // SAFETY: the computation's type, by the caller's promise.
    let factors = unsafe { [read_factor(alpha, compute), read_factor(beta, compute)] };
    // SAFETY: a live handle, by the caller's promise.
    let stream = unsafe { &(*handle).stream };
    let problem = GemmProblem {
        transa: transpose(transa),
        transb: transpose(transb),
        m: size("m", m)?,
        n: size("n", n)?,
        k: size("k", k)?,
        alpha: factors[0],
        a: a as u64,
        lda: size("lda", lda)?,
        stride_a,
        b: b as u64,
        ldb: size("ldb", ldb)?,
        stride_b,
        beta: factors[1],
        c: c as u64,
        ldc: size("ldc", ldc)?,
        stride_c,
        batch: size("batch size", batch)?,
        dtype,
        compute,
    };
    // SAFETY: the caller's promise.
    unsafe { multiply::gemm_strided_batched(stream, &problem) }.map_err(BlasError)
}

macro_rules! one_product {
    ($($name:ident $type:ty;)*) => {
        $(
            /// One product, `C = alpha * op(A) * op(B) + beta * C`, by addresses.
            ///
            /// # Safety
            /// The handle is a live [`Blas`]'s; the factors are readable; the addresses are those of device memory
            /// that holds the matrices as described.
            ///
            /// # Errors
            /// A size is negative, and those of [`crate::gemm::gemm_strided_batched`].
            #[allow(clippy::too_many_arguments)]
            pub unsafe fn $name(
                handle: BlasHandle,
                transa: cublasOperation_t,
                transb: cublasOperation_t,
                m: c_int,
                n: c_int,
                k: c_int,
                alpha: *const $type,
                a: *const $type,
                lda: c_int,
                b: *const $type,
                ldb: c_int,
                beta: *const $type,
                c: *mut $type,
                ldc: c_int,
            ) -> Result<(), BlasError> {
                // SAFETY: readable, by the caller's promise.
                let (alpha, beta) = unsafe { (Element::to_f64(alpha.read()), Element::to_f64(beta.read())) };
                let dtype = <$type>::DTYPE;
                let problem = GemmProblem {
                    transa: transpose(transa),
                    transb: transpose(transb),
                    m: size("m", m)?,
                    n: size("n", n)?,
                    k: size("k", k)?,
                    alpha,
                    a: a as u64,
                    lda: size("lda", lda)?,
                    stride_a: 0,
                    b: b as u64,
                    ldb: size("ldb", ldb)?,
                    stride_b: 0,
                    beta,
                    c: c as u64,
                    ldc: size("ldc", ldc)?,
                    stride_c: 0,
                    batch: 1,
                    dtype,
                    compute: dtype.compute(),
                };
                // SAFETY: a live handle and such memory, by the caller's promise.
                unsafe { multiply::gemm_strided_batched(&(*handle).stream, &problem) }
                    .map_err(BlasError)
            }
        )*
    };
}
one_product! {
    hgemm half::f16;
    sgemm f32;
    dgemm f64;
}

/// The type of products of these matrices.
pub(crate) fn dtype_of(
    a: cudaDataType_t,
    b: cudaDataType_t,
    c: cudaDataType_t,
) -> Result<GemmDtype, BlasError> {
    use cudaDataType_t::{CUDA_R_16BF, CUDA_R_16F, CUDA_R_32F, CUDA_R_32I, CUDA_R_64F, CUDA_R_8I};
    match (a, b, c) {
        (CUDA_R_16F, CUDA_R_16F, CUDA_R_16F) => Ok(GemmDtype::F16),
        (CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16BF) => Ok(GemmDtype::BF16),
        (CUDA_R_32F, CUDA_R_32F, CUDA_R_32F) => Ok(GemmDtype::F32),
        (CUDA_R_64F, CUDA_R_64F, CUDA_R_64F) => Ok(GemmDtype::F64),
        (CUDA_R_8I, CUDA_R_8I, CUDA_R_32I) => Ok(GemmDtype::I8),
        (CUDA_R_16F, CUDA_R_16F, CUDA_R_32F) => Ok(GemmDtype::F16ToF32),
        (CUDA_R_16BF, CUDA_R_16BF, CUDA_R_32F) => Ok(GemmDtype::BF16ToF32),
        _ => Err(BlasError(Error::unsupported(format!(
            "a matrix product of {a:?} and {b:?} into {c:?}: the three must be the same of f16, bf16, f32 and f64, \
             two of f16 or bf16 and one of f32, or two of i8 and one of i32; products of FP8 are candle_rocm_backend::fp8's"
        )))),
    }
}

/// A factor in the type that the computation has it in.
///
/// # Safety
/// `factor` points to a value of that type.
pub(crate) unsafe fn read_factor(factor: *const c_void, compute: cublasComputeType_t) -> f64 {
    use cublasComputeType_t as Compute;
    // SAFETY: the caller's promise.
    unsafe {
        match compute {
            Compute::CUBLAS_COMPUTE_16F | Compute::CUBLAS_COMPUTE_16F_PEDANTIC => {
                factor.cast::<half::f16>().read().to_f64()
            }
            Compute::CUBLAS_COMPUTE_64F | Compute::CUBLAS_COMPUTE_64F_PEDANTIC => {
                factor.cast::<f64>().read()
            }
            Compute::CUBLAS_COMPUTE_32I | Compute::CUBLAS_COMPUTE_32I_PEDANTIC => {
                factor.cast::<i32>().read().into()
            }
            _ => factor.cast::<f32>().read().into(),
        }
    }
}

fn transpose(operation: cublasOperation_t) -> Transpose {
    match operation {
        cublasOperation_t::CUBLAS_OP_N => Transpose::No,
        cublasOperation_t::CUBLAS_OP_T | cublasOperation_t::CUBLAS_OP_C => Transpose::Yes,
    }
}

#[inline]
fn size(name: &str, value: c_int) -> Result<usize, BlasError> {
    usize::try_from(value)
        .map_err(|_| BlasError(Error::invalid(format!("matrix product: {name} is {value}"))))
}
