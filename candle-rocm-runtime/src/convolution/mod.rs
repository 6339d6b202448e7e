//! Convolutions of one to three axes, and their gradients, as products whose operand is gathered from the image while it is
//! loaded: no patches are written to memory.
//!
//! | what | where |
//! |---|---|
//! | a convolution: shape, layout in memory, what is computed of it | [`description`] |
//! | as kernels are told it | `arguments` |
//! | which kernel, in how many splits of k | [`plan`] |
//! | taps along x in channels' place, where these are read in vectors | `fold` |
//! | which of them are 3 x 3 taps that share pixels | `halo` |
//! | which gradients of weights are read along lines | `lines` |
//! | the launch | [`convolve`] |
//! | MIOpen in our kernels' place, where it is chosen | [`library`] |
//! | Candle's launches of transposed convolutions | `transposed` |

mod arguments;
mod choice;
pub mod description;
mod fold;
mod halo;
mod launch;
pub mod library;
mod lines;
pub mod plan;
mod product;
mod transpose;
pub(crate) mod transposed;

pub use candle_rocm_kernels::matmul::Dtype;
pub use description::{Activation, Axis, Convolution, Epilogue, Operands, Operation, Strides};
pub use launch::{chosen, convolve, convolve_by, kernels};
