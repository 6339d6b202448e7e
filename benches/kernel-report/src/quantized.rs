//! What the kernels of one token of a model with quantised weights would take, by the emulator's model of time: products that
//! leave the vector which the next one reads.

use anyhow::{ensure, Context, Result};
use candle_rocm_kernels::gguf::{Format, Q4_K, Q6_K, Q8_0};
use candle_rocm_kernels::mmvq;
use candle_rocm_runtime::quantized::chained::{self, Matrix, Next};
use candle_rocm_runtime::DevicePtrMut;

use crate::decode::{attention, step, Heads, Model, Step, Timing};
use crate::device::Device;
use crate::products::Gpus;
use crate::rows::Timed;

/// How a model's matrices are quantised.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Its name on the page.
    pub name: &'static str,
    /// The format of most matrices.
    pub usual: &'static Format,
    /// That of the logits' and, in half of the layers, of those of values and of the last product.
    pub better: &'static Format,
}

/// llama.cpp's names.
pub const MIXES: [Mix; 2] = [
    Mix {
        name: "q4_K_M",
        usual: &Q4_K,
        better: &Q6_K,
    },
    Mix {
        name: "q8_0",
        usual: &Q8_0,
        better: &Q8_0,
    },
];

impl Mix {
    /// Bits of an element, at most.
    pub fn bits(&self) -> f64 {
        let bits = |format: &Format| 8.0 * f64::from(format.bytes) / f64::from(format.elements);
        bits(self.usual).max(bits(self.better))
    }
}

/// The launches of a token after `keys` others, each by itself with all that it reads in memory.
///
/// # Errors
/// A kernel does not run, or there is no model of the GPU's time.
pub fn token(
    gpus: &Gpus,
    device: &mut Device,
    model: &Model,
    mix: &Mix,
    keys: u32,
) -> Result<Vec<Step>> {
    let Model {
        hidden,
        heads,
        kv_heads,
        head_elements,
        inner,
        layers,
        vocabulary,
        ..
    } = *model;
    let arch = device.target.name();
    let [of_queries, of_keys] = [heads, kv_heads].map(|heads| heads * head_elements);
    let is_mixed = mix.usual != mix.better;
    let (usual, better) = match is_mixed {
        true => (layers - layers / 2, layers / 2),
        false => (layers, 0),
    };
    let all = [of_queries + 2 * of_keys, hidden];
    let two = [of_queries + of_keys, hidden];
    let values = [of_keys, hidden];
    let output = [hidden, of_queries];
    let gated = [2 * inner, hidden];
    let down = [hidden, inner];
    let logits = [vocabulary, hidden];
    let products = [
        (
            "queries, keys and values",
            mix.usual,
            all,
            Makes::Sums,
            usual,
        ),
        ("queries and keys", mix.usual, two, Makes::Sums, better),
        ("values", mix.better, values, Makes::Sums, better),
        ("output, sum, norm", mix.usual, output, Makes::Norm, layers),
        (
            "gate and up, SwiGLU",
            mix.usual,
            gated,
            Makes::Gated,
            layers,
        ),
        ("down, sum, norm", mix.usual, down, Makes::Norm, usual),
        ("down, sum, norm", mix.better, down, Makes::Norm, better),
        ("logits", mix.better, logits, Makes::Sums, 1),
    ];
    let mut steps = vec![attention(device, model, keys, Heads::F32ToVector)?];
    for (what, format, sizes, makes, launches) in products {
        if launches > 0 {
            let timing = multiply(gpus, arch, format, sizes, makes)?;
            steps.push(step(what, timing, launches));
        }
    }
    Ok(steps)
}

/// What a product makes.
#[derive(Clone, Copy, PartialEq)]
enum Makes {
    /// f32.
    Sums,
    /// f32, to which others are added, and their norm as a vector.
    Norm,
    /// SwiGLU of both halves, as a vector.
    Gated,
}

/// A product of a matrix of (rows, k), by the launch that the runtime makes.
fn multiply(
    gpus: &Gpus,
    arch: &str,
    format: &'static Format,
    [rows, k]: [u32; 2],
    makes: Makes,
) -> Result<Timing> {
    let blocks = u64::from(rows) * u64::from(k / format.elements);
    let least_bytes = blocks * u64::from(format.bytes);
    let vector =
        |elements: u32| u64::from(elements.div_ceil(mmvq::TOGETHER) * mmvq::TOGETHER_BYTES);
    let sizes = [
        least_bytes,
        vector(k),
        vector(rows),
        4 * u64::from(rows),
        4 * u64::from(rows),
        4 * u64::from(rows),
        // Counters.
        4 * u64::from(rows),
    ];
    // The norm is made by the workgroup that ends last of all.
    let alone = makes != Makes::Norm;
    let time = |code_kept| {
        let times = gpus.time_work(arch, [code_kept, alone], |stream| {
            // Zeros, which is what counters are between launches.
            let rooms = sizes.map(|bytes| stream.alloc_zeros::<u8>(bytes as usize));
            let mut held = Vec::new();
            for room in rooms {
                held.push(room?);
            }
            let mut addresses = [0; 7];
            for (address, room) in addresses.iter_mut().zip(&mut held) {
                *address = room.device_ptr_mut(stream).0;
            }
            let [address, input, made, addend, result, norm, counter] = addresses;
            let matrix = Matrix {
                format,
                address,
                rows,
                columns: k,
                vector: input,
            };
            let next = Next {
                norm,
                epsilon: 1e-5,
                counter,
                vector: made,
            };
            // SAFETY: memory of the sizes that the matrix has, with zeros in it.
            unsafe {
                match makes {
                    Makes::Sums => chained::multiply(stream, &matrix, 0, (result, 0), None),
                    Makes::Norm => {
                        chained::multiply(stream, &matrix, addend, (result, 0), Some(next))
                    }
                    Makes::Gated => chained::multiply_gated(stream, &matrix, result, counter, made),
                }
            }
        })?;
        ensure!(times.len() == 1, "{} launches of a product", times.len());
        let launch = times
            .into_iter()
            .next()
            .context("a product without a kernel")?;
        anyhow::Ok((launch.kernel.name.clone(), launch.time?))
    };
    let ((kernel, time_cold), (_, with_code)) = (time(false)?, time(true)?);
    let timed = Timed {
        time: time_cold,
        least_bytes,
    };
    Ok((kernel, timed, with_code.microseconds))
}
