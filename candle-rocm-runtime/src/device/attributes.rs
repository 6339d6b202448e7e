//! A GPU's attributes under CUDA's names.

use super::gpu::Device;
use crate::base::cuda_names::{CUdevice, CUdevice_attribute};
use crate::base::error::{Error, Result};
use crate::runtime;

impl CUdevice_attribute {
    /// Reads the attribute from HIP.
    pub(crate) fn read(self, device: &Device) -> Result<i32> {
        let hip = device.hip();
        let mut value = 0;
        // SAFETY: the output is writable and the ordinal is that of an existing GPU.
        let status =
            unsafe { (hip.hipDeviceGetAttribute)(&mut value, self.hip(), device.ordinal() as i32) };
        hip.check(status, || {
            format!("reading {self:?} of GPU {}", device.ordinal())
        })?;
        Ok(value)
    }
}

/// The number of GPUs.
///
/// # Errors
/// The runtime cannot start.
pub fn count() -> Result<i32> {
    Ok(runtime::current()?.device_count() as i32)
}

/// The GPU of this number.
///
/// # Errors
/// The runtime cannot start, or there is none.
pub fn numbered(ordinal: i32) -> Result<CUdevice> {
    let number = usize::try_from(ordinal);
    let number = number.map_err(|_| Error::invalid(format!("there is no GPU {ordinal}")))?;
    runtime::current()?.device(number)?;
    Ok(ordinal)
}

/// An attribute of the GPU of this number, under CUDA's name for it.
///
/// # Safety
/// None is needed; cudarc's function is unsafe, and its callers wrap it so.
pub unsafe fn read_attribute(device: CUdevice, attribute: CUdevice_attribute) -> Result<i32> {
    let ordinal =
        usize::try_from(device).map_err(|_| Error::invalid(format!("there is no GPU {device}")))?;
    attribute.read(runtime::current()?.device(ordinal)?)
}
