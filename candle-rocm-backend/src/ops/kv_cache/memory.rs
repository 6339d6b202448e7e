//! The memory of keys and values.

use candle_core::{bail, DType, Device, IndexOp as _, Result, Tensor};

use crate::ops::launch::int;

/// Counters of a sequence for each head of keys: groups of queries of a step, whose workgroups count those that ended.
const COUNTERS: usize = 24;

/// Keys and values of sequences, in memory that stays in place, for models whose steps are captured
/// ([`crate::graph`]).
///
/// Where a sequence is, a tensor on the device says: `position`, u32 of shape (batch), how many tokens came before the
/// step's. A step captured once is so right at every position. What does not fit the capacity is not kept, since a GPU
/// cannot report it: who counts positions on the host looks at [`KvCache::capacity`].
///
/// f16, bf16 and f32; heads of 8 to 512 elements, in steps of 8. On the CPU the same is composed of Candle's operators.
///
/// What is appended, and what attends, is of the cache's dtype, or f32 beside a cache of f16 or bf16, which has half the bytes to
/// read: angles, norms and results are then f32 as well. Keys are turned in f32 and rounded once, to the nearest; so are values,
/// and the queries that attend. A number beyond the range of the cache's dtype (65,504 for f16), infinities among them, is kept as
/// the largest of its sign, not as an infinity, which would make all later results NaN; NaN stays NaN.
#[derive(Clone, Debug)]
pub struct KvCache {
    /// (2, batch, kv_heads, capacity, dim): keys, then values.
    pub(super) both: Tensor,
    /// By which workgroups know which of them ends last: zeros between launches. On a GPU.
    pub(super) counters: Option<Tensor>,
    pub(super) batch: usize,
    pub(super) kv_heads: usize,
    pub(super) capacity: usize,
    pub(super) dim: usize,
}

impl KvCache {
    /// Memory for `capacity` tokens of each of `batch` sequences, zeros: `kv_heads` heads of `dim` elements.
    ///
    /// # Errors
    /// The dtype is not f16, bf16 or f32, `dim` is no multiple of 8 up to 512, a size is 0, or the device has not the memory.
    pub fn new(
        (batch, kv_heads, capacity, dim): (usize, usize, usize, usize),
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        if !matches!(dtype, DType::F16 | DType::BF16 | DType::F32) {
            bail!("a cache of keys and values is f16, bf16 or f32, not {dtype:?}");
        }
        if dim == 0 || !dim.is_multiple_of(8) || dim > 512 {
            bail!("a cache's heads have 8 to 512 elements, in steps of 8, not {dim}");
        }
        if batch * kv_heads * capacity == 0 {
            bail!("a cache of {batch} sequences, {kv_heads} heads and {capacity} tokens holds nothing");
        }
        int("a cache", "tokens", capacity)?;
        let counters = match device {
            Device::Cuda(_) => Some(Tensor::zeros(
                batch * kv_heads * COUNTERS,
                DType::U32,
                device,
            )?),
            _ => None,
        };
        Ok(Self {
            counters,
            both: Tensor::zeros((2, batch, kv_heads, capacity, dim), dtype, device)?,
            batch,
            kv_heads,
            capacity,
            dim,
        })
    }

    /// Tokens of a sequence that there is memory for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The keys of the first `tokens` tokens, (batch, kv_heads, tokens, dim): the cache's own memory, not a copy.
    ///
    /// # Errors
    /// The capacity is less.
    pub fn keys(&self, tokens: usize) -> Result<Tensor> {
        self.both.i(0)?.narrow(2, 0, tokens)
    }

    /// The values, as [`KvCache::keys`].
    ///
    /// # Errors
    /// The capacity is less.
    pub fn values(&self, tokens: usize) -> Result<Tensor> {
        self.both.i(1)?.narrow(2, 0, tokens)
    }

    /// Whether heads of a dtype are turned, kept and attended to by this cache.
    pub(super) fn takes(&self, dtype: DType) -> bool {
        dtype == self.both.dtype() || dtype == DType::F32
    }

    /// What the names of kernels end in that read `x`.
    pub(super) fn suffix(&self, x: &Tensor) -> String {
        let (from, to) = (x.dtype(), self.both.dtype());
        match from == to {
            true => to.as_str().to_owned(),
            false => format!("{}_{}", from.as_str(), to.as_str()),
        }
    }

    /// `x` as the cache keeps it.
    pub(super) fn kept(&self, x: &Tensor) -> Result<Tensor> {
        let dtype = self.both.dtype();
        let most = match dtype {
            dtype if dtype == x.dtype() => return Ok(x.clone()),
            DType::F16 => f32::from(half::f16::MAX),
            _ => f32::from(half::bf16::MAX),
        };
        x.clamp(-most, most)?.to_dtype(dtype)
    }

    /// For errors.
    pub(super) fn described(&self) -> String {
        format!(
            "a cache of {} sequences, {} heads of {} and {:?}",
            self.batch,
            self.kv_heads,
            self.dim,
            self.both.dtype()
        )
    }
}
