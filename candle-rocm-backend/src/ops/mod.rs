//! Operators that Candle makes of several kernels, each in one: softmax with scale and mask, norms of sums, bias,
//! activation and residual, gated activations; and attention. All but attention have gradients. Beside them, operators that
//! Candle has slowly or not at all: sorts of any row, the largest elements, sums along a dimension, counts by bin, positions
//! of elements, norms of groups of channels, concatenation in one launch; sparse matrices ([`sparse`]), small
//! decompositions ([`linalg`]) and Fourier transforms ([`fft`]).
//!
//! On a GPU an operator reads its operands once and writes its result once, as long as a row fits into the registers of a
//! workgroup: 16,384 elements of f16 or bf16, or half as many where two operands are read whose rows are no multiple of 16
//! bytes. Few rows of 128 KiB and more are split over several workgroups, and read twice. The gradients are kernels too, and
//! read what they need once more instead of keeping it from the forward pass; sums over rows have an order that the shapes
//! and the GPU's compute units fix. On the CPU, and on any other device of Candle's, the same operators are composed of
//! Candle's own, so that a model that uses them runs anywhere.
//!
//! Operands are f16, bf16, f32 or f64, where an operator does not say that it takes others, and of one type; f16 and bf16
//! are computed in f32 and rounded once. Those that are
//! not contiguous are copied first. Empty tensors give empty tensors. Gradients have no gradients of their own.
//!
//! ```
//! use candle_core::{DType, Device, Tensor};
//! use candle_rocm_backend::{ops, DeviceExt as _};
//!
//! # candle_rocm_backend::runtime::select(candle_rocm_backend::RuntimeKind::Emulator)?;
//! let device = Device::new_rocm(0)?;
//! let x = Tensor::randn(0f32, 1., (8, 512), &device)?;
//! let residual = Tensor::randn(0f32, 1., (8, 512), &device)?;
//! let weight = Tensor::ones(512, DType::F32, &device)?;
//! let (sum, normed) = ops::add_rms_norm(&x, &residual, &weight, 1e-5)?;
//! let squares = normed.sqr()?.mean(1)?.to_vec1::<f32>()?;
//! assert!(squares.iter().all(|mean| (mean - 1.).abs() < 1e-3));
//! # let difference = (sum - (x + residual)?)?.abs()?.max_all()?.to_scalar::<f32>()?;
//! # assert!(difference < 1e-6);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod activation;
mod attention;
mod cat;
mod conv;
mod cumsum;
mod dropout;
pub mod fft;
mod group_norm;
mod histogram;
mod kv_cache;
pub(crate) mod launch;
pub mod linalg;
mod linear;
mod loss;
pub(crate) mod node;
mod norm;
pub(crate) mod normed_linear;
pub(crate) mod operands;
mod positions;
mod product;
mod quantized;
mod softmax;
mod sort;
pub mod sparse;

pub use activation::{bias_activation, swiglu, swiglu_packed, Activation};
pub use attention::{
    attention, attention_composed, attention_paged, attention_varlen, AttentionOptions, Packed,
};
pub use cat::cat;
pub use conv::{
    conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, ConvOptions, ConvTransposeOptions,
};
pub use cumsum::cumsum;
pub use dropout::dropout;
pub use group_norm::group_norm;
pub use histogram::{bincount, histogram};
pub use kv_cache::{HeadNorms, KvCache, Pairs, Rotary, Scores};
pub use linear::linear;
pub use loss::{
    cross_entropy, cross_entropy_with_lse, linear_cross_entropy, linear_cross_entropy_with_lse,
    CrossEntropyOptions, Reduction,
};
pub use norm::{add_layer_norm, add_rms_norm, layer_norm, rms_norm};
pub use normed_linear::{normed_linear, normed_swiglu};
pub use positions::{masked_select, nonzero, unique_consecutive};
pub use quantized::{
    quantized_add_norm, quantized_linears, quantized_swiglu, takes_vectors, CompletionCounters,
    Q8_1Activations, RmsNorm,
};
pub use softmax::{log_softmax, scaled_masked_softmax, softmax};
pub use sort::{argsort, sort, topk};

/// The name before 0.1.1 of [`Q8_1Activations`].
#[deprecated(since = "0.1.1", note = "it is Q8_1Activations")]
pub type QuantizedVector = Q8_1Activations;
/// The name before 0.1.1 of [`CompletionCounters`].
#[deprecated(since = "0.1.1", note = "it is CompletionCounters")]
pub type Ending = CompletionCounters;
