//! Softmax of images, or of the channels of each place.

use std::marker::PhantomData;
use std::sync::Arc;

use candle_rocm_kernels::matmul::Dtype;
use candle_rocm_kernels::REDUCE;

use super::descriptors::{Dnn, DnnDataType, TensorDescriptor};
use super::layer::{self, of_one_shape, one_dtype, Directions, Factors, LayerArguments};
use super::sys::{cudnnSoftmaxAlgorithm_t, cudnnSoftmaxMode_t};
use crate::base::error::{DnnError, Result as OwnResult};
use crate::kernels::launch::PushKernelArg as _;
use crate::kernels::submit::LaunchConfig;
use crate::memory::access::{DevicePtr, DevicePtrMut};
use crate::stream::queue::Stream;

/// What softmax goes over.
#[derive(Clone, Debug)]
pub struct Softmax<T> {
    #[allow(unused)]
    handle: Arc<Dnn>,
    mode: cudnnSoftmaxMode_t,
    marker: PhantomData<T>,
}

impl Dnn {
    /// Softmax of each image, or of the channels of each place.
    ///
    /// # Errors
    /// None.
    pub fn create_softmax<T: DnnDataType>(
        self: &Arc<Self>,
        mode: cudnnSoftmaxMode_t,
    ) -> Result<Softmax<T>, DnnError> {
        Ok(Softmax {
            handle: self.clone(),
            mode,
            marker: PhantomData,
        })
    }
}

/// y = alpha * softmax(x) + beta * y, or with the logarithm of softmax.
#[derive(Debug)]
pub struct SoftmaxForward<'a, A: DnnDataType, X: DnnDataType, Y: DnnDataType> {
    /// What it goes over.
    pub softmax: &'a Softmax<A>,
    /// Inputs.
    pub x: &'a TensorDescriptor<X>,
    /// Outputs.
    pub y: &'a TensorDescriptor<Y>,
}

impl<A: DnnDataType, X: DnnDataType, Y: DnnDataType> SoftmaxForward<'_, A, X, Y> {
    /// Gives it to the stream. The largest is always subtracted first: `CUDNN_SOFTMAX_FAST` means `CUDNN_SOFTMAX_ACCURATE`.
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
        algo: cudnnSoftmaxAlgorithm_t,
        x: &Src,
        y: &mut Dst,
    ) -> Result<(), DnnError>
    where
        Src: DevicePtr<A>,
        Dst: DevicePtrMut<A>,
    {
        const LAYER: &str = "softmax";
        let dtype = one_dtype::<X, Y>(LAYER)?;
        let mut kept = of_one_shape(LAYER, &self.x.shape, &self.y.shape)?;
        let reduced = match self.softmax.mode {
            cudnnSoftmaxMode_t::CUDNN_SOFTMAX_MODE_INSTANCE => kept.split_off(1),
            cudnnSoftmaxMode_t::CUDNN_SOFTMAX_MODE_CHANNEL => vec![kept.remove(1)],
        };
        let (kept, reduced) = (Directions::by_memory(kept), Directions::by_memory(reduced));
        let factors = Factors::new(factors);
        let stream = &self.x.handle.stream;
        let (x, _x) = x.device_ptr(stream);
        let (y, _y) = y.device_ptr_mut(stream);
        let is_log = algo == cudnnSoftmaxAlgorithm_t::CUDNN_SOFTMAX_LOG;
        if let Some(rows) = rows(&kept, &reduced).filter(|_| factors.are_plain() && !is_log) {
            // SAFETY: the caller's promise; rows are packed.
            return Ok(unsafe { by_candles(stream, dtype, rows, [x, y]) }?);
        }
        let arguments = LayerArguments {
            x,
            y,
            mode: algo as u32,
            ..LayerArguments::new(LAYER, &kept, &reduced, factors, layer::units(stream))?
        };
        // SAFETY: the caller's promise.
        unsafe { layer::launch(stream, LAYER, dtype, arguments.workgroups(), &arguments) }
    }
}

/// Rows and columns, if rows follow one another and have neighbours in memory.
fn rows(kept: &Directions, reduced: &Directions) -> Option<(u32, i32)> {
    let columns = reduced.elements()?;
    let are_rows = match kept.0[..] {
        [] => true,
        [of_rows] => (of_rows.x, of_rows.y) == (columns, columns),
        _ => false,
    };
    let counts = (
        u32::try_from(kept.elements()?).ok()?,
        i32::try_from(columns).ok()?,
    );
    (are_rows && reduced.is_packed()).then_some(counts)
}

/// Softmax of packed rows, from one address to another.
///
/// # Safety
/// There are as many elements at both.
unsafe fn by_candles(
    stream: &Stream,
    dtype: Dtype,
    (rows, columns): (u32, i32),
    [x, y]: [u64; 2],
) -> OwnResult<()> {
    let name = format!("softmax_{}", dtype.name());
    let function = stream.context().kernel(&REDUCE, &name)?;
    let mut launch = stream.launch_builder(&function);
    launch.arg(&x).arg(&y).arg(&columns);
    // As Candle asks for it.
    let config = LaunchConfig {
        grid_dim: (rows, 1, 1),
        block_dim: (1, 32, 1),
        shared_mem_bytes: 0,
    };
    // SAFETY: the kernel's arguments, and so many rows, by the caller's promise.
    unsafe { launch.launch(config) }?;
    Ok(())
}
