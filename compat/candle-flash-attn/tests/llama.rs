//! candle-transformers, unmodified and with its feature `flash-attn`: a LLaMA that asks for flash attention.

use std::collections::HashMap;
use std::path::Path;

use candle_core::{safetensors, DType, Device, Result, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::llama::{Cache, Llama, LlamaConfig};

#[path = "../../../candle-rocm-backend/tests/common/mod.rs"]
mod common;

const PROMPT: [u32; 11] = [0, 511, 611, 260, 408, 13, 362, 286, 260, 404, 1100];
const STEPS: usize = 6;

/// How the model computes.
struct Way<'a> {
    device: &'a Device,
    dtype: DType,
    flash: bool,
}

/// Logits of the prompt and of each step after it. The weights are those of `rounded`, whichever way computes.
fn logits(way: &Way, rounded: DType, tokens: &[u32]) -> Result<Vec<Vec<f64>>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/llama-stories");
    let config = std::fs::read(folder.join("config.json"))?;
    let config: LlamaConfig = serde_json::from_slice(&config).expect("a LLaMA's configuration");
    let config = config.into_config(way.flash);
    let weights = safetensors::load(folder.join("model.safetensors"), &Device::Cpu)?;
    let weights = weights.into_iter().map(|(name, weight)| {
        let weight = weight.to_dtype(rounded)?.to_dtype(way.dtype)?;
        Ok((name, weight.to_device(way.device)?))
    });
    let weights = weights.collect::<Result<HashMap<_, _>>>()?;
    let model = Llama::load(
        VarBuilder::from_tensors(weights, way.dtype, way.device),
        &config,
    )?;
    let mut cache = Cache::new(true, way.dtype, &config, way.device)?;
    let mut all = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let step = if at == 0 { PROMPT.len() } else { 1 };
        let input = Tensor::new(&tokens[at..at + step], way.device)?.unsqueeze(0)?;
        all.push(common::numbers(&model.forward(&input, at, &mut cache)?)?);
        at += step;
    }
    Ok(all)
}

fn best(logits: &[f64]) -> u32 {
    let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
    best.expect("a vocabulary") as u32
}

fn furthest(a: &[Vec<f64>], b: &[Vec<f64>]) -> f64 {
    let pairs = a.iter().flatten().zip(b.iter().flatten());
    pairs.fold(0.0, |most, (a, b)| (a - b).abs().max(most))
}

/// The truth is the CPU's, in f32, of the same rounded weights and without flash attention. Flash attention may be
/// twice as far from it as the GPU is without.
#[test]
fn llama_with_flash_attention_is_as_near_the_truth_as_without() -> Result<()> {
    let gpu = common::device()?;
    for dtype in [DType::F16, DType::BF16] {
        let on_cpu = Way {
            device: &Device::Cpu,
            dtype: DType::F32,
            flash: false,
        };
        let mut tokens = PROMPT.to_vec();
        for _ in 0..STEPS {
            let truth = logits(&on_cpu, dtype, &tokens)?;
            tokens.push(best(truth.last().expect("a step")));
        }
        let truth = logits(&on_cpu, dtype, &tokens)?;
        assert_eq!(truth.len(), 1 + STEPS);
        let [without, with] = [false, true].map(|flash| {
            logits(
                &Way {
                    device: &gpu,
                    dtype,
                    flash,
                },
                dtype,
                &tokens,
            )
        });
        let (without, with) = (without?, with?);
        let (error, allowed) = (furthest(&with, &truth), 2.0 * furthest(&without, &truth));
        println!(
            "{dtype:?}: {error} from the truth, {} without",
            allowed / 2.0
        );
        assert!(
            error <= allowed,
            "{dtype:?}: {error} from the truth, and {allowed} at most"
        );
        // Another path was taken, and the same tokens come out, but where two are nearer to each other than errors are.
        assert!(
            furthest(&with, &without) > 0.0,
            "{dtype:?}: flash attention made no difference"
        );
        for (at, (found, truth)) in with.iter().zip(&truth).enumerate() {
            let (found, wanted) = (best(found) as usize, best(truth) as usize);
            let margin = truth[wanted] - truth[found];
            assert!(
                margin <= 2.0 * allowed,
                "{dtype:?}, step {at}: {found}, not {wanted}"
            );
        }
    }
    Ok(())
}
