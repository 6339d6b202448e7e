//! The largest or the mean of each window.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::Arc;

use candle_rocm_kernels::order::Divisor;

use super::descriptors::{Dnn, DnnDataType, TensorDescriptor};
use super::layer::{self, one_dtype, Direction, DirectionArguments, Factors};
use super::sys::{cudnnNanPropagation_t, cudnnPoolingMode_t};
use super::{invalid, unsupported};
use crate::base::dtype::DeviceRepr;
use crate::base::error::DnnError;
use crate::memory::access::{DevicePtr, DevicePtrMut};

candle_rocm_kernels::kernel_argument! { DNN_AXIS,
    /// `DnnAxis` of kernels/dnn/problem.cuh, which says what the fields are.
    #[derive(Clone, Copy, Debug, Default)]
    struct AxisArguments {
        outputs: Divisor,
        size: i32,
        window: i32,
        stride: i32,
        padding: i32,
        unused: u32,
        x: i64,
        y: i64,
    }
}

candle_rocm_kernels::kernel_argument! { DNN_POOLING,
    /// `DnnPooling` of kernels/dnn/problem.cuh, which says what the fields are.
    #[derive(Clone, Copy, Debug, Default)]
    struct PoolingArguments {
        x: u64,
        y: u64,
        alpha: f64,
        beta: f64,
        axis_z: AxisArguments,
        axis_y: AxisArguments,
        axis_x: AxisArguments,
        channels: DirectionArguments,
        images: DirectionArguments,
        results: u32,
        mode: u32,
        propagates_nan: u32,
        channels_last: u32,
    }
}

// SAFETY: numbers, laid out by C's rules, as the kernel's parameter; the kernel reads no padding.
unsafe impl DeviceRepr for PoolingArguments {}

const LAYER: &str = "pooling";

/// Windows along one to three axes, and what is made of each.
#[derive(Clone, Debug)]
pub struct PoolingDescriptor<T> {
    window: Vec<usize>,
    pads: Vec<usize>,
    strides: Vec<usize>,
    mode: cudnnPoolingMode_t,
    nan_propagation: cudnnNanPropagation_t,
    #[allow(unused)]
    handle: Arc<Dnn>,
    marker: PhantomData<T>,
}

impl Dnn {
    /// Windows along as many axes as there are numbers. Padding stands before the inputs and behind them, and is no number:
    /// a mean has it in its count by `CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING` alone.
    ///
    /// # Errors
    /// Numbers of different counts, more than three; windows or strides below 1; padding that is negative.
    pub fn create_poolingnd<T: DnnDataType>(
        self: &Arc<Self>,
        window: &[c_int],
        pads: &[c_int],
        strides: &[c_int],
        mode: cudnnPoolingMode_t,
        nan_propagation: cudnnNanPropagation_t,
    ) -> Result<PoolingDescriptor<T>, DnnError> {
        let from = |numbers: &[c_int], least: usize| -> Option<Vec<usize>> {
            let numbers = numbers.iter().map(|number| usize::try_from(*number).ok());
            numbers
                .map(|number| number.filter(|number| *number >= least))
                .collect()
        };
        let are_as_many = window.len() == pads.len() && window.len() == strides.len();
        let are_axes = are_as_many && (1..=3).contains(&window.len());
        match (are_axes, from(window, 1), from(pads, 0), from(strides, 1)) {
            (true, Some(window), Some(pads), Some(strides)) => Ok(PoolingDescriptor {
                window,
                pads,
                strides,
                mode,
                nan_propagation,
                handle: self.clone(),
                marker: PhantomData,
            }),
            _ => Err(invalid(format!(
                "pooling by windows {window:?}, padding {pads:?} and strides {strides:?}: as many of each, from 1 to 3, windows \
                 and strides from 1 on and padding from 0 on"
            ))),
        }
    }
}

/// y = alpha * pooling(x) + beta * y.
#[derive(Debug)]
pub struct PoolingForward<'a, P, X, Y> {
    /// The windows.
    pub pooling: &'a PoolingDescriptor<P>,
    /// Inputs.
    pub x: &'a TensorDescriptor<X>,
    /// Outputs.
    pub y: &'a TensorDescriptor<Y>,
}

impl<P: DnnDataType, X: DnnDataType, Y: DnnDataType> PoolingForward<'_, P, X, Y> {
    /// Gives it to the stream. A window without inputs, all padding, has the mean 0 and the maximum -infinity.
    ///
    /// # Safety
    /// The memory holds what the descriptors say.
    ///
    /// # Errors
    /// x and y differ in type, batch or channels, or have a type that no kernel takes; y has another number of places than there
    /// are windows; 2^31 elements; or a launch fails.
    pub unsafe fn launch<Src, Dst>(
        &self,
        factors: (Y, Y),
        src: &Src,
        y: &mut Dst,
    ) -> Result<(), DnnError>
    where
        Src: DevicePtr<X>,
        Dst: DevicePtrMut<Y>,
    {
        let dtype = one_dtype::<X, Y>(LAYER)?;
        let Factors { alpha, beta } = Factors::new(factors);
        let stream = &self.x.handle.stream;
        let (from, _src) = src.device_ptr(stream);
        let (to, _y) = y.device_ptr_mut(stream);
        let arguments = PoolingArguments {
            x: from,
            y: to,
            alpha,
            beta,
            ..self.arguments()?
        };
        let workgroups = u64::from(arguments.results).div_ceil(layer::THREADS.into());
        // SAFETY: the caller's promise.
        unsafe { layer::launch(stream, LAYER, dtype, workgroups, &arguments) }
    }

    /// All but addresses and factors.
    fn arguments(&self) -> Result<PoolingArguments, DnnError> {
        let (of, x, y) = (self.pooling, &self.x.shape, &self.y.shape);
        let refuse = |why: String| {
            Err(invalid(format!(
                "pooling of x {:?} to y {:?} by windows {:?}, padding {:?} and strides {:?}: {why}",
                x.dims, y.dims, of.window, of.pads, of.strides
            )))
        };
        let count = of.window.len();
        if x.dims.len() != count + 2 || y.dims.len() != count + 2 || x.dims[..2] != y.dims[..2] {
            return refuse(
                "both have a batch and channels, the same, and an axis for each window".to_owned(),
            );
        }
        let absent = AxisArguments {
            outputs: Divisor::new(1),
            size: 1,
            window: 1,
            stride: 1,
            ..AxisArguments::default()
        };
        let mut axes = [absent; 3];
        for i in 0..count {
            let (size, window, stride) = (x.dims[i + 2], of.window[i], of.strides[i]);
            let padded = size.saturating_add(of.pads[i].saturating_mul(2));
            let outputs = padded
                .checked_sub(window)
                .map_or(0, |rest| rest / stride + 1);
            if outputs != y.dims[i + 2] {
                return refuse(format!("there are {outputs} windows along axis {i}"));
            }
            let reach = padded.saturating_add(window).saturating_add(stride);
            if i32::try_from(reach).is_err() {
                return refuse(format!("axis {i} reaches beyond 2^31 places"));
            }
            axes[3 - count + i] = AxisArguments {
                outputs: Divisor::new(outputs as u32),
                size: size as i32,
                window: window as i32,
                stride: stride as i32,
                padding: of.pads[i] as i32,
                unused: 0,
                x: x.strides[i + 2] as i64,
                y: y.strides[i + 2] as i64,
            };
        }
        let results = y
            .dims
            .iter()
            .try_fold(1_usize, |all, size| all.checked_mul(*size));
        let Some(results) = results.filter(|results| i32::try_from(*results).is_ok()) else {
            return Err(unsupported(format!(
                "pooling to y {:?}: kernels count 2^31 - 1 elements at most; split the batch",
                y.dims
            )));
        };
        let direction = |i: usize| Direction {
            count: y.dims[i],
            x: x.strides[i],
            y: y.strides[i],
        };
        let [axis_z, axis_y, axis_x] = axes;
        let propagates = cudnnNanPropagation_t::CUDNN_PROPAGATE_NAN;
        Ok(PoolingArguments {
            axis_z,
            axis_y,
            axis_x,
            channels: direction(1).arguments(),
            images: direction(0).arguments(),
            results: results as u32,
            mode: of.mode as u32,
            propagates_nan: (of.nan_propagation == propagates).into(),
            channels_last: (y.strides[1] == 1 && y.dims[1] > 1).into(),
            ..PoolingArguments::default()
        })
    }
}
