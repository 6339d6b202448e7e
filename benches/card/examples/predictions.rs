//! Writes `predicted.tsv`: what the clock of the emulator predicts of the cases that the program measures, in us.
//!
//!     cargo run --release -p candle-rocm-card --example predictions

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use candle_rocm_bench_protocol::Case;
use candle_rocm_benches::cases::{self, Group};
use candle_rocm_kernel_report::attention::{self, Shape as Attention};
use candle_rocm_kernel_report::decode::{token, Model, MODELS};
use candle_rocm_kernel_report::device::{Device, Kept};
use candle_rocm_kernel_report::products::{Gpus, Shape, TN};
use candle_rocm_kernel_report::rows::{time_rows, RowKernel};
use candle_rocm_kernels::attention::Pass;
use candle_rocm_runtime::gemm::GemmDtype;

/// The GPU whose clock is held to whole kernels.
const ARCH: &str = "gfx942";
/// Keys before a token, in the middle of those that are decoded.
const KEYS: u32 = 544;

fn main() -> Result<()> {
    let gpus = Gpus::start(&[ARCH.to_owned()])?;
    let mut device = Device::new(ARCH.parse()?);
    let mut table = String::new();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/predicted.tsv");
    // The file is written row by row: large products take minutes.
    let mut add = |name: String, us: f64| -> Result<()> {
        eprintln!("{name}: {us:.1} us");
        writeln!(table, "{name}\t{ARCH}\t{us:.2}")?;
        std::fs::write(path, &table).with_context(|| path.to_owned())
    };
    for causal in [false, true] {
        let op = if causal {
            "attention_causal"
        } else {
            "attention"
        };
        let case = Case::device(op, "bf16", &[1, 32, 8192, 128]);
        let shape = Attention {
            pass: Pass::Forward,
            dtype: "bf16",
            elements: 128,
            heads: 32,
            queries: 8192,
            keys: 8192,
            causal,
        };
        let (_, time) = attention::time(&mut device, &shape)?;
        add(case.to_string(), time.microseconds)?;
    }
    for (op, name, weights) in [
        ("softmax", "softmax", 0),
        ("rms_norm", "rmsnorm", 1),
        ("layer_norm", "layernorm", 2),
    ] {
        // 65,536 rows, as the report has.
        let case = Case::device(op, "f16", &[65_536, 1024]);
        let timed = time_rows(&mut device, RowKernel { name, weights }, 1024)?;
        add(case.to_string(), timed.time.microseconds)?;
    }
    let [small, large, ..] = MODELS;
    let four = Model { layers: 4, ..large };
    for (name, model) in [
        ("llama-1b", small),
        ("llama-8b-4-layers", four),
        ("llama-8b", large),
    ] {
        let steps = token(&gpus, &mut device, &model, KEYS)?;
        let us = steps
            .iter()
            .map(|step| step.timed.time.microseconds * f64::from(step.launches))
            .sum();
        add(format!("{name} f16"), us)?;
    }
    for case in products() {
        if let Some(us) = product(&gpus, &case)? {
            add(case.to_string(), us)?;
        }
    }
    Ok(())
}

/// The roofline's but f64's, which takes too long, and the quick ones.
fn products() -> Vec<Case> {
    let square = |(dtype, size)| Case::device("linear", dtype, &[1, size, size, size]);
    let roofline = [("bf16", 8192), ("f16", 8192), ("f32", 4096)].map(square);
    let quick = cases::all()
        .into_iter()
        .filter(|entry| entry.group == Group::Products && entry.quick);
    let all = roofline.into_iter().chain(quick.map(|entry| entry.case));
    all.filter(|case| case.op == "linear").collect()
}

fn product(gpus: &Gpus, case: &Case) -> Result<Option<f64>> {
    let dtype = match case.dtype.as_str() {
        "f64" => GemmDtype::F64,
        "f32" => GemmDtype::F32,
        "f16" => GemmDtype::F16,
        _ => GemmDtype::BF16,
    };
    let &[_, tokens, rows, k] = case.dims.as_slice() else {
        anyhow::bail!("{case}: no product");
    };
    let shape = Shape::new(dtype, [rows, tokens, k], TN);
    let time = gpus.time_whole(ARCH, &shape, Kept::default())?;
    Ok(time.map(|(_, time)| time.microseconds))
}
