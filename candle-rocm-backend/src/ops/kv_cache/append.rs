//! Keys and values are kept.

use std::cell::RefCell;

use candle_core::{
    bail, CpuStorage, CudaStorage, Device, IndexOp as _, InplaceOp1, Layout, Result, Shape, Tensor,
};
use candle_rocm_kernels::decode::THREADS;
use candle_rocm_kernels::ATTENTION_DECODE;

use super::heads::{HeadNorms, Pairs, Rotary};
use super::memory::KvCache;
use crate::ops::launch::{allocate, compute_units, grid, int, launch, Arg};
use crate::ops::node::plain;
use crate::ops::norm::rms_norm;

impl KvCache {
    /// Turns a step's queries and keys by their positions, keeps keys and values, and gives the queries: (batch, steps,
    /// heads, dim).
    ///
    /// `packed` has the heads of queries, keys and values one after another, as one product of all three makes them:
    /// (batch, steps, (heads + 2 kv_heads) * dim), of the cache's dtype or f32; angles and the queries are of the same.
    ///
    /// # Errors
    /// Shapes, dtypes or devices do not fit; the text has them.
    pub fn append(&self, packed: &Tensor, rotary: &Rotary, position: &Tensor) -> Result<Tensor> {
        self.append_as(packed, rotary, position, false)
    }

    /// The queries `as_keys`: of the cache's dtype, not of `packed`'s.
    pub(super) fn append_as(
        &self,
        packed: &Tensor,
        rotary: &Rotary,
        position: &Tensor,
        as_keys: bool,
    ) -> Result<Tensor> {
        let (steps, heads) = self.check_packed(packed)?;
        self.check_rotary(rotary, packed.dtype())?;
        self.check_position("append", position)?;
        let shape = (self.batch, steps, heads, self.dim);
        let dtype = if as_keys {
            self.both.dtype()
        } else {
            packed.dtype()
        };
        if steps == 0 {
            return Tensor::zeros(shape, dtype, self.both.device());
        }
        let packed = packed.contiguous()?;
        let Device::Cuda(device) = self.both.device() else {
            let queries = self.append_composed(&packed, rotary, position, (steps, heads))?;
            return if as_keys {
                self.kept(&queries)
            } else {
                Ok(queries)
            };
        };
        let append = Append {
            packed: &packed,
            rotary,
            position,
            sizes: [
                self.batch,
                steps,
                heads,
                self.kv_heads,
                self.dim,
                self.capacity,
            ],
            kernel: format!("rope_cache_{}", self.suffix(&packed)),
            as_keys: as_keys && dtype != packed.dtype(),
            queries: RefCell::new(allocate(
                device,
                dtype,
                self.batch * steps * heads * self.dim,
            )?),
        };
        self.both.inplace_op1(&append)?;
        Ok(plain(append.queries.into_inner(), &Shape::from(shape)))
    }

    fn append_composed(
        &self,
        packed: &Tensor,
        rotary: &Rotary,
        position: &Tensor,
        (steps, heads): (usize, usize),
    ) -> Result<Tensor> {
        let all = packed.reshape((self.batch, steps, heads + 2 * self.kv_heads, self.dim))?;
        let mut queries = Vec::with_capacity(self.batch);
        for (sequence, first) in position.to_vec1::<u32>()?.into_iter().enumerate() {
            let first = first as usize;
            let one = all.narrow(0, sequence, 1)?.transpose(1, 2)?;
            let table = rotary.cos.dim(0)?;
            let places: Vec<u32> = (first..first + steps)
                .map(|place| place.min(table - 1) as u32)
                .collect();
            let places = Tensor::new(places, packed.device())?;
            let (cos, sin) = (
                rotary.cos.index_select(&places, 0)?,
                rotary.sin.index_select(&places, 0)?,
            );
            let rotated =
                rotary
                    .pairs
                    .rotate(&one.narrow(1, 0, heads + self.kv_heads)?, &cos, &sin)?;
            queries.push(rotated.narrow(1, 0, heads)?.transpose(1, 2)?.contiguous()?);
            let kept = steps.min(self.capacity.saturating_sub(first));
            if kept == 0 {
                continue;
            }
            let keys = rotated.narrow(1, heads, self.kv_heads)?;
            let values = one.narrow(1, heads + self.kv_heads, self.kv_heads)?;
            for (which, new) in [(0, keys), (1, values)] {
                let place = self.both.i((which, sequence..sequence + 1))?;
                let new = self.kept(&new.narrow(2, 0, kept)?)?;
                place.slice_set(&new.contiguous()?, 2, first)?;
            }
        }
        Tensor::cat(&queries, 0)
    }

    /// `packed`, as [`KvCache::append`] takes it, with the heads of queries and of keys normed.
    ///
    /// # Errors
    /// As [`KvCache::append`]; weights that are not of a head's elements.
    pub fn normed(&self, packed: &Tensor, norms: &HeadNorms) -> Result<Tensor> {
        let (steps, heads) = self.check_packed(packed)?;
        let of_all = heads + 2 * self.kv_heads;
        let all = packed.reshape((self.batch * steps, of_all, self.dim))?;
        let normed = |first: usize, count: usize, weight: &Tensor| {
            let some = all.narrow(1, first, count)?.contiguous()?;
            rms_norm(&some, weight, norms.epsilon)
        };
        let splits = [
            normed(0, heads, &norms.queries)?,
            normed(heads, self.kv_heads, &norms.keys)?,
            all.narrow(1, heads + self.kv_heads, self.kv_heads)?,
        ];
        Tensor::cat(&splits, 1)?.reshape(packed.shape())
    }
}

/// What [`KvCache::append`] does to the cache's memory.
struct Append<'a> {
    packed: &'a Tensor,
    rotary: &'a Rotary,
    position: &'a Tensor,
    /// Sequences, steps, heads of queries, heads of keys, elements of a head, capacity.
    sizes: [usize; 6],
    kernel: String,
    /// Whether queries become 16 bits, as keys do.
    as_keys: bool,
    queries: RefCell<CudaStorage>,
}

impl InplaceOp1 for Append<'_> {
    fn name(&self) -> &'static str {
        "append"
    }

    fn cpu_fwd(&self, _: &mut CpuStorage, _: &Layout) -> Result<()> {
        bail!("append: a cache on the CPU is written by Candle's operators")
    }

    fn cuda_fwd(&self, cache: &mut CudaStorage, _: &Layout) -> Result<()> {
        let device = cache.device.clone();
        let [batch, steps, heads, kv_heads, dim, capacity] = self.sizes;
        let mut queries = self.queries.borrow_mut();
        let pairs = batch * steps * (heads + 2 * kv_heads) * dim / 2;
        // A work-item turns 16 bytes of pairs, and a few of them where there are many.
        let vectors = pairs * self.packed.dtype().size_in_bytes() / 16;
        let most = compute_units(&device) * 16;
        let config = grid(
            vectors.div_ceil(THREADS as usize).clamp(1, most),
            1,
            THREADS,
        )?;
        let (wide, narrow) = match self.as_keys {
            false => (Arg::Write(&mut queries), Arg::Null),
            true => (Arg::Null, Arg::Write(&mut queries)),
        };
        let args = vec![
            Arg::Read(Some(self.packed)),
            Arg::Read(Some(&self.rotary.cos)),
            Arg::Read(Some(&self.rotary.sin)),
            Arg::Int(int("append", "positions", self.rotary.cos.dim(0)?)?),
            Arg::Read(Some(self.position)),
            wide,
            narrow,
            Arg::Write(cache),
            Arg::Int(int("append", "sequences", batch)?),
            Arg::Int(int("append", "steps", steps)?),
            Arg::Int(int("append", "heads", heads)?),
            Arg::Int(int("append", "heads of keys", kv_heads)?),
            Arg::Int(int("append", "elements of a head", dim)?),
            Arg::Int(int("append", "tokens", capacity)?),
            Arg::Int(u32::from(self.rotary.pairs == Pairs::Neighbours)),
        ];
        // SAFETY: the kernel's arguments, whose shapes were checked; it writes places below the capacity alone.
        unsafe { launch(&device, &ATTENTION_DECODE, &self.kernel, config, args) }
    }
}
