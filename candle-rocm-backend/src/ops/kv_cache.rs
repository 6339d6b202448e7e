//! A cache of keys and values that is written in place, and the attention of few queries to it.

use std::cell::RefCell;

use candle_core::{
    bail, CpuStorage, CudaDevice, CudaStorage, DType, Device, IndexOp as _, InplaceOp1, Layout,
    Result, Shape, Tensor, D,
};
use candle_rocm_kernels::DECODE;

use super::attention::{attention_composed, AttentionOptions};
use super::launch::{allocate, compute_units, grid, int, launch, Arg};
use super::node::plain;
use super::operands::check_device;

/// Queries of a key's and value's group that a workgroup takes, by what the row of a head is rounded up to.
const HEADS: &[(usize, [usize; 2])] = &[(64, [1, 4]), (128, [1, 4]), (256, [1, 4]), (512, [1, 2])];
/// Work-items of a workgroup.
const THREADS: u32 = 256;
/// Parts of a sequence's keys at most, as many as work-items of the workgroup that puts them together.
const MOST_PARTS: usize = 256;
/// Workgroups for a compute unit, by which keys are shared out: as many as its registers have room for.
const WORKGROUPS_PER_UNIT: usize = 2;

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
}

/// Keys and values of sequences, in memory that stays in place, for models whose steps are captured
/// ([`crate::graph`]).
///
/// Where a sequence is, a tensor on the device says: `position`, u32 of shape (batch), how many tokens came before the
/// step's. A step captured once is so right at every position. What does not fit the capacity is not kept, since a GPU
/// cannot report it: who counts positions on the host looks at [`KvCache::capacity`].
///
/// f16, bf16 and f32; heads of 8 to 512 elements, in steps of 8. On the CPU the same is composed of Candle's operators.
#[derive(Clone, Debug)]
pub struct KvCache {
    /// (2, batch, kv_heads, capacity, dim): keys, then values.
    both: Tensor,
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
        Ok(Self {
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
    /// (batch, steps, (heads + 2 kv_heads) * dim).
    ///
    /// # Errors
    /// Shapes, dtypes or devices do not fit; the text has them.
    pub fn append(&self, packed: &Tensor, rotary: &Rotary, position: &Tensor) -> Result<Tensor> {
        let (steps, heads) = self.check_packed(packed)?;
        self.check_rotary(rotary)?;
        self.check_position("append", position)?;
        let shape = (self.batch, steps, heads, self.dim);
        if steps == 0 {
            return Tensor::zeros(shape, self.both.dtype(), self.both.device());
        }
        let packed = packed.contiguous()?;
        let Device::Cuda(device) = self.both.device() else {
            return self.append_composed(&packed, rotary, position, (steps, heads));
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
            queries: RefCell::new(allocate(
                device,
                packed.dtype(),
                self.batch * steps * heads * self.dim,
            )?),
        };
        self.both.inplace_op1(&append)?;
        Ok(plain(append.queries.into_inner(), &Shape::from(shape)))
    }

    /// The attention of `queries`, (batch, steps, heads, dim), to what is kept, their own keys and values included: step s
    /// sees the keys 0 to position + s. Of the queries' shape and dtype; `heads` is a multiple of the cache's.
    ///
    /// The keys are read once for four queries of a group. Made for a step or few: of a prompt, whose queries read the same
    /// keys, each reads them anew.
    ///
    /// # Errors
    /// Shapes, dtypes or devices do not fit; the text has them.
    pub fn attend(&self, queries: &Tensor, position: &Tensor, scores: &Scores) -> Result<Tensor> {
        let (steps, heads) = self.check_queries(queries)?;
        self.check_position("attend", position)?;
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
        if steps == 0 || heads == 0 {
            return queries.contiguous();
        }
        let queries = queries.contiguous()?;
        match self.both.device() {
            Device::Cuda(device) => {
                self.attend_kernel(device, &queries, position, scores, (steps, heads))
            }
            _ => self.attend_composed(&queries, position, scores, steps),
        }
    }

    fn check_packed(&self, packed: &Tensor) -> Result<(usize, usize)> {
        check_device("append", "the packed heads", packed, &self.both)?;
        let fits = |width: usize| {
            let all = width / self.dim;
            (width.is_multiple_of(self.dim) && all > 2 * self.kv_heads)
                .then(|| all - 2 * self.kv_heads)
        };
        match packed.dims() {
            [batch, steps, width]
                if *batch == self.batch && packed.dtype() == self.both.dtype() =>
            {
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
             (batch, steps, (heads + 2 kv_heads) * dim), of one dtype, heads a multiple of kv_heads",
            packed.shape(),
            packed.dtype(),
            self.described()
        )
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

    fn check_rotary(&self, rotary: &Rotary) -> Result<()> {
        for (name, table) in [("cosines", &rotary.cos), ("sines", &rotary.sin)] {
            check_device("append", name, table, &self.both)?;
            let fits = matches!(table.dims(), [positions, half] if *positions >= self.capacity && half * 2 == self.dim);
            if !fits || table.dtype() != self.both.dtype() || !table.is_contiguous() {
                bail!(
                    "append: the {name} have shape {:?} and {:?}{}, and must be contiguous, of at least {} positions and {} \
                     columns, and {:?}",
                    table.shape(),
                    table.dtype(),
                    if table.is_contiguous() { "" } else { ", strided" },
                    self.capacity,
                    self.dim / 2,
                    self.both.dtype()
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
                    && queries.dtype() == self.both.dtype() =>
            {
                Ok((*steps, *heads))
            }
            _ => bail!(
                "attend: queries of shape {:?} and {:?}, and {}: they must be \
                 (batch, steps, heads, dim), of one dtype, heads a multiple of the cache's",
                queries.shape(),
                queries.dtype(),
                self.described()
            ),
        }
    }

    fn attend_kernel(
        &self,
        device: &CudaDevice,
        queries: &Tensor,
        position: &Tensor,
        scores: &Scores,
        (steps, heads): (usize, usize),
    ) -> Result<Tensor> {
        let dtype = queries.dtype();
        let group = heads / self.kv_heads;
        let Some((width, [one, several])) = HEADS.iter().find(|(width, _)| self.dim <= *width)
        else {
            bail!("attend: heads of {} elements have no kernel", self.dim);
        };
        let of_workgroup = if group == 1 { *one } else { *several };
        let rows = self.batch * steps;
        let columns = self.kv_heads * group.div_ceil(of_workgroup);
        let seen = scores.window.unwrap_or(self.capacity).min(self.capacity);
        let parts = self.parts(compute_units(device), rows * columns, seen, *width);
        let mut config = grid(parts, columns, THREADS)?;
        config.grid_dim.2 = int("attend", "steps of all sequences", rows)?;
        let mut result = allocate(device, dtype, queries.elem_count())?;
        let mut of_parts = match parts {
            1 => None,
            _ => Some(allocate(
                device,
                DType::F32,
                rows * heads * parts * (self.dim + 1),
            )?),
        };
        let log2_e = std::f64::consts::LOG2_E;
        let slopes = scores.slopes.as_ref().map(Tensor::contiguous).transpose()?;
        let args = vec![
            Arg::Read(Some(queries)),
            Arg::Read(Some(&self.both)),
            Arg::Read(Some(position)),
            Arg::Write(&mut result),
            match &mut of_parts {
                Some(parts) => Arg::Write(parts),
                None => Arg::Null,
            },
            Arg::Int(int("attend", "sequences", self.batch)?),
            Arg::Int(int("attend", "steps", steps)?),
            Arg::Int(int("attend", "heads", heads)?),
            Arg::Int(int("attend", "heads of keys", self.kv_heads)?),
            Arg::Int(int("attend", "elements of a head", self.dim)?),
            Arg::Int(int("attend", "tokens", self.capacity)?),
            Arg::Int(int(
                "attend",
                "keys of a window",
                scores.window.unwrap_or(0).min(self.capacity),
            )?),
            Arg::Float((scores.scale * log2_e) as f32),
            Arg::Float((scores.softcap.unwrap_or(0.) * log2_e) as f32),
            Arg::Read(slopes.as_ref()),
        ];
        let kernel = format!("attend_{width}_{of_workgroup}_{}", dtype.as_str());
        // SAFETY: the kernel's arguments; shapes were checked, and the kernel reads keys below the capacity alone.
        unsafe { launch(device, &DECODE, &kernel, config, args)? };
        if let Some(of_parts) = &of_parts {
            let args = vec![
                Arg::Left(of_parts),
                Arg::Write(&mut result),
                Arg::Int(int("attend", "parts", parts)?),
                Arg::Int(int("attend", "elements of a head", self.dim)?),
            ];
            let kernel = format!("merge_{}", dtype.as_str());
            // SAFETY: the kernel's arguments, of the sizes that both have.
            unsafe {
                launch(
                    device,
                    &DECODE,
                    &kernel,
                    grid(rows * heads, 1, THREADS)?,
                    args,
                )?
            };
        }
        Ok(plain(result, queries.shape()))
    }

    /// How many workgroups share `seen` keys where `others` have other queries or keys.
    fn parts(&self, units: usize, others: usize, seen: usize, width: usize) -> usize {
        // Keys that a workgroup's teams take at a time.
        let step = 4 * THREADS as usize / (width / 8).min(32);
        (units * WORKGROUPS_PER_UNIT / others)
            .min(seen.div_ceil(step))
            .clamp(1, MOST_PARTS)
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
                place.slice_set(&new.narrow(2, 0, kept)?.contiguous()?, 2, first)?;
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
        let options = AttentionOptions {
            scale: Some(scores.scale as f32),
            window_left: scores.window.map(|window| window - 1),
            softcap: scores.softcap.map(|cap| cap as f32),
            alibi_slopes: scores.slopes.clone(),
            ..AttentionOptions::default()
        };
        let mut results = Vec::with_capacity(self.batch * steps);
        for (sequence, first) in position.to_vec1::<u32>()?.into_iter().enumerate() {
            for step in 0..steps {
                let end = (first as usize + step + 1).min(self.capacity);
                // (1, keys, kv_heads, dim)
                let of = |all: Tensor| all.narrow(0, sequence, 1)?.transpose(1, 2);
                let query = queries.narrow(0, sequence, 1)?.narrow(1, step, 1)?;
                let (keys, values) = (of(self.keys(end)?)?, of(self.values(end)?)?);
                results.push(attention_composed(&query, &keys, &values, &options)?);
            }
        }
        Tensor::cat(&results, 0)?.reshape(queries.shape())
    }
}

/// What [`KvCache::append`] does to the cache's memory.
struct Append<'a> {
    packed: &'a Tensor,
    rotary: &'a Rotary,
    position: &'a Tensor,
    /// Sequences, steps, heads of queries, heads of keys, elements of a head, capacity.
    sizes: [usize; 6],
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
        let args = vec![
            Arg::Read(Some(self.packed)),
            Arg::Read(Some(&self.rotary.cos)),
            Arg::Read(Some(&self.rotary.sin)),
            Arg::Int(int("append", "positions", self.rotary.cos.dim(0)?)?),
            Arg::Read(Some(self.position)),
            Arg::Write(&mut queries),
            Arg::Write(cache),
            Arg::Int(int("append", "sequences", batch)?),
            Arg::Int(int("append", "steps", steps)?),
            Arg::Int(int("append", "heads", heads)?),
            Arg::Int(int("append", "heads of keys", kv_heads)?),
            Arg::Int(int("append", "elements of a head", dim)?),
            Arg::Int(int("append", "tokens", capacity)?),
            Arg::Int(u32::from(self.rotary.pairs == Pairs::Neighbours)),
        ];
        let kernel = format!("rope_cache_{}", self.packed.dtype().as_str());
        // SAFETY: the kernel's arguments, whose shapes were checked; it writes places below the capacity alone.
        unsafe { launch(&device, &DECODE, &kernel, config, args) }
    }
}
