//! What row and elementwise kernels execute: instructions, bytes against the least, lines against the least.

use anyhow::{Context, Result};
use candle_rocm_kernels::launch_heuristics::{self, Gpu, Grid, LaunchHeuristic, Row};
use candle_rocm_kernels::{Module, BINARY, REDUCE, UNARY};
use half::f16;
use rocm_emulator::exec::{InstructionProfile, LaunchTime};
use rocm_emulator::hip::compute_units;
use rocm_emulator::isa::Target;

use crate::device::{Arg, Device, Executed, Kept};

/// A matrix so tall that the GPU is full is planned for; so many of its workgroups run.
const PLANNED_ROWS: u32 = 1 << 16;
const WORKGROUPS: u32 = 4;

/// Lengths of rows that are reported.
pub const COLUMNS: [u32; 6] = [1024, 2048, 4096, 5120, 8192, 16384];

/// A kernel on the rows of a contiguous matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowKernel {
    /// Candle's name, without the dtype.
    pub name: &'static str,
    /// Vectors of a row's length that are read beside the row.
    pub weights: u64,
}

/// The three.
pub const ROW_KERNELS: [RowKernel; 3] = [
    RowKernel {
        name: "softmax",
        weights: 0,
    },
    RowKernel {
        name: "rmsnorm",
        weights: 1,
    },
    RowKernel {
        name: "layernorm",
        weights: 2,
    },
];

/// What a launch did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Workgroups, and work-items of each.
    pub grid: [[u32; 3]; 2],
    /// Rows, or elements.
    pub rows: u64,
    /// Instructions of all classes.
    pub instructions: u64,
    /// LDS instructions.
    pub lds_instructions: u64,
    /// Global memory instructions.
    pub memory_instructions: u64,
    /// Bytes that were moved between the compute units and memory or its caches.
    pub bytes: u64,
    /// Bytes that must be.
    pub least_bytes: u64,
    /// Sums over all instructions.
    pub total: InstructionProfile,
}

fn figures(grid: [[u32; 3]; 2], rows: u64, executed: &Executed, least_bytes: u64) -> Figures {
    use rocm_emulator::exec::Class;
    let counters = &executed.counters;
    Figures {
        grid,
        rows,
        instructions: counters.total_instructions(),
        lds_instructions: counters.of(Class::Lds),
        memory_instructions: counters.of(Class::Memory),
        bytes: counters.bytes_loaded + counters.bytes_stored,
        least_bytes,
        total: executed.profile.total(),
    }
}

/// Small numbers of both signs, the same each time.
pub fn halves(count: usize) -> Vec<u8> {
    let number = |i: usize| (i.wrapping_mul(2_654_435_761) >> 7 & 0xff) as f32 / 64.0 - 2.0;
    (0..count)
        .flat_map(|i| f16::from_f32(number(i)).to_le_bytes())
        .collect()
}

/// How a row kernel is launched for a tall matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Rows that a workgroup makes: a power of two, at most 32.
    pub rows: u32,
    /// Its work-items.
    pub threads: [u32; 3],
    /// Those that Candle asks for, which the kernel is told.
    pub asked: [u32; 3],
}

/// What grids are planned for. All GPUs of the report have kernels of workgroups of 1024.
fn gpu(target: Target) -> Gpu {
    Gpu {
        compute_units: compute_units(target),
        largest_workgroup: 1024,
    }
}

/// The plan for a kernel by its full name, such as `rmsnorm_f16`, with so many vectors of weights.
pub fn plan(target: Target, name: &str, weights: u64, columns: u32) -> Planned {
    let asked = match (weights, columns < 1024) {
        (0, _) => [1, 32, 1],
        (_, true) => [32, 1, 1],
        (_, false) => [1024, 1, 1],
    };
    let grid = Grid {
        workgroups: [PLANNED_ROWS, 1, 1],
        threads: asked,
    };
    let row = Row {
        elements: columns.into(),
        element_bytes: launch_heuristics::element_bytes(name),
        strided: false,
    };
    let plan = LaunchHeuristic::of(REDUCE.name(), name).plan(grid, row, gpu(target));
    Planned {
        rows: PLANNED_ROWS / plan.workgroups[0],
        threads: plan.threads,
        asked,
    }
}

/// A launch with its buffers.
struct Prepared {
    module: &'static Module,
    name: String,
    grid: [[u32; 3]; 2],
    args: Vec<Arg>,
    buffers: Vec<u64>,
    /// Rows, or elements.
    rows: u64,
    least_bytes: u64,
}

impl Prepared {
    fn run(self, device: &Device) -> Result<Figures> {
        let executed = device
            .run(self.module.name(), &self.name, self.grid, &self.args)
            .with_context(|| format!("{} on {}", self.name, device.target))?;
        let figures = figures(self.grid, self.rows, &executed, self.least_bytes);
        self.free(device)?;
        Ok(figures)
    }

    fn time(self, device: &Device) -> Result<Timed> {
        let time = device
            .time(
                self.module.name(),
                &self.name,
                self.grid,
                &self.args,
                Kept::default(),
            )
            .with_context(|| format!("{} on {}", self.name, device.target))?;
        let least_bytes = self.least_bytes;
        self.free(device)?;
        Ok(Timed { time, least_bytes })
    }

    fn free(self, device: &Device) -> Result<()> {
        self.buffers.into_iter().try_for_each(|it| device.free(it))
    }
}

/// How long a launch would take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timed {
    /// By the emulator's model of time.
    pub time: LaunchTime,
    /// Bytes that must be moved.
    pub least_bytes: u64,
}

impl Timed {
    /// 10^9 bytes a second, of those that must be moved.
    pub fn gigabytes_per_second(&self) -> f64 {
        self.least_bytes as f64 / self.time.microseconds / 1000.0
    }
}

/// Buffers with numbers in them, or such as take memory only where they are touched.
#[derive(Clone, Copy, PartialEq)]
enum Contents {
    Numbers,
    Zeros,
}

fn buffer(device: &Device, contents: Contents, bytes: u64) -> Result<u64> {
    match contents {
        Contents::Numbers => device.buffer(&halves(bytes as usize / 2)),
        Contents::Zeros => device.room(bytes),
    }
}

fn prepare_rows(
    device: &mut Device,
    kernel: RowKernel,
    columns: u32,
    workgroups: Option<u32>,
) -> Result<Prepared> {
    device.load(&REDUCE)?;
    let name = format!("{}_f16", kernel.name);
    let plan = plan(device.target, &name, kernel.weights, columns);
    let (workgroups, contents) = match workgroups {
        Some(workgroups) => (workgroups, Contents::Numbers),
        None => (PLANNED_ROWS / plan.rows, Contents::Zeros),
    };
    let rows = u64::from(plan.rows) * u64::from(workgroups);
    let bytes = 2 * rows * u64::from(columns);
    let source = buffer(device, contents, bytes)?;
    let target = device.room(bytes)?;
    let weights = device.buffer(&halves(columns as usize))?;
    let mut args = vec![Arg::U64(source), Arg::U64(target)];
    for _ in 0..kernel.weights {
        args.push(Arg::U64(weights));
    }
    args.push(Arg::U32(columns));
    if kernel.weights > 0 {
        args.extend([Arg::U32(plan.asked[0]), Arg::F32(1e-5)]);
    }
    Ok(Prepared {
        module: &REDUCE,
        name,
        grid: [[workgroups, 1, 1], plan.threads],
        args,
        buffers: vec![source, target, weights],
        rows,
        // A row read, a row written, and the weights, which each row reads again from the caches.
        least_bytes: rows * u64::from(columns) * 2 * (2 + kernel.weights),
    })
}

/// Run some workgroups of a kernel over rows of f16, on the grid that it is launched with for a tall matrix.
///
/// # Errors
/// The kernel does not run.
pub fn run_rows(device: &mut Device, kernel: RowKernel, columns: u32) -> Result<Figures> {
    prepare_rows(device, kernel, columns, Some(WORKGROUPS))?.run(device)
}

/// How long a kernel would take over the rows of the tall matrix. Weights, which all rows share, are no bytes that must be
/// moved here.
///
/// # Errors
/// The kernel does not run, or there is no model of the GPU's time.
pub fn time_rows(device: &mut Device, kernel: RowKernel, columns: u32) -> Result<Timed> {
    let prepared = prepare_rows(device, kernel, columns, None)?;
    let least_bytes = 2 * 2 * prepared.rows * u64::from(columns);
    let timed = prepared.time(device)?;
    Ok(Timed {
        least_bytes,
        ..timed
    })
}

/// An elementwise kernel on a contiguous or a turned matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementKernel {
    /// The kernel.
    pub name: &'static str,
    /// Tensors that it reads.
    pub inputs: u32,
    /// Bytes of an element.
    pub bytes: u64,
    /// The first one is the transpose of a contiguous matrix.
    pub turned: bool,
}

/// A copy, which the others' times are compared with.
pub const COPY: ElementKernel = ElementKernel {
    name: "ucopy_f32",
    inputs: 1,
    bytes: 4,
    turned: false,
};

/// Those that are reported.
pub const ELEMENT_KERNELS: [ElementKernel; 4] = [
    ElementKernel {
        name: "uexp_f16",
        inputs: 1,
        bytes: 2,
        turned: false,
    },
    ElementKernel {
        name: "badd_f32",
        inputs: 2,
        bytes: 4,
        turned: false,
    },
    ElementKernel {
        name: "ucopy_f32",
        inputs: 1,
        bytes: 4,
        turned: true,
    },
    ElementKernel {
        name: "ucopy_f16",
        inputs: 1,
        bytes: 2,
        turned: true,
    },
];

fn prepare_elements(
    device: &mut Device,
    kernel: ElementKernel,
    side: u64,
    contents: Contents,
) -> Result<Prepared> {
    let count = side * side;
    let module = if kernel.inputs == 2 { &BINARY } else { &UNARY };
    device.load(module)?;
    let asked = Grid {
        workgroups: [count.div_ceil(1024) as u32, 1, 1],
        threads: [1024, 1, 1],
    };
    let heuristic = LaunchHeuristic::of(module.name(), kernel.name);
    let row = Row {
        elements: 0,
        element_bytes: launch_heuristics::element_bytes(kernel.name),
        strided: false,
    };
    let plan = heuristic.plan(asked, row, gpu(device.target));
    let bytes = count * kernel.bytes;
    let mut buffers = Vec::new();
    for _ in 0..kernel.inputs {
        buffers.push(buffer(device, contents, bytes)?);
    }
    let info = if kernel.turned {
        let words: Vec<u8> = [side, side, 1, side]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let info = device.buffer(&words)?;
        buffers.push(info);
        info
    } else {
        0
    };
    let out = device.room(bytes)?;
    let mut args = vec![Arg::U64(count), Arg::U64(2), Arg::U64(info)];
    args.extend(
        buffers
            .iter()
            .take(kernel.inputs as usize)
            .map(|&address| Arg::U64(address)),
    );
    args.push(Arg::U64(out));
    buffers.push(out);
    Ok(Prepared {
        module,
        name: kernel.name.to_owned(),
        grid: [plan.workgroups, plan.threads],
        args,
        buffers,
        rows: count,
        least_bytes: count * kernel.bytes * u64::from(kernel.inputs + 1),
    })
}

/// Run an elementwise kernel on a matrix of 512 x 512.
///
/// # Errors
/// The kernel does not run.
pub fn run_elements(device: &mut Device, kernel: ElementKernel) -> Result<Figures> {
    prepare_elements(device, kernel, 512, Contents::Numbers)?.run(device)
}

/// How long it would take on a matrix of 8,192 x 8,192.
///
/// # Errors
/// The kernel does not run, or there is no model of the GPU's time.
pub fn time_elements(device: &mut Device, kernel: ElementKernel) -> Result<Timed> {
    prepare_elements(device, kernel, 1 << 13, Contents::Zeros)?.time(device)
}
