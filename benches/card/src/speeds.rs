//! Operators, products by each that can make them, attention, models.

use std::collections::HashSet;
use std::rc::Rc;

use anyhow::{Context as _, Result};
use candle_core::Device;
use candle_rocm_backend::{DeviceExt as _, RocmDeviceExt as _};
use candle_rocm_bench_protocol::{Answer, Case, Kind, Request, Settings};
use candle_rocm_benches::cases::{self, Entry, Group};
use candle_rocm_benches::statistics::median;
use candle_rocm_benches::worker::Worker;
use candle_rocm_card_record::page::rounded;
use candle_rocm_card_record::{Item, Part, Record, State};

use crate::asked::Asked;
use crate::job::Job;
use crate::measure::Bench;
use crate::roofline::COPY;

/// Who may multiply matrices, as `CANDLE_ROCM_GEMM` names them.
const WAYS: [&str; 2] = ["own", "library"];
/// The variable.
const GEMM: &str = "CANDLE_ROCM_GEMM";

/// Operators that a short run has.
const SHORT: [&str; 8] = [
    "exp",
    "softmax",
    "transpose",
    "sum_last",
    "linear",
    "qmatmul",
    "attention_causal",
    "attend",
];

/// Models, with the free memory that they need, in GiB, and whether a short run has them.
const MODELS: [(&str, &str, usize); 4] = [
    ("llama-8b-4-layers", "f16", 8),
    ("llama-8b-4-layers", "q4_K", 6),
    ("llama-1b", "f16", 6),
    ("llama-8b", "f16", 24),
];

/// What is measured.
///
/// # Errors
/// The GPU has no memory left.
pub fn jobs<'a>(
    device: &'a Device,
    asked: &'a Asked,
    known: Option<&Record>,
) -> Result<Vec<Job<'a>>> {
    let bench = Rc::new(Bench::new(device, asked)?);
    let copy = known.and_then(|known| known.item(Part::Roofline, COPY)?.number("value"));
    let mut jobs = Vec::new();
    for case in models(device, bench.is_emulated, asked)? {
        let bench = Rc::clone(&bench);
        jobs.push(Job::new(case.to_string(), move || bench.item(&case, None)));
    }
    let cases = chosen(bench.is_emulated, asked);
    let products: Vec<Case> = cases
        .iter()
        .filter(|entry| entry.group == Group::Products)
        .map(|entry| entry.case.clone())
        .collect();
    for way in WAYS {
        let (products, settings) = (products.clone(), bench.settings);
        jobs.push(Job::new(format!("products by {way}"), move || {
            by(way, &products, settings, asked)
        }));
    }
    for Entry { case, .. } in cases {
        let bench = Rc::clone(&bench);
        jobs.push(Job::new(case.to_string(), move || bench.item(&case, copy)));
    }
    Ok(jobs)
}

/// The benchmarks' quick cases but networks; of an emulated GPU small ones; of a short run those of few operators.
fn chosen(is_emulated: bool, asked: &Asked) -> Vec<Entry> {
    let all = if is_emulated {
        cases::smallest()
    } else {
        cases::all()
    };
    let mut seen = HashSet::new();
    let chosen = all.into_iter().filter(|entry| {
        let fits = match entry.group {
            Group::Networks | Group::Models => false,
            _ => is_emulated || entry.quick,
        };
        // The first dtype of each.
        let is_short = !asked.short
            || (SHORT.contains(&entry.case.op.as_str()) && seen.insert(entry.case.op.clone()));
        fits && is_short
    });
    let mut chosen: Vec<Entry> = chosen.collect();
    // What says most of models first, in case the time is up before the end.
    let order = |group: Group| match group {
        Group::Products => 0,
        Group::Quantized => 1,
        Group::Attention => 2,
        Group::Rows => 3,
        Group::Elementwise => 4,
        _ => 5,
    };
    chosen.sort_by_key(|entry| order(entry.group));
    chosen
}

fn models(device: &Device, is_emulated: bool, asked: &Asked) -> Result<Vec<Case>> {
    let model = |name: &str, dtype: &str| Case {
        kind: Kind::Model,
        ..Case::device(name, dtype, &[])
    };
    if is_emulated {
        return Ok(vec![model("llama-tiny", "f16")]);
    }
    let (free, _) = device.as_rocm_device()?.memory()?;
    let fit = MODELS.iter().filter(|(_, _, gib)| free >> 30 >= *gib);
    let most = if asked.short { 1 } else { MODELS.len() };
    Ok(fit
        .take(most)
        .map(|(name, dtype, _)| model(name, dtype))
        .collect())
}

/// The products by one of those that can make them, in a process of its own, which decides at its first.
fn by(way: &str, products: &[Case], settings: Settings, asked: &Asked) -> Result<Item> {
    let mut command = asked.program(&["worker"])?;
    let mut worker = Worker::of(way, command.env(GEMM, way))?;
    let mut item = Item::new("", State::Ok, "");
    let mut told = Vec::new();
    for case in products {
        let request = Request {
            case: case.clone(),
            settings,
        };
        match worker.ask(&request).context("asking for a product")? {
            Answer::Device(times) => {
                let tflop_s = times.flops as f64 / median(&times.samples_us) / 1e6;
                told.push(format!(
                    "{} {}: {}",
                    case.dtype,
                    case.shape(),
                    rounded(tflop_s)
                ));
                item = item.with(&case.to_string(), tflop_s);
            }
            // Where no library loads, its error says where it was looked for.
            Answer::Error(error) => return Ok(Item::new("", State::Note, error)),
            other => anyhow::bail!("{case}: {other:?}"),
        }
    }
    item.line = format!("TFLOP/s: {}", told.join(", "));
    Ok(item)
}
