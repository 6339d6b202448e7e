//! Steps by Candle's operators.

use candle_core::{DType, Device, Result, Tensor};

use super::call::{compute_dtype, Call, Stepped, CHUNK};
use crate::philox::{bits16, Kind};

/// Steps the weights. The result is the gradients' norm if they are clipped.
pub(super) fn step(call: &Call, stepped: &mut [Stepped]) -> Result<Option<Tensor>> {
    let clipped = match call.shared.max_norm {
        Some(most) => Some(norm(stepped, most)?),
        None => None,
    };
    let mut chunk = 0;
    for (weight, gradient) in stepped.iter() {
        let (var, dtype) = (&weight.var, compute_dtype(gradient.dtype()));
        let mut gradient = gradient.to_dtype(dtype)?;
        if let Some((_, clip)) = &clipped {
            gradient = gradient.broadcast_mul(&clip.to_dtype(dtype)?)?;
        }
        let before = match &weight.master {
            Some(master) => master.as_detached_tensor(),
            None => var.as_detached_tensor().to_dtype(dtype)?,
        };
        let states = weight.states.iter().map(|state| state.as_detached_tensor());
        let states: Vec<Tensor> = states.collect();
        let (after, new) = call
            .rule
            .composed(&call.numbers, &before, &gradient, &states)?;
        for (state, new) in weight.states.iter().zip(new) {
            state.set(&new)?;
        }
        let rounded = match (&weight.master, call.shared.stochastic) {
            (None, Some(seed)) if var.dtype() == DType::BF16 => {
                rounded_by_chance(&after, seed, chunk, call.step)?
            }
            _ => after.to_dtype(var.dtype())?,
        };
        if let Some(master) = &weight.master {
            master.set(&after)?;
        }
        var.set(&rounded)?;
        // The kernels count the chunks of a dtype.
        if var.dtype() == DType::BF16 {
            chunk += var.elem_count().div_ceil(CHUNK) as u64;
        }
    }
    Ok(clipped.map(|(norm, _)| norm))
}

/// The norm of all gradients, and what they are multiplied by.
fn norm(stepped: &[Stepped], most: f64) -> Result<(Tensor, Tensor)> {
    let dtype = match stepped.iter().any(|(_, of)| of.dtype() == DType::F64) {
        true => DType::F64,
        false => DType::F32,
    };
    let squares = |(_, gradient): &Stepped| {
        let wide = gradient.to_dtype(compute_dtype(gradient.dtype()))?;
        wide.sqr()?.sum_all()?.to_dtype(dtype)
    };
    let squares = stepped.iter().map(squares).collect::<Result<Vec<_>>>()?;
    let norm = Tensor::stack(&squares, 0)?.sum_all()?.sqrt()?;
    let clip = ((&norm + 1e-6)?.recip()? * most)?;
    let small = norm.le(most)?;
    let clip = small.where_cond(&clip.ones_like()?, &clip)?;
    Ok((norm, clip))
}

/// As the kernels round weights by chance (kernels/optimizers/rules.cuh).
fn rounded_by_chance(x: &Tensor, seed: u64, chunk: u64, step: u32) -> Result<Tensor> {
    const BLOCK: usize = 8;
    let values: Vec<f32> = x.to_device(&Device::Cpu)?.flatten_all()?.to_vec1()?;
    let mut rounded = Vec::with_capacity(values.len());
    for (number, block) in values.chunks(BLOCK).enumerate() {
        // A chunk is whole blocks.
        let number = chunk * (CHUNK / BLOCK) as u64 + number as u64;
        let chances = bits16(seed, Kind::Rounding, number, step);
        for (&value, chance) in block.iter().zip(chances) {
            rounded.push(match value.is_finite() {
                true => {
                    let bits = value.to_bits().wrapping_add(u32::from(chance)) >> 16;
                    half::bf16::from_bits(bits as u16)
                }
                false => half::bf16::from_f32(value),
            });
        }
    }
    Tensor::from_vec(rounded, x.shape(), x.device())
}
