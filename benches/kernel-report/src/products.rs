//! Matrix products as the runtime plans and launches them, on emulated GPUs, with their instructions counted.

use std::sync::Arc;

use anyhow::{ensure, Context as _, Result};
use candle_rocm_kernels::{GEMM, MATMUL};
use candle_rocm_runtime::gemm::plan::Plan;
use candle_rocm_runtime::gemm::{launch_plan, Epilogue, GemmDtype, GemmProblem, Gpu, Transpose};
use candle_rocm_runtime::{
    runtime, Context, DeviceBuffer, DevicePtr, DevicePtrMut, RuntimeKind, Stream,
};
use rocm_emulator::exec::{InstructionProfile, LaunchTime, Sampling};
use rocm_emulator::hip::{profiled, timed, KernelTime};
use rocm_emulator::isa::Target;

use crate::device::Kept;
use crate::kernels::Kernels;
use crate::loops::LoopFigures;

/// A product of column-major matrices that lie close: `m x k` by `k x n`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Type of the elements.
    pub dtype: GemmDtype,
    /// Rows of C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// Columns of A.
    pub k: usize,
    /// What is done to A and to B.
    pub ops: [Transpose; 2],
    /// Columns of A that are multiplied, of those that the plan is made for: the rest would do the same again.
    pub slice: usize,
    /// So many rows and columns of C are computed, of those that the plan is made for, or all: the other workgroups would do
    /// the same.
    pub corner: Option<usize>,
}

/// A linear layer's operations in Candle: both matrices have k together.
pub const TN: [Transpose; 2] = [Transpose::Yes, Transpose::No];
/// Both have rows and columns together, so that both are transposed on their way.
pub const NT: [Transpose; 2] = [Transpose::No, Transpose::Yes];
/// All operations, [`TN`] first.
pub const OPERATIONS: [[Transpose; 2]; 4] = [
    TN,
    [Transpose::No, Transpose::No],
    [Transpose::Yes, Transpose::Yes],
    NT,
];

impl Shape {
    /// The whole product.
    pub fn new(dtype: GemmDtype, [m, n, k]: [usize; 3], ops: [Transpose; 2]) -> Shape {
        Shape {
            dtype,
            m,
            n,
            k,
            ops,
            slice: k,
            corner: None,
        }
    }

    /// The first split of k, by the plan of the whole.
    pub fn sliced(self, slice: usize) -> Shape {
        Shape { slice, ..self }
    }

    /// So many of the first rows and columns of C, by the plan of the whole.
    pub fn cornered(self, corner: usize) -> Shape {
        Shape {
            corner: Some(corner),
            ..self
        }
    }

    fn problem(&self, a: u64, b: u64, c: u64) -> GemmProblem {
        let close = [self.m, self.n, self.slice];
        GemmProblem {
            k: self.k,
            ..GemmProblem::packed(self.dtype, self.ops, close, [a, b, c])
        }
    }
}

/// What a product executed.
pub struct Figures {
    /// The kernel that multiplied; another may have added splits of k.
    pub kernel: String,
    /// Its workgroups, and work-items of each.
    pub grid: [[u32; 3]; 2],
    /// Instructions of all classes, of all kernels.
    pub instructions: u64,
    /// Bytes that all kernels moved between the compute units and memory or its caches.
    pub bytes: u64,
    /// Bytes that the tiling needs: each workgroup reads its rows of A and columns of B once, and writes its part of C;
    /// splits of k are written and read once more.
    pub least_bytes: u64,
    /// Of that kernel.
    pub total: InstructionProfile,
    /// Of its hot loop, or loops that halves of the workgroups execute; `None` where it has none.
    pub in_loop: Option<LoopFigures>,
}

/// Columns of A that are multiplied where a product's time is made of those of two parts of it.
pub const SLICES: [usize; 2] = [128, 256];

/// The time of a launch that goes on as it did from the first to the second of two lengths, up to `length`, but no less than
/// any of its units works: what is written at a short launch's end hides some of that.
pub fn continued(lengths: [usize; 2], times: [LaunchTime; 2], length: usize) -> LaunchTime {
    let [first, second] = times;
    let steps = (length - lengths[1]) as f64 / (lengths[1] - lengths[0]) as f64;
    let on = |of: &dyn Fn(&LaunchTime) -> f64| of(&second) + steps * (of(&second) - of(&first));
    let cycles = |time: &LaunchTime| time.cycles as f64;
    let shares: [fn(&LaunchTime) -> f64; 6] = [
        |time| time.matrix,
        |time| time.vector,
        |time| time.lds,
        |time| time.first_level,
        |time| time.second_level,
        |time| time.memory,
    ];
    // Shares are of what was played back; what memory passes later is longer by its own share.
    let played = |time: &LaunchTime| cycles(time) / time.memory.max(time.second_level).max(1.0);
    let busy = shares.map(|share| on(&|time| share(time) * played(time)));
    let whole = busy.into_iter().fold(on(&cycles), f64::max);
    let [matrix, vector, lds, first_level, second_level, memory] = busy.map(|busy| busy / whole);
    LaunchTime {
        cycles: whole as u64,
        microseconds: second.microseconds * whole / cycles(&second),
        matrix,
        vector,
        lds,
        first_level,
        second_level,
        memory,
        ..second
    }
}

/// Emulated GPUs under the runtime, one for each architecture.
pub struct Gpus {
    archs: Vec<String>,
}

impl Gpus {
    /// Starts the emulator with these architectures. Once in a process, before any other use of a GPU.
    ///
    /// # Errors
    /// Another runtime is in use, or the emulator does not know an architecture.
    pub fn start(archs: &[String]) -> Result<Gpus> {
        std::env::set_var(rocm_emulator::hip::ARCH_VARIABLE, archs.join(","));
        runtime::select(RuntimeKind::Emulator)?;
        Ok(Gpus {
            archs: archs.to_vec(),
        })
    }

    /// The GPU of an architecture.
    ///
    /// # Errors
    /// It was not started.
    pub fn context(&self, arch: &str) -> Result<Arc<Context>> {
        let ordinal = self.archs.iter().position(|other| other == arch);
        let context = Context::new(ordinal.with_context(|| format!("no emulated {arch}"))?)?;
        ensure!(
            context.info().arch == arch,
            "GPU {} is a {}, not a {arch}: another emulator runs",
            context.ordinal(),
            context.info().arch
        );
        Ok(context)
    }

    /// Plan a product, and do something with the plan. `None` where no kernel multiplies the type there.
    fn planned<T>(
        &self,
        arch: &str,
        shape: &Shape,
        work: impl FnOnce(&Arc<Stream>, &Plan) -> Result<T>,
    ) -> Result<Option<(Plan, T)>> {
        let context = self.context(arch)?;
        if plan(&context, &shape.problem(0, 0, 0)).is_none() {
            return Ok(None);
        }
        on_operands(&context, shape, |stream, problem| {
            let Some(mut plan) = plan(&context, problem) else {
                return Ok(None);
            };
            if shape.slice < shape.k {
                ensure!(
                    plan.splits == 1,
                    "a slice of a product in {} splits",
                    plan.splits
                );
                plan.product.k = shape.slice as u64;
                plan.k_per_split = shape.slice as u32;
            }
            if let Some(corner) = shape.corner {
                [plan.product.m, plan.product.n] = [corner as u64; 2];
            }
            let done = work(stream, &plan)?;
            stream.synchronize()?;
            Ok(Some((plan, done)))
        })
    }

    /// How long a product would take by each of its first `most` plans, in the order in which they are thought to be fast, in
    /// microseconds, with what adds splits of k up.
    ///
    /// # Errors
    /// As [`Gpus::time`].
    pub fn time_plans(
        &self,
        arch: &str,
        shape: &Shape,
        kept: Kept,
        most: usize,
    ) -> Result<Vec<(String, f64)>> {
        let context = self.context(arch)?;
        on_operands(&context, shape, |stream, problem| {
            let gpu = Gpu::from(context.info());
            let plans = Plan::candidates(problem, &Epilogue::default(), gpu);
            let time = |plan: &Plan| {
                let mut microseconds = 0.0;
                for launch in time_plan(stream, arch, shape, kept, plan)? {
                    microseconds += launch.time?.microseconds;
                }
                Ok((plan.description(), microseconds))
            };
            plans.iter().take(most).map(time).collect()
        })
    }

    /// How long a product would take, with only the workgroups executed that tell it. Of operands, what fits into the
    /// Infinity Cache can be `kept`. `None` where no kernel multiplies the type there.
    ///
    /// # Errors
    /// The launch fails, or there is no model of the GPU's time.
    pub fn time(&self, arch: &str, shape: &Shape, kept: Kept) -> Result<Option<Vec<KernelTime>>> {
        let done = self.planned(arch, shape, |stream, plan| {
            time_plan(stream, arch, shape, kept, plan)
        })?;
        Ok(done.map(|(_, times)| times))
    }

    /// The same of all its launches together, under the name of the one that multiplies.
    ///
    /// # Errors
    /// As [`Gpus::time`].
    pub fn time_whole(
        &self,
        arch: &str,
        shape: &Shape,
        kept: Kept,
    ) -> Result<Option<(String, LaunchTime)>> {
        let mut launches = self.time(arch, shape, kept)?.into_iter().flatten();
        let Some(first) = launches.next() else {
            return Ok(None);
        };
        let (mut kernel, mut time) = (first.kernel.name.clone(), first.time?);
        // Adds splits of k up.
        for sum in launches {
            time.microseconds += sum.time?.microseconds;
            kernel.push_str(", split-K");
        }
        Ok(Some((kernel, time)))
    }

    /// The same by what two [`SLICES`] of its k take, as the rest does the same again: of products that take long to play
    /// back. A product whose plan has splits of k, or whose k is short, is timed whole.
    ///
    /// # Errors
    /// As [`Gpus::time`].
    pub fn time_by_slices(
        &self,
        arch: &str,
        shape: &Shape,
        kept: Kept,
    ) -> Result<Option<(String, LaunchTime)>> {
        let context = self.context(arch)?;
        let splits = plan(&context, &shape.problem(0, 0, 0)).map_or(1, |plan| plan.splits);
        if splits > 1 || shape.k <= 2 * SLICES[1] {
            return self.time_whole(arch, shape, kept);
        }
        let [first, second] = SLICES.map(|k| self.time_whole(arch, &shape.sliced(k), kept));
        let (Some((kernel, first)), Some((_, second))) = (first?, second?) else {
            return Ok(None);
        };
        Ok(Some((kernel, continued(SLICES, [first, second], shape.k))))
    }

    /// How long the launches of some work would take, each by itself; `alone`, with only the workgroups executed that tell
    /// it.
    ///
    /// # Errors
    /// The work fails.
    pub fn time_work(
        &self,
        arch: &str,
        [code_kept, alone]: [bool; 2],
        work: impl FnOnce(&Arc<Stream>) -> candle_rocm_runtime::Result<()>,
    ) -> Result<Vec<KernelTime>> {
        let stream = self.context(arch)?.default_stream();
        let sampling = Sampling {
            code_kept,
            alone,
            ..Sampling::default()
        };
        let (done, times) = timed(sampling, || {
            work(&stream).and_then(|()| stream.synchronize())
        });
        done?;
        Ok(times)
    }

    /// Multiply, and count. `None` where no kernel multiplies the type there.
    ///
    /// # Errors
    /// The launch fails.
    pub fn run(&self, arch: &str, kernels: &mut Kernels, shape: &Shape) -> Result<Option<Figures>> {
        let done = self.planned(arch, shape, |stream, plan| {
            // SAFETY: the plan is of these matrices, of which it reads the first `slice` columns of op(A), and rows of op(B).
            let (done, profiles) = profiled(|| unsafe { launch_plan(stream, plan) });
            done?;
            Ok(profiles)
        })?;
        let Some((plan, profiles)) = done else {
            return Ok(None);
        };
        let main = profiles
            .iter()
            .find(|profile| profile.kernel.name == plan.kernel.name(shape.dtype))
            .context("the planned kernel was not launched")?;
        let name = &main.kernel.name;
        let report = kernels.report(module(name), name)?;
        let in_loop = LoopFigures::hottest(&report.listing, &main.profile);
        let moved = |profile: &rocm_emulator::hip::KernelProfile| {
            profile.counters.bytes_loaded + profile.counters.bytes_stored
        };
        Ok(Some(Figures {
            kernel: name.clone(),
            grid: main.grid,
            instructions: profiles
                .iter()
                .map(|p| p.counters.total_instructions())
                .sum(),
            bytes: profiles.iter().map(moved).sum(),
            least_bytes: least_bytes(&plan),
            total: main.profile.total(),
            in_loop,
        }))
    }
}

/// Does something with a product whose operands are in memory.
fn on_operands<T>(
    context: &Arc<Context>,
    shape: &Shape,
    work: impl FnOnce(&Arc<Stream>, &GemmProblem) -> Result<T>,
) -> Result<T> {
    let stream = context.default_stream();
    let bytes = shape.dtype.bytes();
    let a = filled(&stream, shape.m * shape.slice * bytes)?;
    let b = filled(&stream, shape.slice * shape.n * bytes)?;
    let mut c = stream.alloc_zeros::<u8>(shape.m * shape.n * shape.dtype.output_bytes())?;
    let (a, _a) = a.device_ptr(&stream);
    let (b, _b) = b.device_ptr(&stream);
    let (c, _c) = c.device_ptr_mut(&stream);
    work(&stream, &shape.problem(a, b, c))
}

/// The times of a plan's launches, on the operands of [`on_operands`].
fn time_plan(
    stream: &Stream,
    arch: &str,
    shape: &Shape,
    kept: Kept,
    plan: &Plan,
) -> Result<Vec<KernelTime>> {
    let target: Target = arch.parse()?;
    let (input, output) = (shape.dtype.bytes(), shape.dtype.output_bytes());
    // Of the whole: a slice's operands may fit where the product's do not.
    let bytes = (shape.m + shape.n) * shape.k * input + shape.m * shape.n * output;
    let cache = (target.facts().product.infinity_cache_mib as usize) << 20;
    let sampling = Sampling {
        warm: kept.operands && bytes <= cache,
        code_kept: kept.code,
        // Parts wait for those before them.
        alone: !plan.may_wait(),
        ..Sampling::default()
    };
    // SAFETY: the plan is of these matrices, of which it reads the first `slice` columns of op(A), and rows of op(B).
    let (done, times) = timed(sampling, || unsafe { launch_plan(stream, plan) });
    done?;
    Ok(times)
}

fn plan(context: &Context, problem: &GemmProblem) -> Option<Plan> {
    Plan::new(problem, &Epilogue::default(), Gpu::from(context.info()))
}

/// The module of a kernel that computes products.
pub fn module(kernel: &str) -> &'static candle_rocm_kernels::Module {
    if kernel.starts_with("matmul_") {
        &MATMUL
    } else {
        &GEMM
    }
}

/// The least that a plan's tiling can move.
fn least_bytes(plan: &Plan) -> u64 {
    let product = &plan.product;
    let (rows, columns) = plan.kernel.tile();
    let (tiles_m, tiles_n) = (product.m.div_ceil(rows), product.n.div_ceil(columns));
    let read = (product.m * tiles_n + product.n * tiles_m) * product.k;
    let read = read * product.dtype.bytes() as u64;
    let elements = product.m * product.n;
    let written = elements * product.dtype.output_bytes() as u64;
    let partial = match plan.splits {
        1 => 0,
        splits => 2 * u64::from(splits) * elements * product.dtype.sum_bytes() as u64,
    };
    product.batch * (read + written + partial)
}

/// Bytes that are small numbers in every type of element, and different.
fn filled(stream: &Arc<Stream>, bytes: usize) -> Result<DeviceBuffer<u8>> {
    // 0x3c with any low byte is about 1 in f16, a small f32 and f64; i8 takes all values.
    let data: Vec<u8> = (0..bytes)
        .map(|i| {
            let noise = (i.wrapping_mul(2_654_435_761) >> 9) as u8;
            if i % 2 == 1 {
                0x3b | noise & 0x84
            } else {
                noise
            }
        })
        .collect();
    Ok(stream.clone_htod(&data)?)
}
