//! A GPU's attributes under CUDA's names.

use super::gpu::Device;
use crate::base::cuda_names::{CUdevice, CUdevice_attribute, CUuuid};
use crate::base::error::{Error, Result};
use crate::base::hip::types::DeviceProperties;
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

impl Device {
    /// What tells the GPU from every other.
    ///
    /// # Errors
    /// HIP cannot describe it.
    pub fn uuid(&self) -> Result<CUuuid> {
        let mut properties = DeviceProperties::zeroed();
        let (hip, ordinal) = (self.hip(), self.ordinal());
        // SAFETY: the buffer is larger than the structure that HIP fills.
        let status = unsafe { (hip.hipGetDevicePropertiesR0600)(&mut *properties, ordinal as i32) };
        hip.check(status, || {
            format!("reading the properties of GPU {ordinal}")
        })?;
        let bytes = properties.uuid().map(|byte| byte as std::ffi::c_char);
        Ok(CUuuid { bytes })
    }
}

/// The number of GPUs.
///
/// # Errors
/// The runtime cannot start.
pub fn count() -> Result<i32> {
    Ok(runtime::current()?.device_count() as i32)
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
