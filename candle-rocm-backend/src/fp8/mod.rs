//! FP8: casts with factors, and products of what they make, as DeepSeek's models are trained and shipped.
//!
//! An element is OCP's e4m3 (4 bits of exponent, 3 of mantissa, 448 at most) times an f32 that it shares with others: 128 of
//! a row and of k for activations, 128 x 128 for weights, a row or all where a model has it so. gfx942, gfx950, gfx1200 and
//! gfx1201 have matrix instructions for it; elsewhere elements are widened to f16, which holds each, on their way there. The
//! results are the same but for the order of sums. `docs/kernels/fp8.md` has formats, formulas and layouts.
//!
//! ```
//! use candle_core::{DType, Device, Tensor};
//! use candle_rocm_backend::{fp8, DeviceExt as _};
//!
//! # candle_rocm_backend::runtime::select(candle_rocm_backend::RuntimeKind::Emulator)?;
//! let device = Device::new_rocm(0)?;
//! let x = Tensor::randn(0f32, 1., (4, 256), &device)?;
//! let weights = Tensor::randn(0f32, 1., (128, 256), &device)?;
//! let a = fp8::cast_per_token(&x, fp8::ScaleFormat::F32)?;
//! let b = fp8::cast_per_block(&weights, fp8::ScaleFormat::F32)?;
//! let product = fp8::gemm_nt(&a, &b, None, DType::F32)?;
//! let exact = x.matmul(&weights.t()?)?;
//! let error = (&product - &exact)?.sqr()?.sum_all()?.to_scalar::<f32>()?;
//! assert!(error < 0.002 * exact.sqr()?.sum_all()?.to_scalar::<f32>()?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cast;
mod linear;
mod matrix;
mod product;

pub use crate::specialised::prewarm;
pub use cast::{
    cast_per_block, cast_per_channel, cast_per_tensor, cast_per_token, swiglu_cast_per_token,
};
pub(crate) use cast::{cast_scattered, gathered};
pub use linear::{is_native, linear, most_rows, normed_linear, normed_swiglu};
pub use matrix::{Fp8Matrix, ScaleFormat, Share, BLOCK};
pub use product::{
    gemm_nn, gemm_nt, gemm_tn, gemm_tt, k_grouped_gemm, m_grouped_gemm_nt_contiguous,
    m_grouped_gemm_nt_masked,
};
