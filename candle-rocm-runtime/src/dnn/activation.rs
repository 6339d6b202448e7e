//! Functions of elements.

use std::marker::PhantomData;
use std::sync::Arc;

use super::descriptors::{Dnn, DnnDataType};
use super::sys::{cudnnActivationMode_t, cudnnNanPropagation_t};
use super::unsupported;
use crate::base::error::DnnError;
use crate::convolution::Activation;

/// A function of elements.
#[derive(Clone, Debug)]
pub struct ActivationDescriptor<T> {
    mode: cudnnActivationMode_t,
    nan_propagation: cudnnNanPropagation_t,
    coefficient: f64,
    #[allow(unused)]
    handle: Arc<Dnn>,
    marker: PhantomData<T>,
}

impl Dnn {
    /// A function of elements; `coef` is the bound of a clipped ReLU, the factor of ELU, or beta of Swish.
    ///
    /// # Errors
    /// None: what no kernel has is an error of the operation.
    pub fn create_activation<T: DnnDataType>(
        self: &Arc<Self>,
        mode: cudnnActivationMode_t,
        nan_propagation: cudnnNanPropagation_t,
        coef: f64,
    ) -> Result<ActivationDescriptor<T>, DnnError> {
        Ok(ActivationDescriptor {
            mode,
            nan_propagation,
            coefficient: coef,
            handle: self.clone(),
            marker: PhantomData,
        })
    }
}

impl<T> ActivationDescriptor<T> {
    /// As convolutions have it.
    pub(super) fn of_convolution(&self) -> Result<Activation, DnnError> {
        use cudnnActivationMode_t as Mode;
        match (self.mode, self.nan_propagation) {
            (Mode::CUDNN_ACTIVATION_IDENTITY, _) => Ok(Activation::None),
            (Mode::CUDNN_ACTIVATION_RELU, cudnnNanPropagation_t::CUDNN_PROPAGATE_NAN) => {
                Ok(Activation::ReluOfNan)
            }
            (Mode::CUDNN_ACTIVATION_RELU, _) => Ok(Activation::Relu),
            (Mode::CUDNN_ACTIVATION_SWISH, _) if self.coefficient == 1.0 => Ok(Activation::Silu),
            (mode, _) => Err(unsupported(format!(
                "no convolution is followed by {mode:?} with coefficient {}: ReLU, Swish with 1 and the identity are",
                self.coefficient
            ))),
        }
    }
}
