//! What products of FP8 execute: their loop over panels of 128 k, factors included.

use anyhow::Result;
use candle_rocm_kernels::grouped::{kernel_name, threads, Element, DEPTH};
use candle_rocm_kernels::matmul::Tile;
use candle_rocm_kernels::GROUPED;
use rocm_emulator::exec::{InstructionProfile, LaunchTime};

use crate::device::{Arg, Device};
use crate::kernels::{Kernels, Report};
use crate::loops;
use crate::products::LoopFigures;

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
    /// Of the loop over panels.
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
    /// Workgroups, and threads of one.
    grid: [[u32; 3]; 2],
    argument: Arg,
}

fn prepared(device: &mut Device, shape: &Shape) -> Result<Launch> {
    device.load(&GROUPED)?;
    let arch = device.target.name();
    let name = kernel_name(Element::F8e4m3, true, shape.tile, shape.transposed);
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
    // `GroupedProblem` of kernels/matmul/grouped_problem.cuh: the product, ...
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
        .longs(&[0, 0, 0, 0, 0])
        .ints(&[1, 1, shape.k, 0, tiles_m, tiles_n, tiles_m.min(8), 1])
        // ... factors of A by blocks and of B by columns, and a result in bf16.
        .longs(&[of_a, 0, 1, m.div_ceil(DEPTH as u64)])
        .ints(&[DEPTH.ilog2(), 0])
        .longs(&[of_b, 0, 1, n])
        .ints(&[0, 0])
        .longs(&[0])
        // The result is bf16; no teams share rows.
        .ints(&[0, 2, 0, 0]);
    let grid = [
        [tiles_m * tiles_n, 1, 1],
        [threads(arch, Element::F8e4m3, shape.tile), 1, 1],
    ];
    Ok(Launch {
        kernel: name,
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
    let time = device.time(GROUPED.name(), &launch.kernel, launch.grid, &arguments)?;
    Ok((launch.kernel, time))
}

/// Run the kernel, and count.
///
/// # Errors
/// It has no loop, or the launch fails.
pub fn run(device: &mut Device, shape: &Shape) -> Result<Figures> {
    let launch = prepared(device, shape)?;
    let (name, arguments) = (launch.kernel, [launch.argument]);
    let executed = device.run(GROUPED.name(), &name, launch.grid, &arguments)?;
    let mut kernels = Kernels::new(device.target.name());
    let report = kernels.report(&GROUPED, &name)?;
    let hot = loops::hottest(&report.listing, &executed.profile);
    anyhow::ensure!(!hot.is_empty(), "{name} has no loop");
    let (counts, fill) = loops::executed(&hot, &report.listing, &executed.profile);
    let lines = hot.iter().flat_map(|of| of.lines(&report.listing));
    let in_loop = LoopFigures {
        total: lines.fold(InstructionProfile::default(), |sum, line| {
            sum + executed.profile.at(line.offset)
        }),
        counts,
        fill,
    };
    Ok(Figures {
        bytes: executed.counters.bytes_loaded + executed.counters.bytes_stored,
        least_bytes: shape.least_bytes(),
        kernel: name,
        report,
        total: executed.profile.total(),
        in_loop,
    })
}
