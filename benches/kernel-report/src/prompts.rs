//! What the kernels of a prompt would take in f16, by the emulator's model of time.

use std::fmt;

use anyhow::{Context, Result};
use candle_rocm_kernels::attention::{tile, Pass};
use candle_rocm_kernels::Processor;
use candle_rocm_runtime::gemm::GemmDtype;
use rocm_emulator::exec::Untimed;

use crate::attention;
use crate::decode::Model;
use crate::device::{Device, Kept};
use crate::products::{Gpus, Shape, TN};

/// Launches of a layer: two norms, four products, what keeps keys and values, attention, and SwiGLU.
const LAUNCHES_OF_LAYER: u32 = 9;

/// A prompt's time, in us.
pub struct Prompt {
    tokens: u32,
    /// Of each product of a layer, with its operations.
    products: Vec<(&'static str, f64, f64)>,
    /// Of a layer's attention, whose queries see the keys before them.
    attention: f64,
    /// Of what norms, angles, the cache, sums and SwiGLU move in a layer, at memory's bandwidth.
    rows: f64,
    layers: u32,
    /// A launch by itself.
    launch: f64,
}

/// The prompt's launches, without logits, of which the last token alone has some.
///
/// # Errors
/// A kernel does not run, or there is no model of the GPU's time.
pub fn prompt(gpus: &Gpus, device: &mut Device, model: &Model, tokens: u32) -> Result<Prompt> {
    const REPEATED: Kept = Kept {
        operands: true,
        code: false,
    };
    let arch = device.target.name();
    let timing = device.target.timing().ok_or(Untimed(device.target))?;
    let queries = model.heads * model.head_elements;
    let packed = queries + 2 * model.kv_heads * model.head_elements;
    let (unit, product) = (device.target.unit(), &device.target.facts().product);
    // Operations of all matrix units in a microsecond.
    let peak =
        2.0 * f64::from(unit.matrix.f16 * device.target.multiprocessors() * product.clock_mhz);
    let mut products = Vec::new();
    for (what, rows, k) in [
        ("queries, keys and values", packed, model.hidden),
        ("output", model.hidden, queries),
        ("gate and up", 2 * model.inner, model.hidden),
        ("down", model.hidden, model.inner),
    ] {
        let [rows, columns, k] = [rows, tokens, k].map(|size| size as usize);
        let shape = Shape::new(GemmDtype::F16, [rows, columns, k], TN);
        let (_, time) = gpus
            .time_by_slices(arch, &shape, REPEATED)?
            .context("a product without a kernel")?;
        let flop = 2.0 * (rows * columns * k) as f64;
        // Slices, each of which has its end, tell a little less than the rest takes.
        products.push((what, time.microseconds.max(flop / peak), flop));
    }
    let shape = attention::Shape {
        pass: Pass::Forward,
        dtype: "f16",
        elements: model.head_elements,
        heads: model.heads,
        queries: tokens,
        keys: tokens,
        causal: false,
    };
    let (_, all_keys) = attention::time_by_keys(device, &shape)?;
    let of_head = tile(Processor::of(arch), Pass::Forward, model.head_elements);
    let rows_of_tile = f64::from(of_head.context("heads without a kernel")?.rows);
    // A tile sees the keys before its last row.
    let seen = (1.0 + rows_of_tile / f64::from(tokens)) / 2.0;
    // Two norms read and write the state, two sums read it.
    let elements = 6 * model.hidden + 2 * packed + 3 * model.inner;
    let bytes = 2.0 * f64::from(elements) * f64::from(tokens);
    Ok(Prompt {
        tokens,
        products,
        attention: seen * all_keys.microseconds,
        rows: bytes / f64::from(timing.memory.gigabytes_per_second) / 1000.0,
        layers: model.layers,
        launch: timing
            .launch
            .map_or(0.0, |launch| f64::from(launch.stream_ns) / 1000.0),
    })
}

impl fmt::Display for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layers = f64::from(self.layers);
        let products: f64 = self.products.iter().map(|(_, us, _)| us).sum();
        let launches = f64::from(LAUNCHES_OF_LAYER) * self.launch;
        let all = layers * (products + self.attention + self.rows + launches);
        write!(
            f,
            "{} tokens: {:.1} ms, {:.0} tokens/s; of a layer, us: ",
            self.tokens,
            all / 1000.0,
            1e6 * f64::from(self.tokens) / all
        )?;
        for (what, us, flop) in &self.products {
            write!(f, "{what} {us:.0} ({:.0} TFLOP/s), ", flop / us / 1e6)?;
        }
        write!(
            f,
            "attention {:.0}, rows at memory's bandwidth {:.0}, {LAUNCHES_OF_LAYER} launches by themselves {launches:.0}",
            self.attention, self.rows
        )
    }
}
