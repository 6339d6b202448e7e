//! Queries attend to what is kept.

use std::cell::RefCell;

use candle_core::{
    bail, CpuStorage, CudaDevice, CudaStorage, Device, Error, InplaceOp1, Layout, Result, Tensor,
};
use candle_rocm_kernels::decode::{Kernel, THREADS};
use candle_rocm_kernels::ATTENTION_DECODE;
use candle_rocm_runtime::{DeviceRepr, LaunchConfig, Workspace};

use super::heads::{HeadNorms, Pairs, Rotary};
use super::memory::KvCache;
use super::scores::Scores;
use crate::ops::attention::attention_composed;
use crate::ops::launch::{allocate, compute_units, grid, int, launch, launch_of, Arg};
use crate::ops::node::plain;
use crate::ops::quantized::Q8_1Activations;

impl KvCache {
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
                    Heads::Queries(&queries),
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

    /// The result is a `vector` for quantised products, if that is asked for and one launch makes all of it.
    pub(super) fn attend_launch<'a>(
        &'a self,
        device: &CudaDevice,
        from: Heads<'a>,
        position: &'a Tensor,
        scores: &'a Scores,
        (steps, heads): (usize, usize),
        vector: bool,
    ) -> Result<Attend<'a>> {
        let heads_from = from.tensor();
        let dtype = heads_from.dtype();
        let group = heads / self.kv_heads;
        let stream = device.cuda_stream();
        let processor = stream.context().info().processor;
        let bytes = self.both.dtype().size_in_bytes();
        let [elements, of_key] = [self.dim, group].map(|size| size as u32);
        let Some(kernel) = Kernel::of(processor, bytes, elements, of_key) else {
            bail!("attend: heads of {} elements have no kernel", self.dim);
        };
        let rows = self.batch * steps;
        let columns = kernel.columns(of_key, self.kv_heads as u32);
        let seen = scores.window.unwrap_or(self.capacity).min(self.capacity);
        let [others, seen] =
            [rows * columns as usize, seen].map(|size| u32::try_from(size).unwrap_or(u32::MAX));
        let splits = kernel.splits(compute_units(device) as u32, others, seen) as usize;
        let columns = columns as usize;
        let mut config = grid(splits, columns, THREADS)?;
        config.grid_dim.2 = int("attend", "steps of all sequences", rows)?;
        let numbers = match splits {
            1 => 0,
            _ => rows * heads * splits * (self.dim + 1),
        };
        let enough = |counters: &&Tensor| splits > 1 && rows * columns <= counters.elem_count();
        let counters = self.counters.as_ref().filter(enough);
        let quantized = vector && (splits == 1 || counters.is_some());
        let elements = rows * heads * self.dim;
        let result = match quantized {
            true => Q8_1Activations::memory(device, elements)?,
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
            partial_bytes: (numbers * size_of::<f32>()) as u64,
            counters,
            quantized,
            result: RefCell::new(result),
        })
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

/// The heads that attention takes its queries from.
#[derive(Clone, Copy)]
pub(super) enum Heads<'a> {
    Queries(&'a Tensor),
    /// Heads of queries, keys and values, of one step, before they are normed and turned by these angles.
    Packed(&'a Tensor, &'a Rotary, Option<&'a HeadNorms>),
}

impl<'a> Heads<'a> {
    fn tensor(self) -> &'a Tensor {
        match self {
            Self::Queries(heads) | Self::Packed(heads, ..) => heads,
        }
    }
}

candle_rocm_kernels::kernel_argument! { ATTEND_PROBLEM,
    /// `AttendProblem` of kernels/attention/decode_problem.cuh.
    #[derive(Clone, Copy, Default)]
    struct Argument {
        heads: u64,
        cache: u64,
        position: u64,
        result: u64,
        splits: u64,
        counters: u64,
        cos: u64,
        sin: u64,
        table: u32,
        interleaved: u32,
        query_norm: u64,
        key_norm: u64,
        epsilon: f32,
        batch: u32,
        steps: u32,
        group: u32,
        kv_heads: u32,
        dim: u32,
        capacity: u32,
        window: u32,
        scale: f32,
        softcap: f32,
        slopes: u64,
        vector: u64,
    }
}

// SAFETY: numbers, laid out by C's rules and without padding, as the kernel's parameter.
unsafe impl DeviceRepr for Argument {}

/// A launch of attention, and of what puts its splits together where its workgroups do not.
pub(super) struct Attend<'a> {
    cache: &'a KvCache,
    from: Heads<'a>,
    position: &'a Tensor,
    scores: &'a Scores,
    slopes: Option<Tensor>,
    kernel: String,
    config: LaunchConfig,
    /// Steps, heads of queries.
    sizes: [usize; 2],
    /// Of what splits of the keys leave; 0 of one.
    partial_bytes: u64,
    counters: Option<&'a Tensor>,
    /// Whether the result is a vector for quantised products.
    pub(super) quantized: bool,
    pub(super) result: RefCell<CudaStorage>,
}

impl Argument {
    /// With these addresses, in the struct's order; the result is a `vector`, or numbers.
    fn at(self, addresses: [u64; 11], is_vector: bool) -> Self {
        let [heads, cache, position, written, splits, counters, cos, sin, query_norm, key_norm, slopes] =
            addresses;
        let (result, vector) = if is_vector {
            (0, written)
        } else {
            (written, 0)
        };
        Self {
            heads,
            cache,
            position,
            result,
            splits,
            counters,
            cos,
            sin,
            query_norm,
            key_norm,
            slopes,
            vector,
            ..self
        }
    }
}

impl<'a> Attend<'a> {
    /// What a step's heads are turned by, and normed with.
    fn rotary_and_norms(&self) -> (Option<&'a Rotary>, Option<&'a HeadNorms>) {
        match self.from {
            Heads::Queries(_) => (None, None),
            Heads::Packed(_, rotary, norms) => (Some(rotary), norms),
        }
    }

    /// The kernel's argument but for addresses.
    fn argument(&self) -> Result<Argument> {
        let KvCache {
            batch,
            kv_heads,
            capacity,
            dim,
            ..
        } = *self.cache;
        let ([steps, heads], scores) = (self.sizes, self.scores);
        let (rotary, norms) = self.rotary_and_norms();
        let size = |what, value| int("attend", what, value);
        let positions = rotary.map_or(Ok(1), |rotary| rotary.cos.dim(0))?;
        let neighbours = rotary.is_some_and(|rotary| rotary.pairs == Pairs::Neighbours);
        let window = scores.window.unwrap_or(0).min(capacity);
        let log2_e = std::f64::consts::LOG2_E;
        Ok(Argument {
            table: size("positions", positions)?,
            interleaved: u32::from(neighbours),
            epsilon: norms.map_or(0., |norms| norms.epsilon as f32),
            batch: size("sequences", batch)?,
            steps: size("steps", steps)?,
            group: size("heads of queries for one of keys", heads / kv_heads)?,
            kv_heads: size("heads of keys", kv_heads)?,
            dim: size("elements of a head", dim)?,
            capacity: size("tokens", capacity)?,
            window: size("keys of a window", window)?,
            scale: (scores.scale * log2_e) as f32,
            softcap: (scores.softcap.unwrap_or(0.) * log2_e) as f32,
            ..Argument::default()
        })
    }

    /// `cache` is the cache's memory.
    fn launch(&self, device: &CudaDevice, cache: Arg) -> Result<()> {
        let from = self.from.tensor();
        let argument = self.argument()?;
        let (rotary, norms) = self.rotary_and_norms();
        let stream = device.cuda_stream();
        let partial = Workspace::new(&stream, self.partial_bytes).map_err(Error::wrap)?;
        let mut result = self.result.borrow_mut();
        let memory = [
            Arg::Read(Some(from)),
            cache,
            Arg::Read(Some(self.position)),
            Arg::Write(&mut result),
            Arg::Long(partial.address() as usize),
            Arg::Read(self.counters),
            Arg::Read(rotary.map(|rotary| &rotary.cos)),
            Arg::Read(rotary.map(|rotary| &rotary.sin)),
            Arg::Read(norms.map(|norms| &norms.queries)),
            Arg::Read(norms.map(|norms| &norms.keys)),
            Arg::Read(self.slopes.as_ref()),
        ];
        let at = |addresses| argument.at(addresses, self.quantized);
        // SAFETY: the kernel's argument, whose shapes were checked: it reads and writes keys below the capacity alone, and of
        // the counters as many as the grid has y and z; the workspace has room for what all splits leave.
        unsafe {
            launch_of(
                device,
                &ATTENTION_DECODE,
                &self.kernel,
                self.config,
                memory,
                at,
            )?
        };
        if partial.address() == 0 || self.counters.is_some() {
            return partial.free().map_err(Error::wrap);
        }
        let args = vec![
            Arg::Long(partial.address() as usize),
            Arg::Write(&mut result),
            Arg::Int(self.config.grid_dim.0),
            Arg::Int(argument.dim),
        ];
        let kernel = format!("merge_{}", from.dtype().as_str());
        let [steps, heads] = self.sizes;
        let config = grid(self.cache.batch * steps * heads, 1, THREADS)?;
        // SAFETY: the kernel's arguments, of the sizes that both have.
        unsafe { launch(device, &ATTENTION_DECODE, &kernel, config, args) }?;
        partial.free().map_err(Error::wrap)
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
