//! Handles, and where tensors and filters lie.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::Arc;

use super::sys::{cudnnDataType_t, cudnnTensorFormat_t};
use super::{invalid, unsupported};
use crate::base::error::DnnError;
use crate::convolution::{Dtype, Strides};
use crate::stream::queue::Stream;

/// A stream that operations are given to: cuDNN's handle.
#[derive(Clone, Debug)]
pub struct Dnn {
    pub(super) stream: Arc<Stream>,
}

impl Dnn {
    /// Gives operations to this stream.
    ///
    /// # Errors
    /// None today: there is no library to load.
    pub fn new(stream: Arc<Stream>) -> Result<Arc<Self>, DnnError> {
        Ok(Arc::new(Self { stream }))
    }

    /// Gives further operations to another stream.
    ///
    /// # Safety
    /// What was given to the other stream, and what will be given to this one, do not write the same memory at once.
    ///
    /// # Errors
    /// None today.
    pub unsafe fn set_stream(&mut self, stream: Arc<Stream>) -> Result<(), DnnError> {
        self.stream = stream;
        Ok(())
    }
}

/// An element type of cuDNN's.
pub trait DnnDataType {
    /// Its name.
    const DATA_TYPE: cudnnDataType_t;

    /// The type of factors.
    type Scalar: Into<f64>;

    /// A factor of this type.
    fn into_scaling_parameter(self) -> Self::Scalar;
}

macro_rules! data_types {
    ($($type:ty, $name:ident, $scalar:ty, $value:ident => $factor:expr;)*) => {$(
        impl DnnDataType for $type {
            const DATA_TYPE: cudnnDataType_t = cudnnDataType_t::$name;
            type Scalar = $scalar;
            fn into_scaling_parameter(self) -> $scalar {
                let $value = self;
                $factor
            }
        }
    )*};
}
data_types! {
    f32, CUDNN_DATA_FLOAT, f32, x => x;
    f64, CUDNN_DATA_DOUBLE, f64, x => x;
    half::f16, CUDNN_DATA_HALF, f32, x => x.to_f32();
    half::bf16, CUDNN_DATA_BFLOAT16, f32, x => x.to_f32();
    i8, CUDNN_DATA_INT8, i8, x => x;
    i32, CUDNN_DATA_INT32, i32, x => x;
    u8, CUDNN_DATA_UINT8, u8, x => x;
    // Convolutions have none of these, so that rounding them is of no consequence.
    i64, CUDNN_DATA_INT64, f64, x => x as f64;
    bool, CUDNN_DATA_BOOLEAN, u8, x => u8::from(x);
}

/// The element type as kernels have it.
pub(super) fn dtype_of(of: cudnnDataType_t, layer: &str) -> Result<Dtype, DnnError> {
    match of {
        cudnnDataType_t::CUDNN_DATA_FLOAT => Ok(Dtype::F32),
        cudnnDataType_t::CUDNN_DATA_DOUBLE => Ok(Dtype::F64),
        cudnnDataType_t::CUDNN_DATA_HALF => Ok(Dtype::F16),
        cudnnDataType_t::CUDNN_DATA_BFLOAT16 => Ok(Dtype::BF16),
        other => Err(unsupported(format!(
            "no {layer} has elements of {other:?}: convert them to f16, bf16, f32 or f64"
        ))),
    }
}

/// Sizes and distances of a tensor: batch, channels, then one to six axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub dims: Vec<usize>,
    pub strides: Vec<usize>,
}

impl Shape {
    fn new(dims: &[c_int], strides: &[c_int]) -> Result<Self, DnnError> {
        let all = |numbers: &[c_int]| -> Result<Vec<usize>, DnnError> {
            let positive = numbers.iter().map(|number| usize::try_from(*number));
            let positive: Result<_, _> = positive.collect();
            positive.map_err(|_| {
                invalid(format!(
                    "a descriptor has dimensions {dims:?} and strides {strides:?}: none may be negative"
                ))
            })
        };
        if !(3..=8).contains(&dims.len()) || dims.len() != strides.len() {
            return Err(unsupported(format!(
                "a descriptor has dimensions {dims:?} and strides {strides:?}: as many of both, from 3 to 8"
            )));
        }
        Ok(Self {
            dims: all(dims)?,
            strides: all(strides)?,
        })
    }

    /// Without gaps, in this order of memory. The dimensions are those of NCHW in any case.
    fn packed(dims: &[c_int], format: cudnnTensorFormat_t) -> Result<Self, DnnError> {
        let rank = dims.len();
        // From the fastest on.
        let order: Vec<usize> = match format {
            cudnnTensorFormat_t::CUDNN_TENSOR_NCHW => (0..rank).rev().collect(),
            cudnnTensorFormat_t::CUDNN_TENSOR_NHWC => {
                let axes = (2..rank).rev();
                [1].into_iter().chain(axes).chain([0]).collect()
            }
            cudnnTensorFormat_t::CUDNN_TENSOR_NCHW_VECT_C => {
                return Err(unsupported(
                    "no kernel takes CUDNN_TENSOR_NCHW_VECT_C: use CUDNN_TENSOR_NCHW or CUDNN_TENSOR_NHWC",
                ))
            }
        };
        let (mut strides, mut next) = (vec![0; rank], 1_i64);
        for d in order {
            strides[d] = c_int::try_from(next).map_err(|_| {
                invalid(format!(
                    "a tensor of dimensions {dims:?} is beyond 2^31 elements"
                ))
            })?;
            next = next.saturating_mul(dims[d].max(1).into());
        }
        Self::new(dims, &strides)
    }

    /// As convolutions have it, which have three axes at most: those that are not there come first.
    pub fn as_strides(&self) -> Strides {
        let mut axes = [0; 3];
        axes[5 - self.dims.len()..].copy_from_slice(&self.strides[2..]);
        Strides {
            batch: self.strides[0],
            channel: self.strides[1],
            axes,
        }
    }
}

/// Where a tensor lies, and what its elements are.
#[derive(Clone, Debug)]
pub struct TensorDescriptor<T> {
    pub(super) shape: Shape,
    pub(super) handle: Arc<Dnn>,
    pub(super) marker: PhantomData<T>,
}

/// Where a filter lies: output channels, input channels of a group, then the taps along each axis.
#[derive(Clone, Debug)]
pub struct FilterDescriptor<T> {
    pub(super) shape: Shape,
    #[allow(unused)]
    pub(super) handle: Arc<Dnn>,
    pub(super) marker: PhantomData<T>,
}

impl Dnn {
    fn tensor<T>(self: &Arc<Self>, shape: Shape) -> TensorDescriptor<T> {
        TensorDescriptor {
            shape,
            handle: self.clone(),
            marker: PhantomData,
        }
    }

    /// A tensor without gaps: batch, channels, height, width.
    ///
    /// # Errors
    /// Negative dimensions, or an order of memory that no kernel takes.
    pub fn create_4d_tensor<T: DnnDataType>(
        self: &Arc<Self>,
        format: cudnnTensorFormat_t,
        dims: [c_int; 4],
    ) -> Result<TensorDescriptor<T>, DnnError> {
        Ok(self.tensor(Shape::packed(&dims, format)?))
    }

    /// A tensor with these distances in elements.
    ///
    /// # Errors
    /// Negative dimensions or strides.
    pub fn create_4d_tensor_ex<T: DnnDataType>(
        self: &Arc<Self>,
        dims: [c_int; 4],
        strides: [c_int; 4],
    ) -> Result<TensorDescriptor<T>, DnnError> {
        Ok(self.tensor(Shape::new(&dims, &strides)?))
    }

    /// A tensor of any number of axes, with these distances in elements.
    ///
    /// # Errors
    /// Negative dimensions or strides, as many of one as of the other not, or more than six axes.
    pub fn create_nd_tensor<T: DnnDataType>(
        self: &Arc<Self>,
        dims: &[c_int],
        strides: &[c_int],
    ) -> Result<TensorDescriptor<T>, DnnError> {
        Ok(self.tensor(Shape::new(dims, strides)?))
    }

    /// A filter without gaps of any number of axes.
    ///
    /// # Errors
    /// Negative dimensions, more than six axes, or an order of memory that no kernel takes.
    pub fn create_nd_filter<T: DnnDataType>(
        self: &Arc<Self>,
        format: cudnnTensorFormat_t,
        dims: &[c_int],
    ) -> Result<FilterDescriptor<T>, DnnError> {
        Ok(FilterDescriptor {
            shape: Shape::packed(dims, format)?,
            handle: self.clone(),
            marker: PhantomData,
        })
    }

    /// A filter without gaps of one axis.
    ///
    /// # Errors
    /// As [`create_nd_filter`](Self::create_nd_filter).
    pub fn create_3d_filter<T: DnnDataType>(
        self: &Arc<Self>,
        format: cudnnTensorFormat_t,
        dims: [c_int; 3],
    ) -> Result<FilterDescriptor<T>, DnnError> {
        self.create_nd_filter(format, &dims)
    }

    /// A filter without gaps of two axes.
    ///
    /// # Errors
    /// As [`create_nd_filter`](Self::create_nd_filter).
    pub fn create_4d_filter<T: DnnDataType>(
        self: &Arc<Self>,
        format: cudnnTensorFormat_t,
        dims: [c_int; 4],
    ) -> Result<FilterDescriptor<T>, DnnError> {
        self.create_nd_filter(format, &dims)
    }

    /// A filter without gaps of three axes.
    ///
    /// # Errors
    /// As [`create_nd_filter`](Self::create_nd_filter).
    pub fn create_5d_filter<T: DnnDataType>(
        self: &Arc<Self>,
        format: cudnnTensorFormat_t,
        dims: [c_int; 5],
    ) -> Result<FilterDescriptor<T>, DnnError> {
        self.create_nd_filter(format, &dims)
    }
}
