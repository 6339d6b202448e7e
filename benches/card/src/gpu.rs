//! The GPU that is looked at.

use candle_core::{Device, Result, Tensor};
use candle_rocm_backend::{best_device, DeviceExt as _, RocmDeviceExt as _, RuntimeKind};

use crate::asked::Asked;

/// The GPU that was asked for, or the best one.
///
/// # Errors
/// There is none: the text says what was tried.
pub fn open(asked: &Asked) -> Result<Device> {
    match asked.device {
        Some(ordinal) => Device::new_rocm(ordinal),
        None => best_device(),
    }
}

/// Whether the GPU still computes; after some faults every later call is an error.
pub fn works(device: &Device) -> bool {
    let sum = || {
        Tensor::new(&[1f32, 2.], device)?
            .sum_all()?
            .to_scalar::<f32>()
    };
    sum().is_ok_and(|sum| sum == 3.)
}

/// Whether it is the emulated one.
pub fn is_emulated(device: &Device) -> bool {
    let gpu = device.as_rocm_device();
    gpu.is_ok_and(|gpu| gpu.runtime_kind() == RuntimeKind::Emulator)
}
