//! Convolutional networks with random weights, the same in every worker: their forward pass from end to end, and the
//! memory in use. Candle's own convolutions make them, by the way that the worker's feature `cudnn` decides.
//!
//! | network | where |
//! |---|---|
//! | ResNet, of candle-transformers | here |
//! | YOLOv8 | [`yolo`] |
//! | Stable Diffusion's UNet and decoder, of candle-transformers | [`diffusion`] |
//! | Whisper's encoder, and Encodec's without the quantiser, of candle-transformers | [`audio`] |

mod audio;
mod diffusion;
mod forward;
mod weights;
mod yolo;

use std::time::Instant;

use anyhow::{Context, Result};
use candle_core::cuda_backend::cudarc::driver::result::mem_get_info;
use candle_core::{DType, Device, Module, Tensor};
use candle_nn::VarBuilder;
use candle_rocm_bench_protocol::{Case, NetworkRuns, Settings};
use candle_transformers::models::resnet;

use self::forward::Forward;
use self::weights::Weights;
use crate::data::{Block, Range};
use crate::gpu::Gpu;
use crate::prepared::{dtype, probe};

/// Makes a network of its weights, for inputs of these dimensions.
type Make = fn(VarBuilder<'static>, &[usize]) -> candle_core::Result<Forward>;

/// By name: at full size, then small ones for emulated GPUs.
const NETWORKS: [(&str, Make); 12] = [
    ("resnet50", |w, _| layer(resnet::resnet50(1000, w))),
    ("yolov8s", |w, _| layer(yolo::network(&yolo::SMALL, w))),
    ("sd15-unet", |w, dims| {
        diffusion::unet(diffusion::unet_15(), w, dims)
    }),
    ("sd15-vae-decoder", |w, _| {
        diffusion::decoder(diffusion::vae_15(), w)
    }),
    ("whisper-large-v3-encoder", |w, _| {
        audio::whisper(audio::large_v3(), w)
    }),
    ("encodec-24khz", |w, _| {
        audio::encodec(&Default::default(), w)
    }),
    ("resnet50-tiny", |w, _| layer(resnet::resnet18(10, w))),
    ("yolov8s-tiny", |w, _| layer(yolo::network(&yolo::TINY, w))),
    ("sd15-unet-tiny", |w, dims| {
        diffusion::unet(diffusion::unet_tiny(), w, dims)
    }),
    ("sd15-vae-decoder-tiny", |w, _| {
        diffusion::decoder(diffusion::vae_tiny(), w)
    }),
    ("whisper-large-v3-encoder-tiny", |w, _| {
        audio::whisper(audio::whisper_tiny(), w)
    }),
    ("encodec-24khz-tiny", |w, _| {
        audio::encodec(&audio::encodec_tiny(), w)
    }),
];

/// What ends the names of networks that are compared with the CPU.
const TINY: &str = "-tiny";

fn layer(made: candle_core::Result<impl Module + 'static>) -> candle_core::Result<Forward> {
    let made = made?;
    Ok(Box::new(move |x| made.forward(x)))
}

/// A network that ran, and what it needed.
pub struct Network {
    forward: Forward,
    input: Tensor,
    memory: u64,
    probe: Vec<f64>,
    wrong: Option<String>,
}

/// The network of a case in a dtype, and its input. Both have the numbers that the case's dtype holds.
fn make(case: &Case, block: &Block, device: &Device, dtype: DType) -> Result<(Forward, Tensor)> {
    let found = NETWORKS.iter().find(|(name, _)| *name == case.op);
    let (_, make) = found.with_context(|| format!("no network is called {}", case.op))?;
    let rounded_to = self::dtype(&case.dtype)?;
    let weights = Weights::new(block, rounded_to);
    let builder = VarBuilder::from_backend(Box::new(weights), dtype, device.clone());
    let dims = case.dims.as_slice();
    let input = block.tensor(dims, rounded_to, Range::Signed, 1, 1.)?;
    Ok((make(builder, dims)?, input.to_dtype(dtype)?))
}

/// Bytes of the GPU's memory that nobody has.
fn unused(gpu: &Gpu) -> Result<u64> {
    gpu.cuda_sync()?;
    Ok(mem_get_info()?.0 as u64)
}

/// Makes the network of a case, runs it twice, and compares the result of a small one with the CPU's.
///
/// # Errors
/// No network or dtype has this name; Candle's; the result has a NaN or an infinity.
pub fn prepare(gpu: &mut Gpu, case: &Case) -> Result<Network> {
    let before = unused(gpu)?;
    let (mut forward, input) = make(case, &gpu.block, &gpu.device, dtype(&case.dtype)?)?;
    // Loads kernels and libraries.
    let result = forward(&input)?;
    let probe = probe(&result)?;
    let wrong = match case.op.ends_with(TINY) {
        true => mistake(gpu, case, &result)?,
        false => None,
    };
    drop(result);
    gpu.cuda_sync()?;
    let result = forward(&input)?;
    // Pools give nothing back before the GPU is waited for.
    let memory = before.saturating_sub(mem_get_info()?.0 as u64);
    drop(result);
    Ok(Network {
        forward,
        input,
        memory,
        probe,
        wrong,
    })
}

/// How far a result may be from the CPU's in f32, in parts of the truth's root mean square: a thousand roundings of the
/// dtype. Each of some tens of layers rounds once, and sums in another order.
fn tolerance(dtype: DType) -> f64 {
    let rounding = match dtype {
        DType::F16 => 1. / 2048.,
        DType::BF16 => 1. / 256.,
        _ => f64::from(f32::EPSILON) / 2.,
    };
    (1000. * rounding).min(0.1)
}

/// The value that is furthest from the CPU's, if that is too far.
fn mistake(gpu: &mut Gpu, case: &Case, result: &Tensor) -> Result<Option<String>> {
    if gpu.cpu_block.is_none() {
        gpu.cpu_block = Some(Block::new(&Device::Cpu)?);
    }
    let block = gpu.cpu_block.as_ref().expect("just made");
    let (mut forward, input) = make(case, block, &Device::Cpu, DType::F32)?;
    let flat = |x: &Tensor| -> Result<Vec<f64>> {
        let x = x.to_device(&Device::Cpu)?.to_dtype(DType::F64)?;
        Ok(x.flatten_all()?.to_vec1()?)
    };
    let (got, want) = (flat(result)?, flat(&forward(&input)?)?);
    if got.len() != want.len() {
        return Ok(Some(format!("{} values, not {}", got.len(), want.len())));
    }
    let squares: f64 = want.iter().map(|x| x * x).sum();
    let size = (squares / want.len() as f64).sqrt();
    if size < 1e-3 {
        return Ok(Some(format!("values of {size:e}, which prove nothing")));
    }
    let away = |i: &usize| (got[*i] - want[*i]).abs() / size;
    let furthest = (0..want.len()).max_by(|i, j| away(i).total_cmp(&away(j)));
    let limit = tolerance(result.dtype());
    // A NaN is the furthest, and near to nothing.
    let is_near = |i: &usize| away(i) <= limit;
    Ok(furthest.filter(|i| !is_near(i)).map(|i| {
        format!(
            "value {i} is {}, on the CPU {}: {:e} of {size} away, where {limit:e} may be",
            got[i],
            want[i],
            away(&i)
        )
    }))
}

impl Network {
    /// Runs it once for each sample.
    ///
    /// # Errors
    /// Candle's.
    pub fn measure(&mut self, gpu: &Gpu, settings: &Settings) -> Result<NetworkRuns> {
        let mut runs = NetworkRuns {
            memory: self.memory,
            probe: self.probe.clone(),
            wrong: self.wrong.clone(),
            ..NetworkRuns::default()
        };
        for _ in 0..settings.samples {
            gpu.cuda_sync()?;
            let began = Instant::now();
            let result = (self.forward)(&self.input)?;
            gpu.cuda_sync()?;
            runs.ms.push(began.elapsed().as_secs_f64() * 1e3);
            drop(result);
        }
        Ok(runs)
    }
}
