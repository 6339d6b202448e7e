//! The page: formulas, then tables of what was found. The same kernels give the same text.

use std::fmt::Write as _;
use std::iter;

use anyhow::{Context, Result};
use candle_rocm_kernels::attention::Pass;
use candle_rocm_kernels::grouped;
use candle_rocm_runtime::gemm::{GemmDtype, Transpose};
use rocm_emulator::exec::{line_bytes, InstructionProfile, LaunchTime, Untimed};
use rocm_emulator::isa::Target;
use rocm_gpus::{Architecture, Sustained, Timing};

use crate::attention;
use crate::decode::{self, Heads, Model, Step, ATTENTION, MODELS};
use crate::device::{Device, Kept};
use crate::kernels::{Kernels, Report};
use crate::listing::Unit;
use crate::loops::{Counts, Fill};
use crate::markdown::{number, percent, Table};
use crate::products::{self, Gpus, Shape, NT, OPERATIONS, TN};
use crate::prompts;
use crate::quantized;
use crate::rows::{self, Timed, COLUMNS, COPY, ELEMENT_KERNELS, ROW_KERNELS};
use crate::scaled;

/// What is reported when nobody chooses.
pub const ARCHITECTURES: [&str; 5] = ["gfx942", "gfx90a", "gfx1100", "gfx1201", "gfx1030"];

/// The product that stands for large ones: as in a prefill of 4,096 tokens.
pub const LARGE: [usize; 3] = [4096, 4096, 4096];
/// So much of its k is executed.
pub const SLICE: usize = 128;

const FORMULAS: &str = "\
# What the kernels should cost

Written by `cargo xtask kernel-report`; no GPU is needed, and none was used. These figures are of what the compiler made,
of AMD's published latencies, and of what the emulator counts while it executes the same code objects. They are no times:
only hardware can give those ([the log](../log/README.md) says what else). Predicted times are a model's, whose errors
[clock.md](clock.md) has.

## Formulas

**Waves**: wavefronts that a SIMD holds at once, the least of registers / (registers of a lane, rounded up to the
granule), LDS / (LDS of a workgroup), and the hardware's most. `candle-rocm-kernels/src/occupancy.rs` has the formula.

**Loop**: what lies between a backward branch and its target, inner loops left out; of a kernel's loops, the one with the
most matrix cycles, or without matrix instructions the one with the densest multiply-adds. Where a product was executed,
the loop that executed the most of them, with the loops around and within it, each instruction as often as it was
executed. Instructions are counted by the unit that they are issued to: *matrix* (MFMA, WMMA), *vector* (VALU), *LDS*, *global*
(vector memory), *scalar* (SALU, scalar loads, branches), *wait* (`s_waitcnt`, barriers, `s_nop`, hints).

**Fill**: with M the cycles for which the loop's matrix instructions occupy the matrix unit, O the issue slots of all
others but waits, W those of waits (`s_nop n` takes n + 1, all else 1), and s the cycles of a slot (4 on CDNA, 1 on RDNA):

    fill               = M / (M + s * (O + W))
    fill without waits = M / (M + s * O)

This is one wavefront alone whose matrix instructions overlap with nothing. On hardware the other wavefronts of the SIMD,
and independent instructions of the same one, issue while the matrix unit works, so that the fill that counts is between
this and min(1, M / (s * O)). What it leaves out: waits that take long (latencies of memory and LDS, barriers), and the
matrix unit's own stalls for operands. Where there are no matrix instructions, M is the slots of multiply-adds and dot
products (two of them issued together on RDNA are one slot), and O all other slots.

**M**: CDNA2 and CDNA3 from the instruction set manuals' tables of passes (4 cycles each) and the AMD Matrix Instruction
Calculator; RDNA3 from the calculator (32 cycles for 16x16x16, the 512 FLOP a cycle and compute unit that AMD specifies);
RDNA4 from AMD's operations per cycle (1,024 in f16). `rocm-gpus/src/matrix.rs` has the tables, and a test that
the peak rates which AMD publishes follow from them.

**Bytes**: moved between compute units and memory or its caches by vector memory instructions. *Least* for a product is
what its tiling needs: each workgroup reads its rows of A and columns of B once and writes its part of C once. For rows:
the row and its weights read once, the result written once.

**LDS**: cycles in which the LDS serves the instructions, and *conflicts*, those of them that bank conflicts add. The model,
with its sources, is `rocm_emulator::exec::lds_cycles`: 32 banks of 4 bytes; 32 lanes of 4 bytes, 16 of 8 or 8 of 16 at
once; the groups of lanes are those measured on MI300X, W7900 and RX 9070 XT.

**Lines**: cache lines that each wavefront's instruction touches, summed (128 bytes, 64 on gfx90a), against the lines that
as many bytes would fill if they lay together and began a line.
";

/// The bf16 product that the project claims figures for, on one architecture.
pub struct Claim {
    /// The kernel of the plan, as compiled.
    pub report: Report,
    /// What it executed.
    pub executed: products::Figures,
}

/// The first [`SLICE`] columns of k of bf16 4096 x 4096 x 4096 with these operations on A and B.
pub fn claimed(ops: [Transpose; 2]) -> Shape {
    Shape::new(GemmDtype::BF16, LARGE, ops).sliced(SLICE)
}

/// Look at [`claimed`], or a part of it.
///
/// # Errors
/// The architecture is not embedded, or the launch fails.
pub fn claim(gpus: &Gpus, arch: &str, shape: &Shape) -> Result<Claim> {
    let mut kernels = Kernels::new(arch);
    let executed = gpus
        .run(arch, &mut kernels, shape)?
        .with_context(|| format!("no kernel multiplies bf16 on {arch}"))?;
    let name = &executed.kernel;
    let report = kernels.report(products::module(name), name)?;
    Ok(Claim { report, executed })
}

/// Rows of FP8 products with factors, their columns and k: of those whose times aiter publishes for an MI300X.
const FP8: [[u32; 3]; 3] = [[4096, 2112, 7168], [4096, 7168, 2048], [128, 24_576, 1536]];

/// Only what the compiler made, which takes no time.
///
/// # Errors
/// An architecture is not embedded or not known.
pub fn write_compiled(archs: &[String]) -> Result<String> {
    let mut page = FORMULAS.to_owned();
    for arch in archs {
        writeln!(page, "\n## {arch}")?;
        page += &compiled(&mut Kernels::new(arch))?;
    }
    Ok(page)
}

/// The whole page.
///
/// # Errors
/// An architecture is not embedded or not known, or a kernel faults.
pub fn write(archs: &[String], progress: impl Fn(&str)) -> Result<String> {
    let gpus = Gpus::start(archs)?;
    let mut page = FORMULAS.to_owned();
    progress("bf16 4096 x 4096 x 4096");
    page += &claims(archs, &gpus)?;
    for arch in archs {
        let target: Target = arch.parse()?;
        let mut kernels = Kernels::new(arch);
        let mut device = Device::new(target);
        writeln!(page, "\n## {arch}")?;
        progress(&format!("{arch}: products"));
        page += &executed_products(arch, &gpus, &mut kernels)?;
        progress(&format!("{arch}: rows"));
        page += &executed_rows(&mut device)?;
        progress(&format!("{arch}: times"));
        page += &if is_one_die(target) {
            format!(
                "\n### Predicted times\n\n`--times --arch {arch}` writes them. One XCD, which is played back, is the whole \
                 GPU there, which takes very long; [clock.md]({}) has some.\n",
                error_of(target)
            )
        } else {
            times(arch, &gpus, &mut device)?
        };
        progress(&format!("{arch}: kernels"));
        page += &compiled(&mut kernels)?;
    }
    Ok(page)
}

/// Only predicted times.
///
/// # Errors
/// An architecture is not embedded or not known, or a kernel faults.
pub fn write_times(archs: &[String]) -> Result<String> {
    let gpus = Gpus::start(archs)?;
    let mut page = String::new();
    for arch in archs {
        writeln!(page, "\n## {arch}")?;
        page += &times(arch, &gpus, &mut Device::new(arch.parse()?))?;
    }
    Ok(page)
}

/// Only the predicted times of products and of attention.
///
/// # Errors
/// As [`write_times`]; there is no model of a GPU's time.
pub fn write_products(archs: &[String], progress: impl Fn(&str)) -> Result<String> {
    let gpus = Gpus::start(archs)?;
    let mut page = String::new();
    for arch in archs {
        let mut device = Device::new(arch.parse()?);
        writeln!(page, "\n## {arch}\n")?;
        page += &times_of_products(arch, &gpus, &mut device, &progress)?.0;
    }
    Ok(page)
}

/// Only the predicted times of a token, of models whose name has this in it.
///
/// # Errors
/// As [`write_times`]; there is no model of a GPU's time.
pub fn write_tokens(archs: &[String], named: &str, progress: impl Fn(&str)) -> Result<String> {
    let gpus = Gpus::start(archs)?;
    let mut page = String::new();
    for arch in archs {
        writeln!(page, "\n## {arch}\n")?;
        page += &tokens(&gpus, &mut Device::new(arch.parse()?), named, &progress)?;
    }
    Ok(page)
}

/// Only the predicted times of prompts, of models whose name has this in it.
///
/// # Errors
/// As [`write_times`]; there is no model of a GPU's time.
pub fn write_prompts(archs: &[String], named: &str) -> Result<String> {
    let gpus = Gpus::start(archs)?;
    let mut page = String::new();
    for arch in archs {
        writeln!(page, "\n## {arch}\n")?;
        let mut device = Device::new(arch.parse()?);
        for model in MODELS.iter().filter(|model| model.name.contains(named)) {
            for tokens in PROMPTS {
                let prompt = prompts::prompt(&gpus, &mut device, model, tokens as u32)?;
                writeln!(page, "- {} f16: {prompt}", model.name)?;
            }
        }
    }
    Ok(page)
}

/// A product that is repeated.
const REPEATED: Kept = Kept {
    operands: true,
    code: false,
};

/// The layers of LLaMA 8B (query, key and value; output; gate and up; down), rows by k, and tokens that they are given.
const LLAMA_LAYERS: [[usize; 2]; 4] = [[6144, 4096], [4096, 4096], [28672, 4096], [4096, 14336]];
const LLAMA_TOKENS: [usize; 4] = [128, 512, 1024, 8192];
/// The same where the whole GPU is played back.
const PROMPTS: [usize; 2] = [512, 2048];
/// Lengths of rows whose times are told.
const TIMED_COLUMNS: [u32; 3] = [1024, 4096, 16384];

/// Where it is said how far off a GPU's times are.
fn error_of(target: Target) -> &'static str {
    match target.architecture() {
        Architecture::Cdna2 | Architecture::Cdna3 => "clock.md",
        _ => "clock.md#rdna",
    }
}

/// By the emulator's model of time, where there is one of the GPU.
fn times(arch: &str, gpus: &Gpus, device: &mut Device) -> Result<String> {
    const TITLE: &str = "\n### Predicted times";
    let target = device.target;
    let error = error_of(target);
    let of_slices = match is_one_die(target) {
        true => " Large products are told by two slices of k, attention by two numbers of keys, as the rest does the same again.",
        false => "",
    };
    Ok(format!(
        "{TITLE}\n\nBy the model of time at the highest engine clock; [clock.md]({error}) says how far off it is. \
         *Compute units*: the share of them that have a workgroup, over as many rounds as all workgroups take, one at a time. \
         *Sustained*: repeated, at the engine clock that AMD measured the GPU to keep up under products.{of_slices}\n\
         {}{}\n{}",
        times_of_memory(device)?.0,
        times_of_products(arch, gpus, device, |_| ())?.0,
        tokens(gpus, device, "", |_| ())?
    ))
}

/// Kernels of elements and of rows, beside the copy.
fn times_of_memory(device: &mut Device) -> Result<Table> {
    let copy = rows::time_elements(device, COPY)?;
    let mut table = Table::new(&[
        "kernel",
        "of",
        "us",
        "GB/s",
        "of the copy %",
        "memory busy %",
        "vector unit %",
        "LDS %",
    ]);
    let mut add = |name: &str, of: String, timed: &Timed| {
        let time = &timed.time;
        let rate = timed.gigabytes_per_second();
        table.row(&[
            name.to_owned(),
            of,
            format!("{:.1}", time.microseconds),
            number(rate as u64),
            percent(rate / copy.gigabytes_per_second()),
            percent(time.memory),
            percent(time.vector),
            percent(time.lds),
        ]);
    };
    add(COPY.name, "67,108,864 contiguous".to_owned(), &copy);
    for kernel in ELEMENT_KERNELS {
        let layout = if kernel.turned {
            "transposed"
        } else {
            "contiguous"
        };
        let timed = rows::time_elements(device, kernel)?;
        add(kernel.name, format!("67,108,864 {layout}"), &timed);
    }
    for kernel in ROW_KERNELS {
        for columns in TIMED_COLUMNS {
            let timed = rows::time_rows(device, kernel, columns)?;
            let name = format!("{}_f16", kernel.name);
            add(
                &name,
                format!("65,536 rows of {}", number(columns.into())),
                &timed,
            );
        }
    }
    Ok(table)
}

/// Whether the whole GPU is played back, so that large products are timed by slices of their k.
pub fn is_one_die(target: Target) -> bool {
    target.facts().product.xcds == 1
}

/// Products whose times are told: square ones in all layouts, and a linear layer's of LLaMA.
fn timed_products(target: Target) -> Vec<Shape> {
    let (dtypes, tokens): (&[GemmDtype], &[usize]) = match is_one_die(target) {
        true => (&[GemmDtype::F16, GemmDtype::BF16, GemmDtype::F32], &PROMPTS),
        false => (&[GemmDtype::BF16], &LLAMA_TOKENS),
    };
    let square = |dtype| OPERATIONS.map(|ops| Shape::new(dtype, LARGE, ops));
    let layers = tokens.iter().flat_map(|&tokens| {
        let shape = |[rows, k]: [usize; 2]| Shape::new(dtypes[0], [rows, tokens, k], TN);
        LLAMA_LAYERS.map(shape)
    });
    dtypes
        .iter()
        .copied()
        .flat_map(square)
        .chain(layers)
        .collect()
}

/// Products of dense matrices, attention, and FP8 by kernels for their shapes.
fn times_of_products(
    arch: &str,
    gpus: &Gpus,
    device: &mut Device,
    progress: impl Fn(&str),
) -> Result<Table> {
    let target = device.target;
    let mut table = Table::new(&[
        "product",
        "kernel",
        "workgroups",
        "compute units %",
        "us",
        "TFLOP/s",
        "us, sustained",
        "matrix unit busy %",
        "vector unit %",
        "memory or Infinity Cache %",
        "LDS %",
    ]);
    let mut add = |[elements, kernel]: [&str; 2], what: String, flop: f64, time: &LaunchTime| {
        let row = product_row(target, [elements, kernel], what, flop, time);
        progress(&row.join(" | "));
        table.row(&row);
    };
    for shape in timed_products(target) {
        let timed = match is_one_die(target) {
            true => gpus.time_by_slices(arch, &shape, REPEATED)?,
            false => gpus.time_whole(arch, &shape, REPEATED)?,
        };
        if let Some((kernel, time)) = timed {
            let flop = 2.0 * (shape.m * shape.n * shape.k) as f64;
            add(
                [shape.dtype.name(), &kernel],
                shape_text(&shape),
                flop,
                &time,
            );
        }
    }
    if is_one_die(target) {
        for dtype in ["f16", "bf16"] {
            let shape = attention_shape(dtype);
            let (kernel, time) = attention::time_by_keys(device, &shape)?;
            let what = format!(
                "{dtype} attention forward, {} heads of {}, {} queries and keys",
                shape.heads,
                shape.elements,
                number(shape.queries.into())
            );
            add([dtype, &kernel], what, shape.flop(), &time);
        }
        return Ok(table);
    }
    for [rows, columns, k] in FP8 {
        let shape = scaled::Shape {
            m: columns,
            n: rows,
            k,
            tile: grouped::TILES[0],
            transposed: [true, false],
            is_special: true,
        };
        let (kernel, time) = scaled::time(device, &shape)?;
        let flop = 2.0 * [rows, columns, k].map(f64::from).iter().product::<f64>();
        let elements = "f8e4m3";
        let product =
            format!("{elements} {rows} tokens, {columns} x {k}, by a kernel for the shape");
        add([elements, &kernel], product, flop, &time);
    }
    Ok(table)
}

/// Attention whose time is told.
fn attention_shape(dtype: &'static str) -> attention::Shape {
    attention::Shape {
        pass: Pass::Forward,
        dtype,
        elements: 128,
        heads: 16,
        queries: 4096,
        keys: 4096,
        causal: false,
    }
}

/// A product's cells.
fn product_row(
    target: Target,
    [elements, kernel]: [&str; 2],
    product: String,
    flop: f64,
    time: &LaunchTime,
) -> [String; 11] {
    let sustained = Sustained::of(target.facts().product.name, elements).map_or_else(
        || "-".to_owned(),
        |one| format!("{:.1}", one.microseconds(flop, time.microseconds)),
    );
    // Of those that would have one in each round, the last one included.
    let units = u64::from(target.multiprocessors());
    let places = time.workgroups.next_multiple_of(units);
    [
        product,
        kernel.to_owned(),
        number(time.workgroups),
        percent(time.workgroups as f64 / places as f64),
        format!("{:.1}", time.microseconds),
        number((flop / time.microseconds / 1e6) as u64),
        sustained,
        percent(time.matrix),
        percent(time.vector),
        percent(time.memory),
        percent(time.lds),
    ]
}

/// Keys that a token is decoded after.
const DECODED_AFTER: [u32; 2] = [1024, 32_768];

/// Bytes of a 6900 XT's and a 9070 XT's memory. All others that are timed have room for every model.
const SMALL_MEMORY: u64 = 16 << 30;

/// A model's matrices: f16, or how they are quantised.
type Weights = Option<&'static quantized::Mix>;

/// Models and their weights whose tokens are told, those that a GPU's memory has room for.
fn decoded(target: Target) -> Vec<(&'static Model, Weights)> {
    let mixes = quantized::MIXES.iter().map(Some);
    let of_model = |model| {
        iter::once(None)
            .chain(mixes.clone())
            .map(move |mix| (model, mix))
    };
    // Quantised, LLaMA 1B tells nothing that 8B does not; Qwen 3 is told as it is published beside others: in q8_0.
    let told = |(model, mix): &(&Model, Weights)| match model.head_norms {
        true => mix.is_some_and(|mix| mix.name == "q8_0"),
        false => mix.is_none() || **model != MODELS[0],
    };
    let memory = match target {
        Target::Gfx1030 | Target::Gfx1201 => SMALL_MEMORY,
        _ => u64::MAX,
    } as f64;
    // A tenth for what is no matrix.
    let fits = |(model, mix): &(&Model, Weights)| {
        let bits = mix.map_or(16.0, quantized::Mix::bits);
        model.elements() as f64 * bits / 8.0 < 0.9 * memory
    };
    let all = MODELS.iter().flat_map(of_model);
    all.filter(told).filter(fits).collect()
}

/// What a token of each model takes whose name has this in it.
fn tokens(
    gpus: &Gpus,
    device: &mut Device,
    named: &str,
    progress: impl Fn(&str),
) -> Result<String> {
    let mut table = Table::new(&[
        "model",
        "what",
        "kernel",
        "launches",
        "workgroups",
        "us each",
        "with the code",
        "memory alone",
        "memory busy %",
    ]);
    let mut sums = String::new();
    let timing = device.target.timing().ok_or(Untimed(device.target))?;
    let peak = f64::from(timing.memory.gigabytes_per_second);
    let decoded = decoded(device.target).into_iter();
    for (model, mix) in decoded.filter(|(model, _)| model.name.contains(named)) {
        let [first, ..] = DECODED_AFTER;
        let (mut steps, heads) = match mix {
            None => (decode::token(gpus, device, model, first)?, Heads::F16),
            Some(mix) => (
                quantized::token(gpus, device, model, mix, first)?,
                Heads::F32ToVector,
            ),
        };
        for keys in DECODED_AFTER {
            // All others take the same after any number.
            for step in steps
                .iter_mut()
                .filter(|step| keys != first && step.what == ATTENTION)
            {
                *step = decode::attention(device, model, keys, heads)?;
            }
            let weights = mix.map_or("f16", |mix| mix.name);
            let name = format!(
                "{} {weights} after {} tokens",
                model.name,
                number(keys.into())
            );
            let sum = format!("- {name}: {}", whole_token(timing, peak, &steps));
            progress(&sum);
            writeln!(sums, "{sum}")?;
            let new = |step: &&Step| keys == first || step.what == ATTENTION;
            for step in steps.iter().filter(new) {
                table.row(&[
                    name.clone(),
                    step.what.to_owned(),
                    step.kernel.clone(),
                    number(step.launches.into()),
                    number(step.timed.time.workgroups),
                    format!("{:.1}", step.timed.time.microseconds),
                    format!("{:.1}", step.with_code),
                    format!("{:.1}", step.timed.least_bytes as f64 / peak / 1000.),
                    percent(step.timed.time.memory),
                ]);
            }
        }
    }
    Ok(format!(
        "A token, each launch by itself, with what it reads in memory; what lies between launches is not modelled. \
         *With the code*: the instruction caches have kept the kernel since the layer before, which hardware may or may not \
         do. *Memory alone*: the bytes that must be read, at the bandwidth that the model takes. Launches' own time is \
         that of nodes of a graph, where somebody published it. q4_K_M has q6_K for the logits and, in half of the layers, \
         for values and the last product.\n\n{sums}{}",
        table.0
    ))
}

/// All launches of a token.
fn whole_token(timing: &Timing, peak: f64, steps: &[Step]) -> String {
    let sum = |of: &dyn Fn(&Step) -> f64| -> f64 {
        steps
            .iter()
            .map(|step| f64::from(step.launches) * of(step))
            .sum()
    };
    let cold = sum(&|step| step.timed.time.microseconds);
    let with_code = sum(&|step| step.with_code);
    let mut text = format!("{cold:.0} us, {with_code:.0} with the code");
    if let Some(launch) = timing.launch {
        let own = sum(&|_| f64::from(launch.graph_ns) / 1000.0);
        let memory = sum(&|step| step.timed.least_bytes as f64 / peak / 1000.0);
        let per_second = |us: f64| 1e6 / (us + own);
        let _ = write!(
            text,
            "; {} launches by themselves {own:.0}: {:.1} to {:.1} tokens/s, {} to {} % of what memory allows",
            sum(&|_| 1.0),
            per_second(cold),
            per_second(with_code),
            percent(memory / (cold + own)),
            percent(memory / (with_code + own)),
        );
    }
    text.push('.');
    text
}

fn ratio(number: u64, least: u64) -> String {
    match least {
        0 => "-".to_owned(),
        _ => format!("{:.3}", number as f64 / least as f64),
    }
}

/// Registers that do not fit: vector ones go to memory, scalar ones to lanes of a vector register.
fn spills(report: &Report) -> String {
    let kernel = &report.kernel;
    match (kernel.vgpr_spill_count, kernel.sgpr_spill_count) {
        (0, 0) => "0".to_owned(),
        (vector, 0) => vector.to_string(),
        (vector, scalar) => format!("{vector}, {scalar} scalar"),
    }
}

fn fills(fill: &Fill) -> String {
    format!("{} | {}", percent(fill.all), percent(fill.without_waits))
}

fn claims(archs: &[String], gpus: &Gpus) -> Result<String> {
    let mut table = Table::new(&[
        "GPU",
        "kernel",
        "registers",
        "spills",
        "waves",
        "fill %",
        "without waits %",
        "conflicts in the loop",
        "bytes / least",
    ]);
    let of_each = |arch| OPERATIONS.map(|ops| (arch, ops));
    for (arch, ops) in archs.iter().flat_map(of_each) {
        let Claim { report, executed } = claim(gpus, arch, &claimed(ops))?;
        let in_loop = executed.in_loop.context("a product has a loop")?;
        table.row(&[
            arch.clone(),
            executed.kernel,
            report.kernel.vgpr_count.to_string(),
            spills(&report),
            report.waves.to_string(),
            fills(&in_loop.fill),
            number(in_loop.total.lds_conflicts),
            ratio(executed.bytes, executed.least_bytes),
        ]);
    }
    Ok(format!(
        "\n## bf16, 4096 x 4096 x 4096\n\nThe kernel and grid that the runtime plans for it; executed for the first {SLICE} \
         of k. Fill is of the loop as executed, which leaves out the last part of k: nothing is loaded after it, and it has \
         code of its own. `tn` is a linear layer's: both matrices have k together.\n{}",
        table.0
    ))
}

/// Products whose execution is shown.
fn shapes() -> Vec<Shape> {
    let mut shapes = Vec::new();
    for dtype in GemmDtype::ALL {
        shapes.extend([TN, NT].map(|ops| Shape::new(dtype, [512, 512, 512], ops)));
    }
    shapes.push(Shape::new(GemmDtype::F16, LARGE, TN).sliced(SLICE));
    // A decoded token, and sixteen.
    shapes.push(Shape::new(GemmDtype::F16, [4096, 1, 4096], TN));
    shapes.push(Shape::new(GemmDtype::F16, [4096, 16, 4096], TN));
    shapes
}

fn shape_text(shape: &Shape) -> String {
    let k = if shape.slice == shape.k {
        shape.k.to_string()
    } else {
        format!("{} ({} of it)", shape.k, shape.slice)
    };
    let [a, b] = shape.ops.map(Transpose::letter);
    format!(
        "{} {} x {} x {k} {a}{b}",
        shape.dtype.name(),
        shape.m,
        shape.n
    )
}

fn conflicts(total: &InstructionProfile) -> String {
    format!(
        "{} of {}",
        number(total.lds_conflicts),
        number(total.lds_cycles)
    )
}

fn executed_products(arch: &str, gpus: &Gpus, kernels: &mut Kernels) -> Result<String> {
    let mut table = Table::new(&[
        "product",
        "kernel",
        "workgroups",
        "instructions",
        "bytes",
        "/ least",
        "lines / least",
        "LDS conflicts in the loop",
        "in all",
        "fill %",
        "without waits %",
    ]);
    for shape in shapes() {
        let Some(figures) = gpus.run(arch, kernels, &shape)? else {
            continue;
        };
        let [x, y, z] = figures.grid[0];
        let in_loop = figures.in_loop.as_ref();
        table.row(&[
            shape_text(&shape),
            figures.kernel.clone(),
            number(u64::from(x) * u64::from(y) * u64::from(z)),
            number(figures.instructions),
            number(figures.bytes),
            ratio(figures.bytes, figures.least_bytes),
            ratio(figures.total.lines, figures.total.least_lines),
            in_loop.map_or("-".to_owned(), |of| conflicts(&of.total)),
            conflicts(&figures.total),
            in_loop.map_or("- | -".to_owned(), |of| fills(&of.fill)),
        ]);
    }
    Ok(format!("\n### Products, executed\n{}", table.0))
}

fn executed_rows(device: &mut Device) -> Result<String> {
    let mut table = Table::new(&[
        "kernel",
        "length",
        "rows, threads of a workgroup",
        "instructions a row",
        "LDS instructions a row",
        "LDS conflicts",
        "bytes / least",
        "lines / least",
    ]);
    for kernel in ROW_KERNELS {
        for columns in COLUMNS {
            let figures = rows::run_rows(device, kernel, columns)?;
            let [x, y, z] = figures.grid[1];
            let of_group = figures.rows / u64::from(figures.grid[0][0]);
            table.row(&[
                format!("{}_f16", kernel.name),
                number(columns.into()),
                format!("{of_group}, {}", x * y * z),
                number(figures.instructions / figures.rows),
                format!(
                    "{:.1}",
                    figures.lds_instructions as f64 / figures.rows as f64
                ),
                number(figures.total.lds_conflicts),
                ratio(figures.bytes, figures.least_bytes),
                ratio(figures.total.lines, figures.total.least_lines),
            ]);
        }
    }
    let mut elements = Table::new(&[
        "kernel",
        "input",
        "instructions",
        "LDS conflicts",
        "bytes / least",
        "lines / least",
    ]);
    for kernel in ELEMENT_KERNELS {
        let figures = rows::run_elements(device, kernel)?;
        elements.row(&[
            kernel.name.to_owned(),
            if kernel.turned {
                "transposed"
            } else {
                "contiguous"
            }
            .to_owned(),
            number(figures.instructions),
            number(figures.total.lds_conflicts),
            ratio(figures.bytes, figures.least_bytes),
            ratio(figures.total.lines, figures.total.least_lines),
        ]);
    }
    Ok(format!(
        "\n### Rows, executed\n\nOf a matrix of 65,536 rows; lines are of {} bytes.\n{}\n\
         ### Elementwise kernels, executed\n\n512 x 512 elements.\n{}",
        line_bytes(device.target),
        table.0,
        elements.0
    ))
}

/// Modules and beginnings of names of the kernels that multiply matrices.
const MULTIPLY: [(&candle_rocm_kernels::Module, &str); 4] = [
    (&candle_rocm_kernels::MATMUL, "matmul_"),
    (&candle_rocm_kernels::GEMM, "gemm_"),
    (&candle_rocm_kernels::GEMM, "skinny_"),
    (&candle_rocm_kernels::MMQ, "mmq_q"),
];

fn count(value: f64) -> String {
    number(value.round() as u64)
}

fn loop_cells(counts: &Counts) -> Vec<String> {
    let scalar = counts.of(Unit::Scalar) + counts.of(Unit::Branch);
    vec![
        count(counts.of(Unit::Matrix)),
        count(counts.of(Unit::Vector)),
        count(counts.of(Unit::Lds)),
        count(counts.of(Unit::Memory)),
        count(scalar),
        count(counts.of(Unit::Wait)),
        count(counts.matrix_cycles),
    ]
}

fn compiled(kernels: &mut Kernels) -> Result<String> {
    let mut table = Table::new(&[
        "kernel",
        "registers",
        "of them AGPRs",
        "LDS",
        "spills",
        "waves",
        "loop: matrix",
        "vector",
        "LDS",
        "global",
        "scalar",
        "wait",
        "M",
        "fill %",
        "without waits %",
    ]);
    for (module, prefix) in MULTIPLY {
        for name in kernels.names(module)? {
            if !name.starts_with(prefix) {
                continue;
            }
            let report = kernels.report(module, &name)?;
            let kernel = &report.kernel;
            let mut cells = vec![
                name.clone(),
                kernel.vgpr_count.to_string(),
                kernel.agpr_count.to_string(),
                number(kernel.group_segment_fixed_size.into()),
                spills(&report),
                report.waves.to_string(),
            ];
            match &report.hot {
                Some(hot) => {
                    cells.extend(loop_cells(&hot.counts));
                    cells.push(fills(&hot.fill()));
                }
                None => cells.extend((0..9).map(|_| "-".to_owned())),
            }
            table.row(&cells);
        }
    }
    Ok(format!(
        "\n### Kernels that multiply matrices, as compiled\n{}",
        table.0
    ))
}
