//! Convolutions and their gradients.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::Arc;

use super::activation::ActivationDescriptor;
use super::descriptors::{dtype_of, Dnn, DnnDataType, FilterDescriptor, Shape, TensorDescriptor};
use super::sys::{
    cudnnConvolutionBwdDataAlgo_t, cudnnConvolutionBwdFilterAlgo_t, cudnnConvolutionFwdAlgo_t,
    cudnnConvolutionMode_t, cudnnMathType_t,
};
use super::{invalid, unsupported};
use crate::base::error::DnnError;
use crate::convolution::{convolve, Axis, Convolution, Epilogue, Operands, Operation};
use crate::memory::access::{DevicePtr, DevicePtrMut};

/// How a convolution goes along its axes.
#[derive(Clone, Debug)]
pub struct ConvDescriptor<T> {
    pads: Vec<usize>,
    strides: Vec<usize>,
    dilations: Vec<usize>,
    mode: cudnnConvolutionMode_t,
    groups: usize,
    #[allow(unused)]
    handle: Arc<Dnn>,
    marker: PhantomData<T>,
}

impl Dnn {
    /// Along height and width. `mode` says whether taps are turned round; the type is that of sums, which are f32 or wider.
    ///
    /// # Errors
    /// As [`create_convnd`](Self::create_convnd).
    pub fn create_conv2d<T: DnnDataType>(
        self: &Arc<Self>,
        pad: [c_int; 2],
        stride: [c_int; 2],
        dilation: [c_int; 2],
        mode: cudnnConvolutionMode_t,
    ) -> Result<ConvDescriptor<T>, DnnError> {
        self.create_convnd(&pad, &stride, &dilation, mode)
    }

    /// Along any number of axes.
    ///
    /// # Errors
    /// Negative numbers, or not as many of each.
    pub fn create_convnd<T: DnnDataType>(
        self: &Arc<Self>,
        pads: &[c_int],
        strides: &[c_int],
        dilations: &[c_int],
        mode: cudnnConvolutionMode_t,
    ) -> Result<ConvDescriptor<T>, DnnError> {
        let all = |numbers: &[c_int]| -> Option<Vec<usize>> {
            let numbers = numbers.iter().map(|number| usize::try_from(*number).ok());
            numbers.collect()
        };
        let are_as_many = pads.len() == strides.len() && pads.len() == dilations.len();
        match (are_as_many, all(pads), all(strides), all(dilations)) {
            (true, Some(pads), Some(strides), Some(dilations)) => Ok(ConvDescriptor {
                pads,
                strides,
                dilations,
                mode,
                groups: 1,
                handle: self.clone(),
                marker: PhantomData,
            }),
            _ => Err(invalid(format!(
                "a convolution has padding {pads:?}, strides {strides:?} and dilations {dilations:?}: as many of each, none negative"
            ))),
        }
    }
}

impl<T> ConvDescriptor<T> {
    /// Permits less precision, which nothing here makes use of.
    ///
    /// # Errors
    /// None.
    pub fn set_math_type(&mut self, _: cudnnMathType_t) -> Result<(), DnnError> {
        Ok(())
    }

    /// Divides channels into so many groups.
    ///
    /// # Errors
    /// There are none.
    pub fn set_group_count(&mut self, group_count: i32) -> Result<(), DnnError> {
        self.groups = usize::try_from(group_count)
            .ok()
            .filter(|count| *count > 0)
            .ok_or_else(|| invalid(format!("a convolution of {group_count} groups")))?;
        Ok(())
    }

    /// The convolution of tensors that lie so: inputs, weights, outputs.
    fn convolution<X: DnnDataType, Y: DnnDataType>(
        &self,
        operation: Operation,
        [x, w, y]: [&Shape; 3],
    ) -> Result<Convolution, DnnError> {
        let dtype = dtype_of(X::DATA_TYPE, "convolution")?;
        if X::DATA_TYPE != Y::DATA_TYPE {
            return Err(unsupported(format!(
                "no convolution takes {:?} to {:?}: both must be the same",
                X::DATA_TYPE,
                Y::DATA_TYPE
            )));
        }
        let rank = x.dims.len();
        let count = self.pads.len();
        let has_rank = |shape: &&Shape| shape.dims.len() == rank;
        if !(1..=3).contains(&count) || count + 2 != rank || ![w, y].iter().all(has_rank) {
            return Err(invalid(format!(
                "a convolution along {count} axes of x {:?}, w {:?} and y {:?}: one to three axes, and all must have two \
                 dimensions more",
                x.dims, w.dims, y.dims
            )));
        }
        let mut axes = [Axis::NONE; 3];
        for i in 0..count {
            let padding = self.pads[i];
            let [input, kernel, output] = [x, w, y].map(|shape| shape.dims[i + 2]);
            let axis = Axis::new(
                input,
                kernel,
                self.strides[i],
                self.dilations[i],
                [padding; 2],
            );
            if axis.output != output {
                return Err(invalid(format!(
                    "a convolution of x {:?} with w {:?}, padding {:?}, strides {:?} and dilations {:?} has {} places along \
                     axis {i}, and y {:?} has {output}",
                    x.dims, w.dims, self.pads, self.strides, self.dilations, axis.output, y.dims
                )));
            }
            axes[3 - count + i] = Axis {
                is_flipped: self.mode == cudnnConvolutionMode_t::CUDNN_CONVOLUTION,
                ..axis
            };
        }
        let of_group = x.dims[1].checked_div(self.groups);
        if x.dims[0] != y.dims[0] || w.dims[0] != y.dims[1] || of_group != Some(w.dims[1]) {
            return Err(invalid(format!(
                "a convolution of x {:?} with w {:?} to y {:?} in {} groups: batches and channels do not match",
                x.dims, w.dims, y.dims, self.groups
            )));
        }
        Ok(Convolution {
            operation,
            dtype,
            batch: x.dims[0],
            groups: self.groups,
            in_channels: x.dims[1],
            out_channels: y.dims[1],
            axes,
            inputs: x.as_strides(),
            weights: w.as_strides(),
            outputs: y.as_strides(),
        })
    }
}

/// The error of what is no algorithm.
fn no_algorithm(name: &str) -> DnnError {
    invalid(format!(
        "{name} is the number of algorithms, and none of them"
    ))
}

/// y = alpha * conv(x, w) + beta * y.
#[derive(Debug)]
pub struct ConvForward<'a, X: DnnDataType, C: DnnDataType, Y: DnnDataType> {
    /// How it goes.
    pub conv: &'a ConvDescriptor<C>,
    /// Inputs.
    pub x: &'a TensorDescriptor<X>,
    /// Weights.
    pub w: &'a FilterDescriptor<X>,
    /// Outputs.
    pub y: &'a TensorDescriptor<Y>,
}

impl<X: DnnDataType, C: DnnDataType, Y: DnnDataType> ConvForward<'_, X, C, Y> {
    fn convolution(&self) -> Result<Convolution, DnnError> {
        let shapes = [&self.x.shape, &self.w.shape, &self.y.shape];
        self.conv.convolution::<X, Y>(Operation::Forward, shapes)
    }

    /// The name that cuDNN has for an algorithm like ours.
    ///
    /// # Errors
    /// No kernel computes it.
    pub fn pick_algorithm(&self) -> Result<cudnnConvolutionFwdAlgo_t, DnnError> {
        self.convolution()?;
        Ok(cudnnConvolutionFwdAlgo_t::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM)
    }

    /// Bytes of the caller's that it works in: none.
    ///
    /// # Errors
    /// It is no algorithm, or no kernel computes it.
    pub fn get_workspace_size(&self, algo: cudnnConvolutionFwdAlgo_t) -> Result<usize, DnnError> {
        self.convolution()?;
        is_forward(algo).map(|()| 0)
    }

    /// Gives it to the stream.
    ///
    /// # Safety
    /// The memory holds what the descriptors say.
    ///
    /// # Errors
    /// As [`get_workspace_size`](Self::get_workspace_size), or a launch fails.
    pub unsafe fn launch<Workspace, Src, Filter, Dst>(
        &self,
        algo: cudnnConvolutionFwdAlgo_t,
        _: Option<&mut Workspace>,
        (alpha, beta): (Y, Y),
        src: &Src,
        filter: &Filter,
        y: &mut Dst,
    ) -> Result<(), DnnError>
    where
        Workspace: DevicePtrMut<u8>,
        Src: DevicePtr<X>,
        Filter: DevicePtr<X>,
        Dst: DevicePtrMut<Y>,
    {
        is_forward(algo)?;
        let of = self.convolution()?;
        let stream = &self.x.handle.stream;
        let (inputs, _src) = src.device_ptr(stream);
        let (weights, _filter) = filter.device_ptr(stream);
        let (outputs, _y) = y.device_ptr_mut(stream);
        let operands = Operands {
            inputs,
            weights,
            outputs,
        };
        // SAFETY: the caller's promise.
        unsafe { convolve(stream, &of, &operands, &scaled(alpha, beta)) }?;
        Ok(())
    }
}

fn is_forward(algo: cudnnConvolutionFwdAlgo_t) -> Result<(), DnnError> {
    match algo {
        cudnnConvolutionFwdAlgo_t::CUDNN_CONVOLUTION_FWD_ALGO_COUNT => {
            Err(no_algorithm("CUDNN_CONVOLUTION_FWD_ALGO_COUNT"))
        }
        _ => Ok(()),
    }
}

fn scaled<Y: DnnDataType>(alpha: Y, beta: Y) -> Epilogue {
    Epilogue {
        alpha: alpha.into_scaling_parameter().into(),
        beta: beta.into_scaling_parameter().into(),
        ..Epilogue::default()
    }
}

/// dx = alpha * gradient of x + beta * dx.
#[derive(Debug)]
pub struct ConvBackwardData<'a, X: DnnDataType, C: DnnDataType, Y: DnnDataType> {
    /// How it goes.
    pub conv: &'a ConvDescriptor<C>,
    /// The gradient of the inputs.
    pub dx: &'a TensorDescriptor<X>,
    /// Weights.
    pub w: &'a FilterDescriptor<X>,
    /// The gradient of the outputs.
    pub dy: &'a TensorDescriptor<Y>,
}

impl<X: DnnDataType, C: DnnDataType, Y: DnnDataType> ConvBackwardData<'_, X, C, Y> {
    fn convolution(&self, algo: cudnnConvolutionBwdDataAlgo_t) -> Result<Convolution, DnnError> {
        use cudnnConvolutionBwdDataAlgo_t as Algo;
        if algo == Algo::CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT {
            return Err(no_algorithm("CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT"));
        }
        let shapes = [&self.dx.shape, &self.w.shape, &self.dy.shape];
        self.conv.convolution::<X, Y>(Operation::Data, shapes)
    }

    /// The name that cuDNN has for an algorithm like ours.
    ///
    /// # Errors
    /// No kernel computes it.
    pub fn pick_algorithm(&self) -> Result<cudnnConvolutionBwdDataAlgo_t, DnnError> {
        let algo = cudnnConvolutionBwdDataAlgo_t::CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
        self.convolution(algo).map(|_| algo)
    }

    /// Bytes of the caller's that it works in: none.
    ///
    /// # Errors
    /// It is no algorithm, or no kernel computes it.
    pub fn get_workspace_size(
        &self,
        algo: cudnnConvolutionBwdDataAlgo_t,
    ) -> Result<usize, DnnError> {
        self.convolution(algo).map(|_| 0)
    }

    /// Gives it to the stream.
    ///
    /// # Safety
    /// The memory holds what the descriptors say.
    ///
    /// # Errors
    /// As [`get_workspace_size`](Self::get_workspace_size), or a launch fails.
    pub unsafe fn launch<Workspace, Src, Filter, Dst>(
        &self,
        algo: cudnnConvolutionBwdDataAlgo_t,
        _: Option<&mut Workspace>,
        (alpha, beta): (Y, Y),
        dx: &mut Src,
        filter: &Filter,
        dy: &Dst,
    ) -> Result<(), DnnError>
    where
        Workspace: DevicePtrMut<u8>,
        Src: DevicePtrMut<X>,
        Filter: DevicePtr<X>,
        Dst: DevicePtr<Y>,
    {
        let of = self.convolution(algo)?;
        let stream = &self.dx.handle.stream;
        let (inputs, _dx) = dx.device_ptr_mut(stream);
        let (weights, _filter) = filter.device_ptr(stream);
        let (outputs, _dy) = dy.device_ptr(stream);
        let operands = Operands {
            inputs,
            weights,
            outputs,
        };
        // SAFETY: the caller's promise.
        unsafe { convolve(stream, &of, &operands, &scaled(alpha, beta)) }?;
        Ok(())
    }
}

/// dw = alpha * gradient of w + beta * dw.
#[derive(Debug)]
pub struct ConvBackwardFilter<'a, X: DnnDataType, C: DnnDataType, Y: DnnDataType> {
    /// How it goes.
    pub conv: &'a ConvDescriptor<C>,
    /// Inputs.
    pub x: &'a TensorDescriptor<X>,
    /// The gradient of the weights.
    pub dw: &'a FilterDescriptor<X>,
    /// The gradient of the outputs.
    pub dy: &'a TensorDescriptor<Y>,
}

impl<X: DnnDataType, C: DnnDataType, Y: DnnDataType> ConvBackwardFilter<'_, X, C, Y> {
    fn convolution(&self, algo: cudnnConvolutionBwdFilterAlgo_t) -> Result<Convolution, DnnError> {
        use cudnnConvolutionBwdFilterAlgo_t as Algo;
        if algo == Algo::CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT {
            return Err(no_algorithm("CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT"));
        }
        let shapes = [&self.x.shape, &self.dw.shape, &self.dy.shape];
        self.conv.convolution::<X, Y>(Operation::Weights, shapes)
    }

    /// The name that cuDNN has for an algorithm like ours, which always gives the same bits.
    ///
    /// # Errors
    /// No kernel computes it.
    pub fn pick_algorithm(&self) -> Result<cudnnConvolutionBwdFilterAlgo_t, DnnError> {
        let algo = cudnnConvolutionBwdFilterAlgo_t::CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;
        self.convolution(algo).map(|_| algo)
    }

    /// Bytes of the caller's that it works in: none. Partial sums have memory of the stream's, at most 64 MiB.
    ///
    /// # Errors
    /// It is no algorithm, or no kernel computes it.
    pub fn get_workspace_size(
        &self,
        algo: cudnnConvolutionBwdFilterAlgo_t,
    ) -> Result<usize, DnnError> {
        self.convolution(algo).map(|_| 0)
    }

    /// Gives it to the stream.
    ///
    /// # Safety
    /// The memory holds what the descriptors say.
    ///
    /// # Errors
    /// As [`get_workspace_size`](Self::get_workspace_size), or a launch fails.
    pub unsafe fn launch<Workspace, Src, Filter, Dst>(
        &self,
        algo: cudnnConvolutionBwdFilterAlgo_t,
        _: Option<&mut Workspace>,
        (alpha, beta): (Y, Y),
        x: &Src,
        dfilter: &mut Filter,
        dy: &Dst,
    ) -> Result<(), DnnError>
    where
        Workspace: DevicePtrMut<u8>,
        Src: DevicePtr<X>,
        Filter: DevicePtrMut<X>,
        Dst: DevicePtr<Y>,
    {
        let of = self.convolution(algo)?;
        let stream = &self.x.handle.stream;
        let (inputs, _x) = x.device_ptr(stream);
        let (weights, _dw) = dfilter.device_ptr_mut(stream);
        let (outputs, _dy) = dy.device_ptr(stream);
        let operands = Operands {
            inputs,
            weights,
            outputs,
        };
        // SAFETY: the caller's promise.
        unsafe { convolve(stream, &of, &operands, &scaled(alpha, beta)) }?;
        Ok(())
    }
}

/// y = activation(alpha1 * conv(x, w) + alpha2 * z + bias).
#[derive(Debug)]
pub struct ConvBiasActivationForward<
    'a,
    X: DnnDataType,
    C: DnnDataType,
    A: DnnDataType,
    Y: DnnDataType,
> {
    /// How it goes.
    pub conv: &'a ConvDescriptor<C>,
    /// What follows.
    pub act: &'a ActivationDescriptor<A>,
    /// Inputs.
    pub x: &'a TensorDescriptor<X>,
    /// Weights.
    pub w: &'a FilterDescriptor<X>,
    /// What is added, which lies as the outputs do.
    pub z: &'a TensorDescriptor<X>,
    /// An element for each output channel.
    pub bias: &'a TensorDescriptor<X>,
    /// Outputs.
    pub y: &'a TensorDescriptor<Y>,
}

impl<X: DnnDataType, C: DnnDataType, A: DnnDataType, Y: DnnDataType>
    ConvBiasActivationForward<'_, X, C, A, Y>
{
    fn forward(&self) -> ConvForward<'_, X, C, Y> {
        ConvForward {
            conv: self.conv,
            x: self.x,
            w: self.w,
            y: self.y,
        }
    }

    /// As [`ConvForward::pick_algorithm`].
    ///
    /// # Errors
    /// Likewise.
    pub fn pick_algorithm(&self) -> Result<cudnnConvolutionFwdAlgo_t, DnnError> {
        self.forward().pick_algorithm()
    }

    /// As [`ConvForward::get_workspace_size`].
    ///
    /// # Errors
    /// Likewise.
    pub fn get_workspace_size(&self, algo: cudnnConvolutionFwdAlgo_t) -> Result<usize, DnnError> {
        self.forward().get_workspace_size(algo)
    }

    /// Gives it to the stream.
    ///
    /// # Safety
    /// The memory holds what the descriptors say.
    ///
    /// # Errors
    /// As [`ConvForward::launch`]; an activation that no convolution is followed by; z that does not lie as y does.
    #[allow(clippy::too_many_arguments)]
    pub unsafe fn launch<Workspace, Src, Filter, Dst>(
        &self,
        algo: cudnnConvolutionFwdAlgo_t,
        _: Option<&mut Workspace>,
        (alpha1, alpha2): (Y, Y),
        src: &Src,
        filter: &Filter,
        z: &Src,
        bias: &Src,
        y: &mut Dst,
    ) -> Result<(), DnnError>
    where
        Workspace: DevicePtrMut<u8>,
        Src: DevicePtr<X>,
        Filter: DevicePtr<X>,
        Dst: DevicePtrMut<Y>,
    {
        is_forward(algo)?;
        let of = self.forward().convolution()?;
        let scaled = scaled(alpha1, alpha2);
        if scaled.beta != 0.0 && self.z.shape != self.y.shape {
            return Err(unsupported(format!(
                "z {:?} does not lie as y {:?} does, to which it is added",
                self.z.shape, self.y.shape
            )));
        }
        let channels = &self.bias.shape.dims;
        let count: usize = channels.iter().product();
        if channels[1] != of.out_channels
            || count != of.out_channels
            || self.bias.shape.strides[1] > 1
        {
            return Err(invalid(format!(
                "a bias {:?} for {} output channels: it must have an element for each, one after the other",
                self.bias.shape, of.out_channels
            )));
        }
        let stream = &self.x.handle.stream;
        let (inputs, _src) = src.device_ptr(stream);
        let (weights, _filter) = filter.device_ptr(stream);
        let (z, _z) = z.device_ptr(stream);
        let (bias, _bias) = bias.device_ptr(stream);
        let (outputs, _y) = y.device_ptr_mut(stream);
        let operands = Operands {
            inputs,
            weights,
            outputs,
        };
        let epilogue = Epilogue {
            addend: Some(z),
            bias: Some(bias),
            activation: self.act.of_convolution()?,
            ..scaled
        };
        // SAFETY: the caller's promise.
        unsafe { convolve(stream, &of, &operands, &epilogue) }?;
        Ok(())
    }
}
