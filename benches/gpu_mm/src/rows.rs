//! Softmax and normalisations that reduce by a tree in LDS, beside those that ship, which reduce within wavefronts.

use std::sync::Arc;

use anyhow::{ensure, Context as _, Result};
use candle_rocm_kernel_report::device::{Arg, Device};
use candle_rocm_kernel_report::rows::plan;
use candle_rocm_kernels::REDUCE;
use candle_rocm_runtime::gemm::GemmDtype;
use candle_rocm_runtime::{
    Context, DevicePtr, DevicePtrMut, Function, Image, LaunchConfig, PushKernelArg, Stream,
};
use rocm_emulator::exec::Class;

use crate::element;
use crate::problems::Rows;
use crate::timing::microseconds;

/// (architecture, compressed code) of `kernels/rows_tree.cu`.
static TREE: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/rows_tree.rs"));
/// Its workgroups.
const TREE_THREADS: u32 = 256;
const EPSILON: f32 = 1e-5;

/// What the emulator counts, for each row.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Counted {
    /// Instructions of all classes.
    pub instructions: f64,
    /// LDS instructions, lane permutations among them.
    pub lds: f64,
    /// Cycles of the LDS.
    pub lds_cycles: f64,
    /// Of them, due to bank conflicts.
    pub conflicts: f64,
    /// Barriers, one for each wavefront that waits.
    pub barriers: f64,
}

/// What came of a kernel in one form.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Form {
    /// Largest error against f64, of results that are at most about 1, or relative to larger ones.
    pub error: f64,
    /// Microseconds.
    pub us: Option<f64>,
    /// On the emulator.
    pub counted: Option<Counted>,
}

/// Both forms.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Outcome {
    /// A tree in LDS.
    pub tree: Form,
    /// Lane exchanges.
    pub wave: Form,
}

/// The tree kernels' code.
///
/// # Errors
/// The build has none for this architecture.
pub fn tree_code(arch: &str) -> Result<Vec<u8>> {
    let found = candle_rocm_kernels::choice::object_for(TREE, arch);
    let code = found.with_context(|| {
        let archs: Vec<&str> = TREE.iter().map(|(name, _)| *name).collect();
        format!("the tree kernels are compiled for {archs:?}, not for {arch}")
    })?;
    code.map_err(anyhow::Error::msg)
}

impl Rows {
    /// The dtype in the kernels' names.
    pub fn dtype(&self) -> GemmDtype {
        if self.half {
            GemmDtype::F16
        } else {
            GemmDtype::F32
        }
    }

    fn names(&self) -> [String; 2] {
        let dtype = self.dtype().name();
        [
            format!("{}_tree_{dtype}", self.kernel),
            format!("{}_{dtype}", self.kernel),
        ]
    }

    /// The workgroup that Candle asks for.
    fn asked(&self) -> (u32, u32, u32) {
        match (self.weights, self.columns < 1024) {
            (0, _) => (1, 32, 1),
            (_, true) => (32, 1, 1),
            (_, false) => (1024, 1, 1),
        }
    }

    /// The source, and the weights.
    pub fn inputs(&self) -> [Vec<u8>; 3] {
        let of = |seed, count| element::random(self.dtype(), seed, count);
        [
            of(3, self.rows * self.columns),
            of(4, self.columns),
            of(5, self.columns),
        ]
    }

    /// What a result should be, of some rows: the first, one in the middle and the last.
    pub fn error(&self, [source, alpha, beta]: &[Vec<u8>; 3], found: &[u8]) -> f64 {
        let dtype = self.dtype();
        let weight = |weights: &[u8], at| element::result(dtype, weights, at);
        let mut largest = 0.0f64;
        for row in [0, self.rows / 2, self.rows - 1] {
            let first = row * self.columns;
            let x: Vec<f64> = (0..self.columns)
                .map(|at| element::result(dtype, source, first + at))
                .collect();
            let count = self.columns as f64;
            let mean = x.iter().sum::<f64>() / count;
            let squares = |mean: f64| x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
            let epsilon = f64::from(EPSILON);
            let most = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = x.iter().map(|x| (x - most).exp()).sum();
            for (at, &x) in x.iter().enumerate() {
                let exact = match self.kernel {
                    "softmax" => (x - most).exp() / sum,
                    "rmsnorm" => x / (squares(0.0) + epsilon).sqrt() * weight(alpha, at),
                    _ => {
                        let normal = (x - mean) / (squares(mean) + epsilon).sqrt();
                        normal * weight(alpha, at) + weight(beta, at)
                    }
                };
                let error = (element::result(dtype, found, first + at) - exact).abs();
                let error = error / exact.abs().max(1.0);
                largest = if error.is_nan() {
                    f64::INFINITY
                } else {
                    largest.max(error)
                };
            }
        }
        largest
    }
}

/// Run both forms on the runtime's GPU, and time them if `timed`.
///
/// # Errors
/// A launch fails, or the tree kernels are not compiled for this GPU.
pub fn measure(
    context: &Arc<Context>,
    stream: &Arc<Stream>,
    rows: &Rows,
    timed: bool,
) -> Result<Outcome> {
    let [tree_name, wave_name] = rows.names();
    let code = tree_code(&context.info().arch)?;
    let tree = context
        .load_module(Image::from_binary(code))?
        .load_function(&tree_name)?;
    let wave = context.kernel(&REDUCE, &wave_name)?;
    let form = |function: &Function, block: (u32, u32, u32)| -> Result<Form> {
        let inputs = rows.inputs();
        let source = stream.clone_htod(&inputs[0])?;
        let alpha = stream.clone_htod(&inputs[1])?;
        let beta = stream.clone_htod(&inputs[2])?;
        let mut out = stream.alloc_zeros::<u8>(inputs[0].len())?;
        let addresses = [
            source.device_ptr(stream).0,
            out.device_ptr_mut(stream).0,
            alpha.device_ptr(stream).0,
            beta.device_ptr(stream).0,
        ];
        let (columns, threads) = (rows.columns as i32, block.0 as i32);
        let config = LaunchConfig {
            grid_dim: (rows.rows as u32, 1, 1),
            block_dim: block,
            shared_mem_bytes: 0,
        };
        let run = |_| -> Result<()> {
            let mut launch = stream.launch_builder(function);
            for address in &addresses[..2 + rows.weights] {
                launch.arg(address);
            }
            launch.arg(&columns);
            if rows.weights > 0 {
                launch.arg(&threads).arg(&EPSILON);
            }
            // SAFETY: the kernel's parameters, and buffers of the sizes that it was told.
            unsafe { launch.launch(config) }?;
            Ok(())
        };
        run(0)?;
        let error = rows.error(&inputs, &stream.clone_dtoh(&out)?);
        let us = timed.then(|| microseconds(stream, run)).transpose()?;
        stream.synchronize()?;
        Ok(Form {
            error,
            us,
            counted: None,
        })
    };
    Ok(Outcome {
        tree: form(&tree, (TREE_THREADS, 1, 1))?,
        wave: form(&wave, rows.asked())?,
    })
}

/// Run both forms on an emulated GPU and count what they execute: the one that ships with as many rows to a workgroup as
/// it is launched with for a tall matrix.
///
/// # Errors
/// A kernel does not run, or the rows are no multiple of 32.
pub fn count(device: &mut Device, rows: &Rows) -> Result<Outcome> {
    ensure!(
        rows.rows.is_multiple_of(32),
        "{} rows fill no workgroups",
        rows.rows
    );
    device.load(&REDUCE)?;
    let [tree_name, wave_name] = rows.names();
    device.load_code("rows_tree", &tree_code(device.target.name())?)?;
    let inputs = rows.inputs();
    let buffers = inputs
        .iter()
        .map(|bytes| device.buffer(bytes))
        .collect::<Result<Vec<_>>>()?;
    let out = device.buffer(&vec![0; inputs[0].len()])?;
    let form = |module: &str, name: &str, grid: [[u32; 3]; 2]| -> Result<Form> {
        let mut args = vec![Arg::U64(buffers[0]), Arg::U64(out)];
        args.extend(buffers[1..1 + rows.weights].iter().map(|&at| Arg::U64(at)));
        args.push(Arg::U32(rows.columns as u32));
        if rows.weights > 0 {
            args.extend([Arg::U32(rows.asked().0), Arg::F32(EPSILON)]);
        }
        let executed = device.run(module, name, grid, &args)?;
        let each = |number: u64| number as f64 / rows.rows as f64;
        let total = executed.profile.total();
        Ok(Form {
            error: rows.error(&inputs, &device.read(out, inputs[0].len())?),
            us: None,
            counted: Some(Counted {
                instructions: each(executed.counters.total_instructions()),
                lds: each(executed.counters.of(Class::Lds)),
                lds_cycles: each(total.lds_cycles),
                conflicts: each(total.lds_conflicts),
                barriers: each(executed.barriers),
            }),
        })
    };
    let tree = form(
        "rows_tree",
        &tree_name,
        [[rows.rows as u32, 1, 1], [TREE_THREADS, 1, 1]],
    )?;
    let weights = rows.weights as u64;
    let plan = plan(device.target, &wave_name, weights, rows.columns as u32);
    let groups = rows.rows as u32 / plan.rows;
    let wave = form(REDUCE.name(), &wave_name, [[groups, 1, 1], plan.threads])?;
    for buffer in buffers.into_iter().chain([out]) {
        device.free(buffer)?;
    }
    Ok(Outcome { tree, wave })
}
