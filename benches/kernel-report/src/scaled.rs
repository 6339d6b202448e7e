//! What products of FP8 execute: their loop over K-blocks of 128 k, factors included.

use anyhow::{Context as _, Result};
use candle_rocm_kernels::grouped::{invocation, kernel_name, threads, Element, DEPTH, HEADER};
use candle_rocm_kernels::matmul::Tile;
use candle_rocm_kernels::{Processor, GROUPED, SOURCES};
use candle_rocm_runtime::gemm::Gpu;
use rocm_emulator::codeobject::CodeObject;
use rocm_emulator::exec::{InstructionProfile, LaunchTime};
use rocm_toolchain::specialised::{Kernel, Specialiser};

use crate::device::{Arg, Device, Kept};
use crate::kernels::{report, Kernels, Report};
use crate::loops::LoopFigures;

/// C, column-major, is (m, n); A has factors for 128 x 128, as weights, B for each column's 128 of k, as tokens.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Rows of C.
    pub m: u32,
    /// Columns of C.
    pub n: u32,
    /// Elements summed.
    pub k: u32,
    /// The kernel's tile.
    pub tile: Tile,
    /// Whether A and B are stored transposed: `[true, false]` has k together in both.
    pub transposed: [bool; 2],
    /// Whether the kernel is compiled for the constants of the shape, as `fp8::prewarm` has it.
    pub is_special: bool,
}

/// What a launch executed.
pub struct Figures {
    /// The kernel's name.
    pub kernel: String,
    /// Its resources.
    pub report: Report,
    /// Bytes moved between compute units and memory or its caches.
    pub bytes: u64,
    /// Bytes that the tiling needs: each workgroup reads its rows of A, columns of B and their factors once, and writes its
    /// part of C.
    pub least_bytes: u64,
    /// Of all instructions.
    pub total: InstructionProfile,
    /// Of the loop over K-blocks.
    pub in_loop: LoopFigures,
}

/// Words in order, as C lays them out.
struct Struct(Vec<u8>);

impl Struct {
    fn longs(mut self, longs: &[u64]) -> Self {
        self.0
            .extend(longs.iter().flat_map(|long| long.to_le_bytes()));
        self
    }

    fn ints(mut self, ints: &[u32]) -> Self {
        self.0.extend(ints.iter().flat_map(|int| int.to_le_bytes()));
        self
    }
}

impl Shape {
    /// Operands' elements, which lie close; between lines of memory.
    fn lines(&self, rows: u32, along_k: bool) -> u64 {
        u64::from(if along_k { self.k } else { rows })
    }

    fn least_bytes(&self) -> u64 {
        let [m, n, k] = [self.m, self.n, self.k].map(u64::from);
        let (tiles_m, tiles_n) = (
            m.div_ceil(self.tile.rows.into()),
            n.div_ceil(self.tile.columns.into()),
        );
        let factors = 4 * k.div_ceil(DEPTH as u64);
        (m * tiles_n + n * tiles_m) * (k + factors) + 2 * m * n
    }
}

/// A launch of the kernel.
struct Launch {
    kernel: String,
    /// What has its code on the device.
    module: &'static str,
    report: Report,
    /// Workgroups, and threads of one.
    grid: [[u32; 3]; 2],
    argument: Arg,
}

/// Makes the kernel known to the device.
fn loaded(device: &mut Device, shape: &Shape, name: &str) -> Result<(&'static str, Report)> {
    let arch = device.target.name();
    if !shape.is_special {
        device.load(&GROUPED)?;
        return Ok((GROUPED.name(), Kernels::new(arch).report(&GROUPED, name)?));
    }
    const SPECIAL: &str = "compiled for a shape";
    let kernel = Kernel {
        name,
        header: HEADER,
        invocation: &invocation(name).context("a kernel that is made for no shape")?,
    };
    let [m, k] = [shape.m, shape.k].map(i64::from);
    let mut constants = vec![
        ("product.gemm.m", m),
        ("product.gemm.k", k),
        (
            "product.gemm.lda",
            shape.lines(shape.m, shape.transposed[0]) as i64,
        ),
        ("product.gemm.ldc", m),
        ("product.splits", 1),
        ("product.k_per_split", k),
        (
            "product.order.tiles_m",
            shape.m.div_ceil(shape.tile.rows).into(),
        ),
        ("product.residual", 0),
        ("scales_a.row_step", 1),
        ("scales_a.k_step", shape.m.div_ceil(DEPTH as u32).into()),
        ("scales_a.row_shift", DEPTH.ilog2().into()),
        ("scales_a.format", 0),
        ("scales_b.row_step", 1),
        ("scales_b.row_shift", 0),
        ("scales_b.format", 0),
        ("grouping", 0),
        ("result", 2),
        ("log2_slice_k", 0),
    ];
    if !shape.transposed[1] {
        constants.push(("product.gemm.ldb", k));
    }
    let code = Specialiser::new(&SOURCES)?.compile(&kernel, &constants, arch)?;
    device.load_code(SPECIAL, &code.object)?;
    let object = CodeObject::parse_for(&code.object, device.target)?;
    Ok((SPECIAL, report(&object, name, arch)?))
}

fn prepared(device: &mut Device, shape: &Shape) -> Result<Launch> {
    let name = kernel_name(Element::F8e4m3, true, shape.tile, shape.transposed);
    let (module, report) = loaded(device, shape, &name)?;
    let arch = device.target.name();
    let [m, n, k] = [shape.m, shape.n, shape.k].map(u64::from);
    // Numbers around one.
    let bytes = |count: u64| -> Vec<u8> { (0..count).map(|i| 0x30 + (i * 7 % 16) as u8).collect() };
    let ones = |count: u64| 1f32.to_le_bytes().repeat(count as usize);
    let blocks = k.div_ceil(DEPTH as u64);
    let (a, b) = (device.buffer(&bytes(m * k))?, device.buffer(&bytes(n * k))?);
    let (of_a, of_b) = (
        device.buffer(&ones(m.div_ceil(DEPTH as u64) * blocks))?,
        device.buffer(&ones(n * blocks))?,
    );
    let c = device.room(2 * m * n)?;
    let (tiles_m, tiles_n) = (
        shape.m.div_ceil(shape.tile.rows),
        shape.n.div_ceil(shape.tile.columns),
    );
    // In the order that the runtime has them in, with two workgroups on each compute unit.
    let compute_units = device.target.facts().product.compute_units;
    let order = Gpu {
        processor: Processor::of(arch),
        compute_units,
    }
    .order(
        [shape.tile.rows, shape.tile.columns],
        [tiles_m, tiles_n].map(u64::from),
        2 * u64::from(compute_units),
    );
    // `GroupedProblem` of kernels/matmul/grouped/problem.cuh: the product, ...
    let argument = Struct(Vec::new())
        .longs(&[
            a,
            b,
            c,
            shape.lines(shape.m, shape.transposed[0]),
            shape.lines(shape.n, !shape.transposed[1]),
            1,
            m,
        ])
        .longs(&[0, 0, 0, 1f64.to_bits(), 0])
        .ints(&[shape.m, shape.n, shape.k, 0])
        .longs(&[0, 0, 0, 0, 0, 0])
        .ints(&[1, 1, shape.k, 0])
        .ints(&order.words())
        // ... factors of A by blocks and of B by columns, and a result in bf16.
        .longs(&[of_a, 0, 1, m.div_ceil(DEPTH as u64)])
        .ints(&[DEPTH.ilog2(), 0])
        .longs(&[of_b, 0, 1, n])
        .ints(&[0, 0])
        .longs(&[0])
        // The result is bf16; no warps share rows.
        .ints(&[0, 2, 0, 0]);
    let grid = [
        [tiles_m * tiles_n, 1, 1],
        [
            threads(Processor::of(arch), Element::F8e4m3, shape.tile),
            1,
            1,
        ],
    ];
    Ok(Launch {
        kernel: name,
        module,
        report,
        grid,
        argument: Arg::Struct(argument.0),
    })
}

/// The time of the kernel, by the emulator's model of time.
///
/// # Errors
/// The launch fails, or there is no model of the GPU's time.
pub fn time(device: &mut Device, shape: &Shape) -> Result<(String, LaunchTime)> {
    let launch = prepared(device, shape)?;
    let arguments = [launch.argument];
    let time = device.time(
        launch.module,
        &launch.kernel,
        launch.grid,
        &arguments,
        Kept::default(),
    )?;
    Ok((launch.kernel, time))
}

/// Run the kernel, and count.
///
/// # Errors
/// It has no loop, or the launch fails.
pub fn run(device: &mut Device, shape: &Shape) -> Result<Figures> {
    let launch = prepared(device, shape)?;
    let (name, report, arguments) = (launch.kernel, launch.report, [launch.argument]);
    let executed = device.run(launch.module, &name, launch.grid, &arguments)?;
    let in_loop = LoopFigures::hottest(&report.listing, &executed.profile)
        .with_context(|| format!("{name} has no loop"))?;
    Ok(Figures {
        bytes: executed.counters.bytes_loaded + executed.counters.bytes_stored,
        least_bytes: shape.least_bytes(),
        kernel: name,
        report,
        total: executed.profile.total(),
        in_loop,
    })
}
