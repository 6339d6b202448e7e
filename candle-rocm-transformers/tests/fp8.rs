//! A model whose products are in FP8: beside the CPU's, and beside the weights as they came.

mod common;

use candle_core::{DType, Device, Result, Tensor};
use candle_nn::VarBuilder;
use candle_rocm_transformers::models::llama::{self, Config};
use candle_rocm_transformers::{Session, Transformer};
use common::{devices, prompt, Sizes};

fn config() -> Config {
    Config {
        hidden_size: 256,
        intermediate_size: 352,
        vocab_size: 77,
        num_hidden_layers: 2,
        num_attention_heads: 4,
        num_key_value_heads: 2,
        max_position_embeddings: 64,
        ..Config::config_7b_v2(false)
    }
}

fn model(device: &Device, dtype: DType) -> Result<Transformer> {
    let config = config();
    let sizes = Sizes {
        hidden: config.hidden_size,
        inner: config.intermediate_size,
        vocabulary: config.vocab_size,
        layers: config.num_hidden_layers,
        heads: config.num_attention_heads,
        kv_heads: config.num_key_value_heads,
        head_dim: config.hidden_size / config.num_attention_heads,
        biases: false,
        head_norms: false,
    };
    let weights = common::weights(&sizes, device)?;
    llama::load(VarBuilder::from_tensors(weights, dtype, device), &config)
}

/// 1 - 2 sum(xy) / sum(x^2 + y^2), in f64.
fn difference(x: &Tensor, y: &Tensor) -> Result<f64> {
    let numbers = |x: &Tensor| x.to_dtype(DType::F64)?.flatten_all()?.to_vec1::<f64>();
    let (x, y) = (numbers(x)?, numbers(y)?);
    let of = |x: &[f64], y: &[f64]| -> f64 { x.iter().zip(y).map(|(x, y)| x * y).sum() };
    Ok(1. - 2. * of(&x, &y) / (of(&x, &x) + of(&y, &y)))
}

/// Rounding to three bits of mantissa has a mean square of 7e-4 of a number's, for each of a product's two factors; and a state
/// went through nine products at most, one after another.
const OF_FP8: f64 = 9. * 2. * 7e-4;
/// The GPU's sums of f32 have another order, which moves what is cast next to another number of FP8 here and there.
const OF_ORDER: f64 = 5e-4;

#[test]
fn logits_are_near_those_of_the_weights_as_they_came_and_those_of_the_cpu() -> Result<()> {
    let [gpu, cpu] = devices()?;
    for (dtype, batch) in [(DType::F32, 1), (DType::BF16, 3)] {
        let prompts = prompt(batch, 5, config().vocab_size);
        let mut of_device = Vec::new();
        for device in [&gpu, &cpu] {
            if dtype == DType::BF16 && device.is_cpu() {
                continue;
            }
            let whole = Tensor::new(prompts.clone(), device)?;
            let plain = model(device, dtype)?;
            let mut quantised = Session::new(plain.to_fp8()?, batch, 16)?;
            let mut plain = Session::new(plain, batch, 16)?;
            let what = format!("{dtype:?}, {:?}", device.location());
            let (found, expected) = (quantised.prompt(&whole)?, plain.prompt(&whole)?);
            let far = difference(&found, &expected)?;
            assert!(far > 0. && far < OF_FP8, "{what}: {far}");
            of_device.push(found.to_device(&Device::Cpu)?);
            // A token at a time, by a captured step where there is a GPU.
            for token in [3, 5, 8] {
                let tokens = vec![token; batch];
                let (found, expected) = (quantised.next(&tokens)?, plain.next(&tokens)?);
                let far = difference(&found, &expected)?;
                assert!(far > 0. && far < OF_FP8, "{what}, token {token}: {far}");
                of_device.push(found.to_device(&Device::Cpu)?);
            }
        }
        if let (Some(found), Some(expected)) = (of_device.get(..4), of_device.get(4..8)) {
            for (found, expected) in found.iter().zip(expected) {
                let far = difference(found, expected)?;
                assert!(far < OF_ORDER, "{dtype:?}: {far} from the CPU");
            }
        }
    }
    Ok(())
}

#[test]
fn what_is_quantised_already_says_so() -> Result<()> {
    let [gpu, _] = devices()?;
    let quantised = model(&gpu, DType::F32)?.to_fp8()?;
    let error = quantised.to_fp8().unwrap_err().to_string();
    assert!(error.contains("quantised already"), "{error}");
    Ok(())
}
