//! The angles of rotary embedding.

use candle_core::{DType, Device, Result, Tensor};
use candle_rocm_backend::ops::{Pairs, Rotary};

/// How fast each pair of a head's elements turns with the position.
#[derive(Clone, Debug)]
pub struct Frequencies {
    /// Radians a position, one for each pair.
    pub of_pair: Vec<f32>,
    /// Which elements are a pair.
    pub pairs: Pairs,
}

impl Frequencies {
    /// theta^(-2i / dim), as "RoFormer" (Su et al., 2021) has them.
    pub fn of_base(theta: f32, dim: usize, pairs: Pairs) -> Self {
        let of_pair = (0..dim)
            .step_by(2)
            .map(|i| 1f32 / theta.powf(i as f32 / dim as f32))
            .collect();
        Self { of_pair, pairs }
    }

    /// Angles of the positions below `positions`, computed in f32.
    ///
    /// # Errors
    /// The device has not the memory.
    pub fn table(&self, positions: usize, dtype: DType, device: &Device) -> Result<Rotary> {
        let table = |of: fn(f32) -> f32| {
            let angles = (0..positions)
                .flat_map(|position| self.of_pair.iter().map(move |f| of(position as f32 * f)));
            Tensor::from_vec(angles.collect(), (positions, self.of_pair.len()), device)?
                .to_dtype(dtype)
        };
        Ok(Rotary {
            cos: table(f32::cos)?,
            sin: table(f32::sin)?,
            pairs: self.pairs,
        })
    }
}
