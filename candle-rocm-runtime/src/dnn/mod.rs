//! cuDNN's shape over our own kernels: handles, descriptors, and the operations of them, as cudarc's safe layer has them.
//!
//! An algorithm that cuDNN has a name for means ours, whichever it is: all compute the same, and ours needs no workspace of the
//! caller's. What no kernel of ours computes is an error that names it.

mod activation;
mod convolution;
mod descriptors;
pub mod sys;

pub use activation::ActivationDescriptor;
pub use convolution::{
    ConvBackwardData, ConvBackwardFilter, ConvBiasActivationForward, ConvDescriptor, ConvForward,
};
pub use descriptors::{Dnn, DnnDataType, FilterDescriptor, TensorDescriptor};

use crate::base::error::{DnnError, Error};

/// The error of what is not there.
fn unsupported(what: impl Into<String>) -> DnnError {
    Error::unsupported(what).into()
}

/// The error of what makes no sense.
fn invalid(what: impl Into<String>) -> DnnError {
    Error::invalid(what).into()
}
