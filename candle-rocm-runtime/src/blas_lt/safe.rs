//! Products without objects.

use std::ffi::c_int;
use std::sync::Arc;

use super::described::{refused, Description, Matrix, Operands};
use super::{product, result, sys};
use crate::base::cuda_names::{cublasComputeType_t, cudaDataType_t};
use crate::base::error::{BlasError, Error};
use crate::gemm::library::hipblaslt;
use crate::memory::access::{DevicePtr, DevicePtrMut};
use crate::memory::buffer::DeviceBuffer;
use crate::stream::queue::Stream;

/// A function that ends a product.
#[derive(Clone, Debug)]
pub enum Activation {
    /// The greater of the number and 0.
    Relu,
    /// GELU by the hyperbolic tangent.
    Gelu,
}

/// Device memory that cuBLASLt would work in. Nothing here needs it, so that it has one byte.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// The memory.
    pub buffer: DeviceBuffer<u8>,
    /// Its bytes.
    pub size: usize,
}

impl Workspace {
    /// On this stream.
    ///
    /// # Errors
    /// The GPU has no memory left.
    pub fn new(stream: Arc<Stream>) -> Result<Self, Error> {
        Ok(Self {
            buffer: stream.alloc_zeros(1)?,
            size: 1,
        })
    }
}

/// A stream on which matrices are multiplied, with a bias and an activation.
#[derive(Debug)]
pub struct BlasLt {
    stream: Arc<Stream>,
    workspace: Workspace,
    handle: Handle,
}

/// Of which there is nothing to know.
#[derive(Debug)]
struct Handle(sys::cublasLtHandle_t);

// SAFETY: nothing is behind it.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl BlasLt {
    /// Multiplies on this stream.
    ///
    /// # Errors
    /// The GPU has no memory left, or the library that multiplies by choice does not start.
    pub fn new(stream: Arc<Stream>) -> Result<Self, BlasError> {
        // Here, and not in a capture, in which what it allocates is forbidden.
        hipblaslt::of(stream.context().device())?;
        Ok(Self {
            workspace: Workspace::new(stream.clone())?,
            stream,
            handle: Handle(result::create_handle()?),
        })
    }
}

/// What products of all types have.
pub trait MatmulShared {
    /// The handle, for [`result`]'s functions.
    fn handle(&self) -> &sys::cublasLtHandle_t;

    /// The memory that cuBLASLt would work in.
    fn workspace(&self) -> &Workspace;

    /// The stream that products are given to.
    fn stream(&self) -> &Arc<Stream>;
}

impl MatmulShared for BlasLt {
    fn handle(&self) -> &sys::cublasLtHandle_t {
        &self.handle.0
    }

    fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }
}

/// One product or a batch, column-major: `C = activation(alpha * op(A) * op(B) + beta * C + bias)`.
#[derive(Clone, Copy, Debug)]
pub struct MatmulConfig {
    /// Whether op transposes A.
    pub transa: bool,
    /// Whether op transposes B.
    pub transb: bool,
    /// Whether C is transposed, which it cannot be.
    pub transc: bool,
    /// Rows of op(A) and C.
    pub m: u64,
    /// Columns of op(B) and C.
    pub n: u64,
    /// Columns of op(A), rows of op(B).
    pub k: u64,
    /// Factor of the product.
    pub alpha: f32,
    /// Elements between columns of A.
    pub lda: i64,
    /// Elements between columns of B.
    pub ldb: i64,
    /// Factor of the old C.
    pub beta: f32,
    /// Elements between columns of C.
    pub ldc: i64,
    /// Elements from one A to the next.
    pub stride_a: Option<i64>,
    /// Elements from one B to the next.
    pub stride_b: Option<i64>,
    /// Elements from one C to the next.
    pub stride_c: Option<i64>,
    /// Elements from one bias to the next.
    pub stride_bias: Option<i64>,
    /// Number of products.
    pub batch_size: Option<c_int>,
}

/// Matrix products of elements of type `T`.
pub trait Matmul<T>: MatmulShared {
    /// The type's name in CUDA.
    fn matrix_type() -> sys::cudaDataType;

    /// How sums are made.
    fn compute_type() -> sys::cublasComputeType_t;

    /// One product, or a batch.
    ///
    /// # Safety
    /// The configuration describes matrices, and a bias of m elements, that lie within the buffers.
    ///
    /// # Errors
    /// As [`result::matmul`].
    unsafe fn matmul<I: DevicePtr<T>, O: DevicePtrMut<T>>(
        &self,
        cfg: MatmulConfig,
        a: &I,
        b: &I,
        c: &mut O,
        bias: Option<&I>,
        act: Option<&Activation>,
    ) -> Result<(), BlasError> {
        if cfg.transc {
            return Err(refused(
                "a matrix product into a transposed C: exchange A and B, and transpose both",
            ));
        }
        let matrix = |turned: bool, rows: u64, columns: u64, ld: i64, stride: Option<i64>| {
            let (rows, columns) = if turned {
                (columns, rows)
            } else {
                (rows, columns)
            };
            let batched = cfg.batch_size.zip(stride);
            Matrix {
                dtype: Self::matrix_type(),
                rows,
                columns,
                ld,
                batch: batched.map_or(1, |(batch, _)| batch),
                stride: batched.map_or(0, |(_, stride)| stride),
            }
        };
        let stream = self.stream();
        let (a, _a) = a.device_ptr(stream);
        let (b, _b) = b.device_ptr(stream);
        let (c, _c) = c.device_ptr_mut(stream);
        let (bias, _bias) = bias.map(|bias| bias.device_ptr(stream)).unzip();
        let of_c = matrix(false, cfg.m, cfg.n, cfg.ldc, cfg.stride_c);
        let operands = Operands {
            alpha: cfg.alpha.into(),
            beta: cfg.beta.into(),
            addresses: [a, b, c, c],
            matrices: [
                matrix(cfg.transa, cfg.m, cfg.k, cfg.lda, cfg.stride_a),
                matrix(cfg.transb, cfg.k, cfg.n, cfg.ldb, cfg.stride_b),
                of_c,
                of_c,
            ],
        };
        let activation = match act {
            None => 0,
            Some(Activation::Relu) => 2,
            Some(Activation::Gelu) => 32,
        };
        let description = Description {
            compute: Self::compute_type(),
            scale: cudaDataType_t::CUDA_R_32F,
            transa: cfg.transa,
            transb: cfg.transb,
            epilogue: match activation + 4 * u32::from(bias.is_some()) {
                0 => 1,
                other => other,
            },
            bias: bias.unwrap_or(0),
            bias_stride: cfg.stride_bias.unwrap_or(0),
        };
        // SAFETY: the caller's promise.
        unsafe { product::run(stream, &description, &operands) }
    }
}

macro_rules! products {
    ($($type:ty => $dtype:ident, $compute:ident;)*) => {
        $(
            impl Matmul<$type> for BlasLt {
                fn matrix_type() -> sys::cudaDataType {
                    cudaDataType_t::$dtype
                }

                fn compute_type() -> sys::cublasComputeType_t {
                    cublasComputeType_t::$compute
                }
            }
        )*
    };
}
products! {
    f32 => CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32;
    half::f16 => CUDA_R_16F, CUBLAS_COMPUTE_32F;
    half::bf16 => CUDA_R_16BF, CUBLAS_COMPUTE_32F;
}
