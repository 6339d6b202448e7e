//! What moves memory beside products of FP8: casts, and what mixtures of experts do with rows, each beside a copy that reads
//! and writes as many bytes.

use anyhow::Result;
use candle_core::{DType, Device, Tensor};
use candle_rocm_backend::fp8::{self, ScaleFormat};
use candle_rocm_backend::moe::{Gate, GroupScore, Groups, Routing, Score};

use crate::timed::timed;

/// DeepSeek-V3's gate, for as many experts, and the elements of its state.
const GATE: Gate = Gate {
    score: Score::Sigmoid,
    top: 8,
    groups: Some(Groups {
        count: 8,
        top: 4,
        by: GroupScore::BestTwo,
    }),
    normalise: true,
    factor: 2.5,
};
const EXPERTS: usize = 256;
const HIDDEN: usize = 7168;
/// Elements of a row of what gates make, and what they are for.
const INNER: usize = 2048;

/// Prints a line for each operator, of so many tokens in bf16.
pub fn all(device: &Device, tokens: usize, repeat: usize) -> Result<()> {
    println!("| operator | GB | us | of a copy's speed |");
    println!("|---|---:|---:|---:|");
    let drawn = |rows: usize, columns: usize| -> candle_core::Result<Tensor> {
        Tensor::randn(0f32, 1., (rows, columns), device)?.to_dtype(DType::BF16)
    };
    // `bytes` are read and written once.
    let line = |name: &str, bytes: usize, call: &mut dyn FnMut() -> candle_core::Result<()>| {
        let from = Tensor::zeros(bytes / 2, DType::U8, device)?;
        let copy = timed(device, repeat, || from.copy().map(drop))?;
        drop(from);
        let time = timed(device, repeat, call)?;
        println!(
            "| {name} | {:.3} | {:.1} | {:.0} % |",
            bytes as f64 / 1e9,
            time * 1e6,
            100. * copy / time
        );
        anyhow::Ok(())
    };
    let format = ScaleFormat::F32;
    let x = drawn(tokens, HIDDEN)?;
    let elements = tokens * HIDDEN;
    let factors = elements / 128 * 4;
    line("cast_per_token", 3 * elements + factors, &mut || {
        fp8::cast_per_token(&x, format).map(drop)
    })?;
    line(
        "cast_per_token, packed",
        3 * elements + factors / 4,
        &mut || fp8::cast_per_token(&x, ScaleFormat::PackedPowersOfTwo).map(drop),
    )?;
    line("cast_per_block", 3 * elements, &mut || {
        fp8::cast_per_block(&x, format).map(drop)
    })?;
    line("cast_per_channel", 3 * elements, &mut || {
        fp8::cast_per_channel(&x, format).map(drop)
    })?;
    line("cast_per_tensor", 5 * elements, &mut || {
        fp8::cast_per_tensor(&x, format).map(drop)
    })?;
    let gates = drawn(tokens, 2 * INNER)?;
    line("swiglu_cast_per_token", 5 * tokens * INNER, &mut || {
        fp8::swiglu_cast_per_token(&gates, format).map(drop)
    })?;
    drop(gates);

    let logits = Tensor::randn(0f32, 1., (tokens, EXPERTS), device)?;
    let bias = Tensor::randn(0f32, 0.1, EXPERTS, device)?;
    let choice = GATE.choose(&logits, Some(&bias))?;
    let assignments = tokens * GATE.top;
    line(
        "Gate::choose",
        4 * tokens * EXPERTS + 8 * assignments,
        &mut || GATE.choose(&logits, Some(&bias)).map(drop),
    )?;
    let routing = Routing::new(&choice.experts, EXPERTS)?;
    let rows = routing.groups().rows();
    // Numbers of experts in, places and sources out.
    line("Routing::new", 8 * assignments + 4 * rows, &mut || {
        Routing::new(&choice.experts, EXPERTS).map(drop)
    })?;
    // Tokens stay in the cache between their experts, or not: what is written, and tokens once.
    line(
        "Routing::gather",
        2 * elements + 2 * rows * HIDDEN,
        &mut || routing.gather(&x).map(drop),
    )?;
    line(
        "Routing::gather_cast",
        2 * elements + rows * HIDDEN,
        &mut || routing.gather_cast(&x, format).map(drop),
    )?;
    let made = routing.gather(&x)?;
    line(
        "Routing::combine",
        2 * assignments * HIDDEN + 2 * elements,
        &mut || {
            routing
                .combine(&made, Some(&choice.weights), None)
                .map(drop)
        },
    )?;
    Ok(())
}
