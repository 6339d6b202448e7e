//! Comparing a shipped model with its recorded truth.
#![allow(dead_code, reason = "each test file uses a part")]

use std::path::Path;

use anyhow::{ensure, Context, Result};
use candle_core::{DType, Device};
use candle_rocm_examples::checkpoint::Progress;
use candle_rocm_examples::cli::Loader;
use candle_rocm_examples::device::Choice;
use candle_rocm_examples::generate::{first_step_logits, generate, LanguageModel, Options};
use candle_rocm_examples::{shipped_model, text};
use serde::Deserialize;

#[derive(Deserialize)]
pub struct Case {
    pub prompt: String,
    pub prompt_tokens: Vec<u32>,
    pub tokens: Vec<u32>,
    pub text: String,
}

#[derive(Deserialize)]
struct Cases {
    cases: Vec<Case>,
}

/// The recorded cases of a model, each with its first logits.
pub fn truth(folder: &Path) -> Result<Vec<(Case, Vec<f32>)>> {
    let json = std::fs::read_to_string(folder.join("truth.json"))?;
    let cases: Cases = serde_json::from_str(&json)?;
    let file = folder.join("truth.safetensors");
    let logits = candle_core::safetensors::load(file, &Device::Cpu)?;
    let logits: Vec<Vec<f32>> = logits
        .get("first_logits")
        .context("truth.safetensors has no first_logits")?
        .to_vec2()?;
    ensure!(
        cases.cases.len() == 10 && logits.len() == 10,
        "{} cases and {} rows of logits, expected 10",
        cases.cases.len(),
        logits.len()
    );
    Ok(cases.cases.into_iter().zip(logits).collect())
}

pub fn open(choice: Choice) -> Result<Device> {
    Ok(choice.open()?.device)
}

/// The largest difference, relative to the largest magnitude of the expected values.
pub fn relative_error(actual: &[f32], expected: &[f32]) -> f32 {
    let scale = expected.iter().fold(0f32, |m, e| m.max(e.abs()));
    // NaN must not pass: `max` would drop it.
    actual.iter().zip(expected).fold(0f32, |m, (a, e)| {
        let error = (a - e).abs() / scale;
        if error.is_nan() {
            f32::INFINITY
        } else {
            m.max(error)
        }
    })
}

/// f32: tokenizer, logits within 1e-4 (f32 sums in another order), and every greedy token of the first `texts`.
pub fn check_truth<M: LanguageModel>(
    name: &str,
    load: Loader<M>,
    device: &Device,
    texts: usize,
) -> Result<()> {
    let folder = shipped_model(name);
    let tokenizer = text::load_tokenizer(&folder.join("tokenizer.json"))?;
    let mut model = load(&folder, DType::F32, device, &Progress::hidden())?;
    for (number, (case, expected)) in truth(&folder)?.into_iter().enumerate() {
        let prompt = text::encode(&tokenizer, &case.prompt)?;
        ensure!(
            prompt == case.prompt_tokens,
            "{:?}: tokens {prompt:?}",
            case.prompt
        );
        let logits = first_step_logits(&mut model, &prompt)?;
        ensure!(logits.len() == expected.len(), "{} logits", logits.len());
        let error = relative_error(&logits, &expected);
        ensure!(
            error <= 1e-4,
            "{:?}: logits differ by {error:e}",
            case.prompt
        );
        ensure!(
            case.tokens.len() >= 64,
            "only {} tokens are recorded",
            case.tokens.len()
        );
        if number >= texts {
            continue;
        }
        let options = Options {
            max_tokens: case.tokens.len(),
            ignore_end_of_text: true,
            ..Options::default()
        };
        let generation = generate(&mut model, &prompt, &options, &mut |_| Ok(()))?;
        ensure!(
            generation.tokens == case.tokens,
            "{:?}: wrote {:?}, expected {:?}",
            case.prompt,
            text::decode(&tokenizer, &generation.tokens)?,
            case.text
        );
    }
    Ok(())
}

/// f16 and bf16: the logits only, as rounding may turn a near tie. A rounding of 2^-11 (f16) or 2^-8 (bf16)
/// at each of a few dozen operations in a row, growing as their root.
pub fn check_half_precision<M: LanguageModel>(
    name: &str,
    load: Loader<M>,
    device: &Device,
    dtype: DType,
) -> Result<()> {
    let bound = if dtype == DType::F16 { 5e-3 } else { 4e-2 };
    let folder = shipped_model(name);
    let mut model = load(&folder, dtype, device, &Progress::hidden())?;
    for (case, expected) in truth(&folder)? {
        let logits = first_step_logits(&mut model, &case.prompt_tokens)?;
        let error = relative_error(&logits, &expected);
        ensure!(
            error <= bound,
            "{:?} in {dtype:?}: logits differ by {error:e}",
            case.prompt
        );
    }
    Ok(())
}
