//! What operators are tried on: dtypes, layouts, reproducible numbers.

use anyhow::Result;
use candle_core::{DType, Device, Tensor, WithDType};
use float8::F8E4M3;

pub use parity::numbers::*;

/// Makes a tensor of one layout out of a long one.
pub type Make = fn(&Tensor) -> candle_core::Result<Tensor>;

/// Elements that a layout is made of.
pub const ELEMENTS: usize = 10_006;

pub const LAYOUTS: [(&str, Make); 14] = [
    ("contiguous", |x| x.narrow(0, 0, 385)?.reshape((5, 7, 11))),
    ("transposed", |x| {
        x.narrow(0, 0, 385)?.reshape((5, 7, 11))?.transpose(0, 2)
    }),
    ("broadcast", |x| {
        x.narrow(0, 0, 55)?
            .reshape((5, 1, 11))?
            .broadcast_as((5, 7, 11))
    }),
    ("scalar, broadcast", |x| {
        x.narrow(0, 3, 1)?.broadcast_as((3, 4))
    }),
    ("rows from an offset", |x| {
        x.narrow(0, 0, 693)?.reshape((9, 7, 11))?.narrow(0, 3, 5)
    }),
    ("columns from an offset", |x| {
        x.narrow(0, 0, 693)?.reshape((7, 9, 11))?.narrow(2, 4, 5)
    }),
    ("an odd offset", |x| x.narrow(0, 1, 1030)),
    ("no elements", |x| x.narrow(0, 0, 0)?.reshape((0, 7, 11))),
    ("one element", |x| x.narrow(0, 5, 1)),
    ("no dimensions", |x| x.narrow(0, 5, 1)?.reshape(())),
    ("a prime length", |x| x.narrow(0, 0, 1031)),
    ("six dimensions", |x| {
        x.narrow(0, 0, 432)?.reshape((2, 3, 2, 3, 3, 4))
    }),
    ("six dimensions, permuted", |x| {
        x.narrow(0, 0, 432)?
            .reshape((2, 3, 2, 3, 3, 4))?
            .permute((5, 0, 3, 1, 4, 2))
    }),
    ("long rows", |x| {
        x.narrow(0, 0, 10_006)?
            .reshape((2, 5003))?
            .narrow(1, 1, 5002)
    }),
];

/// `ELEMENTS` numbers: of floats, of magnitude 0.25 to 3; of integers, over the whole range.
pub fn numbers(dtype: DType, seed: u64) -> Result<Tensor> {
    many_numbers(dtype, seed, ELEMENTS)
}

pub fn many_numbers(dtype: DType, seed: u64, count: usize) -> Result<Tensor> {
    let mut random = Random::new(seed);
    if dtype.is_int() {
        let values: Vec<i64> = (0..count).map(|_| random.bits() as i64).collect();
        return from_integers(&values, dtype);
    }
    let values: Vec<f64> = (0..count)
        .map(|_| {
            let unit = random.signed();
            unit * 2.75 + 0.25f64.copysign(unit)
        })
        .collect();
    from_floats(&values, dtype)
}

/// Few different numbers, -4 to 3 (0 to 7 unsigned), so that many are equal.
pub fn ties(dtype: DType, seed: u64, count: usize) -> Result<Tensor> {
    let mut random = Random::new(seed);
    let values: Vec<i64> = (0..count).map(|_| random.below(8) as i64 - 4).collect();
    if dtype.is_int() {
        let lift = if matches!(dtype, DType::U8 | DType::U32) {
            4
        } else {
            0
        };
        let values: Vec<i64> = values.iter().map(|value| value + lift).collect();
        return from_integers(&values, dtype);
    }
    let values: Vec<f64> = values.iter().map(|&value| value as f64).collect();
    from_floats(&values, dtype)
}

/// A vector on the CPU; each number is rounded to the nearest of the dtype.
pub fn from_floats(values: &[f64], dtype: DType) -> Result<Tensor> {
    Ok(Numbers::Floats(values.into()).tensor(dtype, &[values.len()])?)
}

/// A vector on the CPU; of each number the lowest bits.
pub fn from_integers(values: &[i64], dtype: DType) -> Result<Tensor> {
    Ok(Numbers::Integers(values.into()).tensor(dtype, &[values.len()])?)
}

/// The elements of a tensor of floats, exactly.
pub fn floats(tensor: &Tensor) -> Result<Vec<f64>> {
    let tensor = tensor.to_device(&Device::Cpu)?.flatten_all()?;
    if tensor.dtype() == DType::F8E4M3 {
        let values = tensor.to_vec1::<F8E4M3>()?;
        let values = values.iter().map(F8E4M3::to_bits);
        return Ok(values.map(float_of_eight_bits).collect());
    }
    Ok(tensor.to_dtype(DType::F64)?.to_vec1()?)
}

/// The elements of a tensor of integers.
pub fn integers(tensor: &Tensor) -> Result<Vec<i64>> {
    fn vector<T: WithDType + Into<i64>>(tensor: &Tensor) -> Result<Vec<i64>> {
        Ok(tensor.to_vec1::<T>()?.into_iter().map(T::into).collect())
    }
    let tensor = tensor.to_device(&Device::Cpu)?.flatten_all()?;
    match tensor.dtype() {
        DType::U8 => vector::<u8>(&tensor),
        DType::U32 => vector::<u32>(&tensor),
        DType::I16 => vector::<i16>(&tensor),
        DType::I32 => vector::<i32>(&tensor),
        _ => vector::<i64>(&tensor),
    }
}

/// The same numbers on the CPU in f64, or i64 of integers: what an operator's truth is computed from.
pub fn exact(tensor: &Tensor) -> Result<Tensor> {
    let dims = tensor.dims();
    Ok(if tensor.dtype().is_int() {
        Tensor::from_vec(integers(tensor)?, dims, &Device::Cpu)?
    } else {
        Tensor::from_vec(floats(tensor)?, dims, &Device::Cpu)?
    })
}

/// The same tensor on the CPU and the device, in a layout.
pub fn pair(make: Make, long: &Tensor, gpu: &Device) -> Result<[Tensor; 2]> {
    Ok([make(long)?, make(&long.to_device(gpu)?)?])
}
