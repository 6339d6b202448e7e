//! The process's GPUs by their numbers.

use std::sync::Arc;

use parking_lot::Mutex;

use super::gpu::Device;
use super::per_device::PerDevice;
use crate::base::error::{Error, ErrorKind, Result};
use crate::runtime::Runtime;

static DEVICES: PerDevice<Arc<Device>> = PerDevice::new();
/// Held while a GPU is opened.
static OPENING: Mutex<()> = Mutex::new(());

impl Runtime {
    /// The GPU of this ordinal.
    ///
    /// # Errors
    /// There are not that many GPUs, or HIP cannot describe it.
    pub fn device(&'static self, ordinal: usize) -> Result<&'static Arc<Device>> {
        let Some(slot) = DEVICES.slot(self, ordinal) else {
            return Err(Error::new(
                ErrorKind::NoDevice,
                format!(
                    "there is no GPU {ordinal}: the {} runtime ({}) has {} (numbered from 0); {}",
                    self.kind(),
                    self.library(),
                    self.device_count(),
                    self.machine().summary()
                ),
            ));
        };
        if let Some(device) = slot.get() {
            return Ok(device);
        }
        let _one_at_a_time = OPENING.lock();
        if let Some(device) = slot.get() {
            return Ok(device);
        }
        let device = Arc::new(Device::open(self, ordinal)?);
        Ok(slot.get_or_init(|| device))
    }
}
