//! A cache of keys and values that is written in place, and the attention of few queries to it.

use std::cell::RefCell;

use candle_core::{
    bail, CpuStorage, CudaDevice, CudaStorage, DType, Device, IndexOp as _, InplaceOp1, Layout,
    Result, Shape, Tensor, D,
};
use candle_rocm_kernels::decode::{Kernel, THREADS};
use candle_rocm_kernels::{mmvq, DECODE};
use candle_rocm_runtime::LaunchConfig;

use super::attention::{attention, attention_composed, AttentionOptions};
use super::launch::{allocate, compute_units, grid, int, launch, Arg};
use super::node::plain;
use super::norm::rms_norm;
use super::operands::check_device;
use super::quantized::QuantizedVector;

/// Counters of a sequence for each head of keys: groups of queries of a step, whose workgroups count those that ended.
const COUNTERS: usize = 24;

/// Which elements of a head rotary embedding turns together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairs {
    /// i and dim / 2 + i, as Hugging Face's models have them (`rope` in candle-nn).
    Halves,
    /// 2i and 2i + 1, as GGUF's LLaMA has them (`rope_i`).
    Neighbours,
}

impl Pairs {
    /// (..., steps, dim) turned by the angles of its steps, (steps, dim / 2), in f32.
    fn turn(self, x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
        let (wide, half) = (x.to_dtype(DType::F32)?, x.dim(D::Minus1)? / 2);
        let mut dims = x.dims().to_vec();
        let (along, pairs) = match self {
            Self::Halves => (dims.len() - 1, wide),
            Self::Neighbours => {
                dims.pop();
                dims.extend([half, 2]);
                (dims.len() - 1, wide.contiguous()?.reshape(dims)?)
            }
        };
        let of = |which: usize| match self {
            Self::Halves => pairs.narrow(along, which * half, half),
            Self::Neighbours => pairs.narrow(along, which, 1)?.squeeze(along),
        };
        let (a, b) = (of(0)?, of(1)?);
        let (cos, sin) = (cos.to_dtype(DType::F32)?, sin.to_dtype(DType::F32)?);
        let first = (a.broadcast_mul(&cos)? - b.broadcast_mul(&sin)?)?;
        let second = (a.broadcast_mul(&sin)? + b.broadcast_mul(&cos)?)?;
        let turned = match self {
            Self::Halves => Tensor::cat(&[first, second], D::Minus1)?,
            Self::Neighbours => Tensor::stack(&[first, second], D::Minus1)?,
        };
        turned.reshape(x.shape())?.to_dtype(x.dtype())
    }
}

/// Rotary embedding's angles by position: cosines and sines, both contiguous, of shape (positions, dim / 2).
#[derive(Clone, Debug)]
pub struct Rotary {
    /// Cosines, in the model's dtype.
    pub cos: Tensor,
    /// Sines.
    pub sin: Tensor,
    /// Which elements are a pair.
    pub pairs: Pairs,
}

/// Norms of each head of queries and of keys before their rotary embedding, as Qwen 3 has them.
#[derive(Clone, Debug)]
pub struct HeadNorms {
    /// The weight of the queries' root-mean-square norm, (dim), in the model's dtype.
    pub queries: Tensor,
    /// Of the keys'.
    pub keys: Tensor,
    /// What the norms add to the mean of squares.
    pub epsilon: f64,
}

/// How scores become weights.
#[derive(Clone, Debug)]
pub struct Scores {
    /// What products of queries and keys are multiplied by, such as 1 / sqrt(dim).
    pub scale: f64,
    /// Scores become cap * tanh(score / cap), if there is one.
    pub softcap: Option<f64>,
    /// Only so many of the latest keys are seen, the query's own among them; all without.
    pub window: Option<usize>,
    /// ALiBi: a slope for each head, f32 of shape (heads), times which the distance to a key is subtracted.
    pub slopes: Option<Tensor>,
}

impl Scores {
    /// Scaled by `scale`, and nothing else.
    pub fn scaled(scale: f64) -> Self {
        Self {
            scale,
            softcap: None,
            window: None,
            slopes: None,
        }
    }

    /// The same of [`attention`], for queries the last of which stands at the last key.
    fn options(&self) -> AttentionOptions {
        AttentionOptions {
            scale: Some(self.scale as f32),
            causal: true,
            window_left: self.window.map(|window| window - 1),
            softcap: self.softcap.map(|cap| cap as f32),
            alibi_slopes: self.slopes.clone(),
            ..AttentionOptions::default()
        }
    }
}

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
    both: Tensor,
    /// By which workgroups know which of them ends last: zeros between launches. On a GPU.
    counters: Option<Tensor>,
    batch: usize,
    kv_heads: usize,
    capacity: usize,
    dim: usize,
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
    fn append_as(
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

    /// The attention of `queries`, (batch, steps, heads, dim), to what is kept, their own keys and values included: step s
    /// sees the keys 0 to position + s. Of the queries' shape and dtype, the cache's or f32; `heads` is a multiple of the cache's.
    ///
    /// The keys are read once for four queries of a group. Made for a step or few: of a prompt, whose queries read the same
    /// keys, each reads them anew.
    ///
    /// # Errors
    /// Shapes, dtypes or devices do not fit; the text has them.
    pub fn attend(&self, queries: &Tensor, position: &Tensor, scores: &Scores) -> Result<Tensor> {
        let (steps, heads) = self.check_queries(queries)?;
        self.check_position("attend", position)?;
        self.check_scores(scores, heads)?;
        if steps == 0 || heads == 0 {
            return queries.contiguous();
        }
        let queries = queries.contiguous()?;
        match self.both.device() {
            Device::Cuda(device) => {
                let attend = self.attend_launch(
                    device,
                    From::Queries(&queries),
                    position,
                    scores,
                    (steps, heads),
                    false,
                )?;
                attend.launch(device, Arg::Read(Some(&self.both)))?;
                Ok(plain(attend.result.into_inner(), queries.shape()))
            }
            _ => self.attend_composed(&queries, position, scores, steps),
        }
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
            let part = all.narrow(1, first, count)?.contiguous()?;
            rms_norm(&part, weight, norms.epsilon)
        };
        let parts = [
            normed(0, heads, &norms.queries)?,
            normed(heads, self.kv_heads, &norms.keys)?,
            all.narrow(1, heads + self.kv_heads, self.kv_heads)?,
        ];
        Tensor::cat(&parts, 1)?.reshape(packed.shape())
    }

    /// [`KvCache::normed`], if there are norms, [`KvCache::append`] and [`KvCache::attend`]: of a step of one token, which
    /// is what decoding waits for, in one launch.
    ///
    /// # Errors
    /// As those.
    pub fn append_and_attend(
        &self,
        packed: &Tensor,
        norms: Option<&HeadNorms>,
        rotary: &Rotary,
        position: &Tensor,
        scores: &Scores,
    ) -> Result<Tensor> {
        let (steps, heads) = self.check_packed(packed)?;
        let (Device::Cuda(device), 1) = (self.both.device(), steps) else {
            let queries = match norms {
                Some(norms) => self.append(&self.normed(packed, norms)?, rotary, position)?,
                None => self.append(packed, rotary, position)?,
            };
            return self.attend(&queries, position, scores);
        };
        self.check_step((norms, rotary, packed.dtype()), position, scores, heads)?;
        let packed = packed.contiguous()?;
        let from = From::Packed(&packed, rotary, norms);
        let attend = self.attend_launch(device, from, position, scores, (steps, heads), false)?;
        self.both.inplace_op1(&attend)?;
        let shape = (self.batch, steps, heads, self.dim);
        Ok(plain(attend.result.into_inner(), &Shape::from(shape)))
    }

    /// The same of a prompt, whose sequences are all at `first`: the host knows what `position` holds, so that [`attention`] reads
    /// keys once for many queries. (batch, steps, heads, dim), of `packed`'s dtype.
    ///
    /// Beside a cache of 16 bits f32 is attention in 16 bits, by the kernels for these: results are rounded to the cache's dtype
    /// before they are f32.
    ///
    /// # Errors
    /// As [`KvCache::append`] and [`attention`]; the prompt does not fit the capacity.
    pub fn append_and_attend_prompt(
        &self,
        packed: &Tensor,
        norms: Option<&HeadNorms>,
        rotary: &Rotary,
        (position, first): (&Tensor, usize),
        scores: &Scores,
    ) -> Result<Tensor> {
        let (steps, heads) = self.check_packed(packed)?;
        self.check_scores(scores, heads)?;
        let tokens = first.saturating_add(steps);
        if tokens > self.capacity {
            bail!(
                "append_and_attend_prompt: {steps} tokens after {first}, and {}, which has room for {}",
                self.described(),
                self.capacity
            );
        }
        let normed = norms.map(|norms| self.normed(packed, norms)).transpose()?;
        let normed = normed.as_ref().unwrap_or(packed);
        let queries = self.append_as(normed, rotary, position, true)?;
        // (batch, tokens, kv_heads, dim), where they are.
        let keys = self.keys(tokens)?.transpose(1, 2)?;
        let values = self.values(tokens)?.transpose(1, 2)?;
        attention(&queries, &keys, &values, &scores.options())?.to_dtype(packed.dtype())
    }

    /// [`KvCache::append_and_attend`] of one token of one sequence, as the vector of heads * dim that a quantised product takes:
    /// of whole groups of 256 in f32 it is in the same launch.
    ///
    /// # Errors
    /// As that; several sequences or tokens; not f32; not on a GPU.
    pub fn append_and_attend_vector(
        &self,
        packed: &Tensor,
        norms: Option<&HeadNorms>,
        rotary: &Rotary,
        position: &Tensor,
        scores: &Scores,
    ) -> Result<QuantizedVector> {
        let (steps, heads) = self.check_packed(packed)?;
        if self.batch * steps != 1 {
            bail!("append_and_attend_vector: {steps} tokens of {} sequences, and one is what it takes", self.batch);
        }
        let elements = heads * self.dim;
        let whole = elements.is_multiple_of(mmvq::TOGETHER as usize)
            && self.dim.is_multiple_of(mmvq::BLOCK as usize);
        if let (Device::Cuda(device), true, DType::F32) =
            (self.both.device(), whole, packed.dtype())
        {
            self.check_step((norms, rotary, packed.dtype()), position, scores, heads)?;
            let packed = packed.contiguous()?;
            let from = From::Packed(&packed, rotary, norms);
            let attend =
                self.attend_launch(device, from, position, scores, (steps, heads), true)?;
            self.both.inplace_op1(&attend)?;
            let result = attend.result.into_inner();
            return match attend.quantized {
                true => Ok(QuantizedVector::from_memory(result, elements)),
                false => QuantizedVector::of(&plain(result, &Shape::from(elements))),
            };
        }
        let result = self.append_and_attend(packed, norms, rotary, position, scores)?;
        QuantizedVector::of(&result.flatten_all()?)
    }

    fn check_step(
        &self,
        (norms, rotary, dtype): (Option<&HeadNorms>, &Rotary, DType),
        position: &Tensor,
        scores: &Scores,
        heads: usize,
    ) -> Result<()> {
        self.check_norms(norms, dtype)?;
        self.check_rotary(rotary, dtype)?;
        self.check_position("append", position)?;
        self.check_scores(scores, heads)
    }

    fn check_norms(&self, norms: Option<&HeadNorms>, dtype: DType) -> Result<()> {
        let both = norms.map(|norms| [("queries'", &norms.queries), ("keys'", &norms.keys)]);
        for (whose, weight) in both.into_iter().flatten() {
            check_device("append_and_attend", "a norm", weight, &self.both)?;
            let fits = weight.dims() == [self.dim] && weight.dtype() == dtype;
            if !fits || !weight.is_contiguous() {
                bail!(
                    "append_and_attend: the {whose} norm has shape {:?} and {:?}, and must be contiguous, [{}] and {dtype:?}, \
                     as the packed heads",
                    weight.shape(),
                    weight.dtype(),
                    self.dim
                );
            }
        }
        Ok(())
    }

    fn check_scores(&self, scores: &Scores, heads: usize) -> Result<()> {
        if let Some(slopes) = &scores.slopes {
            check_device("attend", "the slopes", slopes, &self.both)?;
            if slopes.dims() != [heads] || slopes.dtype() != DType::F32 {
                bail!(
                    "attend: the slopes have shape {:?} and {:?}, and must have [{heads}] and F32",
                    slopes.shape(),
                    slopes.dtype()
                );
            }
        }
        if scores.window == Some(0) {
            bail!("attend: a window of 0 keys: a query sees itself at least");
        }
        Ok(())
    }

    fn check_packed(&self, packed: &Tensor) -> Result<(usize, usize)> {
        check_device("append", "the packed heads", packed, &self.both)?;
        let fits = |width: usize| {
            let all = width / self.dim;
            (width.is_multiple_of(self.dim) && all > 2 * self.kv_heads)
                .then(|| all - 2 * self.kv_heads)
        };
        match packed.dims() {
            [batch, steps, width] if *batch == self.batch && self.takes(packed.dtype()) => {
                if let Some(heads) =
                    fits(*width).filter(|heads| heads.is_multiple_of(self.kv_heads))
                {
                    return Ok((*steps, heads));
                }
            }
            _ => {}
        }
        bail!(
            "append: packed heads of shape {:?} and {:?}, and {}: they must be \
             (batch, steps, (heads + 2 kv_heads) * dim), of the cache's dtype or F32, heads a multiple of kv_heads",
            packed.shape(),
            packed.dtype(),
            self.described()
        )
    }

    /// Whether heads of a dtype are turned, kept and attended to by this cache.
    fn takes(&self, dtype: DType) -> bool {
        dtype == self.both.dtype() || dtype == DType::F32
    }

    /// What the names of kernels end in that read `x`.
    fn suffix(&self, x: &Tensor) -> String {
        let (from, to) = (x.dtype(), self.both.dtype());
        match from == to {
            true => to.as_str().to_owned(),
            false => format!("{}_{}", from.as_str(), to.as_str()),
        }
    }

    /// `x` as the cache keeps it.
    fn kept(&self, x: &Tensor) -> Result<Tensor> {
        let dtype = self.both.dtype();
        let most = match dtype {
            dtype if dtype == x.dtype() => return Ok(x.clone()),
            DType::F16 => f32::from(half::f16::MAX),
            _ => f32::from(half::bf16::MAX),
        };
        x.clamp(-most, most)?.to_dtype(dtype)
    }

    /// For errors.
    fn described(&self) -> String {
        format!(
            "a cache of {} sequences, {} heads of {} and {:?}",
            self.batch,
            self.kv_heads,
            self.dim,
            self.both.dtype()
        )
    }

    fn check_rotary(&self, rotary: &Rotary, dtype: DType) -> Result<()> {
        for (name, table) in [("cosines", &rotary.cos), ("sines", &rotary.sin)] {
            check_device("append", name, table, &self.both)?;
            let fits = matches!(table.dims(), [positions, half] if *positions >= self.capacity && half * 2 == self.dim);
            if !fits || table.dtype() != dtype || !table.is_contiguous() {
                bail!(
                    "append: the {name} have shape {:?} and {:?}{}, and must be contiguous, of at least {} positions and {} \
                     columns, and {dtype:?}, as the packed heads",
                    table.shape(),
                    table.dtype(),
                    if table.is_contiguous() { "" } else { ", strided" },
                    self.capacity,
                    self.dim / 2
                );
            }
        }
        Ok(())
    }

    fn check_position(&self, operator: &str, position: &Tensor) -> Result<()> {
        check_device(operator, "the position", position, &self.both)?;
        if position.dims() != [self.batch]
            || position.dtype() != DType::U32
            || !position.is_contiguous()
        {
            bail!(
                "{operator}: the position has shape {:?} and {:?}, and must be contiguous, [{}] and U32",
                position.shape(),
                position.dtype(),
                self.batch
            );
        }
        Ok(())
    }

    fn check_queries(&self, queries: &Tensor) -> Result<(usize, usize)> {
        check_device("attend", "queries", queries, &self.both)?;
        match queries.dims() {
            [batch, steps, heads, dim]
                if *batch == self.batch
                    && *dim == self.dim
                    && heads.is_multiple_of(self.kv_heads)
                    && self.takes(queries.dtype()) =>
            {
                Ok((*steps, *heads))
            }
            _ => bail!(
                "attend: queries of shape {:?} and {:?}, and {}: they must be \
                 (batch, steps, heads, dim), of the cache's dtype or F32, heads a multiple of the cache's",
                queries.shape(),
                queries.dtype(),
                self.described()
            ),
        }
    }

    /// The result is a `vector` for quantised products, if that is asked for and one launch makes all of it.
    fn attend_launch<'a>(
        &'a self,
        device: &CudaDevice,
        from: From<'a>,
        position: &'a Tensor,
        scores: &'a Scores,
        (steps, heads): (usize, usize),
        vector: bool,
    ) -> Result<Attend<'a>> {
        let heads_from = from.tensor();
        let dtype = heads_from.dtype();
        let group = heads / self.kv_heads;
        let stream = device.cuda_stream();
        let arch = &stream.context().info().arch;
        let bytes = self.both.dtype().size_in_bytes();
        let [elements, of_key] = [self.dim, group].map(|size| size as u32);
        let Some(kernel) = Kernel::of(arch, bytes, elements, of_key) else {
            bail!("attend: heads of {} elements have no kernel", self.dim);
        };
        let rows = self.batch * steps;
        let columns = kernel.columns(of_key, self.kv_heads as u32);
        let seen = scores.window.unwrap_or(self.capacity).min(self.capacity);
        let [others, seen] =
            [rows * columns as usize, seen].map(|size| u32::try_from(size).unwrap_or(u32::MAX));
        let parts = kernel.parts(compute_units(device) as u32, others, seen) as usize;
        let columns = columns as usize;
        let mut config = grid(parts, columns, THREADS)?;
        config.grid_dim.2 = int("attend", "steps of all sequences", rows)?;
        let of_parts = match parts {
            1 => None,
            _ => Some(allocate(
                device,
                DType::F32,
                rows * heads * parts * (self.dim + 1),
            )?),
        };
        let enough = |counters: &&Tensor| parts > 1 && rows * columns <= counters.elem_count();
        let counters = self.counters.as_ref().filter(enough);
        let quantized = vector && (parts == 1 || counters.is_some());
        let elements = rows * heads * self.dim;
        let result = match quantized {
            true => QuantizedVector::memory(device, elements)?,
            false => allocate(device, dtype, elements)?,
        };
        Ok(Attend {
            cache: self,
            from,
            position,
            scores,
            slopes: scores.slopes.as_ref().map(Tensor::contiguous).transpose()?,
            kernel: kernel.name(&self.suffix(heads_from)),
            config,
            sizes: [steps, heads],
            parts: RefCell::new(of_parts),
            counters,
            quantized,
            result: RefCell::new(result),
        })
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
            let turned =
                rotary
                    .pairs
                    .turn(&one.narrow(1, 0, heads + self.kv_heads)?, &cos, &sin)?;
            queries.push(turned.narrow(1, 0, heads)?.transpose(1, 2)?.contiguous()?);
            let kept = steps.min(self.capacity.saturating_sub(first));
            if kept == 0 {
                continue;
            }
            let keys = turned.narrow(1, heads, self.kv_heads)?;
            let values = one.narrow(1, heads + self.kv_heads, self.kv_heads)?;
            for (which, new) in [(0, keys), (1, values)] {
                let place = self.both.i((which, sequence..sequence + 1))?;
                let new = self.kept(&new.narrow(2, 0, kept)?)?;
                place.slice_set(&new.contiguous()?, 2, first)?;
            }
        }
        Tensor::cat(&queries, 0)
    }

    fn attend_composed(
        &self,
        queries: &Tensor,
        position: &Tensor,
        scores: &Scores,
        steps: usize,
    ) -> Result<Tensor> {
        // A query alone stands at the last of its keys.
        let options = scores.options();
        let dtype = queries.dtype();
        let queries = self.kept(queries)?.to_dtype(dtype)?;
        let mut results = Vec::with_capacity(self.batch * steps);
        for (sequence, first) in position.to_vec1::<u32>()?.into_iter().enumerate() {
            for step in 0..steps {
                let end = (first as usize + step + 1).min(self.capacity);
                // (1, keys, kv_heads, dim)
                let of = |all: Tensor| all.narrow(0, sequence, 1)?.transpose(1, 2)?.to_dtype(dtype);
                let query = queries.narrow(0, sequence, 1)?.narrow(1, step, 1)?;
                let (keys, values) = (of(self.keys(end)?)?, of(self.values(end)?)?);
                results.push(attention_composed(&query, &keys, &values, &options)?);
            }
        }
        Tensor::cat(&results, 0)?.reshape(queries.shape())
    }
}

/// What [`KvCache::attend`] takes its queries from.
#[derive(Clone, Copy)]
enum From<'a> {
    Queries(&'a Tensor),
    /// Heads of queries, keys and values, of one step, before they are normed and turned by these angles.
    Packed(&'a Tensor, &'a Rotary, Option<&'a HeadNorms>),
}

impl<'a> From<'a> {
    fn tensor(self) -> &'a Tensor {
        match self {
            Self::Queries(heads) | Self::Packed(heads, ..) => heads,
        }
    }
}

/// A launch of attention, and of what puts its parts together where its workgroups do not.
struct Attend<'a> {
    cache: &'a KvCache,
    from: From<'a>,
    position: &'a Tensor,
    scores: &'a Scores,
    slopes: Option<Tensor>,
    kernel: String,
    config: LaunchConfig,
    /// Steps, heads of queries.
    sizes: [usize; 2],
    parts: RefCell<Option<CudaStorage>>,
    counters: Option<&'a Tensor>,
    /// Whether the result is a vector for quantised products.
    quantized: bool,
    result: RefCell<CudaStorage>,
}

impl Attend<'_> {
    /// `cache` is the cache's memory.
    fn launch(&self, device: &CudaDevice, cache: Arg) -> Result<()> {
        let KvCache {
            batch,
            kv_heads,
            capacity,
            dim,
            ..
        } = *self.cache;
        let ([steps, heads], scores) = (self.sizes, self.scores);
        let from = self.from.tensor();
        let (rotary, norms) = match self.from {
            From::Queries(_) => (None, None),
            From::Packed(_, rotary, norms) => (Some(rotary), norms),
        };
        let size = |what, value| int("attend", what, value).map(Arg::Int);
        let positions = rotary.map_or(Ok(1), |rotary| rotary.cos.dim(0))?;
        let neighbours = rotary.is_some_and(|rotary| rotary.pairs == Pairs::Neighbours);
        let window = scores.window.unwrap_or(0).min(capacity);
        let log2_e = std::f64::consts::LOG2_E;
        let (mut parts, mut result) = (self.parts.borrow_mut(), self.result.borrow_mut());
        let (numbers, vector) = match self.quantized {
            false => (Arg::Write(&mut result), Arg::Null),
            true => (Arg::Null, Arg::Write(&mut result)),
        };
        let args = vec![
            Arg::Read(Some(from)),
            cache,
            Arg::Read(Some(self.position)),
            numbers,
            match &mut *parts {
                Some(parts) => Arg::Write(parts),
                None => Arg::Null,
            },
            Arg::Read(self.counters),
            Arg::Read(rotary.map(|rotary| &rotary.cos)),
            Arg::Read(rotary.map(|rotary| &rotary.sin)),
            size("positions", positions)?,
            Arg::Int(u32::from(neighbours)),
            Arg::Read(norms.map(|norms| &norms.queries)),
            Arg::Read(norms.map(|norms| &norms.keys)),
            Arg::Float(norms.map_or(0., |norms| norms.epsilon as f32)),
            size("sequences", batch)?,
            size("steps", steps)?,
            size("heads of queries for one of keys", heads / kv_heads)?,
            size("heads of keys", kv_heads)?,
            size("elements of a head", dim)?,
            size("tokens", capacity)?,
            size("keys of a window", window)?,
            Arg::Float((scores.scale * log2_e) as f32),
            Arg::Float((scores.softcap.unwrap_or(0.) * log2_e) as f32),
            Arg::Read(self.slopes.as_ref()),
            vector,
        ];
        // SAFETY: the kernel's arguments, whose shapes were checked: it reads and writes keys below the capacity alone, and of
        // the counters as many as the grid has y and z.
        unsafe { launch(device, &DECODE, &self.kernel, self.config, args)? };
        let (Some(parts), None) = (&*parts, self.counters) else {
            return Ok(());
        };
        let args = vec![
            Arg::Left(parts),
            Arg::Write(&mut result),
            Arg::Int(self.config.grid_dim.0),
            size("elements of a head", dim)?,
        ];
        let kernel = format!("merge_{}", from.dtype().as_str());
        let config = grid(batch * steps * heads, 1, THREADS)?;
        // SAFETY: the kernel's arguments, of the sizes that both have.
        unsafe { launch(device, &DECODE, &kernel, config, args) }
    }
}

impl InplaceOp1 for Attend<'_> {
    fn name(&self) -> &'static str {
        "append_and_attend"
    }

    fn cpu_fwd(&self, _: &mut CpuStorage, _: &Layout) -> Result<()> {
        bail!("append_and_attend: a cache on the CPU is written by Candle's operators")
    }

    fn cuda_fwd(&self, cache: &mut CudaStorage, _: &Layout) -> Result<()> {
        let device = cache.device.clone();
        self.launch(&device, Arg::Write(cache))
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
        unsafe { launch(&device, &DECODE, &self.kernel, config, args) }
    }
}
