//! cuRAND's shape over [`crate::random`]: what Candle calls for random tensors.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::base::error::RandomError;
use crate::memory::access::DevicePtrMut;
use crate::random::{self, RandomFloat};
use crate::stream::queue::Stream;

/// A sequence of random numbers: each fill continues where the one before it ended.
#[derive(Debug)]
pub struct Rng {
    seed: u64,
    /// How many numbers of the sequence were used. The generator behind it counts, so that this is all
    /// its state.
    offset: AtomicU64,
    stream: Arc<Stream>,
}

impl Rng {
    /// The sequence that this seed names, from its beginning. Fills are given to `stream`.
    pub fn new(seed: u64, stream: Arc<Stream>) -> Result<Self, RandomError> {
        Ok(Self {
            seed,
            offset: AtomicU64::new(0),
            stream,
        })
    }

    /// Begins the sequence of another seed.
    pub fn set_seed(&mut self, seed: u64) -> Result<(), RandomError> {
        self.seed = seed;
        self.set_offset(0)
    }

    /// Goes to another place of the sequence.
    pub fn set_offset(&mut self, offset: u64) -> Result<(), RandomError> {
        *self.offset.get_mut() = offset;
        Ok(())
    }

    /// Gives further fills to another stream.
    ///
    /// # Safety
    /// The caller orders the work of both streams.
    pub unsafe fn set_stream(&mut self, stream: Arc<Stream>) -> Result<(), RandomError> {
        self.stream = stream;
        Ok(())
    }

    fn advance(&self, count: usize) -> u64 {
        self.offset.fetch_add(count as u64, Ordering::Relaxed)
    }

    /// Fills `dst` with numbers of (0, 1].
    pub fn fill_with_uniform<T: RandomFloat, Dst: DevicePtrMut<T>>(
        &self,
        dst: &mut Dst,
    ) -> Result<(), RandomError> {
        let offset = self.advance(dst.len());
        Ok(random::fill_uniform(&self.stream, dst, self.seed, offset)?)
    }

    /// Fills `dst` with normally distributed numbers.
    pub fn fill_with_normal<T: RandomFloat, Dst: DevicePtrMut<T>>(
        &self,
        dst: &mut Dst,
        mean: T,
        std: T,
    ) -> Result<(), RandomError> {
        let offset = self.advance(dst.len());
        Ok(random::fill_normal(
            &self.stream,
            dst,
            mean,
            std,
            self.seed,
            offset,
        )?)
    }
}
