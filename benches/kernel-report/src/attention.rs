//! What attention's kernels execute, forward's and those of gradients: their loop over keys or queries.

use anyhow::{ensure, Context, Result};
use candle_rocm_kernels::attention::{kernel_name, tile, Pass};
use candle_rocm_kernels::{Module, Processor, ATTENTION_BACKWARD, ATTENTION_FORWARD};
use rocm_emulator::exec::{InstructionProfile, LaunchTime};

use crate::device::{Arg, Device, Kept};
use crate::kernels::{Kernels, Report};
use crate::loops::{self, LoopFigures};
use crate::products::continued;
use crate::rows::halves;

/// Heads of queries that each have their keys; no batch.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// What the kernel makes.
    pub pass: Pass,
    /// `f16` or `bf16`.
    pub dtype: &'static str,
    /// Elements of a head.
    pub elements: u32,
    /// Heads.
    pub heads: u32,
    /// Queries of a head.
    pub queries: u32,
    /// Keys of a head.
    pub keys: u32,
    /// Whether a query sees none of the keys after it.
    pub causal: bool,
}

/// What a launch executed.
pub struct Figures {
    /// The kernel's name.
    pub kernel: String,
    /// Its resources.
    pub report: Report,
    /// Of all instructions.
    pub total: InstructionProfile,
    /// Of the loop over keys, or queries.
    pub in_loop: LoopFigures,
}

impl Shape {
    fn module(&self) -> &'static Module {
        match self.pass {
            Pass::Forward => &ATTENTION_FORWARD,
            Pass::BackwardKeys | Pass::BackwardQueries => &ATTENTION_BACKWARD,
        }
    }

    /// Rows that workgroups have tiles of.
    fn rows(&self) -> u32 {
        match self.pass {
            Pass::Forward | Pass::BackwardQueries => self.queries,
            Pass::BackwardKeys => self.keys,
        }
    }
}

/// A tensor of these rows, as kernels/attention/problem.cuh has it.
fn tensor(address: u64, rows: u32, shape: &Shape) -> Vec<u8> {
    let row = shape.heads * shape.elements;
    let mut tensor = address.to_le_bytes().to_vec();
    tensor.extend(u64::from(rows * row).to_le_bytes());
    tensor.extend(row.to_le_bytes());
    tensor.extend(shape.elements.to_le_bytes());
    tensor
}

/// A launch: kernel, grid and argument.
struct Prepared {
    kernel: String,
    grid: [[u32; 3]; 2],
    argument: [Arg; 1],
}

fn prepare(device: &mut Device, shape: &Shape) -> Result<Prepared> {
    device.load(shape.module())?;
    let tile = tile(
        Processor::of(device.target.name()),
        shape.pass,
        shape.elements,
    )
    .context("no kernel for such heads")?;
    let elements = |rows: u32| (rows * shape.heads * shape.elements) as usize;
    // Of both types these bytes are small numbers.
    let q = device.buffer(&halves(elements(shape.queries)))?;
    let k = device.buffer(&halves(elements(shape.keys)))?;
    let v = device.buffer(&halves(elements(shape.keys)))?;
    let out = device.room(elements(shape.queries) as u64 * 2)?;
    let numbers = vec![0; (shape.queries * shape.heads) as usize * 4];
    let lse = device.buffer(&numbers)?;
    // `AttentionProblem` of kernels/attention/problem.cuh.
    let mut problem = Vec::new();
    for (address, rows) in [
        (q, shape.queries),
        (k, shape.keys),
        (v, shape.keys),
        (out, shape.queries),
    ] {
        problem.extend(tensor(address, rows, shape));
    }
    let lse_batch = u64::from(shape.queries * shape.heads);
    let mask_slopes_starts_pages = [0u64; 10];
    for long in [lse, lse_batch, u64::from(shape.queries)]
        .into_iter()
        .chain(mask_slopes_starts_pages)
    {
        problem.extend(long.to_le_bytes());
    }
    let right = if shape.causal { 0 } else { u32::MAX };
    let scale = 1.0 / (shape.elements as f32).sqrt();
    for int in [
        0,
        0,
        shape.queries,
        shape.keys,
        1,
        shape.heads,
        shape.elements,
        u32::MAX,
        right,
        scale.to_bits(),
        0,
        0,
    ] {
        problem.extend(int.to_le_bytes());
    }
    if shape.pass != Pass::Forward {
        // `AttentionGradients` of kernels/attention/backward.cuh: of the result, q, k and v, and delta.
        for (address, rows) in [
            (q, shape.queries),
            (out, shape.queries),
            (device.room(elements(shape.keys) as u64 * 2)?, shape.keys),
            (device.room(elements(shape.keys) as u64 * 2)?, shape.keys),
        ] {
            problem.extend(tensor(address, rows, shape));
        }
        problem.extend(device.buffer(&numbers)?.to_le_bytes());
    }
    let tiles = shape.rows().div_ceil(tile.rows) * tile.head_tiles;
    Ok(Prepared {
        kernel: kernel_name(shape.pass, shape.dtype, tile),
        grid: [[shape.heads, tiles, 1], [tile.threads, 1, 1]],
        argument: [Arg::Struct(problem)],
    })
}

impl Shape {
    /// Floating-point operations of products: two of them forward; of gradients two for scores and those of weights, and
    /// one for each tensor that a kernel makes. Of hidden keys, none.
    pub fn flop(&self) -> f64 {
        let products = match self.pass {
            Pass::Forward => 2.0,
            Pass::BackwardQueries => 3.0,
            Pass::BackwardKeys => 4.0,
        };
        let seen = if self.causal { 0.5 } else { 1.0 };
        let [heads, queries, keys, elements] =
            [self.heads, self.queries, self.keys, self.elements].map(f64::from);
        2.0 * products * seen * heads * queries * keys * elements
    }
}

/// The time of the kernel, by the emulator's model of time.
///
/// # Errors
/// There is no kernel for such heads, the launch fails, or there is no model of the GPU's time.
pub fn time(device: &mut Device, shape: &Shape) -> Result<(String, LaunchTime)> {
    let launch = prepare(device, shape)?;
    let module = shape.module().name();
    let time = device.time(
        module,
        &launch.kernel,
        launch.grid,
        &launch.argument,
        Kept::default(),
    )?;
    Ok((launch.kernel, time))
}

/// The same by what two numbers of keys take, as further ones do the same again: of launches that take long to play back.
/// Causal ones are not asked for: their tiles see different numbers of keys.
///
/// # Errors
/// As [`time`].
pub fn time_by_keys(device: &mut Device, shape: &Shape) -> Result<(String, LaunchTime)> {
    const KEYS: [usize; 2] = [256, 512];
    ensure!(!shape.causal, "a causal launch by parts of its keys");
    let part = |keys: usize| Shape {
        keys: keys as u32,
        ..*shape
    };
    let [(kernel, first), (_, second)] =
        [time(device, &part(KEYS[0]))?, time(device, &part(KEYS[1]))?];
    Ok((
        kernel,
        continued(KEYS, [first, second], shape.keys as usize),
    ))
}

/// Run the kernel, and count.
///
/// # Errors
/// There is no kernel for such heads, it has no loop, or the launch fails.
pub fn run(device: &mut Device, shape: &Shape) -> Result<Figures> {
    let launch = prepare(device, shape)?;
    let executed = device.run(
        shape.module().name(),
        &launch.kernel,
        launch.grid,
        &launch.argument,
    )?;
    let mut kernels = Kernels::new(device.target.name());
    let report = kernels.report(shape.module(), &launch.kernel)?;
    // Each tile of keys, or queries, has its barriers.
    let barriers = report
        .listing
        .lines
        .iter()
        .filter(|line| line.name.starts_with("s_barrier"));
    let tiles = barriers
        .map(|line| executed.profile.at(line.offset).executions)
        .max();
    let tiles = tiles.filter(|tiles| *tiles > 0).context("no barrier")?;
    let (lines, counts, fill) = loops::repeated(&report.listing, &executed.profile, tiles);
    let in_loop = LoopFigures::of(lines, (counts, fill), &executed.profile);
    Ok(Figures {
        kernel: launch.kernel,
        report,
        total: executed.profile.total(),
        in_loop,
    })
}
