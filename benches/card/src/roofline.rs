//! What the card can do: copies, reads, writes, matrix units, launches, the link to the host.
//!
//! By kernels that the project has anyway: there is none that is made to fill LDS or the vector unit's multiply-adds.

use std::rc::Rc;
use std::time::Instant;

use anyhow::Result;
use candle_core::Device;
use candle_rocm_backend::graph::{Input, Step};
use candle_rocm_backend::DeviceExt as _;
use candle_rocm_bench_protocol::{Answer, Case, Kind};
use candle_rocm_benches::statistics::median;
use candle_rocm_card_record::page::rounded;
use candle_rocm_card_record::{Item, State};

use crate::asked::Asked;
use crate::gpu;
use crate::job::Job;
use crate::measure::{self, predicted, Bench};

/// The item that others are a share of.
pub const COPY: &str = "copy";

/// Operators that are bound by memory, by what they show.
const MEMORY: [(&str, &str); 3] = [(COPY, "copy"), ("read", "sum_last"), ("write", "fill")];
/// Dtypes of products that are bound by the matrix unit, or by multiply-adds where there is none.
const PRODUCTS: [&str; 4] = ["bf16", "f16", "f32", "f64"];

/// What is measured.
///
/// # Errors
/// The GPU has no memory left.
pub fn jobs<'a>(device: &'a Device, asked: &'a Asked) -> Result<Vec<Job<'a>>> {
    let bench = Rc::new(Bench::new(device, asked)?);
    let mut jobs = Vec::new();
    for (name, op) in MEMORY {
        let bench = Rc::clone(&bench);
        jobs.push(Job::new(name, move || memory(&bench, op)));
    }
    for dtype in PRODUCTS {
        let bench = Rc::clone(&bench);
        jobs.push(Job::new(format!("products {dtype}"), move || {
            product(&bench, dtype)
        }));
    }
    let of_launch = Rc::clone(&bench);
    jobs.push(Job::new("launch in a stream", move || launch(&of_launch)));
    jobs.push(Job::new("launch in a graph", move || {
        launch_in_graph(device, asked)
    }));
    for (name, pinned, to_device) in [
        ("host to device", false, true),
        ("host to device, pinned", true, true),
        ("device to host, pinned", true, false),
    ] {
        let bytes = if bench.is_emulated {
            1 << 20
        } else {
            256 << 20
        };
        jobs.push(Job::new(name, move || {
            link(device, bytes, pinned, to_device)
        }));
    }
    jobs.push(Job::new("LDS, FMA", || {
        let line = "not measured: no kernel of the project is made to fill either";
        Ok(Item::new("", State::Note, line))
    }));
    Ok(jobs)
}

fn figure(value: f64, unit: &str, more: String) -> Item {
    Item::new("", State::Ok, format!("{} {unit}{more}", rounded(value)))
        .with("value", value)
        .with("unit", unit)
}

/// A figure whose prediction is a time for as much.
fn beside(item: Item, bench: &Bench, case: &Case, of_us: impl Fn(f64) -> f64) -> Item {
    match predicted(&case.to_string(), &bench.arch) {
        Some(us) => measure::beside(item, of_us(us)),
        None => item,
    }
}

fn memory(bench: &Bench, op: &str) -> Result<Item> {
    let rows = if bench.is_emulated { 16 } else { 1 << 18 };
    let case = Case::device(op, "f32", &[rows, 1024]);
    let Answer::Device(times) = bench.ask(&case)? else {
        anyhow::bail!("no times of {case}");
    };
    let gb_s = |us: f64| times.bytes as f64 / us / 1e3;
    let mib = (rows * 4096) >> 20;
    let item = figure(
        gb_s(median(&times.samples_us)),
        "GB/s",
        format!(" ({mib} MiB)"),
    );
    Ok(beside(item, bench, &case, gb_s))
}

fn product(bench: &Bench, dtype: &str) -> Result<Item> {
    let size = match (bench.is_emulated, dtype) {
        (true, _) => 64,
        (false, "bf16" | "f16") => 8192,
        (false, _) => 4096,
    };
    let case = Case::device("linear", dtype, &[1, size, size, size]);
    let Answer::Device(times) = bench.ask(&case)? else {
        anyhow::bail!("no times of {case}");
    };
    let tflop_s = |us: f64| times.flops as f64 / us / 1e6;
    let item = figure(
        tflop_s(median(&times.samples_us)),
        "TFLOP/s",
        format!(" ({size} cubed)"),
    );
    Ok(beside(item, bench, &case, tflop_s))
}

fn launch(bench: &Bench) -> Result<Item> {
    let case = Case {
        kind: Kind::Host,
        ..Case::device("affine", "f32", &[4, 4])
    };
    let Answer::Host(times) = bench.ask(&case)? else {
        anyhow::bail!("no times of {case}");
    };
    let finished = median(&times.finished_us);
    let more = format!(
        " to enqueue an operator, {} with the GPU's end",
        rounded(finished)
    );
    Ok(figure(median(&times.enqueue_us), "us", more).with("finished_us", finished))
}

/// Kernels of a graph that wait for each other.
const KERNELS: usize = 100;

fn launch_in_graph(device: &Device, asked: &Asked) -> Result<Item> {
    if let Some(why) = gpu::why_graphs_are_off(device)? {
        return Ok(Item::new("", State::Note, why));
    }
    let launches = if asked.short { 2 } else { 50 };
    let first = candle_core::Tensor::zeros((4, 4), candle_core::DType::F32, device)?;
    let input = Input::new(&first)?;
    let (_, step) = Step::capture(device, || {
        let mut x = input.tensor().clone();
        for _ in 0..KERNELS {
            x = x.affine(0.5, 0.25)?;
        }
        Ok(x)
    })?;
    step.run()?;
    device.synchronize()?;
    let began = Instant::now();
    for _ in 0..launches {
        step.run()?;
    }
    device.synchronize()?;
    let us = began.elapsed().as_secs_f64() * 1e6 / (launches * KERNELS) as f64;
    Ok(figure(
        us,
        "us",
        format!(" a kernel, of {KERNELS} in a graph"),
    ))
}

fn link(device: &Device, bytes: usize, pinned: bool, to_device: bool) -> Result<Item> {
    const TIMES: usize = 5;
    let stream = device.as_rocm_device()?.cuda_stream();
    let mut there = stream.alloc_zeros::<u8>(bytes)?;
    let mut pageable = vec![1u8; if pinned { 1 } else { bytes }];
    // SAFETY: its bytes are written before they are read, by the first copy or by the loop below.
    let mut locked = unsafe {
        stream
            .context()
            .alloc_pinned_with_flags::<u8>(if pinned { bytes } else { 1 }, 0)
    }?;
    locked.as_mut_slice()?.fill(1);
    let mut copy = || -> Result<()> {
        match (to_device, pinned) {
            (true, true) => stream.memcpy_htod(&locked, &mut there)?,
            (true, false) => stream.memcpy_htod(&pageable, &mut there)?,
            (false, true) => stream.memcpy_dtoh(&there, &mut locked)?,
            (false, false) => stream.memcpy_dtoh(&there, &mut pageable)?,
        }
        Ok(stream.synchronize()?)
    };
    copy()?;
    let mut seconds = Vec::new();
    for _ in 0..TIMES {
        let began = Instant::now();
        copy()?;
        seconds.push(began.elapsed().as_secs_f64());
    }
    let gb_s = bytes as f64 / median(&seconds) / 1e9;
    Ok(figure(gb_s, "GB/s", format!(" ({} MiB)", bytes >> 20)))
}
