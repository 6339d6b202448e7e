//! The page of what was measured: for each GPU a table of times and resources, and one of counters.

use std::fmt::Write as _;

use anyhow::Result;
use candle_rocm_kernels::occupancy::{wavefronts_per_simd, Demand};
use rocm_gpus::{Accumulation, Family, Gpu};

use super::compiled::{Catalogue, Compiled};
use super::groups::{by_shape, Counted, Counters, Shape, Size, Times};
use super::records::{Count, Launch, Resources};
use crate::markdown::{number, percent, Table};

/// Rows with less of the time than this share are one row together, unless all are asked for.
const LEAST_SHARE: f64 = 0.001;

/// The profiler rounds up the LDS of a kernel to so many bytes.
const LDS_GRANULE: u32 = 512;

const HEADS: [&str; 13] = [
    "kernel",
    "workgroups, work-items",
    "launches",
    "ms",
    "%",
    "mean us",
    "median us",
    "least us",
    "registers",
    "LDS",
    "scratch",
    "waves",
    "our code object",
];

const COUNTER_HEADS: [&str; 14] = [
    "kernel",
    "work-items, of a workgroup",
    "launches",
    "us",
    "read MB",
    "written MB",
    "GB/s",
    "of the memory's %",
    "LDS conflict cycles / LDS instruction",
    "vector unit %",
    "matrix unit %",
    "vector instructions a wavefront",
    "in the code",
    "wavefronts counted %",
];

/// What the columns say.
pub const FORMULAS: &str = "\
**Registers**, **LDS** (bytes of a workgroup), **scratch** (bytes of a work-item): as the profiler tells them, a
stroke, and as our code object of the architecture has them; *a + b* are vector and accumulation registers. **Our code
object** names what differs: another build or compiler makes it, and so do kernels that are compiled at run time for a
shape, which have the same names. **Waves**: wavefronts that a SIMD holds, by registers and LDS
(`candle-rocm-kernels/src/occupancy.rs`); LDS that a launch adds is in it where the profiler tells it.

**us**: the median of the trace where there is one of launches of the same size, else of the launches that were
counted. **Read**, **written**: `FETCH_SIZE` and `WRITE_SIZE`, between the last cache that the counters see and
memory; on GPUs with an Infinity Cache that lies behind it. **LDS conflict cycles**: `SQ_LDS_BANK_CONFLICT` or
`SQC_LDS_BANK_CONFLICT` by `SQ_INSTS_LDS`. **Vector unit**: `VALUBusy`; **matrix unit**: `MfmaUtil`. **Vector
instructions**: `SQ_INSTS_VALU` by `SQ_WAVES`, beside those of vector and matrix units in the code, where loops count
once. **Wavefronts counted**: `SQ_WAVES` by those that were launched; below 100 the other counters, too, saw a part of
the GPU.

*Not counted*: the files have no value of it. *0 everywhere*: it is 0 in every launch of every kernel, as counters are
that the profiler cannot read: on some Radeon cards all but a few, unless the performance level is set
(docs/user/rocm-releases.md).
";

/// What was measured on GPUs of an architecture.
#[derive(Default)]
pub struct Section<'a> {
    /// Launches of its trace.
    pub launches: Vec<&'a Launch>,
    /// Values of its counters.
    pub counts: Vec<&'a Count>,
}

/// Writes a section.
///
/// # Errors
/// A code object is not what it should be.
pub fn section(
    arch: &str,
    of: &Section,
    catalogue: &mut dyn Catalogue,
    all: bool,
) -> Result<String> {
    let mut page = format!("\n## {arch}\n");
    let gpu: Option<Gpu> = arch.parse().ok();
    if let Some(why) = catalogue.lacks(arch) {
        writeln!(page, "\nNothing of ours to compare with: {why}.")?;
    }
    if !of.launches.is_empty() {
        page += &times(arch, of, catalogue, all)?;
    }
    if !of.counts.is_empty() {
        page += &counters(arch, of, gpu, catalogue)?;
    }
    Ok(page)
}

/// A kernel's name as a cell.
fn cell_of(kernel: &str) -> String {
    format!("`{}`", kernel.replace('|', "\\|"))
}

fn microseconds(nanoseconds: f64) -> String {
    format!("{:.2}", nanoseconds / 1e3)
}

fn milliseconds(nanoseconds: u64) -> String {
    format!("{:.3}", nanoseconds as f64 / 1e6)
}

/// `64 x 2`, without what is 1 at the end.
fn extent(of: [u64; 3]) -> String {
    let end = of
        .iter()
        .rposition(|&along| along != 1)
        .map_or(1, |at| at + 1);
    let along: Vec<_> = of[..end].iter().map(|&along| number(along)).collect();
    along.join(" x ")
}

fn times(arch: &str, of: &Section, catalogue: &mut dyn Catalogue, all: bool) -> Result<String> {
    let rows = by_shape(of.launches.iter().copied());
    let sum: u64 = rows.iter().map(|(_, times)| times.total()).sum();
    let share = |times: u64| times as f64 / sum.max(1) as f64;
    let mut table = Table::new(&HEADS);
    let (mut left_out, mut reversed) = (Vec::new(), 0);
    for (shape, times) in &rows {
        reversed += times.reversed;
        if !all && share(times.total()) < LEAST_SHARE {
            left_out.push(times);
            continue;
        }
        let compiled = catalogue.compiled(arch, &shape.kernel)?;
        table.row(&times_row(
            arch,
            shape,
            times,
            share(times.total()),
            compiled,
        ));
    }
    if !left_out.is_empty() {
        let total = left_out.iter().map(|times| times.total()).sum();
        let launches: usize = left_out.iter().map(|times| times.count()).sum();
        let mut cells = vec![
            format!("others: {}", left_out.len()),
            String::new(),
            number(launches as u64),
            milliseconds(total),
            percent(share(total)),
        ];
        cells.resize(HEADS.len(), String::new());
        table.row(&cells);
    }
    let mut page = format!(
        "\n### Times\n\n{} launches, {} ms.\n{}",
        number(of.launches.len() as u64),
        milliseconds(sum),
        table.0
    );
    if reversed > 0 {
        writeln!(
            page,
            "\nLaunches that ended before they began, by the profiler's clock, are left out: {}.",
            number(reversed as u64)
        )?;
    }
    Ok(page)
}

fn times_row(
    arch: &str,
    shape: &Shape,
    times: &Times,
    share: f64,
    compiled: Option<Compiled>,
) -> Vec<String> {
    let resources = &shape.resources;
    let told = |value: Option<u32>| value.map_or("-".to_owned(), |value| number(value.into()));
    let beside = |value: Option<u32>, ours: fn(&Compiled) -> u32| {
        format!("{} / {}", told(value), told(compiled.as_ref().map(ours)))
    };
    let registers = |vgprs: Option<u32>, agprs: Option<u32>| match agprs {
        Some(agprs) if agprs > 0 => format!("{} + {agprs}", told(vgprs)),
        _ => told(vgprs),
    };
    vec![
        cell_of(&shape.kernel),
        format!("{}, {}", extent(shape.grid), extent(shape.workgroup)),
        number(times.count() as u64),
        milliseconds(times.total()),
        percent(share),
        microseconds(times.mean()),
        times.median().map_or("-".to_owned(), microseconds),
        microseconds(times.least()),
        format!(
            "{} / {}",
            registers(resources.vgprs, resources.agprs),
            registers(
                compiled.map(|ours| ours.vgprs),
                compiled.map(|ours| ours.agprs)
            )
        ),
        beside(resources.lds, |ours| ours.lds),
        beside(resources.scratch, |ours| ours.scratch),
        waves(arch, shape, compiled).map_or("-".to_owned(), |waves| waves.to_string()),
        match compiled {
            Some(ours) => differences(resources, &ours),
            None => "not ours".to_owned(),
        },
    ]
}

/// Wavefronts that a SIMD holds: by what the profiler says, else by our code object. `None` where neither tells it.
fn waves(arch: &str, shape: &Shape, compiled: Option<Compiled>) -> Option<u64> {
    let architecture = arch.parse::<Gpu>().ok()?.architecture();
    let Resources {
        vgprs, agprs, lds, ..
    } = shape.resources;
    let registers = match architecture.unit().accumulation {
        Accumulation::Unified => vgprs.zip(agprs).map(|(vgprs, agprs)| vgprs + agprs),
        _ => vgprs,
    };
    let of_generation = || (architecture.family() == Family::Cdna).then_some(64);
    let wavefront = compiled.map(|ours| ours.wavefront).or_else(of_generation)?;
    let demand = Demand {
        vgprs: registers.or(compiled.map(|ours| ours.registers))?.into(),
        lds_bytes: lds.or(compiled.map(|ours| ours.lds))?.into(),
        workgroup: shape.workgroup.iter().product(),
        wavefront: wavefront.into(),
    };
    wavefronts_per_simd(arch, &demand)
}

/// What the profiler says otherwise than our code object.
fn differences(told: &Resources, ours: &Compiled) -> String {
    let mut differ = Vec::new();
    let mut compared = 0;
    let exact = [
        ("registers", told.vgprs, ours.vgprs),
        ("accumulation registers", told.agprs, ours.agprs),
        ("scratch", told.scratch, ours.scratch),
    ];
    for (name, told, ours) in exact {
        compared += usize::from(told.is_some());
        if told.is_some_and(|told| told != ours) {
            differ.push(name.to_owned());
        }
    }
    if let Some(told) = told.lds {
        compared += 1;
        let rounded = ours.lds.next_multiple_of(LDS_GRANULE);
        if told < ours.lds {
            differ.push("LDS".to_owned());
        } else if told > rounded {
            let more = number((told - ours.lds).into());
            differ.push(format!("LDS, unless the launch adds {more}"));
        }
    }
    match (compared, differ.is_empty()) {
        (0, _) => "not told".to_owned(),
        (_, true) => "the same".to_owned(),
        _ => format!("differs: {}", differ.join(", ")),
    }
}

/// A figure of counters.
#[derive(Clone, Copy)]
enum Figure {
    Value(f64),
    NotCounted,
    ZeroEverywhere,
    /// By nothing: there is none of what it is a share of.
    None,
}

impl Figure {
    /// The mean of the first of these counters that has values.
    fn of(names: &[&str], counters: &Counters, counted: &Counted) -> Figure {
        let found = names
            .iter()
            .find_map(|name| Some((name, counters.mean(name)?)));
        match found {
            None => Figure::NotCounted,
            Some((name, _)) if counted.zero.contains(*name) => Figure::ZeroEverywhere,
            Some((_, mean)) => Figure::Value(mean),
        }
    }

    /// What `with` makes of two values.
    fn with(self, other: Figure, with: impl Fn(f64, f64) -> f64) -> Figure {
        match (self, other) {
            (Figure::Value(a), Figure::Value(b)) => Figure::Value(with(a, b)),
            (Figure::Value(_), other) => other,
            (not, _) => not,
        }
    }

    fn by(self, other: Figure) -> Figure {
        match (self, other) {
            (_, Figure::Value(0.0)) => Figure::None,
            _ => self.with(other, |value, by| value / by),
        }
    }

    fn cell(self, digits: usize) -> String {
        match self {
            Figure::Value(value) => format!("{value:.digits$}"),
            Figure::NotCounted => "not counted".to_owned(),
            Figure::ZeroEverywhere => "0 everywhere".to_owned(),
            Figure::None => "-".to_owned(),
        }
    }
}

fn counters(
    arch: &str,
    of: &Section,
    gpu: Option<Gpu>,
    catalogue: &mut dyn Catalogue,
) -> Result<String> {
    let counted = Counted::of(of.counts.iter().copied(), of.launches.iter().copied());
    let memory = gpu.map(|gpu| gpu.facts().product.memory.megabytes_per_second() as f64 / 1e3);
    let mut table = Table::new(&COUNTER_HEADS);
    for (size, counters) in &counted.rows {
        let compiled = catalogue.compiled(arch, &size.kernel)?;
        table.row(&counters_row(size, counters, &counted, memory, compiled));
    }
    let mut page = "\n### Counters\n".to_owned();
    if let (Some(gpu), Some(memory)) = (gpu, memory) {
        writeln!(
            page,
            "\nThe memory's rate is {} GB/s, that of an {}.",
            number(memory.round() as u64),
            gpu.facts().product.name
        )?;
    }
    page += &table.0;
    if counted.no_numbers > 0 {
        writeln!(
            page,
            "\nValues that are no numbers are left out: {}.",
            number(counted.no_numbers as u64)
        )?;
    }
    Ok(page)
}

fn counters_row(
    size: &Size,
    counters: &Counters,
    counted: &Counted,
    memory: Option<f64>,
    compiled: Option<Compiled>,
) -> Vec<String> {
    const BYTES_PER_KIB: f64 = 1024.0;
    let figure = |names: &[&str]| Figure::of(names, counters, counted);
    let or_none = |value: Option<f64>| value.map_or(Figure::None, Figure::Value);
    let time = or_none(counters.times.median());
    let read = figure(&["FETCH_SIZE", "FetchSize"]);
    let written = figure(&["WRITE_SIZE", "WriteSize"]);
    let bytes = |kib: Figure| kib.with(kib, |kib, _| kib * BYTES_PER_KIB);
    let megabytes = |kib: Figure| bytes(kib).by(Figure::Value(1e6)).cell(3);
    // Bytes in a nanosecond are 10^9 bytes in a second.
    let rate = bytes(read.with(written, |read, written| read + written)).by(time);
    let lds = figure(&["SQ_INSTS_LDS"]);
    let conflicts = figure(&["SQ_LDS_BANK_CONFLICT", "SQC_LDS_BANK_CONFLICT"]).by(lds);
    let wavefronts = figure(&["SQ_WAVES", "SQ_WAVES_sum"]);
    let launched = compiled.map(|ours| {
        let groups = size.items.div_ceil(size.workgroup.max(1));
        (groups * size.workgroup.div_ceil(ours.wavefront.into())) as f64
    });
    let share = wavefronts.by(or_none(launched));
    vec![
        cell_of(&size.kernel),
        format!("{}, {}", number(size.items), number(size.workgroup)),
        number(counters.launches as u64),
        counters.times.median().map_or("-".to_owned(), microseconds),
        megabytes(read),
        megabytes(written),
        rate.cell(0),
        rate.by(or_none(memory))
            .with(Figure::Value(100.0), |share, all| share * all)
            .cell(1),
        conflicts.cell(3),
        figure(&["VALUBusy"]).cell(1),
        figure(&["MfmaUtil"]).cell(1),
        figure(&["SQ_INSTS_VALU"]).by(wavefronts).cell(1),
        compiled.map_or("-".to_owned(), |ours| number(ours.vector_instructions)),
        share
            .with(Figure::Value(100.0), |share, all| share * all)
            .cell(1),
    ]
}
