//! Quantised weights as bytes: quantised on the CPU, so that all devices and programs have the same.

use std::borrow::Cow;

use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use candle_core::{Device, Result, Tensor};

use crate::case::Input;

/// The formats that have kernels of their own.
pub const FORMATS: [GgmlDType; 10] = [
    GgmlDType::Q4_0,
    GgmlDType::Q4_1,
    GgmlDType::Q5_0,
    GgmlDType::Q5_1,
    GgmlDType::Q8_0,
    GgmlDType::Q2K,
    GgmlDType::Q3K,
    GgmlDType::Q4K,
    GgmlDType::Q5K,
    GgmlDType::Q6K,
];

/// The bytes of `floats`, f32 on the CPU, in a format.
///
/// # Errors
/// The format's blocks do not divide the rows.
pub fn quantized(floats: &Tensor, format: GgmlDType) -> Result<Input> {
    let quantized = QTensor::quantize(floats, format)?;
    let bytes = quantized.data()?;
    let bytes = Tensor::from_slice(&bytes, bytes.len(), &Device::Cpu)?;
    Ok(Input::Fixed(bytes))
}

/// The weights on the device that the bytes are on.
///
/// # Errors
/// The bytes are not those of so many elements.
pub fn weights(bytes: &Tensor, format: GgmlDType, dims: &[usize]) -> Result<QTensor> {
    let storage = QStorage::from_data(Cow::Owned(bytes.to_vec1()?), bytes.device(), format)?;
    QTensor::new(storage, dims)
}
