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
    let table = Table { device, repeat };
    let x = table.drawn(tokens, HIDDEN)?;
    casts(&table, &x)?;
    mixtures(&table, &x)
}

/// Lines of operators.
struct Table<'a> {
    device: &'a Device,
    repeat: usize,
}

impl Table<'_> {
    fn drawn(&self, rows: usize, columns: usize) -> candle_core::Result<Tensor> {
        Tensor::randn(0f32, 1., (rows, columns), self.device)?.to_dtype(DType::BF16)
    }

    /// Prints a line; `bytes` are read and written once.
    fn line(
        &self,
        name: &str,
        bytes: usize,
        call: impl FnMut() -> candle_core::Result<()>,
    ) -> Result<()> {
        let from = Tensor::zeros(bytes / 2, DType::U8, self.device)?;
        let copy = timed(self.device, self.repeat, || from.copy().map(drop))?;
        drop(from);
        let time = timed(self.device, self.repeat, call)?;
        println!(
            "| {name} | {:.3} | {:.1} | {:.0} % |",
            bytes as f64 / 1e9,
            time * 1e6,
            100. * copy / time
        );
        Ok(())
    }
}

/// Casts of x, and of what gates make.
fn casts(table: &Table, x: &Tensor) -> Result<()> {
    let format = ScaleFormat::F32;
    let (tokens, elements) = (x.dim(0)?, x.elem_count());
    let factors = elements / 128 * 4;
    table.line("cast_per_token", 3 * elements + factors, || {
        fp8::cast_per_token(x, format).map(drop)
    })?;
    table.line("cast_per_token, packed", 3 * elements + factors / 4, || {
        fp8::cast_per_token(x, ScaleFormat::PackedPowersOfTwo).map(drop)
    })?;
    table.line("cast_per_block", 3 * elements, || {
        fp8::cast_per_block(x, format).map(drop)
    })?;
    table.line("cast_per_channel", 3 * elements, || {
        fp8::cast_per_channel(x, format).map(drop)
    })?;
    table.line("cast_per_tensor", 5 * elements, || {
        fp8::cast_per_tensor(x, format).map(drop)
    })?;
    let gates = table.drawn(tokens, 2 * INNER)?;
    table.line("swiglu_cast_per_token", 5 * tokens * INNER, || {
        fp8::swiglu_cast_per_token(&gates, format).map(drop)
    })
}

/// What a mixture of experts does with the rows of x.
fn mixtures(table: &Table, x: &Tensor) -> Result<()> {
    let (tokens, elements) = (x.dim(0)?, x.elem_count());
    let logits = Tensor::randn(0f32, 1., (tokens, EXPERTS), table.device)?;
    let bias = Tensor::randn(0f32, 0.1, EXPERTS, table.device)?;
    let choice = GATE.choose(&logits, Some(&bias))?;
    let assignments = tokens * GATE.top;
    table.line(
        "Gate::choose",
        4 * tokens * EXPERTS + 8 * assignments,
        || GATE.choose(&logits, Some(&bias)).map(drop),
    )?;
    let routing = Routing::new(&choice.experts, EXPERTS)?;
    let rows = routing.groups().rows();
    // Numbers of experts in, places and sources out.
    table.line("Routing::new", 8 * assignments + 4 * rows, || {
        Routing::new(&choice.experts, EXPERTS).map(drop)
    })?;
    // Tokens stay in the cache between their experts, or not: what is written, and tokens once.
    table.line("Routing::gather", 2 * elements + 2 * rows * HIDDEN, || {
        routing.gather(x).map(drop)
    })?;
    table.line("Routing::gather_cast", 2 * elements + rows * HIDDEN, || {
        routing.gather_cast(x, ScaleFormat::F32).map(drop)
    })?;
    let made = routing.gather(x)?;
    table.line(
        "Routing::combine",
        2 * assignments * HIDDEN + 2 * elements,
        || {
            routing
                .combine(&made, Some(&choice.weights), None)
                .map(drop)
        },
    )
}
