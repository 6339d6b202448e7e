//! Products of quantised matrices with one to eight vectors: the kernels of module `mmvq` with every number of threads to
//! a row, beside a copy that moves as many bytes. Launched as graphs, without the quantisation of the vectors.
//!
//! Only times: what the kernels compute is tested elsewhere, on data that means something.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use candle_rocm_kernels::gguf::{Format, FORMATS};
use candle_rocm_kernels::{mmvq, MMVQ};
use candle_rocm_runtime::{
    Context, DevicePtr, DevicePtrMut, Function, Image, LaunchConfig, Module, PushKernelArg, Stream,
};

use crate::timing::graph_microseconds;

/// Rows and columns: LLaMA 3 8B's, one of LLaMA 3.2 1B's.
const LAYERS: [[usize; 2]; 4] = [[14336, 4096], [4096, 14336], [4096, 4096], [8192, 2048]];
/// Matrices take turns within so many bytes.
const ROTATE_BYTES: usize = 256 << 20;
/// Work-items of a workgroup.
const THREADS: u32 = 128;

/// What came of a product.
#[derive(serde::Serialize)]
pub struct Line {
    /// The format.
    pub format: &'static str,
    /// Rows, columns, vectors.
    pub shape: [usize; 3],
    /// Bytes of the matrix.
    pub bytes: usize,
    /// Microseconds of a copy that reads half of them and writes the other half.
    pub copy_us: f64,
    /// Module, threads to a row and microseconds.
    pub times: Vec<(String, u32, f64)>,
}

/// A module's kernels and the rows that a thread of theirs makes, by number of vectors (1, 2, 4, 8).
struct Variant {
    name: String,
    module: Option<Arc<Module>>,
    /// None: as the embedded ones.
    rows: Option<[u32; 4]>,
}

impl Variant {
    /// The module that ships.
    fn embedded() -> Self {
        Self {
            name: "embedded".to_owned(),
            module: None,
            rows: None,
        }
    }

    /// A code object; its file's name says the rows, as in `anything-r2244.cubin`.
    fn file(context: &Arc<Context>, path: &Path) -> Result<Self> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let digits = name.rsplit_once("-r").map_or("", |(_, digits)| digits);
        let rows: Vec<u32> = digits
            .chars()
            .filter_map(|digit| digit.to_digit(10))
            .collect();
        let rows: [u32; 4] = rows
            .try_into()
            .ok()
            .with_context(|| format!("{}: no -r and four digits at the end", path.display()))?;
        let mut code = std::fs::read(path).with_context(|| path.display().to_string())?;
        code.push(0);
        Ok(Self {
            name: name.clone().into_owned(),
            module: Some(context.load_module(Image::from_binary(code))?),
            rows: Some(rows),
        })
    }

    fn function(&self, context: &Arc<Context>, format: &str, vectors: usize) -> Result<Function> {
        let name = format!("mmvq_{format}_{vectors}");
        Ok(match &self.module {
            Some(module) => module.load_function(&name)?,
            None => context.kernel(&MMVQ, &name)?,
        })
    }
}

/// Measures the formats by the embedded kernels and those of the files; `done` is called with each line.
///
/// # Errors
/// A launch fails, or a file is no module of such kernels.
pub fn measure(
    context: &Arc<Context>,
    formats: &[String],
    files: &[PathBuf],
    mut done: impl FnMut(Line),
) -> Result<()> {
    let stream = context.new_stream()?;
    let mut variants = vec![Variant::embedded()];
    for file in files {
        variants.push(Variant::file(context, file)?);
    }
    // Halves of these bytes are small numbers, whichever way they are read.
    let pattern: Vec<u8> = (0..1021u32).map(|i| (i * 37 % 53) as u8).collect();
    let mut data = pattern.repeat(ROTATE_BYTES / pattern.len() + 1);
    data.truncate(ROTATE_BYTES);
    let matrices = stream.clone_htod(&data)?;
    let mut target = stream.alloc_zeros::<u8>(ROTATE_BYTES / 2)?;
    for Format {
        name: format,
        elements,
        bytes: block,
        ..
    } in FORMATS
    {
        if !formats.is_empty() && !formats.iter().any(|name| name == format) {
            continue;
        }
        for [rows, columns] in LAYERS {
            let bytes = rows * columns / elements as usize * block as usize;
            let runs = (7_000_000_000 / bytes).clamp(8, 200);
            let half = bytes / 2;
            let copies = (target.len() / half).max(1);
            let copy_us = graph_microseconds(&stream, runs, |turn| {
                let at = turn % copies * half;
                let mut to = target.slice_mut(at..at + half);
                stream.memcpy_dtod(&matrices.slice(at..at + half), &mut to)
            })?;
            for (size, vectors) in [1, 2, 4, 8].into_iter().enumerate() {
                let mut times = Vec::new();
                for variant in &variants {
                    let function = variant.function(context, format, vectors)?;
                    for row_threads in [32, 64, 128] {
                        let product = Product {
                            function: &function,
                            matrix: matrices.device_ptr(&stream).0,
                            bytes,
                            shape: [rows, columns, vectors],
                            thread_rows: match variant.rows {
                                Some(rows) => rows[size],
                                None => mmvq::thread_rows(elements, vectors as u32),
                            },
                            row_threads,
                        };
                        let us = product.time(&stream, runs)?;
                        times.push((variant.name.clone(), row_threads, us));
                    }
                }
                done(Line {
                    format,
                    shape: [rows, columns, vectors],
                    bytes,
                    copy_us,
                    times,
                });
            }
        }
    }
    Ok(())
}

struct Product<'a> {
    function: &'a Function,
    matrix: u64,
    bytes: usize,
    shape: [usize; 3],
    thread_rows: u32,
    row_threads: u32,
}

impl Product<'_> {
    fn time(&self, stream: &Arc<Stream>, runs: usize) -> Result<f64> {
        let [rows, columns, vectors] = self.shape;
        let padded = columns.next_multiple_of(512);
        let y = stream.alloc_zeros::<u8>(padded / 32 * 36 * vectors)?;
        let mut out = stream.alloc_zeros::<f32>(rows * vectors)?;
        let (y, out) = (y.device_ptr(stream).0, out.device_ptr_mut(stream).0);
        let blocks = (padded / 32) as u32;
        let [rows, columns, vectors] = [rows, columns, vectors].map(|size| size as u32);
        let step = self.bytes.next_multiple_of(256);
        let places = (ROTATE_BYTES / step).max(1);
        let workgroup_rows = THREADS / self.row_threads * self.thread_rows;
        let config = LaunchConfig {
            grid_dim: (rows.div_ceil(workgroup_rows), 1, 1),
            block_dim: (THREADS, 1, 1),
            shared_mem_bytes: 0,
        };
        let result = 0u32;
        graph_microseconds(stream, runs, |turn| {
            let matrix = self.matrix + (turn % places * step) as u64;
            let mut launch = stream.launch_builder(self.function);
            launch
                .arg(&matrix)
                .arg(&y)
                .arg(&out)
                .arg(&columns)
                .arg(&rows);
            launch.arg(&blocks).arg(&rows).arg(&vectors);
            launch.arg(&self.row_threads).arg(&result);
            // SAFETY: the kernel's parameters, and buffers of the sizes that it was told, which live until the last
            // sample was waited for.
            unsafe { launch.launch(config) }.map(|_| ())
        })
    }
}

impl Line {
    /// The fastest.
    pub fn best(&self) -> Option<&(String, u32, f64)> {
        self.times
            .iter()
            .min_by(|one, other| one.2.total_cmp(&other.2))
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [rows, columns, vectors] = self.shape;
        write!(
            f,
            "{} {rows}x{columns} {vectors}: copy {:.1} us {:.2} TB/s",
            self.format,
            self.copy_us,
            self.bytes as f64 / self.copy_us / 1e6,
        )?;
        if let Some((name, threads, us)) = self.best() {
            write!(
                f,
                ", best {us:.1} us {:.0} % by {name} {threads};",
                100.0 * self.copy_us / us
            )?;
        }
        for (name, threads, us) in &self.times {
            write!(f, " {name}/{threads} {us:.1}")?;
        }
        Ok(())
    }
}
