//! Tensors that stay in place, whose elements change.

use candle_core::{bail, Result, Tensor};

/// A tensor with memory of its own, which what is captured reads, and which is set between launches.
#[derive(Clone, Debug)]
pub struct Input {
    tensor: Tensor,
}

impl Input {
    /// A contiguous copy of `initial`, of any shape and dtype, on its device.
    ///
    /// # Errors
    /// The device refuses the copy.
    pub fn new(initial: &Tensor) -> Result<Self> {
        Ok(Self {
            tensor: initial.detach().force_contiguous()?,
        })
    }

    /// What a step reads.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// Gives it the elements of `value`, from the host or from this device, after what the device was given before. Nothing
    /// is waited for.
    ///
    /// # Errors
    /// `value` has another shape or dtype, or the device refuses the copy.
    pub fn set(&self, value: &Tensor) -> Result<()> {
        let (place, value) = (&self.tensor, value.detach());
        if value.shape() != place.shape() || value.dtype() != place.dtype() {
            bail!(
                "an input of shape {:?} and {:?} cannot be set to a tensor of shape {:?} and {:?}: what was captured \
                 reads the former",
                place.shape(),
                place.dtype(),
                value.shape(),
                value.dtype()
            );
        }
        if place.elem_count() == 0 {
            return Ok(());
        }
        let value = value.to_device(place.device())?.flatten_all()?;
        place.flatten_all()?.slice_set(&value.contiguous()?, 0, 0)
    }
}
