//! The same random inputs in every worker, whatever the GPU's random numbers are.

use candle_core::{DType, Device, Result, Shape, Tensor};
use candle_rocm_testing::random::Random;

/// How many values there are before they come again: a prime, so that no two rows of a matrix are equal.
const LENGTH: usize = 1_048_573;

/// What values an input has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Range {
    /// From -1 to 1.
    Signed,
    /// From 0.05 to 1.
    Positive,
}

/// Uniform random numbers, on a device.
#[derive(Clone)]
pub struct Block {
    device: Device,
    signed: Tensor,
    positive: Tensor,
}

impl Block {
    /// Makes the numbers.
    pub fn new(device: &Device) -> Result<Self> {
        let mut random = Random::new(0);
        // 24 bits, which an f32 holds.
        let unit: Vec<f32> = (0..LENGTH)
            .map(|_| (random.bits() >> 40) as f32 / (1 << 24) as f32)
            .collect();
        let of = |f: fn(f32) -> f32| {
            let values: Vec<f32> = unit.iter().copied().map(f).collect();
            Tensor::from_vec(values, LENGTH, device)
        };
        Ok(Self {
            device: device.clone(),
            signed: of(|x| 2. * x - 1.)?,
            positive: of(|x| 0.05 + 0.95 * x)?,
        })
    }

    /// A tensor of its numbers from place `seed` on, times `scale`.
    pub fn tensor(
        &self,
        shape: impl Into<Shape>,
        dtype: DType,
        range: Range,
        seed: usize,
        scale: f64,
    ) -> Result<Tensor> {
        let shape = shape.into();
        let block = match range {
            Range::Signed => &self.signed,
            Range::Positive => &self.positive,
        };
        tile(block, seed % LENGTH, shape, |block| {
            let scaled = if scale == 1. { block } else { (block * scale)? };
            scaled.to_dtype(dtype)
        })
    }

    /// Indices below `bound`.
    pub fn indices(&self, shape: impl Into<Shape>, bound: usize, seed: usize) -> Result<Tensor> {
        let shape = shape.into();
        let mut random = Random::new(1 + seed as u64);
        let indices: Vec<u32> = (0..shape.elem_count().min(LENGTH))
            .map(|_| random.below(bound) as u32)
            .collect();
        tile(&Tensor::new(indices, &self.device)?, 0, shape, Ok)
    }
}

/// As many elements as `shape` has, from `start` on, again and again from the start, through `convert`.
fn tile(
    block: &Tensor,
    start: usize,
    shape: Shape,
    convert: impl Fn(Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let (length, count) = (block.elem_count(), shape.elem_count());
    let flat = if start + count <= length {
        convert(block.narrow(0, start, count)?)?
    } else {
        let times = (start + count).div_ceil(length);
        let tiled = convert(block.clone())?
            .unsqueeze(0)?
            .broadcast_as((times, length))?;
        tiled.flatten_all()?.narrow(0, start, count)?
    };
    // Memory of its own: an odd start would misalign it.
    flat.force_contiguous()?.reshape(shape)
}
