//! What a network is once it has its weights.

use candle_core::{Result, Tensor};

/// A network's forward pass.
pub type Forward = Box<dyn FnMut(&Tensor) -> Result<Tensor>>;
