//! What row and elementwise kernels execute: instructions, bytes against the least, lines against the least.

use anyhow::{Context, Result};
use candle_rocm_kernels::geometry::{self, Geometry, Gpu, Grid, Row};
use candle_rocm_kernels::{BINARY, REDUCE, UNARY};
use half::f16;
use rocm_emulator::exec::InstructionProfile;
use rocm_emulator::hip::compute_units;
use rocm_emulator::isa::Target;

use crate::device::{Arg, Device, Executed};

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
        element_bytes: geometry::element_bytes(name),
    };
    let gpu = Gpu {
        compute_units: compute_units(target),
    };
    let plan = Geometry::of(REDUCE.name(), name).plan(grid, row, gpu);
    Planned {
        rows: PLANNED_ROWS / plan.workgroups[0],
        threads: plan.threads,
        asked,
    }
}

/// Run some workgroups of a kernel over rows of f16, on the grid that it is launched with for a tall matrix.
///
/// # Errors
/// The kernel does not run.
pub fn run_rows(device: &mut Device, kernel: RowKernel, columns: u32) -> Result<Figures> {
    device.load(&REDUCE)?;
    let name = format!("{}_f16", kernel.name);
    let plan = plan(device.target, &name, kernel.weights, columns);
    let rows = u64::from(plan.rows) * u64::from(WORKGROUPS);
    let elements = rows as usize * columns as usize;
    let source = device.buffer(&halves(elements))?;
    let target = device.buffer(&vec![0; 2 * elements])?;
    let weights = device.buffer(&halves(columns as usize))?;
    let mut args = vec![Arg::U64(source), Arg::U64(target)];
    for _ in 0..kernel.weights {
        args.push(Arg::U64(weights));
    }
    args.push(Arg::U32(columns));
    if kernel.weights > 0 {
        args.extend([Arg::U32(plan.asked[0]), Arg::F32(1e-5)]);
    }
    let grid = [[WORKGROUPS, 1, 1], plan.threads];
    let executed = device.run(REDUCE.name(), &name, grid, &args)?;
    for buffer in [source, target, weights] {
        device.free(buffer)?;
    }
    // A row read, a row written, and the weights, which each row reads again from the caches.
    let least = rows * u64::from(columns) * 2 * (2 + kernel.weights);
    Ok(figures(grid, rows, &executed, least))
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

/// Run an elementwise kernel on a matrix of 512 x 512.
///
/// # Errors
/// The kernel does not run.
pub fn run_elements(device: &mut Device, kernel: ElementKernel) -> Result<Figures> {
    const SIDE: u64 = 512;
    const COUNT: u64 = SIDE * SIDE;
    let module = if kernel.inputs == 2 { &BINARY } else { &UNARY };
    device.load(module)?;
    let asked = Grid {
        workgroups: [COUNT.div_ceil(1024) as u32, 1, 1],
        threads: [1024, 1, 1],
    };
    let gpu = Gpu {
        compute_units: compute_units(device.target),
    };
    let geometry = Geometry::of(module.name(), kernel.name);
    let row = Row {
        elements: 0,
        element_bytes: geometry::element_bytes(kernel.name),
    };
    let plan = geometry.plan(asked, row, gpu);
    let bytes = (COUNT * kernel.bytes) as usize;
    let mut buffers = Vec::new();
    for _ in 0..kernel.inputs {
        buffers.push(device.buffer(&halves(bytes / 2))?);
    }
    let info = if kernel.turned {
        let words: Vec<u8> = [SIDE, SIDE, 1, SIDE]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let info = device.buffer(&words)?;
        buffers.push(info);
        info
    } else {
        0
    };
    let out = device.buffer(&vec![0; bytes])?;
    let mut args = vec![Arg::U64(COUNT), Arg::U64(2), Arg::U64(info)];
    args.extend(
        buffers
            .iter()
            .take(kernel.inputs as usize)
            .map(|&address| Arg::U64(address)),
    );
    args.push(Arg::U64(out));
    buffers.push(out);
    let grid = [plan.workgroups, plan.threads];
    let executed = device
        .run(module.name(), kernel.name, grid, &args)
        .with_context(|| format!("{} on {}", kernel.name, device.target))?;
    for buffer in buffers {
        device.free(buffer)?;
    }
    let least = COUNT * kernel.bytes * u64::from(kernel.inputs + 1);
    Ok(figures(grid, COUNT, &executed, least))
}
