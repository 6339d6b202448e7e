//! Slots and boxes in GPUs' memory, where all ranks are of one process and their GPUs reach each other's memory.

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::hip::types::{HIP_ERROR_PEER_ACCESS_ALREADY_ENABLED, HIP_SUCCESS};
use crate::device::gpu::Device;
use crate::runtime::RuntimeKind;

/// `hipDeviceMallocUncached` and `hipDeviceMallocFinegrained`: memory that GPUs see alike while kernels run.
const UNCACHED: [u32; 2] = [3, 1];

/// Two slots and boxes in a GPU's memory.
pub(super) struct DeviceSlots {
    address: u64,
    device: Arc<Device>,
}

impl DeviceSlots {
    /// Memory of so many bytes, which are 0; `None` if the GPU has no memory that others see while kernels run.
    ///
    /// # Errors
    /// The GPU cannot be chosen, or HIP refuses to set memory.
    pub fn allocate(device: &Arc<Device>, bytes: usize) -> Result<Option<Self>> {
        device.bind()?;
        let hip = device.hip();
        let mut memory = std::ptr::null_mut();
        let mut is_there = false;
        match hip.hipExtMallocWithFlags {
            Some(allocate) => {
                for flags in UNCACHED {
                    // SAFETY: the place is writable.
                    let status = hip.relaxed(|| unsafe { allocate(&mut memory, bytes, flags) });
                    is_there = status == HIP_SUCCESS;
                    if is_there {
                        break;
                    }
                }
            }
            // All memory of NVIDIA's GPUs is of this kind.
            None if device.runtime().kind() == RuntimeKind::Nvidia => {
                // SAFETY: the place is writable.
                let status = hip.relaxed(|| unsafe { (hip.hipMalloc)(&mut memory, bytes) });
                is_there = status == HIP_SUCCESS;
            }
            None => {}
        }
        if !is_there {
            return Ok(None);
        }
        let slots = Self {
            address: memory as u64,
            device: device.clone(),
        };
        // SAFETY: so many bytes were just allocated.
        let status = hip.relaxed(|| unsafe {
            match (hip.hipMemsetAsync)(memory, 0, bytes, std::ptr::null_mut()) {
                HIP_SUCCESS => (hip.hipStreamSynchronize)(std::ptr::null_mut()),
                status => status,
            }
        });
        hip.check(status, || "setting memory that ranks share to zero")?;
        Ok(Some(slots))
    }

    /// The address of the first.
    pub fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for DeviceSlots {
    fn drop(&mut self) {
        let hip = self.device.hip();
        if self.device.bind().is_ok() {
            // SAFETY: allocated by `allocate`; all ranks are gone. A failure leaves nothing to do.
            hip.relaxed(|| unsafe { (hip.hipFree)(self.address as *mut _) });
        }
    }
}

/// Lets a GPU reach the memory of another; false if it cannot.
///
/// # Errors
/// The GPU cannot be chosen.
pub(super) fn reach(device: &Device, other: usize) -> Result<bool> {
    if device.ordinal() == other {
        return Ok(true);
    }
    let hip = device.hip();
    let (Some(can), Some(enable)) = (hip.hipDeviceCanAccessPeer, hip.hipDeviceEnablePeerAccess)
    else {
        return Ok(false);
    };
    device.bind()?;
    let mut is_possible = 0;
    // SAFETY: the place is writable.
    let status = unsafe { can(&mut is_possible, device.ordinal() as i32, other as i32) };
    if status != HIP_SUCCESS || is_possible == 0 {
        return Ok(false);
    }
    // SAFETY: takes numbers alone.
    let status = hip.relaxed(|| unsafe { enable(other as i32, 0) });
    Ok(status == HIP_SUCCESS || status == HIP_ERROR_PEER_ACCESS_ALREADY_ENABLED)
}
