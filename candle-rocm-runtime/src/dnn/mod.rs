//! cuDNN's shape over our own kernels: handles, descriptors, and the operations of them, as cudarc's safe layer has them.
//!
//! An algorithm that cuDNN has a name for means ours, whichever it is: all compute the same, and ours needs no workspace of the
//! caller's. What no kernel of ours computes is an error that names it.
//!
//! The other layers take tensors of any strides, alpha and beta. What Candle has a kernel for goes by that one, where the tensors
//! are packed and nothing is scaled; the rest by the kernels of `dnn`, which go by strides.

mod activation;
mod convolution;
mod descriptors;
mod layer;
mod pooling;
mod reduction;
mod softmax;
pub mod sys;

pub use activation::{ActivationDescriptor, ActivationForward};
pub use convolution::{
    ConvBackwardData, ConvBackwardFilter, ConvBiasActivationForward, ConvDescriptor, ConvForward,
};
pub use descriptors::{Dnn, DnnDataType, FilterDescriptor, TensorDescriptor};
pub use pooling::{PoolingDescriptor, PoolingForward};
pub use reduction::{FlatIndices, NoIndices, ReduceTensor, ReductionDescriptor};
pub use softmax::{Softmax, SoftmaxForward};

use crate::base::error::{DnnError, Error};

/// The error of what is not there.
fn unsupported(what: impl Into<String>) -> DnnError {
    Error::unsupported(what).into()
}

/// The error of what makes no sense.
fn invalid(what: impl Into<String>) -> DnnError {
    Error::invalid(what).into()
}
