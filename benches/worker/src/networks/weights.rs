//! Weights made when a network asks for them, by name and shape.

use candle_core::{DType, Device, Result, Shape, Tensor};
use candle_nn::var_builder::SimpleBackend;

use crate::data::{Block, Range};
use crate::models::seed_of;

/// Random weights that keep the size of what goes through them, more or less.
pub struct Weights {
    block: Block,
    /// The dtype whose numbers they are, whatever they are asked for in.
    rounded_to: DType,
}

impl Weights {
    /// Of these numbers.
    pub fn new(block: &Block, rounded_to: DType) -> Self {
        Self {
            block: block.clone(),
            rounded_to,
        }
    }
}

/// Uniform numbers, what they are multiplied by, and what is added.
struct Distribution {
    range: Range,
    scale: f64,
    offset: f64,
}

/// The numbers of a weight. Those from -1 to 1 have a variance of 1/3.
fn distribution(name: &str, dims: &[usize]) -> Distribution {
    let last = name.rsplit('.').next().unwrap_or_default();
    let (range, scale, offset) = match (last, dims) {
        // A channel's length where weights are normalised.
        ("weight_g", _) => (Range::Positive, 2., 0.),
        // One near 0 would make its channel the only one that counts, and beyond f16 after some layers.
        ("running_var", _) => (Range::Positive, 1., 0.5),
        // Factors of norms.
        ("weight", [_]) => (Range::Positive, 1., 0.),
        // Biases and means.
        (_, [_]) => (Range::Signed, 0.1, 0.),
        (_, [_, columns]) => (Range::Signed, (3. / *columns as f64).sqrt(), 0.),
        // What follows a convolution halves the variance.
        (_, [_, taps @ ..]) => {
            let count: usize = taps.iter().product();
            (Range::Signed, (6. / count as f64).sqrt(), 0.)
        }
        (_, []) => (Range::Signed, 1., 0.),
    };
    Distribution {
        range,
        scale,
        offset,
    }
}

impl SimpleBackend for Weights {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        _: candle_nn::Init,
        dtype: DType,
        _: &Device,
    ) -> Result<Tensor> {
        let of = distribution(name, shape.dims());
        let seed = seed_of(name);
        let weight = self
            .block
            .tensor(shape, self.rounded_to, of.range, seed, of.scale)?;
        let weight = match of.offset {
            0. => weight,
            offset => (weight + offset)?,
        };
        weight.to_dtype(dtype)
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> Result<Tensor> {
        candle_core::bail!("{name} has no shape of its own")
    }

    fn contains_tensor(&self, _: &str) -> bool {
        true
    }
}
