//! Times products of FP8 with scales, dense and grouped, for DeepGEMM's list of shapes, and says how far they are from bf16's.
//! `--operators` times what moves memory beside them.

mod operators;
mod timed;

use anyhow::{Context, Result};
use candle_core::{DType, Device, Tensor};
use candle_rocm_backend::fp8::{self, ScaleFormat};
use candle_rocm_backend::grouped::RowGroups;
use candle_rocm_backend::{runtime, DeviceExt as _, RocmDeviceExt as _, RuntimeKind};
use clap::Parser;

use timed::timed;

/// N and K of the dense products, each with M of [`ROWS`].
const DENSE: [[usize; 2]; 7] = [
    [2112, 7168],
    [576, 7168],
    [24576, 1536],
    [32768, 512],
    [7168, 16384],
    [4096, 7168],
    [7168, 2048],
];
const ROWS: [usize; 4] = [1, 64, 128, 4096];
/// N and K of the grouped products, each with groups and rows of a group of [`GROUPS`].
const GROUPED: [[usize; 2]; 4] = [[6144, 7168], [7168, 3072], [4096, 4096], [4096, 2048]];
const GROUPS: [[usize; 2]; 2] = [[4, 8192], [8, 4096]];

/// Products of FP8: times, rates, and differences from the product of the numbers as they were.
#[derive(Parser)]
struct Cli {
    /// M,N,K of a dense product, or groups,M,N,K of a grouped one, instead of DeepGEMM's list.
    #[arg(long, value_parser = shape)]
    shape: Vec<Shape>,
    /// How often each is timed, after two runs that are not.
    #[arg(long, default_value_t = 20)]
    repeat: usize,
    /// Compile a kernel for each shape first (`fp8::prewarm`), and say how many the products are ready with.
    #[arg(long)]
    prewarm: bool,
    /// Casts and what mixtures of experts do with rows, of so many tokens, instead of products.
    #[arg(long, value_name = "TOKENS", num_args = 0..=1, default_missing_value = "16384")]
    operators: Option<usize>,
    /// Run on the emulated GPU of this name, such as gfx942; choose small shapes.
    #[arg(long)]
    emulate: Option<String>,
}

/// A product: groups, rows of a group, columns and elements of k; dense where there is one group.
#[derive(Clone, Copy, Debug)]
struct Shape {
    groups: usize,
    m: usize,
    n: usize,
    k: usize,
}

fn shape(text: &str) -> Result<Shape, String> {
    let numbers: Vec<usize> = text
        .split(',')
        .map(|number| {
            number
                .trim()
                .parse()
                .map_err(|error| format!("{number}: {error}"))
        })
        .collect::<Result<_, String>>()?;
    match numbers[..] {
        [m, n, k] => Ok(Shape { groups: 1, m, n, k }),
        [groups, m, n, k] if groups > 0 => Ok(Shape { groups, m, n, k }),
        _ => Err("a shape is M,N,K or groups,M,N,K".to_owned()),
    }
}

fn listed() -> Vec<Shape> {
    let dense = ROWS
        .iter()
        .flat_map(|&m| DENSE.map(|[n, k]| Shape { groups: 1, m, n, k }));
    let grouped = GROUPS
        .iter()
        .flat_map(|&[groups, m]| GROUPED.map(|[n, k]| Shape { groups, m, n, k }));
    dense.chain(grouped).collect()
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    if let Some(arch) = &cli.emulate {
        // SAFETY: nothing else runs yet that reads or writes the environment.
        unsafe { std::env::set_var("ROCM_EMU_ARCH", arch) };
        runtime::select(RuntimeKind::Emulator)?;
    }
    let device = Device::new_rocm(0)?;
    let info = device.as_rocm_device()?.info();
    println!("{} ({})", info.name, info.arch);
    if let Some(tokens) = cli.operators {
        return operators::all(&device, tokens, cli.repeat.max(1));
    }
    println!(
        "| groups | M | N | K | cast us | product us | TFLOP/s | 1 - 2 sum(xy) / sum(x^2 + y^2) |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|");
    let shapes = if cli.shape.is_empty() {
        listed()
    } else {
        cli.shape.clone()
    };
    for shape in shapes {
        row(&device, shape, &cli).with_context(|| format!("{shape:?}"))?;
    }
    Ok(())
}

/// Times a product, and prints its line.
fn row(device: &Device, shape: Shape, cli: &Cli) -> Result<()> {
    let repeat = cli.repeat.max(1);
    let Shape { groups, m, n, k } = shape;
    let of_groups = RowGroups::from_sizes(&vec![m; groups], device)?;
    let rows = if groups > 1 { of_groups.rows() } else { m };
    let x = Tensor::randn(0f32, 1., (rows, k), device)?.to_dtype(DType::BF16)?;
    let weights = Tensor::randn(0f32, 1., (groups, n, k), device)?.to_dtype(DType::BF16)?;
    let a = fp8::cast_per_token(&x, ScaleFormat::F32)?;
    let (b, first) = (
        fp8::cast_per_block(&weights, ScaleFormat::F32)?,
        fp8::cast_per_block(&weights.get(0)?, ScaleFormat::F32)?,
    );
    let product = || match groups {
        1 => fp8::gemm_nt(&a, &first, None, DType::BF16),
        _ => fp8::m_grouped_gemm_nt_contiguous(&a, &b, &of_groups, DType::BF16),
    };
    if cli.prewarm {
        let (_, made) = fp8::prewarm(product)?;
        anyhow::ensure!(made.kernels > 0, "no kernel was made for the shape");
    }
    let cast = timed(device, repeat, || {
        fp8::cast_per_token(&x, ScaleFormat::F32).map(|_| ())
    })?;
    let time = timed(device, repeat, || product().map(|_| ()))?;
    // A few rows of the first group, in f32 on the host.
    let few = 4.min(m);
    let host = |x: Tensor| x.to_device(&Device::Cpu)?.to_dtype(DType::F32);
    let found = host(product()?.narrow(0, 0, few)?)?;
    let exact = host(x.narrow(0, 0, few)?)?.matmul(&host(weights.get(0)?)?.t()?)?;
    let both = (&found * &exact)?.sum_all()?.to_scalar::<f32>()?;
    let squares = (found.sqr()? + exact.sqr()?)?
        .sum_all()?
        .to_scalar::<f32>()?;
    let operations = 2.0 * (groups * m * n * k) as f64;
    println!(
        "| {groups} | {m} | {n} | {k} | {:.1} | {:.1} | {:.0} | {:.1e} |",
        cast * 1e6,
        time * 1e6,
        operations / time / 1e12,
        1.0 - 2.0 * both / squares
    );
    Ok(())
}
