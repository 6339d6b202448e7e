//! Functions of elements.

use std::marker::PhantomData;
use std::sync::Arc;

use candle_rocm_kernels::matmul::Dtype;
use candle_rocm_kernels::UNARY;

use super::descriptors::{Dnn, DnnDataType, TensorDescriptor};
use super::layer::{self, of_one_shape, one_dtype, Directions, Factors, LayerArguments};
use super::sys::{cudnnActivationMode_t, cudnnNanPropagation_t};
use super::unsupported;
use crate::base::error::{DnnError, Result as OwnResult};
use crate::convolution::Activation;
use crate::kernels::launch::PushKernelArg as _;
use crate::kernels::submit::LaunchConfig;
use crate::memory::access::{DevicePtr, DevicePtrMut};
use crate::stream::queue::Stream;

/// A function of elements.
#[derive(Clone, Debug)]
pub struct ActivationDescriptor<T> {
    mode: cudnnActivationMode_t,
    nan_propagation: cudnnNanPropagation_t,
    coefficient: f64,
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

    fn propagates_nan(&self) -> bool {
        self.nan_propagation == cudnnNanPropagation_t::CUDNN_PROPAGATE_NAN
    }

    /// The kernel of Candle's that computes this of packed tensors, by its name without type.
    fn of_candle(&self) -> Option<&'static str> {
        use cudnnActivationMode_t as Mode;
        match self.mode {
            Mode::CUDNN_ACTIVATION_SIGMOID => Some("usigmoid"),
            // Candle's gives 0 of a NaN.
            Mode::CUDNN_ACTIVATION_RELU if !self.propagates_nan() => Some("urelu"),
            Mode::CUDNN_ACTIVATION_TANH => Some("utanh"),
            Mode::CUDNN_ACTIVATION_SWISH if self.coefficient == 1.0 => Some("usilu"),
            _ => None,
        }
    }
}

/// y = alpha * activation(x) + beta * y.
#[derive(Debug)]
pub struct ActivationForward<'a, A: DnnDataType, X: DnnDataType, Y: DnnDataType> {
    /// The function.
    pub act: &'a ActivationDescriptor<A>,
    /// Inputs.
    pub x: &'a TensorDescriptor<X>,
    /// Outputs.
    pub y: &'a TensorDescriptor<Y>,
}

impl<A: DnnDataType, X: DnnDataType, Y: DnnDataType> ActivationForward<'_, A, X, Y> {
    /// Gives it to the stream.
    ///
    /// # Safety
    /// The memory holds what the descriptors say.
    ///
    /// # Errors
    /// x and y differ in shape or type, or have a type that no kernel takes; more than four strides; 2^31 elements; or a launch
    /// fails.
    pub unsafe fn launch<Src, Dst>(
        &self,
        factors: (Y, Y),
        x: &Src,
        y: &mut Dst,
    ) -> Result<(), DnnError>
    where
        Src: DevicePtr<A>,
        Dst: DevicePtrMut<A>,
    {
        const LAYER: &str = "activation";
        let dtype = one_dtype::<X, Y>(LAYER)?;
        let directions = of_one_shape(LAYER, &self.x.shape, &self.y.shape)?;
        let kept = Directions::by_memory(directions);
        let factors = Factors::new(factors);
        let stream = &self.act.handle.stream;
        let (x, _x) = x.device_ptr(stream);
        let (y, _y) = y.device_ptr_mut(stream);
        let of_candle = self.act.of_candle();
        if let Some(kernel) = of_candle.filter(|_| kept.is_packed() && factors.are_plain()) {
            let elements = kept.elements().unwrap_or(usize::MAX);
            // SAFETY: the caller's promise; the tensors are packed.
            return Ok(unsafe { by_candles(stream, kernel, dtype, elements, [x, y]) }?);
        }
        let none = Directions::default();
        let arguments = LayerArguments {
            x,
            y,
            coefficient: self.act.coefficient,
            mode: self.act.mode as u32,
            propagates_nan: self.act.propagates_nan().into(),
            ..LayerArguments::new(LAYER, &kept, &none, factors, layer::units(stream))?
        };
        // SAFETY: the caller's promise.
        unsafe { layer::launch(stream, LAYER, dtype, arguments.workgroups(), &arguments) }
    }
}

/// A function of packed elements, from one address to another.
///
/// # Safety
/// There are as many elements at both.
unsafe fn by_candles(
    stream: &Stream,
    kernel: &str,
    dtype: Dtype,
    elements: usize,
    [x, y]: [u64; 2],
) -> OwnResult<()> {
    let name = format!("{kernel}_{}", dtype.name());
    let function = stream.context().kernel(&UNARY, &name)?;
    let mut launch = stream.launch_builder(&function);
    // Elements, dimensions, and no layout: they are contiguous.
    launch.arg(&elements).arg(&1usize).arg(&0usize);
    launch.arg(&x).arg(&y);
    let counted = u32::try_from(elements).unwrap_or(u32::MAX);
    // SAFETY: the kernel's arguments, and so many elements, by the caller's promise.
    unsafe { launch.launch(LaunchConfig::for_num_elems(counted)) }?;
    Ok(())
}
