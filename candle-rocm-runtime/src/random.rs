//! Random numbers, made on the device.

use crate::buffer::DevicePtrMut;
use crate::error::{Error, Result};
use crate::stream::Stream;

/// A type that random numbers can have.
pub trait RandomFloat: Copy {}
impl RandomFloat for f32 {}
impl RandomFloat for f64 {}

/// Fills `dst` with numbers of (0, 1], those from `offset` on of the sequence that `seed` names.
pub fn fill_uniform<T: RandomFloat, Dst: DevicePtrMut<T>>(
    _stream: &Stream,
    _dst: &mut Dst,
    _seed: u64,
    _offset: u64,
) -> Result<()> {
    Err(Error::unsupported("random numbers are not in this release"))
}

/// Fills `dst` with normally distributed numbers, those from `offset` on of the sequence that `seed` names.
pub fn fill_normal<T: RandomFloat, Dst: DevicePtrMut<T>>(
    _stream: &Stream,
    _dst: &mut Dst,
    _mean: T,
    _std: T,
    _seed: u64,
    _offset: u64,
) -> Result<()> {
    Err(Error::unsupported("random numbers are not in this release"))
}
