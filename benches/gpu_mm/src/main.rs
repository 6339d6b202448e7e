//! Measures a fixed list of matrix products by our kernels and by the vendor's library, and row kernels in two forms.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{ensure, Context as _, Result};
use candle_rocm_gpu_mm::page::{Figures, Product, RowKernel};
use candle_rocm_gpu_mm::problems::{self, Group};
use candle_rocm_gpu_mm::{few, products, quantized, rows};
use candle_rocm_kernel_report::device::Device;
use candle_rocm_runtime::gemm::library::GEMM_VARIABLE;
use candle_rocm_runtime::gemm::GemmDtype;
use candle_rocm_runtime::{runtime, Context, RuntimeKind, Stream};
use clap::Parser;

/// Matrix products beside the vendor's library, and two forms of reduction of rows, on the GPU of CANDLE_ROCM_RUNTIME.
#[derive(Parser)]
struct Cli {
    /// Small products and rows, errors only: also on the emulator, which then counts what row kernels execute.
    #[arg(long)]
    check: bool,
    /// Every plan that our kernels have for a product, of group `few` every one that may be worth a try, and not only that
    /// which would run.
    #[arg(long)]
    every_plan: bool,
    /// Only these.
    #[arg(long, value_delimiter = ',')]
    group: Vec<Group>,
    /// Only products of these types: f16, bf16, f32, f64, i8.
    #[arg(long, value_delimiter = ',')]
    dtype: Vec<String>,
    /// Only these numbers of columns, of group `few`.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16")]
    columns: Vec<usize>,
    /// Of group `few`, only weights of so many MiB and more.
    #[arg(long, default_value_t = 0)]
    least_mib: usize,
    /// Of group `quantized`, only these formats: q4_0, q8_0, q4_k, ...
    #[arg(long, value_delimiter = ',')]
    format: Vec<String>,
    /// Of group `quantized`, also the kernels of these code objects, such as `trial-r2244.cubin`: rows that a thread makes
    /// of 1, 2, 4 and 8 vectors.
    #[arg(long, value_delimiter = ',')]
    module: Vec<PathBuf>,
    /// Where to write the page; default: standard output.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Where to write the figures as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Rows of a matrix on the emulator.
const FEW_ROWS: usize = 32;

fn main() -> Result<()> {
    let cli = Cli::parse();
    let known: Vec<&str> = GemmDtype::ALL.iter().map(|dtype| dtype.name()).collect();
    for dtype in &cli.dtype {
        ensure!(
            known.contains(&dtype.as_str()),
            "no type {dtype}; there are {known:?}"
        );
    }
    // Ours are launched by their plans, whatever this says; all else is the library's, or nobody's.
    std::env::set_var(GEMM_VARIABLE, "library");
    let emulated = runtime::current()?.kind() == RuntimeKind::Emulator;
    ensure!(
        cli.check || !emulated,
        "times on the emulator mean nothing; --check looks at errors and counts"
    );
    let context = Context::new(0)?;
    let stream = context.default_stream();
    let library = library(&stream);
    let mut figures = Figures {
        gpu: context.name()?,
        library: library.as_ref().err().cloned(),
        products: Vec::new(),
        rows: Vec::new(),
        few: Vec::new(),
        quantized: Vec::new(),
    };
    if !cli.check && cli.wants(Group::Few) {
        let dtypes = [GemmDtype::F16, GemmDtype::BF16, GemmDtype::F32];
        let selection = few::Selection {
            dtypes: dtypes.into_iter().filter(|d| cli.wants_dtype(*d)).collect(),
            columns: cli.columns.clone(),
            least_mib: cli.least_mib,
            every_plan: cli.every_plan,
        };
        few::measure(&context, &selection, library.is_ok(), |line| {
            eprintln!("{line}");
            figures.few.push(line);
        })?;
    }
    if !cli.check && cli.wants(Group::Quantized) {
        quantized::measure(&context, &cli.format, &cli.module, |line| {
            eprintln!("{line}");
            figures.quantized.push(line);
        })?;
    }
    all_products(&cli, &stream, &library, &mut figures)?;
    if cli.wants(Group::Rows) {
        all_rows(&cli, &context, emulated, &mut figures)?;
    }
    written(&cli, &figures)
}

impl Cli {
    fn wants(&self, group: Group) -> bool {
        self.group.is_empty() || self.group.contains(&group)
    }

    fn wants_dtype(&self, dtype: GemmDtype) -> bool {
        self.dtype.is_empty() || self.dtype.iter().any(|name| name == dtype.name())
    }
}

/// Products of the list, whose errors roundings must explain.
fn all_products(
    cli: &Cli,
    stream: &Arc<Stream>,
    library: &Result<(), String>,
    figures: &mut Figures,
) -> Result<()> {
    let list = if cli.check {
        problems::small()
    } else {
        problems::all()
    };
    let measure = products::Measure {
        times: !cli.check,
        every_plan: cli.every_plan,
    };
    for problem in list {
        if !cli.wants(problem.group) || !cli.wants_dtype(problem.dtype) {
            continue;
        }
        let library = library.as_ref().map(|_| ()).map_err(String::as_str);
        if let Some(outcome) = products::measure(stream, &problem, library, measure)? {
            let product = Product::new(&problem, outcome);
            eprintln!(
                "{} {:?} {:?}",
                product.dtype, product.shape, product.outcome
            );
            let most = products::tolerance(problem.dtype, problem.k);
            ensure!(
                product.outcome.own_error <= most,
                "an error of {}, more than the {most} that roundings make",
                product.outcome.own_error
            );
            figures.products.push(product);
            saved(cli, figures)?;
        }
    }
    Ok(())
}

/// Row kernels, counted on the emulator.
fn all_rows(
    cli: &Cli,
    context: &Arc<Context>,
    emulated: bool,
    figures: &mut Figures,
) -> Result<()> {
    let stream = context.default_stream();
    for problem in problems::rows(cli.check.then_some(FEW_ROWS)) {
        let outcome = if emulated {
            let arch = context.info().arch.parse()?;
            rows::count(&mut Device::new(arch), &problem)?
        } else {
            rows::measure(context, &stream, &problem, !cli.check)?
        };
        eprintln!("{problem:?} {outcome:?}");
        figures.rows.push(RowKernel::new(&problem, outcome));
        saved(cli, figures)?;
    }
    Ok(())
}

/// Writes the figures so far: a run that is killed leaves what it measured.
fn saved(cli: &Cli, figures: &Figures) -> Result<()> {
    let Some(path) = &cli.json else {
        return Ok(());
    };
    let text = serde_json::to_string_pretty(figures)?;
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

/// Writes what was asked for.
fn written(cli: &Cli, figures: &Figures) -> Result<()> {
    saved(cli, figures)?;
    match &cli.out {
        Some(path) => std::fs::write(path, figures.page())
            .with_context(|| format!("writing {}", path.display()))?,
        None => print!("{}", figures.page()),
    }
    Ok(())
}

/// Whether the vendor's library multiplies here, or why not.
fn library(stream: &Arc<Stream>) -> Result<(), String> {
    use candle_rocm_runtime::gemm::{gemm_strided_batched, GemmProblem, Transpose};
    use candle_rocm_runtime::DevicePtr;
    let attempt = || -> candle_rocm_runtime::Result<()> {
        let buffer = stream.alloc_zeros::<u8>(3 * 64)?;
        let at = buffer.device_ptr(stream).0;
        let ops = [Transpose::No; 2];
        let problem = GemmProblem::packed(GemmDtype::F32, ops, [4; 3], [at, at + 64, at + 128]);
        // SAFETY: three matrices of 64 bytes in the buffer, which lives until the stream was waited for.
        unsafe { gemm_strided_batched(stream, &problem) }?;
        stream.synchronize()
    };
    attempt().map_err(|error| error.to_string())
}
