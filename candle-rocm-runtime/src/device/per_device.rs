//! What a layer above keeps for each GPU.

use std::sync::OnceLock;

use super::gpu::Device;
use crate::base::error::Result;
use crate::runtime::Runtime;

/// A value for each GPU of the process, by its number: made when first needed, then found without a lock. A process has
/// one runtime, and so one numbering.
pub(crate) struct PerDevice<T> {
    slots: OnceLock<Box<[OnceLock<T>]>>,
}

impl<T> PerDevice<T> {
    /// With nothing made yet.
    pub const fn new() -> Self {
        Self {
            slots: OnceLock::new(),
        }
    }

    /// The place of the GPU of this number; `None` if there are not that many.
    #[inline]
    pub fn slot(&self, runtime: &Runtime, ordinal: usize) -> Option<&OnceLock<T>> {
        let slots = match self.slots.get() {
            Some(slots) => slots,
            None => self.make_slots(runtime.device_count()),
        };
        slots.get(ordinal)
    }

    #[cold]
    fn make_slots(&self, count: usize) -> &[OnceLock<T>] {
        self.slots
            .get_or_init(|| (0..count).map(|_| OnceLock::new()).collect())
    }

    /// What was made for this GPU.
    #[inline]
    pub fn get(&self, device: &Device) -> Option<&T> {
        self.slots.get()?.get(device.ordinal())?.get()
    }

    /// What was made for this GPU, by `make` if nothing was.
    ///
    /// # Panics
    /// If `make` asks for the value that it is to make.
    #[inline]
    pub fn get_or_init(&self, device: &Device, make: impl FnOnce() -> T) -> &T {
        match self.get(device) {
            Some(value) => value,
            None => match self.slot(device.runtime(), device.ordinal()) {
                Some(slot) => slot.get_or_init(make),
                None => unreachable!("a device's number is below the runtime's count"),
            },
        }
    }
}

impl<T> PerDevice<Result<Option<T>>> {
    /// What was made for this GPU, by `make` if it was not tried: a failure is kept, too.
    ///
    /// # Panics
    /// As [`PerDevice::get_or_init`].
    pub fn get_or_try(
        &self,
        device: &Device,
        make: impl FnOnce() -> Result<Option<T>>,
    ) -> Result<Option<&T>> {
        match self.get_or_init(device, make) {
            Ok(value) => Ok(value.as_ref()),
            Err(error) => Err(error.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PerDevice;

    #[test]
    fn a_place_for_each_number() {
        let values = PerDevice::<u32>::new();
        let slots = values.make_slots(2);
        assert_eq!(slots.len(), 2);
        assert_eq!(slots[1].get_or_init(|| 7), &7);
        assert_eq!(values.make_slots(2)[1].get(), Some(&7));
        assert_eq!(values.make_slots(2)[0].get(), None);
    }
}
