//! Models of candle-transformers, unmodified: the GPU computes what the CPU does, in f32, and decoders in f16 and bf16. They
//! are as small as their configurations allow, with weights that nobody trained.

mod audio;
mod harness;
mod language;
mod vision;

use candle_core::{DType, Device, Result, Tensor};
use candle_rocm_tests::{device, ensure_close, Tolerance};
use harness::Maker;

/// A model, and what it computes.
pub struct Case {
    name: &'static str,
    run: fn(&Maker) -> Result<Vec<Tensor>>,
}

impl Case {
    const fn new(name: &'static str, run: fn(&Maker) -> Result<Vec<Tensor>>) -> Self {
        Self { name, run }
    }

    /// An error unless the GPU's results are the CPU's.
    fn hold(&self, gpu: &Device, dtype: DType, relative: f64) -> anyhow::Result<()> {
        let on = |device: Device| (self.run)(&Maker { device, dtype });
        let (found, expected) = (on(gpu.clone())?, on(Device::Cpu)?);
        anyhow::ensure!(found.len() == expected.len(), "as many results");
        for (n, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let tolerance = Tolerance {
                absolute: 0.,
                // Numbers of codes are the same.
                relative: if expected.dtype().is_float() {
                    relative
                } else {
                    0.
                },
            };
            ensure_close(&format!("result {n}"), found, expected, tolerance)?;
        }
        Ok(())
    }
}

/// All that do not hold, each with its reason.
fn hold(cases: &[Case], dtype: DType, relative: f64) {
    let gpu = device().unwrap();
    let failed = cases.iter().filter_map(|case| {
        let error = case.hold(&gpu, dtype, relative).err()?;
        Some(format!("{} in {dtype:?}: {error:#}", case.name))
    });
    let failed: Vec<String> = failed.collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Some hundred roundings of f32, of sums that are made in another order.
const OF_F32: f64 = 1e-4;
/// Two layers of some ten operators, each of which rounds to 11 bits, and to 8.
const OF_F16: f64 = 0.02;
const OF_BF16: f64 = 0.15;

#[test]
fn decoders_that_are_made_alike() {
    hold(language::ALIKE, DType::F32, OF_F32);
    hold(language::MIXTRAL, DType::F32, OF_F32);
}

#[test]
fn decoders() {
    hold(language::DECODERS, DType::F32, OF_F32);
}

#[test]
fn decoders_in_f16() {
    hold(language::ALIKE, DType::F16, OF_F16);
    hold(language::QWEN_3, DType::F16, OF_F16);
}

#[test]
fn decoders_in_bf16() {
    hold(language::ALIKE, DType::BF16, OF_BF16);
    hold(language::QWEN_3, DType::BF16, OF_BF16);
}

#[test]
fn encoders() {
    hold(language::ENCODERS, DType::F32, OF_F32);
}

#[test]
fn convolutional_networks() {
    // EfficientViT's on the CPU is 4e-4 from that in f64, with these weights.
    hold(vision::CONVOLUTIONAL, DType::F32, 2e-3);
}

#[test]
fn transformers_of_images() {
    hold(vision::TRANSFORMERS, DType::F32, OF_F32);
}

#[test]
fn diffusion() {
    hold(vision::DIFFUSION, DType::F32, OF_F32);
}

#[test]
fn sound() {
    hold(audio::ALL, DType::F32, OF_F32);
}
