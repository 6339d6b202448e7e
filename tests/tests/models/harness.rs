//! What a model is made of and given here: weights that nobody trained, tokens, images.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};

use candle_core::{DType, Device, Result, Shape, Tensor};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder};
use serde::de::DeserializeOwned;

/// Weights by their names: those of norms are ones, all others drawn, and the same on every device.
struct Weights;

/// Numbers between -1 and 1 that `seed` stands for.
fn drawn(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed | 1;
    let mut next = || {
        // xorshift64* (Vigna, 2016).
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 40) as f32 / (1 << 23) as f32 - 1.
    };
    (0..count).map(|_| next()).collect()
}

impl SimpleBackend for Weights {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        init: Init,
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor> {
        let ones =
            matches!(init, Init::Const(value) if value == 1.) || name.contains("running_var");
        if ones {
            return Tensor::ones(shape, dtype, device);
        }
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        // As wide as keeps the size of what goes through a product.
        let of_row: usize = shape.dims().iter().skip(1).product();
        let scale = (3. / of_row.max(4) as f64).sqrt();
        let numbers = drawn(hasher.finish(), shape.elem_count());
        let weights = Tensor::from_vec(numbers, shape, &Device::Cpu)?;
        (weights * scale)?.to_dtype(dtype)?.to_device(device)
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> Result<Tensor> {
        candle_core::bail!("{name}: a weight of no given shape")
    }

    fn contains_tensor(&self, _: &str) -> bool {
        true
    }
}

/// Where a model is made, and of what.
pub struct Maker {
    pub device: Device,
    pub dtype: DType,
}

impl Maker {
    pub fn weights(&self) -> VarBuilder<'static> {
        VarBuilder::from_backend(Box::new(Weights), self.dtype, self.device.clone())
    }

    /// So many tokens of a vocabulary of 96, after `first` others: (1, count), u32.
    pub fn tokens(&self, first: usize, count: usize) -> Result<Tensor> {
        let tokens = (first..first + count).map(|n| (n * 29 % 89 + 3) as u32);
        Tensor::from_vec(tokens.collect::<Vec<_>>(), (1, count), &self.device)
    }

    /// Numbers between -1 and 1.
    pub fn numbers(&self, shape: impl Into<Shape>) -> Result<Tensor> {
        let shape = shape.into();
        let numbers = drawn(99, shape.elem_count());
        let numbers = Tensor::from_vec(numbers, shape, &Device::Cpu)?;
        numbers.to_dtype(self.dtype)?.to_device(&self.device)
    }
}

/// A configuration as Hugging Face has it: `base`, and what differs from it.
pub fn config<C: DeserializeOwned>(
    base: &serde_json::Value,
    differs: serde_json::Value,
) -> Result<C> {
    let mut all = base.clone();
    let (Some(all_of), Some(differs)) = (all.as_object_mut(), differs.as_object()) else {
        candle_core::bail!("a configuration is an object");
    };
    all_of.extend(differs.clone());
    serde_json::from_value(all).map_err(candle_core::Error::wrap)
}
