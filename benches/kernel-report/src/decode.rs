//! What the kernels of one token of LLaMA or Qwen 3 would take, by the emulator's model of time: what a user waits for.

use anyhow::{Context, Result};
use candle_rocm_kernels::arguments::{Layout, ATTEND_PROBLEM};
use candle_rocm_kernels::decode::{Kernel, THREADS};
use candle_rocm_kernels::matmul::Dtype;
use candle_rocm_kernels::{
    activations, skinny, Module, Processor, ATTENTION_DECODE, SKINNY_NORMED,
};
use candle_rocm_runtime::gemm::GemmDtype;
use rocm_emulator::hip::compute_units;

use crate::device::{Arg, Device, Kept};
use crate::products::{Gpus, Shape, TN};
use crate::rows::Timed;

/// Sizes of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// Its name on the page.
    pub name: &'static str,
    /// Elements of the state.
    pub hidden: u32,
    /// Heads of queries.
    pub heads: u32,
    /// Heads of keys, and of values.
    pub kv_heads: u32,
    /// Elements of a head.
    pub head_elements: u32,
    /// Elements between a layer's gated product and its last.
    pub inner: u32,
    /// Layers.
    pub layers: u32,
    /// Tokens that there are.
    pub vocabulary: u32,
    /// Whether heads of queries and of keys are normed.
    pub head_norms: bool,
}

impl Model {
    /// Elements of its matrices, the embedding among them.
    pub fn elements(&self) -> u64 {
        let [hidden, inner, rows] = [
            self.hidden,
            self.inner,
            2 * (self.heads + self.kv_heads) * self.head_elements,
        ]
        .map(u64::from);
        hidden * (u64::from(self.layers) * (rows + 3 * inner) + 2 * u64::from(self.vocabulary))
    }
}

/// LLaMA 3's and Qwen 3's.
pub const MODELS: [Model; 4] = [
    Model {
        name: "LLaMA 1B",
        hidden: 2048,
        heads: 32,
        kv_heads: 8,
        head_elements: 64,
        inner: 8192,
        layers: 16,
        vocabulary: 128_256,
        head_norms: false,
    },
    Model {
        name: "LLaMA 8B",
        hidden: 4096,
        heads: 32,
        kv_heads: 8,
        head_elements: 128,
        inner: 14_336,
        layers: 32,
        vocabulary: 128_256,
        head_norms: false,
    },
    Model {
        name: "Qwen 3 0.6B",
        hidden: 1024,
        heads: 16,
        kv_heads: 8,
        head_elements: 128,
        inner: 3072,
        layers: 28,
        vocabulary: 151_936,
        head_norms: true,
    },
    Model {
        name: "Qwen 3 4B",
        hidden: 2560,
        heads: 32,
        kv_heads: 8,
        head_elements: 128,
        inner: 9728,
        layers: 36,
        vocabulary: 151_936,
        head_norms: true,
    },
];

/// A launch of a token, and how often it is there.
pub struct Step {
    /// What it makes.
    pub what: &'static str,
    /// Its kernel.
    pub kernel: String,
    /// How long it takes, and the bytes that it must read.
    pub timed: Timed,
    /// The same where the instruction caches have kept its code since the layer before, in us.
    pub with_code: f64,
    /// Launches of a token.
    pub launches: u32,
}

/// The launches of a token after `keys` others, in f16, each by itself with all that it reads in memory. What ends last of
/// attention's workgroups may not be among those that are executed.
///
/// # Errors
/// A kernel does not run, or there is no model of the GPU's time.
pub fn token(gpus: &Gpus, device: &mut Device, model: &Model, keys: u32) -> Result<Vec<Step>> {
    let Model {
        hidden,
        heads,
        kv_heads,
        head_elements,
        inner,
        layers,
        vocabulary,
        ..
    } = *model;
    let of_heads = (heads + 2 * kv_heads) * head_elements;
    let mut steps = Vec::new();
    let all = normed(device, [of_heads, hidden], false)?;
    steps.push(step("norm, queries, keys and values", all, layers));
    steps.push(attention(device, model, keys, Heads::F16)?);
    let mut add = |what, timing, launches| steps.push(step(what, timing, launches));
    add(
        "output, sum",
        product(gpus, device, [hidden, heads * head_elements])?,
        layers,
    );
    add(
        "norm, gate and up, SwiGLU",
        normed(device, [2 * inner, hidden], true)?,
        layers,
    );
    add("down, sum", product(gpus, device, [hidden, inner])?, layers);
    add(
        "norm, logits",
        normed(device, [vocabulary, hidden], false)?,
        1,
    );
    Ok(steps)
}

/// Launches of a token.
pub(crate) fn step(what: &'static str, (kernel, timed, with_code): Timing, launches: u32) -> Step {
    Step {
        what,
        kernel,
        timed,
        with_code,
        launches,
    }
}

/// The launches that depend on how many tokens there were.
///
/// # Errors
/// As [`token`].
pub fn attention(device: &mut Device, model: &Model, keys: u32, of: Heads) -> Result<Step> {
    let timing = attend(device, model, keys, of)?;
    Ok(step(ATTENTION, timing, model.layers))
}

/// What [`attention`] is called.
pub const ATTENTION: &str = "attention, and what it keeps";

/// A kernel, its time, and its us with its code kept.
pub(crate) type Timing = (String, Timed, f64);
pub(crate) const WITH_CODE: Kept = Kept {
    operands: false,
    code: true,
};

/// A launch on memory that holds zeros.
fn time(
    device: &mut Device,
    module: &Module,
    kernel: String,
    grid: [[u32; 3]; 2],
    args: &[Arg],
    least_bytes: u64,
) -> Result<Timing> {
    device.load(module)?;
    let time = |kept| {
        let time = device.time(module.name(), &kernel, grid, args, kept);
        time.with_context(|| format!("{kernel} on {}", device.target))
    };
    let (time, with_code) = (time(Kept::default())?, time(WITH_CODE)?.microseconds);
    Ok((kernel, Timed { time, least_bytes }, with_code))
}

/// A product of (rows, k) with the norm of a vector; `gated`, of which the first half of rows are gates of the second.
fn normed(device: &mut Device, [rows, k]: [u32; 2], gated: bool) -> Result<Timing> {
    let arch = device.target.name();
    let shape =
        skinny::normed(Processor::of(arch), Dtype::F16).context("no products with a norm")?;
    let units = compute_units(device.target).into();
    let log2_slice_k =
        shape.log2_slice_k_of_normed(rows.into(), shape.max_log2_slice_k(k.into()), units);
    let (name, results, activation) = match gated {
        true => ("gated_skinny_f16", rows / 2, activations::SILU.number),
        false => ("normed_skinny_f16", rows, activations::NONE.number),
    };
    let least_bytes = 2 * u64::from(rows) * u64::from(k);
    let weights = device.room(least_bytes)?;
    let vectors = device.room(2 * u64::from(2 * k + results))?;
    let (norm, result) = (vectors + 2 * u64::from(k), vectors + 4 * u64::from(k));
    let mut args: Vec<_> = [vectors, norm, weights, 0, result].map(Arg::U64).into();
    args.extend([results, 1, k, activation].map(Arg::U32));
    args.extend([Arg::F32(1e-5), Arg::U32(log2_slice_k)]);
    let workgroups = rows.div_ceil(shape.rows_of_workgroup(log2_slice_k));
    let grid = [[workgroups, 1, 1], [shape.threads(log2_slice_k), 1, 1]];
    let timed = time(
        device,
        &SKINNY_NORMED,
        name.to_owned(),
        grid,
        &args,
        least_bytes,
    );
    device.free(weights)?;
    device.free(vectors)?;
    timed
}

/// A product of (rows, k) with a vector, by the plan that the runtime makes. A sum that it is added to is a vector more.
fn product(gpus: &Gpus, device: &Device, [rows, k]: [u32; 2]) -> Result<Timing> {
    let shape = Shape::new(GemmDtype::F16, [rows as usize, 1, k as usize], TN);
    let arch = device.target.name();
    let time = |kept| {
        let time = gpus.time_whole(arch, &shape, kept)?;
        time.context("a product without a kernel")
    };
    let ((kernel, cold), (_, with_code)) = (time(Kept::default())?, time(WITH_CODE)?);
    let timed = Timed {
        time: cold,
        least_bytes: 2 * u64::from(rows) * u64::from(k),
    };
    Ok((kernel, timed, with_code.microseconds))
}

/// A struct of which these fields are not 0.
fn argument(layout: &Layout, fields: &[(&str, Arg)]) -> Result<Arg> {
    let mut bytes = vec![0; layout.bytes];
    for (name, value) in fields {
        let field = layout.fields.iter().find(|field| field.name == *name);
        let field = field.with_context(|| format!("no field {name}"))?;
        bytes[field.offset..][..field.bytes].copy_from_slice(&value.bytes());
    }
    Ok(Arg::Struct(bytes))
}

/// What attention is given, and what it makes.
#[derive(Clone, Copy, PartialEq)]
pub enum Heads {
    /// Both are f16.
    F16,
    /// f32, of which it makes a quantised vector.
    F32ToVector,
}

/// A step's query of each head to its keys in f16, the last of which is the step's own, as `KvCache::append_and_attend` and
/// `append_and_attend_vector` launch it.
fn attend(device: &mut Device, model: &Model, keys: u32, of: Heads) -> Result<Timing> {
    let Model {
        heads,
        kv_heads,
        head_elements: dim,
        ..
    } = *model;
    let arch = device.target.name();
    let group = heads / kv_heads;
    let kernel =
        Kernel::of(Processor::of(arch), 2, dim, group).context("heads without a kernel")?;
    let columns = kernel.columns(group, kv_heads);
    let splits = kernel.splits(compute_units(device.target), columns, keys);
    let of_cache = 2 * 2 * u64::from(kv_heads) * u64::from(keys) * u64::from(dim);
    let (dtype, bytes) = match of {
        Heads::F16 => ("f16", 2),
        Heads::F32ToVector => ("f32_f16", 4),
    };
    let buffers = [
        device.room(bytes * u64::from((heads + 2 * kv_heads) * dim))?,
        device.room(of_cache)?,
        device.buffer(&(keys - 1).to_le_bytes())?,
        device.room(bytes * u64::from(heads * dim))?,
        device.room(4 * u64::from(heads * splits * (dim + 1)))?,
        device.room(4 * u64::from(columns))?,
        // Cosines and sines of all positions.
        device.room(bytes * u64::from(keys * dim))?,
        // Norms of a head's query and key.
        device.room(bytes * u64::from(2 * dim))?,
    ];
    let [packed, cache, position, result, of_splits, counters, angles, norms] = buffers;
    let [query_norm, key_norm] = match model.head_norms {
        true => [norms, norms + bytes * u64::from(dim)],
        false => [0, 0],
    };
    // As many elements of a quantised vector take less.
    let vector = match of {
        Heads::F16 => 0,
        Heads::F32ToVector => result,
    };
    let sines = angles + bytes / 2 * u64::from(keys * dim);
    let fields = [
        ("heads", Arg::U64(packed)),
        ("cache", Arg::U64(cache)),
        ("position", Arg::U64(position)),
        ("result", Arg::U64(result)),
        ("splits", Arg::U64(of_splits)),
        ("counters", Arg::U64(counters)),
        ("cos", Arg::U64(angles)),
        ("sin", Arg::U64(sines)),
        ("table", Arg::U32(keys)),
        ("query_norm", Arg::U64(query_norm)),
        ("key_norm", Arg::U64(key_norm)),
        ("batch", Arg::U32(1)),
        ("steps", Arg::U32(1)),
        ("group", Arg::U32(group)),
        ("kv_heads", Arg::U32(kv_heads)),
        ("dim", Arg::U32(dim)),
        ("capacity", Arg::U32(keys)),
        ("scale", Arg::F32((dim as f32).sqrt().recip())),
        ("vector", Arg::U64(vector)),
    ];
    let args = [argument(&ATTEND_PROBLEM, &fields)?];
    let grid = [[splits, columns, 1], [THREADS, 1, 1]];
    let timed = time(
        device,
        &ATTENTION_DECODE,
        kernel.name(dtype),
        grid,
        &args,
        of_cache,
    );
    buffers.into_iter().try_for_each(|it| device.free(it))?;
    timed
}
